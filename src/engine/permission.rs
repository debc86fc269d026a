//! Whether the user may do what a lock needs: asked with the first `SET` on a connection, and after
//! an extension that was refused.
//!
//! # Guarantees
//!
//! * The first `SET` on a connection is done only if its release is permitted. A refusal is told by
//!   the name of what is missing, and leaves no key.
//! * A refused extension names what is missing, also where the error of the script does not.

use crate::error::{LinkError, NodeOutcome, ServerError, Unusable};
use crate::limits::COMMAND_BYTES_MAX;
use crate::node::{
    Access, Dialect, Forbidden, Reply, Said, Trouble, forbidden_to_extend, forbidden_to_lock,
    refuses_the_verb,
};
use crate::quorum::Vote;
use crate::slab::Key;
use crate::time::Instant;

use super::Engine;
use super::claim::Stage;
use super::round::{Kind, Round};

impl Engine {
    /// Asks `node` for the lock of `claim` where it was not shown yet that it may be released there:
    /// the `SET` is done only if it may.
    pub(super) fn ask_permission(&mut self, now: Instant, round: Key, claim: Key, node: usize) {
        let there = &mut self.nodes[node];
        if let Access::Shut(outcome) = there.access(COMMAND_BYTES_MAX) {
            self.vote(now, round, node, Vote::Mute, outcome);
            return;
        }
        let Some(wanted) = self.claims.get_mut(claim) else {
            return;
        };
        let Some(entry) = &wanted.entry else {
            return;
        };
        there.send_first_set(now, claim, entry, wanted.ttl);
        wanted.set_sent(node);
        self.to_write.insert(node);
    }

    /// `node` has answered the first `SET` of a connection.
    pub(super) fn first_set_answered(
        &mut self,
        now: Instant,
        node: usize,
        claim: Key,
        reply: Reply,
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
                    return self.set_answered(now, node, claim, reply);
                };
                if let Some(claim) = self.claims.get_mut(claim) {
                    claim.unanswered.remove(node);
                    claim.denied(node);
                }
                self.scripts_forbidden(now, node, claim, missing);
                self.settle(claim);
                return Ok(());
            }
        };
        self.nodes[node].scripts_permitted();
        self.set_answered(now, node, claim, plain)
    }

    /// `node` has answered the native release of a token that no key has. What it says of the key
    /// does not matter: whoever is told so may run it.
    pub(super) fn probe_answered(
        &mut self,
        now: Instant,
        node: usize,
        claim: Key,
        reply: Reply,
    ) -> Result<(), Trouble> {
        let said = Said::of(reply).ok_or(Trouble::Link(LinkError::Protocol))?;
        let outcome = match said {
            Said::Done | Said::Missing | Said::Foreign => {
                self.native_permitted(now, node, claim);
                return Ok(());
            }
            Said::Refused(error) if refuses_the_verb(error) => {
                self.nodes[node].refused_native_release();
                let missing = self.nodes[node].missing_permission();
                NodeOutcome::Unusable(missing.unwrap_or(Unusable::NoPermission))
            }
            Said::Refused(error) => NodeOutcome::Refused(error),
        };
        self.refuse_node(now, node, claim, outcome);
        Ok(())
    }

    /// Locks cannot be released on `node` by a script. Its native command is tried, if it has one.
    fn scripts_forbidden(&mut self, now: Instant, node: usize, claim: Key, missing: Unusable) {
        let there = &mut self.nodes[node];
        there.forbidden(missing);
        let native = there.native_release();
        let native = native.filter(|_| missing != Unusable::KeyPermission);
        if let Some(way) = native
            && let Some(entry) = self
                .claims
                .get(claim)
                .and_then(|claim| claim.entry.as_ref())
        {
            there.ask_native(now, claim, entry, way);
            self.to_write.insert(node);
        } else {
            self.refuse_node(now, node, claim, NodeOutcome::Unusable(missing));
        }
    }

    /// A lock of `claim` may be released on `node`: its `SET` goes out, if it is still wanted.
    fn native_permitted(&mut self, now: Instant, node: usize, claim: Key) {
        self.nodes[node].native_permitted();
        let wanted = |round: &Round| {
            let in_time = round.awaits(node) || now < round.ballots[node].deadline;
            round.asks(node) && in_time
        };
        if let Some(key) = self.round_of_attempt(claim)
            && self.rounds.get(key).is_some_and(wanted)
        {
            self.ask_set_late(now, key, node);
        }
    }

    /// No `SET` of `claim` goes to `node`, for what `outcome` says; it is told also of a node whose
    /// answer would not have counted.
    fn refuse_node(&mut self, now: Instant, node: usize, claim: Key, outcome: NodeOutcome) {
        let Some(key) = self.round_of_attempt(claim) else {
            return; // The attempt is over: nobody is to be told.
        };
        if let Some(round) = self.rounds.get_mut(key)
            && !round.awaits(node)
            && round.asks(node)
        {
            round.ballots[node].outcome = outcome;
        }
        self.vote(now, key, node, Vote::Mute, outcome);
    }

    fn round_of_attempt(&self, claim: Key) -> Option<Key> {
        match self.claims.get(claim)?.stage {
            Stage::Attempt { round } => Some(round),
            Stage::Held { .. } | Stage::Releasing { .. } => None,
        }
    }

    // ----- extensions -----------------------------------------------------------------------

    /// An extension or confirmation by the command `verb` was answered by `reply`. Returns `true` if
    /// that told of a missing permission: its name is counted here, or `node` is asked for it.
    pub(super) fn explains(
        &mut self,
        now: Instant,
        node: usize,
        key: Key,
        verb: &'static str,
        reply: Reply,
    ) -> bool {
        if let Some(missing) = reply.missing(verb) {
            let outcome = NodeOutcome::Unusable(missing);
            self.count_extension(now, node, key, Vote::Mute, outcome);
            return true;
        }
        if reply != Reply::Forbidden(Forbidden::Within)
            || self.nodes[node].access(COMMAND_BYTES_MAX) != Access::Open
        {
            return false;
        }
        let round = self.rounds.get(key).filter(|round| round.awaits(node));
        let Some(Kind::Extend { entry, .. }) = round.map(|round| &round.kind) else {
            return false;
        };
        self.nodes[node].ask_why(now, key, entry);
        self.to_write.insert(node);
        true
    }

    /// `node` has answered what was missing when an extension was refused.
    pub(super) fn why_answered(&mut self, now: Instant, node: usize, key: Key, reply: Reply) {
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
        self.count_extension(now, node, key, Vote::Mute, outcome);
    }
}

/// What is missing by this answer to the first `SET` of a connection, which was not done then.
/// Returns `None` if the answer says nothing of that.
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
