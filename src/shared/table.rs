//! A table by keys of the engine, each of which has a small index that no other open one has.

use alloc::vec::Vec;

use crate::engine::RoundId;
use crate::quorum::LockId;

/// A key that the engine gives once, with its index.
pub(super) trait Indexed: Copy + Eq {
    fn place(self) -> usize;
}

impl Indexed for RoundId {
    fn place(self) -> usize {
        self.index()
    }
}

impl Indexed for LockId {
    fn place(self) -> usize {
        // The lower half of a claim's key is its index.
        self.claim as u32 as usize
    }
}

/// Values by keys. Grows to as many as are ever open at once.
#[derive(Debug)]
pub(super) struct Table<K, V> {
    entries: Vec<Option<(K, V)>>,
    len: usize,
}

impl<K: Indexed, V> Table<K, V> {
    pub(super) const fn new() -> Self {
        Self {
            entries: Vec::new(),
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn put(&mut self, key: K, value: V) {
        let place = key.place();
        if self.entries.len() <= place {
            self.entries.resize_with(place + 1, || None);
        }
        if self.entries[place].replace((key, value)).is_none() {
            self.len += 1;
        }
    }

    pub(super) fn get(&self, key: K) -> Option<&V> {
        match self.entries.get(key.place()) {
            Some(Some((known, value))) if *known == key => Some(value),
            _ => None,
        }
    }

    pub(super) fn take(&mut self, key: K) -> Option<V> {
        self.get(key)?;
        self.len -= 1;
        let (_, value) = self.entries[key.place()].take()?;
        Some(value)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        self.entries.iter().flatten()
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = V> {
        self.len = 0;
        self.entries.drain(..).flatten().map(|(_, value)| value)
    }
}
