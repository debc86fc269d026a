//! A claim: what one token may have left on the nodes.
//!
//! It begins with the first `SET` of an attempt and ends when no node can hold the token any more: each node has denied
//! it, confirmed its release, or let it expire. It outlives the operation that made it, the lock, and the caller. So
//! every release is sent until it is answered or no longer needed.
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
use crate::node::Command;
use crate::quorum::{Kept, Majority, NodeSet};
use crate::time::Instant;
use crate::timer::TimerKey;

use crate::engine::alarm::{Alarm, Timers};
use crate::engine::claims::Below;
use crate::engine::claims::busy::{Busy, Stage};
use crate::engine::claims::copies::Copies;
use crate::engine::claims::copy::{Copy, Event};
use crate::engine::pool::Boxes;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Claim {
    /// Its name and token, shared with its lock.
    pub(crate) entry: Entry,
    /// The nodes that may have the token: those whose copy is not [`Copy::Absent`]. It is kept also while the claim
    /// rests.
    pub(crate) may_hold: NodeSet,
    /// When every copy with a known expiry has expired.
    pub(crate) gone_by: Instant,
    pub(crate) timer: Option<TimerKey>,
    /// Set if this engine extends its lock.
    pub(crate) kept: Option<Arc<Kept>>,
    /// When the lock was handed out or adopted. [`Instant::MAX`]: it was not, or only to be released.
    since: Instant,
    /// `None` while it rests.
    pub(in crate::engine) busy: Option<Box<Busy>>,
}

impl Claim {
    /// Makes a claim that has sent nothing yet.
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

    // ----- its busy part ---------------------------------------------------------------------

    /// Returns the busy part. That of a resting claim has no copies: see [`copies`](Self::copies).
    #[inline]
    pub(crate) fn busy(&self) -> &Busy {
        match &self.busy {
            Some(busy) => busy,
            None => Self::busy_at_rest(),
        }
    }

