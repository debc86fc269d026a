//! The belief of a refused contender: when the resource becomes free on each node, and who holds it there.
//!
//! The belief depends on three things: the node's answer about the key (`PTTL` and the token), the node's notification
//! when the key changes (a push), and time. This file sends no questions. Other files decide when to ask a node.
//!
//! # Guarantees
//!
//! * A node counts as free only after it has reported something about the key.
//! * A resource is believed to be free when it is free on a majority of the configured nodes. A node is included only
//!   from the time when its vote counts.
//! * If readers hold the lock, or clients have permits, the key is a sorted set. If the key is a sorted set, a reader
//!   waits for at most the random delay. A change of the set does not mean that the lock is free, unless the contender
//!   wants a permit.
//! * Only the owner text of a token leaves this file. The random part of a token is never shown.

use alloc::vec::Vec;
use core::time::Duration;

use crate::keys::NodeId;
use crate::node::Remaining;
use crate::quorum::quorum_of;
use crate::resource::{OwnedToken, Token};
use crate::time::Instant;

/// How long a key is believed to exist after its reported expiry. The node may have rounded its answer down by up to a
/// millisecond.
pub(in crate::engine) const ROUNDED: Duration = Duration::from_millis(1);

/// Whether the node will push the next change of the key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Registration {
    /// The node was asked for notifications, and has not answered.
    Asked,
    /// The node was asked for notifications. Before the node answered, this engine wrote to the key, which ends the
    /// registration.
    Erased,
    /// The node will push the next change.
    Pushed,
    /// The node was asked for notifications, but it sends none.
    Untold,
    /// The node has not been asked since its last push, so it will not push the next change.
    None,
}

/// The belief about one node.
#[derive(Debug)]
struct Seen {
    /// When the resource becomes free on the node, or [`Instant::MAX`] if this time is not known.
    free: Instant,
    /// Before this time, the contender does not believe that the node is free, whatever the node answers.
    not_before: Instant,
    /// Whether the key has no expiry, so that it does not become free by itself.
    permanent: bool,
    registration: Registration,
    /// The token in the key, if the node has reported it.
    token: Option<OwnedToken>,
    /// Whether the node has said that the key is a sorted set.
    is_set: bool,
}

const UNKNOWN: Seen = Seen {
    free: Instant::MAX,
    not_before: Instant::ZERO,
    permanent: false,
    registration: Registration::None,
    token: None,
    is_set: false,
};

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Belief {
    nodes: Vec<Seen>,
    wants: Wants,
    /// The time from which a reader believes that a sorted set is free.
    reads_from: Instant,
}

/// What the contender wants.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(in crate::engine) enum Wants {
    #[default]
    Lock,
    /// A shared lock.
    Reader,
    /// A permit. A node counts as free when it has a free slot.
    Slot,
}

impl Seen {
    /// Returns `true` if the node was asked, and has not answered.
    const fn is_asked(&self) -> bool {
        matches!(
            self.registration,
            Registration::Asked | Registration::Erased
        )
    }

    /// Returns `true` if the node will report the next change, or is about to say whether it will.
    const fn is_told(&self) -> bool {
        matches!(
            self.registration,
            Registration::Asked | Registration::Pushed
        )
    }
}

impl Belief {
    /// Creates a belief about `nodes` nodes. Nothing is known about any of them yet.
    pub(crate) fn new(nodes: usize) -> Self {
        let nodes = (0..nodes).map(|_| UNKNOWN);
        Self {
            nodes: nodes.collect(),
            ..Self::default()
        }
    }

    /// Sets what the contender wants. A reader treats a sorted set as free from the time `from`.
    pub(in crate::engine) fn set_wants(&mut self, wants: Wants, from: Instant) {
        (self.wants, self.reads_from) = (wants, from);
    }

    /// Returns what the contender wants.
    pub(in crate::engine) fn wants(&self) -> Wants {
        self.wants
    }

    /// Returns `true` if the contender is a reader.
    pub(in crate::engine) fn reads(&self) -> bool {
        self.wants == Wants::Reader
    }

