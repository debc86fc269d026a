//! Handles changes that concern several operations or the holder of a lock, and begins the engine's own operations.

use core::time::Duration;

use crate::error::{ExtendError, NodeOutcome};
use crate::invariant::Must;
use crate::keys::{ClaimKey, NodeId, OperationKey, PlaceKey};
use crate::node::Remaining;
use crate::quorum::{Lock, NodeSet};
use crate::time::Instant;

use super::Operations;
use crate::engine::claims::busy::Stage;
use crate::engine::contract::RoundId;
use crate::engine::keeper::LockDue;
use crate::engine::news::News;
use crate::engine::operation::floors::GiveFloors;
use crate::engine::operation::held::{LockQuestion, Verdict};
use crate::engine::operation::release::Release;
use crate::engine::operation::repair::Repair;
use crate::engine::operation::{Change, Kind};
use crate::engine::parts::EXPIRED;

impl Operations {
    /// Wakes `operation`, because something that it may wait for has changed.
    pub(in crate::engine) fn stir(&mut self, now: Instant, operation: Option<OperationKey>) {
        let waiters = &self.parts.queues.waiters;
        if let Some(operation) = operation.and_then(|key| waiters.opened(key)) {
            self.with(now, operation, |operation, cx| {
                operation.heard(Change::Stirred, cx);
            });
        }
    }

    /// Handles what `node` has `said`: how much longer the key of `place` lives, and whether the node pushes the next
    /// change.
    #[cold]
    #[inline(never)]
    pub(in crate::engine) fn looked(
        &mut self,
        now: Instant,
        node: NodeId,
        place: PlaceKey,
        said: (Option<Remaining>, bool),
    ) {
        let limit = self.parts.settings.ttl_limit;
        let contender = self.parts.queues.looked(now, node, place, said, limit);
        self.stir(now, contender);
    }

    /// Wakes all operations, because a node has become usable again, or is unusable for some time.
    pub(in crate::engine) fn stir_all(&mut self, now: Instant) {
        self.parts.queues.look_soon(now);
        self.each(now, |operation, cx| operation.heard(Change::Stirred, cx));
    }

    /// Stops counting the answers of `nodes` until `until`, even in open operations. If `until` is `None`, the answers
    /// count again.
    pub(in crate::engine) fn quarantine(
        &mut self,
        now: Instant,
        nodes: NodeSet,
        until: Option<Instant>,
    ) {
        if let Some(until) = until {
            let outcome = NodeOutcome::Quarantined { until };
            for node in nodes.iter() {
                self.lose_answers(now, node, outcome);
            }
        }
    }

    /// Acts on changed keys that a node has reported.
    #[cold]
    pub(in crate::engine) fn look_at_changes(&mut self, now: Instant) {
        while let Some(operation) = self.parts.queues.next_stirred() {
            self.stir(now, Some(operation));
        }
        let (claims, timers) = (&mut self.parts.claims, &mut self.parts.timers);
        self.parts.keeper.look_at_changed(now, claims, timers);
        self.extend_kept(now);
    }

    /// Wakes the operations if a majority answers again after the return of a node.
    pub(in crate::engine) fn regained(&mut self, now: Instant) {
        if self.parts.nodes.answering() == self.parts.nodes.quorum() {
            self.each(now, |operation, cx| {
                operation.heard(Change::MajorityBack, cx)
            });
        }
    }

    /// Returns `true` if the engine needs the nodes, because an operation is open or a token may be on some node.
    pub(in crate::engine) fn is_anything_wanted(&self) -> bool {
        self.len() != 0 || !self.parts.claims.slab.is_empty()
    }

    // ----- held locks ---------------------------------------------------------------------------

    /// Ends the questions about `lock`, whose validity ends at `until`, and returns its claim.
    pub(in crate::engine) fn claim_to_release(
        &mut self,
        now: Instant,
        until: Instant,
        lock: Lock,
    ) -> ClaimKey {
        let there = self.parts.claims.of(lock.id());
        let is_held = there.as_ref().is_none_or(|(_, claim)| claim.is_held());
        self.parts.stats.released(now, until, is_held);
        let Some((key, claim)) = there else {
            let terms = (lock.ttl(), lock.delay());
            return self.parts.adopt(now, lock.into_entry(), terms);
        };
        drop(lock); // The claim shares the entry, and gives the buffer back when it ends.
        let open = claim.busy().questions;
        self.end_questions(now, key, open, || Verdict::Closed);
        key
    }

