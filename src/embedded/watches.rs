//! Keys that clients watch (`WATCH`), and whose transactions are aborted by a change of one.
//!
//! A watch is for a key of one database, whether the key exists or not. It ends with `EXEC`, `DISCARD`, `UNWATCH`, or
//! with its client. A change by the client's own command counts too. If the time of a key was over when it was watched,
//! its later removal for that reason is not a change.
//!
//! Not here: the commands, and the work of a transaction. They are in `transactions`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// See the [module](self). Clients are identified by the numbers that `CLIENT ID` shows.
#[derive(Clone, Default)]
pub(super) struct Watches {
    /// For each database and key: the clients that watch it, and whether its time was over then.
    watched: BTreeMap<(u32, Vec<u8>), BTreeMap<u64, bool>>,
    /// The clients for which a watched key has changed.
    spoiled: BTreeSet<u64>,
}

impl Watches {
    /// The client watches the key, whose time is `over` or not.
    pub(super) fn watch(&mut self, database: u32, key: &[u8], client: u64, over: bool) {
        if !self.spoiled.contains(&client) {
            let clients = self.watched.entry((database, key.to_vec())).or_default();
            clients.entry(client).or_insert(over);
        }
    }

    /// The key has changed, and is there now or not.
    pub(super) fn changed(&mut self, database: u32, key: &[u8], there: bool) {
        if self.watched.is_empty() {
            return;
        }
        if let Some(clients) = self.watched.get_mut(&(database, key.to_vec())) {
            clients.retain(|client, over| {
                let same = *over && !there;
                *over = false;
                if !same {
                    self.spoiled.insert(*client);
                }
                same
            });
        }
    }

    /// Marks all watched keys as gone that existed, according to `had`.
    pub(super) fn flushed(&mut self, had: impl Fn(u32, &[u8]) -> bool) {
        let gone: Vec<(u32, Vec<u8>)> = self.watched.keys().cloned().collect();
        for (database, key) in gone {
            if had(database, &key) {
                self.changed(database, &key, false);
            }
        }
    }

    /// Ends all watches of the client. Returns `true` if none of its watched keys has changed. `is_over` returns `true`
    /// for keys whose time is over.
    pub(super) fn end(&mut self, client: u64, is_over: impl Fn(u32, &[u8]) -> bool) -> bool {
        let mut same = !self.spoiled.remove(&client);
        self.watched.retain(|(database, key), clients| {
            let over_before = clients.remove(&client);
            same &= over_before.is_none_or(|before| before || !is_over(*database, key));
            !clients.is_empty()
        });
        same
    }
}
