//! Each resource has a queue. Only the first operation in a queue asks the nodes.
//!
//! A resource has a *place* while this engine holds a lock on it, or while an operation wants such a lock. A lock that
//! is kept *alone* has no place. Until another operation wants the resource, the table of names refers directly to the
//! lock's claim. One operation at a time is the *contender* of a place, and only the contender asks the nodes. The
//! other operations wait behind the contender, first come, first served. While this engine holds the lock, no operation
//! asks the nodes. When the engine releases the lock, the first operation in the queue becomes the contender, and its
//! request follows the release on each connection.
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
//! * Waiters of one resource become contenders in the order in which they arrived.
//! * Entering a queue, leaving it and passing the turn on take constant time. The queues allocate memory only if there
//!   are more places or waiters than ever before.
//! * An operation that has ended leaves nothing behind in the queues. A place without users is closed when another
//!   place loses its last user.
//!
//! # Sets
//!
//! An operation on several resources, called a *set*, gets all of them or none. A set waits in the queue of each
//! resource, and enters all queues in one step. Two sets therefore have the same order in every queue that they share,
//! and cannot wait for each other. When a set reaches the front of a queue, it becomes the contender of that resource.
//! The set asks the nodes as soon as it is the contender of all its resources.
//!
//! # Readers
//!
//! A reader is an operation that wants a shared lock. A reader never becomes the holder. A reader asks the nodes at the
//! same time as other readers, unless another operation of this engine holds the resource or waits for it. A reader
//! that follows another reader passes its turn on when it asks the nodes. Any other reader passes its turn on when it
//! gets its lock. Therefore all readers at the front of a queue ask together with the operation behind them. A
//! contender for the exclusive lock records an intent on the nodes. When the nodes admit readers despite the intent,
//! the readers behind this contender ask the nodes too.
//!
//! # Permits
//!
//! Like a reader, an operation that wants a permit asks the nodes at the same time as other operations. If this engine
//! or other clients have all permits, or if this engine asks for all of them, other operations wait in the queue. After
//! a refusal, the first operation in the queue becomes the contender. This contender wakes when the key changes, and
//! when this engine releases a permit. When a permit is taken or released, one more operation may ask the nodes, unless
//! the place has a contender.
//!
//! # Not here
//!
//! The file `policy.rs` decides when a contender asks the nodes again. Operations that make only one attempt do not
//! wait, but ask the nodes at the same time as the contender.

mod alone;
mod belief;
mod line;
mod names;
mod policy;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::ops::Bound::{Included, Unbounded};
use core::time::Duration;

use crate::invariant::Must;
use crate::keys::{ClaimKey, NodeId, OperationKey, PlaceKey, WaiterKey};
use crate::limits::STRING_BYTES_MAX;
use crate::node::{Remaining, keeps_out};
use crate::quorum::NodeSet;
use crate::slab::Slab;
use crate::time::Instant;

use super::claims::Claims;
use super::news::News;
use super::pool::Pool;
pub(super) use belief::{ROUNDED, Wants};
pub(super) use line::{Caller, Extra, Waiter};
use line::{Line, Waiters};
use names::{Names, Where};
use policy::Rows;
pub(super) use policy::{INTENT, Next, Refusal, Wait, between};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Queues {
    places: Slab<Place>,
    pub(super) waiters: Waiters,
    names: Names,
    rows: Rows,
    /// The place that lost its last user most recently.
    idle: Option<PlaceKey>,
    /// The contenders to wake because their turn has come. If a contender must first let other programs take the lock,
    /// its place is stored too.
    turns: VecDeque<(OperationKey, Option<PlaceKey>)>,
    /// The waits of contenders whose latest attempt was refused, by place.
    waits: BTreeMap<PlaceKey, Box<Wait>>,
    /// Contenders and watches that must act on a change.
    stirred: Vec<OperationKey>,
    /// The operations that watch a resource, each with the hash of the resource's name. If two names have the same
    /// hash, an operation asks the nodes more often than necessary.
    watches: BTreeSet<(u64, OperationKey)>,
    /// The times at which contenders need a reminder. The times are exact to the nanosecond, because a contender often
    /// waits for less than a tick of the timer wheel. A reminder for a contender that has ended is harmless.
    reminders: BTreeSet<(Instant, PlaceKey)>,
}

