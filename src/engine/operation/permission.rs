//! Finds out, after a refused question, which permission the user lacks. The report names it, even if the error of the
//! script does not.
//!
//! # Not here
//!
//! The permission to take and release locks, which the first `SET` on a connection needs: `acquire/permission.rs`.

use crate::entry::Entry;
use crate::error::{NodeOutcome, ServerError, Unusable};
use crate::keys::NodeId;
use crate::node::{Access, Dialect, Forbidden, Question, Reply, forbidden_to_extend};
use crate::quorum::Vote;

use super::Context;
use crate::engine::parts::Parts;

/// A node runs no scripts, so the question has to be asked without one.
pub(super) struct AskWithoutScripts;

/// Returns the permission that is missing, if `node` has refused a question about an entry as `forbidden` and this
/// names one.
///
/// # Errors
///
/// A script was refused, and the question can be asked without one.
pub(super) fn missing_for(
    node: NodeId,
    (question, entry): (Question, &Entry),
    forbidden: Forbidden,
    parts: &mut Parts,
) -> Result<Option<Unusable>, AskWithoutScripts> {
    let there = &mut parts.nodes[node];
    let verb = there.verb_of(question, entry);
    if forbidden != Forbidden::Command {
        return Ok(Reply::Forbidden(forbidden).missing(verb));
    }
    match there.scripts_refused(verb) {
        Ok(()) => Err(AskWithoutScripts),
        Err(missing) => Ok(Some(missing)),
    }
}

/// Asks `node` which permission was missing when it answered `reply` to a question about `entry`. Returns `false` if
/// `reply` says nothing of a permission, or `node` cannot be asked.
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

/// Returns the vote of a node for an extension or confirmation that lacked a permission. `reply` answers the question
/// which one it was.
pub(in crate::engine) fn missing_to_extend(reply: Reply) -> (Vote, NodeOutcome) {
    let unnamed = NodeOutcome::Refused(ServerError::from_line(b"ERR"));
    let missing = missing_by(reply, forbidden_to_extend);
    (
        Vote::Abstain,
        missing.map_or(unnamed, NodeOutcome::Unusable),
    )
}

/// Returns the permission that `reply` says is missing, if any. `named` maps a number to a permission.
pub(super) fn missing_by(
    reply: Reply,
    named: impl Fn(i64) -> Option<Unusable>,
) -> Option<Unusable> {
    match reply {
        Reply::Integer(answer) => named(answer),
        Reply::Forbidden(_)
        | Reply::Ok
        | Reply::Nil
        | Reply::Pair(..)
        | Reply::Fenced { .. }
        | Reply::Error(_)
        | Reply::Other => reply.missing(Dialect::Text.verb()),
    }
}
