//! Stories of locks that are kept although they were not taken with that option: they come from another engine, or are
//! kept from now on.

use super::*;

impl World {
    #[track_caller]
    fn is_not_kept(&mut self, lock: &mut Lock) -> ExtendError {
        let kept = self.engine.keep(self.now, lock, Duration::MAX);
        self.drain();
        kept.expect_err("refused")
    }
}

#[test]
fn a_lock_that_was_adopted_can_be_kept_from_now_on() {
    let (mut world, lock) = World::held(3);
    let lock = world.detach(lock);
    world.pass(SECOND);
    let (mut heir, mut lock) = World::taken_over(world.now, lock);
    heir.keep_from_now_on(&mut lock);
    assert_eq!(heir.take_all().concat(), NOTHING);
    assert_eq!(heir.sleep_keeping(60 * SECOND, 0..3), 12);
    assert!(lock.is_valid_at(heir.now));
    assert_eq!(heir.engine.work.parts.keeper.kept_from_elsewhere(), 1);
    heir.release_on(0..3, lock);
    heir.is_clean();
    assert_eq!(heir.engine.work.parts.keeper.kept_from_elsewhere(), 0);
}

/// The third node has granted the lock, but the previous owner did not get the answer, and is releasing it there.
#[test]
fn a_kept_lock_that_was_adopted_is_extended_by_those_alone_that_it_stands_on() {
    let (mut world, lock) = World::won(3, 2);
    let lock = world.detach(lock);
    let (mut heir, mut lock) = World::taken_over(world.now, lock);
    let before = lock.valid_until();
    heir.keep_from_now_on(&mut lock);
    heir.sleep_until_sent(0);
    heir.all_say(1..3, ":1|");
    heir.lose(0);
    let error = heir.was_not_kept();
    assert_matches!(
        error,
        ExtendError::Unconfirmed(_),
        "one of two is no majority of three"
    );
    let reset = NodeOutcome::Unreachable(LinkFault::Reset.into());
    let said = [reset, NodeOutcome::Granted, NodeOutcome::Missing];
    assert_eq!(error.report().map(outcomes), Some(said.to_vec()));
    assert_eq!(lock.valid_until(), before);
}

/// The same holds if the lock was not detached first.
#[test]
fn what_its_engine_learns_of_a_kept_lock_that_another_has_adopted_does_not_change_it() {
    let (mut world, lock) = World::keeping(3, kept());
    world.sleep_until_sent(0);
    let before = lock.valid_until();
    let (_heir, lock) = World::taken_over(world.now, lock);
    world.all_say(0..2, ":1|");
    assert_matches!(world.event(), Event::Kept { result: Ok(until), .. } if before < until);
    assert_eq!(lock.valid_until(), before);
}

#[test]
fn a_lock_that_is_kept_again_has_no_more_extensions_than_before() {
    let (mut world, mut lock) = World::keeping(3, kept().extensions(2));
    for left in [1, 0] {
        world.keep_from_now_on(&mut lock);
        world.sleep_until_sent(0);
        world.take_all();
        world.all_say(0..3, ":1|");
        world.was_kept(&lock);
        assert_eq!(lock.extensions_left(), left);
    }
    assert_matches!(world.is_not_kept(&mut lock), ExtendError::Limit);
    world.sleep(VALIDITY - MS);
    assert_eq!(world.take_all().concat(), NOTHING);
}

/// The lock comes from another clock, so its validity is not known until it is confirmed.
#[test]
fn a_lock_without_a_known_end_is_kept_when_it_was_confirmed() {
    let (mut world, lock) = World::held(3);
    let lock = world.detach_without_end(lock);
    let (mut heir, mut lock) = World::taken_over(world.now, lock);
    assert_matches!(heir.is_not_kept(&mut lock), ExtendError::Expired);
    heir.confirm(&lock);
    heir.take_all();
    heir.all_say(0..3, ":9001|");
    heir.extended(&mut lock);
    heir.keep_from_now_on(&mut lock);
    assert_ne!(heir.sleep_keeping(60 * SECOND, 0..3), 0);
    assert!(lock.is_valid_at(heir.now));
}

