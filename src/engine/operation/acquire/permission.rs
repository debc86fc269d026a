//! Finds out with the first `SET` on a connection which permissions the user lacks.
//!
//! # Guarantees
//!
//! * The first `SET` on a connection takes a key only if the user may release it. A refusal names the missing
//!   permission, and leaves no key.

use crate::engine::answer::{Answer, Answered};
use crate::engine::claims::claim::Claim;
use crate::engine::operation::permission::missing_by;
use crate::engine::operation::top_up::copy_late;
use crate::engine::parts::Parts;
use crate::entry::Entry;
use crate::error::{LinkFault, NodeOutcome, Unusable};
use crate::invariant::Must as _;
use crate::keys::{ClaimKey, NodeId, OperationKey};
use crate::node::{
    Dialect, Forbidden, Refused, Reply, Said, Trouble, forbidden_to_lock, refuses_the_verb,
};
use crate::time::Instant;

use super::set_answered;

/// Handles the answer of `node` to the first `SET` of a connection. Returns what is left for the operation, as
/// [`set_answered`] does.
pub(in crate::engine) fn first_set_answered(
    now: Instant,
    node: NodeId,
    claim: ClaimKey,
    reply: Reply,
    parts: &mut Parts,
) -> Answered {
    let asked_with = parts.nodes[node].take_asked(claim);
    if parts.claims.is_several(claim) {
        if let Reply::Ok | Reply::Integer(1..) = reply {
            parts.nodes[node].permitted_for_several();
        }
        return set_answered(now, node, claim, reply, parts); // The script for several resources checks this each time.
    }
    if reply == Reply::Forbidden(Forbidden::Command) {
        return Ok(scripts_refused(now, node, (claim, asked_with), parts));
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
        | Reply::Fenced { .. }
        | Reply::Error(_)
        | Reply::Other => return set_answered(now, node, claim, reply, parts),
    };
    parts.nodes[node].scripts_permitted();
    set_answered(now, node, claim, plain, parts)
}

/// The `SET` was not done: `node` runs no scripts. Asks the node in which ways it can release locks without them. If
/// the restart guard needs scripts, the node cannot be used.
fn scripts_refused(
    now: Instant,
    node: NodeId,
    (key, asked_with): (ClaimKey, Option<Entry>),
    parts: &mut Parts,
) -> Option<(OperationKey, Answer)> {
    let there = parts.nodes.writing_to(node);
    if let Err(missing) = there.scripts_refused(Dialect::Text.verb()) {
        return withheld(now, node, key, missing, parts);
    }
    let claim = parts.claims.get_mut(key)?; // The claim may be over.
    claim.denied(node);
    if let Some(entry) = asked_with.must() {
        there.try_ways(now, key, &entry);
    }
    let (claims, mut below) = parts.claims(now);
    claims.settle(key, &mut below);
    None
}

/// The `SET` was not done: the user may not release locks on `node` by a script. Tries the native command of the node,
/// if it has one. The command is not tried for a lock on several resources, because it would release only one.
pub(super) fn withheld(
    now: Instant,
    node: NodeId,
    key: ClaimKey,
    missing: Unusable,
    parts: &mut Parts,
) -> Option<(OperationKey, Answer)> {
    let there = parts.nodes.writing_to(node);
    let native = there.native_release();
    let several = parts.claims.is_several(key);
    if !several || native.is_none() {
        there.forbidden(missing);
    }
    let claim = parts.claims.get_mut(key)?; // The claim may be over.
    claim.denied(node);
    let instead = missing != Unusable::KeyPermission && missing != Unusable::NeedsScripts;
    // The trial releases the token, so it is not made if the node may have it.
    let is_absent = !claim.may_hold().contains(node);
    let native = native.filter(|_| instead && !several && is_absent);
    if let Some(way) = native {
        there.ask_native(now, key, &claim.entry, way);
    }
    let operation = claim.attempted_by().filter(|_| native.is_none());
    let (claims, mut below) = parts.claims(now);
    claims.settle(key, &mut below);
    let refused = Answer::Withheld(NodeOutcome::Unusable(missing));
    operation.map(|operation| (operation, refused))
}

/// Handles the answer of `node` to a probe of one `way` to release, for the attempt of `claim`, which may be over.
#[cold]
pub(in crate::engine) fn probe_answered(
    now: Instant,
    node: NodeId,
    claim: ClaimKey,
    (way, reply): (Dialect, Reply),
    parts: &mut Parts,
) -> Answered {
    match way {
        Dialect::Text => script_answered(now, node, claim, reply, parts),
        Dialect::Sha1 | Dialect::DelIfEq | Dialect::DelEx | Dialect::SetIfEq | Dialect::Watch => {
            native_answered(node, claim, reply, parts)
        }
    }
}

