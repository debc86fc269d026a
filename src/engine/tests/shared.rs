//! Stories of shared locks: readers beside each other, and callers of the exclusive lock between them.

use super::*;

mod downgrade;
#[cfg(feature = "embedded")]
pub(super) mod programs;

/// A node reports that the key has changed.
const PUSH: &str = ">2|$10|invalidate|*1|$1|k|";

/// The script that reads the token has found a sorted set.
const A_SET: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value|";

/// The script that reads the token has found no key.
const NOBODY: &str = "*3|:0|:0|$0||";

/// A node that has another client's readers under the key, to a contender's look and question who holds it.
const READERS: &str = "+OK|+OK|:10000|";

impl World {
    pub(super) fn read_with(&mut self, options: &LockOptions) -> RoundId {
        let request = Request::shared(b"k", options);
        let round = self.engine.acquire(self.now, &request).expect("valid");
        self.drain();
        round
    }

    /// A patient reader.
    fn read(&mut self) -> RoundId {
        self.read_with(&patient())
    }

    /// A shared lock that all nodes granted.
    fn reading(nodes: usize) -> (Self, Lock) {
        let mut world = Self::ready(nodes);
        world.read();
        world.all_say(0..nodes, ":1|");
        let lock = world.lock();
        world.take_all();
        (world, lock)
    }

    /// All nodes were sent this.
    #[track_caller]
    fn all_were_sent(&mut self, sent: &[&str]) {
        for node in 0..self.sent.len() {
            assert_eq!(self.take(node), sent, "node {node}");
        }
    }

    /// The rounds that were granted, in order, and their locks.
    #[track_caller]
    fn all_granted(&mut self) -> (Vec<RoundId>, Vec<Lock>) {
        let events = core::mem::take(&mut self.events).into_iter();
        let granted = events.map(|event| match event {
            Event::Acquired { round, result } => (round, result.expect("granted")),
            other => panic!("{other:?}"),
        });
        granted.unzip()
    }
}

// ----- readers beside each other ------------------------------------------------------------

#[test]
fn readers_of_one_handle_ask_and_hold_at_the_same_time() {
    let mut world = World::ready(3);
    let readers = [(); 64].map(|()| world.read());
    world.all_were_sent(&["READ k 10000"; 64]);
    world.all_say(0..3, &":1|".repeat(64));
    let (rounds, locks) = world.all_granted();
    assert_eq!(rounds, readers);
    assert!(locks.iter().all(|lock| lock.is_valid_at(world.now)));
    assert_eq!(world.engine.stats().held, 64);
    locks.into_iter().for_each(|lock| world.release(lock));
    world.all_were_sent(&["RELEASE READER k"; 64]);
    world.all_say(0..3, &":1|".repeat(64));
    assert_eq!(world.events.len(), 64);
    world.is_clean();
}

#[test]
fn a_reader_that_makes_one_attempt_is_kept_out_by_a_lock_of_its_handle_and_nothing_is_sent() {
    let (mut world, lock) = World::held(3);
    world.read_with(&LockOptions::new(TTL).tries(1));
    assert!(world.held_by_another().is_held_here());
    world.all_were_sent(&[]);
    world.release_on(0..3, lock);
    world.take_all();
    world.read_with(&LockOptions::new(TTL).tries(1));
    world.all_were_sent(&["READ k 10000"]);
    world.all_say(0..3, ":1|");
    drop(world.lock());
}

#[test]
fn without_scripts_a_shared_lock_is_refused_at_once() {
    let mut world = World::with(named(3).without_scripts(true));
    let options = LockOptions::new(TTL);
    let request = Request::shared(b"k", &options);
    let refused = world.engine.acquire(world.now, &request);
    let why = InvalidRequest::NeedsScripts;
    assert_matches!(refused, Err(LockError::Invalid(found)) if found == why);
    world.is_clean();
}

#[test]
fn a_node_without_scripts_is_unusable_for_readers() {
    let mut world = World::new(1);
    world.unpermitted = true;
    let mut world = world.greeted();
    world.read_with(&LockOptions::new(TTL).tries(1));
    assert_eq!(world.take(0), ["READ k 10000"]);
    let refusal = "-NOPERM this user has no permissions to run the 'eval' command|";
    world.say(0, refusal);
    let missing = Unusable::Permission { command: "eval" };
    assert_eq!(
        outcomes(&world.no_quorum()),
        [NodeOutcome::Unusable(missing)]
    );
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
    // The first reader learns alone whether readers are let in.
    world.all_were_sent(&["EVALSHA release", "READ k 10000"]);
    world.all_say(0..3, ":1|:1|");
    // The others follow, and behind them the caller of the exclusive lock, who waits for their end.
    world.all_were_sent(&["READ k 10000", "SET k 10000"]);
    world.all_say(0..3, ":1|_|");
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
    world.say(2, ":0|"); // The release behind its `SET`, whose answer was late.
    world.say(0, &said);
    world.all_were_sent(&[]);
    world.say(1, &said);
    world.all_were_sent(&["SET k 10000"]); // Readers were found on a minority only.
    world.say(2, &said);
    world.all_say(0..3, "+OK|");
    let (rounds, mut locks) = world.all_granted();
    assert_eq!(rounds, [writer]);
    world.give_back(locks.remove(0));
    world.take_all();
    world.all_say(0..3, ":1|:1|");
    world.all_were_sent(&["READ k 10000"]);
    world.all_say(0..3, ":1|");
    let (rounds, locks) = world.all_granted();
    assert_eq!(rounds, second);
    drop(locks);
}

