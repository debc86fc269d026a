//! Buffers that are used again, so that steady locking allocates nothing.

use alloc::vec::Vec;

use crate::limits::{POOL_MAX, POOLED_MAX};

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

    /// Returns how many vectors wait to be used again.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.spare.len()
    }

    /// Keeps `buffer` for the next [`Pool::take`], unless it is larger than most.
    pub(crate) fn give(&mut self, mut buffer: Vec<T>) {
        if self.spare.len() < POOL_MAX && (1..=POOLED_MAX).contains(&buffer.capacity()) {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}
