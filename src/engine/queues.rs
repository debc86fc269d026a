//! Who wants which resource: a queue for each, of which only the first asks the nodes.
//!
//! A resource has a *place* here while a lock of this engine is held on it, or an operation wants one. The
//! lock that is kept *alone* has none: the table of names leads to its claim until somebody else wants it.
//! One operation at a time is its *contender*: it asks the nodes. The others wait behind it, first come,
//! first served. While this engine holds the lock nobody asks: the first of the queue becomes the
//! contender when the lock is released, behind that release.
//!
//! ```text
//!   acquire --> waiter .. waiter --> contender --granted--> holder
//!                             ^          |                     |
//!                             |          `-- gives up --.      | released, lost, detached
//!                             `------- the next one <---+------'
//! ```
//!
//! # Guarantees
//!
//! * Waiters of one resource become contenders in the order in which they came.
//! * Entering, leaving and passing on take constant time, and no allocation while no more places and
//!   waiters are there at once than ever before.
//! * Nothing is left of an operation that leaves. A place without users ends when another has none.
//!
//! # Not here
//!
//! When a contender asks again. An operation that makes one attempt does not wait: it asks beside the
//! contender.

mod alone;
mod belief;
mod holder;
mod line;
mod names;
mod policy;
mod sets;
mod watches;

use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::invariant::Must;
use crate::keys::{ClaimKey, NodeId, OperationKey, PlaceKey, WaiterKey};
use crate::quorum::NodeSet;
use crate::slab::Slab;
use crate::time::Instant;

use super::alarm::Timers;
use super::claims::Claims;
use super::pool::Pool;
pub(super) use line::{Extra, Waiter};
use line::{Line, Waiters};
use names::{Names, Where};
use policy::Rows;
pub(super) use policy::{Next, Wait};
use sets::Sets;
use watches::Watches;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Queues {
    places: Slab<Place>,
    pub(super) waiters: Waiters,
    names: Names,
    rows: Rows,
    sets: Sets,
    /// The latest place that has no user any more.
    idle: Option<PlaceKey>,
    /// How many locks are kept alone.
    alone: usize,
    /// Contenders that wait for something that has changed.
    stirred: Vec<OperationKey>,
    /// Operations that are told of every change.
    watches: Watches,
    /// How many places have a contender that may wait, and how many operations watch.
    waiting: usize,
    /// When contenders want to be reminded, to the nanosecond: a tick of the wheel is longer than many
    /// windows. One that is over already is harmless.
    reminders: BinaryHeap<Reverse<(Instant, PlaceKey)>>,
}

/// One resource that is held or wanted.
#[derive(Debug)]
pub(super) struct Place {
    /// The resource, in a buffer of the pool.
    name: Vec<u8>,
    hash: u64,
    front: Front,
    /// A contender that was overtaken by an operation beside it, which holds the lock now. It is the
    /// next.
    overtaken: Option<OperationKey>,
    line: Line,
    /// How many operations and locks use it.
    users: u32,
    /// What the contender waits for, if its latest attempt was refused.
    waiting: Option<Box<Wait>>,
}

/// Who is at the front of a queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Front {
    Nobody,
    Contender(OperationKey),
    Holder(ClaimKey),
    /// A set has left, and the next contender is about to be named.
    Freed,
}

/// Why an attempt to take a lock failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Refusal {
    Held,
    NoQuorum,
    TooSlow,
    Saturated,
    OtherCluster,
}

impl Queues {
    /// No place yet. The order of the names in memory follows from `seed`.
    pub(super) const fn new(seed: u64) -> Self {
        Self {
            places: Slab::new(),
            waiters: Waiters::new(),
            names: Names::new(seed),
            rows: Rows::new(),
            sets: Sets::new(),
            idle: None,
            alone: 0,
            stirred: Vec::new(),
            watches: Watches::new(),
            waiting: 0,
            reminders: BinaryHeap::new(),
        }
    }

