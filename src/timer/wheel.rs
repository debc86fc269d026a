//! The wheel itself: the armed timers, and how time moves them.
//!
//! # Why the order holds
//!
//! Every timer, including a new one, is in the place that [`Place::of`] computes from its own tick and the tick of the
//! wheel. When the wheel enters a slot of a higher level, it moves all timers of this slot to their new places *before*
//! another timer can be armed. If a timer is alone in its slot, the wheel does not move the timer, but fires it
//! directly. So the timers of one tick are always in one ring. The timers of one tick enter this ring at the end, and
//! leave it together, from the front. So these timers are in the order in which they were armed, on every level and
//! without sequence numbers.

#![warn(clippy::arithmetic_side_effects)]

use core::fmt;
use core::num::NonZeroU64;

use super::level::{Occupancy, Place};
use super::ring::Rings;
use crate::slab::{self, Key, Slab};
use crate::time::Instant;

/// The key of one timer of a [`Wheel`].
///
/// A key stays harmless after its timer has fired or was cancelled, because it never matches a later timer. A key has
/// no meaning in another wheel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TimerKey(Key);

/// A set of timers that fire in order. Each timer has a value. See the module for the guarantees of a wheel.
///
/// ```
/// # #[cfg(feature = "internals")] {
/// use shearline::Instant;
/// use shearline::internals::Wheel;
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
/// # }
/// ```
pub struct Wheel<T> {
    /// The tick of the wheel. No timer is armed for a tick before this tick.
    tick: u64,
    /// The latest `now` that a caller has passed.
    latest: Instant,
    occupied: Occupancy,
    rings: Rings<{ Place::COUNT }>,
    timers: Slab<Timer<T>>,
}

/// One armed timer.
#[derive(Debug)]
struct Timer<T> {
    tick: Tick,
    value: T,
}

/// A tick, stored so that zero is unused. The slab can mark a vacant place by zero, and needs no flag. The struct is
/// packed, so that it adds no padding to values of four bytes or multiples of four.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(Rust, packed(4))]
struct Tick(NonZeroU64);

impl Tick {
    const fn new(tick: u64) -> Self {
        // The addition never saturates, because the last tick is far below the largest number.
        Self(NonZeroU64::MIN.saturating_add(tick))
    }

    const fn get(self) -> u64 {
        let Self(tick) = self;
        tick.get().wrapping_sub(1)
    }
}

// A timer stores only its value, a generation and a tick.
const _: () = assert!(size_of::<slab::Place<Timer<u64>>>() <= 24);
const _: () = assert!(size_of::<slab::Place<Timer<[u32; 3]>>>() <= 24);

impl<T> Wheel<T> {
    /// Creates a wheel without timers, at `start`.
    ///
    /// The wheel takes three kilobytes. Each armed timer takes the size of `T` and twenty bytes, rounded up to whole
    /// words if `T` is aligned to words.
    #[must_use]
    pub fn new(start: Instant) -> Self {
        Self {
            tick: reached(start),
            latest: start,
            occupied: Occupancy::default(),
            rings: Rings::new(),
            timers: Slab::new(),
        }
    }

    /// Arms a timer. The timer fires at the first [`expire`](Self::expire) whose `now` is not before `at`, rounded up
    /// to a tick. This call takes constant time.
    ///
    /// If `at` has passed, the timer is due at the next `expire`. A timer that is already due joins the timers of the
    /// wheel's current tick, and fires after them. The latest time, [`Instant::MAX`], is an ordinary instant: the timer
    /// fires when `now` reaches it.
    ///
    /// # Panics
    ///
    /// Panics if about 2^32 timers are armed.
    pub fn insert(&mut self, at: Instant, value: T) -> TimerKey {
        let tick = self.tick_for(at);
        let key = self.timers.insert(Timer {
            tick: Tick::new(tick),
            value,
        });
        self.place(key.index(), tick);
        TimerKey(key)
    }

    /// Disarms the timer and returns its value. Returns `None` if the timer has fired or was cancelled. This call takes
    /// constant time.
    pub fn cancel(&mut self, key: TimerKey) -> Option<T> {
        let timer = self.timers.remove(key.0)?;
        self.leave(key.0.index());
        Some(timer.value)
    }

