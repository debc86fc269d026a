//! Compares the wheel with a model, a sorted map, which is slow but simple.
//!
//! The function [`fuzz_wheel`] reads operations from bytes, applies them to the wheel and to the model, and panics if
//! the two differ. The tests below generate bytes that can be shrunk.
//!
//! # Not here
//!
//! The tables in [`super::wheel`] cover cases that need no randomness, such as the boundaries of the levels.

#![warn(clippy::arithmetic_side_effects)]

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{TimerKey, Wheel};
use crate::time::{Instant, NANOS_PER_TICK};

/// An operation on a wheel.
#[derive(Clone, Copy, Debug)]
enum Operation {
    /// Arm a timer this long after the latest `now`.
    ArmAfter(u64),
    /// Arm a timer this long before the latest `now`.
    ArmBefore(u64),
    /// Arm a timer for the same instant as an earlier timer, which may be on any level by now.
    ArmAgain(usize),
    /// Cancel a timer, armed or not.
    Cancel(usize),
    /// Let this much time pass, and fire one timer if one is due.
    Pass(u64),
    /// Pass a `now` that is this much earlier, and fire one timer if one is due.
    GoBack(u64),
    /// Fire all due timers.
    Drain,
}

/// A timer that was armed at some time. The index of a timer in the list of all timers is its value in the wheel.
#[derive(Clone, Copy, Debug)]
struct Armed {
    key: TimerKey,
    at: u64,
    tick: u64,
}

/// A wheel and its model.
#[derive(Debug)]
struct World {
    wheel: Wheel<usize>,
    /// The armed timers, ordered by tick and then by the order of arming.
    model: BTreeMap<(u64, usize), TimerKey>,
    /// All timers that were ever armed.
    history: Vec<Armed>,
    /// The latest `now`, in nanoseconds.
    latest: u64,
    /// The tick of the timer that fired last. If no timer was due, this is the last tick that was reached.
    stands: u64,
    /// Whether all due timers that were armed before the last `expire` have fired.
    drained: bool,
}

impl World {
    fn new(start: u64) -> Self {
        Self {
            wheel: Wheel::new(Instant::from_nanos(start)),
            model: BTreeMap::new(),
            history: Vec::new(),
            latest: start,
            stands: reached(start),
            drained: true,
        }
    }

    fn run(&mut self, operation: Operation) {
        match operation {
            Operation::ArmAfter(span) => self.arm(self.latest.saturating_add(span)),
            Operation::ArmBefore(span) => self.arm(self.latest.saturating_sub(span)),
            Operation::ArmAgain(nth) => {
                if let Some(earlier) = self.nth(nth).map(|nth| self.history[nth]) {
                    self.arm(earlier.at);
                }
            }
            Operation::Cancel(nth) => {
                if let Some(nth) = self.nth(nth) {
                    self.cancel(nth);
                }
            }
            Operation::Pass(span) => {
                self.expire(self.latest.saturating_add(span));
            }
            Operation::GoBack(span) => {
                self.expire(self.latest.saturating_sub(span));
            }
            Operation::Drain => while self.expire(self.latest) {},
        }
        self.check();
    }

    /// Checks that all timers that are still armed fire by the end of time.
    fn finish(mut self) {
        while self.expire(u64::MAX) {
            self.check();
        }
        assert!(self.model.is_empty() && self.wheel.is_empty());
        self.check();
    }

    fn nth(&self, nth: usize) -> Option<usize> {
        nth.checked_rem(self.history.len())
    }

    fn arm(&mut self, at: u64) {
        let mut tick = at.div_ceil(NANOS_PER_TICK);
        if at <= self.latest {
            tick = tick.min(reached(self.latest));
        }
        let tick = tick.max(self.stands);
        let value = self.history.len();
        let key = self.wheel.insert(Instant::from_nanos(at), value);
        self.model.insert((tick, value), key);
        self.history.push(Armed { key, at, tick });
    }

    fn cancel(&mut self, nth: usize) {
        let timer = self.history[nth];
        let expected = self.model.remove(&(timer.tick, nth)).map(|_| nth);
        let cancelled = self.wheel.cancel(timer.key);
        assert_eq!(cancelled, expected, "cancelling timer {nth}");
    }

    /// Fires one timer. Returns whether a timer was due.
    fn expire(&mut self, now: u64) -> bool {
        self.latest = self.latest.max(now);
        let due = self.model.first_key_value().map(|(timer, _)| *timer);
        let due = due.filter(|(tick, _)| *tick <= reached(self.latest));
        let fired = self.wheel.expire(Instant::from_nanos(now));
        let value = due.map(|(_, value)| value);
        assert_eq!(fired, value, "at {now}, due is {due:?}");
        self.drained = due.is_none();
        match due {
            Some((tick, value)) => {
                let at = self.history[value].at;
                assert!(at <= self.latest, "timer {value} for {at} fired early");
                self.model.remove(&(tick, value));
                self.stands = tick;
            }
            None => self.stands = reached(self.latest),
        }
        due.is_some()
    }

