//! The releases of claims: when they are sent, owed, retried, and over.
//!
//! # Not here
//!
//! How a release is written: see the node. How it changes a copy: `copy.rs`.

use core::time::Duration;

use crate::engine::alarm::Alarm;
use crate::engine::nodes::Nodes;
use crate::engine::stats::Stats;
use crate::entry::Entry;
use crate::invariant::Must as _;
use crate::keys::{ClaimKey, NodeId, OperationKey};
use crate::node::{Command, Dialect, Reply};
use crate::quorum::{NodeSet, Vote};

use super::busy::Stage;
use super::claim::Claim;
use super::copy::Event;
use super::{Below, Claims};

/// The time before a release that a node refused is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(250);

impl Claims {
    /// Releases the token of `claim` on every node that may hold it, for `operation`, which waits for the outcome.
    /// Returns the nodes that were asked.
    pub(in crate::engine) fn release(
        &mut self,
        operation: Option<OperationKey>,
        claim: ClaimKey,
        stats: &mut Stats,
        below: &mut Below<'_>,
    ) -> NodeSet {
        let Some(there) = self.slab.get_mut(claim.0).must() else {
            return NodeSet::EMPTY;
        };
        stats.end_hold(below.now, there.held_since(), there.kept.is_some());
        there.wake(&mut self.boxes).stage = Stage::Releasing { operation };
        let (held, timer) = (there.may_hold, there.timer.take());
        if let Some(timer) = timer {
            below.timers.cancel(timer);
        }
        let mut command = Command::new(self.commands.take());
        let asked = held.filter(|node| there.release_on(node, claim, &mut command, below));
        self.commands.give(command.into_buffer());
        if there.is_over() {
            self.settle(claim, below);
        }
        asked
    }

    /// Sends the releases that `node` is owed, oldest first, while there is room.
    ///
    /// The release of an unanswered `SET` stays owed until the node answers it; a handshake does not end it. A server
    /// that postpones writes still answers the handshake, and may run the `SET` later, over a connection whose end it
    /// has not noticed.
    pub(in crate::engine) fn pay_debts(&mut self, node: NodeId, below: &mut Below<'_>) {
        while let Some(key) = below.nodes[node].debts.pop() {
            let owed = |claim: &&mut Claim| claim.copy_on(node).is_owed();
            let Some(claim) = self.slab.get_mut(key.0).filter(owed) else {
                below.nodes[node].debts.popped_forgotten();
                continue;
            };
            let mut command = Command::new(self.commands.take());
            let paid = claim.pay(node, key, &mut command, true, below);
            self.commands.give(command.into_buffer());
            if guard!(DebtWithoutRoomForgotten, !paid) {
                below.nodes[node].debts.put_back(key);
                return;
            }
        }
    }

    /// The server accepts us: sends its debts first, then the rest of the handshake.
    pub(in crate::engine) fn admitted(&mut self, node: NodeId, below: &mut Below<'_>) {
        self.try_debts_again(node, below);
        self.pay_debts(node, below);
        below.nodes.writing_to(node).survey(below.now);
    }

    /// Everything that `node` sent was read. Now there may be room for its debts, or a question to send.
    pub(in crate::engine) fn after_reading(&mut self, node: NodeId, below: &mut Below<'_>) {
        let there = &below.nodes[node];
        if there.handshake.is_ready() && there.debts.is_due() {
            self.pay_debts(node, below);
        }
        if below.nodes[node].connection.wire.is_to_write() {
            below.nodes.writing_to(node);
        }
    }

    /// Retries the releases that `node` has refused.
    pub(in crate::engine) fn try_debts_again(&mut self, node: NodeId, below: &mut Below<'_>) {
        if let Some(timer) = below.nodes[node].debt_timer.take() {
            below.timers.cancel(timer);
        }
        below.nodes[node].abilities.reconsider_scripts();
        if below.nodes[node].debts.try_again() && below.nodes[node].handshake.is_ready() {
            self.pay_debts(node, below);
        }
    }

    /// Handles the answer of `node` to the release of `claim`. Returns the operation that waits for it.
    pub(in crate::engine) fn release_answered(
        &mut self,
        node: NodeId,
        (claim, by): (ClaimKey, Dialect),
        reply: Reply,
        below: &mut Below<'_>,
    ) -> Option<OperationKey> {
        let there = self.slab.get_mut(claim.0).must()?;
        let Stage::Releasing { operation } = there.busy().stage else {
            return None;
        };
        if let Reply::Again(_) = reply {
            self.release_again(node, claim, below);
            return None;
        }
        // A transaction that has only read proves nothing: a server that postpones writes still answers reads.
        let is_read = by == Dialect::Watch && matches!(reply, Reply::Foreign(_));
        if is_read && there.copy_on(node).may_run() {
            there.missed_on(node);
            self.defer(node, claim, below);
        } else if reply.vote().0 == Vote::Abstain {
            self.defer(node, claim, below);
        } else {
            there.apply(node, Event::Freed);
            if there.is_over() {
                self.settle(claim, below);
            }
        }
        operation
    }

