//! Batches: one command renews many kept locks that are due together.
//!
//! The connection collects renewals until another command follows, or until the driver writes to the socket. Then it
//! writes the collected renewals as scripts that take many keys. A single renewal is written as an ordinary extension.
//! Many renewals are written only in the node's turn. Another module decides whose turn it is, and how long renewals
//! wait.
//!
//! Releases have batches too. Another module makes the batches of releases, and this module handles the answers to both
//! kinds of batches.
//!
//! Among the commands in flight, a batch comes before its renewals. Each renewal gets its own answer, as if it were a
//! separate command, so the layers above do not know about batches.
//!
//! # Guarantees
//!
//! * Each renewal gets the answer for its own key. If the number of answers is wrong, the connection ends.
//! * A command that follows a renewal is also written after the renewal. Only `SET`s and releases of other locks
//!   overtake renewals that wait for the node's turn.
//! * If the batch itself may have caused a refusal, the layers above do not see the refusal. Each renewal of the batch
//!   is then sent again in a separate command, as are all later renewals on this connection.
//!
//! # Not here
//!
//! After a batch is written, no renewal can be removed from it. If the socket accepts no bytes for a long time, a
//! renewal may reach the server after its lock has expired. The renewal always arrives before the lock's release.
//!
//! Renewals are sent one at a time for locks on several resources, to nodes with a marker, and to nodes that have
//! forgotten the script.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use crate::entry::Entry;
use crate::error::{LinkFault, ServerError};
use crate::keys::ClaimKey;
use crate::limits::{BATCH_BYTES_MAX, BATCH_MAX, ENTRY_BYTES_MAX, RENEWALS_FEW};
use crate::resp::{Decimal, Value, argument};
use crate::time::Instant;

use super::in_flight::InFlight;
use super::outbox::Outbox;
use super::tracking::register_next;
use crate::node::handshake::Trouble;
use crate::node::refusal::Refusal;
use crate::node::reply::{Reply, in_batch};
use crate::node::request::{Asker, Purpose, Request, Waking};
use crate::node::script::{self, Script};

/// The maximum capacity of an empty buffer that is kept for reuse. A larger buffer is freed.
const KEPT_BYTES: usize = 64 << 10;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The collected renewals. The first [`Pile`] holds the renewals that also request a notification of the next
    /// change to their key. This pile is written first, in separate commands.
    piles: [Pile; 2],
    /// When the first renewal was added.
    pub(super) since: Instant,
    /// Whether the renewals wait for this node's turn (`nodes::turns`). The flag is set only while the batch holds
    /// renewals.
    pub(crate) waits: bool,
    /// The number of renewals in unanswered batches.
    unanswered: usize,
    /// Whether the server has refused a batch on this connection.
    pub(in crate::node) is_refused: bool,
    /// The number of successful renewals or releases at the front of the commands in flight.
    done: usize,
    /// The answers to the renewals or releases at the front of the commands in flight, if any has failed. `None` stands
    /// for an answer that makes no sense.
    answers: VecDeque<Result<Option<Reply>, Refusal>>,
}

/// One pile of collected renewals.
#[derive(Debug, Default)]
struct Pile {
    /// The keys, as arguments in wire form. The field `arguments` contains the tokens and ttls in the same form.
    keys: Vec<u8>,
    arguments: Vec<u8>,
    collected: Vec<Collected>,
}

/// A collected renewal.
#[derive(Debug)]
struct Collected {
    request: Request,
    /// The number of bytes in `keys` and in `arguments` that belong to this renewal.
    key: usize,
    arguments: usize,
}

/// The renewal of a kept lock.
#[derive(Debug)]
pub(in crate::node) struct Renewal<'a> {
    pub(in crate::node) request: Request,
    pub(in crate::node) entry: &'a Entry,
    /// The minimum remaining life of the key.
    pub(in crate::node) life: Duration,
    /// Whether the node must also report the next change to the key.
    pub(in crate::node) watched: bool,
}

impl Batch {
    pub(in crate::node) fn is_empty(&self) -> bool {
        self.piles.iter().all(|pile| pile.collected.is_empty())
    }

    /// Returns `true` if the batch holds renewals that do not wait for the node's turn.
    pub(in crate::node) fn is_to_write(&self) -> bool {
        !self.is_empty() && !self.waits
    }

    pub(in crate::node) fn len(&self) -> usize {
        self.piles.iter().map(|pile| pile.collected.len()).sum()
    }

