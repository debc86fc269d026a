//! Repairs fencing tokens: a node that may have lost its counters gets a new counter floor. The new floor comes from
//! the other nodes.
//!
//! The engine asks every node for its counter floor. In the same script, a node without a floor marks itself with a
//! nonce. If another handle has marked the node first, the node keeps the nonce of that handle. When the mark has
//! existed for as long as the longest lock lasts, the engine asks every node again. If N - q + 1 of the other nodes
//! have a floor and the mark still exists, the node gets the largest of these floors.
//!
//! # Guarantees
//!
//! * A repair uses only floors that the engine requested after the mark had existed for as long as the longest lock
//!   lasts.
//! * The floor of a node counts only if the node is neither marked nor in quarantine, and is still connected.
//! * If a restart or a `FLUSHALL` deletes data in between, the mark is gone, or a mark with another `run_id` remains.
//!   In both cases, the wait begins again.
//! * Several handles may repair one node. The handles share the mark, and the first handle that writes the floor
//!   removes it.
//!
//! # Not here
//!
//! The proof is in [`manual::fencing`](crate::manual::fencing). The module `engine::fencing` decides when a repair
//! begins, and records which nodes have lost their floors.

use alloc::boxed::Box;
use alloc::vec;
use core::time::Duration;

use rand::Rng;

use crate::error::NodeOutcome;
use crate::keys::NodeId;
use crate::node::{Access, Answer, Reply};
use crate::quorum::Vote;
use crate::time::Instant;

use super::ballot::Bounds;
use super::patience::Patience;
use super::{Context, Operate};
use crate::engine::contract::Event;
use crate::engine::parts::Parts;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::engine) struct Repair {
    /// The floor of each node that has a floor.
    numbers: Box<[u64]>,
}

impl Repair {
    pub(in crate::engine) fn new(parts: &Parts) -> Self {
        Self {
            numbers: vec![0; parts.nodes.len()].into(),
        }
    }

    /// Returns the floor for a marked node. The floor is at least as large as every fencing token that the node
    /// confirmed before it was marked. Returns `None` if too few other nodes have reported their floors.
    fn number(&self, cx: &Context<'_>) -> Option<u64> {
        let sound = cx.round.tally.yes();
        let needed = cx.parts.nodes.len() - cx.round.tally.quorum() + 1;
        let numbers = sound.iter().map(|node| self.numbers[node.index()]);
        numbers.max().filter(|_| needed <= sound.len())
    }

    /// Repairs the floor of each node whose mark was old enough when this round began.
    fn repair(&self, cx: &mut Context<'_>) {
        let Some(number) = self.number(cx) else {
            return;
        };
        let span = cx.parts.restarts.terms().span;
        let (now, sent) = (cx.now, cx.round.sent);
        let due = cx.parts.fencing.losses();
        let due = due.filter(|(_, loss)| loss.since.saturating_add(span) <= sent);
        for (node, loss) in due {
            let there = cx.parts.nodes.writing_to(node);
            if there.access() == Access::Open && there.trust.kept_until(now).is_none() {
                there.repair_floor(now, loss.nonce, number);
            }
        }
    }
}

impl Operate for Repair {
    /// Asks every node. Even a late answer is useful, so each node gets the same timeout as for the longest lock.
    fn begin(&mut self, cx: &mut Context<'_>) {
        let patience = Patience::for_release(Duration::MAX, &cx.parts.settings);
        for node in cx.parts.nodes.ids() {
            let nonce = cx.parts.random.next_u64() >> 12; // The nonce is not larger than a token.
            let there = cx.parts.nodes.writing_to(node);
            let asked =
                there.access() == Access::Open && there.look_at_floor(cx.now, cx.round.key, nonce);
            if !asked {
                cx.round.record(node, Vote::Abstain, NodeOutcome::Pending);
                continue;
            }
            cx.round[node].deadline = patience.until(cx.now, there);
            cx.round[node].asked = true;
            if let Some(until) = Bounds::NONE.kept_until(node, cx) {
                let outcome = NodeOutcome::Quarantined { until }; // The question does not check a marker.
                cx.round.record(node, Vote::Abstain, outcome);
            }
        }
        self.judge(cx);
        if cx.round.is_voting() {
            cx.round.arm(&mut cx.parts.timers);
        }
    }

    /// Waits for the answer of every node.
    fn judge(&mut self, cx: &mut Context<'_>) {
        if cx.round.tally.open().is_empty() {
            self.repair(cx);
            cx.round.decide(cx.parts);
        }
    }

    fn tell(&mut self, cx: &mut Context<'_>) -> Option<Event> {
        cx.parts.looked_at_floors(cx.now);
        None
    }

    fn answered(&mut self, node: NodeId, answer: &Answer, cx: &mut Context<'_>) {
        let said = if let Reply::Number(number) = answer.reply {
            self.numbers[node.index()] = number;
            answer.reply.vote()
        } else {
            (Vote::Abstain, NodeOutcome::Pending) // This outcome is not reported.
        };
        self.vote(node, said, cx);
    }

    /// If the connection of a node is lost, its floor is no longer known.
    fn rests_on_answers(&self) -> bool {
        true
    }
}

// ----- answers ----------------------------------------------------------------------------

/// Handles the answer of `node` to the question about its floor.
#[cold]
#[inline(never)]
pub(in crate::engine) fn look_answered(
    now: Instant,
    node: NodeId,
    reply: Reply,
    parts: &mut Parts,
) {
    if let Reply::Number(number) = reply {
        parts.fencing.said_floor(node, number);
    } else if let Reply::InRepair(nonce) = reply {
        parts.fencing.in_repair(now, node, nonce);
        parts.await_repairs(now);
    }
}

/// Handles the answer of a `node` that was asked to write a floor, for an operator or a repair. A refused write is
/// tried again later.
#[cold]
#[inline(never)]
pub(in crate::engine) fn floor_answered(node: NodeId, reply: Reply, parts: &mut Parts) {
    if reply == Reply::Done {
        parts.fencing.has_floor(node);
    } else if reply == Reply::Missing {
        // Either the node has lost its mark and set a new one, or another client has repaired the node. The next check
        // of the counter floors shows which of the two has happened.
        parts.fencing.was_not_repaired(node);
    }
}
