//! Buffers that are reused, so that steady locking allocates nothing.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::entry::{Entry, Spare};
use crate::limits::{POOL_MAX, POOLED_MAX};

/// A stack of the memory of former entries, at most [`POOL_MAX`].
#[derive(Debug)]
pub(crate) struct Spares(Vec<Spare>);

impl Spares {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns memory for another entry.
    #[inline]
    pub(crate) fn take(&mut self) -> Spare {
        self.0.pop().unwrap_or_default()
    }

    /// Keeps the buffer of `entry` for the next [`Spares::take`], if no other copy of the entry exists.
    #[inline]
    pub(crate) fn give(&mut self, entry: Entry) {
        if self.0.len() < POOL_MAX {
            self.0.extend(entry.into_spare());
        }
    }

    /// Returns the number of buffers that can be reused.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// A stack of emptied vectors, at most [`POOL_MAX`].
#[derive(Debug)]
pub(crate) struct Pool<T> {
    spare: Vec<Vec<T>>,
}

impl<T> Pool<T> {
    pub(crate) const fn new() -> Self {
        Self { spare: Vec::new() }
    }

    /// Returns an empty vector, a reused one if there is any.
    pub(crate) fn take(&mut self) -> Vec<T> {
        self.spare.pop().unwrap_or_default()
    }

    /// Keeps `buffer` for the next [`Pool::take`], unless it is unusually large.
    pub(crate) fn give(&mut self, mut buffer: Vec<T>) {
        if self.spare.len() < POOL_MAX && (1..=POOLED_MAX).contains(&buffer.capacity()) {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}

/// A stack of boxes, at most [`POOL_MAX`].
#[derive(Debug)]
pub(crate) struct Boxes<T>(Vec<Box<T>>);

impl<T> Boxes<T> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Puts `value` into a box, a reused one if there is any.
    #[inline]
    pub(crate) fn put(&mut self, value: T) -> Box<T> {
        match self.0.pop() {
            Some(mut there) => {
                *there = value;
                there
            }
            None => Box::new(value),
        }
    }

    /// Keeps a box for the next [`Boxes::put`].
    #[inline]
    pub(crate) fn give(&mut self, spare: Box<T>) {
        if self.0.len() < POOL_MAX {
            self.0.push(spare);
        }
    }
}
