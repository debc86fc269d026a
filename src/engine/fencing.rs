//! Fencing tokens: the proposal for the next token, and the nodes that have lost their counter floor.
//!
//! The proposal is the time in microseconds, or the largest number seen plus one, whichever is larger. With this
//! proposal, the counters of all nodes jump to the same number, so one round trip is enough.
//!
//! # Guarantees
//!
//! * Fencing tokens are correct, whatever number the engine proposes. A clock that is ahead does no lasting harm,
//!   because a node rejects proposals that are more than one second ahead of its own.
//! * Even if a node reconnects, the engine remembers that the node lost its floor, until the node is known to have one
//!   again.
//!
//! # Not here
//!
//! The repair of a floor is in [`operation::repair`](super::operation::repair). A node without a floor refuses fenced
//! locks by itself. This file decides only when to try a repair.

use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;

use crate::error::Unusable;
use crate::keys::NodeId;
use crate::limits::{FENCING_TOKEN_MAX, REPAIR_RETRY};
use crate::time::Instant;
use crate::timer::TimerKey;

use super::alarm::{Alarm, Timers};
use super::news::News;
use super::nodes::Nodes;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Fencing {
    /// How many microseconds the wall clock is ahead of the engine's clock, or zero if this is not known.
    ahead: u64,
    /// The largest fencing token that a node has assigned.
    seen: u64,
    /// The largest counter floor that a node has reported. Proposals do not use this floor, because it may be far above
    /// the counters.
    highest: u64,
    /// Whether a caller has requested a fencing token.
    is_used: bool,
    /// The nodes that are known to have no counter floor.
    losses: BTreeMap<NodeId, Option<Loss>>,
    /// Whether a check of the floors is in progress.
    is_looking: bool,
    /// Whether another check must follow the current check.
    is_to_look: bool,
    /// The timer of the next check.
    timer: Option<TimerKey>,
}

/// The repair of a node's counter floor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loss {
    /// The nonce of the repair.
    pub(super) nonce: u64,
    /// When this nonce was first seen. The node lost its data before this time.
    pub(super) since: Instant,
}

