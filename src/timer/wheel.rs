//! The wheel itself: what is armed, and how time moves it.
//!
//! # Why the order holds
//!
//! While the wheel stands at a tick, every timer stands in [`Place::of`] its own tick and that
//! one: it is put there, and whenever the wheel enters a slot of a level above the lowest, all that
//! wait in it are put where they belong now, *before* anything can be armed. So the timers of
//! one tick are always in one list. They enter it at its end, and they leave a slot together, from
//! its front: their order in the list is that in which they were armed, on whatever level they
//! began. No sequence number is kept.

#![warn(clippy::arithmetic_side_effects)]

use alloc::boxed::Box;
use core::fmt;

use super::level::{LEVELS, Occupancy, Place, SLOTS};
use super::list::{List, Timer};
use crate::slab::{Key, Slab};
use crate::time::Instant;

/// Names one timer of one [`Wheel`].
///
/// A key stays harmless after its timer has fired or was cancelled: it then names nothing, and
/// never a later timer. In another wheel than its own it means nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TimerKey(Key);

/// Timers with a value each, fired in order. See the [module](super) for what holds.
///
/// ```
/// use shearline::Instant;
/// use shearline::timer::Wheel;
///
/// let mut wheel = Wheel::new(Instant::ZERO);
/// wheel.insert(Instant::from_millis(20), "node timeout");
/// let retry = wheel.insert(Instant::from_millis(5), "retry");
/// assert_eq!(wheel.next(), Some((Instant::from_millis(5), &"retry")));
///
/// assert_eq!(wheel.cancel(retry), Some("retry"));
/// assert_eq!(wheel.expire(Instant::from_millis(19)), None);
/// assert_eq!(wheel.expire(Instant::from_millis(20)), Some("node timeout"));
/// assert_eq!(wheel.next(), None);
/// ```
pub struct Wheel<T> {
    /// Where the wheel stands. Nothing is armed for an earlier tick.
    tick: u64,
    /// The latest `now` that was seen.
    latest: Instant,
    occupied: Occupancy,
    slots: Box<[[List; SLOTS]; LEVELS]>,
    timers: Slab<Timer<T>>,
}

impl<T> Wheel<T> {
    /// A wheel without timers that stands at `start`.
    ///
    /// It takes three kilobytes, and for each timer that is armed at the same time the size of `T`
    /// and twenty-four bytes.
    #[must_use]
    pub fn new(start: Instant) -> Self {
        Self {
            tick: reached(start),
            latest: start,
            occupied: Occupancy::default(),
            slots: Box::new([[List::EMPTY; SLOTS]; LEVELS]),
            timers: Slab::new(),
        }
    }

    /// Arms a timer that fires at the first [`expire`](Self::expire) whose `now` is not before
    /// `at`, rounded up to a tick. Constant time.
    ///
    /// An `at` that has gone by is due at the next `expire`; it counts as the tick at which the
    /// wheel stands, behind what was armed for that tick before. [`Instant::MAX`] is an instant
    /// like any other: the timer fires when `now` gets there.
    ///
    /// # Panics
    ///
    /// With 2^32 - 1 timers armed.
    pub fn insert(&mut self, at: Instant, value: T) -> TimerKey {
        let tick = self.tick_for(at);
        let key = self.timers.insert(Timer::new(tick, value));
        self.place(key.index(), tick);
        TimerKey(key)
    }

    /// Disarms the timer and gives its value back, `None` if it has fired or was cancelled.
    /// Constant time.
    pub fn cancel(&mut self, key: TimerKey) -> Option<T> {
        let timer = self.timers.remove(key.0)?;
        let place = Place::of(timer.tick.get(), self.tick);
        Some(self.leave(place, timer))
    }

