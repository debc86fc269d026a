//! Renewals of locks that are kept: those that are due together go to a node in one command.
//!
//! They are collected until another command is sent, or the bytes of the node are offered. Then they are written
//! as scripts that take many keys; one alone is written as the ordinary extension. If it is not the turn of the
//! node they wait: whose turn it is, and for how long they wait, is not decided here.
//! Among the commands in flight a batch stands in front of its renewals, and each of these is answered as a
//! command of its own: nothing above knows of batches.
//!
//! # Guarantees
//!
//! * Each renewal has the answer of its own key: an answer with more or fewer ends the connection.
//! * What is asked after a renewal is written behind it. Of those that wait for the turn of their node this is
//!   so for what concerns the same lock; locks that are taken, and releases of others, go ahead.
//! * A refusal that may be due to the batch is nobody's answer. Each of its renewals is asked again alone, and
//!   so are all others on this connection.
//!
//! # Not here
//!
//! A renewal is not taken out of a command that was written. If the connection has no room for long, it may reach
//! the node after its lock is over, but before the lock's release.
//!
//! Nodes with a marker, those that have forgotten the script, and locks on several resources: these are asked
//! one by one.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use crate::entry::Entry;
use crate::error::{LinkFault, ServerError};
use crate::invariant::Must;
use crate::keys::ClaimKey;
use crate::limits::{BATCH_BYTES_MAX, BATCH_MAX, COMMAND_BYTES_MAX, RENEWALS_FEW};
use crate::resp::{Decimal, Value, argument};
use crate::time::Instant;

use super::in_flight::Heard;
use super::phase::Trouble;
use super::reply::Reply;
use super::request::{Dialect, Request, Taught};
use super::tracking::register_next;
use super::{Node, script};

/// An emptied buffer larger than this is given back to the allocator.
const KEPT_BYTES: usize = 64 << 10;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// What is collected. Those whose keys' next changes are to be told go in commands of their own, which are
    /// written before the others.
    piles: [Pile; 2],
    /// When the first one was added.
    since: Instant,
    /// It is not the turn of the node. Only while some are collected.
    waits: bool,
    /// How many were sent in batches that are not answered.
    unanswered: usize,
    /// The server has refused one on this connection.
    is_refused: bool,
    /// What was answered to the renewals at the front of those in flight.
    answers: VecDeque<Reply>,
}

