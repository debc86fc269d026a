//! The place where the outcome of an operation is delivered and where its caller waits for it.
//!
//! A lock has one slot from its acquisition to its release. The slot first serves the operation that takes the lock,
//! then the [`Tenure`], which reports a loss, and then the operation that releases the lock. Each extension has a
//! separate slot. A kept lock has no slot while it is held, because there may be many kept locks. A kept lock gets a
//! slot if a caller waits for its loss or its last extension has failed.
//!
//! An outcome is delivered under the mutex of the engine, so at any time either the operation is open or its outcome is
//! in the slot. The waiting thread is woken, or the waker is called, after the mutex of the engine is unlocked.
//!
//! Another thread may also offer the poller to the waiting thread ([`Slot::offer`]).
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

/// The event that ends an operation, or the reason why no event comes: the handle is closed, or the process is a forked
/// child.
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
    /// `true` while a thread sleeps in this slot.
    sleeps: bool,
    offered: bool,
    /// The number of attempts of the acquisition.
    attempts: Attempts,
}

/// The stage of the operation.
#[derive(Debug, Default)]
enum Stage {
    /// No operation has begun, or its outcome was taken.
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

// A slot must stay small, because each waiting caller has one.
const _: () = assert!(size_of::<Slot>() <= 152);

impl Slot {
    /// Returns a slot for a lock whose loss was reported.
    pub(super) fn of_lost() -> Arc<Self> {
        let slot = Arc::<Self>::default();
        slot.tenure.lose(&mut Vec::new()); // No caller can wait for it yet.
        slot
    }

    // ----- spans ------------------------------------------------------------------------------

    /// Returns the number of attempts of the acquisition whose outcome was delivered.
    #[inline]
    pub(super) fn attempts(&self) -> Attempts {
        match cfg!(feature = "tracing") {
            true => self.state.lock().attempts,
            false => Attempts::default(),
        }
    }

    // ----- calls that hold the engine's mutex -------------------------------------------------

    /// Records that the operation of `round` has begun. Its outcome will be delivered to this slot.
    pub(super) fn open(&self, round: RoundId) {
        self.state.lock().stage = Stage::Open(round);
    }

    /// Returns the open operation of this slot.
    pub(super) fn round(&self) -> Option<RoundId> {
        match self.state.lock().stage {
            Stage::Open(round) => Some(round),
            Stage::None | Stage::Decided(_) => None,
        }
    }

    /// Delivers `outcome`, which took this number of `attempts`. Adds the waker of a waiting task to `tasks`. Returns
    /// `true` if a waiting thread must be [woken](Self::wake).
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

    /// Offers the poller to the waiting thread, or makes that thread check its clock. The caller must
    /// then [wake](Self::wake) the thread.
    pub(super) fn offer(&self) {
        self.state.lock().offered = true;
    }

    // ----- calls from any thread --------------------------------------------------------------

    /// Wakes the thread that waits in this slot.
    pub(super) fn wake(&self) {
        self.state.wake_one();
    }

    // ----- calls by the waiting thread --------------------------------------------------------

    /// Takes the outcome, if it was delivered.
    pub(super) fn take(&self) -> Option<Outcome> {
        self.state.lock().stage.take_outcome()
    }

    /// Blocks this thread until the outcome comes, the poller is offered, or the clock of this thread shows `until`.
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

    /// Returns the outcome. If there is no outcome yet, stores `waker`, which replaces an earlier waker and is called
    /// when the outcome is delivered.
    pub(super) fn poll(&self, waker: &Waker) -> Poll<Outcome> {
        let waker = waker.clone(); // Cloning and dropping a waker is user code, so both run unlocked.
        let mut state = self.state.lock();
        if let Some(outcome) = state.stage.take_outcome() {
            return Poll::Ready(outcome);
        }
        let before = state.task.replace(waker);
        drop(state);
        drop(before);
        Poll::Pending
    }

    /// Takes the outcome, if it was delivered, and the waker of the task that cancels the operation.
    pub(super) fn abandon(&self) -> (Option<Outcome>, Option<Waker>) {
        let mut state = self.state.lock();
        (state.stage.take_outcome(), state.task.take())
    }
}
