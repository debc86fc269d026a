//! Whole again: gives kept locks back to a node that was away, and notices when other clients change their keys.
//!
//! A node that is connected again may lack some kept locks: it restarted without them, they ended there because they
//! could not be extended, or it was away when they were taken. Each of these locks is extended at once. That shows
//! whether the node lacks it, and the next extension, which also follows at once, sends a copy (`operation::top_up`). A
//! lock whose last extension has failed is extended at once as well: this node may be the one that it needs.
//!
//! An extension also asks each node to report the next change of the keys. It reads them behind its own write, which no
//! node reports. If a node reports a change that was not ours, the engine *looks at* the lock: it extends it at once.
//! So if the keys of a lock are deleted, the lock is over for its holder two round trips later. The first look comes
//! soon after a lock was taken, and registers its keys. A lost connection loses its registrations, so each new
//! connection is followed by a look.
//!
//! # Guarantees
//!
//! * At most [`EXTENSIONS_AT_ONCE`](crate::limits::EXTENSIONS_AT_ONCE) extensions are open. The others follow as some
//!   of these end.
//! * A lock whose keys are changed again and again gets eight looks at once, and then one in 250 ms. While looks find
//!   no copy missing, the time between them doubles, up to half of the validity. A server may report our own writes
//!   (Redis up to 6.2.7 and 7.0.4 reports those of scripts), or all keys that do not fit its table.
//! * At most [`WATCHED_MAX`] keys are watched this way.
//!
//! # Not here
//!
//! Locks that are not kept: they are extended when their holder asks for it. A node that was only silent: it gets its
//! copy with the next extensions, because a node that is silent again and again would cause as many rounds of them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Bound::{Included, Unbounded};
use core::time::Duration;

use crate::keys::{ClaimKey, NodeId};
use crate::limits::WATCHED_MAX;
use crate::quorum::NodeSet;
use crate::slab::Key;
use crate::time::Instant;
use crate::timer::TimerKey;

use super::Engine;
use super::alarm::{Alarm, Timers};
use super::operation::Kind;
use super::operation::extend::Extend;

/// The time from taking a lock to its first look, and between tries of a look that has to wait. A lock that is released
/// earlier costs nothing.
const LOOK_AFTER: Duration = Duration::from_millis(50);

/// The time between looks at a lock whose keys are changed again and again.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How far the looks at a lock may be ahead of that pace: every node may report a deletion at another time.
const LOOKS_AHEAD: Duration = Duration::from_secs(2);

/// After this number of looks that have found every copy, the time between looks doubles.
const LOOKS_IN_VAIN: u32 = 8;

/// The search for locks that nodes may lack, and the registrations of keys.
#[derive(Debug)]
pub(super) struct Whole {
    /// The nodes that are connected again.
    pub(super) back: NodeSet,
    /// The nodes of `back` that may have forgotten every lock.
    pub(super) forgetful: NodeSet,
    /// The index of the claim to look at next.
    pub(super) next: usize,
    /// The keys that nodes report, by the hash of the part of the name that a report shows, and the kept locks on them.
    watched: BTreeSet<(u64, ClaimKey)>,
    /// The locks that have to be looked at, or were looked at lately.
    looks: BTreeMap<ClaimKey, Look>,
    /// The locks whose keys have just changed.
    changed: Vec<ClaimKey>,
    /// Armed while there are looks; the time is when it fires.
    timer: Option<(TimerKey, Instant)>,
    /// The largest number of keys that are watched.
    pub(super) most: usize,
}

/// The schedule of the looks at one lock.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    is_due: bool,
    /// When the next look is due at the regular pace.
    next: Instant,
    /// The number of looks since one has found that a copy is missing.
    in_vain: u32,
    /// No look before this time, because many have found every copy.
    rests_until: Instant,
}

impl Look {
    /// Returns when the next look at the lock may be.
    fn may_be_at(&self) -> Instant {
        self.next.saturating_sub(LOOKS_AHEAD).max(self.rests_until)
    }

    /// Returns when this record can be forgotten if no look is due.
    fn ends_at(&self) -> Instant {
        self.next.max(self.rests_until).saturating_add(LOOKS_AHEAD)
    }

