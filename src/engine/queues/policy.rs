//! Decides when a refused contender asks the nodes again, and when an engine lets other programs take a lock first.
//! Only `acquire::waiting` chooses the random delay, because the delay depends on the remaining tries and time.
//!
//! | the latest attempt | the next one |
//! | --- | --- |
//! | too few nodes answered | after a random delay |
//! | a caller of the exclusive lock keeps readers out | when a majority lets readers pass, when the key has gone, or a random delay after a change |
//! | another client holds the lock | when a majority of the nodes is believed to be free ([`Belief`]) |
//! | the votes were split | a window after that: up to [`BEHIND`] round trips for each split if the contender has just come, none if it has waited for [`OLD`], plus a random part of one round trip |
//! | no node granted the last [`WASTED_MAX`], and the key changes often | two round trips after that, so that it checks before it asks |
//! | a node did not take the `SET`, or another name of its set was taken | not believed free before the random delay |
//!
//! During the window after split votes, the contender checks whether another client was faster. The contender also
//! checks the nodes from time to time: often if nodes send no notifications, and rarely if they do. In the code, a
//! check of this kind is a *look*. If another client holds the lock for long, or several clients hold it in succession,
//! the contender also asks who holds it.
//!
//! A reader asks for the lock as soon as it may be free. If other readers hold the lock, the reader asks for it after
//! the random delay. With each check, a reader also asks who holds the lock, because a `PTTL` does not say whether the
//! holder blocks readers. A contender for the exclusive lock that finds readers records its *intent* on all nodes. The
//! intent blocks new readers, and each check renews it. A contender with an intent checks the nodes when the set of
//! readers has changed, and asks for the lock when the set is gone.
//!
//! A contender that wants a permit makes attempts instead of checks. The answers to a refused attempt show when the
//! first slot becomes free. The attempt also registers the key for notifications.
//!
//! A program that releases a lock and immediately asks for it again is always faster than a program that must first
//! learn of the release. So an engine gives way to others for a moment after a series ([`Row`]) of its own locks. An
//! engine that has recently competed with other clients gives way to them often. Any other engine gives way rarely, but
//! still from time to time, because it may not notice other clients.
//!
//! The comment on each constant gives the reason for its value. The figures come from the simulator
//! (`contention_in_numbers`: three nodes, holds of 1 ms, and unless stated otherwise 16 programs with one caller each
//! and a round trip of 200 us). The longest wait is given as a multiple of a fair share, and messages are counted per
//! node and hand-over.

use alloc::vec::Vec;
use core::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::error::NodeOutcome;
use crate::keys::NodeId;
use crate::node::Remaining;
use crate::quorum::NodeSet;
use crate::time::{Instant, NANOS_PER_TICK, nanos};

use super::belief::{Belief, Wants};

/// The minimum time between two checks by a contender that gets notifications. The actual time between two checks is up
/// to twice as long. No push reports a `SWAPDB`, so without this check a contender that gets notifications would wait
/// until its call ends. At this rate, a contender checks each node once in three seconds. The constant does not affect
/// contention: half a second and eight seconds give the same figures.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// If a contender has checked one lock for this long, each further check also asks who holds the lock. If the contender
/// also makes attempts, it asks who holds the lock at most twice in this time. If the contender asked for the holder
/// from its first check on, a hand-over between two programs would cost six messages instead of five. The constant has
/// no other effect on contention: 100 ms and two seconds give the same figures. A contender for the exclusive lock
/// notices readers only when it asks for the holder. With 400 ms, the contender waits for more than 2.5 s if readers
/// hold the lock for two seconds.
const WHO: Duration = Duration::from_millis(200);

/// After one node has reported a change, the contender waits this long for a majority to report it, before it asks that
/// node again. In a measurement with 0.1 ms, a hand-over costs one more message.
const LOOK_SOON: Duration = Duration::from_millis(2);

/// For each counted split, a newly arrived contender waits this many round trips longer than a contender that has
/// waited for [`OLD`]. A split adds two to the count, and each later lock of another client subtracts one. If the first
/// split cost 30 round trips, two programs with one caller each and a round trip of 1 ms would have 202 hand-overs per
/// second instead of 308, and sixteen programs would have 366 instead of 432.
const BEHIND: u32 = 3;

/// After this wait, a contender no longer gives way to others. With 50 ms, the longest wait of 32 programs with a round
/// trip of 1 ms rises from 1.9 to 3.6 fair shares, and their messages from 59 to 86.
const OLD: Duration = Duration::from_millis(100);

