//! The engine of a shared handle, with the tables that lead from its events to who waits for them.
//!
//! Everything here is done by whoever has the engine. It calls no waker: tasks that are to be
//! woken are collected, and woken after the engine was let go of.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::Waker;
use core::time::Duration;

use super::mailbox::Letter;
use super::slot::{Grant, Outcome, Settled, Slot};
use crate::config::LockOptions;
use crate::driver::{Driver, clock};
use crate::engine::{Event, NodeStatus, RoundId};
use crate::error::{ExtendError, LockError, TrustError};
use crate::quorum::{Lock, LockId};

/// Least wait that is told to the engine for a call whose time is up already. Zero would mean that
/// it has no deadline.
const SHORTEST_WAIT: Duration = Duration::from_nanos(1);

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Reactor {
    /// Taken out in a forked child, to be closed.
    driver: Option<Driver>,
    /// The calls that somebody waits for, by their rounds.
    calls: Table<RoundId>,
    /// The locks that are held, by the indices of their ids.
    locks: Table<LockId>,
    /// Letters that were taken out and not yet read.
    pub(super) letters: VecDeque<Letter>,
    /// How many letters have been taken out of the mailbox in all.
    pub(super) taken: u64,
    /// What so many of them ask for has been written.
    pub(super) written: u64,
    /// The slot of the letter that is being read: if the engine panics over it, it is known.
    reading: Option<Arc<Slot>>,
    /// Tasks to be woken.
    pub(super) wakers: Vec<Waker>,
    /// Something was asked of the engine that is not yet written.
    dirty: bool,
}

impl Reactor {
    pub(super) fn new(driver: Driver) -> Self {
        Self {
            driver: Some(driver),
            calls: Table::new(),
            locks: Table::new(),
            letters: VecDeque::new(),
            taken: 0,
            written: 0,
            reading: None,
            wakers: Vec::new(),
            dirty: false,
        }
    }

    /// How many calls somebody waits for.
    pub(super) fn waiting(&self) -> usize {
        self.calls.len
    }

    pub(super) fn driver(&mut self) -> &mut Driver {
        self.driver
            .as_mut()
            .expect("only a forked child takes it, and does nothing more")
    }

    /// In a forked child: the driver, whose descriptors are to be closed.
    pub(super) fn take_driver(&mut self) -> Option<Driver> {
        self.driver.take()
    }

    /// How every node stands.
    pub(super) fn statuses(&mut self) -> Vec<NodeStatus> {
        self.driver().nodes()
    }

    /// Ends the quarantine of a node, if this server is still connected there.
    pub(super) fn trust(&mut self, address: &str, run_id: &str) -> Result<bool, TrustError> {
        self.dirty = true;
        self.driver().trust_node(address, run_id)
    }

    /// The same for all servers that are connected. Returns their run_ids.
    pub(super) fn trust_all(&mut self) -> Vec<String> {
        self.dirty = true;
        self.driver().trust_nodes()
    }

    // ----- what is asked --------------------------------------------------------------------

    /// Reads the letters.
    pub(super) fn read_mail(&mut self) {
        while let Some(letter) = self.letters.pop_front() {
            self.reading = Some(Arc::clone(letter.slot()));
            self.read(letter);
            self.reading = None;
        }
    }

    fn read(&mut self, letter: Letter) {
        match letter {
            Letter::Acquire {
                slot,
                resource,
                options,
                until,
            } if slot.is_wanted() => {
                let options = until.map_or(options, |until| {
                    let left = until.saturating_since(clock::now());
                    options.wait(left.max(SHORTEST_WAIT))
                });
                self.acquire(&slot, &resource, &options);
            }
            Letter::Extend {
                slot,
                of,
                lock,
                ttl,
            } if slot.is_wanted() => self.extend(&slot, &of, &identified(lock, &of), ttl),
            Letter::Acquire { .. } | Letter::Extend { .. } => {}
            Letter::Release { slot, lock } => self.release(&slot, lock),
            Letter::GiveBack { slot, lock } => self.give_back(&slot, lock),
            Letter::Detach { slot, lock } => drop(self.detach(&slot, lock)),
            Letter::Adopt { slot, lock } => drop(self.adopt(&slot, lock)),
            Letter::Cancel { slot } => self.cancel(&slot),
            Letter::Look { slot } => {
                let statuses = self.statuses();
                self.settle(&slot, Outcome::Looked(statuses));
            }
            Letter::Trust {
                slot,
                address,
                run_id,
            } => {
                let result = self.trust(&address, &run_id);
                self.settle(&slot, Outcome::Trusted(result));
            }
            Letter::TrustAll { slot } => {
                let trusted = self.trust_all();
                self.settle(&slot, Outcome::TrustedAll(trusted));
            }
            Letter::Reinit { slot } => self.reinit(&slot),
            #[cfg(all(test, feature = "embedded"))]
            Letter::Break { .. } => panic!("expected: the story of a test"),
        }
    }

