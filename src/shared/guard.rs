//! A lock that is released when it goes out of scope.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::{Future, poll_fn};
use core::marker::PhantomData;
use core::pin::{Pin, pin};
use core::task::Poll;
use core::time::Duration;

use super::GRACE;
use super::Redlock;
use super::at_risk::{AtRisk, Health, early};
use super::callers::WaitsAs;
use super::held::{self, Holds};
use super::lost::{LockLost, Lost};
use super::notes::{Asked, Note};
use super::serve::{Times, Wait};
use super::signal::Signal;
use super::slot::Slot;
use crate::calls::{self, Awaited};
use crate::clock;
use crate::engine::{Engine, RoundId};
use crate::error::{ExtendError, Released, RequestFault, UnlockError};
use crate::quorum::{Lock, LockId};
use crate::resource::Token;
use crate::time::Instant;
use crate::trace::{Operation, Tracer};

/// A held lock: see [`Guard`].
pub type LockGuard = Guard<held::Exclusive>;

/// A held shared lock: see [`Guard`].
pub type SharedGuard = Guard<held::Shared>;

/// A held permit: see [`Guard`].
pub type PermitGuard = Guard<held::Permit>;

/// A held [lock](LockGuard), [shared lock](SharedGuard), [permit](PermitGuard) or [term](crate::Leadership) of a
/// leader. Dropping the guard releases the lock.
///
/// The drop writes the release to the nodes, and does not wait for their answers. A guard may be dropped on any thread,
/// and during a panic. When the drop returns, the release is written, so the program may end immediately. If another
/// thread is writing for the handle, the drop waits until that thread has written the release.
/// Call [`unlock`](Self::unlock) to wait for the answers, and to learn whether the lock was still held. In a forked
/// child the drop does nothing, because the lock belongs to the parent.
///
/// A guard counts as a handle: it keeps the connections open.
#[must_use = "a guard that is dropped at once releases its lock at once"]
pub struct Guard<H: Holds> {
    redlock: Redlock,
    /// The slot of the lock, or `None` if the lock is kept.
    slot: Option<Arc<Slot>>,
    /// The lock, or `None` inside a method that consumes the guard.
    lock: Option<Lock>,
    holds: PhantomData<fn() -> H>,
}

impl<H: Holds> Guard<H> {
    pub(super) fn new(redlock: Redlock, slot: Arc<Slot>, lock: Lock) -> Self {
        Self {
            redlock,
            slot: (!lock.is_kept()).then_some(slot),
            lock: Some(lock),
            holds: PhantomData,
        }
    }

    /// Returns the locked resource, which is the Redis key: 1 to 1024 arbitrary bytes. For a lock on
    /// several [resources](Self::resources), returns the first resource.
    #[must_use]
    pub fn resource(&self) -> &[u8] {
        self.lock().resource()
    }

    /// Returns all resources of the lock, in the order that was passed to [`Redlock::lock_all`]. For a lock on one
    /// resource, returns only this resource.
    pub fn resources(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.lock().resources()
    }

