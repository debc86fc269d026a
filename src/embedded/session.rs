//! What a store knows of one connection.

use alloc::vec::Vec;

/// One client of a [`Store`](super::Store): its protocol, its database, whether it gave the
/// password. Made by [`Store::session`](super::Store::session).
#[derive(Clone, Debug)]
pub struct Session {
    pub(super) id: u64,
    pub(super) protocol: Protocol,
    pub(super) database: u32,
    pub(super) authenticated: bool,
    pub(super) name: Vec<u8>,
}

/// How replies are spelled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Protocol {
    Resp2,
    Resp3,
}

impl Session {
    pub(super) const fn new(id: u64) -> Self {
        Self {
            id,
            protocol: Protocol::Resp2,
            database: 0,
            authenticated: false,
            name: Vec::new(),
        }
    }
}
