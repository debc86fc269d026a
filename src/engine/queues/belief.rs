//! What a contender that was refused believes: from when on its resource is free again on each node.
//!
//! It rests on three things: what a node says is left of the key (`PTTL`), what it says unasked when the
//! key changes (a push), and time. Pure: what is asked of nodes, and when, is elsewhere.
//!
//! # Guarantees
//!
//! * A node of which nothing is known is not believed free.
//! * A resource is believed free when a majority of the configured nodes is, counting only nodes from
//!   the time on at which their votes count.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use crate::keys::NodeId;
use crate::node::Remaining;
use crate::quorum::quorum_of;
use crate::time::Instant;

/// How long after the end that a node has named its key is believed gone: a millisecond is what the
/// answer was rounded down by.
const ROUNDED: Duration = Duration::from_millis(1);

/// Whether the next change of the key is pushed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Registration {
    /// The node was asked, and has not answered.
    Asked,
    /// The same, and a write of our own went behind: its answer registers nothing.
    Erased,
    /// Yes.
    Pushed,
    /// No: it was asked, and does not do so.
    Untold,
    /// No: it was not asked since its last push.
    None,
}

/// What is believed of one node.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// From when on the resource is free there; [`Instant::MAX`] if that is not known.
    free: Instant,
    /// It is not free by itself: the key has no end.
    permanent: bool,
    registration: Registration,
}

const UNKNOWN: Seen = Seen {
    free: Instant::MAX,
    permanent: false,
    registration: Registration::None,
};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Belief {
    nodes: Vec<Seen>,
}

impl Seen {
    /// Returns `true` if the node tells of the next change, or is about to say whether it does.
    const fn is_told(&self) -> bool {
        matches!(
            self.registration,
            Registration::Asked | Registration::Pushed
        )
    }
}

