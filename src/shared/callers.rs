//! The tables that lead from events of the engine to slots, and the deliveries that are still to be made.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::slot::{Outcome, Slot};
use super::table::Table;
use crate::driver::{Refusal, clock};
use crate::engine::{Engine, Event, Extension, RoundId};
use crate::error::{ExtendError, Report};
use crate::quorum::{Lock, LockId};
use crate::time::Instant;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Callers {
    /// The operations that threads and tasks wait for, by their rounds: those that were begun at once, and
    /// those that have waited for their turn.
    operations: [Waiting; 2],
    /// Those that a thread waits for.
    threads: Vec<RoundId>,
    /// The locks that are held. Of those that are kept only the ones that somebody has asked about, or of
    /// which there is something to tell.
    locks: Table<LockId, Arc<Slot>>,
    deliveries: Vec<Delivery>,
    /// Some of them are for tasks.
    delivers_to_task: bool,
}

/// Where outcomes are delivered, by rounds. Threads and tasks have tables of their own: a flag for each
/// would cost eight bytes.
#[derive(Debug)]
struct Waiting {
    threads: Table<RoundId, Arc<Slot>>,
    tasks: Table<RoundId, Arc<Slot>>,
}

/// Whether a thread or a task waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum WaitsAs {
    Thread,
    Task,
}

/// What is to be delivered to a slot, outside of the mutex.
#[derive(Debug)]
pub(super) enum Delivery {
    Outcome(Arc<Slot>, Outcome),
    /// The lock is lost.
    Lost(Arc<Slot>),
    /// The lock, which was kept, is released or detached.
    Released(Arc<Slot>),
    /// The lock ends at another time than before, perhaps earlier.
    Ends(Arc<Slot>),
    /// The lock may be at risk.
    Alert(Arc<Slot>, LockId),
    /// The engine has failed to extend the lock.
    NotKept(Arc<Slot>, Option<Report>),
}

impl Waiting {
    const fn new() -> Self {
        const fn table() -> Table<RoundId, Arc<Slot>> {
            Table::new(|round| round.place().1)
        }
        Self {
            threads: table(),
            tasks: table(),
        }
    }
}

impl Callers {
    pub(super) fn new() -> Self {
        Self {
            operations: [const { Waiting::new() }; 2],
            threads: Vec::new(),
            // The lower half of a claim's key is its index.
            locks: Table::new(|lock: LockId| lock.claim as u32 as usize),
            deliveries: Vec::new(),
            delivers_to_task: false,
        }
    }

    /// Returns how many operations are waited for.
    pub(super) fn waiting(&self) -> usize {
        let all = self.operations.iter();
        all.map(|of| of.threads.len() + of.tasks.len()).sum()
    }

    /// Returns how many of them tasks wait for.
    pub(super) fn tasks(&self) -> usize {
        self.operations.iter().map(|of| of.tasks.len()).sum()
    }

    /// Returns `true` until the outcome of `round` is decided.
    pub(super) fn is_open(&self, round: RoundId) -> bool {
        let of = &self.operations[usize::from(round.place().0)];
        of.threads
            .get(round)
            .or_else(|| of.tasks.get(round))
            .is_some()
    }

    /// Returns the operations that are waited for.
    pub(super) fn rounds(&self) -> Vec<RoundId> {
        let all = self.operations.iter();
        all.flat_map(|of| of.threads.iter().chain(of.tasks.iter()))
            .map(|(round, _)| *round)
            .collect()
    }

    /// Returns the operation that a thread waits for, of several the latest, with its slot.
    pub(super) fn waiting_thread(&self) -> Option<(RoundId, &Arc<Slot>)> {
        let round = *self.threads.last()?;
        let of = &self.operations[usize::from(round.place().0)];
        Some((round, of.threads.get(round)?))
    }

    pub(super) fn open(&mut self, round: RoundId, slot: &Arc<Slot>, waiter: WaitsAs) {
        let of = &mut self.operations[usize::from(round.place().0)];
        let table = match waiter {
            WaitsAs::Thread => {
                self.threads.push(round);
                &mut of.threads
            }
            WaitsAs::Task => &mut of.tasks,
        };
        table.put(round, Arc::clone(slot));
    }

    /// Ends the wait for `round`. Returns `false` if its outcome is decided.
    pub(super) fn close(&mut self, round: RoundId) -> bool {
        self.take(round).is_some()
    }

    /// From now on the loss of `lock` is reported to `slot`. One that is kept gets a slot when somebody [asks
    /// about it](Self::slot_of_kept).
    pub(super) fn watch(&mut self, slot: &Arc<Slot>, lock: &Lock) {
        if lock.is_kept() {
            return;
        }
        slot.tenure.lasts(lock.valid_until());
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
        self.add_slot(lock.id(), (lock.valid_until(), false))
    }