    /// A look begins. The lock is valid for `ttl` after it.
    fn begins(&mut self, now: Instant, ttl: Duration) {
        self.is_due = false;
        self.next = self.next.max(now).saturating_add(LOOK_EVERY);
        self.in_vain = self.in_vain.saturating_add(1);
        if let Some(doubled) = self.in_vain.checked_sub(LOOKS_IN_VAIN) {
            let rest = LOOK_EVERY.saturating_mul(1 << doubled.min(16));
            self.rests_until = now.saturating_add(rest.min(ttl / 2));
        }
    }
}

impl Default for Whole {
    fn default() -> Self {
        Self {
            back: NodeSet::EMPTY,
            forgetful: NodeSet::EMPTY,
            next: 0,
            watched: BTreeSet::new(),
            looks: BTreeMap::new(),
            changed: Vec::new(),
            timer: None,
            most: WATCHED_MAX,
        }
    }
}

impl Whole {
    /// Returns `true` if this number of further keys may be watched.
    pub(super) fn has_room_for(&self, keys: usize) -> bool {
        self.watched.len() + keys <= self.most
    }

    /// Watches the key whose name has this `hash`, for the lock of `claim`.
    pub(super) fn watch(&mut self, hash: u64, claim: ClaimKey) {
        self.watched.insert((hash, claim));
    }

    /// Ends the watch of the key whose name has this `hash`: the lock of `claim` is over.
    pub(super) fn unwatch(&mut self, hash: u64, claim: ClaimKey) {
        self.watched.remove(&(hash, claim));
    }

    /// Looks soon, if there is room, at the lock of `claim`, which has been held since `since`.
    pub(super) fn look_soon(&mut self, since: Instant, claim: ClaimKey, timers: &mut Timers) {
        if self.has_room_for(1) && self.looks.len() < 2 * WATCHED_MAX {
            self.look_from(since, claim, timers);
        }
    }

    /// Makes a look at the lock of `claim` due. If it cannot be done at once, it is tried again after a while, counted
    /// from `since`.
    fn look_from(&mut self, since: Instant, claim: ClaimKey, timers: &mut Timers) {
        self.looks.entry(claim).or_default().is_due = true;
        self.arm(since.saturating_add(LOOK_AFTER), timers);
    }

    /// A node lacks a copy of the lock of `claim`.
    pub(super) fn found_missing(&mut self, claim: ClaimKey) {
        if let Some(look) = self.looks.get_mut(&claim) {
            (look.in_vain, look.rests_until) = (0, Instant::ZERO);
        }
    }

    /// The lock of `claim` is over.
    pub(super) fn forget_look(&mut self, claim: ClaimKey, timers: &mut Timers) {
        self.looks.remove(&claim);
        if self.looks.is_empty()
            && let Some((timer, _)) = self.timer.take()
        {
            timers.cancel(timer);
        }
    }

    /// Returns `true` if a look at the lock of `claim` is due.
    pub(super) fn is_to_look_at(&self, claim: ClaimKey) -> bool {
        self.looks.get(&claim).is_some_and(|look| look.is_due)
    }

    /// The key whose name has this `hash` has changed, or for `None` any may have. Returns `true` if a kept lock is on
    /// it.
    pub(super) fn changed(&mut self, hash: Option<u64>) -> bool {
        let first = hash.map_or(Unbounded, |hash| Included((hash, ClaimKey(Key::LEAST))));
        let watched = self.watched.range((first, Unbounded));
        let watched = watched.take_while(|(of, _)| hash.is_none_or(|hash| hash == *of));
        self.changed.extend(watched.map(|(_, claim)| *claim));
        !self.changed.is_empty()
    }

    /// Arms the timer for looks at `at`, unless it fires earlier.
    fn arm(&mut self, at: Instant, timers: &mut Timers) {
        if let Some((timer, armed)) = self.timer {
            if armed <= at {
                return;
            }
            timers.cancel(timer);
        }
        self.timer = Some((timers.insert(at, Alarm::Looks), at));
    }
}

impl Engine {
    /// The handshake of `node` is done. `forgetful`: the node may have forgotten every lock.
    #[cold]
    #[inline(never)]
    pub(super) fn is_back(&mut self, now: Instant, node: NodeId, forgetful: bool) {
        let whole = &mut self.parts.whole;
        whole.back.insert(node);
        if forgetful {
            whole.forgetful.insert(node);
        }
        whole.next = 0;
        self.make_whole(now);
    }

