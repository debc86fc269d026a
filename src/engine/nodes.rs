//! The nodes: their connections, and what is to be connected, closed and written.
//!
//! # Guarantees
//!
//! * A node has one connection at a time, and the outputs about it come in this order: it is
//!   closed, then opened, then written to.
//! * A silent node is noticed by the timers that are armed here.
//!
//! # Not here
//!
//! What the bytes mean to operations and claims.

pub(super) mod probes;
pub(super) mod turns;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};
use core::time::Duration;

use rand::rngs::StdRng;

use crate::config::Config;
#[cfg(feature = "std")]
use crate::config::NodeConfig;
use crate::error::{LinkFault, NodeOutcome, TrustError};
use crate::limits::NODES_MAX;
use crate::node::{HELLO, Node, Request, Terms, Trouble};
use crate::quorum::{NodeSet, quorum_of};
use crate::time::Instant;

use super::alarm::{Alarm, Timers};
use super::check::outcome_of;
use super::contract::{NodeId, NodeStatus, Output};
use probes::Probes;
use turns::Turns;

/// How long a node in back-off is left alone also when a majority is not there.
const RECONNECT_EARLY_AFTER: Duration = Duration::from_millis(250);

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Nodes {
    all: Box<[Node]>,
    labels: Box<[Arc<str>]>,
    /// Nodes for which a connection is to be opened, closed, or written to.
    to_connect: NodeSet,
    to_disconnect: NodeSet,
    to_write: NodeSet,
    probes: Probes,
    turns: Turns,
    connect_timeout: Duration,
    dead_after: Duration,
}

/// The result of a check for silence.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Silence {
    /// It has answered, or its time is not up.
    Short,
    /// It is suspect from now on.
    Suspect,
    /// Its connection is to be given up.
    Dead,
}

impl Nodes {
    pub(super) fn new(config: &Config) -> Self {
        let nodes = config.nodes().iter();
        Self {
            all: nodes.clone().map(|node| Node::new(config, node)).collect(),
            labels: nodes.map(|node| Arc::clone(node.label())).collect(),
            to_connect: NodeSet::EMPTY,
            to_disconnect: NodeSet::EMPTY,
            to_write: NodeSet::EMPTY,
            probes: Probes::default(),
            turns: Turns::new(config),
            connect_timeout: config.connect_timeout(),
            dead_after: config.dead_after(),
        }
    }

    // ----- what they are --------------------------------------------------------------------

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns how many of them are a majority.
    pub(super) fn quorum(&self) -> usize {
        quorum_of(self.all.len())
    }

    pub(super) fn set(&self) -> NodeSet {
        NodeSet::first(self.all.len())
    }

    /// Returns them all, in the order of the configuration.
    pub(super) fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        NodeId::first(self.all.len())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.all.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Node> {
        self.all.iter_mut()
    }

    #[cfg(any(feature = "std", feature = "internals", test))]
    pub(super) fn get(&self, node: NodeId) -> Option<&Node> {
        self.all.get(node.index())
    }

    pub(super) fn labels(&self) -> &[Arc<str>] {
        &self.labels
    }

    /// Returns the node that was configured as `address`, with or without credentials.
    #[cfg(feature = "std")]
    pub(super) fn at(&self, address: &str) -> Option<NodeId> {
        let parsed = address.parse::<NodeConfig>().ok();
        let is = |label: &Arc<str>| {
            **label == *address || parsed.as_ref().is_some_and(|node| node.label() == label)
        };
        let node = self.labels.iter().position(is)?;
        Some(NodeId::new(node))
    }

