//! The copies of one claim: what its token may have left on each node, and what the nodes have said since.
//!
//! # Not here
//!
//! The meaning of a copy's states and events: `copy.rs`.

use crate::invariant::Must as _;
use crate::keys::NodeId;
use crate::limits::NODES_MAX;
use crate::quorum::NodeSet;

use super::copy::{Copy, Event};

/// See the [module](self).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Copies {
    /// Its states. No function but [`apply`](Self::apply) changes them.
    pub(super) each: [Copy; NODES_MAX],
    /// The nodes whose latest answer says that they have the token.
    pub(crate) having: NodeSet,
    /// The nodes whose latest answer says that they lack the token. They get a copy again.
    pub(crate) lacking: NodeSet,
    /// The nodes that have said yes in the latest majority or later, and have not denied it since.
    pub(crate) confirmed: NodeSet,
    /// The nodes that have had the token since before any step of their clocks, or ever since an answer of theirs
    /// counted. A later step there cannot have ended another client's key early.
    pub(crate) sure: NodeSet,
    /// The nodes that may have run an extension whose answer has not come, or never will. It is not known when their
    /// keys expire.
    pub(crate) extending: NodeSet,
    /// How often a node that lacked the token has said that it has it again. A question compares this with the value at
    /// its beginning.
    pub(crate) regained: u16,
}

impl Copies {
    /// No node can have the token.
    pub(super) const NONE: Self = Self {
        each: [Copy::Absent; NODES_MAX],
        having: NodeSet::EMPTY,
        lacking: NodeSet::EMPTY,
        confirmed: NodeSet::EMPTY,
        sure: NodeSet::EMPTY,
        extending: NodeSet::EMPTY,
        regained: 0,
    };

    /// Makes the copies of a claim whose token these nodes have confirmed.
    pub(super) fn on(nodes: NodeSet) -> Self {
        let mut copies = Self {
            having: nodes,
            confirmed: nodes,
            sure: nodes,
            ..Self::NONE
        };
        for node in nodes.iter() {
            copies.each[node.index()] = Copy::Stands;
        }
        copies
    }

    /// Makes the copies of a claim from another engine. Any of these nodes may have it; none has said so to this
    /// engine.
    pub(super) fn found_elsewhere(nodes: NodeSet) -> Self {
        Self {
            confirmed: NodeSet::EMPTY,
            sure: NodeSet::EMPTY,
            ..Self::on(nodes)
        }
    }

    /// Applies `event` to the copy on `node`, and returns its new state.
    #[inline(always)]
    pub(super) fn apply(&mut self, node: NodeId, event: Event) -> Copy {
        let copy = &mut self.each[node.index()];
        *copy = copy.after(event).must().unwrap_or(*copy);
        *copy
    }

    /// `node` has the token. `counts`: the answer that says so counts.
    #[inline(always)]
    pub(super) fn found(&mut self, node: NodeId, counts: bool) {
        self.having.insert(node);
        self.confirmed.insert(node);
        if !guard!(NewCopySure, !counts) {
            self.sure.insert(node);
        }
        if self.lacking.remove(node) {
            self.regained = self.regained.wrapping_add(1);
        }
    }

    /// `node` lacks the token. Returns `true` if that is new.
    pub(super) fn missed(&mut self, node: NodeId) -> bool {
        for nodes in [&mut self.having, &mut self.confirmed, &mut self.sure] {
            nodes.remove(node);
        }
        self.lacking.insert(node)
    }
}