/// It waits in the middle of readers who come all the time, and would never find the key free.
#[test]
fn readers_who_come_while_a_caller_of_the_exclusive_lock_waits_stand_behind_it() {
    let (mut world, first) = World::reading(3);
    let writer = world.acquire(&patient());
    world.all_were_sent(&["SET k 10000"]);
    let second = world.read();
    world.all_were_sent(&[]);
    world.all_say(0..3, "_|");
    world.take_all();
    world.all_say(0..2, &format!("{READERS}{A_SET}"));
    world.say(2, &format!(":0|{READERS}{A_SET}"));
    world.all_were_sent(&["SET shearline:intent:k 1 PX 600"]);
    let third = world.read();
    world.all_were_sent(&[]);
    world.give_back(first);
    world.take_all();
    world.all_say(0..3, &format!("+OK|:1|+OK|:-2|{NOBODY}"));
    world.all_were_sent(&["SET k 10000"]);
    world.all_say(0..3, "+OK|");
    let (rounds, locks) = world.all_granted();
    assert_eq!(rounds, [writer]);
    locks.into_iter().for_each(|lock| world.give_back(lock));
    world.all_were_sent(&["EVALSHA release", "READ k 10000"]);
    world.all_say(0..3, ":1|:1|");
    world.all_were_sent(&["READ k 10000"]);
    world.all_say(0..3, ":1|");
    assert_eq!(world.all_granted().0, [second, third]);
}

/// Another program was faster, so that the key keeps all of them out.
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
    // What the writer has seen says nothing to a reader, which asks alone until it is let in.
    world.all_were_sent(&["READ k 10000"]);
    world.all_say(0..2, "+OK|+OK|:10000|:1|");
    world.say(2, "+OK|+OK|:10000|:1|");
    world.all_were_sent(&["READ k 10000", "READ k 10000"]);
    world.all_say(0..3, ":1|:1|");
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
        let options = match gives_up {
            true => LockOptions::new(TTL).wait(300 * MS),
            false => patient(),
        };
        let mut world = World::ready(3);
        let first = world.read_with(&options);
        let second = world.read_with(&options);
        world.take_all();
        // The first waits as the contender, the second stands behind it again, and the third has asked nobody.
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
            [third, second, first]
                .into_iter()
                .for_each(|round| world.cancel(round));
        }
        assert_eq!(world.engine.load().rounds, 0);
        assert_eq!(world.engine.resting(), 0);
    }
}

// ----- other programs -------------------------------------------------------------------------

/// A reader that waits behind another program's lock.
fn a_reader_waits() -> World {
    let mut world = World::ready(3);
    world.read();
    world.take_all();
    world.all_say(0..3, ":2|");
    assert!(world.events.is_empty());
    let first = [&FIRST_LOOK[..], &["EVAL inspect"]].concat();
    (0..2).for_each(|node| assert_eq!(world.take(node), first));
    assert_eq!(world.take(2)[1..], first);
    world
}

#[test]
fn a_reader_learns_of_the_end_of_an_exclusive_lock_and_asks_at_once() {
    let mut world = a_reader_waits();
    let inspected = "*3|:10001|:0|$20|xxxxxxxxxxxxxxxxxxxx|";
    world.all_say(0..2, &format!("+OK|+OK|:10000|{inspected}"));
    world.say(2, &format!(":0|+OK|+OK|:10000|{inspected}"));
    world.sleep(400 * MS);
    world.all_were_sent(&[]);
    world.say(0, PUSH);
    world.all_were_sent(&[]);
    world.say(1, PUSH);
    world.all_were_sent(&["READ k 10000"]);
    world.all_say(0..3, ":1|");
    drop(world.lock());
}

/// Between its attempt and its look, the exclusive lock has ended, and other readers were faster.
#[test]
fn a_reader_that_finds_readers_asks_again_after_the_random_delay() {
    let mut world = a_reader_waits();
    world.all_say(0..2, &format!("{READERS}{A_SET}"));
    world.say(2, &format!(":0|{READERS}{A_SET}"));
    world.all_were_sent(&[]);
    world.sleep(49 * MS);
    world.all_were_sent(&[]);
    world.sleep(202 * MS);
    world.all_were_sent(&["READ k 10000"]);
    world.all_say(0..3, ":1|");
    drop(world.lock());
}

