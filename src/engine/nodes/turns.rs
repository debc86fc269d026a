//! Whose turn it is to extend locks that are kept: not all nodes at once.
//!
//! A node that extends many locks serves nobody else meanwhile. So only as many nodes do so at the same time as
//! a majority can do without: whoever takes a lock in that moment is answered by the others. The next node has
//! its turn when one has answered.
//!
//! # Guarantees
//!
//! * Renewals are written [`RENEWALS_WAIT`] after the first of them began to wait at the latest, whether others
//!   answer or not: within the node timeout.
//! * All that wait for a node are written to it at once when its turn comes. Those that wait longest go first.
//! * A few wait for nothing.
//!
//! # Not here
//!
//! Handles on one or two nodes: these need every node for a majority, and have no turns.

use core::time::Duration;

use crate::config::Config;
use crate::keys::NodeId;
use crate::limits::RENEWALS_WAIT;
use crate::node::Node;
use crate::quorum::{NodeSet, quorum_of};
use crate::time::Instant;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Turns {
    /// How many nodes extend locks at the same time at most. Zero: all may.
    most: usize,
    /// For how long renewals wait at most: half of a node timeout that is fixed, if that is shorter.
    wait: Duration,
    /// The nodes for whose turn renewals wait, and perhaps others whose renewals are gone.
    waiting: NodeSet,
}

impl Turns {
    /// Those of the nodes of `config`.
    pub(super) fn new(config: &Config) -> Self {
        let nodes = config.nodes().len();
        let wait = config.node_timeout().map(|timeout| timeout / 2);
        Self {
            most: nodes - quorum_of(nodes),
            wait: wait.unwrap_or(RENEWALS_WAIT).min(RENEWALS_WAIT),
            waiting: NodeSet::EMPTY,
        }
    }

    /// Lets the renewals of `node` wait, which are to be written, if it is not its turn. Returns `true` if there is
    /// something to write then.
    #[cold]
    #[inline(never)]
    pub(super) fn writes_beside(&mut self, node: NodeId, all: &mut [Node]) -> bool {
        if self.most != 0 {
            self.wait_for(node, all);
        }
        all[node.index()].is_to_write()
    }

    fn wait_for(&mut self, node: NodeId, all: &mut [Node]) {
        let waits = |node: NodeId| all[node.index()].has_waiting();
        self.waiting = self.waiting.filter(waits);
        let is_free = self.waiting.is_empty() && self.has_turn(node, all);
        if !is_free {
            all[node.index()].let_wait(true);
            self.waiting.insert(node);
        }
    }

    /// Returns `true` if `node` may extend locks now.
    fn has_turn(&self, node: NodeId, all: &[Node]) -> bool {
        let renewing = all.iter().filter(|node| node.is_renewing());
        renewing.count() < self.most && !all[node.index()].is_renewing()
    }

    /// Returns those for which renewals wait, and since when.
    fn waiting(&self, all: &[Node]) -> impl Iterator<Item = (Instant, NodeId)> {
        let nodes = self.waiting.iter();
        nodes.filter_map(|node| Some((all[node.index()].waiting_since()?, node)))
    }

    /// Returns `true` if it is the turn of one for which renewals wait.
    pub(super) fn is_any(&self, all: &[Node]) -> bool {
        self.waiting(all).any(|(_, node)| self.has_turn(node, all))
    }

    /// Returns when renewals have waited for long enough.
    pub(super) fn next_at(&self, all: &[Node]) -> Option<Instant> {
        let since = self.waiting(all).map(|(since, _)| since).min()?;
        Some(since.saturating_add(self.wait))
    }

    /// Returns the next node of which renewals have waited until now.
    #[inline]
    pub(super) fn next(&mut self, now: Instant, all: &mut [Node]) -> Option<NodeId> {
        match self.waiting.is_empty() {
            true => None,
            false => self.take_next(now, all),
        }
    }

    #[cold]
    #[inline(never)]
    fn take_next(&mut self, now: Instant, all: &mut [Node]) -> Option<NodeId> {
        let due = self.waiting(all).filter(|(since, node)| {
            since.saturating_add(self.wait) <= now || self.has_turn(*node, all)
        });
        let (_, node) = due.min_by_key(|(since, _)| *since)?;
        self.waiting.remove(node);
        all[node.index()].let_wait(false);
        Some(node)
    }
}
