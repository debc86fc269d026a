//! Stories of the queue: callers of one engine that want the same resource.

use super::*;
use crate::config::Retry;

/// The commands of a node when one lock is released and the next one is asked for.
const HAND_OVER: [&str; 2] = ["EVALSHA release", "SET k 10000"];

impl World {
    /// Makes a held lock, and this number of waiters.
    fn held_and_wanted(waiters: usize) -> (Self, Lock, Vec<RoundId>) {
        let (mut world, lock) = Self::held(3);
        let waiters = (0..waiters).map(|_| world.acquire(&patient())).collect();
        assert_eq!(world.take_all().concat(), NOTHING, "nobody asks for it");
        (world, lock, waiters)
    }

    /// Releases `lock`. All nodes release it and grant it to the next waiter. Returns the operation that got it.
    fn hand_over(&mut self, lock: Lock) -> (RoundId, Lock) {
        self.give_back(lock);
        self.all_exchange(&HAND_OVER, ":1|+OK|");
        let (round, result) = self.next_acquired();
        assert!(self.events.is_empty(), "{:?}", self.events);
        (round, result.expect("granted"))
    }

    /// Makes a caller that waits after its first attempt, because another client has the lock for ten seconds.
    pub(super) fn one_waits() -> (Self, RoundId) {
        Self::one_waits_with(&patient())
    }

    pub(super) fn one_waits_with(options: &LockOptions) -> (Self, RoundId) {
        let mut world = Self::ready(3);
        let waits = world.acquire(options);
        world.all_reply("_|");
        assert!(world.events.is_empty());
        (0..2).for_each(|node| assert_eq!(world.take(node), FIRST_LOOK));
        assert_eq!(world.take(2)[0], "EVALSHA release", "its answer was late");
        world.all_say(0..2, "+OK|+OK|:10000|");
        world.say(2, ":0|+OK|+OK|:10000|");
        assert_eq!(world.take_all().concat(), NOTHING);
        (world, waits)
    }
}

#[test]
fn the_lock_goes_to_the_waiters_in_their_order_each_in_the_write_of_the_release() {
    let (mut world, mut lock, waiters) = World::held_and_wanted(5);
    for waiter in waiters {
        let (round, next) = world.hand_over(lock);
        assert_eq!(round, waiter);
        lock = next;
    }
    world.release_on(0..3, lock);
    world.is_clean();
}

#[test]
fn a_caller_who_waits_for_the_outcome_of_a_release_does_not_delay_the_next_lock() {
    let (mut world, lock, _) = World::held_and_wanted(1);
    world.release(lock);
    world.all_exchange(&HAND_OVER, ":1|+OK|");
    assert_eq!(world.events.len(), 2);
}

#[test]
fn other_resources_do_not_wait_and_the_first_waiter_asks_when_the_lock_is_handed_over() {
    let (mut world, lock, _) = World::held_and_wanted(1);
    world.acquire_of(b"other", &patient());
    world.all_were_sent(&["SET other 10000"]);
    let _lock = world.detach(lock);
    world.all_were_sent(&["SET k 10000"]);
}

#[test]
fn those_behind_a_contender_do_not_ask_and_inherit_what_it_knows() {
    let (mut world, rests) = World::one_waits();
    let waiters = [(); 2].map(|()| world.acquire(&patient()));
    assert_eq!(world.take_all().concat(), NOTHING);
    world.cancel(rests);
    world.all_were_sent(&[]); // It waits as the first did.
    world.all_say(0..2, PUSH);
    world.all_exchange(&["SET k 10000"], "+OK|");
    assert_eq!(world.event().round(), Some(waiters[0]));
}

#[test]
fn a_single_try_asks_beside_the_contender_which_is_the_next_when_it_is_overtaken() {
    let (mut world, rests) = World::one_waits();
    let waits = world.acquire(&patient());
    world.try_once();
    world.all_exchange(&["SET k 10000"], "+OK|");
    let lock = world.lock();
    world.sleep(Duration::from_secs(1));
    assert_eq!(world.take_all().concat(), NOTHING, "the lock is held here");
    let (round, lock) = world.hand_over(lock);
    assert_eq!(round, rests);
    let (round, lock) = world.hand_over(lock);
    assert_eq!(round, waits);
    world.release_on(0..3, lock);
    world.is_clean();
}

/// The key of the cancelled attempt was deleted before the other operation asked for it. The answers of the nodes are
/// not known then.
#[test]
fn a_contender_that_is_cancelled_while_it_asks_hands_nothing_on_when_the_lock_is_held_here() {
    let mut world = World::ready(3);
    let asks = world.acquire(&patient());
    let waits = world.acquire(&patient());
    world.try_once();
    world.take_all();
    world.each_says(&["_|+OK|", "+OK|+OK|"]);
    let lock = world.lock();
    world.cancel(asks);
    let sent = world.take_all().concat();
    assert!(!sent.contains(&"SET k 10000".to_string()), "{sent:?}");
    world.give_back(lock);
    let sent = world.take(0);
    assert_eq!(sent.last().expect("it is asked"), "SET k 10000");
    world.cancel(waits);
}

