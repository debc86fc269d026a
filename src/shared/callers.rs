//! Tables that map events of the engine to slots, and the threads and tasks to wake.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::Waker;
use core::time::Duration;

use super::slot::{Outcome, Slot};
use super::table::Table;
use super::tenure::NOTICE;
use crate::clock;
use crate::driver::Refusal;
use crate::engine::{Engine, Event, RoundId};
use crate::error::{ExtendError, LockError};
use crate::quorum::{Lock, LockId};
use crate::time::Instant;
use crate::trace::Attempts;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Callers {
    /// The slots of the operations that threads and tasks wait for. The first table is for operations that began
    /// immediately, and the second table is for operations that waited for their turn.
    operations: [Table<RoundId, Arc<Slot>>; 2],
    /// The operations that a thread waits for.
    threads: Vec<RoundId>,
    /// The slots of the held locks. A kept lock has a slot only if a caller has asked about the lock, or a failure must
    /// be reported.
    pub(super) locks: Table<LockId, Arc<Slot>>,
    /// The slots of the threads to wake after the critical section.
    pub(super) woken: Vec<Arc<Slot>>,
    /// The tasks that the I/O thread must wake.
    pub(super) tasks: Vec<Waker>,
}

/// Whether a thread or a task waits for the outcome.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum WaitsAs {
    Thread,
    Task,
}

impl Callers {
    pub(super) fn new() -> Self {
        Self {
            operations: [const { Table::new(|round: RoundId| round.place().1) }; 2],
            threads: Vec::new(),
            // The lower half of a claim's key is the index of the claim.
            locks: Table::new(|lock: LockId| lock.claim as u32 as usize),
            woken: Vec::new(),
            tasks: Vec::new(),
        }
    }

    /// Returns the number of operations that callers wait for.
    pub(super) fn waiting(&self) -> usize {
        self.operations.iter().map(Table::len).sum()
    }

    /// Returns the number of operations that tasks wait for.
    pub(super) fn tasks(&self) -> usize {
        self.waiting() - self.threads.len()
    }

    /// Returns the slot of `round`, unless its outcome is decided.
    fn open_slot(&self, round: RoundId) -> Option<&Arc<Slot>> {
        self.operations[usize::from(round.place().0)].get(round)
    }

    /// Returns `true` until the outcome of `round` is decided.
    pub(super) fn is_open(&self, round: RoundId) -> bool {
        self.open_slot(round).is_some()
    }

    /// Offers the poller to the thread that began to wait last. Returns the operation of that thread.
    pub(super) fn offer(&mut self) -> Option<RoundId> {
        let round = *self.threads.last()?;
        let slot = Arc::clone(self.open_slot(round)?);
        slot.offer();
        self.woken.push(slot);
        Some(round)
    }

    /// Wakes all waiting threads, so that each of them checks its own clock.
    pub(super) fn call_threads(&mut self) {
        for round in core::mem::take(&mut self.threads) {
            if let Some(slot) = self.open_slot(round).cloned() {
                slot.offer();
                self.woken.push(slot);
                self.threads.push(round);
            }
        }
    }

    /// Records that the outcome of `round` will be delivered to `slot`.
    pub(super) fn open(&mut self, round: RoundId, slot: Arc<Slot>, waiter: WaitsAs) {
        slot.open(round);
        if waiter == WaitsAs::Thread {
            self.threads.push(round);
        }
        self.operations[usize::from(round.place().0)].put(round, slot);
    }

    /// Records that a loss of `lock` will be reported to `slot`. Does nothing for a kept lock, whose slot comes
    /// from [`slot_of_kept`](Self::slot_of_kept).
    pub(super) fn watch(&mut self, slot: &Arc<Slot>, lock: &Lock) {
        if !lock.is_kept() {
            self.locks.put(lock.id(), Arc::clone(slot));
        }
    }

    /// Returns the slot to which the loss of the kept `lock` is reported. If the loss was reported already, returns a
    /// slot of a lost lock.
    pub(super) fn slot_of_kept(&mut self, lock: &Lock) -> Arc<Slot> {
        if let Some(slot) = self.locks.get(lock.id()) {
            return Arc::clone(slot);
        }
        if lock.is_kept_and_over() {
            return Slot::of_lost(); // The claim may be forgotten, and another lock may use its index.
        }
        self.add_slot(lock.id(), false)
    }

    /// Adds a slot for `lock`, which is lost if `is_over` is `true`.
    fn add_slot(&mut self, lock: LockId, is_over: bool) -> Arc<Slot> {
        let slot = match is_over {
            true => Slot::of_lost(),
            false => Arc::<Slot>::default(),
        };
        self.locks.put(lock, Arc::clone(&slot));
        slot
    }

    /// Stops reporting the loss of `lock`, which is about to be released or detached.
    pub(super) fn release(&mut self, now: Instant, lock: &Lock) {
        if let Some(slot) = self.locks.take(lock.id()) {
            slot.tenure
                .release(now, lock.valid_until(), &mut self.tasks);
        }
    }

    /// Ends the wait for `round`. Returns the slot of `round`, or `None` if the outcome is decided.
    pub(super) fn take(&mut self, round: RoundId) -> Option<Arc<Slot>> {
        let slot = self.operations[usize::from(round.place().0)].take(round)?;
        let place = self.threads.iter().rposition(|of| *of == round);
        place.map(|place| self.threads.swap_remove(place));
        Some(slot)
    }