impl Belief {
    /// Nothing is known of so many nodes.
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            nodes: vec![UNKNOWN; nodes],
        }
    }

    /// Nothing that was known holds any more, and no node pushes.
    pub(crate) fn forget(&mut self) {
        self.nodes.fill(UNKNOWN);
    }

    /// All nodes that have answered are to be asked again. What is known of them stands.
    pub(crate) fn ask_again(&mut self) {
        for seen in &mut self.nodes {
            if !matches!(
                seen.registration,
                Registration::Asked | Registration::Erased
            ) {
                seen.registration = Registration::None;
            }
        }
    }

    /// Where nothing is known, the resource is free from `at` on.
    pub(crate) fn suppose(&mut self, at: Instant) {
        for seen in &mut self.nodes {
            seen.free = seen.free.min(at);
        }
    }

    /// The resource is not free on `node` before `at`.
    pub(crate) fn not_before(&mut self, at: Instant, node: NodeId) {
        let seen = &mut self.nodes[node.index()];
        seen.free = seen.free.max(at);
    }

    /// `node` was asked what is left of the key, and to push its next change. What is known of it
    /// stands until it answers, but that it was free at once: that may be over.
    pub(crate) fn asked(&mut self, node: NodeId) {
        self.nodes[node.index()].registration = Registration::Asked;
    }

    /// `node` has answered. `pushes`: it pushes the next change.
    pub(crate) fn looked(&mut self, now: Instant, node: NodeId, left: Remaining, pushes: bool) {
        let registration = match (self.nodes[node.index()].registration, pushes) {
            (Registration::Erased, _) => Registration::None,
            (_, true) => Registration::Pushed,
            (_, false) => Registration::Untold,
        };
        let free = match left {
            Remaining::Missing => now.min(self.nodes[node.index()].free),
            Remaining::For(left) => now.saturating_add(left).saturating_add(ROUNDED),
            Remaining::Permanent => Instant::MAX,
        };
        // A push that came before the answer was about an earlier registration.
        self.nodes[node.index()] = Seen {
            free,
            permanent: left == Remaining::Permanent,
            registration,
        };
    }

    /// `node` says that the key has changed. Nodes that push nothing may have changed too: they are
    /// believed free `soon`.
    pub(crate) fn changed(&mut self, now: Instant, node: NodeId, soon: Duration) {
        for (other, seen) in NodeId::first(self.nodes.len()).zip(&mut self.nodes) {
            if other == node {
                seen.free = now;
                seen.permanent = false;
                seen.registration = Registration::None;
            } else if !seen.is_told() {
                seen.free = seen.free.min(now.saturating_add(soon));
                seen.permanent = false;
            }
        }
    }

    /// This engine has written to the key on `node`, which ends the registration there.
    pub(crate) fn wrote(&mut self, node: NodeId) {
        let seen = &mut self.nodes[node.index()];
        seen.registration = match seen.registration {
            Registration::Asked | Registration::Erased => Registration::Erased,
            Registration::Pushed | Registration::Untold | Registration::None => Registration::None,
        };
    }

    /// What was asked of `node` is lost, with its registrations.
    pub(crate) fn lost(&mut self, node: NodeId) {
        self.nodes[node.index()].registration = Registration::None;
    }

    /// Returns `true` if `node` is to be asked: it was not since it last told anything.
    pub(crate) fn is_to_be_asked(&self, node: NodeId) -> bool {
        matches!(
            self.nodes[node.index()].registration,
            Registration::None | Registration::Erased
        )
    }

    /// Returns `true` if a majority pushes changes, or has been asked to.
    pub(crate) fn is_told(&self) -> bool {
        let told = self.nodes.iter().filter(|seen| seen.is_told()).count();
        quorum_of(self.nodes.len()) <= told
    }

    /// Returns of how many nodes it is about.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Returns `true` if so many nodes keep the key without an end that no majority is ever free by
    /// itself. Nodes whose answers do not `count` are not among them.
    pub(crate) fn is_permanent(&self, counts: impl Fn(NodeId) -> bool) -> bool {
        let nodes = NodeId::first(self.nodes.len()).zip(&self.nodes);
        let permanent = nodes.filter(|(node, seen)| seen.permanent && counts(*node));
        self.nodes.len() - permanent.count() < quorum_of(self.nodes.len())
    }

    /// Returns from when on a majority is believed free, where the votes of each node count `from` a
    /// time on.
    pub(crate) fn free_at(&self, from: impl Fn(NodeId) -> Instant) -> Instant {
        let nodes = NodeId::first(self.nodes.len()).zip(&self.nodes);
        let mut times: Vec<_> = nodes
            .map(|(node, seen)| seen.free.max(from(node)))
            .collect();
        times.sort_unstable();
        times[quorum_of(times.len()) - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_millis(1_000);
    const SOON: Duration = Duration::from_micros(50);

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn node(index: usize) -> NodeId {
        NodeId::new(index)
    }

    fn left(millis: u64) -> Remaining {
        Remaining::For(Duration::from_millis(millis))
    }

    /// Three nodes that were asked and have given these answers.
    fn looked(answers: [Remaining; 3]) -> Belief {
        let mut belief = Belief::new(3);
        for (node, answer) in NodeId::first(3).zip(answers) {
            belief.asked(node);
            belief.looked(NOW, node, answer, true);
        }
        belief
    }

    fn always(_: NodeId) -> Instant {
        Instant::ZERO
    }

    #[test]
    fn what_is_not_known_is_not_free() {
        let mut belief = Belief::new(3);
        assert_eq!(belief.free_at(always), Instant::MAX);
        belief.looked(NOW, node(0), Remaining::Missing, true);
        belief.asked(node(1));
        assert_eq!(belief.free_at(always), Instant::MAX);
        belief.looked(NOW, node(1), Remaining::Missing, true);
        assert_eq!(belief.free_at(always), NOW);
    }

    #[test]
    fn a_majority_is_free_when_the_keys_of_a_majority_have_ended() {
        for (answers, free) in [
            ([left(10), left(30), left(20)], at(1_021)),
            ([left(10), Remaining::Permanent, left(20)], at(1_021)),
            (
                [Remaining::Missing, Remaining::Permanent, left(20)],
                at(1_021),
            ),
            (
                [Remaining::Missing, Remaining::Permanent, Remaining::Missing],
                NOW,
            ),
            (
                [Remaining::Permanent, Remaining::Permanent, left(20)],
                Instant::MAX,
            ),
        ] {
            assert_eq!(looked(answers).free_at(always), free, "{answers:?}");
        }
    }

    #[test]
    fn a_node_whose_votes_do_not_count_is_not_free_before_they_do() {
        let belief = looked([Remaining::Missing; 3]);
        let from = |node: NodeId| at([0, 5_000, 9_000][node.index()]);
        assert_eq!(belief.free_at(from), at(5_000));
        let never = |node: NodeId| [Instant::ZERO, Instant::MAX, Instant::MAX][node.index()];
        assert_eq!(belief.free_at(never), Instant::MAX);
    }

    #[test]
    fn a_change_on_a_majority_frees_it_and_one_on_a_minority_does_not() {
        let mut belief = looked([left(10_000); 3]);
        belief.changed(NOW, node(2), SOON);
        assert_eq!(belief.free_at(always), at(11_001));
        belief.changed(at(1_001), node(0), SOON);
        assert_eq!(belief.free_at(always), at(1_001));
    }

    #[test]
    fn nodes_that_push_nothing_are_believed_to_have_changed_soon_after_one_that_does() {
        let mut belief = looked([left(10_000); 3]);
        belief.looked(NOW, node(1), left(10_000), false);
        belief.changed(NOW, node(2), SOON);
        assert_eq!(belief.free_at(always), NOW.saturating_add(SOON));
        let mut belief = looked([left(10_000); 3]);
        belief.asked(node(1));
        belief.changed(NOW, node(2), SOON);
        assert_eq!(belief.free_at(always), at(11_001), "its answer will say");
    }

    #[test]
    fn a_registration_lasts_for_one_push_and_one_connection() {
        let mut belief = looked([left(10_000); 3]);
        let asked = |belief: &Belief| [0, 1, 2].map(|at| belief.is_to_be_asked(node(at)));
        assert_eq!(asked(&belief), [false; 3]);
        belief.changed(NOW, node(0), SOON);
        assert_eq!(asked(&belief), [true, false, false]);
        assert!(belief.is_told());
        belief.lost(node(1));
        assert_eq!(asked(&belief), [true, true, false]);
        assert!(!belief.is_told());
        belief.asked(node(1));
        assert!(belief.is_told());
    }
}
