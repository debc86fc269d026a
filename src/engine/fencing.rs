//! Fencing tokens: which number is proposed for the next one, and which nodes have lost their floor.
//!
//! The number is the time in microseconds, or one more than the largest that was seen, if that is larger. So the
//! counters of all nodes jump to the same number, and one round trip is enough.
//!
//! # Guarantees
//!
//! * None: no token rests on what is proposed. A clock that is ahead does no lasting harm, because every node takes
//!   a proposal for at most a second more than its own clock.
//! * A loss that was seen is remembered until the node is known to have a floor, through any number of connections.
//!
//! # Not here
//!
//! How a floor is repaired: [`operation::repair`](super::operation::repair). It is the node that refuses while it has
//! none; what is kept here only says when to try.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::vec::Vec;
use core::time::Duration;

use crate::config::LockOptions;
use crate::error::Unusable;
use crate::keys::{NodeId, OperationKey};
use crate::limits::{FENCING_TOKEN_MAX, POOL_MAX, REPAIR_RETRY};
use crate::time::Instant;
use crate::timer::TimerKey;

use super::alarm::Alarm;
use super::operation::acquire::{self, Acquire};
use super::parts::{News, Parts};

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Fencing {
    /// How many microseconds the clock of the world is ahead of the engine's. Zero: it is not known.
    ahead: u64,
    /// The largest number that a node has given.
    seen: u64,
    /// The largest floor that a node has said. Nothing is proposed from it: it may be far above the counters.
    highest: u64,
    /// A lock with a token was asked for.
    is_used: bool,
    /// The nodes that have no floor, as far as is known.
    losses: BTreeMap<NodeId, Option<Loss>>,
    /// The floors are being looked at.
    is_looking: bool,
    /// They are to be looked at, as soon as that is over.
    is_to_look: bool,
    /// When they are looked at next.
    timer: Option<TimerKey>,
    /// What acquisitions that have ended do not need any more.
    #[expect(
        clippy::vec_box,
        reason = "the box goes on to the next one, nothing is copied"
    )]
    spares: Vec<Box<acquire::fencing::Fencing>>,
}

/// A repair of the floor of one node, that stands there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loss {
    /// Under which nonce.
    pub(super) nonce: u64,
    /// When it was first seen to stand there: whatever was lost, it was before.
    pub(super) since: Instant,
}

impl Fencing {
    pub(super) fn set_clock(&mut self, now: Instant, since_1970: Duration) {
        let micros = u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX);
        self.ahead = micros.saturating_sub(micros_of(now));
    }

    /// A node has given this number.
    pub(super) fn saw(&mut self, number: u64) {
        self.seen = self.seen.max(number);
    }

    /// Returns what an acquisition has used that has ended, for another one.
    pub(super) fn take_spare(&mut self) -> Option<Box<acquire::fencing::Fencing>> {
        self.spares.pop()
    }

    /// Keeps it for the next [`Fencing::take_spare`].
    pub(super) fn give_spare(&mut self, spare: Box<acquire::fencing::Fencing>) {
        if self.spares.len() < POOL_MAX {
            self.spares.push(spare);
        }
    }

    /// Returns how many wait to be used again.
    #[cfg(test)]
    pub(super) fn spares(&self) -> usize {
        self.spares.len()
    }

    pub(super) fn is_used(&self) -> bool {
        self.is_used
    }

    /// Returns `true` if `node` has no floor, as far as is known.
    pub(super) fn lacks_floor(&self, node: NodeId) -> bool {
        self.losses.contains_key(&node)
    }

    /// `node` has a floor.
    pub(super) fn has_floor(&mut self, node: NodeId) {
        self.losses.remove(&node);
    }

    /// `node` has a floor, which is this high.
    pub(super) fn said_floor(&mut self, node: NodeId, number: u64) {
        self.highest = self.highest.max(number);
        self.has_floor(node);
    }

    /// The floor of `node` is in repair under `nonce`, as it said at `now`. Under another one than before, it has lost
    /// its data again.
    pub(super) fn in_repair(&mut self, now: Instant, node: NodeId, nonce: u64) {
        let known = self.losses.entry(node).or_default();
        if known.is_none_or(|loss| loss.nonce != nonce) {
            *known = Some(Loss { nonce, since: now });
        }
    }

    /// The floor of `node` was not repaired: it is not in repair under the nonce that was known. If it has said since
    /// that it has a floor, it was repaired before.
    pub(super) fn was_not_repaired(&mut self, node: NodeId) {
        if let Some(known) = self.losses.get_mut(&node) {
            *known = None;
        }
    }

    /// Returns the nodes whose floor is in repair.
    pub(super) fn losses(&self) -> impl Iterator<Item = (NodeId, Loss)> {
        let losses = self.losses.iter();
        losses.filter_map(|(node, loss)| Some((*node, (*loss)?)))
    }

    /// Returns what is proposed at `now`.
    pub(super) fn propose(&self, now: Instant) -> u64 {
        let above = self.seen.saturating_add(1);
        above.max(self.time(now)).min(FENCING_TOKEN_MAX)
    }

    /// Returns the time in microseconds since 1970; zero if it is not known.
    fn time(&self, now: Instant) -> u64 {
        match self.ahead {
            0 => 0,
            ahead => ahead.saturating_add(micros_of(now)),
        }
    }
}

