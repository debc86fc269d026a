//! The outcome of an operation, as a future.

use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::Redlock;
use super::slot::{Outcome, Slot};
use crate::driver::Refusal;

/// The outcome of an operation of a task. Dropping the reply before it completes cancels the operation.
#[derive(Debug)]
pub(super) struct Reply {
    redlock: Redlock,
    pub(super) slot: Arc<Slot>,
    is_done: bool,
}

impl Reply {
    /// Returns the future of an operation that began in the current poll.
    pub(super) fn new(redlock: Redlock, slot: Arc<Slot>) -> Self {
        Self {
            redlock,
            slot,
            is_done: false,
        }
    }
}

impl Future for Reply {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let shared = self.redlock.shared();
        if shared.is_foreign() {
            return Poll::Ready(Err(Refusal::Forked));
        }
        let polled = self.slot.poll(context.waker());
        shared.relay.wake_tasks(context.waker());
        self.is_done = polled.is_ready();
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
