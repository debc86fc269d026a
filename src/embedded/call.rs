//! A command that is being executed, and values that many commands read or answer with.

use core::time::Duration;

use super::keyspace::Millis;
use super::refusal::Refusal;
use super::reply::Reply;
use super::session::Session;
use super::store::Store;

/// One command on its way through the node. A script has its keys apart from its other arguments.
pub(super) struct Call<'a> {
    pub(super) store: &'a mut Store,
    pub(super) session: &'a mut Session,
    /// The keys of a script.
    pub(super) keys: Words<'a>,
    /// The name and the arguments of a command, or the arguments of a script. Their number has been checked.
    pub(super) words: Words<'a>,
    pub(super) now: Millis,
    pub(super) uptime: Duration,
}

pub(super) type Words<'a> = &'a [&'a [u8]];

impl<'a> Call<'a> {
    /// Returns the words from `first` on, if there are any.
    pub(super) fn words_from(&self, first: usize) -> Words<'a> {
        self.words.get(first..).unwrap_or_default()
    }
}

pub(super) fn ok() -> Reply {
    Reply::Simple("OK")
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
