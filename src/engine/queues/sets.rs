//! Sets: operations that want several resources at once, of which they get all or none.
//!
//! A set has a record in the line of each of its names. It enters all of them in one step, so that any two
//! sets stand in the same order wherever they meet: no set waits for one that waits for it.
//!
//! ```text
//!   wants --turn--> leads --refused--> rests at one of its names --wants all again--> wants, or leads
//!     ^               |                     |
//!     |               `-- granted --> held  |
//!     `------ another took a name ----------'
//! ```
//!
//! A set *leads* when it is the contender of all its names: none is held or asked for by others of this
//! engine, and all before it in a line are sets that it may pass. When nodes have refused it, it *rests*: it
//! stays the contender of one name, the one that another holds, and leaves the others.
//!
//! A name that a set leaves free may be taken by others that stand behind it: [`PASSED_MAX`] times for each
//! name, then it stays free for the set. If it does for [`LEFT_FREE`] in vain, because another of the names is
//! held by who did not pass the set, it may be taken as often again ([`renew`](Queues::renew)).
//!
//! # Guarantees
//!
//! * From the time when none of its names is held any more by who did not pass it, no more than so many others
//!   pass a set at each of its names. Before, there is such a time between any two rows of so many. So it is
//!   too while one that has passed it holds a name for longer than [`STUCK`], and then for twice as long each
//!   time: that one may itself wait for a name that is left free.
//! * Passing changes no order: a set stays where it stands until it has its lock, or gives up.
//! * If no name is held, asked for or rested at, nobody waits.
//! * Nothing is left of a set that gives up.
//!
//! # Not here
//!
//! Which name a set rests at, and when it wants all of them again: its operation says so. While no set waits
//! nothing here is called.

mod turns;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use crate::engine::pool::Pool;
use crate::invariant::Must;
use crate::keys::{ClaimKey, OperationKey, PlaceKey, WaiterKey};
use crate::time::Instant;

use super::{Front, Queues};

/// How many others may pass a set at one of its names. As many locks in a row are what one engine takes
/// before it leaves a resource to others: a set waits for as long as another program would.
pub(super) const PASSED_MAX: u8 = 16;

/// For how long a name is left free for a set, at the least, before others may pass there again.
pub(in crate::engine) const LEFT_FREE: Duration = Duration::from_secs(1);

/// For how long one that has passed a set holds one of its names before others may pass the set again, the
/// first time.
const STUCK: Duration = Duration::from_secs(16);

/// How many records of a line are looked at to find out which set has its turn. Sets behind wait until one of
/// these has had its turn.
const LOOKED_AT_MAX: usize = 16;

/// How many sets one that wants a single name may pass at once: each costs a look. Behind more of them it
/// waits until one has had its turn.
const PASSED_AT_ONCE_MAX: usize = 256;

/// The sets of all queues; see the [module](self).
#[derive(Debug)]
pub(super) struct Sets {
    /// Those that want their names, by their operations.
    open: BTreeMap<OperationKey, Set>,
    /// Places that a set has left, where the next is to be named. `true`: by a release.
    freed: VecDeque<(PlaceKey, bool)>,
}

#[derive(Debug)]
struct Set {
    stage: Stage,
    /// In the order of its names.
    members: Vec<Member>,
    /// Which of them kept it from its turn the last time.
    kept_out_by: usize,
    /// When it was looked at which names are left free.
    looked: Instant,
    /// A lock on one of its names, and since when that was seen there.
    holder: Option<(ClaimKey, Instant)>,
    /// For how long it waits for that lock before others may pass again, if that has passed it.
    patience: Duration,
}

/// One of the names of a set.
#[derive(Clone, Copy, Debug)]
struct Member {
    place: PlaceKey,
    /// Where it stands in the line there.
    record: WaiterKey,
    /// How many have passed it there, since that was allowed again.
    passed: u8,
    /// Any has passed it there.
    was_passed: bool,
    /// It was left free for the set when that was looked at the last time.
    was_free: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    /// It waits for its turn, and is not the contender of any name.
    Wants,
    /// It is the contender of all its names.
    Leads,
    /// It is the contender of one name, and waits until that is free.
    Rests(PlaceKey),
}

/// A place that was left has a contender again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::engine) struct Promoted {
    pub(in crate::engine) next: OperationKey,
    pub(in crate::engine) place: PlaceKey,
    /// It leaves the lock to other programs first.
    pub(in crate::engine) leaves: bool,
}

impl Sets {
    pub(super) const fn new() -> Self {
        Self {
            open: BTreeMap::new(),
            freed: VecDeque::new(),
        }
    }

