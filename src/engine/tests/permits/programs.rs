//! Stories of programs that take permits of one name on the same three nodes, which run the scripts as a server does.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::effort::effort;
use crate::embedded::Memory;
use crate::engine::tests::fencing::stores::trust;
use crate::engine::tests::shared::programs::{NODES, Programs};

impl Programs {
    fn takes_with(
        &mut self,
        program: usize,
        permits: u32,
        options: &LockOptions,
    ) -> (usize, RoundId) {
        self.asks(program, &Request::permit(b"k", permits, options))
    }

    pub(super) fn takes(&mut self, program: usize, permits: u32) -> (usize, RoundId) {
        self.takes_with(program, permits, &patient())
    }

    fn slot(&self, call: (usize, RoundId)) -> Option<u16> {
        self.locks.get(&call).and_then(Lock::slot)
    }

    /// Each node has the token of this permit in its slot.
    fn has_everywhere(&self, call: (usize, RoundId)) -> bool {
        let lock = &self.locks[&call];
        let engine = &self.net.clients[call.0].engine;
        engine.confirmed_by(self.net.now, lock).len() == NODES
    }
}

#[test]
fn programs_hold_as_many_permits_as_there_are_and_not_one_more() {
    for permits in [1, 2, 3, 4, 16] {
        let mut world = Programs::new(3);
        let calls: Vec<_> = (0..permits + 2)
            .map(|call| world.takes(call as usize % 3, permits))
            .collect();
        world.pass(SECOND);
        let mut slots: Vec<_> = calls.iter().filter_map(|call| world.slot(*call)).collect();
        slots.sort_unstable();
        assert_eq!(slots, Vec::from_iter(0..permits as u16), "{permits}");
        let waits: Vec<_> = calls.iter().filter(|call| !world.has(**call)).collect();
        assert_eq!(
            waits,
            [&calls[permits as usize], &calls[permits as usize + 1]]
        );
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
    assert!(!world.foreign_takes("f"));
    let once = LockOptions::new(TTL).tries(1);
    for shared in [false, true] {
        let other = world.calls(1, shared, &once);
        assert_matches!(world.refused.remove(&other), Some(LockError::Held(_)));
    }
    let [writer, reader] =
        [false, true].map(|shared| world.calls(1 + usize::from(shared), shared, &patient()));
    world.gives_back(permit);
    world.pass(SECOND);
    assert!(world.has(writer) != world.has(reader));
    let permit = world.takes_with(0, 4, &once);
    assert_matches!(world.refused.remove(&permit), Some(LockError::Held(_)));
    let permit = world.takes(0, 4);
    let first = if world.has(writer) { writer } else { reader };
    world.gives_back(first);
    world.pass(2 * SECOND);
    world.serve_all();
    let _ = permit;
    let mut world = Programs::new(1);
    assert!(world.foreign_takes("f"));
    let permit = world.takes(0, 4);
    world.pass(999 * MS);
    assert!(!world.has(permit));
    world.pass(6 * MS);
    assert!(world.has(permit), "the foreign key has ended");
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
    match world.refused.remove(&other) {
        Some(LockError::Held(report)) => assert_eq!(report.other_permits(), Some(4)),
        other => panic!("{other:?}"),
    }
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

#[test]
fn a_node_that_was_away_gets_the_slots_of_kept_permits() {
    let mut world = Programs::new(2);
    let kept = LockOptions::new(TTL).keep();
    world.net.unreachable(2, true);
    let calls = [0, 1].map(|program| world.takes_with(program, 4, &kept));
    assert!(
        calls.iter().all(|call| world.has(*call)),
        "two are a majority"
    );
    world.net.unreachable(2, false);
    world.pass(20 * SECOND);
    assert!(calls.iter().all(|call| world.has_everywhere(*call)));
    world.net.unreachable(0, true);
    world.pass(20 * SECOND);
    assert!(
        calls
            .iter()
            .all(|call| world.locks[call].is_valid_at(world.net.now))
    );
    assert_eq!(world.lost, 0);
    world.net.unreachable(0, false);
    world.serve_all();
}

#[test]
fn kept_permits_are_lost_when_their_key_is_deleted() {
    let mut world = Programs::new(2);
    let kept = LockOptions::new(TTL).keep();
    let calls = [0, 1].map(|program| world.takes_with(program, 2, &kept));
    world.pass(30 * SECOND);
    assert_eq!(world.lost, 0);
    (0..2).for_each(|node| world.net.admin(node, "DEL k"));
    world.pass(SECOND);
    assert_eq!(world.lost, 2);
    assert!(
        calls
            .iter()
            .all(|call| !world.locks[call].is_valid_at(world.net.now))
    );
    world.serve_all();
}

#[test]
fn nodes_that_may_have_forgotten_permits_do_not_vote() {
    let mut world = Programs::new(2);
    let first = world.takes(0, 1);
    (0..2).for_each(|node| world.net.restart(node, Memory::Lost));
    let other = world.takes_with(1, 1, &LockOptions::new(TTL).tries(1));
    assert_matches!(world.refused.remove(&other), Some(LockError::NoQuorum(_)));
    world.exclude_each_other();
    world.gives_back(first);
}

#[test]
fn a_strict_guard_checks_the_marker_for_permits_too() {
    let mut world = Programs::with(2, || net::builder(NODES));
    world.pass(62 * SECOND); // The barriers of new nodes end.
    let calls = [world.takes(0, 2), world.takes(1, 2)];
    assert!(calls.iter().all(|call| world.has(*call)));
    (0..2).for_each(|node| world.net.mark_as_anothers(node));
    let once = world.takes_with(0, 4, &LockOptions::new(TTL).tries(1));
    let refused = world.refused.remove(&once);
    assert_matches!(
        refused,
        Some(LockError::NoQuorum(_) | LockError::OtherCluster(_))
    );
}

/// 32 callers of four programs for four permits, each of which is given back after a millisecond.
#[test]
fn callers_of_several_programs_take_turns() {
    let mut world = Programs::new(4);
    let mut calls: Vec<_> = (0..32).map(|call| world.takes(call % 4, 4)).collect();
    for _ in 0..2_000 {
        calls.retain(|call| {
            let has = world.has(*call);
            if has {
                world.gives_back(*call);
            }
            !has
        });
        world.exclude_each_other();
        if calls.is_empty() {
            return world.serve_all();
        }
        world.pass(MS);
    }
    panic!("{} wait for ever", calls.len());
}

/// While all permits are held, a place has a queue and no contender. A set that comes then must not overtake the set in
/// that queue, which stands before it at its other place.
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

/// Permits, locks of the other kinds, cancels, cut connections and nodes that are away.
fn at_random(programs: usize, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut below = |bound: usize| random.random_range(0..bound);
    let mut world = Programs::new(programs);
    let (mut calls, mut away) = (Vec::new(), None);
    let permits = [1, 2, 3, 5][below(4)];
    trust(&mut world.net, 0);
    for _ in 0..200 {
        let program = below(programs);
        match below(10) {
            0..4 => {
                let options = LockOptions::new([TTL, 300 * MS][below(2)]);
                let options = match below(6) {
                    0 => options.tries(1),
                    1 => options.wait(30 * MS),
                    2 => options.keep(),
                    _ => options.wait(3600 * SECOND),
                };
                calls.push(match below(14) {
                    12.. => world.asks(program, &Request::all(&[b"k", b"j"], &options)),
                    0 => world.calls(program, false, &options),
                    1 => world.calls(program, true, &options),
                    2 => world.takes_with(program, permits + 1, &options),
                    3..7 => world.takes_with(program, permits, &options.fenced()),
                    _ => world.takes_with(program, permits, &options),
                });
            }
            4..7 => {
                let count = world.locks.len().max(1);
                if let Some(&call) = world.locks.keys().nth(below(count)) {
                    world.gives_back(call);
                }
            }
            7 if !calls.is_empty() => {
                let call = calls.swap_remove(below(calls.len()));
                if !world.has(call) {
                    let now = world.net.now;
                    world.net.clients[call.0].engine.cancel(now, call.1);
                    world.pump();
                }
            }
            8 if below(4) == 0 => {
                let node = below(NODES);
                world.net.cut_link(program, node);
                world.pump();
            }
            9 if below(4) == 0 => {
                if let Some(node) = away.take() {
                    world.net.unreachable(node, false);
                } else {
                    let node = below(NODES);
                    world.net.unreachable(node, true);
                    away = Some(node);
                }
                world.pump();
            }
            _ => world.pass([MS / 10, 2 * MS, 60 * MS, 400 * MS][below(4)]),
        }
        world.exclude_each_other();
    }
    if let Some(node) = away {
        world.net.unreachable(node, false);
    }
    world.serve_all();
}

#[test]
fn whatever_happens_no_slot_has_two_holders_and_all_have_their_turn() {
    for seed in 0..effort(30, 300) {
        at_random(3, seed);
    }
}
