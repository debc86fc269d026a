//! Fencing tokens: which number is proposed for the next one.
//!
//! The number is the time in microseconds, or one more than the largest that was seen, if that is larger. So the
//! counters of all nodes jump to the same number, and one round trip is enough.
//!
//! # Guarantees
//!
//! * None: no token rests on what is proposed. A clock that is ahead does no lasting harm, because every node takes
//!   a proposal for at most a second more than its own clock.

use core::time::Duration;

use crate::config::LockOptions;
use crate::keys::NodeId;
use crate::limits::FENCING_TOKEN_MAX;
use crate::time::Instant;

use super::operation::acquire::Acquire;
use super::parts::Parts;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Fencing {
    /// How many microseconds the clock of the world is ahead of the engine's. Zero: it is not known.
    ahead: u64,
    /// The largest number that a node has given.
    seen: u64,
    /// A lock with a token was asked for.
    is_used: bool,
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
        acquire.fence(parts.nodes.len());
    }
}

impl Parts {
    /// An operator trusts `node`: it gets a floor, if this engine was asked for a token. Who uses none says nothing
    /// about tokens, and leaves no key behind. The second that nodes allow a clock to be ahead is added: a
    /// token may have been proposed by such a clock.
    pub(super) fn set_floor(&mut self, now: Instant, node: NodeId) {
        if !self.fencing.is_used || !self.nodes[node].is_ready() {
            return;
        }
        let seen = self.fencing.seen;
        let proposal = self.fencing.time(now).saturating_add(1_000_000);
        let there = self.nodes.writing_to(node);
        there.send_floor(now, seen, proposal.min(FENCING_TOKEN_MAX));
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
