//! Counts durations in buckets whose width grows with the durations.
//!
//! The first bucket is 64 ns wide. A histogram has 16 buckets for each doubling of the durations, and the buckets
//! become twice as wide with each doubling. The last bucket counts all durations of more than some 52 days. So a value
//! that is read from a histogram is never too low, and at most 1/16 (6.25 %) and 64 ns too high.
//!
//! # Guarantees
//!
//! * Recording takes constant time and allocates nothing. A histogram has a fixed size of 5.5 kB.
//! * The counts and the sum are exact.
//!
//! # Not here
//!
//! The type [`Stats`](crate::Stats) says which times are measured, and by which clock.

use alloc::boxed::Box;
use core::fmt;
use core::time::Duration;

use crate::time::Instant;

/// The number of bits that select a bucket within a doubling.
const FINE_BITS: u32 = 4;
const FINE: usize = 1 << FINE_BITS;

/// The first bucket is 2 to the power of this number nanoseconds wide: 64 ns.
const WIDTH_BITS: u32 = 6;

/// The number that is added to a duration in nanoseconds, so that every doubling of the sum has [`FINE`] buckets.
const BASE: u64 = 1 << (FINE_BITS + WIDTH_BITS);

/// The last bucket begins at a sum of 2 to the power of this number: some 52 days.
const LIMIT_BITS: u32 = 52;

/// The index of the last bucket.
const LAST: usize = (LIMIT_BITS - FINE_BITS - WIDTH_BITS) as usize * FINE;

/// The number of low bits of a floating point number that do not affect the bucket.
const DROPPED_BITS: u32 = f64::MANTISSA_DIGITS - 1 - FINE_BITS;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Counts of durations, since a handle was built or since the first duration was recorded.
///
/// ```no_run
/// # let redlock = shearline::Redlock::connect(["redis://10.0.0.1"])?;
/// let wait = redlock.stats().wait;
/// println!("{} calls, half of them waited {:?} or less", wait.count(), wait.quantile(0.5));
/// // Bounds of an exporter, in which each count includes the shorter ones.
/// println!("{} waited 2 ms or less", wait.within(std::time::Duration::from_millis(2)));
/// # Ok::<(), shearline::BuildError>(())
/// ```
#[derive(Clone, Eq, PartialEq)]
pub struct Histogram {
    counts: Box<[u64; LAST + 1]>,
    /// In nanoseconds.
    sum: u128,
}

impl Histogram {
    /// Counts the time from `since` to `now`, which is zero if `since` is later.
    #[inline]
    pub(crate) fn record_since(&mut self, since: Instant, now: Instant) {
        self.record_nanos(now.as_nanos().saturating_sub(since.as_nanos()));
    }

    #[inline]
    pub(crate) fn record_nanos(&mut self, nanos: u64) {
        match self.counts.get_mut(bucket(nanos)) {
            Some(count) => *count += 1,
            None => self.counts[LAST] += 1,
        }
        self.sum += u128::from(nanos);
    }

    /// Counts a duration of zero.
    #[inline]
    pub(crate) fn record_zero(&mut self) {
        self.counts[0] += 1;
    }

    /// Returns how many durations were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the exact sum of all durations.
    #[must_use]
    pub fn sum(&self) -> Duration {
        let (seconds, nanos) = (self.sum / NANOS_PER_SECOND, self.sum % NANOS_PER_SECOND);
        Duration::new(u64::try_from(seconds).unwrap_or(u64::MAX), nanos as u32)
    }

    /// Returns the duration that the given share (0.0 to 1.0) of all durations does not exceed. A share of `0.99`
    /// returns the 99th percentile, and `1.0` returns the longest duration. The result is never too low, and at
    /// most 6.25 % and 64 ns too high. Returns `None` if nothing was counted, and [`Duration::MAX`] for more than 52
    /// days.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let total = self.count();
        let wanted = share * total as f64;
        let whole = wanted as u64; // A negative number casts to zero, and so does NaN.
        let wanted = whole.saturating_add(u64::from((whole as f64) < wanted));
        let wanted = wanted.clamp(1, total.max(1));
        let mut seen = 0;
        let mut buckets = self.buckets();
        let reached = buckets.find(|(_, count)| {
            seen += count;
            wanted <= seen
        });
        reached.map(|(upper, _)| upper)
    }

    /// Returns the number of durations in all buckets that end at or before `limit`. Exporters can use this number for
    /// cumulative counts. The count may miss durations that are shorter than `limit` by less than 6.25 % and 64 ns.
    #[must_use]
    pub fn within(&self, limit: Duration) -> u64 {
        let buckets = self.buckets();
        let within = buckets.take_while(|(upper, _)| *upper <= limit);
        within.map(|(_, count)| count).sum()
    }

    /// Returns all buckets, including empty ones, from the shortest durations to the longest. Each bucket consists of
    /// its upper bound ([`Duration::MAX`] for the last bucket) and its count. All histograms have the same bounds.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let counts = self.counts.iter().enumerate();
        counts.map(|(bucket, count)| (upper(bucket), *count))
    }
}

/// Returns the bucket of a number of nanoseconds. For the last bucket, the result may be larger than its index.
///
/// Reads the bucket from a floating point number: from its exponent and the first bits of its fraction. The conversion
/// is exact for all numbers below the last bucket. The conversion takes one instruction, because the number is signed.
/// Numbers that become negative belong to the last bucket.
#[inline]
fn bucket(nanos: u64) -> usize {
    let exponent = |sum: u64| (sum as i64 as f64).to_bits() >> DROPPED_BITS;
    exponent(nanos.wrapping_add(BASE)).wrapping_sub(exponent(BASE)) as usize
}

