//! Operations: what callers wait for. Each is one type in a file of its own.
//!
//! | operation | asks | answers are worth |
//! | --- | --- | --- |
//! | [`acquire`] | every node to keep a fresh token | a vote each, until an attempt succeeds |
//! | [`extend`] | every node to keep the token for longer | a vote each, within the old validity |
//! | [`confirm`] | every node for how long it keeps the token | a vote each, and a time |
//! | [`inspect`] | every node what it has under a name | the token there, and a time; every node is heard |
//! | [`overwrite`] | every node to have another token in place of the holder's | a vote each; every node is heard |
//! | [`release`] | every node that may hold the token to delete it | what became of the token there |
//! | [`reinit`] | every node to join this cluster | all of them are needed |
//! | [`floors`] | nodes that an operator trusts to write a floor of fencing tokens | all of them are heard |
//! | [`counters`] | every node how many counters of fencing tokens it has, piece by piece | a number; all of them are heard |
//! | [`repair`] | every node for its floor of fencing tokens | what a lost floor is repaired from |
//!
//! [`watch`] is an inspection that goes on until it finds something new.
//!
//! What they share stands beside them: [`round`] counts votes, [`patience`] says how long a node may
//! take, [`held`] is about locks that are held, [`top_up`] sends copies, [`permission`] finds out what
//! a user may not do.
//!
//! A new operation is a type here that is an [`Operate`], a line in [`Kind`], and an [`Event`].

pub(super) mod acquire;
pub(super) mod confirm;
pub(super) mod counters;
pub(super) mod extend;
pub(super) mod floors;
pub(super) mod held;
pub(super) mod inspect;
pub(super) mod overwrite;
pub(super) mod patience;
pub(super) mod permission;
pub(super) mod reinit;
pub(super) mod release;
pub(super) mod repair;
pub(super) mod round;
mod top_up;

use alloc::vec::Vec;

use crate::error::{
    ConfirmError, ExtendError, LockError, NodeOutcome, ReinitError, Released, Report, UnlockError,
};
use crate::keys::{ClaimKey, NodeId};
use crate::node::{Access, Command};
use crate::quorum::{Lock, LockId, NodeSet, Vote};
use crate::resp::Value;
use crate::time::Instant;

use super::answer::Answer;
use super::breaking::{BreakError, Broken};
use super::claims::busy::Questions;
use super::contract::{Extension, RoundId};
use super::inspection::{InspectError, Inspection};
use super::parts::Parts;
use acquire::Acquire;
use confirm::Confirm;
use counters::CountCounters;
use extend::Extend;
use floors::GiveFloors;
use held::{LockQuestion, Verdict};
use inspect::Inspect;
use overwrite::Overwrite;
use reinit::Reinit;
use release::Release;
use repair::Repair;
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
    Inspect(Inspect),
    Overwrite(Overwrite),
    Release(Release),
    Reinit(Reinit),
    Repair(Repair),
    GiveFloors(GiveFloors),
    CountCounters(CountCounters),
}

