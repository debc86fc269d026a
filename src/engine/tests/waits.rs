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
fn a_caller_that_says_nothing_waits_for_five_seconds() {
    waits(LockOptions::new(TTL), Retry::default(), 5 * SECOND);
}

#[test]
fn a_handle_may_say_how_long_its_callers_wait() {
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

/// The tokens of two other clients. A server echoes them.
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
    fn waits_for(options: &LockOptions) -> Self {
        let mut world = Self::ready(3);
        world.acquire(options);
        world
    }
}

#[test]
fn a_call_that_has_waited_says_which_client_holds_the_lock() {
    let mut world = World::waits_for(&LockOptions::new(TTL).wait(SECOND));
    let asked = world.sleep_saying(190 * MS, ":10000|", [BILLING; 3]);
    assert_eq!(asked, 0, "many waits are shorter");
    let asked = world.sleep_saying(850 * MS, ":10000|", [BILLING; 3]);
    assert_eq!(asked, 3);
    let report = world.held_by_another();
    assert_eq!(report.holder(), Some(&b"billing-7"[..]));
    let text = format!("{report:?} {:#}", LockError::Held(report.clone()));
    assert!(!text.contains("1234567"), "a token is secret: {text}");
}

#[test]
fn all_who_wait_for_a_lock_know_who_holds_it_and_so_does_a_single_try_beside_them() {
    let mut world = World::waits_for(&LockOptions::new(TTL).wait(2 * SECOND));
    (0..2).for_each(|_| _ = world.acquire(&LockOptions::new(TTL).wait(SECOND)));
    let asked = world.sleep_saying(990 * MS, ":10000|", [BILLING; 3]);
    assert_eq!(asked, 3, "one asks for all");
    world.try_once();
    world.sleep_saying(10 * MS, ":10000|", [BILLING; 3]);
    let report = world.held_by_another();
    assert_eq!(
        (report.tries(), report.holder()),
        (1, Some(&b"billing-7"[..]))
    );
    assert!(report.held_for().is_some());
    world.sleep_saying(30 * MS, ":10000|", [BILLING; 3]);
    assert_eq!(world.events.len(), 2);
    for _ in 0..2 {
        let (_, result) = world.next_acquired();
        let Err(LockError::Held(report)) = result else {
            panic!("{result:?}");
        };
        assert_eq!(
            (report.tries(), report.holder()),
            (0, Some(&b"billing-7"[..]))
        );
    }
}

/// The nodes report each extension to the waiters, which look again.
#[test]
fn a_holder_that_extends_its_lock_is_named_as_soon() {
    let mut world = World::waits_for(&LockOptions::new(TTL).wait(800 * MS));
    world.sleep_saying(450 * MS, ":10000|", [BILLING; 3]);
    for node in 0..3 {
        world.say(node, PUSH);
        world.sleep_saying(20 * MS, ":10000|", [BILLING; 3]);
    }
    world.sleep_saying(300 * MS, ":10000|", [BILLING; 3]);
    let report = world.held_by_another();
    assert_eq!(
        (report.tries(), report.holder()),
        (1, Some(&b"billing-7"[..]))
    );
}

/// Each extension causes an attempt, after which the holder is unknown again, so it is asked for again.
#[test]
fn a_holder_that_extends_its_lock_again_and_again_is_named_in_between() {
    let mut world = World::waits_for(&LockOptions::new(TTL).wait(20 * SECOND));
    world.sleep_saying(SECOND, ":10000|", [BILLING; 3]);
    let mut asked = 0;
    for _ in 0..10 {
        world.all_say(0..3, PUSH);
        for _ in 0..5 {
            asked += world.sleep_saying(80 * MS, ":10000|", [BILLING; 3]);
            world.try_once();
            asked += world.sleep_saying(10 * MS, ":10000|", [BILLING; 3]);
            let holder = world.held_by_another().holder().map(Vec::from);
            assert_eq!(holder.as_deref(), Some(&b"billing-7"[..]));
        }
    }
    assert!(asked < 3 * 50, "{asked}: with each look");
}

/// Several readers are not named: the lock is not free before the last of them is gone.
#[test]
fn a_reader_is_named_if_it_is_alone() {
    let members = |all: &[&str]| {
        let each = all
            .iter()
            .map(|token| format!("${}|r/{token}|:9001|", token.len() + 2));
        format!("*{}|{}", 2 * all.len(), each.collect::<String>())
    };
    let (alone, both) = (members(&[BILLING]), members(&[BILLING, REPORTS]));
    for (sets, label) in [
        ([&alone, &alone, &both], Some("billing-7")),
        ([&alone, &both, &both], None),
    ] {
        let mut world = World::waits_for(&LockOptions::new(TTL).wait(SECOND));
        world.sleep_saying(1_100 * MS, ":10000|", sets.map(String::as_str));
        let report = world.held_by_another();
        assert_eq!(report.holder(), label.map(str::as_bytes), "{sets:?}");
    }
}

