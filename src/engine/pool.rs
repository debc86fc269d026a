//! A pool reuses memory, so that steady locking does not allocate.

use alloc::vec::Vec;

use crate::limits::{POOL_MAX, POOLED_MAX};

/// A stack of at most [`POOL_MAX`] pieces of memory.
#[derive(Debug)]
pub(crate) struct Pool<T>(Vec<T>);

impl<T> Pool<T> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns a piece that was [given back](Self::give), if the pool has one.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<T> {
        self.0.pop()
    }

    /// Keeps `spare` for the next [`take`](Self::take).
    #[inline]
    pub(crate) fn give(&mut self, spare: T) {
        if self.0.len() < POOL_MAX {
            self.0.push(spare);
        }
    }

    /// Returns the number of pieces in the pool.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl<T> Pool<Vec<T>> {
    /// Empties `buffer`, and keeps it unless it is unusually large.
    pub(crate) fn give_buffer(&mut self, mut buffer: Vec<T>) {
        if (1..=POOLED_MAX).contains(&buffer.capacity()) {
            buffer.clear();
            self.give(buffer);
        }
    }
}