/// One resource that is held or wanted.
#[derive(Debug)]
pub(super) struct Place {
    /// The resource, in a buffer of the pool.
    name: Vec<u8>,
    hash: u64,
    /// The claim of the lock that this engine holds.
    holder: Option<ClaimKey>,
    /// The first operation that wants the lock. The contender asks the nodes while there is no holder. If another
    /// operation was faster, the place has both a holder and a contender.
    contender: Option<OperationKey>,
    line: Line,
    /// Whether the latest lock on this resource went to a reader, or to an operation that wanted a permit and had not
    /// waited. This flag is cleared when a contender is refused.
    is_read: bool,
    /// The total number of permits, as stated by the latest request for a permit. Zero means that no caller has asked
    /// for a permit.
    permits: u16,
    /// The number of permits and shared locks that were released.
    given_back: u32,
    /// The number of operations and locks that use this place.
    users: u32,
}

impl Queues {
    /// Creates the queues, without any place. The `seed` decides the order of names in memory.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            places: Slab::new(),
            waiters: Waiters::new(),
            names: Names::new(seed),
            rows: Rows::new(),
            idle: None,
            turns: VecDeque::new(),
            waits: BTreeMap::new(),
            stirred: Vec::new(),
            watches: BTreeSet::new(),
            reminders: BTreeSet::new(),
        }
    }

    /// Returns the place of `name`, and counts one more user.
    // Always inlined, because every lock on one resource calls this function.
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
        let is = |at: Where| match at.place() {
            Some(index) => self.places.at(index).name == name,
            None => claims.at(at.claim()).1.entry.resource() == name,
        };
        match self.names.find(hash, is) {
            Some(found) if let Some(index) = found.place() => {
                let place = self.places.at_mut(index);
                place.users += 1; // This cannot be the idle place: its name was compared above.
                PlaceKey(self.places.key_at(index))
            }
            Some(found) => self.join(hash, name, found, claims),
            None => {
                let place = self.open_place(hash, name, &mut claims.buffers);
                self.names.insert(hash, place.into());
                place
            }
        }
    }

    /// Opens a place for `name` with one user. The caller adds the new place to the table of names.
    fn open_place(&mut self, hash: u64, name: &[u8], buffers: &mut Pool<Vec<u8>>) -> PlaceKey {
        let mut buffer = buffers.take().unwrap_or_default();
        buffer.extend_from_slice(name);
        PlaceKey(self.places.insert(Place::new(buffer, hash)))
    }

    /// Returns the place of `name`, if the name has one.
    pub(super) fn find(&self, name: &[u8]) -> Option<PlaceKey> {
        let is =
            |at: Where| matches!(at.place(), Some(index) if self.places.at(index).name == name);
        let index = self.names.find(self.names.hash(name), is)?.place()?;
        Some(PlaceKey(self.places.key_at(index)))
    }

    /// Returns the contender of `place`, if this engine does not hold the lock.
    pub(super) fn contender(&self, place: PlaceKey) -> Option<OperationKey> {
        self.places.get(place.0)?.asks()
    }

    /// If the latest attempt of the contender of `place` was refused, returns its wait and the resource.
    pub(super) fn waiting(&mut self, place: PlaceKey) -> Option<(&mut Wait, &[u8])> {
        let wait = self.waits.get_mut(&place)?;
        Some((wait, &self.places.get(place.0)?.name))
    }

    /// Handles the answer of `node` about the key of `place`: how much time is `left` (at most `limit`), and whether
    /// the node `pushes` changes. Returns the contender if the contender may need to act.
    #[cold]
    pub(super) fn looked(
        &mut self,
        now: Instant,
        node: NodeId,
        place: PlaceKey,
        (left, pushes): (Option<Remaining>, bool),
        limit: Duration,
    ) -> Option<OperationKey> {
        let (waiting, _) = self.waiting(place)?;
        // If a node does not say how much time is left, its key counts as free after the random delay.
        let left = left.unwrap_or(Remaining::For(waiting.delay_left(now)));
        let left = match left {
            Remaining::For(left) => Remaining::For(left.min(limit)),
            Remaining::Missing | Remaining::Permanent => left,
        };
        waiting.answered(now, node, left, pushes);
        self.contender(place)
    }

    /// Returns the wait of the contender of `place`. If no wait exists, creates one for this number of `nodes`, about
    /// which nothing is known.
    pub(super) fn begin_waiting(&mut self, place: PlaceKey, nodes: usize) -> &mut Wait {
        let at = self.places.get_mut(place.0);
        let was_read = at.is_some_and(|at| core::mem::take(&mut at.is_read));
        let new = || Box::new(Wait::new(nodes));
        let wait = self.waits.entry(place).or_insert_with(new);
        if was_read {
            wait.ask_at_once();
        }
        wait
    }

    /// Ends the wait of the contender of `place`.
    #[inline]
    pub(super) fn stop_waiting(&mut self, place: PlaceKey) {
        if !self.waits.is_empty() {
            self.waits.remove(&place);
        }
    }

    /// Returns `true` if any contender may be waiting, or if any operation watches a resource.
    pub(super) fn is_anyone_waiting(&self) -> bool {
        !self.waits.is_empty() || !self.watches.is_empty()
    }

    /// Returns the hash of the part of `name` that a node reports.
    pub(super) fn hash_cut(&self, name: &[u8]) -> u64 {
        self.names.hash(&name[..name.len().min(STRING_BYTES_MAX)])
    }

    /// Returns the number of operations that watch a resource.
    pub(super) fn watches(&self) -> usize {
        self.watches.len()
    }

    /// Makes `operation` learn of every change of `name`.
    pub(super) fn watch(&mut self, name: &[u8], operation: OperationKey) {
        self.watches.insert((self.names.hash(name), operation));
    }

    /// Ends the watch of `operation` on `name`.
    pub(super) fn unwatch(&mut self, name: &[u8], operation: OperationKey) {
        self.watches.remove(&(self.names.hash(name), operation));
    }

    /// Returns the operations that watch `name`. `None` stands for any name.
    pub(super) fn watching(&self, name: Option<&[u8]>) -> impl Iterator<Item = OperationKey> {
        let hash = name.map(|name| self.names.hash(name));
        let first = hash.map_or(Unbounded, |hash| Included((hash, OperationKey::LEAST)));
        let watches = self.watches.range((first, Unbounded));
        let watches = watches.take_while(move |(of, _)| hash.is_none_or(|hash| hash == *of));
        watches.map(|(_, operation)| *operation)
    }

    /// Records that this engine has written to the key of `name` on `nodes`, which ends the registrations there. Makes
    /// the contender and all watches of `name` ask the nodes again. `released` says whether the write has removed a
    /// token.
    pub(super) fn wrote(
        &mut self,
        now: Instant,
        name: &[u8],
        (nodes, released): (NodeSet, bool),
        news: &mut VecDeque<News>,
    ) {
        if let Some(place) = self.find(name)
            && let Some((wait, _)) = self.waiting(place)
        {
            for node in nodes.iter() {
                wait.belief.wrote(node);
                if released && wait.belief.wants() == Wants::Slot {
                    wait.belief.is_full(node, now, None);
                }
            }
            wait.look_soon(now);
            news.extend(self.contender(place).map(News::Stirred));
        }
        news.extend(self.watching(Some(name)).map(News::Stirred));
    }

    /// Reminds the contender of `place` at this time.
    pub(super) fn remind(&mut self, at: Instant, place: PlaceKey) {
        self.reminders.insert((at, place));
    }

    /// Returns the time of the next reminder.
    pub(super) fn next_reminder(&self) -> Option<Instant> {
        self.reminders.first().map(|(at, _)| *at)
    }

    /// Returns the next place with a reminder that is due at `now`.
    pub(super) fn reminded(&mut self, now: Instant) -> Option<PlaceKey> {
        self.next_reminder().filter(|at| *at <= now)?;
        self.reminders.pop_first().map(|(_, place)| place)
    }

    /// Records that the contender of `place` was refused. `wants` says whether the contender wants a permit. The
    /// refusal shows that other clients use the resource, unless this engine has or asks for all permits.
    pub(super) fn met_others(&mut self, now: Instant, place: PlaceKey, wants: Wants) {
        if let Some(place) = self.places.get(place.0).must()
            && (wants != Wants::Slot || place.has_room(1))
        {
            let row = self.rows.of(now, place.hash);
            row.met_others(now, wants != Wants::Slot);
        }
    }

    /// Records that the registrations on `node` are lost, for all places.
    pub(super) fn lost(&mut self, node: NodeId) {
        let waits = self.waits.values_mut();
        waits.for_each(|wait| wait.belief.lost(node));
    }

    /// Makes each contender, when it next wakes up, also ask the nodes that send no notifications.
    pub(super) fn look_soon(&mut self, now: Instant) {
        let waits = self.waits.values_mut();
        waits.for_each(|wait| wait.look_soon(now));
    }

    /// Records that `node` has reported a change of the key of `name`. `None` means that any key may have changed.
    /// Returns `true` if an operation waits for this change.
    #[cold]
    pub(super) fn changed(&mut self, now: Instant, node: NodeId, name: Option<&[u8]>) -> bool {
        let places = match name.map(|name| self.find(name).unwrap_or(PlaceKey::NONE)) {
            None => (Unbounded, Unbounded),
            Some(place) => (Included(place), Included(place)),
        };
        let mut stirred = core::mem::take(&mut self.stirred);
        for (place, wait) in self.waits.range_mut(places) {
            if let Some(operation) = self.places.get(place.0).and_then(Place::asks) {
                wait.changed(now, node);
                stirred.push(operation);
            }
        }
        stirred.extend(self.watching(name));
        self.stirred = stirred;
        !self.stirred.is_empty()
    }

    /// Returns the next operation that must act on a change.
    pub(super) fn next_stirred(&mut self) -> Option<OperationKey> {
        self.stirred.pop()
    }

    /// Returns the resource of `place`.
    pub(super) fn name(&self, place: PlaceKey) -> &[u8] {
        let place = self.places.get(place.0).must();
        place.map_or(&[], |place| &place.name)
    }

    /// Returns the claim of this engine's lock on the resource of `place`.
    pub(super) fn holder(&self, place: PlaceKey) -> Option<ClaimKey> {
        self.places.get(place.0).must()?.holder
    }

    // ----- operations -------------------------------------------------------------------------

    /// Makes `operation`, which has entered `key`, the contender if the place has no contender, no holder and no queue.
    /// Returns `false` if the operation must wait for its turn. No operation may overtake the queue, because the order
    /// of two sets must be the same at each place that they share.
    pub(super) fn contend(&mut self, key: PlaceKey, operation: OperationKey) -> bool {
        let place = self.places.get_mut(key.0).must();
        place.is_some_and(|place| {
            if place.contender.is_none() && place.holder.is_none() && place.line.is_empty() {
                place.contender = Some(operation);
            }
            place.asks() == Some(operation)
        })
    }

    /// Makes `operation`, whose attempt was refused, the contender of `key` if the place no longer has a contender.
    /// Returns `false` if the operation must wait for its turn. A contender that was overtaken remains the contender.
    pub(super) fn contend_first(&mut self, key: PlaceKey, operation: OperationKey) -> bool {
        let place = self.places.get_mut(key.0).must();
        place.is_some_and(|place| {
            if place.holder.is_none() {
                place.contender.get_or_insert(operation);
            }
            place.contender == Some(operation)
        })
    }

    /// Puts `caller`, which has entered `place`, at the end of the queue of this place.
    pub(super) fn queue(&mut self, place: PlaceKey, caller: Caller) -> Option<WaiterKey> {
        let at = self.places.get_mut(place.0).must()?;
        Some(self.waiters.push(&mut at.line, caller))
    }

    /// Turns `waiter` into `operation`, which no longer waits.
    pub(super) fn open(&mut self, waiter: WaiterKey, operation: OperationKey) {
        if let Some(there) = self.waiters.get(waiter).must()
            && let Some(at) = self.places.get_mut(there.place.0).must()
        {
            self.waiters.open(&mut at.line, waiter, operation);
            if at.contender == Some(OperationKey::of_waiter(waiter)) {
                at.contender = Some(operation);
            }
        }
    }

    /// Removes `operation`, and its `waiter` if it has one.
    pub(super) fn leave(
        &mut self,
        place: PlaceKey,
        operation: OperationKey,
        waiter: Option<WaiterKey>,
        buffers: &mut Pool<Vec<u8>>,
    ) {
        let Some(at) = self.places.get_mut(place.0).must() else {
            return;
        };
        if let Some(waiter) = waiter {
            self.waiters.remove(&mut at.line, waiter);
        }
        if at.contender == Some(operation) {
            at.contender = None;
        }
        self.promote_beside(place, 1);
        self.left(place, buffers);
    }

    // ----- locks ------------------------------------------------------------------------------

    /// Records that `operation` has taken the lock of `claim`. The claim now counts as a user of `place` instead of the
    /// operation. If the operation has overtaken a contender, that contender has the next turn.
    pub(super) fn hold(&mut self, place: PlaceKey, operation: OperationKey, claim: ClaimKey) {
        if let Some(place) = self.places.get_mut(place.0).must() {
            place.contender = place.contender.filter(|other| *other != operation);
            place.holder = Some(claim);
        }
    }

    /// Records that no caller holds the lock of `claim` any longer.
    // Always inlined, because every lock on one resource calls this function.
    #[inline(always)]
    pub(super) fn vacate(
        &mut self,
        now: Instant,
        place: PlaceKey,
        claim: ClaimKey,
        buffers: &mut Pool<Vec<u8>>,
    ) {
        let Some(at) = self.places.get_mut(place.0).must() else {
            return;
        };
        let row = self.rows.of_wanted(now, at.hash, at.is_wanted());
        row.released(now);
        if at.holder == Some(claim) {
            at.holder = None;
            if !self.waits.is_empty() {
                self.waits.remove(&place);
            }
            if at.is_wanted() {
                at.is_read = false;
                let leaves = row.is_over(now, false);
                self.promote(place, leaves);
            }
        } else {
            at.given_back = at.given_back.wrapping_add(1);
            if at.holder.is_none() && at.is_wanted() && row.is_over(now, false) {
                self.promote(place, true);
            } else {
                self.promote_beside(place, 1);
            }
        }
        self.left(place, buffers);
    }

    // ----- readers ----------------------------------------------------------------------------

    /// Passes the turn of `operation` on to the next operation. The operation has got its shared lock, or asks the
    /// nodes at the same time as others. If `operation` wants a permit, the next operation gets the turn only if an
    /// operation before it was granted its lock.
    #[cold]
    pub(super) fn give_on(&mut self, place: PlaceKey, operation: OperationKey, wants: Wants) {
        if let Some(at) = self.places.get_mut(place.0).must()
            && at.contender.take_if(|other| *other == operation).is_some()
        {
            self.waits.remove(&place);
            if wants != Wants::Slot || at.is_read {
                self.promote_beside(place, 0);
            }
        }
    }

    /// Records that the lock of `claim` is shared from now on. It may now be the turn of other readers.
    #[cold]
    pub(super) fn share(&mut self, place: PlaceKey, claim: ClaimKey) {
        if let Some(at) = self.places.get_mut(place.0).must() {
            at.is_read = true;
            if at.holder.take_if(|holder| *holder == claim).is_some() {
                self.waits.remove(&place);
                self.promote(place, false);
            }
        }
    }

    /// Makes `operation` the contender of `key` if it may ask for one of the `permits` now. The operation may do so if
    /// no other operation waits, and if this engine holds or requests fewer permits than there are.
    #[cold]
    pub(super) fn contend_for_slot(
        &mut self,
        key: PlaceKey,
        operation: OperationKey,
        permits: u16,
    ) -> bool {
        let place = self.places.get_mut(key.0).must();
        let may_ask = place.is_some_and(|place| {
            place.permits = permits;
            place.line.is_empty() && place.has_room(1)
        });
        may_ask && self.contend(key, operation)
    }

    /// Records that `operation` has taken a permit. If no attempt of the operation was refused, other operations may
    /// ask the nodes at the same time as the next operation.
    #[cold]
    pub(super) fn took_slot(&mut self, place: PlaceKey, operation: OperationKey) {
        if let Some(at) = self.places.get_mut(place.0).must() {
            match at.contender == Some(operation) {
                false => at.is_read = at.contender.is_none(),
                true => {
                    at.contender = None;
                    at.is_read |= self.waits.remove(&place).is_none();
                }
            }
            self.promote_beside(place, 0);
        }
    }

    /// Returns the number of permits at `place` if this engine has or asks for all permits. The count leaves out an
    /// operation that has neither asked the nodes nor joined the queue.
    #[cold]
    pub(super) fn has_all_permits(&self, place: PlaceKey) -> Option<u16> {
        let at = self.places.get(place.0).filter(|at| !at.has_room(1))?;
        Some(at.permits)
    }

    /// Returns how many permits and shared locks this engine has released at `place`.
    pub(super) fn given_back(&self, place: PlaceKey) -> u32 {
        self.places.get(place.0).map_or(0, |at| at.given_back)
    }

    /// Returns `true` if a reader passes its turn on when it asks the nodes, and not only when it gets its lock.
    pub(super) fn is_read(&self, place: PlaceKey) -> bool {
        self.places.get(place.0).is_some_and(|at| at.is_read)
    }

    /// Returns `true` if the contender of `place` waits, or has waited until now, for readers to release their locks.
    pub(super) fn is_behind_readers(&self, now: Instant, place: PlaceKey) -> bool {
        let wait = self.waits.get(&place);
        wait.is_some_and(|wait| wait.is_behind_readers(now))
    }

    /// Returns the time at which the next reader may pass the contender of `place`. If no contender waits for readers,
    /// returns the time at which a new intent would stop blocking readers.
    #[cold]
    pub(super) fn passes_at(&self, now: Instant, place: PlaceKey) -> Instant {
        let wait = self.contender(place).and(self.waits.get(&place));
        let age = wait.and_then(|wait| wait.age_of_intent(now));
        let span = Duration::from_millis(keeps_out(age.unwrap_or_default()));
        now.saturating_add(span.min(Duration::from_millis(keeps_out(0))))
    }

    /// Puts `operation`, which was refused while the contender of `place` waited, at the front of the queue. The
    /// operation stays behind operations that were refused earlier for the same reason.
    #[cold]
    pub(super) fn queue_first(
        &mut self,
        place: PlaceKey,
        operation: OperationKey,
    ) -> Option<WaiterKey> {
        let at = self.places.get_mut(place.0).must()?;
        Some(self.waiters.push_front(&mut at.line, operation))
    }

    /// Removes the record of a reader from the queue at `place`, if it is still there.
    #[cold]
    pub(super) fn step_out(&mut self, place: PlaceKey, waiter: WaiterKey) {
        if let Some(at) = self.places.get_mut(place.0).must() {
            self.waiters.remove(&mut at.line, waiter);
        }
    }

    /// Gives the turn to the first operation in the queue, if the place has no contender. An operation that wants a
    /// permit gets the turn only if this engine holds or requests fewer permits than there are. `leaving` is the number
    /// of users of `place` that are about to leave.
    fn promote_beside(&mut self, place: PlaceKey, leaving: u32) {
        if let Some(at) = self.places.get(place.0)
            && at.contender.is_none()
            && at.holder.is_none()
            && (!self.waiters.is_for_permit(&at.line) || at.has_room(leaving))
        {
            self.promote(place, false);
        }
    }

    // ----- rows -------------------------------------------------------------------------------

    /// Returns `true` if the contender of `place`, which has just arrived, should first let other programs take the
    /// lock.
    pub(super) fn leaves_first(&mut self, now: Instant, place: PlaceKey) -> bool {
        let place = self.places.get(place.0).must();
        place.is_some_and(|place| self.rows.of(now, place.hash).is_over(now, true))
    }

    /// Gives the turn to the contender of `place`. If the place has no contender, makes the first operation in the
    /// queue the contender.
    fn promote(&mut self, place: PlaceKey, leaves: bool) {
        if let Some(at) = self.places.get_mut(place.0).must() {
            at.contender = at.contender.or_else(|| self.waiters.next(&mut at.line));
            let left = leaves.then_some(place);
            self.turns.extend(at.contender.map(|next| (next, left)));
        }
    }

    /// Returns `true` if a contender must be woken because its turn has come.
    #[inline]
    pub(super) fn has_turns(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Returns the next contender to wake because its turn has come. If the contender must first let other programs
    /// take the lock, also returns its place.
    #[inline]
    pub(super) fn next_turn(&mut self) -> Option<(OperationKey, Option<PlaceKey>)> {
        self.turns.pop_front()
    }

    /// Removes a user of `place`. A place without users stays until another place loses its last user, because callers
    /// often ask for the same resource again.
    #[inline]
    pub(super) fn left(&mut self, place: PlaceKey, buffers: &mut Pool<Vec<u8>>) {
        let Some(at) = self.places.get_mut(place.0).must() else {
            return;
        };
        at.users -= 1;
        if at.users == 0 {
            self.stop_waiting(place);
            if let Some(before) = self.idle.replace(place) {
                self.close(before, buffers);
            }
        }
    }

    fn close(&mut self, place: PlaceKey, buffers: &mut Pool<Vec<u8>>) {
        if let Some(at) = self.places.get_mut(place.0).must() {
            buffers.give_buffer(core::mem::take(&mut at.name));
            self.names.remove(at.hash, place.into());
            self.places.discard(place.0);
        }
    }
}

impl Place {
    /// Creates a place with one user.
    const fn new(name: Vec<u8>, hash: u64) -> Self {
        Self {
            name,
            hash,
            holder: None,
            contender: None,
            line: Line::EMPTY,
            is_read: false,
            permits: 0,
            given_back: 0,
            users: 1,
        }
    }

    /// Returns `true` if a user that is not in the queue may ask for a permit. `leaving` is the number of users to
    /// leave out of the count.
    fn has_room(&self, leaving: u32) -> bool {
        let others = self.users - self.line.len() - leaving;
        self.permits == 0 || others < self.permits.into()
    }

    /// Returns the contender, if this engine does not hold the lock.
    fn asks(&self) -> Option<OperationKey> {
        self.contender.filter(|_| self.holder.is_none())
    }

    /// Returns `true` if any operation waits at this place.
    const fn is_wanted(&self) -> bool {
        !self.line.is_empty() || self.contender.is_some()
    }
}

#[cfg(test)]
mod tests;
