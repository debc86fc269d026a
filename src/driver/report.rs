//! Builds the reports of outcomes that do not come from the engine.

use alloc::sync::Arc;
use std::io;

use crate::clock;
use crate::config::Config;
use crate::engine::NodeId;
use crate::error::{LinkFault, LockError, NodeOutcome, NodeReport, Report};
use crate::quorum::{Lock, NodeSet};
use crate::time::Instant;

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct Reporter {
    labels: Arc<[Arc<str>]>,
    quorum: u8,
}

impl Reporter {
    pub(crate) fn new(config: &Config) -> Self {
        let labels = config.nodes().iter().map(|node| Arc::clone(node.label()));
        Self {
            labels: labels.collect(),
            quorum: config.quorum() as u8,
        }
    }

    /// Reports that a majority has granted the lock, but that its validity ended before the caller got it.
    pub(crate) fn too_slow(&self, lock: &Lock, since: Instant) -> LockError {
        let report = self.report(lock.voters(), NodeOutcome::Pending, since);
        LockError::TooSlow(report.about(lock.resources()))
    }

    /// Reports that no answer of any node is known.
    pub(crate) fn pending(&self, since: Instant) -> Report {
        self.report(NodeSet::EMPTY, NodeOutcome::Pending, since)
    }

    /// Reports that waiting for the nodes' sockets has failed.
    pub(crate) fn wait_failed(&self, error: &io::Error, since: Instant) -> Report {
        let errno = error.raw_os_error().unwrap_or_default();
        let outcome = NodeOutcome::Unreachable(LinkFault::Os(errno).into());
        self.report(NodeSet::EMPTY, outcome, since)
    }

    fn report(&self, granted: NodeSet, others: NodeOutcome, since: Instant) -> Report {
        let nodes = self
            .labels
            .iter()
            .zip((0..).map(NodeId::new))
            .map(|(label, node)| {
                let outcome = match granted.contains(node) {
                    true => NodeOutcome::Granted,
                    false => others,
                };
                NodeReport::new(Arc::clone(label), outcome, None)
            });
        let now = clock::now();
        let elapsed = now.saturating_since(since);
        Report::new(now, nodes.collect(), self.quorum, 1, elapsed)
    }
}
