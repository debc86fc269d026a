//! Records whether the loss of a lock was reported, and which tasks wait for the loss. A waiting thread counts as a
//! task whose waker unparks the thread.
//!
//! A tenure is part of the slot of the lock.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU8, Ordering};
use core::task::{Poll, Waker};
use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock;
use crate::entry::Entry;
use crate::error::Report;
use crate::time::{Instant, NANOS_PER_TICK};

/// One tick. How much earlier than requested a task learns that a lock is at risk, so that the signal is never late.
pub(super) const NOTICE: Duration = Duration::from_nanos(NANOS_PER_TICK);

const HELD: u8 = 0;
const LOST: u8 = 1;
const RELEASED: u8 = 2;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Tenure {
    /// Whether the lock is held, lost or released. This field is written only under the mutex of the listeners.
    fate: AtomicU8,
    /// The listeners, or `None` before the first listener, because few locks have listeners.
    listeners: Mutex<Option<Box<Listeners>>>,
}

#[derive(Debug, Default)]
struct Listeners {
    tasks: Vec<Task>,
    next: u64,
    /// The number of extensions by the engine that have failed since the last success.
    failures: u16,
    /// The answer of each node to the last failed extension.
    report: Option<Report>,
}

impl Listeners {
    fn take(&mut self, number: u64) -> Option<Task> {
        let place = self.tasks.iter().position(|task| task.number == number)?;
        Some(self.tasks.swap_remove(place))
    }
}

/// A waiting task.
#[derive(Debug)]
struct Task {
    number: u64,
    /// How much validity is left when the task is woken. If this time is zero, the task is woken when the loss is
    /// reported.
    early: Duration,
    /// `true` for a thread, which is also woken when the lock is released.
    blocks: bool,
    waker: Waker,
}

impl Tenure {
    /// Locks the listeners. Ignores a poisoned mutex, because no panic can leave the listeners half changed.
    fn listeners(&self) -> MutexGuard<'_, Option<Box<Listeners>>> {
        let listeners = self.listeners.lock();
        listeners.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `true` if the loss was reported.
    pub(super) fn is_reported(&self) -> bool {
        self.fate.load(Ordering::Acquire) == LOST
    }

    /// Returns `true` if the lock was released or detached before it was lost.
    pub(super) fn is_released(&self) -> bool {
        self.fate.load(Ordering::Acquire) == RELEASED
    }

    /// Returns `true` if the lock is lost, or if less than `early` is left until its `end`.
    pub(super) fn is_over_at(&self, now: Instant, end: Instant, early: Duration) -> bool {
        match self.fate.load(Ordering::Acquire) {
            LOST => true,
            HELD => match over_by(end, early) {
                Some(over) => over <= now,
                None => !early.is_zero(), // A lock without a known end has no validity until it is confirmed.
            },
            _ => false,
        }
    }

    /// Records that the lock, which is valid until `end`, is released or detached at `now`, so that its loss is no
    /// longer reported. If `end` has passed, the lock counts as lost, because callers may already have seen that it is
    /// not valid. Adds wakers to `tasks`. The caller must call these wakers.
    pub(super) fn release(&self, now: Instant, end: Instant, tasks: &mut Vec<Waker>) {
        match self.is_over_at(now, end, Duration::ZERO) {
            true => self.end_with(LOST, tasks),
            false => self.end_with(RELEASED, tasks),
        }
    }

    /// Reports the loss. Adds the wakers of all waiting tasks to `tasks`. The caller must call these wakers.
    pub(super) fn lose(&self, tasks: &mut Vec<Waker>) {
        self.end_with(LOST, tasks);
    }

    fn end_with(&self, fate: u8, tasks: &mut Vec<Waker>) {
        let mut listeners = self.listeners();
        if self.fate.load(Ordering::Relaxed) != HELD {
            return;
        }
        self.fate.store(fate, Ordering::Release);
        if let Some(there) = &mut *listeners {
            let told = |task: &mut Task| fate == LOST || task.blocks;
            tasks.extend(there.tasks.extract_if(.., told).map(|task| task.waker));
        }
    }

    /// Stores the `waker` of a task, or of a thread if it `blocks`. The task waits until the lock of `entry` is valid
    /// for less than `early`. For a new task, calls `alert` to request an alert. The engine keeps only the earliest
    /// alert of each lock.
    pub(super) fn poll(
        &self,
        place: &mut Option<u64>,
        entry: &Entry,
        (early, blocks): (Duration, bool),
        waker: &Waker,
        alert: impl FnOnce(Duration),
    ) -> Poll<()> {
        let waker = waker.clone(); // Cloned before the mutex is locked, because it is user code.
        let mut listeners = self.listeners();
        if self.is_over_at(clock::now(), entry.end(), early) {
            return Poll::Ready(());
        }
        if self.is_released() {
            return Poll::Pending; // The lock stays released, so the waker is never called.
        }
        let there = listeners.get_or_insert_default();
        let number = *place.get_or_insert_with(|| {
            there.next += 1;
            there.next
        });
        let task = Task {
            number,
            early,
            blocks,
            waker,
        };
        let before = there.take(number);
        there.tasks.push(task);
        drop(listeners);
        if before.is_none() && !early.is_zero() {
            alert(early);
        }
        Poll::Pending
    }

