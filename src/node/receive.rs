//! The answers of one node: each reply is matched with its command.
//!
//! # Guarantees
//!
//! * Replies are matched with commands by their order alone. A push does not count as a reply. A reply without a
//!   command ends the connection.
//! * Each answer is returned together with the restart guard's decision on whether it counts.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::error::LinkFault;
use crate::invariant::Must;
use crate::limits::{PUSHES_MAX, STRING_BYTES_MAX};
use crate::resource::OwnedToken;
use crate::resp::Value;
use crate::time::Instant;

use super::abilities::{Abilities, Hints};
use super::connection::{Heard, InFlight, Sent, Transactions, Wire, tracking};
use super::handshake::{Handshake, Next, Phase, Trouble};
use super::members::Member;
use super::refusal::Refusal;
use super::reply::{Answer, Read, Reply};
use super::request::{Asker, Purpose, Question, Request, Step, Taking, Waking};
use super::trust::Trust;
use super::{Node, reply};

impl Node {
    /// Returns the next item that the node has sent. The item may begin in an earlier piece and end in `piece`. Returns
    /// `None` when all of `piece` was read.
    ///
    /// Passes the names of changed keys to `changed`, which returns `true` if an operation was waiting for this change.
    /// If the returned answer names a holder's token, [`Connection::token`](super::Connection) contains it.
    ///
    /// # Errors
    ///
    /// Returns the reason why the connection must be closed.
    #[inline(always)]
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        piece: &mut &[u8],
        changed: impl FnMut(Option<&[u8]>) -> bool,
    ) -> Result<Option<Heard>, Trouble> {
        self.connection.pulse.heard();
        loop {
            let value = match self.connection.inbox.next(piece) {
                Ok(Some(frame)) => frame.value,
                Ok(None) => return Ok(None),
                Err(_) => return Err(self.handshake.not_resp()),
            };
            if matches!(value, Value::Push(_)) {
                return pushed(value, changed, &mut self.connection.pushes);
            }
            self.connection.pushes = 0;
            let Some(sent) = self.connection.wire.in_flight.pop() else {
                return Err(Trouble::of_unasked(value));
            };
            self.connection.pulse.answered(now, sent.at);
            if let Purpose::Asked(request) = sent.purpose
                && reply::is_plain_yes(request, value)
                && self.trust.membership().is_none()
            {
                self.obeys(now);
                return Ok(Some(Heard::Done(request)));
            }
            if let Value::Error(line) | Value::BulkError(line) = value {
                let said = (sent.purpose, line, self.grants);
                keep_words(said, &mut self.handshake, &mut self.abilities);
            }
            if let Purpose::Asked(request) = sent.purpose {
                if value.as_error().is_some() {
                    let refusal = Refusal::of(value);
                    return Ok(Some(self.heard_refusal(now, request, refusal)));
                }
                let (token, members) = (&mut self.connection.token, &mut self.connection.members);
                keep_token(request, token, members, &mut self.connection.keys, value);
                let read = reply::read(request, value);
                return self.answered(now, sent, request, read).map(Some);
            }
            let heard = if let Purpose::Handshake(step) = sent.purpose {
                let (abilities, phase) = (&mut self.abilities, &mut self.handshake.phase);
                let (trust, in_flight) = (&mut self.trust, &mut self.connection.wire.in_flight);
                let next = step_answered(now, step, value, abilities, trust, phase, in_flight)?;
                self.continue_handshake(now, next)
            } else if let Purpose::Time = sent.purpose {
                let stepped = self.trust.clock.told(sent.at, now, value);
                stepped.then_some(Heard::Stepped)
            } else {
                let (wire, transactions) =
                    (&mut self.connection.wire, &mut self.connection.transactions);
                wire_answered(now, sent.purpose, value, wire, transactions)?
            };
            if heard.is_some() {
                return Ok(heard);
            }
        }
    }

    /// Handles the answer `read` to the command `sent`, and returns the part that concerns the engine.
    ///
    /// # Errors
    ///
    /// Fails if the command cannot have this answer. After this error, the command counts as unanswered.
    #[cold]
    #[inline(never)]
    pub(super) fn answered(
        &mut self,
        now: Instant,
        sent: Sent,
        request: Request,
        read: Option<Read>,
    ) -> Result<Heard, Trouble> {
        let Some(mut read) = read else {
            return Err(self.connection.wire.in_flight.nonsense(sent));
        };
        self.obeys(now);
        if let Request::Take { claim, by } = request
            && by != Taking::Set
        {
            let (reply, then) = self.abilities.taken(claim, by, read.reply);
            read.reply = reply;
            self.follow(now, Some(claim), then);
        } else if let Request::Probe { .. } = request {
            return Ok(self.tried(request, Ok(read.reply)));
        }
        let stale = !self.connection.wire.in_flight.is_of_this_era(&sent);
        let heard = self.trust.judge(now, request, read, stale);
        heard.ok_or_else(|| self.connection.wire.in_flight.nonsense(sent))
    }

    #[cold]
    #[inline(never)]
    fn heard_refusal(&mut self, now: Instant, request: Request, refusal: Refusal) -> Heard {
        (self.connection.token, self.connection.members) = (None, None); // These belong to an earlier answer.
        self.connection.probed = 0;
        if let Request::Probe { .. } = request {
            return self.tried(request, Err(refusal));
        }
        let reply = self.refused(now, request, refusal, false);
        self.trust.judge_refusal(request, reply)
    }

    /// Turns a refusal into a reply, and handles its consequences. `transacted` says whether a transaction was used.
    fn refused(
        &mut self,
        now: Instant,
        request: Request,
        refusal: Refusal,
        transacted: bool,
    ) -> Reply {
        let mut hints = Hints {
            words: &mut self.handshake.words,
            forbidden: self.connection.transactions.forbidden(),
        };
        let abilities = &mut self.abilities;
        let (reply, then) = abilities.refused(request, refusal, transacted, &mut hints);
        let claim = match Asker::of(request) {
            Some(Asker::Claim(claim)) => Some(claim),
            Some(Asker::Operation(_)) | None => None,
        };
        self.follow(now, claim, then);
        reply
    }

    /// Handles the answer to a trial release. A trial release names a token that no key contains, so its answer only
    /// shows whether the user may run the command.
    #[cold]
    fn tried(&mut self, request: Request, said: Result<Reply, Refusal>) -> Heard {
        let mut hints = Hints {
            words: &mut self.handshake.words,
            forbidden: self.connection.transactions.forbidden(),
        };
        self.abilities.tried(request, said, &mut hints)
    }

    /// Records that the server has run a command. If the server was unable to load our scripts before, sends them again
    /// now.
    #[inline]
    fn obeys(&mut self, now: Instant) {
        self.connection.probed = 0;
        if self.abilities.scripts.take_postponed() {
            self.teach_scripts(now);
        }
    }

    /// Continues the handshake after one of its answers.
    #[cold]
    #[inline(never)]
    fn continue_handshake(&mut self, now: Instant, next: Next) -> Option<Heard> {
        match next {
            Next::Wait => return self.finish_handshake(now),
            Next::Joined => return Some(Heard::Joined),
            Next::Fallback => {
                self.connection.wire.waking = Waking::Resp2;
                self.ask(now, Step::Auth);
                self.ask(now, Step::SetName);
            }
            Next::Survey => {}
        }
        let identity = self.handshake.identity();
        let native = identity.and_then(|identity| identity.native_release);
        self.abilities.greeted(native);
        self.ask(now, Step::Select);
        Some(Heard::Admitted)
    }

    /// Keeps the handshake open while releases wait for a transaction. This method is for a connection that is closed
    /// at the end of its handshake. Returns `false` if no release waits.
    pub(crate) fn hold_handshake(&mut self) -> bool {
        let waits = !self.connection.transactions.is_empty();
        if waits && let Phase::Ready { server, .. } = &mut self.handshake.phase {
            self.handshake.phase = Phase::Handshake(core::mem::take(server));
        }
        waits
    }

    /// Returns the next answer to an item of a batch, or to a finished job of a transaction.
    ///
    /// # Errors
    ///
    /// Fails if the answer makes no sense.
    pub(crate) fn next_in_batch(&mut self, now: Instant) -> Result<Option<Heard>, Trouble> {
        let Some(answer) = self.connection.wire.batch.next_answer() else {
            return Ok(self.next_transacted(now));
        };
        let sent = self.connection.wire.in_flight.pop();
        let asked = sent.and_then(|sent| Some((sent, sent.purpose.request()?)));
        let Some((sent, request)) = asked.must() else {
            return Ok(None);
        };
        if answer == Ok(Some(Reply::Done)) && self.trust.membership().is_none() {
            self.obeys(now);
            return Ok(Some(Heard::Done(request)));
        }
        let heard = match answer {
            Ok(reply) => self.answered(now, sent, request, reply.map(Read::from))?,
            Err(refusal) => self.heard_refusal(now, request, refusal),
        };
        Ok(Some(heard))
    }

    /// Returns the next finished job of a transaction. If no job is left, ends a handshake that was kept open for the
    /// jobs.
    fn next_transacted(&mut self, now: Instant) -> Option<Heard> {
        let Some(done) = self.connection.transactions.done.pop_front() else {
            let is_over = self.connection.transactions.is_empty();
            return is_over.then(|| self.finish_handshake(now)).flatten();
        };
        let request = done.request;
        if let Request::Probe { .. } = request {
            return Some(self.tried(request, done.said));
        }
        (self.connection.token, self.connection.members) = (done.token, None);
        let reply = match done.said {
            Ok(reply) => reply,
            Err(refusal) => self.refused(now, request, refusal, true),
        };
        Some(Heard::Answer(Answer { request, reply }))
    }

    fn finish_handshake(&mut self, now: Instant) -> Option<Heard> {
        let Phase::Handshake(server) = &mut self.handshake.phase else {
            return None;
        };
        if !server.is_done() {
            return None;
        }
        if self.trust.membership().is_some() && !server.joined {
            return Some(Heard::Introduced);
        }
        self.connection.inbox.cut_strings(STRING_BYTES_MAX);
        self.handshake.phase = Phase::Ready {
            server: core::mem::take(server),
            since: now,
        };
        self.abilities.ready();
        Some(Heard::Ready)
    }
}

