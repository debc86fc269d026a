//! Counts the fencing-token counters on each node, for an operator who wants to know how much memory they take.
//!
//! For each question, a node scans about two thousand keys, which takes one or two milliseconds. The node answers with
//! the number of counters among these keys, and the cursor where it continues. The engine repeats the question until
//! the node has scanned all keys.
//!
//! # Guarantees
//!
//! * A count that is reported without a reason is complete: the node has said that no keys are left. If the time has
//!   passed or the connection is lost, the incomplete count is reported with a reason.
//! * The engine waits for each node for at most [`COUNTING_MAX`].
//!
//! # Not here
//!
//! A node may count a key twice, because `SCAN` may return a key twice while the server resizes its table of keys.

use alloc::boxed::Box;
use alloc::vec;
use core::time::Duration;

use crate::error::{NodeOutcome, Unusable};
use crate::keys::NodeId;
use crate::limits::COUNTING_MAX;
use crate::node::{Answer, Command, Reply, Whose};
use crate::time::Instant;

use super::patience::Patience;
use super::{Context, Operate, ask_all, ask_one};
use crate::engine::contract::{Event, RoundId};
use crate::engine::parts::Parts;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::engine) struct CountCounters {
    /// The number of counters on each node so far.
    numbers: Box<[u64]>,
    /// The cursor of each node. Zero means either the beginning or the end of the count.
    cursors: Box<[u64]>,
    /// The time at which the count ends at the latest, on all nodes.
    until: Instant,
}

impl CountCounters {
    pub(in crate::engine) fn new(now: Instant, parts: &Parts) -> Self {
        Self {
            numbers: vec![0; parts.nodes.len()].into(),
            cursors: vec![0; parts.nodes.len()].into(),
            until: now.saturating_add(COUNTING_MAX),
        }
    }

    /// Sets the time in which `node` must answer. Even a late answer is useful, so the node gets as much time to answer
    /// as for the longest lock.
    fn give_time(&self, node: NodeId, cx: &mut Context<'_>) {
        let patience = Patience::for_release(Duration::MAX, &cx.parts.settings);
        let until = patience.until(cx.now, &mut cx.parts.nodes[node]);
        cx.round[node].deadline = until.min(self.until);
    }

    /// Asks `node` to continue the count. The node must be able to run scripts.
    fn put(&self, node: NodeId, cx: &mut Context<'_>) {
        self.give_time(node, cx);
        let cursor = self.cursors[node.index()];
        let there = cx.parts.nodes.writing_to(node);
        there.count_counters(cx.now, cx.round.key, cursor);
        cx.round[node].asked = true;
    }
}

impl Operate for CountCounters {
    fn begin(&mut self, cx: &mut Context<'_>) {
        for node in cx.parts.nodes.ids() {
            self.give_time(node, cx);
        }
        ask_all(self, cx);
        cx.round.arm(&mut cx.parts.timers);
    }

    fn ask(&mut self, node: NodeId, _command: &mut Command, cx: &mut Context<'_>) -> bool {
        cx.reach(node, Whose::Other, |cx| {
            if cx.parts.nodes[node].abilities.is_without_scripts() {
                return Err(Unusable::NeedsScripts);
            }
            self.put(node, cx);
            Ok(())
        })
    }

    fn tell(&mut self, cx: &mut Context<'_>) -> Option<Event> {
        let is_reason = |outcome: &NodeOutcome| *outcome != NodeOutcome::Granted;
        let why = cx.round.ballots.iter().map(|ballot| ballot.outcome);
        let why = why.map(|outcome| Some(outcome).filter(is_reason));
        Some(Event::CountersCounted {
            round: RoundId(cx.round.key),
            counters: self.numbers.iter().copied().zip(why).collect(),
        })
    }

    fn answered(&mut self, node: NodeId, answer: &Answer, cx: &mut Context<'_>) {
        if !cx.round.awaits(node) {
            return; // The answer came too late.
        }
        if let Reply::Counted { counters, cursor } = answer.reply {
            let counted = &mut self.numbers[node.index()];
            *counted = counted.saturating_add(u64::from(counters));
            self.cursors[node.index()] = cursor;
            if cursor != 0 {
                return ask_one(self, node, cx);
            }
        }
        self.vote(node, answer.reply.vote(), cx);
    }
}