    /// Records that `node` has no free slot before `until`. `pushes` says whether the node will push the next change.
    /// `None` means that the node was not asked to push changes.
    pub(in crate::engine) fn is_full(
        &mut self,
        node: NodeId,
        until: Instant,
        pushes: Option<bool>,
    ) {
        let seen = &mut self.nodes[node.index()];
        (seen.free, seen.permanent) = (until, false);
        if let Some(pushes) = pushes {
            seen.registration = match pushes {
                true => Registration::Pushed,
                false => Registration::Untold,
            };
        }
    }

    /// Forgets everything, including registrations. No node is believed to be free before the time that `not_before`
    /// returns for it.
    pub(crate) fn forget(&mut self, not_before: impl Fn(NodeId) -> Instant) {
        for (node, seen) in NodeId::first(self.nodes.len()).zip(&mut self.nodes) {
            *seen = Seen {
                not_before: not_before(node),
                ..UNKNOWN
            };
        }
    }

    /// Makes the next check also ask the nodes that have answered. The earlier answers of these nodes stay until the
    /// nodes answer again.
    pub(crate) fn ask_again(&mut self) {
        for seen in &mut self.nodes {
            if !seen.is_asked() {
                seen.registration = Registration::None;
            }
        }
    }

    /// Assumes that the resource becomes free at `at`, or at a known earlier time.
    pub(crate) fn suppose(&mut self, at: Instant) {
        for seen in &mut self.nodes {
            seen.free = seen.free.min(at);
        }
    }

    /// Records that `node` was asked for the remaining time of the key, and for a report of its next change. The node's
    /// earlier answer stays until the new answer arrives.
    pub(crate) fn asked(&mut self, node: NodeId) {
        self.nodes[node.index()].registration = Registration::Asked;
    }

    /// Records the answer of `node`. `pushes` says whether the node will push the next change.
    pub(crate) fn looked(&mut self, now: Instant, node: NodeId, left: Remaining, pushes: bool) {
        let seen = &mut self.nodes[node.index()];
        // A push that came before this answer belonged to an earlier registration, so it does not end the new
        // registration.
        seen.registration = match (seen.registration, pushes) {
            (Registration::Erased, _) => Registration::None,
            (_, true) => Registration::Pushed,
            (_, false) => Registration::Untold,
        };
        seen.permanent = left == Remaining::Permanent;
        seen.free = match left {
            // The key lives until the last permit expires, but a slot may become free earlier: keeps the known time.
            Remaining::For(_) if self.wants == Wants::Slot && seen.free != Instant::MAX => {
                seen.free
            }
            Remaining::Missing => {
                if self.wants == Wants::Reader && now < seen.free && seen.free != Instant::MAX {
                    seen.not_before = Instant::ZERO; // The key was there, and has gone.
                }
                now.min(seen.free)
            }
            Remaining::For(left) => now.saturating_add(left).saturating_add(ROUNDED),
            Remaining::Permanent => Instant::MAX,
        };
        seen.is_set &= left != Remaining::Missing;
    }

    /// Records the token in the key, as `node` has reported it. `is_set` means that the key is a sorted set.
    pub(crate) fn named(&mut self, node: NodeId, token: Option<OwnedToken>, is_set: bool) {
        let seen = &mut self.nodes[node.index()];
        (seen.token, seen.is_set) = (token, is_set);
    }

    /// Records that `node` has reported a change of the key. The node is free from `now` on, unless the change may only
    /// mean that a holder has joined or left a sorted set. The key may also have changed on nodes that push nothing, so
    /// the contender must ask these nodes. A reader asks the nodes after `rest` at the latest, because the nodes may
    /// admit readers by then.
    pub(crate) fn changed(&mut self, now: Instant, node: NodeId, rest: Duration) {
        let latest = match self.wants == Wants::Reader {
            true => now.saturating_add(rest),
            false => Instant::MAX,
        };
        self.reads_from = self.reads_from.min(latest);
        let wants = self.wants;
        for (other, seen) in NodeId::first(self.nodes.len()).zip(&mut self.nodes) {
            if other == node && (!seen.is_set || wants == Wants::Slot) {
                (seen.free, seen.is_set) = (now, false);
            }
            seen.not_before = seen.not_before.min(latest);
            if other == node || !seen.is_told() {
                (seen.permanent, seen.registration) = (false, Registration::None);
            }
        }
    }

