//! Extending a lock.
//!
//! A majority has to confirm that it holds the token and lets it live at least the new ttl, within
//! the old validity. Nothing is revived and nothing is shortened: the new validity counts from
//! before the send, and a lock whose validity has run out is refused before any byte is sent.

use core::time::Duration;

use crate::error::{ExtendError, LinkError, NodeOutcome};
use crate::limits::rounds_max;
use crate::node::{self, Access, Dialect, Reply, Said, Trouble, wants_the_text};
use crate::quorum::{Extending, Lock, Majority, NodeSet, Vote};
use crate::slab::{Key, Slab};
use crate::time::Instant;

use super::Engine;
use super::claim::{Claim, Stage};
use super::contract::RoundId;
use super::round::{Decision, Kind, Question, Round, State};

impl Engine {
    /// Begins to extend `lock` to at least `ttl` from now on. The outcome comes as
    /// [`Event::Extended`](super::Event::Extended); until it is applied, `lock` stands as it was.
    ///
    /// # Errors
    ///
    /// [`ExtendError::Invalid`], [`ExtendError::Expired`], [`ExtendError::Limit`] and
    /// [`ExtendError::Saturated`], before anything was sent.
    pub fn extend(
        &mut self,
        now: Instant,
        lock: &Lock,
        ttl: Duration,
    ) -> Result<RoundId, ExtendError> {
        let ttl = self.check_ttl(ttl)?;
        if !lock.is_valid_at(now) && !mutant!(ExtensionRevives) {
            return Err(ExtendError::Expired);
        }
        if lock.extensions_left() == 0 {
            return Err(ExtendError::Limit);
        }
        if self.rounds.len() >= rounds_max() {
            return Err(ExtendError::Saturated); // It needs no new claim: the lock has one.
        }
        let claim = self.claim_to_extend(lock)?;
        self.may_last(ttl);
        let key = self.open_extension(now, lock, claim, ttl, Question::AtLeast);
        if let Some(claim) = claim.and_then(|claim| self.claims.get_mut(claim)) {
            mutant!(DebtForgetsExtension => (), else claim.ttl = claim.ttl.max(ttl));
        }
        self.ask_extensions(now, key);
        Ok(RoundId(key))
    }

    /// The claim of `lock`, if it is in this engine's care. One that was and is not any more was
    /// told to be over, or lost.
    pub(super) fn claim_to_extend(&self, lock: &Lock) -> Result<Option<Key>, ExtendError> {
        let claim = self.claim_of(lock);
        let forgotten = claim.is_none() && lock.id().engine == self.id;
        match forgotten || !is_extensible(&self.claims, claim) {
            true => Err(ExtendError::Expired),
            false => Ok(claim),
        }
    }

    /// Until when `lock` may be trusted, as far as both its holder and its claim know.
    pub(super) fn known_end(&self, claim: Option<Key>, lock: &Lock) -> Instant {
        let claim = claim.and_then(|claim| self.claims.get(claim));
        claim.map_or(lock.valid_until(), |claim| {
            mutant!(EarlierEndForgotten => return lock.valid_until());
            claim.valid_until.min(lock.valid_until())
        })
    }

    /// A round that asks `question` about `lock`, with nobody asked yet.
    pub(super) fn open_extension(
        &mut self,
        now: Instant,
        lock: &Lock,
        claim: Option<Key>,
        ttl: Duration,
        question: Question,
    ) -> Key {
        let valid_until = self.known_end(claim, lock);
        let ends = match question {
            Question::AtLeast => !mutant!(ExtensionRevives),
            Question::HowLong(_) => valid_until != Instant::ZERO && !mutant!(ConfirmationRevives),
        };
        let buffer = self.buffers.take();
        let key = self.open_round(
            now,
            Kind::Extend {
                lock: lock.id(),
                claim,
                entry: lock.entry().copy_into(buffer),
                question,
                valid_until,
                voters: self.voters(claim, lock),
                lacking: self.lacking(claim),
            },
        );
        if let Some(round) = self.rounds.get_mut(key) {
            round.ttl = ttl;
            round.deadline = ends.then_some(valid_until);
        }
        if let Some(claim) = claim.and_then(|claim| self.claims.get_mut(claim)) {
            claim.extended_beside |= claim.extension.replace(key).is_some();
        }
        key
    }

