//! The outcome of an acquisition: the lock, or what is known of its holder.

use alloc::boxed::Box;
use core::time::Duration;

use super::{Acquire, Special, Verdict};
use crate::engine::operation::Context;
use crate::engine::parts::Parts;
use crate::entry::Kind;
use crate::error::Report;
use crate::invariant::Must as _;
use crate::keys::{ClaimKey, OperationKey, PlaceKey};
use crate::quorum::{Keeping, Lock, Majority};
use crate::time::Instant;

impl Acquire {
    /// Reports what each node said, and what is known of the holder: this engine, or another client with its owner text
    /// and the time that the nodes keep its lock. All operations that wait for the resource share this knowledge.
    pub(super) fn report_held(&self, cx: &mut Context<'_>) -> Report {
        let (report, place) = self.name_held(cx.report(), cx);
        let (Some(place), parts) = (place, &mut *cx.parts) else {
            return report;
        };
        let own = parts.queues.holder(place);
        if let Some(claim) = own.and_then(|claim| parts.claims.get(claim)) {
            return report.held_here(&parts.settings.owner, claim.entry.end());
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

    /// Hands the lock out. Its claim stays, and its timer is armed.
    pub(super) fn hand_out(
        &mut self,
        majority: &Majority,
        valid_until: Instant,
        cx: &mut Context<'_>,
    ) -> Option<Lock> {
        let key = self.claim.must()?;
        let parts = &mut *cx.parts;
        let place = match self.special.take() {
            None => {
                parts.hold(self.place, cx.round.key, key);
                self.place
            }
            Some(special) => self.hold(*special, cx.round.key, key, parts),
        };
        let id = parts.claims.lock_id(key);
        let claim = parts.claims.get_mut(key).must()?;
        if let Some(fencing) = &self.fencing {
            claim.entry.set_fencing_token(fencing.token());
            parts.stats.second_round_trips += u64::from(fencing.took_second());
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

    /// Gives the places of an acquisition to the claim of `key`, and returns the one by which the claim knows them.
    #[cold]
    fn hold(
        &mut self,
        special: Special,
        operation: OperationKey,
        key: ClaimKey,
        parts: &mut Parts,
    ) -> PlaceKey {
        match special {
            Special::Several(several) => {
                for place in &several.places {
                    parts.hold(*place, operation, key);
                }
                parts.places_of_several.insert(key, several.places);
                PlaceKey::NONE
            }
            Special::Reading(reading) => {
                let is_permit = reading.slots.is_some();
                // It may stand in the queue again. It would be the next one whose turn comes.
                reading.step_out(self.place, &mut parts.queues);
                parts.share(self.place, Some((operation, is_permit)), key);
                if is_permit {
                    self.special = Some(Box::new(Special::Reading(reading)));
                }
                self.place
            }
        }
    }

    /// Lets the engine extend `lock`, which this operation has taken. The limit counts from the time when the attempt
    /// was sent.
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