    /// Fires the next timer that is due at `now`: by tick, and within a tick in the order of
    /// arming. `None` when no more is due.
    ///
    /// Call it until `None`; timers may be armed and cancelled in between, also for the tick that
    /// is being fired. A `now` before the latest one counts as that one.
    ///
    /// Over its life a timer is moved at most once per level, and once in 2^36 ticks while it is
    /// beyond the wheel's reach; a stretch of time in which nothing waits costs nothing. One call
    /// may have to move all that wait in one slot.
    pub fn expire(&mut self, now: Instant) -> Option<T> {
        self.latest = self.latest.max(now);
        let reached = reached(self.latest);
        while let Some((place, start)) = self.occupied.first(self.tick) {
            if reached < start {
                break;
            }
            self.tick = start;
            if place.level == 0 {
                return self.fire(place);
            }
            self.cascade(place);
        }
        self.tick = reached;
        None
    }

    /// When to call [`expire`](Self::expire) next, and the value of a timer that waits for it:
    /// it names the reason for the wake-up. `None` when nothing is armed.
    ///
    /// Never later than the first timer. For a timer on the lowest level (at most 63 ms away, in
    /// the same run of 64 ticks as the wheel) it is the exact tick, and the value is that of the
    /// timer that fires first. For one on a level above it is the start of its slot: an `expire`
    /// then fires nothing, but moves the timer down, so that each timer costs at most five
    /// such wake-ups, and one more in 2^36 ticks.
    ///
    /// After an `expire` that returned `None` the answer is later than its `now`, unless something
    /// was armed since that is due already. Costs a step per level, whatever is armed.
    #[must_use]
    pub fn next(&self) -> Option<(Instant, &T)> {
        let (place, start) = self.occupied.first(self.tick)?;
        let first = self.slots[place.level][place.slot].first()?;
        Some((Instant::from_tick(start), &self.timers.at(first).value))
    }

    /// How many timers are armed.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.timers.len()
    }

    /// Whether no timer is armed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.timers.is_empty()
    }

    /// The tick that a timer for `at` fires at.
    fn tick_for(&self, at: Instant) -> u64 {
        let tick = at.tick_ceil();
        // What is due already does not wait for the end of the tick that `now` is in.
        let tick = if at <= self.latest {
            tick.min(reached(self.latest))
        } else {
            tick
        };
        tick.max(self.tick)
    }

    /// Puts the timer at `index` where a timer for `tick` belongs now.
    fn place(&mut self, index: u32, tick: u64) {
        let place = Place::of(tick, self.tick);
        self.slots[place.level][place.slot].push(&mut self.timers, index);
        self.occupied.set(place);
    }

    /// Takes what is left of `timer` out of its slot, `place`.
    fn leave(&mut self, place: Place, timer: Timer<T>) -> T {
        if self.slots[place.level][place.slot].close(&mut self.timers, &timer) {
            self.occupied.clear(place);
        }
        timer.value
    }

    /// Takes the first timer of `place` out of the wheel.
    fn fire(&mut self, place: Place) -> Option<T> {
        let first = self.slots[place.level][place.slot].first()?;
        let timer = self.timers.remove_at(first);
        Some(self.leave(place, timer))
    }

    /// Puts all timers of `place`, which the wheel has just entered, where they belong now.
    fn cascade(&mut self, place: Place) {
        let slot = &mut self.slots[place.level][place.slot];
        let mut rest = core::mem::replace(slot, List::EMPTY).first();
        self.occupied.clear(place);
        while let Some(index) = rest {
            let timer = self.timers.at(index);
            let tick = timer.tick.get();
            rest = List::after(&self.timers, index);
            self.place(index, tick);
        }
    }
}

impl<T> fmt::Debug for Wheel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheel")
            .field("tick", &self.tick)
            .field("armed", &self.len())
            .field("next", &self.next().map(|(at, _)| at))
            .finish_non_exhaustive()
    }
}

/// The last tick whose beginning is not after `now`.
fn reached(now: Instant) -> u64 {
    // The end of time is no whole tick. A timer beyond the last whole one is told to wait for
    // `Instant::MAX`, so there it must be let go.
    if now == Instant::MAX {
        now.tick_ceil()
    } else {
        now.tick_floor()
    }
}
