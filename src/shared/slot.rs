//! Where the outcome of a call is put, and how its caller waits for it.
//!
//! A slot goes with a lock from its acquisition to its release: first the call that takes it, then
//! the [`Watch`] over its loss, then the call that releases it. An extension has one of its own.
//!
//! ```text
//!   Waiting --> Done --> Taken --(renew)--> Waiting ..
//!      |          |
//!      `----------'--> Abandoned       what comes is given back
//! ```
//!
//! A thread that waits may also be offered the poll ([`Slot::offer`]).
//!
//! The mutex of a slot is not taken under that of the engine, and under it runs no code of a user:
//! wakers are cloned, called and dropped outside. Nothing there panics.

use core::task::{Poll, Waker};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::watch::Watch;
use crate::driver::clock;
use crate::engine::Event;
use crate::error::LockError;
use crate::quorum::{Lock, NodeSet};
use crate::time::Instant;

/// How a call ended.
#[derive(Debug)]
pub(super) enum Outcome {
    Acquired(Result<Grant, LockError>),
    /// Of every operation that gives no lock.
    Event(Event),
    /// A thread has panicked with the engine.
    Closed,
    /// This is a forked child, and the call is the parent's.
    Forked,
}

/// A lock on its way to its taker, and the nodes that had granted it.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) lock: Lock,
    pub(super) granted: NodeSet,
}

/// Why a thread waits no longer.
#[derive(Debug)]
pub(super) struct Woken {
    /// `None` if it has waited in vain, or was offered the poll.
    pub(super) outcome: Option<Outcome>,
    /// It may have been offered the poll, and has to look.
    pub(super) offered: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Slot {
    call: Mutex<Call>,
    done: Condvar,
    pub(super) watch: Watch,
}

#[derive(Debug)]
struct Call {
    phase: Phase,
    waiter: Waiter,
    offered: bool,
}

#[derive(Debug)]
enum Phase {
    /// The outcome is still to come.
    Waiting,
    Done(Outcome),
    Taken,
    /// Nobody waits for it any more.
    Abandoned,
}

/// Who is to be woken.
#[derive(Debug)]
enum Waiter {
    /// Nobody: the thread does not sleep, or sleeps in the poll.
    Nobody,
    Thread,
    Task(Waker),
}

/// What became of an outcome.
#[derive(Debug)]
#[must_use]
pub(super) enum Settled {
    /// It was delivered; this task is to be woken.
    Told(Option<Waker>),
    /// Nobody wants it.
    Unwanted(Outcome),
}

impl Slot {
    /// A slot for a call that is about to be asked for.
    pub(super) fn new() -> Self {
        Self {
            call: Mutex::new(Call {
                phase: Phase::Waiting,
                waiter: Waiter::Nobody,
                offered: false,
            }),
            done: Condvar::new(),
            watch: Watch::new(),
        }
    }

    /// The same slot is used for another call. Its last one has ended, and was taken.
    pub(super) fn renew(&self) {
        let mut call = self.lock();
        call.phase = Phase::Waiting;
        call.offered = false;
    }

    // ----- those who tell -------------------------------------------------------------------

    /// Delivers `outcome`, if somebody still waits for it. A thread that waits is woken here, a task by
    /// the I/O thread.
    pub(super) fn settle(&self, outcome: Outcome) -> Settled {
        let mut call = self.lock();
        if !matches!(call.phase, Phase::Waiting) {
            return Settled::Unwanted(outcome);
        }
        call.phase = Phase::Done(outcome);
        match core::mem::replace(&mut call.waiter, Waiter::Nobody) {
            Waiter::Nobody => Settled::Told(None),
            Waiter::Task(waker) => Settled::Told(Some(waker)),
            Waiter::Thread => {
                drop(call);
                self.done.notify_one();
                Settled::Told(None)
            }
        }
    }

    /// Wakes the thread that waits, because it was offered the poll.
    pub(super) fn offer(&self) {
        let mut call = self.lock();
        call.offered = true;
        drop(call);
        self.done.notify_one();
    }

    // ----- the waiting side -----------------------------------------------------------------

    /// Waits on this thread for the outcome, or until it is offered the poll; with `until` no longer
    /// than that, by the clock of this thread.
    pub(super) fn wait(&self, until: Option<Instant>) -> Woken {
        let mut call = self.lock();
        loop {
            let outcome = call.take();
            let left = until.map(|until| until.saturating_since(clock::now()));
            if outcome.is_some() || call.offered || left.is_some_and(|left| left.is_zero()) {
                call.waiter = Waiter::Nobody;
                let offered = core::mem::take(&mut call.offered);
                return Woken { outcome, offered };
            }
            call.waiter = Waiter::Thread;
            call = match left {
                None => self.done.wait(call).unwrap_or_else(PoisonError::into_inner),
                Some(left) => match self.done.wait_timeout(call, left) {
                    Ok((call, _)) => call,
                    Err(poisoned) => poisoned.into_inner().0,
                },
            };
        }
    }

    /// The same, whatever is offered.
    pub(super) fn wait_for_outcome(&self, until: Option<Instant>) -> Option<Outcome> {
        loop {
            let woken = self.wait(until);
            if woken.outcome.is_some() || !woken.offered {
                return woken.outcome;
            }
        }
    }

    /// The outcome, or `waker` is called when there is one. The latest waker counts.
    pub(super) fn poll(&self, waker: &Waker) -> Poll<Outcome> {
        let mut call = self.lock();
        if let Some(outcome) = call.take() {
            return Poll::Ready(outcome);
        }
        if matches!(&call.waiter, Waiter::Task(known) if known.will_wake(waker)) {
            return Poll::Pending;
        }
        drop(call);
        let waker = Waiter::Task(waker.clone());
        let mut call = self.lock();
        if let Some(outcome) = call.take() {
            return Poll::Ready(outcome);
        }
        let before = core::mem::replace(&mut call.waiter, waker);
        drop(call);
        drop(before);
        Poll::Pending
    }

    /// The outcome, which another thread is about to tell, for somebody who does not want it. If that
    /// thread has not come by `until`, it gives back what was won.
    pub(super) fn take_told(&self, until: Instant) -> Option<Outcome> {
        let before = core::mem::replace(&mut self.lock().waiter, Waiter::Nobody);
        drop(before);
        let outcome = self.wait_for_outcome(Some(until));
        outcome.or_else(|| self.abandon())
    }

    /// Nobody waits any more. An outcome that is there already comes out.
    pub(super) fn abandon(&self) -> Option<Outcome> {
        let mut call = self.lock();
        let outcome = call.take();
        call.phase = Phase::Abandoned;
        let before = core::mem::replace(&mut call.waiter, Waiter::Nobody);
        drop(call);
        drop(before);
        outcome
    }

    fn lock(&self) -> MutexGuard<'_, Call> {
        self.call.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Call {
    fn take(&mut self) -> Option<Outcome> {
        if !matches!(self.phase, Phase::Done(_)) {
            return None;
        }
        match core::mem::replace(&mut self.phase, Phase::Taken) {
            Phase::Done(outcome) => Some(outcome),
            Phase::Waiting | Phase::Taken | Phase::Abandoned => None,
        }
    }
}
