//! One node: its [`Handshake`], its [`Connection`], the [`Trust`] in its answers, its [`Abilities`], and its debts.
//!
//! A node handles the bytes and the order of commands, but knows nothing about operations. A [`Request`] names the
//! claim or operation behind a command, and the node returns the request with the reply.
//!
//! # Guarantees
//!
//! * **Order.** All commands about one key use one connection, in the order in which they were requested. Replies are
//!   matched with commands by their order. A push is not a reply. A reply without a command ends the connection.
//! * **Handshake first.** The node queues no lock command before the end of the handshake, and sends the unconfirmed
//!   releases of an earlier connection before any `SET`.
//! * **Space for the release.** The node accepts a `SET` only while the connection has space for its release too.
//!
//! # Not here
//!
//! Other modules handle timeouts and sockets, and decide what to send.

mod abilities;
mod connection;
mod debt;
mod handshake;
mod members;
mod receive;
mod recipes;
mod refusal;
mod reply;
mod request;
mod script;
mod send;
mod trust;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::config::{Config, NodeConfig};
use crate::error::{LinkFault, NodeOutcome, TrustFault, Unusable};
use crate::keys::ClaimKey;
use crate::time::Instant;
use crate::timer::TimerKey;

use abilities::Abilities;
use connection::Connection;
use debt::Debts;
use handshake::{Handshake, Phase};
use request::{Purpose, Step};
use trust::Trust;

pub(crate) use connection::{Heard, Whose};
pub use handshake::NodeState;
pub(crate) use handshake::{Access, HELLO, Trouble};
pub(crate) use members::{Member, Slot};
pub(crate) use recipes::Command;
pub(crate) use reply::{Answer, Reply};
pub use request::Waking;
pub(crate) use request::{Asker, Dialect, Question, Remaining, Request, Taking};
#[cfg(any(test, feature = "embedded"))]
pub(crate) use script::Script;
pub(crate) use script::keeps_out;
#[cfg(feature = "embedded")]
pub(crate) use script::{CHECKED_ACQUIRE, CHECKED_CONFIRM};
#[cfg(any(test, feature = "embedded"))]
pub(crate) use script::{
    CHECKED_EXTEND, CONFIRM, CONFIRM_MEMBER, CONFIRM_SEVERAL, COUNT_COUNTERS, EXTEND, EXTEND_EACH,
    EXTEND_MEMBER, EXTEND_SEVERAL, INSPECT, JOIN, LEAVE_INTENT, LIST_NAMES, LOOK_AT_FLOOR,
    MOVE_SLOT, OVERWRITE, RAISE_FENCED, RAISE_MEMBER, RELEASE, RELEASE_EACH, RELEASE_MEMBER,
    RELEASE_SEVERAL, REPAIR_FLOOR, SET_FLOOR, SET_IF_PERMITTED, TAKE_FENCED, TAKE_SEVERAL,
    TAKE_SHARED, TAKE_SHARED_FENCED, TAKE_SLOT, TAKE_SLOT_FENCED,
};
pub(crate) use send::Asking;
pub(crate) use trust::{Mode, Terms, whole_millis};

/// One of the nodes that vote.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) handshake: Handshake,
    pub(crate) connection: Connection,
    pub(crate) trust: Trust,
    pub(crate) debts: Debts,
    pub(crate) debt_timer: Option<TimerKey>,
    pub(crate) abilities: Abilities,
    /// The number of locks that the node has granted.
    pub(crate) grants: u64,
}

impl Node {
    pub(crate) fn new(config: &Config, node: &NodeConfig) -> Self {
        Self {
            handshake: Handshake::new(config, node),
            connection: Connection::new(),
            trust: Trust::new(config),
            debts: Debts::default(),
            debt_timer: None,
            abilities: Abilities::new(config),
            grants: 0,
        }
    }

    // ----- the connection -------------------------------------------------------------------

    /// Sends the first command of the handshake over a connection that has just been opened. Returns `false` if no
    /// connection was being opened.
    pub(crate) fn connected(&mut self, now: Instant) -> bool {
        if !self.handshake.connected() {
            return false;
        }
        self.connection.connected(now);
        self.ask(now, Step::Hello);
        true
    }

    /// Forgets everything that belongs to a connection that was lost or could not be opened. Returns every unanswered
    /// request, with a flag that is `true` if its command may have been sent.
    pub(crate) fn disconnected(&mut self, trouble: Trouble) -> Vec<(Request, bool)> {
        self.handshake.disconnected(trouble);
        self.trust.disconnected();
        self.abilities.disconnected();
        self.connection.disconnected()
    }

