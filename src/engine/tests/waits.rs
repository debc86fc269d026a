//! Stories of how long a caller waits: by its options, by its handle, or by default.

use super::*;
use crate::config::Retry;
use crate::time::NANOS_PER_TICK;

/// By how much timers may be late: a tick.
const TICK: Duration = Duration::from_nanos(NANOS_PER_TICK);

/// Asserts that a caller with `options` on a handle with `retry` gives up after `wait`, both if this handle holds the
/// lock and if another client does.
#[track_caller]
fn waits(options: LockOptions, retry: Retry, wait: Duration) {
    for story in [held_here, World::greeted] {
        let mut world = story(World::with(named(3).retry(retry)));
        world.acquire(&options);
        world.all_say(0..2, "_|");
        let waited = world.sleep_until_event();
        let late = waited.checked_sub(wait);
        assert!(late.is_some_and(|late| late <= TICK), "after {waited:?}");
        world.refusal();
        assert_eq!(world.engine.load().rounds, 0);
    }
}

fn held_here(world: World) -> World {
    let mut world = world.greeted();
    drop(world.lock_on(0..3));
    world
}

#[test]
fn a_caller_waits_as_its_options_say_or_its_handle_or_for_five_seconds() {
    waits(LockOptions::new(TTL), Retry::default(), 5 * SECOND);
    let retry = Retry::default().wait(2 * SECOND);
    waits(LockOptions::new(TTL), retry, 2 * SECOND);
    waits(LockOptions::new(TTL).wait(SECOND), retry, SECOND);
}

#[test]
fn tries_end_after_as_many_of_the_longest_delays() {
    let (mut world, retry) = (held_here(World::new(3)), Retry::new(4, 5 * MS..=60 * MS));
    world.acquire(&LockOptions::new(TTL).tries(3));
    let waited = world.sleep_until_event();
    assert!((750 * MS..=750 * MS + TICK).contains(&waited), "{waited:?}");
    let mut world = held_here(World::with(named(3).retry(retry)));
    world.acquire(&LockOptions::new(TTL));
    let waited = world.sleep_until_event();
    assert!((240 * MS..=240 * MS + TICK).contains(&waited), "{waited:?}");
}

#[test]
fn a_wait_of_the_handle_lifts_the_limit_of_tries() {
    let often = Retry::new(1, MS..=2 * MS).wait(SECOND);
    let mut world = World::with(named(3).retry(often));
    (0..3).for_each(|node| world.lose(node));
    world.acquire(&LockOptions::new(TTL));
    let waited = world.sleep_until_event();
    // No other attempt begins shortly before the end.
    assert!((990 * MS..=SECOND + TICK).contains(&waited), "{waited:?}");
    assert!(1 < world.no_quorum().tries());
}

#[test]
fn a_call_that_gives_up_says_for_how_long_the_lock_is_held() {
    let (mut world, _) = World::one_waits();
    world.acquire(&LockOptions::new(TTL).wait(SECOND));
    world.sleep_until_event();
    let report = world.held_by_another();
    assert_eq!(report.holder(), None, "no node has said who");
    assert!(!report.is_held_here());
    let left = report.held_for().expect("a majority has said so");
    assert!(left <= 9_001 * MS && 8_990 * MS < left, "{left:?}");
    // No caller has asked for that.
    let mut world = World::ready(3);
    world.try_once();
    world.all_say(0..2, "_|");
    assert_eq!(world.held_by_another().held_for(), None);
}

#[test]
fn a_call_that_meets_a_lock_of_its_own_handle_says_so() {
    let mut world = World::with(named(3).owner("billing-7")).greeted();
    let lock = world.lock_on(0..3);
    world.take_all();
    world.try_once();
    let report = world.held_by_another();
    assert_eq!(report.holder(), Some(&b"billing-7"[..]));
    assert!(report.is_held_here());
    assert_eq!(report.held_for(), Some(lock.validity_at(world.now)));
    assert_eq!(report.tries(), 0);
    assert_eq!(outcomes(&report), [NodeOutcome::Held; 3]);
    assert_eq!(world.take_all().concat(), NOTHING);
}

/// The user may not ask how much time is left, so the caller asks for the lock itself from time to time.
#[test]
fn a_node_that_does_not_say_what_is_left_is_asked_for_the_lock() {
    let mut world = World::ready(3);
    world.acquire(&LockOptions::new(TTL));
    let mut asked = 0;
    for _ in 0..200 {
        world.all_answer(|_, sent| {
            asked += usize::from(sent.starts_with("SET"));
            match sent {
                "PTTL k" => "-NOPERM this user has no permissions to run the 'pttl' command|",
                "SET k 10000" => "_|",
                "EVALSHA release" => ":0|",
                _ => "+OK|",
            }
        });
        world.sleep(10 * MS);
    }
    // Each delay is 250 ms at most.
    assert!((3 * 7..3 * 40).contains(&asked), "{asked} times");
}