    /// Returns `true` if no set wants anything.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    fn stage(&self, set: OperationKey) -> Stage {
        let set = self.open.get(&set).must();
        set.map_or(Stage::Wants, |set| set.stage)
    }

    fn set_stage(&mut self, set: OperationKey, stage: Stage) {
        if let Some(set) = self.open.get_mut(&set).must() {
            set.stage = stage;
        }
    }

    fn members(&self, set: OperationKey) -> &[Member] {
        let set = self.open.get(&set).must();
        set.map_or(&[], |set| &set.members)
    }

    fn may_be_passed(&self, set: OperationKey, place: PlaceKey) -> bool {
        #[cfg(test)]
        check::looked();
        let mut members = self.members(set).iter();
        members.any(|member| member.place == place && member.passed < PASSED_MAX)
    }

    fn was_passed(&mut self, set: OperationKey, place: PlaceKey) {
        let set = self.open.get_mut(&set).must();
        let members = set.into_iter().flat_map(|set| &mut set.members);
        for member in members.filter(|member| member.place == place) {
            member.passed = member.passed.saturating_add(1);
            member.was_passed = true;
        }
    }
}

impl Queues {
    // ----- the turn of a set ----------------------------------------------------------------

    /// `operation` wants all of `places`, which it has entered: it stands behind all that wait there, from
    /// one step on. Returns `true` if it is its turn.
    #[cold]
    pub(in crate::engine) fn queue_set(
        &mut self,
        places: &[PlaceKey],
        operation: OperationKey,
    ) -> bool {
        let mut members = Vec::with_capacity(places.len());
        for &place in places {
            if let Some(at) = self.places.get_mut(place.0).must() {
                let record = self.waiters.push_set(&mut at.line, operation);
                if at.front == Front::Nobody {
                    at.front = Front::Set;
                    at.forget_wait(&mut self.waiting); // One that asks beside may have kept it.
                }
                members.push(Member {
                    place,
                    record,
                    passed: 0,
                    was_passed: false,
                    was_free: false,
                });
            }
        }
        let stage = Stage::Wants;
        let set = Set {
            stage,
            members,
            kept_out_by: 0,
            looked: Instant::ZERO,
            holder: None,
            patience: STUCK,
        };
        self.sets.open.insert(operation, set);
        self.leads_now(operation)
    }

    /// `set`, which rests, wants all its names again. Returns `true` if it has them; if not, it waits for
    /// its turn, and leaves them all.
    #[cold]
    pub(in crate::engine) fn gather(&mut self, set: OperationKey) -> bool {
        if self.sets.stage(set) == Stage::Leads {
            return true;
        }
        self.sets.set_stage(set, Stage::Wants);
        let leads = self.leads_now(set);
        if !leads {
            self.stand_back(set);
        }
        leads
    }

    /// `set` waits for its turn, and leaves all its names.
    #[cold]
    pub(in crate::engine) fn stand_back(&mut self, set: OperationKey) {
        self.sets.set_stage(set, Stage::Wants);
        self.leave_all_but(None, set);
    }

    /// `set` was refused because of its name at `place`: it stays the contender there, and leaves the
    /// others.
    #[cold]
    pub(in crate::engine) fn rest_at(&mut self, place: PlaceKey, set: OperationKey) {
        self.sets.set_stage(set, Stage::Rests(place));
        self.leave_all_but(Some(place), set);
    }

    fn leave_all_but(&mut self, stays: Option<PlaceKey>, set: OperationKey) {
        for index in 0..self.sets.members(set).len() {
            let place = self.sets.members(set)[index].place;
            if Some(place) != stays && self.contender(place) == Some(set) {
                self.free(place, false);
            }
        }
    }

    /// Others may pass `set` again at the names that were left free for it in vain: another program holds the
    /// one at which it rests, or this one another, which it held before any passed the set there, or has held
    /// for long. Does nothing more often than each [`LEFT_FREE`]. What was left has no next until [`next_freed`](Self::next_freed).
    #[cold]
    pub(in crate::engine) fn renew(&mut self, now: Instant, set: OperationKey) {
        let Some(found) = self.sets.open.get_mut(&set).must() else {
            return;
        };
        if now < found.looked.saturating_add(LEFT_FREE) {
            return;
        }
        found.looked = now;
        let by_others = self.waits_in_vain(set);
        let in_vain = by_others || self.is_stuck(now, set);
        let mut renewed = false;
        for index in 0..self.sets.members(set).len() {
            let Member { place, passed, .. } = self.sets.members(set)[index];
            let at = self.places.get(place.0).must();
            let is_left = at.is_some_and(|at| at.front == Front::Set) && PASSED_MAX <= passed;
            if let Some(set) = self.sets.open.get_mut(&set) {
                let member = &mut set.members[index];
                let was_free = core::mem::replace(&mut member.was_free, in_vain && is_left);
                if was_free && member.was_free {
                    (member.passed, member.was_free) = (0, false);
                    renewed = true;
                    self.free(place, false);
                }
            }
        }
        if !by_others
            && renewed
            && let Some(set) = self.sets.open.get_mut(&set)
        {
            set.patience = set.patience.saturating_mul(2);
        }
    }

