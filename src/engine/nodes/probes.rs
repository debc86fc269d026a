//! Probes: whether a server that does not answer is there, asked over a connection of its own.
//!
//! A connection whose packets were lost waits for TCP to send them again, and after some seconds
//! without a path that takes some seconds more. While so few nodes answer that no majority is left, each
//! of the others gets a probe every 250 ms: a second connection, over which `HELLO` goes and nothing
//! else. An answer shows that server and path are alive, which a stopped server's kernel cannot: it
//! accepts connections and says nothing. If the old connection has still brought nothing, it is reset,
//! and another is opened.
//!
//! # Guarantees
//!
//! * **Order.** The probe never becomes the connection of its node. The next connection is asked for
//!   when the old one was reset, and what is owed goes over it before any `SET`.
//! * **Only where something is wanted.** A connection that is up is probed while an operation is open
//!   or a token may be on some node; one that is not, while an operation is open.
//! * **Never hot.** A node is probed every 250 ms at most, later for a distant one, and each time that
//!   a connection made so brings no answer to a lock command either, it is left alone for twice as long.

use core::time::Duration;

use crate::keys::NodeId;
use crate::node::Trouble;
use crate::quorum::NodeSet;
use crate::time::Instant;
use crate::timer::TimerKey;

use super::Nodes;
use crate::engine::alarm::{Alarm, Timers};

/// How long there was no majority before nodes are probed, and how often they are then.
pub(in crate::engine) const PROBE_AGAIN: Duration = Duration::from_millis(250);

/// The probes of an engine.
#[derive(Debug, Default)]
pub(super) struct Probes {
    /// The nodes that have one.
    open: NodeSet,
    /// Those for which the driver is to open one, and to close one.
    pub(super) to_open: NodeSet,
    pub(super) to_close: NodeSet,
    timer: Option<TimerKey>,
}

impl Probes {
    /// Closes that of `node`, if it has one.
    pub(super) fn close(&mut self, node: NodeId) {
        if self.open.remove(node) && !self.to_open.remove(node) {
            self.to_close.insert(node);
        }
    }

    fn open(&mut self, node: NodeId) {
        self.open.insert(node);
        self.to_open.insert(node);
        self.to_close.remove(node); // A probe that is open is closed by the next one.
    }
}

impl Nodes {
    /// `node` has answered: no probe is needed.
    pub(in crate::engine) fn close_probe(&mut self, node: NodeId) {
        self.probes.close(node);
    }

    /// Called when an operation needs the nodes: arms the timer of the probes if no majority
    /// answers.
    pub(in crate::engine) fn watch_lines(&mut self, now: Instant, timers: &mut Timers) {
        if self.probes.timer.is_none() && self.answering() < self.quorum() {
            let at = now.saturating_add(PROBE_AGAIN);
            self.probes.timer = Some(timers.insert(at, Alarm::Lines));
        }
    }

    /// No majority answered 250 ms ago. `asked`: an operation is open; `wanted`: or a token may be on
    /// some node.
    pub(in crate::engine) fn lines_due(
        &mut self,
        now: Instant,
        wanted: bool,
        asked: bool,
        timers: &mut Timers,
    ) {
        self.probes.timer = None;
        if wanted {
            self.watch_lines(now, timers);
        }
        let lacking = self.probes.timer.is_some();
        for node in self.ids() {
            match lacking {
                true => self.look_at_line(now, node, asked, timers),
                false => self.probes.close(node),
            }
        }
    }

    /// Opens another probe to a node whose connection is silent, and a connection to one in back-off.
    fn look_at_line(&mut self, now: Instant, node: NodeId, asked: bool, timers: &mut Timers) {
        let there = &self[node];
        if there.is_down_since(now.saturating_sub(PROBE_AGAIN)) {
            if asked && matches!(there.trouble(), Trouble::Link(_)) {
                self.connect(now, node, timers);
            }
        } else if (asked || there.is_ready()) && there.is_to_be_probed(now, PROBE_AGAIN) {
            self.probes.open(node);
        } else {
            self.probes.close(node);
        }
    }

    /// The probe of `node` was answered. Returns `true` if its connection has brought nothing
    /// meanwhile: another is to take its place.
    pub(in crate::engine) fn probed(&mut self, now: Instant, node: NodeId) -> bool {
        if !self.probes.open.contains(node) || self.probes.to_open.contains(node) {
            return false; // It is about one that was closed.
        }
        self.probes.close(node);
        let silent = self[node].is_to_be_probed(now, PROBE_AGAIN);
        if silent {
            self[node].probed(now, PROBE_AGAIN);
        }
        silent
    }
}
