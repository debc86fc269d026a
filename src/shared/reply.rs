//! The outcome of an operation, as a future.

use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::Redlock;
use super::slot::{Outcome, Slot};

/// The outcome of an operation of a task. Dropping the reply before it completes cancels the operation.
#[derive(Debug)]
pub(super) struct Reply {
    redlock: Redlock,
    pub(super) slot: Arc<Slot>,
    is_done: bool,
    /// `true` until the first poll. The first poll follows immediately, so it need not check for a forked child again.
    is_new: bool,
}

impl Reply {
    /// Returns the future of an operation that began in the current poll.
    pub(super) fn new(redlock: Redlock, slot: Arc<Slot>) -> Self {
        Self {
            redlock,
            slot,
            is_done: false,
            is_new: true,
        }
    }
}

impl Future for Reply {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let shared = self.redlock.shared();
        let woken = match self.is_new {
            true => None,
            false => self.slot.poll_again(|| shared.is_foreign()),
        };
        let polled = woken.map_or_else(|| self.slot.poll(context.waker()), Poll::Ready);
        self.is_new = false;
        self.is_done = polled.is_ready();
        let shared = self.redlock.shared();
        let is_foreign = || shared.is_foreign();
        shared.relay.wake_tasks(context.waker(), is_foreign);
        polled
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.is_done && !self.redlock.shared().is_foreign() {
            self.redlock.shared().cancel(&self.slot);
        }
    }
}
