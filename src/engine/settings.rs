//! What the engine needs of the configuration.

use alloc::boxed::Box;
use core::time::Duration;

use crate::config::{Config, Retry};
use crate::delay::Delay;
use crate::error::InvalidRequest;
use crate::quorum::Drift;
use crate::time::{Instant, NANOS_PER_TICK};

/// The least delay between two attempts: a shorter one would end in the turn in which it began, and
/// attempts that fail at once would follow each other there for ever.
pub(super) const SHORTEST_REST: Duration = Duration::from_nanos(NANOS_PER_TICK);

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Settings {
    /// What stands in each token behind its random part.
    pub(super) owner: Box<[u8]>,
    pub(super) drift: Drift,
    /// The node timeout that the user has fixed.
    pub(super) node_timeout: Option<Duration>,
    pub(super) connect_timeout: Duration,
    /// The longest that a key may live.
    pub(super) ttl_limit: Duration,
    /// What this engine's own locks have.
    pub(super) delay: Delay,
    pub(super) retry: Retry,
}

impl Settings {
    pub(super) fn of(config: &Config) -> Self {
        Self {
            owner: config.owner().into(),
            drift: config.drift(),
            node_timeout: config.node_timeout(),
            connect_timeout: config.connect_timeout(),
            ttl_limit: config.ttl_limit(),
            delay: config.delay(),
            retry: *config.retry(),
        }
    }

    /// Returns `ttl` in whole milliseconds, or why a lock with this `delay` cannot have it.
    pub(super) fn check_ttl(
        &self,
        ttl: Duration,
        delay: Delay,
    ) -> Result<Duration, InvalidRequest> {
        let maximum = delay.ttl(self.ttl_limit);
        if ttl > maximum {
            return Err(too_long(ttl, maximum, delay));
        }
        let whole = Duration::from_millis(ttl.as_millis() as u64);
        let drift = self.drift.of(whole);
        if whole <= drift {
            return Err(InvalidRequest::TtlTooShort { ttl, drift });
        }
        Ok(whole)
    }

    /// Returns when a call that was made at `started` has waited for others for as long as so many tries
    /// could have taken.
    pub(super) fn tries_end(&self, started: Instant, tries: Option<u32>) -> Instant {
        let Some(tries) = tries else {
            return Instant::MAX;
        };
        let (_, longest) = self.retry.delay().into_inner();
        let longest = longest.max(SHORTEST_REST);
        started.saturating_add(longest.saturating_mul(tries))
    }

    /// Returns half of the validity that a lock of `ttl` can have at most.
    pub(super) fn half_of(&self, ttl: Duration) -> Duration {
        ttl.saturating_sub(self.drift.of(ttl)) / 2
    }
}

#[cold]
fn too_long(ttl: Duration, maximum: Duration, delay: Delay) -> InvalidRequest {
    match delay == Delay::default() {
        true => InvalidRequest::TtlTooLong { ttl, maximum },
        false => InvalidRequest::TtlWithDelayTooLong { ttl, maximum },
    }
}
