//! The questions about a lock or its name, other than taking it, that nodes answer with a vote.
//!
//! Each question is one line in every function here: the form in which a node gets it, and how it is written in that
//! form. The operation decides what a majority of answers means.

use alloc::vec::Vec;
use core::time::Duration;

use crate::entry::Entry;
use crate::keys::{ClaimKey, OperationKey};
use crate::resource::broken;
use crate::resp::{Decimal, argument};
use crate::time::Instant;

use super::command::{
    CHECKED_CONFIRM, CHECKED_EXTEND, CHECKED_INSPECT, CONFIRM, EXTEND, INSPECT, OVERWRITE,
};
use super::request::{Dialect, Question, Request, Taught};
use super::{Command, Node, Work, several};

/// A question about a lock, for one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking<'a> {
    pub(crate) question: Question,
    pub(crate) operation: OperationKey,
    /// The claim of the token in question, if this engine has one.
    pub(crate) claim: Option<ClaimKey>,
    pub(crate) entry: &'a Entry,
    /// For how long the keys are to be kept, if that is asked for.
    pub(crate) life: Duration,
    /// The node also has to notify us of the next change of the keys.
    pub(crate) watched: bool,
    /// The node has refused it in another form.
    pub(crate) again: bool,
    /// It is a renewal of a kept lock, which may go to the node together with others.
    pub(crate) is_renewal: bool,
}

impl<'a> Asking<'a> {
    /// Returns a question of `operation` that does not change how long the keys live, and concerns no claim.
    pub(crate) const fn about(
        question: Question,
        operation: OperationKey,
        entry: &'a Entry,
    ) -> Self {
        Self {
            question,
            operation,
            claim: None,
            entry,
            life: Duration::ZERO,
            watched: false,
            again: false,
            is_renewal: false,
        }
    }
}

impl Question {
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

impl Node {
    /// Asks this node. The question is built in `command`, which the nodes share that take it in the same form.
    pub(crate) fn ask_about(&mut self, now: Instant, command: &mut Command, asking: &Asking<'_>) {
        let Asking {
            question,
            operation,
            claim,
            entry,
            life,
            watched,
            again,
            is_renewal,
        } = *asking;
        let by = match question {
            _ if self.is_without_scripts() => Dialect::Watch,
            Question::Extend if !again && !entry.is_several() => {
                self.handshake.phase.dialect(Taught::Extend)
            }
            Question::Extend | Question::Confirm | Question::Inspect | Question::Overwrite => {
                Dialect::Text
            }
        };
        let request = Request::Question {
            question,
            operation,
            claim,
            by,
        };
        if by == Dialect::Watch {
            return self.ask_without_scripts(now, request, asking);
        }
        if is_renewal && by == Dialect::Sha1 && self.renew(now, request, entry, life, watched) {
            return;
        }
        let marker = self.trust.marker();
        let bytes = command.written(by, marker, |out| {
            question.write(out, entry, life, marker, by)
        });
        match watched {
            true => self.send_watched(now, request, bytes),
            false => self.send(now, request, bytes),
        }
    }

    #[cold]
    fn ask_without_scripts(&mut self, now: Instant, request: Request, asking: &Asking<'_>) {
        let (life, watched) = (asking.life, asking.watched);
        let work = match asking.question {
            Question::Extend => Work::Extend { life, watched },
            Question::Confirm => Work::Confirm,
            Question::Inspect => Work::Inspect { watched },
            Question::Overwrite => Work::Overwrite,
        };
        self.transact(now, request, asking.entry, work);
    }
}
