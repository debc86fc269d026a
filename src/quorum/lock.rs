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

/// Identifies a held lock to the engine that granted or adopted it.
///
/// It is unique for the lifetime of that engine, and can only be compared.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LockId {
    pub(crate) engine: u64,
    pub(crate) claim: u64,
}

/// A lock: its resource, its token, and the end of its validity.
///
/// It is a plain value: dropping it releases nothing, and the keys end with their ttl. Give it to
/// `unlock` to release it, or let a `LockGuard` do so.
///
/// Only a proof of majority makes a lock, and only another one lengthens its validity. When its engine learns that a
/// majority has lost the lock, its validity ends. Its name and token are in one buffer, which it shares with its engine
/// and which goes back to the engine's pool when the lock is released.
#[must_use = "a lock that is not released stays on the nodes until its ttl has passed"]
pub struct Lock {
    entry: Entry,
    id: LockId,
    /// The policy of its extensions, if its engine extends it by itself.
    kept: Option<Arc<Kept>>,
    /// The extensions that are left, if it is not kept.
    extensions_left: u32,
    /// The nodes that have confirmed it, up to the last verdict.
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
    /// Makes the lock that `majority` granted; `entry` has its end.
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

    /// Makes a lock that was granted elsewhere, valid until `valid_until` at most. It gets an id when it is adopted.
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

    /// Returns its resource, the Redis key: 1 to 1024 bytes of any value. For a lock on several
    /// [resources](Self::resources) it is the first.
    #[must_use]
    pub fn resource(&self) -> &[u8] {
        self.entry.resource()
    }

    /// Returns all its resources, in the order in which they were given to `lock_all`. A lock on one resource returns
    /// that one.
    pub fn resources(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.entry.names()
    }

    /// Returns its token, the value of its key on the nodes.
    #[must_use]
    pub fn token(&self) -> Token<'_> {
        self.entry.token()
    }

    /// Returns `true` if it is a shared lock: other clients may hold one on the same resource.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.entry.kind() == Kind::Shared
    }

    /// Returns its fencing token, if it was [asked for](crate::LockOptions::fenced) with one. The number is larger than
    /// the token of every earlier lock on the same resource; for a lock on several resources, of every earlier lock on
    /// any of them.
    ///
    /// Pass it to the store with each write, and with each read that a write is computed from. The store remembers the
    /// largest number that it has seen, and refuses requests with a smaller one. Then a holder that was stopped for
    /// longer than its lock lasted cannot do harm. [`manual::fencing`](crate::manual::fencing#what-the-store-has-to-do)
    /// has recipes.
    ///
    /// It does not change while the lock is held, even if the lock is extended, kept, confirmed, handed over, or
    /// written as bytes.
    #[must_use]
    pub fn fencing_token(&self) -> Option<u64> {
        self.entry.fencing_token()
    }

    /// Returns the slot of a permit, counted from 0: no two holders of permits of one resource have the same at the
    /// same time. `None` if it is no permit.
    #[must_use]
    pub fn slot(&self) -> Option<u16> {
        match self.entry.kind() {
            Kind::Permit { slot, .. } => Some(slot),
            Kind::Plain | Kind::Shared => None,
        }
    }

    /// Returns its id in its engine. `Event::Expired` carries this id when the lock is lost.
    #[must_use]
    pub fn id(&self) -> LockId {
        self.id
    }

    /// Returns the end of its validity by the clock of the engine. Do not trust the lock from then on.
    #[must_use]
    pub fn valid_until(&self) -> Instant {
        self.entry.end()
    }

    /// Returns `true` if it is valid at `now`, exact to the nanosecond: at [`Lock::valid_until`] it is not.
    #[must_use]
    pub fn is_valid_at(&self, now: Instant) -> bool {
        now < self.valid_until()
    }

    /// Returns how much longer it is valid, from `now` on.
    #[must_use]
    pub fn validity_at(&self, now: Instant) -> Duration {
        self.valid_until().saturating_since(now)
    }

    /// Returns the longest ttl that it was taken or extended with, without the [lock
    /// delay](crate::Builder::lock_delay).
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.entry.ttl()
    }

    /// Returns the [ttl](Self::ttl), or the ttl by which its engine extends it, if that is shorter.
    #[cfg(feature = "std")]
    pub(crate) fn shortest_ttl(&self) -> Duration {
        let step = self.kept.as_ref().map(|kept| kept.step());
        step.map_or(self.ttl(), |step| step.min(self.ttl()))
    }

    /// Returns its lock delay: how much longer than it is valid the nodes keep its keys.
    pub(crate) fn delay(&self) -> Delay {
        self.entry.delay()
    }

    /// Returns how many more times it may be extended.
    #[must_use]
    pub fn extensions_left(&self) -> u32 {
        let kept = self.kept.as_ref();
        kept.map_or(self.extensions_left, |kept| kept.extensions_left())
    }

    /// Notes that a majority has confirmed it until `end`. The `entry` of the question has that end; a copy of the lock,
    /// read from its bytes, has another entry. `counts`: it is one of its limited extensions.
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

    /// Begins to keep it. Returns the state that its engine shares.
    pub(crate) fn keep(&mut self, keeping: Keeping) -> Arc<Kept> {
        let kept = Kept::new(keeping, self.extensions_left()); // It may be kept already.
        Arc::clone(self.kept.insert(Arc::new(kept)))
    }

    /// Returns `true` if its engine extends it by itself, or has done so.
    #[cfg(feature = "std")]
    pub(crate) fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// Returns `true` if its engine keeps it and has reported its end.
    #[cfg(feature = "std")]
    pub(crate) fn is_kept_and_over(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.is_over())
    }

    /// Makes its engine stop extending it, because it goes to another process.
    #[cfg(feature = "std")]
    pub(crate) fn end_keeping(&self) {
        if let Some(kept) = &self.kept {
            kept.end();
        }
    }

    /// Takes it from the engine that had it, with an end of its own. That engine, or an open question, may still write
    /// an end into the shared entry.
    pub(crate) fn leave(&mut self) {
        if let Some(kept) = self.kept.take() {
            self.extensions_left = kept.extensions_left();
        }
        self.entry.part();
    }

    // ----- its end ----------------------------------------------------------------------------

    /// Returns `true` if its end is known. A lock from another clock has no known end: it was not reported as over, and
    /// can still be confirmed.
    #[cfg(feature = "std")]
    pub(crate) fn has_known_end(&self) -> bool {
        self.valid_until() != Instant::ZERO
    }

    /// Forgets its end, as if it came from another clock.
    #[cfg(test)]
    pub(crate) fn forget_end(&mut self) {
        self.entry.set_end(Instant::ZERO, self.ttl());
    }

    /// Ends its validity, because a majority said that it is gone.
    #[cfg(feature = "std")]
    pub(crate) fn lost(&mut self, now: Instant) {
        self.entry.end_now(now);
    }

    /// Returns the nodes whose copies stay when the lock is handed over. A copy on another node may still be released,
    /// behind its `SET`.
    pub(crate) fn voters(&self) -> NodeSet {
        self.voters
    }

    pub(crate) fn set_voters(&mut self, voters: NodeSet) {
        self.voters = voters;
    }

    pub(crate) fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Makes it the lock of another `entry`, with the same name and token.
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

/// Returns the extensions that remain of `left` after one more.
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
