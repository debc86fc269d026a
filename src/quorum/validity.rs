//! Computes how long a lock is valid: its ttl, minus the time for taking it, minus the drift of clocks.
//!
//! Step 3 of Redlock says `validity = ttl - (now - t1) - drift`. This file computes the validity as a deadline, `t1 +
//! ttl - drift`, which needs no elapsed time. Every rounding shortens the validity, and no sum overflows, for any ttl
//! and any delay.

#![warn(clippy::arithmetic_side_effects)]

use core::time::Duration;

use crate::delay::Delay;
use crate::limits::LOCK_DELAY_MAX;
use crate::time::{Instant, nanos};

const BILLION: u64 = 1_000_000_000;

/// The rate at which a kernel slews a clock, in parts per billion.
pub(crate) const SLEWED: u64 = 500_000;

/// The time that is subtracted from every validity because clocks differ. The drift is a share of the ttl plus a fixed
/// part. The fixed part is needed because servers expire keys at whole milliseconds.
///
/// The default is the drift of the Redlock paper: a hundredth of the ttl and 2 ms.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Drift {
    parts_per_billion: u64,
    /// The fixed part, in nanoseconds.
    fixed: u64,
}

impl Drift {
    /// Returns a drift of `factor` times the ttl plus `fixed`. The factor is at least 0 and less than 1, and is rounded
    /// up to a billionth. Returns `None` if the factor is out of this range or not a number.
    #[must_use]
    pub(crate) fn new(factor: f64, fixed: Duration) -> Option<Self> {
        if !(0.0..1.0).contains(&factor) {
            return None;
        }
        let exact = factor * 1e9;
        let floor = exact as u64;
        // The method `ceil` needs std. A factor such as 0.01 has no exact float, so the result may be one part per
        // billion too large. A larger drift is safe.
        let rounded_up = if floor as f64 == exact {
            floor
        } else {
            floor.saturating_add(1)
        };
        Some(Self {
            parts_per_billion: rounded_up,
            fixed: nanos(fixed),
        })
    }

    /// Returns the drift of a lock with this `ttl`, rounded up to the nanosecond.
    #[must_use]
    pub(crate) fn of(self, ttl: Duration) -> Duration {
        Duration::from_nanos(self.of_nanos(nanos(ttl)))
    }

    /// Like [`of`](Self::of), but in nanoseconds.
    fn of_nanos(self, ttl: u64) -> u64 {
        // This function runs for every vote, so it avoids a 128-bit division, which takes longer than decoding a reply.
        // The product for a ttl of half an hour and a factor of 0.01 still fits into 64 bits.
        let share = match ttl.checked_mul(self.parts_per_billion) {
            Some(product) => product.div_ceil(BILLION),
            None => self.share_of_long(ttl),
        };
        share.saturating_add(self.fixed)
    }

    /// Returns the part of the drift that is proportional to `ttl`, for a `ttl` of any length. The result is never
    /// longer than the ttl.
    #[cold]
    fn share_of_long(self, ttl: u64) -> u64 {
        let product = u128::from(ttl).saturating_mul(u128::from(self.parts_per_billion));
        product.div_ceil(u128::from(BILLION)) as u64
    }

    /// Returns how many parts in a billion a clock may run fast or slow. The rate is a fifth of the drift's factor, but
    /// at least the rate at which a kernel slews a clock.
    pub(crate) fn rate(self) -> u64 {
        self.parts_per_billion.div_ceil(5).max(SLEWED)
    }

    /// Returns by how much a clock may be stepped in total while a lock of `ttl` lives. The result is the ttl times the
    /// difference between the drift's factor and the clock's [`rate`](Self::rate). The drift's fixed part covers the
    /// rounding of the server to milliseconds.
    pub(crate) fn steps(self, ttl: Duration) -> Duration {
        let rate = Self {
            parts_per_billion: self.rate(),
            ..self
        };
        self.of(ttl).saturating_sub(rate.of(ttl))
    }

    /// Returns a lock delay that lasts at least `least` by the holder's clock, if the node's clock runs no faster than
    /// this drift allows. Returns `None` if this delay is longer than [`LOCK_DELAY_MAX`], or does not fit into a
    /// `Delay`.
    pub(crate) fn delay(self, least: Duration) -> Option<Delay> {
        if LOCK_DELAY_MAX < least {
            return None;
        }
        // The divisor is never zero, because every factor is less than 1.
        let slowest = BILLION.saturating_sub(self.parts_per_billion).max(1);
        let nanos = least.as_nanos().saturating_mul(u128::from(BILLION));
        let millis = nanos.div_ceil(u128::from(slowest)).div_ceil(1_000_000);
        u32::try_from(millis).ok().map(Delay::of_millis)
    }

    /// Returns when the validity of a lock of `ttl` ends, if the request's first byte was sent at or after `sent`.
    ///
    /// If the drift is not shorter than the ttl, returns `sent` itself, which means no validity.
    #[must_use]
    pub(crate) fn valid_until(self, sent: Instant, ttl: Duration) -> Instant {
        let ttl = nanos(ttl);
        let valid = ttl.saturating_sub(self.of_nanos(ttl));
        Instant::from_nanos(sent.as_nanos().saturating_add(valid))
    }

    /// Returns when the validity of a lock of `ttl` ends, if a majority keeps the lock for `left` from `sent` on.
    /// Subtracts the drift of the whole ttl, because a clock may still step by the whole drift.
    pub(crate) fn valid_for(self, sent: Instant, left: Duration, ttl: Duration) -> Instant {
        sent.saturating_add(left.saturating_sub(self.of(left.max(ttl))))
    }

