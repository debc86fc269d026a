//! A line contains callers in the order of their arrival. Each caller can leave the line at any time.
//!
//! All lines store their callers in one slab, which grows to the largest number of callers at the same time. Each call
//! takes constant time.
//!
//! A waiter is not an operation yet: it has no round, no ballots and no claim. The operation is opened when its turn
//! comes or its wait has timed out. Once the operation is open, the waiter's record refers to it, because the caller
//! knows only the key of the record.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::time::Duration;

use crate::config::Owner;
use crate::invariant::Must;
use crate::keys::{OperationKey, PlaceKey, WaiterKey};
use crate::slab::{self, Key, Link, Slab};
use crate::time::{Instant, nanos};
use crate::timer::TimerKey;

/// One line of callers, as the [module](self) describes it.
#[derive(Debug)]
pub(super) struct Line {
    first: Link,
    last: Link,
    /// The number of callers in the line.
    len: u32,
}

/// The callers of all lines.
#[derive(Debug)]
pub(in crate::engine) struct Waiters {
    slab: Slab<(Caller, Links)>,
    /// The number of waiters.
    waiting: usize,
    /// Additional options that few waiters have.
    extras: BTreeMap<Key, Extra>,
}

/// A caller whose operation waits for its turn, or has waited for it.
#[derive(Debug)]
pub(in crate::engine) enum Caller {
    Waits(Waiter),
    /// The operation is open under this key. The operation wants a set of resources and waits in the line of each, or
    /// it is a reader that was refused while other operations were asking.
    Set(OperationKey),
    /// The operation is open under this key, and is no longer in a line.
    Open(OperationKey),
}

/// The neighbours of a caller in a line.
#[derive(Clone, Copy, Debug)]
struct Links {
    before: Link,
    behind: Link,
}

/// The additional options of a waiter.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(in crate::engine) struct Extra {
    /// The number of nanoseconds for which the engine keeps the lock. Zero means that the engine does not keep the
    /// lock.
    pub(in crate::engine) keep: u64,
    /// Whether the caller wants a fencing token.
    pub(in crate::engine) fenced: bool,
    /// Whether the caller wants a shared lock.
    pub(in crate::engine) shared: bool,
    /// The number of permits, if the caller wants a permit. Zero means that the caller does not want a permit.
    pub(in crate::engine) permits: u16,
    /// The owner of the lock, or `None` for the owner of the handle.
    pub(in crate::engine) owner: Option<Box<Owner>>,
}

/// The record of an operation that waits for its turn. The record is packed, because padding would add eight bytes.
#[derive(Clone, Copy, Debug)]
#[repr(Rust, packed(4))]
pub(in crate::engine) struct Waiter {
    pub(in crate::engine) place: PlaceKey,
    /// When the call was made.
    pub(in crate::engine) started: Instant,
    /// The caller's deadline, or [`Instant::MAX`] if the caller waits without a limit.
    deadline: Instant,
    /// The ttl in nanoseconds.
    ttl: u64,
    /// The number of attempts that the caller allows. `u32::MAX` means that only time limits the attempts.
    tries_allowed: u32,
    pub(in crate::engine) extensions: u32,
    pub(in crate::engine) timer: Option<TimerKey>,
}

// The size of a waiter matters, because there may be very many waiters.
const _: () = assert!(size_of::<slab::Place<(Caller, Links)>>() <= 64);

impl Waiter {
    pub(in crate::engine) fn new(
        place: PlaceKey,
        started: Instant,
        deadline: Option<Instant>,
        ttl: Duration,
        tries_allowed: Option<u32>,
        extensions: u32,
    ) -> Self {
        Self {
            place,
            started,
            deadline: deadline.unwrap_or(Instant::MAX),
            ttl: nanos(ttl),
            tries_allowed: tries_allowed.unwrap_or(u32::MAX),
            extensions,
            timer: None,
        }
    }

