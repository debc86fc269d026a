//! The open operations: their callers, their rounds, and how each answer of a node affects them.
//!
//! # Guarantees
//!
//! * Every answer that counts passes through this file. An outcome is reported in the same call in which it becomes
//!   certain.
//! * If an answer to one operation also concerns other operations, for example because a lock is lost, all of them
//!   learn of the answer in the same call.

mod changes;

use alloc::vec::Vec;
use core::time::Duration;

use crate::error::NodeOutcome;
use crate::invariant::Must;
use crate::keys::{ClaimKey, NodeId, OperationKey, WaiterKey};
use crate::limits::ROUNDS_MAX;
use crate::node::Answer;
use crate::slab::Slab;
use crate::time::Instant;

use super::alarm::Alarm;
use super::claims::busy::Questions;
use super::contract::{Cause, Event, RoundId};
use super::learning::learn;
use super::operation::acquire::Acquire;
use super::operation::held::Verdict;
use super::operation::round::{Ballot, Round, State};
use super::operation::{
    Change, Context, Kind, Lost, LostLock, Operate, Operation, due, judge_if_voting,
};
use super::parts::Parts;
use super::pool::Pool;
use super::stats::Stats;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Operations {
    slab: Slab<Operation>,
    ballots: Pool<Vec<Ballot>>,
    pub(super) parts: Parts,
}

impl Operations {
    pub(super) const fn new(parts: Parts) -> Self {
        Self {
            slab: Slab::new(),
            ballots: Pool::new(),
            parts,
        }
    }

    /// Returns the number of open operations, including waiters in `queues`.
    pub(super) fn len(&self) -> usize {
        self.slab.len() + self.parts.queues.waiters.waiting()
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.slab.capacity()
    }

    /// Returns `true` if the limit on open operations is reached.
    pub(super) fn is_full(&self) -> bool {
        ROUNDS_MAX <= self.len()
    }

