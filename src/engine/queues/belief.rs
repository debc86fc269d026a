//! What a contender that was refused believes: from when on its resource is free again on each node, and who holds
//! it there.
//!
//! It rests on three things: what a node says is left of the key (`PTTL`) and is in it, what it says unasked when the
//! key changes (a push), and time. Pure: what is asked of nodes, and when, is elsewhere.
//!
//! # Guarantees
//!
//! * A node of which nothing is known is not believed free.
//! * A resource is believed free when a majority of the configured nodes is, counting only nodes from
//!   the time on at which their votes count.
//! * Only the label of a token leaves this file. What is random in it is never shown.

use alloc::vec::Vec;
use core::time::Duration;

use crate::keys::NodeId;
use crate::node::Remaining;
use crate::quorum::quorum_of;
use crate::resource::{OwnedToken, Token};
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
#[derive(Debug)]
struct Seen {
    /// From when on the resource is free there; [`Instant::MAX`] if that is not known.
    free: Instant,
    /// It is not believed free before this time, whatever the node says.
    not_before: Instant,
    /// It is not free by itself: the key has no end.
    permanent: bool,
    registration: Registration,
    /// What is in the key, if the node has said that.
    token: Option<OwnedToken>,
}

const UNKNOWN: Seen = Seen {
    free: Instant::MAX,
    not_before: Instant::ZERO,
    permanent: false,
    registration: Registration::None,
    token: None,
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
        let nodes = (0..nodes).map(|_| UNKNOWN);
        Self {
            nodes: nodes.collect(),
        }
    }

    /// Nothing that was known holds any more, and no node pushes. None is believed free before the time that
    /// `not_before` gives for it.
    pub(crate) fn forget(&mut self, not_before: impl Fn(NodeId) -> Instant) {
        for (node, seen) in NodeId::first(self.nodes.len()).zip(&mut self.nodes) {
            *seen = Seen {
                not_before: not_before(node),
                ..UNKNOWN
            };
        }
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

    /// `node` was asked what is left of the key, and to push its next change. What is known of it
    /// stands until it answers, but that it was free at once: that may be over.
    pub(crate) fn asked(&mut self, node: NodeId) {
        self.nodes[node.index()].registration = Registration::Asked;
    }

    /// `node` has answered. `pushes`: it pushes the next change.
    pub(crate) fn looked(&mut self, now: Instant, node: NodeId, left: Remaining, pushes: bool) {
        let seen = &mut self.nodes[node.index()];
        // A push that came before the answer was about an earlier registration.
        seen.registration = match (seen.registration, pushes) {
            (Registration::Erased, _) => Registration::None,
            (_, true) => Registration::Pushed,
            (_, false) => Registration::Untold,
        };
        seen.permanent = left == Remaining::Permanent;
        seen.free = match left {
            Remaining::Missing => now.min(seen.free),
            Remaining::For(left) => now.saturating_add(left).saturating_add(ROUNDED),
            Remaining::Permanent => Instant::MAX,
        };
    }

    /// `node` says which token is in the key, if any.
    pub(crate) fn named(&mut self, node: NodeId, token: Option<OwnedToken>) {
        self.nodes[node.index()].token = token;
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

    /// Returns the label of the holder, empty if it has none. `None` if no token is on a majority of the
    /// nodes whose answers `count`.
    pub(crate) fn holder(&self, counts: impl Fn(NodeId) -> bool) -> Option<&[u8]> {
        let nodes = NodeId::first(self.nodes.len()).zip(&self.nodes);
        let counted = nodes.filter(|(node, _)| counts(*node));
        let tokens = counted.filter_map(|(_, seen)| seen.token.as_ref());
        let tokens: Vec<Token<'_>> = tokens.map(OwnedToken::get).collect();
        let has_majority = |token: &&Token<'_>| {
            let same = tokens.iter().filter(|other| other == token);
            quorum_of(self.nodes.len()) <= same.count()
        };
        tokens.iter().find(has_majority).map(|token| token.label())
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
            .map(|(node, seen)| seen.free.max(seen.not_before).max(from(node)))
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
    fn keys_without_an_end_may_have_changed_where_nothing_is_told() {
        let mut belief = looked([Remaining::Permanent; 3]);
        (0..2).for_each(|at| belief.looked(NOW, node(at), Remaining::Permanent, false));
        assert!(belief.is_permanent(|_| true));
        belief.changed(NOW, node(2), SOON);
        assert!(!belief.is_permanent(|_| true));
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

    const ONE: &[u8] = b"\x01123456789abcdefghijone";
    const OTHER: &[u8] = b"\x02123456789abcdefghijother";
    const UNNAMED: &[u8] = b"\x03123456789abcdefghij";

    fn said(tokens: [Option<&[u8]>; 3]) -> Belief {
        let mut said = Belief::new(3);
        for (node, token) in NodeId::first(3).zip(tokens) {
            said.named(node, token.map(OwnedToken::new));
        }
        said
    }

    #[test]
    fn the_holder_has_a_majority_of_the_nodes_that_count() {
        for (tokens, label) in [
            ([Some(ONE), None, Some(ONE)], Some(&b"one"[..])),
            ([Some(ONE), Some(OTHER), Some(OTHER)], Some(b"other")),
            ([Some(UNNAMED), Some(UNNAMED), None], Some(b"")),
            ([Some(ONE), Some(OTHER), None], None),
            ([Some(ONE), Some(OTHER), Some(UNNAMED)], None),
            ([None; 3], None),
        ] {
            assert_eq!(said(tokens).holder(|_| true), label, "{tokens:?}");
        }
        let all = said([Some(ONE); 3]);
        assert_eq!(all.holder(|node| node.index() != 2), Some(&b"one"[..]));
        assert_eq!(all.holder(|node| node.index() == 0), None);
    }

    #[test]
    fn what_is_forgotten_does_not_count() {
        let mut tokens = said([Some(ONE); 3]);
        tokens.forget(always);
        assert_eq!(tokens.holder(|_| true), None);
    }

    #[test]
    fn no_token_is_printed() {
        let text = alloc::format!("{:?}", said([Some(ONE), None, None]));
        assert!(text.contains("one") && !text.contains("1234567"), "{text}");
    }

    #[test]
    fn a_node_that_did_not_take_the_attempt_is_not_free_before_its_time_whatever_it_says() {
        let mut belief = Belief::new(3);
        belief.forget(|node| at([0, 5_000, 5_000][node.index()]));
        for node in NodeId::first(3) {
            belief.looked(NOW, node, Remaining::Missing, false);
        }
        assert_eq!(belief.free_at(always), at(5_000));
        belief.changed(NOW, node(0), SOON);
        belief.changed(NOW, node(1), SOON);
        assert_eq!(belief.free_at(always), at(5_000));
    }
}
