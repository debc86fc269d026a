//! Extends kept locks in time, and reports the end of every held lock.
//!
//! Each held lock has one timer. The timer fires when the lock is at risk, when its validity ends, or when a kept lock
//! must be extended, whichever comes first. A lock that must be extended waits in a queue until another extension may
//! begin.
//!
//! The keeper normally extends a kept lock when half of its validity is left. The keeper extends the lock earlier if a
//! node may lack its copy:
//!
//! * A reconnected node may lack some locks. The node may have restarted without the locks, or may have been down when
//!   the locks were taken. The keys may also have expired on the node because they could not be extended. An extension
//!   shows whether the node still has the lock. If the node does not have the lock, a second extension follows
//!   immediately and sends a copy (`operation::top_up`). The keeper also extends locks whose last extension has failed,
//!   because the reconnected node may complete a majority.
//! * An extension has found that a node does not have the lock.
//! * A node reports that the keys have changed (`looks`).
//!
//! # Guarantees
//!
//! * At most [`EXTENSIONS_AT_ONCE`] extensions are open at the same time. Waiting locks are extended in the order of
//!   their due times. Early extensions come after due extensions. Extensions for a reconnected node come last.
//! * The end of a lock is reported up to a tick early, but never late.
//!
//! # Not here
//!
//! A lock that is not kept is extended only when its holder requests it. A node that was only silent gets its copies
//! with the next regular extensions. If each silence caused an extension, a node that repeatedly falls silent would
//! cause a round of extensions each time.

mod looks;

use alloc::collections::{BTreeMap, BinaryHeap, VecDeque};
use alloc::sync::Arc;
use core::cmp::Reverse;
use core::time::Duration;

use crate::invariant::Must;
use crate::keys::{ClaimKey, NodeId};
use crate::limits::EXTENSIONS_AT_ONCE;
use crate::quorum::{Drift, Keeping, Kept, Lock, NodeSet};
use crate::time::{Instant, NANOS_PER_TICK, nanos};

use super::alarm::Timers;
use super::claims::Claims;
use super::claims::claim::Claim;
use super::news::News;
use super::queues::Queues;
use super::settings::Settings;
use looks::Looks;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Keeper {
    drift: Drift,
    /// The number of open extensions.
    open: usize,
    /// The locks that must be extended, each with its due time. Some of these locks may have ended.
    queue: BinaryHeap<Reverse<(Instant, ClaimKey)>>,
    /// The nodes that are connected again. A search finds the locks that these nodes may lack.
    back: NodeSet,
    /// The nodes of `back` that may have forgotten every lock.
    forgetful: NodeSet,
    /// The index of the claim where the search continues.
    next: usize,
    /// The voters for locks that another engine took and this engine keeps. Few locks come from another engine.
    voters: BTreeMap<ClaimKey, NodeSet>,
    pub(super) looks: Looks,
}

/// A report about a held lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum LockDue {
    /// The lock has ended.
    Over,
    /// The lock is at risk.
    AtRisk,
}

impl Keeper {
    pub(super) fn new(drift: Drift) -> Self {
        Self {
            drift,
            open: 0,
            queue: BinaryHeap::new(),
            back: NodeSet::EMPTY,
            forgetful: NodeSet::EMPTY,
            next: 0,
            voters: BTreeMap::new(),
            looks: Looks::default(),
        }
    }

    /// Returns the number of kept locks from other engines.
    #[cfg(test)]
    pub(super) fn kept_from_elsewhere(&self) -> usize {
        self.voters.len()
    }

    /// Starts to keep `lock`, whose claim is `claim`.
    pub(super) fn keep(
        &mut self,
        (key, claim): (ClaimKey, &mut Claim),
        lock: &mut Lock,
        keeping: Keeping,
        (queues, timers): (&Queues, &mut Timers),
    ) {
        claim.busy_mut().again = Instant::ZERO;
        claim.kept = Some(lock.keep(keeping));
        if guard!(EveryVoterCounts, claim.busy().is_adopted) {
            self.voters.insert(key, lock.voters());
        }
        self.looks.forget(key, claim, queues); // The lock may already be kept and watched.
        self.looks.begin(key, claim, queues);
        self.arm(key, claim, timers);
    }

    /// Forgets the lock of `claim`, which the caller no longer holds.
    pub(super) fn forget(&mut self, key: ClaimKey, claim: &Claim, queues: &Queues) {
        self.looks.forget(key, claim, queues);
        self.voters.remove(&key);
    }

    /// Returns the nodes of `all` whose confirmation counts when the kept lock of `claim` is extended.
    ///
    /// If another engine took the lock, a node counts only if it had the lock at the handover. On the other nodes, a
    /// `SET` of the previous engine may still be unanswered. The previous engine then sends a release, which deletes
    /// the key even if this engine has extended it.
    pub(super) fn voters(&self, claim: ClaimKey, all: NodeSet) -> NodeSet {
        self.voters.get(&claim).copied().unwrap_or(all)
    }

