//! The slot of a call: where its outcome is put, and who is told.
//!
//! One slot serves a lock from its acquisition to its release: first the call that takes it, then
//! the [`Watch`] over its loss, then the call that releases it. An extension has one of its own.
//!
//! ```text
//!   Posted --> Open --> Done --> Taken --(renew)--> Posted ..
//!      |         |        |
//!      `---------+--------'--> Abandoned       what comes is given back
//! ```
//!
//! Under the mutex of a slot runs no code of a user: wakers are cloned, called and dropped outside.
//! Nothing there panics.

use alloc::string::String;
use alloc::vec::Vec;
use core::task::{Poll, Waker};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::lost::Watch;
use crate::driver::clock;
use crate::engine::{Extension, NodeStatus, RoundId};
use crate::error::{ExtendError, LockError, ReinitError, Released, TrustError, UnlockError};
use crate::quorum::{Lock, NodeSet};
use crate::time::Instant;

/// How a call ended.
#[derive(Debug)]
pub(super) enum Outcome {
    Acquired(Result<Grant, LockError>),
    Extended(Result<Extension, ExtendError>),
    Released(Result<Released, UnlockError>),
    Looked(Vec<NodeStatus>),
    /// Whether the node was kept from voting.
    Trusted(Result<bool, TrustError>),
    /// Which servers are trusted.
    TrustedAll(Vec<String>),
    Reinitialised(Result<(), ReinitError>),
    /// A driving thread has panicked.
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
}

#[derive(Debug)]
enum Phase {
    /// Asked for, or about to be.
    Posted,
    /// The engine has a round for it.
    Open(RoundId),
    Done(Outcome),
    Taken,
    /// Nobody waits for it any more.
    Abandoned(Option<RoundId>),
}

/// Who waits for a call.
#[derive(Debug)]
enum Waiter {
    /// Nobody yet, or the thread that drives.
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
                phase: Phase::Posted,
                waiter: Waiter::Nobody,
            }),
            done: Condvar::new(),
            watch: Watch::new(),
        }
    }

    /// The same slot is used for another call. Its last one has ended, and was taken.
    pub(super) fn renew(&self) {
        let mut call = self.lock();
        debug_assert!(!matches!(call.phase, Phase::Open(_)), "one call at a time");
        call.phase = Phase::Posted;
    }

    // ----- the driving side -----------------------------------------------------------------

    /// Whether somebody still waits for what was asked.
    pub(super) fn is_wanted(&self) -> bool {
        !matches!(self.lock().phase, Phase::Abandoned(_))
    }

    /// The engine has opened `round` for it.
    pub(super) fn open(&self, round: RoundId) {
        let mut call = self.lock();
        call.phase = match call.phase {
            Phase::Abandoned(_) => Phase::Abandoned(Some(round)),
            Phase::Posted | Phase::Open(_) | Phase::Done(_) | Phase::Taken => Phase::Open(round),
        };
    }

    /// Delivers `outcome`, if it is the first, and somebody still waits for it. A thread that waits is woken here, a task by whoever called.
    pub(super) fn settle(&self, outcome: Outcome) -> Settled {
        let mut call = self.lock();
        if !call.is_pending() {
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

    /// The round of a call that nobody waits for, to be called off.
    pub(super) fn abandoned_round(&self) -> Option<RoundId> {
        match self.lock().phase {
            Phase::Abandoned(round) => round,
            Phase::Posted | Phase::Open(_) | Phase::Done(_) | Phase::Taken => None,
        }
    }

    // ----- the waiting side -----------------------------------------------------------------

    /// Whether the outcome is still to come.
    pub(super) fn is_pending(&self) -> bool {
        self.lock().is_pending()
    }

    /// Waits on this thread for the outcome; with `None` in vain until `until`, by the clock of
    /// this thread. The call is abandoned then.
    pub(super) fn wait(&self, until: Option<Instant>) -> Option<Outcome> {
        let mut call = self.lock();
        loop {
            if let Some(outcome) = call.take() {
                return Some(outcome);
            }
            call.waiter = Waiter::Thread;
            let Some(until) = until else {
                call = self.done.wait(call).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = until.saturating_since(clock::now());
            if left.is_zero() {
                call.waiter = Waiter::Nobody;
                call.abandon();
                return None;
            }
            call = match self.done.wait_timeout(call, left) {
                Ok((call, _)) => call,
                Err(poisoned) => poisoned.into_inner().0,
            };
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

    /// Nobody waits any more. An outcome that is there already comes out.
    pub(super) fn abandon(&self) -> Option<Outcome> {
        let mut call = self.lock();
        let outcome = call.take();
        call.abandon();
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
    fn is_pending(&self) -> bool {
        matches!(self.phase, Phase::Posted | Phase::Open(_))
    }

    fn take(&mut self) -> Option<Outcome> {
        if !matches!(self.phase, Phase::Done(_)) {
            return None;
        }
        match core::mem::replace(&mut self.phase, Phase::Taken) {
            Phase::Done(outcome) => Some(outcome),
            Phase::Posted | Phase::Open(_) | Phase::Taken | Phase::Abandoned(_) => None,
        }
    }

    fn abandon(&mut self) {
        let round = match self.phase {
            Phase::Open(round) => Some(round),
            Phase::Abandoned(round) => round,
            Phase::Posted | Phase::Done(_) | Phase::Taken => None,
        };
        self.phase = Phase::Abandoned(round);
    }
}
