//! Inspects a resource: who holds it, for how much longer, and which nodes disagree.
//!
//! The engine asks every node for the token and the remaining time of the key, both in one step. The question changes
//! nothing on the nodes. A majority of the nodes decides. The resource is free if a majority has no key with its name,
//! and held if a majority has the same token. The resource is held for as long as a majority keeps this token. The
//! validity is the q-th largest remaining time, minus the drift, and counts from the time before the question was sent.
//!
//! The outcome includes the nodes that disagree, so the outcome is certain only when every node has answered or timed
//! out. The outcome also shows answers that do not count towards a majority.
//!
//! # Not here
//!
//! An inspection never takes, keeps or releases a lock. A holder in this engine does not notice an inspection.

pub(in crate::engine) mod watch;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use crate::engine::operators::OperatorError;
use crate::entry::Entry;
use crate::error::{Asked, NodeOutcome, Report};
use crate::keys::NodeId;
use crate::node::{Access, Answer, Asker, Asking, Command, Member, Question, Reply, Slot, Whose};
use crate::quorum::{NodeSet, Vote};
use crate::time::Instant;

use super::ballot::Bounds;
use super::confirm::kept_by_majority;
use super::{Change, Context, Lost, Operate, ask_one, ask_patiently, ask_why, judge_if_voting};
use crate::engine::contract::{Event, RoundId};
use crate::engine::inspection::{Found, Holder, HolderKind, InspectedNode, Inspection, Seen};
use crate::engine::parts::Parts;
use watch::Watch;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::engine) struct Inspect {
    /// The name of the resource, with an empty token.
    pub(super) entry: Entry,
    /// The nodes whose answers are still missing, even if their answers do not count.
    pending: NodeSet,
    seen: Box<[Seen]>,
    /// The watch, or `None` for a single inspection. A watch ends only when the state of the nodes differs from the
    /// state that the caller knows.
    pub(in crate::engine) watch: Option<Box<Watch>>,
}

impl Inspect {
    pub(in crate::engine) fn new(resource: &[u8], parts: &mut Parts) -> Self {
        Self {
            entry: Entry::new(
                parts.claims.spares.take().unwrap_or_default(),
                resource,
                b"",
            ),
            pending: NodeSet::EMPTY,
            seen: vec![Seen::Unknown; parts.nodes.len()].into(),
            watch: None,
        }
    }

    /// Returns the resource to inspect.
    pub(super) fn resource(&self) -> &[u8] {
        self.entry.resource()
    }

    /// Forgets the answers of all nodes.
    pub(super) fn look_again(&mut self) {
        self.seen.fill(Seen::Unknown);
    }

    /// Returns `true` if the state of `node` is known.
    pub(super) fn has_seen(&self, node: NodeId) -> bool {
        !matches!(self.seen[node.index()], Seen::Unknown)
    }

    /// Returns the shortest remaining time of any key or member of a set. A key without an expiry counts
    /// as [`Duration::MAX`].
    pub(super) fn first_left(&self) -> Option<Duration> {
        let holders = self.seen.iter().flat_map(Seen::holders);
        holders.map(|holder| holder.left).min()
    }

    /// Returns how much longer a majority keeps a token. `left` is the remaining time on each node, and `nodes` are the
    /// nodes that have the token.
    fn valid_for(&self, left: &[Duration], nodes: NodeSet, cx: &Context<'_>) -> Duration {
        match kept_by_majority(left, nodes, cx.round.tally.quorum()) {
            Duration::MAX => Duration::MAX,
            kept => {
                let end = cx.parts.settings.drift.valid_until(cx.round.sent, kept);
                end.saturating_since(cx.now)
            }
        }
    }

