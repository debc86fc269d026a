//! Records in the claims what nodes answer to questions about held locks.

use crate::engine::claims::copy;
use crate::engine::operation::acquire::permit::astray_on;
use crate::engine::parts::Parts;
use crate::keys::{ClaimKey, NodeId};
use crate::node::{Question, Reply};
use crate::quorum::Vote;
use crate::time::Instant;

/// Handles the answer of `node` to `question`. The claim learns from the answer even if the question has ended.
pub(in crate::engine) fn learn(
    now: Instant,
    node: NodeId,
    (question, claim): (Question, Option<ClaimKey>),
    reply: Reply,
    parts: &mut Parts,
) {
    let Some((key, claim)) = parts.claims.keyed(claim) else {
        return; // The claim is over, or the lock never had a claim here.
    };
    let (is_kept, is_leaving) = (claim.kept.is_some(), claim.is_leaving());
    let (vote, _) = reply.vote();
    if question == Question::Extend && vote != Vote::Abstain {
        claim.busy_mut().copies.extending.remove(node);
    }
    match vote {
        Vote::Yes => {
            let counts = !parts.nodes[node].trust.is_kept_by_steps(now);
            let gone_by = parts.settings.drift.gone_by(now, claim.life());
            claim.found_on(node, copy::Event::Has, gone_by, counts);
        }
        // The node has refused to move the token of the permit, which is still in its old slot.
        Vote::No if question == Question::Move && reply != Reply::Missing => {
            return astray_on(now, node, (key, true), parts);
        }
        // A key that is missing or belongs to another client was not extended.
        Vote::No => {
            let is_new = claim.missed_on(node);
            let busy = claim.busy();
            let is_due = is_new && is_kept && busy.extending == 0 && !busy.is_adopted;
            if is_kept {
                parts.keeper.looks.found_missing(key);
            }
            if is_due {
                parts.keeper.ask(key, claim, &mut parts.news);
            }
        }
        Vote::Abstain => {}
    }
    if is_leaving {
        parts.claims(now).settle(key);
    } else if is_kept {
        parts.claims.rest(key);
    }
}
