//! Operations: what callers wait for. Each is one type in a file of its own.
//!
//! | operation | asks | answers are worth |
//! | --- | --- | --- |
//! | [`acquire`] | every node to keep a fresh token | a vote each, until an attempt succeeds |
//! | [`extend`] | every node to keep the token for longer | a vote each, within the old validity |
//! | [`confirm`] | every node for how long it keeps the token | a vote each, and a time |
//! | [`release`] | every node that may hold the token to delete it | what became of the token there |
//! | [`reinit`] | every node to join this cluster | all of them are needed |
//!
//! What they share stands beside them: [`round`] counts votes, [`patience`] says how long a node may
//! take, [`held`] is about locks that are held, [`top_up`] sends copies, [`permission`] finds out what
//! a user may not do.
//!
//! A new operation is a type here that is an [`Operate`], and a line in [`Kind`].

pub(super) mod acquire;
pub(super) mod confirm;
pub(super) mod extend;
pub(super) mod held;
pub(super) mod patience;
mod permission;
pub(super) mod reinit;
pub(super) mod release;
pub(super) mod round;
mod top_up;

use crate::error::NodeOutcome;
use crate::keys::ClaimKey;
use crate::quorum::{NodeSet, Vote};
use crate::time::Instant;

use super::contract::Event;
use super::parts::Parts;
use acquire::Acquire;
use confirm::Confirm;
use extend::Extend;
use held::{Held, Verdict};
use reinit::Reinit;
use release::Release;
use round::{Round, State};

/// An operation with its present round.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) round: Round,
    pub(super) kind: Kind,
}

/// Which operation it is, with its own data.
#[derive(Debug)]
pub(super) enum Kind {
    Acquire(Acquire),
    Extend(Extend),
    Confirm(Confirm),
    Release(Release),
    Reinit(Reinit),
}

/// What a verdict means for other operations.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub(super) enum After {
    /// Nothing.
    Nothing,
    /// A majority has lost the lock of this claim: other questions about it are over too, and what is
    /// left of it is released.
    Lost(ClaimKey),
}

/// What an operation works with: the present time, its round, and the parts.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) now: Instant,
    pub(super) round: &'a mut Round,
    pub(super) parts: &'a mut Parts,
}