/// The number of round trips for which an engine gives way to others. An engine gives way for at least a tick, because
/// the operating system must schedule the other programs. Without the tick, a hand-over takes one more message if the
/// round trip is 50 us. With two programs of eight callers and a round trip of 1 ms, a hand-over takes 3.3 messages. A
/// hand-over would take 4.2 messages if the engine waited for a single tick, and 3.7 if it waited for four round trips.
/// A wait of sixteen round trips saves no further messages.
const LEFT_TO_OTHERS: u32 = 8;

/// If this number of consecutive attempts has failed on every node, and the key changes more than once per [`ROW`], a
/// change does not mean that the lock is free. In this case, the contender checks first, because a check costs two
/// messages and an attempt three. After twice this number of attempts, the contender reacts to reported changes more
/// and more slowly, up to ten times [`LOOK_SOON`]. Without this slowdown, the contender would check a key 1,000 times
/// per second if other clients wrote it that often. If the key changes less often, the attempts failed only because
/// other clients were faster, and a contender that checked first would always be too late. In the simulated world
/// `readers`, with six programs and holds of 50 ms, a contender that checked first made no attempt in 40 hand-overs.
const WASTED_MAX: u32 = 20;

/// After this number of attempts in which nodes assigned different slots, a contender waits for the random delay before
/// the next attempt. Each node may have a free slot, but no majority has the same free slot.
const MISSED_MAX: u32 = 3;

/// The maximum length of a [`Row`] of locks if the engine has recently competed with other clients. In a measurement
/// with two programs of eight callers, this limit reduces the longest wait from 123 to 6.4 fair shares. An additional
/// limit of sixteen consecutive locks did not improve the figures.
const ROW: Duration = Duration::from_millis(10);

/// The maximum length of a [`Row`] of several callers if the engine has not recently competed with other clients. With
/// one second instead of 100 ms, a program overtook a waiting program more than 350 times in a measurement.
const ROW_AMONG_US: Duration = Duration::from_millis(100);

/// The maximum length of a [`Row`] of one caller if the engine has not recently competed with other clients. The engine
/// also remembers for this long that other clients compete for the lock. An engine that gives way for a tick once per
/// second loses a thousandth of its time. With 100 ms, an engine would lose a hundredth of its time, and no measured
/// figure would improve. With 300 ms or three seconds, no figure changes by more than a fifth.
const LATELY: Duration = Duration::from_secs(1);

/// The time between the checks by a contender that wants the exclusive lock and knows of readers. Each check renews its
/// intent.
const BEHIND_READERS: Duration = Duration::from_millis(250);

/// A contender for the exclusive lock that has waited for this long records its intent as soon as it knows of readers.
/// In the simulated world `readers`, this rule reduces the number of runs with a wait of more than 2.5 s from 2 in 100
/// to 2 in 300.
const POLITE: Duration = Duration::from_millis(750);

/// The lifetime of an intent, which covers two checks and a round trip. A contender that gets the lock removes its
/// intent. Without this rule, the intent would block readers for longer than the lock itself: four programs of six
/// callers with holds of 10 ms would get 440 locks in 20 s instead of 4,900. The longest wait would be 2.7 s instead of
/// 0.7 s. If a contender leaves without the lock, the intent blocks readers until it expires.
pub(in crate::engine) const INTENT: Duration = Duration::from_millis(600);

/// The minimum time between two checks of nodes that send no notifications. An engine also gives way to others for at
/// least this time.
const TICK: Duration = Duration::from_nanos(NANOS_PER_TICK);

/// Why an attempt to take a lock failed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(in crate::engine) enum Refusal {
    #[default]
    Held,
    /// The resource has another number of permits.
    OtherPermits,
    NoQuorum,
    TooSlow,
    Saturated,
    OtherGroup,
}

