//! What is shown of the times that the library has measured: percentiles, and columns to draw.

use std::time::Duration;

use shearline::Histogram;

/// The drawn range: five decades from 10 µs on, eight columns each.
pub(super) const COLUMNS: usize = 40;
const COLUMNS_TO_A_DECADE: f64 = 8.0;
const LEFT_EDGE_NANOS: f64 = 10_000.0;

/// The summary of a histogram.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Summary {
    /// The durations that half, 90 and 99 of a hundred stay within.
    pub(super) p50: Duration,
    pub(super) p90: Duration,
    pub(super) p99: Duration,
    /// The longest.
    pub(super) max: Duration,
    /// Counts by duration, on a logarithmic scale from 10 µs to 1 s. Shorter and longer durations
    /// are in the first and the last one.
    pub(super) columns: [u64; COLUMNS],
}

impl Summary {
    /// Returns the summary of what was recorded so far; `None` if nothing was.
    pub(super) fn of(histogram: &Histogram) -> Option<Self> {
        let mut columns = [0; COLUMNS];
        for bucket in histogram.buckets().filter(|bucket| bucket.count != 0) {
            columns[column(bucket.upper)] += bucket.count;
        }
        Some(Self {
            p50: histogram.quantile(0.50)?,
            p90: histogram.quantile(0.90)?,
            p99: histogram.quantile(0.99)?,
            max: histogram.quantile(1.0)?,
            columns,
        })
    }
}

fn column(duration: Duration) -> usize {
    let decades = (duration.as_secs_f64() * 1e9 / LEFT_EDGE_NANOS).log10();
    // A cast of a negative number gives zero.
    ((decades * COLUMNS_TO_A_DECADE) as usize).min(COLUMNS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_was_recorded_is_drawn() {
        let mut histogram = Histogram::new();
        assert_eq!(Summary::of(&histogram), None);
        for micros in 1..=1000 {
            histogram.record(Duration::from_micros(micros));
        }
        let summary = Summary::of(&histogram).expect("something was recorded");
        let shown = [summary.p50, summary.p90, summary.p99, summary.max];
        for (shown, micros) in shown.into_iter().zip([500, 900, 990, 1000]) {
            let least = Duration::from_micros(micros);
            assert!(
                (least..least * 17 / 16 + Duration::from_nanos(64)).contains(&shown),
                "{shown:?} for {micros}"
            );
        }
        assert_eq!(summary.columns.iter().sum::<u64>(), 1000);
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
            assert_eq!(column(Duration::from_nanos(nanos)), expected, "{nanos} ns");
        }
        assert_eq!(column(Duration::MAX), 39);
    }
}
