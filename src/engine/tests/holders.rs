//! Stories of holders while very many callers want a lock: holders come first.

use super::*;
use crate::limits::ROUNDS_MAX;
use crate::node::Whose;

impl World {
    /// Makes as many callers wait for `k` as the limit allows.
    #[track_caller]
    pub(super) fn crowd(&mut self) {
        let options = patient();
        let waiter = Request::new(b"k", &options);
        while self.engine.load().rounds < ROUNDS_MAX {
            let _ = self.engine.acquire(self.now, &waiter).expect("room");
        }
        let refused = self.engine.acquire(self.now, &waiter);
        assert_matches!(refused, Err(LockError::Saturated));
    }
}

#[test]
fn no_number_of_waiters_refuses_an_extension_a_confirmation_or_a_release() {
    let (mut world, mut lock) = World::held(3);
    world.crowd();
    world.extend_on(0..3, &mut lock);
    world.ask_confirm(&lock);
    world.all_say(0..3, ":10000|");
    world.extended(&mut lock);
    world.take_all();
    world.engine.cancel_acquisitions(world.now);
    world.release_on(0..3, lock);
    world.is_clean();
}

#[test]
fn extensions_have_a_bound_of_their_own() {
    let (mut world, lock) = World::held(1);
    world.crowd();
    world.lose(0);
    for _ in 0..ROUNDS_MAX {
        let _ = world.engine.extend(world.now, &lock, TTL).expect("room");
    }
    let refused = world.engine.extend(world.now, &lock, TTL);
    assert_matches!(refused, Err(ExtendError::Saturated));
    let refused = world.engine.confirm(world.now, &lock);
    assert_matches!(refused, Err(ExtendError::Saturated));
}

/// The same holds after so many attempts that no other one finds room to wait for the node.
#[test]
fn extensions_go_before_new_locks_to_a_node_that_is_back() {
    for is_full in [false, true] {
        let (mut world, mut lock) = World::held(3);
        (1..3).for_each(|node| world.lose(node));
        (1..3).for_each(|node| world.reconnect(node));
        let other = world.acquire_of(b"a", &once());
        for node in 1..3 {
            let waiting = &mut world.node(node).connection.waiting;
            while is_full && waiting.push(other.0, Whose::Other) {}
        }
        world.extend(&lock);
        assert!(world.events.is_empty(), "{:?}", world.events);
        world.greet(1);
        world.exchange(1, ["EVALSHA extend", "SET a 10000"], ":1|");
        world.say(0, "+OK|:1|");
        world.extended(&mut lock);
        world.cancel(other);
    }
}
