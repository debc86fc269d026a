//! The copies of one claim: what its token may have left on each node, and what the nodes have said of it.
//!
//! # Not here
//!
//! What the states of a copy mean, and what an event makes of them: `copy.rs`.

use crate::invariant::Must as _;
use crate::keys::NodeId;
use crate::limits::NODES_MAX;
use crate::quorum::NodeSet;

use super::copy::{Copy, Event};

/// See the [module](self).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Copies {
    each: [Copy; NODES_MAX],
    /// The nodes that said that they have it, and not since that they lack it.
    pub(super) having: NodeSet,
    /// The nodes that said that they lack it, and not since that they have it: they get a copy again.
    pub(super) lacking: NodeSet,
    /// The nodes that said that they have it when a majority last did, or since, and not since that they lack it.
    pub(super) confirmed: NodeSet,
    /// The nodes where it may be newer than a step of the clock: they were in quarantine when they were found to
    /// have it, or it was granted to another engine, and they have not said so since while their answers counted.
    pub(crate) unsure: NodeSet,
    /// The nodes where an extension is unanswered, or was when its connection was lost: so it is not known when the
    /// key expires there.
    pub(crate) extending: NodeSet,
    /// The nodes whose release is owed no more, because they denied the `SET` before it:
    /// [`settle`](super::Claims::settle) takes it out of their debts.
    pub(super) forgiven: NodeSet,
    /// How often a node that lacked it said that it has it. A question compares it with its value when the question
    /// began.
    pub(crate) regained: u16,
}

impl Copies {
    /// No node can have it.
    pub(super) const NONE: Self = Self {
        each: [Copy::Absent; NODES_MAX],
        having: NodeSet::EMPTY,
        lacking: NodeSet::EMPTY,
        confirmed: NodeSet::EMPTY,
        unsure: NodeSet::EMPTY,
        extending: NodeSet::EMPTY,
        forgiven: NodeSet::EMPTY,
        regained: 0,
    };

    /// These nodes have it, and have said so when they were last asked.
    pub(super) fn on(nodes: NodeSet) -> Self {
        let mut copies = Self {
            having: nodes,
            confirmed: nodes,
            ..Self::NONE
        };
        for node in nodes.iter() {
            copies.each[node.index()] = Copy::Stands;
        }
        copies
    }

    /// It was granted to another engine. Any of these nodes may have it; none has said so to this engine.
    pub(super) fn found_elsewhere(nodes: NodeSet) -> Self {
        Self {
            confirmed: NodeSet::EMPTY,
            unsure: nodes,
            ..Self::on(nodes)
        }
    }

    /// Applies `event` to the copy on `node`, and returns what becomes of it. Nothing else changes its state.
    #[inline(always)]
    pub(super) fn apply(&mut self, node: NodeId, event: Event) -> Copy {
        let copy = &mut self.each[node.index()];
        *copy = copy.after(event).must().unwrap_or(*copy);
        *copy
    }

    /// Returns the state of the copy on `node`.
    #[inline]
    pub(super) fn on_node(&self, node: NodeId) -> Copy {
        self.each[node.index()]
    }

    /// `node` has said that it has the key. `counts`: it is not in quarantine, or its clock was never stepped.
    #[inline(always)]
    pub(super) fn found(&mut self, node: NodeId, counts: bool) {
        let is_new = self.having.insert(node);
        self.confirmed.insert(node);
        if counts {
            self.unsure.remove(node);
        } else if guard!(NewCopySure, is_new) {
            self.unsure.insert(node);
        }
        if self.lacking.contains(node) {
            self.regain(node);
        }
    }

    #[cold]
    fn regain(&mut self, node: NodeId) {
        self.lacking.remove(node);
        self.regained = self.regained.wrapping_add(1);
    }

    /// `node` has said that it lacks the key. Returns `true` if that is new.
    pub(super) fn missed(&mut self, node: NodeId) -> bool {
        self.having.remove(node);
        self.confirmed.remove(node);
        self.lacking.insert(node)
    }
}