/// Handles the answer of `node` to a trial of its native release, for the attempt of `claim`. The trial names a token
/// that no key has. Any answer about the key shows that the user may run the command.
fn native_answered(node: NodeId, claim: ClaimKey, reply: Reply, parts: &mut Parts) -> Answered {
    let there = &mut parts.nodes[node];
    let answer = match Said::of(reply).ok_or(Trouble::Link(LinkFault::Protocol))? {
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
    // Another way may have been permitted before, and its `SET` was sent then.
    let attempt = parts.claims.get(claim);
    let attempt = attempt.filter(|claim| !claim.may_hold().contains(node));
    let operation = attempt.and_then(Claim::attempted_by);
    Ok(operation.map(|operation| (operation, answer)))
}

/// Handles the answer of `node` to a script that does nothing, for the attempt of `claim`, which may be over.
fn script_answered(
    now: Instant,
    node: NodeId,
    claim: ClaimKey,
    reply: Reply,
    parts: &mut Parts,
) -> Answered {
    let there = parts.nodes.writing_to(node);
    let asked_with = there.take_asked(claim);
    let withheld = there.scripts_tried(reply)?;
    let attempt = parts.claims.get(claim);
    let attempt = attempt.filter(|claim| !claim.may_hold().contains(node));
    let operation = attempt.and_then(Claim::attempted_by);
    if let (None, None, Some(entry)) = (operation, withheld, asked_with) {
        granted_without(now, node, claim, &entry, parts);
    }
    let answer = withheld.map_or(Answer::Permitted, Answer::Withheld);
    Ok(operation.map(|operation| (operation, answer)))
}

/// Handles the answer of `node` to the trial of a release in a `way` without scripts, for the attempt of `claim`, which
/// may be over. The trial names a token that no key has. The `SET` is sent when the first way is permitted, and
/// withheld when the last way is refused.
pub(in crate::engine) fn way_answered(
    now: Instant,
    node: NodeId,
    claim: ClaimKey,
    (way, reply): (Dialect, Reply),
    parts: &mut Parts,
) -> Answered {
    let there = parts.nodes.writing_to(node);
    let said = Said::of_release(way, reply).ok_or(Trouble::Link(LinkFault::Protocol))?;
    let is_permitted = matches!(said, Said::Done | Said::Missing | Said::Foreign);
    let tried = (is_permitted || way == Dialect::Watch).then(|| there.take_tried(claim));
    let attempt = parts.claims.get(claim);
    let attempt = attempt.filter(|claim| !claim.may_hold().contains(node));
    let operation = attempt.and_then(Claim::attempted_by);
    if !there.is_without_scripts() {
        // Scripts are tried again meanwhile, and by who has asked for this too.
        let operation = operation.filter(|_| way == Dialect::Watch);
        return Ok(operation.map(|operation| (operation, Answer::Permitted)));
    }
    let is_last = way == Dialect::Watch && !there.may_release();
    let answer = match said {
        Said::Done | Said::Missing | Said::Foreign => {
            there.way_permitted(way);
            let Some(entry) = tried.flatten() else {
                return Ok(None); // An answer about another way has already decided about the `SET`.
            };
            if operation.is_none() {
                granted_without(now, node, claim, &entry, parts);
            }
            Answer::Permitted
        }
        Said::Refused(_) if !is_last => {
            there.way_refused(way, reply);
            return Ok(None);
        }
        Said::Refused(_) if reply == Reply::Forbidden(Forbidden::Key) => {
            Answer::Withheld(NodeOutcome::Unusable(Unusable::KeyPermission))
        }
        Said::Refused(error) => match (there.way_refused(way, reply), there.doubt_again()) {
            (_, Some(error)) => Answer::Withheld(NodeOutcome::Refused(error)),
            (Refused::ForNow, _) => Answer::Withheld(NodeOutcome::Refused(error)),
            (Refused::NoneLeft(missing), _) => {
                there.forbidden(missing);
                Answer::Withheld(NodeOutcome::Unusable(missing))
            }
            // One of the other ways was refused for now.
            (Refused::UseAnother, _) => Answer::Withheld(NodeOutcome::Refused(error)),
        },
    };
    Ok(operation.map(|operation| (operation, answer)))
}

/// `node` has shown how it releases locks, after the attempt of the claim of `key` was over. If that lock is held, the
/// node gets a copy. If an extension has already found the node lacking, the node gets its copy after the next one, as
/// usual.
#[cold]
fn granted_without(now: Instant, node: NodeId, key: ClaimKey, entry: &Entry, parts: &mut Parts) {
    let held = parts.claims.get(key).filter(|claim| {
        let has_left = claim.kept.as_ref().is_some_and(|kept| kept.has_ended());
        let is_missed = claim.lacking().contains(node);
        claim.is_held() && !claim.is_adopted() && !has_left && !is_missed
    });
    if let Some(end) = held.map(Claim::valid_until) {
        copy_late(now, node, (key, entry), end, parts);
    }
}