fn micros_of(now: Instant) -> u64 {
    now.as_nanos() / 1_000
}

/// Has `acquire` ask for a fencing token, if `options` want one.
#[inline]
pub(super) fn want(options: &LockOptions, acquire: &mut Acquire, parts: &mut Parts) {
    if options.is_fenced() {
        parts.fencing.is_used = true;
        acquire.fence(parts);
    }
}

impl Parts {
    /// Gives `node` a floor, for `operation`. The second that nodes allow a clock to be ahead is added: a
    /// token may have been proposed by such a clock. Returns `false` if the node cannot be asked.
    pub(super) fn set_floor(
        &mut self,
        now: Instant,
        node: NodeId,
        operation: OperationKey,
    ) -> bool {
        let seen = self.fencing.seen.max(self.fencing.highest);
        let proposal = self.fencing.time(now).saturating_add(1_000_000);
        let there = self.nodes.writing_to(node);
        there.send_floor(now, operation, [seen, proposal.min(FENCING_TOKEN_MAX)])
    }
}

// ----- floors that are missing --------------------------------------------------------------

impl Parts {
    /// `node` has refused a lock with a token for lack of a floor. Returns what a report says of it.
    #[cold]
    pub(super) fn has_no_floor(&mut self, node: NodeId) -> Unusable {
        if let Entry::Vacant(losses) = self.fencing.losses.entry(node) {
            losses.insert(None);
            self.look_at_floors();
        }
        match self.fencing.losses.len() < self.nodes.quorum() {
            true => Unusable::InRepair,
            false => Unusable::NoFloor,
        }
    }

    /// The timer has fired: what may be repaired by now is looked at.
    #[cold]
    pub(super) fn floors_due(&mut self) {
        self.fencing.timer = None;
        if !self.fencing.losses.is_empty() {
            self.look_at_floors();
        }
    }

    /// The floors of all nodes are to be looked at, soon; unless that is under way.
    fn look_at_floors(&mut self) {
        if !self.fencing.is_looking {
            self.floors_changed();
        }
    }

    /// The floors of all nodes are to be looked at, also by one look more than that which is under way: a node has come
    /// that was not asked.
    pub(super) fn floors_changed(&mut self) {
        let wanted = core::mem::replace(&mut self.fencing.is_to_look, true);
        if !wanted && !self.fencing.is_looking {
            self.news.push_back(News::Floors);
        }
    }

    /// The floors are being looked at from now on.
    pub(super) fn looking_at_floors(&mut self) {
        (self.fencing.is_looking, self.fencing.is_to_look) = (true, false);
    }

    /// The floors were looked at, or there is no room for that: what is still to be repaired is looked at again.
    pub(super) fn looked_at_floors(&mut self, now: Instant) {
        self.fencing.is_looking = false;
        if self.fencing.is_to_look {
            self.news.push_back(News::Floors);
        }
        self.await_repairs(now);
    }

    /// Arms the timer for when the next repair may be due.
    pub(super) fn await_repairs(&mut self, now: Instant) {
        if let Some(timer) = self.fencing.timer.take() {
            self.timers.cancel(timer);
        }
        let span = self.restarts.terms().span;
        let again = now.saturating_add(REPAIR_RETRY);
        let due = |(node, loss): (&NodeId, &Option<Loss>)| {
            let over = loss.map(|loss| loss.since.saturating_add(span));
            let at = over.max(self.nodes[*node].kept_until(now));
            at.filter(|at| now < *at).unwrap_or(again)
        };
        if let Some(at) = self.fencing.losses.iter().map(due).min() {
            self.fencing.timer = Some(self.timers.insert(at, Alarm::Floors));
        }
    }
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
