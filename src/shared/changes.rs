//! A [`Watch`] returns the changes of a resource, one after another.
//!
//! The engine reports one change and ends the operation. To get the next change, the caller begins another operation
//! with the reported state. A watch without an open operation sends nothing.

use alloc::vec::Vec;
use core::fmt;
use core::future::poll_fn;
use core::pin::Pin;
use core::sync::atomic::Ordering;
use core::task::{Context, Poll};
use core::time::Duration;

use super::Redlock;
use super::reply::Reply;
use super::signal::wait;
use crate::calls;
use crate::engine::inspection::Inspection;
use crate::engine::operators::OperatorError;
use crate::limits::WATCHES_MAX;

/// A watch of a resource, which returns the current holder and then each change. Returned by [`Redlock::watch`].
///
/// The first call of [`next`](Self::next) or [`changed`](Self::changed) returns the current state. Each later call
/// returns the next different state: another holder, no holder, a lock that has expired or was extended, a node with
/// other content, or a node that stops or resumes answering. Changes that follow each other within about 10 ms, or
/// between two calls, are reported as one change. The watch may miss a short-lived state. Each reported state is newer
/// than the previous one.
///
/// A waiting watch sends nothing while nothing changes, because the nodes report changes (`CLIENT TRACKING`). After
/// each change the watch asks every node once more. If a node sends no notifications
/// (see [`NodeStatus::waking`](crate::NodeStatus)), the watch asks all nodes at random intervals, like a waiting caller
/// ([`Retry::new`](crate::Retry::new)). If the caller stops calling `next`, the watch sends nothing after the next
/// change.
///
/// A table in [`manual::outcomes`](crate::manual) shows which changes are reported.
///
/// A watch counts as a handle: it keeps the connections open. Dropping a watch ends it immediately.
#[must_use = "it tells what is asked of it"]
pub struct Watch {
    redlock: Redlock,
    resource: Vec<u8>,
    known: Option<Inspection>,
    /// The open operation that waits for the next change, if there is one.
    reply: Option<Reply>,
}

impl Watch {
    pub(super) fn new(redlock: Redlock, resource: &[u8]) -> Result<Self, OperatorError> {
        let shared = redlock.shared();
        shared.check_process()?;
        let more = |watches: usize| (watches < WATCHES_MAX).then_some(watches + 1);
        let watches = &shared.watches;
        if watches
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more)
            .is_err()
        {
            return Err(OperatorError::Saturated);
        }
        let mut watch = Self {
            redlock,
            resource: resource.to_vec(),
            known: None,
            reply: None,
        };
        watch.reply = Some(watch.ask()?);
        Ok(watch)
    }

    /// Blocks this thread. The first call waits for the current state, and each later call waits for the next change.
    /// Returns `None` after `timeout`, or immediately if the watch [is closed](Self::is_closed).
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # let redlock = shearline::Redlock::connect(["redis://10.0.0.1"])?;
    /// let mut watch = redlock.watch("invoice:42")?;
    /// while !watch.is_closed() {
    ///     match watch.next(Duration::from_secs(60)) {
    ///         Some(state) => println!("{state}"),
    ///         None => println!("nothing has changed for a minute"),
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next(&mut self, timeout: Duration) -> Option<Inspection> {
        wait(timeout, || None, |context| self.poll(context)).flatten()
    }

    /// Returns `true` if the watch will report no more changes, because the process is a forked child or a panic has
    /// closed the handle. Sends nothing.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        let shared = self.redlock.shared();
        shared.is_foreign() || shared.enter().is_err()
    }

    /// Like [`next`](Self::next) without a timeout, but returns a future for any executor. Returns `None` if the
    /// watch [is closed](Self::is_closed). If the future is dropped before it completes, no change is lost, because the
    /// next call continues the same wait.
    pub async fn changed(&mut self) -> Option<Inspection> {
        poll_fn(|context| self.poll(context)).await
    }

    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Inspection>> {
        if self.redlock.shared().is_foreign() {
            return Poll::Ready(None); // The open operation belongs to the parent process.
        }
        if self.reply.is_none() {
            self.reply = self.ask().ok();
        }
        let Some(reply) = &mut self.reply else {
            return Poll::Ready(None);
        };
        let Poll::Ready(outcome) = Pin::new(reply).poll(context) else {
            return Poll::Pending;
        };
        self.reply = None;
        let told = outcome
            .ok()
            .map(Ok)
            .and_then(|told| calls::inspected(told).ok());
        self.known = told.clone().or_else(|| self.known.take());
        Poll::Ready(told)
    }

    fn ask(&self) -> Result<Reply, OperatorError> {
        let (resource, known) = (&self.resource[..], self.known.as_ref());
        self.redlock
            .begin(|engine, now| engine.watch(now, resource, known))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.reply = None; // Frees the place of the operation in the engine.
        self.redlock.shared().watches.fetch_sub(1, Ordering::AcqRel);
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("known", &self.known)
            .finish_non_exhaustive()
    }
}