    // ----- time -------------------------------------------------------------------------------

    /// Sets the timer of the held lock of `claim`.
    ///
    /// This timer rounds down, unlike all others, so the end is reported up to a tick early, but never late.
    pub(super) fn arm(&self, key: ClaimKey, claim: &mut Claim, timers: &mut Timers) {
        let mut at = told_at(stands_until(claim));
        if let Some(kept) = &claim.kept {
            at = at.min(self.due_at(key, claim, kept));
        }
        if claim.busy().alert != 0 {
            at = at.min(at_risk_from(claim));
        }
        claim.wake_at(at, key, timers);
    }

    /// Returns when the kept lock of `claim` is due for an extension or a check. Returns [`Instant::MAX`] if nothing is
    /// due, or if the lock is already queued.
    fn due_at(&self, key: ClaimKey, claim: &Claim, kept: &Arc<Kept>) -> Instant {
        if kept.is_waiting() {
            return Instant::MAX;
        }
        let due = kept.due_at(claim.entry.end(), claim.busy().again, self.drift);
        match claim.busy().extending {
            0 => due.min(self.looks.due_at(key)),
            _ => due, // The check follows when the open extension has ended.
        }
    }

    /// Handles the timer of the held lock of `claim`. Returns what the engine must report about the lock.
    pub(super) fn due(
        &mut self,
        now: Instant,
        key: ClaimKey,
        claim: &mut Claim,
        timers: &mut Timers,
    ) -> Option<LockDue> {
        if told_at(stands_until(claim)) <= now {
            return Some(LockDue::Over);
        }
        let is_at_risk = claim.busy().alert != 0 && at_risk_from(claim) <= now;
        if is_at_risk {
            claim.busy_mut().alert = 0;
        }
        self.attend(now, key, claim, timers);
        is_at_risk.then_some(LockDue::AtRisk)
    }

    /// Requests an alert for the time when the remaining validity of the lock of `claim` falls below `left`.
    pub(super) fn alert(
        &self,
        (key, claim): (ClaimKey, &mut Claim),
        left: Duration,
        timers: &mut Timers,
    ) {
        // The timer rounds up to whole ticks, so it may fire up to one tick late. One more tick makes up for this.
        let ticks = nanos(left).div_ceil(NANOS_PER_TICK).saturating_add(1);
        let busy = claim.busy_mut();
        busy.alert = busy.alert.max(ticks);
        self.arm(key, claim, timers);
    }

    // ----- the queue --------------------------------------------------------------------------

    /// Puts the kept lock of `claim` into the queue.
    fn enqueue(&mut self, key: ClaimKey, claim: &Claim) {
        let Some(kept) = &claim.kept else {
            return;
        };
        let due = kept.due_at(claim.entry.end(), Instant::ZERO, self.drift);
        if kept.waits_from_now_on() {
            self.queue.push(Reverse((due, key)));
        }
    }

    /// If the held lock of `claim` is due, puts it into the queue. Also sets the timer of the lock.
    fn attend(&mut self, now: Instant, key: ClaimKey, claim: &mut Claim, timers: &mut Timers) {
        let kept = claim.kept.as_ref();
        if kept.is_some_and(|kept| self.due_at(key, claim, kept) <= now) {
            self.enqueue(key, claim);
        }
        self.arm(key, claim, timers);
    }

    /// Extends the kept lock of `claim` at the next poll.
    pub(super) fn ask(&mut self, key: ClaimKey, claim: &Claim, news: &mut VecDeque<News>) {
        self.enqueue(key, claim);
        self.tell(news);
    }

    /// Records that an extension has begun.
    pub(super) fn begun(&mut self) {
        self.open += 1;
    }

    /// Records that an extension has ended. Other extensions begin at the next poll.
    pub(super) fn ended(&mut self, news: &mut VecDeque<News>) {
        self.open = self.open.checked_sub(1).must().unwrap_or(0);
        self.tell(news);
    }

    fn tell(&mut self, news: &mut VecDeque<News>) {
        if !self.is_idle() {
            news.push_back(News::Room);
        }
    }

