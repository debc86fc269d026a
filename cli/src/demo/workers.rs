//! The workers: threads that contend for one lock, and what they count.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use shearline::{LockError, LockGuard, LockOptions, Redlock, UnlockError};

use super::cell::Cell;

/// The pause between reading the counter and writing it: long enough for another thread to come in
/// between, if the lock let it.
const PAUSE: Duration = Duration::from_micros(100);

/// The pause between two locks of one worker, so that the others get their turn.
const REST: Duration = Duration::from_micros(500);

/// How long a worker tries for one lock before it counts that as a failure and tries again. Also
/// the longest that the end of the demo waits for a worker.
const PATIENCE: Duration = Duration::from_secs(1);

/// What all workers share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) cell: Cell,
    pub(super) outcomes: Outcomes,
    stop: AtomicBool,
}

/// How often each outcome came.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    pub(super) acquired: AtomicU64,
    pub(super) held: AtomicU64,
    pub(super) no_quorum: AtomicU64,
    pub(super) too_slow: AtomicU64,
    pub(super) released: AtomicU64,
    pub(super) unconfirmed: AtomicU64,
    pub(super) not_held: AtomicU64,
    /// Locks whose validity had run out before the counter was written: it was not.
    pub(super) expired: AtomicU64,
    pub(super) other: AtomicU64,
}

/// The threads.
#[derive(Debug)]
pub(super) struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts `count` workers that take the lock on `key` for `ttl`, again and again.
    pub(super) fn start(
        redlock: &Redlock,
        count: usize,
        key: &str,
        ttl: Duration,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            cell: Cell::new(),
            outcomes: Outcomes::default(),
            stop: AtomicBool::new(false),
        });
        let mut workers = Self {
            shared,
            threads: Vec::new(),
        };
        let options = LockOptions::new(ttl).wait(PATIENCE);
        for number in 1..=count {
            let (redlock, key) = (redlock.clone(), key.to_owned());
            let shared = Arc::clone(&workers.shared);
            let thread = thread::Builder::new()
                .name(format!("worker {number}"))
                .spawn(move || work(&redlock, &key, &options, &shared))?;
            workers.threads.push(thread);
        }
        Ok(workers)
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Asks the workers to end; each releases its lock first.
    pub(super) fn stop(&self) {
        self.shared.stop.store(true, Relaxed);
    }

    /// Whether all have ended.
    pub(super) fn have_ended(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits for the end of all workers. Returns how many of them have panicked.
    pub(super) fn join(&mut self) -> usize {
        self.stop();
        self.threads
            .drain(..)
            .filter_map(|thread| thread.join().err())
            .count()
    }
}

/// Ends the workers, also after an error.
impl Drop for Workers {
    fn drop(&mut self) {
        self.join();
    }
}

fn work(redlock: &Redlock, key: &str, options: &LockOptions, shared: &Shared) {
    while !shared.stop.load(Relaxed) {
        match redlock.lock_with(key, options) {
            Ok(guard) => {
                count(&shared.outcomes.acquired);
                change(guard, shared);
            }
            Err(error) => count(shared.outcomes.of_lock(&error)),
        }
        thread::sleep(REST);
    }
}

/// The critical section: changes the counter once, and releases the lock.
fn change(guard: LockGuard, shared: &Shared) {
    let visit = shared.cell.enter(guard.validity());
    thread::sleep(PAUSE);
    if guard.is_valid() {
        visit.write();
    } else {
        count(&shared.outcomes.expired);
    }
    drop(visit);
    let counter = match guard.unlock() {
        Ok(_) => &shared.outcomes.released,
        Err(error) => shared.outcomes.of_unlock(&error),
    };
    count(counter);
}

impl Outcomes {
    fn of_lock(&self, error: &LockError) -> &AtomicU64 {
        match error {
            LockError::Held(_) => &self.held,
            LockError::NoQuorum(_) => &self.no_quorum,
            LockError::TooSlow(_) => &self.too_slow,
            LockError::Invalid(_)
            | LockError::Saturated
            | LockError::Forked
            | LockError::Closed
            | _ => &self.other,
        }
    }

    fn of_unlock(&self, error: &UnlockError) -> &AtomicU64 {
        match error {
            UnlockError::NotHeld(_) => &self.not_held,
            UnlockError::Unconfirmed(_) => &self.unconfirmed,
            UnlockError::Forked | UnlockError::Closed | _ => &self.other,
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
