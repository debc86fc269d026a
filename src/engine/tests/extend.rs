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
    world.extended_until(&mut lock, before);
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
    let released = world.take(2);
    assert_eq!(released, ["EVALSHA release"], "remaining copies");
    let (_, lock) = World::taken_over(world.now, lock);
    assert!(!lock.is_valid_at(world.now), "nor does anybody get it");
}

/// A release ends all questions that are open.
#[test]
fn of_two_extensions_none_takes_the_outcome_of_a_release_away() {
    for ask in [World::extend, World::ask_confirm] {
        let (mut world, lock) = World::held(3);
        let asked = [ask(&mut world, &lock), ask(&mut world, &lock)];
        world.release(lock);
        for round in asked {
            assert_eq!(world.events[0].round(), Some(round));
            assert_matches!(world.next_not_extended(), ExtendError::Closed);
        }
        assert!(world.events.is_empty());
        world.all_say(0..2, ":0|:0|:0|");
        assert_matches!(world.unlocked(), Err(UnlockError::NotHeld(_)));
        world.say(2, ":1|:1|:1|");
        world.is_clean();
    }
}
