//! The copies of one claim: what its token may have left on each node, and what the nodes have answered since.
//!
//! # Not here
//!
//! The file `copy.rs` defines the states and events of a copy.

use crate::invariant::Must as _;
use crate::keys::NodeId;
use crate::limits::NODES_MAX;
use crate::quorum::NodeSet;

use super::copy::{Copy, Event};

/// See the [module](self).
// The fields that the engine uses for each answer come first, so that they share a cache line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub(crate) struct Copies {
    /// The nodes whose latest answer says that they have the token.
    pub(crate) having: NodeSet,
    /// The nodes whose latest answer says that they do not have the token. The engine sends these nodes another copy.
    pub(crate) lacking: NodeSet,
    /// The nodes of the latest majority, and the nodes that have confirmed the token later. Nodes that have denied the
    /// token are left out.
    pub(crate) confirmed: NodeSet,
    /// The nodes that got the token before any step of their clocks, or whose answers have counted since then. When
    /// these nodes granted the token, no clock step can have ended another client's key early.
    pub(crate) sure: NodeSet,
    /// The nodes that may have run an extension whose answer has not arrived and may never arrive. The engine does not
    /// know when the keys on these nodes expire.
    pub(crate) extending: NodeSet,
    /// The number of times that a node was found to have the token again after a loss. Each question compares this
    /// number with its value when the question began.
    pub(crate) regained: u16,
    /// The state of the copy on each node. Only [`apply`](Self::apply) changes this field.
    pub(super) each: [Copy; NODES_MAX],
}

impl Copies {
    /// The copies of a claim whose token is on no node.
    pub(super) const NONE: Self = Self {
        each: [Copy::Absent; NODES_MAX],
        having: NodeSet::EMPTY,
        lacking: NodeSet::EMPTY,
        confirmed: NodeSet::EMPTY,
        sure: NodeSet::EMPTY,
        extending: NodeSet::EMPTY,
        regained: 0,
    };

    /// Creates the copies of a claim whose token these nodes have confirmed.
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

    /// Creates the copies of a claim from another engine. Any of these nodes may have a copy, but no node has confirmed
    /// a copy to this engine.
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

    /// Records that `node` has the token. `counts` says whether the answer counts.
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

    /// Records that `node` does not have the token. Returns `false` if this was already recorded.
    pub(super) fn missed(&mut self, node: NodeId) -> bool {
        for nodes in [&mut self.having, &mut self.confirmed, &mut self.sure] {
            nodes.remove(node);
        }
        self.lacking.insert(node)
    }
}