    pub(in crate::engine) fn deadline(&self) -> Option<Instant> {
        Some(self.deadline).filter(|deadline| *deadline != Instant::MAX)
    }

    pub(in crate::engine) const fn ttl(&self) -> Duration {
        Duration::from_nanos(self.ttl)
    }

    pub(in crate::engine) fn tries_allowed(&self) -> Option<u32> {
        Some(self.tries_allowed).filter(|tries| *tries != u32::MAX)
    }
}

impl Line {
    pub(super) const EMPTY: Self = Self {
        first: Link::NONE,
        last: Link::NONE,
        len: 0,
    };

    /// Returns the number of callers in the line.
    pub(super) const fn len(&self) -> u32 {
        self.len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.first.index().is_none()
    }
}

impl Waiters {
    /// Creates an empty list of waiters.
    pub(super) const fn new() -> Self {
        Self {
            slab: Slab::new(),
            waiting: 0,
            extras: BTreeMap::new(),
        }
    }

    /// Returns the number of waiters.
    pub(in crate::engine) const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns the keys of all waiters, in the order of the slab.
    pub(in crate::engine) fn keys(&self) -> impl Iterator<Item = WaiterKey> {
        let all = self.slab.iter();
        all.filter(|(_, caller)| matches!(caller, (Caller::Waits(_), _)))
            .map(|(key, _)| WaiterKey(key))
    }

    /// Returns the record of `waiter`, if it still waits.
    pub(in crate::engine) fn get(&self, waiter: WaiterKey) -> Option<&Waiter> {
        match &self.slab.get(waiter.0)?.0 {
            Caller::Waits(waiter) => Some(waiter),
            Caller::Open(_) | Caller::Set(_) => None,
        }
    }

    /// Like [`get`](Self::get), but mutable.
    pub(in crate::engine) fn get_mut(&mut self, waiter: WaiterKey) -> Option<&mut Waiter> {
        match &mut self.slab.get_mut(waiter.0)?.0 {
            Caller::Waits(waiter) => Some(waiter),
            Caller::Open(_) | Caller::Set(_) => None,
        }
    }

    /// Returns the open operation of the caller with this `key`, whether or not the operation has waited.
    pub(in crate::engine) fn opened(&self, key: OperationKey) -> Option<OperationKey> {
        let Some(waiter) = key.waiter() else {
            return Some(key);
        };
        match self.slab.get(waiter.0)?.0 {
            Caller::Waits(_) | Caller::Set(_) => None,
            Caller::Open(operation) => Some(operation),
        }
    }

    /// Puts `caller` at the end of `line`.
    pub(super) fn push(&mut self, line: &mut Line, caller: Caller) -> WaiterKey {
        self.waiting += usize::from(matches!(caller, Caller::Waits(_)));
        let (before, behind) = (line.last, Link::NONE);
        let key = self.slab.insert((caller, Links { before, behind }));
        self.join(line, before, Link::to(key.index()));
        line.last = Link::to(key.index());
        line.len += 1;
        WaiterKey(key)
    }

    /// Puts the open `operation` at the front of `line`, but behind other open operations in this line.
    pub(super) fn push_front(&mut self, line: &mut Line, operation: OperationKey) -> WaiterKey {
        let (mut before, mut behind) = (Link::NONE, line.first);
        while let Some(index) = behind.index()
            && let (Caller::Set(_), links) = self.slab.at(index)
        {
            (before, behind) = (behind, links.behind);
        }
        let caller = Caller::Set(operation);
        let key = self.slab.insert((caller, Links { before, behind }));
        let own = Link::to(key.index());
        self.join(line, before, own);
        self.join(line, own, behind);
        line.len += 1;
        WaiterKey(key)
    }

    /// Records the additional options of `waiter`.
    pub(in crate::engine) fn want(&mut self, waiter: WaiterKey, extra: Extra) {
        self.extras.insert(waiter.0, extra);
    }

