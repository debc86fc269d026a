//! A claim: what one token may have left on the nodes.
//!
//! It begins with the first `SET` of an attempt and ends when no node can hold the token any more:
//! each has denied it, confirmed its release, or let it expire. It outlives the operation that made
//! it, the lock that came of it, and the caller. So every release is sent until it is answered or
//! no longer needed.
//!
//! ```text
//!   Attempt --granted--> Held --release, lost, detach--> Releasing --last node--> gone
//!      |                   ^                                ^
//!      `---- refused, cancelled, too slow ------------------'
//!                     adopt (from elsewhere)
//! ```

use alloc::sync::Arc;
use core::time::Duration;

use crate::entry::Entry;
use crate::keys::{ClaimKey, NodeId, OperationKey, PlaceKey};
use crate::node::Command;
use crate::quorum::{Kept, Majority, NodeSet};
use crate::slab::Key;
use crate::time::{Instant, NANOS_PER_TICK, nanos};
use crate::timer::TimerKey;

use crate::engine::alarm::{Alarm, Timers};
use crate::engine::claims::{Below, LockDue};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Claim {
    /// Its own key.
    pub(crate) key: ClaimKey,
    pub(crate) stage: Stage,
    /// Key and token. `None` while a `Lock` outside owns them, unless it is kept.
    pub(crate) entry: Option<Entry>,
    pub(crate) origin: Origin,
    /// How many extensions of it count votes. At 255 it stays: when some of more have ended, the engine may
    /// begin one of its own beside those that are open, which costs a command for each node.
    pub(crate) extending: u8,
    /// The longest that any node was asked to keep it: the ttl and the lock delay.
    pub(crate) life: Duration,
    /// Until when the lock may be trusted, if it is held. [`Instant::ZERO`] if that is not known
    /// before a majority was asked.
    pub(crate) valid_until: Instant,
    /// Until when its holder may trust it by the last outcome that was delivered. A confirmation
    /// that was not delivered yet can still be cancelled.
    pub(crate) told_until: Instant,
    /// By when every copy whose expiry is known has expired.
    pub(crate) gone_by: Instant,
    /// The nodes that may have the token: a `SET` for it was put into the connection. Only an
    /// answer to a release ends that, or a denial of the only `SET` that the node can have run.
    pub(crate) may_hold: NodeSet,
    /// The nodes that got a `SET` when they may have had the token already. A denial of such a
    /// `SET` says nothing: it may have met the key of an earlier one.
    pub(crate) twice: NodeSet,
    /// The nodes that said that they have it.
    pub(crate) granted: NodeSet,
    /// The nodes whose `SET` is unanswered on the present connection.
    pub(crate) unanswered: NodeSet,
    /// The nodes where the answer to a `SET` was lost: the connection ended, or an error did not say
    /// whether it was run. They may run it yet, also after they have answered other questions.
    pub(crate) lost: NodeSet,
    /// The nodes where its expiry is not known, because an extension is unanswered, or was when its
    /// connection was lost.
    pub(crate) unknown: NodeSet,
    /// The nodes whose release is unanswered on the present connection.
    pub(crate) releasing: NodeSet,
    /// The nodes in whose debts it stands.
    pub(crate) owed: NodeSet,
    /// The nodes to which its `SET` was sent again behind a release of our own.
    pub(crate) resent: NodeSet,
    /// The nodes that were asked to extend it and did not have it: they get a copy again.
    pub(crate) lacking: NodeSet,
    /// How often a node that lacked it said that it has it.
    pub(crate) regained: u16,
    /// The nodes that had it, and have not said so again since a majority last did.
    pub(crate) unconfirmed: NodeSet,
    pub(crate) questions: Questions,
    pub(crate) timer: Option<TimerKey>,
    /// Where others wait for its lock, while it is held. [`PlaceKey::NONE`]: it is kept, and nobody else
    /// wants it.
    pub(crate) place: Option<PlaceKey>,
    /// Its lock is extended by this engine.
    pub(crate) kept: Option<Arc<Kept>>,
    /// So many ticks before its end its holder is to be told, once, that it is at risk. Zero: never.
    pub(crate) alert: u64,
}