    /// Returns the token, which is the value of the key on the nodes.
    #[must_use]
    pub fn token(&self) -> Token<'_> {
        self.lock().token()
    }

    /// Returns the fencing token of the lock, if its options were [`fenced`](crate::LockOptions::fenced).
    /// See [`Lock::fencing_token`](crate::Lock::fencing_token).
    #[must_use]
    pub fn fencing_token(&self) -> Option<u64> {
        self.lock().fencing_token()
    }

    /// Returns when the validity of the lock ends, by a clock that also runs while the machine is suspended. Do not
    /// trust the lock after this time.
    #[must_use]
    pub fn valid_until(&self) -> Instant {
        self.lock().valid_until()
    }

    /// Returns how much longer the lock is valid. Returns zero if the lock is not valid.
    #[must_use]
    pub fn validity(&self) -> Duration {
        match self.is_reported() {
            true => Duration::ZERO,
            false => self.lock().validity(),
        }
    }

    /// Returns `true` if the lock is valid now.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.validity().is_zero()
    }

    /// Returns a future that completes when the lock is lost. Threads can call [`Lost::wait`].
    pub fn lost(&self) -> Lost {
        Lost(self.signal(Duration::ZERO))
    }

    /// Runs `future` while the lock is held. If the lock is [lost](Self::lost) first, drops the future, which stops at
    /// its current `.await`.
    ///
    /// Afterwards, call [`unlock_async`](Self::unlock_async) to check that the lock was held throughout.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use shearline::{LockOptions, Redlock};
    /// # async fn write_report() {}
    /// # async fn program(redlock: &Redlock) -> Result<(), Box<dyn std::error::Error>> {
    /// let kept = LockOptions::new(Duration::from_secs(10)).keep();
    /// let guard = redlock.lock_with_async("report", &kept).await?;
    /// guard.while_held(write_report()).await?;
    /// guard.unlock_async().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`LockLost`] if the lock was lost before the future completed.
    pub async fn while_held<F: Future>(&self, future: F) -> Result<F::Output, LockLost> {
        let (mut lost, mut future) = (self.lost(), pin!(future));
        let held = poll_fn(|context| match Pin::new(&mut lost).poll(context) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => future.as_mut().poll(context).map(Some),
        });
        let lost = || LockLost(self.resource().into());
        held.await.ok_or_else(lost)
    }

    /// Returns a future that completes when less than a quarter of the ttl is left. Threads can
    /// call [`AtRisk::wait`]. [`AtRisk::below`] sets another limit.
    pub fn at_risk(&self) -> AtRisk {
        AtRisk(self.signal(early(self.lock().shortest_ttl() / 4)))
    }

    /// Returns the current state of the lock: how much longer it is valid, which nodes have confirmed it, and the
    /// results of its extensions if it is [kept](crate::LockOptions::keep). Sends nothing. In a forked child the state
    /// is empty.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use shearline::{LockOptions, Redlock};
    /// # let redlock = Redlock::connect(["redis://10.0.0.1"])?;
    /// let kept = LockOptions::new(Duration::from_secs(10)).keep();
    /// let guard = redlock.lock_with("report", &kept)?;
    /// let health = guard.health();
    /// if health.failures != 0 {
    ///     println!("{:?} left; {:?}", health.validity, health.last_report);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn health(&self) -> Health {
        let mut health = Health {
            validity: Duration::ZERO,
            confirmed_by: Vec::new(),
            failures: 0,
            last_report: None,
        };
        let shared = self.redlock.shared();
        if shared.is_foreign() {
            return health;
        }
        health.validity = self.validity();
        let mut slot = self.slot.clone();
        if let Ok(section) = shared.enter() {
            if !health.validity.is_zero() {
                health.confirmed_by = section.engine.confirmed_by(clock::now(), self.lock());
            }
            slot = slot.or_else(|| section.callers.locks.get(self.lock().id()).cloned());
        }
        if let Some(slot) = slot {
            (health.failures, health.last_report) = slot.tenure.failures();
        }
        health
    }

    /// Extends the lock, so that it lasts for `ttl` from now. Does not shorten a lock that already lasts longer.
    ///
    /// # Errors
    ///
    /// After [`ExtendError::Lost`] and [`ExtendError::Expired`] the lock is no longer valid. All other errors
    /// do not change the lock. The other errors are [`ExtendError::Unconfirmed`], [`ExtendError::Limit`]
    /// and [`ExtendError::Invalid`], and also [`ExtendError::Saturated`], [`ExtendError::Forked`]
    /// and [`ExtendError::Closed`].
    pub fn extend(&mut self, ttl: Duration) -> Result<(), ExtendError> {
        let operation = self.tracer().extend(self.lock(), ttl);
        self.prolong(operation, ttl, |engine, now, lock| {
            engine.extend(now, lock, ttl)
        })
    }

    /// Like [`extend`](Self::extend), but returns a future for any executor. If the future is dropped before a majority
    /// has answered, [`valid_until`](Self::valid_until) does not change, but the keys on the nodes may last longer.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`extend`](Self::extend).
    pub async fn extend_async(&mut self, ttl: Duration) -> Result<(), ExtendError> {
        let operation = self.tracer().extend(self.lock(), ttl);
        self.prolong_async(operation, |engine, now, lock| engine.extend(now, lock, ttl))
            .await
    }

    /// Makes the handle extend the lock automatically from now on, as
    /// with [`LockOptions::keep`](crate::LockOptions::keep). The handle extends the lock when half of its validity is
    /// left, by the longest ttl with which the lock was taken or extended. Use `keep` for an [adopted](Redlock::adopt)
    /// lock, or for a lock that was taken without that option. The call sends nothing. If the lock is already kept with
    /// a limit, the call removes the limit.
    ///
    /// The handle stops extending the lock when the lock is unlocked or lost, when the guard is dropped, and
    /// when [`into_lock`](Self::into_lock) is called.
    ///
    /// ```no_run
    /// # use shearline::{Lock, Redlock};
    /// # fn work() {}
    /// # fn program(redlock: &Redlock, bytes: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut guard = redlock.adopt(Lock::from_bytes(bytes)?); // Of the process before this one.
    /// guard.confirm()?; // Whether it is still held.
    /// guard.keep()?;
    /// work(); // For an hour, perhaps.
    /// guard.unlock()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`keep_for`](Self::keep_for).
    pub fn keep(&mut self) -> Result<(), ExtendError> {
        self.keep_for(Duration::MAX)
    }

    /// Like [`keep`](Self::keep), but keeps the lock for at most `most` from now.
    ///
    /// # Errors
    ///
    /// Returns [`ExtendError::Expired`] if the lock is not valid. A lock that another clock has measured must
    /// be [confirmed](Self::confirm) first. Returns [`ExtendError::Invalid`] if the ttl of the lock is longer than this
    /// handle allows. Also returns [`ExtendError::Limit`], [`ExtendError::Forked`] and [`ExtendError::Closed`]. An
    /// error does not change the lock.
    pub fn keep_for(&mut self, most: Duration) -> Result<(), ExtendError> {
        let shared = self.redlock.shared();
        shared.check_process()?;
        if self.is_reported() {
            return Err(self.over());
        }
        let lock = self.lock.as_mut().expect("it is held");
        let mut section = shared.enter()?;
        section.engine.keep(clock::now(), lock, most)
    }

    /// Asks the nodes for the remaining ttl of the lock, and computes the lock's new expiry from the answers of a
    /// majority. The new expiry may be earlier than before, for example if an operator shortened the ttl of the
    /// keys. [`lost`](Self::lost) then uses the new expiry. The call changes nothing on the nodes. If a majority needs
    /// q nodes, the new expiry is the time of the call plus the q-th largest remaining ttl, minus the [lock
    /// delay](crate::Builder::lock_delay) and the drift. If the remaining ttl is not longer than the delay plus the
    /// drift, the call returns [`ExtendError::Expired`].
    ///
    /// After a confirmation, a lock that another clock has measured ([`Lock::from_bytes`], [`Redlock::adopt`]) is
    /// valid. A confirmation does not revive a lock whose loss was reported, because the holder may have stopped. A
    /// confirmed lock is valid for at most the longest ttl of the handle
    /// ([`Builder::max_ttl`](crate::Builder::max_ttl), or the longest requested ttl). So if an operator has removed the
    /// expiry of the lock's keys, you must confirm the lock repeatedly.
    ///
    /// The call costs one round trip to a majority. If the first majority would shorten the lock, the call also waits
    /// for the other nodes, up to their node timeouts. The nodes must allow `EVAL`, unless the handle
    /// uses [`Builder::without_scripts`](crate::Builder::without_scripts).
    ///
    /// ```no_run
    /// # use shearline::{Lock, Redlock};
    /// # fn work_until_it_is_lost(_: &shearline::LockGuard) {}
    /// # fn program(redlock: &Redlock, bytes: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut lock = redlock.adopt(Lock::from_bytes(bytes)?); // Written before the last boot.
    /// lock.confirm()?;
    /// assert!(lock.is_valid());
    /// work_until_it_is_lost(&lock);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// After [`ExtendError::Lost`] and [`ExtendError::Expired`] the lock is no longer valid. The
    /// errors [`ExtendError::Unconfirmed`], [`ExtendError::Saturated`], [`ExtendError::Forked`]
    /// and [`ExtendError::Closed`] do not change the lock. Returns [`ExtendError::Invalid`] if the lock was adopted as
    /// another kind of lock. Confirmations do not count towards the limit of extensions.
    pub fn confirm(&mut self) -> Result<(), ExtendError> {
        let operation = self.tracer().confirm(self.lock());
        self.prolong(operation, Duration::ZERO, Engine::confirm)
    }

    /// Like [`confirm`](Self::confirm), but returns a future for any executor. If the future is dropped before a
    /// majority has answered, [`valid_until`](Self::valid_until) does not change.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`confirm`](Self::confirm).
    pub async fn confirm_async(&mut self) -> Result<(), ExtendError> {
        let operation = self.tracer().confirm(self.lock());
        self.prolong_async(operation, Engine::confirm).await
    }

    /// Extends or confirms the lock. Waits for the answers, for at most [`Shared::patience`](super::Shared::patience).
    fn prolong(
        &mut self,
        operation: Operation,
        ttl: Duration,
        ask: impl FnOnce(&mut Engine, Instant, &Lock) -> Result<RoundId, ExtendError>,
    ) -> Result<(), ExtendError> {
        operation.run(|operation| {
            let (lock, shared) = (self.lock(), self.redlock.shared());
            let known = lock.valid_until();
            let mut wait = shared.patience(ttl.max(lock.ttl()));
            if lock.has_known_end() {
                wait = wait.min(lock.validity().saturating_add(GRACE));
            }
            let ask = |engine: &mut Engine, now| self.ask(engine, now, ask);
            let outcome = shared.run(&Arc::default(), Times::now(Wait::Deadline(wait)), ask)?;
            if outcome.is_err() && self.lock().valid_until() != known && self.is_valid() {
                return Ok(()); // A majority has confirmed the new end, so the missing outcome is no failure.
            }
            self.finish_prolong(operation, outcome)
        })
    }

    async fn prolong_async(
        &mut self,
        operation: Operation,
        ask: impl FnOnce(&mut Engine, Instant, &Lock) -> Result<RoundId, ExtendError>,
    ) -> Result<(), ExtendError> {
        let ask = |engine: &mut Engine, now| self.ask(engine, now, ask);
        let outcome = Redlock::drive(&operation, || self.redlock.begin(ask)).await;
        operation.run(|operation| self.finish_prolong(operation, outcome?))
    }

    /// Begins an operation on the lock, unless the loss of the lock was reported.
    fn ask(
        &self,
        engine: &mut Engine,
        now: Instant,
        ask: impl FnOnce(&mut Engine, Instant, &Lock) -> Result<RoundId, ExtendError>,
    ) -> Result<RoundId, ExtendError> {
        match self.is_reported() {
            true => Err(self.over()),
            false => ask(engine, now, self.lock()),
        }
    }

    /// Returns the error for an extension of a lock whose loss was reported.
    fn over(&self) -> ExtendError {
        match H::is_of(self.lock()) {
            true => ExtendError::Expired,
            false => RequestFault::OtherKind.into(),
        }
    }

    /// Releases the lock on every node that may hold it, and waits until a majority has answered.
    ///
    /// The call waits for at most one node timeout: [`Builder::node_timeout`](crate::Builder), by default 5 to 50 ms
    /// depending on the ttl, or four round trips to a distant node.
    ///
    /// The handle always sends the releases, and repeats unanswered releases for as long as it lives.
    ///
    /// # Errors
    ///
    /// Returns [`UnlockError::NotHeld`] if another client may have held the lock during the critical section.
    /// Returns [`UnlockError::Unconfirmed`] if too few nodes answered in time, as may happen on a busy machine. If the
    /// lock was still valid when you called `unlock`, no other client has held the lock, and you need to do nothing
    /// ([`manual::outcomes`](crate::manual::outcomes)). With [`UnlockError::Forked`] and [`UnlockError::Closed`]
    /// nothing was sent, and the keys expire with their ttl.
    pub fn unlock(mut self) -> Result<Released, UnlockError> {
        let operation = self.tracer().release(self.lock());
        operation.run(|_| {
            let (lock, slot) = self.take_to_release();
            let shared = self.redlock.shared();
            let times = Times::now(Wait::Patience(shared.patience(lock.ttl())));
            // Waits for the mutex without a deadline, because the engine must receive the release.
            let note = Note::new(&slot, WaitsAs::Thread, Asked::Release(lock));
            let section = shared.ask(note)?;
            // The release is sent even if this wait times out.
            calls::released(shared.wait_for(section, &slot, times)?)
        })
    }

    /// Like [`unlock`](Self::unlock), but returns a future for any executor. Dropping the future before it completes
    /// does not stop the release.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`unlock`](Self::unlock).
    pub async fn unlock_async(mut self) -> Result<Released, UnlockError> {
        let operation = self.tracer().release(self.lock());
        let begin = || {
            let (lock, slot) = self.take_to_release();
            self.redlock.ask(slot, Asked::Release(lock))
        };
        let outcome = Redlock::drive(&operation, begin).await;
        operation.run(|_| calls::released(outcome?))
    }

    /// Detaches the lock from its handle, for another handle ([`Redlock::adopt`]) or another process
    /// ([`Lock::to_bytes`]). Dropping the returned lock does not release it, and the handle does not report a loss of
    /// the lock.
    ///
    /// The lock stays on the nodes that have answered. The handle immediately sends a release after each unanswered
    /// `SET`, because a release over another connection could overtake the `SET`.
    #[must_use = "a lock that is not released stays on the nodes until its ttl has passed"]
    pub fn into_lock(mut self) -> Lock {
        let mut lock = self.lock.take().expect("it is taken once");
        let shared = self.redlock.shared();
        if shared.is_foreign() {
            return lock;
        }
        if let Ok(mut section) = shared.enter() {
            lock = section.detach(lock);
            shared.see_written(section);
        }
        lock.set_id(LockId::NONE);
        lock
    }

    /// Applies the outcome of an extension or a confirmation.
    fn finish_prolong(
        &mut self,
        operation: &Operation,
        outcome: Awaited,
    ) -> Result<(), ExtendError> {
        let lock = self.lock.as_mut().expect("it is held");
        calls::prolonged(operation, lock, outcome)?;
        match self.is_valid() {
            true => Ok(()),
            false => Err(ExtendError::Expired),
        }
    }

    /// Takes the lock out of the guard. Returns the lock, and the slot for the outcome of its release.
    fn take_to_release(&mut self) -> (Lock, Arc<Slot>) {
        let lock = self.lock.take().expect("it is held");
        (lock, self.slot.take().unwrap_or_default())
    }

    fn tracer(&self) -> &Tracer {
        &self.redlock.shared().tracer
    }

    /// Returns a signal for the loss of the lock, or for the time when less than `early` is left.
    fn signal(&self, early: Duration) -> Signal {
        let shared = &self.redlock.handle.shared;
        let slot = match &self.slot {
            Some(slot) => Arc::clone(slot),
            None => match shared.enter_call() {
                Ok(mut section) => section.callers.slot_of_kept(self.lock()),
                Err(_) => Slot::of_lost(), // In a forked child the lock belongs to the parent.
            },
        };
        Signal::new(slot, shared, self.lock(), early)
    }

    fn is_reported(&self) -> bool {
        match &self.slot {
            Some(slot) => slot.tenure.is_reported(),
            None => self.lock().is_kept_and_over(),
        }
    }

    pub(crate) fn lock(&self) -> &Lock {
        self.lock.as_ref().expect("it is held until the guard goes")
    }
}

