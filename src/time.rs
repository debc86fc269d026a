//! The type for points in time in the core.
//!
//! The core never reads a clock, because callers pass every [`Instant`] as an argument. An instant can be rounded in
//! two ways. Use [`Instant::tick_ceil`] for a time before which nothing may happen, and [`Instant::tick_floor`] for a
//! time after which a lock must not be trusted.
//!
//! # Not here
//!
//! Only the module `clock` reads a clock.

use core::time::Duration;

/// The length of one tick of the timer wheel, in nanoseconds: one millisecond.
///
/// Redis counts expiries in milliseconds, so a finer wheel would not help.
pub(crate) const NANOS_PER_TICK: u64 = 1_000_000;

/// A point on the caller's monotonic clock, in nanoseconds since that clock's epoch.
///
/// The library does not use the type of `std` for two reasons. A lock needs a clock that keeps running while the
/// machine is suspended, but on Linux the clock of `std::time::Instant` stops. A test can also contain an instant as a
/// constant, because `Instant::from_nanos(5)` is the same in every run.
///
/// All arithmetic saturates: a deadline beyond [`Instant::MAX`] is `MAX`, some 584 years away.
///
/// ```
/// use core::time::Duration;
/// use shearline::Instant;
///
/// let start = Instant::from_nanos(1_000);
/// assert_eq!(start.saturating_add(Duration::from_nanos(5)).as_nanos(), 1_005);
/// assert_eq!(Instant::MAX.saturating_add(Duration::MAX), Instant::MAX);
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Instant(u64);

impl Instant {
    /// The epoch of the clock.
    pub const ZERO: Self = Self(0);

    /// The last instant that can be represented. Larger sums saturate at `MAX`.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns the instant `nanos` nanoseconds after the clock's epoch.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the instant `millis` milliseconds after the clock's epoch, or [`Instant::MAX`] if it is too late to be
    /// represented.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Returns the nanoseconds since the clock's epoch.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the instant `span` after `self`, at most [`Instant::MAX`].
    #[must_use]
    pub const fn saturating_add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }

    /// Returns the instant `span` before `self`, at least [`Instant::ZERO`].
    #[must_use]
    pub const fn saturating_sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(span)))
    }

    /// Returns the time from `earlier` to `self`, or zero if `earlier` is not earlier.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns the first tick at or after `self`. Use this tick for a time before which nothing may happen: a timer may
    /// fire late, never early.
    pub(crate) const fn tick_ceil(self) -> u64 {
        self.0.div_ceil(NANOS_PER_TICK)
    }

    /// Returns the last tick at or before `self`. Use this tick for a time after which a lock must not be trusted: a
    /// lock may end early, never late.
    pub(crate) const fn tick_floor(self) -> u64 {
        self.0 / NANOS_PER_TICK
    }

    /// Returns the instant at which `tick` begins, at most [`Instant::MAX`].
    pub(crate) const fn from_tick(tick: u64) -> Self {
        Self(tick.saturating_mul(NANOS_PER_TICK))
    }
}

/// Returns `span` in nanoseconds, at most `u64::MAX`.
#[must_use]
pub(crate) const fn nanos(span: Duration) -> u64 {
    let nanos = span.as_nanos();
    if nanos > u64::MAX as u128 {
        u64::MAX
    } else {
        nanos as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_saturate_at_the_ends() {
        let nano = Duration::from_nanos(1);
        assert_eq!(Instant::MAX.saturating_add(nano), Instant::MAX);
        assert_eq!(Instant::ZERO.saturating_add(Duration::MAX), Instant::MAX);
        assert_eq!(Instant::ZERO.saturating_sub(nano), Instant::ZERO);
        assert_eq!(Instant::ZERO.saturating_since(Instant::MAX), Duration::ZERO);
        assert_eq!(Instant::from_millis(u64::MAX), Instant::MAX);
    }

    #[test]
    fn each_rounding_goes_to_its_safe_side() {
        for (nanos, floor, ceil) in [
            (0, 0, 0),
            (1, 0, 1),
            (999_999, 0, 1),
            (1_000_000, 1, 1),
            (1_000_001, 1, 2),
        ] {
            let at = Instant::from_nanos(nanos);
            let both = (at.tick_floor(), at.tick_ceil());
            assert_eq!(both, (floor, ceil), "{nanos} ns");
        }
        assert_eq!(Instant::from_tick(u64::MAX), Instant::MAX);
    }
}
