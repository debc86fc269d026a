//! The restart guard for all nodes together: how long a node that may have forgotten locks is quarantined, and which
//! requests are permitted.
//!
//! The guard of each node decides whether its answers count, and whether commands to it check a marker.

use core::time::Duration;

use crate::config::{Config, RestartGuard};
use crate::error::RequestFault;
use crate::limits::TTL_ASSUMED_MAX;
use crate::node::{Terms, whole_millis};
use crate::quorum::Drift;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Restarts {
    guard: RestartGuard,
    drift: Drift,
    /// The longest ttl that a node may have forgotten: the configured ttl, or a longer ttl that a caller has requested.
    longest: Duration,
    /// The shortest ttl that a caller has requested, if any.
    shortest: Option<Duration>,
    /// Whether the configuration sets the longest ttl.
    known: bool,
    limit: Duration,
}

impl Restarts {
    pub(super) fn of(config: &Config) -> Self {
        let guard = config.restart_guard();
        Self {
            guard,
            drift: config.drift(),
            longest: match guard {
                RestartGuard::Strict => whole(config.ttl_limit()),
                RestartGuard::Off | RestartGuard::Observed => {
                    let assumed = config.delay().life(TTL_ASSUMED_MAX);
                    config.max_ttl().unwrap_or(assumed)
                }
            },
            shortest: None,
            known: config.max_ttl().is_some(),
            limit: config.ttl_limit(),
        }
    }

    /// Returns `true` if the restart guard uses markers.
    pub(super) fn uses_markers(&self) -> bool {
        matches!(self.guard, RestartGuard::Strict)
    }

    /// Returns an error unless this handle uses markers, which `reinit` rewrites.
    pub(super) fn check_reinit(&self) -> Result<(), RequestFault> {
        match self.uses_markers() {
            true => Ok(()),
            false => Err(RequestFault::NotStrict),
        }
    }

    /// Records the longest ttl that a caller has requested. The ttl includes the lock delay. Does nothing if the guard
    /// uses markers, because the markers say how long locks may last.
    pub(super) fn remember(&mut self, ttl: Duration) {
        if !self.uses_markers() {
            self.longest = ttl.max(self.longest);
        }
    }

    /// Records the shortest ttl that a caller has requested. If `ttl` is the shortest so far, returns the sum of clock
    /// steps that is allowed from now on.
    #[inline]
    pub(super) fn remember_short(&mut self, ttl: Duration) -> Option<Duration> {
        if self.shortest.is_some_and(|shortest| shortest <= ttl) {
            return None;
        }
        self.shortest = Some(ttl);
        Some(self.drift.steps(ttl))
    }

    /// Records the longest ttl that a marker contains.
    pub(super) fn heard_of(&mut self, longest: Duration) {
        self.longest = longest.max(self.longest);
    }

    /// Forgets all ttls except the configured ttl, because all nodes get new markers.
    pub(super) fn reset(&mut self) {
        self.longest = whole(self.limit);
    }

    pub(super) fn longest(&self) -> Duration {
        self.longest
    }

    /// Returns how long a node that may have forgotten locks is quarantined.
    pub(super) fn terms(&self) -> Terms {
        Terms {
            span: self.longest.saturating_add(self.drift.of(self.longest)),
            known: self.known,
        }
    }
}

/// Returns `ttl` in whole milliseconds, rounded up.
pub(super) fn whole(ttl: Duration) -> Duration {
    Duration::from_millis(whole_millis(ttl))
}
