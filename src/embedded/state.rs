//! What a node keeps between two commands.
//!
//! Not here: the clock, and the sessions of clients.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::flavour::{Flavour, Refused};
use super::keyspace::Keyspace;
use super::known::Scripts;
use super::tracking::Tracking;
use super::watches::Watches;

/// See the [module](self).
#[derive(Clone, Default)]
pub(super) struct State {
    pub(super) keyspace: Keyspace,
    pub(super) tracking: Tracking,
    pub(super) watches: Watches,
    pub(super) scripts: Scripts,
    pub(super) flavour: Flavour,
    /// Commands that are refused, in lower case.
    pub(super) refused: BTreeMap<String, Refused>,
    pub(super) password: Option<Vec<u8>>,
    pub(super) run_id: String,
    pub(super) replid: String,
}
