//! What a store knows of one connection.

use alloc::vec::Vec;
use core::fmt;

use super::reply::Protocol;

/// One client of a `Store`: its protocol, its database, whether it gave the password, whether it is sent pushes. Made
/// by `Store::session` or `Store::session_of`.
#[derive(Clone, Debug, Default)]
pub struct Session {
    pub(super) id: u64,
    /// The caller's number of its connection, for pushes.
    pub(super) connection: u64,
    pub(super) protocol: Protocol,
    pub(super) database: u32,
    pub(super) authenticated: bool,
    /// `CLIENT TRACKING` is on.
    pub(super) tracking: bool,
    /// `CLIENT CACHING YES` was said, and no command since then was for it.
    pub(super) caching: bool,
    /// What it has said since `MULTI`.
    pub(super) queue: Option<Queue>,
}

/// The commands of a client since `MULTI`.
#[derive(Clone, Default)]
pub(super) struct Queue {
    pub(super) commands: Vec<Vec<Vec<u8>>>,
    /// Something that was to be run was refused.
    pub(super) spoiled: bool,
}

/// Without the words: there are tokens among them.
impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queue({})", self.commands.len())
    }
}