    /// Returns `true` if the limit for questions about held locks is reached. This limit is higher, so that holders can
    /// extend their locks while many other callers wait.
    pub(super) fn is_full_for_holders(&self) -> bool {
        2 * ROUNDS_MAX <= self.len()
    }
    /// Returns the number of places that acquisitions use.
    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        let all = self.slab.iter();
        let places = all.map(|(_, operation)| match &operation.kind {
            Kind::Acquire(acquire) => acquire.places().len(),
            Kind::Held(_)
            | Kind::Inspect(_)
            | Kind::Overwrite(_)
            | Kind::Release(_)
            | Kind::Reinit(_)
            | Kind::Repair(_)
            | Kind::GiveFloors(_)
            | Kind::Scan(_) => 0,
        });
        places.sum()
    }

    /// Returns the number of operations that currently ask no node, counted one by one.
    #[cfg(test)]
    pub(super) fn resting(&self) -> usize {
        let rests =
            |round: &Round| matches!(round.state, State::Queued { .. } | State::Resting { .. });
        let all = self.slab.iter();
        all.filter(|(_, operation)| rests(&operation.round)).count()
    }

    #[cfg(test)]
    pub(super) fn is_open(&self, operation: OperationKey) -> bool {
        self.slab.get(operation.0).is_some()
    }

    /// Returns the keys of all open operations, in the order of the slab.
    pub(super) fn keys(&self) -> Vec<OperationKey> {
        let keys = self.slab.iter().map(|(key, _)| OperationKey(key));
        keys.collect()
    }

    /// Returns why the timer of `alarm` is set.
    pub(super) fn reason(&self, alarm: Alarm) -> Cause {
        match alarm {
            Alarm::Connection(_) | Alarm::Lines => Cause::Connection,
            Alarm::Silence(_) => Cause::Silence,
            Alarm::Debts(_) => Cause::Debt,
            Alarm::Floors => Cause::Repair,
            Alarm::Operation(key) => {
                let operation = self.slab.get(key.0);
                operation.map_or(Cause::Retry, |operation| operation.round.wake)
            }
            Alarm::Waiter(key) => {
                let end = self.parts.wait_ends(key);
                end.map_or(Cause::Retry, |(_, why)| why)
            }
            Alarm::Claim(key) => match self.parts.claims.get(key) {
                Some(claim)
                    if claim.is_held() && (claim.kept.is_some() || claim.busy().alert != 0) =>
                {
                    Cause::Extension
                }
                Some(claim) if claim.is_held() => Cause::Expiry,
                Some(_) | None => Cause::Debt,
            },
        }
    }

    // ----- beginning and ending operations ----------------------------------------------------

    /// Opens an operation and asks the nodes. The lock will have this `ttl`, and the caller waits until `deadline`.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        ttl: Duration,
        deadline: Option<Instant>,
        kind: Kind,
    ) -> RoundId {
        let mut round = self.round(now);
        (round.ttl, round.deadline) = (ttl, deadline);
        let key = OperationKey(self.slab.insert(Operation { round, kind }));
        let mut waits = false;
        self.with(now, key, |operation, cx| {
            cx.round.key = key;
            operation.begin(cx);
            waits = cx.round.is_queued();
        });
        let round = match waits {
            true => self.put_aside(key),
            false => RoundId(key),
        };
        self.lead_others(now);
        round
    }

    #[inline(always)]
    fn round(&mut self, started: Instant) -> Round {
        let ballots = self.ballots.take().unwrap_or_default();
        Round::new(started, self.parts.nodes.len(), ballots)
    }

    /// Makes the operation of `key` wait for its turn. If a record in the queue is enough for the wait, keeps only this
    /// record.
    #[cold]
    fn put_aside(&mut self, key: OperationKey) -> RoundId {
        let name = match self.slab.get(key.0).map(|operation| &operation.kind) {
            Some(Kind::Acquire(acquire)) => acquire.name(key),
            _ => RoundId(key),
        };
        if name != RoundId(key)
            && let Some(operation) = self.slab.remove(key.0)
        {
            self.ballots.give_buffer(operation.round.ballots);
        }
        name
    }

    /// Opens the operation of `waiter`, whose wait for its turn has ended.
    fn open(&mut self, waiter: WaiterKey) {
        let Some(&kept) = self.parts.queues.waiters.get(waiter) else {
            return; // It is already open, or was cancelled.
        };
        if let Some(timer) = kept.timer {
            self.parts.timers.cancel(timer);
        }
        let extra = self.parts.queues.waiters.wanted(waiter);
        let acquire = Acquire::opened(waiter, &kept, &extra, &mut self.parts);
        let mut round = self.round(kept.started);
        let settings = &self.parts.settings;
        let until = settings.tries_end(kept.started, kept.tries_allowed());
        round.state = State::Queued { until };
        self.parts.resting += 1;
        (round.ttl, round.deadline, round.tries) = (kept.ttl(), kept.deadline(), 0);
        let kind = Kind::Acquire(acquire);
        let key = OperationKey(self.slab.insert(Operation { round, kind }));
        self.parts.queues.open(waiter, key);
        if let Some(operation) = self.slab.get_mut(key.0) {
            operation.round.key = key;
        }
    }

    /// Opens the operations of all waiters.
    pub(super) fn open_all(&mut self) {
        for waiter in self.parts.queues.waiters.keys().collect::<Vec<_>>() {
            self.open(waiter);
        }
    }

    /// Ends the wait of `waiter`, whose time has passed.
    pub(super) fn waited(&mut self, now: Instant, waiter: WaiterKey) {
        if self.parts.waits_on(now, waiter) {
            return;
        }
        self.open(waiter);
        let waiters = &self.parts.queues.waiters;
        if let Some(key) = waiters.opened(OperationKey::of_waiter(waiter)) {
            self.with(now, key, due);
        }
    }

    /// Returns the event of `operation`, and ends the operation. Returns `None` if the operation was cancelled or tries
    /// again.
    pub(super) fn tell(&mut self, now: Instant, operation: OperationKey) -> Option<Event> {
        let there = self.slab.get_mut(operation.0)?;
        let is_own = there.kind.is_own();
        let (told, mut cx) = there.at(now, &mut self.parts);
        if cx.round.state != State::Decided {
            return None;
        }
        #[cfg(feature = "tracing")]
        (cx.parts.notices.attempts = cx.round.tries);
        let event = told.tell(&mut cx);
        if event.is_some() || is_own {
            self.end(now, operation);
        }
        event
    }

    /// Ends `operation` and frees its memory.
    pub(super) fn end(&mut self, now: Instant, key: OperationKey) {
        if let Some(operation) = self.slab.get_mut(key.0) {
            operation.round.disarm(&mut self.parts.timers);
            operation.kind.get().end(&mut self.parts);
            if let Kind::Acquire(acquire) = &mut operation.kind {
                acquire.leave(key, &mut self.parts);
            }
            let ballots = core::mem::take(&mut operation.round.ballots);
            self.ballots.give_buffer(ballots);
            self.slab.discard(key.0);
            self.lead(now);
        }
    }

    /// Ends `round` without reporting an outcome, and releases any lock that it has taken.
    pub(super) fn cancel(&mut self, now: Instant, RoundId(key): RoundId) {
        if let Some(waiter) = key.waiter() {
            self.open(waiter);
        }
        if let Some(key) = self.parts.queues.waiters.opened(key) {
            self.cancel_open(now, key);
        }
    }

    /// Adds the names of the resources of `round` to `report`.
    #[cfg(feature = "std")]
    #[cold]
    pub(super) fn about(
        &mut self,
        RoundId(key): RoundId,
        report: crate::error::Report,
    ) -> crate::error::Report {
        let open = self.parts.queues.waiters.opened(key);
        if let Some(operation) = open.and_then(|key| self.slab.get_mut(key.0)) {
            return operation.kind.get().about(report, &self.parts);
        }
        let waiter = key
            .waiter()
            .and_then(|key| self.parts.queues.waiters.get(key));
        match waiter {
            Some(waiter) => report.about([self.parts.queues.name(waiter.place)].into_iter()),
            None => report,
        }
    }

    fn cancel_open(&mut self, now: Instant, key: OperationKey) {
        if let Some(operation) = self.slab.get_mut(key.0) {
            count_cancelled(&operation.kind, &mut self.parts.stats);
            let (operation, mut cx) = operation.at(now, &mut self.parts);
            let all = cx.parts.nodes.set();
            cx.round.stop_resting(cx.parts);
            operation.withdraw(all, &mut cx);
            operation.cancel(&mut cx);
            self.end(now, key);
        }
    }

    /// Cancels every open acquisition.
    #[cfg(any(feature = "std", test))]
    pub(super) fn cancel_acquisitions(&mut self, now: Instant) {
        // Cancels the waiters first. Otherwise, a waiter would get a turn and ask the nodes, only to be cancelled.
        for waiter in self.parts.queues.waiters.keys().collect::<Vec<_>>() {
            self.cancel(now, RoundId(OperationKey::of_waiter(waiter)));
        }
        let acquires = |queued: bool| {
            let all = self.slab.iter();
            let wanted = all.filter(move |(_, operation)| {
                matches!(operation.kind, Kind::Acquire(_)) && operation.round.is_queued() == queued
            });
            wanted.map(|(key, _)| OperationKey(key))
        };
        let keys: Vec<_> = acquires(true).chain(acquires(false)).collect();
        for key in keys {
            self.cancel_open(now, key);
        }
    }

    // ----- effects on other operations --------------------------------------------------------

    /// Passes the operation of `key` to `act`, if the operation is still open. If a majority has lost the operation's
    /// lock, also ends the other questions about the lock, and releases its remaining copies or keeps them for the lock
    /// delay.
    #[inline]
    pub(super) fn with(
        &mut self,
        now: Instant,
        key: OperationKey,
        act: impl FnOnce(&mut dyn Operate, &mut Context<'_>),
    ) {
        if let Some(operation) = self.slab.get_mut(key.0) {
            let (operation, mut cx) = operation.at(now, &mut self.parts);
            act(operation, &mut cx);
            if let Some(lost) = cx.lost {
                self.lose(now, lost);
            }
        }
    }

    /// Wakes the operations whose turn has come, without waiting until another operation ends. For example, a reader
    /// passes its turn on when it asks the nodes.
    #[inline]
    pub(super) fn lead_others(&mut self, now: Instant) {
        if self.parts.queues.has_turns() {
            self.lead(now);
        }
    }

    #[cold]
    #[inline(never)]
    fn lose(&mut self, now: Instant, lost: LostLock) {
        self.end_questions(now, lost.claim, lost.open, lost.verdict);
        match lost.stays {
            true => self.remember(now, lost.claim),
            false => self.give_back(now, lost.claim),
        }
    }

    /// Passes each open operation to `act`, in the order of the slab.
    pub(super) fn each(&mut self, now: Instant, act: impl Fn(&mut dyn Operate, &mut Context<'_>)) {
        for key in self.keys() {
            self.with(now, key, &act);
        }
    }

    /// Releases the lock of `claim`, which the caller no longer holds, and gives the next waiter its turn. No operation
    /// waits for the outcome.
    pub(super) fn give_back(&mut self, now: Instant, claim: ClaimKey) {
        self.parts.vacate(now, claim);
        self.parts.give_back(now, claim);
        self.lead(now);
    }

    /// Keeps `claim`, whose lock has ended without a release, until its keys have expired. Gives the next waiter its
    /// turn.
    #[cold]
    pub(super) fn remember(&mut self, now: Instant, claim: ClaimKey) {
        self.parts.vacate(now, claim);
        self.parts.claims(now).remember(claim);
        self.lead(now);
    }

    /// Lets each operation whose turn has come ask the nodes.
    #[inline]
    pub(super) fn lead(&mut self, now: Instant) {
        while let Some(next) = self.parts.next_turn(now) {
            self.lead_one(now, next);
        }
    }

    // Out of line, because usually no operation waits.
    #[inline(never)]
    fn lead_one(&mut self, now: Instant, next: OperationKey) {
        if let Some(waiter) = next.waiter() {
            self.open(waiter);
        }
        if let Some(next) = self.parts.queues.waiters.opened(next).must() {
            self.with(now, next, |operation, cx| operation.heard(Change::Turn, cx));
        }
    }

    /// Ends the open questions about the lock of `claim` without a result, because the lock has ended, or was released
    /// or handed over. The callers of these questions receive `verdict` as their outcome.
    pub(super) fn end_questions(
        &mut self,
        now: Instant,
        claim: ClaimKey,
        open: Questions,
        verdict: impl Fn() -> Verdict,
    ) {
        let asked = match guard!(OlderExtensionGoesOn, open.are_older_open()) {
            true => self.keys(),
            false => open.newest.into_iter().collect(),
        };
        for key in asked {
            if let Some(Operation { round, kind }) = self.slab.get_mut(key.0)
                && let Kind::Held(held) = kind
                && held.is_about(claim, round)
            {
                held.decide(verdict(), &mut Context::new(now, round, &mut self.parts));
            }
        }
    }

    // ----- answers ----------------------------------------------------------------------------

    /// Handles the `answer` of `node`.
    // Inlined, because most answers are the constant `Reply::Done`, for which the compiler drops most of the code.
    #[inline(always)]
    pub(super) fn answered(&mut self, now: Instant, node: NodeId, answer: &mut Answer) {
        if let Some(operation) = learn(now, node, answer, &mut self.parts) {
            self.with(now, operation, |operation, cx| {
                operation.answered(node, answer, cx);
            });
        }
    }

    /// Handles an `answer` of `node` that does not count. `outcome` is the reason why the answer does not count.
    /// `first` says whether the node's earlier answers counted.
    #[cold]
    pub(super) fn answered_uncounted(
        &mut self,
        now: Instant,
        node: NodeId,
        answer: &mut Answer,
        (outcome, first): (NodeOutcome, bool),
    ) {
        let operation = learn(now, node, answer, &mut self.parts);
        if let Some(operation) = operation {
            self.with(now, operation, |operation, cx| {
                cx.round.lose(node, outcome);
                operation.answered(node, answer, cx);
            });
        }
        if first {
            self.lose_answers(now, node, outcome);
        }
        if let Some(operation) = operation {
            self.with(now, operation, |operation, cx| {
                judge_if_voting(operation, cx);
            });
        }
    }

    /// Stops counting the answers of `node` in operations that take or extend a lock.
    pub(super) fn lose_answers(&mut self, now: Instant, node: NodeId, outcome: NodeOutcome) {
        self.each(now, |operation, cx| {
            operation.lose(node, Lost::Trust(outcome), cx);
        });
    }

    // ----- handshakes -------------------------------------------------------------------------

    /// Sends `node` the questions that waited for the end of its handshake, starting with questions of holders.
    pub(super) fn ask_late(&mut self, now: Instant, node: NodeId) {
        let asks = |round: &Round| round.asks_late(now, node);
        self.ask_waiting(now, node, Change::Ready(node), asks);
    }

    /// Asks `node` the waiting questions again, because the commands that must precede these questions may have been
    /// sent by now.
    #[cold]
    pub(super) fn ask_behind(&mut self, now: Instant, node: NodeId) {
        let asks = |round: &Round| round.awaits(node) && round[node].asked;
        self.ask_waiting(now, node, Change::Behind(node), asks);
    }

    fn ask_waiting(
        &mut self,
        now: Instant,
        node: NodeId,
        change: Change,
        asks: impl Fn(&Round) -> bool,
    ) {
        for _ in 0..self.parts.nodes[node].connection.waiting.len() {
            let Some(key) = self.parts.nodes[node].connection.waiting.pop() else {
                break; // The connection was given up meanwhile.
            };
            self.with(now, key, |operation, cx| {
                if asks(cx.round) {
                    operation.heard(change, cx);
                }
            });
        }
    }
}

/// Counts an operation of this `kind` whose caller no longer waits for the outcome.
#[cold]
fn count_cancelled(kind: &Kind, stats: &mut Stats) {
    match kind {
        Kind::Acquire(_) => stats.acquisitions.cancelled += 1,
        Kind::Held(held) => stats.extensions.cancelled += u64::from(held.is_extension()),
        Kind::Release(_) => stats.releases.unwatched += 1,
        Kind::Inspect(_)
        | Kind::Overwrite(_)
        | Kind::Reinit(_)
        | Kind::Repair(_)
        | Kind::GiveFloors(_)
        | Kind::Scan(_) => {}
    }
}