    /// Returns how each stands at `now`. Whether it lacks a floor `lacks_floor` knows.
    pub(super) fn statuses(
        &self,
        now: Instant,
        lacks_floor: impl Fn(NodeId) -> bool,
    ) -> impl Iterator<Item = NodeStatus> {
        let nodes = self.ids().zip(&self.labels).zip(&self.all);
        nodes.map(move |((id, label), node)| NodeStatus {
            address: Arc::clone(label),
            state: node.state(now),
            words: node.words_of(outcome_of(now, node.state(now))).cloned(),
            run_id: node.run_id().map(Into::into),
            product: node
                .identity()
                .and_then(|identity| identity.product.clone()),
            round_trip: node.pulse.round_trip(),
            grants: node.grants,
            in_flight: node.in_flight(),
            owed: node.debts.len(),
            clock_steps: node.clock.steps(),
            evicts_locks: node
                .identity()
                .is_some_and(|identity| identity.evicts_locks),
            memory_percent: node.identity().and_then(|identity| identity.memory_percent),
            waking: node.waking(),
            releasing: node.releasing(),
            uptime: node.uptime(now),
            marked_ttl: node.marked_ttl(),
            barrier: node.barrier(now),
            lacks_floor: lacks_floor(id),
        })
    }

    /// Returns the nodes whose answers about a claim do not count. On the nodes in `sure` its copies are older than
    /// any step of the clock.
    pub(super) fn quarantined(&self, now: Instant, sure: NodeSet) -> NodeSet {
        let kept = |node: NodeId| {
            guard!(QuarantinedHandedOver, self[node].kept_until(now).is_some())
                && !self.is_older_than_steps(now, node, sure.contains(node))
        };
        self.set().filter(kept)
    }

    /// Returns `true` if the answer of `node` counts for a claim, though it does not for others: its clock was
    /// stepped, and the copy `is_sure` to be older than that.
    pub(super) fn is_older_than_steps(&self, now: Instant, node: NodeId, is_sure: bool) -> bool {
        is_sure && self[node].counts_but_for_steps(now)
    }

    /// The steps of their clocks may add up to that.
    #[cold]
    pub(super) fn allow_steps(&mut self, steps: Duration) {
        for node in &mut self.all {
            node.clock.allow(steps);
        }
    }

    /// Returns for how long, by our clock, `nodes` keep a key for `ttl` by theirs, of which one that was seen to be set may
    /// be slewed as time daemons do: by 83,333 parts in a million.
    pub(super) fn unless_slewed(&self, now: Instant, nodes: NodeSet, ttl: Duration) -> Duration {
        let mut nodes = nodes.iter();
        match nodes.any(|node| self[node].is_kept_by_steps(now)) {
            true => ttl.saturating_sub(ttl / 12),
            false => ttl,
        }
    }

    /// Returns `true` if none is connected, and a majority was until its server closed the connection: idle for too
    /// long, most likely.
    #[cold]
    pub(super) fn were_closed(&self) -> bool {
        let closed = |node: &&Node| {
            let trouble = node.trouble();
            matches!(trouble, Trouble::Link(LinkFault::Closed | LinkFault::Reset))
        };
        let closed = self.all.iter().filter(closed).count();
        self.all.iter().all(|node| !node.is_ready()) && quorum_of(self.all.len()) <= closed
    }

    /// Returns how many are connected and answer, whether or not they vote.
    pub(super) fn answering(&self) -> usize {
        let answers = |node: &&Node| node.is_ready() && !node.pulse.is_suspect();
        self.all.iter().filter(answers).count()
    }

    /// Returns how long a majority usually takes to answer: the round trip of the slowest of the
    /// fastest that are one.
    pub(super) fn round_trip(&self) -> Duration {
        let mut known = [Duration::MAX; NODES_MAX];
        let mut len = 0;
        for node in self
            .all
            .iter()
            .filter(|node| node.pulse.round_trip().is_some())
        {
            known[len] = node.pulse.distance();
            len += 1;
        }
        let known = &mut known[..len];
        known.sort_unstable();
        let slowest = known.get(self.quorum() - 1).or(known.last());
        slowest.copied().unwrap_or_default()
    }

    // ----- the same server under several names ----------------------------------------------

    /// Returns another ready node that is the same process.
    pub(super) fn twin_of(&self, node: NodeId) -> Option<NodeId> {
        let own = self[node].run_id()?;
        self.ids().find(|&other| {
            let there = &self[other];
            other != node && there.is_ready() && guard!(TwinVotes, there.run_id() == Some(own))
        })
    }

