//! The open operations: their callers, their rounds, and what the answers of nodes mean to them.
//!
//! # Guarantees
//!
//! * Every answer that counts passes here, and a verdict follows in the call that makes it certain.
//! * A decision of one operation that concerns others (a lock is lost, a node belongs to another group) reaches them in
//!   the same call.

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
use super::queues::Queues;
use super::stats::Stats;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Operations {
    slab: Slab<Operation>,
    ballots: Pool<Vec<Ballot>>,
}

impl Operations {
    pub(super) const fn new() -> Self {
        Self {
            slab: Slab::new(),
            ballots: Pool::new(),
        }
    }

    /// Returns the number of open operations, including waiters in `queues`.
    pub(super) fn len(&self, queues: &Queues) -> usize {
        self.slab.len() + queues.waiters.waiting()
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.slab.capacity()
    }

    /// Returns `true` if there is no room for another operation.
    pub(super) fn is_full(&self, queues: &Queues) -> bool {
        ROUNDS_MAX <= self.len(queues)
    }

    /// Returns `true` if there is no room for another question about a held lock. Such questions have as much room
    /// again, so that callers who want a lock never keep out a caller who holds one.
    pub(super) fn is_full_for_holders(&self, queues: &Queues) -> bool {
        2 * ROUNDS_MAX <= self.len(queues)
    }

    pub(super) fn get_mut(&mut self, operation: OperationKey) -> Option<&mut Operation> {
        self.slab.get_mut(operation.0)
    }

