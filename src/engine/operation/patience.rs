//! How long a node may take to answer. One part of the time depends only on the ttl, and the other part on the node.

use core::time::Duration;

use crate::limits::NODE_TIMEOUT_MIN;
use crate::node::Node;
use crate::time::{Instant, nanos};

use crate::engine::settings::Settings;

/// The shortest and the longest node timeout that follows from the ttl alone.
const SHORTEST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_millis(50);

/// The longest node timeout, unless the user has configured a timeout.
const FARTHEST: Duration = Duration::from_secs(1);

/// The time that nodes may take to answer about locks of one ttl, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// The configured timeout, or the timeout that follows from the ttl.
    usual: u64,
    fixed: bool,
    most: u64,
}

/// Returns the default node timeout for a lock with this `ttl`. A configured timeout or a long round trip takes
/// precedence.
pub(crate) fn usual_timeout(ttl: Duration) -> Duration {
    Duration::from_nanos(nanos(ttl) / 200).clamp(SHORTEST, LONGEST)
}

impl Patience {
    /// Returns how long nodes may take to answer a release. Even a late answer is useful.
    ///
    /// The Redlock paper proposes 5 to 50 ms for a lock of 10 s. A more distant node gets four times its round trip,
    /// but at most one second.
    pub(super) fn for_release(ttl: Duration, settings: &Settings) -> Self {
        let fixed = settings.node_timeout;
        Self {
            usual: nanos(fixed.unwrap_or_else(|| usual_timeout(ttl))),
            fixed: fixed.is_some(),
            most: u64::MAX,
        }
    }

    /// Returns how long nodes may take to answer a question whose answer is useless after half of the lock's life. A
    /// configured timeout takes precedence. If the configured timeout is longer than the ttl permits, the attempt fails
    /// as too slow.
    pub(super) fn for_vote(ttl: Duration, settings: &Settings) -> Self {
        let patience = Self::for_release(ttl, settings);
        match patience.fixed {
            true => patience,
            false => Self {
                most: nanos(settings.half_of(ttl).max(NODE_TIMEOUT_MIN)),
                ..patience
            },
        }
    }

    /// Returns the deadline of `node`, and records its timeout.
    pub(super) fn until(self, now: Instant, node: &mut Node) -> Instant {
        let connection = &mut node.connection;
        connection.timeout = match self.fixed {
            true => self.usual,
            false => {
                let far = connection.pulse.distance_nanos().saturating_mul(4);
                far.clamp(self.usual, nanos(FARTHEST))
            }
        };
        Instant::from_nanos(
            now.as_nanos()
                .saturating_add(connection.timeout.min(self.most)),
        )
    }
}

/// Returns the node timeout that follows from the round trips of the farthest node.
#[cfg(feature = "std")]
pub(crate) fn distant_timeout<'n>(nodes: impl Iterator<Item = &'n Node>) -> Duration {
    let farthest = nodes.map(|node| node.connection.pulse.distance()).max();
    (farthest.unwrap_or_default() * 4).min(FARTHEST)
}
