//! Why a handle could not be built, and why one does nothing any more.

use std::io;

use crate::error::{
    CheckError, ConfigError, ConfirmError, ExtendError, LockError, ReinitError, TrustError,
    UnlockError,
};

/// Why a handle could not be built. Nodes that cannot be reached are no reason: they are tried
/// again for as long as the handle lives.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The configuration has a mistake; nothing was sent.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The operating system refused what an event loop needs: a descriptor, or random bytes.
    #[error("no event loop could be made ({0}); look at the limit of open files (`ulimit -n`)")]
    Io(#[from] io::Error),
}

/// Why a driver does nothing any more.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    Forked,
    Closed,
}

impl From<Refusal> for LockError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Forked => Self::Forked,
            Refusal::Closed => Self::Closed,
        }
    }
}

impl From<Refusal> for ExtendError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Forked => Self::Forked,
            Refusal::Closed => Self::Closed,
        }
    }
}

impl From<Refusal> for ConfirmError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Forked => Self::Forked,
            Refusal::Closed => Self::Closed,
        }
    }
}

impl From<Refusal> for ReinitError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Forked => Self::Forked,
            Refusal::Closed => Self::Closed,
        }
    }
}

impl From<Refusal> for CheckError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Forked => Self::Forked,
            Refusal::Closed => Self::Closed,
        }
    }
}

impl From<Refusal> for TrustError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Forked => Self::Forked,
            Refusal::Closed => Self::Closed,
        }
    }
}

impl From<Refusal> for UnlockError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Forked => Self::Forked,
            Refusal::Closed => Self::Closed,
        }
    }
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        Self::other(LockError::from(refusal))
    }
}
