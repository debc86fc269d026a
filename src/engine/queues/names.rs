//! A table of names: which key belongs to a name, found by the hash of the name.
//!
//! Open addressing with linear probing; what is removed is closed up, so that nothing marks where it
//! was (Knuth, *The Art of Computer Programming*, volume 3, section 6.4, algorithms L and R). The names
//! are elsewhere: a caller compares them.
//!
//! # Guarantees
//!
//! * Finding, inserting and removing take constant time on average, for names that do not know the
//!   seed.
//! * No allocation while no more names are there at once than ever before.

use alloc::vec;
use alloc::vec::Vec;

use crate::slab::Key;

/// Multiplier of the hash: an odd number without a pattern, 2^64 divided by the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The least number of slots of a table that is used.
const SLOTS_MIN: usize = 16;

/// A name with its key.
type Slot = Option<(u64, Key)>;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Names {
    seed: u64,
    /// None, or a power of two of them; at most half of them are taken.
    slots: Vec<Slot>,
    taken: usize,
}

impl Names {
    /// An empty table. The seed is to be secret where names come from strangers.
    pub(super) const fn new(seed: u64) -> Self {
        Self {
            seed,
            slots: Vec::new(),
            taken: 0,
        }
    }

    /// Returns the hash of `name`: eight bytes at a time, folded by a multiplication of 128 bits.
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

    /// Returns the key of the name with this `hash` for which `is` holds.
    pub(super) fn find(&self, hash: u64, is: impl Fn(Key) -> bool) -> Option<Key> {
        let slot = self.slot(hash, |at, key| at == hash && is(key))?;
        self.slots[slot].map(|(_, key)| key)
    }

    /// Records the key of a name that is not in the table.
    pub(super) fn insert(&mut self, hash: u64, key: Key) {
        if self.slots.len() <= self.taken * 2 {
            self.grow();
        }
        self.taken += 1;
        self.put(hash, key);
    }

    /// Removes the name with this `hash` and `key`.
    pub(super) fn remove(&mut self, hash: u64, key: Key) {
        let Some(mut gap) = self.slot(hash, |_, at| at == key) else {
            return;
        };
        self.taken -= 1;
        self.slots[gap] = None;
        // What stood behind the gap only because its own slot was taken moves up.
        let mut next = self.behind(gap);
        while let Some((hash, _)) = self.slots[next] {
            let way = |from: usize| next.wrapping_sub(from) & (self.slots.len() - 1);
            if way(gap) <= way(self.first(hash)) {
                self.slots.swap(gap, next);
                gap = next;
            }
            next = self.behind(next);
        }
    }

    /// Returns the slot that `is` wanted, of those where a name with this `hash` may stand.
    fn slot(&self, hash: u64, is: impl Fn(u64, Key) -> bool) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut slot = self.first(hash);
        while let Some((at, key)) = self.slots[slot] {
            if is(at, key) {
                return Some(slot);
            }
            slot = self.behind(slot);
        }
        None
    }

    fn put(&mut self, hash: u64, key: Key) {
        let mut slot = self.first(hash);
        while self.slots[slot].is_some() {
            slot = self.behind(slot);
        }
        self.slots[slot] = Some((hash, key));
    }

    #[cold]
    fn grow(&mut self) {
        let slots = (self.slots.len() * 2).max(SLOTS_MIN);
        let before = core::mem::replace(&mut self.slots, vec![None; slots]);
        for (hash, key) in before.into_iter().flatten() {
            self.put(hash, key);
        }
    }

    fn first(&self, hash: u64) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    fn behind(&self, slot: usize) -> usize {
        (slot + 1) & (self.slots.len() - 1)
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
    use crate::slab::Slab;

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

    proptest! {
        /// Against a map: hashes that meet are common here, the whole hash is a number below 24.
        #[test]
        fn the_table_is_a_map(steps in prop::collection::vec((0u64..24, 0u8..40), 1..200)) {
            let mut slab = Slab::new();
            let mut names = Names::new(0);
            let mut model = BTreeMap::new();
            for (hash, name) in steps {
                match model.remove(&(hash, name)) {
                    Some(key) => names.remove(hash, key),
                    None => {
                        let key = slab.insert(name);
                        names.insert(hash, key);
                        model.insert((hash, name), key);
                    }
                }
                prop_assert_eq!(names.taken, model.len());
                for (&(hash, name), &key) in &model {
                    let found = names.find(hash, |key| slab.get(key) == Some(&name));
                    prop_assert_eq!(found, Some(key));
                }
                prop_assert_eq!(names.find(hash, |_| false), None);
            }
        }
    }
}