    /// Records that this engine has written to the key on `node`, which ends the registration on this node.
    pub(crate) fn wrote(&mut self, node: NodeId) {
        let seen = &mut self.nodes[node.index()];
        seen.registration = match seen.is_asked() {
            true => Registration::Erased,
            false => Registration::None,
        };
    }

    /// Records that the registrations on `node` are lost.
    pub(crate) fn lost(&mut self, node: NodeId) {
        self.nodes[node.index()].registration = Registration::None;
    }

    /// Returns `true` if `node` must be asked, because it has not been asked since its last report.
    pub(crate) fn is_to_be_asked(&self, node: NodeId) -> bool {
        matches!(
            self.nodes[node.index()].registration,
            Registration::None | Registration::Erased
        )
    }

    /// Returns `true` if a majority of the nodes pushes changes, or was asked to push them.
    pub(crate) fn is_told(&self) -> bool {
        let told = self.nodes.iter().filter(|seen| seen.is_told()).count();
        quorum_of(self.nodes.len()) <= told
    }

    /// Returns the owner text of the holder. The text is empty if the holder has no owner text. Returns `None` if no
    /// majority of the nodes has the same token. Only nodes whose answers `count` are included.
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

    /// Returns `true` if no majority can become free by itself, because too many nodes have a key without an expiry.
    /// Only nodes whose answers `count` are included.
    pub(crate) fn is_permanent(&self, counts: impl Fn(NodeId) -> bool) -> bool {
        let nodes = NodeId::first(self.nodes.len()).zip(&self.nodes);
        let permanent = nodes.filter(|(node, seen)| seen.permanent && counts(*node));
        self.nodes.len() - permanent.count() < quorum_of(self.nodes.len())
    }

    /// Returns `true` if the latest report of `node` said that the key is a sorted set.
    pub(in crate::engine) fn is_set_on(&self, node: NodeId) -> bool {
        self.nodes[node.index()].is_set
    }

    /// Returns `true` if the key is a sorted set on a majority of the nodes.
    pub(in crate::engine) fn is_set(&self) -> bool {
        let sets = self.nodes.iter().filter(|seen| seen.is_set).count();
        quorum_of(self.nodes.len()) <= sets
    }