    /// Returns the other names of the server behind `node`.
    pub(super) fn other_names(&self, node: NodeId) -> NodeSet {
        let guard = &self[node].guard;
        let same = |other: NodeId| other != node && self[other].guard.is_of(guard);
        self.set().filter(same)
    }

    /// A server that is configured under several names has one quarantine for all of them: the
    /// longest that any of them knows, and the alarm of each. A name that is connected has already
    /// served its own. If the quarantine has to be passed on (an alarm always; any quarantine where
    /// there are markers, because no change of identity shows it), returns the names to pass it to,
    /// and its end.
    pub(super) fn share_quarantine(
        &mut self,
        now: Instant,
        node: NodeId,
        terms: Terms,
        told: bool,
    ) -> Option<(NodeSet, Instant)> {
        let present = self.other_names(node);
        self.note_names(node, present);
        for other in self[node].guard.names.iter() {
            if other != node {
                let same = present.contains(other);
                let until = self[other].guard.hand_on(now, terms, same);
                self[node].guard.keep_until(until);
            }
        }
        let until = self[node].guard.until(now).filter(|_| told)?;
        let names = self.other_names(node);
        for other in names.iter() {
            self[other].guard.keep_until(Some(until));
        }
        Some((names, until))
    }

    /// Records for all names of the server behind `node` that they lead to the same server: the
    /// present names, and earlier ones.
    fn note_names(&mut self, node: NodeId, present: NodeSet) {
        let mut names = self[node].guard.names.union(present);
        names.insert(node);
        for other in present.iter() {
            names = names.union(self[other].guard.names);
        }
        for name in names.iter() {
            self[name].guard.names = names;
        }
    }

    /// Trusts the server with this `run_id` behind `node`, under any of its names. Returns `true`
    /// if it did not vote until now.
    pub(super) fn trust(
        &mut self,
        now: Instant,
        node: NodeId,
        run_id: &str,
        longest: Duration,
    ) -> Result<bool, TrustError> {
        let there = self
            .all
            .get_mut(node.index())
            .ok_or(TrustError::UnknownNode)?;
        let kept = there.trust(now, run_id, longest)?;
        self.to_write.insert(node);
        for other in self.other_names(node).iter() {
            self[other].guard.trust();
        }
        Ok(kept)
    }

    // ----- connections ----------------------------------------------------------------------

    /// Asks for a connection to `node`, which has none.
    pub(super) fn connect(&mut self, now: Instant, node: NodeId, timers: &mut Timers) {
        self[node].connecting(now);
        self.to_connect.insert(node);
        let limit = now.saturating_add(self.connect_timeout);
        self.arm_connection(node, limit, timers);
    }

    fn arm_connection(&mut self, node: NodeId, at: Instant, timers: &mut Timers) {
        let timer = timers.insert(at, Alarm::Connection(node));
        if let Some((before, _)) = self[node].connection_timer.replace((timer, at)) {
            timers.cancel(before);
        }
    }

    /// Returns `true` if nothing that is said of a connection to `node` can be about the next one, of
    /// which the driver has not heard yet.
    fn is_present(&self, node: NodeId) -> bool {
        !self.to_connect.contains(node)
    }

    pub(super) fn connected(&mut self, now: Instant, node: NodeId) {
        if self.is_present(node) && self[node].connected(now) {
            self.probes.close(node);
            self.to_write.insert(node);
        }
    }

    /// Returns `true` if `node` has a connection that can have been lost.
    pub(super) fn has_link(&self, node: NodeId) -> bool {
        self[node].has_link() && self.is_present(node)
    }

    /// Returns what a question to each node would come to now: `Granted` where it can be asked and its
    /// answer counts.
    pub(super) fn outcomes(&self, now: Instant) -> impl ExactSizeIterator<Item = NodeOutcome> {
        self.all
            .iter()
            .map(move |node| outcome_of(now, node.state(now)))
    }

