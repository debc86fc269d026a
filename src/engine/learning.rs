//! Lets the claims handle each answer before the operation handles it.
//!
//! # Not here
//!
//! The module `node` handles the parts of an answer that concern the node itself. The files of the operations and of
//! the releases define the meaning of each kind of answer.

use crate::error::{NodeOutcome, Unusable};
use crate::keys::{ClaimKey, NodeId, OperationKey, PlaceKey};
use crate::node::{Answer, Reply, Request, Taking};
use crate::time::Instant;

use super::claims::claim::Claim;
use super::news::News;
use super::operation::top_up::copy_late;
use super::operation::{acquire, held, repair};
use super::parts::Parts;

/// Handles the `answer` of `node`. The claims learn from the answer even if the operation has ended. Returns the
/// operation that waits for the answer, if any.
#[inline(always)]
pub(super) fn learn(
    now: Instant,
    node: NodeId,
    answer: &mut Answer,
    parts: &mut Parts,
) -> Option<OperationKey> {
    let reply = answer.reply;
    match answer.request {
        Request::Take { claim, by } => {
            if let Taking::Fenced { .. } = by {
                answer.reply = learn_of_counters(node, reply, parts);
            }
            acquire::take_answered(now, node, claim, reply, parts)
        }
        Request::Release {
            claim,
            by,
            is_taught,
            repair,
        } => {
            // The release has deleted the key. After this write, the node no longer reports changes to the key, so the
            // waiters must ask it again.
            if repair && (reply == Reply::Done || !is_taught) {
                parts.wrote(now, claim);
            }
            parts.claims(now).release_answered(node, (claim, by), reply)
        }
        Request::Question {
            question,
            operation,
            claim,
            ..
        } => {
            held::learn(now, node, (question, claim), reply, parts);
            Some(operation)
        }
        Request::Floor { operation } => {
            repair::floor_answered(node, reply, parts);
            operation
        }
        Request::LookAtFloor { operation } => {
            repair::look_answered(now, node, reply, parts);
            Some(operation)
        }
        Request::Name { place } => {
            named(now, node, place, reply, parts);
            None
        }
        Request::Probe { claim, .. } => learn_of_way(now, node, claim, reply, parts),
        Request::Raise { claim } => parts.claims.get(claim).and_then(Claim::attempted_by),
        Request::Scan { operation, .. } | Request::Why { operation } => Some(operation),
    }
}

/// Learns from `reply` whether `node` can release a lock. If the attempt of this claim waits for the answer, returns
/// the attempt. Returns `None` if the node may already have the key, because the engine already knew another way to
/// release the lock.
#[cold]
fn learn_of_way(
    now: Instant,
    node: NodeId,
    key: ClaimKey,
    reply: Reply,
    parts: &mut Parts,
) -> Option<OperationKey> {
    let claim = parts.claims.get(key);
    let claim = claim.filter(|claim| !claim.may_hold.contains(node))?;
    let operation = claim.attempted_by();
    if operation.is_none() && reply == Reply::Done {
        granted_without(now, node, key, parts);
    }
    operation
}

/// Sends `node` a copy of the lock of `key`, if a caller holds the lock. The node has shown how it releases locks, but
/// the attempt has already ended. If an extension has already found that the node does not have the lock, the next
/// extension sends the copy instead.
#[cold]
fn granted_without(now: Instant, node: NodeId, key: ClaimKey, parts: &mut Parts) {
    let held = parts.claims.get(key).filter(|claim| {
        let has_left = claim.kept.as_ref().is_some_and(|kept| kept.has_ended());
        let is_missed = claim.busy().copies.lacking.contains(node);
        claim.is_held() && !claim.busy().is_adopted && !has_left && !is_missed
    });
    if let Some((entry, end)) = held.map(|claim| (claim.entry.clone(), claim.entry.end())) {
        copy_late(now, node, (key, &entry), end, parts);
    }
}

/// Learns from the answer of `node` to the script that raises counters. Returns the reply for the operation, with a
/// more precise reason if the node has no counter floor.
#[cold]
fn learn_of_counters(node: NodeId, reply: Reply, parts: &mut Parts) -> Reply {
    const NO_FLOOR: NodeOutcome = NodeOutcome::Unusable(Unusable::NoFloor);
    if reply == Reply::NotDone(NO_FLOOR) {
        let quorum = parts.nodes.quorum();
        let why = parts.fencing.has_no_floor(node, quorum, &mut parts.news);
        return Reply::NotDone(NodeOutcome::Unusable(why));
    }
    if let Reply::Number(number) | Reply::Renumbered(number) | Reply::NumberedSlot { number, .. } =
        reply
    {
        parts.fencing.saw(number);
    }
    if let Reply::Number(_)
    | Reply::Renumbered(_)
    | Reply::NumberedSlot { .. }
    | Reply::Foreign(_)
    | Reply::Intent(_)
    | Reply::Full(_)
    | Reply::OtherPermits(_) = reply
    {
        parts.fencing.has_floor(node);
    }
    reply
}

/// Learns from the `reply` of `node`, which names the token in the key of `place`, or says that the key is a sorted
/// set. If a reader or the holder of a permit is alone in the set, its token is treated as the token in the key. If the
/// key is a set, a waiting reader may ask the nodes again soon, and a waiter for the exclusive lock must block new
/// readers.
#[cold]
#[inline(never)]
fn named(now: Instant, node: NodeId, place: PlaceKey, reply: Reply, parts: &mut Parts) {
    let connection = &mut parts.nodes[node].connection;
    let (token, members) = (connection.token.take(), connection.members.take());
    let is_set = members.is_some() || matches!(reply, Reply::Foreign(_));
    let alone = match members.as_deref() {
        Some([alone]) => Some(alone.token.clone()),
        Some(_) | None => None,
    };
    if let Some((waiting, _)) = parts.queues.waiting(place) {
        waiting.belief.named(node, token.or(alone), is_set);
        if is_set {
            parts.leave_intent(now, place);
            parts
                .news
                .extend(parts.queues.contender(place).map(News::Stirred));
        }
    }
}
