//! When a lock ends, whether its loss was reported, and the threads and tasks that wait for that.
//!
//! It is part of the slot of the lock.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use core::task::Waker;
use core::time::Duration;
use std::sync::MutexGuard;

use super::monitor::Monitor;
use crate::driver::clock;
use crate::error::Report;
use crate::time::{Instant, NANOS_PER_TICK};

/// Longest sleep of a thread that waits. Its timeout stands still while the machine is suspended;
/// the clock of the lock does not.
const NAP_MAX: Duration = Duration::from_millis(100);

/// A tick: how much earlier than asked for a task learns that a lock is at risk, rather than later.
pub(super) const NOTICE: Duration = Duration::from_nanos(NANOS_PER_TICK);

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
    /// How often in a row the engine has failed to extend it.
    failures: AtomicU32,
    watchers: Monitor<Watchers>,
}

/// In a box, which most locks never need.
#[derive(Debug, Default)]
struct Watchers(Option<Box<Crowd>>);

#[derive(Debug, Default)]
struct Crowd {
    tasks: Vec<Task>,
    threads: usize,
    next: u64,
    /// How early before the end the alert comes that was asked for. Zero: none was.
    alert: Duration,
    /// What each node said to the last extension that failed.
    report: Option<Report>,
}

/// A task that waits.
#[derive(Debug)]
struct Task {
    number: u64,
    /// How long before the end it is woken. Zero: when the loss is reported.
    early: Duration,
    waker: Waker,
}

/// What a task waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Pending {
    /// Nothing: it is so.
    Over,
    /// Its waker is called, if it is ever so.
    Waits,
    /// The same, and an alert is needed so early before the end.
    Alert(Duration),
}

impl Watch {
    pub(super) fn new() -> Self {
        Self {
            fate: AtomicU8::new(HELD),
            valid_until: AtomicU64::new(0),
            failures: AtomicU32::new(0),
            watchers: Monitor::new(Watchers(None)),
        }
    }

    /// Returns `true` if the loss was reported.
    pub(super) fn is_reported(&self) -> bool {
        self.fate.load(Ordering::Acquire) == LOST
    }

