//! Giving a lock back: releases, debts, and the repair of forgotten scripts.
//!
//! A release goes to every node that may hold the token, over the connection that carried its
//! `SET`, behind it. Where there is no connection or no room it is a debt: it goes out first thing
//! when there is. It is over when the node has answered it; time alone ends it only where it is
//! known when the key expires.

use core::time::Duration;

use crate::entry::Entry;
use crate::error::{LinkError, NodeOutcome, ServerError};
use crate::limits::TTL_ASSUMED_MAX;
use crate::node::{self, Dialect, Errand, Reply, Said, Trouble, refuses_the_verb, wants_the_text};
use crate::quorum::{Lock, LockId, NodeSet, Releasing, Vote};
use crate::slab::Key;
use crate::time::Instant;

use super::Engine;
use super::claim::{Claim, Stage};
use super::contract::RoundId;
use super::round::{Decision, Kind};
use super::timers::Alarm;

/// How long a release that a node has refused waits for its next try.
const TRY_AGAIN: Duration = Duration::from_millis(250);

impl Engine {
    /// Releases `lock`. The outcome comes as [`Event::Released`](super::Event::Released); what is
    /// owed to nodes that do not answer stays owed beyond it.
    pub fn release(&mut self, now: Instant, lock: Lock) -> RoundId {
        let kind = Kind::Release {
            valid: lock.is_valid_at(now),
        };
        let key = self.open_round(now, kind);
        let claim = self.claim_to_release(now, lock);
        self.ask_releases(now, key, claim);
        RoundId(key)
    }

    /// Releases `lock` with nobody waiting for the outcome.
    pub fn give_back(&mut self, now: Instant, lock: Lock) {
        let claim = self.claim_to_release(now, lock);
        self.let_go(now, claim, None);
    }

    /// Hands `lock` out of this engine's care: the end of its validity is not told any more, and
    /// it stands on the nodes that answered. Behind each of its `SET`s that is unanswered goes a
    /// release, because one on another connection would have no order against it.
    pub fn detach(&mut self, now: Instant, mut lock: Lock) -> Lock {
        let Some(key) = self.claim_of(&lock) else {
            return lock;
        };
        mutant!(HandOverLeavesExtension => (), else {
            self.end_extension(key, Decision::ExtensionClosed);
        });
        let copy = lock.entry().copy_into(self.buffers.take());
        let quarantined =
            mutant!(QuarantinedHandedOver => NodeSet::EMPTY, else self.quarantined(now));
        if let Some(claim) = self.claims.get_mut(key) {
            claim.may_hold = claim.may_hold.without(claim.settled());
            mutant!(DetachForgetsStragglers => claim.may_hold = NodeSet::EMPTY);
            claim.entry = Some(copy);
            if !claim.adopted {
                lock.set_voters(claim.settled().without(quarantined));
            }
        }
        self.let_go(now, key, None);
        lock.set_id(LockId::NONE);
        lock
    }

    /// Takes a lock of another engine or process into this one's care: the end of its validity is
    /// told, and its release goes to all nodes. Its validity stays what it was.
    ///
    /// Where its end is not known ([`Instant::ZERO`]: it comes from another clock) it has none, and
    /// [`confirm`](Engine::confirm) may find one. Until then only that its keys must be gone by now
    /// tells that it is over.
    pub fn adopt(&mut self, now: Instant, mut lock: Lock) -> Lock {
        if self.claim_of(&lock).is_none() {
            let claim = self.adopted(now, lock.valid_until(), lock.ttl());
            lock.set_id(self.lock_id(claim));
            self.watch(claim);
        }
        lock
    }