    /// Returns the additional options of `waiter`.
    pub(in crate::engine) fn wanted(&self, waiter: WaiterKey) -> Extra {
        self.extras.get(&waiter.0).cloned().unwrap_or_default()
    }

    /// Returns the first caller of `line`, which becomes the contender. A set leaves the line immediately, and a waiter
    /// leaves it when its operation is opened.
    pub(super) fn next(&mut self, line: &mut Line) -> Option<OperationKey> {
        let index = line.first.index()?;
        let key = WaiterKey(self.slab.key_at(index));
        if let Caller::Set(operation) = self.slab.at(index).0 {
            self.remove(line, key);
            return Some(operation);
        }
        Some(OperationKey::of_waiter(key))
    }

    /// Returns `true` if the first caller of `line` wants a permit and has not asked for one yet.
    pub(super) fn is_for_permit(&self, line: &Line) -> bool {
        let first = line.first.index().map(|index| self.slab.key_at(index));
        let extra = first.and_then(|first| self.extras.get(&first));
        extra.is_some_and(|extra| extra.permits != 0)
    }

    /// Removes `waiter` from `line`, and turns it into `operation`.
    pub(super) fn open(&mut self, line: &mut Line, waiter: WaiterKey, operation: OperationKey) {
        if let Some((caller, links)) = self.slab.get_mut(waiter.0).must() {
            let before = core::mem::replace(caller, Caller::Open(operation));
            let links = *links;
            self.leave(line, waiter, (before, links));
        }
    }

    /// Ends `waiter`, and removes it from `line` if it is still in this line.
    pub(super) fn remove(&mut self, line: &mut Line, waiter: WaiterKey) {
        if let Some(caller) = self.slab.remove(waiter.0) {
            self.leave(line, waiter, caller);
        }
    }

    fn leave(&mut self, line: &mut Line, waiter: WaiterKey, (caller, links): (Caller, Links)) {
        self.extras.remove(&waiter.0);
        self.waiting -= usize::from(matches!(caller, Caller::Waits(_)));
        if !matches!(caller, Caller::Open(_)) {
            self.join(line, links.before, links.behind);
            line.len -= 1;
        }
    }

    /// Makes `behind` follow `before`. If either neighbour is missing, the other becomes an end of `line`.
    fn join(&mut self, line: &mut Line, before: Link, behind: Link) {
        match before.index() {
            None => line.first = behind,
            Some(index) => self.slab.at_mut(index).1.behind = behind,
        }
        match behind.index() {
            None => line.last = before,
            Some(index) => self.slab.at_mut(index).1.before = before,
        }
    }