    /// Handles an alert for the lock, which is valid until `end`. Adds the wakers of the tasks that are due at `now` to
    /// `tasks`. Returns the largest `early` of the remaining tasks, for the next alert.
    pub(super) fn alerted(
        &self,
        now: Instant,
        end: Instant,
        tasks: &mut Vec<Waker>,
    ) -> Option<Duration> {
        let mut listeners = self.listeners();
        if self.fate.load(Ordering::Relaxed) != HELD {
            return None; // All tasks were woken, or the lock was released.
        }
        let is_due =
            |task: &mut Task| !task.early.is_zero() && self.is_over_at(now, end, task.early);
        let there = listeners.as_mut()?;
        tasks.extend(there.tasks.extract_if(.., is_due).map(|task| task.waker));
        let next = there.tasks.iter().map(|task| task.early).max();
        next.filter(|early| !early.is_zero())
    }

    // ----- extensions by the engine -----------------------------------------------------------

    /// Records that the engine or the caller has extended the lock.
    pub(super) fn extended(&self) {
        if let Some(there) = &mut *self.listeners() {
            (there.failures, there.report) = (0, None);
        }
    }

    /// Records that the engine has failed to extend the lock. `report` contains the answer of each node.
    pub(super) fn failed(&self, report: Option<Report>) {
        let mut listeners = self.listeners();
        let there = listeners.get_or_insert_default();
        (there.failures, there.report) = (there.failures.saturating_add(1), report);
    }

    /// Returns the number of extensions by the engine that have failed since the last success, and the last report.
    pub(super) fn failures(&self) -> (u32, Option<Report>) {
        let listeners = self.listeners();
        let failures = |there: &Listeners| (there.failures.into(), there.report.clone());
        listeners.as_deref().map(failures).unwrap_or_default()
    }

    pub(super) fn forget(&self, place: u64) {
        let mut listeners = self.listeners();
        let before = listeners.as_mut().and_then(|there| there.take(place));
        drop(listeners);
        drop(before);
    }
}

/// Returns the time `early` before `end`, or `None` if `end` is not known.
pub(super) fn over_by(end: Instant, early: Duration) -> Option<Instant> {
    (end != Instant::ZERO).then(|| end.saturating_sub(early))
}

/// Wakes a task. Catches a panic of the waker, and a panic in the drop of the panic payload.
pub(super) fn wake(waker: Waker) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake()))
        && let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload)))
    {
        core::mem::forget(another);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::sync::Arc;
    use std::panic::resume_unwind;
    use std::task::Wake;

    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            resume_unwind(Box::new("expected: the panic of a waker"));
        }
    }

    /// Returns a lock that is valid for `left` from now on.
    fn lock(left: Duration) -> Entry {
        let entry = Entry::new(Vec::new(), b"k", b"token");
        entry.set_end(clock::now().saturating_add(left), left);
        entry
    }

    /// If a lock is released after its expiry, it counts as lost, and its task is woken.
    #[test]
    fn a_waker_that_panics_does_not_keep_a_lock_from_being_released() {
        let (tenure, entry) = (Tenure::default(), lock(Duration::MAX));
        let waker = Waker::from(Arc::new(Panics));
        let pending = tenure.poll(&mut None, &entry, (Duration::ZERO, false), &waker, |_| {});
        assert!(pending.is_pending());
        let mut tasks = Vec::new();
        let end = clock::now();
        tenure.release(end, end, &mut tasks);
        assert_eq!(tasks.len(), 1);
        tasks.into_iter().for_each(wake);
        assert!(tenure.is_reported());
    }

    /// A lock that has expired stays lost, even if its holder releases it before the timer fires.
    #[test]
    fn a_lock_that_is_over_when_it_is_released_stays_lost() {
        for (left, is_lost) in [(Duration::ZERO, true), (Duration::from_secs(60), false)] {
            let (tenure, entry) = (Tenure::default(), lock(left));
            let waits = (Duration::ZERO, false);
            let before = tenure.poll(&mut None, &entry, waits, Waker::noop(), |_| {});
            assert_eq!(before.is_ready(), is_lost);
            tenure.release(clock::now(), entry.end(), &mut Vec::new());
            assert_eq!(tenure.is_reported(), is_lost);
            let over = tenure.is_over_at(clock::now(), entry.end(), Duration::ZERO);
            assert_eq!(over, is_lost);
            assert_eq!(tenure.is_released(), !is_lost);
        }
    }
}
