//! Calls as futures, for any executor.
//!
//! The latest waker counts. Dropping a future that is not done calls off what it began.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::Redlock;
use super::guard::LockGuard;
use super::slot::{Outcome, Slot};
use crate::config::LockOptions;
use crate::driver::clock;
use crate::error::LockError;
use crate::time::Instant;

/// A lock on its way: completes with a [`LockGuard`], or why there is none.
///
/// From [`Redlock::lock_async`] and its kin. Nothing happens before the first poll, where the time
/// is taken and the nodes are asked. Dropping it gives back whatever was won, whether it is known
/// by then or not, and waits for nothing; in a forked child it does nothing.
///
/// A future is a handle as well: the connections live as long as it does.
#[must_use = "a future does nothing unless it is polled"]
pub struct Acquiring {
    redlock: Redlock,
    stage: Stage,
}

enum Stage {
    /// Not polled yet.
    Asleep {
        resource: Vec<u8>,
        options: LockOptions,
    },
    Waiting {
        reply: Reply,
        since: Instant,
    },
    Done,
}

impl Acquiring {
    pub(super) fn new(redlock: Redlock, resource: Vec<u8>, options: LockOptions) -> Self {
        let stage = Stage::Asleep { resource, options };
        Self { redlock, stage }
    }

    fn begin(&self, resource: Vec<u8>, options: &LockOptions) -> Result<Stage, LockError> {
        let since = clock::now();
        let slot = Arc::new(Slot::new());
        self.redlock
            .begin_lock(&slot, resource, options, since, false)?;
        let reply = Reply::new(self.redlock.clone(), slot);
        Ok(Stage::Waiting { reply, since })
    }
}

/// # Panics
///
/// When polled after it was done.
impl Future for Acquiring {
    type Output = Result<LockGuard, LockError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut stage = core::mem::replace(&mut this.stage, Stage::Done);
        if let Stage::Asleep { resource, options } = stage {
            stage = match this.begin(resource, &options) {
                Ok(stage) => stage,
                Err(error) => return Poll::Ready(Err(error)),
            };
        }
        let Stage::Waiting { mut reply, since } = stage else {
            panic!("polled after it was done");
        };
        match Pin::new(&mut reply).poll(context) {
            Poll::Ready(outcome) => {
                let slot = Arc::clone(&reply.slot);
                Poll::Ready(this.redlock.finish_lock(slot, Some(outcome), since))
            }
            Poll::Pending => {
                this.stage = Stage::Waiting { reply, since };
                Poll::Pending
            }
        }
    }
}

impl fmt::Debug for Acquiring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::Asleep { .. } => "not polled yet",
            Stage::Waiting { .. } => "on its way",
            Stage::Done => "done",
        };
        write!(f, "Acquiring({stage})")
    }
}

/// The outcome of a call that was begun. Dropped before it is there, the call is abandoned.
#[derive(Debug)]
pub(super) struct Reply {
    redlock: Redlock,
    slot: Arc<Slot>,
    is_done: bool,
    /// Whoever began the call polls it at once, and has looked whose process this is.
    is_new: bool,
}

impl Reply {
    /// For a call that was begun in this very poll.
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
        if !core::mem::take(&mut self.is_new) && self.redlock.hub().is_foreign() {
            self.is_done = true;
            return Poll::Ready(Outcome::Forked);
        }
        self.redlock.hub().relay.run(context.waker());
        let polled = self.slot.poll(context.waker());
        self.is_done = polled.is_ready();
        polled
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.is_done && !self.redlock.hub().is_foreign() {
            self.redlock.hub().abandon(&self.slot);
        }
    }
}