    /// Returns `true` if there are threads or tasks to wake.
    pub(super) fn has_to_wake(&self) -> bool {
        !self.woken.is_empty() || !self.tasks.is_empty()
    }

    // ----- outcomes ---------------------------------------------------------------------------

    /// Delivers `event` to its caller.
    pub(super) fn handle(&mut self, engine: &mut Engine, event: Event) {
        if let Event::Expired { lock } = event
            && let Some(slot) = self.locks.get(lock)
        {
            // Keeps the slot until the guard is dropped, because an extension may still report why it failed.
            slot.tenure.lose(&mut self.tasks);
        }
        if let Event::AtRisk { lock } = event
            && let (now, end) = (clock::now(), engine.end_of(lock))
            && let Some(slot) = self.locks.get(lock)
            && let Some(early) = slot.tenure.alerted(now, end, &mut self.tasks)
        {
            alert(engine, lock, early);
        }
        if let Event::Kept { lock, result } = event {
            return self.note_kept(lock, result, engine.is_over_though_kept(lock));
        }
        if let Event::Extended {
            result: Ok(extension),
            ..
        } = &event
            && let Some(slot) = self.locks.get(extension.lock)
        {
            slot.tenure.extended();
        }
        let Some(round) = event.round() else { return };
        let Some(slot) = self.take(round) else {
            if let Some(lock) = event.into_lock() {
                engine.give_back(clock::now(), lock); // The caller has given up the operation.
            }
            return;
        };
        if let Event::Acquired {
            result: Ok(lock), ..
        } = &event
        {
            self.watch(&slot, lock);
        }
        self.deliver(slot, Ok(event), Attempts::of(engine));
    }

    /// Delivers the reason why the engine has refused a request for a lock.
    pub(super) fn refuse(&mut self, slot: Arc<Slot>, error: LockError) {
        let (round, result) = (RoundId::NONE, Err(error));
        self.deliver(
            slot,
            Ok(Event::Acquired { round, result }),
            Attempts::default(),
        );
    }

    fn deliver(&mut self, slot: Arc<Slot>, outcome: Outcome, attempts: Attempts) {
        let wakes = slot.deliver(outcome, attempts, &mut self.tasks);
        self.woken.extend(wakes.then_some(slot));
    }

    /// Records that the engine has extended `lock` by itself, or has failed to extend it. `is_over` is `true` if the
    /// loss of the lock was reported, and `None` if no caller has the lock.
    fn note_kept(
        &mut self,
        lock: LockId,
        result: Result<Instant, ExtendError>,
        is_over: Option<bool>,
    ) {
        let slot = self.locks.get(lock).cloned();
        let Err(error) = result else {
            if let Some(slot) = slot {
                slot.tenure.extended();
                if Arc::strong_count(&slot) == 2 {
                    self.locks.take(lock); // No caller has asked about the lock, and its failures are over.
                }
            }
            return;
        };
        // Reports nothing if the lock was released or detached meanwhile.
        let is_over = is_over.filter(|_| !matches!(error, ExtendError::Closed));
        let slot = slot.or_else(|| Some(self.add_slot(lock, is_over?)));
        let mut said = None;
        if let ExtendError::Lost(report) | ExtendError::Unconfirmed(report) = error {
            said = Some(report);
        }
        if let Some(slot) = slot {
            slot.tenure.failed(said);
        }
    }

    /// Handles a panic of the engine. Refuses every call, also the `noted` calls that have not begun, and reports every
    /// lock as lost.
    pub(super) fn refuse_all(&mut self, noted: impl Iterator<Item = Arc<Slot>>) {
        self.threads.clear();
        let calls = self.operations.iter_mut().flat_map(Table::drain);
        let calls: Vec<_> = calls.chain(noted).collect();
        for slot in calls {
            self.deliver(slot, Err(Refusal::Closed), Attempts::default());
        }
        let locks = self.locks.drain();
        locks.for_each(|slot| slot.tenure.lose(&mut self.tasks));
    }
}

/// Requests an alert for when less than `early` is left of the validity of `lock`.
pub(super) fn alert(engine: &mut Engine, lock: LockId, early: Duration) {
    engine.alert(lock, early.saturating_sub(NOTICE)); // An alert comes early by `NOTICE`.
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: LockId = LockId {
        engine: 1,
        claim: 1 << 32,
    };

    #[test]
    fn failures_count_up_to_the_next_success() {
        let (mut callers, slot) = (Callers::new(), Arc::<Slot>::default());
        callers.locks.put(LOCK, Arc::clone(&slot));
        let failed = || Err(ExtendError::Closed);
        for extended in [false, true] {
            callers.note_kept(LOCK, failed(), None);
            callers.note_kept(LOCK, failed(), None);
            assert_eq!(slot.tenure.failures().0, 2);
            match extended {
                true => slot.tenure.extended(), // The caller has extended the lock.
                false => callers.note_kept(LOCK, Ok(Instant::MAX), None),
            }
            assert_eq!(slot.tenure.failures().0, 0);
        }
    }
}
