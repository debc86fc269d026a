//! What the lock protects in the demo: a counter that loses updates if two change it at once, and
//! a witness of how many are in there.
//!
//! The counter is read and written in two steps, as a program does with a row of a database or a
//! file. An atomic counter beside it counts every change, so that the two can be compared at the end.
//! Nothing here excludes other threads: that is the lock's task.
//!
//! A worker that is still inside when its lock has expired is not a holder. That happens when the
//! whole process is stopped for longer than the ttl (Ctrl-Z); the worker then finds its lock expired
//! and writes nothing.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// A counter that is not atomic as a whole, and its witnesses.
#[derive(Debug)]
pub(super) struct Cell {
    begin: Instant,
    value: AtomicU64,
    written: AtomicU64,
    inside: AtomicU32,
    /// When the lock of the last worker to enter expires, in nanoseconds since the beginning.
    valid_until: AtomicU64,
    most_inside: AtomicU32,
}

/// Stands for a worker in the critical section, until it is dropped.
#[derive(Debug)]
pub(super) struct Visit<'a> {
    cell: &'a Cell,
    read: u64,
}

impl Cell {
    pub(super) fn new() -> Self {
        Self {
            begin: Instant::now(),
            value: AtomicU64::new(0),
            written: AtomicU64::new(0),
            inside: AtomicU32::new(0),
            valid_until: AtomicU64::new(0),
            most_inside: AtomicU32::new(0),
        }
    }

    /// Enters the critical section under a lock of this validity, and reads the counter.
    pub(super) fn enter(&self, validity: Duration) -> Visit<'_> {
        let now = self.begin.elapsed();
        let inside = self.inside.fetch_add(1, SeqCst) + 1;
        let before = self.valid_until.swap(nanos(now + validity), SeqCst);
        let holders = if nanos(now) < before { inside } else { 1 };
        self.most_inside.fetch_max(holders, SeqCst);
        Visit {
            cell: self,
            read: self.value.load(SeqCst),
        }
    }

    /// Returns the counter.
    pub(super) fn value(&self) -> u64 {
        self.value.load(SeqCst)
    }

    /// Returns how often the counter was written: what it should be.
    pub(super) fn written(&self) -> u64 {
        self.written.load(SeqCst)
    }

    /// Returns the most workers that were in the critical section at once with a valid lock.
    pub(super) fn most_inside(&self) -> u32 {
        self.most_inside.load(SeqCst)
    }
}

impl Visit<'_> {
    /// Writes one more than was read, even if the counter has changed since.
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

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn said(cell: &Cell) -> (u64, u64, u32) {
        (cell.value(), cell.written(), cell.most_inside())
    }

    #[test]
    fn updates_one_after_another_are_all_kept() {
        let cell = Cell::new();
        assert_eq!(said(&cell), (0, 0, 0));
        for _ in 0..10 {
            cell.enter(LONG).write();
        }
        drop(cell.enter(LONG)); // A visit without a write is no change.
        assert_eq!(said(&cell), (10, 10, 1));
    }

    #[test]
    fn two_updates_at_once_lose_one_and_are_detected() {
        let cell = Cell::new();
        let (one, other) = (cell.enter(LONG), cell.enter(LONG));
        one.write();
        other.write();
        assert_eq!(said(&cell), (1, 2, 2));
    }

    #[test]
    fn an_overlap_is_detected_even_if_no_update_is_lost() {
        let cell = Cell::new();
        let one = cell.enter(LONG);
        one.write();
        let other = cell.enter(LONG);
        other.write();
        assert_eq!(said(&cell), (2, 2, 2));
    }

    #[test]
    fn a_worker_whose_lock_has_expired_is_not_a_holder() {
        let cell = Cell::new();
        let late = cell.enter(Duration::ZERO);
        let holder = cell.enter(LONG);
        holder.write();
        drop(late);
        assert_eq!(said(&cell), (1, 1, 1));
        let overlapping = cell.enter(LONG);
        assert_eq!(said(&cell), (1, 1, 2));
        drop((holder, overlapping));
    }
}
