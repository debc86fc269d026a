//! Operations: the work that callers wait for. Each operation is a type with its own file.
//!
//! | operation | asks | each answer is |
//! | --- | --- | --- |
//! | [`acquire`] | every node to keep a fresh token | a vote each, until an attempt succeeds |
//! | [`extend`] | every node to keep the token for longer | a vote each, within the old validity |
//! | [`confirm`] | every node how much longer it keeps the token | a vote each, and a time |
//! | [`inspect`] | every node what it has under a name | the token there, and a time; it waits for every node |
//! | [`overwrite`] | every node to have another token in place of the holder's | a vote each; it waits for every node |
//! | [`release`] | every node that may hold the token to delete it | a vote each: deleted, or not there |
//! | [`reinit`] | every node to join this group | a vote each; all are needed |
//! | [`floors`] | the nodes that an operator trusts to write a counter floor | a vote each; it waits for all |
//! | [`scan`] | every node for its counters, or for names of locks | a number or names each; it waits for all |
//! | [`repair`] | every node for its counter floor | a number each, from which a lost floor is repaired |
//!
//! The operation [`watch`](inspect::watch) is an inspection that continues until it finds a change. To turn an
//! exclusive lock into a shared lock, the engine confirms the shared lock, and each node with the exclusive lock
//! converts it.
//!
//! The other files contain code that operations share. The file [`ballot`] says which votes count, [`round`] counts
//! them, [`patience`] limits how long a node may take, [`held`] handles questions about held locks, and [`top_up`]
//! sends copies.
//!
//! To add an operation, write a type in this folder that implements [`Operate`], a variant of [`Kind`], and
//! an [`Event`].

pub(super) mod acquire;
mod ballot;
pub(super) mod confirm;
pub(super) mod extend;
pub(super) mod floors;
pub(super) mod held;
pub(super) mod inspect;
pub(super) mod overwrite;
pub(super) mod patience;
pub(super) mod reinit;
pub(super) mod release;
pub(super) mod repair;
pub(super) mod round;
pub(super) mod scan;
pub(super) mod top_up;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use crate::engine::operators::OperatorError;
use crate::entry::Entry;
use crate::error::{ExtendError, LockError, NodeOutcome, Released, Report, UnlockError, Unusable};
use crate::keys::{ClaimKey, NodeId};
use crate::node::{Access, Answer, Asker, Command, Reply, Request, Whose};
use crate::quorum::{Lock, LockId, NodeSet, Vote};
use crate::time::Instant;

use super::breaking::Broken;
use super::claims::busy::Questions;
use super::contract::{Extension, RoundId};
use super::inspection::Inspection;
use super::parts::Parts;
use acquire::Acquire;
use ballot::Bounds;
use floors::GiveFloors;
use held::{LockQuestion, Verdict};
use inspect::Inspect;
use overwrite::Overwrite;
use patience::Patience;
use reinit::Reinit;
use release::Release;
use repair::Repair;
use round::{Round, State};
use scan::Scan;

/// An operation with its current round.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Operation {
    pub(super) kind: Kind,
    pub(super) round: Round,
}

/// The kind of an operation, with its own data.
#[derive(Debug)]
pub(super) enum Kind {
    Acquire(Acquire),
    Held(LockQuestion),
    Inspect(Inspect),
    Overwrite(Overwrite),
    Release(Release),
    Reinit(Reinit),
    Repair(Repair),
    GiveFloors(GiveFloors),
    Scan(Scan),
}

/// The names that a node has listed, and the reason why there may be more.
pub(crate) type ListedNames = (Vec<Box<[u8]>>, Option<NodeOutcome>);