/// Something a user waits for.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The outcome of [`Engine::acquire`](crate::engine::Engine::acquire).
    Acquired {
        /// Of which round.
        round: RoundId,
        /// The lock, or why there is none.
        result: Result<Lock, LockError>,
    },
    /// The outcome of [`Engine::extend`](crate::engine::Engine::extend).
    Extended {
        /// Of which round.
        round: RoundId,
        /// What counts as one of its extensions when it is applied to the lock, or why there is none.
        result: Result<Extension, ExtendError>,
    },
    /// The outcome of [`Engine::confirm`](crate::engine::Engine::confirm).
    Confirmed {
        /// Of which round.
        round: RoundId,
        /// The end that was found, or why there is none. If it is
        /// [`Lost`](ConfirmError::Lost) or [`Expired`](ConfirmError::Expired) the lock is over, and an
        /// [`Expired`](Self::Expired) says so too.
        result: Result<Extension, ConfirmError>,
    },
    /// The outcome of [`Engine::inspect`](crate::engine::Engine::inspect) or
    /// [`Engine::watch`](crate::engine::Engine::watch).
    Inspected {
        /// Of which round.
        round: RoundId,
        /// Who holds the resource, or why that is not known.
        result: Result<Inspection, InspectError>,
    },
    /// The outcome of [`Engine::break_lock`](crate::engine::Engine::break_lock) with
    /// [`Breaking::KeepOut`](crate::Breaking::KeepOut).
    Broken {
        /// Of which round.
        round: RoundId,
        /// What was broken, or why nothing was.
        result: Result<Broken, BreakError>,
    },
    /// The outcome of [`Engine::release`](crate::engine::Engine::release), and of
    /// [`Engine::break_lock`](crate::engine::Engine::break_lock) with [`Breaking::AtOnce`](crate::Breaking::AtOnce).
    Released {
        /// Of which round.
        round: RoundId,
        /// How it went.
        result: Result<Released, UnlockError>,
    },
    /// The outcome of [`Engine::reinit`](crate::engine::Engine::reinit).
    Reinitialised {
        /// Of which round.
        round: RoundId,
        /// Whether every node is of this cluster now.
        result: Result<(), ReinitError>,
    },
    /// Nodes were [trusted](crate::engine::Engine::trust) by an engine that was asked for a fencing token before, so
    /// each was to get a floor. Its round is one of which no call has told.
    FloorsGiven {
        /// Of which round.
        round: RoundId,
        /// The nodes that have not said that they wrote it, and why: empty if all did.
        without: Vec<(NodeId, NodeOutcome)>,
    },
    /// The nodes have counted their counters of fencing tokens, for a handle. Its round is one of which no call of an
    /// engine has told.
    CountersCounted {
        /// Of which round.
        round: RoundId,
        /// For each node how many were counted, and why there may be more.
        counters: Vec<(u64, Option<NodeOutcome>)>,
    },
    /// The engine has extended a lock that it [keeps](crate::LockOptions::keep), or has tried to. There
    /// is nothing to be applied: the lock shows its end already.
    Kept {
        /// Which lock.
        lock: LockId,
        /// The end of its validity, or why it is as it was. The engine tries again; if it is
        /// [`Lost`](ExtendError::Lost) an [`Expired`](Self::Expired) says so too.
        result: Result<Instant, ExtendError>,
    },
    /// Less is left of a lock than [`Engine::alert_below`](crate::engine::Engine::alert_below) was asked for.
    /// Reported once for each time that this was asked, by a timer, so also when every node is silent; never
    /// after the lock was released, handed over or reported as over.
    AtRisk {
        /// Which lock.
        lock: LockId,
    },
    /// A lock that was not released is lost: its validity ends within a tick, or a majority of the
    /// nodes said that it is gone. Reported once for each lock, by a timer and not by a reply, so
    /// also when every node is silent.
    Expired {
        /// Which lock.
        lock: LockId,
    },
}

impl Event {
    /// Returns the round that ends with it, if one does.
    #[must_use]
    pub fn round(&self) -> Option<RoundId> {
        match self {
            Self::Acquired { round, .. }
            | Self::Extended { round, .. }
            | Self::Confirmed { round, .. }
            | Self::Inspected { round, .. }
            | Self::Broken { round, .. }
            | Self::Released { round, .. }
            | Self::Reinitialised { round, .. }
            | Self::FloorsGiven { round, .. }
            | Self::CountersCounted { round, .. } => Some(*round),
            Self::Kept { .. } | Self::AtRisk { .. } | Self::Expired { .. } => None,
        }
    }

    /// Returns the lock that it grants, if it grants one.
    #[cfg(feature = "std")]
    pub(crate) fn into_lock(self) -> Option<Lock> {
        let Self::Acquired { result, .. } = self else {
            return None;
        };
        result.ok()
    }
}

/// What an operation works with: the present time, its round, and the parts.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) now: Instant,
    pub(super) round: &'a mut Round,
    pub(super) parts: &'a mut Parts,
    pub(super) lost: Option<LostLock>,
}

/// A lock that a majority has lost, or keeps for no longer.
#[derive(Clone, Copy, Debug)]
pub(super) struct LostLock {
    pub(super) claim: ClaimKey,
    /// The other questions about it, which end after this one.
    pub(super) open: Questions,
    /// What their callers get.
    pub(super) verdict: fn() -> Verdict,
    /// What is left of it is not released.
    pub(super) stays: bool,
}

impl<'a> Context<'a> {
    pub(super) const fn new(now: Instant, round: &'a mut Round, parts: &'a mut Parts) -> Self {
        Self {
            now,
            round,
            parts,
            lost: None,
        }
    }

