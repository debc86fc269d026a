//! Stories of programs on the same three nodes: readers, callers that want the exclusive lock, and foreign clients.

use super::*;
use crate::effort::effort;
use crate::embedded::Memory;
use crate::engine::tests::fencing::stores::trust;
use crate::engine::tests::net::builder;
use crate::engine::tests::programs::{Call, NODES, Programs};

impl Programs {
    fn reads(&mut self, program: usize) -> Call {
        self.calls(program, true, &patient())
    }

    fn writes(&mut self, program: usize) -> Call {
        self.calls(program, false, &patient())
    }

    fn have(&self, calls: &[Call]) -> bool {
        calls.iter().all(|call| self.has(*call))
    }

    /// Returns the fencing token of a lock that is held.
    fn number(&self, call: Call) -> u64 {
        self.locks[&call].fencing_token().expect("a number")
    }
}

// ----- who keeps whom out ---------------------------------------------------------------------

#[test]
fn readers_of_any_programs_hold_at_once_and_each_release_leaves_the_others() {
    let mut world = Programs::new(3);
    let readers = [0, 0, 1].map(|program| world.reads(program));
    assert!(world.have(&readers));
    let writer = world.writes(2);
    for reader in readers {
        assert!(!world.has(writer));
        world.gives_back(reader);
        world.exclude_each_other();
    }
    world.pass(MS);
    assert!(world.has(writer), "it was told");
    let reader = world.reads(0);
    world.pass(SECOND);
    assert!(!world.has(reader));
    world.gives_back(writer);
    world.pass(MS);
    assert!(world.has(reader), "it was told, too");
    world.serve_all();
}

#[test]
fn foreign_clients_keep_holders_out_and_are_kept_out() {
    for one in SEVERAL {
        let mut world = Programs::new(2);
        for call in world.both_hold(one, &patient()) {
            assert!(!world.foreign_takes());
            world.gives_back(call);
        }
        assert!(world.foreign_takes());
        let once = world.asks(0, &one(&once()));
        world.refusal(once);
        let waits = world.asks(0, &one(&patient()));
        world.pass(999 * MS);
        assert!(!world.has(waits));
        world.pass(6 * MS);
        assert!(world.has(waits), "the foreign key has ended");
        world.serve_all();
    }
}

#[test]
fn a_lock_that_becomes_shared_keeps_others_out_all_the_time_and_lets_readers_in() {
    let mut world = Programs::new(3);
    let first = world.writes(0);
    let reader = world.reads(1);
    let writer = world.writes(2);
    world.pass(MS);
    world.downgrades(first);
    assert!(!world.foreign_takes());
    world.pass(2 * MS);
    assert!(world.has(reader) && !world.has(writer));
    world.exclude_each_other();
    world.gives_back(first);
    world.gives_back(reader);
    world.pass(2 * MS);
    assert!(world.has(writer));
    world.serve_all();
}

/// One node is away while the lock becomes a shared one, so it keeps the exclusive key. It is asked later.
#[test]
fn a_node_that_missed_the_downgrade_is_turned_by_the_next_question_or_by_the_release() {
    for extends in [false, true] {
        let mut world = Programs::new(2);
        let first = world.writes(0);
        world.net.unreachable(2, true);
        world.downgrades(first);
        world.net.unreachable(2, false);
        world.pass(SECOND);
        assert!(world.net.value(0, b"k").is_none(), "a set");
        assert!(world.net.value(2, b"k").is_some(), "the token alone");
        if extends {
            let lock = &world.locks[&first];
            let begun = world.net.clients[0].engine.extend(world.net.now, lock, TTL);
            assert!(begun.is_ok());
            world.pump();
            assert!(world.net.value(2, b"k").is_none());
        }
        world.gives_back(first);
        let writer = world.writes(1);
        assert!(world.has(writer), "nothing is left on any node");
        world.serve_all();
    }
}

// ----- neither side starves -------------------------------------------------------------------