/// An outcome for a caller, or news about a lock.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The outcome of [`Engine::acquire`](crate::engine::Engine::acquire).
    Acquired {
        /// The operation that took the lock.
        round: RoundId,
        /// The lock, or the reason why it was not granted.
        result: Result<Lock, LockError>,
    },
    /// The outcome of [`Engine::extend`](crate::engine::Engine::extend).
    Extended {
        /// The operation that extended the lock.
        round: RoundId,
        /// The extension, which the caller applies to the lock, or the reason why the lock was not extended.
        result: Result<Extension, ExtendError>,
    },
    /// The outcome of [`Engine::confirm`](crate::engine::Engine::confirm).
    Confirmed {
        /// The operation that confirmed the lock.
        round: RoundId,
        /// The new validity, or the reason why it is not known. If the error is [`Lost`](ExtendError::Lost)
        /// or [`Expired`](ExtendError::Expired), the lock has ended, and an [`Expired`](Self::Expired) event also
        /// reports the loss.
        result: Result<Extension, ExtendError>,
    },
    /// The outcome of [`Engine::inspect`](crate::engine::Engine::inspect)
    /// or [`Engine::watch`](crate::engine::Engine::watch).
    Inspected {
        /// The operation that inspected the resource.
        round: RoundId,
        /// The holder of the resource, or the reason why the holder is not known.
        result: Result<Inspection, OperatorError>,
    },
    /// The outcome of [`Engine::break_lock`](crate::engine::Engine::break_lock)
    /// with [`Breaking::KeepOut`](crate::Breaking::KeepOut).
    Broken {
        /// The operation that broke the lock.
        round: RoundId,
        /// The broken lock, or the reason why it was not broken.
        result: Result<Broken, OperatorError>,
    },
    /// The outcome of [`Engine::release`](crate::engine::Engine::release), and
    /// of [`Engine::break_lock`](crate::engine::Engine::break_lock) with [`Breaking::AtOnce`](crate::Breaking::AtOnce).
    Released {
        /// The operation that released the lock.
        round: RoundId,
        /// The result of the release.
        result: Result<Released, UnlockError>,
    },
    /// The outcome of [`Engine::reinit`](crate::engine::Engine::reinit).
    Reinitialised {
        /// The operation that reinitialised the nodes.
        round: RoundId,
        /// `Ok` if every node now belongs to this group.
        result: Result<(), OperatorError>,
    },
    /// An operator has [trusted](crate::engine::Engine::trust) nodes, so the engine has sent each of them a counter
    /// floor. No call returns the id of this operation.
    FloorsGiven {
        /// The operation that sent the floors.
        round: RoundId,
        /// The nodes that have not confirmed their floor, each with the reason. Empty if all nodes have written a
        /// floor, or if no caller of this engine has requested a fencing token.
        without: Vec<(NodeId, NodeOutcome)>,
    },
    /// The nodes have counted their fencing-token counters for a handle. No call of an engine returns the id of this
    /// operation.
    CountersCounted {
        /// The operation that counted the fencing-token counters.
        round: RoundId,
        /// The number of counters on each node, and a reason if the node may have more counters.
        counters: Vec<(u64, Option<NodeOutcome>)>,
    },
    /// The nodes have listed the names of locks for a handle. No call of an engine returns the id of this operation.
    NamesListed {
        /// The operation that listed the names.
        round: RoundId,
        /// The names on each node, with a reason if there may be more.
        names: Vec<ListedNames>,
    },
    /// The engine has extended a lock that it [keeps](crate::LockOptions::keep), or has tried to extend it. The lock
    /// already has its new validity, so the caller need not apply it.
    Kept {
        /// The lock that was extended.
        lock: LockId,
        /// The end of the new validity, or the reason why the lock was not extended. After a failure, the engine tries
        /// again. If the error is [`Lost`](ExtendError::Lost), an [`Expired`](Self::Expired) event follows.
        result: Result<Instant, ExtendError>,
    },
    /// A lock has less validity left than a caller's limit: see [`alert_below`](crate::engine::Engine::alert_below).
    /// The engine reports this event once for each call of `alert_below`. A timer triggers the report, which therefore
    /// comes even if every node is silent. The report never comes after the lock was released, handed over or reported
    /// as lost.
    AtRisk {
        /// The lock at risk.
        lock: LockId,
    },
    /// A lock that was not released is lost, because its validity ends within a tick or a majority of the nodes reports
    /// that the lock is gone. The engine reports the loss once for each lock. A timer triggers the report, which
    /// therefore comes even if every node is silent.
    Expired {
        /// The lost lock.
        lock: LockId,
    },
}

impl Event {
    /// Returns the operation that ends with this event, if any.
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
            | Self::CountersCounted { round, .. }
            | Self::NamesListed { round, .. } => Some(*round),
            Self::Kept { .. } | Self::AtRisk { .. } | Self::Expired { .. } => None,
        }
    }

    /// Returns the lock that this event grants, if any.
    #[cfg(feature = "std")]
    pub(crate) fn into_lock(self) -> Option<Lock> {
        let Self::Acquired { result, .. } = self else {
            return None;
        };
        result.ok()
    }
}

/// The context of an operation's methods: the time, the round of the operation, and the parts.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) now: Instant,
    pub(super) round: &'a mut Round,
    pub(super) parts: &'a mut Parts,
    pub(super) lost: Option<LostLock>,
}