    pub(super) fn acquire(&mut self, slot: &Arc<Slot>, resource: &[u8], options: &LockOptions) {
        match self.driver().begin_acquire(resource, options) {
            Ok(round) => self.open(slot, round),
            Err(error) => self.settle(slot, Outcome::Acquired(Err(error))),
        }
    }

    /// `lock` is the lock of `of`, or a copy of it, and knows its id. Without a `ttl` it is only
    /// confirmed.
    pub(super) fn extend(
        &mut self,
        slot: &Arc<Slot>,
        of: &Slot,
        lock: &Lock,
        ttl: Option<Duration>,
    ) {
        let begun = match of.watch.is_told() {
            true => Err(ExtendError::Expired),
            false => self.driver().begin_extend(lock, ttl),
        };
        match begun {
            Ok(round) => self.open(slot, round),
            Err(error) => self.settle(slot, Outcome::Extended(Err(error))),
        }
    }

    pub(super) fn release(&mut self, slot: &Arc<Slot>, lock: Lock) {
        let lock = identified(lock, slot);
        self.forget(lock.id());
        let round = self.driver().begin_release(lock);
        self.open(slot, round);
    }

    pub(super) fn reinit(&mut self, slot: &Arc<Slot>) {
        match self.driver().begin_reinit() {
            Ok(round) => self.open(slot, round),
            Err(error) => self.settle(slot, Outcome::Reinitialised(Err(error))),
        }
    }

    pub(super) fn give_back(&mut self, slot: &Slot, lock: Lock) {
        let lock = identified(lock, slot);
        self.forget(lock.id());
        self.driver().let_go(lock);
        self.dirty = true;
    }

    pub(super) fn detach(&mut self, slot: &Slot, lock: Lock) -> Lock {
        let lock = identified(lock, slot);
        self.forget(lock.id());
        self.dirty = true;
        self.driver().hand_over(lock)
    }

    pub(super) fn adopt(&mut self, slot: &Arc<Slot>, lock: Lock) -> Lock {
        let lock = self.driver().take_in(lock);
        slot.watch.set_id(lock.id());
        self.watch(slot, &lock);
        lock
    }

    /// Calls off the call of `slot`, which nobody waits for any more.
    pub(super) fn cancel(&mut self, slot: &Slot) {
        if let Some(round) = slot.abandoned_round()
            && self.calls.take(round).is_some()
        {
            self.driver().call_off(round);
            self.dirty = true;
        }
    }

    fn open(&mut self, slot: &Arc<Slot>, round: RoundId) {
        slot.open(round);
        self.calls.put(round, Arc::clone(slot));
        self.dirty = true;
    }

    fn watch(&mut self, slot: &Arc<Slot>, lock: &Lock) {
        slot.watch.lasts(lock.valid_until());
        self.locks.put(lock.id(), Arc::clone(slot));
    }

    fn forget(&mut self, lock: LockId) {
        self.locks.take(lock);
    }

    // ----- what becomes of it ---------------------------------------------------------------

    /// Delivers what the engine has decided, and writes what was asked of it and what that leads
    /// to.
    pub(super) fn settle_all(&mut self) {
        loop {
            while let Some(event) = self.driver().poll_event() {
                self.tell(event);
            }
            if !core::mem::take(&mut self.dirty) {
                break;
            }
            self.driver().write();
        }
    }

    /// Reads the answers that are there, if a node has many to give: for a drop, behind which the
    /// program may end.
    ///
    /// The kernel resets a connection that is closed with answers unread. A server that is then
    /// about to write another answer fails, and drops what it has not read yet: the release. With
    /// two commands under way this cannot happen, because at most one answer is unread.
    pub(super) fn catch_up(&mut self) {
        if 2 < self.driver().engine().most_in_flight() {
            // That waiting failed shows again in the next turn.
            let _ = self.driver().read();
            self.settle_all();
        }
    }

