//! The answers of nodes to the `SET` of a lock, and their consequences.
//!
//! # Guarantees
//!
//! * The claim knows from then on whether the node may have the key, even if the attempt is over.
//!
//! # Not here
//!
//! Answers of the script that returns a fencing token: [`super::fencing`].

use super::several::several_answered;
use crate::engine::answer::{Answer, Answered, unusable};
use crate::engine::claims::claim::Claim;
use crate::engine::claims::copy::Event;
use crate::engine::nodes::Nodes;
use crate::engine::parts::Parts;
use crate::error::{LinkFault, NodeOutcome, ServerError, Unusable};
use crate::keys::{ClaimKey, NodeId};
use crate::node::{Forbidden, Node, Reply, Trouble, refuses_for_certain, wants_the_text};
use crate::quorum::Vote;
use crate::time::Instant;

/// Handles the answer of `node` to the `SET` of the claim of `key`. Returns what is left for the operation, if its
/// attempt is still under way.
pub(in crate::engine) fn set_answered(
    now: Instant,
    node: NodeId,
    key: ClaimKey,
    reply: Reply,
    parts: &mut Parts,
) -> Answered {
    let Some(claim) = parts.claims.get_mut(key) else {
        return Ok(None); // The claim is over.
    };
    let answer = match reply {
        Reply::Ok => {
            parts.nodes[node].grants += 1;
            let granted = Answer::Vote((Vote::Yes, NodeOutcome::Granted));
            let attempt = claim.attempted_by();
            // For an attempt, answers that do not count are sorted out when it ends.
            let counts = attempt.is_some() || !parts.nodes[node].trust.is_kept_by_steps(now);
            let gone_by = parts.settings.drift.gone_by(now, claim.life());
            claim.found_on(node, Event::Granted, gone_by, counts);
            if let Some(operation) = attempt {
                return Ok(Some((operation, granted))); // An attempt neither rests nor is over.
            }
            granted
        }
        Reply::Nil => {
            claim.denied(node);
            Answer::Nil
        }
        Reply::Error(error) => set_refused(now, node, claim, error, &mut parts.nodes),
        Reply::Forbidden(forbidden) => {
            let there = &mut parts.nodes[node];
            set_forbidden(node, claim, forbidden, there)
        }
        Reply::Integer(said) if claim.entry.is_several() => {
            return several_answered(now, node, key, said, parts);
        }
        Reply::Integer(_) | Reply::Pair(..) | Reply::Fenced { .. } | Reply::Other => {
            claim.set_lost(node);
            return Err(Trouble::Link(LinkFault::Protocol));
        }
    };
    let (operation, is_leaving) = (claim.attempted_by(), claim.is_leaving());
    if claim.kept.is_some() {
        parts.claims.rest(key);
    }
    if is_leaving {
        let (claims, mut below) = parts.claims(now);
        claims.settle(key, &mut below);
    }
    Ok(operation.map(|operation| (operation, answer)))
}

/// `node` has refused the `SET` of `claim`. Returns the answer for the operation.
#[cold]
fn set_refused(
    now: Instant,
    node: NodeId,
    claim: &mut Claim,
    error: ServerError,
    nodes: &mut Nodes,
) -> Answer {
    match guard!(ErrorIsDenial, !refuses_for_certain(error)) {
        true => claim.set_lost(node),
        false => claim.denied(node),
    }
    let outcome = NodeOutcome::Refused(error);
    if wants_the_text(error) && nodes[node].sets_by_script() {
        nodes.writing_to(node).forgot_scripts(now);
        Answer::Forgotten(outcome)
    } else {
        Answer::Vote((Vote::Abstain, outcome))
    }
}

/// `node` has refused the `SET` of `claim` for lack of a permission. Returns the answer for the operation.
#[cold]
fn set_forbidden(
    node: NodeId,
    claim: &mut Claim,
    forbidden: Forbidden,
    there: &mut Node,
) -> Answer {
    if forbidden == Forbidden::Within {
        // A script was refused within: the calls that it made before stay done.
        claim.set_lost(node);
        return Answer::Vote(unusable(Unusable::NoPermission));
    }
    claim.denied(node);
    let several = claim.entry.is_several();
    let verb = there.verb_of_set(several);
    if forbidden == Forbidden::Command && (several || there.sets_by_script()) {
        return match there.scripts_refused(verb) {
            Ok(()) => {
                let missing = Unusable::Permission { command: verb };
                Answer::Forgotten(NodeOutcome::Unusable(missing))
            }
            Err(missing) => {
                there.forbidden(missing);
                Answer::Vote(unusable(missing))
            }
        };
    }
    if let Some(error) = there.doubt_again() {
        return Answer::Vote((Vote::Abstain, NodeOutcome::Refused(error)));
    }
    let missing = Reply::Forbidden(forbidden).missing(verb);
    let missing = missing.unwrap_or(Unusable::NoPermission);
    if !several || there.native_release().is_none() {
        there.forbidden(missing);
    }
    Answer::Vote(unusable(missing))
}