    /// A claim for a lock that was granted elsewhere, or has been forgotten here. An extension
    /// that was not confirmed may have given some of its keys more than it knows of.
    pub(super) fn adopted(&mut self, now: Instant, until: Instant, ttl: Duration) -> Key {
        self.may_last(ttl);
        let ttl = ttl.max(TTL_ASSUMED_MAX).min(self.settings.ttl_limit);
        let gone_by = self.settings.drift.gone_by(now.max(until), ttl);
        let all = self.all_nodes();
        self.claims.insert(Claim::adopted(all, ttl, until, gone_by))
    }

    /// The claim behind `lock`, with its entry.
    fn claim_to_release(&mut self, now: Instant, lock: Lock) -> Key {
        let key = match self.claim_of(&lock) {
            Some(key) => key,
            None => self.adopted(now, lock.valid_until(), lock.ttl()),
        };
        self.end_extension(key, Decision::ExtensionClosed);
        if let Some(claim) = self.claims.get_mut(key) {
            mutant!(ExpiredNotReleased =>
                if !lock.is_valid_at(now) { claim.may_hold = NodeSet::EMPTY });
            claim.entry = Some(lock.into_entry());
        }
        key
    }

    /// Sends the releases of `claim` on behalf of round `key`, and counts what is known already.
    fn ask_releases(&mut self, now: Instant, key: Key, claim: Key) {
        let Some(ttl) = self.claims.get(claim).map(|claim| claim.ttl) else {
            return;
        };
        let patience = self.patience(ttl);
        for node in 0..self.nodes.len() {
            let deadline = now.saturating_add(patience.with(&mut self.nodes[node]));
            if let Some(round) = self.rounds.get_mut(key) {
                round.ballots[node].deadline = deadline;
                round.ballots[node].asked = true;
            }
        }
        self.let_go(now, claim, Some(key));
        // A `SET` that had not left was taken back: there is nothing to release.
        let (asked, owed) = self
            .claims
            .get(claim)
            .map_or_else(Default::default, |claim| {
                (claim.releasing.union(claim.owed), claim.owed)
            });
        for node in 0..self.nodes.len() {
            let outcome = if !asked.contains(node) {
                NodeOutcome::Missing
            } else if owed.contains(node) && !self.nodes[node].is_ready() {
                self.nodes[node].trouble().outcome()
            } else {
                continue;
            };
            if let Some(round) = self.rounds.get_mut(key) {
                round.ballots[node].asked = false;
            }
            self.vote(now, key, node, Vote::Mute, outcome);
        }
        self.arm_round(key);
    }

    /// The token of `claim` is to go from every node that may hold it.
    pub(super) fn let_go(&mut self, now: Instant, key: Key, round: Option<Key>) {
        let Some(claim) = self.claims.get_mut(key) else {
            return;
        };
        claim.stage = Stage::Releasing { round };
        mutant!(UnansweredNotReleased => claim.may_hold = claim.may_hold.without(claim.unanswered));
        let (held, timer) = (claim.may_hold, claim.timer.take());
        if let Some(timer) = timer.filter(|_| !mutant!(ClaimTimerKept)) {
            self.wheel.cancel(timer);
        }
        self.encoded.clear();
        for node in held.iter() {
            self.release_on(now, key, node);
        }
        mutant!(TopUpAfterRelease => self.top_up_late(now, key));
        self.settle(key);
    }

    fn release_on(&mut self, now: Instant, key: Key, node: usize) {
        let Some(claim) = self.claims.get_mut(key) else {
            return;
        };
        if claim.unanswered.contains(node) && self.nodes[node].withdraw_set(key) {
            claim.set_withdrawn(node);
            if !claim.may_hold.contains(node) {
                return;
            }
        }
        if !self.nodes[node].is_ready() || !self.pay(now, key, node, false) {
            self.owe(key, node);
        }
    }

