//! True time, and the clocks that differ from it.

use shearline::Instant;

/// True time, in nanoseconds since the world began. No part of the world can read it.
pub(crate) type Time = u64;

pub(crate) const MICRO: Time = 1_000;
pub(crate) const MILLI: Time = 1_000_000;
pub(crate) const SECOND: Time = 1_000_000_000;

/// A time that never comes in a world. Sums with it do not overflow.
pub(crate) const NEVER: Time = Time::MAX / 4;

/// A clock that runs a little fast or slow. It never runs backwards, unless it is set back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    /// The time that it showed at `since`.
    base: u64,
    since: Time,
    /// How many nanoseconds the clock advances in 2^32 nanoseconds.
    speed: u64,
}

impl Clock {
    const TRUE_SPEED: u64 = 1 << 32;

    /// Makes a clock that shows `base` when the world begins, and runs `fast` parts in a thousand million too fast.
    pub(crate) fn new(base: u64, fast: i64) -> Self {
        Self {
            base,
            since: 0,
            speed: Self::speed(fast),
        }
    }

    fn speed(fast: i64) -> u64 {
        let speed = i128::from(Self::TRUE_SPEED) * (1_000_000_000 + i128::from(fast));
        (speed / 1_000_000_000) as u64
    }

    /// Makes the clock run `fast` parts in a thousand million too fast from `time` on.
    pub(crate) fn retune(&mut self, time: Time, fast: i64) {
        self.base = self.show(time).as_nanos();
        // A stopped clock remains stopped.
        self.since = self.since.max(time);
        self.speed = Self::speed(fast);
    }

    /// Returns when the clock was last changed. Earlier times can no longer be computed.
    pub(crate) fn since(&self) -> Time {
        self.since
    }

    /// Returns what the clock shows at `time`, which is not before the last change of the clock.
    pub(crate) fn show(&self, time: Time) -> Instant {
        let past = u128::from(time.saturating_sub(self.since));
        let shown = (past * u128::from(self.speed)) >> 32;
        Instant::from_nanos(self.base + shown as u64)
    }

    /// Returns the first time at which the clock shows `instant` or more.
    pub(crate) fn when(&self, instant: Instant) -> Time {
        let ahead = u128::from(instant.as_nanos().saturating_sub(self.base));
        let past = (ahead << 32).div_ceil(u128::from(self.speed));
        u64::try_from(past).map_or(NEVER, |past| self.since.saturating_add(past).min(NEVER))
    }

    /// Stops the clock from `from` to `to`.
    pub(crate) fn stop(&mut self, from: Time, to: Time) {
        self.base = self.show(from).as_nanos();
        self.since = to;
    }

    /// Sets the clock forward at `time`.
    pub(crate) fn jump(&mut self, time: Time, by: u64) {
        self.base = self.show(time).as_nanos() + by;
        self.since = time;
    }

    /// Sets the clock back at `time`, but not below zero.
    pub(crate) fn set_back(&mut self, time: Time, by: u64) {
        self.base = self.show(time).as_nanos().saturating_sub(by);
        self.since = time;
    }
}
