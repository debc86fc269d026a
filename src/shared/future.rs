//! Calls as futures, for any executor.
//!
//! The latest waker counts. Dropping a future that is not done calls off what it began.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::reply::Reply;
use super::{LockGuard, Redlock};
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

    fn begin(&self, resource: &[u8], options: &LockOptions) -> Result<Stage, LockError> {
        let since = clock::now();
        let reply = self.redlock.begin_lock(resource, options)?;
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
            stage = match this.begin(&resource, &options) {
                Ok(stage) => stage,
                Err(error) => return Poll::Ready(Err(error)),
            };
        }
        let Stage::Waiting { mut reply, since } = stage else {
            panic!("polled after it was done");
        };
        match Pin::new(&mut reply).poll(context) {
            Poll::Ready(outcome) => {
                let slot = Arc::clone(reply.slot());
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
