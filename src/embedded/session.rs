//! The state of one connection in a store.

use alloc::vec::Vec;
use core::fmt;

/// One client of a `Store`: its protocol, its database, whether it gave the password, and whether it gets pushes.
/// `Store::session` or `Store::session_of` makes it.
#[derive(Clone, Debug, Default)]
pub struct Session {
    pub(super) id: u64,
    /// Whether it speaks RESP3.
    pub(super) resp3: bool,
    pub(super) database: u32,
    pub(super) authenticated: bool,
    /// Whether `CLIENT TRACKING` is on.
    pub(super) tracking: bool,
    /// Whether the client has sent `CLIENT CACHING YES` and no command to use it since.
    pub(super) caching: bool,
    /// The commands that the client has sent since `MULTI`.
    pub(super) queue: Option<Queue>,
}

/// The commands of a client since `MULTI`.
#[derive(Clone, Default)]
pub(super) struct Queue {
    pub(super) commands: Vec<Vec<Vec<u8>>>,
    /// Whether a command for the queue was refused.
    pub(super) spoiled: bool,
}

/// Shows no words, because some are tokens.
impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queue({})", self.commands.len())
    }
}