/// Handles a push. Ends the connection after too many unexpected pushes in a row.
#[cold]
fn pushed(
    push: Value<'_>,
    changed: impl FnMut(Option<&[u8]>) -> bool,
    pushes: &mut u32,
) -> Result<Option<Heard>, Trouble> {
    if !tracking::changes(push, changed) {
        *pushes += 1;
    }
    match PUSHES_MAX < *pushes {
        true => Err(Trouble::Link(LinkFault::Protocol)),
        false => Ok(Some(Heard::Pushed)),
    }
}

/// Keeps the text of the error that the node returned for a command with this `purpose`. The error may cast doubt on
/// whether the node runs scripts.
#[cold]
#[inline(never)]
fn keep_words(
    (purpose, line, grants): (Purpose, &[u8], u64),
    handshake: &mut Handshake,
    abilities: &mut Abilities,
) {
    handshake.keep_words(purpose, line, grants);
    if let Purpose::Asked(request) = purpose {
        abilities.suspect(request, Refusal::of(Value::Error(line)), &handshake.words);
    }
}

/// Keeps the token, the holders or the keys that `value` names, if `request` asks for them.
#[cold]
#[inline(never)]
fn keep_token(
    request: Request,
    kept: &mut Option<OwnedToken>,
    members: &mut Option<Box<[Member]>>,
    keys: &mut Option<Vec<Box<[u8]>>>,
    value: Value<'_>,
) {
    if let Request::Name { .. }
    | Request::Question {
        question: Question::Inspect,
        ..
    } = request
    {
        *kept = reply::token_in(value).map(OwnedToken::new);
        *members = reply::holders_in(value);
    } else if let Request::Scan { .. } = request {
        *keys = reply::keys_in(value);
    }
}

