//! Sends lock commands to one node.
//!
//! # Not here
//!
//! The module `recipes` writes the bytes of the commands. For the commands of the handshake, see [`Node`].

use alloc::vec::Vec;
use core::time::Duration;

use crate::entry::Entry;
use crate::error::Unusable;
use crate::keys::{ClaimKey, OperationKey, PlaceKey};
use crate::resp::command;
use crate::time::Instant;

use super::abilities::{ORDER, TO_EXTEND, Then};
use super::connection::{Renewal, Work};
use super::handshake::Access;
use super::recipes::fenced::{self, Counters};
use super::recipes::one::{take_if_permitted, trial};
use super::recipes::shared::{end_intent, leave_intent, take_out};
use super::recipes::{Command, Filling, Form};
use super::request::{Dialect, Purpose, Question, Request, Taking, Taught};
use super::script::INSPECT;
use super::trust::TIME;
use super::{Node, recipes};

/// A question about a lock, for one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking<'a> {
    pub(crate) question: Question,
    pub(crate) operation: OperationKey,
    /// The claim of the token, if the token belongs to this engine.
    pub(crate) claim: Option<ClaimKey>,
    pub(crate) entry: &'a Entry,
    /// How long the node must keep the keys, if the question asks for that.
    pub(crate) life: Duration,
    /// Whether the node must also report the next change to each key.
    pub(crate) watched: bool,
    /// Whether the node has refused another form of this question.
    pub(crate) again: bool,
    /// Whether this is a renewal of a kept lock, which may share a command with other renewals.
    pub(crate) is_renewal: bool,
}

impl<'a> Asking<'a> {
    /// Returns a question of `operation` that extends no keys and belongs to no claim.
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

    /// Translates the question into the work of a transaction.
    #[cold]
    #[inline(never)]
    fn work(&self) -> Work {
        let (life, watched) = (self.life, self.watched);
        match self.question {
            Question::Extend => Work::Extend { life, watched },
            Question::Confirm => Work::Confirm,
            Question::Inspect => Work::Inspect { watched },
            Question::Overwrite => Work::Overwrite,
            Question::Move => unreachable!("no transaction does this"),
        }
    }
}

impl Node {
    /// Puts `command` into the out buffer. If the clock watch is due, sends `TIME` before a question about a lock.
    #[inline(always)]
    pub(crate) fn send(&mut self, now: Instant, request: Request, command: &[u8]) {
        self.send_time(now, request);
        let purpose = Purpose::Asked(request);
        self.connection.wire.put(now, purpose, command);
    }

    #[inline(always)]
    fn send_time(&mut self, now: Instant, request: Request) {
        debug_assert!(self.handshake.hears(), "a command goes over a connection");
        if self.trust.clock.is_due(now) && request.is_question() {
            self.trust.clock.asked();
            self.connection.wire.put(now, Purpose::Time, TIME);
        }
    }

    /// Does `work` on the keys of `entry` as soon as no other transaction is open. The result is the answer to
    /// `request`.
    #[cold]
    #[inline(never)]
    pub(crate) fn transact(&mut self, now: Instant, request: Request, entry: &Entry, work: Work) {
        self.send_time(now, request);
        let wire = &mut self.connection.wire;
        let transactions = &mut self.connection.transactions;
        transactions.add(now, request, entry, work, wire);
    }

    // ----- looks ----------------------------------------------------------------------------

