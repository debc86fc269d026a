//! The errors of building a handle, and the reasons why a handle refuses calls.

use std::io;

use crate::engine::operators::OperatorError;
use crate::error::{ConfigError, ExtendError, LockError, UnlockError};

/// Why a handle could not be built. An unreachable node is not an error, because the handle keeps trying to connect.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The configuration has a mistake, or names an unusable certificate or key. Nothing was sent.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The operating system did not provide a descriptor, a thread, or random bytes.
    #[error(
        "no event loop could be made ({0}); look at the limits of open files and of threads (`ulimit -n`, `ulimit -u`)"
    )]
    Io(#[source] io::Error),
}

impl From<io::Error> for BuildError {
    fn from(error: io::Error) -> Self {
        match error.downcast::<ConfigError>() {
            Ok(error) => Self::Config(error),
            Err(error) => Self::Io(error),
        }
    }
}

/// Why a handle refuses a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    /// The process is a forked child of the process that built the handle.
    Forked,
    /// The handle was closed, or its engine has panicked.
    Closed,
}

macro_rules! refusals {
    ($($error:ty),*) => {$(
        impl From<Refusal> for $error {
            fn from(refusal: Refusal) -> Self {
                match refusal {
                    Refusal::Forked => Self::Forked,
                    Refusal::Closed => Self::Closed,
                }
            }
        }
    )*};
}

refusals!(LockError, ExtendError, UnlockError, OperatorError);

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        Self::other(LockError::from(refusal))
    }
}
