//! Inspecting a resource: who holds it, how much longer, and which nodes disagree.
//!
//! Every node is asked for the token in the key and its time to live, both in one step; nothing is changed. A majority
//! decides. The resource is free if a majority has no such key, and held if a majority has the same token. It is held
//! for as long as a majority keeps that token: the q-th largest time to live counts, from before the question, less the
//! drift.
//!
//! The outcome is certain when every node has answered or its time is up, because it includes the nodes that disagree.
//! An answer that does not count is shown, but is not part of a majority.
//!
//! # Not here
//!
//! Locks and claims: an inspection takes, keeps and releases nothing, and a holder in this engine learns nothing from
//! it.

pub(in crate::engine) mod watch;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::entry::Entry;
use crate::error::{NodeOutcome, Report};
use crate::keys::NodeId;
use crate::node::{Access, Answer, Asker, Asking, Command, Member, Question, Reply, Slot, Whose};
use crate::quorum::{NodeSet, Vote};
use crate::resource::OwnedToken;
use crate::time::Instant;

use super::ballot::Bounds;
use super::confirm::kept_by_majority;
use super::patience::Patience;
use super::{Change, Context, Lost, Operate, ask_all, ask_one, ask_why, judge_if_voting};
use crate::engine::contract::{Event, RoundId};
use crate::engine::inspection::{
    Found, Holder, HolderKind, InSet, InspectError, InspectedNode, Inspection,
};
use crate::engine::parts::Parts;
use watch::Watch;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::engine) struct Inspect {
    /// The name, with an empty token.
    pub(super) entry: Entry,
    /// The nodes that it still awaits, including nodes whose answers do not count.
    pending: NodeSet,
    seen: Box<[Seen]>,
    /// Set for a watch, which ends only when the nodes have something that the caller does not know.
    pub(in crate::engine) watch: Option<Box<Watch>>,
}

/// What a node has, according to its answer.
#[derive(Clone)]
enum Seen {
    /// Nothing seen yet.
    Unknown,
    Free,
    Token {
        token: OwnedToken,
        left: Duration,
    },
    /// The holders of shared locks or permits, in the order of their slots and tokens.
    Members(Box<[Member]>),
    OtherType,
}

/// `Debug` does not show the token.
impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("Unknown"),
            Self::Free => f.write_str("Free"),
            Self::Token { token, left } => write!(f, "{:?} {left:?}", token.get()),
            Self::Members(members) => write!(f, "{members:?}"),
            Self::OtherType => f.write_str("OtherType"),
        }
    }
}

impl Seen {
    fn token(&self) -> Option<&[u8]> {
        match self {
            Self::Token { token, .. } => Some(token.get().as_bytes()),
            Self::Unknown | Self::Free | Self::Members(_) | Self::OtherType => None,
        }
    }

    fn left(&self) -> Duration {
        match self {
            Self::Token { left, .. } => *left,
            Self::Unknown | Self::Free | Self::Members(_) | Self::OtherType => Duration::ZERO,
        }
    }

    fn members(&self) -> &[Member] {
        match self {
            Self::Members(members) => members,
            Self::Unknown | Self::Free | Self::Token { .. } | Self::OtherType => &[],
        }
    }

    /// Returns when the key ends, counted from `since`. Zero if there is no key.
    fn end(&self, since: Instant) -> Instant {
        match self {
            Self::Token { left, .. } => since.saturating_add(*left),
            Self::Unknown | Self::Free | Self::Members(_) | Self::OtherType => Instant::ZERO,
        }
    }
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

    /// Returns the resource.
    pub(super) fn resource(&self) -> &[u8] {
        self.entry.resource()
    }

    /// Forgets the answers of all nodes.
    pub(super) fn look_again(&mut self) {
        self.seen.fill(Seen::Unknown);
    }

    /// Returns `true` if it is known what `node` has.
    pub(super) fn has_seen(&self, node: NodeId) -> bool {
        !matches!(self.seen[node.index()], Seen::Unknown)
    }