    /// Returns `node`, which may have something to write from now on.
    pub(super) fn writing_to(&mut self, node: NodeId) -> &mut Node {
        self.to_write.insert(node);
        &mut self[node]
    }

    /// The connection to `node`, or the attempt to open one, is to be closed.
    pub(super) fn close(&mut self, node: NodeId) {
        if self.is_present(node) {
            self.to_disconnect.insert(node);
        }
    }

    /// The connection to `node` is gone. Returns what was asked over it, and whether that may have
    /// left; and how long to wait before the next one.
    pub(super) fn lost(
        &mut self,
        now: Instant,
        node: NodeId,
        trouble: Trouble,
        random: &mut StdRng,
    ) -> (Vec<(Request, bool)>, Duration) {
        self.to_connect.remove(node);
        self.to_write.remove(node);
        self.probes.close(node);
        let there = &mut self[node];
        let delay = there.delay(now, random);
        (there.disconnected(trouble), delay)
    }

    /// Connects to `node` again after `delay`.
    pub(super) fn connect_again(
        &mut self,
        now: Instant,
        node: NodeId,
        delay: Duration,
        timers: &mut Timers,
    ) {
        self[node].waiting.clear();
        if delay.is_zero() {
            self.connect(now, node, timers);
        } else {
            self.arm_connection(node, now.saturating_add(delay), timers);
        }
    }

    /// The timer of a connection has fired. Returns `true` if the connection is to be given up.
    pub(super) fn connection_due(
        &mut self,
        now: Instant,
        node: NodeId,
        timers: &mut Timers,
    ) -> bool {
        self[node].connection_timer = None;
        // One that the driver was not asked for yet, because it was stopped, is not late.
        let late = self.has_link(node);
        if !late {
            self.connect(now, node, timers);
        }
        late
    }

    /// The handshake of `node` is done.
    pub(super) fn handshake_done(&mut self, node: NodeId, timers: &mut Timers) {
        if let Some((timer, _)) = self[node].connection_timer.take() {
            timers.cancel(timer);
        }
    }

    /// Called when an operation needs the nodes: connects to nodes in back-off too, 250 ms after each was last tried,
    /// while the nodes that are ready are no majority.
    pub(super) fn reconnect_early(&mut self, now: Instant, timers: &mut Timers) {
        if self.quorum() <= self.answering() {
            return;
        }
        self.watch_lines(now, timers);
        // A connection that is being opened is no vote yet, and may never be.
        let ready = self.all.iter().filter(|node| node.is_ready()).count();
        if self.quorum() <= ready {
            return;
        }
        for node in self.ids() {
            if let Some((_, due)) = self[node].connection_timer
                && guard!(NeverReconnectsEarly, !self[node].has_link())
            {
                let at = self[node].tried_at().saturating_add(RECONNECT_EARLY_AFTER);
                if at <= now {
                    self.connect(now, node, timers);
                } else if at < due {
                    self.arm_connection(node, at, timers);
                }
            }
        }
    }

    // ----- silence --------------------------------------------------------------------------

    /// One turn has read everything there was: arms the timers of the nodes that owe answers.
    pub(super) fn listen(&mut self, now: Instant, timers: &mut Timers) {
        for node in self.ids() {
            self.listen_to(now, node, timers);
        }
    }

    /// The timer is not cancelled by an answer but looks again when it fires, so that steady traffic
    /// leaves the wheel alone. Only one that would fire too late, because it was armed for the end of
    /// an earlier silence, is armed again.
    fn listen_to(&mut self, now: Instant, node: NodeId, timers: &mut Timers) {
        let there = &mut self.all[node.index()];
        let Some(since) = there.listen(now) else {
            return;
        };
        let patience = there.patience().min(self.dead_after);
        let at = since.saturating_add(match there.pulse.is_suspect() {
            true => self.dead_after,
            false => patience,
        });
        if there.silence_timer.is_none_or(|(_, armed)| at < armed) {
            self.arm_silence(node, at, timers);
        }
    }