/// The questions about a lock that may be open.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Questions {
    /// The newest one.
    pub(crate) newest: Option<OperationKey>,
    /// There may be older ones.
    pub(crate) older: bool,
}

/// Who has made the attempt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Origin {
    /// This engine, for one resource.
    One,
    /// This engine, for several.
    Several,
    /// Another: only what holds for every lock is assumed of it.
    Elsewhere,
}

/// Where a claim stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stage {
    /// An operation is counting votes for it, or has won and was not reported yet.
    Attempt {
        /// Which operation.
        operation: OperationKey,
    },
    /// A lock of a caller has it.
    Held {
        /// Its end was reported to its holder.
        told: bool,
    },
    /// It is released on every node.
    Releasing {
        /// The operation of a caller who waits for the outcome.
        operation: Option<OperationKey>,
    },
}

impl Claim {
    /// A claim of an attempt that has sent nothing yet.
    pub(crate) fn attempt(operation: OperationKey, entry: Entry, life: Duration) -> Self {
        let origin = match entry.is_several() {
            true => Origin::Several,
            false => Origin::One,
        };
        Self {
            origin,
            ..Self::new(Stage::Attempt { operation }, Some(entry), life)
        }
    }

    /// The claim of a lock that was granted elsewhere: any of `nodes` may have it.
    pub(crate) fn adopted(
        nodes: NodeSet,
        life: Duration,
        until: Instant,
        gone_by: Instant,
    ) -> Self {
        Self {
            origin: Origin::Elsewhere,
            valid_until: until,
            told_until: until,
            gone_by,
            may_hold: nodes,
            granted: nodes,
            unconfirmed: nodes,
            ..Self::new(Stage::Held { told: false }, None, life)
        }
    }

    fn new(stage: Stage, entry: Option<Entry>, life: Duration) -> Self {
        Self {
            key: ClaimKey(Key::NONE),
            stage,
            entry,
            origin: Origin::One,
            extending: 0,
            life,
            valid_until: Instant::ZERO,
            told_until: Instant::ZERO,
            gone_by: Instant::ZERO,
            may_hold: NodeSet::EMPTY,
            twice: NodeSet::EMPTY,
            granted: NodeSet::EMPTY,
            unanswered: NodeSet::EMPTY,
            lost: NodeSet::EMPTY,
            unknown: NodeSet::EMPTY,
            releasing: NodeSet::EMPTY,
            owed: NodeSet::EMPTY,
            resent: NodeSet::EMPTY,
            lacking: NodeSet::EMPTY,
            regained: 0,
            unconfirmed: NodeSet::EMPTY,
            questions: Questions::default(),
            timer: None,
            place: None,
            kept: None,
            alert: 0,
        }
    }

    /// A `SET` of it was put into the connection to `node`.
    pub(crate) fn set_sent(&mut self, node: NodeId) {
        if !self.may_hold.insert(node) {
            self.twice.insert(node);
        }
        self.unanswered.insert(node);
    }

    /// Its `SET` to `node` was withdrawn before any byte of it left.
    pub(crate) fn set_withdrawn(&mut self, node: NodeId) {
        self.unanswered.remove(node);
        self.set_not_run(node);
    }

    /// `node` denied it. A release that is already on its way there will confirm that. Returns `true`
    /// if one waited for room: it is not owed any more.
    #[must_use]
    pub(crate) fn denied(&mut self, node: NodeId) -> bool {
        if guard!(DeniedReleased, !self.releasing.contains(node)) {
            self.set_not_run(node);
        }
        !self.may_hold.contains(node) && self.owed.remove(node)
    }

    /// The latest `SET` to `node` left no key. An earlier one may have.
    fn set_not_run(&mut self, node: NodeId) {
        if !guard!(DeniedCopyForgotten, self.twice.contains(node)) {
            self.may_hold.remove(node);
        }
    }

    /// Whether its `SET` to `node` was run is not known, and will not be.
    pub(crate) fn set_lost(&mut self, node: NodeId) {
        self.unanswered.remove(node);
        self.lost.insert(node);
    }

