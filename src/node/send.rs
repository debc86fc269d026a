//! What is sent to one node, apart from the commands of locks: questions behind `TIME`, looks, renewals, the questions of
//! the handshake, and the requests to join.
//!
//! # Not here
//!
//! The commands of locks: see `write.rs`, `question.rs`, `fencing.rs` and `permission.rs`.

use alloc::vec::Vec;
use core::time::Duration;

use crate::entry::Entry;
use crate::error::{TrustError, Unusable};
use crate::keys::PlaceKey;
use crate::resp::command;
use crate::time::Instant;

use super::connection::Work;
use super::handshake::{Access, Phase, Trouble};
use super::request::{Dialect, Request, Step, Taught};
use super::script::INSPECT;
use super::trust::{Mode, TIME};
use super::{Command, Node};

/// A node with this many unanswered commands gets no looks that can wait.
const BUSY: usize = 512;

impl Node {
    /// Puts `command` into the out buffer. If the clock watch is due, `TIME` goes in front of a question about a lock.
    pub(crate) fn send(&mut self, now: Instant, request: Request, command: &[u8]) {
        debug_assert!(self.handshake.hears(), "a command goes over a connection");
        self.send_time(now, request);
        self.connection.wire.put(now, request, command);
    }

    #[inline(always)]
    fn send_time(&mut self, now: Instant, request: Request) {
        if self.trust.clock.is_due(now) && request.is_question() {
            self.trust.clock.asked();
            self.connection.wire.put(now, Request::Time, TIME);
        }
    }

    /// Sends `question`, and asks for a notification of the next change of the keys that it reads. Nothing comes
    /// between the two.
    pub(crate) fn send_watched(&mut self, now: Instant, request: Request, question: &[u8]) {
        self.send_time(now, request);
        self.connection.wire.register(now);
        self.connection.wire.put(now, request, question);
    }

    /// Does `work` on the keys of `entry` as soon as no transaction is open. Its result is the answer to `request`.
    #[cold]
    #[inline(never)]
    pub(crate) fn transact(&mut self, now: Instant, request: Request, entry: &Entry, work: Work) {
        self.send_time(now, request);
        let wire = &mut self.connection.wire;
        let transactions = &mut self.connection.transactions;
        transactions.add(now, request, entry, work, wire);
    }

    /// Collects the renewal of `entry`, for at least `life` from now on. If `watched`, the node also has to notify us
    /// of the next change of the key. Returns `false` if this node needs a command of its own for it.
    pub(crate) fn renew(
        &mut self,
        now: Instant,
        request: Request,
        entry: &Entry,
        life: Duration,
        watched: bool,
    ) -> bool {
        let taught = self.handshake.phase.dialect(Taught::ExtendEach) == Dialect::Sha1;
        if !taught || self.connection.wire.batch.is_refused {
            return false;
        }
        self.send_time(now, request);
        let wire = &mut self.connection.wire;
        wire.collect(now, request, entry, life, watched);
        true
    }

    // ----- looks ----------------------------------------------------------------------------

    /// Asks what is left of the key `resource`, and for a notification of its next change if the node can send one.
    /// Returns `false` if the node cannot be asked now.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        place: PlaceKey,
        resource: &[u8],
        buffer: &mut Command,
    ) -> bool {
        let bytes = buffer.written(Dialect::Text, None, |out| {
            command(out, &[b"PTTL", resource]);
        });
        if self.access() != Access::Open {
            return false;
        }
        self.connection.wire.register(now);
        let request = Request::Look {
            place,
            holder: false,
        };
        self.connection.wire.put(now, request, bytes);
        true
    }

    /// Asks for the holder of the key `resource`, if the user may run scripts. The script cuts off a value that is
    /// longer than any token, and registers nothing. It goes behind a look, so a later change of the key is notified.
    pub(crate) fn ask_holder(
        &mut self,
        now: Instant,
        place: PlaceKey,
        resource: &[u8],
        buffer: &mut Command,
    ) {
        let bytes = buffer.written(Dialect::Text, None, |out| {
            command(out, &[b"EVAL", INSPECT.text.as_bytes(), b"1", resource]);
        });
        if self.may_run_scripts() {
            let request = Request::Look {
                place,
                holder: true,
            };
            self.connection.wire.put(now, request, bytes);
        }
    }

    /// Returns `true` if the node has many commands to answer, so that looks which can wait are postponed.
    pub(crate) fn is_busy(&self) -> bool {
        self.handshake.is_ready() && BUSY <= self.connection.wire.in_flight.len()
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

    // ----- the cluster ----------------------------------------------------------------------

    /// Asks the node to join its cluster with this longest ttl, if there are markers.
    ///
    /// # Errors
    ///
    /// The node does not report its `run_id`.
    pub(crate) fn join(&mut self, now: Instant, longest: Duration) -> Result<(), Trouble> {
        // This handshake has read it, which is a proof. A fact from an earlier handshake may no longer hold.
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

    /// Counts the answers of the server with this `run_id` from now on: an operator states that every lock that it may
    /// have forgotten is over. Returns `true` if they did not count before.
    pub(crate) fn trust(
        &mut self,
        now: Instant,
        run_id: &str,
        longest: Duration,
    ) -> Result<bool, TrustError> {
        let membership = self.trust.membership();
        if membership.is_some_and(|there| there.other.is_some()) {
            return Err(TrustError::OtherCluster);
        }
        if !(self.handshake.is_ready() || membership.is_some() && self.handshake.run_id().is_some())
        {
            return Err(TrustError::NotConnected);
        }
        let present = self.handshake.run_id().ok_or(TrustError::NoRunId)?;
        if present != run_id {
            let run_id = present.into();
            return Err(TrustError::Changed { run_id });
        }
        let mut kept = self.trust.kept_until(now).is_some();
        self.trust.lift();
        let is_ready = self.handshake.is_ready();
        if let Some(membership) = self.trust.membership_mut() {
            kept |= !is_ready;
            membership.trust(longest);
            // A handshake that has not asked yet will ask so.
            if is_ready || membership.open != 0 {
                let _ = self.join(now, longest); // Its `run_id` is known.
            }
        }
        Ok(kept)
    }

    /// Makes the node a member of this cluster regardless of its marker: now, or in the next handshake.
    pub(crate) fn reinit(&mut self, now: Instant, longest: Duration) {
        if let Some(membership) = self.trust.membership_mut() {
            membership.mode = Mode::Reinit;
            if self.handshake.is_ready() {
                let _ = self.join(now, longest); // It is ready, so its `run_id` is known.
            }
        }
    }
}
