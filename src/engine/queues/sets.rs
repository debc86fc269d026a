//! Sets: operations that want several resources at once, of which they get all or none.
//!
//! A set stands in the queue of each of its names, and enters all of them in one step. Two sets therefore stand in
//! the same order wherever they meet, and no set waits for another that waits for it. At the front of a queue a set
//! becomes the contender of that name, and the callers behind it wait. It asks the nodes once it is the contender of
//! all its names.
//!
//! # Guarantees
//!
//! * Each queue is served in the order in which its callers came, whether they want one name or several.
//! * If no name is held or asked for, no caller waits.
//! * Nothing is left of a set that gives up.
//!
//! # Not here
//!
//! While no set waits, nothing here is called.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::engine::pool::Pool;
use crate::invariant::Must;
use crate::keys::{ClaimKey, OperationKey, PlaceKey, WaiterKey};
use crate::time::Instant;

use super::{Front, Queues};

/// The sets of all queues; see the [module](self).
#[derive(Debug)]
pub(super) struct Sets {
    /// For each set its places, and where it stands in their lines until it is the contender there.
    pub(super) open: BTreeMap<OperationKey, Vec<(PlaceKey, WaiterKey)>>,
    /// Places that a set has left and that have no next contender yet. `true`: a release left them.
    freed: VecDeque<(PlaceKey, bool)>,
}

/// A place that a set has left has a contender again, whose turn it is.
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
}

impl Queues {
    /// `operation` wants all of `places`, which it has entered, and goes behind all that wait there. Returns
    /// `true` if it is its turn.
    #[cold]
    pub(in crate::engine) fn queue_set(
        &mut self,
        places: &[PlaceKey],
        operation: OperationKey,
    ) -> bool {
        let mut members = Vec::with_capacity(places.len());
        for &place in places {
            if let Some(at) = self.places.get_mut(place.0).must() {
                members.push((place, self.waiters.push_set(&mut at.line, operation)));
                if at.front == Front::Nobody {
                    at.front = Front::Contender(operation);
                    self.waiters.next(&mut at.line);
                }
            }
        }
        self.sets.open.insert(operation, members);
        self.leads(operation)
    }

    /// Returns `true` if it is the turn of `operation`, the contender of a place: a set has to be the contender of
    /// all its places.
    pub(in crate::engine) fn leads(&self, operation: OperationKey) -> bool {
        let leads = |place| self.contender(place) == Some(operation);
        let set = self.sets.open.get(&operation);
        set.is_none_or(|members| members.iter().all(|(place, _)| leads(*place)))
    }

    /// The lock of `claim`, which `set` has taken, is held from now on: the claim uses all its places, and the
    /// set does not any more.
    #[cold]
    pub(in crate::engine) fn hold_set(&mut self, set: OperationKey, claim: ClaimKey) {
        for place in self.take_out(set) {
            self.hold(place, set, claim);
        }
    }

    /// Takes `set` out, which gives up. Its names have no next until [`next_freed`](Self::next_freed).
    #[cold]
    pub(in crate::engine) fn leave_set(&mut self, set: OperationKey, buffers: &mut Pool<u8>) {
        for place in self.take_out(set) {
            if let Some(at) = self.places.get_mut(place.0).must() {
                at.overtaken = at.overtaken.filter(|other| *other != set);
                if at.front == Front::Contender(set) {
                    self.free(place, false);
                }
            }
            self.left(place, buffers);
        }
    }

    /// The lock of `claim` on all `places` is not held any more. They have no next until
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

    /// Names the next contender of the places that sets have left, up to the first whose turn it is, which it
    /// returns.
    #[cold]
    pub(in crate::engine) fn next_freed(&mut self, now: Instant) -> Option<Promoted> {
        while let Some((place, released)) = self.sets.freed.pop_front() {
            let at = self.places.get(place.0); // It may be gone.
            let Some(hash) = at.filter(|at| at.front == Front::Freed).map(|at| at.hash) else {
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

    /// Queues the promotion of the next at `place`, if a caller waits there.
    fn free(&mut self, place: PlaceKey, released: bool) {
        if let Some(at) = self.places.get_mut(place.0).must() {
            at.front = Front::Nobody;
            if at.is_wanted() {
                at.front = Front::Freed;
                self.sets.freed.push_back((place, released));
            }
        }
    }

    /// Takes `set` out of all lines. Returns its places.
    fn take_out(&mut self, set: OperationKey) -> Vec<PlaceKey> {
        let members = self.sets.open.remove(&set).must().unwrap_or_default();
        let leave = |(place, record): (PlaceKey, WaiterKey)| {
            if let Some(at) = self.places.get_mut(place.0).must() {
                self.waiters.remove(&mut at.line, record);
            }
            place
        };
        members.into_iter().map(leave).collect()
    }
}

#[cfg(test)]
impl Queues {
    /// Returns in how many lines sets stand. Asserts that each set is open and stands at each of its places once.
    pub(super) fn check_sets(&self, is_open: impl Fn(OperationKey) -> bool) -> usize {
        let mut records = 0;
        for (&set, members) in &self.sets.open {
            assert!(is_open(set), "{members:?} is over");
            for (place, record) in members {
                let at = self.places.get(place.0).expect("a place");
                let leads = at.front == Front::Contender(set) || at.overtaken == Some(set);
                let waits = self.waiters.of(&at.line).contains(record);
                assert!(leads != waits, "{set:?} at {at:?}");
                records += usize::from(waits);
            }
        }
        records
    }

    /// Returns `true` if the next at `place` is about to be named.
    pub(super) fn is_pending(&self, place: PlaceKey) -> bool {
        self.sets.freed.iter().any(|(freed, _)| *freed == place)
    }
}

#[cfg(test)]
mod tests;