    /// Extends the locks that nodes may lack, while there is room for extensions.
    pub(super) fn make_whole(&mut self, now: Instant) {
        let next = |parts: &mut super::Parts| parts.claims.next_to_make_whole(&mut parts.whole);
        while self.parts.extensions.has_room()
            && let Some(claim) = next(&mut self.parts)
        {
            self.extend_early(now, claim);
        }
    }

    /// Looks at the kept locks whose keys have changed.
    pub(super) fn look_at_changed(&mut self, now: Instant) {
        while let Some(claim) = self.parts.whole.changed.pop() {
            let timers = &mut self.parts.timers;
            self.parts.whole.look_from(now, claim, timers);
            self.look_at(now, claim);
        }
    }

    /// Looks at the lock of `claim`, whose look is due, unless there were too many. While an extension of the lock is
    /// open, the look waits for its end.
    pub(super) fn look_at(&mut self, now: Instant, claim: ClaimKey) {
        if let Some(look) = self.parts.whole.looks.get_mut(&claim)
            && look.may_be_at() <= now
            && self.parts.extensions.has_room()
            && !self.parts.claims.is_extending(claim)
        {
            let ttl = self.parts.claims.extension(now, claim);
            look.begins(now, ttl.unwrap_or_default());
            self.extend_early(now, claim);
        }
    }

    /// Does the looks that had to wait, and forgets locks that were looked at long ago.
    pub(super) fn looks_due(&mut self, now: Instant) {
        self.parts.whole.timer = None;
        let due = |(claim, look): (&ClaimKey, &Look)| look.is_due.then_some(*claim);
        let due: Vec<_> = self.parts.whole.looks.iter().filter_map(due).collect();
        for claim in due {
            self.look_at(now, claim);
        }
        let (whole, claims) = (&mut self.parts.whole, &self.parts.claims);
        whole.looks.retain(|claim, look| {
            let is_kept = claims.extension(now, *claim).is_some();
            is_kept && (look.is_due || now < look.ends_at())
        });
        let wakes = whole.looks.values().map(|look| match look.is_due {
            true => look.may_be_at(),
            false => look.ends_at(),
        });
        if let Some(next) = wakes.min() {
            let soonest = now.saturating_add(LOOK_AFTER);
            whole.arm(next.max(soonest), &mut self.parts.timers);
        }
    }

    /// A connection was lost with its registrations. Makes a look at every watched lock due.
    pub(super) fn register_again(&mut self, now: Instant) {
        let whole = &mut self.parts.whole;
        for (_, claim) in &whole.watched {
            whole.looks.entry(*claim).or_default().is_due = true;
        }
        if !whole.looks.is_empty() {
            let soon = now.saturating_add(LOOK_AFTER);
            whole.arm(soon, &mut self.parts.timers);
        }
    }

    /// Extends the lock of `claim` before that is due, if it is kept.
    pub(super) fn extend_early(&mut self, now: Instant, claim: ClaimKey) {
        if let Some(ttl) = self.parts.claims.extension(now, claim) {
            self.extend_kept(now, claim, ttl);
        }
    }

    /// Begins an extension of the kept lock of `claim`, unless one is open. It waits while there are too many others.
    pub(super) fn extend_kept(&mut self, now: Instant, claim: ClaimKey, ttl: Duration) {
        let (operations, parts) = (&mut self.operations, &mut self.parts);
        let delay = parts.claims.delay(claim);
        let Ok(ttl) = parts.settings.check_ttl(ttl, delay) else {
            return; // The rest of its limit is too short for any validity.
        };
        if parts.claims.is_extending(claim) {
            return;
        }
        parts.watch_keys(claim);
        if !parts.extensions.has_room() {
            if parts.claims.extend_later(claim) {
                parts.extensions.wait(claim);
            }
            return;
        }
        if let Some(extend) = Extend::of_kept(claim, parts) {
            parts.extensions.begun();
            operations.begin(now, ttl, None, Kind::Extend(extend), parts);
        }
    }

    /// Begins the extensions that have waited for others to end.
    #[cold]
    #[inline(never)]
    pub(super) fn extend_waiting(&mut self, now: Instant) {
        self.parts.extensions.told();
        while let Some(claim) = self.parts.extensions.next() {
            let (claims, mut below) = self.parts.claims(now);
            if let Some(ttl) = claims.extend_now(claim, &mut below) {
                self.extend_kept(now, claim, ttl);
            }
        }
    }
}
