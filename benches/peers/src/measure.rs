//! Interleaved rounds.
//!
//! A shared machine is faster in one moment and slower in the next. So contestants take turns of a
//! few milliseconds, in reversed order every second round, and only turns of the same round are
//! compared. Pure computations are measured by the processor time of their thread, or longer turns
//! would pay for other processes more often than short ones.
//!
//! Not here: what is measured. A turn is any work that says how long it took, such as the latency
//! of a lock ([`Contestant::timed`]).

use std::error::Error;
use std::fmt;
use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::allocations::{counted, uncounted};
use crate::cycle::now;
use crate::figure::{Figure, median};

/// Why something could not be measured.
pub type Failure = Box<dyn Error + Send + Sync>;

/// A contestant: work that can be repeated, in passes.
pub struct Contestant<'a> {
    units: f64,
    run: Box<dyn FnMut(u64) -> Result<Ran, Failure> + 'a>,
}

/// The result of some passes.
#[derive(Clone, Copy, Debug)]
pub struct Ran {
    /// How long they took together.
    pub time: Duration,
    /// The result of the last of them: the proof that the work was done.
    pub sum: u64,
}

impl fmt::Debug for Contestant<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contestant")
            .field("units", &self.units)
            .finish_non_exhaustive()
    }
}

impl<'a> Contestant<'a> {
    /// `pass` computes `units` of the compared work, and returns a sum that depends on all of them.
    /// The processor time of this thread counts.
    pub fn new(units: u64, mut pass: impl FnMut() -> Result<u64, Failure> + 'a) -> Self {
        Self::timed(units, move |passes| {
            let begin = thread_time();
            let mut sum = 0;
            for _ in 0..passes {
                sum = black_box(pass()?);
            }
            let time = thread_time() - begin;
            Ok(Ran { time, sum })
        })
    }

    /// As [`new`](Self::new), for work that uses something up. Neither the time nor the
    /// allocations of `prepare` count.
    pub fn prepared<T>(
        units: u64,
        mut prepare: impl FnMut() -> T + 'a,
        mut pass: impl FnMut(T) -> Result<u64, Failure> + 'a,
    ) -> Self {
        Self::timed(units, move |passes| {
            let mut ran = Ran {
                time: Duration::ZERO,
                sum: 0,
            };
            for _ in 0..passes {
                let prepared = uncounted(&mut prepare);
                let begin = thread_time();
                ran.sum = black_box(pass(prepared)?);
                ran.time += thread_time() - begin;
            }
            Ok(ran)
        })
    }

    /// Work that measures itself: `run` does so many passes and returns how long they took.
    pub fn timed(units: u64, run: impl FnMut(u64) -> Result<Ran, Failure> + 'a) -> Self {
        Self {
            units: units as f64,
            run: Box::new(run),
        }
    }

    /// Returns the result of one pass, and how often it allocates for each unit once it is warm.
    ///
    /// # Errors
    ///
    /// That of the pass.
    pub fn rehearse(&mut self) -> Result<(u64, f64), Failure> {
        (self.run)(1)?;
        let (ran, allocations) = counted(|| (self.run)(1));
        Ok((ran?.sum, allocations as f64 / self.units))
    }

    /// Returns how many passes fill `slot`: at least one. Also warms up.
    fn passes_in(&mut self, slot: Duration) -> Result<u64, Failure> {
        let mut passes = 1;
        loop {
            let time = (self.run)(passes)?.time;
            if time >= slot / 2 {
                let fitting = slot.as_secs_f64() / time.as_secs_f64() * passes as f64;
                return Ok((fitting as u64).max(1));
            }
            passes *= 2;
        }
    }
}

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// At least so many rounds.
    pub rounds: usize,
    /// And for at least so long.
    pub time: Duration,
    /// How long a turn is, unless a single pass takes longer.
    pub slot: Duration,
}

/// The times of all turns.
#[derive(Clone, Debug)]
pub struct Rounds {
    /// Nanoseconds for each unit, by contestant and round.
    nanos: Vec<Vec<f64>>,
}

