//! What waits in each slot: a ring of indices, in the order in which they came.
//!
//! A ring goes from the slot through all that wait in it and back to the slot, so a timer can leave
//! without knowing which slot it is in. The links lie apart from the timers: to enter or to leave
//! never looks at a neighbour's timer, and those of a million timers are eight megabytes, of which
//! more is in the caches than of the timers.
//!
//! # Not here
//!
//! Timers and ticks. What waits in a slot is an index.

use alloc::vec::Vec;

use crate::slab::make_room;

/// A member of a ring: first the slots, then everything that can wait in them.
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

    /// Returns the index in `slot`, if it is the only one.
    pub(super) fn only(&self, slot: usize) -> Option<u32> {
        let Neighbours { previous, next } = *self.at(Member(slot as u32));
        let only = next.waiting::<SLOTS>();
        only.filter(|_| previous == next)
    }

    /// Returns the index behind `index` in its slot.
    pub(super) fn after(&self, index: u32) -> Option<u32> {
        self.at(Member::of::<SLOTS>(index)).next.waiting::<SLOTS>()
    }

    /// Puts `index`, which waits nowhere, behind all that wait in `slot`. No index may be left out
    /// the first time.
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

    /// Takes `index` out of its slot. Returns the slot if it is empty now.
    pub(super) fn remove(&mut self, index: u32) -> Option<usize> {
        let Neighbours { previous, next } = *self.at(Member::of::<SLOTS>(index));
        self.at_mut(previous).next = next;
        self.at_mut(next).previous = previous;
        (previous == next).then_some(next.0 as usize)
    }

    /// Empties `slot`. What waited in it still knows what comes behind it, up to the slot.
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
    /// Returns what waits under `index`. Never beyond the numbers: there was no member behind the
    /// last.
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
