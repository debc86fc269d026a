//! Sends counter floors: each node that an operator trusts gets a floor. If a caller of this engine has requested a
//! fencing token, the operator learns which nodes got no floor. Otherwise no report is needed, even if a node has no
//! permission to store a floor.
//!
//! If a handshake of a node is in progress, the engine waits until it has ended. The operation waits for all trusted
//! nodes, but at most for the connect timeout.
//!
//! # Guarantees
//!
//! * A node counts as having a floor only after it has answered that it wrote the floor. A node that has not answered
//!   may still have written the floor.
//!
//! # Not here
//!
//! The module `engine::fencing` decides how high the floor is, and when nodes get one.

use alloc::vec::Vec;

use crate::error::{NodeOutcome, Unusable};
use crate::keys::NodeId;
use crate::node::{Command, Whose};
use crate::quorum::{NodeSet, Vote};

use super::{Context, Operate, ask_all};
use crate::engine::contract::{Event, RoundId};

/// See the [module](self).
#[derive(Debug)]
pub(in crate::engine) struct GiveFloors {
    trusted: NodeSet,
}

impl GiveFloors {
    pub(in crate::engine) const fn new(trusted: NodeSet) -> Self {
        Self { trusted }
    }
}

impl Operate for GiveFloors {
    fn begin(&mut self, cx: &mut Context<'_>) {
        let deadline = cx.now.saturating_add(cx.parts.settings.connect_timeout);
        for node in cx.parts.nodes.ids() {
            if self.trusted.contains(node) {
                cx.round[node].deadline = deadline;
            } else {
                cx.round.record(node, Vote::Abstain, NodeOutcome::Pending);
            }
        }
        ask_all(self, cx);
        if cx.round.is_voting() {
            cx.round.arm(&mut cx.parts.timers);
        }
    }

    fn ask(&mut self, node: NodeId, _command: &mut Command, cx: &mut Context<'_>) -> bool {
        if !cx.round.awaits(node) {
            return true; // The operator does not trust this node.
        }
        cx.reach(node, Whose::Other, |cx| {
            if cx.parts.nodes[node].abilities.runs_no_scripts() {
                return Err(Unusable::NeedsScripts);
            }
            let floor = cx.parts.fencing.floor(cx.now);
            let there = cx.parts.nodes.writing_to(node);
            match there.set_floor(cx.now, cx.round.key, floor) {
                true => Ok(()),
                false => Err(Unusable::NoRunId),
            }
        })
    }

    fn tell(&mut self, cx: &mut Context<'_>) -> Option<Event> {
        let without = match cx.parts.fencing.is_used() {
            true => self.trusted.without(cx.round.tally.yes()),
            false => NodeSet::EMPTY,
        };
        let without = without.iter().map(|node| (node, cx.round[node].outcome));
        Some(Event::FloorsGiven {
            round: RoundId(cx.round.key),
            without: without.collect::<Vec<_>>(),
        })
    }
}