/// Lets the contestants take turns. Reports to `progress` how many rounds are over.
///
/// # Errors
///
/// The first one that a contestant gives.
pub fn measure(
    plan: &Plan,
    contestants: &mut [Contestant<'_>],
    mut progress: impl FnMut(usize),
) -> Result<Rounds, Failure> {
    let passes = contestants
        .iter_mut()
        .map(|contestant| contestant.passes_in(plan.slot))
        .collect::<Result<Vec<_>, _>>()?;
    let mut nanos = vec![Vec::new(); contestants.len()];
    let begin = now();
    let mut round = 0;
    while round < plan.rounds || begin.elapsed() < plan.time {
        for turn in 0..contestants.len() {
            let reversed = contestants.len() - 1 - turn;
            let index = if round % 2 == 0 { turn } else { reversed };
            let contestant = &mut contestants[index];
            let time = (contestant.run)(passes[index])?.time;
            let units = contestant.units * passes[index] as f64;
            nanos[index].push(time.as_secs_f64() * 1e9 / units);
        }
        round += 1;
        progress(round);
    }
    Ok(Rounds { nanos })
}

impl Rounds {
    /// Returns how many there were.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nanos.first().map_or(0, Vec::len)
    }

    /// Returns `true` if there were none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the median time of a contestant for each unit, in nanoseconds.
    #[must_use]
    pub fn nanos(&self, contestant: usize) -> f64 {
        median(&mut self.nanos[contestant].clone())
    }

    /// Returns how many times as long one contestant took as another.
    #[must_use]
    pub fn ratio(&self, contestant: usize, other: usize) -> Figure {
        let pairs = self.nanos[contestant].iter().zip(&self.nanos[other]);
        Figure::of(&pairs.map(|(time, other)| time / other).collect::<Vec<_>>())
    }
}

/// Returns the processor time of this thread. A system call; turns are long compared with it.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // No thread is as old as the numbers are wide.
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A contestant with given times: the next of `times` for each pass.
    fn scripted(times: Vec<u64>) -> Contestant<'static> {
        let mut times = times.into_iter().cycle();
        Contestant::timed(10, move |passes| {
            let nanos: u64 = (0..passes).filter_map(|_| times.next()).sum();
            let time = Duration::from_nanos(nanos);
            Ok(Ran { time, sum: 7 })
        })
    }

    const PLAN: Plan = Plan {
        rounds: 31,
        time: Duration::ZERO,
        slot: Duration::from_nanos(1000),
    };

    #[test]
    fn a_constant_ratio_has_an_interval_without_width() {
        let mut contestants = [scripted(vec![3000]), scripted(vec![2000])];
        let rounds = measure(&PLAN, &mut contestants, |_| ()).unwrap();
        let exactly = |ratio| Figure {
            median: ratio,
            low: ratio,
            high: ratio,
        };
        assert_eq!(rounds.len(), 31);
        assert_eq!(rounds.ratio(0, 1), exactly(1.5));
        assert_eq!(rounds.ratio(1, 1), exactly(1.0));
        assert_eq!(rounds.nanos(0), 300.0);
    }

    #[test]
    fn a_machine_that_slows_down_for_all_does_not_change_the_ratio() {
        let slowing = |base: u64| scripted((1..=40).map(|factor| base * factor).collect());
        let mut contestants = [slowing(6000), slowing(2000)];
        let rounds = measure(&PLAN, &mut contestants, |_| ()).unwrap();
        assert_eq!(rounds.ratio(0, 1).median, 3.0);
        assert_eq!(rounds.ratio(0, 1).low, 3.0);
    }

    #[test]
    fn the_order_is_reversed_in_every_second_round() {
        let order = std::cell::RefCell::new(Vec::new());
        let noted = |name: char| {
            let order = &order;
            Contestant::timed(1, move |passes| {
                order.borrow_mut().push(name);
                let time = Duration::from_nanos(1000 * passes);
                Ok(Ran { time, sum: 0 })
            })
        };
        let plan = Plan { rounds: 4, ..PLAN };
        measure(&plan, &mut [noted('a'), noted('b')], |_| ()).unwrap();
        let order: String = order.borrow().iter().collect();
        assert_eq!(order, "ab abba abba".replace(' ', ""));
    }

    #[test]
    fn passes_fill_the_slot_and_are_at_least_one() {
        assert_eq!(scripted(vec![100]).passes_in(PLAN.slot).unwrap(), 10);
        assert_eq!(scripted(vec![5000]).passes_in(PLAN.slot).unwrap(), 1);
    }

    #[test]
    fn preparation_runs_before_each_pass() {
        let mut made = 0;
        let prepare = || {
            made += 1;
            made
        };
        let mut contestant = Contestant::prepared(1, prepare, Ok);
        assert_eq!((contestant.run)(3).unwrap().sum, 3);
        assert_eq!(contestant.rehearse().unwrap().0, 5);
    }
}
