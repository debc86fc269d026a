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
use crate::keys::{ClaimKey, NodeId};
use crate::limits::COMMAND_BYTES_MAX;
use crate::node::{
    Access, Dialect, Forbidden, Reply, Said, Trouble, forbidden_to_extend, forbidden_to_lock,
    refuses_the_verb,
};
use crate::quorum::Vote;
use crate::time::Instant;

use super::acquire::Acquire;
use super::{Context, vote};
use crate::engine::parts::Parts;

// ----- the first `SET` ----------------------------------------------------------------------

/// Whether a `SET` may be sent to a node.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) enum Leave {
    /// Its lock may be released there.
    Permitted,
    /// Not, and why.
    Withheld(NodeOutcome),
}

/// `node` has answered the first `SET` of a connection. Returns what the plain one would have been
/// answered; or, if it was not done, what its attempt is to hear, if that is known already.
pub(in crate::engine) fn first_set_answered(
    now: Instant,
    node: NodeId,
    claim: ClaimKey,
    reply: Reply,
    parts: &mut Parts,
) -> Result<Reply, Option<Leave>> {
    let plain = match reply {
        Reply::Ok | Reply::Integer(1) => Reply::Ok,
        Reply::Nil | Reply::Integer(0) => Reply::Nil,
        Reply::Integer(_)
        | Reply::Forbidden(_)
        | Reply::Pair(..)
        | Reply::Error(_)
        | Reply::Other => {
            return match missing_to_lock(reply) {
                Some(missing) => Err(withheld(now, node, claim, missing, parts)),
                None => Ok(reply),
            };
        }
    };
    parts.nodes[node].scripts_permitted();
    Ok(plain)
}

/// The `SET` was not done: locks cannot be released on `node` by a script. Its native command is tried,
/// if it has one.
fn withheld(
    now: Instant,
    node: NodeId,
    claim: ClaimKey,
    missing: Unusable,
    parts: &mut Parts,
) -> Option<Leave> {
    let there = &mut parts.nodes[node];
    there.forbidden(missing);
    let claim = parts.claims.get_mut(claim)?; // It may be over.
    claim.unanswered.remove(node);
    claim.denied(node);
    let native = there.native_release();
    let native = native.filter(|_| missing != Unusable::KeyPermission);
    let (Some(way), Some(entry)) = (native, &claim.entry) else {
        return Some(Leave::Withheld(NodeOutcome::Unusable(missing)));
    };
    there.ask_native(now, claim.key, entry, way);
    parts.nodes.has_to_write(node);
    None
}

/// `node` has answered the native release of a token that no key has. What it says of the key
/// does not matter: a user who gets such an answer may run it.
pub(in crate::engine) fn native_answered(
    node: NodeId,
    reply: Reply,
    parts: &mut Parts,
) -> Result<Leave, Trouble> {
    let there = &mut parts.nodes[node];
    Ok(
        match Said::of(reply).ok_or(Trouble::Link(LinkError::Protocol))? {
            Said::Done | Said::Missing | Said::Foreign => {
                there.native_permitted();
                Leave::Permitted
            }
            Said::Refused(error) if refuses_the_verb(error) => {
                there.refused_native_release();
                let missing = there.missing_permission();
                let missing = missing.unwrap_or(Unusable::NoPermission);
                Leave::Withheld(NodeOutcome::Unusable(missing))
            }
            Said::Refused(error) => Leave::Withheld(NodeOutcome::Refused(error)),
        },
    )
}

impl Acquire {
    /// `node` has shown whether its `SET` may be sent there. It is, if it is still wanted. A refusal is
    /// reported also of a node whose answer would not have counted.
    pub(in crate::engine) fn has_leave(
        &mut self,
        node: NodeId,
        leave: Leave,
        cx: &mut Context<'_>,
    ) {
        let asks = cx.round.asks(node);
        match leave {
            Leave::Permitted => {
                let in_time = cx.round.awaits(node) || cx.now < cx.round[node].deadline;
                if asks && in_time {
                    self.ask_now(node, cx);
                }
            }
            Leave::Withheld(outcome) => {
                if asks && !cx.round.awaits(node) {
                    cx.round[node].outcome = outcome;
                }
                let _ = vote(self, node, (Vote::Abstain, outcome), cx);
            }
        }
    }
}

// ----- extensions ---------------------------------------------------------------------------

/// Asks `node` which permission was missing when it answered a question about `entry` by `reply`.
/// Returns `false` if `reply` tells nothing of a permission, or `node` cannot be asked.
pub(super) fn ask_why(node: NodeId, entry: &Entry, reply: Reply, cx: &mut Context<'_>) -> bool {
    let asks = reply == Reply::Forbidden(Forbidden::Within)
        && cx.parts.nodes[node].access(COMMAND_BYTES_MAX) == Access::Open
        && cx.round.awaits(node);
    if asks {
        cx.parts.nodes[node].ask_why(cx.now, cx.round.key, entry);
        cx.parts.nodes.has_to_write(node);
    }
    asks
}

/// Returns the vote of a node that has answered `reply` when it was asked what was missing for an
/// extension or confirmation.
pub(super) fn missing_to_extend(reply: Reply) -> (Vote, NodeOutcome) {
    let missing = match reply {
        Reply::Integer(answer) => forbidden_to_extend(answer),
        Reply::Forbidden(_)
        | Reply::Ok
        | Reply::Nil
        | Reply::Pair(..)
        | Reply::Error(_)
        | Reply::Other => reply.missing(Dialect::Text.verb()),
    };
    let unnamed = NodeOutcome::Refused(ServerError::from_line(b"ERR"));
    let outcome = missing.map_or(unnamed, NodeOutcome::Unusable);
    (Vote::Abstain, outcome)
}

/// Returns what is missing by this answer to the first `SET` of a connection, which was not done
/// then. Returns `None` if the answer says nothing of that.
fn missing_to_lock(reply: Reply) -> Option<Unusable> {
    match reply {
        Reply::Integer(answer) => forbidden_to_lock(answer),
        Reply::Forbidden(_)
        | Reply::Ok
        | Reply::Nil
        | Reply::Pair(..)
        | Reply::Error(_)
        | Reply::Other => reply.missing(Dialect::Text.verb()),
    }
}
