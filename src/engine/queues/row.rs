//! How long an engine keeps a lock for itself: after how many in a row it leaves it to others.
//!
//! A program that releases a lock and asks for it again is always faster than one that has to be told of
//! the release. So it leaves the lock to others for a moment, from time to time: often where it has met
//! others of late, and rarely where it has not, because it would not know of them.
//!
//! That is remembered for a moment and for a few resources, also while a resource has no place: a thread
//! that locks in a loop has none between two locks.

use core::time::Duration;

use crate::time::Instant;

/// How many locks in a row, and for how long, where others have been met.
const LOCKS_MAX: u32 = 16;
const TIME: Duration = Duration::from_millis(10);

/// How long a row is where nobody was met: of several that take turns, and of one that comes back. A
/// pause costs some round trips.
const TIME_AMONG_US: Duration = Duration::from_millis(100);
const TIME_ALONE: Duration = Duration::from_secs(1);

/// For how long it is remembered that others were met, and a row goes on.
const OF_LATE: Duration = Duration::from_secs(1);

/// How many resources are remembered, a power of two.
const REMEMBERED: usize = 64;

/// The locks on one resource that one engine has had in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    since: Instant,
    released: Instant,
    locks: u32,
    /// Until when it is remembered that others were met.
    met: Instant,
}

impl Row {
    const NONE: Self = Self {
        since: Instant::ZERO,
        released: Instant::ZERO,
        locks: 0,
        met: Instant::ZERO,
    };

    /// A lock was released.
    #[inline]
    pub(super) fn released(&mut self, now: Instant) {
        if self.locks == 0 {
            self.since = now;
        }
        self.locks = self.locks.saturating_add(1);
        self.released = now;
    }

    /// Others hold the lock, or ask for it.
    pub(super) fn met_others(&mut self, now: Instant) {
        self.met = now.saturating_add(OF_LATE);
        self.locks = 0;
    }

    /// Returns `true` if one that comes back to a lock leaves it to others first: where others were met
    /// it does each time.
    #[inline]
    pub(super) fn is_over_for_one(&mut self, now: Instant) -> bool {
        let over = now < self.met || self.has_lasted(now, TIME_ALONE);
        self.begin_another_if(over)
    }

    /// Returns `true` if the lock is left to others before the next of ours has it.
    #[inline]
    pub(super) fn is_over(&mut self, now: Instant) -> bool {
        let over = match now < self.met {
            true => LOCKS_MAX <= self.locks || self.has_lasted(now, TIME),
            false => self.has_lasted(now, TIME_AMONG_US),
        };
        self.begin_another_if(over)
    }

    fn has_lasted(&self, now: Instant, time: Duration) -> bool {
        self.since.saturating_add(time) <= now
    }

    fn begin_another_if(&mut self, over: bool) -> bool {
        let over = over && self.locks != 0;
        if over {
            self.locks = 0;
        }
        over
    }
}

/// The rows of resources, of the latest that were released: each has the slot of its hash.
#[derive(Debug)]
pub(super) struct Rows {
    slots: [(u64, Row); REMEMBERED],
}

impl Rows {
    pub(super) const fn new() -> Self {
        Self {
            slots: [(0, Row::NONE); REMEMBERED],
        }
    }

    /// Returns the row of the name with this `hash`: the present one, if it goes on at `now`.
    #[inline]
    pub(super) fn of(&mut self, now: Instant, hash: u64) -> &mut Row {
        let (of, row) = &mut self.slots[hash as usize % REMEMBERED];
        if *of != hash || row.released.max(row.met).saturating_add(OF_LATE) <= now {
            (*of, *row) = (hash, Row::NONE);
        }
        row
    }
}
