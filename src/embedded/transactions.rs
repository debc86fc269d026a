//! `WATCH`, `MULTI .. EXEC`, and the commands in between.
//!
//! A command with a fault of its own (an unknown command, too few words, a missing permission) is refused at once, and
//! then `EXEC` runs nothing. If a command fails when it is run, the others still run.
//!
//! Not here: running the queued commands, which `commands` does.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::call::{Call, ok};
use super::refusal::Refusal;
use super::reply::Answer;
use super::session::Queue;

/// Returns `true` for a command that is run at once, even between `MULTI` and `EXEC`.
pub(super) fn is_run_at_once(name: &str) -> bool {
    ["multi", "exec", "discard", "watch"].contains(&name)
}

/// `MULTI`.
pub(super) fn multi(call: &mut Call<'_>) -> Answer {
    not_within(call, "ERR MULTI calls can not be nested")?;
    call.session.queue = Some(Queue::default());
    Ok(ok())
}

/// Refuses a command between `MULTI` and `EXEC`.
fn not_within(call: &mut Call<'_>, line: &'static str) -> Result<(), Refusal> {
    let Some(queue) = &mut call.session.queue else {
        return Ok(());
    };
    // Valkey then runs nothing at `EXEC`.
    queue.spoiled |= call.store.flavour.is_valkey();
    Err(Refusal::fixed(line))
}

/// `EXEC`: returns the commands to run, or `None` if a watched key has changed.
pub(super) fn end(call: &mut Call<'_>) -> Result<Option<Queue>, Refusal> {
    let Some(queue) = call.session.queue.take() else {
        return Err(Refusal::fixed("ERR EXEC without MULTI"));
    };
    let same = call.store.end_watches(call.session.id, call.now);
    match queue.spoiled {
        true => Err(Refusal::ABORTED),
        false => Ok(same.then_some(queue)),
    }
}

/// Ends the transaction, because `EXEC` itself was refused. Nothing is run.
pub(super) fn abort(call: &mut Call<'_>) -> Answer {
    call.session.queue = None;
    call.store.end_watches(call.session.id, call.now);
    Err(Refusal::ABORTED)
}

/// `DISCARD`.
pub(super) fn discard(call: &mut Call<'_>) -> Answer {
    if call.session.queue.take().is_none() {
        return Err(Refusal::fixed("ERR DISCARD without MULTI"));
    }
    call.store.end_watches(call.session.id, call.now);
    Ok(ok())
}

/// `WATCH key ...`.
pub(super) fn watch(call: &mut Call<'_>) -> Answer {
    not_within(call, "ERR WATCH inside MULTI is not allowed")?;
    for key in call.words_from(1) {
        call.entry(key);
        let (database, client) = (call.session.database, call.session.id);
        call.store.watches.watch(database, key, client);
    }
    Ok(ok())
}

/// Keys that clients watch, and whose transactions are aborted by a change of one. Clients are identified by the
/// numbers that `HELLO` shows.
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
