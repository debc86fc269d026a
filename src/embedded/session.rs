//! The state of one connection in a store.

use alloc::vec::Vec;
use core::fmt;

/// A client of a `Store`: its protocol, its database, whether it has logged in, and whether it gets pushes.
/// `Store::session` and `Store::session_of` create sessions.
#[derive(Clone, Debug, Default)]
pub struct Session {
    pub(super) id: u64,
    /// `true` if the client uses RESP3.
    pub(super) resp3: bool,
    pub(super) database: u32,
    pub(super) authenticated: bool,
    /// `true` if `CLIENT TRACKING` is on.
    pub(super) tracking: bool,
    /// `true` if the client has sent `CLIENT CACHING YES`, but not yet the command to which it applies.
    pub(super) caching: bool,
    /// The commands that the client has sent since `MULTI`.
    pub(super) queue: Option<Queue>,
}

/// The commands of a client since `MULTI`.
#[derive(Clone, Default)]
pub(super) struct Queue {
    pub(super) commands: Vec<Vec<Vec<u8>>>,
    /// `true` if a command for the queue was refused.
    pub(super) spoiled: bool,
}

/// Prints no words, because some of them are tokens.
impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queue({})", self.commands.len())
    }
}
