//! The questions about a lock that nodes are asked and answer by a vote, besides the `SET`.
//!
//! Each is a line in every function here: how it is written, in the forms that a node may take it in,
//! and what an answer says. What a majority of answers means is the operation's own.

use alloc::vec::Vec;
use core::time::Duration;

use crate::entry::Entry;

use super::command::{self, Dialect};
use super::marker_check;
use super::reply::{Reply, Said};
use super::{Command, Node};

/// What a node is asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Question {
    /// To keep the token for a ttl at least.
    Extend,
    /// For how long it keeps the token.
    Confirm,
}

impl Question {
    /// Returns what `reply` says of the token; `None` if no such question is answered so.
    #[inline]
    pub(crate) fn read(self, reply: Reply) -> Option<Said> {
        match self {
            Self::Extend => Said::of(reply),
            Self::Confirm => Said::of_confirmation(reply).map(|(said, _)| said),
        }
    }

    /// Returns `true` if its answer says more than its [`Reply`]: it is shown to the operation.
    #[inline]
    pub(crate) const fn is_shown(self) -> bool {
        match self {
            Self::Extend | Self::Confirm => false,
        }
    }

    fn write(self, out: &mut Vec<u8>, entry: &Entry, ttl: Duration, way: Dialect) {
        match self {
            Self::Extend => command::extend(out, entry, ttl, way),
            Self::Confirm => command::confirm(out, entry),
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
        }
    }
}

impl Node {
    /// Returns in which dialect it is asked `question`.
    pub(crate) fn dialect_of(&self, question: Question) -> Dialect {
        match question {
            Question::Extend => self.phase.extend_dialect(),
            Question::Confirm => Dialect::Text,
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
