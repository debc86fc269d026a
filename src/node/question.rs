//! The questions about a lock, or its name, that nodes are asked and answer by a vote, besides the `SET`.
//!
//! Each is a line in every function here: how it is written, in the forms that a node may take it in,
//! and what an answer says. What a majority of answers means is the operation's own.

use alloc::vec::Vec;
use core::time::Duration;

use crate::entry::Entry;
use crate::limits::TOKEN_BYTES_MAX;
use crate::resource::{BARRIER_KEY, MARKER_KEY};
use crate::resp::Word::{Encoded, Text};
use crate::resp::{Template, Value};

use super::command::{self, Dialect, Script};
use super::marker_check;
use super::reply::{Reply, Said, three};
use super::{Command, Node};

/// What a node is asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Question {
    /// To keep the token for a ttl at least.
    Extend,
    /// For how long it keeps the token.
    Confirm,
    /// Which token it has under the name, of any client, and for how long.
    Inspect,
}

static INSPECT: Template<1, 576> = Template::new(&[
    Text(b"EVAL"),
    Text(Question::INSPECT.text.as_bytes()),
    Text(b"1"),
    Encoded(1),
]);

static CHECKED_INSPECT: Template<2, 640> = Template::new(&[
    Text(b"EVAL"),
    Text(Question::INSPECT.text.as_bytes()),
    Text(b"3"),
    Encoded(1),
    Text(MARKER_KEY),
    Text(BARRIER_KEY),
    Encoded(1),
]);

/// What [`CONFIRM`](super::CONFIRM) and [`Question::INSPECT`] answer of a key without an expiry.
const FOREVER: Duration = Duration::from_millis(9_000_000_000_000_000);

impl Question {
    /// Tells for how many milliseconds the key lives on, and adds one, or `0` if it is not there; whether
    /// that counts, where the keys of a marker and a barrier are given (see [`marker_check`]); and the
    /// token, or what a token may be of a longer text and one byte more.
    ///
    /// It is one script, so that the time is that of the token. It is always sent by its text: it is
    /// too rare to be loaded in the handshake.
    pub(crate) const INSPECT: Script = Script {
        text: "local v,s,b=redis.call('get',KEYS[1]),0,0 \
               if v then s=redis.call('pttl',KEYS[1]) if s==-1 then s=9e15 end s=math.max(s+1,0) end \
               if KEYS[2] then \
               local m=redis.pcall('get',KEYS[2]) b=redis.call('pttl',KEYS[3]) \
               if m~=ARGV[1] then b=-1 elseif b==-1 then b=1000 elseif b<0 then b=0 else b=b+1 end end \
               return {s,b,string.sub(v or '',1,85)}",
        sha1: "7efe98cd9aa3f807cb00a9941f224d6646756a65",
    };

    /// Returns the token in an answer to [`Self::Inspect`] and for how long the node keeps it, if it
    /// has one.
    pub(crate) fn token_in(value: Value<'_>) -> Option<(&[u8], Duration)> {
        let (above, _, token) = three(value).filter(|(above, ..)| 0 < *above)?;
        let left = Duration::from_millis(above.unsigned_abs() - 1);
        let left = match left < FOREVER {
            true => left,
            false => Duration::MAX,
        };
        Some((&token[..token.len().min(TOKEN_BYTES_MAX + 1)], left))
    }

    /// Returns what `reply` says of the token; `None` if no such question is answered so.
    #[inline]
    pub(crate) fn read(self, reply: Reply) -> Option<Said> {
        match self {
            Self::Extend => Said::of(reply),
            Self::Confirm => Said::of_confirmation(reply).map(|(said, _)| said),
            Self::Inspect => Said::of_inspection(reply),
        }
    }

    /// Returns `true` if its answer says more than its [`Reply`]: it is shown to the operation.
    #[inline]
    pub(crate) const fn is_shown(self) -> bool {
        match self {
            Self::Extend | Self::Confirm => false,
            Self::Inspect => true,
        }
    }

    fn write(self, out: &mut Vec<u8>, entry: &Entry, ttl: Duration, way: Dialect) {
        match self {
            Self::Extend => command::extend(out, entry, ttl, way),
            Self::Confirm => command::confirm(out, entry),
            Self::Inspect => inspect(out, entry, None),
        }
    }

    fn write_checked(
        self,
        out: &mut Vec<u8>,
        entry: &Entry,
        ttl: Duration,
        way: Dialect,
        marker: &[u8],
    ) {
        match self {
            Self::Extend => marker_check::extend(out, entry, ttl, marker, way),
            Self::Confirm => marker_check::confirm(out, entry, marker),
            Self::Inspect => inspect(out, entry, Some(marker)),
        }
    }
}

/// Writes the question for what the node has under the name of `entry`.
#[cold]
#[inline(never)]
fn inspect(out: &mut Vec<u8>, entry: &Entry, marker: Option<&[u8]>) {
    match marker {
        None => INSPECT.write(out, [entry.key_argument()]),
        Some(marker) => CHECKED_INSPECT.write(out, [entry.key_argument(), marker]),
    }
}

impl Said {
    /// Returns the same for the answer to an inspection: a token is there, of any client.
    #[cold]
    #[inline(never)]
    fn of_inspection(reply: Reply) -> Option<Self> {
        let plain = match reply {
            Reply::Pair(above, _) => Reply::Integer(above),
            Reply::Integer(_)
            | Reply::Ok
            | Reply::Nil
            | Reply::Error(_)
            | Reply::Forbidden(_)
            | Reply::Other => reply,
        };
        Self::of_confirmation(plain).map(|(said, _)| said)
    }
}

impl Node {
    /// Returns in which dialect it is asked `question`.
    pub(crate) fn dialect_of(&self, question: Question) -> Dialect {
        match question {
            Question::Extend => self.phase.extend_dialect(),
            Question::Confirm | Question::Inspect => Dialect::Text,
        }
    }

    /// Returns `question` about `entry` as this node takes it; by the text of its script if `by_text`.
    pub(crate) fn question<'c>(
        &self,
        question: Question,
        command: &'c mut Command,
        entry: &Entry,
        ttl: Duration,
        by_text: bool,
    ) -> &'c [u8] {
        let way = match by_text {
            true => Dialect::Text,
            false => self.dialect_of(question),
        };
        match self.guard.marker() {
            None => command.shared(way, |out| question.write(out, entry, ttl, way)),
            Some(marker) => command.own(|out| question.write_checked(out, entry, ttl, way, marker)),
        }
    }
}