    /// The nodes whose yes to an extension of `lock` counts: all, if it is this engine's own. Of one
    /// that was handed over only those that it stands on: whoever did that may still give back a
    /// copy that he had not heard of, over a connection of his, and after it was extended here.
    fn voters(&self, claim: Option<Key>, lock: &Lock) -> NodeSet {
        let own = claim.and_then(|claim| self.claims.get(claim));
        match own.filter(|claim| !claim.adopted || mutant!(EveryVoterCounts)) {
            Some(_) => self.all_nodes(),
            None => lock.voters(),
        }
    }

    pub(super) fn ask_extensions(&mut self, now: Instant, key: Key) {
        self.encoded.clear();
        let ttl = self
            .rounds
            .get(key)
            .map_or(Duration::ZERO, |round| round.ttl);
        let patience = self.vote_patience(ttl);
        for node in 0..self.nodes.len() {
            let deadline = now.saturating_add(patience.with(&mut self.nodes[node]));
            if let Some(round) = self.rounds.get_mut(key) {
                round.ballots[node].deadline = deadline;
            }
            self.leave_out(now, key, node);
        }
        self.judge(now, key);
        for node in 0..self.nodes.len() {
            self.ask_extension(now, key, node);
        }
        self.arm_round(key);
    }

    /// Puts the extension into the connection to `node`, or into the queue for when it has
    /// greeted.
    pub(super) fn ask_extension(&mut self, now: Instant, key: Key, node: usize) {
        match self.nodes[node].access(crate::limits::COMMAND_BYTES_MAX) {
            Access::Open => {
                let dialect = self.nodes[node].extend_dialect();
                self.send_extension(now, key, node, dialect);
            }
            Access::Greeting { .. } => self.wait_for(now, key, node),
            Access::Shut(outcome) => self.vote(now, key, node, Vote::Mute, outcome),
        }
    }

    fn send_extension(&mut self, now: Instant, key: Key, node: usize, dialect: Dialect) {
        let Some(round) = self.rounds.get_mut(key) else {
            return;
        };
        let Kind::Extend {
            entry,
            claim,
            question,
            ..
        } = &round.kind
        else {
            return;
        };
        if !mutant!(ExtensionRepairedAfterEnd)
            && (!round.asks(node) || !is_extensible(&self.claims, *claim))
        {
            return; // It is decided, or what it would lengthen has been given away.
        }
        let ttl = round.ttl;
        let claim = *claim;
        let marker = self.nodes[node].marker();
        if marker.is_some() {
            self.encoded.clear(); // What was written for another node is fenced by its marker.
        }
        let errand = question.errand(key, claim);
        let command = match question {
            Question::AtLeast => {
                if let Some(claim) = claim.and_then(|claim| self.claims.get_mut(claim)) {
                    claim.unknown.insert(node);
                    mutant!(ExtensionLeavesExpiryKnown => claim.unknown.remove(node));
                }
                let write = |out: &mut _| match marker {
                    None => node::extend(out, entry, ttl, dialect),
                    Some(marker) => node::fenced_extend(out, entry, ttl, marker, dialect),
                };
                self.encoded.get(dialect, write)
            }
            Question::HowLong(_) => {
                let write = |out: &mut _| match marker {
                    None => node::confirm(out, entry),
                    Some(marker) => node::fenced_confirm(out, entry, marker),
                };
                self.encoded.get(Dialect::Text, write)
            }
        };
        self.nodes[node].send(now, errand, command);
        self.to_write.insert(node);
        round.ballots[node].asked = true;
    }

    /// `node` has answered an extension.
    pub(super) fn extension_answered(
        &mut self,
        now: Instant,
        node: usize,
        key: Key,
        claim: Option<Key>,
        reply: Reply,
    ) -> Result<(), Trouble> {
        let said = Said::of(reply).ok_or(Trouble::Link(LinkError::Protocol))?;
        if let Said::Refused(error) = said
            && wants_the_text(error)
            && !mutant!(NoscriptExtensionDropped)
        {
            self.repair_extension(now, node, key);
            return Ok(());
        }
        let verb = self.nodes[node].extend_dialect().verb();
        if self.explains(now, node, key, verb, reply) {
            return Ok(());
        }
        let (vote, outcome) = said.vote();
        let drift = self.settings.drift;
        if let Some(claim) = claim.and_then(|claim| self.claims.get_mut(claim)) {
            match vote {
                Vote::Yes => {
                    claim.unknown.remove(node);
                    claim.is_on(node, drift.gone_by(now, claim.ttl));
                }
                // What is not there, or another's, was not extended.
                Vote::No => {
                    claim.unknown.remove(node);
                    claim.lacking.insert(node);
                }
                Vote::Mute => {}
            }
        }
        mutant!(TopUpBeforeMajority => self.top_up_early(now, key, claim, node));
        self.count_extension(now, node, key, vote, outcome);
        Ok(())
    }