    fn check(&self) {
        assert_eq!(self.wheel.len(), self.model.len());
        assert_eq!(self.wheel.is_empty(), self.model.is_empty());
        match (self.model.first_key_value(), self.wheel.next()) {
            (None, None) => (),
            (Some((&(tick, value), _)), Some((at, &named))) => {
                self.check_next(tick, value, at, named);
            }
            (first, next) => panic!("armed is {first:?}, next is {next:?}"),
        }
    }

    /// Checks the result of `next`, which returned `at` and `named`. The first timer is `value` at `tick`.
    fn check_next(&self, tick: u64, value: usize, at: Instant, named: usize) {
        let first = Instant::from_tick(tick);
        assert!(at <= first, "at {at:?} is too late for {value}, {first:?}");
        let present = Instant::from_tick(self.stands);
        assert!(present <= at, "told to wake in the past");
        if self.drained && reached(self.latest) < tick {
            let latest = Instant::from_nanos(self.latest);
            assert!(latest < at, "told to wake, but nothing is due");
        }
        // The ticks of the wheel and the timer differ only in the lowest digit, so the timer is on level 0.
        if tick / 64 == self.stands / 64 {
            assert_eq!((at, named), (first, value), "the lowest level is exact");
        }
        let named_at = self.history[named].tick;
        let is_armed = self.model.contains_key(&(named_at, named));
        assert!(is_armed, "timer {named} is not armed");
        assert!(at <= Instant::from_tick(named_at));
    }
}

/// Returns the last tick that has begun at `now`. The very last tick never ends.
fn reached(now: u64) -> u64 {
    if now == u64::MAX {
        now.div_ceil(NANOS_PER_TICK)
    } else {
        now / NANOS_PER_TICK
    }
}

/// Returns a round span, so that timers often fall on the same tick. The span has up to 255 x 2^47 ticks, and
/// is not always a whole number of ticks.
fn span(factor: u8, power: u8, rest: u8) -> u64 {
    let ticks = u64::from(factor).wrapping_shl(u32::from(power) % 48);
    let rest = [0, 1, NANOS_PER_TICK / 2, NANOS_PER_TICK.saturating_sub(1)][usize::from(rest) % 4];
    ticks.saturating_mul(NANOS_PER_TICK).saturating_add(rest)
}

/// The entry of the fuzz target. Four bytes set the start of the wheel, and each further four bytes are an operation.
/// Panics if the wheel differs from a sorted map.
#[doc(hidden)]
pub fn fuzz_wheel(bytes: &[u8]) {
    let mut words = bytes
        .chunks_exact(4)
        .map(|word| [word[0], word[1], word[2], word[3]]);
    let Some([_, factor, power, rest]) = words.next() else {
        return;
    };
    let mut world = World::new(span(factor, power, rest));
    for [kind, factor, power, rest] in words {
        let span = span(factor, power, rest);
        let nth = usize::from(u16::from_le_bytes([factor, power]));
        world.run(match kind % 8 {
            0 | 1 => Operation::ArmAfter(span),
            2 => Operation::ArmBefore(span),
            3 => Operation::ArmAgain(nth),
            4 => Operation::Cancel(nth),
            5 => Operation::Pass(span),
            6 => Operation::GoBack(span),
            _ => Operation::Drain,
        });
    }
    world.finish();
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::effort::effort;

    /// Returns the bytes of an operation. The operation's span is usually short, but can have any size.
    fn word() -> impl Strategy<Value = [u8; 4]> {
        let kind = prop::sample::select(&[0_u8, 0, 0, 2, 3, 3, 3, 4, 4, 5, 6, 7][..]);
        let power = prop_oneof![6 => 0_u8..8, 3 => 8_u8..24, 2 => 24_u8..38, 1 => 38_u8..48];
        let any_kind = (kind, any::<u8>(), power, any::<u8>());
        let passes = (Just(5), any::<u8>(), 0_u8..8, any::<u8>());
        let bytes = prop_oneof![5 => any_kind, 1 => passes];
        bytes.prop_map(|(kind, factor, power, rest)| [kind, factor, power, rest])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(effort(100, 1_000)))]

        #[test]
        fn the_wheel_is_a_sorted_map(words in prop::collection::vec(word(), 1..200)) {
            fuzz_wheel(words.as_flattened());
        }

        #[test]
        fn the_wheel_is_a_sorted_map_for_any_bytes(
            bytes in prop::collection::vec(any::<u8>(), 0..800),
        ) {
            fuzz_wheel(&bytes);
        }
    }
}