// ----- who holds the lock ---------------------------------------------------------------------

/// A node keeps the key for long.
const LONG: &str = ":10000|";

/// The tokens of other clients. A server echoes them.
const BILLING: &str = "\u{1}123456789abcdefghijbilling-7";
const REPORTS: &str = "\u{2}123456789abcdefghijreports-2";
const AUDIT: &str = "\u{3}123456789abcdefghijaudit-3";

impl World {
    /// Sleeps for `span`. Meanwhile each node says that it has its token of `tokens`, with this much time `left`, or
    /// that it has no key if the token is empty. A token that begins with `*` stands for a set of holders. Returns how
    /// often nodes were asked for tokens.
    fn sleep_saying(&mut self, span: Duration, left: &str, tokens: [&str; 3]) -> usize {
        let (end, mut asked) = (self.now.saturating_add(span), 0);
        while self.now < end {
            self.all_answer(|node, sent| {
                asked += usize::from(sent == "EVAL inspect");
                let token = tokens[node];
                match sent {
                    "EVAL inspect" if token.is_empty() => "*3|:0|:0|$0||".to_string(),
                    "EVAL inspect" if token.starts_with('*') => format!("*3|:9001|:0|{token}"),
                    "EVAL inspect" => format!("*3|:9001|:0|${}|{token}|", token.len()),
                    "PTTL k" => left.to_string(),
                    "SET k 10000" => "_|".to_string(),
                    "EVALSHA release" | "DELIFEQ k" => ":0|".to_string(),
                    _ => "+OK|".to_string(),
                }
            });
            self.sleep(10 * MS);
        }
        asked
    }

    /// Makes a caller that waits for a lock that another client holds for long.
    fn waits_for(time: Duration) -> Self {
        let mut world = Self::ready(3);
        world.acquire(&LockOptions::new(TTL).wait(time));
        world
    }

    /// Returns the owner of the lock, as the refusal of a call says, and how often that call has tried.
    fn named_holder(&mut self) -> (Option<String>, u32) {
        let report = self.held_by_another();
        let owner = |holder| String::from_utf8_lossy(holder).into_owned();
        (report.holder().map(owner), report.tries())
    }
}

#[test]
fn a_call_that_has_waited_says_which_client_holds_the_lock() {
    let mut world = World::waits_for(SECOND);
    let asked = world.sleep_saying(190 * MS, LONG, [BILLING; 3]);
    assert_eq!(asked, 0, "many waits are shorter");
    let asked = world.sleep_saying(850 * MS, LONG, [BILLING; 3]);
    assert_eq!(asked, 3);
    let report = world.held_by_another();
    assert_eq!(report.holder(), Some(&b"billing-7"[..]));
    let text = format!("{report:?} {:#}", LockError::Held(report.clone()));
    assert!(!text.contains("1234567"), "a token is secret: {text}");
}

#[test]
fn all_who_wait_for_a_lock_know_who_holds_it_and_so_does_a_single_try_beside_them() {
    let mut world = World::waits_for(2 * SECOND);
    (0..2).for_each(|_| _ = world.acquire(&LockOptions::new(TTL).wait(SECOND)));
    let asked = world.sleep_saying(990 * MS, LONG, [BILLING; 3]);
    assert_eq!(asked, 3, "one asks for all");
    world.try_once();
    world.sleep_saying(10 * MS, LONG, [BILLING; 3]);
    let report = world.held_by_another();
    assert_eq!(report.holder(), Some(&b"billing-7"[..]));
    assert!(report.held_for().is_some() && report.tries() == 1);
    world.sleep_saying(30 * MS, LONG, [BILLING; 3]);
    assert_eq!(world.events.len(), 2);
    let second = world.events.pop().expect("there are two");
    assert_eq!(world.named_holder(), (Some("billing-7".into()), 0));
    world.events.push(second);
    assert_eq!(world.named_holder(), (Some("billing-7".into()), 0));
}