    /// Returns `true` if no lock must be extended now.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.back.is_empty()
    }

    /// Returns the next lock to extend and its ttl, unless the limit on open extensions is reached.
    pub(super) fn next(
        &mut self,
        now: Instant,
        claims: &mut Claims,
        timers: &mut Timers,
        settings: &Settings,
    ) -> Option<(ClaimKey, Duration)> {
        while self.open < EXTENSIONS_AT_ONCE {
            let (key, is_searched) = match self.queue.pop() {
                Some(Reverse((_, key))) => (key, false),
                None => (self.search(claims)?, true),
            };
            let locks = claims.len();
            let Some(claim) = claims.get_mut(key).filter(|claim| claim.is_held()) else {
                continue; // The lock is over.
            };
            let ttl = self.extension(now, (key, claim), is_searched, locks);
            self.arm(key, claim, timers);
            let delay = claim.entry.delay();
            // Skips the lock if the time until its limit is shorter than the shortest allowed ttl.
            if let Some(ttl) = ttl.and_then(|ttl| settings.check_ttl(ttl, delay).ok()) {
                return Some((key, ttl));
            }
            claims.rest(key);
        }
        None
    }

    /// Takes the lock of `claim` out of the queue. `locks` is the number of claims. Returns the ttl of the extension.
    /// Returns `None` if the lock has been extended since it was queued, or if an extension is open. `is_searched` says
    /// whether a reconnected node may lack the lock.
    fn extension(
        &mut self,
        now: Instant,
        (key, claim): (ClaimKey, &mut Claim),
        is_searched: bool,
        locks: usize,
    ) -> Option<Duration> {
        let kept = claim.kept.as_ref()?;
        kept.waits_no_more();
        let end = claim.entry.end();
        let early = kept.extension(now, end, self.drift);
        let due = kept.due(now, (end, claim.busy().again), locks, self.drift);
        if let Some((_, again)) = due {
            claim.busy_mut().again = again;
        }
        if claim.busy().extending != 0 {
            return None;
        }
        // Limits the rate of early extensions, because a key that stays missing could otherwise cause one extension
        // after another.
        let looks = self.looks.take(now, key, early);
        let is_early = is_searched || looks.unwrap_or(!claim.busy().copies.lacking.is_empty());
        let due = due.map(|(ttl, _)| ttl);
        due.or(early.filter(|_| is_early))
    }

    // ----- reconnected nodes and changed keys ---------------------------------------------------

    /// Records that `node` can be asked again. `is_forgetful` says whether the node may have forgotten every lock.
    #[cold]
    #[inline(never)]
    pub(super) fn is_back(&mut self, node: NodeId, is_forgetful: bool) {
        self.back.insert(node);
        if is_forgetful {
            self.forgetful.insert(node);
        }
        self.next = 0;
    }

    /// Returns the next lock that a reconnected node may lack.
    fn search(&mut self, claims: &Claims) -> Option<ClaimKey> {
        if self.back.is_empty() {
            return None;
        }
        let wanted = |claim: &Claim| self.may_be_lacking(claim);
        let found = claims.slab.find(self.next, wanted);
        match found {
            Some((index, _)) => self.next = index + 1,
            None => (self.back, self.forgetful) = (NodeSet::EMPTY, NodeSet::EMPTY),
        }
        found.map(|(_, key)| ClaimKey(key))
    }

    /// For a kept lock, returns `true` if its last extension has failed or a reconnected node may lack the lock.
    fn may_be_lacking(&self, claim: &Claim) -> bool {
        let has = claim.copies().confirmed.without(self.forgetful);
        let gets_copy = !self.back.without(has).is_empty() && !claim.busy().is_adopted;
        let has_failed = claim.busy().again != Instant::ZERO;
        claim.kept.is_some() && claim.is_held() && (has_failed || gets_copy)
    }

    /// Plans a check of every watched lock, because the registrations were lost together with the old connection.
    pub(super) fn register_again(
        &mut self,
        now: Instant,
        claims: &mut Claims,
        timers: &mut Timers,
    ) {
        for key in self.looks.register_again(now) {
            if let Some(claim) = claims.get_mut(key).filter(|claim| claim.is_held()) {
                self.arm(key, claim, timers);
            }
        }
    }

    /// Begins or schedules a check of each lock whose keys have changed.
    pub(super) fn look_at_changed(
        &mut self,
        now: Instant,
        claims: &mut Claims,
        timers: &mut Timers,
    ) {
        while let Some(key) = self.looks.next_changed(now) {
            if let Some(claim) = claims.get_mut(key).filter(|claim| claim.is_held()) {
                self.attend(now, key, claim, timers);
            }
        }
    }
}

/// Returns the latest time at which the holder of `claim` learns that its lock has ended. This time is the end of the
/// validity or, if that end is unknown, the expiry of the keys.
fn stands_until(claim: &Claim) -> Instant {
    match claim.entry.end() {
        Instant::ZERO => claim.gone_by,
        known => known,
    }
}

/// Returns when the engine reports that the lock of `claim` is at risk. The report comes at most two ticks early, but
/// never late.
fn at_risk_from(claim: &Claim) -> Instant {
    let early = Duration::from_nanos(claim.busy().alert.saturating_mul(NANOS_PER_TICK));
    stands_until(claim).saturating_sub(early)
}

/// Returns when the engine reports the end of a validity: one tick before `end`, rounded down.
fn told_at(end: Instant) -> Instant {
    let tick = Duration::from_nanos(NANOS_PER_TICK);
    Instant::from_tick(end.saturating_sub(tick).tick_floor())
}
