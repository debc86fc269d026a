//! A round: an operation that a caller waits for.
//!
//! One round is one call of `acquire`, `extend` or `release`, with all its attempts. It counts
//! votes until its outcome is certain, and then waits to be told. It owns no key: what its
//! attempts leave on the nodes is a [claim](super::claim).

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::entry::Entry;
use crate::error::{NodeOutcome, NodeReport, Report};
use crate::node::Errand;
use crate::quorum::{Majority, NodeSet, Tally, Vote};
use crate::slab::Key;
use crate::time::Instant;
use crate::timer::TimerKey;

use crate::quorum::LockId;

use super::contract::Wake;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) kind: Kind,
    pub(crate) state: State,
    pub(crate) tally: Tally,
    pub(crate) ballots: Vec<Ballot>,
    /// The nodes that are asked though their answers do not count, while their time is not up.
    left_out: NodeSet,
    /// When the call was made.
    pub(crate) started: Instant,
    /// When the present attempt began, before its first byte: the t1 of the paper.
    pub(crate) sent: Instant,
    /// When the caller wants an answer, whatever it is.
    pub(crate) deadline: Option<Instant>,
    /// Attempts made, the present one included.
    pub(crate) tries: u32,
    pub(crate) ttl: Duration,
    pub(crate) timer: Option<TimerKey>,
    /// Why the timer is armed.
    pub(crate) wake: Wake,
}

/// What is wanted.
#[derive(Debug)]
pub(crate) enum Kind {
    Acquire {
        /// The claim of the present attempt.
        claim: Option<Key>,
        /// What each attempt is for, in a buffer of the pool.
        resource: Vec<u8>,
        /// `None`: as many as there is time for.
        tries_allowed: Option<u32>,
        extensions: u32,
    },
    Extend {
        lock: LockId,
        claim: Option<Key>,
        entry: Entry,
        question: Question,
        /// The validity that the answers must come within.
        valid_until: Instant,
        /// The nodes whose yes counts.
        voters: NodeSet,
        /// The nodes that were known to lack the key before anybody was asked.
        lacking: NodeSet,
    },
    Release {
        /// Whether the lock was valid when its release was called.
        valid: bool,
    },
    /// Every node is to be one of this cluster.
    Reinit,
}

/// What the nodes are asked about a lock that is held.
#[derive(Debug)]
pub(crate) enum Question {
    /// To keep it for the ttl of the round at least.
    AtLeast,
    /// For how long they keep it, and what each has said.
    HowLong(Box<[Duration]>),
}

impl Question {
    /// What a command is for that asks this question.
    pub(crate) const fn errand(&self, round: Key, claim: Option<Key>) -> Errand {
        match self {
            Self::AtLeast => Errand::Extend { round, claim },
            Self::HowLong(_) => Errand::Confirm { round, claim },
        }
    }
}

/// How far a round is.
#[derive(Debug)]
pub(crate) enum State {
    /// Votes are counted.
    Voting,
    /// The random delay before the next attempt.
    Resting { until: Instant, after: Refusal },
    /// The outcome is certain, and is told at the next poll.
    Decided(Decision),
    /// The outcome was told; the round is about to end.
    Told,
}

/// Why an attempt to take a lock came to nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Refusal {
    Held,
    NoQuorum,
    TooSlow,
    Saturated,
    OtherCluster,
}

/// A certain outcome.
#[derive(Debug)]
pub(crate) enum Decision {
    Granted(Majority, Instant),
    Refused(Refusal),
    Extended(Majority, Instant),
    ExtensionLost,
    ExtensionUnconfirmed,
    ExtensionClosed,
    Released,
    NotHeld,
    ReleaseUnconfirmed,
    Reinitialised,
    ReinitIncomplete,
}

/// What is known of one node in the present attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ballot {
    pub(crate) outcome: NodeOutcome,
    pub(crate) latency: Option<Duration>,
    /// Until when its answer is waited for.
    pub(crate) deadline: Instant,
    /// The question was put to it; otherwise it waits for the greeting.
    pub(crate) asked: bool,
    /// The most telling cause that it gave in earlier attempts.
    before: NodeOutcome,
}

impl Ballot {
    pub(crate) const OPEN: Self = Self {
        outcome: NodeOutcome::Pending,
        latency: None,
        deadline: Instant::MAX,
        asked: false,
        before: NodeOutcome::Pending,
    };

    /// What is said of the node where too few nodes answered: an earlier cause is not hidden by an
    /// attempt in which it did not answer.
    fn cause(&self) -> NodeOutcome {
        let silent = matches!(self.outcome, NodeOutcome::Pending | NodeOutcome::TimedOut);
        match silent {
            true => more_telling(self.before, self.outcome),
            false => self.outcome,
        }
    }

    /// The same node in the next attempt.
    fn next(&self) -> Self {
        Self {
            before: more_telling(self.outcome, self.before),
            ..Self::OPEN
        }
    }
}

/// The one of the two that says more of why a node did not vote; `other` if they say as much.
fn more_telling(one: NodeOutcome, other: NodeOutcome) -> NodeOutcome {
    let weight = |outcome| match outcome {
        NodeOutcome::Unusable(_) => 2,
        NodeOutcome::Refused(_) => 1,
        // A vote is one of its attempt alone.
        NodeOutcome::Granted
        | NodeOutcome::Held
        | NodeOutcome::Missing
        | NodeOutcome::Quarantined { .. }
        | NodeOutcome::Unreachable(_)
        | NodeOutcome::TimedOut
        | NodeOutcome::Pending => 0,
    };
    match weight(one) <= weight(other) {
        true => other,
        false => one,
    }
}

