//! The tables that lead from events of the engine to slots, and the threads and tasks that are to be woken.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::Waker;
use core::time::Duration;

use super::slot::{Outcome, Slot};
use super::table::Table;
use super::tenure::NOTICE;
use crate::driver::{Refusal, clock};
use crate::engine::{Engine, Event, RoundId};
use crate::error::ExtendError;
use crate::quorum::{Lock, LockId};
use crate::time::Instant;
use crate::trace::Attempts;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Callers {
    /// The operations that threads and tasks wait for, by their rounds: those that were begun at once, and
    /// those that have waited for their turn.
    operations: [Table<RoundId, Arc<Slot>>; 2],
    /// Those that a thread waits for.
    threads: Vec<RoundId>,
    /// The locks that are held. Of those that are kept only the ones that a caller has asked about, or of
    /// which there is something to tell.
    locks: Table<LockId, Arc<Slot>>,
    /// Where threads sleep that are to be woken after this section.
    pub(super) woken: Vec<Arc<Slot>>,
    /// The tasks that the I/O thread is to wake.
    pub(super) tasks: Vec<Waker>,
}

/// Whether a thread or a task waits.
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
            // The lower half of a claim's key is its index.
            locks: Table::new(|lock: LockId| lock.claim as u32 as usize),
            woken: Vec::new(),
            tasks: Vec::new(),
        }
    }

    /// Returns how many operations are waited for.
    pub(super) fn waiting(&self) -> usize {
        self.operations.iter().map(Table::len).sum()
    }

    /// Returns how many of them tasks wait for.
    pub(super) fn tasks(&self) -> usize {
        self.waiting() - self.threads.len()
    }

    /// Returns the slot of `round`, until its outcome is decided.
    fn open_slot(&self, round: RoundId) -> Option<&Arc<Slot>> {
        self.operations[usize::from(round.place().0)].get(round)
    }

    /// Returns `true` until the outcome of `round` is decided.
    pub(super) fn is_open(&self, round: RoundId) -> bool {
        self.open_slot(round).is_some()
    }

    /// Offers the poll to a thread that waits, of several to the latest. Returns its operation.
    pub(super) fn offer(&mut self) -> Option<RoundId> {
        let round = *self.threads.last()?;
        let slot = Arc::clone(self.open_slot(round)?);
        slot.offer();
        self.woken.push(slot);
        Some(round)
    }

    pub(super) fn open(&mut self, round: RoundId, slot: &Arc<Slot>, waiter: WaitsAs) {
        if waiter == WaitsAs::Thread {
            self.threads.push(round);
        }
        self.operations[usize::from(round.place().0)].put(round, Arc::clone(slot));
    }

    /// From now on the loss of `lock` is reported to `slot`. One that is kept gets a slot when somebody [asks
    /// about it](Self::slot_of_kept).
    pub(super) fn watch(&mut self, slot: &Arc<Slot>, lock: &Lock) {
        if lock.is_kept() {
            return;
        }
        self.locks.put(lock.id(), Arc::clone(slot));
    }

    /// Returns the slot to which the loss of `lock`, which is kept, is reported from now on; one that is lost
    /// if that was reported.
    pub(super) fn slot_of_kept(&mut self, lock: &Lock) -> Arc<Slot> {
        if let Some(slot) = self.locks.get(lock.id()) {
            return Arc::clone(slot);
        }
        if lock.is_kept_and_over() {
            return Slot::of_lost(); // Its claim may be forgotten: its place here is that of another lock then.
        }
        self.add_slot(lock.id(), false)
    }

    /// Adds a slot for a lock that is held, or is over.
    fn add_slot(&mut self, lock: LockId, is_over: bool) -> Arc<Slot> {
        let slot = match is_over {
            true => Slot::of_lost(),
            false => Arc::new(Slot::new()),
        };
        self.locks.put(lock, Arc::clone(&slot));
        slot
    }

    /// Returns the slot to which the loss of `lock` is reported, if it has one.
    pub(super) fn slot(&self, lock: LockId) -> Option<Arc<Slot>> {
        self.locks.get(lock).cloned()
    }

    #[cfg(all(test, feature = "embedded"))]
    pub(super) fn slots_of_locks(&self) -> usize {
        self.locks.len()
    }

    /// The loss of `lock` is not reported any more: it is about to be released or detached.
    pub(super) fn release(&mut self, lock: &Lock) {
        if let Some(slot) = self.locks.take(lock.id()) {
            slot.tenure.release(lock.valid_until(), &mut self.tasks);
        }
    }

    /// Ends the wait for `round`. Returns its slot, or `None` if its outcome is decided.
    pub(super) fn take(&mut self, round: RoundId) -> Option<Arc<Slot>> {
        let slot = self.operations[usize::from(round.place().0)].take(round)?;
        let place = self.threads.iter().rposition(|of| *of == round);
        place.map(|place| self.threads.swap_remove(place));
        Some(slot)
    }

    /// Returns `true` if threads or tasks are to be woken.
    pub(super) fn has_to_wake(&self) -> bool {
        !self.woken.is_empty() || !self.tasks.is_empty()
    }

    // ----- outcomes -------------------------------------------------------------------------

    /// Delivers what `event` says.
    pub(super) fn handle(&mut self, engine: &mut Engine, event: Event) {
        if let Event::Expired { lock } = event {
            // It stays known until its guard goes: an extension of it may still report how it has failed.
            let slot = self.locks.get(lock).into_iter();
            return slot.for_each(|slot| slot.tenure.lose(&mut self.tasks));
        }
        if let Event::AtRisk { lock } = event {
            let (slot, end) = (self.locks.get(lock), engine.end_of(lock));
            let alerted =
                |slot: &Arc<Slot>| slot.tenure.alerted(clock::now(), end, &mut self.tasks);
            let next = slot.and_then(alerted);
            return next
                .into_iter()
                .for_each(|early| alert(engine, lock, early));
        }
        if let Event::Kept { lock, result } = event {
            return self.note_kept(lock, result, || engine.is_over_though_kept(lock));
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
            let lock = event.into_lock(); // The caller has given up.
            return lock
                .into_iter()
                .for_each(|lock| engine.give_back(clock::now(), lock));
        };
        if let Event::Acquired {
            result: Ok(lock), ..
        } = &event
        {
            self.watch(&slot, lock);
        }
        self.deliver(slot, Ok(event), Attempts::of(engine));
    }

    fn deliver(&mut self, slot: Arc<Slot>, outcome: Outcome, attempts: Attempts) {
        let wakes = slot.deliver(outcome, attempts, &mut self.tasks);
        self.woken.extend(wakes.then_some(slot));
    }

    /// The engine has extended `lock` by itself, or has failed to. If somebody has it, `is_over` tells whether its end
    /// was reported.
    fn note_kept(
        &mut self,
        lock: LockId,
        result: Result<Instant, ExtendError>,
        is_over: impl FnOnce() -> Option<bool>,
    ) {
        match result {
            Ok(_) => {
                let Some(slot) = self.locks.get(lock) else {
                    return;
                };
                slot.tenure.extended();
                if Arc::strong_count(slot) == 1 {
                    self.locks.take(lock); // Nobody has asked, and what had failed is over.
                }
            }
            Err(error) => {
                // One that was released or detached meanwhile is not reported.
                let is_had = !matches!(error, ExtendError::Closed);
                let is_over = || is_over().filter(|_| is_had);
                let slot = self.slot(lock);
                let Some(slot) = slot.or_else(|| Some(self.add_slot(lock, is_over()?))) else {
                    return;
                };
                let said = match error {
                    ExtendError::Lost(report) | ExtendError::Unconfirmed(report) => Some(report),
                    ExtendError::Invalid(_)
                    | ExtendError::Expired
                    | ExtendError::Limit
                    | ExtendError::Saturated
                    | ExtendError::Forked
                    | ExtendError::Closed => None,
                };
                slot.tenure.failed(said);
            }
        }
    }

    /// The engine has panicked: refuses every call, and reports every lock as lost.
    pub(super) fn refuse_all(&mut self) {
        self.threads.clear();
        let calls: Vec<_> = self.operations.iter_mut().flat_map(Table::drain).collect();
        for slot in calls {
            self.deliver(slot, Err(Refusal::Closed), Attempts::new());
        }
        let locks = self.locks.drain();
        locks.for_each(|slot| slot.tenure.lose(&mut self.tasks));
    }
}

/// Asks for an alert about `lock`, so `early` before its end.
pub(super) fn alert(engine: &mut Engine, lock: LockId, early: Duration) {
    engine.alert(lock, early.saturating_sub(NOTICE)); // It comes as much early.
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
        let (mut callers, slot) = (Callers::new(), Arc::new(Slot::new()));
        callers.locks.put(LOCK, Arc::clone(&slot));
        let failed = || Err(ExtendError::Closed);
        for extended in [false, true] {
            callers.note_kept(LOCK, failed(), || None);
            callers.note_kept(LOCK, failed(), || None);
            assert_eq!(slot.tenure.failures().0, 2);
            match extended {
                true => slot.tenure.extended(), // By its caller.
                false => callers.note_kept(LOCK, Ok(Instant::MAX), || None),
            }
            assert_eq!(slot.tenure.failures().0, 0);
        }
    }
}
