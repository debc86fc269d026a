//! A table whose keys are ids of the engine. The table uses the small index in each id.

use alloc::vec::Vec;

use crate::slab::make_room;

/// Maps keys to values. The table grows to the largest number of keys that are open at the same time.
#[derive(Debug)]
pub(super) struct Table<K, V> {
    /// Returns the index of a key.
    place: fn(K) -> usize,
    entries: Vec<Option<(K, V)>>,
    len: usize,
}

impl<K: Copy + Eq, V> Table<K, V> {
    pub(super) const fn new(place: fn(K) -> usize) -> Self {
        Self {
            place,
            entries: Vec::new(),
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn put(&mut self, key: K, value: V) {
        let place = (self.place)(key);
        while self.entries.len() <= place {
            make_room(&mut self.entries);
            self.entries.push(None);
        }
        if self.entries[place].replace((key, value)).is_none() {
            self.len += 1;
        }
    }

    pub(super) fn get(&self, key: K) -> Option<&V> {
        match self.entries.get((self.place)(key)) {
            Some(Some((known, value))) if *known == key => Some(value),
            _ => None,
        }
    }

    pub(super) fn take(&mut self, key: K) -> Option<V> {
        let entry = self.entries.get_mut((self.place)(key))?;
        let (_, value) = entry.take_if(|(known, _)| *known == key)?;
        self.len -= 1;
        Some(value)
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = V> {
        self.len = 0;
        self.entries.drain(..).flatten().map(|(_, value)| value)
    }
}
