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

use crate::error::LinkError;
use crate::node::Trouble;
use crate::quorum::NodeSet;
use crate::slab::Key;
use crate::time::{Instant, NANOS_PER_TICK};
use crate::timer::TimerKey;

use super::Engine;
use super::contract::NodeId;
use super::round::{Refusal, State};
use super::timers::Alarm;

/// How long there was no majority before nodes are probed, and how often they are then.
pub(super) const PROBE_AGAIN: Duration = Duration::from_millis(250);

/// The probes of an engine.
#[derive(Debug, Default)]
pub(super) struct Probes {
    /// The nodes that have one.
    pub(super) open: NodeSet,
    /// Those for which the driver is to open one, and to close one.
    pub(super) to_open: NodeSet,
    pub(super) to_close: NodeSet,
    timer: Option<TimerKey>,
}

impl Probes {
    /// Closes that of `node`, if it has one.
    pub(super) fn close(&mut self, node: usize) {
        if self.open.remove(node) && !self.to_open.remove(node) {
            self.to_close.insert(node);
        }
    }
}

impl Engine {
    /// The nodes that are connected and answer, whether or not they vote.
    fn answering(&self) -> usize {
        let answers = |node: &&crate::node::Node| node.is_ready() && !node.is_silent();
        self.nodes.iter().filter(answers).count()
    }

    /// Something is wanted, or a node has stopped answering: arms the timer of the probes if there is no
    /// majority left.
    pub(super) fn watch_lines(&mut self, now: Instant) {
        let wanted = !self.rounds.is_empty() || !self.claims.is_empty();
        if wanted && self.probes.timer.is_none() && self.answering() < self.quorum() {
            let at = now.saturating_add(PROBE_AGAIN);
            self.probes.timer = Some(self.wheel.insert(at, Alarm::Lines));
        }
    }

    /// There was no majority 250 ms ago.
    pub(super) fn lines_due(&mut self, now: Instant) {
        self.probes.timer = None;
        self.watch_lines(now);
        let lacking = self.probes.timer.is_some();
        for node in 0..self.nodes.len() {
            match lacking {
                true => self.look_at_line(now, node),
                false => self.probes.close(node),
            }
        }
    }

    /// Opens another probe to a node whose connection is silent, and a connection to one in back-off.
    fn look_at_line(&mut self, now: Instant, node: usize) {
        let there = &self.nodes[node];
        let asked = !self.rounds.is_empty();
        if there.is_down_since(now.saturating_sub(PROBE_AGAIN)) {
            if asked && matches!(there.trouble(), Trouble::Link(_)) && !mutant!(NeverReconnects) {
                self.connect(now, node);
            }
        } else if (asked || there.is_ready()) && there.is_to_be_probed(now, PROBE_AGAIN) {
            self.probes.open.insert(node);
            self.probes.to_open.insert(node);
            self.probes.to_close.remove(node); // A probe that is open is closed by the next one.
        } else {
            self.probes.close(node);
        }
    }

    /// The probe of `node` was answered. If its connection has brought nothing meanwhile, another takes
    /// its place.
    pub(super) fn probed(&mut self, now: Instant, node: NodeId) {
        let node = node.index();
        if !self.probes.open.contains(node) || self.probes.to_open.contains(node) {
            return; // It is about one that was closed.
        }
        self.probes.close(node);
        if self.nodes[node].is_to_be_probed(now, PROBE_AGAIN) && !mutant!(NeverReconnects) {
            self.nodes[node].probed(now, PROBE_AGAIN);
            self.give_up(now, node, Trouble::Link(LinkError::Silent));
            if !self.nodes[node].has_link() {
                self.connect(now, node);
            }
        }
    }

    /// `node` answers, which it did not before. Whoever rests because there was no majority goes on if
    /// there is one again.
    pub(super) fn regained(&mut self, now: Instant) {
        if self.answering() != self.quorum() {
            return;
        }
        let resting = |state: &State| matches!(state, State::Resting { after, .. } if *after == Refusal::NoQuorum);
        let rounds = self.rounds.iter();
        let keys = rounds.filter(|(_, round)| resting(&round.state));
        let keys: alloc::vec::Vec<Key> = keys.map(|(key, _)| key).collect();
        let at = now.saturating_add(Duration::from_nanos(NANOS_PER_TICK));
        for key in keys {
            self.retry_at(key, at, Refusal::NoQuorum);
        }
    }
}
