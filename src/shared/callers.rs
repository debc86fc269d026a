//! Who waits for what: the tables that lead from the events of the engine to slots, and what is decided
//! and not yet told.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::slot::{Grant, Outcome, Slot};
use super::table::Table;
use crate::driver::clock;
use crate::engine::{Engine, Event, Extension, RoundId};
use crate::error::LockError;
use crate::quorum::{Lock, LockId};
use crate::time::Instant;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Callers {
    /// The operations that somebody waits for, by their rounds.
    calls: Table<RoundId, Call>,
    /// How many of them tasks wait for.
    tasks: usize,
    /// The locks that are held.
    locks: Table<LockId, Arc<Slot>>,
    told: Vec<Told>,
    /// Some of it is for tasks.
    tells_task: bool,
}

/// Somebody waits for an operation.
#[derive(Debug)]
struct Call {
    slot: Arc<Slot>,
    waiter: Waiter,
}

/// Whether a thread or a task waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Waiter {
    Thread,
    Task,
}

/// What is decided, and for whom.
#[derive(Debug)]
pub(super) enum Told {
    Outcome(Arc<Slot>, Outcome),
    /// The lock is lost.
    Lost(Arc<Slot>),
    /// The lock ends then, whatever was known.
    Ends(Arc<Slot>, Instant),
}

impl Callers {
    pub(super) const fn new() -> Self {
        Self {
            calls: Table::new(),
            tasks: 0,
            locks: Table::new(),
            told: Vec::new(),
            tells_task: false,
        }
    }

    /// How many operations are waited for.
    pub(super) fn waiting(&self) -> usize {
        self.calls.len()
    }

    /// How many of them tasks wait for.
    pub(super) fn tasks(&self) -> usize {
        self.tasks
    }

    /// Returns `true` until the outcome of `round` is decided.
    pub(super) fn is_open(&self, round: RoundId) -> bool {
        self.calls.get(round).is_some()
    }

    /// The operations that are waited for.
    pub(super) fn rounds(&self) -> Vec<RoundId> {
        self.calls.iter().map(|(round, _)| *round).collect()
    }

    /// A thread that waits for an operation, if there is one.
    pub(super) fn waiting_thread(&self) -> Option<(RoundId, &Arc<Slot>)> {
        if self.tasks == self.calls.len() {
            return None;
        }
        let mut calls = self.calls.iter();
        let (round, call) = calls.find(|(_, call)| call.waiter == Waiter::Thread)?;
        Some((*round, &call.slot))
    }

    pub(super) fn open(&mut self, round: RoundId, slot: &Arc<Slot>, waiter: Waiter) {
        let slot = Arc::clone(slot);
        self.tasks += usize::from(waiter == Waiter::Task);
        self.calls.put(round, Call { slot, waiter });
    }

    /// Nobody waits for `round` any more. Returns `true` if somebody did.
    pub(super) fn close(&mut self, round: RoundId) -> bool {
        self.take(round).is_some()
    }

    /// The loss of `lock` is to be told to `slot`.
    pub(super) fn watch(&mut self, slot: &Arc<Slot>, lock: &Lock) {
        slot.watch.lasts(lock.valid_until());
        self.locks.put(lock.id(), Arc::clone(slot));
    }

    /// The loss of `lock` is not to be told any more.
    pub(super) fn forget(&mut self, lock: LockId) {
        self.locks.take(lock);
    }

    fn take(&mut self, round: RoundId) -> Option<Call> {
        let call = self.calls.take(round)?;
        self.tasks -= usize::from(call.waiter == Waiter::Task);
        Some(call)
    }

    // ----- what is decided ------------------------------------------------------------------

    /// Finds who waits for `event`.
    pub(super) fn tell(&mut self, engine: &mut Engine, event: Event) {
        if let Event::Expired { lock } = event {
            let slot = self.locks.take(lock);
            return self.told.extend(slot.map(Told::Lost));
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
            self.tell_end(extension);
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
        if let Some(Call { slot, waiter }) = self.take(round) {
            self.tells_task |= waiter == Waiter::Task;
            self.told.push(Told::Outcome(slot, outcome));
        }
    }

    /// A lock on its way to who waits for it. If nobody does it is given back.
    fn grant(
        &mut self,
        engine: &mut Engine,
        round: RoundId,
        result: Result<Lock, LockError>,
    ) -> Option<Result<Grant, LockError>> {
        // It stays in the table until its outcome is there: if the engine panics in between, it is
        // known.
        let Some(slot) = self.calls.get(round).map(|call| Arc::clone(&call.slot)) else {
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

    /// Until when a lock lasts that was extended or confirmed.
    fn tell_end(&mut self, extension: &Extension) {
        if let Some(slot) = self.locks.get(extension.lock) {
            let until = extension.valid_until();
            match extension.exact {
                true => self.told.push(Told::Ends(Arc::clone(slot), until)),
                false => slot.watch.lasts(until),
            }
        }
    }

    /// The engine is broken: everybody who waits is to hear so.
    pub(super) fn break_down(&mut self) {
        let (calls, locks) = (self.calls.drain(), self.locks.drain());
        let calls = calls.map(|call| Told::Outcome(call.slot, Outcome::Closed));
        self.told.extend(calls.chain(locks.map(Told::Lost)));
        self.tasks = 0;
    }

    pub(super) fn has_told(&self) -> bool {
        !self.told.is_empty()
    }

    /// Returns `true` if something is decided for a task, and not yet told.
    pub(super) fn tells_task(&self) -> bool {
        self.tells_task
    }

    /// What is to be told now. `spare` is the room for what comes next.
    pub(super) fn take_told(&mut self, spare: Vec<Told>) -> Vec<Told> {
        self.tells_task = false;
        core::mem::replace(&mut self.told, spare)
    }

    /// The outcome of the operation of `slot`, if it is decided and not told yet.
    pub(super) fn take_own(&mut self, slot: &Arc<Slot>) -> Option<Outcome> {
        let is_own = |told: &Told| matches!(told, Told::Outcome(of, _) if Arc::ptr_eq(of, slot));
        let place = self.told.iter().position(is_own)?;
        match self.told.swap_remove(place) {
            Told::Outcome(_, outcome) => Some(outcome),
            Told::Lost(_) | Told::Ends(..) => None,
        }
    }
}
