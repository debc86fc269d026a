//! Changes that several operations or the holder of a lock have to learn of, and the work that the engine begins by
//! itself.

use core::time::Duration;

use crate::error::NodeOutcome;
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
use crate::engine::operation::extend::Extend;
use crate::engine::operation::floors::GiveFloors;
use crate::engine::operation::held::Verdict;
use crate::engine::operation::release::Release;
use crate::engine::operation::repair::Repair;
use crate::engine::operation::{Change, Kind};
use crate::engine::parts::{EXPIRED, Parts};

impl Operations {
    /// Wakes `operation`: something that it may wait for has changed.
    pub(in crate::engine) fn stir(
        &mut self,
        now: Instant,
        operation: Option<OperationKey>,
        parts: &mut Parts,
    ) {
        let waiters = &parts.queues.waiters;
        if let Some(operation) = operation.and_then(|key| waiters.opened(key)) {
            self.with(now, operation, parts, |operation, cx| {
                operation.heard(Change::Stirred, cx);
            });
        }
    }

    /// `node` has `said` how long the key of `place` lives on, and whether it pushes the next change.
    #[cold]
    #[inline(never)]
    pub(in crate::engine) fn looked(
        &mut self,
        now: Instant,
        node: NodeId,
        place: PlaceKey,
        said: (Option<Remaining>, bool),
        parts: &mut Parts,
    ) {
        let limit = parts.settings.ttl_limit;
        let contender = parts.queues.looked(now, node, place, said, limit);
        self.stir(now, contender, parts);
    }

    /// Wakes all operations: a node can be asked again, or cannot be asked for some time.
    pub(in crate::engine) fn stir_all(&mut self, now: Instant, parts: &mut Parts) {
        parts.queues.look_soon(now);
        self.each(now, parts, |operation, cx| {
            operation.heard(Change::Stirred, cx)
        });
    }

    /// The answers of `nodes` do not count until `until`, also in open operations. `None`: they count.
    pub(in crate::engine) fn quarantine(
        &mut self,
        now: Instant,
        nodes: NodeSet,
        until: Option<Instant>,
        parts: &mut Parts,
    ) {
        if let Some(until) = until {
            let outcome = NodeOutcome::Quarantined { until };
            for node in nodes.iter() {
                self.lose_answers(now, node, outcome, parts);
            }
        }
    }

    /// Acts on changed keys that a node has reported.
    #[cold]
    pub(in crate::engine) fn look_at_changes(&mut self, now: Instant, parts: &mut Parts) {
        while let Some(operation) = parts.queues.next_stirred() {
            self.stir(now, Some(operation), parts);
        }
        let (claims, timers) = (&mut parts.claims, &mut parts.timers);
        parts.keeper.look_at_changed(now, claims, timers);
        self.extend_kept(now, parts);
    }

    /// A node that gave no answers gives them again. Wakes the operations if it completes a majority.
    pub(in crate::engine) fn regained(&mut self, now: Instant, parts: &mut Parts) {
        if parts.nodes.answering() == parts.nodes.quorum() {
            self.each(now, parts, |operation, cx| {
                operation.heard(Change::MajorityBack, cx)
            });
        }
    }

    /// Returns `true` if the nodes are wanted: an operation is open, or a token may be on some node.
    pub(in crate::engine) fn is_anything_wanted(&self, parts: &Parts) -> bool {
        self.len(&parts.queues) != 0 || !parts.claims.slab.is_empty()
    }

    // ----- held locks ---------------------------------------------------------------------------

    /// Returns the claim behind `lock`, which is valid until `until`. Ends the questions about it.
    pub(in crate::engine) fn claim_to_release(
        &mut self,
        now: Instant,
        until: Instant,
        lock: Lock,
        parts: &mut Parts,
    ) -> ClaimKey {
        let there = parts.claims.of(lock.id());
        let is_held = there.as_ref().is_none_or(|(_, claim)| claim.is_held());
        parts.stats.released(now, until, is_held);
        let Some((key, claim)) = there else {
            let terms = (lock.ttl(), lock.delay());
            return parts.adopt(now, lock.into_entry(), terms);
        };
        drop(lock); // Its claim shares the entry, and gives the buffer back when it ends.
        let open = claim.busy().questions;
        self.end_questions(now, key, open, || Verdict::Closed, parts);
        key
    }

