//! The outcome of an acquisition: the lock, or the known facts about its holder.

use core::time::Duration;

use super::{Acquire, Special, Verdict};
use crate::engine::operation::Context;
use crate::entry::Kind;
use crate::error::Report;
use crate::invariant::Must as _;
use crate::keys::{ClaimKey, PlaceKey};
use crate::quorum::{Keeping, Lock, Majority};
use crate::time::Instant;

impl Acquire {
    /// Returns a report with the answer of each node, and with the known facts about the holder. The holder is this
    /// engine or another client. For another client, the report contains its owner text, and how long the nodes keep
    /// its lock. All operations that wait for the resource share the facts about the holder.
    pub(super) fn report_held(&mut self, cx: &mut Context<'_>) -> Report {
        let taken = self.all_taken(cx);
        let report = cx.report(self);
        let (report, place) = self.name_held(report, cx);
        let report = match taken {
            Some(permits) => report.all_taken(permits),
            None => report,
        };
        let (Some(place), parts) = (place, &mut *cx.parts) else {
            return report;
        };
        let own = parts.queues.holder(place);
        if let Some(claim) = own.and_then(|claim| parts.claims.get(claim)) {
            return report.held_here(claim.entry.token().owner(), claim.entry.end());
        }
        let Some((waiting, _)) = parts.queues.waiting(place) else {
            return report;
        };
        let counts = |node| parts.nodes[node].counts(cx.now);
        let until = waiting.belief.free_at(|_| Instant::ZERO);
        match waiting.belief.is_permanent(counts) {
            true => report.held_for_ever(waiting.belief.holder(counts)),
            false => report.held_until(waiting.belief.holder(counts), until),
        }
    }

    /// Gives the lock to the caller. Keeps the claim, and sets its timer.
    pub(super) fn hand_out(
        &mut self,
        majority: &Majority,
        valid_until: Instant,
        cx: &mut Context<'_>,
    ) -> Option<Lock> {
        let key = self.claim.must()?;
        let parts = &mut *cx.parts;
        let place = match self.special.as_deref() {
            None => {
                parts.hold(cx.now, self.place, cx.round.key, key);
                self.place
            }
            Some(Special::Reading(reading)) => {
                let is_permit = reading.slots.is_some();
                // Leaves the queue, which the operation may have joined again, so that it does not get another turn.
                reading.step_out(self.place, &mut parts.queues);
                parts.share(self.place, Some((cx.round.key, is_permit)), key);
                self.place
            }
            Some(Special::Several(_)) => self.hold_all(key, cx),
        };
        let parts = &mut *cx.parts;
        let id = parts.claims.lock_id(key);
        let claim = parts.claims.get_mut(key).must()?;
        if let Some(fencing) = self.fencing.as_ref().filter(|it| it.is_wanted) {
            claim.entry.set_fencing_token(fencing.token);
            parts.stats.second_round_trips += u64::from(fencing.took_second);
        }
        let ttl = cx.round.ttl;
        claim.entry.set_end(valid_until, ttl);
        claim.begin_hold(cx.now);
        let others = claim.copies().having.without(majority.nodes());
        let unsure = others.filter(|node| parts.nodes[node].trust.is_kept_by_steps(cx.now));
        let busy = claim.busy_mut();
        busy.copies.sure = busy.copies.sure.without(unsure);
        busy.place = Some(place);
        parts.keeper.arm(key, claim, &mut parts.timers);
        let entry = claim.entry.clone();
        if let Kind::Permit { slot, .. } = entry.kind() {
            self.gather(key, slot, cx);
        }
        self.verdict = Verdict::HandedOut;
        let stats = &mut cx.parts.stats;
        stats.granted(cx.now, cx.round.started, cx.round.sent);
        Some(Lock::granted(majority, entry, id, self.extensions))
    }

    /// Passes the places of all locked resources to the claim of `key`.
    #[cold]
    fn hold_all(&self, key: ClaimKey, cx: &mut Context<'_>) -> PlaceKey {
        for place in self.places() {
            cx.parts.hold(cx.now, *place, cx.round.key, key);
        }
        PlaceKey::NONE
    }

    /// Makes the engine keep `lock`, which this operation has taken. The limit is measured from the time when the
    /// attempt was sent.
    #[cold]
    pub(super) fn keep(&self, lock: Option<&mut Lock>, cx: &mut Context<'_>) {
        let (Some(lock), Some(key)) = (lock, self.claim) else {
            return;
        };
        let limit = cx
            .round
            .sent
            .saturating_add(Duration::from_nanos(self.keep));
        let keeping = Keeping::new(lock.ttl(), limit);
        cx.parts.keep(key, lock, keeping);
    }
}