    /// A yes counts only within the old validity, and from a node that the lock stands on.
    pub(super) fn count_extension(
        &mut self,
        now: Instant,
        node: usize,
        key: Key,
        vote: Vote,
        outcome: NodeOutcome,
    ) {
        let Some(round) = self.rounds.get(key) else {
            return;
        };
        let Kind::Extend { voters, claim, .. } = &round.kind else {
            return;
        };
        // One without a deadline is about a lock whose end is not known. A later question may have
        // found an earlier end.
        let found = claim.and_then(|claim| self.claims.get(claim));
        let found = found.map(|claim| claim.valid_until);
        let revives = mutant!(EarlierEndForgotten | ExtensionRevives | ConfirmationRevives);
        let found = found.filter(|end| *end != Instant::ZERO && !revives);
        let ends = round.deadline.into_iter().chain(found);
        let in_time = ends.min().is_none_or(|end| now < end) || mutant!(ExtensionAfterValidity);
        let counts = voters.contains(node);
        let (vote, outcome) = match vote {
            Vote::Yes if !in_time => (Vote::Mute, NodeOutcome::TimedOut),
            Vote::Yes if !counts => (Vote::Mute, NodeOutcome::Missing),
            Vote::Yes | Vote::No | Vote::Mute => (vote, outcome),
        };
        self.vote(now, key, node, vote, outcome);
    }

    /// The node has forgotten the script: the same operation goes on with its text.
    fn repair_extension(&mut self, now: Instant, node: usize, key: Key) {
        self.nodes[node].forgot_scripts(now);
        self.to_write.insert(node);
        self.encoded.clear();
        self.send_extension(now, key, node, Dialect::Text);
    }

    /// Looks whether the outcome of the extension is certain.
    pub(super) fn judge_extension(&mut self, now: Instant, key: Key) {
        let Some(round) = self.rounds.get(key) else {
            return;
        };
        let Some(verdict) = round.tally.extension() else {
            return;
        };
        let Kind::Extend {
            claim,
            ref question,
            ..
        } = round.kind
        else {
            return;
        };
        if !is_extensible(&self.claims, claim) {
            self.decide(key, Decision::ExtensionClosed);
            return;
        }
        match verdict {
            Extending::Extended(majority) => match question {
                Question::AtLeast => self.extended(now, key, majority),
                Question::HowLong(_) => self.confirmed(now, key, majority),
            },
            Extending::Lost if !mutant!(LostKeepsValid) => self.lose(now, key),
            Extending::Lost | Extending::Unconfirmed => {
                mutant!(UnconfirmedGivesBack => self.give_keys_back(now, key));
                self.forget_extension(claim, key);
                self.decide(key, Decision::ExtensionUnconfirmed);
            }
        }
    }

    /// `majority` keeps the lock of an extension for at least as long as was asked.
    fn extended(&mut self, now: Instant, key: Key, majority: Majority) {
        let Some(round) = self.rounds.get(key) else {
            return;
        };
        let Kind::Extend {
            claim, valid_until, ..
        } = round.kind
        else {
            return;
        };
        let held = claim.and_then(|claim| self.claims.get_mut(claim));
        // A later question may have found an earlier end.
        let known = match &held {
            Some(held) if !mutant!(EarlierEndOverruled) => valid_until.min(held.valid_until),
            Some(_) | None => valid_until,
        };
        let sent = mutant!(ExtensionFromAnswer => now, else round.sent);
        let end = self
            .settings
            .drift
            .valid_until(sent, round.ttl)
            .max(mutant!(ExtensionShortens => Instant::ZERO, else known));
        if let Some(held) = held {
            held.valid_until = held.valid_until.max(end);
        }
        self.forget_extension(claim, key);
        self.top_up(now, key, &majority, end);
        self.decide(key, Decision::Extended(majority, end));
    }

    /// The extension `key` of `claim` has come to its end.
    pub(super) fn forget_extension(&mut self, claim: Option<Key>, key: Key) {
        if let Some(claim) = claim.and_then(|claim| self.claims.get_mut(claim))
            && claim.extension == Some(key)
        {
            claim.extension = None;
        }
    }