    /// Returns `true` if one of the names of `set` is held by who did not pass it: of what others do at the
    /// other names that lock does not depend.
    fn waits_in_vain(&self, set: OperationKey) -> bool {
        let is_held = |member: &Member| {
            let at = self.places.get(member.place.0);
            !member.was_passed && at.is_some_and(|at| matches!(at.front, Front::Holder(_)))
        };
        matches!(self.sets.stage(set), Stage::Rests(_))
            || self.sets.members(set).iter().any(is_held)
    }

    /// Returns `true` if one lock has held one of the names of `set` for so long that its holder may be
    /// waiting for another of them, which is left free for the set.
    fn is_stuck(&mut self, now: Instant, set: OperationKey) -> bool {
        let members = self.sets.members(set).iter();
        let mut holders = members.filter_map(|member| self.holder(member.place));
        let before = self.sets.open.get(&set).and_then(|set| set.holder);
        let same = before.filter(|(claim, _)| holders.clone().any(|holder| holder == *claim));
        let holder = same.or_else(|| Some((holders.next()?, now)));
        let Some(set) = self.sets.open.get_mut(&set).must() else {
            return false;
        };
        set.holder = holder;
        holder.is_some_and(|(_, since)| set.patience <= now.saturating_since(since))
    }

    /// Returns the first of the places of `set` of which something is known: what its contender before has
    /// waited for.
    #[cold]
    pub(in crate::engine) fn known_place(&self, set: OperationKey) -> Option<PlaceKey> {
        let mut places = self.sets.members(set).iter().map(|member| member.place);
        let is_known = |place: &PlaceKey| {
            let at = self.places.get(place.0);
            at.is_some_and(|at| at.waiting.is_some())
        };
        places.find(is_known)
    }

    /// The lock of `claim`, which `set` has taken, is held from now on: the claim uses all its places, and the
    /// set does not any more.
    #[cold]
    pub(in crate::engine) fn hold_set(&mut self, set: OperationKey, claim: ClaimKey) {
        for member in self.take_out(set) {
            self.hold(member.place, set, claim);
        }
    }

    /// Takes `set` out, which gives up. Its names have no next until [`next_freed`](Self::next_freed).
    #[cold]
    pub(in crate::engine) fn leave_set(&mut self, set: OperationKey, buffers: &mut Pool<u8>) {
        for Member { place, .. } in self.take_out(set) {
            if let Some(at) = self.places.get_mut(place.0).must() {
                if at.overtaken == Some(set) {
                    at.overtaken = None;
                }
                if at.front == Front::Contender(set) || at.front == Front::Set {
                    self.free(place, false);
                }
            }
            self.left(place, buffers);
        }
    }

    /// The set of `claim`, which has these `places`, is not held any more. They have no next until
    /// [`next_freed`](Self::next_freed).
    #[cold]
    pub(in crate::engine) fn vacate_set(
        &mut self,
        now: Instant,
        claim: ClaimKey,
        places: &[PlaceKey],
        buffers: &mut Pool<u8>,
    ) {
        for &place in places {
            if let Some(at) = self.places.get_mut(place.0).must() {
                self.rows.of(now, at.hash).released(now);
                if at.front == Front::Holder(claim) {
                    at.forget_wait(&mut self.waiting);
                    self.free(place, true);
                }
            }
            self.left(place, buffers);
        }
    }

    /// Returns `true` if sets have left names that have no next yet.
    pub(in crate::engine) fn has_freed(&self) -> bool {
        !self.sets.freed.is_empty()
    }

    /// Names the next at the places that sets have left, up to the first that has one, which it returns.
    #[cold]
    pub(in crate::engine) fn next_freed(&mut self, now: Instant) -> Option<Promoted> {
        while let Some((place, released)) = self.sets.freed.pop_front() {
            let at = self.places.get(place.0); // It may be gone.
            let Some(hash) = at.filter(|at| at.front == Front::Set).map(|at| at.hash) else {
                continue;
            };
            if let Some(next) = self.promote(place) {
                let leaves = released && self.rows.of(now, hash).is_over(now);
                return Some(Promoted {
                    next,
                    place,
                    leaves,
                });
            }
        }
        None
    }

    /// The next at `place` is to be named, unless nobody waits there.
    fn free(&mut self, place: PlaceKey, released: bool) {
        if let Some(at) = self.places.get_mut(place.0).must() {
            at.front = Front::Nobody;
            if at.is_wanted() {
                at.front = Front::Set;
                self.sets.freed.push_back((place, released));
            }
        }
    }

    /// Takes the records of `set` out of their lines.
    fn take_out(&mut self, set: OperationKey) -> Vec<Member> {
        let set = self.sets.open.remove(&set).must();
        let members = set.map_or_else(Vec::new, |set| set.members);
        for member in &members {
            if let Some(at) = self.places.get_mut(member.place.0).must() {
                self.waiters.remove(&mut at.line, member.record);
            }
        }
        members
    }
}

#[cfg(test)]
mod check;
#[cfg(test)]
mod tests;