    pub(in crate::node) fn bytes(&self) -> usize {
        let bytes = |pile: &Pile| pile.keys.len() + pile.arguments.len();
        self.piles.iter().map(bytes).sum()
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() == BATCH_MAX
    }

    /// Collects `renewal`.
    pub(super) fn add(&mut self, now: Instant, renewal: &Renewal<'_>) {
        if self.is_empty() {
            self.since = now;
        }
        self.piles[usize::from(!renewal.watched)].add(renewal);
    }

    fn has_about(&self, claim: ClaimKey) -> bool {
        let about = |renewal: &Collected| renewal.request.is_about(claim);
        self.piles
            .iter()
            .any(|pile| pile.collected.iter().any(about))
    }

    /// Returns `true` if the collected renewals must be written before a command with this `purpose`.
    pub(super) fn is_before(&self, purpose: Purpose) -> bool {
        if let Purpose::Asked(Request::Release { claim, .. }) = purpose {
            return !self.waits || self.has_about(claim);
        }
        let is_of_others = matches!(
            purpose,
            Purpose::Asked(Request::Take { .. } | Request::Raise { .. })
        );
        !(is_of_others && self.waits)
    }

    /// Removes the renewal of `asker`, if this batch contains one.
    #[cold]
    pub(in crate::node) fn withdraw(&mut self, asker: Asker) -> bool {
        let found = self.piles.iter_mut().any(|pile| pile.withdraw(asker));
        self.waits &= !self.is_empty();
        found
    }

    /// Writes one command for the collected renewals. A single renewal is written as [`EXTEND`](script::EXTEND), which
    /// takes the same arguments.
    fn write(out: &mut Vec<u8>, count: usize, keys: &[u8], arguments: &[u8]) {
        let script = match count {
            1 => &script::EXTEND,
            _ => &script::EXTEND_EACH,
        };
        begin_command(out, script, count, 3 * count);
        out.extend_from_slice(keys);
        out.extend_from_slice(arguments);
    }

    /// Puts the collected renewals into the out buffer.
    pub(super) fn flush(
        &mut self,
        now: Instant,
        waking: &mut Waking,
        outbox: &mut Outbox,
        in_flight: &mut InFlight,
    ) {
        for (pile, watched) in self.piles.iter().zip([true, false]) {
            let (mut first, mut key, mut argument) = (0, 0, 0);
            while first < pile.collected.len() {
                let (count, keys, arguments) = pile.next_command(first);
                if watched {
                    register_next(now, waking, outbox, in_flight);
                }
                let start = outbox.push_with(|out| {
                    let (keys, arguments) = (key..key + keys, argument..argument + arguments);
                    Self::write(out, count, &pile.keys[keys], &pile.arguments[arguments]);
                });
                let mut len = outbox.len_from(start);
                if count != 1 {
                    self.unanswered += count;
                    let (count, releases) = (count as u8, false);
                    in_flight.push(Purpose::Batch { count, releases }, now, start, len);
                    len = 0;
                }
                for renewal in &pile.collected[first..first + count] {
                    in_flight.push(Purpose::Asked(renewal.request), now, start, len);
                }
                (first, key, argument) = (first + count, key + keys, argument + arguments);
            }
        }
        drop(self.collected());
    }

    /// Returns `true` if the node is busy with so many renewals that other commands must wait.
    pub(super) fn is_worked_on(&self) -> bool {
        RENEWALS_FEW < self.unanswered
    }

    /// Takes all collected renewals.
    fn collected(&mut self) -> impl Iterator<Item = Request> {
        self.waits = false;
        let [watched, others] = &mut self.piles;
        watched.taken().chain(others.taken())
    }

    /// Forgets everything because the connection is lost. Yields the collected renewals. No byte of these renewals has
    /// been sent.
    pub(in crate::node) fn drain(&mut self) -> impl Iterator<Item = (Request, bool)> {
        self.done = 0;
        self.answers.clear();
        self.is_refused = false;
        self.unanswered = 0;
        self.collected().map(|request| (request, false))
    }

