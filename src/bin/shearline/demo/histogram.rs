//! Durations counted by many threads: percentiles, and columns to draw.
//!
//! Buckets grow with the duration, 32 to each doubling, so that a percentile is at most 3 % too high,
//! never too low, however long the run. Recording is one atomic addition.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Buckets to each doubling.
const FINE: u64 = 32;
const FINE_BITS: u32 = FINE.trailing_zeros();

/// Enough for every number of nanoseconds that fits in 64 bits.
const BUCKETS: usize = ((u64::BITS - FINE_BITS + 1) as usize) * FINE as usize;

/// The drawn range: five decades from 10 µs on, eight columns each.
pub(super) const COLUMNS: usize = 40;
const COLUMNS_TO_A_DECADE: f64 = 8.0;
const LEFT_EDGE_NANOS: f64 = 10_000.0;

/// Counts of durations.
#[derive(Debug)]
pub(super) struct Histogram {
    buckets: Box<[AtomicU64]>,
    longest: AtomicU64,
}

/// The summary of a histogram.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Summary {
    /// The durations that half, 90 and 99 of a hundred stay within.
    pub(super) p50: Duration,
    pub(super) p90: Duration,
    pub(super) p99: Duration,
    /// The longest, exactly.
    pub(super) max: Duration,
    /// Counts by duration, on a logarithmic scale from 10 µs to 1 s. Shorter and longer durations
    /// are in the first and the last one.
    pub(super) columns: [u64; COLUMNS],
}

impl Histogram {
    pub(super) fn new() -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            longest: AtomicU64::new(0),
        }
    }

    pub(super) fn record(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket(nanos)].fetch_add(1, Relaxed);
        self.longest.fetch_max(nanos, Relaxed);
    }

    /// Returns the summary of what was recorded so far; `None` if nothing was.
    pub(super) fn summary(&self) -> Option<Summary> {
        let counts: Vec<u64> = self
            .buckets
            .iter()
            .map(|count| count.load(Relaxed))
            .collect();
        let longest = self.longest.load(Relaxed);
        if counts.iter().all(|count| *count == 0) {
            return None;
        }
        let within = |share| Duration::from_nanos(percentile(&counts, share).min(longest));
        Some(Summary {
            p50: within(0.50),
            p90: within(0.90),
            p99: within(0.99),
            max: Duration::from_nanos(longest),
            columns: columns(&counts),
        })
    }
}

/// Returns the bucket of a number: the number itself below 32, else by its highest bits.
fn bucket(nanos: u64) -> usize {
    let doublings = nanos.max(FINE).ilog2() - FINE_BITS;
    (u64::from(doublings) * FINE + (nanos >> doublings)) as usize
}

/// Returns the largest number of a bucket.
fn upper_edge(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let doublings = (bucket / FINE).saturating_sub(1);
    let highest = bucket - doublings * FINE;
    // The last bucket holds the largest number of all: the bits shifted out at the top are meant to.
    ((u128::from(highest) + 1) << doublings)
        .saturating_sub(1)
        .min(u128::from(u64::MAX)) as u64
}

/// Returns the upper edge of the bucket in which the given share of all counts is reached.
fn percentile(counts: &[u64], share: f64) -> u64 {
    let total: u64 = counts.iter().sum();
    let wanted = ((total as f64 * share).ceil() as u64).max(1);
    let mut seen = 0;
    let reached = counts.iter().position(|count| {
        seen += count;
        wanted <= seen
    });
    reached.map_or(0, upper_edge)
}

fn columns(counts: &[u64]) -> [u64; COLUMNS] {
    let mut columns = [0; COLUMNS];
    for (bucket, count) in counts.iter().enumerate().filter(|(_, count)| **count != 0) {
        columns[column(upper_edge(bucket))] += count;
    }
    columns
}

fn column(nanos: u64) -> usize {
    let decades = (nanos as f64 / LEFT_EDGE_NANOS).log10();
    // A cast of a negative number gives zero.
    ((decades * COLUMNS_TO_A_DECADE) as usize).min(COLUMNS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_lies_in_its_bucket_and_buckets_are_in_order() {
        let edges: Vec<u64> = (0..BUCKETS).map(upper_edge).collect();
        assert!(edges.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(edges.last(), Some(&u64::MAX));
        for edge in edges {
            for nanos in [
                edge.saturating_sub(1),
                edge,
                edge.saturating_add(1),
                edge / 3,
            ] {
                let edge = upper_edge(bucket(nanos));
                assert!(nanos <= edge, "{nanos}");
                assert!(
                    u128::from(edge) <= u128::from(nanos) * 33 / 32 + 1,
                    "{nanos}: {edge}"
                );
            }
        }
    }

    #[test]
    fn percentiles_are_at_most_a_thirtysecond_too_high() {
        let histogram = Histogram::new();
        assert_eq!(histogram.summary(), None);
        for micros in 1..=1000 {
            histogram.record(Duration::from_micros(micros));
        }
        let summary = histogram.summary().expect("something was recorded");
        for (shown, micros) in [(summary.p50, 500), (summary.p90, 900), (summary.p99, 990)] {
            let least = Duration::from_micros(micros);
            assert!(
                (least..=least * 33 / 32).contains(&shown),
                "{shown:?} for {micros}"
            );
        }
        assert_eq!(summary.max, Duration::from_micros(1000));
        assert_eq!(summary.columns.iter().sum::<u64>(), 1000);
    }

    #[test]
    fn all_percentiles_of_one_duration_are_that_duration() {
        let histogram = Histogram::new();
        let nanos = Duration::from_nanos(1_234_567);
        histogram.record(nanos);
        let summary = histogram.summary().expect("something was recorded");
        assert_eq!(
            [summary.p50, summary.p90, summary.p99, summary.max],
            [nanos; 4]
        );
    }

    #[test]
    fn columns_are_eighths_of_decades() {
        for (nanos, expected) in [
            (0, 0),
            (9_999, 0),
            (10_001, 0),
            (14_000, 1),
            (100_001, 8),
            (1_000_001, 16),
            (10_000_001, 24),
            (999_000_000, 39),
            (u64::MAX, 39),
        ] {
            assert_eq!(column(nanos), expected, "{nanos} ns");
        }
    }
}
