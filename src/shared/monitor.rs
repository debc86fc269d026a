//! A value under a mutex, and the threads that wait for it to change.
//!
//! A poisoned mutex is ignored, because no panic can leave the value half changed.

use core::time::Duration;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Monitor<T> {
    value: Mutex<T>,
    changed: Condvar,
}

impl<T> Monitor<T> {
    pub(super) const fn new(value: T) -> Self {
        Self {
            value: Mutex::new(value),
            changed: Condvar::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the value if no other thread has locked it.
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.value.try_lock() {
            Ok(value) => Some(value),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(super) fn wake_one(&self) {
        self.changed.notify_one();
    }

    pub(super) fn wake_all(&self) {
        self.changed.notify_all();
    }

    /// Waits until the thread is woken, or until `limit` has passed. May also return spuriously. A wait without a limit
    /// costs less than a wait with a limit.
    pub(super) fn wait<'a>(
        &self,
        value: MutexGuard<'a, T>,
        limit: Option<Duration>,
    ) -> MutexGuard<'a, T> {
        let Some(limit) = limit else {
            let waited = self.changed.wait(value);
            return waited.unwrap_or_else(PoisonError::into_inner);
        };
        let waited = self.changed.wait_timeout(value, limit);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits while `condition` holds, for at most `limit`.
    pub(super) fn wait_while<'a>(
        &self,
        value: MutexGuard<'a, T>,
        limit: Duration,
        condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        let waited = self.changed.wait_timeout_while(value, limit, condition);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
