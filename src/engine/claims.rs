//! The claims: what tokens may have left on the nodes, with their timers and their releases.
//!
//! The engine sends a release to every node that may hold the token, over the connection that carried the `SET` and
//! behind it. If there is no connection or no room, the release is a debt. It is sent before anything else as soon as
//! there is a connection with room. An answer of the node ends it. Time alone ends it only if the expiry of the key is
//! known.
//!
//! # Not here
//!
//! The operation that waits for a release: functions return what an answer means to it.

pub(super) mod busy;
pub(super) mod claim;
pub(super) mod copies;
pub(super) mod copy;
mod releases;

use core::time::Duration;

use crate::entry::Entry;
use crate::invariant::Must;
use crate::keys::{ClaimKey, NodeId, OperationKey};
use crate::limits::CLAIMS_MAX;
use crate::node::{Command, Question, Request};
use crate::quorum::{Drift, Lock, LockId, NodeSet};
use crate::slab::{Key, Slab};
use crate::time::Instant;

use super::alarm::Timers;
use super::nodes::Nodes;
use super::pool::{Boxes, Pool, Spares};
use busy::{Busy, Stage};
use claim::Claim;

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
    boxes: Boxes<Busy>,
}

/// What the methods of claims need: the time, the nodes, and the timers.
#[derive(Debug)]
pub(super) struct Below<'a> {
    pub(super) now: Instant,
    pub(super) nodes: &'a mut Nodes,
    pub(super) timers: &'a mut Timers,
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
        }
    }

    pub(super) fn engine(&self) -> u64 {
        self.engine
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    #[cfg(any(feature = "std", test))]
    pub(super) fn iter(&self) -> impl Iterator<Item = (ClaimKey, &Claim)> {
        self.slab.iter().map(|(key, claim)| (ClaimKey(key), claim))
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
        self.insert(entry, Busy::of(Stage::Attempt { operation }, life))
    }

    /// Adds the claim of a lock that was granted to another engine. Any of `nodes` may have a copy.
    pub(super) fn adopt(
        &mut self,
        entry: Entry,
        nodes: NodeSet,
        life: Duration,
        gone_by: Instant,
    ) -> ClaimKey {
        let key = self.insert(entry, Busy::adopted(nodes, life));
        if let Some(claim) = self.get_mut(key) {
            (claim.held, claim.gone_by) = (nodes, gone_by);
        }
        key
    }

    fn insert(&mut self, entry: Entry, busy: Busy) -> ClaimKey {
        let claim = Claim::new(entry, self.boxes.put(busy));
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

    /// Returns the key that `lock` has if this engine has it.
    pub(super) fn named_by(&self, lock: LockId) -> Option<ClaimKey> {
        let key = Key::from_bits(lock.claim).map(ClaimKey);
        key.filter(|_| lock.engine == self.engine)
    }

    /// Returns the claim of `lock`, if this engine has it.
    pub(super) fn by_id(&self, lock: LockId) -> Option<&Claim> {
        self.get(self.named_by(lock)?)
    }

    /// Returns the first claim at `index` or behind it that is `wanted`, with its index.
    pub(super) fn find(
        &self,
        index: usize,
        wanted: impl FnMut(&Claim) -> bool,
    ) -> Option<(usize, ClaimKey)> {
        let (index, key) = self.slab.find(index, wanted)?;
        Some((index, ClaimKey(key)))
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
        let end = |claim: &Claim| {
            let open = claim.running().union(claim.busy().copies.extending);
            match open.is_empty() {
                true => claim.gone_by,
                false => claim.gone_by.max(self.drift.gone_by(now, claim.life())),
            }
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
            | Request::Why { .. }
            | Request::Name { .. } => {}
        }
    }

    /// Forgets `claim`. Either no node can have its token any more, or it need not be tracked.
    fn end(&mut self, claim: ClaimKey, timers: &mut Timers) {
        let Some(there) = self.slab.remove(claim.0).must() else {
            return;
        };
        self.spares.give(there.entry);
        if let Some(timer) = there.timer {
            timers.cancel(timer);
        }
        if let Some(busy) = there.busy {
            self.boxes.give(busy);
        }
    }

    // ----- time -----------------------------------------------------------------------------

    /// Handles the timer of `claim`. If its lock is held, returns the claim: the keeper knows what is due then.
    pub(super) fn due(&mut self, claim: ClaimKey, below: &mut Below<'_>) -> Option<&mut Claim> {
        let there = self.slab.get_mut(claim.0).must()?;
        there.timer = None;
        match there.busy().stage {
            Stage::Held { told: false } => return self.get_mut(claim),
            Stage::Held { told: true } => self.forget(below.now, claim, below.timers),
            Stage::Releasing { .. } => self.expire_debts(claim, below),
            Stage::Attempt { .. } => {}
        }
        None
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
