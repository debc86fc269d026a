//! What is known of a lock's end, and who wants to know.
//!
//! It goes with the lock in its slot. Threads and tasks that wait for the loss are kept here.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use core::task::{Poll, Waker};
use core::time::Duration;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::driver::clock;
use crate::time::Instant;

/// Longest sleep of a thread that waits. Its timeout stands still while the machine is suspended;
/// the clock of the lock does not.
const NAP_MAX: Duration = Duration::from_millis(100);

const HELD: u8 = 0;
const LOST: u8 = 1;
const RELEASED: u8 = 2;

/// What is known of a lock's end, and who wants to know.
#[derive(Debug)]
pub(super) struct Watch {
    /// Written under the mutex.
    fate: AtomicU8,
    /// In nanoseconds of the clock. Zero: not known, so that its clock tells nobody.
    valid_until: AtomicU64,
    watchers: Mutex<Watchers>,
    told: Condvar,
}

#[derive(Debug)]
struct Watchers {
    tasks: Vec<(u64, Waker)>,
    threads: usize,
    next: u64,
}

impl Watch {
    pub(super) fn new() -> Self {
        Self {
            fate: AtomicU8::new(HELD),
            valid_until: AtomicU64::new(0),
            watchers: Mutex::new(Watchers {
                tasks: Vec::new(),
                threads: 0,
                next: 0,
            }),
            told: Condvar::new(),
        }
    }

    /// Whether the signal was given.
    pub(super) fn is_told(&self) -> bool {
        self.fate.load(Ordering::Acquire) == LOST
    }

    pub(super) fn is_lost_at(&self, now: Instant) -> bool {
        match self.fate.load(Ordering::Acquire) {
            LOST => true,
            HELD => self.end().is_some_and(|end| end <= now),
            _ => false,
        }
    }

    /// When it ends by the clock, if that is known.
    fn end(&self) -> Option<Instant> {
        match self.valid_until.load(Ordering::Acquire) {
            0 => None,
            known => Some(Instant::from_nanos(known)),
        }
    }

    /// The lock is valid until then, or longer.
    pub(super) fn lasts(&self, until: Instant) {
        self.valid_until
            .fetch_max(until.as_nanos(), Ordering::AcqRel);
    }

    /// The lock is valid until then, whatever was known. A thread that sleeps until a later end
    /// looks again.
    pub(super) fn ends(&self, until: Instant) {
        let mut watchers = self.lock();
        self.valid_until.store(until.as_nanos(), Ordering::Release);
        self.wake_threads(&mut watchers);
    }

    /// The lock is given away: it can be lost no more.
    pub(super) fn release(&self) {
        let mut watchers = self.lock();
        if self.fate.load(Ordering::Relaxed) == HELD {
            self.fate.store(RELEASED, Ordering::Release);
            self.wake_threads(&mut watchers);
        }
    }

    /// The lock is lost. Threads are woken here, tasks by the caller.
    pub(super) fn lose(&self, tasks: &mut Vec<Waker>) {
        let mut watchers = self.lock();
        if self.fate.load(Ordering::Relaxed) == HELD {
            self.fate.store(LOST, Ordering::Release);
            tasks.extend(watchers.tasks.drain(..).map(|(_, waker)| waker));
            self.wake_threads(&mut watchers);
        }
    }

    fn wake_threads(&self, watchers: &mut MutexGuard<'_, Watchers>) {
        if watchers.threads != 0 {
            self.told.notify_all();
        }
    }

    pub(super) fn wait(&self, timeout: Duration) -> bool {
        let end = clock::now().saturating_add(timeout);
        let mut watchers = self.lock();
        watchers.threads += 1;
        let lost = loop {
            let now = clock::now();
            if self.is_lost_at(now) {
                break true;
            }
            if end <= now || self.fate.load(Ordering::Relaxed) == RELEASED {
                break false;
            }
            let nap = self.nap(now, end);
            watchers = match self.told.wait_timeout(watchers, nap) {
                Ok((watchers, _)) => watchers,
                Err(poisoned) => poisoned.into_inner().0,
            };
        };
        watchers.threads -= 1;
        lost
    }

    /// For how long a thread that waits until `end` sleeps before it looks again.
    fn nap(&self, now: Instant, end: Instant) -> Duration {
        let until = self.end().map_or(end, |valid_until| valid_until.min(end));
        until.saturating_since(now).min(NAP_MAX)
    }

    pub(super) fn poll(&self, place: &mut Option<u64>, waker: &Waker) -> Poll<()> {
        if self.is_lost_at(clock::now()) {
            return Poll::Ready(());
        }
        let waker = waker.clone();
        let mut watchers = self.lock();
        match self.fate.load(Ordering::Relaxed) {
            HELD => {}
            LOST => return Poll::Ready(()),
            _ => return Poll::Pending, // For ever: nobody will call the waker.
        }
        let number = *place.get_or_insert_with(|| {
            watchers.next += 1;
            watchers.next
        });
        let known = watchers.tasks.iter_mut().find(|(key, _)| *key == number);
        let before = match known {
            Some((_, known)) => Some(core::mem::replace(known, waker)),
            None => {
                watchers.tasks.push((number, waker));
                None
            }
        };
        drop(watchers);
        drop(before);
        Poll::Pending
    }

    pub(super) fn forget(&self, place: u64) {
        let mut watchers = self.lock();
        let at = watchers.tasks.iter().position(|(key, _)| *key == place);
        let before = at.map(|at| watchers.tasks.swap_remove(at));
        drop(watchers);
        drop(before);
    }

    /// Nothing panics under this mutex but the allocator.
    fn lock(&self) -> MutexGuard<'_, Watchers> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_thread_sleeps_long_for_the_loss_of_a_lock() {
        let at = Instant::from_millis;
        let nap = |valid_until: Option<u64>, end: u64| {
            let watch = Watch::new();
            if let Some(valid_until) = valid_until {
                watch.lasts(at(valid_until));
            }
            watch.nap(at(1000), at(end)).as_millis()
        };
        assert_eq!(nap(None, 1001), 1, "until the timeout");
        assert_eq!(nap(Some(1002), 9000), 2, "until its end");
        assert_eq!(nap(Some(9000), 1003), 3);
        assert_eq!(nap(Some(9000), 9000), 100, "the clock may jump");
        assert_eq!(nap(None, 9000), 100, "its end may become known");
        assert_eq!(nap(Some(999), 9000), 0);
    }
}
