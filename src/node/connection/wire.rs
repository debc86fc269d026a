//! The commands that are queued for one node, and the commands that the node has not answered.
//!
//! # Guarantees
//!
//! * **Order.** Commands leave in the order in which they were queued, and receive their answers in the same order.
//!   Collected renewals are written before any command that must follow them: see [`Batch`]. Consecutive releases are
//!   written as one command, which keeps their place in the order: see [`releases`](super::releases).
//! * A command can be withdrawn only if none of its bytes has been sent.
//!
//! # Not here
//!
//! The module `transaction` handles work that needs several commands. Other modules decide what to send.

use alloc::vec::Vec;

use crate::entry::Entry;
use crate::limits::{COMMAND_BYTES_MAX, IN_FLIGHT_MAX, OUT_BYTES_MAX, RENEWALS_FEW};
use crate::node::request::{Asker, Purpose, Request, Waking};
use crate::time::Instant;

use super::batch::{Batch, Renewal};
use super::in_flight::InFlight;
use super::outbox::Outbox;
use super::releases::Row;
use super::tracking::register_next;

#[cfg(test)]
mod tests;

/// If a node has at least this many unanswered commands, it is busy, and [`Look`](Purpose::Look) commands must wait.
const BUSY: usize = 512;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Wire {
    pub(crate) outbox: Outbox,
    pub(crate) in_flight: InFlight,
    pub(crate) batch: Batch,
    /// The releases since the last command of another kind.
    row: Row,
    /// How the node wakes waiters when a lock may be free.
    pub(crate) waking: Waking,
}

impl Wire {
    // ----- putting --------------------------------------------------------------------------

    /// Puts `command`, which has this `purpose`, into the out buffer.
    // This function and its callers are inlined into the loop over the nodes.
    #[inline(always)]
    pub(in crate::node) fn put(&mut self, now: Instant, purpose: Purpose, command: &[u8]) {
        if self.has_before() {
            self.write_before(now, purpose);
        }
        self.push(now, purpose, command);
    }

    /// Appends `command` to the out buffer, and records that an answer is expected.
    #[inline(always)]
    fn push(&mut self, now: Instant, purpose: Purpose, command: &[u8]) {
        let start = self.outbox.push(command);
        self.in_flight.push(purpose, now, start, command.len());
    }

    /// Like [`put`](Self::put), but for a command that `write` appends.
    pub(super) fn put_with(
        &mut self,
        now: Instant,
        purpose: Purpose,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        if self.has_before() {
            self.write_before(now, purpose);
        }
        let start = self.outbox.push_with(write);
        let len = self.outbox.len_from(start);
        self.in_flight.push(purpose, now, start, len);
    }

    /// Makes the server register the keys that the next command reads, if the node supports notifications. If a `MULTI`
    /// comes next, the server registers all keys that are read until `EXEC`.
    pub(in crate::node) fn register(&mut self, now: Instant) {
        if !self.batch.is_empty() {
            self.write_batch(now);
        }
        self.end_row();
        let (outbox, in_flight) = (&mut self.outbox, &mut self.in_flight);
        register_next(now, &mut self.waking, outbox, in_flight);
    }

    /// Returns `true` if the connection has space for a question and for its later release.
    #[inline]
    pub(in crate::node) fn has_room_for_question(&self) -> bool {
        self.in_flight.reserved() + self.batch.len() + 2 <= IN_FLIGHT_MAX / 2
            && self.unsent() + COMMAND_BYTES_MAX <= OUT_BYTES_MAX / 2
    }

    /// Returns `true` if the connection has space for a release of `len` bytes.
    #[inline]
    pub(in crate::node) fn has_room_for_release(&self, len: usize) -> bool {
        self.in_flight.len() < IN_FLIGHT_MAX
            && self.outbox.len() + self.row.bytes() + len <= OUT_BYTES_MAX
    }

    /// Returns `true` if the unanswered commands or the unsent bytes have reached half of their limit.
    #[inline]
    pub(in crate::node) fn is_half_full(&self) -> bool {
        self.in_flight.len() >= IN_FLIGHT_MAX / 2 || self.outbox.len() >= OUT_BYTES_MAX / 2
    }

    /// Returns `true` if the node is so busy that [`Look`](Purpose::Look) commands must wait.
    pub(crate) fn is_busy(&self) -> bool {
        BUSY <= self.in_flight.len()
    }

    // ----- releases -------------------------------------------------------------------------

    /// Works like [`put`](Self::put) for the release of `entry`, which is sent by digest. The release may be joined
    /// with neighbouring releases into one command.
    // This function is inlined into its only caller, which is on the hot path.
    #[inline(always)]
    pub(in crate::node) fn put_release(
        &mut self,
        now: Instant,
        request: Request,
        entry: &Entry,
        command: &[u8],
    ) {
        let purpose = Purpose::Asked(request);
        if self.has_before() {
            return self.put_release_behind(now, purpose, entry, command);
        }
        self.row.begin(entry.key_argument());
        self.push(now, purpose, command);
    }