#[test]
fn a_waiter_that_gives_up_behind_a_contender_says_what_that_one_was_told() {
    let mut world = World::ready(3);
    world.lose(1);
    world.lose(2);
    world.acquire(&patient());
    world.take_all();
    world.acquire(&LockOptions::new(TTL).wait(MS));
    world.sleep(3 * MS);
    let report = world.no_quorum();
    assert_eq!(report.tries(), 0);
    assert_matches!(outcomes(&report)[2], NodeOutcome::Unreachable(_));
}

/// Their timers would fire with the next tick only. The first of them becomes the contender before.
#[test]
fn callers_whose_time_is_up_end_in_one_turn_when_the_one_before_them_leaves() {
    let (mut world, first) = World::one_waits();
    world.now = world.now.saturating_add(Duration::from_micros(10));
    let waiters = [(); 3].map(|()| world.acquire(&LockOptions::new(TTL).tries(3)));
    world.wait(750 * MS);
    assert_eq!(world.events.len(), 0, "their timers are not due");
    world.cancel(first);
    for waiter in waiters {
        let (round, result) = world.next_acquired();
        assert_eq!(round, waiter);
        let error = result.expect_err("its time is up");
        let said = outcomes(error.report().expect("nodes were asked"));
        assert_eq!(said[..2], [NodeOutcome::Held; 2], "{waiter:?}");
    }
    let next = world.engine.poll_timeout();
    assert!(next.is_none_or(|(at, _)| world.now < at), "{next:?}");
}

#[test]
fn a_waiter_costs_little_memory() {
    let (mut world, lock, waiters) = World::held_and_wanted(10_000);
    let open = world.engine.work.capacity();
    assert!(open < 10, "there is none for those who wait, but {open}");
    assert_eq!((world.claims(), world.engine.load().rounds), (1, 10_000));
    world.engine.cancel_acquisitions(world.now);
    world.drain();
    assert_eq!(world.take_all().concat(), NOTHING);
    assert_eq!(waiters.len(), 10_000);
    world.release_on(0..3, lock);
    world.is_clean();
}

/// If nodes are silent, every attempt is made, however short the delays are.
#[test]
fn tries_that_nobody_answered_are_made_all() {
    for delay in [Duration::ZERO, MS] {
        let retry = Retry::new(5, Duration::ZERO..=delay);
        let mut world = World::with(named(3).retry(retry));
        (0..3).for_each(|node| world.greet(node));
        world.acquire(&LockOptions::new(TTL));
        world.sleep_until_event();
        assert_eq!(world.no_quorum().tries(), 5, "{delay:?}");
    }
}

/// One thread locks in a loop for so long that others should get a chance, even if each of its locks is kept.
#[test]
fn one_that_comes_back_again_and_again_leaves_the_lock_to_others_for_a_moment() {
    for options in [patient(), patient().keep()] {
        let (mut world, mut lock, _) = World::held_and_wanted(0);
        let mut pauses = 0;
        for _ in 0..110 {
            world.release_on(0..3, lock);
            world.pass(10 * MS);
            world.take_all();
            world.acquire(&options);
            let looks = world.take(0).contains(&LOOK[1].into());
            if looks {
                pauses += 1;
                world.all_say(0..3, "+OK|+OK|:-2|");
                world.pass(5 * MS);
                world.take_all();
            }
            world.all_say(0..3, "+OK|");
            lock = world.lock();
        }
        assert_eq!(pauses, 1);
        world.release_on(0..3, lock);
        world.is_clean();
    }
}

/// Another program had the lock a moment ago, so its callers should get a chance each time. A set waits at that name,
/// whichever of its names it is.
#[test]
fn one_that_was_refused_leaves_the_lock_to_others_before_it_comes_back() {
    for names in [&[&b"k"[..]][..], &[b"k", b"z"], &[b"a", b"k"]] {
        let (mut world, _) = World::one_waits();
        world.all_say(0..2, PUSH);
        world.all_reply("+OK|");
        let lock = world.lock();
        world.release_on(0..3, lock);
        world.take_all();
        world.acquire_all(names, &patient());
        for sent in world.take_all() {
            assert_eq!(sent, LOOK, "{names:?}");
        }
    }
}

/// No trace of the wait is left when the lock is kept and later released.
#[test]
fn one_that_has_waited_for_a_lock_that_is_kept_leaves_nothing() {
    let (mut world, _) = World::one_waits_with(&patient().keep());
    world.all_say(0..2, PUSH);
    world.all_say(0..3, "+OK|");
    let lock = world.lock();
    world.take_all();
    world.release_on(0..3, lock);
    assert!(!world.engine.work.parts.queues.is_anyone_waiting());
    world.is_clean();
}
