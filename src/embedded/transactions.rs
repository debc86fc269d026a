//! `WATCH`, `MULTI .. EXEC`, and what stands between.
//!
//! What is wrong in itself (an unknown command, too few words, a missing permission) is refused at once, and
//! then `EXEC` runs nothing. What fails when it is run leaves the others as they are.
//!
//! Not here: which keys have changed. That is in `watches`.

use alloc::vec::Vec;
use core::fmt;

use super::call::{Call, ok};
use super::commands;
use super::refusal::{Answer, Refusal};
use super::reply::Reply;
use super::state::State;

/// The most commands between `MULTI` and `EXEC`.
const QUEUED_MAX: usize = 4096;

/// The commands of a client since `MULTI`.
#[derive(Clone, Default)]
pub(super) struct Queue {
    commands: Vec<Vec<Vec<u8>>>,
    /// One of them was refused.
    spoiled: bool,
}

/// Without the words: there are tokens among them.
impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queue({})", self.commands.len())
    }
}

impl Queue {
    /// Something that was to be run was refused.
    pub(super) const fn spoil(&mut self) {
        self.spoiled = true;
    }

    /// Takes over a command.
    pub(super) fn push(&mut self, words: &[&[u8]]) -> Answer {
        if self.commands.len() == QUEUED_MAX {
            self.spoil();
            return Err(Refusal::fixed("ERR too many commands in a transaction"));
        }
        let words = words.iter().map(|word| word.to_vec());
        self.commands.push(words.collect());
        Ok(Reply::Simple("QUEUED"))
    }
}

/// Returns `true` for a command that is run at once, also between `MULTI` and `EXEC`.
pub(super) fn is_run_at_once(name: &str) -> bool {
    ["multi", "exec", "discard", "watch"].contains(&name)
}

/// `MULTI`.
pub(super) fn multi(state: &mut State, call: &mut Call<'_>) -> Answer {
    not_within(state, call, "ERR MULTI calls can not be nested")?;
    call.session.queue = Some(Queue::default());
    Ok(ok())
}

/// Refuses a command between `MULTI` and `EXEC`.
fn not_within(state: &State, call: &mut Call<'_>, line: &'static str) -> Result<(), Refusal> {
    let Some(queue) = &mut call.session.queue else {
        return Ok(());
    };
    queue.spoiled |= state.flavour.is_spoiled_by_nesting();
    Err(Refusal::fixed(line))
}

/// `EXEC`: a null if a watched key has changed.
pub(super) fn exec(state: &mut State, call: &mut Call<'_>) -> Answer {
    let Some(queue) = call.session.queue.take() else {
        return Err(Refusal::fixed("ERR EXEC without MULTI"));
    };
    let same = end_watches(state, call);
    if queue.spoiled {
        return Err(Refusal::fixed(
            "EXECABORT Transaction discarded because of previous errors.",
        ));
    }
    if !same {
        return Ok(Reply::NullArray);
    }
    let mut answers = Vec::with_capacity(queue.commands.len());
    for command in &queue.commands {
        let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
        let mut call = Call {
            session: &mut *call.session,
            words: &words,
            ..*call
        };
        let answer = commands::run_queued(state, &mut call);
        answers.push(answer.unwrap_or_else(Reply::Error));
    }
    Ok(Reply::Array(answers))
}

/// `EXEC` itself was refused: nothing is run.
pub(super) fn abort(state: &mut State, call: &mut Call<'_>, refusal: Refusal) -> Refusal {
    call.session.queue = None;
    end_watches(state, call);
    refusal.aborting()
}

/// `DISCARD`.
pub(super) fn discard(state: &mut State, call: &mut Call<'_>) -> Answer {
    if call.session.queue.take().is_none() {
        return Err(Refusal::fixed("ERR DISCARD without MULTI"));
    }
    end_watches(state, call);
    Ok(ok())
}

/// `WATCH key ...`.
pub(super) fn watch(state: &mut State, call: &mut Call<'_>) -> Answer {
    not_within(state, call, "ERR WATCH inside MULTI is not allowed")?;
    let (database, client) = (call.session.database, call.session.id);
    for key in call.words_from(1) {
        let over = state.keyspace.is_over(database, key, call.now);
        state.watches.watch(database, key, client, over);
    }
    Ok(ok())
}

/// `UNWATCH`.
pub(super) fn unwatch(state: &mut State, call: &mut Call<'_>) -> Answer {
    end_watches(state, call);
    Ok(ok())
}

/// Returns `true` if nothing has changed that the client watched.
fn end_watches(state: &mut State, call: &Call<'_>) -> bool {
    let State {
        keyspace, watches, ..
    } = state;
    watches.end(call.session.id, |database, key| {
        keyspace.is_over(database, key, call.now)
    })
}
