//! Takes a lock with a fencing token: the differences from a lock without one.
//!
//! Each node that grants the lock raises a counter and returns its new number. A number becomes the fencing token as
//! soon as a majority is known to have had both the key and a counter at exactly this number. This happens in one of
//! two ways, whichever succeeds first:
//!
//! * A majority has returned the same number, so one round trip is enough.
//! * The engine has asked nodes to raise their counters to the number, and the nodes have answered that they did so and
//!   still had the key. The engine asks nodes to raise their counters once a majority has answered, but with different
//!   numbers. The engine asks for the largest of these numbers.
//!
//! All readers of a resource share a counter, and so do all of its permits. Another client may raise a shared counter
//! further before the lock is granted, which does no harm.
//!
//! The grant of a node with a larger number does not count, because the node may have assigned that number to an
//! earlier lock.
//!
//! If a lock has an owner text, its token contains the proposed number. A node grants this lock only if it would assign
//! exactly the proposed number. So a client that sees the token on a majority also knows the fencing token. A node that
//! would assign another number answers with that number, and the engine repeats the attempt with the largest number.
//!
//! # Guarantees
//!
//! * No lock is granted unless a majority confirms its number within the time of the attempt. A grant alone is not a
//!   vote.
//! * An answer about an earlier attempt does not count.
//!
//! # Not here
//!
//! The proof is in [`manual::fencing`](crate::manual::fencing). The file `node::recipes::fenced` contains the commands.

use alloc::boxed::Box;
use alloc::vec;
use core::cmp::Ordering;

use super::{Acquire, Verdict};
use crate::config::Owner;
use crate::engine::operation::patience::Patience;
use crate::engine::operation::round::State;
use crate::engine::operation::{Context, Operate};
use crate::engine::queues::Refusal;
use crate::error::{NodeOutcome, Unusable};
use crate::invariant::Must;
use crate::keys::NodeId;
use crate::limits::{TOKEN_BYTES_MAX, TOKEN_RANDOM_BYTES};
use crate::quorum::{NodeSet, Vote};
use crate::resource::name_number;

/// The additional state of an acquisition with a fencing token or its own owner.
#[derive(Debug)]
pub(in crate::engine) struct Fencing {
    /// Whether the acquisition wants a fencing token.
    pub(super) is_wanted: bool,
    /// The owner text of this lock, or `None` if the lock has the owner text of the handle.
    pub(super) owner: Option<Owner>,
    proposal: u64,
    /// The number that each node has returned in this attempt. Zero means that the node has returned no number.
    numbers: Box<[u64]>,
    /// Nodes with smaller numbers were asked to raise their counters to this number. Zero means that no node was asked.
    raised_to: u64,
    /// The nodes that have raised their counters and still had the key.
    raised: NodeSet,
    /// The fencing token of this attempt. Zero means that the fencing token is not known yet.
    pub(super) token: u64,
    /// Whether a second round trip was needed, because less than a majority had returned the fencing token.
    pub(super) took_second: bool,
    /// The nodes that would assign a different number from the one in the token, and the largest of these numbers.
    behind: NodeSet,
    wanted: u64,
    /// Whether the proposed number comes from the nodes.
    is_theirs: bool,
    /// The number of times that the attempt was repeated because nodes asked for another number.
    renumbered: u8,
}

/// The maximum number of immediate repetitions of an attempt. One repetition is enough unless another client gets a
/// fencing token in between.
const RENUMBERED_MAX: u8 = 2;

impl Fencing {
    pub(super) fn new(nodes: usize) -> Self {
        Self {
            is_wanted: false,
            owner: None,
            proposal: 0,
            numbers: vec![0; nodes].into(),
            raised_to: 0,
            raised: NodeSet::EMPTY,
            token: 0,
            took_second: false,
            behind: NodeSet::EMPTY,
            wanted: 0,
            is_theirs: false,
            renumbered: 0,
        }
    }

    /// Returns the smallest number that a node may return.
    pub(super) fn proposal(&self) -> u64 {
        self.proposal
    }

    /// Stores the caller's options in the state of a new acquisition.
    pub(super) fn set_wishes(&mut self, fenced: bool, owner: Option<Owner>) {
        (self.is_wanted, self.owner) = (fenced, owner);
        self.stop_renumbering();
    }

