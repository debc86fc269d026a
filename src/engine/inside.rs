//! Functions for the simulator and tests only.

use alloc::vec::Vec;

use super::{Engine, Load, NodeId};

/// Returns how much work is open.
#[must_use]
pub fn all_open(engine: &Engine) -> Load {
    engine.load()
}

/// Returns the steps of the open transaction at `node`, in order. Some commands in a transaction do not name their
/// lock, so a test oracle uses this function to find it. Each item contains:
///
/// * the kind of work, the resources, and the token;
/// * the new ttl in milliseconds;
/// * the number of commands between `MULTI` and `EXEC`;
/// * the number of the question that requested the work, and whether its result is still wanted.
#[must_use]
#[expect(clippy::type_complexity, reason = "it is no part of the interface")]
pub fn open_work(
    engine: &Engine,
    node: NodeId,
) -> Vec<(&'static str, Vec<Vec<u8>>, Vec<u8>, u64, usize, (u64, bool))> {
    let work = engine.work.parts.nodes.get(node).into_iter();
    let work = work.flat_map(|node| node.connection.transactions.open());
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

/// Returns the jobs that wait until the transaction at `node` ends: the kind, the token, and the number of the
/// question. A test oracle uses this function to learn when each job was requested.
pub fn waiting_work(
    engine: &Engine,
    node: NodeId,
) -> impl Iterator<Item = (&'static str, &[u8], u64)> {
    let node = engine.work.parts.nodes.get(node).into_iter();
    let work = node.flat_map(|node| node.connection.transactions.waiting());
    work.map(|(work, entry, asker)| (work.name(), entry.token().as_bytes(), asker))
}