impl LockGuard {
    /// Turns the lock into a shared lock. Other readers may then take the lock, but no writer can take the lock in
    /// between. The shared lock expires when the exclusive lock would have expired, or some milliseconds earlier.
    /// A [kept](crate::LockOptions::keep) lock stays kept.
    ///
    /// The shared lock is valid even if too few nodes answer. A node that has not answered may refuse other readers
    /// until the lock is extended or confirmed.
    ///
    /// A shared lock cannot become exclusive again, because two readers that both want to write would wait for each
    /// other.
    ///
    /// # Errors
    ///
    /// If `downgrade` fails, the lock is released. Returns [`ExtendError::Lost`] or [`ExtendError::Expired`] if the
    /// lock was no longer valid. Returns [`ExtendError::Invalid`] if the lock is on several resources, or the handle
    /// uses no scripts. Also returns [`ExtendError::Saturated`], [`ExtendError::Forked`] and [`ExtendError::Closed`].
    pub fn downgrade(mut self) -> Result<SharedGuard, ExtendError> {
        let operation = self.tracer().confirm(self.lock());
        operation.run(|operation| {
            let lock = self.lock.as_mut().expect("it is held");
            let wait = lock.validity().saturating_add(GRACE);
            let ask = |engine: &mut Engine, now| engine.downgrade(now, lock);
            let shared = self.redlock.shared();
            let outcome = shared.run(&Arc::default(), Times::now(Wait::Deadline(wait)), ask)?;
            self.finish_downgrade(operation, outcome)
        })
    }

