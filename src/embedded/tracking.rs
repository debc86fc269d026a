//! Client-side caching: which clients get a push when a key changes.
//!
//! It covers what a client needs to wait for a key: `CLIENT TRACKING ON OPTIN NOLOOP`, then `CLIENT CACHING YES` before
//! each command whose keys are to be registered. The rules were measured on a redis-server 7.0.15 and a valkey-server
//! 9.1.2, which behave the same:
//!
//! * A registration is for a key by its name, in all databases, whether the key exists or not. It ends with the next
//!   change of the key, when each registered client gets one push.
//! * A change by a client's own command erases its registration too, without a push to it. So does its own command that
//!   finds the key's time to be over.
//! * `FLUSHALL` pushes a null to each client that tracks, registered or not. The client that flushes gets one too,
//!   behind the reply.
//! * `CLIENT TRACKING OFF` erases no registration. A push that falls due before tracking is on again, or while the
//!   client speaks RESP2, is not sent, and the registration is used up.
//!
//! After a client has gone, nothing of it is kept.
//!
//! Not here: the commands. They are in `commands`.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::resp::write;

use super::session::Session;

/// See the [module](self). Clients are identified by the numbers that `HELLO` shows.
#[derive(Clone, Default)]
pub(super) struct Tracking {
    /// The clients that get pushes, because they track and speak RESP3.
    listeners: BTreeSet<u64>,
    registered: BTreeMap<Vec<u8>, BTreeSet<u64>>,
    /// What is to be sent to which client.
    pushes: VecDeque<(u64, Vec<u8>)>,
}

impl Tracking {
    /// Returns `true` if no key is registered.
    pub(super) fn is_empty(&self) -> bool {
        self.registered.is_empty()
    }

    /// Takes over a command's changes to the session.
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

    /// Records that the key has changed: the client `by` has changed it, or its time was over.
    pub(super) fn changed(&mut self, key: &[u8], by: Option<u64>) {
        let clients = self.registered.remove(key).unwrap_or_default();
        for client in clients.into_iter().filter(|client| Some(*client) != by) {
            self.push(client, Some(key));
        }
    }

    /// Records that all keys are gone.
    pub(super) fn flushed(&mut self) {
        self.registered.clear();
        for client in self.listeners.clone() {
            self.push(client, None);
        }
    }

    /// Adds a push to `client` which says that this key, or all keys, may have changed. Adds none if the client takes
    /// no pushes now.
    fn push(&mut self, client: u64, key: Option<&[u8]>) {
        if self.listeners.contains(&client) {
            self.pushes.push_back((client, invalidate(key)));
        }
    }

    /// Records that the client has gone.
    pub(super) fn disconnected(&mut self, client: u64) {
        self.listeners.remove(&client);
        self.registered.retain(|_, clients| {
            clients.remove(&client);
            !clients.is_empty()
        });
        self.pushes.retain(|(other, _)| *other != client);
    }

    /// Moves the pushes to `client` to the end of `out`.
    pub(super) fn take(&mut self, client: u64, out: &mut Vec<u8>) {
        self.pushes.retain(|(other, push)| {
            let own = *other == client;
            out.extend_from_slice(if own { push } else { &[] });
            !own
        });
    }

    /// Returns the next push, and the client that it goes to.
    pub(super) fn poll(&mut self) -> Option<(u64, Vec<u8>)> {
        self.pushes.pop_front()
    }
}

/// Returns the push that says which keys may have changed: this key, or all.
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
