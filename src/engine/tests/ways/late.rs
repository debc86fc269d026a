//! Stories of a node that shows in which way it releases when a majority has granted the lock already.

use super::*;
use crate::quorum::Drift;

/// Three nodes that are tried with one lock. Two have granted it, and the last has not shown its way.
fn granted_by_two() -> (World, Lock) {
    let mut world = bare(3);
    world.try_once();
    world.take_all();
    for node in 0..2 {
        world.say(node, &only_watches(NO_NUMBER));
        assert_eq!(world.take(node), ["SET k 10000"]);
        world.say(node, "+OK|");
    }
    let lock = world.lock();
    (world, lock)
}

#[test]
fn a_node_that_shows_its_way_when_the_lock_is_held_gets_a_copy() {
    let (mut world, lock) = granted_by_two();
    world.pass(1_000 * MS);
    world.say(2, &only_watches(NO_NUMBER));
    // It ends with the others: what is rounded up is less than a millisecond.
    let left = lock.valid_until().saturating_since(world.now) + Drift::default().of(TTL);
    assert_eq!(world.take(2), [format!("SET k {}", left.as_millis())]);
    assert_eq!(left.as_millis(), 9_000);
    world.say(2, "+OK|");
    world.take_all();
    world.release(lock);
    assert_eq!(world.take_all(), vec![RELEASING; 3], "on all three");
}

/// Also where its answer comes in the turn in which the majority has granted.
#[test]
fn a_node_that_shows_its_way_before_the_lock_is_returned_gets_a_copy() {
    let mut world = bare(3);
    world.try_once();
    world.take_all();
    for node in 0..2 {
        world.say(node, &only_watches(NO_NUMBER));
        world.take(node);
    }
    world.say(0, "+OK|");
    world.say_undrained(1, "+OK|");
    world.say(2, &only_watches(NO_NUMBER));
    world.lock();
    assert_eq!(world.take(2), ["SET k 10000"]);
}

#[test]
fn a_node_that_shows_its_way_when_the_lock_is_over_gets_no_copy() {
    for end in ["released", "handed over", "expired", "refused"] {
        let (mut world, lock) = granted_by_two();
        match end {
            "released" => world.release(lock),
            "handed over" => drop(world.detach(lock)),
            "expired" => world.pass(TTL),
            _ => world.release(lock),
        }
        world.drain();
        world.take_all();
        world.say(
            2,
            &only_watches(match end {
                "refused" => NO_COMMAND,
                _ => NO_NUMBER,
            }),
        );
        assert_eq!(world.take(2), NOTHING, "{end}");
    }
}
