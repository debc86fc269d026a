//! Extending a lock.
//!
//! A majority has to confirm that it holds the token and lets it live at least the new ttl, within
//! the old validity. Nothing is revived and nothing is shortened: the new validity counts from
//! before the send, and a lock whose validity has run out is refused before any byte is sent.

use crate::error::{ExtendError, NodeOutcome};
use crate::keys::ClaimKey;
use crate::node::{Command, Said};
use crate::quorum::{Lock, Majority, NodeSet, Vote};
use crate::time::Instant;

use super::held::{Held, Question, Verdict};
use super::round::Round;
use super::{After, Operate};
use crate::engine::contract::Event;
use crate::engine::parts::Parts;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::engine) struct Extend {
    pub(super) held: Held,
}

impl Extend {
    /// Returns why `lock` cannot be extended, whatever the nodes say.
    pub(in crate::engine) fn check(now: Instant, lock: &Lock) -> Result<(), ExtendError> {
        if !lock.is_valid_at(now) && !mutant!(ExtensionRevives) {
            return Err(ExtendError::Expired);
        }
        match lock.extensions_left() {
            0 => Err(ExtendError::Limit),
            _ => Ok(()),
        }
    }

    pub(in crate::engine) fn new(lock: &Lock, parts: &mut Parts) -> Result<Self, ExtendError> {
        let held = Held::new(lock, Question::AtLeast, parts)?;
        Ok(Self { held })
    }

    /// `majority` keeps the lock for at least as long as was asked.
    fn extended(&mut self, now: Instant, majority: Majority, round: &mut Round, parts: &mut Parts) {
        let held = &self.held;
        let claim = held.claim_in(&mut parts.claims);
        // A later question may have found an earlier end.
        let known = match &claim {
            Some(claim) if !mutant!(EarlierEndOverruled) => held.valid_until.min(claim.valid_until),
            Some(_) | None => held.valid_until,
        };
        let sent = mutant!(ExtensionFromAnswer => now, else round.sent);
        let end = parts.settings.drift.valid_until(sent, round.ttl);
        let end = end.max(mutant!(ExtensionShortens => Instant::ZERO, else known));
        if let Some(claim) = claim {
            claim.valid_until = claim.valid_until.max(end);
        }
        held.forget(round.key, &mut parts.claims);
        held.top_up(now, &majority, end, parts);
        self.held.decide(Verdict::Kept(majority, end), round, parts);
    }
}

/// Asks all nodes what `operation` wants to know.
pub(super) fn ask_all(
    operation: &mut (impl Operate + AsRef<Held>),
    now: Instant,
    round: &mut Round,
    parts: &mut Parts,
) -> After {
    operation.as_ref().look_around(now, round, parts);
    let mut after = operation.judge(now, round, parts);
    let mut command = Command::new(parts.claims.buffers.take());
    for node in 0..parts.nodes.len() {
        let held = operation.as_ref();
        if !held.ask(now, node, &mut command, round, parts) && round.is_voting() {
            after = operation.judge(now, round, parts);
        }
    }
    parts.claims.buffers.give(command.into_buffer());
    round.arm(&mut parts.timers);
    after
}

/// Asks `node` late what `operation` wants to know.
pub(super) fn ask_late(
    operation: &mut (impl Operate + AsRef<Held>),
    now: Instant,
    node: usize,
    round: &mut Round,
    parts: &mut Parts,
) -> After {
    let held = operation.as_ref();
    let mut command = Command::new(parts.claims.buffers.take());
    held.leave_out(now, node, round, parts);
    let _ = held.ask(now, node, &mut command, round, parts);
    parts.claims.buffers.give(command.into_buffer());
    match round.is_voting() {
        true => operation.judge(now, round, parts),
        false => After::Nothing,
    }
}

/// What `node` has said to an extension: its claim learns from it, if there is one, whether or not
/// the extension is still open.
pub(in crate::engine) fn learn(
    now: Instant,
    node: usize,
    claim: Option<ClaimKey>,
    said: Said,
    parts: &mut Parts,
) -> (Vote, NodeOutcome) {
    let (vote, outcome) = said.vote();
    if let Some(claim) = claim.and_then(|claim| parts.claims.get_mut(claim)) {
        match vote {
            Vote::Yes => {
                claim.unknown.remove(node);
                claim.is_on(node, parts.settings.drift.gone_by(now, claim.ttl));
            }
            // What is not there, or another's, was not extended.
            Vote::No => {
                claim.unknown.remove(node);
                claim.lacking.insert(node);
            }
            Vote::Mute => {}
        }
    }
    (vote, outcome)
}

impl AsRef<Held> for Extend {
    fn as_ref(&self) -> &Held {
        &self.held
    }
}

impl Operate for Extend {
    fn begin(&mut self, now: Instant, round: &mut Round, parts: &mut Parts) -> After {
        self.held.begin(round, &mut parts.claims);
        if let Some(claim) = self.held.claim_in(&mut parts.claims) {
            mutant!(DebtForgetsExtension => (), else claim.ttl = claim.ttl.max(round.ttl));
        }
        ask_all(self, now, round, parts)
    }

    fn judge(&mut self, now: Instant, round: &mut Round, parts: &mut Parts) -> After {
        match self.held.judge(now, round, parts) {
            Ok(majority) => {
                self.extended(now, majority, round, parts);
                After::Nothing
            }
            Err(after) => after,
        }
    }

    fn tell(&mut self, now: Instant, round: &mut Round, parts: &mut Parts) -> Option<Event> {
        self.held.tell(now, round, parts)
    }

    fn ask_late(
        &mut self,
        now: Instant,
        node: usize,
        round: &mut Round,
        parts: &mut Parts,
    ) -> After {
        ask_late(self, now, node, round, parts)
    }

    fn withdraw(&mut self, nodes: NodeSet, round: &Round, parts: &mut Parts) {
        self.held.withdraw(nodes, round.key, parts);
    }

    fn lose(&mut self, node: usize, outcome: NodeOutcome, round: &mut Round) -> bool {
        round.lose(node, outcome)
    }

    fn rests_on_answers(&self) -> bool {
        true
    }

    fn cancel(&mut self, _: Instant, round: &mut Round, parts: &mut Parts) {
        self.held.forget(round.key, &mut parts.claims);
    }

    fn end(self, parts: &mut Parts) {
        parts.claims.buffers.give(self.held.entry.into_buffer());
    }
}
