//! What one node says: each reply is matched with the command that it answers.
//!
//! # Guarantees
//!
//! * Replies are matched by count alone. A push takes no place, and an answer to nothing ends the
//!   connection.
//! * An answer comes with the restart guard's word whether it counts.

use crate::error::{LinkFault, Unusable};
use crate::invariant::Must;
use crate::keys::OperationKey;
use crate::limits::{PUSHES_MAX, STRING_BYTES_MAX};
use crate::resp::Value;
use crate::time::Instant;

use super::Node;
use super::connection::{Heard, InFlight, Sent, tracking};
use super::handshake::{Next, Phase, Trouble};
use super::reply::Reply;
use super::request::{Dialect, Question, Request, Step, Taught, Waking};
use super::trust::Trust;

impl Node {
    /// Returns the next thing that the node has said, out of `piece` and what was left over before.
    /// `None` when all of `piece` was taken.
    ///
    /// The answer to an inspection or a count, which says more than its [`Reply`], is shown to its operation by
    /// `show`, while it is in the buffer. Whether it counts is said afterwards. The names of keys that
    /// have changed are handed to `changed`, which returns `true` if that was waited for. The token of a
    /// holder is in [`Connection::token`](super::Connection) when its answer was returned.
    ///
    /// # Errors
    ///
    /// Why the connection has to be given up.
    #[inline(always)]
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        piece: &mut &[u8],
        show: impl FnOnce(OperationKey, Value<'_>),
        changed: impl FnMut(Option<&[u8]>) -> bool,
    ) -> Result<Option<Heard>, Trouble> {
        self.connection.pulse.heard();
        loop {
            let handshake = matches!(self.handshake.phase, Phase::Handshake(_));
            let value = match self.connection.inbox.next(piece) {
                Ok(Some(frame)) => frame.value,
                Ok(None) => return Ok(None),
                Err(_) if handshake => return Err(Trouble::Unusable(Unusable::NotRedis)),
                Err(_) => return Err(Trouble::Link(LinkFault::Protocol)),
            };
            if matches!(value, Value::Push(_)) {
                return pushed(value, changed, &mut self.connection.pushes);
            }
            self.connection.pushes = 0;
            let Some(sent) = self.connection.wire.in_flight.pop() else {
                return Err(Trouble::of_unasked(value));
            };
            self.connection.pulse.answered(now, sent.at);
            if let Value::Error(line) | Value::BulkError(line) = value {
                self.handshake.keep_words(sent.request, line);
                if let Request::Set { .. } | Request::Release { .. } | Request::Question { .. } =
                    sent.request
                {
                    let reply = Reply::of(value);
                    return Ok(Some(self.refused(now, sent, reply)));
                }
            }
            let step = match sent.request {
                Request::Handshake(step) => step,
                Request::Time => match self.trust.clock.told(sent.at, now, value) {
                    true => return Ok(Some(Heard::Stepped)),
                    false => continue,
                },
                Request::Withdrawn => {
                    self.connection.wire.in_flight.popped_withdrawn();
                    return Err(Trouble::of_unasked(value));
                }
                Request::Batch { count } => {
                    self.connection.wire.batch.answered(count, value)?;
                    return Ok(Some(Heard::Batch));
                }
                Request::Transaction => {
                    if !self.connection.transactions.heard(value)? {
                        continue;
                    }
                    self.connection
                        .transactions
                        .go_on(now, &mut self.connection.wire);
                    return Ok(Some(Heard::Batch));
                }
                Request::Probe {
                    claim,
                    way,
                    with_others,
                } if with_others || self.ways.on && way != Dialect::Text => {
                    let reply = Reply::of(value);
                    return Ok(Some(Heard::Tried { claim, way, reply }));
                }
                Request::Track => {
                    self.connection.wire.waking.refused(value);
                    continue;
                }
                Request::Look {
                    place,
                    holder: false,
                } => {
                    let waking = &mut self.connection.wire.waking;
                    return Ok(Some(tracking::looked(waking, place, value)));
                }
                request @ (Request::Set { .. }
                | Request::FirstSet { .. }
                | Request::FencedSet { .. }
                | Request::Raise { .. }
                | Request::Floor { .. }
                | Request::LookAtFloor { .. }
                | Request::Count { .. }
                | Request::Probe { .. }
                | Request::Release { .. }
                | Request::Question { .. }
                | Request::Look { .. }
                | Request::Why { .. }) => {
                    let reply = match is_with_text(request) {
                        false => Reply::of(value),
                        true => {
                            if let Request::Question { operation, .. }
                            | Request::Count { operation } = request
                            {
                                show(operation, value);
                            } else {
                                tracking::keep_token(&mut self.connection.token, value);
                            }
                            Reply::with_text(value)
                        }
                    };
                    return Ok(Some(self.answered(now, &sent, reply)));
                }
            };
            let (trust, phase) = (&mut self.trust, &mut self.handshake.phase);
            let next = step_answered(
                now,
                step,
                value,
                trust,
                phase,
                &mut self.connection.wire.in_flight,
            )?;
            let heard = self.continue_handshake(now, next);
            if heard.is_some() {
                return Ok(heard);
            }
        }
    }

