//! The commands of transactions: `WATCH`, `MULTI`, `EXEC` and `DISCARD`.
//!
//! The store refuses a faulty command (an unknown command, too few words, a missing permission) immediately, and then
//! `EXEC` runs no command. If a command fails when it runs, the other commands still run.
//!
//! The module `commands` runs the queued commands.

use super::call::{Call, ok};
use super::refusal::Refusal;
use super::reply::Answer;
use super::session::Queue;

/// Returns `true` for a command that runs immediately, even between `MULTI` and `EXEC`.
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
    // If a command was refused before `EXEC`, Valkey runs nothing at `EXEC`.
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

/// Ends the transaction, because `EXEC` itself was refused. No command runs.
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
