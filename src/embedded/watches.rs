//! The keys that clients watch. A change of a watched key aborts the transaction of the client.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// See the [module](self). A client is identified by the number that `HELLO` reports.
///
/// A watch applies to a key in one database, whether the key exists or not. A watch ends with `EXEC` or `DISCARD`, or
/// when the client disconnects. A change by the client's own command also aborts its transaction. The store removes an
/// expired key before a client watches it, so that the expiry does not count as a change.
#[derive(Clone, Default)]
pub(super) struct Watches {
    /// The watched keys: the database, the key, and the client that watches the key.
    watched: BTreeSet<(u32, Vec<u8>, u64)>,
    /// The clients whose watched keys have changed.
    spoiled: BTreeSet<u64>,
}

impl Watches {
    pub(super) fn watch(&mut self, database: u32, key: &[u8], client: u64) {
        self.watched.insert((database, key.to_vec(), client));
    }

    /// Records that all keys for which `is` returns `true` have changed.
    pub(super) fn changed(&mut self, is: impl Fn(u32, &[u8]) -> bool) {
        self.watched.retain(|(database, key, client)| {
            let changed = is(*database, key);
            self.spoiled.extend(changed.then_some(*client));
            !changed
        });
    }

    /// Ends all watches of the client. Returns `true` if none of its watched keys has changed. `is_over` returns `true`
    /// for expired keys.
    pub(super) fn end(&mut self, client: u64, is_over: impl Fn(u32, &[u8]) -> bool) -> bool {
        let mut same = !self.spoiled.remove(&client);
        self.watched.retain(|(database, key, other)| {
            let own = *other == client;
            same &= !(own && is_over(*database, key));
            !own
        });
        same
    }
}
