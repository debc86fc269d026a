//! The repeated and timed cycle: take a lock, perhaps extend it, and release it.
//!
//! A [`Client`] runs cycles, alone or with many callers at once, and records in a [`Log`] how long
//! each took. [`Caller`] and [`Futures`] are the interfaces of a library for that.

use std::fmt;
use std::future::Future;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::Failure;

/// The ttl of all locks. No lock of these comparisons is held for this long.
pub const TTL: Duration = Duration::from_secs(10);

/// A part of a cycle.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Span {
    /// From the first byte of the acquisition to the outcome of the release.
    Cycle,
    /// Until the lock is granted.
    Acquire,
    /// Until the lock is extended.
    Extend,
    /// Until the release is confirmed.
    Release,
}

impl Span {
    /// All parts, each at its own place.
    pub const ALL: [Self; 4] = [Self::Cycle, Self::Acquire, Self::Extend, Self::Release];
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cycle => "cycle",
            Self::Acquire => "acquire",
            Self::Extend => "extend",
            Self::Release => "release",
        })
    }
}

/// The time to stop. A cycle that has begun is always finished.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// Stop at this time.
    Time(Instant),
    /// Stop after this many cycles of all callers together.
    Cycles(u64),
}

impl Until {
    /// Returns the share of one of this many callers.
    #[must_use]
    pub const fn share(self, callers: u64) -> Self {
        match self {
            Self::Time(time) => Self::Time(time),
            Self::Cycles(cycles) => Self::Cycles(cycles.div_ceil(callers)),
        }
    }

    /// Returns `true` if it is time to stop after this many cycles.
    #[must_use]
    pub fn reached(self, now: Instant, cycles: u64) -> bool {
        match self {
            Self::Time(time) => time <= now,
            Self::Cycles(enough) => enough <= cycles,
        }
    }
}

/// How long each part of each cycle took, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Log {
    spans: [Vec<u32>; Span::ALL.len()],
}

impl Log {
    /// Makes a log with room for this many cycles, so that recording them allocates nothing.
    #[must_use]
    pub fn with_capacity(cycles: usize) -> Self {
        Self {
            spans: [(); Span::ALL.len()].map(|()| Vec::with_capacity(cycles)),
        }
    }

    /// Records a cycle with the times of its parts.
    pub fn note(&mut self, begun: Instant, acquired: Instant, extended: Instant, end: Instant) {
        let mut push = |span: Span, from: Instant, to: Instant| {
            let nanos = (to - from).as_nanos();
            // A part of four seconds or more is recorded as four seconds.
            self.spans[span as usize].push(u32::try_from(nanos).unwrap_or(u32::MAX));
        };
        push(Span::Cycle, begun, end);
        push(Span::Acquire, begun, acquired);
        push(Span::Extend, acquired, extended);
        push(Span::Release, extended, end);
    }

    /// Returns how many cycles there were.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        self.spans[0].len() as u64
    }

    /// Returns the times of one part, in any order.
    pub fn times(&mut self, span: Span) -> &mut [u32] {
        &mut self.spans[span as usize]
    }

    /// Removes all records but keeps the room.
    pub fn clear(&mut self) {
        self.spans.iter_mut().for_each(Vec::clear);
    }

    /// Adds the records of another log.
    pub fn merge(&mut self, other: &Self) {
        for (own, others) in self.spans.iter_mut().zip(&other.spans) {
            own.extend_from_slice(others);
        }
    }
}

/// A contestant that runs cycles.
pub trait Client {
    /// Runs cycles and records them.
    ///
    /// # Errors
    ///
    /// A lock was not granted, or was lost, although no other client wants it.
    fn run(&mut self, until: Until, log: &mut Log) -> Result<(), Failure>;

    /// Prepares the client, before the time begins.
    ///
    /// # Errors
    ///
    /// The client is not ready to run.
    fn prepare(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// Called at the end: lets open work finish, so that the next contestant does not pay for it.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    fn settle(&mut self) -> Result<(), Failure> {
        std::thread::sleep(PAUSE);
        Ok(())
    }
}

/// A pause that is long enough for a late answer.
pub const PAUSE: Duration = Duration::from_millis(2);

/// Blocking calls for one lock.
pub trait Caller {
    /// The lock that is held.
    type Lock;

    /// Takes the lock.
    ///
    /// # Errors
    ///
    /// The lock was not granted.
    fn acquire(&mut self) -> Result<Self::Lock, Failure>;

    /// Releases the lock, and waits until it is known to be free.
    ///
    /// # Errors
    ///
    /// The lock was lost meanwhile.
    fn release(&mut self, lock: Self::Lock) -> Result<(), Failure>;

    /// Lets open work finish.
    ///
    /// # Errors
    ///
    /// That of the library.
    fn settle(&mut self) -> Result<(), Failure> {
        std::thread::sleep(PAUSE);
        Ok(())
    }
}

/// Futures for one lock.
pub trait Futures: Clone + Send + Sync + 'static {
    /// The lock that is held.
    type Lock: Send;

    /// Returns the same client for a lock with another name.
    #[must_use]
    fn named(&self, name: &str) -> Self;

    /// Takes the lock.
    fn acquire(&self) -> impl Future<Output = Result<Self::Lock, Failure>> + Send;

    /// Releases the lock.
    fn release(&self, lock: Self::Lock) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Runs cycles of blocking calls, one after the other.
///
/// # Errors
///
/// That of the caller.
pub fn run_calls(caller: &mut impl Caller, until: Until, log: &mut Log) -> Result<(), Failure> {
    let before = log.cycles();
    let mut now = now();
    while !until.reached(now, log.cycles() - before) {
        let begun = now;
        let lock = caller.acquire()?;
        let acquired = self::now();
        caller.release(lock)?;
        now = self::now();
        log.note(begun, acquired, acquired, now);
    }
    Ok(())
}

/// Runs cycles of futures, one after the other.
///
/// # Errors
///
/// That of the caller.
pub async fn run_futures(
    caller: &impl Futures,
    until: Until,
    log: &mut Log,
) -> Result<(), Failure> {
    let before = log.cycles();
    let mut now = now();
    while !until.reached(now, log.cycles() - before) {
        let begun = now;
        let lock = caller.acquire().await?;
        let acquired = self::now();
        caller.release(lock).await?;
        now = self::now();
        log.note(begun, acquired, acquired, now);
    }
    Ok(())
}

/// Returns the processor time of all threads of this process, like `getrusage`, but finer.
#[must_use]
pub fn process_time() -> Duration {
    of_clock(ClockId::ProcessCPUTime)
}

/// Returns the time of this clock.
#[must_use]
pub fn of_clock(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the time.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "to read the clock is what a benchmark is for"
)]
pub fn now() -> Instant {
    Instant::now()
}
