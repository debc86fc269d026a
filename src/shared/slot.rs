//! Where the outcome of an operation is delivered, and how its caller waits for it.
//!
//! A lock has one slot from its acquisition to its release: first for the operation that takes it, then
//! for the [`Tenure`], which reports its loss, then for the operation that releases it. An extension has a slot of
//! its own. A lock that is kept has none while it is held, unless somebody waits for its loss or its last
//! extension has failed: such locks are many.
//!
//! ```text
//!   Waiting --> Done --> Taken --(renew)--> Waiting ..
//!      |          |
//!      `----------'--> Abandoned       a lock that comes later is given back
//! ```
//!
//! A thread that waits may also be offered the poll ([`Slot::offer`]).
//!
//! The mutex of a slot is not taken under that of the engine. No code of a user runs under it: wakers are
//! cloned, called and dropped outside. No code under it panics.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::{Poll, Waker};

use super::Shared;
use super::monitor::Monitor;
use super::tenure::Tenure;
use crate::driver::{Refusal, clock};
use crate::engine::{Engine, Event};
use crate::quorum::Lock;
use crate::time::Instant;
use crate::trace::Attempts;

/// How an operation has ended.
#[derive(Debug)]
pub(super) enum Outcome {
    Event(Event),
    /// The handle is closed, or this is a forked child.
    Refused(Refusal),
}

impl Outcome {
    pub(super) fn event(self) -> Result<Event, Refusal> {
        match self {
            Self::Event(event) => Ok(event),
            Self::Refused(refusal) => Err(refusal),
        }
    }

    /// Returns the lock, if one is on its way to its caller.
    pub(super) fn lock(self) -> Option<Lock> {
        match self {
            Self::Event(Event::Acquired {
                result: Ok(lock), ..
            }) => Some(lock),
            Self::Event(_) | Self::Refused(_) => None,
        }
    }
}

/// Why a thread has stopped to wait.
#[derive(Debug)]
pub(super) struct Woken {
    /// `None` if the time is over, or the thread was offered the poll.
    pub(super) outcome: Option<Outcome>,
    /// The thread was offered the poll, and has to see if it still may take it.
    pub(super) offered: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Slot {
    state: Monitor<State>,
    pub(super) tenure: Tenure,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// Calls the task that waits.
    task: Option<Waker>,
    /// A thread sleeps here.
    sleeps: bool,
    offered: bool,
    /// The thread that waits is to wake the I/O thread, once it is awake itself.
    unparks: bool,
    /// Of the acquisition.
    attempts: Attempts,
}

#[derive(Debug)]
enum Phase {
    /// The outcome is still to come.
    Waiting,
    Done(Outcome),
    Taken,
    /// The caller has given up.
    Abandoned,
}

// A slot with its counts, and what the allocator needs for it, for each that waits.
const _: () = assert!(size_of::<Slot>() <= 152);

impl Slot {
    /// Makes a slot for an operation that is about to begin.
    pub(super) fn new() -> Self {
        Self {
            state: Monitor::new(State {
                phase: Phase::Waiting,
                task: None,
                sleeps: false,
                offered: false,
                unparks: false,
                attempts: Attempts::new(),
            }),
            tenure: Tenure::new(),
        }
    }

    /// Makes a slot for a lock whose loss was reported.
    pub(super) fn of_lost() -> Arc<Self> {
        let slot = Self::new();
        slot.tenure.lose(&mut Vec::new()); // No task can wait for it yet.
        Arc::new(slot)
    }

    /// Prepares the slot for another operation. The outcome of the last one was taken.
    pub(super) fn renew(&self) {
        let mut state = self.state.lock();
        state.phase = Phase::Waiting;
        state.offered = false;
    }

    // ----- for spans ------------------------------------------------------------------------

    /// Stores how many attempts the acquisition has made whose outcome `engine` has told last.
    #[inline]
    pub(super) fn note_attempts(&self, engine: &Engine) {
        if cfg!(feature = "tracing") {
            self.state.lock().attempts = Attempts::of(engine);
        }
    }

    /// Returns what was stored last.
    #[inline]
    pub(super) fn attempts(&self) -> Attempts {
        match cfg!(feature = "tracing") {
            true => self.state.lock().attempts,
            false => Attempts::new(),
        }
    }