/// Returns the longest duration of a bucket.
fn upper(bucket: usize) -> Duration {
    if bucket == LAST {
        return Duration::MAX;
    }
    let doublings = bucket / FINE;
    let steps = (FINE + bucket % FINE + 1) as u64;
    Duration::from_nanos((steps << (WIDTH_BITS as usize + doublings)) - BASE - 1)
}

/// Returns an empty histogram.
impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: Box::new([0; LAST + 1]),
            sum: 0,
        }
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count())
            .field("sum", &self.sum())
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    const UPPER_MAX: u64 = (1 << LIMIT_BITS) - BASE - 1;

    /// Returns how far a histogram may overstate a duration of `nanos`.
    fn slack(nanos: u64) -> u64 {
        nanos / FINE as u64 + (1 << WIDTH_BITS)
    }

    fn read(nanos: u64) -> Duration {
        match nanos {
            0..=UPPER_MAX => Duration::from_nanos(nanos),
            _ => Duration::MAX,
        }
    }

    /// Returns a duration of any size.
    fn some(random: &mut StdRng) -> u64 {
        random.random::<u64>() >> random.random_range(0..64)
    }

    #[test]
    fn buckets_are_in_order_and_end_where_the_next_begins() {
        let histogram = Histogram::default();
        let uppers: Vec<Duration> = histogram.buckets().map(|(upper, _)| upper).collect();
        assert_eq!(uppers.len(), 673);
        assert_eq!(uppers[..2], [63, 127].map(Duration::from_nanos));
        let around = [1_023, 1_151, 1_279].map(Duration::from_nanos);
        assert_eq!(uppers[15..18], around);
        let last = [Duration::from_nanos(UPPER_MAX), Duration::MAX];
        assert_eq!(uppers[671..], last);
        for (number, upper) in uppers[..LAST].iter().enumerate() {
            let nanos = upper.as_nanos() as u64;
            let both = (bucket(nanos), bucket(nanos + 1));
            assert_eq!(both, (number, number + 1), "{upper:?}");
        }
        assert_eq!(bucket(0), 0);
        assert!(LAST < bucket(u64::MAX));
    }

    /// Compares a histogram with a model, which is the sorted list of all durations.
    #[test]
    fn shares_counts_and_sums_are_those_of_the_sorted_durations() {
        let mut random = StdRng::seed_from_u64(2);
        for round in 0..200 {
            let len = random.random_range(1..300);
            let mut all: Vec<u64> = (0..len).map(|_| some(&mut random)).collect();
            let mut histogram = Histogram::default();
            for nanos in &all {
                histogram.record_nanos(*nanos);
            }
            all.sort_unstable();
            assert_eq!(histogram.count(), len as u64);
            let sum: u128 = all.iter().copied().map(u128::from).sum();
            assert_eq!(histogram.sum().as_nanos(), sum);
            for share in [0.0, 0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0] {
                let place = ((share * len as f64).ceil() as usize).clamp(1, len) - 1;
                let exact = all[place];
                let shown = histogram.quantile(share).expect("something was counted");
                let most = read(exact.saturating_add(slack(exact)).min(UPPER_MAX));
                match exact <= UPPER_MAX {
                    true => assert!(
                        (read(exact)..=most).contains(&shown),
                        "{round}: {share} of {len}: {shown:?} for {exact}"
                    ),
                    false => assert_eq!(shown, Duration::MAX, "{round}"),
                }
            }
            let limit = some(&mut random);
            let surely =
                |nanos: &&u64| nanos.saturating_add(slack(**nanos)) <= limit.min(UPPER_MAX);
            let surely = all.iter().filter(surely);
            let at_most = all.iter().filter(|nanos| **nanos <= limit);
            let within = histogram.within(Duration::from_nanos(limit));
            assert!(
                (surely.count() as u64..=at_most.count() as u64).contains(&within),
                "{round}: {within} within {limit}"
            );
        }
    }

    #[test]
    fn a_limit_that_is_a_bound_is_exact() {
        let mut histogram = Histogram::default();
        for nanos in [1_023, 1_024, 3_071, 3_072, UPPER_MAX, u64::MAX] {
            histogram.record_nanos(nanos);
        }
        let within = |nanos| histogram.within(Duration::from_nanos(nanos));
        assert_eq!([1_023, 3_071, UPPER_MAX].map(within), [1, 3, 5]);
        assert_eq!(histogram.within(Duration::MAX), 6);
    }

    #[test]
    fn the_sum_goes_beyond_what_a_duration_in_nanoseconds_holds() {
        let mut histogram = Histogram::default();
        for _ in 0..3 {
            histogram.record_nanos(u64::MAX);
        }
        assert_eq!(histogram.sum().as_nanos(), 3 * u128::from(u64::MAX));
    }

    #[test]
    fn nothing_has_no_share_and_odd_shares_are_the_nearest_that_there_are() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        histogram.record_nanos(0);
        histogram.record_nanos(64);
        let [first, second] = [63, 127].map(|nanos| Some(Duration::from_nanos(nanos)));
        for (share, expected) in [
            (f64::NAN, first),
            (f64::NEG_INFINITY, first),
            (0.5, first),
            (0.500_001, second),
            (7.0, second),
            (f64::INFINITY, second),
        ] {
            assert_eq!(histogram.quantile(share), expected, "{share}");
        }
    }
}
