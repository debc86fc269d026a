//! A hash table of names.
//!
//! The table uses open addressing with linear probing. A removal closes the gap instead of leaving a marker
//! (Knuth, *The Art of Computer Programming*, volume 3, section 6.4, algorithms L and R). The slots are in the order of
//! the hashes. Therefore the table grows in one pass over its slots, from front to back. Growing is so cheap that each
//! step makes the table larger by only an eighth. The table does not store names, so the caller compares them.
//!
//! # Guarantees
//!
//! * Finding, inserting and removing take constant time on average, if names were chosen without knowledge of the seed.
//! * The table allocates only when it has more names than ever before.
//! * Each name takes at most twelve bytes, if the table has more than a few names and none was removed.

use alloc::vec;
use alloc::vec::Vec;

use crate::invariant::Must;

/// The multiplier of the hash: 2^64 divided by the golden ratio, an odd number without a pattern.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The minimum number of slots in a table that contains names.
const SLOTS_MIN: usize = 16;

/// The place of a name. The caller chooses the number of a place, below 2^32 - 1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Where(pub(super) u32);

/// Half of the hash of a name, and the name's place. Half a hash is enough for a table of 2^32 slots.
#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u32,
    at: Where,
}

/// A slot without a name.
const EMPTY: Slot = Slot {
    hash: 0,
    at: Where(u32::MAX),
};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Names {
    seed: u64,
    /// The slots of the table. At most three quarters of the slots are taken.
    slots: Vec<Slot>,
    taken: usize,
}

impl Slot {
    fn is_empty(self) -> bool {
        self.at == EMPTY.at
    }
}

impl Names {
    /// Creates an empty table. The seed must be secret if names come from strangers.
    pub(super) const fn new(seed: u64) -> Self {
        Self {
            seed,
            slots: Vec::new(),
            taken: 0,
        }
    }

    /// Returns the hash of `name`. Each step takes eight bytes and folds them in with a 128-bit multiplication.
    #[inline]
    pub(super) fn hash(&self, name: &[u8]) -> u64 {
        let mut hash = self.seed ^ name.len() as u64;
        let (pieces, rest) = name.as_chunks();
        for piece in pieces {
            hash = fold(hash ^ u64::from_le_bytes(*piece));
        }
        let rest = rest
            .iter()
            .fold(0, |word, byte| word << 8 | u64::from(*byte));
        fold(hash ^ rest)
    }

    /// Returns the place of the name with this `hash` for which `is` returns `true`.
    pub(super) fn find(&self, hash: u64, is: impl Fn(Where) -> bool) -> Option<Where> {
        let slot = self.slot(hash, is)?;
        Some(self.slots[slot].at)
    }

    /// Records the place of a name that is not in the table.
    pub(super) fn insert(&mut self, hash: u64, at: Where) {
        if self.slots.len() * 3 <= self.taken * 4 {
            self.grow();
        }
        self.taken += 1;
        let hash = hash as u32;
        self.put(Slot { hash, at });
    }

    /// Records that the name with this `hash` has moved from `before` to `at`.
    pub(super) fn replace(&mut self, hash: u64, before: Where, at: Where) {
        if let Some(slot) = self.slot(hash, |found| found == before).must() {
            self.slots[slot].at = at;
        }
    }

    /// Removes the name with this `hash`, which must be in the table.
    pub(super) fn remove(&mut self, hash: u64, at: Where) {
        let Some(mut gap) = self.slot(hash, |found| found == at).must() else {
            return;
        };
        self.taken -= 1;
        self.slots[gap] = EMPTY;
        // Moves a name into the gap if the name stands behind the gap only because its own slot was taken.
        for next in self.from(gap).skip(1) {
            if self.slots[next].is_empty() {
                return;
            }
            let around = |from: usize| if next < from { self.slots.len() } else { 0 };
            let way = |from: usize| next + around(from) - from;
            if way(gap) <= way(self.first(self.slots[next].hash)) {
                self.slots.swap(gap, next);
                gap = next;
            }
        }
    }

    /// Returns the slot for which `is` returns `true`, among the slots that may contain a name with this `hash`.
    fn slot(&self, hash: u64, is: impl Fn(Where) -> bool) -> Option<usize> {
        let mut slots = self.from(self.first(hash as u32));
        slots
            .find(|slot| {
                let found = self.slots[*slot];
                found.is_empty() || found.hash == hash as u32 && is(found.at)
            })
            .filter(|slot| !self.slots[*slot].is_empty())
    }

    fn put(&mut self, name: Slot) {
        let mut slots = self.from(self.first(name.hash));
        if let Some(slot) = slots.find(|slot| self.slots[*slot].is_empty()).must() {
            self.slots[slot] = name;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let slots = (self.slots.len() + self.slots.len() / 8).max(SLOTS_MIN);
        let before = core::mem::replace(&mut self.slots, vec![EMPTY; slots]);
        let names = before.into_iter().filter(|slot| !slot.is_empty());
        names.for_each(|name| self.put(name));
    }

    fn first(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.slots.len() as u64) >> u32::BITS) as usize
    }

    /// Returns all slots, starting at `first`.
    fn from(&self, first: usize) -> impl Iterator<Item = usize> + use<> {
        (first..self.slots.len()).chain(0..first)
    }
}

fn fold(hash: u64) -> u64 {
    let product = u128::from(hash ^ MULTIPLIER) * u128::from(MULTIPLIER);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::effort::effort;

    impl Names {
        /// Returns the number of names.
        pub(in crate::engine::queues) fn len(&self) -> usize {
            self.taken
        }
    }

    #[test]
    fn names_of_all_lengths_have_hashes_of_their_own() {
        let names = Names::new(7);
        let text = [b'x'; 40];
        let mut hashes: Vec<_> = (0..=40).map(|len| names.hash(&text[..len])).collect();
        hashes.extend((0..40).map(|at| {
            let mut other = text;
            other[at] = b'y';
            names.hash(&other)
        }));
        let all = hashes.len();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), all);
        assert_ne!(names.hash(b"x"), Names::new(8).hash(b"x"));
    }

    #[test]
    fn a_name_takes_twelve_bytes_at_most() {
        let mut names = Names::new(7);
        for at in 0..20_000 {
            names.insert(names.hash(&u32::to_le_bytes(at)), Where(at));
            let bytes = names.slots.capacity() * size_of::<Slot>();
            assert!(at < 100 || bytes <= 12 * names.taken, "{bytes} for {at}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(effort(50, 256)))]

        /// Compares the table with a map. Equal hashes are common in this test, because the whole hash is a number
        /// below 24.
        #[test]
        fn the_table_is_a_map(steps in prop::collection::vec((0u64..24, 0u8..40), 1..200)) {
            let mut names = Names::new(0);
            let mut model = BTreeMap::new();
            for (at, (hash, name)) in (0..).map(Where).zip(steps) {
                match model.remove(&(hash, name)) {
                    Some(before) if at.0 % 3 == 0 => {
                        names.replace(hash, before, at);
                        model.insert((hash, name), at);
                    }
                    Some(before) => names.remove(hash, before),
                    None => {
                        names.insert(hash, at);
                        model.insert((hash, name), at);
                    }
                }
                prop_assert_eq!(names.taken, model.len());
                for (&(hash, _), &at) in &model {
                    prop_assert_eq!(names.find(hash, |found| found == at), Some(at));
                }
                prop_assert_eq!(names.find(hash, |_| false), None);
            }
        }
    }
}
