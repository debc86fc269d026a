//! A slab stores values at fixed places, and finds them by small keys.
//!
//! The engine keeps its operations and claims in slabs, and the timer wheel keeps its timers in a slab. Inserting,
//! finding and removing take constant time. Vacant places form a list. The slab reuses the most recently vacated place
//! first, because it is still in the cache.
//!
//! # Guarantees
//!
//! * **A key matches only one value.** After the removal of its value, a key never matches again. The generation of a
//!   place has 32 bits and does not wrap. A place that was used 2^32 - 1 times is retired, so an old key never reaches
//!   another value. One place is retired in four billion removals.
//! * **No allocation** happens while the number of values does not exceed its previous maximum (not counting retired
//!   places). Memory is freed only when the slab is dropped.
//! * **Deterministic keys and order.** The same calls return the same keys, and iteration follows the index.
//!
//! # Not here
//!
//! A slab has no bound. Code that inserts on behalf of a caller checks the bound in `limits`.

use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU32;

/// Identifies one value of one [`Slab`]. A key and an `Option` of a key both take eight bytes.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Key {
    index: u32,
    generation: NonZeroU32,
}

const _: () = assert!(size_of::<Option<Key>>() == 8);

impl Key {
    /// A key that matches no value, because no slab has that many places.
    pub(crate) const NONE: Self = Self {
        index: u32::MAX,
        generation: NonZeroU32::MIN,
    };

    /// A key that is less than or equal to every other key.
    pub(crate) const LEAST: Self = Self {
        index: 0,
        generation: NonZeroU32::MIN,
    };

    /// Returns the place of the value. Later, another value may use this place, under another key.
    pub(crate) const fn index(self) -> u32 {
        self.index
    }

    /// Returns the key as a number: the generation in the upper half, and the index in the lower half.
    pub(crate) const fn to_bits(self) -> u64 {
        (self.generation.get() as u64) << 32 | self.index as u64
    }

    /// Returns the key for a number from [`Key::to_bits`], or `None` if there is no such key.
    ///
    /// If the number did not come from a key, the returned key may match any value of the slab, or none.
    pub(crate) const fn from_bits(bits: u64) -> Option<Self> {
        match NonZeroU32::new((bits >> 32) as u32) {
            Some(generation) => Some(Self {
                index: bits as u32,
                generation,
            }),
            None => None,
        }
    }
}

/// An optional index of a place, in four bytes.
///
/// `Option<u32>` would take eight bytes, and the speed of reading lists with a million places depends on the number of
/// cache lines.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) struct Link(u32);

impl Link {
    /// A link to no place. This number is never an index, because no slab has that many places.
    pub(crate) const NONE: Self = Self(u32::MAX);

    /// Returns the link to the place at `index`.
    pub(crate) const fn to(index: u32) -> Self {
        Self(index)
    }

    /// Returns the index, if there is one.
    pub(crate) const fn index(self) -> Option<u32> {
        if self.0 == u32::MAX {
            None
        } else {
            Some(self.0)
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.index().fmt(f)
    }
}

/// A container of values, each under a key that the slab chooses. See the [module](self).
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    /// The first vacant place. Each vacant place links to the next vacant place.
    vacant: Link,
    len: usize,
}

/// A place, which has a value or is vacant.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Place<T> {
    /// The generation of the current key, or of the next key if the place is vacant.
    generation: NonZeroU32,
    state: State<T>,
}

#[derive(Debug)]
enum State<T> {
    Occupied(T),
    Vacant(Link),
}

impl<T> Slab<T> {
    /// Returns an empty slab. Allocates nothing.
    pub(crate) const fn new() -> Self {
        Self {
            places: Vec::new(),
            vacant: Link::NONE,
            len: 0,
        }
    }

    /// Inserts `value`, under a key that no value of this slab had before.
    ///
    /// # Panics
    ///
    /// Panics if 2^32 - 1 places are in use. The limits of this crate are far lower.
    pub(crate) fn insert(&mut self, value: T) -> Key {
        self.len += 1;
        match self.vacant.index() {
            Some(index) => self.reuse(index, value),
            None => self.grow(value),
        }
    }

