//! Stories of a node that shows in which way it releases when a majority has granted the lock already.

use super::*;

/// Three nodes that are tried with one lock; two have been asked for it. The last one has not shown its way.
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

/// Like [`asked_of_two`], and these two have granted it.
fn granted_by_two() -> (World, Lock) {
    let mut world = asked_of_two();
    world.all_say(0..2, "+OK|");
    let lock = world.lock();
    (world, lock)
}

#[test]
fn a_node_that_shows_its_way_when_the_lock_is_held_is_not_asked_for_it() {
    let (mut world, lock) = granted_by_two();
    world.say(2, &only_watches(NO_NUMBER));
    assert_eq!(world.take(2), NOTHING);
    world.release(lock);
    assert_eq!(world.take(2), NOTHING);
}

/// Two of three extend the lock, and the last one says first that it lacks it. Returns the commands to the last one.
fn extend_by_two(world: &mut World, lock: &mut Lock) -> Vec<String> {
    let token = lock.token().as_bytes().to_vec();
    world.extend(lock);
    world.say(2, &format!("{WATCHED}$-1|:-2|"));
    world.take_all();
    for node in 0..2 {
        say_token_of(world, node, WATCHED, &token, ":3000|");
        world.say(node, "+OK|+QUEUED|*1|:1|");
    }
    world.extended(lock);
    world.take(2)
}

#[test]
fn a_node_that_has_shown_its_way_too_late_gets_its_copy_with_the_second_extension() {
    let (mut world, mut lock) = granted_by_two();
    world.say(2, &only_watches(NO_NUMBER));
    assert_eq!(extend_by_two(&mut world, &mut lock), NOTHING);
    assert_eq!(extend_by_two(&mut world, &mut lock), ["SET k 10000"]);
}