    /// The lock of `claim` is over or given away: the extensions of it that are open come to nothing,
    /// and this is what their callers are told.
    pub(super) fn end_extension(&mut self, claim: Key, outcome: impl Fn() -> Decision) {
        while let Some(open) = self.extension_of(claim) {
            self.decide(open, outcome());
        }
        if let Some(claim) = self.claims.get_mut(claim) {
            claim.extension = None;
        }
    }

    /// An extension of the lock of `claim` that is open, if there is one.
    fn extension_of(&self, key: Key) -> Option<Key> {
        let claim = self.claims.get(key)?;
        if claim.extended_beside && !mutant!(OlderExtensionGoesOn) {
            let extends = |round: &Round| matches!(&round.kind, Kind::Extend { claim, .. } if *claim == Some(key));
            let mut rounds = self.rounds.iter();
            let open = rounds.find(|(_, round)| round.is_voting() && extends(round));
            return open.map(|(open, _)| open);
        }
        let voting = |open: &Key| {
            self.rounds
                .get(*open)
                .is_some_and(|round| round.is_voting())
        };
        claim.extension.filter(voting)
    }

    /// The extension `key` was confirmed, and its caller does not want to know: the lock ends when
    /// its holder was told that it does, or is about to be told by another extension.
    pub(super) fn take_extension_back(&mut self, key: Key) {
        let Some((claim, _)) = self.rounds.get(key).and_then(about_to_be_told) else {
            return;
        };
        let others = self.rounds.iter().filter(|(other, _)| *other != key);
        let ends = others.filter_map(|(_, other)| about_to_be_told(other));
        let ends = ends.filter(|(other, _)| *other == claim);
        let latest = ends.map(|(_, end)| end).max().unwrap_or(Instant::ZERO);
        if let Some(held) = self.claims.get_mut(claim)
            && is_held(held)
        {
            held.valid_until = held.valid_until.min(held.told_until.max(latest));
            self.watch(claim);
        }
    }

    /// Releases what is held: only where that guard is taken out.
    fn give_keys_back(&mut self, now: Instant, key: Key) {
        let Some(Kind::Extend {
            claim: Some(claim),
            entry,
            ..
        }) = self.rounds.get(key).map(|round| &round.kind)
        else {
            return;
        };
        let (key, copy) = (*claim, entry.copy_into(self.buffers.take()));
        let Some(claim) = self.claims.get_mut(key) else {
            return;
        };
        claim.entry = Some(copy);
        let held = claim.may_hold;
        self.encoded.clear();
        for node in held.iter() {
            if self.nodes[node].is_ready() {
                self.pay(now, key, node, false);
            }
        }
    }

    /// A majority no longer has the lock: it is over, its holder is told, and what copies remain
    /// are released.
    fn lose(&mut self, now: Instant, key: Key) {
        let Some(round) = self.rounds.get(key) else {
            return;
        };
        let Kind::Extend {
            claim,
            ref entry,
            valid_until,
            ..
        } = round.kind
        else {
            return;
        };
        let ttl = round.ttl;
        let copy = entry.copy_into(self.buffers.take());
        let claim = match claim {
            Some(claim) => {
                mutant!(LostVoteNotTold => (), else self.tell_lost(claim));
                self.decide(key, Decision::ExtensionLost);
                self.end_extension(claim, || Decision::ExtensionLost);
                claim
            }
            // A lock in nobody's care: nobody is told, but its copies go all the same.
            None => {
                self.decide(key, Decision::ExtensionLost);
                if !self.has_room_for_claim() {
                    return;
                }
                self.adopted(now, valid_until, ttl)
            }
        };
        if let Some(claim) = self.claims.get_mut(claim) {
            claim.entry = Some(copy);
            claim.valid_until = now;
        }
        self.let_go(now, claim, None);
    }
}

/// The claim that a confirmed extension is about, and the end that is told next.
fn about_to_be_told(round: &Round) -> Option<(Key, Instant)> {
    let Kind::Extend { claim, .. } = &round.kind else {
        return None;
    };
    let State::Decided(Decision::Extended(_, end)) = &round.state else {
        return None;
    };
    Some(((*claim)?, *end))
}

/// Whether an extension may still do anything: its lock is held, and its holder was not told that
/// it is over. A lock in nobody's care is judged by its validity alone.
fn is_extensible(claims: &Slab<Claim>, claim: Option<Key>) -> bool {
    claim.is_none_or(|claim| claims.get(claim).is_some_and(is_held))
}

fn is_held(claim: &Claim) -> bool {
    if mutant!(ExtensionRevives | ConfirmationRevives) {
        return matches!(claim.stage, Stage::Held { .. });
    }
    claim.stage == (Stage::Held { told: false })
}
