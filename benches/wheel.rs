//! The timer wheel beside a `BTreeMap`, in one run.
//!
//! * `pair`: arm a timer and cancel it, like a node timeout whose answer came.
//! * `churn`: cancel one of all that are armed, by chance, and arm another. The cache misses show.
//! * `fill_fire`: arm all, then let a minute pass, millisecond by millisecond, until all have fired.
//!
//! Deadlines are spread evenly over a minute.
//!
//! Absolute times mean nothing on a shared machine. Compare within one run.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use shearline::Instant;
use shearline::internals::{TimerKey, Wheel};

/// Few, so that all is in the first cache, and many, so that nothing is. As tests, without
/// optimisation, many would take long and show nothing.
const ARMED: [usize; 2] = [
    64,
    if cfg!(debug_assertions) {
        10_000
    } else {
        1_000_000
    },
];

/// How long timers are armed for at most, in milliseconds.
const SPAN: u64 = 60_000;

/// What both can do.
trait Timers {
    const NAME: &'static str;
    type Key: Copy;

    fn new() -> Self;
    fn arm(&mut self, at: Instant, value: u64) -> Self::Key;
    fn cancel(&mut self, key: Self::Key) -> Option<u64>;
    fn fire(&mut self, now: Instant) -> Option<u64>;
}

impl Timers for Wheel<u64> {
    const NAME: &'static str = "wheel";
    type Key = TimerKey;

    fn new() -> Self {
        Self::new(Instant::ZERO)
    }

    fn arm(&mut self, at: Instant, value: u64) -> TimerKey {
        self.insert(at, value)
    }

    fn cancel(&mut self, key: TimerKey) -> Option<u64> {
        self.cancel(key)
    }

    fn fire(&mut self, now: Instant) -> Option<u64> {
        self.expire(now)
    }
}

/// By time, then by order of arming.
struct Sorted {
    armed: BTreeMap<(Instant, u64), u64>,
    count: u64,
}

impl Timers for Sorted {
    const NAME: &'static str = "BTreeMap";
    type Key = (Instant, u64);

    fn new() -> Self {
        Self {
            armed: BTreeMap::new(),
            count: 0,
        }
    }

    fn arm(&mut self, at: Instant, value: u64) -> Self::Key {
        self.count += 1;
        let key = (at, self.count);
        self.armed.insert(key, value);
        key
    }

    fn cancel(&mut self, key: Self::Key) -> Option<u64> {
        self.armed.remove(&key)
    }

    fn fire(&mut self, now: Instant) -> Option<u64> {
        let first = self.armed.first_entry()?;
        if now < first.key().0 {
            None
        } else {
            Some(first.remove())
        }
    }
}

/// xorshift64*: the same deadlines and choices for all, at the cost of a nanosecond.
struct Chance(u64);

impl Chance {
    fn new() -> Self {
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

fn filled<T: Timers>(armed: usize, chance: &mut Chance) -> (T, Vec<T::Key>) {
    let mut timers = T::new();
    let keys = (0..armed as u64)
        .map(|value| timers.arm(chance.deadline(), value))
        .collect();
    (timers, keys)
}

fn pair<T: Timers>(criterion: &mut Criterion, armed: usize) {
    let mut chance = Chance::new();
    let (mut timers, _keys) = filled::<T>(armed, &mut chance);
    criterion
        .benchmark_group("pair")
        .bench_function(BenchmarkId::new(T::NAME, armed), |bencher| {
            bencher.iter(|| {
                let key = timers.arm(chance.deadline(), 7);
                black_box(timers.cancel(black_box(key)))
            });
        });
}

fn churn<T: Timers>(criterion: &mut Criterion, armed: usize) {
    let mut chance = Chance::new();
    let (mut timers, mut keys) = filled::<T>(armed, &mut chance);
    criterion.benchmark_group("churn").bench_function(
        BenchmarkId::new(T::NAME, armed),
        |bencher| {
            bencher.iter(|| {
                let key = &mut keys[chance.below(armed as u64) as usize];
                let value = timers.cancel(*key);
                *key = timers.arm(chance.deadline(), 7);
                black_box(value)
            });
        },
    );
}

fn fill_fire<T: Timers>(criterion: &mut Criterion, armed: usize) {
    let mut group = criterion.benchmark_group("fill_fire");
    group
        .sample_size(10)
        .throughput(Throughput::Elements(armed as u64));
    group.bench_function(BenchmarkId::new(T::NAME, armed), |bencher| {
        bencher.iter(|| {
            let (mut timers, _keys) = filled::<T>(armed, &mut Chance::new());
            let mut fired = 0;
            for millis in 0..=SPAN + 1 {
                while timers.fire(Instant::from_millis(millis)).is_some() {
                    fired += 1;
                }
            }
            assert_eq!(fired, armed);
        });
    });
}

fn wheel(criterion: &mut Criterion) {
    for armed in ARMED {
        pair::<Wheel<u64>>(criterion, armed);
        pair::<Sorted>(criterion, armed);
        churn::<Wheel<u64>>(criterion, armed);
        churn::<Sorted>(criterion, armed);
        fill_fire::<Wheel<u64>>(criterion, armed);
        fill_fire::<Sorted>(criterion, armed);
    }
}

criterion_group!(benches, wheel);
criterion_main!(benches);