    /// Returns the holders whose tokens are on a majority of the nodes, each with its token.
    fn holders(&self, cx: &Context<'_>) -> Vec<(&[u8], Holder)> {
        let mut all: BTreeMap<_, (NodeSet, Vec<Duration>)> = BTreeMap::new();
        for node in cx.round.tally.yes().iter() {
            let seen = &self.seen[node.index()];
            for holder in seen.holders() {
                let (nodes, left) = all.entry((seen.is_set(), holder.id())).or_default();
                nodes.insert(node);
                left.resize(self.seen.len(), Duration::ZERO);
                left[node.index()] = holder.left;
            }
        }
        all.retain(|_, (nodes, _)| cx.round.tally.quorum() <= nodes.len());
        let holder =
            |((is_set, (slot, token)), (nodes, left)): ((bool, (Option<Slot>, _)), (_, Vec<_>))| {
                let kind = match slot {
                    _ if !is_set => HolderKind::Exclusive,
                    None => HolderKind::Shared,
                    Some(Slot { permits, slot }) => HolderKind::Permit { permits, slot },
                };
                let valid_for = self.valid_for(&left, nodes, cx);
                (token, Holder::new(kind, token, valid_for, nodes))
            };
        all.into_iter().map(holder).collect()
    }

    pub(super) fn inspection(&self, cx: &Context<'_>) -> Inspection {
        let (counted, quorum) = (cx.round.tally.yes(), cx.round.tally.quorum());
        let free = counted.filter(|node| matches!(self.seen[node.index()], Seen::Free));
        let holders = self.holders(cx);
        let held = holders.first();
        let held = held.filter(|(_, holder)| holder.kind == HolderKind::Exclusive);
        let held = held.map(|(token, _)| *token);
        let nodes = cx.parts.nodes.labels().iter().zip(cx.parts.nodes.ids());
        let nodes = nodes.map(|(address, node)| InspectedNode {
            address: Arc::clone(address),
            found: self.found(node, held, cx.round[node].outcome),
            counts: counted.contains(node),
            seen: self.seen[node.index()].clone(),
            since: cx.round.sent,
        });
        Inspection {
            resource: self.entry.resource().into(),
            free: quorum <= free.len(),
            holders: holders.into_iter().map(|(_, holder)| holder).collect(),
            nodes: nodes.collect(),
        }
    }

    /// Returns what `node` stores under the key, for the report. `held` is the token of the holder.
    fn found(&self, node: NodeId, held: Option<&[u8]>, outcome: NodeOutcome) -> Found {
        match &self.seen[node.index()] {
            Seen::Unknown => Found::Unknown(outcome),
            Seen::Free => Found::Free,
            Seen::OtherType => Found::OtherType,
            Seen::Members(members) => Found::Several {
                holders: members.len(),
                left: members.iter().map(|it| it.left).max().unwrap_or_default(),
            },
            Seen::Token(Member { token, left, .. }) => match token.get().as_bytes() {
                token if Some(token) == held => Found::Holder { left: *left },
                bytes => Found::Copy {
                    owner: token.get().label().into(),
                    token: self.number_of(bytes),
                    left: *left,
                },
            },
        }
    }

    /// Returns the index of the first node that has `token`. The report shows this index as the token's number.
    fn number_of(&self, token: &[u8]) -> usize {
        let same = |seen: &Seen| seen.token() == Some(token);
        self.seen.iter().position(same).unwrap_or_default()
    }
}

impl Operate for Inspect {
    fn begin(&mut self, cx: &mut Context<'_>) {
        if self.begin_to_watch(cx) {
            self.pending = cx.parts.nodes.set();
            ask_patiently(self, cx);
        }
    }

    fn ask(&mut self, node: NodeId, command: &mut Command, cx: &mut Context<'_>) -> bool {
        let reached = cx.reach(node, Whose::Other, |cx| {
            let watched = self.watch.is_some();
            let about = Asking::about(Question::Inspect, cx.round.key, &self.entry);
            let asking = Asking { watched, ..about };
            let there = cx.parts.nodes.writing_to(node);
            there.ask_about(cx.now, command, &asking);
            if let Some(watch) = &mut self.watch {
                watch.asked(node);
            }
            Ok(())
        });
        // The answer of a node in quarantine does not count, but the operation waits for the answer if it can ask the
        // node.
        let asked = reached && !matches!(cx.parts.nodes[node].access(), Access::Shut(_));
        if !asked {
            self.pending.remove(node);
        }
        asked
    }

    /// Waits for the answer of every node.
    fn judge(&mut self, cx: &mut Context<'_>) {
        if self.pending.is_empty() && self.is_news(cx) {
            cx.round.decide(cx.parts);
        }
    }