    /// Writes the lock's owner and the proposed number into `token`, which has `len` bytes and contains the handle's
    /// owner. Returns the new length of the token. Tokens of shared locks and tokens without an owner contain no
    /// number.
    pub(super) fn name_in(
        &self,
        token: &mut [u8; TOKEN_BYTES_MAX],
        mut len: usize,
        shared: bool,
    ) -> usize {
        if let Some(owner) = self.owner.as_ref().map(Owner::as_bytes) {
            len = TOKEN_RANDOM_BYTES + owner.len();
            token[TOKEN_RANDOM_BYTES..len].copy_from_slice(owner);
        }
        if self.is_wanted && !shared && (self.owner.is_some() || TOKEN_RANDOM_BYTES < len) {
            name_number(token, self.proposal, self.is_theirs);
        }
        len
    }

    /// Begins another attempt with this proposal, unless nodes have asked for another number.
    pub(super) fn begin(&mut self, proposal: u64) {
        self.is_theirs = self.wanted != 0;
        self.behind = NodeSet::EMPTY;
        if !self.is_theirs {
            self.renumbered = 0;
        }
        self.proposal = match core::mem::take(&mut self.wanted) {
            0 => proposal,
            wanted => wanted,
        };
        self.numbers.fill(0);
        (self.raised_to, self.raised) = (0, NodeSet::EMPTY);
        (self.token, self.took_second) = (0, self.is_theirs);
    }

    /// Records that the next attempt is not a repetition of the current attempt.
    pub(super) fn stop_renumbering(&mut self) {
        self.wanted = 0;
    }

    /// Returns `true` if the counter of `node` certainly had exactly this number while the node had the key. If a
    /// counter was raised on request, it has had two numbers while the node had the key.
    fn confirms(&self, node: NodeId, number: u64) -> bool {
        let raised = number == self.raised_to && self.raised.contains(node);
        self.numbers[node.index()] == number || raised
    }

    /// Makes `number` the fencing token if a majority confirms it, counting only nodes in `open`. Returns the nodes
    /// that confirm the number.
    fn decide(&mut self, number: u64, open: NodeSet, quorum: usize) -> Option<NodeSet> {
        let same = open.filter(|node| self.confirms(node, number));
        if same.len() < quorum {
            return None;
        }
        let returned = same.filter(|node| self.numbers[node.index()] == number);
        self.token = number;
        self.took_second |= returned.len() < quorum;
        Some(same)
    }
}

impl Acquire {
    /// Handles a grant of `node` that returned `number`.
    #[cold]
    #[inline(never)]
    pub(super) fn counted(&mut self, node: NodeId, number: u64, cx: &mut Context<'_>) {
        let Some(fencing) = self.fencing.as_mut().filter(|_| cx.round.awaits(node)) else {
            return;
        };
        fencing.numbers[node.index()] = number;
        cx.round.granted(cx.now, node);
        let (open, quorum) = (cx.round.tally.open(), cx.round.tally.quorum());
        if let Some(nodes) = fencing.decide(number, open, quorum) {
            self.vote_yes(nodes, cx);
            return;
        }
        let granted = open.filter(|node| fencing.numbers[node.index()] != 0);
        if fencing.raised_to != 0 {
            self.raise(node, cx);
        } else if quorum <= granted.len() {
            let numbers = granted.iter().map(|node| fencing.numbers[node.index()]);
            fencing.raised_to = numbers.max().unwrap_or(0);
            for node in granted.iter() {
                self.raise(node, cx);
            }
        }
    }

    /// Handles the answer of `node` that it has raised its counter as requested, and still has the key.
    #[cold]
    pub(super) fn raised(&mut self, node: NodeId, cx: &mut Context<'_>) {
        let Some(fencing) = self.fencing.as_mut().filter(|_| cx.round.awaits(node)) else {
            return;
        };
        fencing.raised.insert(node);
        cx.round.granted(cx.now, node);
        let (open, quorum) = (cx.round.tally.open(), cx.round.tally.quorum());
        if let Some(nodes) = fencing.decide(fencing.raised_to, open, quorum) {
            self.vote_yes(nodes, cx);
        }
    }

