//! When a contender that was refused asks again. This is the one place that decides it.
//!
//! * Where too few nodes answered: after a random delay.
//! * Where another holds the lock: when a majority of the nodes is believed to be free ([`Belief`]).
//! * Where votes were split, because several asked at the same time: a random part of a window later.
//!   The window grows with each split and shrinks with how long the contender has waited, so that the
//!   oldest comes first.
//!   Those who have waited for half a second have the shortest window of all.
//! * Where that goes on and on, or beliefs are wrong though nothing changes: after a random delay.
//! * Where no node granted any of many attempts in a row: after another look, because the holder may be
//!   extending its lock. Where the key changes all the time: after a rest.
//! * Where a node keeps it out by another resource that it wants too: that node is not believed free before
//!   the random delay.
//! * After several locks in a row that this engine has handed over by itself: a window later, in which
//!   others can take the lock.
//!
//! In between it looks again from time to time: often where nodes do not tell of changes, rarely where
//! they do. Where one lock lasts for long, or the wait for several, it also asks who holds it.

use alloc::vec::Vec;
use core::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::error::NodeOutcome;
use crate::keys::NodeId;
use crate::node::Remaining;
use crate::quorum::NodeSet;
use crate::resource::OwnedToken;
use crate::time::{Instant, NANOS_PER_TICK, nanos};

use super::Refusal;
use super::belief::Belief;
use super::holder::Tokens;

/// How long a contender that is told of changes waits before it looks all the same.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// How long it has looked at one lock when it asks who holds it, with each look from then on. Shorter
/// waits, of those who contend, cost nothing for that.
const WHO: Duration = Duration::from_millis(500);

/// Who has waited for so long in all asks that after an attempt that was refused too, as when the holder has
/// extended its lock: so often at the most.
const WHO_AGAIN: Duration = Duration::from_millis(100);

/// By how many paces those who have just come are behind those who have waited for long, where votes are
/// split again and again; and how wide the window of each is.
const BEHIND: u32 = 16;
const WIDTH: u32 = 1;

/// After so many splits the windows are as far apart as they get, and after so many a delay follows.
const SPLITS_FEW: u32 = 4;
const SPLITS_MAX: u32 = 32;

/// Who has heard of no change for so long is not one of many: a single split is forgotten.
const QUIET: Duration = Duration::from_millis(8);

/// Who has waited for so long is not behind anybody.
const OLD: Duration = Duration::from_millis(100);

/// Who has waited for so long is before those.
const VERY_OLD: Duration = Duration::from_millis(500);

/// For how long to come a tick of the wheel matters.
const NEAR: Duration = Duration::from_millis(20);

/// The longest pace: more says that this process was not scheduled.
const PACE_MAX: Duration = Duration::from_millis(2);

/// How long after a look at nodes that tell of nothing the next follows at the earliest.
const SHORTEST: Duration = Duration::from_nanos(NANOS_PER_TICK);

/// How long it waits for a majority to tell of a change, before it asks those that have told already.
const LOOK_SOON: Duration = Duration::from_millis(2);

/// The window that an engine leaves to others, in round trips, and at least: they have to be scheduled.
const LEFT_TO_OTHERS: u32 = 8;
const LEFT_AT_LEAST: Duration = Duration::from_millis(1);

/// After so many attempts in a row that no node granted it looks before it asks: the holder extends its
/// lock, or the key changes without becoming free.
const WASTED_MAX: u32 = 20;

/// After so many changes from one look at all nodes to the next it rests before each. So many are no
/// locks: somebody writes to the key all the time, or a node forgets what it was to tell.
const CHANGES_MAX: u32 = 10_000;
const REST: Duration = Duration::from_millis(20);

/// With each so many more contenders they look again later: twice as long, three times, up to ten times.
const CONTENDERS: u32 = 1_000;
const TIMES_MAX: u32 = 10;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::engine) struct Wait {
    /// Why the latest attempt was refused, and what each node said.
    pub(in crate::engine) why: Refusal,
    pub(in crate::engine) said: Vec<NodeOutcome>,
    pub(in crate::engine) belief: Belief,
    /// Who holds the lock, as far as nodes were asked.
    pub(in crate::engine) holder: Tokens,
    /// Nodes that have refused the latest attempt because of another resource that it wanted too.
    elsewhere: NodeSet,
    /// When it looked first after the latest attempt.
    since: Instant,
    /// From when on the looks after an attempt ask at once who holds the lock.
    who: Instant,
    /// Those after the latest attempt do.
    asks_at_once: bool,
    /// When the random delay after the latest attempt ends.
    delay: Instant,
    /// When the window ends that began when the resource was believed free.
    window: Option<Instant>,
    /// When it looks again.
    look: Instant,
    /// The same, where nodes do not tell of changes.
    often: Instant,
    /// When it looks at those nodes that tell of nothing any more.
    soon: Instant,
    /// When it has asked the nodes for a look, and how long that took on average.
    asked: Instant,
    took: Duration,
    /// The latest time of which it wants to be reminded.
    reminded: Instant,
    /// How often votes were split of late.
    splits: u32,
    /// How many attempts in a row no node has granted.
    wasted: u32,
    /// How many changes nodes have told of since the latest look at all of them that was due.
    changes: u32,
    /// Since the latest attempt a node has said that another holds the lock, or that the key has
    /// changed.
    told: bool,
}

