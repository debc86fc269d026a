//! Confirming a lock: for how long a majority keeps it.
//!
//! One round: every node is asked for how much longer the key has the token, and nothing is changed.
//! The lock may be trusted for as long as a majority keeps it: the q-th largest of the answers counts,
//! from before the send, less the drift. That replaces whatever was known: a lock from another clock,
//! of which nothing was, comes to life; one whose keys somebody shortened ends earlier.
//!
//! It is a round of the same kind as an extension, with another question: the same nodes count, the
//! same lock is over when a majority misses it, and the same verdicts close it. What was told to be
//! over is not revived: its holder has stopped, and would learn of no second end.
//!
//! # Not here
//!
//! Copies for nodes that lost theirs. A confirmation takes note of them, and the next extension sends
//! them.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use crate::error::{ExtendError, LinkError};
use crate::limits::rounds_max;
use crate::node::{Dialect, Reply, Said, Trouble};
use crate::quorum::{Lock, Majority, NodeSet, Vote};
use crate::slab::Key;
use crate::time::Instant;

use super::Engine;
use super::contract::RoundId;
use super::round::{Decision, Kind, Question};

impl Engine {
    /// Begins to ask for how long a majority keeps `lock`. The outcome comes as
    /// [`Event::Extended`](super::Event::Extended); until it is applied, `lock` stands as it was.
    ///
    /// The answer may be an earlier end than the known one. It is never later than the longest ttl
    /// that this engine knows of, counted from `now`: a key that was made permanent has to be
    /// confirmed again.
    ///
    /// # Errors
    ///
    /// [`ExtendError::Expired`] and [`ExtendError::Saturated`], before anything was sent. A lock
    /// whose end is not known ([`Instant::ZERO`]) has not expired.
    pub fn confirm(&mut self, now: Instant, lock: &Lock) -> Result<RoundId, ExtendError> {
        let claim = self.claim_to_extend(lock)?;
        let known = self.known_end(claim, lock);
        if known != Instant::ZERO && known <= now && !mutant!(ConfirmationRevives) {
            return Err(ExtendError::Expired);
        }
        if self.rounds.len() >= rounds_max() {
            return Err(ExtendError::Saturated);
        }
        self.may_last(lock.ttl());
        let unanswered = vec![Duration::ZERO; self.nodes.len()];
        let question = Question::HowLong(unanswered.into());
        let key = self.open_extension(now, lock, claim, lock.ttl(), question);
        self.ask_extensions(now, key);
        Ok(RoundId(key))
    }

    /// `node` has answered for how long it keeps a token.
    pub(super) fn confirmation_answered(
        &mut self,
        now: Instant,
        node: usize,
        key: Key,
        claim: Option<Key>,
        reply: Reply,
    ) -> Result<(), Trouble> {
        let (said, kept) =
            Said::of_confirmation(reply).ok_or(Trouble::Link(LinkError::Protocol))?;
        if self.explains(now, node, key, Dialect::Text.verb(), reply) {
            return Ok(());
        }
        let (vote, outcome) = said.vote();
        let drift = self.settings.drift;
        if let Some(claim) = claim.and_then(|claim| self.claims.get_mut(claim)) {
            match vote {
                Vote::Yes => claim.is_on(node, drift.gone_by(now, claim.ttl)),
                Vote::No => drop(claim.lacking.insert(node)),
                Vote::Mute => {}
            }
        }
        if let Some(round) = self.rounds.get_mut(key)
            && let Kind::Extend {
                question: Question::HowLong(all),
                ..
            } = &mut round.kind
        {
            all[node] = kept;
        }
        self.count_extension(now, node, key, vote, outcome);
        Ok(())
    }

    /// `majority` has the lock. If it keeps it for less long than was known, others may know better
    /// (nodes that an extension did not wait for are no reason to shorten a lock), and are heard
    /// first.
    pub(super) fn confirmed(&mut self, now: Instant, key: Key, majority: Majority) {
        let Some(round) = self.rounds.get_mut(key) else {
            return;
        };
        let Kind::Extend {
            claim,
            valid_until,
            question: Question::HowLong(answers),
            ..
        } = &round.kind
        else {
            return;
        };
        let claim = *claim;
        let kept = kept_by_majority(answers, round.tally.yes(), round.tally.quorum());
        let sent = mutant!(ConfirmationFromAnswer => now, else round.sent);
        if sent.saturating_add(kept) < *valid_until && !round.tally.open().is_empty() {
            return;
        }
        let drift = self.settings.drift;
        let gone_by = drift.gone_by(now, kept.min(self.settings.ttl_limit));
        let kept = kept.min(self.settings.longest_ttl);
        round.ttl = kept;
        let mut end = drift.valid_until(sent, kept);
        if let Some(held) = claim.and_then(|claim| self.claims.get_mut(claim)) {
            if held.extension != Some(key) {
                end = end.max(held.valid_until); // An extension was asked for after this.
            }
            held.valid_until = end;
            held.told_until = held.told_until.min(end); // An earlier end is not taken back.
            held.ttl = held.ttl.max(kept);
            held.gone_by = held.gone_by.max(gone_by);
        }
        if let Some(claim) = claim {
            self.watch(claim);
        }
        self.forget_extension(claim, key);
        self.decide(key, Decision::Extended(majority, end));
    }
}

/// For how long `quorum` of those who said yes keep it: the q-th largest of their answers.
fn kept_by_majority(answers: &[Duration], yes: NodeSet, quorum: usize) -> Duration {
    let mut kept: Vec<Duration> = yes.iter().map(|node| answers[node]).collect();
    kept.sort_unstable_by(|one, other| other.cmp(one));
    let quorum = mutant!(ConfirmationByLongest => 1, else quorum);
    kept.truncate(quorum);
    kept.pop().unwrap_or_default()
}
