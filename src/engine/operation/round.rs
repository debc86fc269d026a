//! A round: one question to all nodes, and their votes.
//!
//! Every operation has one round at a time. An acquisition has one round for each attempt. A round counts votes until
//! the outcome is certain. The keys that a `SET` may leave on the nodes belong to
//! a [claim](crate::engine::claims::claim).

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};
use core::time::Duration;

use crate::error::{LinkFault, NodeOutcome, NodeReport, Report};
use crate::keys::{NodeId, OperationKey};
use crate::limits::NODES_MAX;
use crate::node::{Trouble, Whose};
use crate::quorum::{NodeSet, Tally, Vote};
use crate::slab::Key;
use crate::time::Instant;
use crate::timer::TimerKey;

use crate::engine::alarm::{Alarm, Timers};
use crate::engine::contract::Cause;
use crate::engine::news::News;
use crate::engine::nodes::Nodes;
use crate::engine::parts::Parts;

/// See the [module](self).
// The fields that the engine uses for each answer come first, so that they share a cache line.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Round {
    pub(crate) state: State,
    pub(crate) tally: Tally,
    pub(crate) ballots: Vec<Ballot>,
    /// The nodes whose answers do not count but are still awaited.
    uncounted: NodeSet,
    /// The number of attempts, including the current one.
    pub(crate) tries: u32,
    /// The time at which the current attempt began, before its first byte was sent. The Redlock paper calls this time
    /// t1.
    pub(crate) sent: Instant,
    /// The operation that asks the question.
    pub(crate) key: OperationKey,
    /// The most informative reason of each node from earlier attempts, or `None` before the second attempt. These
    /// reasons are stored outside the ballots, because the code that handles an answer does not need them.
    before: Option<Box<[NodeOutcome; NODES_MAX]>>,
    /// When the call was made.
    pub(crate) started: Instant,
    /// The latest time at which the caller wants an outcome.
    pub(crate) deadline: Option<Instant>,
    pub(crate) ttl: Duration,
    timer: Option<TimerKey>,
    /// The reason why the timer is set.
    pub(crate) wake: Cause,
}

/// The state of an operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum State {
    /// The operation is counting votes.
    Voting,
    /// The operation waits for earlier operations that want the same lock, until `until` at the latest.
    Queued { until: Instant },
    /// The operation waits for the next attempt.
    Resting { until: Instant },
    /// The outcome is certain, and is reported at the next poll.
    Decided,
}

/// The state of one node in this attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ballot {
    pub(crate) outcome: NodeOutcome,
    /// When the node answered, or [`Instant::MAX`] if it has not answered or was not asked.
    answered: Instant,
    /// When the engine stops waiting for the node's answer.
    pub(crate) deadline: Instant,
    /// Whether the node was asked. A question that was not sent waits for the handshake.
    pub(crate) asked: bool,
    /// Whether the question was repeated in this attempt.
    pub(crate) asked_again: bool,
}

impl Ballot {
    pub(crate) const OPEN: Self = Self {
        outcome: NodeOutcome::Pending,
        answered: Instant::MAX,
        deadline: Instant::MAX,
        asked: false,
        asked_again: false,
    };

    /// Forgets that the node has answered, so that the report shows no latency.
    pub(crate) fn forget_answer(&mut self) {
        self.answered = Instant::MAX;
    }
}

/// Returns the outcome that better explains why a node did not vote. If both outcomes explain this equally well,
/// returns `other`.
fn more_telling(one: NodeOutcome, other: NodeOutcome) -> NodeOutcome {
    match weight(one) <= weight(other) {
        true => other,
        false => one,
    }
}

/// Returns how well this outcome explains why a node did not vote.
fn weight(outcome: NodeOutcome) -> u8 {
    match outcome {
        NodeOutcome::Unusable(_) => 2,
        NodeOutcome::Refused(_) => 1,
        // These outcomes do not show whether a later attempt would fail too.
        NodeOutcome::Granted
        | NodeOutcome::Held
        | NodeOutcome::OtherPermits(_)
        | NodeOutcome::Missing
        | NodeOutcome::Quarantined { .. }
        | NodeOutcome::Unreachable(_)
        | NodeOutcome::TimedOut
        | NodeOutcome::Pending => 0,
    }
}

impl Index<NodeId> for Round {
    type Output = Ballot;