/// A lock that a majority has lost, or whose validity has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct LostLock {
    pub(super) claim: ClaimKey,
    /// The other open questions about the lock. The other questions end after the question that found the loss.
    pub(super) open: Questions,
    /// The outcome for the callers of the other questions.
    pub(super) verdict: fn() -> Verdict,
    /// Whether the remaining copies stay on the nodes instead of being released.
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

    /// Returns whether `node` can be asked now. If the node is not connected and the other nodes are not a majority,
    /// tries to connect now or soon.
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

    /// Asks `node` by calling `put`, or queues the question until the node's handshake is done. If the node cannot be
    /// asked, records that it abstains, and returns `false` if this was not recorded before.
    #[inline]
    pub(super) fn reach(
        &mut self,
        node: NodeId,
        whose: Whose,
        put: impl FnOnce(&mut Self) -> Result<(), Unusable>,
    ) -> bool {
        let outcome = match self.access(node) {
            Access::Open => match put(self) {
                Ok(()) => {
                    self.round[node].asked = true;
                    return true;
                }
                Err(why) => NodeOutcome::Unusable(why),
            },
            Access::Handshake { .. } => {
                return self.round.wait_for(node, whose, &mut self.parts.nodes);
            }
            Access::Shut(outcome) => outcome,
        };
        !self.round.record(node, Vote::Abstain, outcome)
    }

    /// Returns the report for an error of `operation`, with the answer of each node.
    #[cold]
    pub(super) fn report(&self, operation: &mut dyn Operate) -> Report {
        let report = self.round.report(self.now, &self.parts.nodes);
        operation.about(report, self.parts)
    }
}

