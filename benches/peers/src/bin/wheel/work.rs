//! The operations on timers, the same for all contestants.

use std::hint::black_box;

use shearline::Instant;
use shearline_peers::allocations::kept;
use shearline_peers::measure::Contestant;

use crate::timers::Timers;

/// How long timers are armed for at most, in milliseconds.
const SPAN: u64 = 60_000;

/// xorshift64*: the same deadlines and choices for all, at the cost of a nanosecond.
#[derive(Debug)]
struct Chance(u64);

impl Chance {
    const fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d);
        ((u128::from(number) * u128::from(bound)) >> 64) as u64
    }

    /// To the nanosecond, as real deadlines are, and never at once.
    fn deadline(&mut self) -> Instant {
        Instant::from_nanos(1 + self.below(SPAN * 1_000_000))
    }
}

/// So many operations are done before the clock is read.
const BATCH: u64 = 1_000;

fn filled<T: Timers>(armed: usize, chance: &mut Chance) -> (T, Vec<T::Key>) {
    let mut timers = T::new();
    let keys = (0..armed as u64)
        .map(|value| timers.arm(chance.deadline(), value))
        .collect();
    (timers, keys)
}

/// Arms a timer and cancels it, as a node timeout that its answer overtakes.
pub(crate) fn pair<T: Timers + 'static>(armed: usize) -> Contestant<'static> {
    let mut chance = Chance::new();
    let (mut timers, _) = filled::<T>(armed, &mut chance);
    Contestant::new(BATCH, move || {
        for _ in 0..BATCH {
            let key = timers.arm(chance.deadline(), 7);
            assert!(timers.cancel(black_box(key)));
        }
        Ok(BATCH)
    })
}

/// Cancels a timer and arms another, all in turn, in an order that is independent of when they were
/// armed or are due. The keys are read one after another: cache misses are those of the timers' own
/// memory.
pub(crate) fn churn<T: Timers + 'static>(armed: usize) -> Contestant<'static> {
    let mut chance = Chance::new();
    let (mut timers, mut keys) = filled::<T>(armed, &mut chance);
    for index in (1..keys.len()).rev() {
        let other = chance.below(index as u64 + 1);
        keys.swap(index, other as usize);
    }
    let mut next = 0;
    Contestant::new(BATCH, move || {
        for _ in 0..BATCH {
            let key = &mut keys[next];
            assert!(timers.cancel(*key));
            *key = timers.arm(chance.deadline(), 7);
            next = if next + 1 == armed { 0 } else { next + 1 };
        }
        Ok(BATCH)
    })
}

/// Arms all, then sleeps until all have fired. The time is that for one timer.
pub(crate) fn fill_fire<T: Timers + 'static>(armed: usize) -> Contestant<'static> {
    Contestant::new(armed as u64, move || {
        let (mut timers, keys) = filled::<T>(armed, &mut Chance::new());
        black_box(keys);
        Ok(timers.fire_all())
    })
}

/// The same without the arming, with so many cancelled before for each that is armed.
pub(crate) fn fire<T: Timers + 'static>(armed: usize, dead: usize) -> Contestant<'static> {
    Contestant::prepared(
        armed as u64,
        move || with_dead::<T>(armed, dead),
        |mut timers| Ok(timers.fire_all()),
    )
}

/// How many bytes one timer takes, with so many cancelled before for each.
pub(crate) fn bytes<T: Timers>(armed: usize, dead: usize) -> f64 {
    let (timers, bytes) = kept(|| with_dead::<T>(armed, dead));
    drop(timers);
    bytes as f64 / armed as f64
}

fn with_dead<T: Timers>(armed: usize, dead: usize) -> T {
    let mut chance = Chance::new();
    let (mut timers, keys) = filled::<T>(armed, &mut chance);
    drop(keys);
    for _ in 0..armed * dead {
        let key = timers.arm(chance.deadline(), 7);
        assert!(timers.cancel(key));
    }
    timers
}
