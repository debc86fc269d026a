//! Handles the answers of nodes to commands that take a lock.
//!
//! # Guarantees
//!
//! * After each answer, the claim knows whether the node may have the key, even if the attempt has ended.

use crate::engine::claims::copy::Event;
use crate::engine::operation::top_up::copy_late;
use crate::engine::operation::{Context, Operate};
use crate::engine::parts::Parts;
use crate::error::NodeOutcome;
use crate::keys::{ClaimKey, NodeId, OperationKey};
use crate::node::{Answer, Reply, Request};
use crate::quorum::{NodeSet, Vote};
use crate::time::Instant;

use super::permit::{astray_on, is_astray};
use super::{Acquire, Verdict};

/// Handles the answer of `node` to a command that takes the keys for the claim of `key`. Returns the operation if its
/// attempt is still in progress.
#[inline(always)]
pub(in crate::engine) fn take_answered(
    now: Instant,
    node: NodeId,
    key: ClaimKey,
    reply: Reply,
    parts: &mut Parts,
) -> Option<OperationKey> {
    let claim = parts.claims.get_mut(key)?; // The claim may be over.
    let operation = claim.attempted_by();
    if let Reply::Done | Reply::Number(_) | Reply::Slot(_) | Reply::NumberedSlot { .. } = reply {
        if let Reply::Slot(slot) | Reply::NumberedSlot { slot, .. } = reply
            && is_astray(claim, slot)
        {
            let is_new = !claim.busy().copies.lacking.contains(node);
            parts.claims(now).end_set(node, key, Event::Granted);
            astray_on(now, node, (key, is_new), parts);
            return None;
        }
        parts.nodes[node].grants += 1;
        // While the attempt is open, records every grant as a vote that counts. When the lock is handed out, the engine
        // removes from `sure` the nodes whose votes did not count because of a clock step.
        let counts = operation.is_some() || !parts.nodes[node].trust.is_kept_by_steps(now);
        let gone_by = parts.settings.drift.gone_by(now, claim.life());
        claim.found_on(node, Event::Granted, gone_by, counts);
        if operation.is_some() {
            return operation; // The claim of an attempt is neither idle nor over.
        }
    } else {
        let may_have_run = guard!(ErrorIsDenial, matches!(reply, Reply::Unsure(_)));
        let event = match may_have_run || !guard!(DeniedReleased, true) {
            true => Event::Lost,
            false => Event::NotRun,
        };
        parts.claims(now).end_set(node, key, event);
    }
    let claim = parts.claims.get(key)?;
    let is_leaving = claim.is_leaving();
    if claim.kept.is_some() {
        parts.claims.rest(key);
    }
    if is_leaving {
        parts.claims(now).settle(key);
    }
    operation
}

impl Acquire {
    /// Counts the vote of `node`, or sends it another command.
    pub(super) fn hear(&mut self, node: NodeId, answer: &Answer, cx: &mut Context<'_>) {
        let Answer { request, reply } = *answer;
        let said = match reply {
            Reply::Number(number) => return self.counted(node, number, cx),
            Reply::Slot(slot) => return self.gave(node, slot, 0, cx),
            Reply::NumberedSlot { slot, number } => return self.gave(node, slot, number, cx),
            Reply::Renumbered(number) => return self.renumbered(node, number, cx),
            Reply::Done if matches!(request, Request::Raise { .. }) => {
                return self.raised(node, cx);
            }
            Reply::Done if matches!(request, Request::Probe { .. }) => {
                return self.permitted(node, cx);
            }
            // Ignores an answer to an earlier attempt, even if it is an error.
            _ if matches!(request, Request::Question { claim, .. } if claim != self.claim) => {
                return;
            }
            Reply::Done | Reply::Foreign(_) if matches!(request, Request::Question { .. }) => {
                return self.moved(node, reply == Reply::Done, cx);
            }
            // The node has no token at all.
            Reply::Missing => (Vote::Abstain, NodeOutcome::Missing),
            Reply::Foreign(_) | Reply::Intent(_) | Reply::Full(_)
                if matches!(request, Request::Take { .. }) =>
            {
                self.kept_out(node, reply, cx.now);
                match self.meets_own_key(node, cx) {
                    false => reply.vote(),
                    true if self.ask_again(node, true, cx) => return,
                    true => (Vote::Abstain, NodeOutcome::Pending),
                }
            }
            Reply::Again(_) if self.ask_again(node, false, cx) => return,
            Reply::NotDone(outcome @ NodeOutcome::Unusable(_)) => {
                self.left_out(outcome, cx);
                // The report names the missing permission or command even if the answer of this node does not count.
                if cx.round.asks(node) && !cx.round.awaits(node) {
                    cx.round[node].outcome = outcome;
                }
                reply.vote()
            }
            Reply::Later => return,
            Reply::Done
            | Reply::Foreign(_)
            | Reply::Intent(_)
            | Reply::Again(_)
            | Reply::NotDone(_)
            | Reply::Unsure(_)
            | Reply::Stopped
            | Reply::Kept(_)
            | Reply::Full(_)
            | Reply::OtherPermits(_)
            | Reply::Scanned { .. }
            | Reply::InRepair(_) => reply.vote(),
        };
        self.vote(node, said, cx);
    }

    /// Records the reason why `node` refuses this operation.
    fn kept_out(&mut self, node: NodeId, reply: Reply, now: Instant) {
        if let Reply::Foreign(which) = reply {
            self.named(node, which);
        } else if let Reply::Intent(lasts) = reply {
            self.met_intent(node, lasts, now);
        } else if let Reply::Full(left) = reply {
            self.is_full(node, left, now);
        }
    }

    /// Asks `node` for the lock, because `node` has shown that it can release the lock.
    #[cold]
    fn permitted(&mut self, node: NodeId, cx: &mut Context<'_>) {
        let in_time = cx.round.awaits(node) || cx.now < cx.round[node].deadline;
        if cx.round.asks(node) && in_time {
            self.ask_now(node, cx);
        } else if let Verdict::Granted(_, end) = self.verdict {
            self.granted_without(node, end, cx);
        }
    }

    /// Sends a copy to `node`, because a majority granted the lock before `node` got its `SET`.
    #[cold]
    fn granted_without(&self, node: NodeId, end: Instant, cx: &mut Context<'_>) {
        let claim = cx.parts.claims.keyed(self.claim);
        let tried = claim.map(|(key, claim)| (key, claim.entry.clone()));
        if let Some((key, entry)) = tried {
            copy_late(cx.now, node, (key, &entry), end, cx.parts);
        }
    }

    /// Sends copies to those nodes in `nodes` that first had to show how they release locks. A majority granted the
    /// lock before a `SET` could be sent to these nodes.
    #[cold]
    pub(super) fn copy_withdrawn(&self, nodes: NodeSet, end: Instant, cx: &mut Context<'_>) {
        for node in nodes.iter() {
            if cx.parts.nodes[node].abilities.is_without_scripts() {
                self.granted_without(node, end, cx);
            }
        }
    }
}