    /// Fires the next timer that is due at `now`. Timers fire by tick, and within a tick in the order of arming.
    /// Returns `None` when no more timers are due.
    ///
    /// Call `expire` until it returns `None`. Between these calls, timers may be armed and cancelled, even for the tick
    /// that is firing. If `now` is before the latest `now`, the latest `now` counts.
    ///
    /// During its life, a timer moves at most once for each level, and once in 2^36 ticks while it is beyond the reach
    /// of the wheel. A timer that is alone in its slot when it is due does not move at all. Time without armed timers
    /// costs nothing. One call may have to move all timers of one slot.
    pub fn expire(&mut self, now: Instant) -> Option<T> {
        self.latest = self.latest.max(now);
        let reached = reached(self.latest);
        while let Some((place, start)) = self.occupied.first(self.tick) {
            if reached < start {
                break;
            }
            self.tick = start;
            if place.level == 0 {
                return Some(self.fire(place));
            }
            if let Some(tick) = self.only_tick(place, start)
                && tick <= reached
            {
                self.tick = tick;
                return Some(self.fire(place));
            }
            self.cascade(place);
        }
        self.tick = reached;
        None
    }

    /// Returns when to call [`expire`](Self::expire) next. Also returns the value of one timer for which the call is
    /// needed. Returns `None` if no timer is armed.
    ///
    /// The returned time is never later than the time of the first timer. If the first timer is alone in its slot, or
    /// on the lowest level, the method returns the exact tick and the value of this timer. The lowest level has the
    /// timers of the current run of 64 ticks, which are at most 63 ms away. If several timers share a slot of a higher
    /// level, the returned time is the start of this slot. A call of `expire` then fires nothing, but moves the timers
    /// down, so each timer costs at most five such wake-ups. A timer beyond the reach of the wheel costs one more
    /// wake-up in 2^36 ticks.
    ///
    /// After `expire` has returned `None`, the returned time is later than the `now` of that call, unless a timer that
    /// is already due was armed since. This call takes one step for each level, however many timers are armed.
    #[must_use]
    pub fn next(&self) -> Option<(Instant, &T)> {
        let (place, start) = self.occupied.first(self.tick)?;
        let tick = match place.level {
            0 => start,
            _ => self.only_tick(place, start).unwrap_or(start),
        };
        let value = &self.timers.at(self.first_in(place)).value;
        Some((Instant::from_tick(tick), value))
    }

    /// Returns the latest `now` that a caller has passed. An earlier `now` counts as the latest `now`.
    #[must_use]
    pub const fn latest(&self) -> Instant {
        self.latest
    }