/// Each extension causes an attempt, after which the holder is unknown again, so it is asked for again.
#[test]
fn a_holder_that_extends_its_lock_again_and_again_is_named_in_between() {
    let mut world = World::waits_for(20 * SECOND);
    world.sleep_saying(SECOND, LONG, [BILLING; 3]);
    let mut asked = 0;
    for _ in 0..10 {
        world.all_say(0..3, PUSH);
        for _ in 0..5 {
            asked += world.sleep_saying(80 * MS, LONG, [BILLING; 3]);
            world.try_once();
            asked += world.sleep_saying(10 * MS, LONG, [BILLING; 3]);
            assert_eq!(world.named_holder().0.as_deref(), Some("billing-7"));
        }
    }
    assert!(asked < 3 * 50, "{asked}: with each look");
}

/// Several readers are not named: the lock is not free before the last of them is gone.
#[test]
fn a_reader_is_named_if_it_is_alone() {
    let members = |all: &[&str]| {
        let member = |token: &&str| format!("${}|r/{token}|:9001|", token.len() + 2);
        let each: String = all.iter().map(member).collect();
        format!("*{}|{each}", 2 * all.len())
    };
    let (alone, both) = (members(&[BILLING]), members(&[BILLING, REPORTS]));
    for (sets, label) in [
        ([&alone, &alone, &both], Some("billing-7")),
        ([&alone, &both, &both], None),
    ] {
        let mut world = World::waits_for(SECOND);
        world.sleep_saying(1_100 * MS, LONG, sets.map(String::as_str));
        assert_eq!(world.named_holder().0.as_deref(), label, "{sets:?}");
    }
}

#[test]
fn nobody_is_named_where_no_majority_that_counts_has_the_same_token() {
    for (tokens, label) in [
        ([BILLING, REPORTS, BILLING], Some("billing-7")),
        ([BILLING, REPORTS, ""], None),
        (["7f9c24e8-3b12-4fef-91e0-56a2d5b7c0de"; 3], Some("")),
    ] {
        let mut world = World::waits_for(SECOND);
        world.sleep_saying(1_100 * MS, LONG, tokens);
        assert_eq!(world.named_holder().0.as_deref(), label, "{tokens:?}");
    }
    // The answers of a node that has restarted do not count.
    let mut world = World::waits_for(2 * SECOND);
    world.sleep_saying(20 * MS, LONG, [BILLING; 3]);
    world.comes_back_as(0, "another", 10_000);
    assert!(world.quarantined_until(0).is_some());
    let asked = world.sleep_saying(2 * SECOND, LONG, [BILLING, BILLING, REPORTS]);
    assert!(3 <= asked);
    assert_eq!(world.held_by_another().holder(), None);
}

#[test]
fn the_next_holder_is_not_taken_for_the_one_before() {
    let mut world = World::waits_for(2 * SECOND);
    world.sleep_saying(800 * MS, LONG, [BILLING; 3]);
    let knows = |world: &mut World| {
        world.try_once();
        world.sleep_saying(10 * MS, LONG, [REPORTS; 3]);
        world.named_holder().0.unwrap_or_default()
    };
    assert_eq!(knows(&mut world), "billing-7");
    // The lock passes to another client at once, on one node after the other.
    for node in [1, 2] {
        world.say(node, PUSH);
        world.sleep_saying(30 * MS, LONG, [REPORTS; 3]);
    }
    assert_eq!(knows(&mut world), "reports-2");
    // An attempt was made and refused, perhaps by another holder.
    world.all_say(0..2, PUSH);
    world.sleep_saying(50 * MS, LONG, [AUDIT; 3]);
    assert_eq!(knows(&mut world), "audit-3");
    // While no node has named the holder, the report names none.
    world.all_say(0..2, PUSH);
    world.sleep_saying(20 * MS, LONG, [AUDIT; 3]);
    assert_eq!(knows(&mut world), "", "it was asked for a moment ago");
    world.sleep_saying(760 * MS, LONG, [AUDIT; 3]);
    assert_eq!(knows(&mut world), "audit-3");
}

#[test]
fn a_user_who_may_not_run_scripts_is_not_told_who_holds_the_lock() {
    let mut world = World::new(3);
    for node in 0..3 {
        world.welcome_as(node, VALKEY);
        world.take(node);
        world.finish(node, &format!("run{node}"));
    }
    (0..3).for_each(|node| world.node(node).abilities.native_permitted());
    world.acquire(&LockOptions::new(TTL).wait(3 * SECOND));
    let asked = world.sleep_saying(3_100 * MS, LONG, [BILLING; 3]);
    assert_eq!(asked, 0);
    assert_eq!(world.held_by_another().holder(), None);
}

// ----- without an expiry ----------------------------------------------------------------------

