//! One node: its connection, the commands that it has not answered, and the releases that it is still owed.
//!
//! A node knows bytes and the order of commands. It does not know what a round is: a [`Request`] names the claim or
//! operation that a command serves, and is returned with the reply.
//!
//! # Guarantees
//!
//! * **Order.** All commands about one key go over one connection, in the order in which they were asked for. Replies
//!   are matched by count. A push answers no command. A reply without a command ends the connection.
//! * **Handshake first.** No lock command is queued before the handshake is done, and debts from an earlier connection
//!   go before any `SET`.
//! * **Room for the release.** A `SET` is accepted only while there is room for its release too.
//!
//! # Not here
//!
//! Time-outs of rounds, the choice of what to send, and sockets.

mod cluster;
mod command;
mod connection;
mod debt;
mod doubt;
mod fencing;
mod handshake;
mod permission;
mod question;
mod receive;
mod releasing;
mod reply;
mod request;
mod script;
mod several;
mod trust;
mod ways;
mod write;

use alloc::vec::Vec;
use core::time::Duration;

use crate::config::{Config, NodeConfig};
use crate::error::{LinkFault, NodeOutcome};
use crate::keys::ClaimKey;
use crate::limits::{
    COMMAND_BYTES_MAX, HANDSHAKE_STRING_BYTES_MAX, IN_FLIGHT_MAX, OUT_BYTES_MAX, REPLY_BYTES_MAX,
    REPLY_DEPTH_MAX, REPLY_ELEMENTS_MAX,
};
use crate::resource::OwnedToken;
use crate::resp::{Inbox, Limits};
use crate::time::Instant;
use crate::timer::TimerKey;

use connection::{Batch, InFlight, Late, Outbox, Pulse, Transactions};
use debt::Debts;
use fencing::Fencing;
use handshake::{Handshake, Phase};
use permission::Permissions;
use request::{Step, Taught};
use trust::{TIME, Trust};
use ways::Ways;

pub(crate) use connection::{Heard, Whose, Work};
pub(crate) use fencing::{cursor_in, forbidden_to_fence};
pub use handshake::NodeState;
pub(crate) use handshake::{Access, HELLO, Trouble};
pub(crate) use permission::{forbidden_to_extend, forbidden_to_lock};
pub(crate) use reply::{
    Forbidden, Reply, Said, refuses_for_certain, refuses_the_verb, wants_the_text,
};
pub use request::Waking;
pub(crate) use request::{Dialect, Question, Remaining, Request};
#[cfg(any(test, feature = "embedded"))]
pub(crate) use script::Script;
#[cfg(feature = "embedded")]
pub(crate) use script::{CHECKED_ACQUIRE, CHECKED_CONFIRM, CHECKED_EXTEND};
#[cfg(any(test, feature = "embedded"))]
pub(crate) use script::{
    CONFIRM, CONFIRM_SEVERAL, COUNT_COUNTERS, EXTEND, EXTEND_EACH, EXTEND_SEVERAL, INSPECT, JOIN,
    LOOK_AT_FLOOR, OVERWRITE, RAISE_FENCED, RELEASE, RELEASE_SEVERAL, REPAIR_FLOOR, SET_FLOOR,
    SET_IF_PERMITTED, TAKE_FENCED, TAKE_SEVERAL,
};
pub(crate) use trust::{Mode, Terms, whole_millis};
pub(crate) use ways::Refused;
pub(crate) use write::Command;

/// The shortest silence after which a node is suspect. A busy machine is silent for almost this long now and then.
const SUSPECT_MIN: Duration = Duration::from_millis(100);

/// One node of the quorum.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) handshake: Handshake,
    inbox: Inbox,
    outbox: Outbox,
    in_flight: InFlight,
    batch: Batch,
    transactions: Transactions,
    ways: Ways,
    /// What the latest answer of a transaction showed, in wire form.
    shown: Option<Vec<u8>>,
    /// Pushes since the last answer.
    pushes: u32,
    /// The node has refused its native way to release, and no script since.
    native_refused: bool,
    pub(crate) debts: Debts,
    pub(crate) trust: Trust,
    permissions: Permissions,
    fencing: Fencing,
    /// Operations whose question waits until the handshake is done.
    pub(crate) waiting: Late,
    pub(crate) pulse: Pulse,
    /// How often a probe has ended the connection since the node last answered a lock command, and the time before
    /// which no further probe is opened.
    probed: u32,
    probed_until: Instant,
    /// The number of locks that the node has granted.
    pub(crate) grants: u64,
    /// The node timeout of the latest question, in nanoseconds.
    pub(crate) timeout: u64,
    /// The timer of a silence, and the time at which it fires.
    pub(crate) silence_timer: Option<(TimerKey, Instant)>,
    pub(crate) debt_timer: Option<TimerKey>,
    /// The token of the holder that a look has asked for, until it is taken.
    token: Option<OwnedToken>,
}

