//! The signal that a lock is lost.
//!
//! It is given by a timer of the engine, a tick before the validity ends, or when a majority of the
//! nodes says that the lock is gone. Who waits on a thread also has a clock of his own, so that the
//! signal comes in time even if the driving thread is held up.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, getpid};

use super::slot::Slot;
use crate::driver::clock;
use crate::quorum::LockId;
use crate::time::Instant;

/// Longest sleep of a thread that waits. Its timeout stands still while the machine is suspended;
/// the clock of the lock does not.
const NAP_MAX: Duration = Duration::from_millis(100);

/// Completes when the lock may not be trusted any more: its validity is about to end, or a
/// majority of the nodes said that it is gone.
///
/// A lock from another clock that was adopted is not lost before it was confirmed: it was not valid
/// yet. It is when its keys must have ended without that.
///
/// From [`LockGuard::lost`](super::LockGuard::lost). It borrows nothing and may go to another task
/// or thread. Of a lock that was released or handed over before it was lost it never completes.
/// In a forked child it completes at once, because the lock is the parent's.
/// When the handle breaks (a driving thread has panicked) it completes at once, because nobody is
/// left to tell.
///
/// ```no_run
/// # use std::time::Duration;
/// # fn next_step() {}
/// # let redlock = shearline::Redlock::connect(["redis://10.0.0.1"])?;
/// let guard = redlock.lock("report", Duration::from_secs(10))?;
/// let lost = guard.lost();
/// let watchdog = std::thread::spawn(move || {
///     if lost.wait(Duration::MAX) {
///         std::process::abort(); // Better no report than two.
///     }
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a signal that nobody looks at tells nobody"]
pub struct Lost {
    slot: Arc<Slot>,
    process: Pid,
    /// Under which number this one's waker is kept.
    place: Option<u64>,
}

impl Lost {
    pub(super) fn new(slot: Arc<Slot>, process: Pid) -> Self {
        Self {
            slot,
            process,
            place: None,
        }
    }

    /// Whether the lock is lost; in a forked child it is.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.is_foreign() || self.slot.watch.is_lost_at(clock::now())
    }

    /// Waits on this thread, at most `timeout`; whether the lock is lost. Returns `false` at once
    /// if it was released.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> bool {
        self.is_foreign() || self.slot.watch.wait(timeout)
    }

    /// In a forked child the mutex of the watch may be held for ever.
    fn is_foreign(&self) -> bool {
        getpid() != self.process
    }
}

impl Future for Lost {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.is_foreign() {
            return Poll::Ready(());
        }
        this.slot.watch.poll(&mut this.place, context.waker())
    }
}

/// Tells of the same lock.
impl Clone for Lost {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.slot), self.process)
    }
}

impl Drop for Lost {
    fn drop(&mut self) {
        if let Some(place) = self.place
            && !self.is_foreign()
        {
            self.slot.watch.forget(place);
        }
    }
}

impl fmt::Debug for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lost")
            .field("is_lost", &self.is_lost())
            .finish_non_exhaustive()
    }
}

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
    /// The id that the engine gave a lock that was adopted.
    id: LockId,
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
                id: LockId::NONE,
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

    fn is_lost_at(&self, now: Instant) -> bool {
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

    pub(super) fn set_id(&self, id: LockId) {
        self.lock().id = id;
    }

    pub(super) fn id(&self) -> LockId {
        self.lock().id
    }

    /// The lock is given away: it can be lost no more.
    pub(super) fn release(&self) {
        let mut watchers = self.lock();
        if self.fate.load(Ordering::Relaxed) == HELD {
            self.fate.store(RELEASED, Ordering::Release);
            self.wake_threads(&mut watchers);
        }
    }

    /// The lock is lost. Threads are woken here, tasks by whoever called.
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

    fn wait(&self, timeout: Duration) -> bool {
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

    fn poll(&self, place: &mut Option<u64>, waker: &Waker) -> Poll<()> {
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

    fn forget(&self, place: u64) {
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
