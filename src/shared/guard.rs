//! A lock that is released when it goes out of scope.

use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use super::GRACE;
use super::Redlock;
use super::callers::Waiter;
use super::lost::Lost;
use super::reply::Reply;
use super::slot::{Outcome, Slot};
use crate::driver::{Refusal, clock};
use crate::engine::{Engine, Event, NotProlonged, RoundId, prolong};
use crate::error::{ConfirmError, ExtendError, Released, UnlockError};
use crate::quorum::{Lock, LockId};
use crate::resource::Token;
use crate::time::Instant;

/// A lock that is held, and released when it is dropped.
///
/// Dropping it writes the release to the nodes and does not wait for their answers; on any thread, in
/// a panic too. If another thread is at work for the handle, it writes the release, and the drop waits
/// the moment that takes: a program may end right after it and leaves no key. [`unlock`](Self::unlock) waits, and tells whether the lock was still held. In a forked
/// child dropping it does nothing: the lock is the parent's.
///
/// A guard is a handle as well: the connections live as long as it does.
#[must_use = "a guard that is dropped at once releases its lock at once"]
pub struct LockGuard {
    redlock: Redlock,
    slot: Arc<Slot>,
    /// `None` only while the guard goes.
    lock: Option<Lock>,
}

impl LockGuard {
    pub(super) fn new(redlock: Redlock, slot: Arc<Slot>, lock: Lock) -> Self {
        Self {
            redlock,
            slot,
            lock: Some(lock),
        }
    }

    /// Its resource, the Redis key: 1 to 1024 bytes of any value.
    #[must_use]
    pub fn resource(&self) -> &[u8] {
        self.lock().resource()
    }