    fn release_again(&mut self, node: NodeId, claim: ClaimKey, below: &mut Below<'_>) {
        let Some(there) = self.slab.get_mut(claim.0).must() else {
            return;
        };
        let mut command = Command::new(self.commands.take());
        if !there.pay(node, claim, &mut command, true, below) {
            there.owe(node, claim, below);
        }
        self.commands.give(command.into_buffer());
    }

    /// `node` has not carried out the release of `key`. Retries it after a while.
    fn defer(&mut self, node: NodeId, key: ClaimKey, below: &mut Below<'_>) {
        let Some(claim) = self.slab.get_mut(key.0).must() else {
            return;
        };
        if claim.busy_mut().copies.extending.remove(node) {
            let longest = self.drift.gone_by(below.now, claim.life());
            claim.gone_by = claim.gone_by.max(longest);
        }
        let there = &mut below.nodes[node];
        if claim.begin_owing(node) {
            there.debts.defer(key);
        }
        if guard!(RefusedNotTriedAgain, there.debt_timer.is_none()) {
            let at = below.now.saturating_add(TRY_AGAIN);
            there.debt_timer = Some(below.timers.insert(at, Alarm::Debts(node)));
        }
        claim.limit_debt(key, below.timers);
    }

    pub(super) fn owe(&mut self, node: NodeId, claim: ClaimKey, below: &mut Below<'_>) {
        if let Some(there) = self.slab.get_mut(claim.0) {
            there.owe(node, claim, below);
            self.settle(claim, below);
        }
    }

    /// Ends `claim` if no node can hold its token any more. Otherwise arms the timer of its debts, if time can end
    /// them.
    pub(in crate::engine) fn settle(&mut self, claim: ClaimKey, below: &mut Below<'_>) {
        let there = self.slab.get_mut(claim.0);
        let Some(there) = there.filter(|there| there.is_leaving()) else {
            return;
        };
        if there.is_over() {
            self.end(claim, below.timers);
        } else {
            there.limit_debt(claim, below.timers);
        }
    }

    /// Returns `true` if a release for the resource of `entry` is under repair on `node`. The node's list may still
    /// have debts that time has ended, so the claim is asked.
    pub(in crate::engine) fn is_releasing(
        &self,
        node: NodeId,
        entry: &Entry,
        nodes: &Nodes,
    ) -> bool {
        nodes[node].is_repairing(|other| self.owes(node, other, entry))
    }

    /// Returns `true` if such a release is not written yet. A command that is sent to `node` now would precede it.
    pub(in crate::engine) fn is_to_release(
        &self,
        node: NodeId,
        entry: &Entry,
        nodes: &Nodes,
    ) -> bool {
        let transactions = &nodes[node].connection.transactions;
        transactions.is_to_release(|other| self.owes(node, other, entry))
    }

    /// Returns `true` if `claim` is for the resource of `entry` and `node` has not confirmed its release. Returns
    /// `false` if the node lacks the token: a key that stands there is another client's.
    fn owes(&self, node: NodeId, claim: ClaimKey, entry: &Entry) -> bool {
        self.slab.get(claim.0).is_some_and(|claim| {
            let meets = claim.entry.meets(entry);
            claim.is_leaving_on(node) && !guard!(AnyKeyIsOurs, !meets)
        })
    }

    /// Ends the debts of `claim` on nodes where its key is known to have expired.
    pub(super) fn expire_debts(&mut self, key: ClaimKey, below: &mut Below<'_>) {
        let Some(claim) = self.slab.get_mut(key.0).must() else {
            return;
        };
        if claim.gone_by <= below.now {
            let ended = claim.expire();
            for node in ended.iter() {
                self.forget_debt(node, below.nodes);
            }
        }
        self.settle(key, below);
    }

    /// Removes from the debts of `node` a release that its claim no longer owes.
    #[cold]
    pub(in crate::engine) fn forget_debt(&self, node: NodeId, nodes: &mut Nodes) {
        let owes = |claim: ClaimKey| {
            let claim = self.slab.get(claim.0);
            claim.is_some_and(|claim| claim.copy_on(node).is_owed())
        };
        nodes[node].debts.forget(owes);
    }
}
