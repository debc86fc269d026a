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
use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use crate::error::Unusable;
use crate::keys::NodeId;
use crate::limits::{FENCING_TOKEN_MAX, POOL_MAX, REPAIR_RETRY};
use crate::time::Instant;
use crate::timer::TimerKey;

use super::alarm::{Alarm, Timers};
use super::news::News;
use super::nodes::Nodes;
use super::operation::acquire;

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

    /// A lock with a token is asked for.
    pub(super) fn set_used(&mut self) {
        self.is_used = true;
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

    /// Returns two lower bounds of a floor that is given to a node at `now`: the largest number that was seen, and the
    /// time with the second that nodes allow a clock to be ahead, as such a clock may have proposed a token.
    pub(super) fn floor(&self, now: Instant) -> [u64; 2] {
        let seen = self.seen.max(self.highest);
        let proposal = self.time(now).saturating_add(1_000_000);
        [seen, proposal.min(FENCING_TOKEN_MAX)]
    }

    // ----- floors that are missing ----------------------------------------------------------

    /// `node` has refused a lock with a token for lack of a floor. Returns what a report says of it. `quorum` nodes are
    /// a majority.
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

    /// The timer has fired: what may be repaired by now is looked at.
    #[cold]
    pub(super) fn due(&mut self, news: &mut VecDeque<News>) {
        self.timer = None;
        if !self.losses.is_empty() {
            self.look_at_floors(news);
        }
    }

    /// The floors of all nodes are to be looked at, soon; unless that is under way.
    fn look_at_floors(&mut self, news: &mut VecDeque<News>) {
        if !self.is_looking {
            self.floors_changed(news);
        }
    }

    /// The floors of all nodes are to be looked at, also by one look more than that which is under way: a node has come
    /// that was not asked.
    pub(super) fn floors_changed(&mut self, news: &mut VecDeque<News>) {
        let wanted = core::mem::replace(&mut self.is_to_look, true);
        if !wanted && !self.is_looking {
            news.push_back(News::Floors);
        }
    }

    /// The floors are being looked at from now on.
    pub(super) fn looking(&mut self) {
        (self.is_looking, self.is_to_look) = (true, false);
    }

    /// The floors were looked at, or there is no room for that.
    pub(super) fn looked(&mut self, news: &mut VecDeque<News>) {
        self.is_looking = false;
        if self.is_to_look {
            news.push_back(News::Floors);
        }
    }

    /// Arms the timer for when the next repair may be due. A loss is repaired `span` after it was seen.
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
            let at = over.max(nodes[*node].kept_until(now));
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