/// One reader holds for 30 s, and a caller of the exclusive lock waits for it. Other readers come all the time.
#[test]
fn readers_pass_together_by_a_caller_that_waits_for_a_lock_that_is_held_for_long() {
    let mut world = Programs::new(3);
    let long = world.calls(0, true, &LockOptions::new(TTL).keep());
    let (writer, began) = (world.writes(1), world.net.now);
    world.pass(400 * MS);
    let age = |world: &Programs| world.net.now.saturating_since(began);
    let (mut waits, mut passed) = (Vec::new(), Vec::new());
    while age(&world) < 30 * SECOND {
        waits.push(world.reads(2));
        world.pass(100 * MS);
        let (granted, others) = waits.into_iter().partition(|call| world.has(*call));
        waits = others;
        for call in Vec::into_iter(granted) {
            passed.push(world.granted[&call].saturating_since(began));
            world.gives_back(call);
        }
    }
    assert!(!world.has(writer));
    // The intent began between 250 and 300 ms, and asking takes two milliseconds.
    let windows = [2_200, 4_400, 8_800, 17_600].map(|at| (at + 250) * MS..=(at + 552) * MS);
    for window in &windows {
        assert!(passed.iter().any(|at| window.contains(at)), "{passed:?}");
    }
    let is_within = |at: &Duration| windows.iter().any(|window| window.contains(at));
    assert!(passed.iter().all(is_within), "{passed:?}");
    world.gives_back(long);
    world.pass(MS);
    assert!(world.has(writer));
    world.serve_all();
}

/// Each reader holds for two seconds, and others come all the time. Some of them belong to the program of the caller
/// that wants the exclusive lock.
#[test]
fn readers_who_hold_for_two_seconds_let_a_caller_of_the_exclusive_lock_in_and_wait_no_longer() {
    let mut world = Programs::new(4);
    let (mut readers, mut writers) = (Vec::new(), Vec::new());
    let mut longest = [Duration::ZERO; 2];
    for turn in 0..300 {
        readers.push((world.reads(turn % 4), world.net.now));
        if turn % 40 == 10 {
            writers.push((world.writes(3), world.net.now));
        }
        for _ in 0..3 {
            world.pass(100 * MS);
            world.exclude_each_other();
            let now = world.net.now;
            for (kind, hold, calls) in [(0, 2 * SECOND, &mut readers), (1, MS, &mut writers)] {
                for (call, since) in core::mem::take(calls) {
                    let granted = world.granted.get(&call).copied();
                    let wait = granted.unwrap_or(now).saturating_since(since);
                    longest[kind] = longest[kind].max(wait);
                    match granted {
                        Some(at) if hold <= now.saturating_since(at) => world.gives_back(call),
                        _ => calls.push((call, since)),
                    }
                }
            }
        }
    }
    let in_time = longest.iter().all(|wait| *wait <= 2_500 * MS);
    assert!(in_time, "{longest:?}");
    world.serve_all();
}

/// The caller that wants the exclusive lock belongs to the same program, and is before the reader in the queue.
#[test]
fn readers_pass_by_a_caller_of_their_own_program_that_waits_for_others() {
    let mut world = Programs::new(2);
    let long = world.reads(0);
    let (writer, began) = (world.writes(1), world.net.now);
    world.pass(2 * SECOND);
    let readers = [(); 2].map(|()| world.reads(1));
    let short = LockOptions::new(TTL).wait(400 * MS);
    let short = world.calls(1, true, &short);
    world.pass(449 * MS);
    assert!(!readers.iter().any(|reader| world.has(*reader)));
    world.refusal(short);
    world.pass(51 * MS);
    let late = world.reads(1);
    world.pass(2 * MS);
    for reader in [readers[0], readers[1], late] {
        let at = world.granted[&reader].saturating_since(began);
        assert!((2_450 * MS..=2_502 * MS).contains(&at), "{at:?}");
        assert!(!world.has(writer));
        world.gives_back(reader);
    }
    // Readers do not pass a lock that is exclusive.
    world.gives_back(long);
    world.pass(MS);
    assert!(world.has(writer));
    let reader = world.reads(1);
    world.pass(5 * SECOND);
    assert!(!world.has(reader));
    world.serve_all();
}

#[test]
fn the_intent_of_a_caller_that_has_gone_ends_by_itself() {
    let mut world = Programs::new(3);
    let long = world.reads(0);
    let writer = world.writes(1);
    world.pass(2 * SECOND);
    world.cancel(writer);
    let reader = world.reads(2);
    assert!(!world.has(reader));
    world.pass(850 * MS); // This is 600 ms and a random delay.
    assert!(world.has(reader));
    world.gives_back(long);
    world.serve_all();
}