    /// Returns the number of places that acquisitions use.
    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        let all = self.slab.iter();
        let places = all.map(|(_, operation)| match &operation.kind {
            Kind::Acquire(acquire) => acquire.places().len(),
            Kind::Extend(_)
            | Kind::Confirm(_)
            | Kind::Inspect(_)
            | Kind::Overwrite(_)
            | Kind::Release(_)
            | Kind::Reinit(_)
            | Kind::Repair(_)
            | Kind::GiveFloors(_)
            | Kind::CountCounters(_) => 0,
        });
        places.sum()
    }

    /// Returns the number of operations that ask no node now, counted one by one.
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

    /// Returns why the timer of `operation` is armed.
    pub(super) fn wake(&self, operation: OperationKey) -> Cause {
        let operation = self.slab.get(operation.0);
        operation.map_or(Cause::Retry, |operation| operation.round.wake)
    }

    // ----- begin and end ----------------------------------------------------------------------

    /// Opens an operation and asks the nodes. The lock will have this `ttl`; the caller waits until `deadline`.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        ttl: Duration,
        deadline: Option<Instant>,
        kind: Kind,
        parts: &mut Parts,
    ) -> RoundId {
        let mut round = Round::new(
            now,
            parts.nodes.len(),
            self.ballots.take().unwrap_or_default(),
        );
        round.ttl = ttl;
        round.deadline = deadline;
        let key = OperationKey(self.slab.insert(Operation { round, kind }));
        let mut waits = false;
        self.with(now, key, parts, |operation, cx| {
            cx.round.key = key;
            operation.begin(cx);
            waits = cx.round.is_queued();
        });
        let round = match waits {
            true => self.put_aside(key),
            false => RoundId(key),
        };
        self.lead_others(now, parts);
        round
    }

    /// The operation of `key` waits for its turn. If it has a record in the queue, only this is kept.
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

    /// Opens the operation of `waiter`, which has waited for its turn until now.
    fn open(&mut self, waiter: WaiterKey, parts: &mut Parts) {
        let Some(&kept) = parts.queues.waiters.get(waiter) else {
            return; // It is already open, or was cancelled.
        };
        if let Some(timer) = kept.timer {
            parts.timers.cancel(timer);
        }
        let extra = parts.queues.waiters.wanted(waiter);
        let mut acquire = Acquire::opened(waiter, &kept, extra.keep);
        if extra.fenced || extra.owner.is_some() {
            acquire.want(extra.fenced, extra.owner.as_deref(), parts);
        }
        if extra.shared {
            acquire.share();
        } else if extra.permits != 0 {
            acquire.permit(extra.permits, parts.nodes.len());
        }
        let mut round = Round::new(
            kept.started,
            parts.nodes.len(),
            self.ballots.take().unwrap_or_default(),
        );
        let until = parts.settings.tries_end(kept.started, kept.tries_allowed());
        round.state = State::Queued { until };
        parts.resting += 1;
        (round.ttl, round.deadline, round.tries) = (kept.ttl(), kept.deadline(), 0);
        let kind = Kind::Acquire(acquire);
        let key = OperationKey(self.slab.insert(Operation { round, kind }));
        parts.queues.open(waiter, key);
        if let Some(operation) = self.get_mut(key) {
            operation.round.key = key;
        }
    }

    /// Opens the operations of all waiters.
    pub(super) fn open_all(&mut self, parts: &mut Parts) {
        for waiter in parts.queues.waiters.keys().collect::<Vec<_>>() {
            self.open(waiter, parts);
        }
    }

    /// Handles the end of the time of `waiter`.
    pub(super) fn waited(&mut self, now: Instant, waiter: WaiterKey, parts: &mut Parts) {
        if parts.waits_on(now, waiter) {
            return;
        }
        self.open(waiter, parts);
        if let Some(key) = parts.queues.waiters.opened(OperationKey::of_waiter(waiter)) {
            self.with(now, key, parts, due);
        }
    }

    /// Returns the next event of `operation`, which ends with it. There is none if it was cancelled or tries again
    /// after all.
    pub(super) fn tell(
        &mut self,
        now: Instant,
        operation: OperationKey,
        parts: &mut Parts,
    ) -> Option<Event> {
        let there = self.get_mut(operation)?;
        let is_own = there.kind.is_own();
        let (told, mut cx) = there.at(now, parts);
        if cx.round.state != State::Decided {
            return None;
        }
        #[cfg(feature = "tracing")]
        (cx.parts.notices.attempts = cx.round.tries);
        let event = told.tell(&mut cx);
        if event.is_some() || is_own {
            self.end(now, operation, parts);
        }
        event
    }

    /// Ends `operation` and frees its memory.
    pub(super) fn end(&mut self, now: Instant, key: OperationKey, parts: &mut Parts) {
        if let Some(operation) = self.slab.get_mut(key.0) {
            operation.round.disarm(&mut parts.timers);
            operation.kind.get().end(parts);
            if let Kind::Acquire(acquire) = &mut operation.kind {
                acquire.leave(key, parts);
            }
            let ballots = core::mem::take(&mut operation.round.ballots);
            self.ballots.give_buffer(ballots);
            self.slab.discard(key.0);
            self.lead(now, parts);
        }
    }

    /// Ends `round` without an outcome, and releases what it may have locked.
    pub(super) fn cancel(&mut self, now: Instant, RoundId(key): RoundId, parts: &mut Parts) {
        if let Some(waiter) = key.waiter() {
            self.open(waiter, parts);
        }
        if let Some(key) = parts.queues.waiters.opened(key) {
            self.cancel_open(now, key, parts);
        }
    }

    /// Adds to a `report` what the operation of `round` is about.
    #[cfg(feature = "std")]
    #[cold]
    pub(super) fn about(
        &mut self,
        RoundId(key): RoundId,
        report: crate::error::Report,
        parts: &Parts,
    ) -> crate::error::Report {
        let open = parts.queues.waiters.opened(key);
        if let Some(operation) = open.and_then(|key| self.get_mut(key)) {
            return operation.kind.get().about(report, parts);
        }
        let waiter = key.waiter().and_then(|key| parts.queues.waiters.get(key));
        match waiter {
            Some(waiter) => report.about([parts.queues.name(waiter.place)].into_iter()),
            None => report,
        }
    }

    fn cancel_open(&mut self, now: Instant, key: OperationKey, parts: &mut Parts) {
        if let Some(operation) = self.get_mut(key) {
            count_cancelled(&operation.kind, &mut parts.stats);
            let (operation, mut cx) = operation.at(now, parts);
            let all = cx.parts.nodes.set();
            cx.round.stop_resting(cx.parts);
            operation.withdraw(all, &mut cx);
            operation.cancel(&mut cx);
            self.end(now, key, parts);
        }
    }

    /// Cancels every open acquisition.
    #[cfg(any(feature = "std", test))]
    pub(super) fn cancel_acquisitions(&mut self, now: Instant, parts: &mut Parts) {
        // Waiters are cancelled first, so that none of them gets its turn and asks in vain.
        for waiter in parts.queues.waiters.keys().collect::<Vec<_>>() {
            self.cancel(now, RoundId(OperationKey::of_waiter(waiter)), parts);
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
            self.cancel_open(now, key, parts);
        }
    }

    // ----- verdicts that concern others -------------------------------------------------------

    /// Passes the operation of `key` to `act`, if it is still open. If a majority has lost its lock, the other
    /// questions about the lock are over too, and the remaining copies are released, or stay for the lock delay.
    #[inline]
    pub(super) fn with(
        &mut self,
        now: Instant,
        key: OperationKey,
        parts: &mut Parts,
        act: impl FnOnce(&mut dyn Operate, &mut Context<'_>),
    ) {
        if let Some(operation) = self.get_mut(key) {
            let (operation, mut cx) = operation.at(now, parts);
            act(operation, &mut cx);
            if let Some(lost) = cx.lost {
                self.lose(now, lost, parts);
            }
        }
    }

    /// Leads the operations to which others have given their turn on, as a reader does that asks beside them. Without that
    /// they would wait for the end of some operation, or end before their turn is known.
    #[inline]
    pub(super) fn lead_others(&mut self, now: Instant, parts: &mut Parts) {
        if parts.queues.has_turns() {
            self.lead(now, parts);
        }
    }

    #[cold]
    #[inline(never)]
    fn lose(&mut self, now: Instant, lost: LostLock, parts: &mut Parts) {
        self.end_questions(now, lost.claim, lost.open, lost.verdict, parts);
        match lost.stays {
            true => self.remember(now, lost.claim, parts),
            false => self.give_back(now, lost.claim, parts),
        }
    }

    /// Passes each open operation to `act`, in the order of the slab.
    pub(super) fn each(
        &mut self,
        now: Instant,
        parts: &mut Parts,
        act: impl Fn(&mut dyn Operate, &mut Context<'_>),
    ) {
        for key in self.keys() {
            self.with(now, key, parts, &act);
        }
    }

    /// The lock of `claim` is not held any more. Releases it without an operation that waits for the outcome, and lets
    /// the next waiter have its turn.
    pub(super) fn give_back(&mut self, now: Instant, claim: ClaimKey, parts: &mut Parts) {
        parts.vacate(now, claim);
        parts.give_back(now, claim);
        self.lead(now, parts);
    }

    /// The lock of `claim` is over and was not released. Lets the next waiter have its turn.
    #[cold]
    pub(super) fn remember(&mut self, now: Instant, claim: ClaimKey, parts: &mut Parts) {
        parts.vacate(now, claim);
        parts.claims(now).remember(claim);
        self.lead(now, parts);
    }

    /// Lets each operation whose turn has come ask the nodes.
    #[inline]
    pub(super) fn lead(&mut self, now: Instant, parts: &mut Parts) {
        while let Some(next) = parts.next_turn(now) {
            self.lead_one(now, next, parts);
        }
    }

    // Out of line, because usually no operation waits.
    #[inline(never)]
    fn lead_one(&mut self, now: Instant, next: OperationKey, parts: &mut Parts) {
        if let Some(waiter) = next.waiter() {
            self.open(waiter, parts);
        }
        if let Some(next) = parts.queues.waiters.opened(next).must() {
            self.with(now, next, parts, |operation, cx| {
                operation.heard(Change::Turn, cx)
            });
        }
    }

    /// The lock of `claim` is over or given away. Its open questions end without a result, and their callers get this
    /// verdict.
    pub(super) fn end_questions(
        &mut self,
        now: Instant,
        claim: ClaimKey,
        open: Questions,
        verdict: impl Fn() -> Verdict,
        parts: &mut Parts,
    ) {
        let asked = match guard!(OlderExtensionGoesOn, open.are_older_open()) {
            true => self.keys(),
            false => open.newest.into_iter().collect(),
        };
        for key in asked {
            if let Some(Operation { round, kind }) = self.get_mut(key)
                && let Some(held) = kind.held_mut()
                && held.is_about(claim, round)
            {
                held.decide(verdict(), &mut Context::new(now, round, parts));
            }
        }
    }

    // ----- answers ----------------------------------------------------------------------------

    /// Handles the `answer` of `node`.
    #[inline]
    pub(super) fn answered(
        &mut self,
        now: Instant,
        node: NodeId,
        answer: &mut Answer,
        parts: &mut Parts,
    ) {
        if let Some(operation) = learn(now, node, answer, parts) {
            self.with(now, operation, parts, |operation, cx| {
                operation.answered(node, answer, cx);
            });
        }
    }

    /// Handles an `answer` of `node` that does not count, for this reason. `first`: its answers counted until now.
    #[cold]
    pub(super) fn answered_uncounted(
        &mut self,
        now: Instant,
        node: NodeId,
        answer: &mut Answer,
        (outcome, first): (NodeOutcome, bool),
        parts: &mut Parts,
    ) {
        let operation = learn(now, node, answer, parts);
        if let Some(operation) = operation {
            self.with(now, operation, parts, |operation, cx| {
                cx.round.lose(node, outcome);
                operation.answered(node, answer, cx);
            });
        }
        if first {
            self.lose_answers(now, node, outcome, parts);
        }
        if let Some(operation) = operation {
            self.with(now, operation, parts, |operation, cx| {
                judge_if_voting(operation, cx);
            });
        }
    }

    /// Stops counting `node` in operations that give a lock or make one last longer.
    pub(super) fn lose_answers(
        &mut self,
        now: Instant,
        node: NodeId,
        outcome: NodeOutcome,
        parts: &mut Parts,
    ) {
        self.each(now, parts, |operation, cx| {
            operation.lose(node, Lost::Trust(outcome), cx);
        });
    }

    // ----- a handshake ------------------------------------------------------------------------

    /// The handshake of `node` is done. Sends it the questions that waited for this, those of holders first.
    pub(super) fn ask_late(&mut self, now: Instant, node: NodeId, parts: &mut Parts) {
        for _ in 0..parts.nodes[node].connection.waiting.len() {
            let Some(key) = parts.nodes[node].connection.waiting.pop() else {
                break; // The connection was given up meanwhile.
            };
            self.with(now, key, parts, |operation, cx| {
                if cx.round.asks_late(now, node) {
                    operation.heard(Change::Ready(node), cx);
                }
            });
        }
    }

    /// A transaction at `node` has gone on. Asks again the questions that had to wait for its releases.
    #[cold]
    pub(super) fn ask_behind(&mut self, now: Instant, node: NodeId, parts: &mut Parts) {
        for _ in 0..parts.nodes[node].connection.waiting.len() {
            let Some(key) = parts.nodes[node].connection.waiting.pop() else {
                break; // The connection was given up meanwhile.
            };
            self.with(now, key, parts, |operation, cx| {
                if cx.round.awaits(node) && cx.round[node].asked {
                    operation.heard(Change::Behind(node), cx);
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
        Kind::Extend(_) => stats.extensions.cancelled += 1,
        Kind::Release(_) => stats.releases.unwatched += 1,
        Kind::Confirm(_)
        | Kind::Inspect(_)
        | Kind::Overwrite(_)
        | Kind::Reinit(_)
        | Kind::Repair(_)
        | Kind::GiveFloors(_)
        | Kind::CountCounters(_) => {}
    }
}
