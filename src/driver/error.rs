//! Why a handle could not be built.

use std::io;

use crate::error::ConfigError;

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
