//! What the engine needs of the configuration.

use alloc::boxed::Box;
use core::time::Duration;

use crate::config::{Config, Retry};
use crate::delay::Delay;
use crate::error::InvalidRequest;
use crate::quorum::Drift;
use crate::resource::check_resource;
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
    /// No node is asked to run a script.
    pub(super) without_scripts: bool,
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
            without_scripts: config.without_scripts(),
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

impl Config {
    /// Checks what a call that asks for a lock on `resource` for `ttl` checks before anything is sent: that
    /// the name can be one, and that the ttl is within what a handle of this configuration allows. For a
    /// program that wants to refuse its own arguments before it connects.
    ///
    /// # Errors
    ///
    /// What that call would return as [`LockError::Invalid`](crate::LockError::Invalid).
    ///
    /// ```
    /// use core::time::Duration;
    /// use shearline::{Config, InvalidRequest};
    ///
    /// let config = Config::builder().node("10.0.0.1").config()?;
    /// config.check_request("invoice:42", Duration::from_secs(10))?;
    /// let problem = config.check_request("", Duration::from_secs(10));
    /// assert_eq!(problem, Err(InvalidRequest::EmptyResource { index: None }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_request(
        &self,
        resource: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<(), InvalidRequest> {
        check_resource(resource.as_ref(), None)?;
        let settings = Settings::of(self);
        settings.check_ttl(ttl, settings.delay).map(drop)
    }
}

#[cold]
fn too_long(ttl: Duration, maximum: Duration, delay: Delay) -> InvalidRequest {
    match delay == Delay::default() {
        true => InvalidRequest::TtlTooLong { ttl, maximum },
        false => InvalidRequest::TtlWithDelayTooLong { ttl, maximum },
    }
}
