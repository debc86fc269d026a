//! Stories of shared locks: readers at the same time, and callers that want the exclusive lock among them.

use super::permissions::{lacks, unasked};
use super::*;
use crate::config::Retry;

mod downgrade;
#[cfg(feature = "embedded")]
pub(super) mod programs;

/// The script that reads the token has found a sorted set, with one reader.
const A_SET: &str = "*3|:10001|:0|*2|$22|r/xxxxxxxxxxxxxxxxxxxx|:10000|";

/// The answer about the token of another client.
const A_KEY: &str = "*3|:10001|:0|$20|xxxxxxxxxxxxxxxxxxxx|";

/// The script that reads the token has found no key.
const NOBODY: &str = "*3|:0|:0|$0||";

/// The answers of a node on which other clients hold the lock, to a look of a contender. The answer to the question who
/// holds it follows.
const READERS: &str = "+OK|+OK|:10000|";

impl World {
    pub(super) fn read_with(&mut self, options: &LockOptions) -> RoundId {
        self.begin(&Request::shared(b"k", options))
    }

    /// Begins a call of a reader that waits.
    fn read(&mut self) -> RoundId {
        self.read_with(&patient())
    }
}

// ----- readers beside each other ------------------------------------------------------------

#[test]
fn readers_of_one_handle_ask_and_hold_at_the_same_time() {
    let mut world = World::ready(3);
    let readers = [(); 64].map(|()| world.read());
    world.all_exchange(&["READ k 10000"; 64], &":1|".repeat(64));
    let (rounds, locks) = world.all_granted();
    assert_eq!(rounds, readers);
    assert!(locks.iter().all(|lock| lock.is_valid_at(world.now)));
    assert_eq!(world.engine.stats().held, 64);
    locks.into_iter().for_each(|lock| world.release(lock));
    world.all_exchange(&["RELEASE READER k"; 64], &":1|".repeat(64));
    assert_eq!(world.events.len(), 64);
    world.is_clean();
}

#[test]
fn a_reader_that_makes_one_attempt_is_kept_out_by_a_lock_of_its_handle_and_nothing_is_sent() {
    let (mut world, lock) = World::held(3);
    world.read_with(&once());
    assert!(world.held_by_another().is_held_here());
    world.all_were_sent(&[]);
    world.release_on(0..3, lock);
    world.take_all();
    world.read_with(&once());
    world.all_exchange(&["READ k 10000"], ":1|");
    drop(world.lock());
}

#[test]
fn a_node_without_scripts_is_unusable_for_readers() {
    let mut world = unasked(1);
    world.read_with(&once());
    world.exchange(0, ["READ k 10000"], NO_EVAL);
    assert_eq!(outcomes(&world.no_quorum()), [lacks("eval")]);
    world.is_clean();
}

// ----- the queue ------------------------------------------------------------------------------

#[test]
fn behind_an_exclusive_lock_readers_begin_together_in_the_order_in_which_they_came() {
    let (mut world, lock) = World::held(3);
    let first = [(); 2].map(|()| world.read());
    let writer = world.acquire(&patient());
    let second = [(); 2].map(|()| world.read());
    world.all_were_sent(&[]);
    world.give_back(lock);
    // The first reader asks alone, and learns whether readers are let in.
    world.all_exchange(&["EVALSHA release", "READ k 10000"], ":1|:1|");
    // The other readers follow, and after them the caller that wants the exclusive lock, which waits for their end.
    world.all_exchange(&["READ k 10000", "SET k 10000"], ":1|_|");
    let (rounds, locks) = world.all_granted();
    assert_eq!(rounds, first);
    // This handle knows of readers, so it asks at once who holds the lock.
    let look = [&FIRST_LOOK[..], &["EVAL inspect"]].concat();
    (0..2).for_each(|node| assert_eq!(world.take(node), look));
    world.take(2);
    locks.into_iter().for_each(|lock| world.give_back(lock));
    let release = [&["RELEASE READER k"][..], &LOOK, &["EVAL inspect"]].concat();
    world.all_were_sent(&[&release[..], &release].concat());
    let said = format!("{READERS}{A_SET}:1|+OK|:10000|{A_SET}:1|+OK|:-2|{NOBODY}");
    world.say(2, ":0|"); // The release after its `SET`, whose answer was late.
    world.say(0, &said);
    world.all_were_sent(&[]);
    world.say(1, &said);
    world.all_were_sent(&["SET k 10000"]); // Readers were found on a minority only.
    world.say(2, &said);
    world.all_say(0..3, "+OK|");
    let (rounds, mut locks) = world.all_granted();
    assert_eq!(rounds, [writer]);
    world.give_back(locks.remove(0));
    world.all_reply(":1|:1|");
    world.all_exchange(&["READ k 10000"], ":1|");
    let (rounds, locks) = world.all_granted();
    assert_eq!(rounds, second);
    drop(locks);
}

