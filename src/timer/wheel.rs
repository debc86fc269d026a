//! The wheel itself: what is armed, and how time moves it.
//!
//! # Why the order holds
//!
//! While the wheel stands at a tick, every timer stands in [`Place::of`] its own tick and that one:
//! it is put there, and whenever the wheel enters a slot of a level above the lowest, all that wait
//! in it are put where they belong now, *before* anything can be armed; or it is one timer, which
//! fires, and the wheel goes on to its tick. So the timers of one tick are always in one ring. They
//! enter it at its end, and they leave a slot together, from its front: their order in the ring is
//! that in which they were armed, on any level. No sequence number is kept.

#![warn(clippy::arithmetic_side_effects)]

use core::fmt;
use core::num::NonZeroU64;

use super::level::{Occupancy, Place};
use super::ring::Rings;
use crate::slab::{self, Key, Slab};
use crate::time::Instant;

/// Names one timer of one [`Wheel`].
///
/// A key stays harmless after its timer has fired or was cancelled: it then names nothing, and
/// never a later timer. In another wheel than its own it means nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TimerKey(Key);

/// Timers with a value each, fired in order. See the module for what holds.
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
    /// Where the wheel stands. Nothing is armed for an earlier tick.
    tick: u64,
    /// The latest `now` that was seen.
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

/// A tick, stored so that zero is left over: the slab tells a vacant place by it and needs no flag. Packed, so
/// that no room is lost beside values of four bytes and their multiples.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(Rust, packed(4))]
struct Tick(NonZeroU64);

impl Tick {
    const fn new(tick: u64) -> Self {
        // The last tick there is is far from the end of the numbers: this adds one, always.
        Self(NonZeroU64::MIN.saturating_add(tick))
    }

    const fn get(self) -> u64 {
        let Self(tick) = self;
        tick.get().wrapping_sub(1)
    }
}

// Beside the value a key's generation and a tick, and nothing else.
const _: () = assert!(size_of::<slab::Place<Timer<u64>>>() <= 24);
const _: () = assert!(size_of::<slab::Place<Timer<[u32; 3]>>>() <= 24);

impl<T> Wheel<T> {
    /// A wheel without timers that stands at `start`.
    ///
    /// It takes three kilobytes, and for each timer that is armed at the same time the size of `T`
    /// and twenty bytes, in whole words if `T` is aligned to these.
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

    /// Arms a timer that fires at the first [`expire`](Self::expire) whose `now` is not before
    /// `at`, rounded up to a tick. Constant time.
    ///
    /// An `at` that has gone by is due at the next `expire`; it counts as the tick at which the
    /// wheel stands, behind what was armed for that tick before. [`Instant::MAX`] is an instant
    /// like any other: the timer fires when `now` gets there.
    ///
    /// # Panics
    ///
    /// With some 2^32 timers armed.
    pub fn insert(&mut self, at: Instant, value: T) -> TimerKey {
        let tick = self.tick_for(at);
        let key = self.timers.insert(Timer {
            tick: Tick::new(tick),
            value,
        });
        self.place(key.index(), tick);
        TimerKey(key)
    }

    /// Disarms the timer and returns its value, or `None` if it has fired or was cancelled.
    /// Constant time.
    pub fn cancel(&mut self, key: TimerKey) -> Option<T> {
        let timer = self.timers.remove(key.0)?;
        self.leave(key.0.index());
        Some(timer.value)
    }

    /// Fires the next timer that is due at `now`: by tick, and within a tick in the order of
    /// arming. `None` when no more is due.
    ///
    /// Call it until `None`; timers may be armed and cancelled in between, also for the tick that
    /// is being fired. A `now` before the latest one counts as that one.
    ///
    /// Over its life a timer is moved at most once per level, and once in 2^36 ticks while it is
    /// beyond the wheel's reach; not at all if it is alone in its slot when it is due. A stretch of
    /// time in which nothing waits costs nothing. One call may have to move all that wait in one slot.
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