/// What a decision rests on besides.
#[derive(Debug)]
pub(in crate::engine) struct Pace<'a> {
    pub(in crate::engine) now: Instant,
    /// How long the contender has waited.
    pub(in crate::engine) waited: Duration,
    /// How long a majority takes to answer.
    pub(in crate::engine) round_trip: Duration,
    /// How many contenders wait, for this and other resources.
    pub(in crate::engine) contenders: u32,
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
            holder: Tokens::default(),
            elsewhere: NodeSet::EMPTY,
            since: Instant::MAX,
            who: Instant::MAX,
            asks_at_once: false,
            delay: Instant::ZERO,
            window: None,
            look: Instant::ZERO,
            often: Instant::ZERO,
            soon: Instant::MAX,
            asked: Instant::MAX,
            took: Duration::ZERO,
            reminded: Instant::ZERO,
            splits: 0,
            wasted: 0,
            changes: 0,
            told: true,
        }
    }

    /// This engine has released the lock, and leaves it to others for a window. It has met them, so that
    /// from then on it asks as one whose votes were split once.
    pub(in crate::engine) fn leave_to_others(&mut self, now: Instant, round_trip: Duration) {
        let window = (round_trip * LEFT_TO_OTHERS).max(LEFT_AT_LEAST);
        let end = now.saturating_add(window);
        self.window = Some(end);
        self.splits = self.splits.max(1);
        self.belief.suppose(end); // It was free a moment ago, and nodes may say nothing.
    }

    /// Returns `true` if an attempt was made, and refused.
    pub(in crate::engine) const fn has_asked(&self) -> bool {
        !self.said.is_empty()
    }

    /// An attempt was refused, and the random delay after it lasts until `delay`. The nodes `elsewhere` have
    /// refused it because of another resource that it wanted too: they are not believed free before the random
    /// delay is over, whatever they say of this one.
    pub(in crate::engine) fn refused(
        &mut self,
        why: Refusal,
        said: impl Iterator<Item = NodeOutcome>,
        elsewhere: NodeSet,
        delay: Instant,
    ) {
        self.window = None;
        self.told = false;
        self.why = why;
        self.said.clear();
        self.said.extend(said);
        self.wasted = self.wasted.saturating_add(1);
        if self.said.contains(&NodeOutcome::Granted) {
            self.splits = self.splits.saturating_add(2);
            self.wasted = 0;
        }
        self.delay = delay;
        self.belief.forget();
        self.holder.forget();
        self.elsewhere = elsewhere;
        self.since = Instant::MAX;
    }

    /// Returns `true` if it asks who holds the lock, besides looking.
    pub(in crate::engine) fn asks_holder(&self, now: Instant) -> bool {
        self.has_looked_for_long(now) || self.asks_at_once
    }

    fn has_looked_for_long(&self, now: Instant) -> bool {
        self.since.saturating_add(WHO) <= now
    }

    /// `node` says which token it has, if any.
    pub(in crate::engine) fn told_holder(&mut self, node: NodeId, token: Option<OwnedToken>) {
        self.holder.said(node, token, self.belief.nodes());
    }

    /// Returns what is left of the random delay after the latest attempt.
    pub(in crate::engine) fn delay_left(&self, now: Instant) -> Duration {
        self.delay.saturating_since(now)
    }

    /// It looks at the nodes that tell of nothing any more, at `now`.
    pub(in crate::engine) fn look_soon(&mut self, now: Instant) {
        self.soon = self.soon.min(now);
    }

    /// It is about to look: at all nodes, if it has not done so for long, and also at those that do not
    /// tell, if what others told was in vain.
    pub(in crate::engine) fn begin_to_look(&mut self, now: Instant) {
        if self.since == Instant::MAX {
            self.asks_at_once = self.who <= now;
            if self.asks_at_once {
                self.who = now.saturating_add(WHO_AGAIN);
            }
        }
        if self.look <= now {
            self.belief.ask_again();
            self.changes = 0;
        } else if WASTED_MAX <= self.wasted {
            self.belief.ask_untold();
        }
    }

    /// The nodes that have to be asked were asked, at `now`.
    pub(in crate::engine) fn looked(&mut self, pace: &mut Pace<'_>, delays: (Duration, Duration)) {
        self.since = self.since.min(pace.now);
        if self.who == Instant::MAX {
            self.who = pace.now.saturating_add(WHO);
        }
        let is_long = self.has_looked_for_long(pace.now);
        let mut after = |at: Instant, from, to| at.saturating_add(between(pace.random, from, to));
        let times = (1 + pace.contenders / CONTENDERS).min(TIMES_MAX);
        let look = match is_long {
            true => after(pace.now, LOOK_AGAIN * times, LOOK_AGAIN * times * 2),
            false => after(self.since, WHO * times, WHO * times * 3 / 2),
        };
        // A look at few nodes does not put off the one at all.
        self.look = match pace.now < self.look {
            true => self.look.min(look),
            false => look,
        };
        self.often = after(pace.now, delays.0, delays.1.max(SHORTEST));
        self.often = self.often.max(pace.now.saturating_add(SHORTEST));
        self.soon = Instant::MAX;
        self.asked = pace.now;
        if !self.belief.is_told() {
            self.look = self.look.min(self.often);
        }
    }

    /// Returns the time of which the contender wants to be reminded, if it is another than before: one
    /// that is near. Those that are far may be late by a tick.
    pub(in crate::engine) fn reminder(&mut self, now: Instant, next: Next) -> Option<Instant> {
        match next {
            Next::Attempt(at) if at != self.reminded && at < now.saturating_add(NEAR) => {
                self.reminded = at;
                Some(at)
            }
            Next::Attempt(_) | Next::Look(_) => None,
        }
    }

    /// `node` says what is left of the key. If that is anything, a window that has begun is over.
    pub(in crate::engine) fn answered(
        &mut self,
        now: Instant,
        node: NodeId,
        left: Remaining,
        pushes: bool,
    ) {
        let took = now.saturating_since(self.asked).min(PACE_MAX);
        self.took = (self.took * 7 + took) / 8;
        self.belief.looked(now, node, left, pushes);
        let said = self.said.get(node.index());
        if self.elsewhere.contains(node) || said.is_some_and(|said| !takes_a_set(*said)) {
            self.belief.not_before(self.delay, node);
        }
        if !self.belief.is_told() {
            self.look = self.look.min(self.often);
        }
        if left == Remaining::Missing {
            self.wasted = 0; // Others were faster.
        } else {
            self.window = None;
            if !self.told {
                self.splits = self.splits.saturating_sub(1);
            }
            self.told = true;
        }
    }

    /// `node` says that the key has changed. Others that do not tell may have it too, as long after as an
    /// answer takes.
    pub(in crate::engine) fn changed(&mut self, now: Instant, node: NodeId) {
        if self.splits == 1 && self.asked.saturating_add(QUIET) <= now {
            self.splits = 0;
        }
        self.changes = self.changes.saturating_add(1);
        let rest = match self.changes < CHANGES_MAX {
            true => Duration::ZERO,
            false => REST,
        };
        let from = now.saturating_add(rest);
        self.belief.changed(from, node, self.took);
        if self.elsewhere.contains(node) {
            self.belief.not_before(self.delay, node);
        }
        self.look_soon(from.saturating_add(LOOK_SOON));
        self.told = true;
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
        let believed = self.belief.free_at(|_| Instant::ZERO);
        let free = match self.has_asked() {
            true => self.belief.free_at(from),
            false => believed, // The nodes are to say themselves why there is no lock.
        };
        let attempt = match free <= pace.now {
            true => self.window_end(pace),
            false => free,
        };
        // While its window runs it learns whether another was earlier.
        let in_window = free <= pace.now && pace.now < attempt && self.soon != Instant::MAX;
        let look = match in_window {
            true => pace.now,
            // Its votes may count soon, and not all that changes that is told.
            false if believed <= pace.now && free == Instant::MAX => self.soon.min(self.often),
            false => self.soon.min(self.look),
        };
        match attempt <= look {
            true => Next::Attempt(attempt),
            false => Next::Look(look),
        }
    }

    fn window_end(&mut self, pace: &mut Pace<'_>) -> Instant {
        if let Some(end) = self.window {
            return end;
        }
        if !self.told {
            self.splits = self.splits.saturating_add(1);
            self.told = true;
        }
        let end = match self.splits < SPLITS_MAX {
            true => pace.now.saturating_add(self.window(pace)),
            false => self.delay.max(pace.now),
        };
        self.window = Some(end);
        end
    }

    /// Returns how long it leaves the lock to others: those who have waited for long come first.
    fn window(&self, pace: &mut Pace<'_>) -> Duration {
        let step = self.took.max(pace.round_trip);
        if self.splits == 0 {
            return match self.wasted < WASTED_MAX {
                true => Duration::ZERO,
                false => step * 2, // By then the nodes have answered.
            };
        }
        let young = OLD.saturating_sub(pace.waited).as_secs_f64() / OLD.as_secs_f64();
        let far = f64::from(self.splits.min(SPLITS_FEW)) / f64::from(SPLITS_FEW);
        let behind = (step * BEHIND).mul_f64(young * far);
        let width = match pace.waited < VERY_OLD {
            true => step * WIDTH,
            false => step / 4,
        };
        behind.saturating_add(between(pace.random, Duration::ZERO, width))
    }
}

/// Returns `true` unless a node that has said this did not take the `SET`, and may not yet. One that
/// others were faster than has said nothing.
const fn takes_a_set(said: NodeOutcome) -> bool {
    matches!(
        said,
        NodeOutcome::Granted | NodeOutcome::Held | NodeOutcome::Pending
    )
}

fn between(random: &mut StdRng, from: Duration, to: Duration) -> Duration {
    let (from, to) = (nanos(from), nanos(to));
    Duration::from_nanos(random.random_range(from..=to.max(from)))
}