    /// Returns the value under `key`, or `None` if it was removed.
    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        match self.places.get(key.index as usize) {
            Some(Place {
                generation,
                state: State::Occupied(value),
            }) if *generation == key.generation => Some(value),
            _ => None,
        }
    }

    /// Returns a mutable reference to the value under `key`, or `None` if it was removed.
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        match self.places.get_mut(key.index as usize) {
            Some(Place {
                generation,
                state: State::Occupied(value),
            }) if *generation == key.generation => Some(value),
            _ => None,
        }
    }

    /// Removes the value under `key` and returns it. The key then matches no value.
    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        self.get(key)?;
        Some(self.remove_at(key.index))
    }

    /// Drops the value under `key` in place. The key then matches no value.
    pub(crate) fn discard(&mut self, key: Key) {
        if self.get(key).is_some() {
            self.places[key.index as usize].state = State::Vacant(Link::NONE);
            self.vacate(key.index);
        }
    }

    /// Returns the number of values.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Returns `true` if there are no values.
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of values that fit without an allocation.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.places.capacity()
    }

    /// Returns all values with their keys, by index. The iteration visits every place, including vacant places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        (0..)
            .zip(&self.places)
            .filter_map(|(index, place)| match &place.state {
                State::Occupied(value) => Some((
                    Key {
                        index,
                        generation: place.generation,
                    },
                    value,
                )),
                State::Vacant(_) => None,
            })
    }

    /// Returns the index and the key of the first value at or after `index` for which `wanted` returns `true`.
    pub(crate) fn find(
        &self,
        index: usize,
        mut wanted: impl FnMut(&T) -> bool,
    ) -> Option<(usize, Key)> {
        let places = self.places.iter().enumerate().skip(index);
        let mut found = places.filter_map(|(index, place)| match &place.state {
            State::Occupied(value) if wanted(value) => Some((index, place.generation)),
            State::Occupied(_) | State::Vacant(_) => None,
        });
        let (place, generation) = found.next()?;
        let index = place as u32;
        Some((place, Key { index, generation }))
    }

    /// Returns the value at `index`, for lists whose links are indices.
    ///
    /// # Panics
    ///
    /// Panics if there is no value, because then a link has outlived its value.
    pub(crate) fn at(&self, index: u32) -> &T {
        match &self.places[index as usize].state {
            State::Occupied(value) => value,
            State::Vacant(_) => dangling(index),
        }
    }

    /// Returns the key of the place at `index`, for lists whose links are indices.
    pub(crate) fn key_at(&self, index: u32) -> Key {
        let generation = self.places[index as usize].generation;
        Key { index, generation }
    }

    /// Returns a mutable reference to the value at `index`. Panics as [`Slab::at`] does.
    pub(crate) fn at_mut(&mut self, index: u32) -> &mut T {
        match &mut self.places[index as usize].state {
            State::Occupied(value) => value,
            State::Vacant(_) => dangling(index),
        }
    }

    /// Removes and returns the value at `index`. Panics as [`Slab::at`] does.
    pub(crate) fn remove_at(&mut self, index: u32) -> T {
        let place = &mut self.places[index as usize];
        let State::Occupied(value) =
            core::mem::replace(&mut place.state, State::Vacant(Link::NONE))
        else {
            dangling(index)
        };
        self.vacate(index);
        value
    }

    /// Marks the place at `index` as vacant. The slab will reuse this place first.
    fn vacate(&mut self, index: u32) {
        self.len -= 1;
        let place = &mut self.places[index as usize];
        // A place without unused generations never returns to the list of vacant places.
        if let Some(generation) = place.generation.checked_add(1) {
            *place = Place {
                generation,
                state: State::Vacant(self.vacant),
            };
            self.vacant = Link::to(index);
        }
    }

    fn reuse(&mut self, index: u32, value: T) -> Key {
        let place = &mut self.places[index as usize];
        let State::Vacant(next) = place.state else {
            unreachable!("place {index} is in the list of vacant ones")
        };
        place.state = State::Occupied(value);
        self.vacant = next;
        Key {
            index,
            generation: place.generation,
        }
    }

    #[cold]
    fn grow(&mut self, value: T) -> Key {
        make_room(&mut self.places); // With many values, doubling would waste memory.
        let index = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        assert!(index < u32::MAX, "a slab has at most 2^32 - 1 places");
        let generation = NonZeroU32::MIN;
        self.places.push(Place {
            generation,
            state: State::Occupied(value),
        });
        Key { index, generation }
    }
}

