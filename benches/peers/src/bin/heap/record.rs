//! The record of every second of steady locking, and its summary.
//!
//! The callers write it themselves, between two cycles of one of them: no other thread looks, and
//! recording allocates nothing.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use shearline_peers::allocations::{Totals, forget_highest, totals};
use shearline_peers::cycle::now;
use shearline_peers::progress::Progress;

/// The totals at one moment.
#[derive(Clone, Copy, Debug)]
struct Sample {
    cycles: u64,
    totals: Totals,
}

/// Of callers on one thread.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    /// Nothing is recorded before.
    warm: &'a AtomicBool,
    /// The pause after that.
    rest: Duration,
    cycles: Cell<u64>,
    /// When to record next, after the warm-up.
    next: Cell<Option<Instant>>,
    samples: RefCell<Vec<Sample>>,
    enough: usize,
    progress: &'a Progress,
}

/// The summary of a minute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Profile {
    pub(crate) cycles: u64,
    /// For each cycle.
    pub(crate) allocations: f64,
    /// For each cycle.
    pub(crate) frees: f64,
    /// Live bytes at the beginning: the least of ten seconds of sixty, because memory of open
    /// operations is freed again, and leaked memory is not.
    pub(crate) begin: i64,
    /// The same at the end.
    pub(crate) end: i64,
    /// The most of them, at any time.
    pub(crate) highest: i64,
    /// How much they grow in a second: the line that fits all seconds best.
    pub(crate) slope: f64,
}

impl<'a> Record<'a> {
    /// Of so many seconds, which begin when it is warm and has rested.
    pub(crate) fn new(
        warm: &'a AtomicBool,
        rest: Duration,
        seconds: u64,
        progress: &'a Progress,
    ) -> Self {
        let enough = seconds as usize + 1;
        Self {
            warm,
            rest,
            cycles: Cell::new(0),
            next: Cell::new(None),
            samples: RefCell::new(Vec::with_capacity(enough)),
            enough,
            progress,
        }
    }

    /// Counts one more cycle.
    pub(crate) fn cycle(&self) {
        self.cycles.set(self.cycles.get() + 1);
    }

    /// Records what is due. Returns whether another cycle has to begin.
    pub(crate) fn goes_on(&self) -> bool {
        let now = now();
        match self.next.get() {
            None if self.warm.load(Ordering::Acquire) => self.next.set(Some(now + self.rest)),
            Some(next) if next <= now && !self.is_full() => {
                self.next.set(Some(next + Duration::from_secs(1)));
                self.note();
            }
            None | Some(_) => {}
        }
        !self.is_full()
    }

    fn is_full(&self) -> bool {
        self.samples.borrow().len() == self.enough
    }

    fn note(&self) {
        let mut samples = self.samples.borrow_mut();
        if samples.is_empty() {
            forget_highest();
        }
        self.progress.second(samples.len());
        samples.push(Sample {
            cycles: self.cycles.get(),
            totals: totals(),
        });
    }

    /// Returns the summary, from the first sample to the last.
    pub(crate) fn profile(&self) -> Profile {
        let samples = self.samples.borrow();
        let (first, last) = (samples[0], samples[samples.len() - 1]);
        let cycles = last.cycles - first.cycles;
        let each = |first: u64, last: u64| (last - first) as f64 / cycles as f64;
        let live: Vec<i64> = samples.iter().map(|sample| sample.totals.live).collect();
        let some = (live.len() / 6).max(1);
        let least = |of: &[i64]| of.iter().copied().min().unwrap_or_default();
        Profile {
            cycles,
            allocations: each(first.totals.allocations, last.totals.allocations),
            frees: each(first.totals.frees, last.totals.frees),
            begin: least(&live[..some]),
            end: least(&live[live.len() - some..]),
            highest: last.totals.highest,
            slope: slope(&live),
        }
    }
}

/// Returns how much values grow from one to the next: least squares.
fn slope(values: &[i64]) -> f64 {
    let count = values.len() as f64;
    let middle = (count - 1.0) / 2.0;
    let mean = values.iter().sum::<i64>() as f64 / count;
    let (mut over, mut under) = (0.0, 0.0);
    for (place, value) in values.iter().enumerate() {
        let away = place as f64 - middle;
        over += away * (*value as f64 - mean);
        under += away * away;
    }
    over / under
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: Sample = Sample {
        cycles: 15,
        totals: Totals {
            allocations: 17,
            frees: 5,
            live: 150,
            highest: 300,
        },
    };

    #[test]
    fn the_slope_is_that_of_the_best_line() {
        assert_eq!(slope(&[5, 7, 9, 11]), 2.0);
        assert_eq!(slope(&[4, 4, 4]), 0.0);
        assert_eq!(slope(&[0, 6, 0]), 0.0);
        assert_eq!(slope(&[9, 6]), -3.0);
    }

    #[test]
    fn a_profile_compares_the_lowest_samples_of_its_two_ends() {
        let progress = Progress::new(1);
        let warm = AtomicBool::new(true);
        let record = Record::new(&warm, Duration::ZERO, 11, &progress);
        // Two of twelve samples are an end.
        for (index, live) in [(0, 190), (1, 100), (10, 160), (11, 230)] {
            record.samples.borrow_mut().resize(index, SAMPLE);
            record.samples.borrow_mut().push(Sample {
                cycles: 10 + index as u64,
                totals: Totals {
                    allocations: 7 + 2 * index as u64,
                    frees: index as u64,
                    live,
                    highest: 300,
                },
            });
        }
        let profile = Profile {
            cycles: 11,
            allocations: 2.0,
            frees: 1.0,
            begin: 100,
            end: 160,
            highest: 300,
            slope: record.profile().slope,
        };
        assert_eq!(record.profile(), profile);
        assert!(!record.goes_on());
    }
}
