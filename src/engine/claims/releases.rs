//! The releases of claims: when the engine sends, postpones, retries and ends them.
//!
//! # Not here
//!
//! The module `node` describes how a release is written. The file `copy.rs` describes how a release changes a copy.

use core::time::Duration;

use crate::engine::alarm::Alarm;
use crate::entry::Entry;
use crate::invariant::Must as _;
use crate::keys::{ClaimKey, NodeId, OperationKey};
use crate::node::{Command, Dialect, Question, Reply, Request};
use crate::quorum::{NodeSet, Vote};

use super::busy::Stage;
use super::claim::Claim;
use super::copy::Event;
use super::{Claims, ClaimsAt, note_name};

/// The delay before the engine retries a release that a node has refused.
const TRY_AGAIN: Duration = Duration::from_millis(250);

impl ClaimsAt<'_> {
    /// Releases the token of `key` on every node that may hold it, for the `operation` that waits for the outcome.
    /// Returns the nodes that were asked to release the token.
    pub(in crate::engine) fn release(
        &mut self,
        operation: Option<OperationKey>,
        key: ClaimKey,
    ) -> NodeSet {
        let mut command = self.claims.command();
        let Some(claim) = self.claims.slab.get_mut(key.0).must() else {
            return NodeSet::EMPTY;
        };
        let (since, was_held) = (claim.held_since(), claim.held_since().is_some());
        self.stats.end_hold(self.now, since, claim.kept.is_some());
        claim.busy_mut().stage = Stage::Releasing { operation };
        if let Some(timer) = claim.timer.take() {
            self.timers.cancel(timer);
        }
        let held = claim.may_hold;
        let asked = held.filter(|node| {
            if claim.copy_on(node).may_run() && self.nodes[node].give_up_set(key, was_held) {
                claim.apply(node, Event::NotRun);
                if !claim.may_hold.contains(node) {
                    return false;
                }
            }
            let sent = self.nodes[node].handshake.is_ready() && {
                let there = self.nodes.writing_to(node);
                there.send_release(self.now, key, &mut command, &claim.entry, false)
            };
            if sent {
                claim.apply(node, Event::Asked);
            } else {
                claim.apply(node, Event::Owed);
                self.nodes[node].debts.owe(key);
            }
            sent
        });
        self.claims.sent(command);
        if asked.is_empty() || asked != held {
            self.settle(key);
        }
        asked
    }

    /// Hands the lock of `key` over together with its known copies, so that these copies are not released. Withdraws
    /// `SET`s that were not sent. Returns the nodes that keep a copy.
    pub(in crate::engine) fn hand_over(&mut self, key: ClaimKey) -> NodeSet {
        let Some(claim) = self.claims.get_mut(key).must() else {
            return NodeSet::EMPTY;
        };
        let standing = claim.standing();
        for node in standing.iter() {
            if claim.copy_on(node).may_run() {
                self.nodes[node].give_up_set(key, false);
            }
            claim.apply(node, Event::HandedOver);
        }
        standing
    }

    /// Sends `node` its postponed releases, oldest first, until the connection's buffer is full.
    ///
    /// A `SET` without an answer must be released even after a handshake on a new connection, because a server that
    /// postpones writes still answers handshakes. The server may run the `SET` later, until it notices that the old
    /// connection has ended.
    pub(in crate::engine) fn pay_debts(&mut self, node: NodeId) {
        while let Some(key) = self.nodes[node].debts.pop() {
            let owed = |claim: &&mut Claim| claim.copy_on(node).is_owed();
            let Some(claim) = self.claims.slab.get_mut(key.0).filter(owed) else {
                self.nodes[node].debts.popped_forgotten();
                continue;
            };
            let mut command = Command::new(self.claims.commands.take().unwrap_or_default());
            let there = self.nodes.writing_to(node);
            let paid = there.send_release(self.now, key, &mut command, &claim.entry, true);
            (self.claims.commands).give_buffer(command.into_buffer());
            if paid {
                claim.apply(node, Event::Asked);
            } else if guard!(DebtWithoutRoomForgotten, true) {
                there.debts.put_back(key);
                return;
            }
        }
    }

    /// Retries the releases that `node` has refused.
    pub(in crate::engine) fn try_debts_again(&mut self, node: NodeId) {
        let there = &mut self.nodes[node];
        if let Some(timer) = there.debt_timer.take() {
            self.timers.cancel(timer);
        }
        there.abilities.reconsider_scripts();
        if there.debts.try_again() && there.handshake.is_ready() {
            self.pay_debts(node);
        }
    }

    /// Handles the answer of `node` to the release of `key`. Returns the operation that waits for the answer.
    #[inline(always)]
    pub(in crate::engine) fn release_answered(
        &mut self,
        node: NodeId,
        (key, by): (ClaimKey, Dialect),
        reply: Reply,
    ) -> Option<OperationKey> {
        let claim = self.claims.slab.get_mut(key.0).must()?;
        let Stage::Releasing { operation } = claim.busy().stage else {
            return None;
        };
        if let Reply::Again(_) = reply {
            self.owe(node, key);
            self.pay_debts(node);
            return None;
        }
        let vote = reply.vote().0;
        if vote != Vote::Yes {
            // If the transaction has only read the key, its answer proves nothing: a server that postpones writes still
            // answers reads.
            let is_read = by == Dialect::Watch && matches!(reply, Reply::Foreign(_));
            if is_read && claim.copy_on(node).may_run() {
                claim.missed_on(node);
                self.defer(node, key);
                return operation;
            } else if vote == Vote::Abstain {
                self.defer(node, key);
                return operation;
            } else if operation.is_some() {
                // The operation that waits for this release may fail after the claim has ended, and its error needs the
                // name of the resource.
                note_name(&mut self.claims.ended, key, &claim.entry);
            }
        }
        claim.apply(node, Event::Freed);
        if claim.may_hold.is_empty() {
            self.settle(key);
        }
        operation
    }

    /// Handles a `request` that `node` will never answer. `left` is `true` if any part of the request may have been
    /// sent.
    pub(in crate::engine) fn unanswered(&mut self, node: NodeId, request: Request, left: bool) {
        if let Request::Take { claim: key, .. } = request {
            let event = match guard!(SentSetForgotten, left) {
                true => Event::Lost,
                false => Event::NotRun,
            };
            self.end_set(node, key, event);
            self.settle(key);
        } else if let Request::Release { claim, .. } = request {
            self.owe(node, claim);
        } else if let Request::Question {
            question: Question::Extend,
            claim: Some(key),
            ..
        } = request
            && left
            && let Some(claim) = self.claims.get_mut(key)
        {
            // The node may have run this extension, even if it denied an earlier one.
            claim.busy_mut().copies.extending.insert(node);
        }
    }

    /// Records with `event` how the latest `SET` of `key` to `node` has ended. If the `SET` left no key, drops its
    /// postponed release, because there is nothing to release.
    pub(in crate::engine) fn end_set(&mut self, node: NodeId, key: ClaimKey, event: Event) {
        // After a hand-over, ignores a late answer. Otherwise, the claim would contain the node's copy again.
        if let Some(claim) = self.claims.get_mut(key)
            && (claim.may_hold.contains(node) || !claim.is_leaving())
        {
            let was_owed = claim.copy_on(node).is_owed();
            claim.apply(node, event);
            if was_owed && !claim.copy_on(node).is_owed() {
                self.forget_debts(node);
            }
        }
    }

    /// Removes releases that are no longer needed from the queue of `node`.
    fn forget_debts(&mut self, node: NodeId) {
        let claim = |key| self.claims.get(key);
        let is_owed = |claim: &Claim| claim.copy_on(node).is_owed();
        (self.nodes[node].debts).forget(|key| claim(key).is_some_and(is_owed));
    }

    /// Queues the release of `key`, so that `node` gets it as soon as possible.
    fn owe(&mut self, node: NodeId, key: ClaimKey) {
        if let Some(claim) = self.claims.get_mut(key) {
            claim.apply(node, Event::Owed);
            self.nodes[node].debts.owe(key);
            self.settle(key);
        }
    }

    /// Retries the release of `key` later, because `node` did not carry it out.
    fn defer(&mut self, node: NodeId, key: ClaimKey) {
        let Some(claim) = self.claims.slab.get_mut(key.0).must() else {
            return;
        };
        if claim.busy_mut().copies.extending.remove(node) {
            let longest = self.claims.drift.gone_by(self.now, claim.life());
            claim.gone_by = claim.gone_by.max(longest);
        }
        claim.apply(node, Event::Owed);
        let there = &mut self.nodes[node];
        there.debts.defer(key);
        if guard!(RefusedNotTriedAgain, there.debt_timer.is_none()) {
            let at = self.now.saturating_add(TRY_AGAIN);
            there.debt_timer = Some(self.timers.insert(at, Alarm::Debts(node)));
        }
        self.settle(key);
    }

    /// If the claim of `key` is being released, ends the claim as soon as no node can have its token. Otherwise, if a
    /// release becomes unnecessary when the key expires, sets a timer for this expiry.
    pub(in crate::engine) fn settle(&mut self, key: ClaimKey) {
        let claim = self.claims.get_mut(key);
        let Some(claim) = claim.filter(|claim| claim.is_leaving()) else {
            return;
        };
        if claim.may_hold.is_empty() {
            self.claims.end(key, self.timers);
        } else if claim.timer.is_none() && !claim.expiring().is_empty() {
            claim.timer = Some(self.timers.insert(claim.gone_by, Alarm::Claim(key)));
        }
    }

    /// Handles the timer of `key`, which is being released. Drops the releases to nodes where the key has certainly
    /// expired.
    pub(in crate::engine) fn expire_debts(&mut self, key: ClaimKey) {
        let claim = self.claims.get_mut(key);
        if let Some(claim) = claim.filter(|claim| claim.gone_by <= self.now) {
            let expired = claim.expiring();
            for node in expired.iter() {
                claim.apply(node, Event::Freed);
            }
            for node in expired.iter() {
                self.forget_debts(node);
            }
        }
        self.settle(key);
    }

    /// Keeps the claim of `key`, whose lock has ended without a release, until the keys have expired. If a release
    /// comes late, it goes to the nodes that may still have the keys. Withdraws `SET`s that were not sent yet.
    pub(in crate::engine) fn remember(&mut self, key: ClaimKey) {
        self.take_back(key, self.nodes.set());
        let Some(claim) = self.claims.get_mut(key).must() else {
            return;
        };
        if claim.busy().is_adopted {
            // Ends the claim of an adopted lock immediately, because its keys could live for up to a month. A late
            // release of this lock goes to all nodes anyway.
            return self.claims.end(key, self.timers);
        }
        let at = claim.gone_by.max(self.now.saturating_add(claim.life()));
        claim.wake_at(at, key, self.timers);
    }

    /// Withdraws the `SET`s of `key` to nodes in `from` if none of their bytes has been sent. Returns the nodes of the
    /// withdrawn `SET`s.
    pub(in crate::engine) fn take_back(&mut self, key: ClaimKey, from: NodeSet) -> NodeSet {
        let Some(claim) = self.claims.get_mut(key) else {
            return NodeSet::EMPTY;
        };
        let withdrawn = from.filter(|node| {
            let may_run = guard!(QueuedSetSentLate, claim.copy_on(node).may_run());
            may_run && self.nodes[node].withdraw_set(key)
        });
        for node in withdrawn.iter() {
            claim.apply(node, Event::NotRun);
        }
        withdrawn
    }
}

impl Claims {
    /// Returns a function that returns `true` for a claim that shares a resource with `entry`, is being released, and
    /// may still have its key on `node`. If the node certainly does not have the token of the claim, the key there
    /// belongs to another client.
    pub(in crate::engine) fn meets_own(
        &self,
        node: NodeId,
        entry: &Entry,
    ) -> impl Fn(ClaimKey) -> bool {
        move |key| {
            self.get(key).is_some_and(|claim| {
                let is_leaving = claim.is_leaving() && claim.may_hold.contains(node);
                let meets = claim.entry.meets(entry);
                let lacks = claim.busy().copies.lacking.contains(node);
                is_leaving && !lacks && !guard!(AnyKeyIsOurs, !meets)
            })
        }
    }
}
