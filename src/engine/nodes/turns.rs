//! Makes the nodes take turns, so that they do not all extend kept locks at the same time.
//!
//! While a node extends many locks, it answers no other commands. Therefore the engine sends extensions to only a
//! minority of the nodes at a time. A client that takes a lock meanwhile gets its answers from the other nodes. When a
//! node has answered, the next node gets its turn.
//!
//! # Guarantees
//!
//! * Renewals wait for at most [`RENEWALS_WAIT`] after the first renewal, whether or not other nodes answer. The
//!   longest wait of a renewal is shorter than the node timeout.
//! * In its turn, a node gets all of its renewals together. The node that has waited longest gets the first turn.
//! * A small number of renewals is written without a wait.
//!
//! # Not here
//!
//! With one or two nodes, there are no turns, because a majority includes every node.

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
    /// The maximum number of nodes that may extend locks at the same time. Zero means all nodes.
    most: usize,
    /// The maximum wait of a renewal: [`RENEWALS_WAIT`], or half of a fixed node timeout if that is shorter.
    wait: Duration,
    /// The nodes with renewals that wait for a turn. The set may also contain nodes that no longer have renewals.
    waiting: NodeSet,
}

impl Turns {
    /// Creates the record of turns for the nodes of `config`.
    pub(super) fn new(config: &Config) -> Self {
        let nodes = config.nodes().len();
        let wait = config.node_timeout().map(|timeout| timeout / 2);
        Self {
            most: nodes - quorum_of(nodes),
            wait: wait.unwrap_or(RENEWALS_WAIT).min(RENEWALS_WAIT),
            waiting: NodeSet::EMPTY,
        }
    }

    /// Makes the renewals of `node` wait if it is not the node's turn. Returns `true` if other commands must be written
    /// now.
    #[cold]
    #[inline(never)]
    pub(super) fn writes_beside(&mut self, node: NodeId, all: &mut [Node]) -> bool {
        if self.most != 0 {
            self.wait_for(node, all);
        }
        all[node.index()].connection.wire.is_to_write()
    }

    fn wait_for(&mut self, node: NodeId, all: &mut [Node]) {
        let waits = |node: NodeId| all[node.index()].connection.wire.batch.waits;
        self.waiting = self.waiting.filter(waits);
        let is_free = self.waiting.is_empty() && self.has_turn(node, all);
        if !is_free {
            all[node.index()].connection.wire.batch.waits = true;
            self.waiting.insert(node);
        }
    }

    /// Returns `true` if `node` may extend locks now.
    fn has_turn(&self, node: NodeId, all: &[Node]) -> bool {
        let renewing = all.iter().filter(|node| node.connection.is_renewing());
        renewing.count() < self.most && !all[node.index()].connection.is_renewing()
    }

    /// Returns the nodes with waiting renewals, each with the time when the wait began.
    fn waiting(&self, all: &[Node]) -> impl Iterator<Item = (Instant, NodeId)> {
        let nodes = self.waiting.iter();
        nodes.filter_map(|node| Some((all[node.index()].connection.wire.waiting_since()?, node)))
    }

    /// Returns `true` if it is the turn of a node with waiting renewals.
    pub(super) fn is_any(&self, all: &[Node]) -> bool {
        self.waiting(all).any(|(_, node)| self.has_turn(node, all))
    }

    /// Returns when the oldest renewals have waited long enough.
    pub(super) fn next_at(&self, all: &[Node]) -> Option<Instant> {
        let since = self.waiting(all).map(|(since, _)| since).min()?;
        Some(since.saturating_add(self.wait))
    }

    /// Returns the next node whose renewals no longer need to wait.
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
        all[node.index()].connection.wire.batch.waits = false;
        Some(node)
    }
}