    /// Returns the shortest time that is left of a key or a member of a set. A key without an expiry has no end.
    pub(super) fn first_left(&self) -> Option<Duration> {
        let tokens = self.seen.iter().filter(|seen| seen.token().is_some());
        let members = self.seen.iter().flat_map(Seen::members);
        tokens
            .map(Seen::left)
            .chain(members.map(|member| member.left))
            .min()
    }

    /// Returns the nodes of `among` that have `token`.
    fn nodes_with(&self, token: &[u8], among: NodeSet) -> NodeSet {
        among.filter(|node| self.seen[node.index()].token() == Some(token))
    }

    /// Returns the token that `quorum` of the `counted` nodes have, and those nodes.
    fn held(&self, counted: NodeSet, quorum: usize) -> Option<(&[u8], NodeSet)> {
        let tokens = counted
            .iter()
            .filter_map(|node| self.seen[node.index()].token());
        let mut held = tokens.map(|token| (token, self.nodes_with(token, counted)));
        held.find(|(_, nodes)| quorum <= nodes.len())
    }

    /// Returns how much longer a majority keeps the token of the holder. `nodes` are the nodes that have it.
    fn valid_for(&self, left: &[Duration], nodes: NodeSet, cx: &Context<'_>) -> Duration {
        match kept_by_majority(left, nodes, cx.round.tally.quorum()) {
            Duration::MAX => Duration::MAX,
            kept => {
                let end = cx.parts.settings.drift.valid_until(cx.round.sent, kept);
                end.saturating_since(cx.now)
            }
        }
    }

    /// Returns the holders of shared locks or permits that `quorum` of the `counted` nodes have.
    fn members(&self, counted: NodeSet, quorum: usize, cx: &Context<'_>) -> Vec<Holder> {
        let mut all: BTreeMap<_, (NodeSet, Vec<Duration>)> = BTreeMap::new();
        for node in counted.iter() {
            for member in self.seen[node.index()].members() {
                let id = (member.slot, member.token.get().as_bytes());
                let (nodes, left) = all.entry(id).or_default();
                nodes.insert(node);
                left.resize(self.seen.len(), Duration::ZERO);
                left[node.index()] = member.left;
            }
        }
        all.retain(|_, (nodes, _)| quorum <= nodes.len());
        let holder = |((slot, token), (nodes, left)): ((Option<Slot>, _), (_, Vec<_>))| {
            let kind = match slot {
                None => HolderKind::Shared,
                Some(Slot { permits, slot }) => HolderKind::Permit { permits, slot },
            };
            Holder::new(kind, token, self.valid_for(&left, nodes, cx), nodes)
        };
        all.into_iter().map(holder).collect()
    }

    pub(super) fn inspection(&self, cx: &Context<'_>) -> Inspection {
        let (counted, quorum) = (cx.round.tally.yes(), cx.round.tally.quorum());
        let held = self.held(counted, quorum);
        let free = counted.filter(|node| matches!(self.seen[node.index()], Seen::Free));
        let left: Vec<Duration> = self.seen.iter().map(Seen::left).collect();
        let holders = match held {
            Some((token, nodes)) => {
                let valid_for = self.valid_for(&left, nodes, cx);
                vec![Holder::new(HolderKind::Exclusive, token, valid_for, nodes)]
            }
            None => self.members(counted, quorum, cx),
        };
        let held = held.map(|(token, _)| token);
        let nodes = cx.parts.nodes.labels().iter().zip(cx.parts.nodes.ids());
        let nodes = nodes.map(|(address, node)| InspectedNode {
            address: Arc::clone(address),
            found: self.found(node, held, cx.round[node].outcome),
            counts: counted.contains(node),
            token: self.seen[node.index()].token().map(Box::from),
            end: self.seen[node.index()].end(cx.round.sent),
            members: self.ends_of_members(node, cx.round.sent),
        });
        Inspection {
            free: quorum <= free.len(),
            holders: holders.into(),
            nodes: nodes.collect(),
            resource: None,
        }
    }