    /// Returns the place of `name`, which has one user more now.
    // Always inlined: locks on one resource are the many.
    #[inline(always)]
    pub(super) fn enter(&mut self, name: &[u8], claims: &mut Claims) -> PlaceKey {
        if let Some(idle) = self.idle
            && let Some(place) = self.places.get_mut(idle.0).must()
            && place.name == name
        {
            place.users = 1;
            self.idle = None;
            return idle;
        }
        let hash = self.names.hash(name);
        if let Some(key) = self.find(hash, name) {
            if let Some(place) = self.get_mut(key).must() {
                place.users += 1; // It is not the idle one, which has been looked at.
            }
            return key;
        }
        if self.alone != 0
            && let Some(place) = self.join(hash, name, claims)
        {
            return place;
        }
        let place = self.open_place(hash, name, &mut claims.buffers);
        self.names.insert(hash, place.into());
        place
    }

    /// Opens a place for `name`, with one user, which the table of names does not lead to yet.
    fn open_place(&mut self, hash: u64, name: &[u8], buffers: &mut Pool<u8>) -> PlaceKey {
        let mut buffer = buffers.take();
        buffer.extend_from_slice(name);
        PlaceKey(self.places.insert(Place::new(buffer, hash)))
    }

    fn find(&self, hash: u64, name: &[u8]) -> Option<PlaceKey> {
        let is = |at: Where| {
            at.place()
                .is_some_and(|index| self.places.at(index).name == name)
        };
        let index = self.names.find(hash, is)?.place()?;
        Some(PlaceKey(self.places.key_at(index)))
    }

    pub(super) fn get_mut(&mut self, place: PlaceKey) -> Option<&mut Place> {
        self.places.get_mut(place.0)
    }

    /// Returns the contender of `place`.
    pub(super) fn contender(&self, place: PlaceKey) -> Option<OperationKey> {
        match self.places.get(place.0)?.front {
            Front::Contender(operation) => Some(operation),
            Front::Nobody | Front::Holder(_) | Front::Freed => None,
        }
    }

    /// Returns what the contender of `place` waits for, if its latest attempt was refused; and the
    /// resource.
    pub(super) fn waiting(&mut self, place: PlaceKey) -> Option<(&mut Wait, &[u8])> {
        let place = self.places.get_mut(place.0)?;
        Some((place.waiting.as_deref_mut()?, &place.name))
    }

    /// Returns what the contender of `place` waits for. Nothing is known of so many nodes, if it did
    /// not wait yet.
    pub(super) fn begin_waiting(&mut self, place: PlaceKey, nodes: usize) -> Option<&mut Wait> {
        let place = self.places.get_mut(place.0).must()?;
        if self.waiting == self.watches.len() {
            self.reminders.clear();
        }
        self.waiting += usize::from(place.waiting.is_none());
        let new = || Box::new(Wait::new(nodes));
        Some(place.waiting.get_or_insert_with(new))
    }

    /// The contender of `place` does not wait there.
    pub(super) fn stop_waiting(&mut self, place: PlaceKey) {
        if let Some(place) = self.places.get_mut(place.0).must() {
            place.forget_wait(&mut self.waiting);
        }
    }

    /// Returns how many contenders wait.
    #[cfg(test)]
    fn contenders(&self) -> usize {
        self.waiting - self.watches.len()
    }

    /// Returns `true` if any contender may wait, or any operation watches.
    pub(super) fn is_anyone_waiting(&self) -> bool {
        self.waiting != 0
    }

    /// Returns how many operations watch.
    pub(super) fn watches(&self) -> usize {
        self.watches.len()
    }

    /// From now on `operation` is told of every change of `name`.
    pub(super) fn watch(&mut self, name: &[u8], operation: OperationKey) {
        self.watches.add(name, operation);
        self.waiting += 1;
    }

    /// `operation`, which watches `name`, does not any more.
    pub(super) fn unwatch(&mut self, name: &[u8], operation: OperationKey) {
        self.watches.remove(name, operation);
        self.waiting -= 1;
    }

    /// Returns the operations that watch `name`.
    pub(super) fn watching(&self, name: &[u8]) -> impl Iterator<Item = OperationKey> {
        self.watches.of(Some(name))
    }