    /// `node` says that it has the token, until `gone_by` at the latest. If it got one `SET`, that has
    /// been run, and is not run again.
    pub(crate) fn found_on(&mut self, node: NodeId, gone_by: Instant) {
        self.granted.insert(node);
        if self.lacking.remove(node) {
            self.regained = self.regained.wrapping_add(1);
        }
        self.gone_by = self.gone_by.max(gone_by);
        if !self.twice.contains(node) {
            self.lost.remove(node);
        }
    }

    /// A majority has said that it has it.
    pub(crate) fn confirmed_by(&mut self, majority: &Majority) {
        self.unconfirmed = self.granted.without(majority.nodes());
    }

    /// Returns the nodes that are known to have it, and run no `SET` of it any more.
    pub(crate) fn settled(&self) -> NodeSet {
        self.granted.without(self.lost)
    }

    /// Returns the time at which its holder learns that it is over, at the latest. If its end is
    /// not known, that is when its keys are gone.
    pub(crate) fn stands_until(&self) -> Instant {
        match self.valid_until {
            Instant::ZERO => self.gone_by,
            known => known,
        }
    }

    /// Returns `true` if this engine has made the attempt, for several resources.
    pub(crate) fn is_for_several(&self) -> bool {
        self.origin == Origin::Several
    }

    /// Returns `true` if it was granted elsewhere.
    pub(crate) fn is_adopted(&self) -> bool {
        self.origin == Origin::Elsewhere
    }

    /// Returns `true` if it is on several resources, and its entry is here.
    pub(crate) fn is_several(&self) -> bool {
        self.entry.as_ref().is_some_and(Entry::is_several)
    }

