//! Buffers that are used again, so that steady locking allocates nothing.

use alloc::vec::Vec;

use crate::entry::{Entry, Spare};
use crate::limits::{POOL_MAX, POOLED_MAX};

/// A stack of what entries were written into, [`POOL_MAX`] at most.
#[derive(Debug)]
pub(crate) struct Spares(Vec<Spare>);

impl Spares {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns what another entry is to be written into.
    #[inline]
    pub(crate) fn take(&mut self) -> Spare {
        self.0.pop().unwrap_or_default()
    }

    /// Keeps the buffer of `entry` for the next [`Spares::take`], if nobody else reads it.
    #[inline]
    pub(crate) fn give(&mut self, entry: Entry) {
        if self.0.len() < POOL_MAX {
            self.0.extend(entry.into_spare());
        }
    }

    /// Returns how many wait to be used again.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// A stack of emptied vectors, [`POOL_MAX`] at most.
#[derive(Debug)]
pub(crate) struct Pool<T> {
    spare: Vec<Vec<T>>,
}

impl<T> Pool<T> {
    pub(crate) const fn new() -> Self {
        Self { spare: Vec::new() }
    }

    /// Returns an empty vector, one that was used before if there is one.
    pub(crate) fn take(&mut self) -> Vec<T> {
        self.spare.pop().unwrap_or_default()
    }

    /// Keeps `buffer` for the next [`Pool::take`], unless it is larger than most.
    pub(crate) fn give(&mut self, mut buffer: Vec<T>) {
        if self.spare.len() < POOL_MAX && (1..=POOLED_MAX).contains(&buffer.capacity()) {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}