    fn tell(&mut self, event: Event) {
        match event {
            Event::Acquired { round, result } => self.acquired(round, result),
            Event::Extended { round, result } => {
                if let Ok(extension) = &result
                    && let Some(slot) = self.locks.get(extension.lock)
                {
                    match extension.exact {
                        true => slot.watch.ends(extension.valid_until()),
                        false => slot.watch.lasts(extension.valid_until()),
                    }
                }
                self.settle_round(round, Outcome::Extended(result));
            }
            Event::Released { round, result } => {
                self.settle_round(round, Outcome::Released(result));
            }
            Event::Reinitialised { round, result } => {
                self.settle_round(round, Outcome::Reinitialised(result));
            }
            Event::Expired { lock } => {
                if let Some(slot) = self.locks.take(lock) {
                    slot.watch.lose(&mut self.wakers);
                }
            }
        }
    }

    // A call stays in its table until its outcome is delivered: if the engine panics in between, it
    // is known.
    fn acquired(&mut self, round: RoundId, result: Result<Lock, LockError>) {
        let Some(slot) = self.calls.get(round).map(Arc::clone) else {
            if let Ok(lock) = result {
                self.driver().let_go(lock);
                self.dirty = true;
            }
            return;
        };
        let grant = result.map(|lock| {
            self.watch(&slot, &lock);
            let granted = self.driver().engine().granted(&lock);
            Grant { lock, granted }
        });
        self.settle(&slot, Outcome::Acquired(grant));
        self.calls.take(round);
    }

    fn settle_round(&mut self, round: RoundId, outcome: Outcome) {
        if let Some(slot) = self.calls.take(round) {
            self.settle(&slot, outcome);
        }
    }

    fn settle(&mut self, slot: &Slot, outcome: Outcome) {
        match slot.settle(outcome) {
            Settled::Told(waker) => self.wakers.extend(waker),
            Settled::Unwanted(Outcome::Acquired(Ok(grant))) => self.give_back(slot, grant.lock),
            Settled::Unwanted(_) => {}
        }
    }

    /// The engine is broken: everybody who waits is told so.
    pub(super) fn close(&mut self) {
        let letters = self
            .letters
            .drain(..)
            .map(|letter| Arc::clone(letter.slot()));
        for slot in self.calls.drain().chain(letters).chain(self.reading.take()) {
            if let Settled::Told(waker) = slot.settle(Outcome::Closed) {
                self.wakers.extend(waker);
            }
        }
        for slot in self.locks.drain() {
            slot.watch.lose(&mut self.wakers);
        }
    }
}

/// A lock that was adopted while the engine was busy learns its id later than its guard was made.
pub(super) fn identify(lock: &mut Lock, slot: &Slot) {
    if lock.id() == LockId::NONE {
        lock.set_id(slot.watch.id());
    }
}

fn identified(mut lock: Lock, slot: &Slot) -> Lock {
    identify(&mut lock, slot);
    lock
}

/// What the engine gives a small index, beside a key that it never gives again.
trait Place: Copy + Eq {
    fn place(self) -> usize;
}

impl Place for RoundId {
    fn place(self) -> usize {
        self.index()
    }
}

impl Place for LockId {
    fn place(self) -> usize {
        // The lower half of a claim's key is its index.
        self.claim as u32 as usize
    }
}

/// Slots by places. Grows to as many as are ever open at once.
#[derive(Debug)]
struct Table<K> {
    slots: Vec<Option<(K, Arc<Slot>)>>,
    len: usize,
}

impl<K: Place> Table<K> {
    const fn new() -> Self {
        Self {
            slots: Vec::new(),
            len: 0,
        }
    }

    fn put(&mut self, key: K, slot: Arc<Slot>) {
        let place = key.place();
        if self.slots.len() <= place {
            self.slots.resize(place + 1, None);
        }
        if self.slots[place].replace((key, slot)).is_none() {
            self.len += 1;
        }
    }

    fn get(&self, key: K) -> Option<&Arc<Slot>> {
        match self.slots.get(key.place()) {
            Some(Some((known, slot))) if *known == key => Some(slot),
            _ => None,
        }
    }

    fn take(&mut self, key: K) -> Option<Arc<Slot>> {
        self.get(key)?;
        self.len -= 1;
        let (_, slot) = self.slots[key.place()].take()?;
        Some(slot)
    }

    fn drain(&mut self) -> impl Iterator<Item = Arc<Slot>> {
        self.len = 0;
        self.slots.drain(..).flatten().map(|(_, slot)| slot)
    }
}
