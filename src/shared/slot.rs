//! The place where the outcome of an operation is delivered and where its caller waits for it.
//!
//! A lock has one slot from its acquisition to its release: first for the operation that takes it, then for the
//! [`Tenure`], which reports its loss, then for the operation that releases it. An extension has a slot of its own. A
//! kept lock has no slot while it is held, because there may be many such locks. It gets one if a caller waits for its
//! loss or its last extension has failed.
//!
//! An outcome is delivered under the mutex of the engine, so at any time either the operation is open or its outcome is
//! here. After that mutex is unlocked, the waiting thread is woken, or the waker is called.
//!
//! A waiting thread may also be offered the poll ([`Slot::offer`]).
//!
//! No user code runs under the mutex of a slot, and no code under it panics or locks another mutex.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::{Poll, Waker};

use super::monitor::Monitor;
use super::tenure::Tenure;
use crate::clock;
use crate::driver::Refusal;
use crate::engine::{Event, RoundId};
use crate::time::Instant;
use crate::trace::Attempts;

/// The event that ends an operation, or the reason why none comes: the handle is closed, or this is a forked child.
pub(super) type Outcome = Result<Event, Refusal>;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Slot {
    state: Monitor<State>,
    pub(super) tenure: Tenure,
}

#[derive(Debug, Default)]
struct State {
    stage: Stage,
    /// The waker of the waiting task.
    task: Option<Waker>,
    /// A thread sleeps here.
    sleeps: bool,
    offered: bool,
    /// The number of attempts of the acquisition.
    attempts: Attempts,
}

/// How far the operation has come.
#[derive(Debug, Default)]
enum Stage {
    /// There is no operation, or it has not begun, or its outcome was taken.
    #[default]
    None,
    Open(RoundId),
    Decided(Outcome),
}

impl Stage {
    fn take_outcome(&mut self) -> Option<Outcome> {
        match self {
            Self::None | Self::Open(_) => None,
            Self::Decided(_) => match core::mem::take(self) {
                Self::Decided(outcome) => Some(outcome),
                Self::None | Self::Open(_) => None,
            },
        }
    }
}

// Each waiting caller needs a slot with its counters, and the overhead of the allocator.
const _: () = assert!(size_of::<Slot>() <= 152);

impl Slot {
    /// Makes a slot for a lock whose loss was reported.
    pub(super) fn of_lost() -> Arc<Self> {
        let slot = Arc::<Self>::default();
        slot.tenure.lose(&mut Vec::new()); // No caller can wait for it yet.
        slot
    }

    // ----- for spans --------------------------------------------------------------------------

    /// Returns the number of attempts of the acquisition whose outcome was delivered.
    #[inline]
    pub(super) fn attempts(&self) -> Attempts {
        match cfg!(feature = "tracing") {
            true => self.state.lock().attempts,
            false => Attempts::default(),
        }
    }

    // ----- under the mutex of the engine ------------------------------------------------------

    /// Records that the operation of `round` has begun. Its outcome comes here.
    pub(super) fn open(&self, round: RoundId) {
        self.state.lock().stage = Stage::Open(round);
    }

    /// Returns the open operation whose outcome comes here.
    pub(super) fn round(&self) -> Option<RoundId> {
        match self.state.lock().stage {
            Stage::Open(round) => Some(round),
            Stage::None | Stage::Decided(_) => None,
        }
    }

    /// Delivers `outcome`, which took this number of `attempts`. Returns `true` if a thread sleeps until it is
    /// [woken](Self::wake). Adds the waker of a task to `tasks`.
    pub(super) fn deliver(
        &self,
        outcome: Outcome,
        attempts: Attempts,
        tasks: &mut Vec<Waker>,
    ) -> bool {
        let mut state = self.state.lock();
        (state.stage, state.attempts) = (Stage::Decided(outcome), attempts);
        tasks.extend(state.task.take());
        core::mem::take(&mut state.sleeps)
    }

    /// Offers the poll to the waiting thread, which then sleeps on the sockets for all threads, or calls it to look
    /// again. The caller must then [wake](Self::wake) it.
    pub(super) fn offer(&self) {
        self.state.lock().offered = true;
    }

    // ----- any thread -------------------------------------------------------------------------

    /// Wakes the thread that waits here.
    pub(super) fn wake(&self) {
        self.state.wake_one();
    }

    // ----- the caller -------------------------------------------------------------------------

    /// Takes the outcome, if it is here.
    pub(super) fn take(&self) -> Option<Outcome> {
        self.state.lock().stage.take_outcome()
    }

    /// Waits on this thread for the outcome, for an offer of the poll, or until `until` by the clock of this thread.
    pub(super) fn wait(&self, until: Option<Instant>) -> Option<Outcome> {
        let mut state = self.state.lock();
        loop {
            if let Some(outcome) = state.stage.take_outcome() {
                state.offered = false;
                return Some(outcome);
            }
            let is_offered = core::mem::take(&mut state.offered);
            let left = |until: Instant| until.saturating_since(clock::now());
            let left = until.map(left);
            if is_offered || left.is_some_and(|left| left.is_zero()) {
                state.sleeps = false;
                return None;
            }
            state.sleeps = true;
            state = self.state.wait(state, left);
        }
    }

    /// Returns the outcome, or keeps `waker` and calls it when there is one. The latest waker counts.
    pub(super) fn poll(&self, waker: &Waker) -> Poll<Outcome> {
        let waker = waker.clone(); // User code, which also drops it after the mutex is unlocked.
        let mut state = self.state.lock();
        if let Some(outcome) = state.stage.take_outcome() {
            return Poll::Ready(outcome);
        }
        let before = state.task.replace(waker);
        drop(state);
        drop(before);
        Poll::Pending
    }

    /// Takes the outcome, if it is here, and the waker of the task that gives up the operation.
    pub(super) fn abandon(&self) -> (Option<Outcome>, Option<Waker>) {
        let mut state = self.state.lock();
        (state.stage.take_outcome(), state.task.take())
    }
}