    /// Returns when a key has certainly expired on its node, by our clock, if the node set its `ttl` at or before
    /// `answered`. Adds the drift to the ttl, because by our clock the key may live longer than the ttl.
    #[must_use]
    #[inline(always)]
    pub(crate) fn gone_by(self, answered: Instant, ttl: Duration) -> Instant {
        let ttl = nanos(ttl);
        let life = ttl.saturating_add(self.of_nanos(ttl));
        Instant::from_nanos(answered.as_nanos().saturating_add(life))
    }
}

impl Default for Drift {
    fn default() -> Self {
        Self {
            parts_per_billion: 10_000_000,
            fixed: 2_000_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::TTL_HARD_MAX;

    #[test]
    fn the_default_is_a_hundredth_and_two_milliseconds() {
        let drift = Drift::default();
        assert_eq!(Drift::new(0.01, Duration::from_millis(2)), Some(drift));
        for (ttl, of) in [
            (Duration::ZERO, Duration::from_millis(2)),
            (Duration::from_nanos(1), Duration::from_nanos(2_000_001)),
            (Duration::from_millis(3), Duration::from_nanos(2_030_000)),
            (Duration::from_secs(30), Duration::from_millis(302)),
        ] {
            assert_eq!(drift.of(ttl), of, "{ttl:?}");
        }
    }

    #[test]
    fn a_long_ttl_has_the_same_share_as_a_short_one() {
        for factor in [0.0, 0.01, 0.999_999_999] {
            let drift = Drift::new(factor, Duration::ZERO).expect("a factor");
            for bit in 0..64 {
                for nanos in [(1 << bit) - 1, 1 << bit, (1 << bit) + 1] {
                    let (short, long) = (drift.of_nanos(nanos), drift.share_of_long(nanos));
                    assert_eq!(short, long, "{factor} of {nanos} ns");
                }
            }
        }
    }

    #[test]
    fn a_key_is_gone_after_its_ttl_and_the_drift_of_that() {
        let ends = [0, 1, u64::MAX / 2, u64::MAX].map(Instant::from_nanos);
        let bits = (0..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        let ttls = bits.map(Duration::from_nanos);
        for ttl in ttls.chain([Duration::from_nanos(u64::MAX), Duration::MAX]) {
            for fixed in [Duration::ZERO, Duration::from_millis(2), Duration::MAX] {
                for factor in [0.0, 1e-9, 0.01, 0.999_999_999] {
                    let drift = Drift::new(factor, fixed).expect("a factor");
                    for answered in ends {
                        let life = ttl.saturating_add(drift.of(ttl));
                        let gone_by = answered.saturating_add(life);
                        assert_eq!(drift.gone_by(answered, ttl), gone_by, "{ttl:?} {drift:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_key_lasts_longer_by_the_delay_on_the_fastest_node() {
        const MS: Duration = Duration::from_millis(1);
        let day = 24 * 3600 * 1000 * MS;
        for (factor, delay, added) in [
            (0.01, Duration::ZERO, Some(0)),
            (0.01, Duration::from_nanos(1), Some(1)),
            (0.01, 99 * MS, Some(100)),
            (0.01, 100 * MS, Some(102)),
            (0.01, 5_000 * MS, Some(5_051)),
            (0.0, 5_000 * MS, Some(5_000)),
            (0.5, 5_000 * MS, Some(10_000)),
            (0.01, 30 * day, Some(2_618_181_819)),
            (0.0, 30 * day + Duration::from_nanos(1), None),
            (0.0, Duration::MAX, None),
            (0.999_999_999, 4 * MS, Some(4_000_000_000)),
            (0.999_999_999, 5 * MS, None),
        ] {
            let drift = Drift::new(factor, 2 * MS).expect("a factor");
            let expected = added.map(Delay::of_millis);
            assert_eq!(drift.delay(delay), expected, "{delay:?}, {factor}");
        }
    }

    #[test]
    fn factors_outside_zero_to_one_are_refused() {
        for factor in [-0.1, 1.0, 2.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Drift::new(factor, Duration::ZERO), None, "{factor}");
        }
    }

    /// Tests ttls from 1 ms to beyond the hard limit, elapsed times from zero to twice the ttl, and the earliest and
    /// latest times of the clock. The validity must equal the result of the formula, or zero.
    #[test]
    fn validity_never_wraps() {
        let drift = Drift::default();
        let hard = TTL_HARD_MAX.as_millis() as u64;
        let ttls = (1..=5_000)
            .chain((0..64).map(|bit| 1_u64 << bit))
            .chain([hard, hard + 1]);
        let starts = [0, 1, u64::MAX / 2, u64::MAX - 1, u64::MAX].map(Instant::from_nanos);
        for ttl in ttls.map(Duration::from_millis) {
            for start in starts {
                let until = drift.valid_until(start, ttl);
                assert!(start <= until && until <= start.saturating_add(ttl));
                for eighth in 0..=16 {
                    let elapsed = (ttl / 8).saturating_mul(eighth);
                    let now = start.saturating_add(elapsed);
                    let left = until.saturating_since(now);
                    let [of_ttl, elapsed, of_drift, left] =
                        [ttl, elapsed, drift.of(ttl), left].map(|span| span.as_nanos() as i128);
                    let exact = (of_ttl - elapsed - of_drift).max(0);
                    assert!(left <= exact, "{ttl:?} {elapsed}");
                    if start == Instant::ZERO && ttl <= TTL_HARD_MAX {
                        assert_eq!(left, exact, "{ttl:?} {elapsed}");
                    }
                }
            }
        }
    }
}
