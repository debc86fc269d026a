//! Whole again: a node that was away gets back the locks that are kept, and what happens to their keys is noticed.
//!
//! A node that is connected again may lack some of them: it restarted without them, or they ended there because it
//! could not be extended, or it was not there when they were taken. Each of these is extended at once. That
//! tells where it is missing, and the next extension, which follows at once too, sends a copy (`operation::top_up`).
//! A lock whose last extension has failed is extended at once as well: this node may be the one that it lacks.
//!
//! An extension also asks each node to tell of the next change of the keys: it reads them behind its own write, which
//! nobody is told of. If a node tells of one that was not ours, the lock is *looked at*: extended at once. So a lock
//! whose keys were deleted is over for its holder two round trips later. The first look comes soon after a lock
//! was taken, and asks for this. Connections that were lost tell of nothing, so there is a look after each.
//!
//! # Guarantees
//!
//! * No more extensions are open than [`EXTENSIONS_AT_ONCE`](crate::limits::EXTENSIONS_AT_ONCE). The others
//!   follow when some of these have ended.
//! * A lock whose keys are changed again and again is looked at eight times at once, and then once in 250 ms. While
//!   looks find no copy missing, the time between them doubles, up to half of the validity: a server may tell of our
//!   own writes (Redis up to 6.2.7 and 7.0.4 does so of those by scripts), or of all keys that do not fit its table.
//! * No more than [`WATCHED_MAX`] keys are watched so.
//!
//! # Not here
//!
//! Locks that are not kept: they are extended when their holder asks for it. A node that was only silent: it gets
//! its copy with the next extensions. One that is silent again and again would cause as many rounds of them.

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

/// How long after it was taken a lock is looked at for the first time, and how often looks that had to wait are
/// tried. A lock that is released before costs nothing.
const LOOK_AFTER: Duration = Duration::from_millis(50);

/// How often a lock is looked at whose keys are changed again and again.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// By how much it may be ahead of that: every node may tell of a deletion at another time.
const LOOKS_AHEAD: Duration = Duration::from_secs(2);

/// After so many looks that have found every copy the time between looks doubles.
const LOOKS_IN_VAIN: u32 = 8;

/// The search for locks that nodes may lack, and what they tell of their keys.
#[derive(Debug)]
pub(super) struct Whole {
    /// The nodes that are connected again.
    pub(super) back: NodeSet,
    /// Those of them that may have forgotten every lock.
    pub(super) forgetful: NodeSet,
    /// The place of the claim that is looked at next.
    pub(super) next: usize,
    /// The keys of which nodes tell, by the hashes of what these show of their names, and the locks that are kept
    /// on them.
    watched: BTreeSet<(u64, ClaimKey)>,
    /// The locks that are to be looked at, or were of late.
    looks: BTreeMap<ClaimKey, Look>,
    /// Those whose keys have changed just now.
    changed: Vec<ClaimKey>,
    /// Armed while there are looks, and for when.
    timer: Option<(TimerKey, Instant)>,
    /// How many keys are watched at most.
    pub(super) most: usize,
}

/// When a lock is looked at.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    is_due: bool,
    /// When the next one is due if they come at their pace.
    next: Instant,
    /// How many there were since one has found that a copy is missing.
    in_vain: u32,
    /// There is none before, because so many have found every copy.
    rests_until: Instant,
}

impl Look {
    /// Returns from when on the lock may be looked at.
    fn may_be_at(&self) -> Instant {
        self.next.saturating_sub(LOOKS_AHEAD).max(self.rests_until)
    }

    /// Returns when this can be forgotten if no look is due.
    fn ends_at(&self) -> Instant {
        self.next.max(self.rests_until).saturating_add(LOOKS_AHEAD)
    }

    /// The lock is looked at, which is valid for `ttl` afterwards.
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
    /// Returns `true` if so many more keys may be watched.
    pub(super) fn has_room_for(&self, keys: usize) -> bool {
        self.watched.len() + keys <= self.most
    }

    /// The key whose name has this `hash` is of the lock of `claim`.
    pub(super) fn watch(&mut self, hash: u64, claim: ClaimKey) {
        self.watched.insert((hash, claim));
    }

    /// The lock of `claim` is over, which was on the key whose name has this `hash`.
    pub(super) fn unwatch(&mut self, hash: u64, claim: ClaimKey) {
        self.watched.remove(&(hash, claim));
    }

    /// The lock of `claim`, which is kept since then, is to be looked at soon, if there is room.
    pub(super) fn look_soon(&mut self, since: Instant, claim: ClaimKey, timers: &mut Timers) {
        if self.has_room_for(1) && self.looks.len() < 2 * WATCHED_MAX {
            self.look_from(since, claim, timers);
        }
    }

    /// The lock of `claim` is to be looked at. What cannot be done at once is tried again after a while, from
    /// `since` on.
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

    /// Returns `true` if the lock of `claim` is to be looked at.
    pub(super) fn is_to_look_at(&self, claim: ClaimKey) -> bool {
        self.looks.get(&claim).is_some_and(|look| look.is_due)
    }

    /// The key whose name has this `hash` has changed, or any may have. Returns `true` if it is of a lock that
    /// is kept.
    pub(super) fn changed(&mut self, hash: Option<u64>) -> bool {
        let first = hash.map_or(Unbounded, |hash| Included((hash, ClaimKey(Key::LEAST))));
        let watched = self.watched.range((first, Unbounded));
        let watched = watched.take_while(|(of, _)| hash.is_none_or(|hash| hash == *of));
        self.changed.extend(watched.map(|(_, claim)| *claim));
        !self.changed.is_empty()
    }

    /// Has looks done at `at`, if not before.
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
    /// The handshake of `node` is done. `forgetful`: it may have forgotten every lock.
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

    /// Extends what nodes may lack, as long as there is room for it.
    pub(super) fn make_whole(&mut self, now: Instant) {
        let next = |parts: &mut super::Parts| parts.claims.next_to_make_whole(&mut parts.whole);
        while self.parts.extensions.has_room()
            && let Some(claim) = next(&mut self.parts)
        {
            self.extend_early(now, claim);
        }
    }

    /// Keys of locks that are kept have changed.
    pub(super) fn look_at_changed(&mut self, now: Instant) {
        while let Some(claim) = self.parts.whole.changed.pop() {
            let timers = &mut self.parts.timers;
            self.parts.whole.look_from(now, claim, timers);
            self.look_at(now, claim);
        }
    }

    /// Looks at the lock of `claim`, which is due, unless that was done too often. While an extension of it is open
    /// it is looked at when that has ended.
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

    /// Looks at what had to wait, and forgets what was looked at long ago.
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

    /// A connection was lost, and what was asked over it is told over none.
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

    /// Extends the lock of `claim`, if it is kept, before that is due.
    pub(super) fn extend_early(&mut self, now: Instant, claim: ClaimKey) {
        if let Some(ttl) = self.parts.claims.extension(now, claim) {
            self.extend_kept(now, claim, ttl);
        }
    }

    /// Begins to extend the lock of `claim`, which is kept, unless an extension of it is open. It waits while
    /// too many others are open.
    pub(super) fn extend_kept(&mut self, now: Instant, claim: ClaimKey, ttl: Duration) {
        let (operations, parts) = (&mut self.operations, &mut self.parts);
        let delay = parts.claims.delay(claim);
        let Ok(ttl) = parts.settings.check_ttl(ttl, delay) else {
            return; // The little that its limit leaves is no validity.
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

    /// Begins the extensions that have waited until others had their outcome.
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