impl Node {
    pub(crate) fn new(config: &Config, node: &NodeConfig) -> Self {
        Self {
            handshake: Handshake::new(config, node),
            inbox: Inbox::new(Limits {
                line_bytes: REPLY_BYTES_MAX,
                bulk_bytes: REPLY_BYTES_MAX,
                reply_bytes: REPLY_BYTES_MAX,
                elements: REPLY_ELEMENTS_MAX,
                depth: REPLY_DEPTH_MAX,
            }),
            outbox: Outbox::default(),
            in_flight: InFlight::default(),
            batch: Batch::default(),
            transactions: Transactions::default(),
            ways: Ways::new(config.without_scripts()),
            shown: None,
            pushes: 0,
            native_refused: false,
            debts: Debts::default(),
            trust: Trust::new(config),
            permissions: Permissions::default(),
            fencing: Fencing::new(config.counter_ttl()),
            waiting: Late::default(),
            pulse: Pulse::default(),
            probed: 0,
            probed_until: Instant::ZERO,
            grants: 0,
            timeout: 0,
            silence_timer: None,
            debt_timer: None,
            token: None,
        }
    }

    // ----- the connection -------------------------------------------------------------------

    /// The connection is up: sends the first command of the handshake. Returns `false` if no connection was being
    /// opened.
    pub(crate) fn connected(&mut self, now: Instant) -> bool {
        if !self.handshake.connected() {
            return false;
        }
        self.inbox.cut_strings(HANDSHAKE_STRING_BYTES_MAX);
        self.pulse.connected(now);
        self.ask(now, Step::Hello);
        true
    }

    /// The connection is gone, or could not be opened. Forgets everything that belongs to it. Returns every request
    /// that was not answered, and whether its command may have left.
    pub(crate) fn disconnected(&mut self, trouble: Trouble) -> Vec<(Request, bool)> {
        let unsent = |start| self.outbox.is_unsent(start);
        let lost = self.in_flight.drain(unsent);
        let lost = lost.chain(self.batch.drain());
        let lost: Vec<_> = lost.chain(self.transactions.drain()).collect();
        self.outbox.clear();
        self.inbox.clear();
        self.handshake.disconnected(trouble);
        self.pulse.heard();
        self.pushes = 0;
        self.permissions.disconnected();
        self.fencing.disconnected();
        self.ways.disconnected();
        self.trust.disconnected();
        lost
    }

    /// Returns the node's state, for reports to operators.
    pub(crate) fn state(&self, now: Instant) -> NodeState {
        if let (Phase::Ready { .. }, Some(missing)) =
            (&self.handshake.phase, self.missing_permission())
        {
            return NodeState::Unusable(missing);
        }
        match (&self.handshake.phase, self.handshake.trouble) {
            (Phase::Ready { .. }, _) if self.is_suspect() => NodeState::Suspect,
            (Phase::Ready { .. }, _) => {
                let until = self.trust.kept_until(now);
                until.map_or(NodeState::Ready, |until| NodeState::Quarantined {
                    left: until.saturating_since(now),
                })
            }
            (_, Trouble::Unusable(reason)) => NodeState::Unusable(reason),
            (Phase::Down, Trouble::Link(reason)) => NodeState::Down(reason.into()),
            (_, Trouble::Link(LinkFault::NotYet)) => NodeState::New,
            (_, Trouble::Link(_)) => NodeState::Connecting,
        }
    }

    /// Returns `true` if the node's votes count at `now`, as far as is known.
    pub(crate) fn counts(&self, now: Instant) -> bool {
        self.serves() && self.trust.kept_until(now).is_none()
    }

    /// Returns the time from which the node's votes may count, as far as is known at `now`; [`Instant::MAX`] while the
    /// node cannot be asked.
    pub(crate) fn may_count_from(&self, now: Instant) -> Instant {
        match self.trust.unasked_until(now) {
            _ if !self.serves() => Instant::MAX,
            Some(until) if until <= now => Instant::MAX, // The end is not known.
            until => until.unwrap_or(Instant::ZERO),
        }
    }

    fn serves(&self) -> bool {
        self.handshake.is_ready() && !self.is_suspect() && self.missing_permission().is_none()
    }

    // ----- asking ---------------------------------------------------------------------------

