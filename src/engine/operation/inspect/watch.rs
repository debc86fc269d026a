//! Watches a resource: the [inspection](super) ends when the state of the nodes differs from the state that the caller
//! knows. Each check asks every node for its state, and asks the node to report the next change of the key. If the
//! state has not changed, the operation waits without asking nodes. The operation asks again when a node reports a
//! change, connects or disconnects, when this engine writes to the key, and when a key expires or a quarantine ends. If
//! a node sends no notifications, or is connected but has not shown its state, the operation asks the nodes from time
//! to time.
//!
//! # Guarantees
//!
//! * If all nodes send notifications and nothing changes, the engine sends nothing.
//! * An outcome includes every change that was reported before its check began.
//! * An answer to an earlier check does not count for the current check.
//!
//! # Not here
//!
//! The file `inspect.rs` builds the question and interprets the answers.

use alloc::boxed::Box;
use alloc::vec;
use core::time::Duration;

use rand::RngExt;

use crate::error::NodeOutcome;
use crate::keys::{NodeId, OperationKey};
use crate::node::{Answer, Node, Request};
use crate::quorum::NodeSet;
use crate::time::{Instant, nanos};

use super::Inspect;
use crate::engine::inspection::{InspectedNode, Inspection};
use crate::engine::operation::round::State;
use crate::engine::operation::{Context, Operate};
use crate::engine::parts::Parts;
use crate::engine::settings::SHORTEST_REST;

/// The delay between a change and the next check. A change reaches the nodes one by one, so this delay merges several
/// reports. The delay is longer than the rounding error of a key's remaining time.
const SETTLE: Duration = Duration::from_millis(10);

/// The maximum number of times that a check is delayed because a node has many commands to answer.
const PUT_OFF_MAX: u32 = 10;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::engine) struct Watch {
    /// The state that the caller knows.
    known: Option<Box<[InspectedNode]>>,
    /// The key of the operation, after it has begun and is registered.
    key: Option<OperationKey>,
    /// Whether something may have changed since the nodes were asked.
    stirred: bool,
    /// The number of times that the next check was delayed.
    put_off: u32,
    /// The nodes that have not answered the latest question.
    asked: NodeSet,
    /// The number of earlier questions that each node has not answered.
    late: Box<[u32]>,
}

impl Watch {
    pub(in crate::engine) fn new(known: Option<&Inspection>, nodes: usize) -> Self {
        Self {
            known: known.map(|known| known.nodes.clone()),
            key: None,
            stirred: false,
            put_off: 0,
            asked: NodeSet::EMPTY,
            late: vec![0; nodes].into(),
        }
    }

    pub(super) fn asked(&mut self, node: NodeId) {
        self.asked.insert(node);
    }

    /// Returns `true` if the next answer of `node` belongs to an earlier question.
    pub(super) fn is_late(&self, node: NodeId) -> bool {
        self.late[node.index()] != 0
    }

    /// Handles the `answer` of `node`. Returns `true` if the answer belongs to an earlier question.
    pub(super) fn answered(&mut self, node: NodeId, answer: &Answer) -> bool {
        let is_late = self.is_late(node);
        if matches!(answer.request, Request::Question { .. }) {
            match is_late {
                true => self.late[node.index()] -= 1,
                false => self.forget(node),
            }
        }
        is_late
    }

    /// Records that the latest question to `node` was answered, or never reached the node.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.asked.remove(node);
    }

    fn knows(&self, inspection: &Inspection) -> bool {
        let same = |known: &[InspectedNode]| {
            let mut pairs = known.iter().zip(&inspection.nodes);
            known.len() == inspection.nodes.len() && pairs.all(|(one, other)| one.is_as_in(other))
        };
        self.known.as_deref().is_some_and(same)
    }
}

