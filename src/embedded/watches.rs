//! Keys that clients watch, and whose transactions are aborted by a change of one.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// See the [module](self). Clients are identified by the numbers that `HELLO` shows.
///
/// A watch is for a key of one database, whether the key exists or not. It ends with `EXEC`, `DISCARD`, or with its
/// client. A change by the client's own command counts too. A key whose time is over when it is watched is removed
/// before that, so that its end is not a change.
#[derive(Clone, Default)]
pub(super) struct Watches {
    /// The keys of databases, and who watches them.
    watched: BTreeSet<(u32, Vec<u8>, u64)>,
    /// The clients for which a watched key has changed.
    spoiled: BTreeSet<u64>,
}

impl Watches {
    pub(super) fn watch(&mut self, database: u32, key: &[u8], client: u64) {
        self.watched.insert((database, key.to_vec(), client));
    }

    /// Records that all keys have changed for which `is` returns `true`.
    pub(super) fn changed(&mut self, is: impl Fn(u32, &[u8]) -> bool) {
        self.watched.retain(|(database, key, client)| {
            let changed = is(*database, key);
            self.spoiled.extend(changed.then_some(*client));
            !changed
        });
    }

    /// Ends all watches of the client. Returns `true` if none of its watched keys has changed. `is_over` returns `true`
    /// for keys whose time is over.
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