/// What a contender has seen since it was refused: see the [module](self).
#[derive(Debug, Default)]
pub(in crate::engine) struct Wait {
    /// The reason why the latest attempt was refused, with the answer of each node.
    pub(in crate::engine) why: Refusal,
    pub(in crate::engine) said: Vec<NodeOutcome>,
    pub(in crate::engine) belief: Belief,
    /// The earliest time of the next attempt, and the length of a random delay.
    delay: Instant,
    rest: Duration,
    /// A random fraction of `u32::MAX`, which places the next attempt in the window after the latest attempt.
    luck: u32,
    /// The time until which the contender gives way to others.
    left: Option<Instant>,
    /// The times of the contender's first check, and of its first check after the latest attempt.
    began: Instant,
    since: Instant,
    /// The time from which the first check after an attempt also asks who holds the lock, and whether the next check
    /// asks who holds it.
    who: Instant,
    asks_at_once: bool,
    /// The time of the contender's next check.
    look: Instant,
    /// The time of the contender's next check if nodes send no notifications.
    often: Instant,
    /// When the contender next checks the nodes on which it is no longer registered.
    soon: Instant,
    /// The time at which the contender next renews its intent, and the time at which it first recorded its intent.
    intent: Instant,
    behind: Option<Instant>,
    /// The time of the contender's latest check, the average time that answers take, and the round trip to a majority.
    asked: Instant,
    took: Duration,
    round_trip: Duration,
    /// The number of consecutive attempts that no node has granted.
    wasted: u32,
    /// The count of recent splits. Each split adds two, and each lock of another client that the contender sees after
    /// its own attempt subtracts one.
    splits: u32,
    /// Whether a node has said, since the latest attempt, that another client holds the lock or that the key has
    /// changed.
    told: bool,
}

/// The next step of a contender.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::engine) enum Next {
    /// The contender asks for the lock.
    Attempt(Instant),
    /// The contender checks whether the lock is free.
    Look(Instant),
}

impl Next {
    pub(in crate::engine) const fn at(self) -> Instant {
        match self {
            Self::Attempt(at) | Self::Look(at) => at,
        }
    }

    /// Returns the time of an attempt for which the contender needs a reminder. If the attempt is due in more than
    /// two [`ROW`]s, a timer with the precision of a tick is enough.
    pub(in crate::engine) fn reminder(self, now: Instant) -> Option<Instant> {
        match self {
            Self::Attempt(at) if at < now.saturating_add(ROW * 2) => Some(at),
            Self::Attempt(_) | Self::Look(_) => None,
        }
    }
}

impl Wait {
    /// Creates the wait of a contender that asks this number of `nodes`, about which nothing is known yet.
    pub(in crate::engine) fn new(nodes: usize) -> Self {
        Self {
            belief: Belief::new(nodes),
            began: Instant::MAX,
            since: Instant::MAX,
            who: Instant::MAX,
            soon: Instant::MAX,
            asked: Instant::MAX,
            told: true,
            ..Self::default()
        }
    }

    // ----- decisions --------------------------------------------------------------------------

    /// Returns the next step of a contender that has waited since `started`. `from` returns the time from which a
    /// node's vote counts.
    pub(in crate::engine) fn next(
        &self,
        now: Instant,
        started: Instant,
        from: impl Fn(NodeId) -> Instant,
    ) -> Next {
        if self.why != Refusal::Held {
            return Next::Attempt(self.delay);
        }
        let believed = self.belief.free_at(|_| Instant::ZERO);
        let free = match self.has_asked() {
            true => self.belief.free_at(from),
            false => believed, // The nodes themselves should say why there is no lock.
        };
        let attempt = match self.left {
            Some(left) => free.max(left),
            None if self.belief.reads() => free, // Readers do not split votes.
            None => free.saturating_add(self.window(free.saturating_since(started))),
        };
        if self.belief.wants() == Wants::Slot {
            let look = self.soon.min(self.look);
            let look = if free <= now { attempt } else { look };
            let rests = 2 * MISSED_MAX < self.splits;
            let rest = if rests { self.delay } else { Instant::ZERO };
            let left = self.left.unwrap_or(Instant::ZERO);
            return Next::Attempt(attempt.min(look).max(rest).max(left));
        }
        let look = if free <= now && now < attempt && self.soon != Instant::MAX {
            now // During its window, the contender checks whether another client was earlier.
        } else if believed <= now && free == Instant::MAX {
            self.soon.min(self.often) // The votes may count soon, and no node reports this.
        } else {
            self.soon.min(self.look)
        };
        match attempt <= look {
            true => Next::Attempt(attempt),
            false => Next::Look(look),
        }
    }