/// The caller waits among readers that come all the time, and would never find the key free.
#[test]
fn readers_who_come_while_a_caller_of_the_exclusive_lock_waits_stand_behind_it() {
    let mut world = World::ready(3);
    world.read();
    world.all_exchange(&["READ k 10000"], ":1|");
    let first = world.lock();
    let writer = world.acquire(&patient());
    world.all_were_sent(&["SET k 10000"]);
    let second = world.read();
    world.all_exchange(&[], "_|");
    world.take_all();
    world.all_say(0..2, &format!("{READERS}{A_SET}"));
    world.say(2, &format!(":0|{READERS}{A_SET}"));
    let looked = world.now;
    leaves_intent(&mut world, looked);
    let third = world.read();
    world.all_were_sent(&[]);
    world.give_back(first);
    world.all_reply(":1|+OK|:-2|");
    world.all_exchange(&["SET k 10000"], "+OK|");
    let (rounds, locks) = world.all_granted();
    assert_eq!(rounds, [writer]);
    world.all_were_sent(&["DEL shearline:intent:k"]);
    locks.into_iter().for_each(|lock| world.give_back(lock));
    world.all_exchange(&["EVALSHA release", "READ k 10000"], "+OK|:1|:1|");
    world.all_exchange(&["READ k 10000"], ":1|");
    assert_eq!(world.all_granted().0, [second, third]);
}

/// Another program was faster, so its key keeps all of them out.
#[test]
fn readers_that_are_refused_beside_others_stand_in_front_of_those_that_came_later() {
    let mut world = World::ready(3);
    let [first, second] = [(); 2].map(|()| world.read());
    let writer = world.acquire(&patient());
    let third = world.read();
    world.all_were_sent(&["READ k 10000", "READ k 10000", "SET k 10000"]);
    world.all_say(0..2, ":2|:2|_|");
    world.say(2, ":2|:2|_|:0|:0|:0|");
    assert!(world.events.is_empty());
    world.take_all();
    world.cancel(writer);
    // The knowledge of the writer is of no use to a reader, which asks alone until it is let in.
    world.all_were_sent(&["READ k 10000"]);
    world.all_say(0..2, "+OK|+OK|:10000|:1|");
    world.say(2, "+OK|+OK|:10000|:1|");
    world.all_exchange(&["READ k 10000", "READ k 10000"], ":1|:1|");
    let (mut rounds, locks) = world.all_granted();
    assert_eq!(rounds[2], third);
    rounds.sort_unstable();
    assert_eq!(rounds, [first, second, third]);
    locks.into_iter().for_each(|lock| world.give_back(lock));
    world.all_say(0..3, ":1|:1|:1|");
    world.is_clean();
}

#[test]
fn a_reader_that_is_cancelled_or_gives_up_leaves_no_trace_wherever_it_stands() {
    for gives_up in [false, true] {
        let time = [3600 * SECOND, 300 * MS][usize::from(gives_up)];
        let options = LockOptions::new(TTL).wait(time);
        let mut world = World::ready(3);
        let first = world.read_with(&options);
        let second = world.read_with(&options);
        world.take_all();
        // The first waits as the contender, the second is behind it again, and the third has asked no node.
        world.all_say(0..3, ":2|:2|");
        let third = world.read_with(&options);
        world.take_all();
        if gives_up {
            world.sleep(350 * MS);
            let events = core::mem::take(&mut world.events).into_iter();
            let mut rounds: Vec<_> = events.filter_map(|event| event.round()).collect();
            rounds.sort_unstable();
            assert_eq!(rounds, [first, second, third]);
        } else {
            let rounds = [third, second, first];
            rounds.into_iter().for_each(|round| world.cancel(round));
        }
        assert_eq!(world.engine.load().rounds, 0);
        assert_eq!(world.engine.resting(), 0);
        assert!(world.engine.work.parts.queues.is_empty());
    }
}

// ----- other programs -------------------------------------------------------------------------