    /// Returns what it means that the server has answered what was `sent` by `reply`.
    #[inline(always)]
    fn answered(&mut self, now: Instant, sent: &Sent, reply: Reply) -> Heard {
        self.connection.probed = 0;
        self.learn(now, reply);
        let stale = !self.connection.wire.in_flight.is_of_this_era(sent);
        self.trust.judge(now, sent.request, reply, stale)
    }

    #[cold]
    #[inline(never)]
    fn refused(&mut self, now: Instant, sent: Sent, reply: Reply) -> Heard {
        let reply = self.reworded(sent.request, reply, false);
        self.answered(now, &sent, reply)
    }

    /// Asks a server again to load our scripts if it could not before and now answers one.
    fn learn(&mut self, now: Instant, reply: Reply) {
        if let (
            Reply::Integer(_) | Reply::Pair(..) | Reply::Fenced { .. },
            Phase::Ready { server, .. },
        ) = (reply, &mut self.handshake.phase)
            && server.scripts.take_postponed()
        {
            self.teach_scripts(now);
        }
    }

    /// Goes on with the handshake after one of its answers.
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
        self.choose_way();
        self.ask(now, Step::Select);
        Some(Heard::Admitted)
    }

    /// Its handshake is not over before the releases are answered that wait for a transaction: its connection
    /// ends with it. Returns `false` if there are none.
    pub(crate) fn hold_handshake(&mut self) -> bool {
        let waits = !self.connection.transactions.is_empty();
        if waits && let Phase::Ready { server, .. } = &mut self.handshake.phase {
            self.handshake.phase = Phase::Handshake(core::mem::take(server));
        }
        waits
    }

    /// Returns the next answer to a renewal of a batch.
    pub(crate) fn next_in_batch(&mut self, now: Instant) -> Option<Heard> {
        let Some(reply) = self.connection.wire.batch.answers.pop_front() else {
            let done = self.next_transacted();
            return done.or_else(|| self.finish_later(now));
        };
        let sent = self.connection.wire.in_flight.pop().must()?;
        Some(self.answered(now, &sent, reply))
    }

    /// Returns the next piece of work that is done.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "one kind of work is answered in a way of its own"
    )]
    fn next_transacted(&mut self) -> Option<Heard> {
        let done = self.connection.transactions.done.pop_front()?;
        self.connection.shown = done.shown;
        let reply = if let Reply::Error(_) | Reply::Forbidden(_) = done.reply {
            self.reworded(done.request, done.reply, true)
        } else {
            done.reply
        };
        Some(match done.request {
            Request::Probe { claim, way, .. } => Heard::Tried { claim, way, reply },
            _ => Heard::Answer(done.request, reply),
        })
    }

    /// All that was transacted is answered: ends a handshake that was held for that.
    #[cold]
    fn finish_later(&mut self, now: Instant) -> Option<Heard> {
        match self.connection.transactions.is_empty() {
            true => self.finish_handshake(now),
            false => None,
        }
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
        let runs_scripts = server.scripts.knows(Taught::Release);
        self.connection.inbox.cut_strings(STRING_BYTES_MAX);
        self.handshake.phase = Phase::Ready {
            server: core::mem::take(server),
            since: now,
        };
        if runs_scripts {
            self.ways.refusal = None;
            self.use_scripts();
        }
        Some(Heard::Ready)
    }
}

/// A push was received. Several that were not waited for, without an answer in between, are too many.
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

/// Returns `true` if the answer to `request` says more than its [`Reply`].
#[inline]
fn is_with_text(request: Request) -> bool {
    matches!(
        request,
        Request::Look { .. }
            | Request::Count { .. }
            | Request::Question {
                question: Question::Inspect,
                ..
            }
    )
}

/// A server has answered `step`, in its handshake or after it.
#[cold]
#[inline(never)]
fn step_answered(
    now: Instant,
    step: Step,
    value: Value<'_>,
    trust: &mut Trust,
    phase: &mut Phase,
    in_flight: &mut InFlight,
) -> Result<Next, Trouble> {
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
