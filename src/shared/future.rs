//! A future that takes a lock, for any executor.
//!
//! A new waker replaces the earlier waker. Dropping a future before it completes cancels its operation.

use alloc::sync::Arc;
use core::fmt;
use core::future::Future;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use super::held::{Exclusive, Holds};
use super::notes::{Asked, Wanted};
use super::reply::Reply;
use super::{Guard, Redlock};
use crate::clock;
use crate::config::{LockOptions, PackedOptions};
use crate::error::LockError;
use crate::time::Instant;
use crate::trace::Operation;

/// A future that completes with a [`LockGuard`](super::LockGuard), a [`SharedGuard`](super::SharedGuard) or
/// a [`PermitGuard`](super::PermitGuard), or an error.
///
/// The asynchronous methods that take locks, such as [`Redlock::lock_async`] and [`Redlock::lock_all_async`], return
/// this future. The operation and its timeouts begin with the first poll. Dropping the future releases every key that
/// the nodes have granted or will grant, without waiting for answers. In a forked child the drop does nothing.
///
/// Poll a woken future soon, or drop it. If a future has got the lock but is not polled, no other client gets the lock
/// until the ttl has passed. A later poll returns [`LockError::TooSlow`]. The handle extends
/// a [kept](LockOptions::keep) lock even if its future is not polled.
///
/// A future counts as a handle: it keeps the connections open.
#[must_use = "a future does nothing unless it is polled"]
pub struct Acquiring<H: Holds = Exclusive> {
    redlock: Redlock,
    stage: Stage,
    holds: PhantomData<fn() -> H>,
}

enum Stage {
    /// The future was not polled yet.
    New(Wanted, PackedOptions),
    /// The open operation, with its reply, the time at which it began, and its span. The fields drop in order, so the
    /// reply cancels the operation before the span ends.
    Waiting(Reply, Instant, Operation),
    Done,
}

impl<H: Holds> Acquiring<H> {
    pub(super) fn new(redlock: Redlock, wanted: Wanted, options: LockOptions) -> Self {
        let stage = Stage::New(wanted, options.packed());
        Self {
            redlock,
            stage,
            holds: PhantomData,
        }
    }

    fn take_stage(&mut self) -> Stage {
        core::mem::replace(&mut self.stage, Stage::Done)
    }

    fn begin(&self, wanted: Wanted, options: PackedOptions) -> Result<Stage, LockError> {
        let tracer = &self.redlock.shared().tracer;
        // A span shows only the ttl, not the other options.
        let shown = LockOptions::new(options.ttl());
        let operation = wanted.request(&shown, |request| tracer.acquire(request));
        let (since, asked) = (clock::now(), Asked::Acquire(wanted, options));
        match operation.enter(|| self.redlock.ask(Arc::default(), asked)) {
            Ok(reply) => Ok(Stage::Waiting(reply, since, operation)),
            Err(refusal) => Err(operation.fail(refusal.into())),
        }
    }
}

/// # Panics
///
/// Panics if the future is polled after it has completed.
impl<H: Holds> Future for Acquiring<H> {
    type Output = Result<Guard<H>, LockError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Stage::New(..) = this.stage
            && let Stage::New(wanted, options) = this.take_stage()
        {
            this.stage = this.begin(wanted, options)?;
        }
        let Stage::Waiting(reply, _, operation) = &mut this.stage else {
            panic!("polled after it has completed");
        };
        let outcome = ready!(operation.enter(|| Pin::new(reply).poll(context)));
        let Stage::Waiting(reply, since, operation) = this.take_stage() else {
            unreachable!("it has not changed");
        };
        let slot = Arc::clone(&reply.slot);
        Poll::Ready(operation.run(|operation| {
            this.redlock
                .finish_lock(operation, slot, Ok(outcome?), since)
        }))
    }
}

impl<H: Holds> fmt::Debug for Acquiring<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::New(..) => "not polled yet",
            Stage::Waiting(..) => "on its way",
            Stage::Done => "done",
        };
        write!(f, "Acquiring({stage})")
    }
}
