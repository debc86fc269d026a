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

/// See the [module](self). What is added to each ttl, in whole milliseconds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Delay(Duration);

impl Delay {
    /// The delay that lasts `least` at least by the clock of a holder, on every node within `drift`.
    pub(crate) fn new(least: Duration, drift: Drift) -> Self {
        let added = drift.stretch(least).as_nanos().div_ceil(1_000_000);
        Self(Duration::from_millis(
            u64::try_from(added).unwrap_or(u64::MAX),
        ))
    }

    /// The delay that adds `added` to each ttl.
    #[cfg(feature = "std")]
    pub(crate) const fn of(added: Duration) -> Self {
        Self(added)
    }

    /// Returns what is added to each ttl.
    pub(crate) const fn added(self) -> Duration {
        self.0
    }

    /// Returns for how long nodes keep the key of a lock of `ttl`.
    #[inline]
    pub(crate) const fn life(self, ttl: Duration) -> Duration {
        ttl.saturating_add(self.0)
    }

    /// Returns the ttl of a lock whose key nodes keep for `life`.
    #[inline]
    pub(crate) const fn ttl(self, life: Duration) -> Duration {
        life.saturating_sub(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::TTL_HARD_MAX;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_key_lasts_longer_by_the_delay_on_the_fastest_node() {
        for (factor, delay, added) in [
            (0.01, Duration::ZERO, 0),
            (0.01, Duration::from_nanos(1), 1),
            (0.01, 99 * MS, 100),
            (0.01, 100 * MS, 102),
            (0.01, 5_000 * MS, 5_051),
            (0.0, 5_000 * MS, 5_000),
            (0.5, 5_000 * MS, 10_000),
        ] {
            let drift = Drift::new(factor, 2 * MS).expect("a factor");
            let added = Duration::from_millis(added);
            assert_eq!(
                Delay::new(delay, drift).added(),
                added,
                "{delay:?}, {factor}"
            );
        }
    }

    #[test]
    fn nothing_wraps_however_long_the_delay_is() {
        for factor in [0.0, 0.01, 0.999_999_999] {
            let drift = Drift::new(factor, Duration::MAX).expect("a factor");
            for least in [TTL_HARD_MAX, Duration::MAX] {
                let delay = Delay::new(least, drift);
                assert!(least.min(Duration::from_millis(u64::MAX)) <= delay.added());
                assert_eq!(delay.ttl(delay.life(MS)), MS);
                assert!(delay.added() <= delay.life(Duration::MAX));
                assert_eq!(delay.ttl(MS), Duration::ZERO);
            }
        }
    }
}
