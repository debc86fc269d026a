//! The claims: the keys that each token may have left on the nodes, with their timers and releases.
//!
//! The engine sends a release to every node that may have the token. The release follows the `SET` on the same
//! connection. If the release cannot be sent now, or if its answer is lost, the release becomes a *debt*. The engine
//! then retries the release, before it sends any other command, until the node answers or the key has certainly
//! expired.
//!
//! # Not here
//!
//! The engine itself passes each answer to the operation that waits for the release.

pub(super) mod busy;
pub(super) mod claim;
pub(super) mod copies;
pub(super) mod copy;
mod releases;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use crate::entry::{Entry, Spare};
use crate::invariant::Must;
use crate::keys::{ClaimKey, OperationKey};
use crate::limits::CLAIMS_MAX;
use crate::node::Command;
use crate::quorum::{Drift, LockId, NodeSet};
use crate::slab::{Key, Slab};
use crate::time::Instant;

use super::alarm::Timers;
use super::nodes::Nodes;
use super::pool::Pool;
use super::stats::Stats;
use busy::{Busy, Stage};
use claim::Claim;
use copies::Copies;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Claims {
    pub(super) slab: Slab<Claim>,
    /// The id of the engine that owns the claims.
    pub(super) engine: u64,
    drift: Drift,
    /// Buffers for names and tokens. A lock keeps its buffer until it ends, so these buffers are smaller than buffers
    /// for commands.
    pub(super) spares: Pool<Spare>,
    /// Buffers for names without tokens.
    pub(super) buffers: Pool<Vec<u8>>,
    /// Buffers for commands.
    commands: Pool<Vec<u8>>,
    /// Reusable memory for the busy parts of claims.
    boxes: Pool<Box<Busy>>,
    /// The names of claims that have ended while the operation that releases them is still open. The operation needs
    /// the name for its error. Only the latest names are kept.
    ended: VecDeque<(ClaimKey, Entry)>,
}

/// The claims, the current time, and the parts that releases need: nodes, timers and statistics.
#[derive(Debug)]
pub(super) struct ClaimsAt<'a> {
    pub(super) now: Instant,
    pub(super) claims: &'a mut Claims,
    pub(super) nodes: &'a mut Nodes,
    pub(super) timers: &'a mut Timers,
    pub(super) stats: &'a mut Stats,
}

impl Claims {
    pub(super) fn new(engine: u64, drift: Drift) -> Self {
        Self {
            slab: Slab::new(),
            engine,
            drift,
            spares: Pool::new(),
            buffers: Pool::new(),
            commands: Pool::new(),
            boxes: Pool::new(),
            ended: VecDeque::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    #[cfg(any(feature = "std", test))]
    pub(super) fn iter(&self) -> impl Iterator<Item = (ClaimKey, &Claim)> {
        self.slab.iter().map(|(key, claim)| (ClaimKey(key), claim))
    }

    /// Returns `true` if the number of claims is below its limit.
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
        let busy = Busy {
            is_adopted: true,
            copies: Copies::found_elsewhere(nodes),
            ..Busy::of(Stage::Held { told: false }, life)
        };
        let key = self.insert(entry, busy);
        if let Some(claim) = self.get_mut(key) {
            (claim.may_hold, claim.gone_by) = (nodes, gone_by);
        }
        key
    }

    fn insert(&mut self, entry: Entry, busy: Busy) -> ClaimKey {
        let claim = Claim::new(entry, busy.placed(self.boxes.take()));
        ClaimKey(self.slab.insert(claim))
    }

    pub(super) fn get(&self, claim: ClaimKey) -> Option<&Claim> {
        self.slab.get(claim.0)
    }

    pub(super) fn get_mut(&mut self, claim: ClaimKey) -> Option<&mut Claim> {
        self.slab.get_mut(claim.0)
    }

    /// Returns the name and the token of `claim`, even if the claim has just ended.
    #[cold]
    pub(super) fn entry_of(&self, claim: ClaimKey) -> Option<Entry> {
        let ended = self.ended.iter().find(|(key, _)| *key == claim);
        let there = self.get(claim).map(|claim| &claim.entry);
        there.or(ended.map(|(_, entry)| entry)).cloned()
    }

    /// Returns the claim and its key, if the claim exists.
    #[inline]
    pub(super) fn keyed(&mut self, claim: Option<ClaimKey>) -> Option<(ClaimKey, &mut Claim)> {
        let key = claim?;
        Some((key, self.get_mut(key)?))
    }

    /// Returns the busy part of `claim` to the pool if no work on the claim is open.
    pub(super) fn rest(&mut self, claim: ClaimKey) {
        if let Some(busy) = self.get_mut(claim).and_then(Claim::rest) {
            self.boxes.give(busy);
        }
    }

    /// Like [`get_mut`](Self::get_mut), but first creates the claim's busy part if the claim has none.
    pub(super) fn woken(&mut self, claim: ClaimKey) -> Option<&mut Claim> {
        let claim = self.slab.get_mut(claim.0)?;
        if claim.busy.is_none() {
            claim.wake(self.boxes.take());
        }
        Some(claim)
    }

    /// Returns the claim at `index`, which must exist, and its key.
    pub(super) fn at(&self, index: u32) -> (ClaimKey, &Claim) {
        (ClaimKey(self.slab.key_at(index)), self.slab.at(index))
    }

    /// Returns the claim of `lock` and its key, if this engine has the claim and a caller holds the lock.
    pub(super) fn of(&mut self, lock: LockId) -> Option<(ClaimKey, &mut Claim)> {
        let key = self.named_by(lock)?;
        let claim = self.get_mut(key)?;
        matches!(claim.busy().stage, Stage::Held { .. }).then_some((key, claim))
    }

    /// Returns the claim of `lock`, if this engine has the claim.
    pub(super) fn by_id(&self, lock: LockId) -> Option<&Claim> {
        self.get(self.named_by(lock)?)
    }

    /// Returns `true` if `lock` was neither released nor handed over, and the engine has not reported its end.
    pub(super) fn holds(&self, lock: LockId) -> bool {
        self.by_id(lock).is_some_and(Claim::is_held)
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

    /// Returns the time at which the last key of all claims must have expired. A key with an unanswered `SET` or
    /// extension may live for a whole ttl from now.
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

    /// Returns an empty command with a buffer from the pool.
    pub(super) fn command(&mut self) -> Command {
        Command::new(self.commands.take().unwrap_or_default())
    }

    /// Returns the buffer of `command` to the pool.
    pub(super) fn sent(&mut self, command: Command) {
        self.commands.give_buffer(command.into_buffer());
    }

    /// Forgets `claim`, cancels its timer, and reuses its memory.
    pub(super) fn end(&mut self, claim: ClaimKey, timers: &mut Timers) {
        let Some(there) = self.slab.remove(claim.0).must() else {
            return;
        };
        if let Some(spare) = there.entry.into_spare() {
            self.spares.give(spare);
        }
        if let Some(timer) = there.timer {
            timers.cancel(timer);
        }
        if let Some(busy) = there.busy {
            self.boxes.give(busy);
        }
    }
}

/// Remembers the name of `claim`, because the claim may end before an error message needs the name.
#[cold]
fn note_name(ended: &mut VecDeque<(ClaimKey, Entry)>, claim: ClaimKey, entry: &Entry) {
    const MOST: usize = 64;
    if ended.iter().all(|(key, _)| *key != claim) {
        ended.truncate(MOST - 1);
        ended.push_front((claim, entry.clone()));
    }
}
