//! The timers in each slot, as a ring of indices in the order of their arrival.
//!
//! A ring goes from the slot through all its members and back to the slot, so a timer can be removed without knowing
//! its slot. The links are stored apart from the timers. A timer that enters or leaves a ring touches only links, never
//! the timers of its neighbours. The links of a million timers take eight megabytes, so more of the links stay in the
//! caches.
//!
//! # Not here
//!
//! This file does not deal with timers or ticks. The members of a ring are indices.

use alloc::vec::Vec;

use crate::slab::make_room;

/// A member of a ring. The slots come first, and all indices follow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Member(u32);

#[derive(Clone, Copy, Debug)]
struct Neighbours {
    previous: Member,
    next: Member,
}

/// A ring for each of `SLOTS` slots.
#[derive(Debug)]
pub(super) struct Rings<const SLOTS: usize>(Vec<Neighbours>);

impl<const SLOTS: usize> Rings<SLOTS> {
    /// Returns empty rings.
    pub(super) fn new() -> Self {
        let slots = 0..SLOTS as u32;
        Self(slots.map(|slot| alone(Member(slot))).collect())
    }

    /// Returns the first index in `slot`.
    pub(super) fn first(&self, slot: usize) -> Option<u32> {
        self.at(Member(slot as u32)).next.waiting::<SLOTS>()
    }

    /// Returns the index in `slot`, if the slot has only one index.
    pub(super) fn only(&self, slot: usize) -> Option<u32> {
        let Neighbours { previous, next } = *self.at(Member(slot as u32));
        let only = next.waiting::<SLOTS>();
        only.filter(|_| previous == next)
    }

    /// Returns the index after `index` in the same slot.
    pub(super) fn after(&self, index: u32) -> Option<u32> {
        self.at(Member::of::<SLOTS>(index)).next.waiting::<SLOTS>()
    }

    /// Puts `index`, which is in no slot, at the end of `slot`. New indices must come in order, without gaps.
    pub(super) fn push(&mut self, slot: usize, index: u32) {
        let (slot, member) = (Member(slot as u32), Member::of::<SLOTS>(index));
        let previous = self.at(slot).previous;
        self.set(
            member,
            Neighbours {
                previous,
                next: slot,
            },
        );
        self.at_mut(previous).next = member;
        self.at_mut(slot).previous = member;
    }

    /// Takes `index` out of its slot. Returns the slot if it is now empty.
    pub(super) fn remove(&mut self, index: u32) -> Option<usize> {
        let Neighbours { previous, next } = *self.at(Member::of::<SLOTS>(index));
        self.at_mut(previous).next = next;
        self.at_mut(next).previous = previous;
        (previous == next).then_some(next.0 as usize)
    }

    /// Empties `slot`. The links of the former members stay, so that they can still be followed up to the slot.
    pub(super) fn clear(&mut self, slot: usize) {
        let slot = Member(slot as u32);
        *self.at_mut(slot) = alone(slot);
    }

    fn at(&self, member: Member) -> &Neighbours {
        &self.0[member.0 as usize]
    }

    fn at_mut(&mut self, member: Member) -> &mut Neighbours {
        &mut self.0[member.0 as usize]
    }

    fn set(&mut self, member: Member, neighbours: Neighbours) {
        match member.0 as usize == self.0.len() {
            true => self.grow(neighbours),
            false => *self.at_mut(member) = neighbours,
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, neighbours: Neighbours) {
        let members = self.0.len();
        assert!(
            members != u32::MAX as usize,
            "a wheel has at most 2^32 - 1 members"
        );
        make_room(&mut self.0);
        self.0.push(neighbours);
    }
}

impl Member {
    /// Returns the member for `index`. The sum does not overflow, because the previous member exists.
    const fn of<const SLOTS: usize>(index: u32) -> Self {
        Self(index + SLOTS as u32)
    }

    const fn waiting<const SLOTS: usize>(self) -> Option<u32> {
        self.0.checked_sub(SLOTS as u32)
    }
}

const fn alone(slot: Member) -> Neighbours {
    Neighbours {
        previous: slot,
        next: slot,
    }
}
