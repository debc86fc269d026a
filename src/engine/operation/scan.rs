//! Scans all keys of each node, for an operator. A scan counts the counters of fencing tokens, or lists the names of
//! locks.
//!
//! For each question, a node scans about two thousand keys, which takes a few milliseconds. The node answers with the
//! number of counters or the names among these keys, and with a cursor for the next question. The engine repeats the
//! question until the node has scanned all keys.
//!
//! # Guarantees
//!
//! * If the scan of a node ends early, because time has run out or the connection is lost, the result contains the
//!   reason. Any other result is complete: the node has said that no keys are left.
//! * A list contains only names that begin with the given prefix and that a lock can have, whatever the node lists.
//! * The engine waits for each node for at most [`SCAN_MAX`], and keeps at most [`NAMES_MAX`] names of each node.
//!
//! # Not here
//!
//! A node may count a key twice, because `SCAN` may return a key twice while the server resizes its table of keys. A
//! list contains each name once.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec;
use core::mem;
use core::time::Duration;

use crate::error::{NodeOutcome, Unusable};
use crate::keys::NodeId;
use crate::limits::{NAMES_MAX, SCAN_MAX};
use crate::node::{Answer, Command, Reply, Whose};
use crate::quorum::Vote;
use crate::time::Instant;

use super::patience::Patience;
use super::{Context, Operate, ask_all, ask_one};
use crate::engine::contract::{Event, RoundId};
use crate::engine::parts::Parts;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::engine) struct Scan {
    /// The prefix of the keys to list, or `None` if the scan counts counters.
    prefix: Option<Box<[u8]>>,
    /// The number of counters on each node so far.
    numbers: Box<[u64]>,
    /// The names that each node has listed so far.
    names: Box<[BTreeSet<Box<[u8]>>]>,
    /// The cursor of each node. Zero means either the beginning or the end of the scan.
    cursors: Box<[u64]>,
    /// The deadline of the whole scan.
    until: Instant,
}

impl Scan {
    pub(in crate::engine) fn new(now: Instant, prefix: Option<&[u8]>, parts: &Parts) -> Self {
        Self {
            prefix: prefix.map(Box::from),
            numbers: vec![0; parts.nodes.len()].into(),
            names: vec![BTreeSet::new(); parts.nodes.len()].into(),
            cursors: vec![0; parts.nodes.len()].into(),
            until: now.saturating_add(SCAN_MAX),
        }
    }

    /// Sets the time in which `node` must answer. Even a late answer is useful, so the timeout is that of the longest
    /// lock.
    fn give_time(&self, node: NodeId, cx: &mut Context<'_>) {
        let patience = Patience::for_release(Duration::MAX, &cx.parts.settings);
        let until = patience.until(cx.now, &mut cx.parts.nodes[node]);
        cx.round[node].deadline = until.min(self.until);
    }

    /// Asks `node` to continue the scan. The node must be able to run scripts.
    fn put(&self, node: NodeId, cx: &mut Context<'_>) {
        self.give_time(node, cx);
        let cursor = self.cursors[node.index()];
        let there = cx.parts.nodes.writing_to(node);
        there.scan(cx.now, cx.round.key, cursor, self.prefix.as_deref());
        cx.round[node].asked = true;
    }
}

impl Operate for Scan {
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
        let round = RoundId(cx.round.key);
        if self.prefix.is_none() {
            let counters = self.numbers.iter().copied().zip(why).collect();
            return Some(Event::CountersCounted { round, counters });
        }
        let names = self.names.iter_mut().map(mem::take);
        let names = names.map(|names| names.into_iter().collect());
        let names = names.zip(why).collect();
        Some(Event::NamesListed { round, names })
    }

    fn answered(&mut self, node: NodeId, answer: &Answer, cx: &mut Context<'_>) {
        let keys = cx.parts.nodes[node].connection.keys.take();
        if !cx.round.awaits(node) {
            return; // The answer came too late.
        }
        if let Reply::Scanned { counters, cursor } = answer.reply {
            let counted = &mut self.numbers[node.index()];
            *counted = counted.saturating_add(u64::from(counters));
            let listed = &mut self.names[node.index()];
            for key in keys.into_iter().flatten() {
                let is_asked = self.prefix.as_ref().is_some_and(|it| key.starts_with(it));
                // Callers give names without the prefix of the handle.
                let name = key.strip_prefix(&*cx.parts.settings.key_prefix);
                let can_be = |name: &&[u8]| cx.parts.settings.key(name, None).is_ok();
                let name = name.filter(|_| is_asked).filter(can_be);
                listed.extend(name.map(Box::from));
            }
            if let Some(first) = listed.iter().nth(NAMES_MAX).cloned() {
                drop(listed.split_off(&first));
                return self.vote(node, (Vote::Abstain, NodeOutcome::Pending), cx);
            }
            self.cursors[node.index()] = cursor;
            if cursor != 0 {
                return ask_one(self, node, cx);
            }
        }
        self.vote(node, answer.reply.vote(), cx);
    }
}
