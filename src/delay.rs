//! The lock delay is the time that nodes keep the key of a lock after its validity has ended.
//!
//! The delay gives an operator or a supervisor time to stop a holder that hangs, before another client can take the
//! lock.
//!
//! # Guarantees
//!
//! * No sum wraps. Without a delay, a key lives for the ttl of its lock.
//!
//! # Not here
//!
//! `Drift` in `quorum` lengthens the delay, because a node's clock may run fast.

#![warn(clippy::arithmetic_side_effects)]

use core::time::Duration;

/// See the [module](self). The number of milliseconds that are added to each ttl. Every lock has a delay, which may be
/// zero.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Delay(u32);

impl Delay {
    /// Returns the delay that adds this many milliseconds to each ttl.
    pub(crate) const fn of_millis(added: u32) -> Self {
        Self(added)
    }

    /// Returns how many milliseconds are added to each ttl.
    #[cfg(feature = "std")]
    pub(crate) const fn millis(self) -> u32 {
        self.0
    }

    /// Returns how long nodes keep the key of a lock with this `ttl`.
    #[inline]
    pub(crate) fn life(self, ttl: Duration) -> Duration {
        match self.0 {
            0 => ttl,
            added => longer(ttl, added),
        }
    }

    /// Returns the ttl of a lock whose key the nodes keep for `life`.
    #[inline]
    pub(crate) fn ttl(self, life: Duration) -> Duration {
        match self.0 {
            0 => life,
            added => shorter(life, added),
        }
    }
}

// Keeps the two functions out of line, because most locks have no delay.
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
    fn nothing_wraps_however_long_a_ttl_is() {
        let delay = Delay(u32::MAX);
        assert_eq!(delay.ttl(delay.life(MS)), MS);
        assert_eq!(delay.ttl(MS), Duration::ZERO);
        assert_eq!(delay.life(Duration::MAX), Duration::MAX);
        assert_eq!(Delay::default().life(MS), MS);
        assert_eq!(Delay::default().ttl(MS), MS);
    }
}
