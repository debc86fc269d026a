//! What a user may not do: found out with the first `SET` on a connection, and after an extension that
//! was refused.
//!
//! # Guarantees
//!
//! * The first `SET` on a connection is done only if its release is permitted. A refusal names the
//!   missing permission, and leaves no key.
//! * A refused extension names what is missing, also where the error of the script does not.

use crate::entry::Entry;
use crate::error::{LinkError, NodeOutcome, ServerError, Unusable};
use crate::keys::{ClaimKey, NodeId, OperationKey};
use crate::node::{
    Access, Dialect, Forbidden, Reply, Said, Trouble, forbidden_to_extend, forbidden_to_lock,
    refuses_the_verb,
};
use crate::quorum::Vote;
use crate::time::Instant;

use super::Context;
use super::acquire::set_answered;
use crate::engine::answer::{Answer, Answered};
use crate::engine::claims::claim::Claim;
use crate::engine::parts::Parts;

// ----- the first `SET` ----------------------------------------------------------------------

/// `node` has answered the first `SET` of a connection, as `claim` learns. Returns what is left for the
/// operation, as [`set_answered`] does.
pub(in crate::engine) fn first_set_answered(
    now: Instant,
    node: NodeId,
    claim: ClaimKey,
    reply: Reply,
    parts: &mut Parts,
) -> Answered {
    if parts
        .claims
        .get(claim)
        .is_some_and(|claim| claim.is_for_several())
    {
        if let Reply::Ok | Reply::Integer(1..) = reply {
            parts.nodes[node].permitted_for_several();
        }
        return set_answered(now, node, claim, reply, parts); // Its script asks each time.
    }
    if let Some(missing) = missing_by(reply, forbidden_to_lock) {
        return Ok(withheld(now, node, claim, missing, parts));
    }
    let plain = match reply {
        Reply::Ok | Reply::Integer(1) => Reply::Ok,
        Reply::Nil | Reply::Integer(0) => Reply::Nil,
        Reply::Integer(_)
        | Reply::Forbidden(_)
        | Reply::Pair(..)
        | Reply::Error(_)
        | Reply::Other => return set_answered(now, node, claim, reply, parts),
    };
    parts.nodes[node].scripts_permitted();
    set_answered(now, node, claim, plain, parts)
}

/// The `SET` was not done: locks cannot be released on `node` by a script. Its native command is tried,
/// if it has one; not for a lock on several resources, of which it would release one.
pub(super) fn withheld(
    now: Instant,
    node: NodeId,
    key: ClaimKey,
    missing: Unusable,
    parts: &mut Parts,
) -> Option<(OperationKey, Answer)> {
    let there = parts.nodes.writing_to(node);
    let native = there.native_release();
    let several = parts
        .claims
        .get(key)
        .is_some_and(|claim| claim.is_for_several());
    if !several || native.is_none() {
        there.forbidden(missing);
    }
    let claim = parts.claims.get_mut(key)?; // It may be over.
    claim.unanswered.remove(node);
    let paid = claim.denied(node);
    let native = native.filter(|_| missing != Unusable::KeyPermission && !several);
    let native = native.zip(claim.entry.as_ref());
    if let Some((way, entry)) = native {
        there.ask_native(now, key, entry, way);
    }
    let operation = claim.attempted_by().filter(|_| native.is_none());
    if paid {
        return parts.not_owed(node, key);
    }
    parts.claims.settle(key, &mut parts.timers);
    let refused = Answer::Withheld(NodeOutcome::Unusable(missing));
    operation.map(|operation| (operation, refused))
}

/// `node` has answered the native release of a token that no key has, for the attempt of `claim`. What
/// it says of the key does not matter: a user who gets such an answer may run it.
pub(in crate::engine) fn native_answered(
    node: NodeId,
    claim: ClaimKey,
    reply: Reply,
    parts: &mut Parts,
) -> Answered {
    let there = &mut parts.nodes[node];
    let answer = match Said::of(reply).ok_or(Trouble::Link(LinkError::Protocol))? {
        Said::Done | Said::Missing | Said::Foreign => {
            there.native_permitted();
            Answer::Permitted
        }
        Said::Refused(error) if refuses_the_verb(error) => {
            there.refused_native_release();
            let missing = there.missing_permission();
            let missing = missing.unwrap_or(Unusable::NoPermission);
            Answer::Withheld(NodeOutcome::Unusable(missing))
        }
        Said::Refused(error) => Answer::Withheld(NodeOutcome::Refused(error)),
    };
    let operation = parts.claims.get(claim).and_then(Claim::attempted_by);
    Ok(operation.map(|operation| (operation, answer)))
}

// ----- extensions ---------------------------------------------------------------------------

/// Asks `node` which permission was missing when it answered a question about `entry` by `reply`.
/// Returns `false` if `reply` tells nothing of a permission, or `node` cannot be asked.
pub(super) fn ask_why(node: NodeId, entry: &Entry, reply: Reply, cx: &mut Context<'_>) -> bool {
    let asks = reply == Reply::Forbidden(Forbidden::Within)
        && cx.parts.nodes[node].access() == Access::Open
        && cx.round.awaits(node);
    if asks {
        let there = cx.parts.nodes.writing_to(node);
        there.ask_why(cx.now, cx.round.key, entry);
    }
    asks
}

/// Returns the vote of a node that has answered `reply` when it was asked what was missing for an
/// extension or confirmation.
pub(in crate::engine) fn missing_to_extend(reply: Reply) -> (Vote, NodeOutcome) {
    let unnamed = NodeOutcome::Refused(ServerError::from_line(b"ERR"));
    let missing = missing_by(reply, forbidden_to_extend);
    (
        Vote::Abstain,
        missing.map_or(unnamed, NodeOutcome::Unusable),
    )
}

/// Returns what is missing by `reply`, where `named` says which permission a number names. Returns `None`
/// if it says nothing of that.
fn missing_by(reply: Reply, named: impl Fn(i64) -> Option<Unusable>) -> Option<Unusable> {
    match reply {
        Reply::Integer(answer) => named(answer),
        Reply::Forbidden(_)
        | Reply::Ok
        | Reply::Nil
        | Reply::Pair(..)
        | Reply::Error(_)
        | Reply::Other => reply.missing(Dialect::Text.verb()),
    }
}
