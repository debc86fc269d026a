//! Stories of programs that take turns with the permits of one name: a program with many callers leaves some to others.

use super::*;
use crate::engine::tests::programs::{Call, Programs};

/// A program whose callers come back all the time. Each holds a permit for `hold`.
struct Loops {
    world: Programs,
    calls: Vec<Call>,
    permits: u16,
    hold: Duration,
}

impl Loops {
    /// The first program has this number of callers, and the second has one.
    fn new(callers: usize, permits: u16, hold: Duration) -> Self {
        let mut world = Programs::new(2);
        let calls = (0..callers).map(|_| world.takes(0, permits)).collect();
        world.pass(MS);
        Self {
            world,
            calls,
            permits,
            hold,
        }
    }

    /// All callers that have a permit give it back, and call again in the same turn of their program.
    fn turn(&mut self) {
        self.world.pass(self.hold);
        let now = self.world.net.now;
        let options = patient();
        let request = Request::permit(b"k", self.permits, &options);
        for call in &mut self.calls {
            if let Some(lock) = self.world.locks.remove(call) {
                let engine = &mut self.world.net.clients[0].engine;
                engine.give_back(now, lock);
                call.1 = engine.acquire(now, &request).expect("valid");
            }
        }
        self.world.pump();
        self.world.exclude_each_other();
    }

    /// Returns how often the first program's callers have come back before the second program's caller has a permit.
    fn until_another_has_one(&mut self) -> usize {
        let other = self.world.takes(1, self.permits);
        for turns in 0..10_000 {
            if self.world.has(other) {
                self.turn();
                self.world.gives_back(other);
                return turns;
            }
            self.turn();
        }
        panic!("it waits for ever");
    }
}

/// The callers of the first program have all permits, perhaps for longer than a row is remembered. The next of them
/// waits right behind each release.
#[test]
fn many_callers_of_one_program_leave_a_permit_to_another_program_after_a_row() {
    for permits in [1, 2, 4] {
        for (hold, most, then) in [
            (MS, 110, 110),
            (10 * MS, 12, 3),
            (200 * MS, 2, 2),
            (2 * SECOND, 2, 2),
        ] {
            let mut loops = Loops::new(2 * permits as usize + 1, permits, hold);
            let turns = loops.until_another_has_one();
            assert!(turns <= most, "{turns} of {hold:?}, {permits} permits");
            let turns = loops.until_another_has_one();
            assert!(turns <= then, "{turns} of {hold:?}, {permits} permits");
            loops.world.serve_all();
        }
    }
}

/// Each of them finds a free permit when it comes back, because the other program does not know yet that it is free.
#[test]
fn one_that_comes_back_again_and_again_leaves_its_permit_to_another_program() {
    let mut loops = Loops::new(1, 1, 10 * MS);
    let turns = loops.until_another_has_one();
    assert!(turns <= 101, "{turns}");
    let turns = loops.until_another_has_one();
    assert!(turns <= 1, "it has met another, but {turns}");
    loops.world.serve_all();
}

/// A program alone has no reason to leave anything to others more often than once in a hundred milliseconds.
#[test]
fn a_program_that_has_met_nobody_hardly_ever_rests() {
    for permits in [1, 3] {
        let mut loops = Loops::new(8, permits, MS);
        let mut idle = 0;
        for _ in 0..300 {
            loops.turn();
            idle += permits as usize - loops.world.locks.len();
        }
        assert!(idle <= 6 * permits as usize, "{idle} of {permits}");
        loops.world.serve_all();
    }
}

/// The same holds for locks. A row is forgotten a second after its last release, but not while callers wait for one
/// another.
#[test]
fn many_callers_of_one_program_leave_a_lock_that_each_holds_for_long_to_another_program() {
    for shared in [false, true] {
        let mut world = Programs::new(2);
        for _ in 0..8 {
            world.calls(0, false, &patient());
        }
        let other = world.calls(1, shared, &patient());
        let mut turns = 0;
        while !world.has(other) {
            world.pass(2 * SECOND);
            let call = *world.locks.keys().next().expect("held");
            world.gives_back(call);
            world.pass(2 * MS);
            turns += 1;
        }
        assert!(turns <= 2, "{turns}");
        world.serve_all();
    }
}