    /// Handles a refusal of `node`, which would assign `number` while the token contains another number.
    #[cold]
    pub(super) fn renumbered(&mut self, node: NodeId, number: u64, cx: &mut Context<'_>) {
        if let Some(fencing) = self.fencing.as_mut().filter(|_| cx.round.awaits(node)) {
            fencing.behind.insert(node);
            fencing.wanted = fencing.wanted.max(number);
        }
        self.vote(node, (Vote::Abstain, NodeOutcome::Pending), cx);
    }

    /// Returns `true` if the attempt has failed, but might have succeeded with the number that the nodes want.
    pub(super) fn is_to_renumber(&self, cx: &Context<'_>) -> bool {
        let tally = &cx.round.tally;
        self.fencing.as_ref().is_some_and(|fencing| {
            let voters = tally.yes().union(tally.open()).union(fencing.behind);
            let may_repeat = !fencing.behind.is_empty() && fencing.renumbered < RENUMBERED_MAX;
            may_repeat && tally.quorum() <= voters.len()
        })
    }

    /// Repeats the attempt with the number that the nodes want. The repetition does not count as another try.
    #[cold]
    pub(super) fn renumber(&mut self, cx: &mut Context<'_>) {
        if let Some(claim) = self.claim.take() {
            cx.parts.give_back(cx.now, claim);
        }
        if let Some(fencing) = &mut self.fencing {
            fencing.renumbered += 1;
        }
        cx.round.tries -= 1;
        if self.leads(cx) {
            return self.rest_until(cx.now, Refusal::NoQuorum, cx);
        }
        self.verdict = Verdict::Refused(Refusal::NoQuorum);
        cx.round.rest(State::Resting { until: cx.now }, cx.parts);
    }

    /// Counts a yes vote of each of these nodes, because they confirm the fencing token.
    pub(super) fn vote_yes(&mut self, nodes: NodeSet, cx: &mut Context<'_>) {
        for node in nodes.iter() {
            self.vote(node, (Vote::Yes, NodeOutcome::Granted), cx);
        }
    }

    /// Records that `node` was not asked, for the reason in `outcome`. If too few nodes have a counter floor, the other
    /// nodes cannot be repaired, and the report no longer calls a node "in repair".
    #[cold]
    #[inline(never)]
    pub(super) fn left_out(&self, outcome: NodeOutcome, cx: &mut Context<'_>) {
        const IN_REPAIR: NodeOutcome = NodeOutcome::Unusable(Unusable::InRepair);
        if self.fenced().is_some() && outcome == NodeOutcome::Unusable(Unusable::NoFloor) {
            let ballots = cx.round.ballots.iter_mut();
            for ballot in ballots.filter(|ballot| ballot.outcome == IN_REPAIR) {
                ballot.outcome = outcome;
            }
        }
    }

    /// Asks `node`, which has granted the lock, to raise its counter if its number is too small. If the number of
    /// `node` is too large, its vote does not count.
    fn raise(&mut self, node: NodeId, cx: &mut Context<'_>) {
        let Some(fencing) = self.fencing.as_ref().filter(|_| cx.round.awaits(node)) else {
            return; // The outcome is certain.
        };
        let raised_to = fencing.raised_to;
        match fencing.numbers[node.index()].cmp(&raised_to) {
            Ordering::Less => self.ask_to_raise(node, raised_to, cx),
            Ordering::Equal => {} // The node waits for others.
            Ordering::Greater => self.vote(node, (Vote::Abstain, NodeOutcome::Granted), cx),
        }
    }

    /// Asks `node` to raise its counter if it still has the key, and waits for another answer.
    fn ask_to_raise(&self, node: NodeId, raised_to: u64, cx: &mut Context<'_>) {
        let Some((key, claim)) = cx.parts.claims.keyed(self.claim).must() else {
            return;
        };
        let patience = Patience::for_vote(cx.round.ttl, &cx.parts.settings);
        let there = cx.parts.nodes.writing_to(node);
        cx.round[node].deadline = patience.until(cx.now, there);
        cx.round[node].outcome = NodeOutcome::Pending;
        there.raise(cx.now, key, &claim.entry, raised_to);
        cx.round.arm(&mut cx.parts.timers);
    }
}
