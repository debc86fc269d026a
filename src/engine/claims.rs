//! The claims: what tokens may have left on the nodes, with their timers and their releases.
//!
//! The engine sends a release to every node that may hold the token, over the connection that carried the `SET` and
//! behind it. If there is no connection or no room, the release is a debt, and is sent first once there is. An answer
//! of the node ends it. Time alone ends it only if the expiry of the key is known.
//!
//! # Not here
//!
//! The operation that waits for a release: functions return what an answer means to it.

pub(super) mod busy;
pub(super) mod claim;
pub(super) mod copies;
pub(super) mod copy;
mod releases;

use alloc::collections::BTreeMap;
use core::time::Duration;

use crate::delay::Delay;
use crate::entry::Entry;
use crate::invariant::Must;
use crate::keys::{ClaimKey, NodeId, OperationKey};
use crate::limits::CLAIMS_MAX;
use crate::node::{Command, Question, Request};
use crate::quorum::{Drift, Keeping, Kept, Lock, LockId, NodeSet};
use crate::slab::{Key, Slab};
use crate::time::Instant;

use super::alarm::Timers;
use super::nodes::Nodes;
use super::pool::{Pool, Spares};
use super::whole::Whole;
use busy::{Boxes, Stage};
use claim::{Claim, told_at};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Claims {
    slab: Slab<Claim>,
    /// The id of the engine that owns the claims.
    engine: u64,
    drift: Drift,
    /// Buffers for names and tokens. A lock keeps its buffer until it ends, so they are never used for commands, which
    /// would make them grow.
    pub(super) spares: Spares,
    /// Buffers for names alone.
    pub(super) buffers: Pool<u8>,
    /// Buffers for commands.
    commands: Pool<u8>,
    /// Memory for the busy parts of claims.
    boxes: Boxes,
    /// The voters of locks that were granted to another engine and are kept here. Such locks are rare. Only these nodes
    /// count when such a lock is extended.
    voters: BTreeMap<ClaimKey, NodeSet>,
}

/// What the methods of claims need: the time, the nodes, and the timers.
#[derive(Debug)]
pub(super) struct Below<'a> {
    pub(super) now: Instant,
    pub(super) nodes: &'a mut Nodes,
    pub(super) timers: &'a mut Timers,
}

/// What has to be done about a lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum LockDue {
    /// It is over, and its holder has to learn of it.
    Over,
    /// It is kept, and has to be extended by this ttl.
    Extend(Duration),
    /// It is at risk, and its holder has to learn of it.
    AtRisk,
}

impl Claims {
    pub(super) fn new(engine: u64, drift: Drift) -> Self {
        Self {
            slab: Slab::new(),
            engine,
            drift,
            spares: Spares::new(),
            buffers: Pool::new(),
            commands: Pool::new(),
            boxes: Boxes::new(),
            voters: BTreeMap::new(),
        }
    }

