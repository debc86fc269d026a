//! Counts the answers of one round, and reports when the outcome of the round is certain.
//!
//! # Guarantees
//!
//! * **One vote for each node.** The first answer of a node counts, unless the node's connection is lost before the
//!   outcome is certain.
//! * The tally returns an outcome as soon as it is certain, and never earlier. From then on, the missing answers cannot
//!   change the outcome.
//! * **Of all configured nodes.** The quorum is `N / 2 + 1` of all configured nodes, however many are connected.

use super::NodeSet;
use crate::keys::NodeId;
use crate::limits::NODES_MAX;

/// Returns the number of nodes in a majority of `nodes` nodes. The result is `nodes / 2 + 1`, which is more than half
/// even if `nodes` is even.
#[must_use]
pub(crate) const fn quorum_of(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// How one node's answer counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(
    clippy::exhaustive_enums,
    reason = "a vote is yes, no, or none; there is no fourth"
)]
pub(crate) enum Vote {
    /// Yes: the node has locked, extended or deleted the key.
    Yes,
    /// No: the key belongs to another client, or does not exist.
    No,
    /// The node abstains, because of an error, a lost connection, or silence.
    Abstain,
}

mod proof {
    use super::NodeSet;

    /// Proof that a majority of the configured nodes said yes.
    ///
    /// Only the tally can create a proof of a majority, and a [`Lock`](crate::Lock) cannot be granted without this
    /// proof.
    #[derive(Debug, Eq, PartialEq)]
    pub(crate) struct Majority {
        nodes: NodeSet,
    }

    impl Majority {
        pub(super) fn counted(nodes: NodeSet, quorum: usize) -> Self {
            assert!(
                quorum <= nodes.len(),
                "a majority has at least a quorum of votes"
            );
            Self { nodes }
        }

        /// Returns the nodes that said yes.
        #[must_use]
        pub(crate) const fn nodes(&self) -> NodeSet {
            self.nodes
        }
    }
}

pub(crate) use proof::Majority;

/// The certain outcome of an attempt to take a lock.
#[derive(Debug, Eq, PartialEq)]
#[allow(
    clippy::exhaustive_enums,
    reason = "every caller has to meet each outcome"
)]
pub(crate) enum Acquisition {
    /// A majority has granted the lock.
    Granted(Majority),
    /// A majority is no longer possible, because another client holds the lock on some nodes.
    Held,
    /// A majority is no longer possible, because too few nodes can vote.
    NoQuorum,
}

/// The certain outcome of an extension.
#[derive(Debug, Eq, PartialEq)]
#[allow(
    clippy::exhaustive_enums,
    reason = "every caller has to meet each outcome"
)]
pub(crate) enum Extending {
    /// A majority has extended the lock.
    Extended(Majority),
    /// A majority reports that the key is missing or belongs to another client.
    Lost,
    /// No majority has extended or lost the lock, because too few nodes have answered.
    Unconfirmed,
}

/// The certain outcome of a release.
#[derive(Debug, Eq, PartialEq)]
#[allow(
    clippy::exhaustive_enums,
    reason = "every caller has to meet each outcome"
)]
pub(crate) enum Releasing {
    /// The lock was held until now, and is released.
    Released,
    /// According to a majority, the lock was no longer held.
    NotHeld,
    /// Too few nodes have answered.
    Unconfirmed,
}

/// The counts of the answers in one round.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Tally {
    nodes: u8,
    yes: NodeSet,
    no: NodeSet,
    abstained: NodeSet,
}

impl Tally {
    /// Creates a count for `nodes` configured nodes (1 to [`NODES_MAX`]), without any answer.
    ///
    /// # Panics
    ///
    /// Panics if `nodes` is out of this range. Every `Config` has a number of nodes in this range.
    #[must_use]
    pub(crate) fn new(nodes: usize) -> Self {
        assert!(
            (1..=NODES_MAX).contains(&nodes),
            "a quorum has 1 to {NODES_MAX} nodes"
        );
        Self {
            nodes: nodes as u8,
            yes: NodeSet::EMPTY,
            no: NodeSet::EMPTY,
            abstained: NodeSet::EMPTY,
        }
    }

