//! Stories of extensions: what confirms one, and what it changes.

use super::*;

#[test]
fn an_extension_needs_a_majority_and_counts_from_before_the_send() {
    let (mut world, mut lock) = World::held(3);
    world.pass(Duration::from_secs(5));
    let sent = world.now;
    world.extend(&lock);
    assert_eq!(world.take_all(), vec![vec!["EVALSHA extend"]; 3]);
    world.wait(20 * MS);
    world.all_say(0..2, ":1|");
    world.extended(&mut lock);
    let until = sent.saturating_add(TTL - 102 * MS);
    assert_eq!(lock.valid_until(), until);
    world.say(2, ":0|");
    assert!(world.events.is_empty(), "a straggler changes nothing");
    world.release(lock);
}

#[test]
fn an_extension_never_shortens() {
    let (mut world, mut lock) = World::held(1);
    let before = lock.valid_until();
    world.extend_for(&lock, Duration::from_secs(1));
    world.say(0, ":1|");
    world.extended(&mut lock);
    assert_eq!(lock.valid_until(), before);
}

#[test]
fn a_majority_that_misses_the_key_loses_the_lock_and_tells_so() {
    let (mut world, lock) = World::held(3);
    world.extend(&lock);
    world.take_all();
    world.say(0, ":0|");
    world.say(1, ":-1|");
    assert_eq!(lock.valid_until(), world.now, "it shows its end");
    world.expired_first(&lock);
    assert_matches!(world.not_extended(), ExtendError::Lost(_));
    assert_eq!(
        world.take(2),
        ["EVALSHA release"],
        "remaining copies are released"
    );
    let (_, lock) = World::taken_over(world.now, lock);
    assert!(!lock.is_valid_at(world.now), "nor does anybody get it");
}

#[test]
fn an_extension_counts_only_within_the_old_validity() {
    let (mut world, lock) = World::held(1);
    world.now = lock.valid_until().saturating_sub(5 * MS);
    world.extend(&lock);
    world.now = lock.valid_until();
    world.say(0, ":1|");
    assert_eq!(world.unconfirmed(), [NodeOutcome::TimedOut]);
}

#[test]
fn of_two_extensions_none_takes_the_outcome_of_a_release_away() {
    let (mut world, lock) = World::held(3);
    let (first, second) = (world.extend(&lock), world.extend(&lock));
    world.release(lock);
    let events = core::mem::take(&mut world.events);
    assert!(
        matches!(
            events[..],
            [
                Event::Extended { round: one, result: Err(ExtendError::Closed) },
                Event::Extended { round: other, result: Err(ExtendError::Closed) },
            ] if [one, other] == [first, second]
        ),
        "{events:?}"
    );
    world.all_say(0..2, ":0|:0|:0|");
    assert_matches!(world.unlocked(), Err(UnlockError::NotHeld(_)));
    world.say(2, ":1|:1|:1|");
    world.is_clean();
}