#[test]
fn nobody_is_named_where_no_majority_that_counts_has_the_same_token() {
    let options = LockOptions::new(TTL).wait(SECOND);
    for (tokens, label) in [
        ([BILLING, REPORTS, BILLING], Some("billing-7")),
        ([BILLING, REPORTS, ""], None),
        (["7f9c24e8-3b12-4fef-91e0-56a2d5b7c0de"; 3], Some("")),
    ] {
        let mut world = World::waits_for(&options);
        world.sleep_saying(1_100 * MS, ":10000|", tokens);
        let report = world.held_by_another();
        assert_eq!(report.holder(), label.map(str::as_bytes), "{tokens:?}");
    }
    // The answers of a node that has restarted do not count.
    let mut world = World::waits_for(&LockOptions::new(TTL).wait(2 * SECOND));
    world.sleep_saying(20 * MS, ":10000|", [BILLING; 3]);
    world.comes_back_as(0, "another", 10_000);
    assert!(world.quarantined_until(0).is_some());
    let asked = world.sleep_saying(2 * SECOND, ":10000|", [BILLING, BILLING, REPORTS]);
    assert!(3 <= asked);
    assert_eq!(world.held_by_another().holder(), None);
}

#[test]
fn the_next_holder_is_not_taken_for_the_one_before() {
    let mut world = World::waits_for(&LockOptions::new(TTL).wait(2 * SECOND));
    world.sleep_saying(800 * MS, ":10000|", [BILLING; 3]);
    let knows = |world: &mut World| {
        world.try_once();
        world.sleep_saying(10 * MS, ":10000|", [REPORTS; 3]);
        world.held_by_another().holder().map(Vec::from)
    };
    assert_eq!(knows(&mut world).as_deref(), Some(&b"billing-7"[..]));
    // The lock passes to another client at once, on one node after the other.
    for node in [1, 2] {
        world.say(node, PUSH);
        world.sleep_saying(30 * MS, ":10000|", [REPORTS; 3]);
    }
    assert_eq!(knows(&mut world).as_deref(), Some(&b"reports-2"[..]));
    // An attempt was made and refused, perhaps by another holder.
    world.all_say(0..2, PUSH);
    world.sleep_saying(50 * MS, ":10000|", [AUDIT; 3]);
    assert_eq!(knows(&mut world).as_deref(), Some(&b"audit-3"[..]));
    // While no node has named the holder, the report names none.
    world.all_say(0..2, PUSH);
    world.sleep_saying(20 * MS, ":10000|", [AUDIT; 3]);
    assert_eq!(knows(&mut world), None, "it was asked for a moment ago");
    world.sleep_saying(760 * MS, ":10000|", [AUDIT; 3]);
    assert_eq!(knows(&mut world).as_deref(), Some(&b"audit-3"[..]));
}

#[test]
fn a_user_who_may_not_run_scripts_is_not_told_who_holds_the_lock() {
    let mut world = World::new(3);
    for node in 0..3 {
        world.welcome_as(node, VALKEY);
        world.take(node);
        world.finish(node, &format!("run{node}"));
    }
    let nodes = &mut world.engine.work.parts.nodes;
    nodes
        .iter_mut()
        .for_each(|node| node.abilities.native_permitted());
    world.acquire(&LockOptions::new(TTL).wait(3 * SECOND));
    let asked = world.sleep_saying(3_100 * MS, ":10000|", [BILLING; 3]);
    assert_eq!(asked, 0);
    assert_eq!(world.held_by_another().holder(), None);
}

// ----- without an expiry ----------------------------------------------------------------------

#[test]
fn a_call_that_gives_up_says_that_the_lock_never_expires() {
    let mut world = World::waits_for(&LockOptions::new(TTL).wait(SECOND));
    world.sleep_saying(1_100 * MS, ":-1|", [BILLING; 3]);
    let report = world.held_by_another();
    assert!(report.never_expires());
    assert_eq!(
        (report.held_for(), report.holder()),
        (None, Some(&b"billing-7"[..]))
    );
    // One node is no majority, and a node that has reported a change may have another key.
    for (first, push, permanent) in [
        (":-1|", "", true),
        (":10000|", "", false),
        (":-1|", PUSH, false),
    ] {
        let mut world = World::waits_for(&LockOptions::new(TTL).wait(300 * MS));
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
        let mut world = World::waits_for(&LockOptions::new(TTL).wait(60 * SECOND));
        world.take_all();
        world.all_say(0..3, "_|");
        world.take_all();
        world.say(2, ":0|");
        let no = "-NOPERM User u has no permissions to run the 'client' command|";
        let told = if refused { no } else { "+OK|" };
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
    assert!(
        20 <= asked,
        "a look every four seconds at two nodes: {asked}"
    );
}

/// The reason why a node refused another call may be repaired by now.
#[test]
fn a_call_that_was_not_tried_yet_is_tried() {
    let mut world = World::ready(3);
    let lock = world.lock_on(0..3);
    (0..2).for_each(|_| _ = world.acquire(&LockOptions::new(TTL).wait(100 * SECOND)));
    let missing = Unusable::Permission { command: "set" };
    let nodes = world.engine.work.parts.nodes.iter_mut();
    nodes.for_each(|node| node.abilities.forbidden(missing));
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
    let mut world = World::waits_for(&LockOptions::new(TTL).wait(SECOND));
    world.sleep_saying(190 * MS, ":10000|", [""; 3]);
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
