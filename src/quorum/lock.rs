//! A held lock, as a value.

use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use super::{Keeping, Kept, Majority, NodeSet};
use crate::delay::Delay;
use crate::entry::{Entry, Kind};
use crate::error::Shown;
use crate::resource::Token;
use crate::time::Instant;

/// The id of a held lock in the engine that granted or adopted the lock.
///
/// The id is unique for the lifetime of that engine. Ids can only be compared.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LockId {
    pub(crate) engine: u64,
    pub(crate) claim: u64,
}

/// A lock: its resource, its token, and the end of its validity.
///
/// A lock is a plain value. Dropping a lock releases nothing, and its keys expire with their ttl. To release the lock,
/// pass it to `unlock`, or let a `LockGuard` release it.
///
/// A lock is created only after a majority of the nodes has confirmed it, and each extension needs a majority again.
/// When the engine learns that a majority has lost the lock, the validity ends. The name and the token are in one
/// buffer, which the lock shares with its engine. When the lock is released, the engine reuses this buffer.
#[must_use = "a lock that is not released stays on the nodes until its ttl has passed"]
pub struct Lock {
    entry: Entry,
    id: LockId,
    /// The policy of the extensions, if the engine keeps the lock.
    kept: Option<Arc<Kept>>,
    /// The number of extensions that are left, if the engine does not keep the lock.
    extensions_left: u32,
    /// The nodes that had confirmed the lock when its grant or last extension was decided.
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
    /// Creates the lock that `majority` has granted. The end of the validity is in `entry`.
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

    /// Creates a lock that was granted by another engine, and is valid until `valid_until` at most. The lock gets an id
    /// when an engine adopts it.
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

    /// Returns the resource. The resource is the Redis key, which has 1 to 1024 arbitrary bytes. For a lock on
    /// several [resources](Self::resources), returns the first resource.
    #[must_use]
    pub fn resource(&self) -> &[u8] {
        self.entry.resource()
    }

    /// Returns all resources, in the order that the caller passed to `lock_all`. For a lock on one resource, returns
    /// only this resource.
    pub fn resources(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.entry.names()
    }

