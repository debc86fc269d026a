//! The outcome of work under a lock: [`Redlock::with_lock`](super::Redlock::with_lock).

use crate::error::{LockError, Released, UnlockError};

/// Why [`Redlock::with_lock`](crate::Redlock::with_lock) returns no value: the lock was not taken, or it was lost.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WithLockError {
    /// The lock was not taken, so the work did not run.
    #[error(transparent)]
    NotTaken(#[from] LockError),
    /// The work has run, but the lock was lost before the work ended, or may have been lost. The work may have
    /// overlapped with the work of another holder.
    #[error(transparent)]
    Lost(UnlockError),
}

impl WithLockError {
    /// Returns `true` if the work did not run because [another client holds the lock](LockError::is_held).
    #[must_use]
    pub const fn is_held(&self) -> bool {
        matches!(self, Self::NotTaken(error) if error.is_held())
    }

    /// Returns `true` if the work did not run but the same call [may succeed later](LockError::is_retryable).
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::NotTaken(error) if error.is_retryable())
    }

    /// Returns the `value` of the work, unless the lock was lost.
    pub(super) fn unless_lost<T>(
        value: T,
        unlocked: Result<Released, UnlockError>,
    ) -> Result<T, Self> {
        match unlocked {
            Err(error) if !error.is_harmless() => Err(Self::Lost(error)),
            Ok(_) | Err(_) => Ok(value),
        }
    }
}
