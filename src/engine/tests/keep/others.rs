//! Stories of kept locks that their holders, or other engines, extend and confirm too.

use super::*;

/// Makes a kept lock on one node, which has refused its first extension.
fn tried() -> (World, Lock) {
    let (mut world, lock) = World::keeping(1, kept());
    world.is_extended_at_half();
    world.say(0, "-ERR x|");
    drop(world.was_not_kept());
    (world, lock)
}

/// An extension that was not confirmed or was cancelled does not prevent the next one.
#[test]
fn an_extension_of_a_caller_that_is_over_does_not_keep_the_next_from_beginning() {
    for cancelled in [false, true] {
        let (mut world, lock) = World::keeping(1, kept());
        world.sleep(VALIDITY / 2 - SECOND);
        let round = world.extend(&lock);
        let asked = world.ask_confirm(&lock);
        world.take(0);
        match cancelled {
            true => world.cancel(round),
            false => {
                world.say(0, "-ERR x|");
                world.unconfirmed();
            }
        }
        world.cancel(asked);
        world.say(0, if cancelled { ":1|:5001|" } else { ":5001|" });
        let (after, sent) = world.sleep_until_sent(0);
        assert!(after <= SECOND + 2 * MS, "{after:?}");
        assert_eq!(sent, [EXTEND]);
    }
}

/// A caller may apply an outcome late. An end that the engine has found since then counts.
#[test]
fn a_confirmation_that_is_applied_late_does_not_shorten_a_kept_lock() {
    let (mut world, mut lock) = World::keeping(1, kept());
    world.sleep(VALIDITY / 2 - 2 * MS);
    world.confirm(&lock);
    let (_, sent) = world.sleep_until_sent(0);
    assert_eq!(sent, [EXTEND], "beside it");
    world.say(0, ":5001|:1|");
    let confirmed = world.events.remove(0);
    let until = world.was_kept(&lock);
    world.events.push(confirmed);
    world.extended_until(&mut lock, until);
}

/// A confirmation finds that a kept lock is about to end, and the engine reports that it has ended before the
/// outcome is polled: the lock shows the end that was found.
#[test]
fn a_kept_lock_that_is_found_to_end_now_shows_that() {
    let (mut world, lock) = World::keeping(1, kept());
    world.confirm(&lock);
    world.say_undrained(0, ":104|");
    world.engine.handle(world.now, Input::Tick);
    world.drain();
    let Event::Confirmed { result, .. } = world.events.remove(0) else {
        panic!("{:?}", world.events);
    };
    let found = result.expect("the node has it").valid_until();
    assert!(found <= world.now.saturating_add(2 * MS));
    world.expired(&lock);
    assert_eq!(lock.valid_until(), found);
}

/// The program is stopped between the answer to a caller's extension and the end of the lock. The lock is over, but its
/// keys were extended nevertheless. So its release is a debt until the extended keys expire.
#[test]
fn a_kept_lock_that_has_ended_shows_for_how_long_it_was_extended_last() {
    let mut world = World::with(named(1).node_timeout(4 * SECOND)).greeted();
    let mut lock = world.kept_lock(b"k", kept());
    world.extend_for(&lock, 3 * TTL);
    world.take(0);
    world.say_undrained(0, ":1|");
    world.now = world.now.saturating_add(3 * TTL);
    world.engine.handle(world.now, Input::Tick);
    world.drain();
    let extended = world.events.remove(0);
    world.expired(&lock);
    world.events.push(extended);
    world.extended(&mut lock);
    assert!(!lock.is_valid_at(world.now));
    assert_eq!(lock.ttl(), 3 * TTL);
}

/// A lock that has left its engine is extended and confirmed like any other, with an end of its own. An end that
/// another engine finds counts too, even if that engine has not adopted the lock.
#[test]
fn a_kept_lock_shows_what_an_engine_finds_that_does_not_keep_it() {
    for has_left in [true, false] {
        let (mut world, mut lock) = World::keeping(1, kept().extensions(2));
        let mut other = match has_left {
            true => {
                lock = world.detach(lock);
                world.take(0);
                world
            }
            false => {
                let mut other = World::ready(1);
                other.now = other.now.max(world.now);
                let (engine, claim) = (616, 0);
                lock.set_id(LockId { engine, claim }); // The worlds have the same number.
                other
            }
        };
        other.pass(SECOND);
        other.extend_on(0..1, &mut lock);
        assert_eq!(lock.valid_until(), other.now.saturating_add(VALIDITY));
        assert_eq!(lock.extensions_left(), 1);
        other.confirm(&lock);
        other.take(0);
        other.say(0, ":2001|");
        other.extended(&mut lock);
        assert!(lock.valid_until() < other.now.saturating_add(2 * SECOND));
    }
}

/// A caller extends the lock while an extension of its engine is under way. Only one of the two was allowed.
#[test]
fn two_extensions_at_once_are_not_more_than_were_allowed() {
    let (mut world, lock) = World::keeping(1, kept().extensions(1));
    world.sleep_until_sent(0);
    world.extend(&lock);
    world.say(0, ":1|");
    let until = world.was_kept(&lock);
    world.pass(MS);
    world.say(0, ":1|");
    let refused = world.not_extended();
    assert_matches!(refused, ExtendError::Limit);
    assert_eq!((lock.valid_until(), lock.extensions_left()), (until, 0));
    world.sleep_until_event();
    world.expired(&lock);
}

/// A caller does not learn of a confirmation, but the lock ends earlier nevertheless, and is extended earlier.
#[test]
fn a_confirmation_that_is_cancelled_leaves_no_kept_lock_valid_for_longer_than_it_is() {
    for cancelled in [false, true] {
        let (mut world, mut lock) = World::keeping(1, kept());
        let round = world.ask_confirm(&lock);
        world.take(0);
        world.say_undrained(0, ":2001|");
        match cancelled {
            true => world.cancel(round),
            false => {
                world.drain();
                world.extended(&mut lock);
            }
        }
        assert!(lock.valid_until() < world.now.saturating_add(2 * SECOND));
        let (after, sent) = world.sleep_until_sent(0);
        assert_eq!((after <= 2 * MS, sent), (true, vec![EXTEND.into()]));
        world.say(0, ":1|");
        world.was_kept(&lock);
        world.release(lock);
    }
}

/// A majority had confirmed the extension.
#[test]
fn an_extension_counts_also_if_it_is_cancelled_then() {
    let (mut world, lock) = World::keeping(1, kept().extensions(1));
    let round = world.extend_for(&lock, TTL);
    world.take(0);
    world.say_undrained(0, ":1|");
    world.cancel(round);
    assert_eq!(lock.extensions_left(), 0);
    world.sleep_until_event();
    world.expired(&lock);
    assert_eq!(world.take(0), NOTHING);
}

/// A try has failed, and then a confirmation finds a later end. The next try is at half of the new validity.
#[test]
fn a_later_end_is_extended_at_half_whatever_was_tried_before() {
    let (mut world, mut lock) = tried();
    world.confirm(&lock);
    world.take(0);
    world.say(0, ":5600|");
    world.extended(&mut lock);
    let half = lock.validity_at(world.now) - VALIDITY / 2;
    assert!(half < SECOND, "before the next try would be");
    world.is_extended_after(half);
    world.release(lock);
}

/// A caller that keeps a lock once more may have repaired the cause of the last failure.
#[test]
fn a_lock_that_is_kept_anew_is_extended_at_once_if_that_is_due() {
    let (mut world, mut lock) = tried();
    world.keep_from_now_on(&mut lock);
    world.is_extended_after(Duration::ZERO);
    world.release(lock);
}
