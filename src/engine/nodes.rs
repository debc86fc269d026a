//! The nodes: their connections, and which connections the driver must open, close or write to.
//!
//! # Guarantees
//!
//! * A node has one connection at a time. The driver closes the old connection first, then opens the new connection,
//!   then writes to it.
//! * The timers in this file detect silent nodes.
//!
//! # Not here
//!
//! Other files decide what the bytes mean for operations and claims.

mod names;
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
use crate::error::{LinkFault, NodeOutcome};
use crate::limits::NODES_MAX;
use crate::node::{HELLO, Node, Request, Trouble};
use crate::quorum::{NodeSet, quorum_of};
use crate::time::Instant;

use super::alarm::{Alarm, Timers};
use super::check::outcome_of;
use super::contract::{NodeId, NodeStatus, Output};
use probes::Probes;
use turns::Turns;

/// The minimum time between two connection attempts to a node in back-off, even without a majority.
const RECONNECT_EARLY_AFTER: Duration = Duration::from_millis(250);

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Nodes {
    all: Box<[Node]>,
    labels: Box<[Arc<str>]>,
    /// The nodes whose connection must be opened, closed, or written to.
    to_connect: NodeSet,
    to_disconnect: NodeSet,
    to_write: NodeSet,
    probes: Probes,
    turns: Turns,
    connect_timeout: Duration,
    dead_after: Duration,
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

    // ----- getters ----------------------------------------------------------------------------

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the number of nodes in a majority.
    pub(crate) fn quorum(&self) -> usize {
        quorum_of(self.all.len())
    }

    pub(super) fn set(&self) -> NodeSet {
        NodeSet::first(self.all.len())
    }

    /// Returns all nodes, in the order of the configuration.
    pub(super) fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        NodeId::first(self.all.len())
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Node> {
        self.all.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Node> {
        self.all.iter_mut()
    }

    #[cfg(feature = "internals")]
    pub(crate) fn get(&self, node: NodeId) -> Option<&Node> {
        self.all.get(node.index())
    }

    pub(super) fn labels(&self) -> &[Arc<str>] {
        &self.labels
    }

    /// Returns the node that was configured as `address`, with or without credentials.
    #[cfg(feature = "std")]
    pub(crate) fn at(&self, address: &str) -> Option<NodeId> {
        let parsed = address.parse::<NodeConfig>().ok();
        let is = |label: &Arc<str>| {
            **label == *address || parsed.as_ref().is_some_and(|node| node.label() == label)
        };
        let node = self.labels.iter().position(is)?;
        Some(NodeId::new(node))
    }

    /// Returns the status of each node at `now`. `lacks_floor` says whether a node has no counter floor.
    pub(super) fn statuses(
        &self,
        now: Instant,
        lacks_floor: impl Fn(NodeId) -> bool,
    ) -> impl Iterator<Item = NodeStatus> {
        let nodes = self.ids().zip(&self.labels).zip(&self.all);
        nodes.map(move |((id, label), node)| {
            let identity = node.handshake.identity();
            let membership = node.trust.membership();
            let state = node.state(now);
            let words = node.words_of(outcome_of(now, state));
            NodeStatus {
                address: Arc::clone(label),
                state,
                words: words.cloned(),
                run_id: node.handshake.run_id().map(Into::into),
                product: identity.and_then(|identity| identity.product.clone()),
                round_trip: node.connection.pulse.round_trip(),
                grants: node.grants,
                refused: node.handshake.refused(node.grants),
                in_flight: node.connection.in_flight(),
                debts: node.debts.len(),
                clock_steps: node.trust.clock.steps(),
                evicts_locks: identity.is_some_and(|identity| identity.evicts_locks),
                memory_percent: identity.and_then(|identity| identity.memory_percent),
                waking: node.connection.wire.waking,
                releasing: node.abilities.releasing(),
                uptime: node.handshake.uptime(now),
                marked_ttl: membership.and_then(|there| there.marked_ttl()),
                barrier: membership.and_then(|there| there.barrier_left(now)),
                lacks_floor: lacks_floor(id),
            }
        })
    }

    /// Returns the nodes whose answers about a claim do not count. `sure` contains the nodes that got the token before
    /// any step of their clocks.
    pub(super) fn quarantined(&self, now: Instant, sure: NodeSet) -> NodeSet {
        let kept = |node: NodeId| {
            let until = self[node].trust.kept_until_about(now, sure.contains(node));
            guard!(QuarantinedHandedOver, until.is_some())
        };
        self.set().filter(kept)
    }

    /// Sets how far the clock of each node may step in total before the node's answers stop counting.
    #[cold]
    pub(super) fn allow_steps(&mut self, steps: Duration) {
        for node in &mut self.all {
            node.trust.clock.allow(steps);
        }
    }

    /// Returns how long `nodes` keep a key with this `ttl`, as measured by the engine's clock. After a clock step, a
    /// time daemon may still be slewing the clock, by up to 83,333 parts per million.
    pub(super) fn unless_slewed(&self, now: Instant, nodes: NodeSet, ttl: Duration) -> Duration {
        let mut nodes = nodes.iter();
        match nodes.any(|node| self[node].trust.is_kept_by_steps(now)) {
            true => ttl.saturating_sub(ttl / 12),
            false => ttl,
        }
    }

    /// Returns `true` if no node is connected, and the servers of a majority have closed their connections. Servers
    /// usually close connections that were idle for too long.
    #[cold]
    pub(super) fn were_closed(&self) -> bool {
        let closed = |node: &&Node| {
            let trouble = node.handshake.trouble;
            matches!(trouble, Trouble::Link(LinkFault::Closed | LinkFault::Reset))
        };
        let closed = self.all.iter().filter(closed).count();
        let none = self.all.iter().all(|node| !node.handshake.is_ready());
        none && quorum_of(self.all.len()) <= closed
    }

    /// Returns the nodes that are connected and answer, whether or not they vote.
    fn all_answering(&self) -> impl Iterator<Item = &Node> {
        let answers =
            |node: &&Node| node.handshake.is_ready() && !node.connection.pulse.is_suspect();
        self.all.iter().filter(answers)
    }

    /// Returns the number of nodes that are connected and answer, whether or not they vote.
    pub(super) fn answering(&self) -> usize {
        self.all_answering().count()
    }

    /// Returns the largest number of unanswered commands of any node.
    #[cfg(feature = "std")]
    pub(crate) fn most_in_flight(&self) -> usize {
        self.all
            .iter()
            .map(|node| node.connection.in_flight())
            .max()
            .unwrap_or(0)
    }

    /// Returns how long a majority usually takes to answer: the round trip of the slowest node in the fastest majority.
    pub(super) fn round_trip(&self) -> Duration {
        let mut known = [Duration::MAX; NODES_MAX];
        let mut len = 0;
        for node in self
            .all
            .iter()
            .filter(|node| node.connection.pulse.round_trip().is_some())
        {
            known[len] = node.connection.pulse.distance();
            len += 1;
        }
        let known = &mut known[..len];
        known.sort_unstable();
        let slowest = known.get(self.quorum() - 1).or(known.last());
        slowest.copied().unwrap_or_default()
    }

    // ----- connections ----------------------------------------------------------------------

    /// Requests a connection to `node`, which must not have one.
    pub(super) fn connect(&mut self, now: Instant, node: NodeId, timers: &mut Timers) {
        self[node].handshake.connecting(now);
        self.to_connect.insert(node);
        let limit = now.saturating_add(self.connect_timeout);
        self.arm_connection(node, limit, timers);
    }

    fn arm_connection(&mut self, node: NodeId, at: Instant, timers: &mut Timers) {
        let timer = timers.insert(at, Alarm::Connection(node));
        if let Some((before, _)) = self[node].handshake.timer.replace((timer, at)) {
            timers.cancel(before);
        }
    }

    /// Returns `false` while the driver does not know yet that it must open a connection to `node`. While the result is
    /// `false`, the driver still reports about an earlier connection.
    fn is_present(&self, node: NodeId) -> bool {
        !self.to_connect.contains(node)
    }

    pub(super) fn connected(&mut self, now: Instant, node: NodeId) {
        if self.is_present(node) && self[node].connected(now) {
            self.probes.close(node);
            self.to_write.insert(node);
        }
    }

    /// Returns `true` if the driver has a connection to `node`, or is opening one.
    pub(super) fn has_link(&self, node: NodeId) -> bool {
        self[node].handshake.has_link() && self.is_present(node)
    }

    /// Returns the outcome that a question to each node would have now. The outcome is `Granted` if the node can be
    /// asked and its answer counts.
    pub(super) fn outcomes(&self, now: Instant) -> impl ExactSizeIterator<Item = NodeOutcome> {
        self.all
            .iter()
            .map(move |node| outcome_of(now, node.state(now)))
    }

    /// Returns `node`, and records that it has bytes to write.
    pub(super) fn writing_to(&mut self, node: NodeId) -> &mut Node {
        self.to_write.insert(node);
        &mut self[node]
    }

    /// Requests that the connection to `node` is closed, even if it is still being opened.
    pub(super) fn close(&mut self, node: NodeId) {
        if self.is_present(node) {
            self.to_disconnect.insert(node);
        }
    }

    /// Handles the loss of the connection to `node`. Returns the requests on the connection, each with `true` if any
    /// part of it may have been sent, and the delay before the next connection.
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
        let delay = there.handshake.delay(now, random);
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
        self[node].connection.waiting.clear();
        if delay.is_zero() {
            self.connect(now, node, timers);
        } else {
            self.arm_connection(node, now.saturating_add(delay), timers);
        }
    }

    /// Handles the timer of a connection. Returns a reason if the connection must be closed.
    pub(super) fn connection_due(
        &mut self,
        now: Instant,
        node: NodeId,
        timers: &mut Timers,
    ) -> Option<Trouble> {
        self[node].handshake.timer = None;
        // Opens a connection if the back-off is over. Also requests the connection again if the driver has not seen the
        // first request, for example because its thread was stopped.
        let late = self.has_link(node);
        if !late {
            self.connect(now, node, timers);
            return None;
        }
        let late = match self[node].handshake.lacks_credentials() {
            true => LinkFault::Credentials,
            false => LinkFault::ConnectTimeout,
        };
        Some(Trouble::Link(late))
    }

    /// Records that the handshake of `node` is done.
    pub(super) fn handshake_done(&mut self, node: NodeId, timers: &mut Timers) {
        if let Some((timer, _)) = self[node].handshake.timer.take() {
            timers.cancel(timer);
        }
    }

    /// Reconnects early when an operation needs the nodes. While the ready nodes are not a majority, also connects to
    /// nodes in back-off, 250 ms after each node's last connection attempt.
    pub(super) fn reconnect_early(&mut self, now: Instant, timers: &mut Timers) {
        if self.all_answering().nth(self.quorum() - 1).is_some() {
            return;
        }
        self.watch_lines(now, true, timers);
        // Counts only ready nodes, because a connection that is being opened may never become ready.
        let is_ready = |node: &&Node| node.handshake.is_ready();
        if self.quorum() <= self.all.iter().filter(is_ready).count() {
            return;
        }
        for node in self.ids() {
            let there = &self[node].handshake;
            if let Some((_, due)) = there.timer
                && guard!(NeverReconnectsEarly, !there.has_link())
            {
                let at = there.tried_at.saturating_add(RECONNECT_EARLY_AFTER);
                if at <= now {
                    self.connect(now, node, timers);
                } else if at < due {
                    self.arm_connection(node, at, timers);
                }
            }
        }
    }

    // ----- silence --------------------------------------------------------------------------

    /// Sets the timers of the nodes that have commands to answer. Before this call, the driver must read all bytes that
    /// have arrived.
    pub(super) fn listen(&mut self, now: Instant, timers: &mut Timers) {
        for node in self.ids() {
            self.listen_to(now, node, timers);
        }
    }

    /// Sets the silence timer of `node` if the node has commands to answer. An answer does not cancel the timer, so
    /// that steady traffic does not touch the timer wheel. When the timer fires, the engine checks for silence again.
    /// If the timer is already set, it is changed only if it would fire too late.
    fn listen_to(&mut self, now: Instant, node: NodeId, timers: &mut Timers) {
        let there = &mut self.all[node.index()];
        let Some(since) = there.connection.listen(now) else {
            return;
        };
        let patience = there.connection.patience().min(self.dead_after);
        let at = since.saturating_add(match there.connection.pulse.is_suspect() {
            true => self.dead_after,
            false => patience,
        });
        let armed = there.connection.silence_timer;
        if armed.is_none_or(|(_, armed)| at < armed) {
            self.arm_silence(node, at, timers);
        }
    }

    fn arm_silence(&mut self, node: NodeId, at: Instant, timers: &mut Timers) {
        let timer = timers.insert(at, Alarm::Silence(node));
        if let Some((before, _)) = self[node].connection.silence_timer.replace((timer, at)) {
            timers.cancel(before);
        }
    }

    /// Handles the timer for a silent node. Returns a reason if the connection must be closed. For `wanted`,
    /// see [`watch_lines`](Self::watch_lines).
    pub(super) fn silence_due(
        &mut self,
        now: Instant,
        node: NodeId,
        wanted: bool,
        timers: &mut Timers,
    ) -> Option<Trouble> {
        let there = &mut self.all[node.index()];
        there.connection.silence_timer = None;
        let since = there.connection.pulse.silent_since()?;
        let suspect_at = since.saturating_add(there.connection.patience().min(self.dead_after));
        let dead_at = since.saturating_add(self.dead_after);
        if dead_at <= now {
            return Some(Trouble::Link(LinkFault::Silent));
        }
        if suspect_at <= now {
            there.connection.pulse.suspect();
            self.arm_silence(node, dead_at, timers);
            self.watch_lines(now, wanted, timers);
        } else {
            self.arm_silence(node, suspect_at, timers);
        }
        None
    }

    // ----- outputs ----------------------------------------------------------------------------

    /// Returns `true` if a connection must be opened, closed or written to.
    pub(super) fn is_anything_due(&self) -> bool {
        let is_to_write = |node: NodeId| self[node].connection.wire.is_to_write();
        !self.changes().is_empty()
            || self.to_write.iter().any(is_to_write)
            || self.turns.is_any(&self.all)
    }

    /// Returns the time at which waiting renewals are written even if it is not their node's turn.
    pub(super) fn turn_at(&self) -> Option<Instant> {
        self.turns.next_at(&self.all)
    }

    /// Returns the nodes for which no renewals wait.
    pub(super) fn without_waiting(&self) -> NodeSet {
        let waits = |node: NodeId| self[node].connection.wire.waiting_since().is_some();
        self.set().without(self.set().filter(waits))
    }

    /// Returns the next connection to close or open.
    #[inline]
    pub(super) fn next_change(&mut self) -> Option<Output<'static>> {
        match self.changes().is_empty() {
            true => None,
            false => self.take_change(),
        }
    }

    /// Returns the nodes with a connection or probe to open or close.
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

    /// Returns the next node with bytes to write. Renewals are written only in their node's turn.
    #[inline(always)]
    pub(super) fn next_to_write(&mut self, now: Instant) -> Option<NodeId> {
        while let Some(node) = self.to_write.first_node() {
            let there = &self[node];
            let is_to_write = match there.connection.wire.is_to_renew() {
                true => self.turns.writes_beside(node, &mut self.all),
                false => there.connection.wire.is_to_write(),
            };
            if is_to_write {
                return Some(node);
            }
            self.to_write.remove(node);
        }
        self.turns.next(now, &mut self.all)
    }

    /// Returns the bytes to write to `node`.
    pub(super) fn write(&mut self, now: Instant, node: NodeId) -> Option<Output<'_>> {
        self.to_write.remove(node);
        let bytes = self[node].connection.wire.offer(now)?;
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
