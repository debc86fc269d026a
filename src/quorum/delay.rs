//! The lock delay: how much longer nodes keep the key of a lock than its holder may trust it.
//!
//! A holder that died or hangs has this time to be stopped before another client can get the lock.
//!
//! # Guarantees
//!
//! * A key is not gone before the validity of its lock and the delay are over, also on a node whose
//!   clock is as fast as the drift allows.
//! * Nothing wraps, and without a delay the two are the same.

#![warn(clippy::arithmetic_side_effects)]

use core::time::Duration;

use super::Drift;
use crate::limits::LOCK_DELAY_MAX;

/// See the [module](self). What is added to each ttl, in milliseconds: every lock has it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Delay(u32);

impl Delay {
    /// Returns the delay that lasts `least` at least by the clock of a holder, on every node within
    /// `drift`; `None` if it is longer than [`LOCK_DELAY_MAX`] or could not be written down.
    pub(crate) fn new(least: Duration, drift: Drift) -> Option<Self> {
        if LOCK_DELAY_MAX < least {
            return None;
        }
        let added = drift.stretch(least).as_nanos().div_ceil(1_000_000);
        u32::try_from(added).ok().map(Self)
    }

    /// Returns the delay that adds so many milliseconds to each ttl.
    #[cfg(feature = "std")]
    pub(crate) const fn of_millis(added: u32) -> Self {
        Self(added)
    }

    /// Returns how many milliseconds are added to each ttl.
    #[cfg(feature = "std")]
    pub(crate) const fn millis(self) -> u32 {
        self.0
    }

    /// Returns for how long nodes keep the key of a lock of `ttl`.
    #[inline]
    pub(crate) fn life(self, ttl: Duration) -> Duration {
        match self.0 {
            0 => ttl,
            added => longer(ttl, added),
        }
    }

    /// Returns the ttl of a lock whose key nodes keep for `life`.
    #[inline]
    pub(crate) fn ttl(self, life: Duration) -> Duration {
        match self.0 {
            0 => life,
            added => shorter(life, added),
        }
    }
}

// Out of line: most locks have no delay.
#[cold]
fn longer(ttl: Duration, added: u32) -> Duration {
    ttl.saturating_add(Duration::from_millis(added.into()))
}

#[cold]
fn shorter(life: Duration, added: u32) -> Duration {
    life.saturating_sub(Duration::from_millis(added.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_key_lasts_longer_by_the_delay_on_the_fastest_node() {
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
            let expected = added.map(Delay);
            assert_eq!(Delay::new(delay, drift), expected, "{delay:?}, {factor}");
        }
    }

    #[test]
    fn nothing_wraps_however_long_a_ttl_is() {
        let delay = Delay(u32::MAX);
        assert_eq!(delay.ttl(delay.life(MS)), MS);
        assert_eq!(delay.ttl(MS), Duration::ZERO);
        assert_eq!(delay.life(Duration::MAX), Duration::MAX);
        assert_eq!(Delay::default().life(MS), MS);
        assert_eq!(Delay::default().ttl(MS), MS);
    }
}
