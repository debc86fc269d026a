//! When a contender that was refused asks again. This is the one place that decides it.
//!
//! * Where too few nodes answered: after a random delay.
//! * Where another holds the lock: when a majority of the nodes is believed to be free ([`Belief`]). One
//!   that meets others in doing so waits a random part of a window first. The window grows with how
//!   often it met them and shrinks with how long it has waited, so that the oldest comes first.
//! * Beliefs that were wrong again and again, though nothing changed: after a random delay, as before.
//!
//! In between it looks again from time to time: often where nodes do not tell of changes, rarely where
//! they do.

use alloc::vec::Vec;
use core::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::error::NodeOutcome;
use crate::keys::NodeId;
use crate::node::Remaining;
use crate::time::{Instant, nanos};

use super::Refusal;
use super::belief::Belief;

/// How long a contender that is told of changes waits before it looks all the same.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// The window of one that has met others once, in round trips; and how much it grows at most.
const WINDOW: u32 = 4;
const MET_MAX: u32 = 8;

/// After so long a wait the window is a small part of what it was.
const OLD: Duration = Duration::from_millis(100);
const PART_MIN: f64 = 0.125;

/// So many wrong beliefs in a row are followed by a delay.
const WRONG_MAX: u32 = 2;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::engine) struct Wait {
    /// Why the latest attempt was refused, and what each node said.
    pub(in crate::engine) why: Refusal,
    pub(in crate::engine) said: Vec<NodeOutcome>,
    pub(in crate::engine) belief: Belief,
    /// When the random delay after the latest attempt ends.
    delay: Instant,
    /// When the window ends that began when the resource was believed free.
    window: Option<Instant>,
    /// When it looks again.
    look: Instant,
    /// How often it was refused when it believed the resource free; and how often of that in a row
    /// though no node had told of anything since.
    met: u32,
    wrong: u32,
}

/// What a decision rests on besides.
#[derive(Debug)]
pub(in crate::engine) struct Pace<'a> {
    pub(in crate::engine) now: Instant,
    /// How long the contender has waited.
    pub(in crate::engine) waited: Duration,
    /// How long a majority takes to answer.
    pub(in crate::engine) round_trip: Duration,
    pub(in crate::engine) random: &'a mut StdRng,
}

/// What a contender does next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::engine) enum Next {
    /// It asks for the lock.
    Attempt(Instant),
    /// It looks whether the lock is free.
    Look(Instant),
}

impl Next {
    pub(in crate::engine) const fn at(self) -> Instant {
        match self {
            Self::Attempt(at) | Self::Look(at) => at,
        }
    }
}

impl Wait {
    /// Nothing is known of so many nodes.
    pub(in crate::engine) fn new(nodes: usize) -> Self {
        Self {
            why: Refusal::Held,
            said: Vec::new(),
            belief: Belief::new(nodes),
            delay: Instant::ZERO,
            window: None,
            look: Instant::ZERO,
            met: 0,
            wrong: 0,
        }
    }

    /// An attempt was refused, and the random delay after it lasts until `delay`.
    pub(in crate::engine) fn refused(
        &mut self,
        why: Refusal,
        said: impl Iterator<Item = NodeOutcome>,
        delay: Instant,
    ) {
        if self.window.take().is_some() {
            self.met = self.met.saturating_add(1);
            self.wrong += 1;
        }
        self.why = why;
        self.said.clear();
        self.said.extend(said);
        self.delay = delay;
        self.belief.forget();
    }

    /// The nodes that have to be asked were asked, at `now`.
    pub(in crate::engine) fn looked(&mut self, pace: &mut Pace<'_>, delays: (Duration, Duration)) {
        let (shortest, longest) = match self.belief.is_told() {
            true => (LOOK_AGAIN, LOOK_AGAIN * 2),
            false => delays,
        };
        self.look = pace.now.saturating_add(between(pace.random, shortest, longest));
    }

    /// `node` says what is left of the key. If that is anything, a window that has begun is over.
    pub(in crate::engine) fn answered(
        &mut self,
        now: Instant,
        node: NodeId,
        left: Remaining,
        pushes: bool,
    ) {
        self.belief.looked(now, node, left, pushes);
        if left != Remaining::Missing {
            self.window = None;
            self.wrong = 0;
        }
    }

    /// `node` says that the key has changed. Others that do not tell may have changed it by `soon`.
    pub(in crate::engine) fn changed(&mut self, now: Instant, node: NodeId, soon: Duration) {
        self.belief.changed(now, node, soon);
        self.wrong = 0;
    }

    /// Returns what the contender does next, where the votes of each node count `from` a time on.
    pub(in crate::engine) fn next(
        &mut self,
        pace: &mut Pace<'_>,
        from: impl Fn(NodeId) -> Instant,
    ) -> Next {
        if self.why != Refusal::Held {
            return Next::Attempt(self.delay);
        }
        let free = self.belief.free_at(from);
        let attempt = match free <= pace.now {
            true => self.window_end(pace),
            false => free,
        };
        match attempt <= self.look {
            true => Next::Attempt(attempt),
            false => Next::Look(self.look),
        }
    }

    fn window_end(&mut self, pace: &mut Pace<'_>) -> Instant {
        if let Some(end) = self.window {
            return end;
        }
        let end = match self.wrong < WRONG_MAX {
            true => pace.now.saturating_add(self.window(pace)),
            false => self.delay.max(pace.now),
        };
        self.window = Some(end);
        end
    }

    /// Returns a random part of the window.
    fn window(&self, pace: &mut Pace<'_>) -> Duration {
        let whole = pace.round_trip * WINDOW * self.met.min(MET_MAX);
        let young = 1.0 - pace.waited.as_secs_f64() / OLD.as_secs_f64();
        let part = whole.mul_f64(young.max(PART_MIN));
        between(pace.random, Duration::ZERO, part)
    }
}

fn between(random: &mut StdRng, from: Duration, to: Duration) -> Duration {
    let (from, to) = (nanos(from), nanos(to));
    Duration::from_nanos(random.random_range(from..=to.max(from)))
}
