//! What waits in one slot: a doubly linked list through the slab.
//!
//! The links are indices and live in the timers themselves, so that a timer enters and leaves a
//! slot in constant time and a slot takes eight bytes, however many wait in it.
//!
//! # Not here
//!
//! Which slot. A list is told what to do by the wheel.

use core::num::NonZeroU64;

use crate::slab::{Link, Slab};

/// A tick, stored so that zero is left over.
///
/// The slab tells a vacant place by it and needs no flag: with a value of eight bytes a place
/// takes thirty-two, and two of them share a cache line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Tick(NonZeroU64);

impl Tick {
    pub(super) const fn new(tick: u64) -> Self {
        // The last tick there is is far from the end of the numbers: this adds one, always.
        Self(NonZeroU64::MIN.saturating_add(tick))
    }

    pub(super) const fn get(self) -> u64 {
        self.0.get().wrapping_sub(1)
    }
}

/// One armed timer.
#[derive(Debug)]
pub(super) struct Timer<T> {
    pub(super) tick: Tick,
    pub(super) value: T,
    previous: Link,
    next: Link,
}

impl<T> Timer<T> {
    /// A timer for `tick` that stands in no list yet.
    pub(super) const fn new(tick: u64, value: T) -> Self {
        Self {
            tick: Tick::new(tick),
            value,
            previous: Link::NONE,
            next: Link::NONE,
        }
    }
}

/// The timers of one slot, in the order in which they came.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    first: Link,
    last: Link,
}

impl List {
    pub(super) const EMPTY: Self = Self {
        first: Link::NONE,
        last: Link::NONE,
    };

    /// The timer that came first.
    pub(super) const fn first(self) -> Option<u32> {
        self.first.index()
    }

    /// Puts the timer at `index`, which stands in no list, behind all others.
    pub(super) fn push<T>(&mut self, timers: &mut Slab<Timer<T>>, index: u32) {
        let timer = timers.at_mut(index);
        timer.previous = self.last;
        timer.next = Link::NONE;
        match self.last.index() {
            Some(last) => timers.at_mut(last).next = Link::to(index),
            None => self.first = Link::to(index),
        }
        self.last = Link::to(index);
    }

    /// Closes the gap that `timer` leaves, which was taken out of the slab and stood in this list.
    /// Tells whether the list is empty now.
    pub(super) fn close<T>(&mut self, timers: &mut Slab<Timer<T>>, timer: &Timer<T>) -> bool {
        match timer.previous.index() {
            Some(previous) => timers.at_mut(previous).next = timer.next,
            None => self.first = timer.next,
        }
        match timer.next.index() {
            Some(next) => timers.at_mut(next).previous = timer.previous,
            None => self.last = timer.previous,
        }
        self.first.index().is_none()
    }

    /// The timer that stands behind the one at `index`.
    pub(super) fn after<T>(timers: &Slab<Timer<T>>, index: u32) -> Option<u32> {
        timers.at(index).next.index()
    }
}