    // ----- the thread that delivers ---------------------------------------------------------

    /// Delivers `outcome`. Wakes the thread that waits for it, or returns the waker of the task, which
    /// the I/O thread calls. If the I/O thread has to be woken too (`unpark`), the thread that waits does
    /// that, and `unpark` is false then: the thread that delivers may have its own outcome, and returns
    /// one system call earlier.
    ///
    /// # Errors
    ///
    /// The outcome, if the caller has given up.
    pub(super) fn deliver(
        &self,
        outcome: Outcome,
        unpark: &mut bool,
    ) -> Result<Option<Waker>, Outcome> {
        let mut state = self.state.lock();
        if !matches!(state.phase, Phase::Waiting) {
            return Err(outcome);
        }
        state.phase = Phase::Done(outcome);
        let (task, sleeps) = (state.task.take(), core::mem::take(&mut state.sleeps));
        if sleeps {
            state.unparks = core::mem::take(unpark);
        }
        drop(state);
        if sleeps {
            self.state.wake_one();
        }
        Ok(task)
    }

    /// Wakes the thread that waits, because it was offered the poll.
    pub(super) fn offer(&self) {
        let mut state = self.state.lock();
        state.offered = true;
        drop(state);
        self.state.wake_one();
    }

    // ----- the caller -----------------------------------------------------------------------

    /// Waits on this thread for the outcome, or until the thread is offered the poll, or until `until` by
    /// the clock of this thread.
    pub(super) fn wait(&self, until: Option<Instant>, shared: &Shared) -> Woken {
        let (woken, unparks) = self.sleep(until);
        if unparks {
            shared.unpark_io_thread();
        }
        woken
    }

    /// Returns also if the I/O thread is to be woken.
    fn sleep(&self, until: Option<Instant>) -> (Woken, bool) {
        let mut state = self.state.lock();
        loop {
            let outcome = state.take();
            let left = until.map(|until| until.saturating_since(clock::now()));
            if outcome.is_some() || state.offered || left.is_some_and(|left| left.is_zero()) {
                state.sleeps = false;
                let offered = core::mem::take(&mut state.offered);
                let unparks = core::mem::take(&mut state.unparks);
                return (Woken { outcome, offered }, unparks);
            }
            state.sleeps = true;
            state = self.state.wait(state, left);
        }
    }

    /// Waits for the outcome alone, and ignores offers.
    pub(super) fn wait_for_outcome(
        &self,
        until: Option<Instant>,
        shared: &Shared,
    ) -> Option<Outcome> {
        loop {
            let woken = self.wait(until, shared);
            if woken.outcome.is_some() || !woken.offered {
                return woken.outcome;
            }
        }
    }

    /// Returns the outcome, or keeps `waker`, which is called when there is one. The latest waker counts.
    pub(super) fn poll(&self, waker: &Waker) -> Poll<Outcome> {
        let mut state = self.state.lock();
        if let Some(outcome) = state.take() {
            return Poll::Ready(outcome);
        }
        let known = state.task.as_ref();
        if known.is_some_and(|known| known.will_wake(waker)) {
            return Poll::Pending;
        }
        drop(state);
        let waker = waker.clone();
        let mut state = self.state.lock();
        if let Some(outcome) = state.take() {
            return Poll::Ready(outcome);
        }
        let before = state.task.replace(waker);
        drop(state);
        drop(before);
        Poll::Pending
    }

    /// Waits for the outcome, which another thread is about to deliver, to give up the operation. If it
    /// does not come by `until`, that thread gives back a lock.
    pub(super) fn await_delivery(&self, until: Instant, shared: &Shared) -> Option<Outcome> {
        let before = self.state.lock().task.take();
        drop(before);
        let outcome = self.wait_for_outcome(Some(until), shared);
        outcome.or_else(|| self.abandon())
    }

    /// Gives up the operation. Returns the outcome if it is there already.
    pub(super) fn abandon(&self) -> Option<Outcome> {
        let mut state = self.state.lock();
        let outcome = state.take();
        state.phase = Phase::Abandoned;
        let before = state.task.take();
        drop(state);
        drop(before);
        outcome
    }
}

impl State {
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