/// Renewals that are collected.
#[derive(Debug, Default)]
struct Pile {
    /// Their keys, and their tokens and ttls, as arguments in wire form.
    keys: Vec<u8>,
    arguments: Vec<u8>,
    collected: Vec<Renewal>,
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
        self.piles.iter().all(|pile| pile.collected.is_empty())
    }

    /// Returns `true` if renewals are collected, and do not wait for the turn of the node.
    pub(super) fn is_to_write(&self) -> bool {
        !self.is_empty() && !self.waits
    }

    pub(super) fn len(&self) -> usize {
        self.piles.iter().map(|pile| pile.collected.len()).sum()
    }

    pub(super) fn bytes(&self) -> usize {
        let bytes = |pile: &Pile| pile.keys.len() + pile.arguments.len();
        self.piles.iter().map(bytes).sum()
    }

    fn has_about(&self, claim: ClaimKey) -> bool {
        let about = |renewal: &Renewal| renewal.request.is_about(claim);
        self.piles
            .iter()
            .any(|pile| pile.collected.iter().any(about))
    }

    /// Returns `true` if `request` is to be written behind what is collected.
    fn is_before(&self, request: Request) -> bool {
        match request {
            Request::Set { .. }
            | Request::FirstSet { .. }
            | Request::FencedSet { .. }
            | Request::Raise { .. }
            | Request::Time => !self.waits,
            Request::Release { claim, .. } => !self.waits || self.has_about(claim),
            Request::Question { .. }
            | Request::Handshake(_)
            | Request::Floor { .. }
            | Request::LookAtFloor { .. }
            | Request::Count { .. }
            | Request::Probe { .. }
            | Request::Transaction
            | Request::Batch { .. }
            | Request::Withdrawn
            | Request::Why { .. }
            | Request::Track
            | Request::Look { .. } => true,
        }
    }

    /// Takes the renewal of `request` out again, if it is collected.
    #[cold]
    pub(super) fn withdraw(&mut self, request: Request) -> bool {
        let found = self.piles.iter_mut().any(|pile| pile.withdraw(request));
        self.waits &= !self.is_empty();
        found
    }

    /// Writes a command. One alone is [`EXTEND`](script::EXTEND), which takes the same arguments.
    fn write(out: &mut Vec<u8>, count: usize, keys: &[u8], arguments: &[u8]) {
        let script = match count {
            1 => &script::EXTEND,
            _ => &script::EXTEND_EACH,
        };
        out.push(b'*');
        out.extend_from_slice(decimal(3 + 3 * count).as_bytes());
        out.extend_from_slice(b"\r\n");
        for word in [
            b"EVALSHA",
            script.sha1.as_bytes(),
            decimal(count).as_bytes(),
        ] {
            argument(out, word);
        }
        out.extend_from_slice(keys);
        out.extend_from_slice(arguments);
    }

    /// Takes out all renewals that are collected.
    fn collected(&mut self) -> impl Iterator<Item = Request> {
        self.waits = false;
        let [watched, others] = &mut self.piles;
        watched.taken().chain(others.taken())
    }

    /// Forgets everything because the connection is gone. Yields the renewals that are collected, of which
    /// none has left.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (Request, bool)> {
        self.answers.clear();
        self.is_refused = false;
        self.unanswered = 0;
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
        self.unanswered -= count;
        if let Value::Error(_) | Value::BulkError(_) = value {
            let reply = self.refusal(Reply::of(value));
            self.answers.extend(core::iter::repeat_n(reply, count));
            return Ok(());
        }
        let Value::Array(items) = value else {
            return Err(Trouble::Link(LinkFault::Protocol));
        };
        if items.len() != count {
            return Err(Trouble::Link(LinkFault::Protocol));
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

impl Pile {
    fn add(&mut self, request: Request, entry: &Entry, life: Duration) {
        let (keys, arguments) = (self.keys.len(), self.arguments.len());
        self.keys.extend_from_slice(entry.key_argument());
        self.arguments.extend_from_slice(entry.token_argument());
        argument(&mut self.arguments, Decimal::millis(life).as_bytes());
        self.collected.push(Renewal {
            request,
            key: self.keys.len() - keys,
            arguments: self.arguments.len() - arguments,
        });
    }

    /// The same for this pile.
    fn withdraw(&mut self, request: Request) -> bool {
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

    /// Returns how many go into the next command, from the one at `first` on, and how many bytes of the keys, and
    /// of the arguments, are theirs.
    fn next_command(&self, first: usize) -> (usize, usize, usize) {
        let (mut count, mut keys, mut arguments) = (0, 0, 0);
        for renewal in &self.collected[first..] {
            if count == BATCH_MAX || BATCH_BYTES_MAX < keys + arguments + COMMAND_BYTES_MAX {
                break;
            }
            count += 1;
            keys += renewal.key;
            arguments += renewal.arguments;
        }
        (count, keys, arguments)
    }

    /// Takes out all renewals.
    fn taken(&mut self) -> impl Iterator<Item = Request> {
        empty(&mut self.keys);
        empty(&mut self.arguments);
        self.collected.drain(..).map(|renewal| renewal.request)
    }
}

/// Empties `buffer`. One that is much larger than usual is given back to the allocator.
fn empty(buffer: &mut Vec<u8>) {
    buffer.clear();
    if buffer.capacity() > KEPT_BYTES {
        *buffer = Vec::new();
    }
}

fn decimal(number: usize) -> Decimal {
    Decimal::new(number as u64)
}

impl Node {
    /// Collects the renewal of `entry`, for at least `life` from now on. `watched`: the next change of its key is to
    /// be told. Returns `false` if this node is asked for it by a command of its own.
    pub(crate) fn renew(
        &mut self,
        now: Instant,
        request: Request,
        entry: &Entry,
        life: Duration,
        watched: bool,
    ) -> bool {
        let taught = self.phase.dialect(Taught::ExtendEach) == Dialect::Sha1;
        if !taught || self.batch.is_refused || entry.is_several() || self.ways.on {
            return false;
        }
        self.send_time(now, request);
        if self.batch.is_empty() {
            self.batch.since = now;
        }
        self.batch.piles[usize::from(!watched)].add(request, entry, life);
        if self.batch.len() == BATCH_MAX && self.outbox.is_blocked() {
            self.write_batch(now); // To take one back from among many costs less there.
        }
        true
    }

    /// Puts `request` behind the renewals that are collected, if it has to be.
    #[cold]
    #[inline(never)]
    pub(super) fn write_batch_before(&mut self, now: Instant, request: Request) {
        if self.batch.is_before(request) {
            self.write_batch(now);
        }
    }

    /// Puts the renewals that are collected into the out buffer.
    #[cold]
    #[inline(never)]
    pub(super) fn write_batch(&mut self, now: Instant) {
        let Self {
            batch,
            outbox,
            in_flight,
            phase,
            ..
        } = self;
        for (pile, watched) in batch.piles.iter().zip([true, false]) {
            let (mut first, mut key, mut argument) = (0, 0, 0);
            while first < pile.collected.len() {
                let (count, keys, arguments) = pile.next_command(first);
                if watched {
                    register_next(now, phase, outbox, in_flight);
                }
                let start = outbox.push_with(|out| {
                    let (keys, arguments) = (key..key + keys, argument..argument + arguments);
                    Batch::write(out, count, &pile.keys[keys], &pile.arguments[arguments]);
                });
                let mut len = outbox.len_from(start);
                if count != 1 {
                    in_flight.push(Request::Batch { count: count as u8 }, now, start, len);
                    batch.unanswered += count;
                    len = 0;
                }
                for renewal in &pile.collected[first..first + count] {
                    in_flight.push(renewal.request, now, start, len);
                }
                (first, key, argument) = (first + count, key + keys, argument + arguments);
            }
        }
        drop(batch.collected());
    }

    // ----- its turn -------------------------------------------------------------------------

    /// Returns `true` if renewals are to be written now, so many that others notice it.
    #[inline]
    pub(crate) fn is_to_renew(&self) -> bool {
        RENEWALS_FEW < self.batch.len() && !self.batch.waits && !self.outbox.is_blocked()
    }

    /// Returns `true` if it works for renewals, so that others wait.
    pub(crate) fn is_renewing(&self) -> bool {
        RENEWALS_FEW < self.batch.unanswered && !self.pulse.is_suspect()
    }

    /// The renewals that are collected wait from now on, or do so no longer.
    pub(crate) fn let_wait(&mut self, waits: bool) {
        self.batch.waits = waits;
    }

    /// Returns `true` if renewals wait for its turn.
    pub(crate) fn has_waiting(&self) -> bool {
        self.batch.waits
    }

    /// Returns since when renewals wait for its turn alone, and not for the socket.
    pub(crate) fn waiting_since(&self) -> Option<Instant> {
        (self.batch.waits && !self.outbox.is_blocked()).then_some(self.batch.since)
    }

    /// Returns the next answer to a batch, to one of its renewals.
    pub(crate) fn next_in_batch(&mut self, now: Instant) -> Option<Heard> {
        let Some(reply) = self.batch.answers.pop_front() else {
            let done = self.next_transacted();
            return done.or_else(|| self.finish_later(now));
        };
        let sent = self.in_flight.pop().must()?;
        Some(self.answered(now, &sent, reply))
    }
}
