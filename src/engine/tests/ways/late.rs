//! Stories of a node that shows how it releases locks after a majority has already granted the lock.

use super::super::permissions::unasked;
use super::*;
use crate::quorum::Drift;

/// Makes three nodes and one attempt, which has asked two of them. The last node has not shown how it releases locks.
fn asked_of_two() -> World {
    let mut world = bare(3);
    world.try_once();
    world.take_all();
    for node in 0..2 {
        world.say(node, &only_watches(NO_NUMBER));
        assert_eq!(world.take(node), ["SET k 10000"]);
    }
    world
}

/// Like [`asked_of_two`], but the two nodes have granted the lock.
fn granted_by_two() -> (World, Lock) {
    let mut world = asked_of_two();
    world.all_say(0..2, "+OK|");
    let lock = world.lock();
    (world, lock)
}

#[test]
fn a_node_that_shows_its_way_when_the_lock_is_held_gets_a_copy() {
    let (mut world, lock) = granted_by_two();
    world.pass(1_000 * MS);
    world.say(2, &only_watches(NO_NUMBER));
    // The copy ends with the others: it is rounded up by less than a millisecond.
    let left = lock.valid_until().saturating_since(world.now) + Drift::default().of(TTL);
    assert_eq!(world.take(2), [format!("SET k {}", left.as_millis())]);
    assert_eq!(left.as_millis(), 9_000);
    world.say(2, "+OK|");
    world.take_all();
    world.release(lock);
    assert_eq!(world.take_all(), vec![RELEASING; 3], "on all three");
}

/// The same holds if its answer comes in the turn in which the majority has granted.
#[test]
fn a_node_that_shows_its_way_before_the_lock_is_returned_gets_a_copy() {
    let mut world = asked_of_two();
    world.say(0, "+OK|");
    world.say_undrained(1, "+OK|");
    world.say(2, &only_watches(NO_NUMBER));
    drop(world.lock());
    assert_eq!(world.take(2), ["SET k 10000"]);
}

/// Its `SET` has not left yet when the majority grants. The `SET` is withdrawn, and the copy goes in its place.
#[test]
fn a_node_that_shows_its_way_just_before_the_majority_grants_gets_a_copy() {
    let mut world = asked_of_two();
    world.say(0, "+OK|");
    world.say_undrained(2, &only_watches(NO_NUMBER));
    world.say(1, "+OK|");
    let lock = world.lock();
    world.exchange(2, ["SET k 10000"], "+OK|");
    world.release(lock);
    assert_eq!(world.take_all(), vec![RELEASING; 3], "on all three");
}

/// The node refuses the scripts by which the others have granted two locks. The locks were already returned.
#[test]
fn a_node_that_refuses_two_scripts_when_the_locks_are_held_gets_copies_of_both() {
    let mut world = unasked(3);
    world.try_once();
    world.acquire_of(b"l", &once());
    world.take_all();
    world.all_say(0..2, ":1|");
    let first = world.lock();
    world.all_say(0..2, ":1|");
    let second = world.lock();
    world.say(2, &NO_COMMAND.repeat(2));
    world.reply(2, &only_watches(NO_NUMBER));
    assert_eq!(world.take(2).last().unwrap(), "SET k 10000");
    world.say(2, &only_watches(NO_NUMBER));
    assert_eq!(world.take(2), ["SET l 10000"]);
    drop((first, second));
}

/// A copy would wait for the commands before it, and last longer than the other copies.
#[test]
fn a_node_that_shows_its_way_and_reads_nothing_gets_no_copy() {
    let (mut world, lock) = granted_by_two();
    world.window[2] = 0;
    world.acquire_of(b"l", &once());
    world.say(2, &only_watches(NO_NUMBER));
    world.pass(MS);
    world.make_room(2);
    let sent = world.take(2);
    assert!(!sent.is_empty(), "what is asked for the other lock");
    let is_copy = |sent: &String| sent.starts_with("SET k");
    assert!(!sent.iter().any(is_copy), "{sent:?}");
    drop(lock);
}

#[test]
fn a_node_that_shows_its_way_when_the_lock_is_over_gets_no_copy() {
    for end in ["released", "handed over", "expired", "refused"] {
        let (mut world, lock) = granted_by_two();
        match end {
            "released" | "refused" => world.release(lock),
            "handed over" => drop(world.detach(lock)),
            _ => world.pass(TTL),
        }
        world.take_all();
        let may_write = if end == "refused" {
            NO_COMMAND
        } else {
            NO_NUMBER
        };
        world.say(2, &only_watches(may_write));
        assert_eq!(world.take(2), NOTHING, "{end}");
    }
}

/// Two of three nodes extend the lock, after the last one has said that it lacks it. Returns the commands to the last
/// one.
fn extend_by_two(world: &mut World, lock: &mut Lock) -> Vec<String> {
    world.extend(lock);
    world.say(2, &format!("{WATCHED}$-1|:-2|"));
    world.take_all();
    for node in 0..2 {
        world.tell(node, "+OK|*0|+OK|@k:3000|");
        world.say(node, WRITTEN);
    }
    world.extended(lock);
    world.take(2)
}

/// A copy may have been denied or lost there. The node gets another one when a majority without it has confirmed the
/// lock.
#[test]
fn a_node_that_an_extension_has_found_lacking_gets_no_copy_before_the_next() {
    let (mut world, mut lock) = granted_by_two();
    greet_again(&mut world, 2);
    assert_eq!(extend_by_two(&mut world, &mut lock), NOTHING);
    assert_eq!(extend_by_two(&mut world, &mut lock), asked());
    world.say(2, &only_watches(NO_NUMBER));
    assert_eq!(world.take(2), NOTHING);
    assert_eq!(extend_by_two(&mut world, &mut lock), ["SET k 10000"]);
}
