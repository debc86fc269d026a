//! The settings of the engine, from the configuration.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use core::time::Duration;

use crate::config::{Config, Retry};
use crate::delay::Delay;
use crate::error::{InvalidRequest, RequestFault};
use crate::quorum::Drift;
use crate::resource::check_resource;
use crate::time::{Instant, NANOS_PER_TICK};

/// The minimum delay between two attempts. A shorter delay could end while the engine still handles the same input, so
/// attempts that fail immediately could follow each other for ever.
pub(super) const SHORTEST_REST: Duration = Duration::from_nanos(NANOS_PER_TICK);

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Settings {
    /// The text that follows the random part in each token.
    pub(super) owner: Box<[u8]>,
    pub(super) drift: Drift,
    /// The node timeout, if the user has set one.
    pub(super) node_timeout: Option<Duration>,
    pub(super) connect_timeout: Duration,
    /// The maximum life of a key.
    pub(super) ttl_limit: Duration,
    /// The lock delay of this engine's own locks.
    pub(super) delay: Delay,
    pub(super) retry: Retry,
    /// Whether the configuration forbids scripts.
    pub(super) without_scripts: bool,
    /// The prefix that is added to each name that a caller gives.
    pub(super) key_prefix: Box<[u8]>,
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
            key_prefix: config.key_prefix().into(),
        }
    }

    /// Returns the key of `resource`. If there are several resources, `index` is the position of `resource` among them.
    pub(super) fn key<'a>(
        &self,
        resource: &'a [u8],
        index: Option<usize>,
    ) -> Result<Cow<'a, [u8]>, RequestFault> {
        if self.key_prefix.is_empty() || resource.is_empty() {
            check_resource(resource, index)?;
            return Ok(resource.into());
        }
        let key = [&self.key_prefix, resource].concat();
        check_resource(&key, index)?;
        Ok(key.into())
    }

    /// Returns `ttl` in whole milliseconds, or the reason why a lock with this `delay` cannot have this ttl.
    pub(super) fn check_ttl(&self, ttl: Duration, delay: Delay) -> Result<Duration, RequestFault> {
        let maximum = delay.ttl(self.ttl_limit);
        if ttl > maximum {
            return Err(too_long(ttl, maximum, delay));
        }
        let whole = Duration::from_millis(ttl.as_millis() as u64);
        let drift = self.drift.of(whole);
        if whole <= drift {
            return Err(RequestFault::TtlTooShort { ttl, drift });
        }
        Ok(whole)
    }

    /// Returns `started` plus `tries` times the longest random delay, which is when the call stops waiting.
    pub(super) fn tries_end(&self, started: Instant, tries: Option<u32>) -> Instant {
        let Some(tries) = tries else {
            return Instant::MAX;
        };
        let (_, longest) = self.retry.delay().into_inner();
        let longest = longest.max(SHORTEST_REST);
        started.saturating_add(longest.saturating_mul(tries))
    }

    /// Returns half of the longest validity of a lock with this `ttl`.
    pub(super) fn half_of(&self, ttl: Duration) -> Duration {
        ttl.saturating_sub(self.drift.of(ttl)) / 2
    }
}

impl Config {
    /// Checks a request for a lock on `resource` for `ttl`, as each call does before it sends anything. The name must
    /// be valid, and the ttl must be within the limits of a handle with this configuration. Programs can use this
    /// function to check arguments before they connect.
    ///
    /// # Errors
    ///
    /// Returns the error that the call would return as [`LockError::Invalid`](crate::LockError::Invalid).
    ///
    /// ```
    /// use core::time::Duration;
    /// use shearline::Config;
    ///
    /// let config = Config::builder().node("10.0.0.1").config()?;
    /// config.check_request("invoice:42", Duration::from_secs(10))?;
    /// let problem = config.check_request("", Duration::from_secs(10));
    /// assert!(problem.unwrap_err().to_string().starts_with("the resource name is empty"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_request(
        &self,
        resource: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<(), InvalidRequest> {
        let settings = Settings::of(self);
        settings.key(resource.as_ref(), None)?;
        settings.check_ttl(ttl, settings.delay)?;
        Ok(())
    }
}

#[cold]
fn too_long(ttl: Duration, maximum: Duration, delay: Delay) -> RequestFault {
    match delay == Delay::default() {
        true => RequestFault::TtlTooLong { ttl, maximum },
        false => RequestFault::TtlWithDelayTooLong { ttl, maximum },
    }
}
