//! What a user may not do: found out with the first `SET` on a connection, and after an extension that
//! was refused.
//!
//! # Guarantees
//!
//! * The first `SET` on a connection is done only if its release is permitted. A refusal names the
//!   missing permission, and leaves no key.
//! * A refused extension names what is missing, also where the error of the script does not.

use crate::error::{LinkError, NodeOutcome, ServerError, Unusable};
use crate::keys::ClaimKey;
use crate::limits::COMMAND_BYTES_MAX;
use crate::node::{
    Access, Dialect, Forbidden, Reply, Said, Trouble, forbidden_to_extend, forbidden_to_lock,
    refuses_the_verb,
};
use crate::quorum::Vote;
use crate::time::Instant;

use super::acquire::Acquire;
use super::{After, Context, Operation};
use crate::engine::operations::Operations;
use crate::engine::parts::Parts;

// ----- the first `SET` ----------------------------------------------------------------------

impl Operations {
    /// `node` has answered the first `SET` of a connection.
    pub(in crate::engine) fn first_set_answered(
        &mut self,
        now: Instant,
        node: usize,
        claim: ClaimKey,
        reply: Reply,
        parts: &mut Parts,
    ) -> Result<(), Trouble> {
        let plain = match reply {
            Reply::Ok | Reply::Integer(1) => Reply::Ok,
            Reply::Nil | Reply::Integer(0) => Reply::Nil,
            Reply::Integer(_)
            | Reply::Forbidden(_)
            | Reply::Pair(..)
            | Reply::Error(_)
            | Reply::Other => {
                let Some(missing) = missing_to_lock(reply) else {
                    return self.set_answered(now, node, claim, reply, parts);
                };
                if let Some(claim) = parts.claims.get_mut(claim) {
                    claim.unanswered.remove(node);
                    claim.denied(node);
                }
                self.scripts_forbidden(now, node, claim, missing, parts);
                parts.claims.settle(claim, &mut parts.timers);
                return Ok(());
            }
        };
        parts.nodes[node].scripts_permitted();
        self.set_answered(now, node, claim, plain, parts)
    }

    /// `node` has answered the native release of a token that no key has. What it says of the key
    /// does not matter: a user who gets such an answer may run it.
    pub(in crate::engine) fn native_answered(
        &mut self,
        now: Instant,
        node: usize,
        claim: ClaimKey,
        reply: Reply,
        parts: &mut Parts,
    ) -> Result<(), Trouble> {
        let outcome = match Said::of(reply).ok_or(Trouble::Link(LinkError::Protocol))? {
            Said::Done | Said::Missing | Said::Foreign => {
                parts.nodes[node].native_permitted();
                if let Some((acquire, mut cx)) = self.attempt_of(now, claim, parts) {
                    acquire.permitted(node, &mut cx);
                }
                return Ok(());
            }
            Said::Refused(error) if refuses_the_verb(error) => {
                let there = &mut parts.nodes[node];
                there.refused_native_release();
                let missing = there.missing_permission();
                NodeOutcome::Unusable(missing.unwrap_or(Unusable::NoPermission))
            }
            Said::Refused(error) => NodeOutcome::Refused(error),
        };
        if let Some((acquire, mut cx)) = self.attempt_of(now, claim, parts) {
            acquire.refused(node, outcome, &mut cx);
        }
        Ok(())
    }

    /// Locks cannot be released on `node` by a script. Its native command is tried, if it has one.
    fn scripts_forbidden(
        &mut self,
        now: Instant,
        node: usize,
        claim: ClaimKey,
        missing: Unusable,
        parts: &mut Parts,
    ) {
        let there = &mut parts.nodes[node];
        there.forbidden(missing);
        let native = there.native_release();
        let native = native.filter(|_| missing != Unusable::KeyPermission);
        let entry = parts.claims.get(claim);
        let entry = entry.and_then(|claim| claim.entry.as_ref());
        if let (Some(way), Some(entry)) = (native, entry) {
            there.ask_native(now, claim, entry, way);
            parts.nodes.has_to_write(node);
        } else if let Some((acquire, mut cx)) = self.attempt_of(now, claim, parts) {
            acquire.refused(node, NodeOutcome::Unusable(missing), &mut cx);
        }
    }

    /// Returns the operation whose present attempt `claim` is, if it is not over.
    fn attempt_of<'a>(
        &'a mut self,
        now: Instant,
        claim: ClaimKey,
        parts: &'a mut Parts,
    ) -> Option<(&'a mut Acquire, Context<'a>)> {
        let operation = parts.claims.get(claim)?.attempted_by()?;
        self.acquire(now, operation, parts)
    }
}

impl Acquire {
    /// Its lock may be released on `node`: its `SET` goes out, if it is still wanted.
    fn permitted(&mut self, node: usize, cx: &mut Context<'_>) {
        let in_time = cx.round.awaits(node) || cx.now < cx.round.ballots[node].deadline;
        if cx.round.asks(node) && in_time {
            self.ask_now(node, cx);
        }
    }

    /// No `SET` of it goes to `node`, for what `outcome` says; that is reported also of a node whose
    /// answer would not have counted.
    fn refused(&mut self, node: usize, outcome: NodeOutcome, cx: &mut Context<'_>) {
        if !cx.round.awaits(node) && cx.round.asks(node) {
            cx.round.ballots[node].outcome = outcome;
        }
        self.count(node, Vote::Abstain, outcome, cx);
    }
}

// ----- extensions ---------------------------------------------------------------------------

impl Operation {
    /// Asks `node` which permission was missing when it answered an extension or confirmation by
    /// `reply`. Returns `false` if `reply` tells nothing of a permission, or `node` cannot be asked.
    pub(in crate::engine) fn ask_why(
        &mut self,
        now: Instant,
        node: usize,
        reply: Reply,
        parts: &mut Parts,
    ) -> bool {
        if reply != Reply::Forbidden(Forbidden::Within)
            || parts.nodes[node].access(COMMAND_BYTES_MAX) != Access::Open
            || !self.round.awaits(node)
        {
            return false;
        }
        let Some(held) = self.kind.held() else {
            return false;
        };
        parts.nodes[node].ask_why(now, self.round.key, &held.entry);
        parts.nodes.has_to_write(node);
        true
    }

    /// `node` has answered what was missing when an extension or confirmation was refused.
    pub(in crate::engine) fn why_answered(
        &mut self,
        now: Instant,
        node: usize,
        reply: Reply,
        parts: &mut Parts,
    ) -> After {
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
        self.vote_held(now, node, (Vote::Abstain, outcome), parts)
    }
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
