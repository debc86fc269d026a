//! A claim: everything that one token may have left on the nodes.
//!
//! A claim begins with the first `SET` of an attempt. The claim ends when no node can have the token any longer,
//! because each node has denied the token, confirmed its release, or let it expire. The claim can outlive both its lock
//! and the operation that created it, because the engine resends each release until the node answers it or the release
//! is no longer needed.
//!
//! ```text
//!   Attempt --granted--> Held --release, lost, detach--> Releasing --last node--> gone
//!      |                   ^                                ^
//!      `---- refused, cancelled, too slow ------------------'
//!                     adopt (from elsewhere)
//! ```

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use crate::entry::Entry;
use crate::keys::{ClaimKey, NodeId, OperationKey};
use crate::quorum::{Kept, Majority, NodeSet};
use crate::time::Instant;
use crate::timer::TimerKey;

use crate::engine::alarm::{Alarm, Timers};
use crate::engine::claims::busy::{Busy, Stage};
use crate::engine::claims::copies::Copies;
use crate::engine::claims::copy::{Copy, Event};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Claim {
    /// The name and token of the claim, shared with its lock.
    pub(crate) entry: Entry,
    /// The nodes that may have the token, which means that their copy is not [`Copy::Absent`]. This set remains known
    /// while the claim is idle.
    pub(crate) may_hold: NodeSet,
    /// The time at which all copies with a known expiry have expired.
    pub(crate) gone_by: Instant,
    pub(crate) timer: Option<TimerKey>,
    /// `Some` if this engine extends the lock automatically.
    pub(crate) kept: Option<Arc<Kept>>,
    /// When the caller began to hold the lock. The value is [`Instant::MAX`] if no caller has held the lock, or if the
    /// lock was adopted only to release it.
    since: Instant,
    /// The busy part of the claim, or `None` while the claim is idle.
    pub(in crate::engine) busy: Option<Box<Busy>>,
}

impl Claim {
    /// Creates a claim that has sent nothing yet.
    pub(super) fn new(entry: Entry, busy: Box<Busy>) -> Self {
        Self {
            entry,
            gone_by: Instant::ZERO,
            may_hold: NodeSet::EMPTY,
            timer: None,
            since: Instant::MAX,
            kept: None,
            busy: Some(busy),
        }
    }

    // ----- parts of a busy claim -------------------------------------------------------------

    /// Returns the busy part. While the claim is idle, use [`copies`](Self::copies) and [`life`](Self::life) instead,
    /// because the claim itself stores these values.
    #[inline]
    pub(crate) fn busy(&self) -> &Busy {
        self.busy.as_deref().unwrap_or(&Busy::REST)
    }

