//! The workers, which are threads that contend for one lock, and their counts.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use shearline::{LockGuard, LockOptions, Redlock, UnlockError};

use super::cell::Cell;
use super::view::human;

/// The pause between reading the counter and writing it. A thread that the lock lets in by mistake has enough time to
/// interfere.
const PAUSE: Duration = Duration::from_micros(100);

/// The pause between two locks of one worker, so that the others get their turn.
const REST: Duration = Duration::from_micros(500);

/// How long a worker tries for one lock. Then it counts a failure and tries again. The end of the demo waits no longer
/// than this for a worker.
const PATIENCE: Duration = Duration::from_secs(1);

/// What all workers share.
#[derive(Debug)]
pub(super) struct Contest {
    pub(super) redlock: Redlock,
    /// The name of the lock.
    pub(super) key: String,
    pub(super) cell: Cell,
    /// The number of times that each outcome occurred, in the order in which they first occurred.
    outcomes: Mutex<Vec<(&'static str, u64)>>,
    /// Asks the workers to end; each releases its lock first.
    pub(super) is_over: AtomicBool,
}

/// The outcome that every run has.
const TAKEN: &str = "taken";

impl Contest {
    pub(super) fn new(redlock: Redlock, key: String) -> Self {
        Self {
            redlock,
            key,
            cell: Cell::default(),
            outcomes: Mutex::new(vec![(TAKEN, 0)]),
            is_over: AtomicBool::new(false),
        }
    }

    /// Returns the number of locks that were taken.
    pub(super) fn taken(&self) -> u64 {
        self.lock()[0].1
    }

    /// Returns the number of times that each outcome occurred.
    pub(super) fn outcomes(&self) -> String {
        let outcomes = self.lock();
        let outcomes = outcomes
            .iter()
            .map(|(name, count)| format!("{name} {}", human(*count)));
        outcomes.collect::<Vec<_>>().join(", ")
    }

    /// The loop of one worker: it takes the lock for `ttl`, again and again.
    pub(super) fn work(&self, ttl: Duration) {
        let options = LockOptions::new(ttl).wait(PATIENCE);
        while !self.is_over.load(Relaxed) {
            match self.redlock.lock_with(&self.key, &options) {
                Ok(guard) => {
                    self.count(TAKEN);
                    self.change(guard);
                }
                Err(error) if error.is_held() => self.count("gave up waiting"),
                Err(error) if error.report().is_some() => self.count("no quorum"),
                Err(_) => self.count("other errors"),
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
        } else {
            self.count("expired before use");
        }
        drop(visit);
        self.count(match guard.unlock() {
            Ok(_) => "given back",
            Err(UnlockError::NotHeld(_)) => "no longer held",
            Err(UnlockError::Unconfirmed(_)) => "unconfirmed",
            Err(_) => "other errors",
        });
    }

    fn count(&self, outcome: &'static str) {
        let mut outcomes = self.lock();
        match outcomes.iter_mut().find(|(name, _)| *name == outcome) {
            Some((_, count)) => *count += 1,
            None => outcomes.push((outcome, 1)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(&'static str, u64)>> {
        self.outcomes
            .lock()
            .expect("no thread panics while it counts")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_that_came_are_named() {
        let redlock = Redlock::builder().node("127.0.0.1:1").build();
        let contest = Contest::new(redlock.expect("a good configuration"), String::new());
        assert_eq!(contest.outcomes(), "taken 0");
        contest.count("given back");
        for _ in 0..1_234 {
            contest.count(TAKEN);
        }
        assert_eq!(contest.outcomes(), "taken 1,234, given back 1");
        assert_eq!(contest.taken(), 1_234);
    }
}