    /// Returns the number of armed timers.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.timers.len()
    }

    /// Returns `true` if no timer is armed.
    #[cfg(any(test, fuzzing, feature = "internals"))]
    pub const fn is_empty(&self) -> bool {
        self.timers.is_empty()
    }

    /// Returns the tick at which a timer for `at` fires.
    fn tick_for(&self, at: Instant) -> u64 {
        let tick = at.tick_ceil();
        // A timer that is already due fires in the current tick.
        let tick = if at <= self.latest {
            tick.min(reached(self.latest))
        } else {
            tick
        };
        tick.max(self.tick)
    }

    /// Puts the timer at `index` into the place where a timer for `tick` belongs now.
    fn place(&mut self, index: u32, tick: u64) {
        let place = Place::of(tick, self.tick);
        self.rings.push(place.number(), index);
        self.occupied.set(place);
    }

    /// Takes the timer at `index` out of its slot.
    fn leave(&mut self, index: u32) {
        if let Some(empty) = self.rings.remove(index) {
            self.occupied.clear(Place::numbered(empty));
        }
    }

    /// If `place`, which begins at `start`, contains only one timer, returns the tick of this timer. No other timer is
    /// due before this timer, because no timer is on a lower level or in an earlier slot.
    fn only_tick(&self, place: Place, start: u64) -> Option<u64> {
        let only = self.rings.only(place.number())?;
        let tick = self.timers.at(only).tick.get();
        // On the top level, the timer may belong to a later round of the wheel.
        place.holds(start, tick).then_some(tick)
    }

    /// Takes the first timer of `place` out of the wheel.
    fn fire(&mut self, place: Place) -> T {
        let index = self.first_in(place);
        self.leave(index);
        self.timers.remove_at(index).value
    }

    /// Returns the timer that came to `place` first. The place must be occupied.
    fn first_in(&self, place: Place) -> u32 {
        let first = self.rings.first(place.number());
        first.expect("a slot whose bit is set holds a timer")
    }

    /// Moves all timers of `place`, which the wheel has just entered, to their new places.
    fn cascade(&mut self, place: Place) {
        let mut rest = self.rings.first(place.number());
        self.rings.clear(place.number());
        self.occupied.clear(place);
        while let Some(index) = rest {
            let tick = self.timers.at(index).tick.get();
            rest = self.rings.after(index);
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

/// Returns the last tick that begins at or before `now`.
fn reached(now: Instant) -> u64 {
    // `Instant::MAX` is not a whole tick, and a timer beyond the last whole tick must fire at `Instant::MAX`.
    if now == Instant::MAX {
        now.tick_ceil()
    } else {
        now.tick_floor()
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::vec::Vec;

    use super::*;

    const NANO: Duration = Duration::from_nanos(1);

    fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn drain<T>(wheel: &mut Wheel<T>, now: Instant) -> Vec<T> {
        core::iter::from_fn(|| wheel.expire(now)).collect()
    }

    /// Returns distances just inside and just outside every level, and the reach of the wheel.
    fn distances() -> impl Iterator<Item = u64> {
        const HUNDRED_YEARS: u64 = 3_153_600_000_000;
        let widths = [1_u64, 1 << 6, 1 << 12, 1 << 18, 1 << 24, 1 << 30, 1 << 36];
        let around = widths.map(|width| [width.saturating_sub(1), width, width.saturating_add(1)]);
        let others = [62, 127, 128, 2 << 36, HUNDRED_YEARS];
        around.into_iter().flatten().chain(others)
    }

    #[test]
    fn a_timer_fires_at_its_tick_and_not_a_nanosecond_before() {
        for start in [0, 1, 63, 64, 4_095, 68_719_476_735] {
            for distance in distances() {
                let at = ms(start + distance);
                let mut wheel = Wheel::new(ms(start));
                wheel.insert(at, distance);
                if distance != 0 {
                    assert_eq!(
                        wheel.expire(at.saturating_sub(NANO)),
                        None,
                        "{start}+{distance}"
                    );
                }
                assert_eq!(wheel.len(), 1);
                assert_eq!(wheel.expire(at), Some(distance), "{start}+{distance}");
                assert_eq!((wheel.expire(Instant::MAX), wheel.len()), (None, 0));
            }
        }
    }

    /// A caller that sleeps until `next` and then calls `expire` gets each timer at its exact tick. A single timer
    /// causes no earlier wake-up, except once in each turn of the top level.
    #[test]
    fn sleeping_until_next_fires_a_lone_timer_on_time_and_at_once() {
        for distance in distances() {
            let (start, at) = (ms(37), ms(37 + distance));
            let mut wheel = Wheel::new(start);
            wheel.insert(at, distance);
            let (empty, fired) = sleep_and_fire(&mut wheel);
            assert_eq!(fired, [(at, distance)]);
            assert!(
                empty <= distance >> 36,
                "{empty} empty wake-ups for {distance}"
            );
        }
    }

    /// Two timers that share a slot on each higher level cause at most one empty wake-up for each of these levels, and
    /// one for each turn of the top level.
    #[test]
    fn sleeping_until_next_fires_two_timers_on_time() {
        for distance in distances() {
            let at = [ms(37 + distance), ms(38 + distance)];
            let mut wheel = Wheel::new(ms(37));
            wheel.insert(at[1], distance + 1);
            wheel.insert(at[0], distance);
            let (empty, fired) = sleep_and_fire(&mut wheel);
            assert_eq!(fired, [(at[0], distance), (at[1], distance + 1)]);
            assert!(
                empty <= 5 + (distance >> 36),
                "{empty} empty wake-ups for {distance}"
            );
        }
    }

    /// Sleeps until `next`, again and again, until no timer is armed. Returns the number of empty wake-ups, and each
    /// timer with its time.
    fn sleep_and_fire(wheel: &mut Wheel<u64>) -> (u64, Vec<(Instant, u64)>) {
        let (mut empty, mut fired) = (0_u64, Vec::new());
        while let Some((next, _)) = wheel.next() {
            let value = wheel.expire(next);
            fired.extend(value.map(|value| (next, value)));
            if value.is_none() {
                empty = empty.saturating_add(1);
                let after = wheel.next().expect("nothing has fired").0;
                assert!(next < after, "a busy loop");
            }
        }
        (empty, fired)
    }

    /// Expects `told` if another timer waits in the same slot, and `at` if there is none.
    #[test]
    fn next_is_exact_on_the_lowest_level_and_of_a_lone_timer_or_else_the_start_of_the_slot() {
        for (stands, at, told) in [
            (0, 1, 1),
            (0, 63, 63),
            (0, 64, 64),
            (0, 65, 64),
            (0, 127, 64),
            (0, 128, 128),
            (60, 70, 64),
            (64, 70, 70),
            (0, 4_095, 4_032),
            (0, 4_096, 4_096),
            (0, 5_000, 4_096),
            (1 << 30, (1 << 30) + 1, (1 << 30) + 1),
            (0, 68_719_476_735, 67_645_734_912),
        ] {
            let mut wheel = Wheel::new(ms(stands));
            let timer = wheel.insert(ms(at), at);
            assert_eq!(wheel.next(), Some((ms(at), &at)), "{at} seen from {stands}");
            wheel.insert(ms(at), at);
            let next = wheel.next();
            assert_eq!(next, Some((ms(told), &at)), "{at} seen from {stands}");
            wheel.cancel(timer);
            assert_eq!(wheel.next(), Some((ms(at), &at)), "{at} seen from {stands}");
        }
        for (at, told) in [
            (68_719_476_736, 68_719_476_736),
            (2 * 68_719_476_736, 68_719_476_736),
            (68_719_476_736 + (5 << 30), 5 << 30),
        ] {
            let mut wheel = Wheel::new(Instant::ZERO);
            wheel.insert(ms(at), at);
            let next = wheel.next();
            assert_eq!(next, Some((ms(told), &at)), "{at} is for a later round");
        }
    }

    /// If the only timer in a slot belongs to a later round, another timer is due first.
    #[test]
    fn a_lone_timer_of_a_later_round_lets_those_of_this_one_go_first() {
        let (round, width) = (1_u64 << 36, 1_u64 << 30);
        let mut wheel = Wheel::new(Instant::ZERO);
        wheel.insert(ms(round + 5 * width + 1), 'b');
        wheel.insert(ms(7 * width), 'a');
        assert_eq!(drain(&mut wheel, Instant::MAX), ['a', 'b']);
    }

    #[test]
    fn the_end_of_time_can_be_waited_for_and_reached() {
        let last_whole = Instant::from_tick(Instant::MAX.tick_floor());
        let before_max = Instant::MAX.saturating_sub(NANO);
        let mut wheel = Wheel::new(Instant::ZERO);
        for (at, value) in [
            (Instant::MAX, 'c'),
            (before_max, 'd'),
            (last_whole, 'b'),
            (ms(1), 'a'),
        ] {
            wheel.insert(at, value);
        }
        assert_eq!(drain(&mut wheel, before_max), ['a', 'b']);
        assert_eq!(wheel.next(), Some((Instant::MAX, &'c')));
        assert_eq!(drain(&mut wheel, Instant::MAX), ['c', 'd']);
        wheel.insert(Instant::MAX, 'e');
        wheel.insert(Instant::ZERO, 'f');
        assert_eq!(drain(&mut wheel, Instant::ZERO), ['e', 'f']);
        let mut wheel = Wheel::new(Instant::MAX);
        wheel.insert(Instant::MAX, ());
        assert_eq!(wheel.next(), Some((Instant::MAX, &())));
        assert_eq!(wheel.expire(Instant::MAX), Some(()));
    }

    #[test]
    fn nothing_is_allocated_below_the_high_water_mark() {
        let mut wheel = Wheel::new(Instant::ZERO);
        let mut keys: Vec<TimerKey> = (0..1_000).map(|n| wheel.insert(ms(n * n), n)).collect();
        let capacity = wheel.timers.capacity();
        let mut now = 0;
        for round in 0..20_000 {
            now += round % 97;
            while wheel.expire(ms(now)).is_some() {}
            let oldest = keys.swap_remove(round as usize * 31 % keys.len());
            wheel.cancel(oldest);
            while wheel.len() < 1_000 {
                keys.push(wheel.insert(ms(now + round * round % 300_000), round));
            }
        }
        assert_eq!(wheel.timers.capacity(), capacity);
    }
}