    /// Like [`busy`](Self::busy), but mutable. The call creates the busy part of an idle claim.
    #[inline]
    pub(crate) fn busy_mut(&mut self) -> &mut Busy {
        match self.busy {
            Some(ref mut busy) => busy,
            None => self.wake(None),
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn wake(&mut self, memory: Option<Box<Busy>>) -> &mut Busy {
        let busy = Busy::woken(self.may_hold, self.life());
        self.busy.insert(busy.placed(memory))
    }

    /// Makes the claim idle if no work on it is open. If the claim becomes idle, returns the memory of its busy part.
    pub(super) fn rest(&mut self) -> Option<Box<Busy>> {
        self.kept.as_ref()?;
        let mut rest = Busy::woken(self.may_hold, self.life());
        rest.copies.regained = self.busy.as_ref()?.copies.regained; // Only open questions compare this value.
        self.busy.take_if(|busy| **busy == rest)
    }

    /// Returns the copies of the claim.
    pub(crate) fn copies(&self) -> Copies {
        let busy = self.busy.as_ref();
        busy.map_or_else(|| Copies::on(self.may_hold), |busy| busy.copies)
    }

    /// Returns the state of the claim's copy on `node`.
    #[inline]
    pub(crate) fn copy_on(&self, node: NodeId) -> Copy {
        match &self.busy {
            Some(busy) => busy.copies.each[node.index()],
            None if self.may_hold.contains(node) => Copy::Stands,
            None => Copy::Absent,
        }
    }

    /// Returns the nodes that may still run a `SET` of this claim.
    pub(crate) fn running(&self) -> NodeSet {
        self.may_hold.filter(|node| self.copy_on(node).may_run())
    }

    /// Returns the longest time for which a node was asked to keep the key: the ttl plus the lock delay.
    #[inline(always)]
    pub(crate) fn life(&self) -> Duration {
        match &self.busy {
            Some(busy) => busy.life,
            None => self.entry.delay().life(self.entry.ttl()),
        }
    }

    /// Records that a node is asked to keep the key for this `life`.
    #[inline]
    pub(crate) fn lives(&mut self, life: Duration) {
        let busy = self.busy_mut();
        busy.life = busy.life.max(life);
    }

    // ----- copies ----------------------------------------------------------------------------

    /// Applies `event` to the copy on `node`.
    #[inline(always)]
    pub(super) fn apply(&mut self, node: NodeId, event: Event) {
        match self.busy_mut().copies.apply(node, event).may_hold() {
            true => self.may_hold.insert(node),
            false => self.may_hold.remove(node),
        };
    }

    /// Records that a `SET` of this claim was queued for `node`.
    pub(crate) fn set_sent(&mut self, node: NodeId) {
        self.apply(node, Event::Sent);
    }

    /// Records that `node` has the token until `gone_by` at the latest. The node has run the `SET`
    /// ([`Event::Granted`]), or has answered a question ([`Event::Has`]). `counts` says whether this answer counts.
    #[inline(always)]
    pub(crate) fn found_on(&mut self, node: NodeId, event: Event, gone_by: Instant, counts: bool) {
        self.gone_by = self.gone_by.max(gone_by);
        // After a hand-over, ignores a late answer. Otherwise, the claim would contain the node's copy again.
        if self.may_hold.contains(node) || !self.is_leaving() {
            self.apply(node, event);
            self.busy_mut().copies.found(node, counts);
        }
    }

    /// Records that `node` does not have the token. Returns `false` if this was already recorded.
    pub(crate) fn missed_on(&mut self, node: NodeId) -> bool {
        self.busy_mut().copies.missed(node)
    }

    /// Records that a majority has confirmed the token.
    pub(crate) fn confirmed_by(&mut self, majority: &Majority) {
        let copies = &mut self.busy_mut().copies;
        copies.confirmed = majority.nodes().without(copies.lacking);
    }

    /// Returns the nodes that are known to have the token. The result includes nodes that may still run an earlier
    /// `SET`.
    pub(super) fn standing(&self) -> NodeSet {
        let having = self.copies().having;
        self.may_hold.filter(|node| {
            let copy = self.copy_on(node);
            let has_it = guard!(ConfirmedCopyReleased, having.contains(node));
            copy == Copy::Stands || copy == Copy::StandsLost && has_it
        })
    }

    /// Returns `true` if the claim is being released.
    #[inline]
    pub(crate) fn is_leaving(&self) -> bool {
        matches!(self.busy().stage, Stage::Releasing { .. })
    }

    /// Returns the operation that is making this attempt.
    pub(crate) fn attempted_by(&self) -> Option<OperationKey> {
        match self.busy().stage {
            Stage::Attempt { operation } => Some(operation),
            Stage::Held { .. } | Stage::Releasing { .. } => None,
        }
    }

    /// Returns `true` if a caller holds the lock and the engine has not reported its end.
    pub(crate) fn is_held(&self) -> bool {
        self.busy().stage == (Stage::Held { told: false })
    }

    /// Records that a caller holds the lock from `now` on.
    pub(crate) fn begin_hold(&mut self, now: Instant) {
        self.busy_mut().stage = Stage::Held { told: false };
        self.since = now;
    }

    /// Returns when the caller began to hold the lock. Returns `None` if no caller holds the lock, or if it was adopted
    /// only to release it.
    #[inline]
    pub(crate) fn held_since(&self) -> Option<Instant> {
        (self.is_held() && self.since != Instant::MAX).then_some(self.since)
    }

    /// Marks the end of the lock as reported. Returns `false` if no caller holds the lock, or if its end was already
    /// reported.
    pub(crate) fn tell_lost(&mut self) -> bool {
        let news = self.is_held();
        if news {
            self.busy_mut().stage = Stage::Held { told: true };
            if let Some(kept) = &self.kept {
                kept.tell_over();
            }
        }
        news
    }

    /// Returns the nodes that need no release once the key has expired. On these nodes, the expiry of the key is known,
    /// and no `SET` can still run.
    pub(super) fn expiring(&self) -> NodeSet {
        let is_owed = |node| self.copy_on(node) == Copy::Owed;
        let owed = self.may_hold.filter(is_owed);
        owed.without(self.busy().copies.extending)
    }

    /// Sets the timer of the claim to `at`.
    pub(crate) fn wake_at(&mut self, at: Instant, key: ClaimKey, timers: &mut Timers) {
        let timer = timers.insert(at, Alarm::Claim(key));
        if let Some(before) = self.timer.replace(timer) {
            timers.cancel(before);
        }
    }
}