impl Round {
    pub(crate) fn new(kind: Kind, nodes: usize, mut ballots: Vec<Ballot>, now: Instant) -> Self {
        ballots.clear();
        ballots.resize(nodes, Ballot::OPEN);
        Self {
            kind,
            state: State::Voting,
            tally: Tally::new(nodes),
            ballots,
            left_out: NodeSet::EMPTY,
            started: now,
            sent: now,
            deadline: None,
            tries: 1,
            ttl: Duration::ZERO,
            timer: None,
            wake: Wake::NodeTimeout,
        }
    }

    /// Begins the count anew, at `now`.
    pub(crate) fn reset(&mut self, now: Instant) {
        self.state = State::Voting;
        self.tally = Tally::new(self.ballots.len());
        for ballot in &mut self.ballots {
            *ballot = ballot.next();
        }
        self.left_out = NodeSet::EMPTY;
        mutant!(ValidityFromFirstAttempt => return);
        self.sent = now;
    }

    pub(crate) fn is_voting(&self) -> bool {
        matches!(self.state, State::Voting)
    }

    /// Whether an answer of `node` would still count.
    pub(crate) fn awaits(&self, node: usize) -> bool {
        self.is_voting() && self.tally.open().contains(node)
    }

    /// Whether `node` is to be asked: its answer would count, or its key keeps others out at least.
    pub(crate) fn asks(&self, node: usize) -> bool {
        self.awaits(node) || self.is_voting() && self.left_out.contains(node)
    }

    /// Ends the time of nodes whose answers do not count, and returns those whose time is up at `now`.
    pub(crate) fn end_left_out(&mut self, now: Instant) -> NodeSet {
        let mut ended = NodeSet::EMPTY;
        for node in self.left_out.iter() {
            if self.ballots[node].deadline <= now {
                ended.insert(node);
            }
        }
        self.left_out = self.left_out.without(ended);
        ended
    }

    fn set_outcome(&mut self, node: usize, outcome: NodeOutcome) {
        self.ballots[node].outcome = outcome;
        if matches!(outcome, NodeOutcome::Quarantined { .. }) {
            self.left_out.insert(node);
        }
    }

    /// Records what became of the question at `node`; whether it counts.
    pub(crate) fn record(&mut self, node: usize, vote: Vote, outcome: NodeOutcome) -> bool {
        let counts = self.is_voting() && self.tally.record(node, vote);
        if counts {
            self.set_outcome(node, outcome);
        }
        counts
    }

    /// The connection to `node` is lost: a yes of it is taken back, or its answer is not awaited
    /// any more. Whether that changed anything.
    pub(crate) fn lose(&mut self, node: usize, outcome: NodeOutcome) -> bool {
        mutant!(VoteKeptOverReconnect => return self.record(node, Vote::Mute, outcome));
        let changed =
            self.is_voting() && (self.tally.withdraw(node) || self.tally.record(node, Vote::Mute));
        if changed {
            self.set_outcome(node, outcome);
        }
        changed
    }

    /// The outcome, once it is certain, to be told once.
    pub(crate) fn take_decision(&mut self) -> Option<Decision> {
        if !matches!(self.state, State::Decided(_)) {
            return None;
        }
        match core::mem::replace(&mut self.state, State::Told) {
            State::Decided(decision) => Some(decision),
            State::Voting | State::Resting { .. } | State::Told => None,
        }
    }

    /// Ends the wait for every node whose time is up at `now`.
    pub(crate) fn time_out(&mut self, now: Instant, mut outcome: impl FnMut(usize) -> NodeOutcome) {
        for node in self.tally.open().iter() {
            if self.ballots[node].deadline <= now {
                let said = if self.ballots[node].asked {
                    NodeOutcome::TimedOut
                } else {
                    outcome(node)
                };
                self.record(node, Vote::Mute, said);
            }
        }
    }

    /// Ends the wait for every node: the caller's time is up.
    pub(crate) fn close(&mut self) {
        for node in self.tally.open().iter() {
            self.record(node, Vote::Mute, NodeOutcome::Pending);
        }
    }

    /// When the round has to be looked at next, and why.
    pub(crate) fn next_wake(&self) -> Option<(Instant, Wake)> {
        let own = match &self.state {
            State::Voting => self
                .tally
                .open()
                .union(mutant!(LeftOutNotWatched => NodeSet::EMPTY, else self.left_out))
                .iter()
                .map(|node| (self.ballots[node].deadline, Wake::NodeTimeout))
                .min(),
            State::Resting { until, .. } => Some((*until, Wake::Retry)),
            State::Decided(_) | State::Told => return None,
        };
        let deadline = self.deadline.map(|deadline| (deadline, Wake::Deadline));
        own.into_iter().chain(deadline).min()
    }

    /// What each node said, for an error.
    pub(crate) fn report(&self, now: Instant, labels: &[Arc<str>]) -> Report {
        self.report_by(now, labels, |ballot| ballot.outcome)
    }

    /// The same where too few nodes answered: with what they said in earlier attempts, if it tells
    /// more.
    pub(crate) fn report_causes(&self, now: Instant, labels: &[Arc<str>]) -> Report {
        self.report_by(now, labels, Ballot::cause)
    }

    fn report_by(
        &self,
        now: Instant,
        labels: &[Arc<str>],
        said: impl Fn(&Ballot) -> NodeOutcome,
    ) -> Report {
        let nodes: Box<[NodeReport]> = labels
            .iter()
            .zip(&self.ballots)
            .map(|(label, ballot)| NodeReport::new(Arc::clone(label), said(ballot), ballot.latency))
            .collect();
        let since = mutant!(ElapsedSinceAttempt => self.sent, else self.started);
        let elapsed = now.saturating_since(since);
        Report::new(now, nodes, self.tally.quorum() as u8, self.tries, elapsed)
    }
}