// ----- holding --------------------------------------------------------------------------------

type One = fn(&LockOptions) -> Request<'_>;

/// The locks that several callers may hold at once: the shared lock, or one of two permits.
const SEVERAL: [One; 2] = [
    |options| Request::shared(b"k", options),
    |options| Request::permit(b"k", 2, options),
];

impl Programs {
    /// Makes two programs, each of which has one of `SEVERAL`.
    fn both_hold(&mut self, one: One, options: &LockOptions) -> Vec<Call> {
        let calls = [0, 1].map(|program| self.asks(program, &one(options)));
        assert!(self.have(&calls));
        calls.to_vec()
    }

    fn are_valid(&self, calls: &[Call]) -> bool {
        let mut locks = calls.iter().map(|call| &self.locks[call]);
        locks.all(|lock| lock.is_valid_at(self.net.now))
    }

    /// Returns on how many nodes each lock is known to be.
    fn copies(&self, calls: &[Call]) -> Vec<usize> {
        let count = |call: &Call| {
            let engine = &self.net.clients[call.0].engine;
            engine.confirmed_by(self.net.now, &self.locks[call]).len()
        };
        calls.iter().map(count).collect()
    }

    /// Asserts that one try finds too few nodes that may vote.
    fn has_no_quorum(&mut self, request: &Request<'_>) {
        let call = self.asks(1, request);
        let refused = self.refused.remove(&call).expect("it is refused");
        assert_matches!(refused, LockError::NoQuorum(_) | LockError::OtherGroup(_));
    }
}

#[test]
fn kept_holders_last_and_are_lost_when_their_keys_are_deleted() {
    for one in SEVERAL {
        let mut world = Programs::new(2);
        let calls = world.both_hold(one, &LockOptions::new(TTL).keep());
        world.pass(60 * SECOND);
        assert!(world.are_valid(&calls));
        assert_eq!(world.lost, 0);
        (0..2).for_each(|node| world.net.admin(node, "DEL k"));
        world.pass(SECOND);
        assert_eq!(world.lost, 2, "both were told");
        assert!(!calls.iter().any(|call| world.are_valid(&[*call])));
        world.serve_all();
    }
}

/// The first extension finds that the node lacks the member, and the second sends a copy.
#[test]
fn a_node_that_has_lost_its_data_or_was_away_gets_the_members_of_kept_holders() {
    let cases = SEVERAL.map(|one| [(one, false), (one, true)]);
    for (one, is_away) in cases.into_iter().flatten() {
        let mut world = Programs::new(2);
        world.net.unreachable(2, is_away);
        let calls = world.both_hold(one, &LockOptions::new(TTL).keep());
        if is_away {
            world.net.unreachable(2, false);
        } else {
            world.net.restart(2, Memory::Lost);
            world.pass(SECOND);
            let copies = world.copies(&calls);
            assert_eq!(copies, [2, 2], "in quarantine it does not count");
            world.pass(42 * SECOND);
        }
        world.pass(20 * SECOND);
        assert_eq!(world.copies(&calls), [3, 3], "it has them");
        world.net.unreachable(0, true);
        world.pass(20 * SECOND);
        assert!(world.are_valid(&calls));
        assert_eq!(world.lost, 0);
        world.net.unreachable(0, false);
        world.serve_all();
    }
}

#[test]
fn nodes_that_may_have_forgotten_holders_do_not_vote() {
    for one in SEVERAL {
        let mut world = Programs::new(2);
        let first = world.asks(0, &one(&patient()));
        (0..2).for_each(|node| world.net.restart(node, Memory::Lost));
        world.has_no_quorum(&Request::new(b"k", &once()));
        world.has_no_quorum(&one(&once()));
        world.exclude_each_other();
        world.gives_back(first);
    }
}