    /// Returns the time at which the contender expects a majority of the nodes to be free. `from` returns the time from
    /// which a node's vote counts.
    pub(crate) fn free_at(&self, from: impl Fn(NodeId) -> Instant) -> Instant {
        let nodes = NodeId::first(self.nodes.len()).zip(&self.nodes);
        let mut times: Vec<_> = nodes
            .map(|(node, seen)| {
                let free = match self.reads() && seen.is_set {
                    true => seen.free.min(self.reads_from),
                    false => seen.free,
                };
                free.max(seen.not_before).max(from(node))
            })
            .collect();
        times.sort_unstable();
        times[quorum_of(times.len()) - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_millis(1_000);
    const REST: Duration = Duration::from_millis(100);

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn node(index: usize) -> NodeId {
        NodeId::new(index)
    }

    fn left(millis: u64) -> Remaining {
        Remaining::For(Duration::from_millis(millis))
    }

    /// Creates the belief about three nodes that have given these answers.
    fn looked(answers: [Remaining; 3]) -> Belief {
        let mut belief = Belief::new(3);
        for (node, answer) in NodeId::first(3).zip(answers) {
            belief.asked(node);
            belief.looked(NOW, node, answer, true);
        }
        belief
    }

    fn asked(belief: &Belief) -> [bool; 3] {
        [0, 1, 2].map(|at| belief.is_to_be_asked(node(at)))
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
        use Remaining::{Missing, Permanent};
        for (answers, free) in [
            ([left(10), left(30), left(20)], at(1_021)),
            ([left(10), Permanent, left(20)], at(1_021)),
            ([Missing, Permanent, left(20)], at(1_021)),
            ([Missing, Permanent, Missing], NOW),
            ([Permanent, Permanent, left(20)], Instant::MAX),
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
        belief.changed(NOW, node(2), REST);
        assert_eq!(belief.free_at(always), at(11_001));
        belief.changed(at(1_001), node(0), REST);
        assert_eq!(belief.free_at(always), at(1_001));
    }

    #[test]
    fn nodes_that_push_nothing_are_asked_after_a_change_of_another_and_not_believed_free() {
        let mut belief = looked([left(10_000); 3]);
        belief.looked(NOW, node(1), left(10_000), false);
        belief.changed(NOW, node(2), REST);
        assert_eq!(asked(&belief), [false, true, true]);
        assert_eq!(belief.free_at(always), at(11_001));
        let mut belief = looked([left(10_000); 3]);
        belief.asked(node(1));
        belief.changed(NOW, node(2), REST);
        assert_eq!(asked(&belief), [false, false, true], "its answer will say");
    }

    #[test]
    fn a_sorted_set_that_has_changed_is_not_free_unless_a_permit_is_wanted() {
        for (wants, free) in [
            (Wants::Lock, at(11_001)),
            (Wants::Reader, at(1_100)),
            (Wants::Slot, NOW),
        ] {
            let mut belief = looked([left(10_000); 3]);
            belief.set_wants(wants, at(9_000));
            for node in NodeId::first(2) {
                belief.named(node, None, true);
                belief.changed(NOW, node, REST);
                assert!(belief.is_to_be_asked(node));
            }
            assert_eq!(belief.free_at(always), free, "{wants:?}");
            assert_eq!(belief.is_set(), wants != Wants::Slot);
            for node in NodeId::first(2) {
                belief.looked(NOW, node, Remaining::Missing, true);
            }
            assert_eq!(belief.free_at(always), NOW, "it is gone");
        }
    }

    #[test]
    fn keys_without_an_end_may_have_changed_where_nothing_is_told() {
        let mut belief = looked([Remaining::Permanent; 3]);
        (0..2).for_each(|at| belief.looked(NOW, node(at), Remaining::Permanent, false));
        assert!(belief.is_permanent(|_| true));
        belief.changed(NOW, node(2), REST);
        assert!(!belief.is_permanent(|_| true));
    }

    #[test]
    fn a_reader_that_was_kept_out_asks_when_the_key_has_gone_or_some_time_after_a_change() {
        let kept_out = || {
            let mut belief = Belief::new(3);
            belief.forget(|_| at(9_000));
            belief.set_wants(Wants::Reader, at(9_000));
            belief
        };
        for gone in [false, true] {
            let mut belief = kept_out();
            for node in NodeId::first(2) {
                let said = [Remaining::Missing, left(5_000)][usize::from(gone)];
                belief.looked(NOW, node, said, true);
                belief.named(node, None, gone);
                belief.changed(NOW, node, REST);
                belief.looked(NOW, node, Remaining::Missing, true);
            }
            let free = if gone { NOW } else { at(1_100) };
            assert_eq!(belief.free_at(always), free, "{gone}");
        }
        let mut belief = kept_out();
        (0..3).for_each(|at| belief.looked(NOW, node(at), Remaining::Missing, true));
        assert_eq!(belief.free_at(always), at(9_000), "an intent alone");
    }

    #[test]
    fn a_registration_lasts_for_one_push_and_one_connection() {
        let mut belief = looked([left(10_000); 3]);
        assert_eq!(asked(&belief), [false; 3]);
        belief.changed(NOW, node(0), REST);
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
            said.named(node, token.map(OwnedToken::new), false);
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
        belief.changed(NOW, node(0), REST);
        belief.changed(NOW, node(1), REST);
        assert_eq!(belief.free_at(always), at(5_000));
    }
}
