//! The tables that lead from events of the engine to slots, and the deliveries that are still to be made.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::slot::{Grant, Outcome, Slot};
use super::table::Table;
use crate::driver::{Refusal, clock};
use crate::engine::{Engine, Event, Extension, RoundId};
use crate::error::{ExtendError, LockError, Report};
use crate::quorum::{Lock, LockId};
use crate::time::Instant;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Callers {
    /// The operations that a thread or a task waits for, by their rounds.
    operations: Table<RoundId, Caller>,
    /// How many of them tasks wait for.
    tasks: usize,
    /// The locks that are held.
    locks: Table<LockId, Arc<Slot>>,
    deliveries: Vec<Delivery>,
    /// Some of them are for tasks.
    delivers_to_task: bool,
}

/// Who waits for an operation.
#[derive(Debug)]
struct Caller {
    slot: Arc<Slot>,
    waiter: Waiter,
}

/// Whether a thread or a task waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Waiter {
    Thread,
    Task,
}

/// What is to be delivered to a slot, outside of the mutex.
#[derive(Debug)]
pub(super) enum Delivery {
    Outcome(Arc<Slot>, Outcome),
    /// The lock is lost.
    Lost(Arc<Slot>),
    /// The lock ends at another time than before, perhaps earlier.
    Ends(Arc<Slot>),
    /// The lock may be at risk.
    Alert(Arc<Slot>, LockId),
    /// The engine has failed to extend the lock.
    NotKept(Arc<Slot>, Option<Report>),
}

impl Callers {
    pub(super) fn new() -> Self {
        Self {
            operations: Table::new(RoundId::index),
            tasks: 0,
            // The lower half of a claim's key is its index.
            locks: Table::new(|lock: LockId| lock.claim as u32 as usize),
            deliveries: Vec::new(),
            delivers_to_task: false,
        }
    }

    /// Returns how many operations are waited for.
    pub(super) fn waiting(&self) -> usize {
        self.operations.len()
    }

    /// Returns how many of them tasks wait for.
    pub(super) fn tasks(&self) -> usize {
        self.tasks
    }

    /// Returns `true` until the outcome of `round` is decided.
    pub(super) fn is_open(&self, round: RoundId) -> bool {
        self.operations.get(round).is_some()
    }

    /// Returns the operations that are waited for.
    pub(super) fn rounds(&self) -> Vec<RoundId> {
        self.operations.iter().map(|(round, _)| *round).collect()
    }

    /// Returns an operation that a thread waits for, with its slot.
    pub(super) fn waiting_thread(&self) -> Option<(RoundId, &Arc<Slot>)> {
        if self.tasks == self.operations.len() {
            return None;
        }
        let mut operations = self.operations.iter();
        let (round, caller) = operations.find(|(_, caller)| caller.waiter == Waiter::Thread)?;
        Some((*round, &caller.slot))
    }

    pub(super) fn open(&mut self, round: RoundId, slot: &Arc<Slot>, waiter: Waiter) {
        let slot = Arc::clone(slot);
        self.tasks += usize::from(waiter == Waiter::Task);
        self.operations.put(round, Caller { slot, waiter });
    }

    /// Ends the wait for `round`. Returns `false` if its outcome is decided.
    pub(super) fn close(&mut self, round: RoundId) -> bool {
        self.take(round).is_some()
    }

    /// From now on the loss of `lock` is reported to `slot`.
    pub(super) fn watch(&mut self, slot: &Arc<Slot>, lock: &Lock) {
        slot.watch.lasts(lock.valid_until());
        self.locks.put(lock.id(), Arc::clone(slot));
    }

    /// The loss of `lock` is not reported any more.
    pub(super) fn forget(&mut self, lock: LockId) {
        self.locks.take(lock);
    }

    fn take(&mut self, round: RoundId) -> Option<Caller> {
        let caller = self.operations.take(round)?;
        self.tasks -= usize::from(caller.waiter == Waiter::Task);
        Some(caller)
    }

    // ----- deliveries -----------------------------------------------------------------------

