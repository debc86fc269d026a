//! Stories of programs that take permits of one name on the same three nodes, which run the scripts as a server does.

use super::*;
use crate::effort::effort;
use crate::engine::tests::fencing::stores::trust;
use crate::engine::tests::programs::{Call, Programs};

impl Programs {
    fn takes_with(&mut self, program: usize, permits: u16, options: &LockOptions) -> Call {
        self.asks(program, &Request::permit(b"k", permits, options))
    }

    pub(super) fn takes(&mut self, program: usize, permits: u16) -> Call {
        self.takes_with(program, permits, &patient())
    }

    fn slot(&self, call: Call) -> Option<u16> {
        self.locks.get(&call).and_then(Lock::slot)
    }
}

#[test]
fn programs_hold_as_many_permits_as_there_are_and_not_one_more() {
    for permits in [1, 2, 3, 4, 16] {
        let mut world = Programs::new(3);
        let take = |call| world.takes(call as usize % 3, permits);
        let calls: Vec<_> = (0..permits + 2).map(take).collect();
        world.pass(SECOND);
        let mut slots: Vec<_> = calls.iter().filter_map(|call| world.slot(*call)).collect();
        slots.sort_unstable();
        assert_eq!(slots, Vec::from_iter(0..permits), "{permits}");
        let (first, waits) = calls.split_at(permits as usize);
        assert!(first.iter().all(|call| world.has(*call)));
        assert!(!waits.iter().any(|call| world.has(*call)));
        for held in [permits, permits] {
            let call = calls.iter().find(|call| world.has(**call));
            world.gives_back(*call.expect("held"));
            world.pass(MS);
            assert_eq!(world.locks.len(), held as usize, "the next one has it");
            world.exclude_each_other();
        }
        world.serve_all();
    }
}

#[test]
fn permits_and_locks_of_any_kind_keep_each_other_out() {
    let mut world = Programs::new(3);
    let permit = world.takes(0, 4);
    for shared in [false, true] {
        let other = world.calls(1, shared, &once());
        world.refusal(other);
    }
    let [writer, reader] =
        [false, true].map(|shared| world.calls(1 + usize::from(shared), shared, &patient()));
    world.gives_back(permit);
    world.pass(SECOND);
    assert!(world.has(writer) != world.has(reader));
    let permit = world.takes_with(0, 4, &once());
    world.refusal(permit);
    world.takes(0, 4);
    let first = if world.has(writer) { writer } else { reader };
    world.gives_back(first);
    world.pass(2 * SECOND);
    world.serve_all();
}

#[test]
fn a_waiter_has_the_permit_of_a_program_that_died_when_it_ends() {
    let mut world = Programs::new(2);
    let short = LockOptions::new(300 * MS);
    let dead = world.takes_with(0, 1, &short);
    assert!(world.has(dead));
    world.locks.clear();
    let next = world.takes(1, 1);
    world.pass(299 * MS);
    assert!(!world.has(next));
    world.pass(4 * MS);
    assert_eq!(world.slot(next), Some(0));
}

#[test]
fn another_number_is_refused_while_the_first_stands_and_not_after_it() {
    let mut world = Programs::new(2);
    let first = world.takes(0, 4);
    let other = world.takes(1, 5);
    assert_eq!(world.refusal(other).other_permits(), Some(4));
    world.gives_back(first);
    let other = world.takes(1, 5);
    assert!(world.has(other));
    world.serve_all();
}

/// The nodes get the requests of two programs in different orders.
#[test]
fn programs_that_ask_at_the_same_time_get_a_slot_each() {
    for permits in [2, 3, 8] {
        let mut world = Programs::new(2);
        for (program, node) in [(0, 0), (1, 1), (0, 2)] {
            world.net.hold(program, node);
        }
        let calls = [world.takes(0, permits), world.takes(1, permits)];
        for (program, node) in [(0, 0), (1, 1), (0, 2)] {
            world.net.let_through(program, node);
        }
        world.pump();
        world.pass(SECOND);
        let slots = calls.map(|call| world.slot(call).expect("held"));
        assert_ne!(slots[0], slots[1]);
        world.exclude_each_other();
        world.serve_all();
    }
}

/// While all permits are held, a place has a queue and no contender. A set that arrives then must not overtake the set
/// in that queue, which is before it at its other place.
#[test]
fn sets_wait_in_the_same_order_behind_permits_as_elsewhere() {
    let mut world = Programs::new(2);
    let first = world.takes(1, 1);
    let permits = [world.takes(0, 1), world.takes(0, 1)];
    let names: [&[u8]; 2] = [b"k", b"j"];
    let options = patient();
    let early = world.asks(0, &Request::all(&names, &options));
    world.gives_back(first);
    world.pass(MS);
    assert!(world.has(permits[0]));
    let late = world.asks(0, &Request::all(&names, &options));
    for call in permits.into_iter().chain([early, late]) {
        world.pass(MS);
        assert!(world.has(call));
        world.gives_back(call);
    }
    world.serve_all();
}

// ----- at random ------------------------------------------------------------------------------

#[test]
fn whatever_happens_no_slot_has_two_holders_and_all_have_their_turn() {
    for seed in 0..effort(30, 300) {
        let mut world = Programs::new(3);
        trust(&mut world.net, 0);
        let permits = [1, 2, 3, 5][seed as usize % 4];
        world.at_random(seed, false, |world, program, options, below| {
            match below(14) {
                12.. => world.asks(program, &Request::all(&[b"k", b"j"], options)),
                0 => world.calls(program, false, options),
                1 => world.calls(program, true, options),
                2 => world.takes_with(program, permits + 1, options),
                3..7 => world.takes_with(program, permits, &options.fenced()),
                _ => world.takes_with(program, permits, options),
            }
        });
    }
}
