//! Stories of how long a caller waits: by its options, by its handle, or by default.

use super::*;
use crate::config::Retry;
use crate::time::NANOS_PER_TICK;

/// Timers are late by a tick at most.
const TICK: Duration = Duration::from_nanos(NANOS_PER_TICK);

const SECOND: Duration = Duration::from_secs(1);

/// Asserts that a caller with `options` on a handle with `retry` gives up after `wait`: where this
/// handle holds the lock, and where another client does.
#[track_caller]
fn waits(options: LockOptions, retry: Retry, wait: Duration) {
    for story in [held_here, World::greeted] {
        let mut world = story(World::with(named(3).retry(retry)));
        world.acquire(&options);
        world.all_say(0..2, "_|");
        let waited = world.sleep_until_event();
        let late = waited.checked_sub(wait);
        assert!(late.is_some_and(|late| late <= TICK), "after {waited:?}");
        match world.event() {
            Event::Acquired { result, .. } => drop(result.expect_err("not free")),
            other => panic!("{other:?}"),
        }
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
    // Shortly before the end no other attempt is begun.
    assert!((990 * MS..=SECOND + TICK).contains(&waited), "{waited:?}");
    assert!(1 < world.no_quorum().tries());
}

#[test]
fn a_call_that_gives_up_says_for_how_long_the_lock_is_held() {
    let (mut world, _) = World::one_waits();
    world.acquire(&LockOptions::new(TTL).wait(SECOND));
    world.sleep_until_event();
    let report = world.held_by_another();
    assert_eq!(report.holder(), None, "it is another's");
    let left = report.held_for().expect("a majority has said so");
    assert!(left <= 9_001 * MS && 8_990 * MS < left, "{left:?}");
    // Nobody has asked for that.
    let mut world = World::ready(3);
    world.try_once();
    world.all_say(0..2, "_|");
    assert_eq!(world.held_by_another().held_for(), None);
}

#[test]
fn a_call_that_meets_a_lock_of_its_own_handle_says_so() {
    let mut world = World::with(named(3).owner("billing-7")).greeted();
    let lock = world.lock_on(0..3);
    world.try_once();
    let report = world.held_by_another();
    assert_eq!(report.holder(), Some(&b"billing-7"[..]));
    assert_eq!(report.held_for(), Some(lock.validity_at(world.now)));
}