    /// Puts the release of `claim` into the connection to `node`; `false` if there is no room.
    /// `encoded` holds nothing, or the release of this claim.
    pub(super) fn pay(&mut self, now: Instant, key: Key, node: usize, repair: bool) -> bool {
        let Some(claim) = self.claims.get_mut(key) else {
            return true;
        };
        let Some(entry) = &claim.entry else {
            return true;
        };
        let there = &mut self.nodes[node];
        let dialect = there.release_dialect(repair);
        let command = self
            .encoded
            .get(dialect, |out| node::release(out, entry, dialect));
        if !there.has_room_for_release(command.len()) {
            return false;
        }
        let errand = Errand::Release {
            claim: key,
            dialect,
            repair: repair || dialect == Dialect::Text,
        };
        there.send(now, errand, command);
        self.to_write.insert(node);
        claim.releasing.insert(node);
        claim.owed.remove(node);
        true
    }

    /// The release of `claim` cannot be on its way to `node` yet: it goes out when it can.
    pub(super) fn owe(&mut self, key: Key, node: usize) {
        let Some(claim) = self.claims.get_mut(key) else {
            return;
        };
        claim.releasing.remove(node);
        mutant!(DebtForgotten => { claim.may_hold.remove(node); return self.settle(key) });
        if claim.owed.insert(node) {
            self.nodes[node].debts.owe(key);
        }
        self.limit_debt(key);
    }

    /// Arms the end of a debt, where time can end it.
    fn limit_debt(&mut self, key: Key) {
        let Some(claim) = self.claims.get_mut(key) else {
            return;
        };
        if claim.timer.is_none() && !claim.ends_by_time().is_empty() {
            claim.timer = Some(self.wheel.insert(claim.gone_by, Alarm::Claim(key)));
        }
    }

    /// Its keys have expired where that is known: nothing is owed there any more.
    pub(super) fn expire_debts(&mut self, now: Instant, key: Key) {
        let Some(claim) = self.claims.get_mut(key) else {
            return;
        };
        if claim.gone_by <= now {
            let ended = claim.ends_by_time();
            claim.owed = claim.owed.without(ended);
            claim.may_hold = claim.may_hold.without(ended);
            for node in ended.iter() {
                let claims = &self.claims;
                let is_owed = |key| {
                    claims
                        .get(key)
                        .is_some_and(|claim| claim.owed.contains(node))
                };
                self.nodes[node].debts.forget(is_owed);
            }
        }
        self.limit_debt(key);
        self.settle(key);
    }

    /// Pays what is owed to `node`, oldest first, while there is room.
    ///
    /// Only an answer ends what is owed for an unanswered `SET`, and no greeting does: a server that
    /// postpones writes greets all the same, and may run the `SET` later, over a connection of whose
    /// end it has not heard.
    pub(super) fn pay_debts(&mut self, now: Instant, node: usize) {
        mutant!(DebtsAfterSets => if !self.nodes[node].waiting.is_empty() { return });
        while let Some(key) = self.nodes[node].debts.pop() {
            let owed = self
                .claims
                .get(key)
                .is_some_and(|claim| claim.owed.contains(node));
            if !owed {
                self.nodes[node].debts.popped_forgotten();
                continue;
            }
            self.encoded.clear();
            if !self.pay(now, key, node, true) {
                mutant!(DebtWithoutRoomForgotten => return);
                self.nodes[node].debts.put_back(key);
                return;
            }
        }
    }

    /// `node` has answered the release of a claim.
    pub(super) fn release_answered(
        &mut self,
        now: Instant,
        node: usize,
        key: Key,
        dialect: Dialect,
        reply: Reply,
    ) -> Result<(), Trouble> {
        let Some(said) = Said::of(reply) else {
            self.owe(key, node);
            return Err(Trouble::Link(LinkError::Protocol));
        };
        if let Said::Refused(error) = said
            && !(mutant!(NoscriptReleaseDropped) && wants_the_text(error))
        {
            let missing = reply.missing(dialect.verb());
            let outcome = missing.map_or(NodeOutcome::Refused(error), NodeOutcome::Unusable);
            self.release_refused(now, node, key, dialect, error, outcome);
            return Ok(());
        }
        let (vote, outcome) = said.vote();
        let Some(claim) = self.claims.get_mut(key) else {
            return Ok(());
        };
        claim.releasing.remove(node);
        claim.may_hold.remove(node);
        if let Stage::Releasing { round: Some(round) } = claim.stage {
            self.vote(now, round, node, vote, outcome);
        }
        self.settle(key);
        Ok(())
    }