    /// Handles the server's answer to a batch of `count` renewals or releases.
    ///
    /// # Errors
    ///
    /// Fails if the reply is not an answer to a batch.
    #[cold]
    #[inline(never)]
    pub(in crate::node) fn answered(
        &mut self,
        count: u8,
        releases: bool,
        value: Value<'_>,
    ) -> Result<(), Trouble> {
        let count = usize::from(count);
        self.unanswered -= if releases { 0 } else { count };
        if let Value::Error(_) | Value::BulkError(_) = value {
            let refusal = self.refusal(Refusal::of(value));
            let answers = core::iter::repeat_n(Err(refusal), count);
            self.answers.extend(answers);
            return Ok(());
        }
        let Value::Array(items) = value else {
            return Err(Trouble::Link(LinkFault::Protocol));
        };
        if items.len() != count {
            return Err(Trouble::Link(LinkFault::Protocol));
        }
        if items.are_all(b":1\r\n") {
            self.done = count;
            return Ok(());
        }
        let answers = items.iter().map(|item| match item.as_error() {
            Some(_) => Err(Refusal::of(item)),
            None => Ok(in_batch(item)),
        });
        self.answers.extend(answers);
        Ok(())
    }

    /// Takes the next answer to a renewal or release of the batch, if the batch was answered.
    pub(in crate::node) fn next_answer(&mut self) -> Option<Result<Option<Reply>, Refusal>> {
        match self.done.checked_sub(1) {
            Some(left) => {
                self.done = left;
                Some(Ok(Some(Reply::Done)))
            }
            None => self.answers.pop_front(),
        }
    }

    /// Handles the refusal of a whole batch, and returns the refusal for each of its commands. If the batch itself may
    /// have caused the refusal, each command is sent again separately, with the text of the ordinary script. Running a
    /// renewal or a release twice does no harm.
    fn refusal(&mut self, refusal: Refusal) -> Refusal {
        let error = refusal.error();
        let code = error.code();
        let alone = matches!(code, "NOSCRIPT" | "NOPERM" | "CROSSSLOT" | "ERR");
        self.is_refused |= alone && code != "NOSCRIPT";
        match alone {
            true => Refusal::Error(ServerError::from_line(b"NOSCRIPT")),
            false => refusal,
        }
    }
}

impl Pile {
    fn add(&mut self, renewal: &Renewal<'_>) {
        let (keys, arguments) = (self.keys.len(), self.arguments.len());
        self.keys.extend_from_slice(renewal.entry.key_argument());
        let life = Decimal::millis(renewal.life);
        self.arguments
            .extend_from_slice(renewal.entry.token_argument());
        argument(&mut self.arguments, life.as_bytes());
        self.collected.push(Collected {
            request: renewal.request,
            key: self.keys.len() - keys,
            arguments: self.arguments.len() - arguments,
        });
    }

    /// Removes the renewal of `asker` from this pile.
    fn withdraw(&mut self, asker: Asker) -> bool {
        let mut all = self.collected.iter();
        let Some(index) = all.position(|renewal| Asker::of(renewal.request) == Some(asker)) else {
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

    /// Returns how many renewals go into the next command, starting at `first`, and how many bytes of `keys` and
    /// `arguments` they take.
    fn next_command(&self, first: usize) -> (usize, usize, usize) {
        let (mut count, mut keys, mut arguments) = (0, 0, 0);
        for renewal in &self.collected[first..] {
            if count == BATCH_MAX || BATCH_BYTES_MAX < keys + arguments + ENTRY_BYTES_MAX {
                break;
            }
            count += 1;
            keys += renewal.key;
            arguments += renewal.arguments;
        }
        (count, keys, arguments)
    }

    /// Takes all renewals of the pile.
    fn taken(&mut self) -> impl Iterator<Item = Request> {
        empty(&mut self.keys);
        empty(&mut self.arguments);
        self.collected.drain(..).map(|renewal| renewal.request)
    }
}

/// Empties `buffer`. Frees the memory of the buffer if its capacity is larger than [`KEPT_BYTES`].
pub(super) fn empty(buffer: &mut Vec<u8>) {
    buffer.clear();
    if buffer.capacity() > KEPT_BYTES {
        *buffer = Vec::new();
    }
}

/// Writes the start of a command that runs `script`, up to the keys. `keys` is the number of keys, and `words` is the
/// total number of keys and arguments.
pub(super) fn begin_command(out: &mut Vec<u8>, script: &Script, keys: usize, words: usize) {
    out.push(b'*');
    out.extend_from_slice(decimal(3 + words).as_bytes());
    out.extend_from_slice(b"\r\n");
    for word in [b"EVALSHA", script.sha1.as_bytes(), decimal(keys).as_bytes()] {
        argument(out, word);
    }
}

fn decimal(number: usize) -> Decimal {
    Decimal::new(number as u64)
}