    /// Adds a slot for a lock that is valid until then, or is over.
    fn add_slot(&mut self, lock: LockId, (until, is_over): (Instant, bool)) -> Arc<Slot> {
        let slot = match is_over {
            true => Slot::of_lost(),
            false => Arc::new(Slot::new()),
        };
        slot.tenure.lasts(until);
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

    /// The loss of `lock` is not reported any more: it is about to be released or detached. One that is kept
    /// has its slot here alone.
    pub(super) fn release(&mut self, lock: &Lock) {
        let slot = self.locks.take(lock.id());
        if lock.is_kept() {
            self.deliveries.extend(slot.map(Delivery::Released));
        }
    }

    fn take(&mut self, round: RoundId) -> Option<(Arc<Slot>, WaitsAs)> {
        let of = &mut self.operations[usize::from(round.place().0)];
        let Some(slot) = of.threads.take(round) else {
            return Some((of.tasks.take(round)?, WaitsAs::Task));
        };
        let place = self.threads.iter().rposition(|of| *of == round);
        place.map(|place| self.threads.swap_remove(place));
        Some((slot, WaitsAs::Thread))
    }

    // ----- deliveries -----------------------------------------------------------------------

    /// Finds the slot to which `event` is to be delivered.
    pub(super) fn handle(&mut self, engine: &mut Engine, event: Event) {
        if let Event::Expired { lock } = event {
            // It stays known until its guard goes: an extension of it may still report how it has failed.
            let slot = self.locks.get(lock).map(Arc::clone);
            return self.deliveries.extend(slot.map(Delivery::Lost));
        }
        if let Event::AtRisk { lock } = event {
            let slot = self.locks.get(lock).map(Arc::clone);
            let alert = slot.map(|slot| Delivery::Alert(slot, lock));
            return self.deliveries.extend(alert);
        }
        if let Event::Kept { lock, result } = event {
            return self.note_kept(lock, result, || engine.end_of_kept(lock));
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
        let Some((slot, waiter)) = self.take(round) else {
            return give_back(engine, event); // The caller has given up.
        };
        if let Event::Acquired {
            result: Ok(lock), ..
        } = &event
        {
            self.watch(&slot, lock);
            slot.note_attempts(engine);
        }
        self.delivers_to_task |= waiter == WaitsAs::Task;
        let outcome = Outcome::Event(event);
        self.deliveries.push(Delivery::Outcome(slot, outcome));
    }

    /// Makes the new end of an extended or confirmed lock known to its slot.
    fn note_end(&mut self, extension: &Extension) {
        if let Some(slot) = self.locks.get(extension.lock) {
            let until = extension.valid_until();
            match extension.exact {
                true => {
                    slot.tenure.ends(until);
                    self.deliveries.push(Delivery::Ends(Arc::clone(slot)));
                }
                false => slot.tenure.extended(until),
            }
        }
    }

    /// The nodes have said that `lock` ends then at the latest, and its holder does not want to know.
    pub(super) fn ends_by(&mut self, lock: LockId, until: Instant) {
        if let Some(slot) = self.locks.get(lock) {
            slot.tenure.ends_by(until);
            self.deliveries.push(Delivery::Ends(Arc::clone(slot)));
        }
    }

    /// The engine has extended `lock` by itself, or has failed to. If somebody has it, it has this `end`: it is
    /// valid until then, or is over.
    fn note_kept(
        &mut self,
        lock: LockId,
        result: Result<Instant, ExtendError>,
        end: impl FnOnce() -> Option<(Instant, bool)>,
    ) {
        match result {
            Ok(until) => {
                let Some(slot) = self.locks.get(lock) else {
                    return;
                };
                slot.tenure.extended(until);
                if Arc::strong_count(slot) == 1 {
                    self.locks.take(lock); // Nobody has asked, and what had failed is over.
                }
            }
            Err(error) => {
                // One that was released or detached meanwhile has nobody to tell.
                let is_had = !matches!(error, ExtendError::Closed);
                let end = || end().filter(|_| is_had);
                let slot = self.slot(lock);
                let Some(slot) = slot.or_else(|| Some(self.add_slot(lock, end()?))) else {
                    return;
                };
                slot.tenure.failed();
                let report = match error {
                    ExtendError::Lost(report) | ExtendError::Unconfirmed(report) => Some(report),
                    ExtendError::Invalid(_)
                    | ExtendError::Expired
                    | ExtendError::Limit
                    | ExtendError::Saturated
                    | ExtendError::Forked
                    | ExtendError::Closed => None,
                };
                let is_loss = |last: &mut Delivery| matches!(last, Delivery::Lost(of) if Arc::ptr_eq(of, &slot));
                let loss = self.deliveries.pop_if(is_loss);
                self.deliveries.push(Delivery::NotKept(slot, report));
                // One that learns of the loss finds the report there.
                self.deliveries.extend(loss);
            }
        }
    }

    /// The engine has panicked: refuses every call, and reports every lock as lost.
    pub(super) fn refuse_all(&mut self) {
        let calls = self.operations.iter_mut();
        let calls = calls.flat_map(|of| of.threads.drain().chain(of.tasks.drain()));
        let calls = calls.map(|slot| Delivery::Outcome(slot, Outcome::Refused(Refusal::Closed)));
        let locks = self.locks.drain().map(Delivery::Lost);
        self.deliveries.extend(calls.chain(locks));
        self.threads.clear();
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
            Delivery::Lost(_)
            | Delivery::Released(_)
            | Delivery::Ends(_)
            | Delivery::Alert(..)
            | Delivery::NotKept(..) => None,
        }
    }
}

fn give_back(engine: &mut Engine, event: Event) {
    if let Event::Acquired {
        result: Ok(lock), ..
    } = event
    {
        engine.give_back(clock::now(), lock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quorum::{Extending, NodeSet, Tally, Vote};

    const LOCK: LockId = LockId {
        engine: 1,
        claim: 1 << 32,
    };

    const fn at(seconds: u64) -> Instant {
        Instant::from_millis(seconds * 1_000)
    }

    fn held() -> (Callers, Arc<Slot>) {
        let (mut callers, slot) = (Callers::new(), Arc::new(Slot::new()));
        slot.tenure.lasts(at(10));
        callers.locks.put(LOCK, Arc::clone(&slot));
        (callers, slot)
    }

    /// An outcome after which the lock ends then: exactly, or at least.
    fn outcome(exact: bool, valid_until: Instant) -> Extension {
        let mut tally = Tally::new(1);
        for node in NodeSet::first(1).iter() {
            tally.record(node, Vote::Yes);
        }
        let Some(Extending::Extended(majority)) = tally.extension() else {
            unreachable!("one of one is a majority");
        };
        Extension {
            lock: LOCK,
            token: [0; _],
            majority,
            valid_until,
            ttl: 0,
            exact,
            is_told: true,
        }
    }

    fn ends(slot: &Slot, until: Instant) -> bool {
        let before = until.saturating_sub(core::time::Duration::from_nanos(1));
        let over = |now| slot.tenure.is_over_at(now, core::time::Duration::ZERO);
        !over(before) && over(until)
    }

    /// Deliveries come late. What was found last stands before any of them is made, and after.
    #[test]
    fn a_lock_ends_as_was_found_last_whenever_that_is_delivered() {
        for exact in [false, true] {
            let (mut callers, slot) = held();
            callers.note_end(&outcome(true, at(5)));
            assert!(ends(&slot, at(5)), "at once");
            match exact {
                false => callers.note_kept(LOCK, Ok(at(15)), || None),
                true => callers.note_end(&outcome(false, at(15))),
            }
            deliver(&mut callers);
            assert!(ends(&slot, at(15)));
            callers.note_end(&outcome(true, at(12)));
            deliver(&mut callers);
            assert!(ends(&slot, at(12)));
        }
    }

    #[test]
    fn failures_count_up_to_the_next_success_whenever_they_are_delivered() {
        let (mut callers, slot) = held();
        let failed = || Err(ExtendError::Closed);
        callers.note_kept(LOCK, failed(), || None);
        callers.note_kept(LOCK, failed(), || None);
        assert_eq!(slot.tenure.failures().0, 2, "at once");
        callers.note_kept(LOCK, Ok(at(15)), || None);
        deliver(&mut callers);
        assert_eq!(slot.tenure.failures().0, 0);
        callers.note_kept(LOCK, failed(), || None);
        deliver(&mut callers);
        assert_eq!(slot.tenure.failures().0, 1);
        // A confirmation gives it no more time. An extension of the caller does.
        callers.note_end(&outcome(true, at(15)));
        assert_eq!(slot.tenure.failures().0, 1);
        callers.note_end(&outcome(false, at(20)));
        assert_eq!(slot.tenure.failures().0, 0);
        assert!(ends(&slot, at(20)));
    }

    /// The engine reports the loss first.
    #[test]
    fn the_report_of_an_extension_is_delivered_before_the_loss_that_it_has_found() {
        let (mut callers, slot) = held();
        callers.deliveries.push(Delivery::Lost(Arc::clone(&slot)));
        callers.note_kept(LOCK, Err(ExtendError::Closed), || None);
        assert!(matches!(
            callers.deliveries[..],
            [Delivery::NotKept(..), Delivery::Lost(_)]
        ));
    }

    /// Makes the deliveries that concern the tenure.
    fn deliver(callers: &mut Callers) {
        let mut deliveries = Vec::new();
        callers.take_deliveries(&mut deliveries);
        for delivery in deliveries {
            match delivery {
                Delivery::Ends(slot) => slot.tenure.look_again(),
                Delivery::NotKept(slot, report) => slot.tenure.not_kept(report),
                Delivery::Outcome(..)
                | Delivery::Lost(_)
                | Delivery::Released(_)
                | Delivery::Alert(..) => {
                    unreachable!("no outcome, end or alert")
                }
            }
        }
    }
}
