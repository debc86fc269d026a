//! What only the simulator and tests ask an engine.

use alloc::vec::Vec;

use super::{Engine, Load, NodeId};
use crate::node::Node;

#[doc(hidden)]
impl Engine {
    /// Returns how much is open.
    #[must_use]
    pub fn all_open(&self) -> Load {
        self.load()
    }

    /// Returns what the transaction that is open at `node` is to do, in its order. Oracles
    /// have to know for which lock a server runs a command that names none. Each is what it does, the
    /// resources, the token, the ttl of what is taken or extended in milliseconds, by how many commands
    /// between `MULTI` and `EXEC`, a number of who has asked for it, and whether that one wants it still.
    #[must_use]
    #[expect(clippy::type_complexity, reason = "it is no part of the interface")]
    pub fn open_work(
        &self,
        node: NodeId,
    ) -> Vec<(&'static str, Vec<Vec<u8>>, Vec<u8>, u64, usize, (u64, bool))> {
        let work = self.parts.nodes.get(node).into_iter();
        let work = work.flat_map(Node::open_work);
        work.map(|(work, entry, steps, asker)| {
            let names: Vec<Vec<u8>> = entry.names().map(<[u8]>::to_vec).collect();
            let what = match work.name() {
                "take" if names.len() < steps => "take at once",
                name => name,
            };
            let ttl = work.life().map_or(0, |life| life.as_millis() as u64);
            let token = entry.token().as_bytes().to_vec();
            (what, names, token, ttl, steps, asker)
        })
        .collect()
    }

    /// Returns what waits until no transaction is open at `node`: what it is to do, the token, and a number of who
    /// has asked for it. Oracles have to know when that was.
    pub fn waiting_work(&self, node: NodeId) -> impl Iterator<Item = (&'static str, &[u8], u64)> {
        let node = self.parts.nodes.get(node).into_iter();
        let work = node.flat_map(Node::waiting_work);
        work.map(|(work, entry, asker)| (work.name(), entry.token().as_bytes(), asker))
    }
}