    /// Returns how long a contender that has waited for `waited` gives way to contenders that have waited longer.
    fn window(&self, waited: Duration) -> Duration {
        let step = self.took.max(self.round_trip);
        if self.splits == 0 && self.told {
            return match self.wasted < WASTED_MAX || self.belief.wants() == Wants::Slot {
                true => Duration::ZERO,
                false => step * 2, // By then, the nodes have answered the check.
            };
        }
        let young = OLD.saturating_sub(waited).as_secs_f64() / OLD.as_secs_f64();
        let luck = f64::from(self.luck) / f64::from(u32::MAX);
        let behind = f64::from(BEHIND) * f64::from(self.splits.max(1));
        step.mul_f64(behind * young + luck)
    }

    // ----- attempts ---------------------------------------------------------------------------

    /// Returns `true` if the contender has made an attempt that was refused.
    pub(in crate::engine) const fn has_asked(&self) -> bool {
        !self.said.is_empty()
    }

    /// Lets other clients take the lock that this engine has released. After this pause, the contender behaves as if
    /// the votes had been split.
    pub(in crate::engine) fn leave_to_others(&mut self, now: Instant, round_trip: Duration) {
        let left = now.saturating_add((round_trip * LEFT_TO_OTHERS).max(TICK));
        self.left = Some(left);
        self.splits = self.splits.max(1);
        self.belief.suppose(left); // The lock was free a moment ago, and nodes may report nothing.
    }

    /// Records that an attempt was refused. The next attempt may begin at `delay`, and `rest` is the length of a random
    /// delay. The nodes in `elsewhere` have refused the attempt because of another resource of the set, or because of
    /// an intent. Until the delay ends, the contender does not believe that these nodes, or nodes that did not run the
    /// `SET`, are free, whatever they say about this resource.
    pub(in crate::engine) fn refused(
        &mut self,
        why: Refusal,
        said: impl Iterator<Item = NodeOutcome>,
        elsewhere: NodeSet,
        (delay, rest): (Instant, Duration),
        random: &mut StdRng,
    ) {
        self.rest = rest;
        self.why = why;
        self.said.clear();
        self.said.extend(said);
        self.wasted = self.wasted.saturating_add(1);
        if self.said.contains(&NodeOutcome::Granted) {
            (self.splits, self.wasted) = (self.splits.saturating_add(2), 0);
        } else if self.belief.wants() == Wants::Slot {
            self.splits = self.splits.saturating_sub(1); // For a permit, each attempt is also a check.
        }
        (self.delay, self.luck) = (delay, random.random());
        if self.belief.wants() != Wants::Slot {
            self.since = Instant::MAX;
        }
        (self.left, self.told) = (None, false);
        if self.belief.is_set() {
            self.ask_at_once();
        }
        let said = &self.said;
        let takes = |node: NodeId| !elsewhere.contains(node) && takes_a_set(said[node.index()]);
        self.belief.forget(|node| match takes(node) {
            true => Instant::ZERO,
            false => delay,
        });
    }

    /// Returns the remaining random delay after the latest attempt.
    pub(in crate::engine) fn delay_left(&self, now: Instant) -> Duration {
        self.delay.saturating_since(now)
    }

    // ----- checks -----------------------------------------------------------------------------

    /// Returns `true` if the next check also asks who holds the lock.
    pub(in crate::engine) fn asks_holder(&self, now: Instant) -> bool {
        self.has_looked_for_long(now) || self.asks_at_once || self.belief.reads()
    }

    fn has_looked_for_long(&self, now: Instant) -> bool {
        self.since.saturating_add(WHO) <= now
    }

    /// Plans a check at `at` of the nodes where the contender is no longer registered.
    pub(in crate::engine) fn look_soon(&mut self, at: Instant) {
        self.soon = self.soon.min(at);
    }

    /// Returns `true` if the contender waits for readers to release their locks, and its intent still exists.
    pub(in crate::engine) fn is_behind_readers(&self, now: Instant) -> bool {
        let stands = INTENT.saturating_sub(BEHIND_READERS);
        now < self.intent.saturating_add(stands) && self.intent != Instant::ZERO
    }

    /// Makes the first check ask who holds the lock, because readers have held it until now.
    pub(in crate::engine) fn ask_at_once(&mut self) {
        self.who = Instant::ZERO;
    }

    /// Prepares a check by the contender. If the regular check is due, makes this check ask all nodes and returns
    /// `true`.
    pub(in crate::engine) fn begin_to_look(&mut self, now: Instant) -> bool {
        let is_due = self.look <= now;
        if self.since == Instant::MAX || is_due {
            self.asks_at_once = self.who <= now;
            if self.asks_at_once {
                self.who = now.saturating_add(WHO / 2);
            }
        }
        if is_due {
            self.belief.ask_again();
        }
        is_due
    }

