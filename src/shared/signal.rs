//! A signal that a lock is lost or about to expire, for tasks and threads. [`Lost`](super::Lost)
//! and [`AtRisk`](super::AtRisk) contain a signal.
//!
//! A timer of the engine, or an answer, wakes the caller. A waiting thread also checks its own clock, so that the
//! signal comes in time even if the serving thread is delayed.

use alloc::sync::{Arc, Weak};
use core::future::Future;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::task::Wake;
use std::thread::{self, Thread};

use super::Shared;
use super::callers::alert;
use super::slot::Slot;
use super::tenure::over_by;
use crate::clock;
use crate::entry::Entry;
use crate::process::Process;
use crate::quorum::{Lock, LockId};
use crate::time::Instant;

/// The longest sleep of a waiting thread. While the machine is suspended, the timeout of a sleep stops, but the clock
/// of the lock does not.
const NAP_MAX: Duration = Duration::from_millis(100);

/// Completes when a lock is lost, or when less than `early` is left of its validity. In a forked child the signal
/// completes immediately, because the lock belongs to the parent.
#[derive(Debug)]
pub(super) struct Signal {
    slot: Arc<Slot>,
    /// The entry of the lock, which contains the time when the lock's validity ends.
    entry: Entry,
    lock: LockId,
    shared: Weak<Shared>,
    process: Process,
    early: Duration,
    /// The number under which the slot keeps the waker.
    place: Option<u64>,
    /// `true` if a thread waits. The wait of a thread also ends when the lock is released.
    blocks: bool,
}

impl Signal {
    pub(super) fn new(slot: Arc<Slot>, shared: &Arc<Shared>, lock: &Lock, early: Duration) -> Self {
        Self {
            slot,
            entry: lock.entry().clone(),
            lock: lock.id(),
            shared: Arc::downgrade(shared),
            process: shared.process.clone(),
            early,
            place: None,
            blocks: false,
        }
    }

    /// Sets how much validity is left when the signal completes.
    pub(super) fn set_early(&mut self, early: Duration) {
        self.forget();
        self.early = early;
    }

    /// Returns `true` if the signal would complete now.
    pub(super) fn is_given(&self) -> bool {
        let (tenure, end) = (&self.slot.tenure, self.entry.end());
        self.is_foreign() || tenure.is_over_at(clock::now(), end, self.early)
    }

    /// Blocks this thread until the signal completes, for at most `timeout`. Returns `false` after the timeout, or
    /// immediately if the lock is released.
    pub(super) fn wait(&self, timeout: Duration) -> bool {
        let tenure = &self.slot.tenure;
        let mut this = self.clone();
        this.blocks = true;
        let given = wait(
            timeout,
            || over_by(self.entry.end(), self.early),
            |context| match Pin::new(&mut this).poll(context) {
                Poll::Pending if tenure.is_released() => Poll::Ready(false),
                Poll::Pending => Poll::Pending,
                Poll::Ready(()) => Poll::Ready(true),
            },
        );
        given.unwrap_or(false)
    }

    /// Returns `true` in a forked child, where the mutex of the slot might stay locked forever.
    fn is_foreign(&self) -> bool {
        self.process.is_foreign()
    }

    fn forget(&mut self) {
        if let Some(place) = self.place.take()
            && !self.is_foreign()
        {
            self.slot.tenure.forget(place);
        }
    }
}

impl Future for Signal {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.is_foreign() {
            return Poll::Ready(());
        }
        let (tenure, waker) = (&this.slot.tenure, context.waker());
        let waits = (this.early, this.blocks);
        tenure.poll(&mut this.place, &this.entry, waits, waker, |early| {
            // If the handle no longer exists, the lock was released, so no alert is needed.
            if let Some(shared) = this.shared.upgrade()
                && let Ok(mut section) = shared.enter()
            {
                alert(&mut section.engine, this.lock, early);
            }
        })
    }
}

impl Clone for Signal {
    fn clone(&self) -> Self {
        Self {
            slot: Arc::clone(&self.slot),
            entry: self.entry.clone(),
            shared: Weak::clone(&self.shared),
            process: self.process.clone(),
            place: None,
            ..*self
        }
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        self.forget();
    }
}

/// A panic cannot leave a signal or its handle in an inconsistent state.
impl UnwindSafe for Signal {}
impl RefUnwindSafe for Signal {}

/// Calls `poll` on this thread until it returns an outcome, for at most `timeout`. Calls it again when the thread is
/// woken, and at the time that `due` returns.
pub(super) fn wait<T>(
    timeout: Duration,
    due: impl Fn() -> Option<Instant>,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Option<T> {
    let end = clock::now().saturating_add(timeout);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(outcome) = poll(&mut context) {
            return Some(outcome);
        }
        let now = clock::now();
        if end <= now {
            return None;
        }
        thread::park_timeout(nap(now, end, due()));
    }
}

/// Returns how long a waiting thread sleeps before it checks again, if its wait ends at `end`.
fn nap(now: Instant, end: Instant, due: Option<Instant>) -> Duration {
    let until = due.map_or(end, |due| due.min(end));
    until.saturating_since(now).min(NAP_MAX)
}

/// A waker that unparks a waiting thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_thread_sleeps_long_for_the_loss_of_a_lock() {
        let at = Instant::from_millis;
        let nap = |valid_until: Option<u64>, end: u64| {
            nap(at(1000), at(end), valid_until.map(at)).as_millis()
        };
        assert_eq!(nap(None, 1001), 1, "until the timeout");
        assert_eq!(nap(Some(1002), 9000), 2, "until its end");
        assert_eq!(nap(Some(9000), 1003), 3);
        assert_eq!(nap(Some(9000), 9000), 100, "the clock may jump");
        assert_eq!(nap(None, 9000), 100, "its end may become known");
        assert_eq!(nap(Some(999), 9000), 0);
    }
}