    /// Returns the node's state, for reports to operators.
    pub(crate) fn state(&self, now: Instant) -> NodeState {
        if let (Phase::Ready { .. }, Some(missing)) =
            (&self.handshake.phase, self.abilities.missing)
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

    /// Returns the text that explains this outcome. The text is about the marker, or comes from the server or the
    /// provider of its credentials.
    pub(crate) fn words_of(&self, outcome: NodeOutcome) -> Option<&Arc<str>> {
        let marker = self.trust.membership();
        let of_marker = marker.and_then(|there| there.words_of(outcome));
        of_marker.or_else(|| self.handshake.words_of(outcome))
    }

    /// Returns `true` if the node's votes count at `now`, as far as the engine knows.
    pub(crate) fn counts(&self, now: Instant) -> bool {
        self.serves() && self.trust.kept_until(now).is_none()
    }

    /// Returns when the node's votes start to count, as far as the engine knows at `now`. Returns [`Instant::MAX`] if
    /// the engine cannot ask the node, or if the time is unknown.
    pub(crate) fn may_count_from(&self, now: Instant) -> Instant {
        match self.trust.unasked_until(now) {
            _ if !self.serves() => Instant::MAX,
            Some(until) if until <= now => Instant::MAX, // The end is not known.
            until => until.unwrap_or(Instant::ZERO),
        }
    }

    fn serves(&self) -> bool {
        self.handshake.is_ready() && !self.is_suspect() && self.abilities.missing.is_none()
    }

    // ----- asking ---------------------------------------------------------------------------

    /// Returns whether the engine can ask the node a question now. The connection must also have space for a later
    /// release.
    #[inline(always)]
    pub(crate) fn access(&self) -> Access {
        match (&self.handshake.phase, self.handshake.trouble) {
            (Phase::Ready { .. }, _)
                if self.is_suspect() || !self.connection.wire.has_room_for_question() =>
            {
                Access::Shut(NodeOutcome::TimedOut)
            }
            (Phase::Ready { .. }, _) => Access::Open,
            // The next connection will show whether the trouble has ended.
            (Phase::Connecting | Phase::Handshake(_), trouble) => Access::Handshake {
                first: trouble == Trouble::Link(LinkFault::NotYet),
            },
            (Phase::Down, trouble) => Access::Shut(trouble.outcome()),
        }
    }

    /// Returns `true` if the node has been silent for too long, if releases wait to be sent, or if half of the
    /// connection's space is used. A suspect node gets no questions, so that the other half of the space stays free for
    /// the releases of locks that it may have granted.
    pub(crate) fn is_suspect(&self) -> bool {
        guard!(SuspectAsked, self.connection.pulse.is_suspect())
            || self.debts.is_due()
            || self.connection.wire.is_half_full()
    }

    /// Removes the `SET` of `claim` from the out buffer if none of its bytes has been sent.
    #[inline(always)]
    pub(crate) fn withdraw_set(&mut self, claim: ClaimKey) -> bool {
        let withdrawn = self.connection.withdraw(Asker::Claim(claim));
        if withdrawn {
            self.abilities.end_trial(claim);
        }
        withdrawn
    }

    /// Like [`withdraw_set`](Self::withdraw_set), but for a token that is no longer needed. If a transaction has only
    /// read the keys, it will not take them. If the lock was held, its `SET` has almost always been sent, so this
    /// method does not search for it. If the `SET` is still unsent, the release is sent after it.
    #[inline]
    pub(crate) fn give_up_set(&mut self, claim: ClaimKey, was_held: bool) -> bool {
        if was_held && self.connection.keeps_up() {
            return false;
        }
        self.withdraw_set(claim)
            || !self.connection.transactions.is_empty()
                && self.connection.transactions.give_up_taking(claim)
    }

    /// Returns `true` if the node may have answered a `SET` with nil because of a key that this engine is releasing.
    /// The engine has repeated the release, or will repeat it. `same` returns `true` for the claim of the key that is
    /// being released.
    pub(crate) fn is_repairing(&self, same: impl Fn(ClaimKey) -> bool) -> bool {
        self.connection.wire.in_flight.is_repairing(&same)
            || self.debts.is_deferred(&same)
            || self.connection.transactions.is_releasing(&same)
    }

    // ----- silence --------------------------------------------------------------------------

    /// Returns `true` if the network may be too slow for this connection, so that another connection must measure the
    /// round trip.
    pub(crate) fn has_moved_away(&self) -> bool {
        self.handshake.is_ready() && self.connection.pulse.has_moved_away()
    }

    /// Returns `true` if a probe should be opened. A probe is needed if the connection is ready but suspect. A probe is
    /// also needed if the node has been silent for at least `least` while the connection is opened or during the
    /// handshake.
    pub(crate) fn is_to_be_probed(&self, now: Instant, least: Duration) -> bool {
        let least = least.max(self.connection.pulse.distance() * 4);
        let due = |since: Instant| since.saturating_add(least) <= now;
        let silent = match &self.handshake.phase {
            Phase::Down => false,
            Phase::Connecting => due(self.handshake.tried_at),
            Phase::Handshake(_) => self.connection.pulse.silent_since().is_some_and(due),
            Phase::Ready { .. } => self.connection.pulse.is_suspect(),
        };
        silent && (self.connection.probed == 0 || self.connection.probed_until <= now)
    }

    // ----- the handshake --------------------------------------------------------------------

    pub(super) fn teach_scripts(&mut self, now: Instant) {
        let questions = self.trust.questions().iter();
        for step in questions.filter(|step| matches!(step, Step::Load(_))) {
            self.ask(now, *step);
        }
    }

    /// Sends one question of the handshake.
    pub(super) fn ask(&mut self, now: Instant, step: Step) {
        let mut command = Vec::new();
        if self.handshake.credentials.ask(&mut command, step) {
            self.ask_server(now, step, &command);
        }
    }

    fn ask_server(&mut self, now: Instant, step: Step, command: &[u8]) {
        self.connection
            .wire
            .put(now, Purpose::Handshake(step), command);
        if let Some(server) = self.handshake.phase.server_mut() {
            server.open += 1;
        }
    }

    /// Sends the last questions of the handshake after the unconfirmed releases, and loads the scripts.
    pub(crate) fn survey(&mut self, now: Instant) {
        for step in self.trust.questions() {
            if self.abilities.gets_scripts() || !matches!(step, Step::Load(_)) {
                self.ask(now, *step);
            }
        }
        if let Some(server) = self.handshake.phase.server_mut() {
            server.surveyed = true;
        }
    }

    // ----- the group ------------------------------------------------------------------------

    /// If the restart guard uses markers, asks the node to join its group, and declares `longest` as the longest ttl.
    ///
    /// # Errors
    ///
    /// Fails if the node does not report its `run_id`.
    pub(crate) fn join(&mut self, now: Instant, longest: Duration) -> Result<(), Trouble> {
        // Only the answers in this handshake prove that the server is durable, because earlier answers may be outdated.
        let durable = match &self.handshake.phase {
            Phase::Handshake(server) => server.identity.is_durable(),
            Phase::Down | Phase::Connecting | Phase::Ready { .. } => None,
        };
        let Some(membership) = self.trust.membership_mut() else {
            return Ok(());
        };
        let run_id = self.handshake.run_id();
        let run_id = run_id.ok_or(Trouble::Unusable(Unusable::NoRunId))?;
        let mut command = Vec::new();
        membership.ask(&mut command, run_id, durable, longest);
        self.ask_server(now, Step::Join, &command);
        Ok(())
    }

    /// Makes the answers of the server with this `run_id` count from now on. By calling this method, an operator
    /// vouches that every lock that the server may have forgotten has expired. Returns `true` if the server's answers
    /// did not count before this call.
    pub(crate) fn trust(
        &mut self,
        now: Instant,
        run_id: &str,
        longest: Duration,
    ) -> Result<bool, TrustFault> {
        let membership = self.trust.membership();
        if membership.is_some_and(|there| there.other.is_some()) {
            return Err(TrustFault::OtherGroup);
        }
        if !(self.handshake.is_ready() || membership.is_some() && self.handshake.run_id().is_some())
        {
            return Err(TrustFault::NotConnected);
        }
        let present = self.handshake.run_id().ok_or(TrustFault::NoRunId)?;
        if present != run_id {
            let run_id = present.into();
            return Err(TrustFault::Changed { run_id });
        }
        let mut kept = self.trust.kept_until(now).is_some();
        self.trust.lift();
        let is_ready = self.handshake.is_ready();
        if let Some(membership) = self.trust.membership_mut() {
            kept |= !is_ready;
            membership.trust(longest);
            // If the handshake has not sent the request to join yet, it will send it in the new mode, so this code does
            // not.
            if is_ready || membership.open != 0 {
                let _ = self.join(now, longest); // Its `run_id` is known.
            }
        }
        Ok(kept)
    }

    /// Makes the node a member of this group regardless of its marker, now or in the next handshake.
    pub(crate) fn reinit(&mut self, now: Instant, longest: Duration) {
        if let Some(membership) = self.trust.membership_mut() {
            membership.mode = Mode::Reinit;
            if self.handshake.is_ready() {
                let _ = self.join(now, longest); // The node is ready, so its `run_id` is known.
            }
        }
    }
}