impl Fencing {
    pub(super) fn set_clock(&mut self, now: Instant, since_1970: Duration) {
        let micros = u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX);
        self.ahead = micros.saturating_sub(micros_of(now));
    }

    /// Records a fencing token that a node has assigned.
    pub(super) fn saw(&mut self, number: u64) {
        self.seen = self.seen.max(number);
    }

    /// Records that a caller has requested a fencing token.
    pub(super) fn set_used(&mut self) {
        self.is_used = true;
    }

    pub(super) fn is_used(&self) -> bool {
        self.is_used
    }

    /// Returns `true` if nodes get a counter floor when an operator trusts them. If the engine has no wall clock and
    /// has seen no request for a fencing token, it cannot know how large the fencing tokens of other clients are.
    pub(super) fn gives_floors(&self) -> bool {
        self.is_used || self.ahead != 0
    }

    /// Returns `true` if `node` is known to have no counter floor.
    pub(super) fn lacks_floor(&self, node: NodeId) -> bool {
        self.losses.contains_key(&node)
    }

    /// Records that `node` has a counter floor.
    pub(super) fn has_floor(&mut self, node: NodeId) {
        self.losses.remove(&node);
    }

    /// Records that `node` has reported this `number` as its counter floor.
    pub(super) fn said_floor(&mut self, node: NodeId, number: u64) {
        self.highest = self.highest.max(number);
        self.has_floor(node);
    }

    /// Records that `node` reported at `now` a repair of its floor, marked with this `nonce`. If the nonce has changed,
    /// the node has lost its data again.
    pub(super) fn in_repair(&mut self, now: Instant, node: NodeId, nonce: u64) {
        let known = self.losses.entry(node).or_default();
        if known.is_none_or(|loss| loss.nonce != nonce) {
            *known = Some(Loss { nonce, since: now });
        }
    }

    /// Records that the repair of `node` failed, because the node no longer has the mark with the known nonce. Does
    /// nothing if the node has reported a floor since then.
    pub(super) fn was_not_repaired(&mut self, node: NodeId) {
        if let Some(known) = self.losses.get_mut(&node) {
            *known = None;
        }
    }

    /// Returns the nodes whose floor is being repaired.
    pub(super) fn losses(&self) -> impl Iterator<Item = (NodeId, Loss)> {
        let losses = self.losses.iter();
        losses.filter_map(|(node, loss)| Some((*node, (*loss)?)))
    }

    /// Returns the number to propose at `now`.
    pub(super) fn propose(&self, now: Instant) -> u64 {
        let above = self.seen.saturating_add(1);
        above.max(self.time(now)).min(FENCING_TOKEN_MAX)
    }

    /// Returns the time in microseconds since 1970, or zero if it is not known.
    fn time(&self, now: Instant) -> u64 {
        match self.ahead {
            0 => 0,
            ahead => ahead.saturating_add(micros_of(now)),
        }
    }

    /// Returns two lower bounds for a counter floor that a node gets at `now`. The first bound is the largest fencing
    /// token that the engine has seen. The second bound is the current time plus one second, because nodes accept
    /// proposals of clients whose clocks are up to a second ahead.
    pub(super) fn floor(&self, now: Instant) -> [u64; 2] {
        let seen = self.seen.max(self.highest);
        let proposal = self.time(now).saturating_add(1_000_000);
        [seen, proposal.min(FENCING_TOKEN_MAX)]
    }

    // ----- missing counter floors -----------------------------------------------------------

    /// Records that `node` has refused a fenced lock because it has no counter floor. Returns the outcome for the
    /// report. `quorum` is the number of nodes in a majority.
    #[cold]
    pub(super) fn has_no_floor(
        &mut self,
        node: NodeId,
        quorum: usize,
        news: &mut VecDeque<News>,
    ) -> Unusable {
        if let Entry::Vacant(losses) = self.losses.entry(node) {
            losses.insert(None);
            self.look_at_floors(news);
        }
        match self.losses.len() < quorum {
            true => Unusable::InRepair,
            false => Unusable::NoFloor,
        }
    }

    /// Handles the timer: checks the floors if a node has no floor.
    #[cold]
    pub(super) fn due(&mut self, news: &mut VecDeque<News>) {
        self.timer = None;
        if !self.losses.is_empty() {
            self.look_at_floors(news);
        }
    }

    /// Requests a check of the floors of all nodes, unless a check is in progress.
    fn look_at_floors(&mut self, news: &mut VecDeque<News>) {
        if !self.is_looking {
            self.floors_changed(news);
        }
    }

    /// Requests a check of the floors of all nodes. If a check is in progress, requests another one, because the
    /// current check has skipped nodes that have just connected.
    pub(super) fn floors_changed(&mut self, news: &mut VecDeque<News>) {
        let wanted = core::mem::replace(&mut self.is_to_look, true);
        if !wanted && !self.is_looking {
            news.push_back(News::Floors);
        }
    }

    /// Records that a check of the floors begins.
    pub(super) fn looking(&mut self) {
        (self.is_looking, self.is_to_look) = (true, false);
    }

    /// Records that the check of the floors has ended, or could not begin because too many operations were open.
    pub(super) fn looked(&mut self, news: &mut VecDeque<News>) {
        self.is_looking = false;
        if self.is_to_look {
            news.push_back(News::Floors);
        }
    }

    /// Sets the timer for the next possible repair. A lost floor can be repaired when `span` has passed since the loss
    /// was seen.
    pub(super) fn await_repairs(
        &mut self,
        now: Instant,
        span: Duration,
        nodes: &Nodes,
        timers: &mut Timers,
    ) {
        if let Some(timer) = self.timer.take() {
            timers.cancel(timer);
        }
        let again = now.saturating_add(REPAIR_RETRY);
        let due = |(node, loss): (&NodeId, &Option<Loss>)| {
            let over = loss.map(|loss| loss.since.saturating_add(span));
            let at = over.max(nodes[*node].trust.kept_until(now));
            at.filter(|at| now < *at).unwrap_or(again)
        };
        if let Some(at) = self.losses.iter().map(due).min() {
            self.timer = Some(timers.insert(at, Alarm::Floors));
        }
    }
}

fn micros_of(now: Instant) -> u64 {
    now.as_nanos() / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_proposed_is_the_time_or_more_than_was_seen() {
        let at = Instant::from_millis;
        let mut fencing = Fencing::default();
        assert_eq!(fencing.propose(at(5)), 1);
        fencing.saw(7);
        fencing.saw(6);
        assert_eq!(fencing.propose(at(5)), 8);
        fencing.set_clock(at(5), Duration::from_secs(1));
        assert_eq!(fencing.propose(at(5)), 1_000_000);
        assert_eq!(fencing.propose(at(7)), 1_002_000);
        fencing.saw(2_000_000);
        assert_eq!(fencing.propose(at(7)), 2_000_001);
        fencing.saw(u64::MAX);
        assert_eq!(fencing.propose(at(7)), FENCING_TOKEN_MAX);
    }
}