    /// Records the answer of a node, unless the node has answered before. Returns `true` if this was the node's first
    /// answer.
    pub(crate) fn record(&mut self, node: NodeId, vote: Vote) -> bool {
        assert!(
            node.index() < usize::from(self.nodes),
            "{node:?} is not of this quorum"
        );
        if !self.open().contains(node) {
            return false;
        }
        match vote {
            Vote::Yes => self.yes.insert(node),
            Vote::No => self.no.insert(node),
            Vote::Abstain => self.abstained.insert(node),
        }
    }

    /// Withdraws the yes vote of a node whose connection was lost before the outcome was certain.
    pub(crate) fn withdraw(&mut self, node: NodeId) -> bool {
        self.yes.remove(node) && self.abstained.insert(node)
    }

    /// Returns the nodes that have not answered.
    #[must_use]
    pub(crate) fn open(&self) -> NodeSet {
        let answered = self.yes.union(self.no).union(self.abstained);
        NodeSet::first(usize::from(self.nodes)).without(answered)
    }

    /// Returns the nodes that said yes.
    #[must_use]
    pub(crate) fn yes(&self) -> NodeSet {
        self.yes
    }

    /// Returns the number of votes in a majority.
    #[must_use]
    pub(crate) fn quorum(&self) -> usize {
        quorum_of(usize::from(self.nodes))
    }

    /// Returns the outcome of an attempt to take the lock, as soon as it is certain.
    ///
    /// If the abstaining nodes alone prevent a majority, returns [`Acquisition::NoQuorum`]. If a majority is impossible
    /// for another reason, returns [`Acquisition::Held`].
    #[must_use]
    pub(crate) fn acquisition(&self) -> Option<Acquisition> {
        let quorum = self.quorum();
        if quorum <= self.yes.len() {
            Some(Acquisition::Granted(Majority::counted(self.yes, quorum)))
        } else if self.is_unanimous() || quorum <= self.reachable(self.yes) {
            None
        } else if guard!(NoQuorumReportedHeld, self.can_vote() < quorum) {
            Some(Acquisition::NoQuorum)
        } else {
            Some(Acquisition::Held)
        }
    }

    /// Returns the outcome of an extension, as soon as it is certain.
    #[must_use]
    pub(crate) fn extension(&self) -> Option<Extending> {
        let quorum = self.quorum();
        if quorum <= self.yes.len() {
            Some(Extending::Extended(Majority::counted(self.yes, quorum)))
        } else if quorum <= self.no.len() {
            Some(Extending::Lost)
        } else if self.reachable(self.yes).max(self.reachable(self.no)) < quorum {
            Some(Extending::Unconfirmed)
        } else {
            None
        }
    }

    /// Returns the outcome of a release, as soon as it is certain. `valid` says whether the lock was valid when its
    /// release was requested.
    ///
    /// A majority of yes votes, or a majority of no votes, decides the outcome. If no such majority exists, but a
    /// majority of the nodes has answered, the clock decides. A lock that was still valid counts as held until now, and
    /// an expired lock counts as not held.
    #[must_use]
    pub(crate) fn release(&self, valid: bool) -> Option<Releasing> {
        let quorum = self.quorum();
        let answered = || self.yes.len() + self.no.len();
        if quorum <= self.yes.len() {
            Some(Releasing::Released)
        } else if self.is_unanimous() {
            None
        } else if quorum <= self.no.len() {
            Some(Releasing::NotHeld)
        } else if self.can_vote() < quorum {
            Some(Releasing::Unconfirmed)
        } else if answered() < quorum {
            None
        } else if valid {
            (self.reachable(self.no) < quorum).then_some(Releasing::Released)
        } else {
            (self.reachable(self.yes) < quorum).then_some(Releasing::NotHeld)
        }
    }

    /// Returns `true` if every answer so far is a yes.
    fn is_unanimous(&self) -> bool {
        self.no.union(self.abstained).is_empty()
    }

    /// Returns the largest number of votes that `side` can still reach.
    fn reachable(&self, side: NodeSet) -> usize {
        side.len() + self.open().len()
    }