    /// Returns whether `node` can be asked. If it is not connected, and the others are no majority, it is tried
    /// at once, or soon.
    #[inline]
    pub(super) fn access(&mut self, node: NodeId) -> Access {
        let access = self.parts.nodes[node].access();
        if !matches!(access, Access::Shut(_)) {
            return access;
        }
        self.parts
            .nodes
            .reconnect_early(self.now, &mut self.parts.timers);
        self.parts.nodes[node].access()
    }

    /// Returns what each node said, for an error.
    pub(super) fn report(&self) -> Report {
        self.round.report(self.now, &self.parts.nodes)
    }
}

/// What every operation implements. What has a default does nothing for most of them, or is the same
/// for most.
pub(super) trait Operate {
    /// Asks the nodes.
    fn begin(&mut self, cx: &mut Context<'_>);

    /// Puts its question, which is `command`, into the connection to `node`, or into the queue that is
    /// sent when its handshake is done.
    ///
    /// Returns `false` if the node cannot be asked: its abstention is recorded, and the caller has to
    /// judge.
    #[must_use]
    fn ask(&mut self, _node: NodeId, _command: &mut Command, _cx: &mut Context<'_>) -> bool {
        true
    }

    /// Ends the operation, or its attempt, if the outcome of its round is certain.
    fn judge(&mut self, cx: &mut Context<'_>);

    /// Returns the decided outcome for the caller. Returns `None` if it no longer stands.
    fn tell(&mut self, cx: &mut Context<'_>) -> Option<Event>;

    // ----- what nodes say -------------------------------------------------------------------

    /// `node` has answered its question by `value`. Whether that counts is said afterwards, by
    /// [`answered`](Self::answered).
    fn shown(&mut self, _node: NodeId, _value: Value<'_>) {}

    /// `node` has answered.
    fn answered(&mut self, node: NodeId, answer: &Answer, cx: &mut Context<'_>) {
        if let Answer::Vote(said) = *answer {
            self.vote(node, said, cx);
        }
    }

    /// Counts what `node` has said.
    #[inline]
    fn vote(&mut self, node: NodeId, (vote, outcome): (Vote, NodeOutcome), cx: &mut Context<'_>) {
        if cx.round.count(cx.now, node, vote, outcome) {
            judge_if_voting(self, cx);
        }
    }

    /// Returns `true` if it may give a lock, or have it last: what it rests on can be lost.
    fn rests_on_answers(&self) -> bool {
        false
    }

    /// What `node` has said is `lost`. A yes that a lock rests on does not count any more; an answer that changed
    /// something for good stays counted.
    fn lose(&mut self, node: NodeId, lost: Lost, cx: &mut Context<'_>) {
        let changed = match (self.rests_on_answers(), lost) {
            (true, Lost::Connection(outcome) | Lost::Trust(outcome)) => {
                cx.round.lose(node, outcome)
            }
            (false, Lost::Connection(outcome)) => cx.round.record(node, Vote::Abstain, outcome),
            (false, Lost::Trust(_)) => false,
        };
        if guard!(LostVoteNotJudged, changed) {
            judge_if_voting(self, cx);
        }
    }

    /// Something has changed besides. Most operations ask a node whose handshake is done.
    fn heard(&mut self, change: Change, cx: &mut Context<'_>) {
        if let Change::Ready(node) = change {
            cx.round.leave_out(cx.now, node, &cx.parts.nodes);
            ask_one(self, node, cx);
        }
    }

    // ----- time, and its end ----------------------------------------------------------------

    /// Withdraws the question to those of `nodes` where no byte of it has left.
    fn withdraw(&mut self, _nodes: NodeSet, _cx: &mut Context<'_>) {}

    /// What it waits for by its round may be over: a random delay or its turn, `until` then at the latest.
    fn woke(&mut self, _until: Instant, _cx: &mut Context<'_>) {}

    /// The caller cancels: releases what may have been locked.
    fn cancel(&mut self, _cx: &mut Context<'_>) {}

    /// Ends it: returns its buffers to their pool.
    fn end(&mut self, _parts: &mut Parts) {}
}

/// Why an answer that was counted does not count any more.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lost {
    /// The connection over which it came is lost.
    Connection(NodeOutcome),
    /// Its node may have forgotten, or its clock was set.
    Trust(NodeOutcome),
}

/// Something that an operation may wait for, besides answers and time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// The handshake of a node is done. Its question waited for that.
    Ready(NodeId),
    /// A node may have been sent by now what its question waited for.
    Behind(NodeId),
    /// A node has joined its cluster.
    Joined(NodeId),
    /// A node has said that it is another cluster's.
    OtherCluster,
    /// A majority answers again, which did not before.
    MajorityBack,
    /// The resource, or a node, is not as it was.
    Stirred,
    /// It is the next to ask for what others wanted before it.
    Turn,
    /// The caller's deadline has passed: there is no time for another attempt.
    OutOfTime,
}

// ----- what is the same for all -------------------------------------------------------------

/// Asks every node, until the outcome is certain.
fn ask_all<O: Operate + ?Sized>(operation: &mut O, cx: &mut Context<'_>) {
    let mut command = cx.parts.claims.command();
    for node in cx.parts.nodes.ids() {
        if !operation.ask(node, &mut command, cx) {
            judge_if_voting(operation, cx);
        }
    }
    cx.parts.claims.sent(command);
}

/// Asks `node`, and judges what is known of it already.
fn ask_one<O: Operate + ?Sized>(operation: &mut O, node: NodeId, cx: &mut Context<'_>) {
    let mut command = cx.parts.claims.command();
    let _ = operation.ask(node, &mut command, cx);
    cx.parts.claims.sent(command);
    judge_if_voting(operation, cx);
}

/// Ends it, or its attempt, if its outcome is certain.
pub(super) fn judge_if_voting<O: Operate + ?Sized>(operation: &mut O, cx: &mut Context<'_>) {
    if cx.round.is_voting() {
        operation.judge(cx);
    }
}

/// The timer of `operation` has fired.
pub(super) fn due(operation: &mut dyn Operate, cx: &mut Context<'_>) {
    cx.round.fired();
    match cx.round.state {
        State::Queued { until } | State::Resting { until } => operation.woke(until, cx),
        State::Voting => {
            time_out(operation, cx);
            judge_if_voting(operation, cx);
            if cx.round.is_voting() {
                cx.round.arm(&mut cx.parts.timers);
            }
        }
        State::Decided => {}
    }
}

/// Ends the wait for nodes that took too long, and for all of them at the caller's deadline. A
/// question of which no byte has left is withdrawn: it is never sent late.
fn time_out(operation: &mut dyn Operate, cx: &mut Context<'_>) {
    let now = cx.now;
    let open = cx.round.tally.open();
    cx.round.time_out(now, &cx.parts.nodes);
    if cx.round.deadline.is_some_and(|deadline| deadline <= now) {
        cx.round.close();
        operation.heard(Change::OutOfTime, cx);
    }
    let closed = open.without(cx.round.tally.open());
    let given_up = closed.union(cx.round.end_uncounted(now));
    operation.withdraw(given_up, cx);
}

impl Kind {
    pub(super) fn get(&mut self) -> &mut dyn Operate {
        match self {
            Self::Acquire(operation) => operation,
            Self::Extend(operation) => operation,
            Self::Confirm(operation) => operation,
            Self::Inspect(operation) => operation,
            Self::Overwrite(operation) => operation,
            Self::Release(operation) => operation,
            Self::Reinit(operation) => operation,
            Self::Repair(operation) => operation,
            Self::GiveFloors(operation) => operation,
            Self::CountCounters(operation) => operation,
        }
    }

    /// Returns `true` if no caller waits for its outcome: it is over when that is certain.
    pub(super) fn is_own(&self) -> bool {
        matches!(self, Self::Repair(_))
    }

    /// Returns `true` if it is to take a lock on several resources.
    pub(super) fn wants_several(&self) -> bool {
        matches!(self, Self::Acquire(acquire) if acquire.wants_several())
    }

    /// Returns the question about a lock that is held, if the operation is one.
    pub(super) fn held_mut(&mut self) -> Option<&mut LockQuestion> {
        match self {
            Self::Extend(Extend { held, .. }) | Self::Confirm(Confirm { held, .. }) => Some(held),
            Self::Acquire(_)
            | Self::Inspect(_)
            | Self::Overwrite(_)
            | Self::Release(_)
            | Self::Reinit(_)
            | Self::Repair(_)
            | Self::GiveFloors(_)
            | Self::CountCounters(_) => None,
        }
    }
}

impl Operation {
    /// Returns the operation itself, and what it works with at `now`.
    pub(super) fn at<'a>(
        &'a mut self,
        now: Instant,
        parts: &'a mut Parts,
    ) -> (&'a mut dyn Operate, Context<'a>) {
        let round = &mut self.round;
        (self.kind.get(), Context::new(now, round, parts))
    }
}