    /// Like [`downgrade`](Self::downgrade), but returns a future for any executor.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`downgrade`](Self::downgrade).
    pub async fn downgrade_async(mut self) -> Result<SharedGuard, ExtendError> {
        let operation = self.tracer().confirm(self.lock());
        let lock = self.lock.as_mut().expect("it is held");
        let ask = |engine: &mut Engine, now| engine.downgrade(now, lock);
        let outcome = Redlock::drive(&operation, || self.redlock.begin(ask)).await;
        operation.run(|operation| self.finish_downgrade(operation, outcome?))
    }

    fn finish_downgrade(
        mut self,
        operation: &Operation,
        outcome: Awaited,
    ) -> Result<SharedGuard, ExtendError> {
        match self.finish_prolong(operation, outcome) {
            Ok(()) => {}
            Err(ExtendError::Unconfirmed(_)) if self.is_valid() => {}
            Err(error) => return Err(error),
        }
        Ok(Guard {
            redlock: self.redlock.clone(),
            slot: self.slot.take(),
            lock: self.lock.take(),
            holds: PhantomData,
        })
    }
}

impl PermitGuard {
    /// Returns the number of the permit: from 0 to one less than the number of permits. No two clients hold a permit
    /// with the same number at the same time. Returns 0 if the guard was [adopted](Redlock::adopt_permit) from a lock
    /// of another kind.
    #[must_use]
    pub fn slot(&self) -> u16 {
        self.lock().slot().unwrap_or_default()
    }
}

#[cfg(feature = "tracing")]
impl<H: Holds> crate::trace::Success for Guard<H> {
    fn record(&self, span: &tracing::Span) {
        self.lock().record(span);
    }
}

impl<H: Holds> Drop for Guard<H> {
    fn drop(&mut self) {
        if let Some(lock) = self.lock.take()
            && !self.redlock.shared().is_foreign()
        {
            let operation = self.tracer().release(&lock);
            operation.drop_with(|| self.redlock.shared().give_back(lock));
        }
    }
}

impl<H: Holds> fmt::Debug for Guard<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(H::GUARD).field(&self.lock).finish()
    }
}