/// What every operation implements.
pub(super) trait Operate {
    /// Asks the nodes.
    fn begin(&mut self, cx: &mut Context<'_>) -> After;

    /// Ends the operation, or its attempt, if the outcome of its round is certain.
    fn judge(&mut self, cx: &mut Context<'_>) -> After;

    /// Returns the decided outcome for the caller. Returns `None` if it no longer stands.
    fn tell(&mut self, cx: &mut Context<'_>) -> Option<Event>;

    /// Asks `node`, which has just finished its handshake.
    fn ask_late(&mut self, node: usize, cx: &mut Context<'_>) -> After {
        let _ = (node, cx);
        After::Nothing
    }

    /// Withdraws the question to those of `nodes` where no byte of it has left.
    fn withdraw(&mut self, nodes: NodeSet, cx: &mut Context<'_>) {
        let _ = (nodes, cx);
    }

    /// Returns `true` if it may give a lock, or have it last: what it rests on can be lost.
    fn rests_on_answers(&self) -> bool {
        false
    }

    /// The caller's deadline has passed: there is no time for another attempt.
    fn out_of_time(&mut self, round: &Round) {
        let _ = round;
    }

    /// The random delay before the next attempt may be over.
    fn rested(&mut self, cx: &mut Context<'_>) {
        let _ = cx;
    }

    /// The caller cancels: releases what may have been locked.
    fn cancel(&mut self, cx: &mut Context<'_>) {
        let _ = cx;
    }

    /// Ends it: returns its buffers to their pool.
    fn end(&mut self, parts: &mut Parts) {
        let _ = parts;
    }
}

impl Kind {
    fn get(&mut self) -> &mut dyn Operate {
        match self {
            Self::Acquire(operation) => operation,
            Self::Extend(operation) => operation,
            Self::Confirm(operation) => operation,
            Self::Release(operation) => operation,
            Self::Reinit(operation) => operation,
        }
    }

    /// Returns the question about a lock that is held, if the operation is one.
    pub(super) fn held(&self) -> Option<&Held> {
        match self {
            Self::Extend(Extend { held, .. }) | Self::Confirm(Confirm { held, .. }) => Some(held),
            Self::Acquire(_) | Self::Release(_) | Self::Reinit(_) => None,
        }
    }
}

impl Operation {
    /// Returns the operation itself, and the context that it works with at `now`.
    pub(super) fn at<'a>(
        &'a mut self,
        now: Instant,
        parts: &'a mut Parts,
    ) -> (&'a mut Kind, Context<'a>) {
        let round = &mut self.round;
        (&mut self.kind, Context { now, round, parts })
    }

    /// Asks the nodes.
    pub(super) fn begin(&mut self, now: Instant, parts: &mut Parts) -> After {
        let (kind, mut cx) = self.at(now, parts);
        kind.get().begin(&mut cx)
    }

    /// Ends it, or its attempt, if its outcome is certain.
    pub(super) fn judge(&mut self, now: Instant, parts: &mut Parts) -> After {
        let (kind, mut cx) = self.at(now, parts);
        match cx.round.is_voting() {
            true => kind.get().judge(&mut cx),
            false => After::Nothing,
        }
    }

    /// `node` has answered, and `outcome` is what it said.
    pub(super) fn vote(
        &mut self,
        now: Instant,
        node: usize,
        (vote, outcome): (Vote, NodeOutcome),
        parts: &mut Parts,
    ) -> After {
        if !self.round.count(now, node, vote, outcome) {
            return After::Nothing;
        }
        self.judge(now, parts)
    }

    /// Does the same for an answer to a question about a lock that is held.
    pub(super) fn vote_held(
        &mut self,
        now: Instant,
        node: usize,
        said: (Vote, NodeOutcome),
        parts: &mut Parts,
    ) -> After {
        let Some(held) = self.kind.held() else {
            return After::Nothing;
        };
        let said = held.worth(now, node, said, &self.round, &parts.claims);
        self.vote(now, node, said, parts)
    }

    /// `node` has forgotten the script of a question about a lock that is held: sends the same by
    /// its text.
    pub(super) fn ask_by_text(&mut self, now: Instant, node: usize, parts: &mut Parts) {
        let (kind, mut cx) = self.at(now, parts);
        if let Some(held) = kind.held() {
            let mut command = cx.parts.claims.command();
            held.send(node, &mut command, true, &mut cx);
            cx.parts.claims.sent(command);
        }
    }

    /// Ends the question about a lock that is held with `verdict`.
    pub(super) fn end_question(&mut self, now: Instant, verdict: Verdict, parts: &mut Parts) {
        let (kind, mut cx) = self.at(now, parts);
        if let Kind::Extend(Extend { held }) | Kind::Confirm(Confirm { held, .. }) = kind {
            held.decide(verdict, &mut cx);
        }
    }

    /// The connection to `node` is lost. A yes that a lock rests on is lost with it; an answer that
    /// changed something for good stays counted.
    pub(super) fn lose(
        &mut self,
        now: Instant,
        node: usize,
        outcome: NodeOutcome,
        parts: &mut Parts,
    ) -> After {
        let changed = match self.rests_on_answers() {
            true => self.round.lose(node, outcome),
            false => self.round.record(node, Vote::Abstain, outcome),
        };
        match guard!(LostVoteNotJudged, changed) {
            true => self.judge(now, parts),
            false => After::Nothing,
        }
    }

    pub(super) fn rests_on_answers(&mut self) -> bool {
        self.kind.get().rests_on_answers()
    }

    /// Asks `node`, which has just finished its handshake, if its answer still counts.
    pub(super) fn ask_late(&mut self, now: Instant, node: usize, parts: &mut Parts) -> After {
        let (kind, mut cx) = self.at(now, parts);
        match cx.round.asks_late(now, node) {
            true => kind.get().ask_late(node, &mut cx),
            false => After::Nothing,
        }
    }

    /// Its timer has fired.
    pub(super) fn due(&mut self, now: Instant, parts: &mut Parts) -> After {
        let (kind, mut cx) = self.at(now, parts);
        cx.round.fired();
        match cx.round.state {
            State::Resting { .. } => kind.get().rested(&mut cx),
            State::Voting => {
                time_out(kind.get(), &mut cx);
                let after = self.judge(now, parts);
                if self.round.is_voting() {
                    self.round.arm(&mut parts.timers);
                }
                return after;
            }
            State::Decided | State::Told => {}
        }
        After::Nothing
    }

    /// Returns the event for its caller. `now` may be later than when it was decided.
    pub(super) fn tell(&mut self, now: Instant, parts: &mut Parts) -> Option<Event> {
        let (kind, mut cx) = self.at(now, parts);
        if cx.round.state != State::Decided {
            return None;
        }
        let event = kind.get().tell(&mut cx)?;
        cx.round.state = State::Told;
        Some(event)
    }

    /// Ends it: returns its buffers to their pool.
    pub(super) fn end(&mut self, parts: &mut Parts) {
        self.round.disarm(&mut parts.timers);
        self.kind.get().end(parts);
    }

    /// Ends it without reporting an outcome.
    pub(super) fn cancel(&mut self, now: Instant, parts: &mut Parts) {
        let (kind, mut cx) = self.at(now, parts);
        let all = cx.parts.nodes.set();
        kind.get().withdraw(all, &mut cx);
        kind.get().cancel(&mut cx);
    }
}

/// Ends the wait for nodes that took too long, and for all of them at the caller's deadline. A
/// question of which no byte has left is withdrawn: it is never sent late.
fn time_out(operation: &mut dyn Operate, cx: &mut Context<'_>) {
    let (now, nodes) = (cx.now, &cx.parts.nodes);
    let open = cx.round.tally.open();
    cx.round
        .time_out(now, |node| nodes[node].trouble().outcome());
    if cx.round.deadline.is_some_and(|deadline| deadline <= now) {
        cx.round.close();
        operation.out_of_time(cx.round);
    }
    let closed = open.without(cx.round.tally.open());
    let given_up = closed.union(cx.round.end_left_out(now));
    operation.withdraw(given_up, cx);
}