    fn arm_silence(&mut self, node: NodeId, at: Instant, timers: &mut Timers) {
        let timer = timers.insert(at, Alarm::Silence(node));
        if let Some((before, _)) = self[node].silence_timer.replace((timer, at)) {
            timers.cancel(before);
        }
    }

    /// The timer of a silence has fired.
    pub(super) fn silence_due(
        &mut self,
        now: Instant,
        node: NodeId,
        timers: &mut Timers,
    ) -> Silence {
        let there = &mut self.all[node.index()];
        there.silence_timer = None;
        let Some(since) = there.pulse.silent_since() else {
            return Silence::Short;
        };
        let suspect_at = since.saturating_add(there.patience().min(self.dead_after));
        let dead_at = since.saturating_add(self.dead_after);
        if dead_at <= now {
            return Silence::Dead;
        }
        if suspect_at <= now {
            there.pulse.suspect();
            self.arm_silence(node, dead_at, timers);
            return Silence::Suspect;
        }
        self.arm_silence(node, suspect_at, timers);
        Silence::Short
    }

    // ----- what is to be done ---------------------------------------------------------------

    /// Returns `true` if a connection is to be opened, closed or written to.
    pub(super) fn is_anything_due(&self) -> bool {
        !self.changes().is_empty()
            || self.to_write.iter().any(|node| self[node].is_to_write())
            || self.turns.is_any(&self.all)
    }

    /// Returns when renewals have waited for long enough for the turn of their node.
    pub(super) fn turn_at(&self) -> Option<Instant> {
        self.turns.next_at(&self.all)
    }

    /// Returns the nodes for whose turn no renewals wait.
    pub(super) fn without_waiting(&self) -> NodeSet {
        let waits = |node: NodeId| self[node].waiting_since().is_some();
        self.set().without(self.set().filter(waits))
    }

    /// Returns the next connection that is to be closed or opened.
    #[inline]
    pub(super) fn next_change(&mut self) -> Option<Output<'static>> {
        match self.changes().is_empty() {
            true => None,
            false => self.take_change(),
        }
    }

    /// Returns the nodes to which a connection is to be opened or closed.
    fn changes(&self) -> NodeSet {
        let probes = self.probes.to_open.union(self.probes.to_close);
        self.to_connect.union(self.to_disconnect).union(probes)
    }

    #[cold]
    #[inline(never)]
    fn take_change(&mut self) -> Option<Output<'static>> {
        if let Some(node) = self.probes.to_close.take_first() {
            return Some(Output::CloseProbe { node });
        }
        if let Some(node) = self.to_disconnect.take_first() {
            return Some(Output::Disconnect { node });
        }
        if let Some(node) = self.to_connect.take_first() {
            return Some(Output::Connect { node });
        }
        let node = self.probes.to_open.take_first()?;
        Some(Output::Probe { node, bytes: HELLO })
    }

    /// Returns the next node that has bytes to write. Renewals wait for the turn of their node.
    #[inline(always)]
    pub(super) fn next_to_write(&mut self, now: Instant) -> Option<NodeId> {
        while let Some(node) = self.to_write.first_node() {
            let there = &self[node];
            let is_to_write = match there.is_to_renew() {
                true => self.turns.writes_beside(node, &mut self.all),
                false => there.is_to_write(),
            };
            if is_to_write {
                return Some(node);
            }
            self.to_write.remove(node);
        }
        self.turns.next(now, &mut self.all)
    }

    /// Returns what is to be written to `node`.
    pub(super) fn write(&mut self, now: Instant, node: NodeId) -> Option<Output<'_>> {
        self.to_write.remove(node);
        let bytes = self[node].offer(now)?;
        Some(Output::Transmit { node, bytes })
    }
}

impl Index<NodeId> for Nodes {
    type Output = Node;

    fn index(&self, node: NodeId) -> &Node {
        &self.all[node.index()]
    }
}

impl IndexMut<NodeId> for Nodes {
    fn index_mut(&mut self, node: NodeId) -> &mut Node {
        &mut self.all[node.index()]
    }
}