    /// The part of `put_release` for a release that follows other releases or collected renewals.
    // If a handle has many callers, nearly all releases take this path.
    #[inline(always)]
    fn put_release_behind(
        &mut self,
        now: Instant,
        purpose: Purpose,
        entry: &Entry,
        command: &[u8],
    ) {
        if self.row.is_full() {
            self.end_row();
        }
        if !self.batch.is_empty() && self.batch.is_before(purpose) {
            self.write_batch(now);
        }
        let (key, token) = (entry.key_argument(), entry.token_argument());
        let (outbox, in_flight) = (&mut self.outbox, &mut self.in_flight);
        if self.row.add(key, token, outbox, in_flight) {
            in_flight.push(purpose, now, outbox.end(), 0);
        } else {
            self.row.begin(key);
            self.push(now, purpose, command);
        }
    }

    /// Ends the [`Row`] of releases.
    #[inline(always)]
    fn end_row(&mut self) {
        self.row.end(&mut self.outbox, &mut self.in_flight);
    }

    // ----- prefixes of commands -------------------------------------------------------------

    /// Returns `true` if collected renewals or a [`Row`] of releases may have to be written before the next command.
    #[inline(always)]
    fn has_before(&self) -> bool {
        !self.row.is_empty() || !self.batch.is_empty()
    }

    /// Ends the [`Row`] of releases. Writes the collected renewals if they must precede a command with this `purpose`.
    #[cold]
    #[inline(never)]
    fn write_before(&mut self, now: Instant, purpose: Purpose) {
        self.end_row();
        if !self.batch.is_empty() && self.batch.is_before(purpose) {
            self.write_batch(now);
        }
    }

    // ----- renewals -------------------------------------------------------------------------

    /// Collects `renewal`.
    pub(in crate::node) fn collect(&mut self, now: Instant, renewal: &Renewal<'_>) {
        self.batch.add(now, renewal);
        if self.batch.is_full() && self.outbox.is_blocked() {
            self.write_batch(now); // If there are many, one is cheaper to withdraw from the out buffer.
        }
    }

    /// Puts the collected renewals into the out buffer.
    #[cold]
    #[inline(never)]
    fn write_batch(&mut self, now: Instant) {
        self.end_row();
        let (outbox, in_flight) = (&mut self.outbox, &mut self.in_flight);
        self.batch.flush(now, &mut self.waking, outbox, in_flight);
    }

    /// Returns `true` if renewals can be written now, but are too many to be written before the node's turn.
    #[inline]
    pub(crate) fn is_to_renew(&self) -> bool {
        RENEWALS_FEW < self.batch.len() && !self.batch.waits && !self.outbox.is_blocked()
    }

    /// Returns the time at which renewals began to wait for the node's turn, or `None` if none wait or the socket is
    /// not writable.
    pub(crate) fn waiting_since(&self) -> Option<Instant> {
        (self.batch.waits && !self.outbox.is_blocked()).then_some(self.batch.since)
    }

    // ----- withdrawing ----------------------------------------------------------------------

    /// Removes the question of `asker` from the out buffer if none of its bytes has been sent.
    pub(super) fn withdraw(&mut self, asker: Asker) -> bool {
        if self.outbox.is_empty() {
            return false;
        }
        let unsent = |start| self.outbox.is_unsent(start);
        let Some(len) = self.in_flight.withdraw(asker, unsent) else {
            return false;
        };
        self.outbox.withdraw(len);
        if self.in_flight.is_mostly_withdrawn() {
            self.sweep();
        }
        true
    }

    /// Removes all withdrawn commands in one pass.
    #[cold]
    #[inline(never)]
    fn sweep(&mut self) {
        let (in_flight, outbox) = (&mut self.in_flight, &mut self.outbox);
        outbox.remove(|remove| in_flight.sweep(remove));
    }

    // ----- writing --------------------------------------------------------------------------

    /// Returns `true` if something can be written to the node now.
    pub(crate) fn is_to_write(&self) -> bool {
        let empty = self.outbox.is_empty() && self.row.is_empty() && !self.batch.is_to_write();
        !(empty || self.outbox.is_blocked())
    }

    /// Returns the bytes to write now, if any may be written.
    pub(crate) fn offer(&mut self, now: Instant) -> Option<&[u8]> {
        if self.batch.is_to_write() && !self.outbox.is_blocked() {
            self.write_batch(now);
        }
        self.end_row();
        if self.outbox.has_withdrawn() {
            self.sweep();
        }
        self.outbox.offer()
    }

    /// Records that the operating system has accepted the first `len` of the offered bytes.
    pub(crate) fn transmitted(&mut self, len: usize) {
        if self.outbox.has_withdrawn() {
            self.sweep();
        }
        self.outbox.transmitted(len);
    }

    /// Returns the number of bytes that wait to be written.
    pub(crate) fn unsent(&self) -> usize {
        self.outbox.len() + self.row.bytes() + self.batch.bytes()
    }

    /// Handles the loss of the connection. Returns every unanswered request, with a flag that is `true` if its command
    /// may have been sent.
    pub(super) fn drain(&mut self) -> Vec<(Request, bool)> {
        let unsent = |start| self.outbox.is_unsent(start);
        let lost = self.in_flight.drain(unsent).chain(self.batch.drain());
        let lost = lost.collect();
        self.outbox.clear();
        self.row.clear();
        self.waking = Waking::Unasked;
        lost
    }
}
