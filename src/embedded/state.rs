//! The state of a node between two commands.
//!
//! Not here: the clock, and the sessions of clients.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use super::flavour::{Flavour, Refused};
use super::keyspace::{Database, Keyspace, Millis};
use super::session::Session;
use super::tracking::Tracking;
use super::watches::Watches;

/// See the [module](self).
#[derive(Clone, Default)]
pub(super) struct State {
    pub(super) keyspace: Keyspace,
    pub(super) tracking: Tracking,
    pub(super) watches: Watches,
    /// The digests of the scripts that the node got since it started.
    pub(super) scripts: BTreeSet<&'static str>,
    pub(super) flavour: Flavour,
    /// The commands that the node refuses, in lower case.
    pub(super) refused: BTreeMap<String, Refused>,
    pub(super) password: Option<Vec<u8>>,
    pub(super) run_id: String,
    pub(super) replid: String,
}

impl State {
    /// Returns the database that the client has selected.
    pub(super) fn database<'a>(&'a mut self, session: &'a Session, now: Millis) -> Database<'a> {
        let databases = &mut self.keyspace.databases;
        Database {
            keys: databases.entry(session.database).or_default(),
            tracking: &mut self.tracking,
            watches: &mut self.watches,
            session,
            flavour: self.flavour,
            now,
        }
    }
}
