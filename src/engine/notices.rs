//! Notices for operators about events that no caller waits for: restarts, quarantines, clock steps, unconfirmed
//! releases and losses. This module exists only with the feature `tracing`.
//!
//! The engine formats no text and calls no subscriber. When the engine reports a loss, it also queues a notice of the
//! loss. For all other notices, a driver with a subscriber calls [`Notices::look`] after each tick. This method
//! compares the state of each node with the last notices about the node, and queues a notice for each change. If a
//! change is undone between two calls, no notice is queued.
//!
//! # Guarantees
//!
//! * **Bounded**: at most [`NOTICES_MAX`] notices are queued. Later notices are dropped and counted.
//! * **One per change**: each change causes one notice, however often a driver calls `look`. A growing number of
//!   unconfirmed releases causes a notice each time the number doubles.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use core::time::Duration;

use crate::entry::Entry;
use crate::keys::NodeId;
use crate::limits::NOTICES_MAX;
use crate::node::Node;
use crate::time::Instant;

use super::nodes::Nodes;

/// An event that is reported to operators.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Notice {
    /// Another server process answers as this node.
    Restart(NodeId),
    /// The answers of this node do not count for the given time.
    Quarantine(NodeId, Duration),
    /// The answers of this node count again.
    QuarantineEnd(NodeId),
    /// The clock of this node was stepped. The number includes all earlier steps.
    ClockStep(NodeId, u32),
    /// This node has the given number of unconfirmed releases.
    Debt(NodeId, usize),
    /// This node has no unconfirmed releases any longer.
    DebtPaid(NodeId),
    /// The lock on this resource is lost. For a lock on several resources, this is the first resource.
    Loss {
        resource: Box<[u8]>,
        owner: Box<[u8]>,
        reason: &'static str,
    },
}

impl Notice {
    /// Returns the notice that the lock in `entry` is lost.
    pub(super) fn loss(entry: &Entry, reason: &'static str) -> Self {
        Self::Loss {
            resource: entry.resource().into(),
            owner: entry.token().owner().into(),
            reason,
        }
    }
}

/// The queued notices, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    notices: VecDeque<Notice>,
    /// The number of notices that were dropped because the queue was full.
    pub(crate) dropped: u64,
}

/// The queued notices, and the last notices about each node.
#[derive(Debug)]
pub(crate) struct Notices {
    pub(crate) queue: Queue,
    nodes: Box<[Told]>,
    /// The number of attempts in the most recently reported acquisition.
    pub(crate) attempts: u32,
}

/// The state of a node according to the last notices.
#[derive(Clone, Debug, Default)]
struct Told {
    run_id: Option<String>,
    quarantined_until: Option<Instant>,
    clock_steps: u32,
    /// The number of the node's unconfirmed releases.
    owed: usize,
}

impl Queue {
    pub(crate) fn is_empty(&self) -> bool {
        self.notices.is_empty()
    }

    pub(crate) fn push(&mut self, notice: Notice) {
        match self.notices.len() < NOTICES_MAX {
            true => self.notices.push_back(notice),
            false => self.dropped = self.dropped.saturating_add(1),
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// Moves everything from `other` into this queue.
    pub(crate) fn append(&mut self, other: &mut Self) {
        self.dropped = self
            .dropped
            .saturating_add(core::mem::take(&mut other.dropped));
        other.notices.drain(..).for_each(|notice| self.push(notice));
    }
}

impl Notices {
    pub(super) fn new(nodes: usize) -> Self {
        Self {
            queue: Queue::default(),
            nodes: alloc::vec![Told::default(); nodes].into(),
            attempts: 0,
        }
    }

    /// Queues a notice for each change of a node since the last call.
    pub(crate) fn look(&mut self, now: Instant, nodes: &Nodes) {
        for (node, told) in nodes.ids().zip(&mut self.nodes) {
            told.look(now, node, &nodes[node], &mut self.queue);
        }
    }
}

impl Told {
    /// Queues a notice for each change in `there`, the state of `node` at `now`.
    fn look(&mut self, now: Instant, node: NodeId, there: &Node, queue: &mut Queue) {
        if let Some(run_id) = there
            .handshake
            .run_id()
            .filter(|_| there.handshake.is_ready())
            && self.run_id.as_deref() != Some(run_id)
            && self.run_id.replace(run_id.into()).is_some()
        {
            queue.push(Notice::Restart(node));
        }
        let steps = there.trust.clock.steps();
        if self.clock_steps != steps {
            self.clock_steps = steps;
            queue.push(Notice::ClockStep(node, steps));
        }
        if let Some(until) = there.trust.kept_until(now) {
            // Queues no notice before the node has joined, because the end of the quarantine is not known until then.
            if now < until && self.quarantined_until < Some(until) {
                self.quarantined_until = Some(until);
                queue.push(Notice::Quarantine(node, until.saturating_since(now)));
            }
        } else if self.quarantined_until.take().is_some() {
            queue.push(Notice::QuarantineEnd(node));
        }
        let owed = there.debts.len();
        if self.owed.saturating_mul(2).max(1) <= owed {
            self.owed = owed;
            queue.push(Notice::Debt(node, owed));
        } else if owed == 0 && self.owed != 0 {
            self.owed = 0;
            queue.push(Notice::DebtPaid(node));
        }
    }
}