    /// Forgets `waiter`, which must not be waiting any longer.
    pub(in crate::engine) fn forget(&mut self, waiter: WaiterKey) {
        self.slab.discard(waiter.0);
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::slab::Key;

    impl Waiters {
        pub(in crate::engine::queues) const fn is_empty(&self) -> bool {
            self.slab.is_empty()
        }

        /// Returns the waiters of `line` in order, and asserts that the line is intact.
        pub(in crate::engine::queues) fn of(&self, line: &Line) -> Vec<WaiterKey> {
            let (mut next, mut last) = (line.first, Link::NONE);
            let mut waiters = Vec::new();
            while let Some(at) = next.index() {
                let (caller, links) = self.slab.at(at);
                assert!(!matches!(caller, Caller::Open(_)), "it does not wait");
                assert_eq!(links.before, last);
                waiters.push(WaiterKey(self.slab.key_at(at)));
                (next, last) = (links.behind, next);
            }
            assert_eq!(line.last, last);
            waiters
        }

        /// Returns the sets in all lines, once for each line.
        pub(in crate::engine::queues) fn sets(&self) -> impl Iterator<Item = OperationKey> {
            let all = self.slab.iter();
            all.filter_map(|(_, (caller, _))| match caller {
                Caller::Waits(_) | Caller::Open(_) => None,
                Caller::Set(operation) => Some(*operation),
            })
        }

        /// Returns the operations in all lines that no longer wait.
        pub(in crate::engine::queues) fn all_opened(&self) -> impl Iterator<Item = OperationKey> {
            let all = self.slab.iter();
            all.filter_map(|(_, (caller, _))| match caller {
                Caller::Waits(_) | Caller::Set(_) => None,
                Caller::Open(operation) => Some(*operation),
            })
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Push,
        /// Opens the operation of the first caller.
        Open,
        /// Removes a caller that was pushed, even if its operation was already opened or the caller was already
        /// removed.
        Remove(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => Just(Step::Push),
            1 => Just(Step::Open),
            2 => (0_usize..40).prop_map(Step::Remove),
        ]
    }

    fn waiter() -> Waiter {
        let place = PlaceKey(Key::NONE);
        Waiter::new(place, Instant::ZERO, None, Duration::ZERO, None, 0)
    }

    #[test]
    fn a_waiter_is_what_its_call_asked_for() {
        let (at, ttl) = (Instant::from_millis(7), Duration::from_millis(30));
        for (deadline, tries) in [(None, None), (Some(at), Some(3))] {
            let waiter = Waiter::new(PlaceKey(Key::NONE), at, deadline, ttl, tries, 5);
            assert_eq!(waiter.deadline(), deadline);
            assert_eq!(waiter.tries_allowed(), tries);
            assert_eq!((waiter.ttl(), waiter.extensions), (ttl, 5));
        }
    }

    proptest! {
        #[test]
        fn lines_behave_as_lists_that_know_nothing_of_each_other(
            steps in prop::collection::vec((0_usize..2, step()), 0..80),
        ) {
            let mut waiters = Waiters::new();
            let mut lines = [Line::EMPTY, Line::EMPTY];
            let mut model: [Vec<WaiterKey>; 2] = [Vec::new(), Vec::new()];
            let mut ever: [Vec<WaiterKey>; 2] = [Vec::new(), Vec::new()];
            let mut open = Vec::new();
            for (number, (at, step)) in (0_u64..).zip(steps) {
                let (line, model) = (&mut lines[at], &mut model[at]);
                match step {
                    Step::Push => {
                        let waiter = waiters.push(line, Caller::Waits(waiter()));
                        let extra = Extra {
                            keep: number,
                            ..Extra::default()
                        };
                        waiters.want(waiter, extra);
                        model.push(waiter);
                        ever[at].push(waiter);
                    }
                    Step::Open => {
                        let first = model.first().copied();
                        prop_assert_eq!(waiters.next(line), first.map(OperationKey::of_waiter));
                        if let Some(first) = first {
                            let key = Key::from_bits(number | 1 << 32).expect("a key");
                            waiters.open(line, first, OperationKey(key));
                            open.push((first, OperationKey(key)));
                            model.remove(0);
                        }
                    }
                    Step::Remove(which) => {
                        if let Some(waiter) = ever[at].get(which).copied() {
                            waiters.remove(line, waiter);
                            model.retain(|key| *key != waiter);
                            open.retain(|(key, _)| *key != waiter);
                        }
                    }
                }
                prop_assert_eq!(line.is_empty(), model.is_empty());
                prop_assert_eq!(&waiters.of(line), model);
                for (waiter, operation) in &open {
                    let key = OperationKey::of_waiter(*waiter);
                    prop_assert_eq!(waiters.opened(key), Some(*operation));
                    prop_assert!(waiters.get(*waiter).is_none());
                }
            }
            let left = model[0].len() + model[1].len();
            prop_assert_eq!((waiters.waiting(), waiters.keys().count()), (left, left));
            prop_assert_eq!(waiters.extras.len(), left);
            prop_assert_eq!(waiters.is_empty(), left + open.len() == 0);
        }
    }
}