    pub(super) fn engine(&self) -> u64 {
        self.engine
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (ClaimKey, &Claim)> {
        self.slab.iter().map(|(key, claim)| (ClaimKey(key), claim))
    }

    /// Returns the number of entries in `voters`: locks from other engines that are kept here, or were and are still
    /// remembered.
    #[cfg(test)]
    pub(super) fn kept_from_elsewhere(&self) -> usize {
        self.voters.len()
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.slab.capacity()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// Returns `true` if there is room for another claim.
    pub(super) fn has_room(&self) -> bool {
        !guard!(ClaimsUnbounded, CLAIMS_MAX <= self.slab.len())
    }

    /// Adds the claim of an attempt that has sent nothing yet.
    pub(super) fn attempt(
        &mut self,
        operation: OperationKey,
        entry: Entry,
        life: Duration,
    ) -> ClaimKey {
        let claim = Claim::attempt(operation, entry, life, &mut self.boxes);
        self.insert(claim)
    }

    /// Adds the claim of a lock that was granted to another engine. Any of `nodes` may have a copy.
    pub(super) fn adopt(
        &mut self,
        entry: Entry,
        nodes: NodeSet,
        life: Duration,
        gone_by: Instant,
    ) -> ClaimKey {
        let claim = Claim::adopted(entry, nodes, life, gone_by, &mut self.boxes);
        self.insert(claim)
    }

    fn insert(&mut self, claim: Claim) -> ClaimKey {
        ClaimKey(self.slab.insert(claim))
    }

    pub(super) fn get(&self, claim: ClaimKey) -> Option<&Claim> {
        self.slab.get(claim.0)
    }

    pub(super) fn get_mut(&mut self, claim: ClaimKey) -> Option<&mut Claim> {
        self.slab.get_mut(claim.0)
    }

    /// Returns the claim and its key, if there is one.
    #[inline]
    pub(super) fn keyed(&mut self, claim: Option<ClaimKey>) -> Option<(ClaimKey, &mut Claim)> {
        let key = claim?;
        Some((key, self.get_mut(key)?))
    }

    /// Wakes `claim` and returns it.
    pub(super) fn wake(&mut self, claim: ClaimKey) -> Option<&mut Claim> {
        let claim = self.slab.get_mut(claim.0)?;
        claim.wake(&mut self.boxes);
        Some(claim)
    }

    /// Something about `claim` has ended. Lets it rest if nothing else is open.
    pub(super) fn rest(&mut self, claim: ClaimKey) {
        if let Some(claim) = self.slab.get_mut(claim.0) {
            claim.rest(&mut self.boxes);
        }
    }

    /// Returns the key of the claim at `index`, which must exist.
    pub(super) fn key_at(&self, index: u32) -> ClaimKey {
        ClaimKey(self.slab.key_at(index))
    }

    /// Returns `true` if the claim at `index`, which must exist, is on the resource called `name`.
    pub(super) fn is_on(&self, index: u32, name: &[u8]) -> bool {
        self.slab.at(index).entry.resource() == name
    }

    /// Returns the claim that `lock` names, if this engine has it and it is still held.
    pub(super) fn of(&self, lock: &Lock) -> Option<(ClaimKey, &Claim)> {
        let key = self.named_by(lock.id())?;
        let claim = self.slab.get(key.0)?;
        matches!(claim.busy().stage, Stage::Held { .. }).then_some((key, claim))
    }

    /// Like [`of`](Self::of), but mutable.
    pub(super) fn of_mut(&mut self, lock: &Lock) -> Option<(ClaimKey, &mut Claim)> {
        let key = self.named_by(lock.id())?;
        let claim = self.slab.get_mut(key.0)?;
        matches!(claim.busy().stage, Stage::Held { .. }).then_some((key, claim))
    }

    fn named_by(&self, lock: LockId) -> Option<ClaimKey> {
        let key = Key::from_bits(lock.claim).map(ClaimKey);
        key.filter(|_| lock.engine == self.engine)
    }

    pub(super) fn lock_id(&self, claim: ClaimKey) -> LockId {
        LockId {
            engine: self.engine,
            claim: claim.0.to_bits(),
        }
    }

    /// Returns when the last present key has expired. If a `SET` or an extension is unanswered, its key may last a
    /// whole life from now.
    #[cfg(feature = "std")]
    pub(super) fn keys_end_by(&self, now: Instant) -> Instant {
        let end = |claim: &Claim| match claim.may_be_written_yet() {
            true => claim.gone_by.max(self.drift.gone_by(now, claim.life())),
            false => claim.gone_by,
        };
        let ends = self.slab.iter().map(|(_, claim)| end(claim));
        ends.max().unwrap_or(now)
    }

    /// Returns an empty command with a buffer of the pool.
    pub(super) fn command(&mut self) -> Command {
        Command::new(self.commands.take())
    }

    /// Gives the buffer of `command` back to the pool.
    pub(super) fn sent(&mut self, command: Command) {
        self.commands.give(command.into_buffer());
    }

    /// `node` will never answer `request`. `left` is `true` if any part of the request may have arrived.
    pub(in crate::engine) fn unanswered(
        &mut self,
        node: NodeId,
        request: Request,
        left: bool,
        below: &mut Below<'_>,
    ) {
        match request {
            Request::Take { claim, .. } => {
                if let Some(there) = self.slab.get_mut(claim.0) {
                    match guard!(SentSetForgotten, left) {
                        true => there.set_lost(node),
                        false => there.set_not_run(node),
                    }
                    self.settle(claim, below);
                }
            }
            Request::Release { claim, .. } => self.owe(node, claim, below),
            Request::Question {
                question: Question::Extend,
                claim: Some(claim),
                ..
            } if left => {
                if let Some(claim) = self.slab.get_mut(claim.0) {
                    // The node may have run this extension, even if it denied an earlier one.
                    claim.busy_mut().copies.extending.insert(node);
                }
            }
            Request::Question { .. }
            | Request::Probe { .. }
            | Request::Raise { .. }
            | Request::Floor { .. }
            | Request::LookAtFloor { .. }
            | Request::Count { .. }
            | Request::Transaction
            | Request::Batch { .. }
            | Request::Withdrawn
            | Request::Why { .. }
            | Request::Handshake(_)
            | Request::Time
            | Request::Track
            | Request::Look { .. } => {}
        }
    }

    /// Forgets `claim`. Either no node can have its token any more, or it need not be tracked.
    fn end(&mut self, claim: ClaimKey, timers: &mut Timers) {
        let Some(there) = self.slab.remove(claim.0).must() else {
            return;
        };
        let (entry, timer, busy) = there.into_parts();
        self.spares.give(entry);
        if let Some(timer) = timer {
            timers.cancel(timer);
        }
        if let Some(busy) = busy {
            self.boxes.give(busy);
        }
        if !self.voters.is_empty() {
            self.voters.remove(&claim);
        }
    }

    // ----- time -----------------------------------------------------------------------------

    /// Handles the timer of `claim`. Returns what has to be done about its lock.
    pub(super) fn due(&mut self, claim: ClaimKey, below: &mut Below<'_>) -> Option<LockDue> {
        let locks = self.slab.len();
        let there = self.slab.get_mut(claim.0).must()?;
        there.timer = None;
        match there.busy().stage {
            Stage::Held { told: false } if below.now < told_at(there.stands_until()) => {
                let due = match there.tell_at_risk(below.now) {
                    true => Some(LockDue::AtRisk),
                    false => there
                        .extension_due(below.now, locks, self.drift, &mut self.boxes)
                        .map(LockDue::Extend),
                };
                there.watch(claim, self.drift, below.timers);
                return due; // None: the lock was extended meanwhile.
            }
            Stage::Held { told: false, .. } => return Some(LockDue::Over),
            Stage::Held { told: true, .. } => self.forget(below.now, claim, below.timers),
            Stage::Releasing { .. } => self.expire_debts(claim, below),
            Stage::Attempt { .. } => {}
        }
        None
    }

    /// Starts to extend `lock`, whose claim must exist.
    pub(super) fn keep(&mut self, lock: &mut Lock, keeping: Keeping, timers: &mut Timers) {
        let drift = self.drift;
        let Some((key, claim)) = self.of_mut(lock).must() else {
            return;
        };
        claim.begin_again();
        let is_adopted = claim.is_adopted();
        claim.kept = Some(lock.keep(keeping));
        claim.watch(key, drift, timers);
        if guard!(EveryVoterCounts, is_adopted) {
            self.voters.insert(key, lock.voters());
        }
    }

    /// Returns the nodes of `all` whose yes counts when the kept lock of `claim` is extended. If the lock was granted
    /// to another engine, only the nodes it stands on count. The previous owner may still release a copy that it had no
    /// answer about, over its own connection, after it was extended here.
    pub(super) fn voters(&self, claim: ClaimKey, all: NodeSet) -> NodeSet {
        self.voters.get(&claim).copied().unwrap_or(all)
    }

    /// Returns the lock delay of `claim`: how much longer than its validity the nodes keep the keys.
    pub(super) fn delay(&self, claim: ClaimKey) -> Delay {
        let claim = self.slab.get(claim.0);
        claim.map_or_else(Delay::default, |claim| claim.entry.delay())
    }

    /// Marks the extension of the kept lock of `claim` as waiting. Returns `false` if it waits already.
    pub(super) fn extend_later(&mut self, claim: ClaimKey) -> bool {
        let claim = self.slab.get(claim.0).must();
        let kept = claim.and_then(|claim| claim.kept.as_deref());
        kept.is_some_and(Kept::waits_from_now_on)
    }

    /// Ends the wait of the extension of `claim`. Returns the ttl of that extension, or `None` if the lock is over or was
    /// released meanwhile.
    pub(super) fn extend_now(
        &mut self,
        claim: ClaimKey,
        below: &mut Below<'_>,
    ) -> Option<Duration> {
        let locks = self.slab.len();
        let there = self.slab.get_mut(claim.0)?;
        let kept = there.kept.as_ref().filter(|_| there.is_held())?;
        kept.waits_no_more();
        there.begin_again(); // Forgets when the next try was due.
        let ttl = there.extension_due(below.now, locks, self.drift, &mut self.boxes);
        there.watch(claim, self.drift, below.timers);
        ttl.or_else(|| self.extension(below.now, claim)) // A node may lack a copy.
    }

    /// Returns the next claim of a kept lock that has to be made `whole`.
    pub(super) fn next_to_make_whole(&self, whole: &mut Whole) -> Option<ClaimKey> {
        if whole.back.is_empty() {
            return None;
        }
        let found = self
            .slab
            .find(whole.next, |claim| claim.is_to_be_made_whole(whole));
        match found {
            Some((index, _)) => whole.next = index + 1,
            None => (whole.back, whole.forgetful) = (NodeSet::EMPTY, NodeSet::EMPTY),
        }
        found.map(|(_, key)| ClaimKey(key))
    }

    /// Returns the ttl by which the lock of `claim` can be extended at `now`, if it is kept.
    pub(super) fn extension(&self, now: Instant, claim: ClaimKey) -> Option<Duration> {
        let there = self.slab.get(claim.0).filter(|claim| claim.is_held())?;
        let kept = there.kept.as_ref()?;
        kept.extension(now, there.valid_until(), self.drift)
    }

    /// Asks for an alert when less than `left` is left of `lock`, if it is held here and not over.
    pub(super) fn alert(&mut self, lock: LockId, left: Duration, timers: &mut Timers) {
        let Some(key) = self.named_by(lock) else {
            return;
        };
        let claim = self.slab.get_mut(key.0);
        if let Some(claim) = claim.filter(|claim| claim.is_held()) {
            claim.alert(left);
            claim.watch(key, self.drift, timers);
        }
    }

    /// Returns `true` if an extension of the lock of `claim` is counting votes.
    pub(super) fn is_extending(&self, claim: ClaimKey) -> bool {
        let claim = self.slab.get(claim.0);
        claim.is_some_and(|claim| claim.busy().extending != 0)
    }

    /// Returns `true` if `lock` was not released and its end was not reported.
    pub(super) fn holds(&self, lock: LockId) -> bool {
        let claim = Key::from_bits(lock.claim).and_then(|claim| self.slab.get(claim));
        claim.is_some_and(Claim::is_held)
    }

    /// Returns the end of the validity of `lock`. [`Instant::ZERO`] if it is not known, or the lock has no claim any
    /// more.
    #[cfg(feature = "std")]
    pub(super) fn end_of(&self, lock: LockId) -> Instant {
        let claim = Key::from_bits(lock.claim).and_then(|claim| self.slab.get(claim));
        claim.map_or(Instant::ZERO, Claim::valid_until)
    }

    /// Returns whether the end of `lock` was reported, if it is kept and a caller still has it.
    #[cfg(feature = "std")]
    pub(super) fn is_over_though_kept(&self, lock: LockId) -> Option<bool> {
        let claim = self.slab.get(Key::from_bits(lock.claim)?)?;
        let kept = claim.kept.as_ref().filter(|kept| kept.is_had())?;
        Some(kept.is_over())
    }

    /// Ends all kept locks for their holders.
    #[cfg(feature = "std")]
    pub(super) fn end_all_kept(&self) {
        let kept = self
            .slab
            .iter()
            .filter_map(|(_, claim)| claim.kept.as_deref());
        kept.for_each(Kept::tell_over);
    }

    /// Keeps the claim of a lock that is over and was never released until its keys are gone, so that a late release
    /// still goes to the right nodes. Withdraws copies that wait for room.
    pub(super) fn remember(&mut self, claim: ClaimKey, below: &mut Below<'_>) {
        let all = below.nodes.set();
        if let Some(there) = self.slab.get_mut(claim.0).must() {
            there.take_back(all, claim, below);
        }
        self.forget_later(below.now, claim, below.timers);
    }

    fn forget_later(&mut self, now: Instant, key: ClaimKey, timers: &mut Timers) {
        let Some(claim) = self.slab.get_mut(key.0).must() else {
            return;
        };
        if claim.is_adopted() {
            // The longest life may be a month, and a late release goes to all nodes anyway.
            return self.end(key, timers);
        }
        let at = claim.gone_by.max(now.saturating_add(claim.life()));
        claim.wake_at(at, key, timers);
    }

    fn forget(&mut self, now: Instant, key: ClaimKey, timers: &mut Timers) {
        // A claim whose `SET` may still run is kept until the lock is released.
        let running = self.slab.get(key.0).map(Claim::running);
        if running.is_some_and(|nodes| !nodes.is_empty()) {
            self.forget_later(now, key, timers);
        } else {
            self.end(key, timers);
        }
    }
}
