//! The workers, which are threads that contend for one lock.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use shearline::{LockGuard, LockOptions, Redlock};

use super::cell::Cell;
use super::view::human;

/// The pause between reading the counter and writing it. If two threads held the lock at the same time, one would
/// change the counter while the other pauses.
const PAUSE: Duration = Duration::from_micros(100);

/// The pause of a worker between two locks, so that the other workers get a turn.
const REST: Duration = Duration::from_micros(500);

/// How long a worker waits for the lock before it tries again. So when the demo ends, each worker ends within this
/// time.
const PATIENCE: Duration = Duration::from_secs(1);

/// The state that all workers share.
#[derive(Debug)]
pub(super) struct Contest {
    pub(super) redlock: Redlock,
    /// The name of the lock.
    pub(super) key: String,
    pub(super) cell: Cell,
    /// Tells the workers to end after releasing their locks.
    pub(super) is_over: AtomicBool,
}

impl Contest {
    pub(super) fn new(redlock: Redlock, key: String) -> Self {
        Self {
            redlock,
            key,
            cell: Cell::default(),
            is_over: AtomicBool::new(false),
        }
    }

    /// Returns how many locks the workers took.
    pub(super) fn taken(&self) -> u64 {
        self.redlock.stats().acquisitions.acquired
    }

    /// Returns how often each outcome occurred.
    pub(super) fn outcomes(&self) -> String {
        let stats = self.redlock.stats();
        let (taken, given) = (stats.acquisitions, stats.releases);
        let rare = [
            ("released", given.released),
            ("gave up waiting", taken.held),
            ("no quorum", taken.no_quorum),
            ("too slow", taken.too_slow),
            ("unconfirmed", given.unconfirmed),
            ("no longer held", given.not_held),
        ];
        let mut text = format!("taken {}", human(taken.acquired));
        for (name, number) in rare.into_iter().filter(|(_, number)| *number != 0) {
            text += &format!(", {name} {}", human(number));
        }
        text
    }

    /// The loop of one worker, which repeatedly takes the lock for `ttl`.
    pub(super) fn work(&self, ttl: Duration) {
        let options = LockOptions::new(ttl).wait(PATIENCE);
        while !self.is_over.load(Relaxed) {
            if let Ok(guard) = self.redlock.lock_with(&self.key, &options) {
                self.change(guard);
            }
            thread::sleep(REST);
        }
    }

    /// The critical section: changes the counter once, and releases the lock.
    fn change(&self, guard: LockGuard) {
        let visit = self.cell.enter(guard.validity());
        thread::sleep(PAUSE);
        if guard.is_valid() {
            visit.write();
        }
        drop(visit);
        let _ = guard.unlock(); // The handle counts the outcomes.
    }
}
