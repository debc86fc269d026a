//! Checks of kept locks: the engine immediately extends kept locks whose keys may have changed.
//!
//! An extension also asks each node to report the next change of the keys. When a client writes a key, the server ends
//! the client's registration for the key. So the extension reads the keys after its own write, which registers the
//! client again. If a node reports a change, the engine *checks* the lock, which means that it extends the lock
//! immediately. In the code, a check of this kind is a *look*. If the keys of a lock are deleted, the holder learns two
//! round trips later that the lock has ended.
//!
//! A lock is *watched* as soon as it is kept, unless too many keys are watched already. The first check comes 50 ms
//! later and registers the keys. The registrations end with their connection, so each new connection causes a check.
//!
//! # Guarantees
//!
//! * If the keys of a lock change repeatedly, the first eight checks come immediately, and then one check every 250 ms.
//!   While checks find every copy, the time between them doubles, up to half of the validity. A check finds every copy
//!   if the server has reported the client's own write (Redis up to 6.2.7 and 7.0.4 reports the writes of scripts), or
//!   a key that does not fit into its table.
//! * At most [`WATCHED_MAX`] keys are watched. The engine does not check locks whose keys are not watched.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Bound::{Included, Unbounded};
use core::time::Duration;

use crate::engine::claims::claim::Claim;
use crate::engine::queues::Queues;
use crate::keys::ClaimKey;
use crate::limits::WATCHED_MAX;
use crate::slab::Key;
use crate::time::Instant;

/// The delay between a new lock or connection and the check that registers the keys. A lock that is released within
/// this delay causes no check.
const LOOK_AFTER: Duration = Duration::from_millis(50);

/// The time between two checks of a lock whose keys change repeatedly.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How long before its regular time a check may begin. Early checks are allowed, because nodes may report the same
/// deletion at different times.
const LOOKS_AHEAD: Duration = Duration::from_secs(2);

/// If this number of checks has found every copy, the time between checks doubles.
const LOOKS_IN_VAIN: u32 = 8;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::engine) struct Looks {
    /// The watched keys, each with its kept lock. A key is stored as a hash of the part of its name that a report
    /// contains.
    watched: BTreeSet<(u64, ClaimKey)>,
    /// The watched locks that need a check, or had one recently.
    looks: BTreeMap<ClaimKey, Look>,
    /// The locks whose keys have just changed.
    changed: Vec<ClaimKey>,
    /// The maximum number of watched keys.
    pub(in crate::engine) most: usize,
}

/// The schedule of the checks of one lock.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    /// When a check is due. `None` if nothing has changed since the last check of the lock.
    due: Option<Instant>,
    /// When the next check is due at the regular pace.
    next: Instant,
    /// The number of checks since the last check that found a missing copy.
    in_vain: u32,
    /// Until this instant, the lock is not checked, because many checks have found every copy.
    rests_until: Instant,
}

impl Look {
    /// Returns when the next check may happen. Returns `None` if nothing has changed since the last check.
    fn due_at(&self) -> Option<Instant> {
        let may_be_at = self.next.saturating_sub(LOOKS_AHEAD).max(self.rests_until);
        Some(self.due?.max(may_be_at))
    }

    /// Returns `true` if this schedule can be forgotten.
    fn has_ended(&self, now: Instant) -> bool {
        let end = self.next.max(self.rests_until).saturating_add(LOOKS_AHEAD);
        self.due.is_none() && end <= now
    }

    /// Records the beginning of a check, which extends the lock for `ttl`.
    fn begins(&mut self, now: Instant, ttl: Duration) {
        self.due = None;
        self.next = self.next.max(now).saturating_add(LOOK_EVERY);
        self.in_vain = self.in_vain.saturating_add(1);
        if let Some(doubled) = self.in_vain.checked_sub(LOOKS_IN_VAIN) {
            let rest = LOOK_EVERY.saturating_mul(1 << doubled.min(16));
            self.rests_until = now.saturating_add(rest.min(ttl / 2));
        }
    }
}

impl Default for Looks {
    fn default() -> Self {
        Self {
            watched: BTreeSet::new(),
            looks: BTreeMap::new(),
            changed: Vec::new(),
            most: WATCHED_MAX,
        }
    }
}

