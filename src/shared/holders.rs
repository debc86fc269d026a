//! Locks that several clients may hold at once: the calls of users that take shared locks.

use core::time::Duration;

use super::held;
use super::notes::Wanted;
use super::{Acquiring, Redlock, SharedGuard};
use crate::config::LockOptions;
use crate::engine::Request;
use crate::error::LockError;
use crate::quorum::Lock;

impl Redlock {
    /// Takes a shared lock on `resource` for `ttl`. Any number of clients can hold a shared lock on a resource at the
    /// same time, but none of them while another client holds the [lock](Self::lock). If that is held, waits for it: at
    /// most 5 s, or as set by the handle's [`Retry`](crate::Retry).
    ///
    /// # Errors
    ///
    /// As [`lock_shared_with`](Self::lock_shared_with).
    pub fn lock_shared(
        &self,
        resource: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<SharedGuard, LockError> {
        self.lock_shared_with(resource, &LockOptions::new(ttl))
    }

    /// Takes a shared lock on `resource` for `ttl` if nobody holds the lock now, in one attempt.
    ///
    /// # Errors
    ///
    /// As [`lock_shared_with`](Self::lock_shared_with).
    pub fn try_lock_shared(
        &self,
        resource: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<SharedGuard, LockError> {
        self.lock_shared_with(resource, &LockOptions::new(ttl).tries(1))
    }

    /// Takes a shared lock on `resource`, a name of 1 to 1024 bytes of any value, with these `options`.
    ///
    /// Locks of [`lock`](Self::lock), also those of other libraries, keep it out and are kept out by it. While a client
    /// waits for the lock, new shared locks wait behind it. One that has waited long is let through, so that neither
    /// side waits for ever. See [`manual::holders`](crate::manual::holders).
    ///
    /// The nodes have to run scripts.
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
    /// As [`lock_with`](Self::lock_with). [`LockError::Invalid`] also if the handle uses no scripts.
    pub fn lock_shared_with(
        &self,
        resource: impl AsRef<[u8]>,
        options: &LockOptions,
    ) -> Result<SharedGuard, LockError> {
        self.acquire(&Request::shared(resource.as_ref(), options))
    }

    /// [`lock_shared`](Self::lock_shared) as a future, for any executor.
    pub fn lock_shared_async(
        &self,
        resource: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Acquiring<held::Shared> {
        self.lock_shared_with_async(resource, &LockOptions::new(ttl))
    }

    /// [`try_lock_shared`](Self::try_lock_shared) as a future, for any executor.
    pub fn try_lock_shared_async(
        &self,
        resource: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Acquiring<held::Shared> {
        self.lock_shared_with_async(resource, &LockOptions::new(ttl).tries(1))
    }

    /// [`lock_shared_with`](Self::lock_shared_with) as a future, for any executor. The wait in the options counts from
    /// the first poll.
    pub fn lock_shared_with_async(
        &self,
        resource: impl AsRef<[u8]>,
        options: &LockOptions,
    ) -> Acquiring<held::Shared> {
        let wanted = Wanted::Shared(resource.as_ref().to_vec());
        Acquiring::new(self.clone(), wanted, *options)
    }

    /// [`adopt`](Self::adopt) for a shared lock. A lock of another kind is lost at once, and released.
    pub fn adopt_shared(&self, lock: Lock) -> SharedGuard {
        self.adopt_as(lock)
    }
}