/// A caller of the exclusive lock waits behind readers of another program. Returns the time of its first look.
fn a_writer_waits() -> (World, Instant) {
    let mut world = World::ready(3);
    world.acquire(&patient());
    world.take_all();
    world.all_say(0..3, "_|");
    world.take_all();
    world.all_say(0..2, READERS);
    world.say(2, &format!(":0|{READERS}"));
    let looked = world.now;
    (world, looked)
}

/// Lets the world sleep until the contender looks and asks who holds the lock, and answers that readers do.
fn asks_who(world: &mut World) {
    while world.sent[0].is_empty() {
        world.sleep_until_timer();
    }
    for node in 0..3 {
        let sent = world.take(node);
        assert_eq!(sent[..3], [LOOK[0], LOOK[1], "EVAL inspect"], "{sent:?}");
    }
    world.all_say(0..3, &format!("+OK|:10000|{A_SET}"));
}

#[test]
fn a_writer_that_finds_readers_on_a_majority_leaves_its_intent_and_renews_it_while_it_waits() {
    let (mut world, looked) = a_writer_waits();
    asks_who(&mut world);
    let span = world.now.saturating_since(looked);
    assert!((500 * MS..=751 * MS).contains(&span), "{span:?}");
    let intent = "SET shearline:intent:k 1 PX 600";
    world.all_were_sent(&[intent]);
    for _ in 0..4 {
        world.all_say(0..3, "+OK|");
        let left = world.now;
        while world.sent[0].is_empty() {
            world.sleep_until_timer();
        }
        let span = world.now.saturating_since(left);
        assert!((250 * MS..=251 * MS).contains(&span), "{span:?}");
        world.all_were_sent(&[LOOK[0], LOOK[1], "EVAL inspect", intent]);
        world.all_say(0..3, &format!("+OK|:10000|{A_SET}"));
    }
    // The readers have gone.
    world.all_say(0..3, "+OK|");
    world.all_say(0..2, PUSH);
    world.all_were_sent(&["SET k 10000"]);
    world.all_say(0..3, "+OK|");
    drop(world.lock());
    world.sleep(TTL / 2);
    world.all_were_sent(&[]);
}

#[test]
fn a_writer_leaves_no_intent_for_readers_on_a_minority_and_a_reader_leaves_none_at_all() {
    let (mut world, _) = a_writer_waits();
    while world.sent[0].is_empty() {
        world.sleep_until_timer();
    }
    world.take_all();
    let holder = "*3|:10001|:0|$20|xxxxxxxxxxxxxxxxxxxx|";
    world.say(0, &format!("+OK|:10000|{A_SET}"));
    world.all_say(1..3, &format!("+OK|:10000|{holder}"));
    world.all_were_sent(&[]);
    let mut world = a_reader_waits();
    world.all_say(0..2, &format!("{READERS}{A_SET}"));
    world.say(2, &format!(":0|{READERS}{A_SET}"));
    world.all_were_sent(&[]);
}

/// The default delays are 50 to 250 ms, 150 ms on average.
#[test]
fn a_reader_that_meets_an_intent_asks_after_each_random_delay_and_once_passes_over_it() {
    let mut world = World::ready(3);
    let (began, mut passed) = (world.now, Vec::new());
    world.read();
    let mut asked = world.now;
    for attempt in 0.. {
        let sent = world.take_all();
        let since = world.now.saturating_since(began);
        let own = &sent[0][sent[0].len() - 1];
        if own == "READ k 10000 over the intent" {
            passed.push(since);
        } else {
            assert_eq!(own, "READ k 10000");
        }
        if attempt != 0 {
            let rest = world.now.saturating_since(asked);
            assert!((50 * MS..=251 * MS).contains(&rest), "{rest:?}");
        }
        if 3_000 < since.as_millis() {
            break;
        }
        asked = world.now;
        // The third node is late each time.
        world.all_say(0..2, ":3|");
        world.say(2, ":3|:0|");
        world.sleep_until_timer();
        while world.sent[0].is_empty() {
            world.sleep_until_timer();
        }
    }
    let [first, second] = passed[..] else {
        panic!("{passed:?}");
    };
    assert!((1_200 * MS..=1_451 * MS).contains(&first), "{first:?}");
    let again = second - first;
    assert!((1_200 * MS..=1_451 * MS).contains(&again), "{again:?}");
}

#[test]
fn a_reader_that_is_kept_out_by_an_intent_until_its_time_is_up_says_that_the_lock_is_held() {
    let mut world = World::ready(3);
    world.read_with(&LockOptions::new(TTL).tries(1));
    world.all_say(0..3, ":3|");
    let report = world.held_by_another();
    assert_eq!(outcomes(&report)[..2], [NodeOutcome::Held; 2]);
    world.say(2, ":0|"); // Its answer was late.
    world.is_clean();
}