#[test]
fn what_cannot_be_kept_is_left_as_it_is() {
    let (mut world, mut lock) = World::held(1);
    let (mut other, mut foreign) = World::held(1);
    // The lock belongs to no engine, and is over.
    let mut detached = other.detach(foreign);
    assert_matches!(other.is_not_kept(&mut detached), ExtendError::Expired);
    foreign = other.adopt(detached);
    other.keep_from_now_on(&mut foreign);
    // Its ttl is longer than this engine allows.
    let short = named(1).max_ttl(SECOND);
    let mut strict = World::with(short);
    strict.now = world.now;
    let mut long = strict.adopt(world.detach(lock));
    assert_matches!(strict.is_not_kept(&mut long), ExtendError::Invalid(_));
    // No extension is left.
    world.say(0, "");
    world.acquire_of(b"l", &once().extensions(0));
    world.say(0, "+OK|");
    lock = world.lock();
    assert_matches!(world.is_not_kept(&mut lock), ExtendError::Limit);
}

/// The outcome of a confirmation is not applied yet, or never is.
#[test]
fn a_lock_that_is_kept_from_now_on_shows_the_earlier_end_that_was_found_before() {
    let (mut world, mut lock) = World::held(1);
    world.confirm(&lock);
    world.say(0, ":2001|");
    world.keep_from_now_on(&mut lock);
    let found = world.now.saturating_add(2 * SECOND);
    assert!(lock.valid_until() < found, "{lock:?}");
    world.extended(&mut lock);
    assert!(lock.valid_until() < found, "{lock:?}");
    assert_ne!(world.sleep_keeping(60 * SECOND, 0..1), 0);
    assert!(lock.is_valid_at(world.now));
}

/// One of the operations belongs to the holder itself, from the time before the lock was kept.
#[test]
fn the_names_of_locks_that_are_kept_are_found_whoever_wants_them_and_goes_again() {
    let (mut world, lock) = World::keeping(3, kept());
    let other = world.kept_lock(b"l", kept());
    for _ in 0..3 {
        world.acquire_of(b"k", &once());
        assert_eq!(world.take_all().concat(), NOTHING, "it is held here");
        world.next_is_held();
    }
    world.release_on(0..3, other);
    world.take_all();
    // The end of the lock is not reported. The lock is lost at its next extension, while a caller waits for it.
    world.acquire_of(b"k", &LockOptions::new(TTL));
    world.sleep_until_sent(0);
    world.take_all();
    world.all_say(0..3, ":0|");
    assert!(world.is_told_of_the_end_of(&lock));
    world.events.clear();
    for sent in world.take_all() {
        assert!(sent.contains(&"SET k 10000".into()), "{sent:?}");
    }
    world.release(lock);
}

/// The lock was extended before it was kept, and its holder applies that outcome after the lock is lost.
#[test]
fn an_outcome_of_the_time_before_it_was_kept_does_not_revive_a_lock_that_is_lost() {
    for (ask, reply) in [
        (World::extend as fn(&mut _, &_) -> _, ":1|"),
        (World::confirm, ":9001|"),
    ] {
        let (mut world, mut lock) = World::held(1);
        ask(&mut world, &lock);
        world.take(0);
        world.say(0, reply);
        let before = world.events.remove(0);
        world.keep_from_now_on(&mut lock);
        world.sleep_until_sent(0);
        world.say(0, ":0|");
        assert!(!lock.is_valid_at(world.now));
        world.events.insert(0, before);
        world.apply_next(&mut lock);
        assert!(!lock.is_valid_at(world.now), "{lock:?}");
    }
}

/// The node gets no copies: the previous owner may still release one there.
#[test]
fn a_node_that_was_away_is_asked_for_no_lock_that_was_adopted() {
    let (mut world, lock) = World::held(3);
    let lock = world.detach(lock);
    let (mut heir, mut lock) = World::taken_over(world.now, lock);
    heir.keep_from_now_on(&mut lock);
    heir.comes_back_as(2, "another", 3600);
    assert_eq!(heir.take_all().concat(), NOTHING);
}