/// Handles the answer to a command that the connection itself added or combined: a transaction, a batch of releases, or
/// a command for tracking.
#[cold]
#[inline(never)]
fn wire_answered(
    now: Instant,
    purpose: Purpose,
    value: Value<'_>,
    wire: &mut Wire,
    transactions: &mut Transactions,
) -> Result<Option<Heard>, Trouble> {
    match purpose {
        Purpose::Batch { count, releases } => {
            wire.batch.answered(count, releases, value)?;
            Ok(Some(Heard::Batch))
        }
        Purpose::Transaction => {
            let complete = transactions.heard(value)?;
            Ok(complete.then(|| {
                transactions.go_on(now, wire);
                Heard::Batch
            }))
        }
        Purpose::Track => {
            wire.waking.refused(value);
            Ok(None)
        }
        Purpose::Aside => Ok(None),
        Purpose::Look { place } => Ok(Some(tracking::looked(&mut wire.waking, place, value))),
        Purpose::Withdrawn => {
            wire.in_flight.popped_withdrawn();
            Err(Trouble::of_unasked(value))
        }
        Purpose::Asked(_) | Purpose::Handshake(_) | Purpose::Time => {
            unreachable!("the caller takes the answer to {purpose:?}")
        }
    }
}

/// Handles the server's answer to `step`, during the handshake or after it.
#[cold]
#[inline(never)]
fn step_answered(
    now: Instant,
    step: Step,
    value: Value<'_>,
    abilities: &mut Abilities,
    trust: &mut Trust,
    phase: &mut Phase,
    in_flight: &mut InFlight,
) -> Result<Next, Trouble> {
    if let Step::Load(taught) = step {
        abilities.scripts.loaded(taught, value);
    }
    let again = step == Step::Join && matches!(phase, Phase::Ready { .. });
    let Some(server) = phase.server_mut() else {
        return Ok(Next::Wait);
    };
    if step == Step::Join
        && let Some(membership) = trust.membership_mut()
    {
        membership.answered(now, server.identity.run_id.as_deref(), value)?;
        in_flight.begin_era();
    }
    let next = server.answer(step, value).map_err(Trouble::Unusable)?;
    Ok(match again {
        true => Next::Joined,
        false => next,
    })
}
