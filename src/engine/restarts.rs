//! The restart guard as the engine sees it: what kind it is, and for how long a node that may have
//! forgotten locks does not vote.
//!
//! What one node has to do with it (its quarantine, its marker) is the node's own.

use core::time::Duration;

use crate::config::{Config, RestartGuard};
use crate::limits::TTL_ASSUMED_MAX;
use crate::node::{Terms, whole_millis};
use crate::quorum::Drift;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Restarts {
    guard: RestartGuard,
    drift: Drift,
    /// The longest ttl that a node may have forgotten: as configured, or asked for if that is longer.
    longest: Duration,
    /// The configuration names it.
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
                    config.max_ttl().unwrap_or(TTL_ASSUMED_MAX)
                }
            },
            known: config.max_ttl().is_some(),
            limit: config.ttl_limit(),
        }
    }

    /// Returns `true` if nodes that may have forgotten locks do not vote.
    pub(super) fn is_on(&self) -> bool {
        self.guard != RestartGuard::Off
    }

    /// Returns `true` if nodes carry markers.
    pub(super) fn has_markers(&self) -> bool {
        self.guard == RestartGuard::Strict
    }

    /// Remembers the longest ttl that was asked for. Where nodes carry markers, these say how long
    /// locks may last.
    pub(super) fn may_last(&mut self, ttl: Duration) {
        if !self.has_markers() {
            self.longest = ttl.max(self.longest);
        }
    }

    /// Remembers the longest ttl that a marker names.
    pub(super) fn heard_of(&mut self, longest: Duration) {
        self.longest = longest.max(self.longest);
    }

    /// Begins again with what is configured: all nodes get new markers.
    pub(super) fn reset(&mut self) {
        self.longest = whole(self.limit);
    }

    pub(super) fn longest(&self) -> Duration {
        self.longest
    }

    /// Returns for how long a node that may have forgotten locks does not vote.
    pub(super) fn terms(&self) -> Terms {
        Terms {
            span: self.longest.saturating_add(self.drift.of(self.longest)),
            known: self.known,
        }
    }
}

/// In whole milliseconds, rounded up, as markers name it.
fn whole(ttl: Duration) -> Duration {
    Duration::from_millis(whole_millis(ttl))
}
