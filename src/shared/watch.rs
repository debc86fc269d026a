//! When a lock ends, whether its loss was reported, and the threads and tasks that wait for that.
//!
//! It is part of the slot of the lock.

use alloc::boxed::Box;
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

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Watch {
    /// Written under the mutex.
    fate: AtomicU8,
    /// In nanoseconds of the clock. Zero: not known, so that no thread ends its wait by the clock.
    valid_until: AtomicU64,
    /// `None` before the first: hardly a lock has any, and those who wait for one are many.
    watchers: Mutex<Option<Box<Watchers>>>,
    /// It is lost, or ends at another time.
    changed: Condvar,
}

#[derive(Debug, Default)]
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
            watchers: Mutex::new(None),
            changed: Condvar::new(),
        }
    }

    /// No code here panics between two changes that belong together.
    fn watchers(&self) -> MutexGuard<'_, Option<Box<Watchers>>> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `true` if the loss was reported.
    pub(super) fn is_reported(&self) -> bool {
        self.fate.load(Ordering::Acquire) == LOST
    }

    pub(super) fn is_lost_at(&self, now: Instant) -> bool {
        match self.fate.load(Ordering::Acquire) {
            LOST => true,
            HELD => self.end().is_some_and(|end| end <= now),
            _ => false,
        }
    }

    /// Returns when the lock ends by the clock, if that is known.
    fn end(&self) -> Option<Instant> {
        match self.valid_until.load(Ordering::Acquire) {
            0 => None,
            known => Some(Instant::from_nanos(known)),
        }
    }

    /// Records that the lock is valid at least until `until`.
    pub(super) fn lasts(&self, until: Instant) {
        self.valid_until
            .fetch_max(until.as_nanos(), Ordering::AcqRel);
    }

    /// Records that the lock is valid until `until`, later or earlier than before. A thread that sleeps
    /// until the end looks again.
    pub(super) fn ends(&self, until: Instant) {
        let watchers = self.watchers();
        self.valid_until.store(until.as_nanos(), Ordering::Release);
        self.wake_threads(&watchers);
    }

    /// Records that the lock is released or detached: its loss is not reported any more.
    pub(super) fn release(&self) {
        let watchers = self.watchers();
        if self.fate.load(Ordering::Relaxed) == HELD {
            self.fate.store(RELEASED, Ordering::Release);
            self.wake_threads(&watchers);
        }
    }

    /// Reports the loss. Wakes threads here, and adds the wakers of `tasks`, which the caller calls.
    pub(super) fn lose(&self, tasks: &mut Vec<Waker>) {
        let mut watchers = self.watchers();
        if self.fate.load(Ordering::Relaxed) == HELD {
            self.fate.store(LOST, Ordering::Release);
            let there = watchers.as_mut();
            let waiting = there.map(|watchers| watchers.tasks.drain(..));
            tasks.extend(waiting.into_iter().flatten().map(|(_, waker)| waker));
            self.wake_threads(&watchers);
        }
    }

    fn wake_threads(&self, watchers: &MutexGuard<'_, Option<Box<Watchers>>>) {
        if watchers.as_ref().is_some_and(|there| there.threads != 0) {
            self.changed.notify_all();
        }
    }

    pub(super) fn wait(&self, timeout: Duration) -> bool {
        let end = clock::now().saturating_add(timeout);
        let mut watchers = self.watchers();
        watchers.get_or_insert_default().threads += 1;
        let lost = loop {
            let now = clock::now();
            if self.is_lost_at(now) {
                break true;
            }
            if end <= now || self.fate.load(Ordering::Relaxed) == RELEASED {
                break false;
            }
            let nap = self.nap(now, end);
            let woken = self.changed.wait_timeout(watchers, nap);
            watchers = woken.unwrap_or_else(PoisonError::into_inner).0;
        };
        watchers.get_or_insert_default().threads -= 1;
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
        let mut watchers = self.watchers();
        match self.fate.load(Ordering::Relaxed) {
            HELD => {}
            LOST => return Poll::Ready(()),
            _ => return Poll::Pending, // It stays so, and the waker is never called.
        }
        let there = watchers.get_or_insert_default();
        let number = *place.get_or_insert_with(|| {
            there.next += 1;
            there.next
        });
        let known = there.tasks.iter_mut().find(|(key, _)| *key == number);
        let before = match known {
            Some((_, known)) => Some(core::mem::replace(known, waker)),
            None => {
                there.tasks.push((number, waker));
                None
            }
        };
        drop(watchers);
        drop(before);
        Poll::Pending
    }

    pub(super) fn forget(&self, place: u64) {
        let mut watchers = self.watchers();
        let before = watchers.as_mut().and_then(|there| {
            let at = there.tasks.iter().position(|(key, _)| *key == place)?;
            Some(there.tasks.swap_remove(at))
        });
        drop(watchers);
        drop(before);
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
