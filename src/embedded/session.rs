//! What a store knows of one connection.

use alloc::vec::Vec;

use super::queue::Queue;
use super::reply::Protocol;

/// One client of a `Store`: its protocol, its database, whether it gave the password, whether it is sent pushes. Made
/// by `Store::session` or `Store::session_of`.
#[derive(Clone, Debug)]
pub struct Session {
    pub(super) id: u64,
    /// The caller's number of its connection, for pushes.
    pub(super) connection: u64,
    pub(super) protocol: Protocol,
    pub(super) database: u32,
    pub(super) authenticated: bool,
    pub(super) name: Vec<u8>,
    /// `CLIENT TRACKING` is on.
    pub(super) tracking: bool,
    /// `CLIENT CACHING YES` was said, and no command since then was for it.
    pub(super) caching: bool,
    /// What it has said since `MULTI`.
    pub(super) queue: Option<Queue>,
}

impl Session {
    pub(super) const fn new(id: u64, connection: u64) -> Self {
        Self {
            id,
            connection,
            protocol: Protocol::Resp2,
            database: 0,
            authenticated: false,
            name: Vec::new(),
            tracking: false,
            caching: false,
            queue: None,
        }
    }
}
