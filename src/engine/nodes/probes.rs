//! Probes: the engine uses a second connection to check whether the server behind a silent connection is alive.
//!
//! When packets are lost, a connection stalls until TCP sends them again. If an outage lasts a few seconds, the
//! connection stalls for several seconds more. While no majority answers, each silent node gets a probe every 250 ms: a
//! second connection that carries only `HELLO`. An answer to the probe shows that the server and the network work. If
//! the server process is stopped, its kernel still accepts the connection, but no answer comes. If the probe is
//! answered and the old connection stays silent, the engine resets the old connection and opens a new one.
//!
//! # Guarantees
//!
//! * **Order.** The probe never becomes the connection of its node. The engine first resets the old connection, then
//!   requests a new connection, and sends overdue releases on it before any `SET`.
//! * **Only if needed.** The engine probes an open connection only while an operation is open or a token may be on some
//!   node. While a connection is being opened, the engine probes its node only if an operation is open.
//! * **At a low rate.** The engine probes a node at most every 250 ms, and a distant node less often. If the new
//!   connection brings no answer to a lock command either, the time until the next probe doubles.

use core::time::Duration;

use crate::keys::NodeId;
use crate::node::Trouble;
use crate::quorum::NodeSet;
use crate::time::Instant;
use crate::timer::TimerKey;

use super::Nodes;
use crate::engine::alarm::{Alarm, Timers};

/// The time without a majority after which the engine probes nodes, and the time between two probes.
pub(in crate::engine) const PROBE_AGAIN: Duration = Duration::from_millis(250);

/// The probes of an engine.
#[derive(Debug, Default)]
pub(super) struct Probes {
    /// The nodes that have a probe.
    open: NodeSet,
    /// The nodes whose probe the driver must open or close.
    pub(super) to_open: NodeSet,
    pub(super) to_close: NodeSet,
    timer: Option<TimerKey>,
}

impl Probes {
    /// Closes the probe of `node`, if the node has one.
    pub(super) fn close(&mut self, node: NodeId) {
        if self.open.remove(node) && !self.to_open.remove(node) {
            self.to_close.insert(node);
        }
    }

    fn open(&mut self, node: NodeId) {
        self.open.insert(node);
        self.to_open.insert(node);
        self.to_close.remove(node); // Opening a probe closes an older one.
    }
}

impl Nodes {
    /// Closes the probe of `node`, which has answered.
    pub(in crate::engine) fn close_probe(&mut self, node: NodeId) {
        self.probes.close(node);
    }

    /// Sets the timer of the probes if no majority answers and the nodes are needed (`wanted`): an operation is open,
    /// or a token may be on some node.
    pub(in crate::engine) fn watch_lines(
        &mut self,
        now: Instant,
        wanted: bool,
        timers: &mut Timers,
    ) {
        if wanted && self.probes.timer.is_none() && self.answering() < self.quorum() {
            let at = now.saturating_add(PROBE_AGAIN);
            self.probes.timer = Some(timers.insert(at, Alarm::Lines));
        }
    }

    /// Handles the timer of the probes, which was set because no majority answered. `asked` is `true` if an operation
    /// is open.
    pub(in crate::engine) fn lines_due(
        &mut self,
        now: Instant,
        wanted: bool,
        asked: bool,
        timers: &mut Timers,
    ) {
        self.probes.timer = None;
        self.watch_lines(now, wanted, timers);
        let lacking = self.probes.timer.is_some();
        for node in self.ids() {
            match lacking {
                true => self.look_at_line(now, node, asked, timers),
                false => self.probes.close(node),
            }
        }
    }

    /// If the connection of `node` is silent, opens another probe. If the node is in back-off, opens a connection
    /// instead.
    fn look_at_line(&mut self, now: Instant, node: NodeId, asked: bool, timers: &mut Timers) {
        let there = &self[node];
        let before = now.saturating_sub(PROBE_AGAIN);
        if there.handshake.is_down_since(before) {
            if asked && matches!(there.handshake.trouble, Trouble::Link(_)) {
                self.connect(now, node, timers);
            }
        } else if (asked || there.handshake.is_ready()) && there.is_to_be_probed(now, PROBE_AGAIN) {
            self.probes.open(node);
        } else {
            self.probes.close(node);
        }
    }

    /// Handles an answer to the probe of `node`. Returns `true` if the node's connection has stayed silent and must be
    /// replaced.
    pub(in crate::engine) fn probed(&mut self, now: Instant, node: NodeId) -> bool {
        if !self.probes.open.contains(node) || self.probes.to_open.contains(node) {
            return false; // The answer is from a probe that was closed.
        }
        self.probes.close(node);
        let silent = self[node].is_to_be_probed(now, PROBE_AGAIN);
        if silent {
            self[node].connection.probed(now, PROBE_AGAIN);
        }
        silent
    }

    /// Connects to `node` immediately. The old connection was closed because the node answered its probe.
    pub(in crate::engine) fn replace(&mut self, now: Instant, node: NodeId, timers: &mut Timers) {
        if !self[node].handshake.has_link() {
            self.connect(now, node, timers);
        }
    }
}