/// If there is no room for another value in `values`, adds room for a sixteenth more. Usual allocators can extend large
/// blocks without moving the bytes.
pub(crate) fn make_room<T>(values: &mut Vec<T>) {
    if values.len() == values.capacity() {
        values.reserve_exact((values.len() / 16).max(8));
    }
}

#[cold]
fn dangling(index: u32) -> ! {
    panic!("a link leads to place {index}, which is vacant")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::effort::effort;

    #[test]
    fn the_last_generation_retires_its_place() {
        let mut slab = Slab::new();
        let first = slab.insert(1);
        slab.remove(first);
        slab.places[0].generation = NonZeroU32::MAX;
        let last = slab.insert(2);
        assert_eq!((last.index(), last.generation), (0, NonZeroU32::MAX));
        assert_eq!(slab.remove(last), Some(2));
        assert_eq!(slab.remove(last), None);
        assert!(slab.get(last).is_none());
        let next = slab.insert(3);
        assert_eq!(next.index(), 1, "the retired place stays empty");
        assert!(slab.iter().eq([(next, &3)]));
    }

    #[test]
    fn keys_become_numbers_and_come_back() {
        let mut slab = Slab::new();
        slab.insert('a');
        let gone = slab.insert('b');
        slab.remove(gone);
        let key = slab.insert('c');
        assert_eq!(key.to_bits(), 2 << 32 | 1);
        assert_eq!(Key::from_bits(key.to_bits()), Some(key));
        assert_eq!(Key::from_bits(7), None, "no key has the generation zero");
        // These numbers contain an index outside of the slab, or a generation that does not exist yet.
        for bits in [1 << 32 | 9, 3 << 32 | 1, u64::MAX] {
            let value = Key::from_bits(bits).and_then(|key| slab.get(key));
            assert_eq!(value, None, "{bits:#x}");
        }
    }

    #[test]
    fn nothing_is_allocated_below_the_high_water_mark() {
        let mut slab = Slab::new();
        let mut keys: Vec<Key> = (0..100).map(|value| slab.insert(value)).collect();
        let capacity = slab.capacity();
        for round in 0..1_000 {
            let key = keys.swap_remove(round * 7 % keys.len());
            assert!(slab.remove(key).is_some());
            keys.push(slab.insert(round));
        }
        assert_eq!((slab.len(), slab.capacity()), (100, capacity));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(effort(80, 256)))]

        /// Runs any sequence of insertions (`None`) and removals (of the n-th key that was returned).
        #[test]
        fn behaves_as_a_map_whose_keys_are_never_reused(
            steps in prop::collection::vec(prop::option::of(0_usize..64), 0..200),
        ) {
            let (mut slab, mut model, mut keys) = (Slab::new(), BTreeMap::new(), Vec::new());
            for (value, step) in steps.into_iter().enumerate() {
                match step {
                    None => {
                        let key = slab.insert(value);
                        prop_assert_eq!(model.insert(key, value), None);
                        keys.push(key);
                    }
                    Some(nth) => {
                        if let Some(key) = keys.get(nth) {
                            prop_assert_eq!(slab.remove(*key), model.remove(key));
                        }
                    }
                }
                prop_assert_eq!(slab.len(), model.len());
                for key in &keys {
                    prop_assert_eq!(slab.get(*key), model.get(key));
                    prop_assert_eq!(slab.get_mut(*key), model.get_mut(key));
                }
                prop_assert!(slab.iter().eq(model.iter().map(|(key, value)| (*key, value))));
            }
        }
    }
}
