//! The copies of one claim: what its token may have left on each node.
//!
//! # Guarantees
//!
//! * The state of a copy changes by [`Copies::apply`] alone.
//!
//! # Not here
//!
//! What the states mean, and what an event makes of them: [`super::copy`].

use crate::invariant::Must as _;
use crate::keys::NodeId;
use crate::limits::NODES_MAX;
use crate::quorum::NodeSet;

use super::copy::{Copy, Event};

/// See the [module](self).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Copies {
    each: [Copy; NODES_MAX],
    /// The nodes whose copy [`lacks`](Copy::lacks) the key, while the lock is held.
    lacking: NodeSet,
    /// The nodes where an extension is unanswered, or was when its connection was lost: when the key expires there
    /// is not known.
    extending: NodeSet,
    /// The nodes that said that they have it when a majority last did, or since.
    confirmed: NodeSet,
    /// The nodes where it may be newer than a step of the clock: they were in quarantine when they were found to
    /// have it, or another engine found them, and they have not said so since while their answers counted.
    unsure: NodeSet,
    /// How often a node that lacked it said that it has it. A question compares it with what it was when that
    /// began.
    regained: u16,
}

/// What an event has made of a copy.
#[derive(Clone, Copy, Debug)]
#[must_use = "what was owed there may be so no more"]
pub(crate) struct Change {
    pub(super) before: Copy,
    pub(super) after: Copy,
}

impl Change {
    /// Its release was not owed, and is now.
    pub(super) fn is_indebted(self) -> bool {
        !self.before.is_owed() && self.after.is_owed()
    }

    /// Its release was owed, and the copy is over.
    pub(super) fn is_paid(self) -> bool {
        self.before.is_owed() && self.after == Copy::Absent
    }

    /// The node lacks it, which was not known.
    pub(crate) fn is_missed(self) -> bool {
        !self.before.lacks() && self.after.lacks()
    }
}

impl Copies {
    /// No node can have it.
    pub(super) const NONE: Self = Self {
        each: [Copy::Absent; NODES_MAX],
        lacking: NodeSet::EMPTY,
        extending: NodeSet::EMPTY,
        confirmed: NodeSet::EMPTY,
        unsure: NodeSet::EMPTY,
        regained: 0,
    };

    /// These nodes have it, and have said so when they were last asked.
    pub(super) fn on(nodes: NodeSet) -> Self {
        let mut copies = Self::NONE;
        for node in nodes.iter() {
            copies.each[node.index()] = Copy::Granted;
        }
        copies.confirmed = nodes;
        copies
    }

    /// Any of these nodes may have it: another engine has found them, and none has said so here.
    pub(super) fn found_elsewhere(nodes: NodeSet) -> Self {
        Self {
            confirmed: NodeSet::EMPTY,
            unsure: nodes,
            ..Self::on(nodes)
        }
    }

    /// Applies `event` to the copy on `node`: the one place where the state of a copy changes.
    #[inline(always)]
    pub(super) fn apply(&mut self, node: NodeId, event: Event) -> Change {
        let there = &mut self.each[node.index()];
        let before = *there;
        let after = before.after(event).must().unwrap_or(before);
        *there = after;
        match event {
            Event::Granted | Event::Has if after.has() => {
                self.confirmed.insert(node);
                if before.lacks() {
                    self.regain(node);
                }
            }
            Event::Lacks if after.lacks() => {
                self.confirmed.remove(node);
                self.lacking.insert(node);
            }
            _ => {}
        }
        Change { before, after }
    }

    #[cold]
    fn regain(&mut self, node: NodeId) {
        self.lacking.remove(node);
        self.regained = self.regained.wrapping_add(1);
    }

    /// Returns the state of the copy on `node`.
    #[inline]
    pub(crate) fn on_node(&self, node: NodeId) -> Copy {
        self.each[node.index()]
    }

    /// Returns the nodes that said that they lack it, and not since that they have it, while the lock is held.
    pub(super) fn lacking(&self) -> NodeSet {
        self.lacking
    }

    /// Returns how often a node that lacked it said that it has it.
    pub(crate) fn regained(&self) -> u16 {
        self.regained
    }

    /// Returns the same copies, of which nodes have regained theirs so often.
    pub(super) fn with_regained(self, regained: u16) -> Self {
        Self { regained, ..self }
    }

    // ----- extensions -----------------------------------------------------------------------

    /// An extension was sent to `node`, or its answer will not come: when the key expires is not known.
    pub(crate) fn begin_extending(&mut self, node: NodeId) {
        self.extending.insert(node);
    }

    /// The extension is over there, and when the key expires is known. Returns `true` if that was not so.
    pub(crate) fn end_extending(&mut self, node: NodeId) -> bool {
        self.extending.remove(node)
    }

    /// Returns the nodes where an extension is unanswered, or was when its connection was lost.
    pub(super) fn extending(&self) -> NodeSet {
        self.extending
    }

    // ----- votes ----------------------------------------------------------------------------

    /// This `majority` has said that it has it.
    pub(super) fn confirm(&mut self, majority: NodeSet) {
        self.confirmed = majority;
    }

    /// Returns the nodes that said that they have it when a majority last did, or since.
    pub(crate) fn confirmed(&self) -> NodeSet {
        self.confirmed
    }

    /// On these nodes it may be newer than a step of the clock.
    pub(crate) fn set_unsure(&mut self, nodes: NodeSet) {
        self.unsure = nodes;
    }

    /// It was found on `node` while the answers of that counted, or not.
    #[inline(always)]
    pub(super) fn found(&mut self, node: NodeId, counts: bool, before: Copy) {
        if counts {
            self.unsure.remove(node);
        } else if guard!(NewCopySure, !before.has()) {
            self.unsure.insert(node);
        }
    }

    /// Returns the nodes where it may be newer than a step of the clock.
    pub(super) fn unsure(&self) -> NodeSet {
        self.unsure
    }
}