    /// Sets what the contender wants.
    pub(in crate::engine) fn set_wants(&mut self, wants: Wants) {
        self.belief.set_wants(wants, self.delay);
    }

    /// Records that `node` has no free slot before `until`: see [`Belief::is_full`].
    pub(in crate::engine) fn is_full(
        &mut self,
        node: NodeId,
        until: Instant,
        pushes: Option<bool>,
    ) {
        self.belief.is_full(node, until, pushes);
        self.told = true;
    }

    /// If the contender must record its intent now, returns the age of the intent. The contender checks again before
    /// the intent expires. After an attempt, the contender first gives way to readers that have waited behind another
    /// contender for the exclusive lock. A contender that has waited for [`POLITE`] does not give way, because new
    /// readers keep coming.
    pub(in crate::engine) fn leaves_intent(&mut self, now: Instant) -> Option<Duration> {
        if !self.belief.is_set() || self.belief.wants() != Wants::Lock {
            return None;
        }
        let polite = self.since.saturating_add(BEHIND_READERS);
        let due = polite.min(self.began.saturating_add(POLITE));
        let due = due.max(self.intent);
        let leaves = due <= now;
        if leaves {
            self.intent = now.saturating_add(BEHIND_READERS);
        }
        self.look = self.look.min(self.intent.max(due));
        leaves.then(|| now.saturating_since(*self.behind.get_or_insert(now)))
    }

    /// Returns the age of the intent in milliseconds, if the intent still exists.
    pub(in crate::engine) fn age_of_intent(&self, now: Instant) -> Option<u64> {
        let behind = self.behind.filter(|_| self.is_behind_readers(now))?;
        Some(now.saturating_since(behind).as_millis() as u64)
    }

    /// Records a check at `now`, in which the contender asked each node that had to be asked. If nodes send no
    /// notifications, the next check follows after one of these `delays`.
    pub(in crate::engine) fn looked(
        &mut self,
        now: Instant,
        round_trip: Duration,
        delays: (Duration, Duration),
        random: &mut StdRng,
    ) {
        (self.asked, self.round_trip) = (now, round_trip);
        self.began = self.began.min(now);
        self.since = self.since.min(now);
        self.who = self.who.min(now.saturating_add(WHO));
        let mut after = |at: Instant, from, to| at.saturating_add(between(random, from, to));
        let look = match self.has_looked_for_long(now) {
            true => after(now, LOOK_AGAIN, LOOK_AGAIN * 2),
            false => after(self.since, WHO, WHO * 3 / 2),
        };
        // If a check of all nodes is due earlier, it stays due, because the check at `now` may have asked only some
        // nodes.
        self.look = match now < self.look {
            true => self.look.min(look),
            false => look,
        };
        self.often = after(now, delays.0.max(TICK), delays.1);
        self.soon = Instant::MAX;
        self.look_often();
    }

    /// Makes the contender check the nodes often if no majority sends notifications.
    fn look_often(&mut self) {
        if !self.belief.is_told() {
            self.look = self.look.min(self.often);
        }
    }

    /// Records how much longer the key lives, as `node` has reported.
    pub(in crate::engine) fn answered(
        &mut self,
        now: Instant,
        node: NodeId,
        left: Remaining,
        pushes: bool,
    ) {
        let took = now.saturating_since(self.asked).min(LOOK_SOON); // Longer: this process was not scheduled.
        self.took = (self.took * 7 + took) / 8;
        self.belief.looked(now, node, left, pushes);
        self.look_often();
        if left == Remaining::Missing {
            self.wasted = 0; // Another client was faster.
        } else {
            self.left = None;
            if !self.told {
                self.splits = self.splits.saturating_sub(1);
            }
            self.told = true;
        }
    }