    /// Returns whether a question can be asked now, with room for a release later.
    #[inline(always)]
    pub(crate) fn access(&self) -> Access {
        match (&self.handshake.phase, self.handshake.trouble) {
            (Phase::Ready { .. }, _) if self.is_suspect() || !self.has_room_for_question() => {
                Access::Shut(NodeOutcome::TimedOut)
            }
            (Phase::Ready { .. }, _) => Access::Open,
            // The trouble may be over: the connection that is being opened will show it.
            (Phase::Connecting | Phase::Handshake(_), trouble) => Access::Handshake {
                first: trouble == Trouble::Link(LinkFault::NotYet),
            },
            (Phase::Down, trouble) => Access::Shut(trouble.outcome()),
        }
    }

    /// Returns `true` if the node has been silent for too long, or if unanswered commands take half of its room. A
    /// suspect node gets no questions, so that the other half remains for the releases of what it may hold.
    pub(crate) fn is_suspect(&self) -> bool {
        guard!(SuspectAsked, self.pulse.is_suspect())
            || self.debts.is_due()
            || self.in_flight.len() >= IN_FLIGHT_MAX / 2
            || self.outbox.len() >= OUT_BYTES_MAX / 2
    }

    /// Returns `true` if a command that is sent now has to wait until earlier bytes have left.
    pub(crate) fn is_blocked(&self) -> bool {
        self.outbox.is_blocked()
    }

    fn has_room_for_question(&self) -> bool {
        self.in_flight.reserved() + self.batch.len() + 2 <= IN_FLIGHT_MAX / 2
            && self.unsent() + COMMAND_BYTES_MAX <= OUT_BYTES_MAX / 2
    }

    /// Returns `true` if there is room for a release of `len` bytes.
    pub(crate) fn has_room_for_release(&self, len: usize) -> bool {
        self.in_flight.len() < IN_FLIGHT_MAX && self.outbox.len() + len <= OUT_BYTES_MAX
    }

    /// Puts `command` into the out buffer. If the clock watch is due, `TIME` goes in front of a question about a lock.
    pub(crate) fn send(&mut self, now: Instant, request: Request, command: &[u8]) {
        self.send_time(now, request);
        self.put(now, request, command);
    }

    #[inline(always)]
    fn send_time(&mut self, now: Instant, request: Request) {
        if self.trust.clock.is_due(now) && request.is_question() {
            self.trust.clock.asked();
            self.put(now, Request::Time, TIME);
        }
    }

    fn put(&mut self, now: Instant, request: Request, command: &[u8]) {
        debug_assert!(self.handshake.hears(), "a command goes over a connection");
        if !self.batch.is_empty() {
            self.write_batch_before(now, request);
        }
        let start = self.outbox.push(command);
        self.in_flight.push(request, now, start, command.len());
    }

    /// Takes the command for `request` out of the out buffer if none of its bytes has left.
    #[inline(always)]
    pub(crate) fn withdraw(&mut self, request: Request) -> bool {
        let is_idle = self.outbox.is_empty() && self.batch.is_empty();
        !(is_idle && self.transactions.is_empty()) && self.withdraw_unsent(request)
    }