    /// This engine has written to the key of `name` on `nodes`: none of them tells of its next change.
    /// Returns the contender that waits for one.
    pub(super) fn wrote(
        &mut self,
        now: Instant,
        name: &[u8],
        nodes: NodeSet,
    ) -> Option<OperationKey> {
        let place = self.find(self.names.hash(name), name)?;
        let (wait, _) = self.waiting(place)?;
        nodes.iter().for_each(|node| wait.belief.wrote(node));
        wait.look_soon(now);
        self.contender(place)
    }

    /// The contender of `place` is to be reminded `at` this time.
    pub(super) fn remind(&mut self, at: Instant, place: PlaceKey) {
        self.reminders.push(Reverse((at, place)));
    }

    /// Returns when the next contender is to be reminded.
    pub(super) fn next_reminder(&self) -> Option<Instant> {
        self.reminders.peek().map(|Reverse((at, _))| *at)
    }

    /// Returns the next place whose contender is to be reminded by `now`.
    pub(super) fn reminded(&mut self, now: Instant) -> Option<PlaceKey> {
        let Reverse((at, _)) = self.reminders.peek()?;
        let due = *at <= now;
        due.then(|| self.reminders.pop().map(|Reverse((_, place))| place))?
    }

    /// The contender of `place` meets others there.
    pub(super) fn met_others(&mut self, now: Instant, place: PlaceKey) {
        if let Some(place) = self.places.get(place.0).must() {
            self.rows.of(now, place.hash).met_others(now);
        }
    }

    /// What was asked of `node` is lost, for all places.
    pub(super) fn lost(&mut self, node: NodeId) {
        self.each(|wait| wait.belief.lost(node));
    }

    /// All contenders look at the nodes that tell of nothing, when they are stirred.
    pub(super) fn look_soon(&mut self, now: Instant) {
        self.each(|wait| wait.look_soon(now));
    }

    fn each(&mut self, act: impl Fn(&mut Wait)) {
        if self.is_anyone_waiting() {
            let waiting = self.places.iter_mut();
            waiting
                .filter_map(|place| place.waiting.as_deref_mut())
                .for_each(act);
        }
    }

    /// `node` says that the key of `name` has changed, or that any may have. Returns `true` if anyone
    /// waits for that.
    #[cold]
    pub(super) fn changed(&mut self, now: Instant, node: NodeId, name: Option<&[u8]>) -> bool {
        let one = name.map(|name| self.find(self.names.hash(name), name));
        let stirred = &mut self.stirred;
        let change = |place: &mut Place| {
            if let (Some(wait), Front::Contender(operation)) = (&mut place.waiting, place.front) {
                wait.changed(now, node);
                stirred.push(operation);
            }
        };
        match one {
            Some(None) => {}
            Some(Some(place)) => self.places.get_mut(place.0).into_iter().for_each(change),
            None => self.places.iter_mut().for_each(change),
        }
        self.stirred.extend(self.watches.of(name));
        !self.stirred.is_empty()
    }

    /// Returns the next contender that waits for something that has changed.
    pub(super) fn next_stirred(&mut self) -> Option<OperationKey> {
        self.stirred.pop()
    }

    /// Returns the resource of `place`.
    pub(super) fn name(&self, place: PlaceKey) -> &[u8] {
        let place = self.places.get(place.0).must();
        place.map_or(&[], |place| &place.name)
    }

    /// Returns the claim of the lock on it that this engine holds.
    pub(super) fn holder(&self, place: PlaceKey) -> Option<ClaimKey> {
        match self.places.get(place.0).must()?.front {
            Front::Holder(claim) => Some(claim),
            Front::Nobody | Front::Contender(_) | Front::Freed => None,
        }
    }

    // ----- operations -----------------------------------------------------------------------

    /// Makes `operation`, which has entered, the contender if there is none. Returns `false` if it is
    /// not its turn.
    pub(super) fn contend(&mut self, key: PlaceKey, operation: OperationKey) -> bool {
        let Some(place) = self.get_mut(key).must() else {
            return false;
        };
        if place.front == Front::Nobody {
            place.front = Front::Contender(operation);
        }
        place.front == Front::Contender(operation)
    }

