//! What the lock protects in the demo: a counter that loses updates if two change it at once, and
//! a witness of how many are in there.
//!
//! The counter is read, then written in a step of its own: what a program does with a row of a
//! database or a file. Beside it every change is counted in a way that loses nothing, so that the
//! end can be compared. Nothing here keeps anybody out: that is the lock's task.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

/// A counter that is not atomic as a whole, and its witnesses.
#[derive(Debug, Default)]
pub(super) struct Cell {
    value: AtomicU64,
    written: AtomicU64,
    inside: AtomicU32,
    most_inside: AtomicU32,
}

/// Somebody is in the critical section, until this is dropped.
#[derive(Debug)]
pub(super) struct Visit<'a> {
    cell: &'a Cell,
    read: u64,
}

impl Cell {
    /// Enters the critical section and reads the counter.
    pub(super) fn enter(&self) -> Visit<'_> {
        let inside = self.inside.fetch_add(1, SeqCst) + 1;
        self.most_inside.fetch_max(inside, SeqCst);
        Visit {
            cell: self,
            read: self.value.load(SeqCst),
        }
    }

    /// What the counter says.
    pub(super) fn value(&self) -> u64 {
        self.value.load(SeqCst)
    }

    /// What it should say: how often it was written.
    pub(super) fn written(&self) -> u64 {
        self.written.load(SeqCst)
    }

    /// How many were in the critical section at once, at most.
    pub(super) fn most_inside(&self) -> u32 {
        self.most_inside.load(SeqCst)
    }
}

impl Visit<'_> {
    /// Writes one more than was read, whatever has become of the counter since.
    pub(super) fn write(&self) {
        self.cell.value.store(self.read + 1, SeqCst);
        self.cell.written.fetch_add(1, SeqCst);
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.cell.inside.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_after_the_other_nothing_is_lost() {
        let cell = Cell::default();
        for _ in 0..10 {
            cell.enter().write();
        }
        drop(cell.enter()); // Who writes nothing is no change.
        assert_eq!(
            (cell.value(), cell.written(), cell.most_inside()),
            (10, 10, 1)
        );
    }

    #[test]
    fn two_at_once_lose_an_update_and_are_seen() {
        let cell = Cell::default();
        let (one, other) = (cell.enter(), cell.enter());
        one.write();
        other.write();
        assert_eq!(
            (cell.value(), cell.written(), cell.most_inside()),
            (1, 2, 2)
        );
    }

    #[test]
    fn an_overlap_is_seen_even_if_no_update_is_lost() {
        let cell = Cell::default();
        let one = cell.enter();
        one.write();
        let other = cell.enter();
        other.write();
        assert_eq!(
            (cell.value(), cell.written(), cell.most_inside()),
            (2, 2, 2)
        );
    }
}