impl Looks {
    /// Watches the keys of `claim`, whose lock is kept from now on, and plans a first check. Does nothing if too many
    /// keys are watched.
    pub(super) fn begin(&mut self, key: ClaimKey, claim: &Claim, queues: &Queues) {
        self.watch(key, claim, queues);
        if claim.kept.as_ref().is_some_and(|kept| kept.is_watched()) {
            let since = claim.held_since().unwrap_or_default();
            let due = Some(since.saturating_add(LOOK_AFTER));
            self.looks.entry(key).or_default().due = due;
        }
    }

    /// Watches the keys of the kept `claim`, unless too many keys are watched. From now on, extensions of the lock make
    /// the nodes report changes.
    pub(in crate::engine) fn watch(&mut self, key: ClaimKey, claim: &Claim, queues: &Queues) {
        let names = claim.entry.names();
        if let Some(kept) = &claim.kept
            && self.watched.len() + names.len() <= self.most
        {
            kept.watch();
            let names = names.map(|name| (queues.hash_cut(name), key));
            self.watched.extend(names);
        }
    }

    /// Forgets the lock of `claim`, which the caller no longer holds.
    pub(super) fn forget(&mut self, key: ClaimKey, claim: &Claim, queues: &Queues) {
        for name in claim.entry.names() {
            self.watched.remove(&(queues.hash_cut(name), key));
        }
        self.looks.remove(&key);
    }

    /// Returns when the lock of `claim` needs a check. Returns [`Instant::MAX`] if nothing has changed since the last
    /// check.
    pub(super) fn due_at(&self, claim: ClaimKey) -> Instant {
        let due = self.looks.get(&claim).and_then(Look::due_at);
        due.unwrap_or(Instant::MAX)
    }

    /// Returns `true` if the keys of the lock of `claim` may have changed since its last check.
    pub(in crate::engine) fn is_due(&self, claim: ClaimKey) -> bool {
        self.looks
            .get(&claim)
            .is_some_and(|look| look.due.is_some())
    }

    /// Decides whether the next extension of `claim` is a check. `ttl` is the ttl of an extension that begins now, or
    /// `None` if no extension may begin now. Returns `Some(true)` if the extension is a check, `Some(false)` if a check
    /// must wait, and `None` if nothing has changed.
    pub(super) fn take(
        &mut self,
        now: Instant,
        claim: ClaimKey,
        ttl: Option<Duration>,
    ) -> Option<bool> {
        let look = self.looks.get_mut(&claim)?;
        if look.has_ended(now) {
            self.looks.remove(&claim);
            return None;
        }
        let is_look = look.due_at()? <= now;
        if is_look {
            look.begins(now, ttl.unwrap_or_default());
        }
        Some(is_look)
    }

    /// Records that a node does not have its copy of the lock of `claim`.
    pub(in crate::engine) fn found_missing(&mut self, claim: ClaimKey) {
        if let Some(look) = self.looks.get_mut(&claim) {
            (look.in_vain, look.rests_until) = (0, Instant::ZERO);
        }
    }

    /// Records that the key with this `hash` of its name has changed. `None` means that any key may have changed.
    /// Returns `true` if the key belongs to a kept lock.
    pub(in crate::engine) fn changed(&mut self, hash: Option<u64>) -> bool {
        let first = hash.map_or(Unbounded, |hash| Included((hash, ClaimKey(Key::LEAST))));
        let watched = self.watched.range((first, Unbounded));
        let watched = watched.take_while(|(of, _)| hash.is_none_or(|hash| hash == *of));
        self.changed.extend(watched.map(|(_, claim)| *claim));
        !self.changed.is_empty()
    }

    /// Returns the next lock whose keys have changed, and makes a check of this lock due.
    pub(super) fn next_changed(&mut self, now: Instant) -> Option<ClaimKey> {
        let claim = self.changed.pop()?;
        self.look(now, claim).due = Some(now);
        Some(claim)
    }

    /// Plans a check of every watched lock, [`LOOK_AFTER`] from now. Returns the watched locks.
    pub(super) fn register_again(&mut self, now: Instant) -> Vec<ClaimKey> {
        let watched: Vec<_> = self.watched.iter().map(|(_, claim)| *claim).collect();
        for claim in &watched {
            let soon = now.saturating_add(LOOK_AFTER);
            self.look(now, *claim).due.get_or_insert(soon);
        }
        watched
    }

    fn look(&mut self, now: Instant, claim: ClaimKey) -> &mut Look {
        let look = self.looks.entry(claim).or_default();
        if look.has_ended(now) {
            *look = Look::default();
        }
        look
    }
}