    /// Puts `waiter`, which has entered its place, behind all that wait.
    pub(super) fn queue(&mut self, waiter: Waiter) -> Option<WaiterKey> {
        let place = self.places.get_mut(waiter.place.0).must();
        place.map(|place| self.waiters.push(&mut place.line, waiter))
    }

    /// `waiter` does not wait any more: it is `operation` from now on.
    pub(super) fn open(&mut self, waiter: WaiterKey, operation: OperationKey) {
        if let Some(there) = self.waiters.get(waiter).must()
            && let Some(at) = self.places.get_mut(there.place.0).must()
        {
            self.waiters.open(&mut at.line, waiter, operation);
            if at.front == Front::Contender(OperationKey::of_waiter(waiter)) {
                at.front = Front::Contender(operation);
            }
        }
    }

    /// The caller of `waiter` gives up. Returns `false` if it does not wait.
    pub(super) fn quit(
        &mut self,
        waiter: WaiterKey,
        timers: &mut Timers,
        buffers: &mut Pool<u8>,
    ) -> bool {
        let Some(Waiter { place, timer, .. }) = self.waiters.get(waiter).copied() else {
            return false;
        };
        if let Some(timer) = timer {
            timers.cancel(timer);
        }
        if let Some(at) = self.places.get_mut(place.0).must() {
            self.waiters.remove(&mut at.line, waiter);
        }
        self.left(place, buffers);
        true
    }

    /// Takes `operation` out, which waited as `waiter` or did not wait. Returns the next contender, if
    /// it was the contender itself.
    pub(super) fn leave(
        &mut self,
        place: PlaceKey,
        operation: OperationKey,
        waiter: Option<WaiterKey>,
        buffers: &mut Pool<u8>,
    ) -> Option<OperationKey> {
        let at = self.places.get_mut(place.0).must()?;
        if let Some(waiter) = waiter {
            self.waiters.remove(&mut at.line, waiter);
        }
        if at.overtaken == Some(operation) {
            at.overtaken = None;
        }
        let contended = at.front == Front::Contender(operation);
        let next = contended.then(|| self.promote(place)).flatten();
        self.left(place, buffers);
        next
    }

    // ----- locks ----------------------------------------------------------------------------

    /// The lock of `claim`, which `operation` has taken, is held from now on: the claim uses `place`, and
    /// the operation does not any more. A contender that it has overtaken is the next.
    pub(super) fn hold(&mut self, place: PlaceKey, operation: OperationKey, claim: ClaimKey) {
        if let Some(place) = self.get_mut(place).must() {
            place.overtaken = match place.front {
                Front::Contender(other) => Some(other),
                Front::Nobody | Front::Holder(_) | Front::Freed => place.overtaken,
            };
            place.overtaken = place.overtaken.filter(|other| *other != operation);
            place.front = Front::Holder(claim);
        }
    }

    /// The lock of `claim` is not held any more. Returns the next contender, and whether it is to leave
    /// the lock to others first.
    // Always inlined, as above.
    #[inline(always)]
    pub(super) fn vacate(
        &mut self,
        now: Instant,
        place: PlaceKey,
        claim: ClaimKey,
        buffers: &mut Pool<u8>,
    ) -> Option<(OperationKey, bool)> {
        let at = self.places.get_mut(place.0).must()?;
        let row = self.rows.of(now, at.hash);
        row.released(now);
        let mut next = None;
        if at.front == Front::Holder(claim) {
            at.front = Front::Nobody;
            at.forget_wait(&mut self.waiting);
            if at.is_wanted() {
                let leaves = row.is_over(now);
                next = self.promote(place).map(|next| (next, leaves));
            }
        }
        self.left(place, buffers);
        next
    }

    /// Returns `true` if the contender of `place`, which has just come, is to leave the lock to others
    /// first.
    pub(super) fn leaves_first(&mut self, now: Instant, place: PlaceKey) -> bool {
        let place = self.places.get(place.0).must();
        place.is_some_and(|place| self.rows.of(now, place.hash).is_over_for_one(now))
    }

