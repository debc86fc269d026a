//! The parts that operations use: the nodes, the claims, the timers, and the news for the next poll.
//!
//! Each part owns its state. This struct puts the parts side by side, so that an operation can use several of them at
//! the same time. A part knows an operation only by its key.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::config::Config;
use crate::delay::Delay;
use crate::entry::Entry;
use crate::invariant::Must;
use crate::keys::{ClaimKey, OperationKey, PlaceKey, WaiterKey};
use crate::limits::TTL_ASSUMED_MAX;
use crate::quorum::{Keeping, Lock, NodeSet};
use crate::time::Instant;

use super::alarm::{Alarm, Timers};
use super::claims::busy::Questions;
use super::claims::{Claims, ClaimsAt};
use super::contract::Cause;
use super::fencing::Fencing;
use super::keeper::Keeper;
use super::news::News;
use super::nodes::Nodes;
#[cfg(feature = "tracing")]
use super::notices::{Notice, Notices};
use super::operation::acquire;
use super::pool::Pool;
use super::queues::{Caller, Extra, INTENT, Queues, Waiter, Wants};
use super::restarts::Restarts;
use super::settings::Settings;
use super::stats::Stats;

/// The reason for a loss, as operators see it: no majority has extended the lock in time.
pub(super) const EXPIRED: &str = "expired";

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) settings: Settings,
    pub(super) restarts: Restarts,
    pub(super) random: StdRng,
    pub(super) nodes: Nodes,
    pub(super) claims: Claims,
    pub(super) timers: Timers,
    pub(super) queues: Queues,
    /// The number of operations that currently wait for other operations or for their next attempt.
    pub(super) resting: usize,
    pub(super) keeper: Keeper,
    pub(super) fencing: Fencing,
    /// Reusable memory for acquisitions that want a fencing token or their own owner.
    pub(super) spares: Pool<Box<acquire::fencing::Fencing>>,
    #[cfg(feature = "tracing")]
    pub(super) notices: Notices,
    pub(super) stats: Stats,
    /// The news for the next poll, oldest first.
    pub(super) news: VecDeque<News>,
}

impl Parts {
    pub(super) fn new(config: &Config, seed: [u8; 32], start: Instant) -> Self {
        let mut random = StdRng::from_seed(seed);
        let engine = random.next_u64();
        Self {
            settings: Settings::of(config),
            restarts: Restarts::of(config),
            nodes: Nodes::new(config),
            claims: Claims::new(engine, config.drift()),
            timers: Timers::new(start),
            queues: Queues::new(engine),
            resting: 0,
            keeper: Keeper::new(config.drift()),
            fencing: Fencing::default(),
            spares: Pool::new(),
            #[cfg(feature = "tracing")]
            notices: Notices::new(config.nodes().len()),
            stats: Stats::default(),
            news: VecDeque::new(),
            random,
        }
    }