impl Inspect {
    /// Registers the watch before the nodes are asked. Returns `false` if the check comes later because a node has many
    /// commands to answer. One change may wake thousands of watches, which must not delay locks.
    pub(super) fn begin_to_watch(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(watch) = &mut self.watch else {
            return true;
        };
        if watch.key.replace(cx.round.key).is_none() {
            cx.parts.queues.watch(self.entry.resource(), cx.round.key);
        }
        let is_busy = |node: &Node| node.connection.wire.is_busy();
        if watch.put_off < PUT_OFF_MAX && cx.parts.nodes.iter().any(is_busy) {
            watch.put_off += 1;
            let later = nanos(SETTLE)..=nanos(SETTLE * 5);
            let later = Duration::from_nanos(cx.parts.random.random_range(later));
            let until = cx.now.saturating_add(later);
            cx.round.rest(State::Resting { until }, cx.parts);
            return false;
        }
        watch.put_off = 0;
        watch.stirred = false;
        for node in watch.asked.iter() {
            watch.late[node.index()] += 1;
        }
        watch.asked = NodeSet::EMPTY;
        true
    }

    /// Removes the registration.
    pub(super) fn end_to_watch(&self, parts: &mut Parts) {
        if let Some(key) = self.watch.as_ref().and_then(|watch| watch.key) {
            parts.queues.unwatch(self.resource(), key);
        }
    }

    /// Returns `true` if the state of the nodes differs from the state that the caller knows. If the state is the same,
    /// the operation waits for the next change.
    pub(super) fn is_news(&self, cx: &mut Context<'_>) -> bool {
        let Some(watch) = &self.watch else {
            return true;
        };
        if !watch.knows(&self.inspection(cx)) {
            return true;
        }
        let until = self.next_look(watch, cx);
        cx.round.rest(State::Resting { until }, cx.parts);
        false
    }

    /// Returns the time at which the operation asks the nodes again, unless a node reports a change earlier.
    fn next_look(&self, watch: &Watch, cx: &mut Context<'_>) -> Instant {
        let now = cx.now;
        let stirred = watch.stirred.then_some(SETTLE);
        let end = self.first_left().map(|left| left.saturating_add(SETTLE));
        let nodes = &cx.parts.nodes;
        let mut ids = nodes.ids();
        let untold = ids.any(|node| {
            nodes[node].connection.wire.waking.tells_nothing() || self.is_to_be_asked(node, cx)
        });
        let untold = untold.then(|| {
            let (shortest, longest) = cx.parts.settings.retry.delay().into_inner();
            let delay = nanos(shortest)..=nanos(longest.max(shortest));
            Duration::from_nanos(cx.parts.random.random_range(delay)).max(SHORTEST_REST)
        });
        let next = [stirred, end, untold].into_iter().flatten().min();
        let next = next.map(|left| now.saturating_add(left));
        let kept = nodes
            .iter()
            .filter_map(|node| node.trust.unasked_until(now));
        let kept = kept.filter(|until| now < *until);
        kept.chain(next).min().unwrap_or(Instant::MAX)
    }

    /// Returns `true` if `node` answers commands but has not shown its state, for example because it took too long. The
    /// node might not have registered the key, and would then not report the key's expiry. Returns `false` if asking
    /// again would not help.
    fn is_to_be_asked(&self, node: NodeId, cx: &Context<'_>) -> bool {
        let there = &cx.parts.nodes[node];
        let lasts = matches!(cx.round[node].outcome, NodeOutcome::Unusable(_));
        !self.has_seen(node)
            && !lasts
            && there.handshake.is_ready()
            && !there.connection.pulse.is_suspect()
    }

    /// Asks the nodes again soon, because something may have changed.
    pub(super) fn look_soon(&mut self, cx: &mut Context<'_>) {
        if let Some(watch) = &mut self.watch {
            watch.stirred = true;
            if let State::Resting { until } = cx.round.state {
                let until = until.min(cx.now.saturating_add(SETTLE));
                cx.round.rest(State::Resting { until }, cx.parts);
            }
        }
    }

    /// Asks the nodes again if the operation has waited until `until`.
    pub(super) fn look_if_due(&mut self, until: Instant, cx: &mut Context<'_>) {
        if cx.now < until {
            cx.round.arm(&mut cx.parts.timers);
            return;
        }
        cx.round.reset(cx.now, cx.parts);
        self.look_again();
        self.begin(cx);
    }

    /// Handles the loss of the registrations on `node`, which has disconnected.
    pub(super) fn lost_sight_of(&mut self, node: NodeId, cx: &mut Context<'_>) {
        if let Some(watch) = &mut self.watch {
            watch.forget(node);
            watch.late[node.index()] = 0;
            if self.has_seen(node) {
                self.look_soon(cx);
            }
        }
    }
}