    /// The release was not done. It is tried another way, or again after a while; it stays owed.
    fn release_refused(
        &mut self,
        now: Instant,
        node: usize,
        key: Key,
        dialect: Dialect,
        error: ServerError,
        outcome: NodeOutcome,
    ) {
        let forgotten = wants_the_text(error);
        if forgotten {
            self.nodes[node].forgot_scripts(now);
            self.to_write.insert(node);
        }
        let another_way = match dialect {
            Dialect::Text => false,
            Dialect::Sha1 => forgotten,
            Dialect::DelIfEq | Dialect::DelEx => refuses_the_verb(error),
        };
        if dialect == Dialect::Text && refuses_the_verb(error) {
            self.nodes[node].refused_scripted_release();
        }
        if another_way {
            if dialect != Dialect::Sha1 {
                self.nodes[node].refused_native_release();
            }
            self.encoded.clear();
            if !self.pay(now, key, node, true) {
                self.owe(key, node);
            }
            return;
        }
        self.defer(now, node, key);
        if let Some(Stage::Releasing { round: Some(round) }) =
            self.claims.get(key).map(|claim| claim.stage)
        {
            self.vote(now, round, node, Vote::Mute, outcome);
        }
    }

    fn defer(&mut self, now: Instant, node: usize, key: Key) {
        let drift = self.settings.drift;
        let Some(claim) = self.claims.get_mut(key) else {
            return;
        };
        claim.releasing.remove(node);
        if claim.unknown.remove(node) {
            claim.gone_by = claim.gone_by.max(drift.gone_by(now, claim.ttl));
        }
        let there = &mut self.nodes[node];
        if claim.owed.insert(node) {
            there.debts.defer(key);
        }
        if there.debt_timer.is_none() && !mutant!(RefusedNotTriedAgain) {
            let at = now.saturating_add(TRY_AGAIN);
            there.debt_timer = Some(self.wheel.insert(at, Alarm::Debts(node)));
        }
        self.limit_debt(key);
    }

    /// Tries again what `node` has refused to release.
    pub(super) fn try_debts_again(&mut self, now: Instant, node: usize) {
        if let Some(timer) = self.nodes[node].debt_timer.take() {
            self.wheel.cancel(timer);
        }
        if self.nodes[node].debts.try_again() && self.nodes[node].is_ready() {
            self.pay_debts(now, node);
        }
    }

    /// Ends `claim` if no node can hold its token any more.
    pub(super) fn settle(&mut self, key: Key) {
        if !self.claims.get(key).is_some_and(Claim::is_over) {
            return;
        }
        let Some(claim) = self.claims.remove(key) else {
            return;
        };
        if let Some(timer) = claim.timer {
            self.wheel.cancel(timer);
        }
        self.recycle(claim.entry);
    }

    pub(super) fn recycle(&mut self, entry: Option<Entry>) {
        if let Some(entry) = entry {
            self.buffers.give(entry.into_buffer());
        }
    }

    /// Looks whether the outcome of the release is certain.
    pub(super) fn judge_release(&mut self, key: Key, valid: bool) {
        let verdict = self
            .rounds
            .get(key)
            .and_then(|round| round.tally.release(valid));
        match verdict {
            None => {}
            Some(Releasing::Released) => self.decide(key, Decision::Released),
            Some(Releasing::NotHeld) => self.decide(key, Decision::NotHeld),
            Some(Releasing::Unconfirmed) => self.decide(key, Decision::ReleaseUnconfirmed),
        }
    }
}
