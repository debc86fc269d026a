//! A lock that is held, as a value.

use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use super::{Keeping, Kept, Majority, NodeSet};
use crate::delay::Delay;
use crate::entry::Entry;
use crate::error::Shown;
use crate::resource::Token;
use crate::time::Instant;

/// Identifies a held lock to the engine that granted or adopted it.
///
/// It is unique for the lifetime of that engine, and can only be compared.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LockId {
    pub(crate) engine: u64,
    pub(crate) claim: u64,
}

/// A lock: its resource, its token, and until when it may be trusted.
///
/// It is a plain value: dropping it releases nothing, and the keys end with their ttl. Give it to
/// `unlock` to release it, or let a `LockGuard` do so.
///
/// A lock is made from a proof of majority. Only another proof lengthens its validity; when its engine learns that
/// a majority has lost it, its validity ends. Its name and token are in one buffer, which it shares with its engine
/// and which goes back to the engine's pool when it is released.
#[must_use = "a lock that is not released stays on the nodes until its ttl has passed"]
pub struct Lock {
    entry: Entry,
    id: LockId,
    /// What its engine extends it by, if that does so by itself.
    kept: Option<Arc<Kept>>,
    /// Of one that is not kept.
    extensions_left: u32,
    /// The nodes that said that they have it, up to the last verdict.
    voters: NodeSet,
}

impl LockId {
    /// The id of a lock that has no claim in any engine.
    pub(crate) const NONE: Self = Self {
        engine: 0,
        claim: 0,
    };
}

impl Lock {
    /// The lock that `majority` granted; `entry` says until when.
    pub(crate) fn granted(
        majority: &Majority,
        entry: Entry,
        id: LockId,
        extensions_left: u32,
    ) -> Self {
        Self {
            entry,
            id,
            kept: None,
            extensions_left,
            voters: majority.nodes(),
        }
    }

    /// A lock that was granted elsewhere, until then at most. It is given an id when adopted.
    #[cfg(feature = "std")]
    pub(crate) fn transferred(
        entry: Entry,
        valid_until: Instant,
        ttl: Duration,
        voters: NodeSet,
    ) -> Self {
        entry.set_end(valid_until, ttl);
        Self {
            entry,
            id: LockId::NONE,
            kept: None,
            extensions_left: u32::MAX,
            voters,
        }
    }

    /// Returns its resource, the Redis key: 1 to 1024 bytes of any value. Of a lock on several
    /// [resources](Self::resources) it is the first.
    #[must_use]
    pub fn resource(&self) -> &[u8] {
        self.entry.resource()
    }

    /// Returns all its resources, in the order in which they were given to `lock_all`; of a lock on one
    /// resource, that.
    pub fn resources(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.entry.names()
    }

