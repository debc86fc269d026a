//! The data that the lock protects in the demo. The data is a counter, and a count of the workers in the critical
//! section. The counter loses updates if two workers change it at the same time.
//!
//! A worker reads and writes the counter in two steps, like a program that changes a file or a row of a database. An
//! atomic counter counts the same changes, so that the demo can compare the two counters at the end. No mutex guards
//! the counter, because the distributed lock must do so.
//!
//! A worker whose lock expires in the critical section no longer counts as a holder. A lock can expire in the critical
//! section if the whole process is stopped for longer than the ttl (Ctrl-Z). The worker then notices that its lock has
//! expired, and writes nothing.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use shearline::internals::now;

/// A counter whose updates are not atomic, and the atomic counters that check it.
#[derive(Debug, Default)]
pub(super) struct Cell {
    value: AtomicU64,
    written: AtomicU64,
    inside: AtomicU32,
    /// The expiry of the lock of the worker that entered last, in nanoseconds.
    valid_until: AtomicU64,
    most_inside: AtomicU32,
}

/// Represents a worker in the critical section, until this value is dropped.
#[derive(Debug)]
pub(super) struct Visit<'a> {
    cell: &'a Cell,
    read: u64,
}

impl Cell {
    /// Enters the critical section under a lock that is valid for `validity`, and reads the counter.
    pub(super) fn enter(&self, validity: Duration) -> Visit<'_> {
        let now = now();
        let until = now.saturating_add(validity).as_nanos();
        let inside = self.inside.fetch_add(1, SeqCst) + 1;
        let before = self.valid_until.swap(until, SeqCst);
        let holders = if now.as_nanos() < before { inside } else { 1 };
        self.most_inside.fetch_max(holders, SeqCst);
        Visit {
            cell: self,
            read: self.value.load(SeqCst),
        }
    }

    /// Returns the counter, the number of writes, and the largest number of workers that were in the critical section
    /// at the same time with a valid lock. The counter should equal the number of writes.
    pub(super) fn read(&self) -> (u64, u64, u32) {
        let (value, written) = (self.value.load(SeqCst), self.written.load(SeqCst));
        (value, written, self.most_inside.load(SeqCst))
    }
}

impl Visit<'_> {
    /// Writes the value from [`enter`](Cell::enter) plus one, even if the counter has changed since then.
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

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn updates_one_after_another_are_all_kept() {
        let cell = Cell::default();
        assert_eq!(cell.read(), (0, 0, 0));
        for _ in 0..10 {
            cell.enter(LONG).write();
        }
        drop(cell.enter(LONG)); // A visit without a write changes nothing.
        assert_eq!(cell.read(), (10, 10, 1));
    }

    #[test]
    fn an_overlap_is_detected_even_if_no_update_is_lost() {
        let cell = Cell::default();
        let one = cell.enter(LONG);
        one.write();
        let other = cell.enter(LONG);
        other.write();
        assert_eq!(cell.read(), (2, 2, 2));
    }

    #[test]
    fn a_worker_whose_lock_has_expired_is_not_a_holder() {
        let cell = Cell::default();
        let late = cell.enter(Duration::ZERO);
        let holder = cell.enter(LONG);
        holder.write();
        drop(late);
        assert_eq!(cell.read(), (1, 1, 1));
        let overlapping = cell.enter(LONG);
        assert_eq!(cell.read(), (1, 1, 2));
        drop((holder, overlapping));
    }
}
