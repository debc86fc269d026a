//! Client-side caching: which clients get a push when a key changes.
//!
//! A client that waits for a key sends `CLIENT TRACKING ON OPTIN NOLOOP`, and then `CLIENT CACHING YES` before
//! each command whose keys it wants to register. The following rules were measured on redis-server 7.0.15 and
//! valkey-server 9.1.2, which behave in the same way:
//!
//! * A registration applies to a key's name in all databases, whether the key exists or not. When the key changes, each
//!   registered client gets one push, and the registration ends.
//! * If a client changes a key itself, or finds that the key has expired, its registration also ends, but the client
//!   gets no push.
//! * `FLUSHALL` pushes a null to each client that tracks, even without a registration. The client that flushes also
//!   gets a null, after the reply.
//! * `CLIENT TRACKING OFF` does not end registrations. If a key changes before tracking is on again, or while the
//!   client uses RESP2, the registration ends without a push.
//!
//! When a client disconnects, the store forgets all its registrations and pushes.
//!
//! The commands themselves are in `commands`.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::resp::write;

use super::session::Session;

/// See the [module](self). A client is identified by the number that `HELLO` reports.
#[derive(Clone, Default)]
pub(super) struct Tracking {
    /// The clients that get pushes: they have switched tracking on and use RESP3.
    listeners: BTreeSet<u64>,
    registered: BTreeMap<Vec<u8>, BTreeSet<u64>>,
    /// The pushes to send, each with the number of its client.
    pushes: VecDeque<(u64, Vec<u8>)>,
}

impl Tracking {
    /// Returns `true` if no key is registered.
    pub(super) fn is_empty(&self) -> bool {
        self.registered.is_empty()
    }

    /// Updates the list of listeners after a command that may have changed `session`.
    pub(super) fn update(&mut self, session: &Session) {
        match session.tracking && session.resp3 {
            true => self.listeners.insert(session.id),
            false => self.listeners.remove(&session.id),
        };
    }

    pub(super) fn register(&mut self, key: &[u8], client: u64) {
        let clients = self.registered.entry(key.to_vec()).or_default();
        clients.insert(client);
    }

    /// Records that the client `by` has changed the key, or that the key has expired.
    pub(super) fn changed(&mut self, key: &[u8], by: Option<u64>) {
        let clients = self.registered.remove(key).unwrap_or_default();
        for client in clients.into_iter().filter(|client| Some(*client) != by) {
            self.push(client, Some(key));
        }
    }

    /// Records that all keys were deleted.
    pub(super) fn flushed(&mut self) {
        self.registered.clear();
        for client in self.listeners.clone() {
            self.push(client, None);
        }
    }

    /// Queues a push about `key`, or about all keys, for `client`. Does nothing if the client currently gets no pushes.
    fn push(&mut self, client: u64, key: Option<&[u8]>) {
        if self.listeners.contains(&client) {
            self.pushes.push_back((client, invalidate(key)));
        }
    }

    /// Records that the client has disconnected.
    pub(super) fn disconnected(&mut self, client: u64) {
        self.listeners.remove(&client);
        self.registered.retain(|_, clients| {
            clients.remove(&client);
            !clients.is_empty()
        });
        self.pushes.retain(|(other, _)| *other != client);
    }

    /// Moves the pushes for `client` to the end of `out`.
    pub(super) fn take(&mut self, client: u64, out: &mut Vec<u8>) {
        self.pushes.retain(|(other, push)| {
            let own = *other == client;
            out.extend_from_slice(if own { push } else { &[] });
            !own
        });
    }

    /// Returns the next push, and the client that must get it.
    pub(super) fn poll(&mut self) -> Option<(u64, Vec<u8>)> {
        self.pushes.pop_front()
    }
}

/// Returns the `invalidate` push for `key`, or for all keys if `key` is `None`.
fn invalidate(key: Option<&[u8]>) -> Vec<u8> {
    let mut push = Vec::new();
    write::push(&mut push, 2);
    write::bulk(&mut push, b"invalidate");
    match key {
        None => write::null(&mut push),
        Some(key) => {
            write::array(&mut push, 1);
            write::bulk(&mut push, key);
        }
    }
    push
}
