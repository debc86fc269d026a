//! Renewals of locks that are kept: those that are due together go to a node in one command.
//!
//! They are collected until another command is sent, the bytes of the node are offered, or the batch is full.
//! Then they are written as one script that takes many keys; one alone is written as the ordinary extension.
//! Among the commands in flight a batch stands in front of its renewals, and each of these is answered as a
//! command of its own: nothing above knows of batches.
//!
//! # Guarantees
//!
//! * Each renewal has the answer of its own key: an answer with more or fewer ends the connection.
//! * What is asked after a renewal is written behind it.
//! * A refusal that may be due to the batch is nobody's answer. Each of its renewals is asked again alone, and
//!   so are all others on this connection.
//!
//! # Not here
//!
//! Nodes with a marker, those that have forgotten the script, and locks on several resources: these are asked
//! one by one.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use crate::entry::Entry;
use crate::error::{LinkError, ServerError};
use crate::invariant::Must;
use crate::limits::{BATCH_BYTES_MAX, BATCH_MAX, COMMAND_BYTES_MAX};
use crate::resp::{Decimal, Value, argument};
use crate::time::Instant;

use super::command::{Dialect, millis};
use super::handshake::Taught;
use super::in_flight::{Heard, Request};
use super::phase::Trouble;
use super::reply::Reply;
use super::{Node, script};

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The keys of the renewals that are collected, and their tokens and ttls, as arguments in wire form.
    keys: Vec<u8>,
    arguments: Vec<u8>,
    collected: Vec<Renewal>,
    /// When the last one was added.
    at: Instant,
    /// The server has refused one on this connection.
    is_refused: bool,
    /// What was answered to the renewals at the front of those in flight.
    answers: VecDeque<Reply>,
}

/// A renewal that is collected.
#[derive(Debug)]
struct Renewal {
    request: Request,
    /// How many bytes of the keys, and of the arguments, are its own.
    key: usize,
    arguments: usize,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.collected.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.collected.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.keys.len() + self.arguments.len()
    }

    fn is_full(&self) -> bool {
        self.len() == BATCH_MAX || BATCH_BYTES_MAX < self.bytes() + COMMAND_BYTES_MAX
    }

    fn add(&mut self, now: Instant, request: Request, entry: &Entry, life: Duration) {
        let (keys, arguments) = (self.keys.len(), self.arguments.len());
        self.keys.extend_from_slice(entry.key_argument());
        self.arguments.extend_from_slice(entry.token_argument());
        argument(&mut self.arguments, millis(life).as_bytes());
        self.collected.push(Renewal {
            request,
            key: self.keys.len() - keys,
            arguments: self.arguments.len() - arguments,
        });
        self.at = now;
    }

    /// Takes the renewal of `request` out again, if it is collected.
    #[cold]
    pub(super) fn withdraw(&mut self, request: Request) -> bool {
        let mut all = self.collected.iter();
        let Some(index) = all.position(|renewal| renewal.request == request) else {
            return false;
        };
        let before = &self.collected[..index];
        let key: usize = before.iter().map(|renewal| renewal.key).sum();
        let arguments: usize = before.iter().map(|renewal| renewal.arguments).sum();
        let renewal = self.collected.remove(index);
        self.keys.drain(key..key + renewal.key);
        self.arguments
            .drain(arguments..arguments + renewal.arguments);
        true
    }

    /// Writes the command. One alone is [`EXTEND`](script::EXTEND), which takes the same arguments.
    fn write(&self, out: &mut Vec<u8>) {
        let keys = self.len();
        let script = match keys {
            1 => &script::EXTEND,
            _ => &script::EXTEND_EACH,
        };
        out.push(b'*');
        out.extend_from_slice(decimal(3 + 3 * keys).as_bytes());
        out.extend_from_slice(b"\r\n");
        for word in [b"EVALSHA", script.sha1.as_bytes(), decimal(keys).as_bytes()] {
            argument(out, word);
        }
        out.extend_from_slice(&self.keys);
        out.extend_from_slice(&self.arguments);
    }

    /// Takes out all renewals that are collected.
    fn collected(&mut self) -> impl Iterator<Item = Request> {
        self.keys.clear();
        self.arguments.clear();
        self.collected.drain(..).map(|renewal| renewal.request)
    }

    /// Forgets everything because the connection is gone. Yields the renewals that are collected, of which
    /// none has left.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (Request, bool)> {
        self.answers.clear();
        self.is_refused = false;
        self.collected().map(|request| (request, false))
    }

    /// The server has answered a batch of `count`.
    ///
    /// # Errors
    ///
    /// It has answered something that is no answer to it.
    #[cold]
    #[inline(never)]
    pub(super) fn answered(&mut self, count: u8, value: Value<'_>) -> Result<(), Trouble> {
        let count = usize::from(count);
        if let Value::Error(_) | Value::BulkError(_) = value {
            let reply = self.refusal(Reply::of(value));
            self.answers.extend(core::iter::repeat_n(reply, count));
            return Ok(());
        }
        let Value::Array(items) = value else {
            return Err(Trouble::Link(LinkError::Protocol));
        };
        if items.len() != count {
            return Err(Trouble::Link(LinkError::Protocol));
        }
        self.answers.extend(items.iter().map(Reply::of));
        Ok(())
    }

    /// Returns what a refusal of a whole batch is to each of its renewals. They are asked again by the text of
    /// their own script where that may help: one that does a part of them twice does no harm.
    fn refusal(&mut self, reply: Reply) -> Reply {
        let code = reply.error();
        let code = code.as_ref().map_or("", ServerError::code);
        let alone = matches!(code, "NOSCRIPT" | "NOPERM" | "CROSSSLOT" | "ERR");
        self.is_refused |= alone && code != "NOSCRIPT";
        match alone {
            true => Reply::Error(ServerError::from_line(b"NOSCRIPT")),
            false => reply,
        }
    }
}

fn decimal(number: usize) -> Decimal {
    Decimal::new(number as u64)
}

impl Node {
    /// Collects the renewal of `entry`, for at least `life` from now on. Returns `false` if this node is asked
    /// for it by a command of its own.
    pub(crate) fn renew(
        &mut self,
        now: Instant,
        request: Request,
        entry: &Entry,
        life: Duration,
    ) -> bool {
        let taught = self.phase.dialect(Taught::ExtendEach) == Dialect::Sha1;
        if !taught || self.batch.is_refused || entry.is_several() {
            return false;
        }
        self.send_time(now, request);
        self.batch.add(now, request, entry, life);
        if self.batch.is_full() {
            self.write_batch();
        }
        true
    }

    /// Puts the renewals that are collected into the out buffer.
    #[cold]
    #[inline(never)]
    pub(super) fn write_batch(&mut self) {
        let (at, count) = (self.batch.at, self.batch.len());
        let start = self.outbox.push_with(|out| self.batch.write(out));
        let mut len = self.outbox.len_from(start);
        if count != 1 {
            let count = count as u8;
            self.in_flight
                .push(Request::Batch { count }, at, start, len);
            len = 0;
        }
        for request in self.batch.collected() {
            self.in_flight.push(request, at, start, len);
        }
    }

    /// Returns the next answer to a batch, to one of its renewals.
    pub(crate) fn next_in_batch(&mut self, now: Instant) -> Option<Heard> {
        let reply = self.batch.answers.pop_front()?;
        let sent = self.in_flight.pop().must()?;
        Some(self.answered(now, &sent, reply))
    }
}