    /// Returns its token, what the key holds on the nodes.
    #[must_use]
    pub fn token(&self) -> Token<'_> {
        self.entry.token()
    }

    /// Returns its fencing token, if it was [asked for](crate::LockOptions::fenced) with one: a number that is
    /// larger than that of every lock on the same resource before it. Of a lock on several resources it is
    /// larger than that of every lock before it on any of them.
    ///
    /// Hand it to the store with each write, and with each read that a write is computed from. The store keeps the
    /// largest that it has seen, and refuses what comes with a smaller one: a holder that was stopped for longer than
    /// its lock lasted does no harm then. [`manual::safety`](crate::manual::safety#what-the-store-has-to-do) has recipes.
    ///
    /// It stays the same for as long as the lock is held: extended, kept, confirmed, handed over, as bytes.
    #[must_use]
    pub fn fencing_token(&self) -> Option<u64> {
        self.entry.fencing_token()
    }

    /// Returns its id in its engine, which `Event::Expired` carries when it is lost.
    #[must_use]
    pub fn id(&self) -> LockId {
        self.id
    }

    /// Returns the instant, by the clock of the engine, from which on the lock must not be trusted.
    #[must_use]
    pub fn valid_until(&self) -> Instant {
        self.entry.end()
    }

    /// Returns `true` if it may be trusted at `now`. To the nanosecond: at [`Lock::valid_until`] it
    /// may not.
    #[must_use]
    pub fn is_valid_at(&self, now: Instant) -> bool {
        now < self.valid_until()
    }

    /// Returns how long it may be trusted from `now` on.
    #[must_use]
    pub fn validity_at(&self, now: Instant) -> Duration {
        self.valid_until().saturating_since(now)
    }

    /// Returns the longest ttl that it was taken or extended with. A
    /// [lock delay](crate::Builder::lock_delay) is no part of it.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.entry.ttl()
    }

    /// Returns the same, or the ttl by which its engine extends it, if that is shorter.
    #[cfg(feature = "std")]
    pub(crate) fn shortest_ttl(&self) -> Duration {
        let step = self.kept.as_ref().map(|kept| kept.step());
        step.map_or(self.ttl(), |step| step.min(self.ttl()))
    }

    /// Returns for how much longer than it is valid its keys are kept.
    pub(crate) fn delay(&self) -> Delay {
        self.entry.delay()
    }

    /// Returns how many more extensions it was granted.
    #[must_use]
    pub fn extensions_left(&self) -> u32 {
        let kept = self.kept.as_ref();
        kept.map_or(self.extensions_left, |kept| kept.extensions_left())
    }

    /// A majority has confirmed it, until `end`, which `entry` has: it may be a copy of the lock, with an end of its
    /// own. That `counts` as one of its extensions, or not.
    pub(crate) fn confirmed(
        &mut self,
        majority: &Majority,
        (entry, end): (&Entry, Instant),
        counts: bool,
    ) {
        if !self.entry.is_one_with(entry) {
            self.entry.set_end(end, entry.ttl());
        }
        self.voters = self.voters.union(majority.nodes());
        match &self.kept {
            _ if !counts => {}
            Some(kept) => _ = kept.count(),
            None => self.extensions_left = one_less(self.extensions_left),
        }
    }

    // ----- keeping --------------------------------------------------------------------------

    /// Begins to keep it. Returns what its engine extends it by.
    pub(crate) fn keep(&mut self, keeping: Keeping) -> Arc<Kept> {
        let kept = Kept::new(keeping, self.extensions_left()); // It may be kept already.
        Arc::clone(self.kept.insert(Arc::new(kept)))
    }

    /// Returns `true` if its engine extends it by itself, or has done so.
    #[cfg(feature = "std")]
    pub(crate) fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// Returns `true` if its engine, which keeps it, has reported its end.
    #[cfg(feature = "std")]
    pub(crate) fn is_kept_and_over(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.is_over())
    }

    /// It goes to another process: its engine does not extend it any more.
    #[cfg(feature = "std")]
    pub(crate) fn end_keeping(&self) {
        if let Some(kept) = &self.kept {
            kept.end();
        }
    }

    /// It leaves the engine that had it: its end is its own again. That engine, or a question that is open, may still
    /// write an end into an entry that they share.
    pub(crate) fn leave(&mut self) {
        if let Some(kept) = self.kept.take() {
            self.extensions_left = kept.extensions_left();
        }
        self.entry.part();
    }

    // ----- its end --------------------------------------------------------------------------

    /// Returns `true` if its end is known. The end of a lock from another clock is not known: it
    /// was not reported as over, and can still be confirmed.
    #[cfg(feature = "std")]
    pub(crate) fn has_known_end(&self) -> bool {
        self.valid_until() != Instant::ZERO
    }

    /// It was read under another clock: its validity is zero.
    #[cfg(test)]
    pub(crate) fn forget_end(&mut self) {
        self.entry.set_end(Instant::ZERO, self.ttl());
    }

    /// A majority said it is gone.
    #[cfg(feature = "std")]
    pub(crate) fn lost(&mut self, now: Instant) {
        self.entry.end_now(now);
    }

    /// Returns the nodes whose copy stays when the lock is handed over. A copy on another node may
    /// still be released, behind its `SET`.
    pub(crate) fn voters(&self) -> NodeSet {
        self.voters
    }

    pub(crate) fn set_voters(&mut self, voters: NodeSet) {
        self.voters = voters;
    }

    pub(crate) fn entry(&self) -> &Entry {
        &self.entry
    }

    pub(crate) fn into_entry(self) -> Entry {
        self.entry
    }

    pub(crate) fn set_id(&mut self, id: LockId) {
        self.id = id;
    }
}

/// Returns how many extensions are left after one of `left`.
pub(super) const fn one_less(left: u32) -> u32 {
    match left {
        u32::MAX => u32::MAX, // Any number.
        limited => limited.saturating_sub(1),
    }
}

/// A name as text.
struct Name<'a>(&'a [u8]);

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", Shown(self.0))
    }
}

/// The names of a lock on several resources.
struct Names<'a>(&'a Lock);

impl fmt::Debug for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.resources().map(Name))
            .finish()
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lock = f.debug_struct("Lock");
        match self.entry.is_several() {
            true => lock.field("resources", &Names(self)),
            false => lock.field("resource", &Name(self.resource())),
        };
        lock.field("token", &self.token());
        if let Some(token) = self.fencing_token() {
            lock.field("fencing_token", &token);
        }
        lock.field("valid_until", &self.valid_until())
            .finish_non_exhaustive()
    }
}
