//! Stories of the end of a lock: it is reported once, and before the lock is over.

use super::*;

#[test]
fn the_loss_is_told_by_a_timer_a_tick_before_the_end() {
    let (mut world, lock) = World::held(3);
    let (at, wake) = world.engine.poll_timeout().expect("a timer");
    assert!(at <= lock.valid_until() && wake.0 != Cause::Output);
    world.now = lock.valid_until().saturating_sub(3 * MS);
    world.pass(Duration::ZERO);
    assert!(world.events.is_empty());
    world.pass(2 * MS);
    world.expired(&lock);
    world.pass(TTL);
    assert!(world.events.is_empty(), "told once");
    world.release(lock);
    world.all_were_sent(&["EVALSHA release"]); // Also when it has expired.
    world.all_say(0..2, ":0|");
    assert_matches!(world.unlocked(), Err(UnlockError::NotHeld(_)));
}

#[test]
fn a_clock_that_steps_back_stops_nothing() {
    let (mut world, lock) = World::won(3, 2);
    world.pass(Duration::from_secs(5));
    world.now = Instant::from_millis(1_000);
    world.acquire_of(b"other", &once()); // Times out before the wheel's time.
    world.pass(60 * MS);
    world.no_quorum();
    world.pass(Duration::from_secs(10));
    world.expired(&lock);
}

/// The claim ends with the last answer, before the outcome is reported.
#[test]
fn an_unlock_that_finds_no_lock_names_it_whichever_answer_comes_last() {
    for last in [":0|", ":1|"] {
        let (mut world, lock) = World::held(3);
        world.release(lock);
        world.take_all();
        world.say_undrained(0, ":0|");
        world.say_undrained(1, ":0|");
        world.say(2, last);
        let error = world.unlocked().expect_err("two had no key");
        assert_matches!(error, UnlockError::NotHeld(_));
        assert_eq!(error.resource(), Some(&b"k"[..]), "{last}");
    }
}