    /// Finds the slot to which `event` is to be delivered.
    pub(super) fn handle(&mut self, engine: &mut Engine, event: Event) {
        if let Event::Expired { lock } = event {
            let slot = self.locks.take(lock);
            return self.deliveries.extend(slot.map(Delivery::Lost));
        }
        if let Event::AtRisk { lock } = event {
            let slot = self.locks.get(lock).map(Arc::clone);
            let alert = slot.map(|slot| Delivery::Alert(slot, lock));
            return self.deliveries.extend(alert);
        }
        if let Event::Kept { lock, result } = event {
            return self.note_kept(lock, result);
        }
        if let Event::Extended {
            result: Ok(extension),
            ..
        }
        | Event::Confirmed {
            result: Ok(extension),
            ..
        } = &event
        {
            self.note_end(extension);
        }
        let Some(round) = event.round() else { return };
        let outcome = if let Event::Acquired { result, .. } = event {
            let Some(result) = self.grant(engine, round, result) else {
                return;
            };
            Outcome::Acquired(result)
        } else {
            Outcome::Event(event)
        };
        if let Some(Caller { slot, waiter }) = self.take(round) {
            self.delivers_to_task |= waiter == Waiter::Task;
            self.deliveries.push(Delivery::Outcome(slot, outcome));
        }
    }

    /// Makes a granted lock known to the slot of its caller. Gives it back if the caller has given up.
    fn grant(
        &mut self,
        engine: &mut Engine,
        round: RoundId,
        result: Result<Lock, LockError>,
    ) -> Option<Result<Grant, LockError>> {
        // The caller stays in the table until its outcome is there: if the engine panics before, it
        // is found.
        let Some(slot) = self
            .operations
            .get(round)
            .map(|caller| Arc::clone(&caller.slot))
        else {
            if let Ok(lock) = result {
                engine.give_back(clock::now(), lock);
            }
            return None;
        };
        Some(result.map(|lock| {
            self.watch(&slot, &lock);
            let granted = engine.granted(&lock);
            Grant { lock, granted }
        }))
    }

    /// Makes the new end of an extended or confirmed lock known to its slot.
    fn note_end(&mut self, extension: &Extension) {
        if let Some(slot) = self.locks.get(extension.lock) {
            let until = extension.valid_until();
            match extension.exact {
                true => {
                    slot.watch.ends(until);
                    self.deliveries.push(Delivery::Ends(Arc::clone(slot)));
                }
                false => slot.watch.lasts(until),
            }
        }
    }

    /// The engine has extended `lock` by itself, or has failed to. One that was released meanwhile is not
    /// known any more.
    fn note_kept(&mut self, lock: LockId, result: Result<Instant, ExtendError>) {
        let Some(slot) = self.locks.get(lock) else {
            return;
        };
        match result {
            Ok(until) => slot.watch.kept(until),
            Err(error) => {
                let report = match error {
                    ExtendError::Lost(report) | ExtendError::Unconfirmed(report) => Some(report),
                    ExtendError::Invalid(_)
                    | ExtendError::Expired
                    | ExtendError::Limit
                    | ExtendError::Saturated
                    | ExtendError::Forked
                    | ExtendError::Closed => None,
                };
                self.deliveries
                    .push(Delivery::NotKept(Arc::clone(slot), report));
            }
        }
    }

    /// The engine has panicked: refuses every call, and reports every lock as lost.
    pub(super) fn refuse_all(&mut self) {
        let (calls, locks) = (self.operations.drain(), self.locks.drain());
        let calls =
            calls.map(|call| Delivery::Outcome(call.slot, Outcome::Refused(Refusal::Closed)));
        self.deliveries
            .extend(calls.chain(locks.map(Delivery::Lost)));
        self.tasks = 0;
    }

    pub(super) fn has_deliveries(&self) -> bool {
        !self.deliveries.is_empty()
    }

    /// Returns `true` if an outcome is to be delivered to a task.
    pub(super) fn delivers_to_task(&self) -> bool {
        self.delivers_to_task
    }

    /// Takes the deliveries, in exchange for an empty buffer for the next ones.
    pub(super) fn take_deliveries(&mut self, spare: &mut Vec<Delivery>) {
        self.delivers_to_task = false;
        core::mem::swap(&mut self.deliveries, spare);
    }

    /// Takes the outcome for `slot`, if it is decided and no thread is delivering it yet.
    pub(super) fn take_outcome(&mut self, slot: &Arc<Slot>) -> Option<Outcome> {
        let is_own =
            |entry: &Delivery| matches!(entry, Delivery::Outcome(of, _) if Arc::ptr_eq(of, slot));
        let place = self.deliveries.iter().position(is_own)?;
        match self.deliveries.swap_remove(place) {
            Delivery::Outcome(_, outcome) => Some(outcome),
            Delivery::Lost(_) | Delivery::Ends(_) | Delivery::Alert(..) | Delivery::NotKept(..) => {
                None
            }
        }
    }
}