    fn withdraw_unsent(&mut self, request: Request) -> bool {
        if !self.batch.is_empty() && self.batch.withdraw(request) {
            return true;
        }
        if !self.transactions.is_empty() && self.withdraw_work(request) {
            return true;
        }
        if self.outbox.is_empty() {
            return false;
        }
        let unsent = |start| self.outbox.is_unsent(start);
        let Some(len) = self.in_flight.withdraw(request, unsent) else {
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

    /// Takes the `SET` of `claim` out of the out buffer if none of its bytes has left.
    #[inline(always)]
    pub(crate) fn withdraw_set(&mut self, claim: ClaimKey) -> bool {
        if self.outbox.is_empty() && self.transactions.is_empty() {
            return false;
        }
        self.withdraw(Request::Set { claim })
            || self.withdraw_first_set(claim)
            || self.withdraw(Request::FencedSet { claim })
    }

    /// Does the same for a token that is no longer wanted. A transaction that has only read for it does not take the
    /// keys either.
    pub(crate) fn give_up_set(&mut self, claim: ClaimKey) -> bool {
        let request = Request::Set { claim };
        self.withdraw_set(claim)
            || !self.transactions.is_empty() && self.transactions.give_up_taking(request)
    }

    /// Returns `true` if a nil to a `SET` may be due to a key of our own that is being released: a repeated release of
    /// the same key is on its way, or waits to be tried again. `same` recognises the claim of that key.
    pub(crate) fn is_repairing(&self, same: impl Fn(ClaimKey) -> bool) -> bool {
        self.in_flight.is_repairing(&same)
            || self.debts.is_deferred(&same)
            || self.transactions.is_releasing(&same)
    }

    /// Returns `true` if a release of such a claim is not even written yet, because it takes two round trips or waits
    /// for other work.
    pub(crate) fn is_to_release(&self, same: impl Fn(ClaimKey) -> bool) -> bool {
        self.transactions.is_to_release(&same)
    }

    fn teach_scripts(&mut self, now: Instant) {
        let questions = self.trust.questions().iter();
        for step in questions.filter(|step| matches!(step, Step::Load(_))) {
            self.ask(now, *step);
        }
    }

    /// Sends one question of the handshake.
    fn ask(&mut self, now: Instant, step: Step) {
        let mut command = Vec::new();
        if self.handshake.credentials.ask(&mut command, step) {
            self.ask_server(now, step, &command);
        }
    }

    fn ask_server(&mut self, now: Instant, step: Step, command: &[u8]) {
        self.send(now, Request::Handshake(step), command);
        if let Some(server) = self.handshake.phase.server_mut() {
            server.open += 1;
        }
    }

    /// Sends the last questions of the handshake, behind the debts, and loads the scripts.
    pub(crate) fn survey(&mut self, now: Instant) {
        for step in self.trust.questions() {
            if !(self.ways.never && matches!(step, Step::Load(_))) {
                self.ask(now, *step);
            }
        }
        if let Some(server) = self.handshake.phase.server_mut() {
            server.surveyed = true;
        }
    }

    // ----- how it is heard ------------------------------------------------------------------

    /// One turn has read everything that had arrived. If the node is silent, returns since when. Commands that still
    /// wait to be written do not count as unanswered.
    pub(crate) fn listen(&mut self, now: Instant) -> Option<Instant> {
        let first = self.in_flight.front();
        let open = first.is_some_and(|start| !self.outbox.is_unsent(start));
        self.pulse.listen(now, open)
    }

    /// Returns how long a node may be silent before it is suspect.
    pub(crate) fn patience(&self) -> Duration {
        let timeouts = self.timeout.saturating_mul(4);
        Duration::from_nanos(timeouts).max(SUSPECT_MIN)
    }

    /// Returns `true` if the node needs another connection, because its path may have become longer than this
    /// connection allows for.
    pub(crate) fn has_moved_away(&self) -> bool {
        self.handshake.is_ready() && self.pulse.has_moved_away()
    }

    /// Returns `true` if a probe should be opened: the connection is ready but suspect, or its opening or handshake has
    /// been silent for at least `least`.
    pub(crate) fn is_to_be_probed(&self, now: Instant, least: Duration) -> bool {
        let least = least.max(self.pulse.distance() * 4);
        let due = |since: Instant| since.saturating_add(least) <= now;
        let silent = match &self.handshake.phase {
            Phase::Down => false,
            Phase::Connecting => due(self.handshake.tried_at),
            Phase::Handshake(_) => self.pulse.silent_since().is_some_and(due),
            Phase::Ready { .. } => self.pulse.is_suspect(),
        };
        silent && (self.probed == 0 || self.probed_until <= now)
    }

    /// A probe was answered while the connection was silent. If the next connection is silent too, the next probe waits
    /// twice as long.
    pub(crate) fn probed(&mut self, now: Instant, least: Duration) {
        self.probed_until = now.saturating_add(least * (1 << self.probed.min(5)));
        self.probed = self.probed.saturating_add(1);
    }

    // ----- writing --------------------------------------------------------------------------

    /// Returns `true` if the node has something to write now.
    pub(crate) fn is_to_write(&self) -> bool {
        let empty = self.outbox.is_empty() && !self.batch.is_to_write();
        !(empty || self.outbox.is_blocked())
    }

    /// Returns what to write now, if anything may be written.
    pub(crate) fn offer(&mut self, now: Instant) -> Option<&[u8]> {
        if self.batch.is_to_write() && !self.outbox.is_blocked() {
            self.write_batch(now);
        }
        if self.outbox.has_withdrawn() {
            self.sweep();
        }
        self.outbox.offer()
    }

    pub(crate) fn transmitted(&mut self, len: usize) {
        if self.outbox.has_withdrawn() {
            self.sweep();
        }
        self.outbox.transmitted(len);
    }

    pub(crate) fn unblock(&mut self) {
        self.outbox.unblock();
    }

    /// Returns how many commands withdrawals have looked at.
    #[cfg(test)]
    pub(crate) fn steps(&self) -> usize {
        self.in_flight.steps()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len() + self.batch.len() + self.transactions.len()
    }

    pub(crate) fn unsent(&self) -> usize {
        self.outbox.len() + self.batch.bytes()
    }
}
