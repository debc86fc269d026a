//! Shared locks and permits for `LocalRedlock`, which several clients may hold at the same time.

use core::time::Duration;

use super::LocalRedlock;
use crate::calls;
use crate::config::LockOptions;
use crate::engine::{Engine, Request};
use crate::error::{ExtendError, LockError};
use crate::quorum::Lock;

impl LocalRedlock {
    /// Takes a shared lock on `resource` for `ttl`. If a client holds the exclusive lock, waits until the lock is free,
    /// by default for at most 5 s: see [`Retry`](crate::Retry).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`lock_shared_with`](Self::lock_shared_with).
    pub fn lock_shared(
        &mut self,
        resource: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<Lock, LockError> {
        self.lock_shared_with(resource, &LockOptions::new(ttl))
    }

    /// Takes a shared lock on `resource` for `ttl` if no client holds the exclusive lock now, in one attempt.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`lock_shared_with`](Self::lock_shared_with).
    pub fn try_lock_shared(
        &mut self,
        resource: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<Lock, LockError> {
        self.lock_shared_with(resource, &LockOptions::new(ttl).tries(1))
    }

    /// Takes a shared lock on `resource` with these `options`:
    /// see [`Redlock::lock_shared_with`](crate::Redlock::lock_shared_with).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`lock_with`](Self::lock_with). Also returns [`LockError::Invalid`] if the handle
    /// uses no scripts.
    pub fn lock_shared_with(
        &mut self,
        resource: impl AsRef<[u8]>,
        options: &LockOptions,
    ) -> Result<Lock, LockError> {
        self.acquire(&Request::shared(resource.as_ref(), options))
    }

    /// Takes one of the `permits` for `resource`, and holds the permit for `ttl`. If no permit is free, waits for a
    /// permit, by default for at most 5 s: see [`Retry`](crate::Retry).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`permit_with`](Self::permit_with).
    pub fn permit(
        &mut self,
        resource: impl AsRef<[u8]>,
        permits: u16,
        ttl: Duration,
    ) -> Result<Lock, LockError> {
        self.permit_with(resource, permits, &LockOptions::new(ttl))
    }

    /// Takes one of the `permits` (1 to 1024) for `resource` with these `options`. [`Lock::slot`] returns the number of
    /// the permit. See [`Redlock::permit_with`](crate::Redlock::permit_with).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Redlock::permit_with`](crate::Redlock::permit_with).
    pub fn permit_with(
        &mut self,
        resource: impl AsRef<[u8]>,
        permits: u16,
        options: &LockOptions,
    ) -> Result<Lock, LockError> {
        self.acquire(&Request::permit(resource.as_ref(), permits, options))
    }

    /// Takes one of the `permits` for `resource` if one is free now, in one attempt.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`permit_with`](Self::permit_with).
    pub fn try_permit(
        &mut self,
        resource: impl AsRef<[u8]>,
        permits: u16,
        ttl: Duration,
    ) -> Result<Lock, LockError> {
        self.permit_with(resource, permits, &LockOptions::new(ttl).tries(1))
    }

    /// Turns `lock` into a shared lock, without a gap: see [`LockGuard::downgrade`](crate::LockGuard::downgrade). If
    /// too few nodes answer, returns [`ExtendError::Unconfirmed`], but `lock` is a valid shared lock.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`extend`](Self::extend). The errors [`ExtendError::Invalid`]
    /// and [`ExtendError::Saturated`] do not change the lock.
    pub fn downgrade(&mut self, lock: &mut Lock) -> Result<(), ExtendError> {
        let operation = self.driver.tracer().confirm(lock);
        operation.run(|operation| {
            let outcome = self.ask(|engine: &mut Engine, now| engine.downgrade(now, lock))?;
            calls::prolonged(operation, lock, outcome)
        })
    }
}
