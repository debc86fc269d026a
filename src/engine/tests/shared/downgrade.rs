//! Stories of exclusive locks that become shared ones, with every outcome.

use super::*;
use crate::entry::Kind;

impl World {
    /// Begins to make `lock` a shared one, and asserts that all nodes are asked.
    #[track_caller]
    fn downgrade(&mut self, lock: &mut Lock) {
        let end = lock.valid_until();
        self.begin_downgrade(lock);
        assert_eq!(lock.entry().kind(), Kind::Shared, "from now on");
        assert_eq!(lock.valid_until(), end);
        self.all_were_sent(&["CONFIRM READER k"]);
    }

    #[track_caller]
    fn begin_downgrade(&mut self, lock: &mut Lock) {
        let begun = self.engine.downgrade(self.now, lock);
        begun.expect("asked");
        self.drain();
    }

    #[track_caller]
    fn release_reader(&mut self, lock: Lock) {
        self.release(lock);
        self.all_exchange(&["RELEASE READER k"], ":1|");
        assert!(self.unlocked().is_ok());
    }

    #[track_caller]
    fn cannot_be_shared(&mut self, lock: &mut Lock) -> ExtendError {
        let entry = lock.entry().clone();
        let refused = self.engine.downgrade(self.now, lock);
        self.drain();
        assert!(lock.entry().is_one_with(&entry), "it did not change");
        self.all_were_sent(&[]);
        refused.expect_err("refused")
    }
}

/// Makes a kept lock that all nodes granted.
fn kept_alone() -> (World, Lock) {
    let mut world = World::ready(3);
    world.acquire(&LockOptions::new(TTL).keep());
    world.all_say(0..3, "+OK|");
    let lock = world.lock();
    world.take_all();
    (world, lock)
}

#[test]
fn a_lock_that_a_majority_has_turned_stays_valid_and_lets_readers_in() {
    let (mut world, mut lock) = World::held(3);
    let end = lock.valid_until();
    world.wait(SECOND);
    world.downgrade(&mut lock);
    world.all_say(0..3, ":9001|");
    world.extended(&mut lock);
    assert_eq!(lock.valid_until(), end, "it has the same end");
    world.read();
    world.all_exchange(&["READ k 10000"], ":1|");
    let other = world.lock();
    world.extend(&lock);
    world.all_exchange(&["EXTEND READER k 10000"], ":1|");
    world.extended(&mut lock);
    assert_eq!(lock.validity_at(world.now), VALIDITY);
    for lock in [lock, other] {
        world.release_reader(lock);
    }
    world.is_clean();
}

#[test]
fn readers_who_wait_for_the_lock_begin_behind_the_downgrade() {
    for kept in [false, true] {
        let (mut world, mut lock) = if kept { kept_alone() } else { World::held(3) };
        let readers = [(); 2].map(|()| world.read());
        let writer = world.acquire(&patient());
        world.take_all();
        world.begin_downgrade(&mut lock);
        let read = "READ k 10000";
        world.all_were_sent(&["CONFIRM READER k", read, read, "SET k 10000"]);
        world.all_say(0..2, ":10001|:1|:1|_|");
        world.apply_next(&mut lock);
        assert_eq!(world.all_granted().0, readers);
        world.cancel(writer);
    }
}

#[test]
fn a_lock_that_is_kept_alone_becomes_a_kept_reader_that_keeps_no_reader_out() {
    let (mut world, mut lock) = kept_alone();
    world.downgrade(&mut lock);
    world.all_say(0..3, ":10001|");
    world.extended(&mut lock);
    world.read();
    world.all_exchange(&["READ k 10000"], ":1|");
    let other = world.lock();
    world.sleep_until_asked(0);
    world.all_exchange(&["EXTEND READER k 10000"], ":1|");
    assert_matches!(world.event(), Event::Kept { result: Ok(end), .. } if end == lock.valid_until());
    for lock in [lock, other] {
        world.give_back(lock);
        world.all_exchange(&["RELEASE READER k"], ":1|");
    }
    world.is_clean();
}

