//! The connection to one node: the bytes in both directions, the unanswered requests, and how fast the node answers.
//!
//! # Not here
//!
//! The module `handshake` handles the start of a connection. Other modules decide what to send, and interpret the
//! answers.

mod batch;
mod in_flight;
mod late;
mod outbox;
mod pulse;
mod releases;
pub(super) mod tracking;
mod transaction;
mod wire;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use crate::limits::{
    HANDSHAKE_STRING_BYTES_MAX, REPLY_BYTES_MAX, REPLY_DEPTH_MAX, REPLY_ELEMENTS_MAX,
};
use crate::node::members::Member;
use crate::resource::OwnedToken;
use crate::resp::{Inbox, Limits};
use crate::time::Instant;
use crate::timer::TimerKey;

use super::request::{Asker, Request};
use late::Late;
use pulse::Pulse;

pub(super) use batch::Renewal;
pub(crate) use in_flight::Heard;
pub(super) use in_flight::{InFlight, Sent};
pub(crate) use late::Whose;
pub(super) use transaction::Transactions;
pub(crate) use transaction::Work;
pub(super) use wire::Wire;

/// The shortest silence after which a node is suspect. A busy machine is sometimes silent for almost this long.
const SUSPECT_MIN: Duration = Duration::from_millis(100);

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Connection {
    pub(super) inbox: Inbox,
    pub(crate) wire: Wire,
    pub(crate) transactions: Transactions,
    pub(crate) pulse: Pulse,
    /// The number of pushes since the last answer.
    pub(super) pushes: u32,
    /// Operations whose question waits until the handshake is done.
    pub(crate) waiting: Late,
    /// The token that the node's latest answer names, until the engine takes it.
    pub(crate) token: Option<OwnedToken>,
    /// The holders that an inspection has found instead of a token, until the engine takes them.
    pub(crate) members: Option<Box<[Member]>>,
    /// The keys that a scan has found, until the engine takes them.
    pub(crate) keys: Option<Vec<Box<[u8]>>>,
    /// The number of times that a probe has ended the connection since the node last answered a lock command. The
    /// engine opens no further probe before `probed_until`.
    pub(super) probed: u32,
    pub(super) probed_until: Instant,
    /// The node timeout of the latest question, in nanoseconds.
    pub(crate) timeout: u64,
    /// The timer for a silence, and the time when it fires.
    pub(crate) silence_timer: Option<(TimerKey, Instant)>,
}

impl Connection {
    pub(super) fn new() -> Self {
        Self {
            inbox: Inbox::new(Limits {
                line_bytes: REPLY_BYTES_MAX,
                bulk_bytes: REPLY_BYTES_MAX,
                reply_bytes: REPLY_BYTES_MAX,
                elements: REPLY_ELEMENTS_MAX,
                depth: REPLY_DEPTH_MAX,
            }),
            wire: Wire::default(),
            transactions: Transactions::default(),
            pulse: Pulse::default(),
            pushes: 0,
            waiting: Late::default(),
            token: None,
            members: None,
            keys: None,
            probed: 0,
            probed_until: Instant::ZERO,
            timeout: 0,
            silence_timer: None,
        }
    }

    pub(super) fn connected(&mut self, now: Instant) {
        self.inbox.cut_strings(HANDSHAKE_STRING_BYTES_MAX);
        self.pulse.connected(now);
    }

    /// Handles the loss of the connection, or a failure to open it. Forgets everything that belongs to the connection.
    /// Returns every unanswered request, with a flag that is `true` if its command may have been sent.
    pub(super) fn disconnected(&mut self) -> Vec<(Request, bool)> {
        let mut lost = self.wire.drain();
        lost.extend(self.transactions.drain());
        self.inbox.clear();
        self.pulse.heard();
        self.pushes = 0;
        lost
    }

    /// Returns the number of unanswered requests.
    pub(crate) fn in_flight(&self) -> usize {
        self.wire.in_flight.len() + self.wire.batch.len() + self.transactions.len()
    }

    /// Returns `true` if the socket accepts bytes, and no renewals or transactions wait.
    #[inline]
    pub(super) fn keeps_up(&self) -> bool {
        let wire = &self.wire;
        !wire.outbox.is_blocked() && wire.batch.is_empty() && self.transactions.is_empty()
    }

    // ----- withdrawing ----------------------------------------------------------------------

    /// Removes the question of `asker` from the out buffer if none of its bytes has been sent.
    #[inline(always)]
    pub(crate) fn withdraw(&mut self, asker: Asker) -> bool {
        let is_idle = self.wire.outbox.is_empty() && self.wire.batch.is_empty();
        !(is_idle && self.transactions.is_empty()) && self.withdraw_unsent(asker)
    }

    fn withdraw_unsent(&mut self, asker: Asker) -> bool {
        let (wire, transactions) = (&mut self.wire, &mut self.transactions);
        !wire.batch.is_empty() && wire.batch.withdraw(asker)
            || !transactions.is_empty() && transactions.withdraw(asker, wire)
            || wire.withdraw(asker)
    }

    // ----- listening ------------------------------------------------------------------------

    /// Checks for a silence after the driver has read all bytes that had arrived. If the node is silent, returns the
    /// time at which the silence began. Commands that are not written yet do not count as unanswered.
    pub(crate) fn listen(&mut self, now: Instant) -> Option<Instant> {
        let first = self.wire.in_flight.front();
        let open = first.is_some_and(|start| !self.wire.outbox.is_unsent(start));
        self.pulse.listen(now, open)
    }

    /// Returns how long a node may be silent before it is suspect.
    pub(crate) fn patience(&self) -> Duration {
        let timeouts = self.timeout.saturating_mul(4);
        Duration::from_nanos(timeouts).max(SUSPECT_MIN)
    }

    /// Records that the node answered a probe while the connection was silent. If the next connection is silent too,
    /// the next probe waits twice as long.
    pub(crate) fn probed(&mut self, now: Instant, least: Duration) {
        self.probed_until = now.saturating_add(least * (1 << self.probed.min(5)));
        self.probed = self.probed.saturating_add(1);
    }

    /// Returns `true` if the node is busy with so many renewals that other commands must wait.
    pub(crate) fn is_renewing(&self) -> bool {
        self.wire.batch.is_worked_on() && !self.pulse.is_suspect()
    }
}