    /// Handles the timer of `claim`.
    // Out of line, because no timer fires for a lock that is released in time.
    #[inline(never)]
    pub(in crate::engine) fn claim_due(
        &mut self,
        now: Instant,
        claim: ClaimKey,
        parts: &mut Parts,
    ) {
        let timers = &mut parts.timers;
        let Some(there) = parts.claims.get_mut(claim).must() else {
            return;
        };
        there.timer = None;
        let due = match there.busy().stage {
            Stage::Held { told: false } => parts.keeper.due(now, claim, there, timers),
            // If a `SET` may still run, the claim is kept until the lock is released.
            Stage::Held { told: true } if there.running().is_empty() => {
                return parts.claims.end(claim, timers);
            }
            Stage::Held { told: true } => return parts.claims(now).remember(claim),
            Stage::Releasing { .. } => return parts.claims(now).expire_debts(claim),
            Stage::Attempt { .. } => None,
        };
        match due {
            None => {}
            Some(LockDue::Over) => self.lock_is_over(now, claim, parts),
            Some(LockDue::AtRisk) => {
                let lock = parts.claims.lock_id(claim);
                parts.news.push_back(News::AtRisk(lock));
            }
        }
    }

    /// Reports to the holder of `claim` that its lock is over. An answer in the last tick does not revive a lock that
    /// was reported as over.
    fn lock_is_over(&mut self, now: Instant, claim: ClaimKey, parts: &mut Parts) {
        let open = parts.tell_lost(now, claim, EXPIRED);
        self.end_questions(now, claim, open, || Verdict::Unconfirmed, parts);
        self.remember(now, claim, parts);
    }

    /// Begins the extensions of kept locks that are due, while there is room.
    pub(in crate::engine) fn extend_kept(&mut self, now: Instant, parts: &mut Parts) {
        while let Some((claim, ttl)) = {
            let (claims, timers) = (&mut parts.claims, &mut parts.timers);
            parts.keeper.next(now, claims, timers, &parts.settings)
        } {
            if let Some(extend) = Extend::of_kept(claim, parts) {
                parts.keeper.begun();
                self.begin(now, ttl, None, Kind::Extend(extend), parts);
            }
        }
    }

    /// Releases the lock of `claim`. `is_valid`: it was valid until now.
    pub(in crate::engine) fn release(
        &mut self,
        now: Instant,
        claim: ClaimKey,
        is_valid: bool,
        parts: &mut Parts,
    ) -> RoundId {
        parts.vacate(now, claim);
        let kind = Kind::Release(Release::new(claim, is_valid));
        let ttl = Duration::ZERO; // Each node gets the time that the claim's ttl allows.
        let round = self.begin(now, ttl, None, kind, parts);
        self.lead(now, parts);
        round
    }

    // ----- counter floors -----------------------------------------------------------------------

    /// Gives each of `nodes`, which an operator trusts, a counter floor if this engine was asked for a fencing token.
    /// Otherwise it says nothing about tokens, and leaves no key behind.
    ///
    /// The bound on operations does not apply: a node with much in flight is not asked, so the operation ends soon.
    pub(in crate::engine) fn give_floors(
        &mut self,
        now: Instant,
        nodes: NodeSet,
        parts: &mut Parts,
    ) -> Option<RoundId> {
        let kind = Kind::GiveFloors(GiveFloors::new(nodes));
        let begins = parts.fencing.is_used() && !nodes.is_empty();
        begins.then(|| self.begin(now, Duration::ZERO, None, kind, parts))
    }

    /// Looks at the counter floors of all nodes, and repairs those that can be repaired.
    #[cold]
    #[inline(never)]
    pub(in crate::engine) fn look_at_floors(&mut self, now: Instant, parts: &mut Parts) {
        parts.fencing.looking();
        match self.is_full_for_holders(&parts.queues) {
            true => parts.looked_at_floors(now),
            false => {
                let kind = Kind::Repair(Repair::new(parts));
                self.begin(now, Duration::ZERO, None, kind, parts);
            }
        }
    }
}