    /// Returns what `node` has, given the token of the holder in `held`.
    fn found(&self, node: NodeId, held: Option<&[u8]>, outcome: NodeOutcome) -> Found {
        match &self.seen[node.index()] {
            Seen::Unknown => Found::Unknown(outcome),
            Seen::Free => Found::Free,
            Seen::OtherType => Found::OtherType,
            Seen::Members(members) => Found::Several {
                holders: members.len(),
                left: members
                    .iter()
                    .map(|member| member.left)
                    .max()
                    .unwrap_or_default(),
            },
            Seen::Token { token, left } if Some(token.get().as_bytes()) == held => {
                Found::Holder { left: *left }
            }
            Seen::Token { token, left } => Found::Copy {
                owner: token.get().label().into(),
                token: self.number_of(token.get().as_bytes()),
                left: *left,
            },
        }
    }

    /// Returns the holders in the set of `node` and when they end, counted from `since`.
    fn ends_of_members(&self, node: NodeId, since: Instant) -> Box<[InSet]> {
        let members = self.seen[node.index()].members().iter();
        let members = members.map(|member| InSet {
            slot: member.slot,
            token: member.token.get().as_bytes().into(),
            end: since.saturating_add(member.left),
        });
        members.collect()
    }

    /// Returns the index of the first node that has `token`, as a number for that token.
    fn number_of(&self, token: &[u8]) -> usize {
        let same = |seen: &Seen| seen.token() == Some(token);
        self.seen.iter().position(same).unwrap_or_default()
    }
}

impl Operate for Inspect {
    fn begin(&mut self, cx: &mut Context<'_>) {
        if !self.begin_to_watch(cx) {
            return;
        }
        // An answer is useful at any time, so a node gets as much time as for the longest lock.
        let patience = Patience::for_release(Duration::MAX, &cx.parts.settings);
        for node in cx.parts.nodes.ids() {
            cx.round[node].deadline = patience.until(cx.now, &mut cx.parts.nodes[node]);
            Bounds::NONE.leave_out(node, cx);
        }
        self.pending = cx.parts.nodes.set();
        ask_all(self, cx);
        cx.round.arm(&mut cx.parts.timers);
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
        // A node in quarantine has abstained already, and is awaited nevertheless if it can be asked.
        let asked = reached && !matches!(cx.parts.nodes[node].access(), Access::Shut(_));
        if !asked {
            self.pending.remove(node);
        }
        asked
    }

    /// Waits for every node.
    fn judge(&mut self, cx: &mut Context<'_>) {
        if self.pending.is_empty() && self.is_news(cx) {
            cx.round.decide(cx.parts);
        }
    }

    fn tell(&mut self, cx: &mut Context<'_>) -> Option<Event> {
        let too_few = cx.round.tally.yes().len() < cx.round.tally.quorum();
        let result = match too_few && self.watch.is_none() {
            true => Err(InspectError::NoQuorum(cx.report(self))),
            false => Ok(self.inspection(cx)),
        };
        let round = RoundId(cx.round.key);
        Some(Event::Inspected { round, result })
    }

    fn about(&mut self, report: Report, _: &Parts) -> Report {
        report.of_question().about(self.entry.names())
    }

    fn answered(&mut self, node: NodeId, answer: &Answer, cx: &mut Context<'_>) {
        let connection = &mut cx.parts.nodes[node].connection;
        let (token, members) = (connection.token.take(), connection.members.take());
        let is_late = |watch: &mut Box<Watch>| watch.answered(node, answer);
        if self.watch.as_mut().is_some_and(is_late) || !cx.round.asks(node) {
            return; // It took too long, or belongs to an earlier look.
        }
        let seen = match (answer.reply, token, members) {
            (Reply::Again(_), ..) => return ask_one(self, node, cx),
            (Reply::Missing, ..) => Some(Seen::Free),
            (Reply::Foreign(_), ..) => Some(Seen::OtherType),
            (Reply::Kept(left), Some(token), _) => Some(Seen::Token { token, left }),
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

    /// Waits for every node, including those whose answers do not count.
    fn vote(&mut self, node: NodeId, (vote, outcome): (Vote, NodeOutcome), cx: &mut Context<'_>) {
        self.pending.remove(node);
        cx.round.count(cx.now, node, vote, outcome);
        judge_if_voting(self, cx);
    }

    /// Keeps the answer of `node` if only its connection is lost: it was true at that time.
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
            | Change::OtherCluster
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
