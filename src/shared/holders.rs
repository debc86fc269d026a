//! The calls that take shared locks and permits, which several clients may hold at the same time.

use core::time::Duration;

use super::held;
use super::notes::Wanted;
use super::{Acquiring, PermitGuard, Redlock, SharedGuard};
use crate::config::LockOptions;
use crate::engine::Request;
use crate::error::LockError;
use crate::quorum::Lock;

impl Redlock {
    /// Takes a shared lock on `resource` for `ttl`. Any number of clients can hold a shared lock on a resource at the
    /// same time, unless another client holds the exclusive [lock](Self::lock). If a client holds the exclusive lock,
    /// waits until the lock is free, by default for at most 5 s: see [`Retry`](crate::Retry).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`lock_shared_with`](Self::lock_shared_with).
    pub fn lock_shared(
        &self,
        resource: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<SharedGuard, LockError> {
        self.lock_shared_with(resource, &LockOptions::new(ttl))
    }

    /// Takes a shared lock on `resource` for `ttl` if no client holds the exclusive lock now, in one attempt.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`lock_shared_with`](Self::lock_shared_with).
    pub fn try_lock_shared(
        &self,
        resource: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<SharedGuard, LockError> {
        self.lock_shared_with(resource, &LockOptions::new(ttl).tries(1))
    }

    /// Takes a shared lock on `resource`, a name of 1 to 1024 arbitrary bytes, with these `options`.
    ///
    /// A shared lock and an exclusive [`lock`](Self::lock) exclude each other, even if another library took the
    /// exclusive lock. While a client waits for the exclusive lock, new callers of the shared lock wait behind that
    /// client. A caller that has waited about two seconds for a shared lock may overtake the waiting
    /// writer. [`manual::holders`](crate::manual::holders) describes the consequences for writers.
    ///
    /// The nodes must allow scripts.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use shearline::Redlock;
    ///
    /// let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
    /// let ttl = Duration::from_secs(10);
    /// let reading = redlock.lock_shared("document:7", ttl)?; // Beside other readers.
    /// reading.unlock()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`lock_with`](Self::lock_with). Also returns [`LockError::Invalid`] if the handle
    /// uses no scripts.
    pub fn lock_shared_with(
        &self,
        resource: impl AsRef<[u8]>,
        options: &LockOptions,
    ) -> Result<SharedGuard, LockError> {
        self.acquire(&Request::shared(resource.as_ref(), options))
    }

    /// Like [`lock_shared`](Self::lock_shared), but returns a future for any executor.
    pub fn lock_shared_async(
        &self,
        resource: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Acquiring<held::Shared> {
        self.lock_shared_with_async(resource, &LockOptions::new(ttl))
    }

    /// Like [`try_lock_shared`](Self::try_lock_shared), but returns a future for any executor.
    pub fn try_lock_shared_async(
        &self,
        resource: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Acquiring<held::Shared> {
        self.lock_shared_with_async(resource, &LockOptions::new(ttl).tries(1))
    }

    /// Like [`lock_shared_with`](Self::lock_shared_with), but returns a future for any executor. The time limit in the
    /// options counts from the first poll.
    pub fn lock_shared_with_async(
        &self,
        resource: impl AsRef<[u8]>,
        options: &LockOptions,
    ) -> Acquiring<held::Shared> {
        let wanted = Wanted::Shared(resource.as_ref().to_vec());
        Acquiring::new(self.clone(), wanted, *options)
    }

    /// Takes one of the `permits` for `resource`, and holds the permit for `ttl`. At most `permits` clients hold a
    /// permit at the same time. If no permit is free, waits for a permit, by default for at most 5 s:
    /// see [`Retry`](crate::Retry).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`permit_with`](Self::permit_with).
    pub fn permit(
        &self,
        resource: impl AsRef<[u8]>,
        permits: u16,
        ttl: Duration,
    ) -> Result<PermitGuard, LockError> {
        self.permit_with(resource, permits, &LockOptions::new(ttl))
    }

    /// Takes one of the `permits` (1 to 1024) for `resource`, a name of 1 to 1024 arbitrary bytes, with these
    /// `options`.
    ///
    /// The permits are numbered, and no two clients hold the same number at the same time: see [`PermitGuard::slot`].
    /// All clients of a resource must pass the same number of `permits`. While a client holds a lock on
    /// the resource, no client gets a permit. While a client holds a permit, no client gets the lock.
    /// See [`manual::holders`](crate::manual::holders).
    ///
    /// The nodes must allow scripts.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use shearline::{LockOptions, Redlock};
    ///
    /// let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
    /// let kept = LockOptions::new(Duration::from_secs(10)).keep();
    /// let permit = redlock.permit_with("gpu", 4, &kept)?;
    /// println!("on GPU {}", permit.slot()); // 0 to 3: it is ours alone.
    /// permit.unlock()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`lock_with`](Self::lock_with). Also returns [`LockError::Held`] if
    /// clients hold permits that they took with another number of `permits`. The report shows that number
    /// in [`NodeOutcome::OtherPermits`](crate::NodeOutcome::OtherPermits). Also returns [`LockError::Invalid`] if the
    /// handle uses no scripts, and for 0 permits or more than 1024.
    pub fn permit_with(
        &self,
        resource: impl AsRef<[u8]>,
        permits: u16,
        options: &LockOptions,
    ) -> Result<PermitGuard, LockError> {
        self.acquire(&Request::permit(resource.as_ref(), permits, options))
    }

    /// Like [`permit`](Self::permit), but returns a future for any executor.
    pub fn permit_async(
        &self,
        resource: impl AsRef<[u8]>,
        permits: u16,
        ttl: Duration,
    ) -> Acquiring<held::Permit> {
        self.permit_with_async(resource, permits, &LockOptions::new(ttl))
    }

    /// Takes one of the `permits` for `resource` if one is free now, in one attempt.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`permit_with`](Self::permit_with).
    pub fn try_permit(
        &self,
        resource: impl AsRef<[u8]>,
        permits: u16,
        ttl: Duration,
    ) -> Result<PermitGuard, LockError> {
        self.permit_with(resource, permits, &LockOptions::new(ttl).tries(1))
    }

    /// Like [`permit_with`](Self::permit_with), but returns a future for any executor. The time limit in the options
    /// counts from the first poll.
    pub fn permit_with_async(
        &self,
        resource: impl AsRef<[u8]>,
        permits: u16,
        options: &LockOptions,
    ) -> Acquiring<held::Permit> {
        let wanted = Wanted::Permit(resource.as_ref().to_vec(), permits);
        Acquiring::new(self.clone(), wanted, *options)
    }

    /// Like [`adopt`](Self::adopt), but for a shared lock. If the lock is of another kind, the guard reports the lock
    /// as lost immediately, and releases the lock when dropped.
    pub fn adopt_shared(&self, lock: Lock) -> SharedGuard {
        self.adopt_as(lock)
    }

    /// Like [`adopt`](Self::adopt), but for a permit. If the lock is of another kind, the guard reports the lock as
    /// lost immediately, and releases the lock when dropped.
    pub fn adopt_permit(&self, lock: Lock) -> PermitGuard {
        self.adopt_as(lock)
    }
}
