//! Decides which answers of nodes count for an operation.
//!
//! | an answer counts | decided by |
//! | --- | --- |
//! | if the node counts now, or at least for copies as old as this one | `node::trust`, asked by [`Bounds::kept_until`] |
//! | if it does not say itself that the node's marker or barrier forbids it | `node::trust`, as the answer is read |
//! | if it comes in time, and from a node that the lock stands on | [`Bounds::ballot`] |
//!
//! If a node's answer cannot count, the node is excluded before it is asked ([`Bounds::leave_out`]), so that an
//! operation that cannot get a majority ends immediately. If the node's answers stop counting later, or its answer
//! shows that it does not count, its vote is [lost](super::Operate::lose).
//!
//! # Not here
//!
//! The module `node::trust` decides why a node does not vote. The module [`quorum`](crate::quorum) adds up the votes.

use crate::error::NodeOutcome;
use crate::keys::{ClaimKey, NodeId};
use crate::quorum::{NodeSet, Vote};
use crate::time::Instant;

use super::Context;

/// The conditions under which an answer counts.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Bounds {
    /// The time until which a yes vote counts, or `None` if it counts at any time.
    pub(super) end: Option<Instant>,
    /// The nodes whose yes votes count, or `None` if the yes votes of all nodes count.
    pub(super) voters: Option<NodeSet>,
    /// The claim whose copies the answer describes. A node may have got its copy before any step of its clock.
    pub(super) claim: Option<ClaimKey>,
}

impl Bounds {
    /// No further conditions: an answer counts if the answers of its node count.
    pub(super) const NONE: Self = Self {
        end: None,
        voters: None,
        claim: None,
    };

    /// Returns how the answer of `node` counts at `now`.
    #[inline(always)]
    pub(super) fn ballot(
        &self,
        now: Instant,
        node: NodeId,
        (vote, outcome): (Vote, NodeOutcome),
    ) -> (Vote, NodeOutcome) {
        let late = self.end.is_some_and(|end| end <= now);
        match vote {
            Vote::Yes if guard!(ExtensionAfterValidity, late) => {
                (Vote::Abstain, NodeOutcome::TimedOut)
            }
            Vote::Yes if self.voters.is_some_and(|voters| !voters.contains(node)) => {
                (Vote::Abstain, NodeOutcome::Missing)
            }
            Vote::Yes | Vote::No | Vote::Abstain => (vote, outcome),
        }
    }

    /// Returns the time until which the answers of `node` do not count, or `None` if they count now.
    pub(super) fn kept_until(&self, node: NodeId, cx: &Context<'_>) -> Option<Instant> {
        let claim = self.claim.and_then(|claim| cx.parts.claims.get(claim));
        let is_old = claim.is_some_and(|claim| claim.copies().sure.contains(node));
        let trust = &cx.parts.nodes[node].trust;
        trust.kept_until_about(cx.now, is_old)
    }

    /// Records that the next answer of `node` will not count, if this is already known. A node with a barrier is asked
    /// again after a second, because its answer shows whether the barrier still exists.
    #[inline(always)]
    pub(super) fn leave_out(&self, node: NodeId, cx: &mut Context<'_>) {
        if cx.parts.nodes[node].trust.unasked_until(cx.now).is_some()
            && let Some(until) = self.kept_until(node, cx)
        {
            let outcome = NodeOutcome::Quarantined { until };
            cx.round.record(node, Vote::Abstain, outcome);
        }
    }
}