    fn index(&self, node: NodeId) -> &Ballot {
        &self.ballots[node.index()]
    }
}

impl IndexMut<NodeId> for Round {
    fn index_mut(&mut self, node: NodeId) -> &mut Ballot {
        &mut self.ballots[node.index()]
    }
}

impl Round {
    // Inlined, because every operation begins with this function.
    #[inline(always)]
    pub(crate) fn new(now: Instant, nodes: usize, mut ballots: Vec<Ballot>) -> Self {
        ballots.resize(nodes, Ballot::OPEN);
        Self {
            key: OperationKey(Key::NONE),
            state: State::Voting,
            tally: Tally::new(nodes),
            ballots,
            before: None,
            uncounted: NodeSet::EMPTY,
            started: now,
            sent: now,
            deadline: None,
            tries: 1,
            ttl: Duration::ZERO,
            timer: None,
            wake: Cause::NodeTimeout,
        }
    }

    /// Begins another attempt at `now`.
    pub(in crate::engine) fn reset(&mut self, now: Instant, parts: &mut Parts) {
        self.stop_resting(parts);
        self.tries = self.tries.saturating_add(1);
        self.state = State::Voting;
        self.tally = Tally::new(self.ballots.len());
        self.keep_reasons();
        self.ballots.fill(Ballot::OPEN);
        self.uncounted = NodeSet::EMPTY;
        self.sent = now;
    }

    /// Keeps the reasons of this attempt for the report of a later attempt.
    fn keep_reasons(&mut self) {
        let is_telling = |ballot: &Ballot| weight(ballot.outcome) != 0;
        if self.before.is_none() && !self.ballots.iter().any(is_telling) {
            return;
        }
        let none = || Box::new([NodeOutcome::Pending; NODES_MAX]);
        let before = self.before.get_or_insert_with(none);
        for (before, ballot) in before.iter_mut().zip(&self.ballots) {
            *before = more_telling(ballot.outcome, *before);
        }
    }

    /// Returns the node's answer in this attempt, and its latency.
    fn said(&self, node: NodeId) -> (NodeOutcome, Option<Duration>) {
        let ballot = &self[node];
        let latency = ballot.answered.saturating_since(self.sent);
        let has_answered = ballot.answered != Instant::MAX;
        (ballot.outcome, has_answered.then_some(latency))
    }

    /// Returns the outcome to report for the node if too few nodes answered. If the node did not answer in this
    /// attempt, returns an earlier reason, without a latency.
    pub(crate) fn cause(&self, node: NodeId) -> (NodeOutcome, Option<Duration>) {
        let outcome = self[node].outcome;
        let before = self.before.as_ref();
        let before = before.map_or(NodeOutcome::Pending, |before| before[node.index()]);
        let silent = matches!(outcome, NodeOutcome::Pending | NodeOutcome::TimedOut);
        match more_telling(before, outcome) {
            cause if silent && cause != outcome => (cause, None),
            _ => self.said(node),
        }
    }

    pub(crate) fn is_voting(&self) -> bool {
        matches!(self.state, State::Voting)
    }

    /// Puts the operation into `state`, in which it waits without asking nodes.
    pub(in crate::engine) fn rest(&mut self, state: State, parts: &mut Parts) {
        self.stop_resting(parts);
        self.state = state;
        parts.resting += 1;
        self.arm(&mut parts.timers);
    }

    /// Stops counting the operation as waiting, because it asks nodes again or ends.
    #[inline]
    pub(in crate::engine) fn stop_resting(&self, parts: &mut Parts) {
        if matches!(self.state, State::Queued { .. } | State::Resting { .. }) {
            parts.resting -= 1;
        }
    }

    pub(crate) fn is_queued(&self) -> bool {
        matches!(self.state, State::Queued { .. })
    }

    /// Returns `true` if an answer of `node` would still count.
    pub(crate) fn awaits(&self, node: NodeId) -> bool {
        self.is_voting() && self.tally.open().contains(node)
    }

    /// Returns `true` if asking `node` is useful, because its answer counts, or because its key blocks other clients.
    pub(crate) fn asks(&self, node: NodeId) -> bool {
        self.awaits(node) || self.is_voting() && self.uncounted.contains(node)
    }