    #[cold]
    #[inline(never)]
    fn busy_at_rest() -> &'static Busy {
        &Busy::REST
    }

    /// Like [`busy`](Self::busy), but mutable. Wakes the claim.
    #[inline]
    pub(crate) fn busy_mut(&mut self) -> &mut Busy {
        match self.busy {
            Some(ref mut busy) => busy,
            None => self.wake_unpooled(),
        }
    }

    /// Hardly any claim is changed without being woken first.
    #[cold]
    #[inline(never)]
    fn wake_unpooled(&mut self) -> &mut Busy {
        let busy = Box::new(self.rest_now());
        self.busy.insert(busy)
    }

    /// Builds the busy part of a resting claim, as if it woke now.
    fn rest_now(&self) -> Busy {
        Busy::woken(self.may_hold, self.life_at_rest())
    }

    /// Wakes the claim and returns its busy part.
    #[inline]
    pub(super) fn wake(&mut self, boxes: &mut Boxes<Busy>) -> &mut Busy {
        match self.busy {
            Some(ref mut busy) => busy,
            None => self.wake_pooled(boxes),
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_pooled(&mut self, boxes: &mut Boxes<Busy>) -> &mut Busy {
        let busy = boxes.put(self.rest_now());
        self.busy.insert(busy)
    }

    /// Lets the claim rest if nothing about it is open.
    pub(super) fn rest(&mut self, boxes: &mut Boxes<Busy>) {
        if self.kept.is_none() {
            return;
        }
        let mut rest = self.rest_now();
        rest.copies.regained = self.busy().copies.regained; // Only open questions compare it.
        let rests = |busy: &mut Box<Busy>| **busy == rest;
        if let Some(busy) = self.busy.take_if(rests) {
            boxes.give(busy);
        }
    }

    /// Returns its copies.
    pub(crate) fn copies(&self) -> Copies {
        let busy = self.busy.as_ref();
        busy.map_or_else(|| Copies::on(self.may_hold), |busy| busy.copies)
    }

    /// Returns the state of its copy on `node`.
    #[inline]
    pub(crate) fn copy_on(&self, node: NodeId) -> Copy {
        match &self.busy {
            Some(busy) => busy.copies.on_node(node),
            None if self.may_hold.contains(node) => Copy::Stands,
            None => Copy::Absent,
        }
    }

    /// Returns the nodes that may still run a `SET` of it.
    pub(crate) fn running(&self) -> NodeSet {
        self.may_hold.filter(|node| self.copy_on(node).may_run())
    }

    /// Returns the longest time that a node was asked to keep the key: the ttl and the lock delay.
    #[inline]
    pub(crate) fn life(&self) -> Duration {
        match &self.busy {
            Some(busy) => busy.life,
            None => self.life_at_rest(),
        }
    }

    /// Returns the [life](Self::life) of a resting claim.
    #[cold]
    #[inline(never)]
    fn life_at_rest(&self) -> Duration {
        self.entry.delay().life(self.entry.ttl())
    }

    /// Records that a node is asked to keep the key for this `life`.
    #[inline]
    pub(crate) fn lives(&mut self, life: Duration) {
        let busy = self.busy_mut();
        busy.life = busy.life.max(life);
    }

    // ----- what the engine learns of its copies ----------------------------------------------

    /// Applies `event` to the copy on `node`. Returns its new state.
    #[inline(always)]
    pub(super) fn apply(&mut self, node: NodeId, event: Event) -> Copy {
        let copy = self.busy_mut().copies.apply(node, event);
        match event {
            // These do not change whether the node may hold the token.
            Event::Lost | Event::Granted | Event::Asked | Event::Owed => {}
            Event::Sent | Event::NotRun | Event::Has | Event::Freed | Event::HandedOver => {
                match copy.may_hold() {
                    true => self.may_hold.insert(node),
                    false => self.may_hold.remove(node),
                };
            }
        }
        copy
    }

    /// A `SET` of it was put into the connection to `node`.
    pub(crate) fn set_sent(&mut self, node: NodeId) {
        self.apply(node, Event::Sent);
    }

    /// The latest `SET` to `node` left no key: the node denied it, or it was withdrawn before any byte of it left.
    pub(crate) fn set_not_run(&mut self, node: NodeId) {
        self.apply(node, Event::NotRun);
    }

    /// `node` has denied the `SET`: see [`Self::set_not_run`].
    pub(crate) fn denied(&mut self, node: NodeId) {
        match guard!(DeniedReleased, true) {
            true => self.set_not_run(node),
            false => self.set_lost(node),
        }
    }

    /// It will never be known whether `node` ran the `SET`.
    pub(crate) fn set_lost(&mut self, node: NodeId) {
        self.apply(node, Event::Lost);
    }

    /// `node` has the token, until `gone_by` at the latest: it ran the `SET` ([`Event::Granted`]), or answered a
    /// question ([`Event::Has`]). `counts`: the node is not in quarantine, or its clock was never stepped.
    #[inline(always)]
    pub(crate) fn found_on(&mut self, node: NodeId, event: Event, gone_by: Instant, counts: bool) {
        self.gone_by = self.gone_by.max(gone_by);
        // A late answer does not make a copy that was handed over ours again: it is not released here.
        if event == Event::Granted || self.may_hold.contains(node) || !self.is_leaving() {
            self.apply(node, event);
            self.busy_mut().copies.found(node, counts);
        }
    }

    /// `node` lacks the token. Returns `true` if that is new.
    pub(crate) fn missed_on(&mut self, node: NodeId) -> bool {
        self.busy_mut().copies.missed(node)
    }

    /// A majority has confirmed the token.
    pub(crate) fn confirmed_by(&mut self, majority: &Majority) {
        let copies = &mut self.busy_mut().copies;
        copies.confirmed = majority.nodes().without(copies.lacking);
    }

    /// Hands the lock over with the copies that stand, so that they are not released. Returns their nodes.
    pub(crate) fn hand_over(&mut self) -> NodeSet {
        let standing = self
            .may_hold
            .filter(|node| self.copy_on(node) == Copy::Stands);
        self.apply_on(standing, Event::HandedOver)
    }

    /// Ends the copies that only had to expire, and now have. Returns their nodes.
    pub(super) fn expire(&mut self) -> NodeSet {
        self.apply_on(self.expiring(), Event::Freed)
    }

    fn apply_on(&mut self, nodes: NodeSet, event: Event) -> NodeSet {
        for node in nodes.iter() {
            self.apply(node, event);
        }
        nodes
    }

    /// Records that the release is owed to `node`. Returns `true` if that is new.
    pub(super) fn begin_owing(&mut self, node: NodeId) -> bool {
        let was_owed = self.copy_on(node).is_owed();
        !was_owed && self.apply(node, Event::Owed).is_owed()
    }

    /// Returns `true` if it is being released.
    #[inline]
    pub(crate) fn is_leaving(&self) -> bool {
        matches!(self.busy().stage, Stage::Releasing { .. })
    }

    /// Returns `true` if it is being released on `node` and the node has not said that it lacks the token.
    pub(super) fn is_leaving_on(&self, node: NodeId) -> bool {
        let copy = self.copy_on(node);
        (copy.is_releasing() || copy.is_owed()) && !self.busy().copies.lacking.contains(node)
    }

    /// Returns `true` if it is being released and no node can hold it any more.
    pub(crate) fn is_over(&self) -> bool {
        self.is_leaving() && self.may_hold.is_empty()
    }

    /// Returns the operation that makes this attempt.
    pub(crate) fn attempted_by(&self) -> Option<OperationKey> {
        match self.busy().stage {
            Stage::Attempt { operation } => Some(operation),
            Stage::Held { .. } | Stage::Releasing { .. } => None,
        }
    }

    /// Returns `true` if a caller holds its lock and the end was not reported.
    pub(crate) fn is_held(&self) -> bool {
        self.busy().stage == (Stage::Held { told: false })
    }

    /// The lock is held from `now` on.
    pub(crate) fn begin_hold(&mut self, now: Instant) {
        self.busy_mut().stage = Stage::Held { told: false };
        self.since = now;
    }

    /// Returns when the hold began, if the lock is held and was not adopted only to be released.
    #[inline]
    pub(crate) fn held_since(&self) -> Option<Instant> {
        (self.is_held() && self.since != Instant::MAX).then_some(self.since)
    }

    /// Marks the end of the lock as reported. Returns `true` if it has to be reported now.
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

    // ----- its release ------------------------------------------------------------------------

    /// Sends its release to `node`, or owes it. Returns `true` if it was sent.
    pub(super) fn release_on(
        &mut self,
        node: NodeId,
        key: ClaimKey,
        command: &mut Command,
        below: &mut Below<'_>,
    ) -> bool {
        if self.copy_on(node).may_run() && below.nodes[node].give_up_set(key) {
            self.set_not_run(node);
            if !self.may_hold.contains(node) {
                return false;
            }
        }
        let sent =
            below.nodes[node].handshake.is_ready() && self.pay(node, key, command, false, below);
        if !sent {
            self.owe(node, key, below);
        }
        sent
    }

    /// Puts its release into the connection to `node`, built in `command`. With `repair` it does not use a script's
    /// digest. Returns `false` if there is no room.
    // Inlined into the loop over the nodes of a release; the other callers are rare.
    #[inline(always)]
    pub(super) fn pay(
        &mut self,
        node: NodeId,
        key: ClaimKey,
        command: &mut Command,
        repair: bool,
        below: &mut Below<'_>,
    ) -> bool {
        let there = below.nodes.writing_to(node);
        if !there.send_release(below.now, key, command, &self.entry, repair) {
            return false;
        }
        self.apply(node, Event::Asked);
        true
    }

    /// Records that the release is owed to `node`, to be sent when it can be.
    pub(super) fn owe(&mut self, node: NodeId, key: ClaimKey, below: &mut Below<'_>) {
        if self.begin_owing(node) {
            below.nodes[node].debts.owe(key);
        }
        self.limit_debt(key, below.timers);
    }

    /// Arms the timer that ends its debts, if time can end them.
    pub(super) fn limit_debt(&mut self, key: ClaimKey, timers: &mut Timers) {
        if self.timer.is_none() && !self.expiring().is_empty() {
            self.timer = Some(timers.insert(self.gone_by, Alarm::Claim(key)));
        }
    }

    /// Returns the nodes where the debt ends by time alone: the expiry is known, and no `SET` can still run.
    fn expiring(&self) -> NodeSet {
        let is_owed = |node| self.copy_on(node) == Copy::Owed;
        let owed = self.may_hold.filter(is_owed);
        owed.without(self.busy().copies.extending)
    }

    /// Withdraws its `SET`s to nodes of `from` if no byte of them has left. Returns those nodes.
    pub(crate) fn take_back(
        &mut self,
        from: NodeSet,
        key: ClaimKey,
        below: &mut Below<'_>,
    ) -> NodeSet {
        let withdrawn = from.filter(|node| {
            let may_run = guard!(QueuedSetSentLate, self.copy_on(node).may_run());
            may_run && below.nodes[node].withdraw_set(key)
        });
        for node in withdrawn.iter() {
            self.set_not_run(node);
        }
        withdrawn
    }

    /// Arms its timer for `at`.
    pub(crate) fn wake_at(&mut self, at: Instant, key: ClaimKey, timers: &mut Timers) {
        let timer = timers.insert(at, Alarm::Claim(key));
        if let Some(before) = self.timer.replace(timer) {
            timers.cancel(before);
        }
    }
}