    /// Makes the next in the queue the contender, and returns it if it is its turn.
    fn promote(&mut self, place: PlaceKey) -> Option<OperationKey> {
        let at = self.places.get_mut(place.0).must()?;
        let overtaken = at.overtaken.take();
        let next = overtaken.or_else(|| self.waiters.next(&mut at.line));
        at.front = next.map_or(Front::Nobody, Front::Contender);
        next.filter(|next| self.leads(*next))
    }

    /// One that used `place` does not any more. A place without users stays until another has none: a
    /// resource is often asked for again.
    #[inline]
    fn left(&mut self, place: PlaceKey, buffers: &mut Pool<u8>) {
        let Some(at) = self.places.get_mut(place.0).must() else {
            return;
        };
        at.users -= 1;
        if at.users == 0 {
            at.forget_wait(&mut self.waiting);
            if let Some(before) = self.idle.replace(place) {
                self.close(before, buffers);
            }
        }
    }

    fn close(&mut self, place: PlaceKey, buffers: &mut Pool<u8>) {
        if let Some(at) = self.places.get_mut(place.0).must() {
            buffers.give(core::mem::take(&mut at.name));
            self.names.remove(at.hash, place.into());
            self.places.discard(place.0);
        }
    }
}

#[cfg(test)]
impl Queues {
    /// Returns `true` if nothing is held or wanted.
    pub(super) fn is_empty(&self) -> bool {
        let places = usize::from(self.idle.is_some());
        let nobody = self.waiters.is_empty() && self.waiting == 0 && self.sets.open.is_empty();
        let unwatched = self.watches.by_name.is_empty();
        self.places.len() == places && nobody && unwatched && self.alone == 0
    }

    /// Asserts that every place has so many users in all, and each queue somebody at its front, who is
    /// open, as are all that have waited.
    pub(super) fn check(
        &self,
        users: usize,
        is_open: impl Fn(OperationKey) -> bool,
        holds: impl Fn(ClaimKey, PlaceKey) -> bool,
    ) {
        let (mut used, mut waiting, mut waiters) = (0, 0, 0);
        for (key, place) in self.places.iter() {
            used += place.users as usize;
            assert_eq!(place.users == 0, self.idle == Some(PlaceKey(key)));
            waiting += usize::from(place.waiting.is_some());
            assert_eq!(self.find(place.hash, &place.name), Some(PlaceKey(key)));
            match place.front {
                Front::Nobody => assert!(!place.is_wanted(), "nobody leads {place:?}"),
                Front::Contender(operation) => assert!(is_open(operation), "{place:?}"),
                Front::Holder(claim) => assert!(holds(claim, PlaceKey(key)), "{place:?}"),
                Front::Freed => assert!(self.is_pending(PlaceKey(key)), "{place:?}"),
            }
            assert!(place.overtaken.is_none_or(&is_open), "{place:?}");
            waiters += self.waiters.of(&place.line).len();
        }
        assert_eq!((used, waiting), (users, self.contenders()));
        let records = self.check_sets(&is_open);
        assert_eq!(waiters, self.waiters.waiting() + records);
        assert!(self.waiters.all_opened().all(is_open), "it is over");
        assert!(self.reminders.len() < 1_000, "{}", self.reminders.len());
    }
}

impl Place {
    /// A place with one user.
    const fn new(name: Vec<u8>, hash: u64) -> Self {
        Self {
            name,
            hash,
            front: Front::Nobody,
            overtaken: None,
            line: Line::EMPTY,
            users: 1,
            waiting: None,
        }
    }

    /// Nobody waits there any more for what is known of the nodes; `waiting` counts such places.
    #[inline]
    fn forget_wait(&mut self, waiting: &mut usize) {
        *waiting -= usize::from(self.waiting.take().is_some());
    }

    /// Returns `true` if any operation waits for its turn there.
    const fn is_wanted(&self) -> bool {
        !self.line.is_empty() || self.overtaken.is_some()
    }
}