    /// Returns the claims at `now`, with the parts that releases need.
    #[inline(always)]
    pub(super) fn claims(&mut self, now: Instant) -> ClaimsAt<'_> {
        ClaimsAt {
            now,
            claims: &mut self.claims,
            nodes: &mut self.nodes,
            timers: &mut self.timers,
            stats: &mut self.stats,
        }
    }

    /// Records the ttls that callers request. These ttls decide how long a node that may have forgotten locks is
    /// quarantined, and which clock steps are still harmless.
    #[inline]
    pub(super) fn remember_ttl(&mut self, ttl: Duration, delay: Delay) {
        self.restarts.remember(delay.life(ttl));
        if let Some(steps) = self.restarts.remember_short(ttl) {
            self.nodes.allow_steps(steps);
        }
    }

    /// Creates a claim for a lock that another engine took, or that this engine has forgotten. If an extension was
    /// never answered, some keys may expire later than `entry` says.
    pub(super) fn adopt(
        &mut self,
        now: Instant,
        entry: Entry,
        (ttl, delay): (Duration, Delay),
    ) -> ClaimKey {
        self.remember_ttl(ttl, delay);
        let assumed = delay.life(ttl.max(TTL_ASSUMED_MAX));
        let life = assumed.min(self.settings.ttl_limit).max(delay.life(ttl));
        let gone_by = self.settings.drift.gone_by(now.max(entry.end()), life);
        let nodes = self.nodes.set();
        self.claims.adopt(entry, nodes, life, gone_by)
    }

    /// Records that `operation` has taken the lock of `claim` on the resource of `place`.
    #[inline]
    pub(super) fn hold(
        &mut self,
        now: Instant,
        place: PlaceKey,
        operation: OperationKey,
        claim: ClaimKey,
    ) {
        self.queues.hold(place, operation, claim);
        if self.queues.is_anyone_waiting() {
            self.end_intent(now, place);
            self.tell_watches(place);
        }
    }

    /// Removes the intent of the contender of `place`, which now has its exclusive lock. If the intent stayed, it would
    /// block readers even after the lock is released. If another program also waits, it records its own intent again
    /// when it finds readers.
    #[cold]
    #[inline(never)]
    fn end_intent(&mut self, now: Instant, place: PlaceKey) {
        if self.queues.is_behind_readers(now, place) {
            self.send_intent(now, place, None);
        }
    }

    /// Records an intent, which blocks new readers, if the contender of `place` waits for the exclusive lock and knows
    /// that readers hold it.
    #[cold]
    pub(super) fn leave_intent(&mut self, now: Instant, place: PlaceKey) {
        if let Some((waiting, _)) = self.queues.waiting(place)
            && let Some(age) = waiting.leaves_intent(now)
        {
            self.send_intent(now, place, Some([age, INTENT]));
        }
    }

    fn send_intent(&mut self, now: Instant, place: PlaceKey, spans: Option<[Duration; 2]>) {
        let resource = self.queues.name(place);
        for node in self.nodes.ids() {
            let there = self.nodes.writing_to(node);
            there.leave_intent(now, resource, spans);
        }
    }

    /// Records that `operation` has taken the shared lock or permit of `claim` on the resource of `place`, or has
    /// turned its exclusive lock into a shared one.
    #[cold]
    pub(super) fn share(
        &mut self,
        place: PlaceKey,
        operation: Option<(OperationKey, bool)>,
        claim: ClaimKey,
    ) {
        match operation {
            None => self.queues.share(place, claim),
            Some((operation, true)) => self.queues.took_slot(place, operation),
            Some((operation, false)) => {
                self.queues.share(place, claim);
                self.queues.give_on(place, operation, Wants::Reader);
            }
        }
        if self.queues.is_anyone_waiting() {
            self.tell_watches(place);
        }
    }

    /// Records that no caller holds the lock of `claim` any longer. It may now be the [turn](Self::next_turn) of
    /// another operation.
    pub(super) fn vacate(&mut self, now: Instant, claim: ClaimKey) {
        let there = self.claims.get_mut(claim);
        if let Some(there) = &there
            && there.kept.is_some()
        {
            self.keeper.forget(claim, there, &self.queues);
        }
        match there.and_then(|there| there.busy_mut().place.take()) {
            None => {}
            Some(PlaceKey::NONE) => self.vacate_other(now, claim),
            Some(place) => {
                let buffers = &mut self.claims.buffers;
                self.queues.vacate(now, place, claim, buffers);
            }
        }
    }

    /// Like [`vacate`](Self::vacate), but for a lock that is kept without a place, or that is on several resources.
    #[cold]
    #[inline(never)]
    fn vacate_other(&mut self, now: Instant, claim: ClaimKey) {
        let Some(entry) = self.claims.get(claim).must().map(|there| &there.entry) else {
            return;
        };
        if !entry.is_several() {
            return self.queues.vacate_alone(now, entry.resource(), claim);
        }
        for name in entry.clone().names() {
            if let Some(place) = self.queues.find(name).must() {
                let buffers = &mut self.claims.buffers;
                self.queues.vacate(now, place, claim, buffers);
            }
        }
    }

    /// Makes the engine extend `lock`, whose claim is `claim`, automatically from now on.
    #[cold]
    pub(super) fn keep(&mut self, claim: ClaimKey, lock: &mut Lock, keeping: Keeping) {
        if let Some(there) = self.claims.get_mut(claim).must() {
            self.stats.kept += usize::from(there.kept.is_none());
            let below = (&self.queues, &mut self.timers);
            self.keeper.keep((claim, there), lock, keeping, below);
            self.leave_alone(claim);
        }
    }

    /// Frees the place of the newly kept `claim` if no other operation wants its resource. A lock on several resources
    /// keeps its places.
    fn leave_alone(&mut self, key: ClaimKey) {
        let Some(claim) = self.claims.get_mut(key).must() else {
            return;
        };
        if let Some(place) = claim.busy().place
            && place != PlaceKey::NONE
            && let Some(name) = self.queues.leave_alone(place, key)
        {
            claim.busy_mut().place = Some(PlaceKey::NONE);
            self.claims.buffers.give_buffer(name);
        }
        self.claims.rest(key);
    }

    /// Returns the next operation to wake because its turn has come.
    #[inline]
    pub(super) fn next_turn(&mut self, now: Instant) -> Option<OperationKey> {
        let (next, left) = self.queues.next_turn()?;
        if let Some(place) = left {
            self.leave_to_others(now, place);
        }
        Some(next)
    }

    /// Makes the contender of `place` wait long enough for others to ask for the lock.
    pub(super) fn leave_to_others(&mut self, now: Instant, place: PlaceKey) {
        let wait = self.queues.begin_waiting(place, self.nodes.len());
        wait.leave_to_others(now, self.nodes.round_trip());
    }

    /// Returns when the wait of `waiter` ends, and why.
    pub(super) fn wait_ends(&self, waiter: WaiterKey) -> Option<(Instant, Cause)> {
        let waiter = self.queues.waiters.get(waiter)?;
        let tries_end = self
            .settings
            .tries_end(waiter.started, waiter.tries_allowed());
        let ends = (tries_end, Cause::Retry);
        let deadline = waiter
            .deadline()
            .map(|deadline| (deadline, Cause::Deadline));
        deadline.into_iter().chain([ends]).min()
    }

    /// Puts `waiter` and its options at the end of the queue for its resource, until its wait ends.
    pub(super) fn queue(
        &mut self,
        now: Instant,
        waiter: Waiter,
        extra: Extra,
    ) -> Option<WaiterKey> {
        let key = self.queues.queue(waiter.place, Caller::Waits(waiter))?;
        if extra != Extra::default() {
            self.queues.waiters.want(key, extra);
        }
        self.arm_waiter(now, key);
        Some(key)
    }

    /// Sets the timer of the waiter `key` to the end of its wait. A reader also wakes when it may pass the contender in
    /// front of it.
    fn arm_waiter(&mut self, now: Instant, key: WaiterKey) {
        let place = self.queues.waiters.get(key).map(|waiter| waiter.place);
        let Some(((mut at, _), place)) = self.wait_ends(key).zip(place) else {
            return;
        };
        if self.queues.waiters.wanted(key).shared {
            at = at.min(self.queues.passes_at(now, place));
        }
        if at != Instant::MAX
            && let Some(waiter) = self.queues.waiters.get_mut(key)
        {
            waiter.timer = Some(self.timers.insert(at, Alarm::Waiter(key)));
        }
    }

    /// Handles the timer of the waiter `key`. Returns `true` if the waiter still waits. A waiter no longer waits if its
    /// time has passed, or if it is a reader that may now pass the contender in front of it.
    pub(super) fn waits_on(&mut self, now: Instant, key: WaiterKey) -> bool {
        let ends = self.wait_ends(key).filter(|(end, _)| now < *end);
        let place = self.queues.waiters.get(key).map(|waiter| waiter.place);
        let passes = place.is_some_and(|place| self.queues.passes_at(now, place) <= now);
        let waits = ends.is_some() && !passes;
        if waits {
            self.arm_waiter(now, key);
        }
        waits
    }

    /// Releases `claim`. No operation waits for the outcome.
    pub(super) fn give_back(&mut self, now: Instant, claim: ClaimKey) {
        self.release(now, None, claim);
    }

    /// Makes a contender for the same resource check the nodes again, because nodes now delete the key of `claim`, or
    /// its token in a set.
    pub(super) fn wrote(&mut self, now: Instant, claim: ClaimKey) {
        if self.queues.is_anyone_waiting()
            && let Some(claim) = self.claims.get(claim)
            && claim.may_hold != NodeSet::EMPTY
        {
            for name in claim.entry.names() {
                (self.queues).wrote(now, name, (claim.may_hold, true), &mut self.news);
            }
        }
    }

    /// Like [`wrote`](Self::wrote), but for `resource`, whose key this engine may have changed on any node.
    #[cold]
    #[inline(never)]
    pub(super) fn wrote_to(&mut self, now: Instant, resource: &[u8]) {
        let nodes = self.nodes.set();
        (self.queues).wrote(now, resource, (nodes, false), &mut self.news);
    }

    /// Makes the watches of the resource check the nodes again, because this engine has written to the key of `place`.
    /// Nodes do not report the engine's own writes.
    #[cold]
    #[inline(never)]
    fn tell_watches(&mut self, place: PlaceKey) {
        let watches = self.queues.watching(Some(self.queues.name(place)));
        self.news.extend(watches.map(News::Stirred));
    }

    /// Releases `claim` for `operation`, which waits for the outcome. A contender for the same resource checks the
    /// nodes again, because nodes do not report the engine's own release, and the release ends the contender's
    /// registrations. Returns the nodes that were asked.
    pub(super) fn release(
        &mut self,
        now: Instant,
        operation: Option<OperationKey>,
        claim: ClaimKey,
    ) -> NodeSet {
        self.wrote(now, claim);
        self.claims(now).release(operation, claim)
    }

    /// Records that the check of the counter floors has ended, or could not begin because too many operations were
    /// open. Schedules the next check if any floor still needs a repair.
    pub(super) fn looked_at_floors(&mut self, now: Instant) {
        self.fencing.looked(&mut self.news);
        self.await_repairs(now);
    }

    /// Sets the timer for the next possible repair of a floor.
    pub(super) fn await_repairs(&mut self, now: Instant) {
        let span = self.restarts.terms().span;
        self.fencing
            .await_repairs(now, span, &self.nodes, &mut self.timers);
    }

    /// Reports to the holder of the claim `key` that its lock has ended for this reason, unless the end was already
    /// reported. Returns the open questions about the lock, which the caller must end.
    pub(super) fn tell_lost(
        &mut self,
        now: Instant,
        key: ClaimKey,
        reason: &'static str,
    ) -> Questions {
        let id = self.claims.lock_id(key);
        let Some(claim) = self.claims.get_mut(key).must() else {
            return Questions::default();
        };
        let open = claim.busy().questions;
        #[cfg(feature = "tracing")]
        let notice = Notice::loss(&claim.entry, reason);
        #[cfg(not(feature = "tracing"))]
        let _ = reason; // Only a notice for an operator needs the reason.
        self.stats
            .end_hold(now, claim.held_since(), claim.kept.is_some());
        if guard!(LossNotTold, claim.tell_lost()) {
            self.stats.lost += 1;
            self.news.push_back(News::Expired(id));
            #[cfg(feature = "tracing")]
            self.notices.queue.push(notice);
        }
        open
    }
}
