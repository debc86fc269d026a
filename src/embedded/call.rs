//! A command that is being executed, and values that many commands read or answer with.

use core::time::Duration;

use super::keyspace::{Database, Millis};
use super::refusal::Refusal;
use super::reply::Reply;
use super::session::Session;
use super::state::State;

/// One command on its way through the node.
pub(super) struct Call<'a> {
    pub(super) session: &'a mut Session,
    /// The name and the arguments. The table of commands has checked their number.
    pub(super) words: &'a [&'a [u8]],
    pub(super) now: Millis,
    pub(super) uptime: Duration,
}

impl<'a> Call<'a> {
    /// Returns the database that the client selected.
    pub(super) fn database<'s>(&'s self, state: &'s mut State) -> Database<'s> {
        state.database(self.session, self.now)
    }

    /// Returns the words from `first` on, if there are any.
    pub(super) fn words_from(&self, first: usize) -> &'a [&'a [u8]] {
        self.words.get(first..).unwrap_or_default()
    }
}

pub(super) fn ok() -> Reply {
    Reply::Simple("OK")
}

pub(super) fn count(number: usize) -> Reply {
    Reply::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Parses an integer that is spelled in the usual way: no `+`, no leading zeros, no spaces.
pub(super) fn integer(text: &[u8]) -> Result<i64, Refusal> {
    let number = core::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse::<i64>().ok());
    match number {
        Some(number) if crate::resp::Decimal::from(number).as_bytes() == text => Ok(number),
        Some(_) | None => Err(Refusal::NOT_AN_INTEGER),
    }
}