    /// Ends the wait for uncounted nodes that have taken too long at `now`, and returns these nodes.
    pub(crate) fn end_uncounted(&mut self, now: Instant) -> NodeSet {
        let over = |node: NodeId| self[node].deadline <= now;
        let ended = self.uncounted.filter(over);
        self.uncounted = self.uncounted.without(ended);
        ended
    }

    fn set_outcome(&mut self, node: NodeId, outcome: NodeOutcome) {
        self[node].outcome = outcome;
        if matches!(outcome, NodeOutcome::Quarantined { .. }) {
            self.uncounted.insert(node);
        }
    }

    /// Records the vote and the outcome of `node`. Returns `true` if the vote counts.
    #[inline(always)]
    pub(crate) fn record(&mut self, node: NodeId, vote: Vote, outcome: NodeOutcome) -> bool {
        let counts = self.is_voting() && self.tally.record(node, vote);
        if counts {
            self.set_outcome(node, outcome);
        }
        counts
    }

    /// Handles the loss of the connection to `node`. Withdraws the node's yes vote, or stops waiting for its answer.
    /// Returns `true` if the votes have changed.
    pub(crate) fn lose(&mut self, node: NodeId, outcome: NodeOutcome) -> bool {
        let changed = self.is_voting()
            && (guard!(VoteKeptOverReconnect, self.tally.withdraw(node))
                || self.tally.record(node, Vote::Abstain));
        if changed {
            self.set_outcome(node, outcome);
        }
        changed
    }

    /// Marks the outcome as certain, so that the next poll reports it. A round is decided only once per attempt,
    /// because a decided round counts no more votes.
    pub(in crate::engine) fn decide(&mut self, parts: &mut Parts) {
        self.state = State::Decided;
        self.disarm(&mut parts.timers);
        parts.news.push_back(News::Operation(self.key));
    }

    pub(crate) fn disarm(&mut self, timers: &mut Timers) {
        if let Some(timer) = self.timer.take() {
            timers.cancel(timer);
        }
    }

    /// Sets the timer for the next deadline of the round.
    pub(crate) fn arm(&mut self, timers: &mut Timers) {
        self.disarm(timers);
        if let Some((at, wake)) = self.next_wake() {
            self.wake = wake;
            self.timer = Some(timers.insert(at, Alarm::Operation(self.key)));
        }
    }

    /// Records that the timer has fired.
    pub(crate) fn fired(&mut self) {
        self.timer = None;
    }

    /// Makes the question to `node` wait for the handshake. Returns `false` if too many questions wait, so that `node`
    /// is not asked.
    pub(crate) fn wait_for(&mut self, node: NodeId, whose: Whose, nodes: &mut Nodes) -> bool {
        let room = nodes[node].connection.waiting.push(self.key, whose);
        if !room {
            self.record(node, Vote::Abstain, NodeOutcome::TimedOut);
        }
        room
    }

    /// Returns `true` if the question that waited for the handshake of `node` should be sent now.
    ///
    /// If an operation makes several attempts while the question waits, the question is queued once for each attempt. A
    /// node that does not vote is not asked after its handshake, because no operation waits for its answer.
    pub(crate) fn asks_late(&self, now: Instant, node: NodeId) -> bool {
        let ballot = &self[node];
        let in_time = self.awaits(node) || now < ballot.deadline;
        self.asks(node) && in_time && !ballot.asked
    }

    /// Counts the vote and the `outcome` of `node`. Returns `true` if the vote counts.
    pub(crate) fn count(
        &mut self,
        now: Instant,
        node: NodeId,
        vote: Vote,
        outcome: NodeOutcome,
    ) -> bool {
        let counts = self.record(node, vote, outcome);
        if counts && self[node].asked {
            self[node].answered = now;
        }
        counts
    }

    /// Records that `node` has granted the lock, although its vote depends on other nodes' answers and may be decided
    /// much later. The report says that the node granted the lock.
    pub(crate) fn granted(&mut self, now: Instant, node: NodeId) {
        self[node].outcome = NodeOutcome::Granted;
        self[node].answered = now;
        self[node].deadline = Instant::MAX;
    }

    /// Ends the wait for every node whose time to answer has passed at `now`.
    pub(crate) fn time_out(&mut self, now: Instant, nodes: &Nodes) {
        for node in self.tally.open().iter() {
            if self[node].deadline <= now {
                let said = match self[node].asked {
                    true => NodeOutcome::TimedOut,
                    false => nodes[node].handshake.trouble.outcome(),
                };
                self.record(node, Vote::Abstain, said);
            }
        }
    }

