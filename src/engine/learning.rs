//! Passes each answer to the claims and nodes that learn from it; the rest is for the operation that asked.
//!
//! # Not here
//!
//! The meaning of each kind of answer: the files of the operations, and of the releases.

use crate::keys::{NodeId, OperationKey, PlaceKey};
use crate::node::{Reply, Request};
use crate::time::Instant;

use super::answer::{Answer, Answered};
use super::operation::acquire::{self, permission};
use super::operation::permission::missing_to_extend;
use super::operation::{counters, floors, held, repair};
use super::parts::Parts;

/// Handles the answer of `node` to `request`. Claims and nodes learn from it, even if the operation that asked is over.
/// Returns what is left for that operation.
#[inline]
pub(super) fn learn(
    now: Instant,
    node: NodeId,
    request: Request,
    reply: Reply,
    parts: &mut Parts,
) -> Answered {
    match request {
        Request::Set { claim } => acquire::set_answered(now, node, claim, reply, parts),
        Request::FirstSet { claim } => {
            permission::first_set_answered(now, node, claim, reply, parts)
        }
        Request::FencedSet { claim } => {
            acquire::fencing::set_answered(now, node, claim, reply, parts)
        }
        Request::Raise { claim } => acquire::fencing::raise_answered(claim, reply, parts),
        Request::Probe { claim, way, .. } => {
            permission::probe_answered(now, node, claim, (way, reply), parts)
        }
        Request::Release {
            claim,
            dialect,
            repair,
        } => {
            // A look that was sent before it may have registered the key that it has deleted.
            let is_several = || parts.claims.is_several(claim); // Some may be deleted.
            if repair && (matches!(reply, Reply::Integer(1..)) || is_several()) {
                parts.wrote(now, claim);
            }
            let (claims, mut below) = parts.claims(now);
            claims.release_answered(node, claim, dialect, reply, &mut below)
        }
        Request::Question {
            question,
            operation,
            claim,
        } => {
            let said = held::learn(now, node, (question, claim), reply, parts)?;
            Ok(Some((operation, Answer::Question(reply, said))))
        }
        Request::Floor { operation } => {
            repair::floor_answered(node, reply, parts);
            Ok(operation.map(|operation| (operation, Answer::Vote(floors::given(reply)))))
        }
        Request::LookAtFloor { operation } => {
            let answer = repair::look_answered(now, node, reply, parts)?;
            Ok(Some((operation, answer)))
        }
        Request::Count { operation } => Ok(Some((operation, counters::counted(reply)))),
        Request::Why { operation } => Ok(Some((operation, Answer::Vote(missing_to_extend(reply))))),
        Request::Look { place, .. } => named(node, place, parts),
        Request::Handshake(_)
        | Request::Batch { .. }
        | Request::Transaction
        | Request::Withdrawn
        | Request::Time
        | Request::Track => Ok(None),
    }
}

/// `node` has named the token in the key of `place`.
#[cold]
#[inline(never)]
fn named(node: NodeId, place: PlaceKey, parts: &mut Parts) -> Answered {
    let token = parts.nodes[node].connection.token.take();
    if let Some((waiting, _)) = parts.queues.waiting(place) {
        waiting.belief.named(node, token);
    }
    Ok(None)
}

/// Returns the operation that waits for the answer to `request`, if it still does.
pub(super) fn asked_by(request: Request, parts: &Parts) -> Option<OperationKey> {
    match request {
        Request::Set { claim }
        | Request::FirstSet { claim }
        | Request::FencedSet { claim }
        | Request::Raise { claim } => parts.claims.get(claim)?.attempted_by(),
        Request::Question { operation, .. }
        | Request::LookAtFloor { operation }
        | Request::Count { operation } => Some(operation),
        Request::Handshake(_)
        | Request::Floor { .. }
        | Request::Release { .. }
        | Request::Probe { .. }
        | Request::Transaction
        | Request::Batch { .. }
        | Request::Withdrawn
        | Request::Why { .. }
        | Request::Time
        | Request::Track
        | Request::Look { .. } => None,
    }
}
