//! Whether the user may do what a lock needs: asked before the first `SET` on a connection, and
//! after an extension that was refused.
//!
//! # Guarantees
//!
//! * The `SET` of an attempt is written only after the node has answered that its release is
//!   permitted. A refusal is told by the name of what is missing, and leaves no key.
//! * A refused extension names what is missing, also where the error of the script does not.

use crate::error::{LinkError, NodeOutcome, ServerError, Unusable};
use crate::node::{
    Access, Dialect, Reply, Trouble, forbidden_to_extend, forbidden_to_lock, refuses_the_verb,
    wants_the_text,
};
use crate::quorum::Vote;
use crate::slab::Key;
use crate::time::Instant;

use super::Engine;
use super::claim::Stage;
use super::round::{Kind, Round};

/// What a probe has shown of one way to release a lock.
enum Shown {
    Permitted,
    Missing(Unusable),
    /// The server does not have this way, or forbids it: the next one is asked about.
    AnotherWay,
    /// It cannot tell just now.
    Refused(ServerError),
}

impl Engine {
    /// Asks `node` whether a lock of `claim` could be released there.
    pub(super) fn ask_permission(&mut self, now: Instant, claim: Key, node: usize) {
        let entry = self
            .claims
            .get(claim)
            .and_then(|claim| claim.entry.as_ref());
        if let Some(entry) = entry {
            self.nodes[node].ask_permission(now, claim, entry);
            self.to_write.insert(node);
        }
    }

    /// `node` has answered whether a lock of `claim` could be released there.
    pub(super) fn permission_answered(
        &mut self,
        now: Instant,
        node: usize,
        claim: Key,
        way: Dialect,
        last: bool,
        reply: Reply,
    ) -> Result<(), Trouble> {
        let shown = shown(way, reply).ok_or(Trouble::Link(LinkError::Protocol))?;
        if reply.error().is_some_and(wants_the_text) {
            self.nodes[node].forgot_scripts(now);
        }
        // An attempt that is over has nobody to tell.
        let round = match self.claims.get(claim).map(|claim| claim.stage) {
            Some(Stage::Attempt { round }) => Some(round),
            Some(Stage::Held { .. } | Stage::Releasing { .. }) | None => None,
        };
        let wanted = round.filter(|round| self.wants(now, *round, node));
        let outcome = match shown {
            Shown::Permitted if !last => return Ok(()),
            Shown::Permitted => {
                // What was asked before this was refused, or nobody waits for it any more.
                if let Some(round) = wanted {
                    self.nodes[node].permitted(way);
                    self.ask_set_late(now, round, node);
                }
                return Ok(());
            }
            Shown::AnotherWay => {
                self.nodes[node].refused_native_release();
                if wanted.is_some() {
                    self.ask_permission(now, claim, node);
                }
                return Ok(());
            }
            Shown::Missing(missing) => {
                self.nodes[node].forbidden(missing);
                NodeOutcome::Unusable(missing)
            }
            Shown::Refused(error) => NodeOutcome::Refused(error),
        };
        if let Some(round) = round {
            self.refuse_node(now, round, node, outcome);
        }
        Ok(())
    }

    /// Returns `true` if the `SET` of the attempt of `round` is still to go to `node`.
    fn wants(&self, now: Instant, round: Key, node: usize) -> bool {
        self.rounds.get(round).is_some_and(|round| {
            let in_time = round.awaits(node) || now < round.ballots[node].deadline;
            round.asks(node) && in_time
        })
    }

    /// `node` is not asked in this attempt, for what `outcome` says; also where its answer would not
    /// have counted.
    fn refuse_node(&mut self, now: Instant, key: Key, node: usize, outcome: NodeOutcome) {
        self.vote(now, key, node, Vote::Mute, outcome);
        if let Some(round) = self.rounds.get_mut(key)
            && round.asks(node)
        {
            round.ballots[node].outcome = outcome;
        }
    }

    // ----- extensions -----------------------------------------------------------------------

    /// An extension or confirmation was answered by `reply`. Returns `true` if that was a refusal
    /// that may be due to a missing permission: then `node` was asked which, or it is told here.
    pub(super) fn explains(&mut self, now: Instant, node: usize, key: Key, reply: Reply) -> bool {
        let verb = match reply {
            Reply::Forbidden { key: false } => true,
            Reply::Error(error) if error.code() == "ERR" => false,
            Reply::Forbidden { key: true } => {
                let outcome = NodeOutcome::Unusable(Unusable::KeyPermission);
                self.count_extension(now, node, key, Vote::Mute, outcome);
                return true;
            }
            _ => return false,
        };
        let Some(Round {
            kind: Kind::Extend { entry, .. },
            ..
        }) = self.rounds.get(key).filter(|round| round.awaits(node))
        else {
            return false;
        };
        if self.nodes[node].access(crate::limits::COMMAND_BYTES_MAX) != Access::Open {
            return false;
        }
        self.nodes[node].ask_why(now, key, entry, verb);
        self.to_write.insert(node);
        true
    }

    /// `node` has answered why an extension was refused; `verb`: the command itself was.
    pub(super) fn why_answered(
        &mut self,
        now: Instant,
        node: usize,
        key: Key,
        verb: bool,
        reply: Reply,
    ) {
        let within = match reply {
            Reply::Integer(answer) => forbidden_to_extend(answer),
            _ => reply.missing("eval"),
        };
        let outcome = match within {
            Some(missing) => NodeOutcome::Unusable(missing),
            None if verb => NodeOutcome::Unusable(Unusable::Permission { command: "evalsha" }),
            None => NodeOutcome::Refused(ServerError::from_line(b"ERR")),
        };
        self.count_extension(now, node, key, Vote::Mute, outcome);
    }
}

/// What `reply` says of a way to release; `None`: nothing that the question is answered with.
fn shown(way: Dialect, reply: Reply) -> Option<Shown> {
    let native = matches!(way, Dialect::DelIfEq | Dialect::DelEx);
    if let Some(missing) = reply.missing(way.verb()) {
        let key = missing == Unusable::KeyPermission;
        return Some(match native && !key {
            true => Shown::AnotherWay,
            false => Shown::Missing(missing),
        });
    }
    Some(match reply {
        Reply::Integer(answer) if way == Dialect::Text => match forbidden_to_lock(answer) {
            Some(missing) => Shown::Missing(missing),
            None => Shown::Permitted,
        },
        Reply::Integer(_) => Shown::Permitted,
        Reply::Error(error) if native && refuses_the_verb(error) => Shown::AnotherWay,
        // It ran, and the key is of another type; or the script is not known there, which only who
        // may ask for it is told.
        Reply::Error(error) if error.code() == "WRONGTYPE" || wants_the_text(error) => {
            Shown::Permitted
        }
        Reply::Error(error) => Shown::Refused(error),
        Reply::Ok | Reply::Nil | Reply::Pair(..) | Reply::Forbidden { .. } | Reply::Other => {
            return None;
        }
    })
}