    /// Returns when to call [`expire`](Self::expire) next, and the value of a timer that waits for
    /// it: it names the reason for the wake-up. `None` when nothing is armed.
    ///
    /// Never later than the first timer. For a timer on the lowest level (at most 63 ms away, in
    /// the same run of 64 ticks as the wheel), or alone in its slot, it is the exact tick, and the
    /// value is that of the timer that fires first. For several in a slot of a level above it is the
    /// start of that slot: an `expire` then fires nothing, but moves the timers down, so that each
    /// costs at most five such wake-ups. One beyond the wheel's reach costs one in 2^36 ticks.
    ///
    /// After an `expire` that returned `None` the answer is later than its `now`, unless something
    /// was armed since that is due already. Costs a step per level, however many are armed.
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

    /// Returns the latest `now` that was seen: what an earlier one counts as.
    #[must_use]
    pub const fn latest(&self) -> Instant {
        self.latest
    }

    /// Returns how many timers are armed.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.timers.len()
    }

    /// Returns `true` if no timer is armed.
    #[cfg(any(test, fuzzing, feature = "internals"))]
    pub const fn is_empty(&self) -> bool {
        self.timers.is_empty()
    }

    /// Returns the tick that a timer for `at` fires at.
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
        self.rings.push(place.number(), index);
        self.occupied.set(place);
    }

    /// Takes the timer at `index` out of its slot.
    fn leave(&mut self, index: u32) {
        if let Some(empty) = self.rings.remove(index) {
            self.occupied.clear(Place::numbered(empty));
        }
    }

    /// Returns the tick of the timer in `place`, which begins at `start`, if there is only one.
    /// None in the wheel is sooner, as no other is on a lower level or in a slot before.
    fn only_tick(&self, place: Place, start: u64) -> Option<u64> {
        let only = self.rings.only(place.number())?;
        let tick = self.timers.at(only).tick.get();
        // On the top level it may be for a later round.
        place.holds(start, tick).then_some(tick)
    }

    /// Takes the first timer of `place` out of the wheel.
    fn fire(&mut self, place: Place) -> T {
        let index = self.first_in(place);
        self.leave(index);
        self.timers.remove_at(index).value
    }

    /// Returns the timer that came first to `place`, which is occupied.
    fn first_in(&self, place: Place) -> u32 {
        let first = self.rings.first(place.number());
        first.expect("a slot whose bit is set holds a timer")
    }

    /// Puts all timers of `place`, which the wheel has just entered, where they belong now.
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

/// Returns the last tick whose beginning is not after `now`.
fn reached(now: Instant) -> u64 {
    // The end of time is no whole tick. The time of a timer beyond the last whole one is
    // `Instant::MAX`, so it must fire there.
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

    /// Just inside and just outside of every level, and of the reach of the wheel.
    const DISTANCES: [u64; 26] = [
        0,
        1,
        2,
        62,
        63,
        64,
        65,
        127,
        128,
        4_095,
        4_096,
        4_097,
        262_143,
        262_144,
        262_145,
        16_777_215,
        16_777_216,
        16_777_217,
        1_073_741_823,
        1_073_741_824,
        1_073_741_825,
        68_719_476_735,
        68_719_476_736,
        68_719_476_737,
        137_438_953_472,
        3_153_600_000_000, // A hundred years.
    ];

    #[test]
    fn a_timer_fires_at_its_tick_and_not_a_nanosecond_before() {
        for start in [0, 1, 63, 64, 4_095, 68_719_476_735] {
            for distance in DISTANCES {
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

    /// A caller that sleeps until `next` and then expires gets each timer at its exact tick. A
    /// timer that is alone causes no earlier wake-up, except once per turn of the top level.
    #[test]
    fn sleeping_until_next_fires_a_lone_timer_on_time_and_at_once() {
        for distance in DISTANCES {
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

    /// Two that share their slot down to the lowest level: at most one empty wake-up per level above
    /// that, and those of the turns.
    #[test]
    fn sleeping_until_next_fires_two_timers_on_time() {
        for distance in DISTANCES {
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

    /// Sleeps until `next` until nothing is armed: how often for nothing, and what fired when.
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

    /// `told` when another waits in the same slot, `at` when none does.
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

    /// The lone timer of a slot is not the first if it is for a later round.
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
