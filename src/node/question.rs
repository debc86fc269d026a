//! The questions about a lock or its name, other than the `SET`, that nodes answer with a vote.
//!
//! Each question is one line in every function here: how it is written, in each form that a node may take, and what an
//! answer says. The operation decides what a majority of answers means.

use alloc::vec::Vec;
use core::time::Duration;

use crate::entry::Entry;
use crate::limits::TOKEN_BYTES_MAX;
use crate::resource::broken;
use crate::resp::{Decimal, Value, argument};
use crate::time::Instant;

use super::command::{
    CHECKED_CONFIRM, CHECKED_EXTEND, CHECKED_INSPECT, CONFIRM, EXTEND, INSPECT, OVERWRITE,
};
use super::reply::{Reply, Said, three};
use super::request::{Dialect, Question, Request, Taught};
use super::{Command, Node, Work, several};

/// The life that [`CONFIRM`](super::script::CONFIRM) and [`INSPECT`](super::script::INSPECT) report for a key without
/// an expiry.
const FOREVER: Duration = Duration::from_millis(9_000_000_000_000_000);

impl Question {
    /// Returns the token in an answer to [`Self::Inspect`], if it has one, and how long the node keeps it.
    pub(crate) fn token_in(value: Value<'_>) -> Option<(&[u8], Duration)> {
        let (above, _, token) = three(value).filter(|(above, ..)| 0 < *above)?;
        let left = Duration::from_millis(above.unsigned_abs() - 1);
        let left = match left < FOREVER {
            true => left,
            false => Duration::MAX,
        };
        Some((&token[..token.len().min(TOKEN_BYTES_MAX + 1)], left))
    }

    /// Returns what `reply` says of the token; `None` if it is no answer to such a question.
    #[inline]
    pub(crate) fn read(self, reply: Reply) -> Option<Said> {
        match self {
            Self::Extend => Said::of(reply),
            Self::Confirm | Self::Overwrite => Said::of_confirmation(reply).map(|(said, _)| said),
            Self::Inspect => Said::of_inspection(reply),
        }
    }

    /// Writes the question about `entry`. If there is a `marker`, an argument in wire form, the question checks it.
    #[inline(never)]
    pub(super) fn write(
        self,
        out: &mut Vec<u8>,
        entry: &Entry,
        ttl: Duration,
        marker: Option<&[u8]>,
        way: Dialect,
    ) {
        let ttl = Decimal::millis(ttl);
        let ttl = ttl.as_bytes();
        if entry.is_several() {
            return several::question(self, out, entry, ttl, marker);
        }
        let (key, token) = (entry.key_argument(), entry.token_argument());
        let both = entry.arguments();
        match (self, marker) {
            (Self::Extend, None) => EXTEND.write(out, [both, ttl], way),
            (Self::Extend, Some(marker)) => {
                CHECKED_EXTEND.write(out, [key, token, ttl, marker], way);
            }
            (Self::Confirm, None) => CONFIRM.write(out, [both], way),
            (Self::Confirm, Some(marker)) => CHECKED_CONFIRM.write(out, [key, token, marker], way),
            (Self::Inspect, None) => INSPECT.write(out, [key], way),
            (Self::Inspect, Some(marker)) => CHECKED_INSPECT.write(out, [key, marker], way),
            // The answer is true also on a node that does not count.
            (Self::Overwrite, _) => {
                let mut other = Vec::new();
                argument(&mut other, &broken(entry.token()));
                OVERWRITE.write(out, [both, &other], way);
            }
        }
    }
}

impl Said {
    /// Returns what the answer to an inspection says. A token of any client counts as there.
    #[cold]
    #[inline(never)]
    fn of_inspection(reply: Reply) -> Option<Self> {
        let plain = if let Reply::Pair(above, _) = reply {
            Reply::Integer(above)
        } else {
            reply
        };
        Self::of_confirmation(plain).map(|(said, _)| said)
    }
}

impl Node {
    /// Returns the dialect in which this node is asked `question`.
    pub(crate) fn dialect_of(&self, question: Question) -> Dialect {
        match question {
            Question::Extend => self.handshake.phase.dialect(Taught::Extend),
            Question::Confirm | Question::Inspect | Question::Overwrite => Dialect::Text,
        }
    }

    /// Returns the command of `question` about `entry`, as ACL rules name it.
    pub(crate) fn verb_of(&self, question: Question, entry: &Entry) -> &'static str {
        match entry.is_several() {
            _ if self.is_without_scripts() => self.verb_of_transaction(),
            true => Dialect::Text.verb(),
            false => self.dialect_of(question).verb(),
        }
    }

    /// Asks `question` about `entry` without scripts. If `watched`, the node also notifies us of the next change of the
    /// key.
    #[cold]
    pub(crate) fn ask_without_scripts(
        &mut self,
        now: Instant,
        request: Request,
        question: Question,
        entry: &Entry,
        life: Duration,
        watched: bool,
    ) {
        let work = match question {
            Question::Extend => Work::Extend { life, watched },
            Question::Confirm => Work::Confirm,
            Question::Inspect => Work::Inspect { watched },
            Question::Overwrite => Work::Overwrite,
        };
        self.transact(now, request, entry, work);
    }

    /// Returns `question` about `entry` in the form for this node; by the text of its script if `by_text`.
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
        let marker = self.trust.marker();
        command.written(way, marker, |out| {
            question.write(out, entry, ttl, marker, way)
        })
    }
}