/// Each of the nodes keeps either the exclusive lock or the shared one.
#[test]
fn if_too_few_nodes_answer_the_lock_is_shared_and_valid_until_its_end_and_is_turned_later() {
    let (mut world, mut lock) = World::held(3);
    let end = lock.valid_until();
    world.downgrade(&mut lock);
    world.say(0, ":10001|");
    world.sleep_until_event();
    use NodeOutcome::{Granted, TimedOut};
    assert_eq!(world.unconfirmed(), [Granted, TimedOut, TimedOut]);
    assert_eq!(lock.entry().kind(), Kind::Shared);
    assert_eq!(lock.valid_until(), end);
    assert!(lock.is_valid_at(world.now));
    world.all_say(1..3, ":10001|");
    world.downgrade(&mut lock);
    world.all_say(0..3, ":9001|");
    world.extended(&mut lock);
    world.release_reader(lock);
    world.is_clean();
}

#[test]
fn a_lock_that_a_majority_has_lost_is_over_and_its_copies_are_released() {
    let (mut world, mut lock) = World::held(3);
    world.downgrade(&mut lock);
    world.say(0, ":10001|");
    world.all_say(1..3, ":0|");
    world.expired_first(&lock);
    assert_matches!(world.not_extended(), ExtendError::Lost(_));
    assert!(!lock.is_valid_at(world.now));
    world.all_were_sent(&["RELEASE READER k"]);
    world.all_say(0..1, ":1|");
    world.all_say(1..3, ":0|");
    assert_matches!(world.cannot_be_shared(&mut lock), ExtendError::Expired);
}

#[test]
fn an_extension_that_is_open_ends_with_the_exclusive_lock() {
    let (mut world, mut lock) = World::held(3);
    let end = lock.valid_until();
    world.wait(SECOND);
    world.extend(&lock);
    world.take_all();
    world.begin_downgrade(&mut lock);
    assert_matches!(world.not_extended(), ExtendError::Closed);
    // The extension was run, but does not count.
    world.all_say(0..3, ":1|:10001|");
    world.extended(&mut lock);
    assert!(end < lock.valid_until(), "the confirmation has found it");
}

#[test]
fn a_lock_that_is_over_or_cannot_be_shared_is_refused_before_anything_is_sent() {
    let (mut world, mut lock) = World::held(3);
    world.sleep(TTL);
    world.expired(&lock);
    assert_matches!(world.cannot_be_shared(&mut lock), ExtendError::Expired);
    world.acquire_all(&[b"a", b"b"], &LockOptions::new(TTL));
    world.all_say(0..3, ":1|");
    let mut lock = world.lock();
    world.take_all();
    let refused = world.cannot_be_shared(&mut lock);
    let why = InvalidRequest(RequestFault::NotExclusive);
    assert_matches!(refused, ExtendError::Invalid(found) if found == why);
    let mut world = World::with(named(3).without_scripts(true));
    let refused = world.cannot_be_shared(&mut lock);
    let why = InvalidRequest(RequestFault::NeedsScripts);
    assert_matches!(refused, ExtendError::Invalid(found) if found == why);
}

#[test]
fn the_fencing_token_and_the_lock_delay_stay() {
    let entry = crate::entry::Entry::to_be_fenced(Vec::new(), [&b"k"[..]].into_iter(), b"token");
    let entry = entry.delayed(crate::delay::Delay::of_millis(7)).fenced(5);
    entry.set_end(Instant::from_millis(9), TTL);
    let shared = entry.as_shared();
    assert_eq!(shared.kind(), Kind::Shared);
    let of = |entry: &crate::entry::Entry| (entry.delay(), entry.end(), entry.ttl());
    assert_eq!(of(&shared), of(&entry));
    assert_eq!(shared.resource(), entry.resource());
    assert_eq!(shared.token(), entry.token());
    assert_eq!(shared.fencing_token(), Some(5));
    shared.set_end(Instant::from_millis(8), TTL);
    assert_eq!(entry.end(), Instant::from_millis(9), "it has its own");
}
