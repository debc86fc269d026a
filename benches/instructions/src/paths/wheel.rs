//! The timer wheel with few timers and with a million.
//!
//! The counts hardly differ, because no operation depends on how many timers are armed. The time
//! does, because of cache misses.

use std::hint::black_box;

use shearline::Instant;
use shearline::internals::{TimerKey, Wheel};

use super::{Path, Play};
use crate::callgrind::counted;
use crate::random::Random;

pub(super) const PATHS: [Path; 6] = [
    path("wheel insert, 64 armed", 200, || insert(FEW)),
    path("wheel cancel, 64 armed", 200, || cancel(FEW)),
    path("wheel fire, 64 armed", 100, || fire(FEW)),
    path("wheel insert, 1,000,000 armed", 200, || insert(MANY)),
    path("wheel cancel, 1,000,000 armed", 200, || cancel(MANY)),
    path("wheel fire, 1,000,000 armed", 1, || fire(MANY)),
];

const FEW: u64 = 64;
const MANY: u64 = 1_000_000;

/// The longest time for which timers are armed.
const SPAN_MILLIS: u64 = 60_000;

/// The width of a slot of the third level. The timers in it move down all at once, so only a longer
/// time shows the cost of firing.
const SLOT_MILLIS: u64 = 4_096;

const fn path(name: &'static str, repetitions: u64, prepare: fn() -> Play) -> Path {
    Path {
        name,
        repetitions,
        prepare,
    }
}

/// A wheel, its armed timers, and the deadlines to come.
struct Timers {
    wheel: Wheel<u64>,
    random: Random,
    now: u64,
}

impl Timers {
    fn new(armed: u64) -> Self {
        let mut timers = Self {
            wheel: Wheel::new(Instant::ZERO),
            random: Random::new(),
            now: 0,
        };
        timers.fill(armed);
        timers
    }

    fn fill(&mut self, armed: u64) {
        while (self.wheel.len() as u64) < armed {
            let at = self.deadline();
            self.wheel.insert(at, 7);
        }
    }

    /// Returns a deadline, exact to the nanosecond, as real ones are.
    fn deadline(&mut self) -> Instant {
        Instant::from_nanos(self.now * 1_000_000 + 1 + self.random.below(SPAN_MILLIS * 1_000_000))
    }

    fn deadlines(&mut self, count: u64) -> Vec<Instant> {
        (0..count).map(|_| self.deadline()).collect()
    }
}

fn insert(armed: u64) -> Play {
    let mut timers = Timers::new(armed);
    let mut keys: Vec<TimerKey> = Vec::with_capacity(1_000);
    Box::new(move |repetitions| {
        let deadlines = timers.deadlines(repetitions);
        counted(|| {
            for at in &deadlines {
                keys.push(timers.wheel.insert(*at, 7));
            }
        });
        for key in keys.drain(..) {
            timers.wheel.cancel(key);
        }
        repetitions
    })
}

fn cancel(armed: u64) -> Play {
    let mut timers = Timers::new(armed);
    Box::new(move |repetitions| {
        let deadlines = timers.deadlines(repetitions);
        let arm = |at: &Instant| timers.wheel.insert(*at, 7);
        let keys: Vec<TimerKey> = deadlines.iter().map(arm).collect();
        counted(|| {
            for key in &keys {
                black_box(timers.wheel.cancel(*key));
            }
        });
        repetitions
    })
}

/// Lets slots pass, as for a thread that sleeps until it is woken. Timers that have fired are armed again before the
/// next slot.
fn fire(armed: u64) -> Play {
    let mut timers = Timers::new(armed);
    Box::new(move |slots| {
        let mut fired = 0;
        for _ in 0..slots {
            timers.now += SLOT_MILLIS;
            let end = Instant::from_millis(timers.now);
            let wheel = &mut timers.wheel;
            fired += counted(|| expire_until(wheel, end));
            timers.fill(armed);
        }
        fired
    })
}

fn expire_until(wheel: &mut Wheel<u64>, end: Instant) -> u64 {
    let mut fired = 0;
    while let Some((at, _)) = wheel.next() {
        if end < at {
            break;
        }
        while wheel.expire(at).is_some() {
            fired += 1;
        }
    }
    fired
}