/// The interface of every operation. Each default method does nothing, or does what most operations need.
pub(super) trait Operate {
    /// Asks the nodes.
    fn begin(&mut self, cx: &mut Context<'_>);

    /// Builds the question to `node` in `command` and sends it, or queues the question until the handshake is done.
    ///
    /// Returns `false` if the node cannot be asked. In this case, `ask` records the abstention, and the caller must
    /// judge the votes.
    #[must_use]
    fn ask(&mut self, _node: NodeId, _command: &mut Command, _cx: &mut Context<'_>) -> bool {
        true
    }

    /// Ends the operation, or its attempt, if the outcome of its round is certain. By default, waits for every node.
    fn judge(&mut self, cx: &mut Context<'_>) {
        if cx.round.tally.open().is_empty() {
            cx.round.decide(cx.parts);
        }
    }

    /// Returns the outcome for the caller, or `None` if the outcome is no longer valid.
    fn tell(&mut self, cx: &mut Context<'_>) -> Option<Event>;

    /// Adds the names of the operation's resources to `report`.
    fn about(&mut self, report: Report, _parts: &Parts) -> Report {
        report
    }

    // ----- answers of nodes -----------------------------------------------------------------

    /// Handles the `answer` of `node`.
    fn answered(&mut self, node: NodeId, answer: &Answer, cx: &mut Context<'_>) {
        self.vote(node, answer.reply.vote(), cx);
    }

    /// Counts the vote of `node`.
    #[inline(always)]
    fn vote(&mut self, node: NodeId, said: (Vote, NodeOutcome), cx: &mut Context<'_>) {
        let (vote, outcome) = self.bounds(cx).ballot(cx.now, node, said);
        if cx.round.count(cx.now, node, vote, outcome) {
            judge_if_voting(self, cx);
        }
    }

    /// Returns `true` if the operation may grant or extend a lock, so that the loss of a yes vote matters.
    fn rests_on_answers(&self) -> bool {
        false
    }

    /// Returns the conditions under which an answer counts.
    #[inline]
    fn bounds(&mut self, _cx: &Context<'_>) -> Bounds {
        Bounds::NONE
    }

    /// Handles the loss of an answer that `node` had given. If a lock depends on the answer, withdraws the node's yes
    /// vote. If the node has made a lasting change, its answer still counts.
    fn lose(&mut self, node: NodeId, lost: Lost, cx: &mut Context<'_>) {
        let changed = match (self.rests_on_answers(), lost) {
            (true, Lost::Trust(_)) if self.bounds(cx).kept_until(node, cx).is_none() => false,
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

    /// Handles a change that the operation may wait for. By default, asks a node when its handshake is done.
    fn heard(&mut self, change: Change, cx: &mut Context<'_>) {
        if let Change::Ready(node) = change {
            if self.rests_on_answers() {
                self.bounds(cx).leave_out(node, cx);
            }
            ask_one(self, node, cx);
        }
    }

    // ----- timers and the outcome -----------------------------------------------------------

    /// Withdraws the question to `nodes` if none of its bytes has been sent.
    fn withdraw(&mut self, _nodes: NodeSet, _cx: &mut Context<'_>) {}

    /// Handles a wake-up during the random delay or the wait for a turn. Both end at `until` at the latest.
    fn woke(&mut self, _until: Instant, _cx: &mut Context<'_>) {}

    /// Cancels the operation for its caller, and releases any lock that it may have taken.
    fn cancel(&mut self, _cx: &mut Context<'_>) {}

    /// Ends the operation and returns its buffers to their pool.
    fn end(&mut self, _parts: &mut Parts) {}
}

/// The reason why a counted answer no longer counts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lost {
    /// The connection that carried the answer is lost.
    Connection(NodeOutcome),
    /// The node may have forgotten locks, or its clock was set.
    Trust(NodeOutcome),
}

/// A change that an operation may wait for, apart from answers and timers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// The handshake of a node is done, and a question has waited for it.
    Ready(NodeId),
    /// The commands that must precede a question to a node may have been sent.
    Behind(NodeId),
    /// A node has joined its group.
    Joined(NodeId),
    /// A node has said that it belongs to another group.
    OtherGroup,
    /// A majority answers again, after a time without a majority.
    MajorityBack,
    /// The resource or a node has changed.
    Stirred,
    /// It is the operation's turn to ask the nodes.
    Turn,
    /// The caller's deadline has passed, so there is no time for another attempt.
    OutOfTime,
}

// ----- functions for all operations -------------------------------------------------------

/// Asks every node until the outcome is certain.
fn ask_all<O: Operate + ?Sized>(operation: &mut O, cx: &mut Context<'_>) {
    let mut command = cx.parts.claims.command();
    for node in cx.parts.nodes.ids() {
        if !operation.ask(node, &mut command, cx) {
            judge_if_voting(operation, cx);
        }
    }
    cx.parts.claims.sent(command);
}

/// Asks every node. Even a late answer is useful, so each node gets the same timeout as for the longest lock.
fn ask_patiently<O: Operate + ?Sized>(operation: &mut O, cx: &mut Context<'_>) {
    let patience = Patience::for_release(Duration::MAX, &cx.parts.settings);
    for node in cx.parts.nodes.ids() {
        cx.round[node].deadline = patience.until(cx.now, &mut cx.parts.nodes[node]);
        Bounds::NONE.leave_out(node, cx);
    }
    ask_all(operation, cx);
    cx.round.arm(&mut cx.parts.timers);
}

/// Asks `node`, then judges the votes.
fn ask_one<O: Operate + ?Sized>(operation: &mut O, node: NodeId, cx: &mut Context<'_>) {
    let mut command = cx.parts.claims.command();
    let _ = operation.ask(node, &mut command, cx);
    cx.parts.claims.sent(command);
    judge_if_voting(operation, cx);
}

/// Withdraws the question to `nodes` if none of its bytes has been sent.
fn withdraw(nodes: NodeSet, cx: &mut Context<'_>) {
    let asker = Asker::Operation(cx.round.key);
    for node in nodes.iter() {
        cx.parts.nodes[node].connection.withdraw(asker);
    }
}

/// If a script may have stopped on `node` because of a missing permission that `answer` does not name, asks which
/// permission is missing. Returns `false` if no question is needed, or if `node` cannot be asked.
fn ask_why(node: NodeId, entry: &Entry, answer: &Answer, cx: &mut Context<'_>) -> bool {
    let is_answer = matches!(answer.request, Request::Why { .. });
    let asks = answer.reply == Reply::Stopped
        && !is_answer
        && cx.parts.nodes[node].access() == Access::Open
        && cx.round.awaits(node);
    if asks {
        let there = cx.parts.nodes.writing_to(node);
        there.ask_why(cx.now, cx.round.key, entry);
    }
    asks
}

/// Ends the operation, or its attempt, if the outcome is certain.
pub(super) fn judge_if_voting<O: Operate + ?Sized>(operation: &mut O, cx: &mut Context<'_>) {
    if cx.round.is_voting() {
        operation.judge(cx);
    }
}

/// Handles the timer of `operation`.
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

/// Ends the wait for nodes that took too long, and for all nodes at the caller's deadline. Withdraws questions whose
/// bytes have not been sent, so that they are never sent late.
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
            Self::Held(operation) => operation,
            Self::Inspect(operation) => operation,
            Self::Overwrite(operation) => operation,
            Self::Release(operation) => operation,
            Self::Reinit(operation) => operation,
            Self::Repair(operation) => operation,
            Self::GiveFloors(operation) => operation,
            Self::Scan(operation) => operation,
        }
    }

    /// Returns `true` if the engine itself has begun this operation. No caller waits for the outcome, so the operation
    /// ends without an event as soon as the outcome is certain.
    pub(super) fn is_own(&self) -> bool {
        matches!(self, Self::Repair(_))
    }
}

impl Operation {
    /// Returns the operation itself, and its context at `now`.
    pub(super) fn at<'a>(
        &'a mut self,
        now: Instant,
        parts: &'a mut Parts,
    ) -> (&'a mut dyn Operate, Context<'a>) {
        let round = &mut self.round;
        (self.kind.get(), Context::new(now, round, parts))
    }
}