    /// Returns the number of nodes that have voted or may still vote.
    #[must_use]
    pub(crate) fn can_vote(&self) -> usize {
        usize::from(self.nodes) - self.abstained.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;
    use core::iter::repeat_n;

    /// Returns a tally with this number of votes of each kind, in this order. The remaining nodes have not answered.
    fn counted(nodes: usize, yes: usize, no: usize, abstain: usize) -> Tally {
        let mut tally = Tally::new(nodes);
        let votes = [(yes, Vote::Yes), (no, Vote::No), (abstain, Vote::Abstain)];
        let votes = votes
            .into_iter()
            .flat_map(|(count, vote)| repeat_n(vote, count));
        for (node, vote) in votes.enumerate() {
            assert!(tally.record(NodeId::new(node), vote));
        }
        tally
    }

    fn name<T: core::fmt::Debug>(verdict: Option<T>) -> alloc::string::String {
        let text = verdict.map_or_else(|| "open".into(), |verdict| alloc::format!("{verdict:?}"));
        text.split('(').next().unwrap_or_default().into()
    }

    #[test]
    fn the_first_answer_stands_and_a_lost_grant_is_withdrawn() {
        let mut tally = counted(3, 1, 0, 0);
        let [first, second, third] = [0, 1, 2].map(NodeId::new);
        assert!(!tally.record(first, Vote::No));
        assert_eq!(tally.yes().len(), 1);
        assert!(tally.withdraw(first) && !tally.withdraw(first) && !tally.record(first, Vote::Yes));
        assert!(tally.record(second, Vote::Yes) && tally.record(third, Vote::Yes));
        assert!(matches!(tally.acquisition(), Some(Acquisition::Granted(_))));
    }

    /// Returns the expected outcomes for these final counts, directly from the definition.
    fn definition(yes: usize, no: usize, abstain: usize) -> [&'static str; 4] {
        let quorum = quorum_of(yes + no + abstain);
        let answered = yes + no;
        let pick = |yes_name, no_name, between| match (yes >= quorum, no >= quorum) {
            (true, _) => yes_name,
            (_, true) => no_name,
            _ => between,
        };
        let unknown = answered < quorum;
        let held = if unknown { "NoQuorum" } else { "Held" };
        let or_else = |known| if unknown { "Unconfirmed" } else { known };
        [
            if yes >= quorum { "Granted" } else { held },
            pick("Extended", "Lost", "Unconfirmed"),
            pick("Released", "NotHeld", or_else("Released")),
            pick("Released", "NotHeld", or_else("NotHeld")),
        ]
    }

    /// Tests 1 to 7 nodes. An outcome depends only on the number of answers of each kind, so the test tries all
    /// combinations of these numbers, but only one order. An outcome must be correct for all possible further answers,
    /// and must come as soon as it is certain.
    #[test]
    fn every_pattern_of_up_to_seven_nodes() {
        for nodes in 1..=7_usize {
            for (yes, no, abstain) in counts(nodes) {
                let tally = counted(nodes, yes, no, abstain);
                let open = nodes - yes - no - abstain;
                let finals: Vec<_> = counts(open)
                    .filter(|(y, n, m)| y + n + m == open)
                    .map(|(y, n, m)| definition(yes + y, no + n, abstain + m))
                    .collect();
                let verdicts = [
                    name(tally.acquisition()),
                    name(tally.extension()),
                    name(tally.release(true)),
                    name(tally.release(false)),
                ];
                for (which, verdict) in verdicts.iter().enumerate() {
                    let ends: BTreeSet<_> = finals.iter().map(|names| names[which]).collect();
                    let refusal = if nodes - abstain < quorum_of(nodes) {
                        "NoQuorum"
                    } else {
                        "Held"
                    };
                    let certain = match ends.first() {
                        Some(only) if ends.len() == 1 && which != 0 => only,
                        Some(&"Granted") if ends.len() == 1 => "Granted",
                        // An acquisition is refused as soon as it cannot be granted, even if later answers could still
                        // change the kind of refusal.
                        _ if which == 0 && !ends.contains("Granted") => refusal,
                        _ => "open",
                    };
                    assert_eq!(
                        verdict, certain,
                        "{nodes}: {yes} yes, {no} no, {abstain} abstain"
                    );
                }
            }
        }
    }

    fn counts(nodes: usize) -> impl Iterator<Item = (usize, usize, usize)> {
        (0..=nodes).flat_map(move |yes| {
            (0..=nodes - yes)
                .flat_map(move |no| (0..=nodes - yes - no).map(move |abstain| (yes, no, abstain)))
        })
    }
}
