//! Keys that clients watch (`WATCH`), and whose transactions are aborted by a change of one.
//!
//! A watch is for a key of one database, whether the key exists or not. It ends with `EXEC`, `DISCARD`, or with its
//! client. A change by the client's own command counts too. A key whose time is over when it is watched is removed
//! before that, so that its end is not a change.
//!
//! Not here: the commands, and the work of a transaction. They are in `transactions`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// See the [module](self). Clients are identified by the numbers that `HELLO` shows.
#[derive(Clone, Default)]
pub(super) struct Watches {
    /// The clients that watch each key of each database.
    watched: BTreeMap<(u32, Vec<u8>), BTreeSet<u64>>,
    /// The clients for which a watched key has changed.
    spoiled: BTreeSet<u64>,
}

impl Watches {
    pub(super) fn watch(&mut self, database: u32, key: &[u8], client: u64) {
        let clients = self.watched.entry((database, key.to_vec())).or_default();
        clients.insert(client);
    }

    pub(super) fn changed(&mut self, database: u32, key: &[u8]) {
        if !self.watched.is_empty() {
            let clients = self.watched.remove(&(database, key.to_vec()));
            self.spoiled.extend(clients.unwrap_or_default());
        }
    }

    /// Records that the watched keys are gone, if they existed according to `had`.
    pub(super) fn flushed(&mut self, had: impl Fn(u32, &[u8]) -> bool) {
        self.watched.retain(|(database, key), clients| {
            let gone = had(*database, key);
            self.spoiled.extend(clients.iter().filter(|_| gone));
            !gone
        });
    }

    /// Ends all watches of the client. Returns `true` if none of its watched keys has changed. `is_over` returns `true`
    /// for keys whose time is over.
    pub(super) fn end(&mut self, client: u64, is_over: impl Fn(u32, &[u8]) -> bool) -> bool {
        let mut same = !self.spoiled.remove(&client);
        self.watched.retain(|(database, key), clients| {
            let watched = clients.remove(&client);
            same &= !(watched && is_over(*database, key));
            !clients.is_empty()
        });
        same
    }
}