    /// Its token, what the key holds on the nodes.
    #[must_use]
    pub fn token(&self) -> Token<'_> {
        self.lock().token()
    }

    /// From this instant on it must not be trusted, by the clock of this machine that also runs
    /// while it is suspended.
    #[must_use]
    pub fn valid_until(&self) -> Instant {
        self.lock().valid_until()
    }

    /// How long it may still be trusted; zero if no longer.
    #[must_use]
    pub fn validity(&self) -> Duration {
        match self.slot.watch.is_told() {
            true => Duration::ZERO,
            false => self.lock().validity(),
        }
    }

    /// Whether it may be trusted now.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.validity().is_zero()
    }

    /// The signal that it is lost: a future, and [`Lost::wait`] for threads.
    pub fn lost(&self) -> Lost {
        Lost::new(Arc::clone(&self.slot), self.redlock.shared().process())
    }

    /// Lets it last `ttl` from now, if that is later than it would end.
    ///
    /// # Errors
    ///
    /// [`ExtendError::Lost`] and [`ExtendError::Expired`]: it is over, and is not valid any more.
    /// All others leave it as it was: [`ExtendError::Unconfirmed`], [`ExtendError::Limit`],
    /// [`ExtendError::Invalid`], [`ExtendError::Saturated`], [`ExtendError::Forked`],
    /// [`ExtendError::Closed`].
    pub fn extend(&mut self, ttl: Duration) -> Result<(), ExtendError> {
        self.prolong(ttl, |engine, now, lock| engine.extend(now, lock, ttl))
    }

    /// The same for any executor. Dropped before it is done, it leaves open whether the lock lasts
    /// longer on the nodes; [`valid_until`](Self::valid_until) stays what it was.
    ///
    /// # Errors
    ///
    /// As [`extend`](Self::extend).
    pub async fn extend_async(&mut self, ttl: Duration) -> Result<(), ExtendError> {
        self.prolong_async(|engine, now, lock| engine.extend(now, lock, ttl))
            .await
    }

    /// Asks for how long a majority of the nodes keeps the lock, and lets it end then: the q-th
    /// largest of what they say is left, counted from before the question, less the drift. That may
    /// be later than was known, or earlier (somebody shortened its keys); the signal of
    /// [`lost`](Self::lost) follows. Nothing is changed on the nodes.
    ///
    /// So a lock that came from another clock ([`Lock::from_bytes`], [`Redlock::adopt`]), and was
    /// worth nothing, comes to life. What was told to be over is not revived: whoever held it has
    /// stopped. And no confirmation is worth more than the longest ttl that the handle knows of
    /// ([`Builder::max_ttl`](crate::Builder::max_ttl), or the longest asked for): a key that an
    /// operator made permanent has to be confirmed again.
    ///
    /// Costs one round trip to a majority. Where their answers would shorten the lock the others are
    /// waited for too, each for its node timeout. The nodes have to allow `EVAL`.
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
    /// Those of an extension, which it resembles in all but what it asks for. [`ConfirmError::Lost`]
    /// and [`ConfirmError::Expired`]: it is over, and is not valid any more. All others leave it as it
    /// was: [`ConfirmError::Unconfirmed`], [`ConfirmError::Saturated`], [`ConfirmError::Forked`],
    /// [`ConfirmError::Closed`]. A limit of extensions is not touched.
    pub fn confirm(&mut self) -> Result<(), ConfirmError> {
        self.prolong(Duration::ZERO, Engine::confirm)
    }

    /// The same for any executor. Dropped before it is done,
    /// [`valid_until`](Self::valid_until) stays what it was; if an earlier end was found by then,
    /// the loss is told at that.
    ///
    /// # Errors
    ///
    /// As [`confirm`](Self::confirm).
    pub async fn confirm_async(&mut self) -> Result<(), ConfirmError> {
        self.prolong_async(Engine::confirm).await
    }

    /// Asks about the lock, and waits on this thread for as long as is right for a lock of `ttl`.
    fn prolong<E: NotProlonged + From<Refusal>>(
        &mut self,
        ttl: Duration,
        ask: impl FnOnce(&mut Engine, Instant, &Lock) -> Result<RoundId, E>,
    ) -> Result<(), E> {
        let since = clock::now();
        let (lock, shared) = (self.lock(), self.redlock.shared());
        let patience = shared.patience(ttl.max(lock.ttl()));
        let mut until = since.saturating_add(patience);
        if lock.has_known_end() {
            until = until.min(lock.valid_until().saturating_add(GRACE));
        }
        shared.check_process()?;
        let slot = Arc::new(Slot::new());
        let outcome = match shared.enter_until(Some(until))? {
            Some(mut section) => {
                let ask = |engine: &mut Engine, now| ask(engine, now, lock);
                let round = section.prolong(&slot, Waiter::Thread, &self.slot, ask)?;
                shared.wait_for(section, &slot, round, Some(until))
            }
            None => None,
        };
        self.finish_prolong(outcome, since)
    }

    async fn prolong_async<E: NotProlonged + From<Refusal>>(
        &mut self,
        ask: impl FnOnce(&mut Engine, Instant, &Lock) -> Result<RoundId, E>,
    ) -> Result<(), E> {
        let since = clock::now();
        let reply = self.begin_prolong(ask)?;
        self.finish_prolong(Some(reply.await), since)
    }

    fn begin_prolong<E: From<ConfirmError> + From<Refusal>>(
        &self,
        ask: impl FnOnce(&mut Engine, Instant, &Lock) -> Result<RoundId, E>,
    ) -> Result<Reply, E> {
        let slot = Arc::new(Slot::new());
        let (lock, shared) = (self.lock(), self.redlock.shared());
        shared.check_process()?;
        let mut section = shared.enter()?;
        let ask = |engine: &mut Engine, now| ask(engine, now, lock);
        let round = section.prolong(&slot, Waiter::Task, &self.slot, ask)?;
        shared.begin_for_task(section);
        Ok(Reply::new(self.redlock.clone(), slot, round))
    }

    /// Releases it on every node that may hold it, and waits until a majority has answered.
    ///
    /// It waits for a node timeout at most: what [`Builder::node_timeout`](crate::Builder) fixed, or
    /// 5 to 50 ms by the ttl, or four round trips of a distant node.
    ///
    /// The releases are sent in any case. Those that nodes have not answered stay owed, and are
    /// paid for as long as the handle lives.
    ///
    /// # Errors
    ///
    /// [`UnlockError::NotHeld`]: what the lock protected may have overlapped with another holder.
    /// [`UnlockError::Unconfirmed`]: too few nodes answered. [`UnlockError::Forked`] and
    /// [`UnlockError::Closed`]: nothing was sent, and the keys end with their ttl.
    pub fn unlock(mut self) -> Result<Released, UnlockError> {
        let since = clock::now();
        let lock = self.lock.take().expect("it is held");
        let shared = self.redlock.shared();
        let until = since.saturating_add(shared.patience(lock.ttl()));
        shared.check_process()?;
        self.prepare_release();
        // It is never given up: the release has to be asked for, also if that takes longer.
        let mut section = shared.enter()?;
        let round = section.release(&self.slot, Waiter::Thread, lock);
        match shared.wait_for(section, &self.slot, round, Some(until)) {
            // The release is sent all the same. Only its outcome is not told.
            None => Err(UnlockError::Unconfirmed(shared.reporter.pending(since))),
            Some(outcome) => finish_unlock(outcome),
        }
    }

    /// The same for any executor. Dropped before it is done, it has released the lock all the same.
    ///
    /// # Errors
    ///
    /// As [`unlock`](Self::unlock).
    pub async fn unlock_async(mut self) -> Result<Released, UnlockError> {
        let round = self.begin_unlock()?;
        let reply = Reply::new(self.redlock.clone(), Arc::clone(&self.slot), round);
        finish_unlock(reply.await)
    }

    /// Takes the lock out of the guard, and out of the care of its handle: it is not released when
    /// it is dropped, and its loss is not told. For another handle
    /// ([`Redlock::adopt`]), or another process ([`Lock::to_bytes`]).
    ///
    /// It stands on the nodes that have answered. Behind each of its `SET`s that is still
    /// unanswered a release is sent at once, because a release on another connection would have no
    /// order against it.
    #[must_use = "a lock that is not released stays on the nodes until its ttl has passed"]
    pub fn into_lock(mut self) -> Lock {
        let mut lock = self.lock.take().expect("it is taken once");
        let shared = self.redlock.shared();
        if shared.is_foreign() {
            return lock;
        }
        self.slot.watch.release();
        if let Ok(mut section) = shared.enter() {
            lock = section.detach(lock);
            shared.see_written(section);
        }
        lock.set_id(LockId::NONE);
        lock
    }

    /// `since` is when it was asked for.
    fn finish_prolong<E: NotProlonged>(
        &mut self,
        outcome: Option<Outcome>,
        since: Instant,
    ) -> Result<(), E> {
        let lock = self.lock.as_mut().expect("it is held");
        let unknown = match outcome {
            Some(Outcome::Event(event)) => {
                prolong::<E>(lock, event, clock::now)?;
                match self.is_valid() {
                    true => return Ok(()),
                    false => ConfirmError::Expired,
                }
            }
            // No outcome in time, by the clock of this thread. The lock is as it was.
            None if lock.is_valid() || !lock.has_known_end() => {
                ConfirmError::Unconfirmed(self.redlock.shared().reporter.pending(since))
            }
            None => ConfirmError::Expired,
            Some(Outcome::Closed) => ConfirmError::Closed,
            Some(Outcome::Forked) => ConfirmError::Forked,
            Some(other) => unreachable!("the outcome of an extension, not {other:?}"),
        };
        Err(unknown.into())
    }

    fn begin_unlock(&mut self) -> Result<RoundId, UnlockError> {
        let lock = self.lock.take().expect("it is held");
        let shared = self.redlock.shared();
        shared.check_process()?;
        self.prepare_release();
        let mut section = shared.enter()?;
        let round = section.release(&self.slot, Waiter::Task, lock);
        shared.begin_for_task(section);
        Ok(round)
    }

    fn prepare_release(&self) {
        self.slot.renew();
        self.slot.watch.release();
    }

    fn lock(&self) -> &Lock {
        self.lock.as_ref().expect("it is held until the guard goes")
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if let Some(lock) = self.lock.take()
            && !self.redlock.shared().is_foreign()
        {
            self.redlock.shared().give_back(&self.slot, lock);
        }
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LockGuard").field(&self.lock).finish()
    }
}

fn finish_unlock(outcome: Outcome) -> Result<Released, UnlockError> {
    match outcome {
        Outcome::Event(Event::Released { result, .. }) => result,
        Outcome::Closed => Err(UnlockError::Closed),
        Outcome::Forked => Err(UnlockError::Forked),
        other @ (Outcome::Acquired(_) | Outcome::Event(_)) => {
            unreachable!("the outcome of a release, not {other:?}")
        }
    }
}