    /// Returns `true` if it is being released and no node can hold it any more.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Releasing { .. }) && self.may_hold.is_empty()
    }

    /// Returns `true` if a `SET` or an extension of it was not answered: some node may run it yet.
    #[cfg(feature = "std")]
    pub(crate) fn may_be_written_yet(&self) -> bool {
        let open = self.unknown.union(self.unanswered).union(self.lost);
        !open.is_empty()
    }

    /// Returns the questions about it that may be open, which are to end.
    pub(crate) fn end_questions(&mut self) -> Questions {
        let open = self.questions;
        self.questions.newest = None;
        open
    }

    /// Returns the operation that waits for its release.
    pub(crate) fn released_for(&self) -> Option<OperationKey> {
        match self.stage {
            Stage::Releasing { operation } => operation,
            Stage::Attempt { .. } | Stage::Held { .. } => None,
        }
    }

    /// Returns the operation whose present attempt it is.
    pub(crate) fn attempted_by(&self) -> Option<OperationKey> {
        match self.stage {
            Stage::Attempt { operation } => Some(operation),
            Stage::Held { .. } | Stage::Releasing { .. } => None,
        }
    }

    /// Returns `true` if it is the claim of a lock whose end was not reported to its holder.
    pub(crate) fn is_held(&self) -> bool {
        self.stage == (Stage::Held { told: false })
    }

    /// Returns `true` if its end was not reported to its holder before, and has to be now.
    pub(crate) fn tell_lost(&mut self) -> bool {
        let news = self.is_held();
        if news {
            self.stage = Stage::Held { told: true };
            if let Some(kept) = &self.kept {
                kept.tell_over();
            }
        }
        news
    }

    /// Returns the nodes on which only time has to pass: its release is due there, its expiry is
    /// known, and no `SET` of it can still be run.
    pub(crate) fn ends_by_time(&self) -> NodeSet {
        let sets = self.unanswered.union(self.lost);
        self.owed.without(self.unknown).without(sets)
    }

    // ----- its release ----------------------------------------------------------------------

    /// Sends its release to `node`, or owes it.
    pub(super) fn release_on(
        &mut self,
        node: NodeId,
        command: &mut Command,
        below: &mut Below<'_>,
    ) {
        if self.unanswered.contains(node) && below.nodes[node].withdraw_set(self.key) {
            self.set_withdrawn(node);
            if !self.may_hold.contains(node) {
                return;
            }
        }
        if !below.nodes[node].is_ready() || !self.pay(node, command, false, below) {
            self.owe(node, below);
        }
    }

    /// Puts its release, which is `command`, into the connection to `node`; never by digest if it is to
    /// `repair`. Returns `false` if there is no room.
    pub(super) fn pay(
        &mut self,
        node: NodeId,
        command: &mut Command,
        repair: bool,
        below: &mut Below<'_>,
    ) -> bool {
        let Some(entry) = &self.entry else {
            return true;
        };
        let there = below.nodes.writing_to(node);
        if !there.send_release(below.now, self.key, command, entry, repair) {
            return false;
        }
        self.releasing.insert(node);
        self.owed.remove(node);
        true
    }

    /// Records that `node` is still owed its release, which is sent when it can be.
    pub(super) fn owe(&mut self, node: NodeId, below: &mut Below<'_>) {
        self.releasing.remove(node);
        if self.owed.insert(node) {
            below.nodes[node].debts.owe(self.key);
        }
        self.limit_debt(below.timers);
    }

    /// Arms the end of its debts, where time can end them.
    pub(super) fn limit_debt(&mut self, timers: &mut Timers) {
        if self.timer.is_none() && !self.ends_by_time().is_empty() {
            self.timer = Some(timers.insert(self.gone_by, Alarm::Claim(self.key)));
        }
    }

    /// Withdraws its `SET`s to nodes where no byte of them has left.
    pub(crate) fn take_back(&mut self, from: NodeSet, below: &mut Below<'_>) {
        for node in from.iter() {
            let open = guard!(QueuedSetSentLate, self.unanswered.contains(node));
            if open && below.nodes[node].withdraw_set(self.key) {
                self.set_withdrawn(node);
            }
        }
    }

    /// Arms the timer for the end of its lock, which is held from now on, or for what is due before that.
    ///
    /// The end of its validity is reported a tick early rather than late: this is the one timer
    /// that rounds down.
    pub(crate) fn watch(&mut self, timers: &mut Timers) {
        let mut at = told_at(self.stands_until());
        if let Some(kept) = &self.kept {
            at = at.min(kept.due_at(self.valid_until));
        }
        if self.alert != 0 {
            at = at.min(self.at_risk_from());
        }
        self.wake_at(at, timers);
    }

    pub(super) fn wake_at(&mut self, at: Instant, timers: &mut Timers) {
        let timer = timers.insert(at, Alarm::Claim(self.key));
        if let Some(before) = self.timer.replace(timer) {
            timers.cancel(before);
        }
    }

    /// Returns when its holder is to be told that it is at risk: two ticks early at most, and never late.
    fn at_risk_from(&self) -> Instant {
        let early = Duration::from_nanos(self.alert.saturating_mul(NANOS_PER_TICK));
        self.stands_until().saturating_sub(early)
    }

    /// Asks for an alert when less than `left` is left of its lock.
    pub(super) fn alert(&mut self, left: Duration) {
        // Whole ticks, and one for the timer, which rounds up.
        let ticks = nanos(left).div_ceil(NANOS_PER_TICK).saturating_add(1);
        self.alert = self.alert.max(ticks);
    }

    /// Returns what is due at `now` before the end of its lock, one of so many `locks`, and begins to wait
    /// for what is due next.
    pub(super) fn due(
        &mut self,
        now: Instant,
        locks: usize,
        timers: &mut Timers,
    ) -> Option<LockDue> {
        let due = if self.alert != 0 && self.at_risk_from() <= now {
            self.alert = 0;
            Some(LockDue::AtRisk)
        } else {
            let kept = self.kept.as_ref();
            kept.and_then(|kept| kept.due(now, self.valid_until, locks))
                .map(LockDue::Extend)
        };
        self.watch(timers);
        due
    }

    /// Returns by how much its lock is to be extended at `now`, if it is held and that is due, whenever it was
    /// to be tried again.
    pub(super) fn try_at_once(
        &mut self,
        now: Instant,
        locks: usize,
        timers: &mut Timers,
    ) -> Option<Duration> {
        let kept = self.kept.as_ref().filter(|_| self.is_held())?;
        kept.waits_no_more();
        kept.begin_again();
        let ttl = kept.due(now, self.valid_until, locks);
        self.watch(timers);
        ttl
    }
}

/// Returns when the end of a validity is reported: a tick before it, rounded down.
pub(super) fn told_at(end: Instant) -> Instant {
    let tick = Duration::from_nanos(NANOS_PER_TICK);
    Instant::from_tick(end.saturating_sub(tick).tick_floor())
}
