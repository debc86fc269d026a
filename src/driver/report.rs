//! Reports of outcomes that a handle finds on its own, outside of the engine.

use alloc::sync::Arc;
use std::io;

use super::clock;
use crate::config::Config;
use crate::error::{LinkError, LockError, NodeOutcome, NodeReport, Report};
use crate::quorum::NodeSet;
use crate::time::Instant;

/// Makes the reports of outcomes that a handle finds on its own, outside of the engine.
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

    /// A majority had granted it, and its validity ran out before its taker could have it.
    pub(crate) fn too_slow(&self, granted: NodeSet, since: Instant) -> LockError {
        LockError::TooSlow(self.report(granted, NodeOutcome::Pending, since))
    }

    /// Nobody has heard of any node yet.
    pub(crate) fn pending(&self, since: Instant) -> Report {
        self.report(NodeSet::EMPTY, NodeOutcome::Pending, since)
    }

    /// The operating system refused to wait for the nodes.
    pub(crate) fn deaf(&self, error: &io::Error, since: Instant) -> Report {
        let errno = error.raw_os_error().unwrap_or_default();
        let outcome = NodeOutcome::Unreachable(LinkError::Os(errno));
        self.report(NodeSet::EMPTY, outcome, since)
    }

    fn report(&self, granted: NodeSet, others: NodeOutcome, since: Instant) -> Report {
        let nodes = self.labels.iter().enumerate().map(|(node, label)| {
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