    /// Records that `node` has reported a change of the key. If the contender still does not believe that a majority is
    /// free, it checks the nodes soon. If the last check was at least a [`ROW`] ago, few clients compete for the lock,
    /// so the contender forgets one split and all unsuccessful attempts. After many unsuccessful attempts, the
    /// contender reacts to changes more and more slowly, because another client may be writing the key all the time.
    pub(in crate::engine) fn changed(&mut self, now: Instant, node: NodeId) {
        if self.asked.saturating_add(ROW) <= now {
            (self.splits, self.wasted) = (self.splits.saturating_sub(1), 0);
        }
        let vain = (self.wasted / WASTED_MAX).saturating_sub(1);
        let step = self.took.max(self.round_trip);
        let rest = step.saturating_mul(vain).min(LOOK_SOON * 10);
        let from = match self.belief.wants() {
            Wants::Slot => self.asked.saturating_add(rest).max(now), // Contenders that have waited less do not rest.
            Wants::Lock | Wants::Reader => now.saturating_add(rest),
        };
        let was_told = self.belief.is_told();
        self.belief.changed(from, node, self.rest);
        // Checks the nodes immediately when a majority has reported a change. A contender for a permit checks a little
        // later, because each of its checks is a whole attempt.
        let is_all = was_told && !self.belief.is_told() && self.belief.wants() != Wants::Slot;
        let soon = if is_all { Duration::ZERO } else { LOOK_SOON };
        self.look_soon(from.saturating_add(soon));
        self.told = true;
    }
}

/// Returns `false` if the node did not run the `SET`, and might therefore refuse the next one too. Returns `true` for a
/// node where another client was faster.
const fn takes_a_set(said: NodeOutcome) -> bool {
    matches!(
        said,
        NodeOutcome::Granted | NodeOutcome::Held | NodeOutcome::Pending
    )
}

pub(in crate::engine) fn between(random: &mut StdRng, from: Duration, to: Duration) -> Duration {
    let (from, to) = (nanos(from), nanos(to));
    Duration::from_nanos(random.random_range(from..=to.max(from)))
}

// ----- rows -------------------------------------------------------------------------------

/// The number of resources whose [`Row`] is remembered, a power of two.
const REMEMBERED: usize = 64;

/// A series of locks that one engine has held on one resource.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Row {
    /// When the series began, or `None` if it has not begun.
    since: Option<Instant>,
    released: Instant,
    /// The time until which the engine remembers that it competed with other clients.
    met: Instant,
}

impl Row {
    /// Records that a lock was released.
    #[inline]
    pub(super) fn released(&mut self, now: Instant) {
        self.since.get_or_insert(now);
        self.released = now;
    }

    /// Records that other clients hold the lock or ask for it. If `ends` is `true`, also ends the series: the clients
    /// cannot hold the lock at the same time as this engine.
    pub(super) fn met_others(&mut self, now: Instant, ends: bool) {
        self.met = now.saturating_add(LATELY);
        self.since = self.since.filter(|_| !ends);
    }

    /// Returns `true` if the engine must give way to others before its next caller gets the lock. In this case, also
    /// ends the series. `lone` means that only one caller uses the lock and has just asked for it again. If the engine
    /// has recently competed with other clients, it gives way to them each time this caller asks again.
    #[inline]
    pub(super) fn is_over(&mut self, now: Instant, lone: bool) -> bool {
        let most = match (now < self.met, lone) {
            (true, true) => Duration::ZERO,
            (true, false) => ROW,
            (false, true) => LATELY,
            (false, false) => ROW_AMONG_US,
        };
        let is_over = |since: &mut Instant| since.saturating_add(most) <= now;
        self.since.take_if(is_over).is_some()
    }
}

/// The [`Row`]s of the most recently released resources, each in the slot of its hash. A [`Row`] is kept for a moment
/// after its place is closed, because a thread that locks in a loop has no place between two of its locks.
#[derive(Debug)]
pub(super) struct Rows {
    slots: [(u64, Row); REMEMBERED],
}

impl Rows {
    pub(super) fn new() -> Self {
        Self {
            slots: [(0, Row::default()); REMEMBERED],
        }
    }

    /// Returns the [`Row`] of the name with this `hash`: the current one if it continues at `now`, and otherwise a new
    /// one.
    #[inline]
    pub(super) fn of(&mut self, now: Instant, hash: u64) -> &mut Row {
        self.of_wanted(now, hash, false)
    }

    /// Like [`of`](Self::of), but also continues an old [`Row`] if waiting callers want the name (`is_wanted`), because
    /// these callers may have waited during one long lock.
    #[inline]
    pub(super) fn of_wanted(&mut self, now: Instant, hash: u64, is_wanted: bool) -> &mut Row {
        let (of, row) = &mut self.slots[hash as usize % REMEMBERED];
        let is_old = || row.released.max(row.met).saturating_add(LATELY) <= now;
        if *of != hash || !is_wanted && is_old() {
            (*of, *row) = (hash, Row::default());
        }
        row
    }
}

#[cfg(test)]
mod tests;
