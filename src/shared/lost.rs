//! The signal that a lock is lost.
//!
//! A timer of the engine gives it a millisecond before the validity ends; an answer gives it when a majority of
//! the nodes says that the lock is gone. A thread that waits also looks at its own clock, so that the
//! signal comes in time even if the thread that serves is held up.

use alloc::sync::Arc;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use rustix::process::{Pid, getpid};

use super::slot::Slot;
use super::tenure::Pending;
use crate::driver::clock;

/// Completes when the lock may not be trusted any more: its validity is about to end, or a
/// majority of the nodes said that it is gone. [`LockGuard::lost`](super::LockGuard::lost) returns it.
///
/// It borrows nothing and may be sent to another task or thread.
///
/// * If the lock is released or detached before it is lost, the future never completes.
/// * An adopted lock from another clock, which is not valid yet, is lost when its keys must have ended,
///   unless it is confirmed before.
/// * In a forked child it completes at once: the lock is the parent's.
/// * When a thread panics with the engine it completes at once: no loss is reported after that.
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
#[must_use = "it signals only a task or thread that waits for it"]
pub struct Lost {
    slot: Arc<Slot>,
    process: Pid,
    /// The number under which its lock keeps the waker of this future.
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

    /// Returns `true` if the lock is lost, and in a forked child.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.is_foreign() || self.slot.tenure.is_over_at(clock::now(), Duration::ZERO)
    }

    /// Waits on this thread until the lock is lost, at most for `timeout`. Returns `true` if it is lost,
    /// and `false` at once if it was released.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> bool {
        self.is_foreign() || self.slot.tenure.wait(timeout, Duration::ZERO)
    }

    /// Returns `true` in a forked child, where the mutex of its lock may never be unlocked.
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
        let tenure = &this.slot.tenure;
        match tenure.poll(&mut this.place, Duration::ZERO, context.waker()) {
            Pending::Over => Poll::Ready(()),
            Pending::Waits | Pending::Alert(_) => Poll::Pending,
        }
    }
}

/// The clone signals the loss of the same lock.
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
            self.slot.tenure.forget(place);
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
