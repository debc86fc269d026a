//! The state of a node between two commands.
//!
//! Not here: the clock, and the sessions of clients.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;

use super::flavour::{Flavour, Refused};
use super::keyspace::{Keys, Millis, Value};
use super::tracking::Tracking;
use super::watches::Watches;

/// See the [module](self).
#[derive(Clone, Default)]
pub(super) struct State {
    pub(super) databases: BTreeMap<u32, Keys>,
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
    /// Returns the value that `key` of the first database holds at `now`, without removing anything.
    pub(super) fn peek(&self, key: &[u8], now: Millis) -> Option<&Value> {
        let entry = self.databases.get(&0)?.get(key)?;
        (!entry.is_over(now)).then_some(&entry.value)
    }

    /// Removes every key whose time is over.
    pub(super) fn expire(&mut self, now: Millis) {
        for (database, keys) in &mut self.databases {
            keys.retain(|key, entry| {
                let over = entry.is_over(now);
                if over {
                    self.tracking.changed(key, None);
                    self.watches
                        .changed(|of, other| (of, other) == (*database, key));
                }
                !over
            });
        }
    }

    /// Ends the watches of the client. Returns `true` if none of its watched keys has changed. The end of a key is a
    /// change, also if nothing has read the key since.
    pub(super) fn end_watches(&mut self, client: u64, now: Millis) -> bool {
        let databases = &self.databases;
        self.watches.end(client, |database, key| {
            let entry = databases.get(&database).and_then(|keys| keys.get(key));
            entry.is_some_and(|entry| entry.is_over(now))
        })
    }

    /// Removes all keys.
    pub(super) fn flush(&mut self) {
        let databases = mem::take(&mut self.databases);
        self.watches.changed(|database, key| {
            databases
                .get(&database)
                .is_some_and(|keys| keys.contains_key(key))
        });
        self.tracking.flushed();
    }
}