    /// Handles the timer of `claim`.
    // Out of line, because most locks are released before their timer fires.
    #[inline(never)]
    pub(in crate::engine) fn claim_due(&mut self, now: Instant, claim: ClaimKey) {
        let timers = &mut self.parts.timers;
        let Some(there) = self.parts.claims.get_mut(claim).must() else {
            return;
        };
        there.timer = None;
        let due = match there.busy().stage {
            Stage::Held { told: false } => self.parts.keeper.due(now, claim, there, timers),
            // Ends the claim, because no `SET` can still run. If a `SET` may still run, the claim stays until the lock
            // is released.
            Stage::Held { told: true } if there.running().is_empty() => {
                return self.parts.claims.end(claim, timers);
            }
            Stage::Held { told: true } => return self.parts.claims(now).remember(claim),
            Stage::Releasing { .. } => return self.parts.claims(now).expire_debts(claim),
            Stage::Attempt { .. } => None,
        };
        match due {
            None => {}
            Some(LockDue::Over) => self.lock_is_over(now, claim),
            Some(LockDue::AtRisk) => {
                let lock = self.parts.claims.lock_id(claim);
                self.parts.news.push_back(News::AtRisk(lock));
            }
        }
    }

    /// Reports to the holder of `claim` that its lock has ended. The report may come a tick early. Even if an answer
    /// arrives within this tick, the lock does not become valid again.
    fn lock_is_over(&mut self, now: Instant, claim: ClaimKey) {
        let open = self.parts.tell_lost(now, claim, EXPIRED);
        self.end_questions(now, claim, open, || Verdict::Unconfirmed);
        self.remember(now, claim);
    }

    /// Begins an extension of `lock` for its caller.
    #[inline(always)]
    pub(in crate::engine) fn extend(
        &mut self,
        now: Instant,
        lock: &Lock,
        ttl: Duration,
    ) -> Result<RoundId, ExtendError> {
        let delay = lock.delay();
        let ttl = self.parts.settings.check_ttl(ttl, delay)?;
        LockQuestion::check_extension(now, lock)?;
        if self.is_full_for_holders() {
            return Err(ExtendError::Saturated); // This needs no new claim: the lock has one.
        }
        let kind = Kind::Held(LockQuestion::extend(lock, &mut self.parts)?);
        self.parts.remember_ttl(ttl, delay);
        Ok(self.begin(now, ttl, None, kind))
    }

    /// Begins the extensions of kept locks that are due, up to the limit on open extensions.
    pub(in crate::engine) fn extend_kept(&mut self, now: Instant) {
        while let Some((claim, ttl)) = {
            let parts = &mut self.parts;
            let (claims, timers) = (&mut parts.claims, &mut parts.timers);
            parts.keeper.next(now, claims, timers, &parts.settings)
        } {
            if let Some(extension) = LockQuestion::of_kept(claim, &mut self.parts) {
                self.parts.keeper.begun();
                self.begin(now, ttl, None, Kind::Held(extension));
            }
        }
    }

    /// Releases the lock of `claim`. `is_valid` says whether the lock was valid until now.
    pub(in crate::engine) fn release(
        &mut self,
        now: Instant,
        claim: ClaimKey,
        is_valid: bool,
    ) -> RoundId {
        self.parts.vacate(now, claim);
        let kind = Kind::Release(Release::new(claim, is_valid));
        let ttl = Duration::ZERO; // The claim's ttl decides how long each node may take.
        let round = self.begin(now, ttl, None, kind);
        self.lead(now);
        round
    }

    // ----- counter floors -----------------------------------------------------------------------

    /// Sends a counter floor to each of `nodes`, because an operator trusts these nodes.
    ///
    /// The limit on open operations does not apply here. The operation ends soon, because nodes with many unanswered
    /// commands are not asked.
    pub(in crate::engine) fn give_floors(
        &mut self,
        now: Instant,
        nodes: NodeSet,
    ) -> Option<RoundId> {
        let kind = Kind::GiveFloors(GiveFloors::new(nodes));
        let gives = self.parts.fencing.gives_floors() && !nodes.is_empty();
        gives.then(|| self.begin(now, Duration::ZERO, None, kind))
    }

    /// Checks the counter floors of all nodes, and repairs missing floors where this is possible.
    #[cold]
    #[inline(never)]
    pub(in crate::engine) fn look_at_floors(&mut self, now: Instant) {
        self.parts.fencing.looking();
        match self.is_full_for_holders() {
            true => self.parts.looked_at_floors(now),
            false => {
                let kind = Kind::Repair(Repair::new(&self.parts));
                self.begin(now, Duration::ZERO, None, kind);
            }
        }
    }
}
