//! What stands under the one mutex: the engine, the tables that lead from its events to who waits for
//! them, and the roles with what belongs to them.
//!
//! Here is computed and nothing else: no system call, no code of a user, no sleep. What is decided is
//! collected, and told after the mutex is unlocked.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::roles::Roles;
use super::slot::{Grant, Outcome, Slot};
use super::table::Table;
use crate::config::LockOptions;
use crate::driver::{Poller, Readiness, Wire, clock, is_owing, until_deadline};
use crate::engine::{Engine, Event, Request, RoundId};
use crate::error::{ExtendError, LockError, ReinitError};
use crate::quorum::{Lock, LockId};
use crate::time::Instant;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Core {
    pub(super) engine: Engine,
    /// The operations that somebody waits for, by their rounds.
    calls: Table<RoundId, Call>,
    /// The locks that are held.
    locks: Table<LockId, Arc<Slot>>,
    pub(super) roles: Roles,
    /// `None` while a thread moves bytes.
    pub(super) wire: Option<Box<Wire>>,
    /// `None` while a thread sleeps in it.
    pub(super) poller: Option<Box<Poller>>,
    /// What a sleep has brought, until the wire takes it.
    readiness: Option<Readiness>,
    /// What is decided and not yet told.
    pub(super) told: Vec<Told>,
    /// How often something was asked for that has to be written.
    pub(super) asked: u64,
    /// What so many times was asked for has been written.
    pub(super) written: u64,
    /// How often the wire was put back.
    pub(super) put_back: u64,
    /// How many threads wait until what they asked for is written.
    pub(super) awaiting: usize,
    /// One of them has waited in vain, and the wire was not put back since.
    pub(super) is_stuck: bool,
    /// The thread that was offered the poll and has not come yet, by its slot.
    pub(super) offered_to: Option<Arc<Slot>>,
    /// The same, if it was offered in this section and is to be woken behind it.
    pub(super) offered_now: Option<Arc<Slot>>,
    /// A thread has panicked with the engine, or with the wire.
    pub(super) is_broken: bool,
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

impl Core {
    pub(super) fn new(engine: Engine, wire: Wire, poller: Poller) -> Self {
        Self {
            engine,
            calls: Table::new(),
            locks: Table::new(),
            roles: Roles::new(),
            wire: Some(Box::new(wire)),
            poller: Some(Box::new(poller)),
            readiness: None,
            told: Vec::new(),
            asked: 0,
            written: 0,
            put_back: 0,
            awaiting: 0,
            is_stuck: false,
            offered_to: None,
            offered_now: None,
            is_broken: false,
        }
    }

    /// How many operations are waited for.
    pub(super) fn waiting(&self) -> usize {
        self.calls.len()
    }

    /// Returns `true` until the outcome of `round` is decided.
    pub(super) fn is_open(&self, round: RoundId) -> bool {
        self.calls.get(round).is_some()
    }

    /// A thread that waits for an operation, if there is one.
    pub(super) fn waiting_thread(&self) -> Option<Arc<Slot>> {
        let mut calls = self.calls.iter();
        let call = calls.find(|call| call.waiter == Waiter::Thread)?;
        Some(Arc::clone(&call.slot))
    }

    // ----- what is asked --------------------------------------------------------------------

    pub(super) fn acquire(
        &mut self,
        slot: &Arc<Slot>,
        waiter: Waiter,
        resource: &[u8],
        options: &LockOptions,
    ) -> Result<RoundId, LockError> {
        let request = Request::new(resource, options);
        let round = self.engine.acquire(clock::now(), &request)?;
        Ok(self.open(slot, waiter, round))
    }

    /// Without a `ttl` the lock is only confirmed. Its outcome comes into `slot`; `of` is the lock's
    /// own.
    pub(super) fn extend(
        &mut self,
        slot: &Arc<Slot>,
        waiter: Waiter,
        of: &Slot,
        lock: &Lock,
        ttl: Option<Duration>,
    ) -> Result<RoundId, ExtendError> {
        if of.watch.is_told() {
            return Err(ExtendError::Expired);
        }
        let now = clock::now();
        let round = match ttl {
            Some(ttl) => self.engine.extend(now, lock, ttl)?,
            None => self.engine.confirm(now, lock)?,
        };
        Ok(self.open(slot, waiter, round))
    }

    pub(super) fn release(&mut self, slot: &Arc<Slot>, waiter: Waiter, lock: Lock) -> RoundId {
        self.locks.take(lock.id());
        let round = self.engine.release(clock::now(), lock);
        self.open(slot, waiter, round)
    }

    pub(super) fn reinit(
        &mut self,
        slot: &Arc<Slot>,
        waiter: Waiter,
    ) -> Result<RoundId, ReinitError> {
        let round = self.engine.reinit(clock::now())?;
        Ok(self.open(slot, waiter, round))
    }

    pub(super) fn give_back(&mut self, lock: Lock) {
        self.locks.take(lock.id());
        self.engine.give_back(clock::now(), lock);
        self.ask();
    }

    pub(super) fn detach(&mut self, lock: Lock) -> Lock {
        self.locks.take(lock.id());
        self.ask();
        self.engine.detach(clock::now(), lock)
    }

    pub(super) fn adopt(&mut self, slot: &Arc<Slot>, lock: Lock) -> Lock {
        let lock = self.engine.adopt(clock::now(), lock);
        self.watch(slot, &lock);
        lock
    }

    /// Cancels the operation of `round`, if it is not decided yet.
    pub(super) fn cancel(&mut self, round: RoundId) {
        if self.calls.take(round).is_some() {
            self.engine.cancel(clock::now(), round);
            self.ask();
        }
    }

    /// Something is to be written, perhaps.
    pub(super) fn ask(&mut self) {
        self.asked += 1;
        self.roles.work = true;
    }

    fn open(&mut self, slot: &Arc<Slot>, waiter: Waiter, round: RoundId) -> RoundId {
        let slot = Arc::clone(slot);
        self.calls.put(round, Call { slot, waiter });
        self.ask();
        round
    }

    fn watch(&mut self, slot: &Arc<Slot>, lock: &Lock) {
        slot.watch.lasts(lock.valid_until());
        self.locks.put(lock.id(), Arc::clone(slot));
    }

    // ----- bytes ----------------------------------------------------------------------------

    /// Keeps what a sleep in the poll has brought for the wire.
    pub(super) fn note(&mut self, readiness: Readiness) {
        self.readiness
            .get_or_insert_with(Readiness::default)
            .merge(readiness);
        self.roles.work = true;
    }

    /// Hands the engine what `wire` has read, and the wire what the engine wants done. Returns `true`
    /// if the wire has something to do.
    pub(super) fn exchange(&mut self, wire: &mut Wire) -> bool {
        self.roles.work = false;
        let (calls, locks, told) = (&mut self.calls, &mut self.locks, &mut self.told);
        wire.exchange(&mut self.engine, self.readiness.take(), |engine, event| {
            tell(event, engine, calls, locks, told);
        })
    }

    /// The outcome of the operation of `slot`, if it is decided and not told yet.
    pub(super) fn take_told(&mut self, slot: &Arc<Slot>) -> Option<Outcome> {
        let is_own = |told: &Told| matches!(told, Told::Outcome(of, _) if Arc::ptr_eq(of, slot));
        let place = self.told.iter().position(is_own)?;
        match self.told.swap_remove(place) {
            Told::Outcome(_, outcome) => Some(outcome),
            Told::Lost(_) | Told::Ends(..) => None,
        }
    }

    /// Until when the thread that has the poll may sleep in it; with `spin` it does not sleep while
    /// somebody waits.
    pub(super) fn sleeps_until(&self, now: Instant, spin: bool) -> Instant {
        if spin && self.engine.load().rounds != 0 {
            return now;
        }
        if self.roles.wire_is_taken {
            // The thread that has it may be about to change what is due.
            return now.saturating_add(Duration::from_millis(1));
        }
        until_deadline(&self.engine, now).map_or(Instant::MAX, |limit| now.saturating_add(limit))
    }

    /// Returns `true` if a node is owed a release, or has not answered one.
    pub(super) fn is_owing(&self) -> bool {
        is_owing(&self.engine)
    }

    /// Cancels every operation that is still open.
    pub(super) fn cancel_all(&mut self) {
        for round in self.calls.keys() {
            self.cancel(round);
        }
    }

    /// The engine is broken: everybody who waits is to hear so.
    pub(super) fn break_down(&mut self) {
        self.is_broken = true;
        let (calls, locks) = (self.calls.drain(), self.locks.drain());
        let calls = calls.map(|call| Told::Outcome(call.slot, Outcome::Closed));
        self.told.extend(calls.chain(locks.map(Told::Lost)));
    }
}

/// Finds who waits for `event`.
fn tell(
    event: Event,
    engine: &mut Engine,
    calls: &mut Table<RoundId, Call>,
    locks: &mut Table<LockId, Arc<Slot>>,
    told: &mut Vec<Told>,
) {
    let (round, outcome) = match event {
        Event::Acquired { round, result } => {
            // It stays in the table until its outcome is there: if the engine panics in between, it is
            // known.
            let Some(slot) = calls.get(round).map(|call| Arc::clone(&call.slot)) else {
                if let Ok(lock) = result {
                    engine.give_back(clock::now(), lock);
                }
                return;
            };
            let grant = result.map(|lock| {
                slot.watch.lasts(lock.valid_until());
                locks.put(lock.id(), Arc::clone(&slot));
                let granted = engine.granted(&lock);
                Grant { lock, granted }
            });
            (round, Outcome::Acquired(grant))
        }
        Event::Extended { round, result } => {
            if let Ok(extension) = &result
                && let Some(slot) = locks.get(extension.lock)
            {
                match extension.exact {
                    true => told.push(Told::Ends(Arc::clone(slot), extension.valid_until())),
                    false => slot.watch.lasts(extension.valid_until()),
                }
            }
            (round, Outcome::Extended(result))
        }
        Event::Released { round, result } => (round, Outcome::Released(result)),
        Event::Reinitialised { round, result } => (round, Outcome::Reinitialised(result)),
        Event::Expired { lock } => {
            if let Some(slot) = locks.take(lock) {
                told.push(Told::Lost(slot));
            }
            return;
        }
    };
    if let Some(Call { slot, .. }) = calls.take(round) {
        told.push(Told::Outcome(slot, outcome));
    }
}
