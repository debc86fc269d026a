//! Stories of buffers: the memory of a lock, and the buffers that come back to the pools.

use super::*;

#[test]
fn a_lock_that_is_held_costs_its_name_and_token() {
    let mut world = World::ready(3);
    for number in 0..100 {
        let name = format!("invoice:{number:05}");
        world.acquire_of(name.as_bytes(), &once());
        world.all_say(0..3, "+OK|");
        // Beyond its name and token it takes little memory, because no command was in its buffer.
        assert!(world.lock().entry().unused() < 16);
    }
}

#[test]
fn a_refused_confirmation_gives_its_buffer_back() {
    let (mut world, lock) = World::held(3);
    world.now = lock.valid_until(); // The timer of the lock has not fired yet.
    let spare = |world: &World| world.engine.work.parts.claims.spares.len();
    let mut after = [0; 3].map(|_: usize| {
        let refused = world.engine.confirm(world.now, &lock);
        assert_matches!(refused, Err(ExtendError::Expired));
        spare(&world)
    });
    after.sort_unstable();
    assert_eq!(after[0], after[2]);
}

#[test]
fn a_lock_with_a_fencing_token_uses_the_buffer_of_the_one_before() {
    let mut world = World::ready(3);
    let options = once().fenced();
    let buffers = [0; 3].map(|_: usize| {
        world.acquire(&options);
        world.all_say(0..3, "$1|7|");
        let lock = world.lock();
        assert_eq!(lock.fencing_token(), Some(7));
        let buffer = lock.entry().arguments().as_ptr();
        world.give_back(lock);
        world.all_say(0..3, ":1|");
        buffer
    });
    assert_eq!(buffers, [buffers[0]; 3]);
}

/// The same holds for an acquisition that was refused or has waited for its turn.
#[test]
fn what_a_fenced_acquisition_needs_is_used_again_however_it_ends() {
    let mut world = World::ready(3);
    let spares = |world: &World| world.engine.work.parts.spares.len();
    world.acquire(&once().fenced());
    world.all_say(0..2, "*3|:2|:0|:0|");
    world.held_by_another();
    assert_eq!(spares(&world), 1);
    let waits = LockOptions::new(TTL).wait(TTL).fenced();
    world.acquire(&waits);
    world.all_say(0..3, "$1|7|");
    let lock = world.lock();
    assert_eq!(spares(&world), 1);
    world.acquire(&waits);
    assert_eq!(spares(&world), 1);
    world.give_back(lock);
}
