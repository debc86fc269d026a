//! The place of a timer in the wheel: the arithmetic of levels and slots, and the bitmaps of occupied slots.
//!
//! Read a tick as a number in base sixty-four, with one digit for each level, the lowest digit first. Compare the tick
//! of a timer with the tick of the wheel. The highest digit in which the two ticks differ gives the level of the timer.
//! The digit of the timer's tick at this position gives the slot of the timer on that level. So **the place of a timer
//! depends on the two ticks alone**, which keeps the timers of one tick in order (see [`Wheel`](super::Wheel)).
//!
//! Six digits cover 2^36 ticks. Timers that are further away also wait on the top level, in the slot of their sixth
//! digit. The wheel comes to this slot once every 2^36 ticks, and timers of a later round stay in the slot.
//!
//! # Not here
//!
//! This file works with numbers only, and not with the timers themselves.

#![warn(clippy::arithmetic_side_effects)]

use crate::time::Instant;

/// The number of levels.
const LEVELS: usize = 6;

/// The number of slots on each level, so that a bitmap of them fits into one register.
const SLOTS: usize = 64;

/// The number of bits of a tick that one level reads.
const DIGIT_BITS: u32 = SLOTS.trailing_zeros();

const DIGIT_MASK: u64 = SLOTS as u64 - 1;

const TOP: usize = LEVELS - 1;

// A slot starts at most one round of the top level after the current tick. Adding one round to the last tick must not
// overflow.
const _: () = assert!(
    Instant::MAX
        .tick_ceil()
        .checked_add(1 << (DIGIT_BITS * 6))
        .is_some()
);
const _: () = assert!(SLOTS == u64::BITS as usize && LEVELS == 6);

/// One slot of one level.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Place {
    pub(super) level: usize,
    pub(super) slot: usize,
}

impl Place {
    /// Returns the place of a timer for `tick` while the wheel is at `now`, which must not be later than `tick`.
    pub(super) const fn of(tick: u64, now: u64) -> Self {
        debug_assert!(now <= tick);
        // The mask puts equal ticks on level 0 too, because `ilog2` panics for zero.
        let highest = ((tick ^ now) | DIGIT_MASK).ilog2();
        let level = (highest / DIGIT_BITS) as usize;
        let level = if level > TOP { TOP } else { level };
        Self {
            level,
            slot: digit(tick, level) as usize,
        }
    }
}

impl Place {
    /// The number of places.
    pub(super) const COUNT: usize = LEVELS * SLOTS;

    /// Returns `true` if the place begins at `start` and contains `tick`.
    pub(super) const fn holds(self, start: u64, tick: u64) -> bool {
        tick.wrapping_sub(start) >> shift(self.level) == 0
    }

    /// Returns the number of this place among all places.
    pub(super) const fn number(self) -> usize {
        self.level.wrapping_mul(SLOTS).wrapping_add(self.slot)
    }

    /// Returns the place with this number.
    pub(super) const fn numbered(number: usize) -> Self {
        Self {
            level: number / SLOTS,
            slot: number % SLOTS,
        }
    }
}

/// Returns the digit of `tick` that `level` reads.
const fn digit(tick: u64, level: usize) -> u32 {
    (tick >> shift(level) & DIGIT_MASK) as u32
}

/// Returns the shift of `level`: a slot of the level is 2^shift ticks wide.
const fn shift(level: usize) -> u32 {
    DIGIT_BITS.saturating_mul(level as u32)
}

/// The slots that contain a timer, with one bit for each slot and one word for each level. Together these words take
/// one cache line.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Occupancy([u64; LEVELS]);

impl Occupancy {
    /// Marks `place` as occupied.
    pub(super) const fn set(&mut self, place: Place) {
        self.0[place.level] |= 1 << place.slot;
    }

    /// Marks `place` as empty.
    pub(super) const fn clear(&mut self, place: Place) {
        self.0[place.level] &= !(1 << place.slot);
    }

    /// Returns the first occupied slot after `now`, and the tick at which this slot begins.
    ///
    /// All timers on a level are due before the timers on higher levels, so the lowest occupied level decides. The
    /// search takes one step for each level, and no step for each slot.
    pub(super) fn first(&self, now: u64) -> Option<(Place, u64)> {
        let level = self.0.iter().position(|slots| *slots != 0)?;
        let (slot, start) = first_on(level, self.0[level], now);
        Some((Place { level, slot }, start))
    }
}

/// Returns the first of the `occupied` slots of `level` after `now`, and the tick at which this slot begins.
const fn first_on(level: usize, occupied: u64, now: u64) -> (usize, u64) {
    // On level 0, the timers in the slot of `now` are due. On higher levels, the wheel has already emptied that slot,
    // so its timers belong to the next round.
    let nearest = if level == 0 { 0 } else { 1 };
    let from = digit(now, level).wrapping_add(nearest);
    let ahead = occupied.rotate_right(from).trailing_zeros();
    let slot = from.wrapping_add(ahead) as u64 & DIGIT_MASK;
    let steps = ahead.wrapping_add(nearest) as u64;
    let start = (now >> shift(level)).wrapping_add(steps) << shift(level);
    (slot as usize, start)
}

#[cfg(test)]
#[expect(
    clippy::arithmetic_side_effects,
    reason = "an overflow fails the test, as it should"
)]
mod tests {
    use super::*;

    /// Returns the width of a slot of `level`, in ticks.
    fn width(level: usize) -> u64 {
        1 << (6 * level)
    }

    /// Tests ticks just before, at and just after every boundary of every level, from every kind of `now`.
    #[test]
    fn a_slot_begins_at_or_before_what_waits_in_it_and_after_now() {
        let last = Instant::MAX.tick_ceil();
        let boundaries: std::vec::Vec<u64> = (0..LEVELS)
            .flat_map(|level| [1, 2, 31, 63, 64, 65].map(|slots| slots * width(level)))
            .flat_map(|tick| [tick - 1, tick, tick + 1])
            .chain([0, last / 2, last - 1, last])
            .collect();
        for &now in &boundaries {
            for &tick in boundaries.iter().filter(|tick| now <= **tick) {
                let place = Place::of(tick, now);
                let mut occupied = Occupancy::default();
                occupied.set(place);
                let (found, start) = occupied.first(now).expect("a bit is set");
                assert_eq!(found, place, "{tick} seen from {now}");
                assert!(start <= tick, "{tick} seen from {now} begins at {start}");
                if place.level == 0 {
                    assert_eq!(start, tick, "seen from {now}");
                } else {
                    assert!(now < start, "{tick} seen from {now} begins at {start}");
                    assert_eq!(start % width(place.level), 0);
                }
                if tick - now < width(LEVELS) {
                    assert!(tick - start < width(place.level), "{tick} seen from {now}");
                }
                assert_eq!(Place::numbered(place.number()), place);
                assert!(place.number() < Place::COUNT);
                occupied.clear(place);
                assert_eq!(occupied, Occupancy::default());
                assert_eq!(occupied.first(now), None);
            }
        }
    }
}
