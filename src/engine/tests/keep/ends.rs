//! Stories of the end of keeping: limits, a release, another owner.

use super::*;

/// The claim is busy only while the two questions are open.
#[test]
fn a_claim_rests_again_after_two_questions_about_it_were_open_together() {
    let (mut world, mut lock) = World::keeping(3, kept());
    for _ in 0..2 {
        world.extend(&lock);
    }
    world.take_all();
    let questions = |world: &World| {
        let mut claims = world.engine.work.parts.claims.iter();
        claims.next().expect("it is held").1.busy().questions
    };
    assert!(questions(&world).are_older_open());
    world.all_say(0..3, ":1|:1|");
    for _ in 0..2 {
        world.apply_next(&mut lock);
    }
    assert!(!questions(&world).are_older_open());
    assert_eq!(busy(&world), 0);
    world.release_on(0..3, lock);
    world.is_clean();
}

#[test]
fn a_release_ends_an_extension_that_the_engine_has_begun() {
    for released in [true, false] {
        let (mut world, lock) = World::keeping(1, kept());
        world.sleep_until_sent(0);
        match released {
            true => world.release(lock),
            false => world.give_back(lock),
        }
        assert_matches!(world.was_not_kept(), ExtendError::Closed);
        world.exchange(0, ["EVALSHA release"], ":1|:1|");
        world.events.clear();
        world.is_clean();
        world.sleep(3 * TTL);
        assert_eq!(world.take(0), NOTHING);
    }
}

/// An extension was under way when the lock was turned into bytes. The process that reads the bytes may release the
/// lock before a copy that is sent now arrives.
#[cfg(feature = "std")]
#[test]
fn a_lock_that_was_written_down_gets_no_copy() {
    for written_down in [false, true] {
        let (mut world, lock) = World::keeping(3, kept());
        world.sleep_until_sent(0);
        world.take_all();
        world.say(2, ":0|");
        world.all_say(0..2, ":1|");
        world.was_kept(&lock);
        assert_eq!(world.take(2), [EXTEND]);
        if written_down {
            let _bytes = lock.to_bytes();
        }
        world.all_say(0..2, ":1|");
        world.was_kept(&lock);
        let copies = usize::from(!written_down);
        assert_eq!(world.take(2), vec!["SET k 10000"; copies]);
    }
}

/// A plain lock that is dropped is not released, and expires like any other.
#[test]
fn a_lock_that_is_dropped_adopted_elsewhere_or_written_down_is_not_kept() {
    let leaves: &[fn(&World, Lock) -> Option<Lock>] = &[
        |_, _| None,
        |world, lock| Some(World::taken_over(world.now, lock).1),
        #[cfg(feature = "std")]
        |_, lock| {
            let _bytes = lock.to_bytes(); // The lock was turned into bytes.
            Some(lock)
        },
    ];
    for leave in leaves {
        let (mut world, lock) = World::keeping(3, kept());
        let _lock = leave(&world, lock);
        world.sleep_until_event();
        assert_eq!(world.take_all().concat(), NOTHING);
        assert_matches!(world.event(), Event::Expired { .. });
    }
}