    /// Ends the wait for every node, because the caller's time has passed.
    pub(crate) fn close(&mut self) {
        for node in self.tally.open().iter() {
            self.record(node, Vote::Abstain, self[node].outcome);
        }
    }

    /// Returns the next deadline of the round, and its reason.
    pub(crate) fn next_wake(&self) -> Option<(Instant, Cause)> {
        let own = match &self.state {
            State::Voting => self
                .tally
                .open()
                .union(self.uncounted)
                .iter()
                .map(|node| self[node].deadline)
                .min()
                .map(|deadline| (deadline, Cause::NodeTimeout)),
            State::Queued { until } | State::Resting { until } => Some((*until, Cause::Retry)),
            State::Decided => return None,
        };
        let deadline = self.deadline.map(|deadline| (deadline, Cause::Deadline));
        own.into_iter().chain(deadline).min()
    }

    /// Returns the report for an error, with the answer of each node.
    pub(crate) fn report(&self, now: Instant, nodes: &Nodes) -> Report {
        self.report_by(now, nodes, Self::said)
    }

    /// Gives a reason for each node that was not asked because it is reconnecting. The reason is the failure of the
    /// node's last connection, which says more than a missing answer.
    pub(crate) fn explain(&mut self, nodes: &Nodes) {
        for node in nodes.ids() {
            let cause = self.cause(node).0;
            let is_open = cause == NodeOutcome::Pending && !self[node].asked;
            let says_nothing =
                is_open || cause == NodeOutcome::Unreachable(LinkFault::NotYet.into());
            let trouble = nodes[node].handshake.trouble;
            if says_nothing
                && !nodes[node].handshake.is_ready()
                && trouble != Trouble::Link(LinkFault::NotYet)
            {
                self[node].outcome = trouble.outcome();
            }
        }
    }

    /// Returns the report for an error. The function `said` reads the answer of each node from the round.
    pub(crate) fn report_by(
        &self,
        now: Instant,
        nodes: &Nodes,
        said: impl Fn(&Self, NodeId) -> (NodeOutcome, Option<Duration>),
    ) -> Report {
        let nodes: Box<[NodeReport]> = nodes
            .labels()
            .iter()
            .zip(nodes.ids())
            .map(|(label, node)| {
                let (outcome, latency) = said(self, node);
                let node = &nodes[node];
                NodeReport::new(Arc::clone(label), outcome, latency)
                    .in_words(node.words_of(outcome))
                    .met(node.trust.met_young)
            })
            .collect();
        let elapsed = now.saturating_since(self.started);
        Report::new(now, nodes, self.tally.quorum() as u8, self.tries, elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{ServerError, Unusable};
    use NodeOutcome::{Held, Pending, Refused, TimedOut};

    const REPLICA: NodeOutcome = NodeOutcome::Unusable(Unusable::Replica);

    /// If a node is silent in the last attempt, the report contains its most informative earlier reason. If the node
    /// answers, the report contains this answer.
    #[test]
    fn a_silent_node_is_reported_with_its_earlier_reason() {
        let [oom, busy] = [b"OOM", b"BSY"].map(|line| Refused(ServerError::from_line(line)));
        let table: [(&[NodeOutcome], NodeOutcome); 8] = [
            (&[TimedOut], TimedOut),
            (&[Held, TimedOut], TimedOut),
            (&[oom, TimedOut], oom),
            (&[Held, oom, Pending], oom),
            (&[oom, busy, TimedOut], oom),
            (&[oom, REPLICA, busy, TimedOut], REPLICA),
            (&[oom, Held], Held),
            (&[REPLICA, busy], busy),
        ];
        let node = NodeId::first(1).next().expect("there is one");
        for (attempts, expected) in table {
            let (sent, answered) = (Instant::from_nanos(10), Instant::from_nanos(17));
            let mut round = Round::new(sent, 1, Vec::new());
            for outcome in attempts {
                round.keep_reasons();
                round.ballots.fill(Ballot::OPEN);
                round[node].outcome = *outcome;
                round[node].answered = answered;
            }
            let latency = (expected == *attempts.last().expect("there is one"))
                .then_some(Duration::from_nanos(7));
            assert_eq!(round.cause(node), (expected, latency), "{attempts:?}");
        }
    }
}