    fn tell(&mut self, cx: &mut Context<'_>) -> Option<Event> {
        let too_few = cx.round.tally.yes().len() < cx.round.tally.quorum();
        let result = match too_few && self.watch.is_none() {
            true => Err(OperatorError::NoQuorum(cx.report(self))),
            false => Ok(self.inspection(cx)),
        };
        let round = RoundId(cx.round.key);
        Some(Event::Inspected { round, result })
    }

    fn about(&mut self, report: Report, _: &Parts) -> Report {
        report.of(Asked::Answer).about(self.entry.names())
    }

    fn answered(&mut self, node: NodeId, answer: &Answer, cx: &mut Context<'_>) {
        let connection = &mut cx.parts.nodes[node].connection;
        let (token, members) = (connection.token.take(), connection.members.take());
        let is_late = |watch: &mut Box<Watch>| watch.answered(node, answer);
        if self.watch.as_mut().is_some_and(is_late) || !cx.round.asks(node) {
            return; // The answer took too long, or belongs to an earlier check.
        }
        let seen = match (answer.reply, token, members) {
            (Reply::Again(_), ..) => return ask_one(self, node, cx),
            (Reply::Missing, ..) => Some(Seen::Free),
            (Reply::Foreign(_), ..) => Some(Seen::OtherType),
            (Reply::Kept(left), Some(token), _) => {
                let slot = None;
                Some(Seen::Token(Member { slot, token, left }))
            }
            (Reply::Kept(_), None, Some(mut members)) => {
                members.sort_unstable_by(|one, other| one.id().cmp(&other.id()));
                Some(Seen::Members(members))
            }
            _ if ask_why(node, &self.entry, answer, cx) => return,
            _ => None,
        };
        let Some(seen) = seen else {
            return self.vote(node, answer.reply.vote(), cx);
        };
        self.seen[node.index()] = seen;
        self.vote(node, (Vote::Yes, NodeOutcome::Granted), cx);
    }

    /// Waits for the answer of every node, even if the answer does not count.
    fn vote(&mut self, node: NodeId, (vote, outcome): (Vote, NodeOutcome), cx: &mut Context<'_>) {
        self.pending.remove(node);
        cx.round.count(cx.now, node, vote, outcome);
        judge_if_voting(self, cx);
    }

    /// If only the connection of `node` is lost, keeps the node's answer, because it was true when the node sent it.
    fn lose(&mut self, node: NodeId, lost: Lost, cx: &mut Context<'_>) {
        let changed = match lost {
            Lost::Connection(outcome) => {
                self.lost_sight_of(node, cx);
                self.pending.remove(node);
                cx.round.record(node, Vote::Abstain, outcome);
                true
            }
            Lost::Trust(outcome) => {
                self.look_soon(cx);
                cx.round.lose(node, outcome)
            }
        };
        if changed {
            judge_if_voting(self, cx);
        }
    }

    fn withdraw(&mut self, nodes: NodeSet, cx: &mut Context<'_>) {
        for node in nodes.iter() {
            self.pending.remove(node);
            let connection = &mut cx.parts.nodes[node].connection;
            let withdrawn = connection.withdraw(Asker::Operation(cx.round.key));
            if let Some(watch) = self.watch.as_mut().filter(|_| withdrawn) {
                watch.forget(node);
            }
        }
    }

    fn heard(&mut self, change: Change, cx: &mut Context<'_>) {
        match change {
            Change::Stirred => self.look_soon(cx),
            Change::Ready(node) => {
                Bounds::NONE.leave_out(node, cx);
                ask_one(self, node, cx);
            }
            Change::Behind(_)
            | Change::Joined(_)
            | Change::OtherGroup
            | Change::MajorityBack
            | Change::Turn
            | Change::OutOfTime => {}
        }
    }

    fn woke(&mut self, until: Instant, cx: &mut Context<'_>) {
        self.look_if_due(until, cx);
    }

    fn rests_on_answers(&self) -> bool {
        true
    }

    fn end(&mut self, parts: &mut Parts) {
        self.end_to_watch(parts);
    }
}