#[test]
fn a_strict_guard_checks_the_marker_for_holders_too() {
    for one in SEVERAL {
        let mut world = Programs::with(2, || builder(NODES));
        world.pass(62 * SECOND); // The barriers of new nodes end.
        world.both_hold(one, &patient());
        (0..2).for_each(|node| world.net.mark_as_anothers(node));
        world.has_no_quorum(&one(&once()));
    }
}

#[test]
fn a_shared_lock_is_confirmed_handed_over_and_released_elsewhere() {
    let mut world = Programs::new(2);
    let reader = world.reads(0);
    let lock = world.locks.remove(&reader).expect("held");
    let now = world.net.now;
    let lock = world.engine(0).detach(now, lock);
    let mut lock = world.engine(1).adopt(now, lock);
    world.pump();
    world.net.confirm(1, &mut lock).expect("it is held");
    assert!(!world.foreign_takes());
    world.engine(1).give_back(now, lock);
    world.pump();
    assert!(world.foreign_takes());
    world.pass(2 * SECOND);
    world.serve_all();
}

// ----- fencing tokens -------------------------------------------------------------------------

/// The number of a reader is larger than the number of each earlier exclusive lock.
#[test]
fn readers_get_numbers_as_exclusive_locks_do_and_a_downgrade_keeps_the_number() {
    let mut world = Programs::new(2);
    trust(&mut world.net, 0);
    let fenced = patient().fenced();
    let first = world.calls(0, false, &fenced);
    let before = world.number(first);
    world.downgrades(first);
    assert_eq!(world.number(first), before);
    let readers = [0, 1].map(|program| world.calls(program, true, &fenced));
    let numbers = readers.map(|reader| world.number(reader));
    assert!(numbers.iter().all(|number| before < *number), "{numbers:?}");
    assert_ne!(numbers[0], numbers[1]);
    for call in [first, readers[0], readers[1]] {
        world.gives_back(call);
    }
    let last = world.calls(1, false, &fenced);
    assert!(numbers.iter().all(|it| *it < world.number(last)));
    world.gives_back(last);
}

/// Each node that votes has a counter of its own, so the nodes are asked to raise their counters.
#[test]
fn readers_whose_numbers_differ_are_raised_to_the_largest() {
    let mut world = Programs::new(2);
    trust(&mut world.net, 0);
    let fenced = patient().fenced();
    world.net.unreachable(0, true);
    for _ in 0..5 {
        let lock = world.calls(0, false, &fenced);
        world.gives_back(lock);
    }
    world.net.unreachable(0, false);
    world.pass(SECOND);
    world.net.unreachable(2, true);
    // This program has seen none of the numbers.
    let before = world.calls(1, true, &fenced);
    let stats = world.net.clients[1].engine.stats();
    let after = world.calls(0, true, &fenced);
    assert!(world.number(before) < world.number(after));
    assert_eq!(stats.second_round_trips, 1);
    world.gives_back(before);
    world.gives_back(after);
}

// ----- at random ------------------------------------------------------------------------------

#[test]
fn whatever_happens_no_reader_stands_beside_an_exclusive_lock_and_all_have_their_turn() {
    for seed in 0..effort(30, 300) {
        Programs::new(3).at_random(seed, false, |world, program, options, below| {
            world.calls(program, below(3) != 0, options)
        });
    }
}

// ----- a name that has permits too ------------------------------------------------------------

/// The number of permits that an earlier call, or one behind it, has named does not apply to readers and callers of the
/// exclusive lock.
#[test]
fn readers_of_a_name_that_had_permits_hold_at_once_and_let_others_in() {
    for permit_waits in [false, true] {
        let mut world = Programs::new(1);
        let permit = world.asks(0, &Request::permit(b"k", 1, &patient()));
        world.gives_back(permit);
        let first = world.writes(0);
        let readers = [(); 3].map(|()| world.reads(0));
        let writer = world.writes(0);
        if permit_waits {
            let permit = world.asks(0, &Request::permit(b"k", 1, &patient()));
            assert!(!world.has(permit));
        }
        world.gives_back(first);
        world.pass(MS);
        assert!(world.have(&readers));
        let late = world.reads(0);
        world.pass(MS);
        assert!(!world.has(late), "the writer stands before it");
        for reader in readers {
            world.gives_back(reader);
        }
        world.pass(MS);
        assert!(world.has(writer));
        world.serve_all();
    }
}