/// Between its attempt and its look, the exclusive lock has ended, and other readers were faster.
#[test]
fn a_reader_that_finds_readers_asks_again_after_the_random_delay() {
    let mut world = World::ready(3);
    world.read();
    world.all_reply(":2|");
    assert!(world.events.is_empty());
    let looks = [FIRST_LOOK[0], FIRST_LOOK[1], FIRST_LOOK[2], "EVAL inspect"].map(String::from);
    assert!(world.take_all().iter().all(|sent| sent.ends_with(&looks)));
    world.all_say(0..2, &format!("{READERS}{A_SET}"));
    world.say(2, &format!(":0|{READERS}{A_SET}"));
    world.all_were_sent(&[]);
    world.sleep(49 * MS);
    world.all_were_sent(&[]);
    world.sleep(202 * MS);
    world.all_exchange(&["READ k 10000"], ":1|");
    drop(world.lock());
}

/// Makes a caller that wants the exclusive lock and waits behind readers of another program. Returns the time of its
/// first look.
fn a_writer_waits() -> (World, Instant) {
    let mut world = World::ready(3);
    world.acquire(&patient());
    world.all_reply("_|");
    world.take_all();
    world.all_say(0..2, READERS);
    world.say(2, &format!(":0|{READERS}"));
    let looked = world.now;
    (world, looked)
}

/// Answers the looks of the contender, which knows of readers after 300 ms at the latest, until it leaves its intent.
/// For 250 ms after its look, it lets readers in, in case some have waited for longer.
fn leaves_intent(world: &mut World, looked: Instant) {
    for _ in 0..3 {
        world.sleep_until_asked(0);
        let span = world.now.saturating_since(looked);
        assert!((200 * MS..=301 * MS).contains(&span), "{span:?}");
        if let Some(intent) = readers_hold(world) {
            assert_eq!(intent, "INTENT k 0 for 600");
            return assert!(250 * MS <= span, "{span:?}");
        }
    }
    panic!("it leaves no intent");
}

#[test]
fn a_writer_that_finds_readers_on_a_majority_leaves_its_intent_and_renews_it_while_it_waits() {
    let (mut world, looked) = a_writer_waits();
    leaves_intent(&mut world, looked);
    let began = world.now;
    for _ in 0..4 {
        let left = world.now;
        world.sleep_until_asked(0);
        let span = world.now.saturating_since(left);
        assert!((250 * MS..=251 * MS).contains(&span), "{span:?}");
        let age = world.now.saturating_since(began).as_millis();
        let intent = format!("INTENT k {age} for 600");
        let look = [LOOK[0], LOOK[1], "EVAL inspect", &*intent];
        world.all_exchange(&look, &format!("+OK|:10000|{A_SET}+OK|"));
    }
    // One of the readers leaves, and then the last one. On these nodes it is known who holds the lock.
    for left in [":10000|", ":-2|"] {
        world.all_say(0..2, PUSH);
        (0..2).for_each(|node| assert_eq!(world.take(node), LOOK));
        world.all_say(0..2, &format!("+OK|{left}"));
    }
    world.all_exchange(&["SET k 10000"], "+OK|");
    drop(world.lock());
    // The intent would keep readers out for longer than the lock.
    world.all_were_sent(&["DEL shearline:intent:k"]);
    world.sleep(TTL / 2);
    world.all_were_sent(&[]);
}

/// Answers the questions of the contender while readers hold the lock. Returns its intent if it leaves one.
fn readers_hold(world: &mut World) -> Option<String> {
    let mut intent = None;
    world.all_answer(|_, sent| {
        let left = sent.starts_with("INTENT").then(|| sent.to_string());
        intent = intent.take().or(left);
        match sent {
            "PTTL k" => ":10000|",
            "EVAL inspect" => A_SET,
            "EVALSHA release" => ":0|",
            _ => "+OK|",
        }
    });
    intent
}

/// Readers were faster when the key was gone. A writer gives them a quarter of a second. If it has waited for 750 ms,
/// it does not, and leaves its intent as soon as it knows that readers hold the lock.
#[test]
fn a_writer_that_has_waited_for_long_leaves_its_intent_as_soon_as_it_finds_readers() {
    for (waits, least, most) in [(400, 249, 252), (600, 148, 152), (800, 0, 202)] {
        let (mut world, began) = a_writer_waits();
        while world.now < began.saturating_add(waits * MS) {
            world.sleep(MS);
            readers_hold(&mut world);
        }
        world.all_say(0..2, PUSH);
        world.take_all();
        world.all_say(0..2, "+OK|:-2|");
        world.all_exchange(&["SET k 10000"], "_|");
        let refused = world.now;
        while readers_hold(&mut world).is_none() {
            world.sleep(MS);
            assert!(world.now < refused.saturating_add(SECOND));
        }
        let left = world.now.saturating_since(refused);
        assert!((least * MS..=most * MS).contains(&left), "{left:?}");
    }
}