    /// Returns the token, which is the value of the key on the nodes.
    #[must_use]
    pub fn token(&self) -> Token<'_> {
        self.entry.token()
    }

    /// Returns `true` if this is a shared lock. Other clients may have shared locks on the same resource.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.entry.kind() == Kind::Shared
    }

    /// Returns the fencing token, if the caller [asked for](crate::LockOptions::fenced) a fenced lock. The number is
    /// larger than the fencing token of every earlier lock on the same resource. For a lock on several resources, the
    /// number is larger than the fencing token of every earlier lock on any of them.
    ///
    /// Pass the number to the store with each write, and with each read on which a write depends. The store remembers
    /// the largest number that it has seen, and refuses requests with a smaller number. So a holder that was paused
    /// until its lock expired does no harm. The
    /// page [`manual::fencing`](crate::manual::fencing#what-the-store-has-to-do) contains recipes.
    ///
    /// The number does not change while the lock is held, even if the lock is extended, kept, confirmed, handed over,
    /// or written as bytes.
    #[must_use]
    pub fn fencing_token(&self) -> Option<u64> {
        self.entry.fencing_token()
    }

    /// Returns the slot of a permit, counted from 0. No two holders of permits of one resource have the same slot at
    /// the same time. Returns `None` if this is not a permit.
    #[must_use]
    pub fn slot(&self) -> Option<u16> {
        match self.entry.kind() {
            Kind::Permit { slot, .. } => Some(slot),
            Kind::Plain | Kind::Shared => None,
        }
    }

    /// Returns the id of the lock in its engine. `Event::Expired` carries this id when the lock is lost.
    #[must_use]
    pub fn id(&self) -> LockId {
        self.id
    }

    /// Returns the end of the validity, by the clock of the engine. From this instant on, do not rely on the lock.
    #[must_use]
    pub fn valid_until(&self) -> Instant {
        self.entry.end()
    }

    /// Returns `true` if the lock is valid at `now`, to the nanosecond. At [`Lock::valid_until`] the lock is no longer
    /// valid.
    #[must_use]
    pub fn is_valid_at(&self, now: Instant) -> bool {
        now < self.valid_until()
    }

    /// Returns how much longer the lock is valid, counted from `now`.
    #[must_use]
    pub fn validity_at(&self, now: Instant) -> Duration {
        self.valid_until().saturating_since(now)
    }

    /// Returns the longest ttl with which the lock was taken or extended, without the [lock
    /// delay](crate::Builder::lock_delay).
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.entry.ttl()
    }

    /// Returns the [ttl](Self::ttl) or the ttl by which the engine extends the lock, whichever is shorter.
    #[cfg(feature = "std")]
    pub(crate) fn shortest_ttl(&self) -> Duration {
        let step = self.kept.as_ref().map(|kept| kept.step());
        step.map_or(self.ttl(), |step| step.min(self.ttl()))
    }

    /// Returns the lock delay: how much longer the nodes keep the keys than the lock is valid.
    pub(crate) fn delay(&self) -> Delay {
        self.entry.delay()
    }

    /// Returns how many more times the lock may be extended.
    #[must_use]
    pub fn extensions_left(&self) -> u32 {
        let kept = self.kept.as_ref();
        kept.map_or(self.extensions_left, |kept| kept.extensions_left())
    }

    /// Records that a majority has confirmed the lock until `end`. The engine has already stored `end` in the `entry`
    /// of its request. If the lock was read from bytes, it has another entry. `counts` says whether this extension
    /// counts towards the limit on extensions.
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

    // ----- keeping ----------------------------------------------------------------------------

    /// Begins to keep the lock. Returns the state that the lock shares with the engine.
    pub(crate) fn keep(&mut self, keeping: Keeping) -> Arc<Kept> {
        let kept = Kept::new(keeping, self.extensions_left()); // The lock may already be kept.
        Arc::clone(self.kept.insert(Arc::new(kept)))
    }

    /// Returns `true` if the engine keeps the lock, or has kept it.
    #[cfg(feature = "std")]
    pub(crate) fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// Returns `true` if the engine keeps the lock, and has reported that the lock has ended.
    #[cfg(feature = "std")]
    pub(crate) fn is_kept_and_over(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.is_over())
    }

    /// Makes the engine stop extending the lock, because another process takes it over.
    #[cfg(feature = "std")]
    pub(crate) fn end_keeping(&self) {
        if let Some(kept) = &self.kept {
            kept.end();
        }
    }

    /// Separates the lock from its engine, and gives it an entry of its own. The engine or an unanswered request may
    /// still change the end of the validity in the shared entry.
    pub(crate) fn leave(&mut self) {
        if let Some(kept) = self.kept.take() {
            self.extensions_left = kept.extensions_left();
        }
        self.entry.part();
    }

    // ----- end of the validity ----------------------------------------------------------------

    /// Returns `true` if the end of the validity is known. The end is not known if another clock has measured the lock.
    /// In that case, the lock has not been reported as ended, and can still be confirmed.
    #[cfg(feature = "std")]
    pub(crate) fn has_known_end(&self) -> bool {
        self.valid_until() != Instant::ZERO
    }

    /// Makes the end of the validity unknown, as if another clock had measured the lock.
    #[cfg(test)]
    pub(crate) fn forget_end(&mut self) {
        self.entry.set_end(Instant::ZERO, self.ttl());
    }

    /// Ends the validity, because a majority reports that the lock is gone.
    #[cfg(feature = "std")]
    pub(crate) fn lost(&mut self, now: Instant) {
        self.entry.end_now(now);
    }

    /// Returns the nodes on which the keys stay when the lock is handed over. On other nodes, the engine may still
    /// release the keys.
    pub(crate) fn voters(&self) -> NodeSet {
        self.voters
    }

    pub(crate) fn set_voters(&mut self, voters: NodeSet) {
        self.voters = voters;
    }

    pub(crate) fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Replaces the lock's entry with another `entry` for the same name and token.
    pub(crate) fn set_entry(&mut self, entry: Entry) {
        self.entry = entry;
    }

    pub(crate) fn into_entry(self) -> Entry {
        self.entry
    }

    pub(crate) fn set_id(&mut self, id: LockId) {
        self.id = id;
    }
}

/// Returns the number of extensions that remain after one more extension, if `left` remain now.
pub(super) const fn one_less(left: u32) -> u32 {
    match left {
        u32::MAX => u32::MAX, // Unlimited.
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