    /// Returns `true` if the lock is lost, or is over so `early` before its end.
    pub(super) fn is_over_at(&self, now: Instant, early: Duration) -> bool {
        match self.fate.load(Ordering::Acquire) {
            LOST => true,
            HELD => match self.end() {
                Some(end) => end.saturating_sub(early) <= now,
                None => !early.is_zero(), // It is not valid before it was confirmed.
            },
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

    /// Records that the lock is valid until `until`, later or earlier than before. Threads that sleep until
    /// the end have to [look again](Self::look_again).
    pub(super) fn ends(&self, until: Instant) {
        self.valid_until.store(until.as_nanos(), Ordering::Release);
    }

    /// Wakes the threads that sleep until the end.
    pub(super) fn look_again(&self) {
        let watchers = self.watchers.lock();
        self.wake_threads(&watchers);
    }

    /// Records that the lock is released or detached: its loss is not reported any more.
    pub(super) fn release(&self) {
        let watchers = self.watchers.lock();
        if self.fate.load(Ordering::Relaxed) == HELD {
            self.fate.store(RELEASED, Ordering::Release);
            self.wake_threads(&watchers);
        }
    }

    /// Reports the loss. Wakes threads here, and adds the wakers of `tasks`, which the caller calls.
    pub(super) fn lose(&self, tasks: &mut Vec<Waker>) {
        let mut watchers = self.watchers.lock();
        if self.fate.load(Ordering::Relaxed) == HELD {
            self.fate.store(LOST, Ordering::Release);
            if let Some(crowd) = &mut watchers.0 {
                tasks.extend(crowd.tasks.drain(..).map(|task| task.waker));
            }
            self.wake_threads(&watchers);
        }
    }

    fn wake_threads(&self, watchers: &MutexGuard<'_, Watchers>) {
        if watchers.0.as_ref().is_some_and(|crowd| crowd.threads != 0) {
            self.watchers.wake_all();
        }
    }

    /// Waits until the lock is over so `early` before its end, at most for `timeout`.
    pub(super) fn wait(&self, timeout: Duration, early: Duration) -> bool {
        let end = clock::now().saturating_add(timeout);
        let mut watchers = self.watchers.lock();
        watchers.crowd().threads += 1;
        let is_over = loop {
            let now = clock::now();
            if self.is_over_at(now, early) {
                break true;
            }
            if end <= now || self.fate.load(Ordering::Relaxed) == RELEASED {
                break false;
            }
            let nap = self.nap(now, end, early);
            watchers = self.watchers.wait(watchers, Some(nap));
        };
        watchers.crowd().threads -= 1;
        is_over
    }

    /// For how long a thread that waits until `end` sleeps before it looks again.
    fn nap(&self, now: Instant, end: Instant, early: Duration) -> Duration {
        let over = self.end().map(|over| over.saturating_sub(early));
        let until = over.map_or(end, |over| over.min(end));
        until.saturating_since(now).min(NAP_MAX)
    }

    /// Keeps `waker` of a task that waits until the lock is over so `early` before its end.
    pub(super) fn poll(&self, place: &mut Option<u64>, early: Duration, waker: &Waker) -> Pending {
        if self.is_over_at(clock::now(), early) {
            return Pending::Over;
        }
        let waker = waker.clone();
        let mut watchers = self.watchers.lock();
        match self.fate.load(Ordering::Relaxed) {
            HELD => {}
            LOST => return Pending::Over,
            _ => return Pending::Waits, // It stays so, and the waker is never called.
        }
        let crowd = watchers.crowd();
        let number = *place.get_or_insert_with(|| {
            crowd.next += 1;
            crowd.next
        });
        let task = Task {
            number,
            early,
            waker,
        };
        let known = crowd.tasks.iter_mut();
        let before = match known.into_iter().find(|known| known.number == number) {
            Some(known) => Some(core::mem::replace(known, task)),
            None => {
                crowd.tasks.push(task);
                None
            }
        };
        let alert = crowd.next_alert();
        drop(watchers);
        drop(before);
        alert.map_or(Pending::Waits, Pending::Alert)
    }

    /// An alert has come: adds the wakers of those `tasks` that are to be woken at `now`. Returns how early
    /// before the end the next alert is needed.
    pub(super) fn alerted(&self, now: Instant, tasks: &mut Vec<Waker>) -> Option<Duration> {
        let mut watchers = self.watchers.lock();
        if self.fate.load(Ordering::Relaxed) != HELD {
            return None; // All were woken, or none will be.
        }
        let is_due = |task: &mut Task| !task.early.is_zero() && self.is_over_at(now, task.early);
        let crowd = watchers.0.as_mut()?;
        tasks.extend(crowd.tasks.extract_if(.., is_due).map(|task| task.waker));
        crowd.alert = Duration::ZERO;
        crowd.next_alert()
    }

    // ----- extensions by the engine ---------------------------------------------------------

    /// The engine has extended the lock until `until`.
    pub(super) fn kept(&self, until: Instant) {
        self.lasts(until);
        self.failures.store(0, Ordering::Relaxed);
    }

    /// The engine has failed to extend the lock; `report` is what each node said.
    pub(super) fn not_kept(&self, report: Option<Report>) {
        let before = {
            let mut watchers = self.watchers.lock();
            self.failures.fetch_add(1, Ordering::Relaxed);
            core::mem::replace(&mut watchers.crowd().report, report)
        };
        drop(before);
    }

    /// Returns how often in a row the engine has failed to extend the lock, and the last report.
    pub(super) fn failures(&self) -> (u32, Option<Report>) {
        let watchers = self.watchers.lock();
        match self.failures.load(Ordering::Relaxed) {
            0 => (0, None),
            failures => {
                let crowd = watchers.0.as_ref();
                (failures, crowd.and_then(|crowd| crowd.report.clone()))
            }
        }
    }

    pub(super) fn forget(&self, place: u64) {
        let mut watchers = self.watchers.lock();
        let before = watchers.0.as_mut().and_then(|crowd| {
            let at = crowd.tasks.iter().position(|task| task.number == place)?;
            Some(crowd.tasks.swap_remove(at))
        });
        drop(watchers);
        drop(before);
    }
}

impl Watchers {
    fn crowd(&mut self) -> &mut Crowd {
        self.0.get_or_insert_default()
    }
}

impl Crowd {
    /// Returns how early before the end an alert is needed, if none was asked for that comes by then: for the
    /// first task that is to be woken before the end.
    fn next_alert(&mut self) -> Option<Duration> {
        let early = self.tasks.iter().map(|task| task.early).max()?;
        let is_needed = self.alert < early;
        is_needed.then(|| {
            self.alert = early;
            early
        })
    }
}

// A slot lives as long as its lock.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Watch>() <= 48);

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
            watch.nap(at(1000), at(end), Duration::ZERO).as_millis()
        };
        assert_eq!(nap(None, 1001), 1, "until the timeout");
        assert_eq!(nap(Some(1002), 9000), 2, "until its end");
        assert_eq!(nap(Some(9000), 1003), 3);
        assert_eq!(nap(Some(9000), 9000), 100, "the clock may jump");
        assert_eq!(nap(None, 9000), 100, "its end may become known");
        assert_eq!(nap(Some(999), 9000), 0);
    }
}