#[test]
fn a_call_that_gives_up_says_that_the_lock_never_expires() {
    let mut world = World::waits_for(SECOND);
    world.sleep_saying(1_100 * MS, ":-1|", [BILLING; 3]);
    let report = world.held_by_another();
    assert!(report.never_expires() && report.held_for().is_none());
    assert_eq!(report.holder(), Some(&b"billing-7"[..]));
    // One node is no majority, and a node that has reported a change may have another key.
    for (first, push, permanent) in [(":-1|", "", true), (LONG, "", false), (":-1|", PUSH, false)] {
        let mut world = World::waits_for(300 * MS);
        world.all_say(0..2, "_|");
        world.say(0, &format!("+OK|+OK|{first}"));
        world.say(1, "+OK|+OK|:10000|");
        world.say(2, &format!("_|:0|+OK|+OK|:-1|{push}"));
        world.sleep(310 * MS);
        assert_eq!(world.held_by_another().never_expires(), permanent);
    }
}

#[test]
fn a_key_without_an_expiry_that_is_deleted_wakes_with_pushes_and_without() {
    for refused in [false, true] {
        let mut world = World::waits_for(60 * SECOND);
        world.all_reply("_|");
        world.take_all();
        world.say(2, ":0|");
        let told = if refused { "-NOPERM x|" } else { "+OK|" };
        world.all_say(0..3, &format!("{told}{told}:-1|"));
        world.sleep_saying(8 * SECOND, ":-1|", [BILLING; 3]);
        assert!(world.events.is_empty());
        let before = world.now;
        if !refused {
            world.all_say(0..2, PUSH);
        }
        while !world.take(0).contains(&"SET k 10000".into()) {
            world.sleep_saying(MS, ":-2|", [""; 3]);
            assert!(world.now.saturating_since(before) < 260 * MS);
        }
        if !refused {
            assert_eq!(world.now, before, "it is told");
        }
    }
}

/// The node is connected again and again, and refuses the login each time.
#[test]
fn a_node_that_turns_us_away_keeps_nobody_from_looking() {
    let mut world = World::new(3);
    (0..2).for_each(|node| world.greet(node));
    let turned_away = "-WRONGPASS invalid username-password pair or user is disabled.|";
    world.welcome_as(2, turned_away);
    world.acquire(&LockOptions::new(TTL).wait(100 * SECOND));
    let (mut asked, mut refused) = (0, 0);
    for _ in 0..600 {
        if world.links[2] == "connecting" {
            world.welcome_as(2, turned_away);
            refused += 1;
        }
        asked += world.sleep_saying(100 * MS, ":3600000|", [BILLING, BILLING, ""]);
    }
    assert!(20 <= refused, "it was there {refused} times");
    // There is a look every four seconds at two nodes.
    assert!(20 <= asked, "{asked}");
}

/// The reason why a node refused another call may be repaired by now.
#[test]
fn a_call_that_was_not_tried_yet_is_tried() {
    let mut world = World::ready(3);
    let lock = world.lock_on(0..3);
    (0..2).for_each(|_| _ = world.acquire(&LockOptions::new(TTL).wait(100 * SECOND)));
    let missing = Unusable::Permission { command: "set" };
    (0..3).for_each(|node| world.node(node).abilities.forbidden(missing));
    world.take_all();
    world.release(lock);
    for sent in world.take_all() {
        assert!(sent[1].starts_with("EVAL SET k 10000"), "{sent:?}");
    }
    assert!(world.events.is_empty());
}

/// An inspection of another name is answered after it was cancelled, and each question for the holder is refused.
#[test]
fn a_refused_question_for_the_holder_names_no_token_of_another_name() {
    let mut world = World::waits_for(SECOND);
    world.sleep_saying(190 * MS, LONG, [""; 3]);
    let other = world.engine.inspect(world.now, b"other").expect("asked");
    world.drain();
    world.take_all();
    world.cancel(other);
    (0..3).for_each(|node| world.has(node, BILLING, 9_000));
    let mut refused = 0;
    while world.events.is_empty() {
        world.sleep_until_timer();
        world.all_answer(|_, sent| {
            refused += usize::from(sent == "EVAL inspect");
            match sent {
                "EVAL inspect" => "-BUSY Redis is busy running a script|",
                "PTTL k" => ":10000|",
                "SET k 10000" => "_|",
                "EVALSHA release" => ":0|",
                _ => "+OK|",
            }
        });
    }
    assert_eq!(refused, 3);
    assert_eq!(world.held_by_another().holder(), None);
}