#[test]
fn a_writer_leaves_no_intent_for_readers_on_a_minority_and_a_reader_leaves_none_at_all() {
    let (mut world, _) = a_writer_waits();
    world.sleep_until_asked(0);
    world.take_all();
    world.say(0, &format!("+OK|:10000|{A_SET}"));
    world.all_say(1..3, &format!("+OK|:10000|{A_KEY}"));
    for _ in 0..10 {
        world.all_were_sent(&[]);
        world.sleep(50 * MS);
    }
    // The writer does not ask again meanwhile.
    let retry = Retry::new(5, 8 * SECOND..=8 * SECOND);
    let mut world = World::with(named(3).retry(retry)).greeted();
    world.read();
    let began = world.now;
    while world.now.saturating_since(began) < SECOND {
        world.all_answer(|_, sent| {
            assert!(!sent.starts_with("INTENT"));
            match sent.split(' ').next() {
                Some("READ") => ":2|",
                Some("RELEASE") => ":0|",
                Some("PTTL") => ":10000|",
                Some("EVAL") => A_SET,
                _ => "+OK|",
            }
        });
        world.sleep_until_timer();
    }
}

/// Lets a reader meet an intent that began with its call, and no other key. Returns the times at which it asks, until
/// it has the lock.
fn meets_an_intent(retry: Retry) -> Vec<Duration> {
    let mut world = World::with(named(3).retry(retry)).greeted();
    let (began, mut asked) = (world.now, Vec::new());
    world.read();
    while world.events.is_empty() {
        let age = world.now.saturating_since(began);
        // On the first node the intent is older, and the last node has another intent that is much older.
        let ages = [age + 500 * MS, age, 4_500 * MS];
        world.all_answer(|node, sent| {
            let left = crate::node::keeps_out(ages[node].as_millis() as u64);
            if node == 0 && sent.starts_with("READ") {
                asked.push(age);
            }
            match sent.split(' ').next() {
                Some("READ") if left == 0 => ":1|".to_string(),
                Some("READ") => format!(":{}|", 2 + left),
                Some("RELEASE") => ":0|".to_string(),
                Some("PTTL") => ":-2|".to_string(),
                Some("EVAL") => NOBODY.to_string(),
                _ => "+OK|".to_string(),
            }
        });
        if world.events.is_empty() {
            world.sleep_until_timer();
        }
    }
    drop(world.lock());
    asked
}

/// The default delays are much shorter than the intent, and the other delays much longer.
#[test]
fn a_reader_that_meets_an_intent_asks_when_a_majority_lets_readers_pass() {
    for retry in [Retry::default(), Retry::new(5, 8 * SECOND..=8 * SECOND)] {
        let asked = meets_an_intent(retry);
        let [first, last] = asked[..] else {
            panic!("{asked:?}");
        };
        assert_eq!(first, Duration::ZERO);
        assert!((2_200 * MS..=2_202 * MS).contains(&last), "{last:?}");
    }
}

/// The node with the intent was restarted, so its answer does not count. The third node may let the reader in.
#[test]
fn a_reader_that_meets_an_intent_and_too_few_answers_asks_again_after_the_random_delay() {
    let retry = Retry::new(5, 8 * MS..=8 * MS);
    let mut world = World::with(named(3).retry(retry)).greeted();
    world.lose(1);
    world.pass(60 * MS);
    world.welcome(1);
    world.finish(1, "run9");
    world.read_with(&LockOptions::new(TTL));
    world.take_all();
    world.each_says(&[":1|", ":2002|"]);
    world.sleep(100 * MS); // This covers its node timeout and the delay.
    assert!(world.take(0).contains(&"READ k 10000".into()));
}

#[test]
fn a_reader_that_is_kept_out_by_an_intent_until_its_time_is_up_says_that_the_lock_is_held() {
    let mut world = World::ready(3);
    world.read_with(&once());
    world.all_say(0..3, ":3|");
    let report = world.held_by_another();
    assert_eq!(outcomes(&report)[..2], [NodeOutcome::Held; 2]);
    world.say(2, ":0|"); // The answer was late.
    world.is_clean();
}
