//! The signal that a lock is lost.
//!
//! It is given by a timer of the engine, a tick before the validity ends, or when a majority of the
//! nodes says that the lock is gone. Who waits on a thread also has a clock of his own, so that the
//! signal comes in time even if the thread that serves is held up.

use alloc::sync::Arc;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use rustix::process::{Pid, getpid};

use super::slot::Slot;
use crate::driver::clock;

/// Completes when the lock may not be trusted any more: its validity is about to end, or a
/// majority of the nodes said that it is gone.
///
/// A lock from another clock that was adopted is not lost before it was confirmed: it was not valid
/// yet. It is when its keys must have ended without that.
///
/// From [`LockGuard::lost`](super::LockGuard::lost). It borrows nothing and may go to another task
/// or thread. Of a lock that was released or handed over before it was lost it never completes.
/// In a forked child it completes at once, because the lock is the parent's.
/// When the handle breaks (a thread has panicked with its engine) it completes at once, because nobody is
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