    /// Asks how much longer the key `resource` lives. Also requests a notification of the key's next change, if the
    /// node can send one. Returns `false` if the node cannot be asked now.
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
        self.connection
            .wire
            .put(now, Purpose::Look { place }, bytes);
        true
    }

    /// Asks for the holder of the key `resource`, if the user may run scripts. The script truncates values that are
    /// longer than any token, and does not register for a notification. A [`Look`](Purpose::Look) command precedes this
    /// script, so the node still reports later changes to the key.
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
        if self.abilities.may_read_by_scripts() {
            self.send(now, Request::Name { place }, bytes);
        }
    }

    // ----- taking a lock --------------------------------------------------------------------

    /// Takes the keys of `entry` for `life`. If `proposal` is given, the fencing token is at least as high as the
    /// proposal. Returns `false` if a [trial](Request::Probe) must first show whether the user may release the lock.
    ///
    /// # Errors
    ///
    /// Fails, and sends nothing, if the node cannot assign fencing tokens.
    // Inlined into the loop over the nodes of an attempt. The other callers run rarely: they send the token again to a
    // node that has lost the key.
    #[inline(always)]
    pub(crate) fn take(
        &mut self,
        now: Instant,
        claim: ClaimKey,
        command: &mut Command,
        entry: &Entry,
        (life, proposal): (Duration, Option<u64>),
    ) -> Result<bool, Unusable> {
        if let Some(proposal) = proposal {
            self.take_fenced(now, claim, command, entry, (life, proposal))?;
            return Ok(true);
        }
        if !self.abilities.may_run_scripts()
            && let Some(sent) = self.take_unproved(now, claim, entry, life)?
        {
            return Ok(sent);
        }
        let marker = self.trust.marker();
        let form = recipes::form(entry);
        let (taking, by) = match (form == Form::Taught, marker) {
            (true, None) => (Taking::Set, Dialect::Text),
            (true, Some(_)) => {
                let by = self.abilities.dialect(Taught::CheckedAcquire);
                (Taking::Checked { by }, by)
            }
            (false, _) if form == Form::Only => {
                self.take_member(now, claim, command, entry, life);
                return Ok(true);
            }
            (false, _) => (Taking::Untaught, Dialect::Text),
        };
        let filling = Filling { life, marker, by };
        let bytes = command.written(by, marker, |out| recipes::take(out, entry, &filling));
        self.send(now, Request::Take { claim, by: taking }, bytes);
        Ok(true)
    }

    /// Takes a shared lock or a permit.
    #[cold]
    #[inline(never)]
    fn take_member(
        &mut self,
        now: Instant,
        claim: ClaimKey,
        command: &mut Command,
        entry: &Entry,
        life: Duration,
    ) {
        let by = self.abilities.dialect_of_members();
        let request = Request::Take {
            claim,
            by: Taking::Member { by },
        };
        register_before(self, now, request, entry);
        let marker = self.trust.marker();
        let filling = Filling { life, marker, by };
        let bytes = command.written(by, marker, |out| recipes::take(out, entry, &filling));
        self.send(now, request, bytes);
    }

    /// Takes the keys over a connection on which no answer has shown yet whether the node runs scripts. Returns `None`,
    /// and sends nothing, if the keys can be taken in the usual way.
    ///
    /// # Errors
    ///
    /// Fails, and sends nothing, if the lock needs scripts and the node runs none.
    #[cold]
    #[inline(never)]
    fn take_unproved(
        &mut self,
        now: Instant,
        claim: ClaimKey,
        entry: &Entry,
        life: Duration,
    ) -> Result<Option<bool>, Unusable> {
        let may_release = self.abilities.may_release();
        if !may_release {
            self.abilities.reconsider_scripts();
            if self.abilities.is_to_try_scripts() {
                self.try_script(now, claim, entry);
                return Ok(Some(false));
            }
        }
        Ok(
            match (recipes::form(entry), self.abilities.is_without_scripts()) {
                (Form::Only, true) => return Err(Unusable::NeedsScripts),
                (Form::Only, false) => None,
                (Form::Taught, _) if may_release => None,
                (Form::Taught, true) => {
                    self.try_all(now, claim, entry);
                    Some(false)
                }
                (Form::Taught, false) => {
                    self.take_first(now, claim, entry, life);
                    Some(true)
                }
                (Form::Untaught, true) => {
                    let by = Taking::Watch;
                    self.transact(now, Request::Take { claim, by }, entry, Work::Take(life));
                    Some(true)
                }
                (Form::Untaught, false) => None,
            },
        )
    }

    /// Takes the key with the script that also checks whether the user may release it.
    fn take_first(&mut self, now: Instant, claim: ClaimKey, entry: &Entry, life: Duration) {
        self.abilities.begin_trial(claim, entry);
        let mut command = Vec::new();
        let (marker, to_lock) = (self.trust.marker(), self.abilities.to_lock());
        take_if_permitted(&mut command, entry, Some(life), marker, to_lock);
        let by = Taking::First;
        self.send(now, Request::Take { claim, by }, &command);
    }

    /// Takes the keys with the script that raises their counters to at least `proposal`.
    ///
    /// # Errors
    ///
    /// Fails, and sends nothing, if the node runs no scripts, or does not report its `run_id`.
    #[cold]
    #[inline(never)]
    fn take_fenced(
        &mut self,
        now: Instant,
        claim: ClaimKey,
        command: &mut Command,
        entry: &Entry,
        (life, proposal): (Duration, u64),
    ) -> Result<(), Unusable> {
        let abilities = &self.abilities;
        if abilities.runs_no_scripts() {
            return Err(Unusable::NeedsScripts);
        }
        let knows = abilities.scripts.has_run_fenced && abilities.takes_digests();
        let (by, to_ask): (_, &[&str]) = match knows {
            _ if recipes::form(entry) == Form::Only => (Dialect::TextOnly, &[]),
            true => (Dialect::Sha1, &[]),
            false => (Dialect::Text, abilities.to_lock()),
        };
        let marker = self.trust.marker();
        let filling = Filling { life, marker, by };
        let counters = Counters {
            number: proposal,
            ttl: abilities.counter_ttl,
            run_id: self.handshake.run_id().ok_or(Unusable::NoRunId)?,
        };
        // Like a command that checks a marker, this command is written for one node alone, because it contains the
        // `run_id` of the server.
        let bytes = command.written(Dialect::Text, Some(b""), |out| {
            fenced::take(out, entry, &filling, &counters, to_ask);
        });
        let by = Taking::Fenced { by };
        let request = Request::Take { claim, by };
        register_before(self, now, request, entry);
        self.send(now, request, bytes);
        Ok(())
    }

    // ----- trials ---------------------------------------------------------------------------

    /// Sends the commands that follow from an answer about the keys of `claim`.
    #[cold]
    pub(super) fn follow(&mut self, now: Instant, claim: Option<ClaimKey>, then: Then) {
        match (then, claim) {
            (Then::LoadScripts, _) => self.teach_scripts(now),
            (Then::Try(entry, way), Some(claim)) => self.try_way(now, claim, &entry, way, false),
            (Then::TryAll(entry), Some(claim)) => self.try_all(now, claim, &entry),
            (Then::Nothing | Then::Try(..) | Then::TryAll(_), _) => {}
        }
    }

    /// Tries one way to release a lock without a script.
    fn try_way(
        &mut self,
        now: Instant,
        claim: ClaimKey,
        entry: &Entry,
        way: Dialect,
        with_others: bool,
    ) {
        let request = Request::Probe {
            claim,
            way,
            with_others,
        };
        if way == Dialect::Watch {
            return self.transact(now, request, entry, Work::Probe);
        }
        let mut command = Vec::new();
        trial(&mut command, entry, way);
        self.send(now, request, &command);
    }

    /// Tries all ways to release a lock without a script. The answers arrive in order, except that the answer to the
    /// transaction may arrive at any time.
    fn try_all(&mut self, now: Instant, claim: ClaimKey, entry: &Entry) {
        self.abilities.begin_trial(claim, entry);
        for way in ORDER {
            self.try_way(now, claim, entry, way, true);
        }
    }

    /// Sends a script that does nothing, to check whether the node runs scripts.
    #[cold]
    fn try_script(&mut self, now: Instant, claim: ClaimKey, entry: &Entry) {
        self.abilities.begin_trial(claim, entry);
        let mut command = Vec::new();
        recipes::ask(&mut command, entry, self.abilities.to_lock());
        let request = Request::Probe {
            claim,
            way: Dialect::Text,
            with_others: false,
        };
        self.send(now, request, &command);
    }

    // ----- held locks -----------------------------------------------------------------------

    /// Sends the release of `entry`. If `repair` is set, the release is never sent by digest. Returns `false` if the
    /// connection has no space for the release.
    #[inline(always)]
    pub(crate) fn send_release(
        &mut self,
        now: Instant,
        claim: ClaimKey,
        command: &mut Command,
        entry: &Entry,
        repair: bool,
    ) -> bool {
        let is_taught = recipes::form(entry) == Form::Taught;
        let by = match is_taught {
            true => self.abilities.release_dialect(repair),
            false => self.dialect_of_text(entry),
        };
        // Uses a transaction if another transaction is taking the keys. An aborted transaction is repeated. If a script
        // had released the keys meanwhile, the repetition would take them again.
        let is_taken = !self.connection.transactions.is_empty()
            && self.connection.transactions.is_taking(claim);
        if by == Dialect::Watch || is_taken {
            let request = Request::Release {
                claim,
                by: Dialect::Watch,
                is_taught,
                repair: true,
            };
            self.transact(now, request, entry, Work::Release);
            return true;
        }
        let bytes = command.written(by, None, |out| recipes::release(out, entry, by));
        if !self.connection.wire.has_room_for_release(bytes.len()) {
            return false;
        }
        let request = Request::Release {
            claim,
            by,
            is_taught,
            repair: repair || by == Dialect::Text && is_taught,
        };
        let is_batched = by == Dialect::Sha1
            && self.abilities.scripts.knows(Taught::ReleaseEach)
            && !self.connection.wire.batch.is_refused;
        if is_batched {
            let wire = &mut self.connection.wire;
            wire.put_release(now, request, entry, bytes);
        } else {
            self.send(now, request, bytes);
        }
        true
    }

    /// Asks this node the question in `asking`. The bytes are built in `command`. Nodes that need the command in the
    /// same form share its bytes.
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
            Question::Extend
                if !self.abilities.is_without_scripts()
                    && !again
                    && recipes::form(entry) == Form::Taught =>
            {
                self.abilities.dialect(Taught::Extend)
            }
            Question::Extend
            | Question::Confirm
            | Question::Inspect
            | Question::Overwrite
            | Question::Move => self.dialect_of_text(entry),
        };
        let request = Request::Question {
            question,
            operation,
            claim,
            by,
        };
        if by == Dialect::Watch {
            return self.transact(now, request, entry, asking.work());
        }
        self.send_time(now, request);
        let is_batched = is_renewal
            && by == Dialect::Sha1
            && self.abilities.dialect(Taught::ExtendEach) == Dialect::Sha1
            && !self.connection.wire.batch.is_refused;
        if is_batched {
            let renewal = Renewal {
                request,
                entry,
                life,
                watched,
            };
            return self.connection.wire.collect(now, &renewal);
        }
        let marker = self.trust.marker();
        let filling = Filling { life, marker, by };
        let bytes = command.written(by, marker, |out| {
            recipes::question(out, question, entry, &filling);
        });
        if watched {
            self.connection.wire.register(now);
        }
        let purpose = Purpose::Asked(request);
        self.connection.wire.put(now, purpose, bytes);
    }

    /// Returns the form for a question or a release that must not be sent by digest.
    #[cold]
    fn dialect_of_text(&self, entry: &Entry) -> Dialect {
        match (recipes::form(entry), self.abilities.is_without_scripts()) {
            (Form::Only, _) => Dialect::TextOnly,
            (Form::Taught | Form::Untaught, true) => Dialect::Watch,
            (Form::Taught | Form::Untaught, false) => Dialect::Text,
        }
    }

    /// Asks which permission was missing when the node refused a question about `entry`.
    pub(crate) fn ask_why(&mut self, now: Instant, operation: OperationKey, entry: &Entry) {
        let mut command = Vec::new();
        recipes::ask(&mut command, entry, &TO_EXTEND);
        self.send(now, Request::Why { operation }, &command);
    }

    /// Records on the node that a caller waits for the exclusive lock on `resource`. `spans` contains the age and the
    /// remaining life of this intent. If `spans` is `None`, removes the intent. Does nothing if the node cannot be
    /// asked now.
    #[cold]
    pub(crate) fn leave_intent(
        &mut self,
        now: Instant,
        resource: &[u8],
        spans: Option<[Duration; 2]>,
    ) {
        if self.access() == Access::Open {
            let mut command = Vec::new();
            match spans {
                Some(spans) => leave_intent(&mut command, resource, spans),
                None => end_intent(&mut command, resource),
            }
            self.connection.wire.put(now, Purpose::Aside, &command);
        }
    }

    /// Removes the permit's token from every slot on the node, except from the slot of `entry`.
    #[cold]
    pub(crate) fn take_out(&mut self, now: Instant, entry: &Entry) {
        let mut command = Vec::new();
        take_out(&mut command, entry);
        self.connection.wire.put(now, Purpose::Aside, &command);
    }

    // ----- counters of fencing tokens -------------------------------------------------------

    /// Raises the counters of `entry` to `token`, if the lock exists on the node.
    pub(crate) fn raise(&mut self, now: Instant, claim: ClaimKey, entry: &Entry, token: u64) {
        let mut command = Vec::new();
        let counters = Counters {
            number: token,
            ttl: self.abilities.counter_ttl,
            run_id: self.handshake.run_id().unwrap_or_default(),
        };
        fenced::raise(&mut command, entry, self.trust.marker(), &counters);
        self.send(now, Request::Raise { claim }, &command);
    }

    /// Sets the counter floor: see [`fenced::set_floor`]. `operation` waits for the answer. Returns `false` if the
    /// `run_id` is not known.
    pub(crate) fn set_floor(
        &mut self,
        now: Instant,
        operation: OperationKey,
        numbers: [u64; 2],
    ) -> bool {
        let run_id = self.handshake.run_id();
        let Some(command) = run_id.map(|run_id| fenced::set_floor(run_id, numbers)) else {
            return false;
        };
        let operation = Some(operation);
        self.send(now, Request::Floor { operation }, &command);
        true
    }

    /// Asks for the counter floor: see [`fenced::look_at_floor`]. Returns `false` if the node cannot be asked.
    pub(crate) fn look_at_floor(
        &mut self,
        now: Instant,
        operation: OperationKey,
        nonce: u64,
    ) -> bool {
        let run_id = self.handshake.run_id();
        let run_id = run_id.filter(|_| !self.abilities.is_without_scripts());
        let Some(command) = run_id.map(|run_id| fenced::look_at_floor(run_id, nonce)) else {
            return false;
        };
        self.send(now, Request::LookAtFloor { operation }, &command);
        true
    }

    /// Ends the repair of the counter floor: see [`fenced::repair_floor`].
    pub(crate) fn repair_floor(&mut self, now: Instant, nonce: u64, number: u64) {
        if let Some(run_id) = self.handshake.run_id() {
            let command = fenced::repair_floor(run_id, nonce, number);
            self.send(now, Request::Floor { operation: None }, &command);
        }
    }

    /// Asks for counters or names: see [`fenced::scan`].
    pub(crate) fn scan(
        &mut self,
        now: Instant,
        operation: OperationKey,
        cursor: u64,
        prefix: Option<&[u8]>,
    ) {
        let command = fenced::scan(cursor, prefix);
        let names = prefix.is_some();
        self.send(now, Request::Scan { operation, names }, &command);
    }
}

/// If `node` must report the next change to the key of `entry`, sends the tracking command that precedes `request`.
fn register_before(node: &mut Node, now: Instant, request: Request, entry: &Entry) {
    if entry.registers() {
        node.send_time(now, request); // Nothing may come between the two commands.
        node.connection.wire.register(now);
    }
}
