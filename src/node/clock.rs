//! The clock watch of one node: whether its wall clock was stepped.
//!
//! Servers end keys by their wall clock. One that is stepped forward ends locks early, and nothing
//! else shows that: the connection stays up, and the identity of the server stays the same. But the
//! server tells its `TIME`, and the difference to our own clock, which is never stepped, changes no
//! faster than clocks drift.
//!
//! `TIME` is asked in front of a lock command that is sent anyway, in the same write, at most once
//! a second; so the answer is there before that of the command, and a node that was stepped in
//! between is not counted in that very round. A node that gets no other question is not asked for
//! its time.
//!
//! The time was read on the server between the sending of the question and the reading of the answer,
//! so an answer bounds the difference from both sides, however long it took. The bounds widen as fast as
//! clocks drift. What two answers contradict each other by is what the clock was set by in between, and
//! it adds up: bounds that contradict each other stay, and forget that only as they widen.
//!
//! # What is allowed
//!
//! The drift of a lock is for the rate of clocks and for their steps together, while its keys live. A fifth
//! of the share is for the rate ([`Drift::rate`](crate::quorum::Drift::rate)): so fast do the bounds widen. Over
//! a longer [`PAUSE`] than two seconds without an answer they widen by 0.05 % of what is beyond it at most: no
//! clock is slewed faster. The
//! rest is for steps, and those of a clock may add up to that of the shortest ttl that this engine was asked
//! for: so no lock as long as that, or longer, has ended early. If they add up to more, the clock was stepped,
//! and the next steps count from there.
//!
//! # Not here
//!
//! What follows from a step: the restart guard and the engine decide that. A step that is taken
//! back before the next question is not seen, nor is one within the last second or below [`SLACK`],
//! for which the drift of the locks has to make up.

use core::time::Duration;

use crate::config::Config;
use crate::quorum::SLEWED;
use crate::resp::Value;
use crate::time::{Instant, nanos};

use super::reply::{Reply, refuses_the_verb};

/// The question.
pub(super) const TIME: &[u8] = b"*1\r\n$4\r\nTIME\r\n";

/// How often it is asked at most.
const EVERY: Duration = Duration::from_secs(1);

/// After so long without an answer the bounds widen by what a kernel slews only: nothing was asked of the node then, and
/// nothing that it gained was seen.
const PAUSE: Duration = Duration::from_secs(2);

/// By how much the steps of a clock may always add up.
const SLACK: Duration = Duration::from_millis(10);

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Clock {
    watched: bool,
    /// From when on it is to be asked again; never while it is being asked.
    next: Instant,
    known: Option<Difference>,
    /// How fast it may run apart from ours, in parts per billion.
    rate: u64,
    /// By how many nanoseconds its steps may add up.
    allowed: i128,
    /// How often it was seen to have been stepped.
    steps: u32,
}

/// By how many nanoseconds the server's clock is ahead of ours, at least and at most. If that is less than
/// the least, it was set by the difference of the two.
#[derive(Clone, Copy, Debug)]
struct Difference {
    at: Instant,
    least: i128,
    most: i128,
}

impl Clock {
    pub(crate) fn new(config: &Config) -> Self {
        let mut clock = Self {
            watched: config.watch_clocks(),
            next: Instant::MAX,
            known: None,
            rate: config.drift().rate(),
            allowed: 0,
            steps: 0,
        };
        clock.allow(SLACK);
        clock.disconnected();
        clock
    }

    /// Returns `true` if it is time to ask.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next <= now
    }

    pub(crate) fn asked(&mut self) {
        self.next = Instant::MAX;
    }

    /// The connection is gone, and with it the answer. On the next one it is asked at once.
    pub(crate) fn disconnected(&mut self) {
        if self.watched {
            self.next = Instant::ZERO;
        }
    }

    /// Its steps may add up to `steps`, and to [`SLACK`]. If they have added up to more, it is asked at once.
    pub(crate) fn allow(&mut self, steps: Duration) {
        self.allowed = nanos(steps.max(SLACK)).into();
        if self.next != Instant::MAX
            && self
                .known
                .is_some_and(|known| known.is_beyond(self.allowed))
        {
            self.next = Instant::ZERO;
        }
    }

    pub(crate) fn steps(&self) -> u32 {
        self.steps
    }

    /// Takes the answer at `now` to the question of `sent`. Returns `true` if the clock was
    /// stepped. A node that may not tell is not asked again over this connection.
    #[cold]
    #[inline(never)]
    pub(crate) fn told(&mut self, sent: Instant, now: Instant, value: Value<'_>) -> bool {
        let Some(time) = time_of(value) else {
            if Reply::of(value)
                .error()
                .is_some_and(|error| !refuses_the_verb(error))
            {
                self.next = now.saturating_add(EVERY); // It cannot tell just now.
            }
            return false;
        };
        self.next = now.saturating_add(EVERY);
        let said = Difference::between(sent, now, time);
        let known = self.known.unwrap_or(said).narrowed(said, self.rate);
        let stepped = known.is_beyond(self.allowed);
        self.known = Some(if stepped { said } else { known });
        self.steps = self.steps.saturating_add(u32::from(stepped));
        stepped
    }
}

impl Difference {
    fn between(sent: Instant, now: Instant, time: Duration) -> Self {
        let time = time.as_nanos().cast_signed();
        Self {
            at: now,
            least: time - i128::from(now.as_nanos()),
            most: time - i128::from(sent.as_nanos()),
        }
    }

    /// Returns `true` if the clock was set by more than `allowed` nanoseconds.
    fn is_beyond(self, allowed: i128) -> bool {
        allowed < self.least - self.most
    }

    /// Returns what both say. Since the earlier one the clocks have run apart by `rate` at most, and in a [`PAUSE`] by
    /// what a kernel slews.
    fn narrowed(self, later: Self, rate: u64) -> Self {
        let passed = later.at.saturating_since(self.at);
        let by =
            |time: Duration, rate: u64| i128::from(nanos(time)) * i128::from(rate) / 1_000_000_000;
        let apart =
            by(passed.min(PAUSE), rate) + by(passed.saturating_sub(PAUSE), rate.min(SLEWED));
        Self {
            at: later.at,
            least: later.least.max(self.least - apart),
            most: later.most.min(self.most + apart),
        }
    }
}

/// Seconds since 1970, and microseconds.
fn time_of(value: Value<'_>) -> Option<Duration> {
    let mut words = value.as_items()?.iter();
    let mut number = || {
        let text = core::str::from_utf8(words.next()?.as_bytes()?).ok()?;
        text.parse::<u64>().ok()
    };
    let (seconds, micros) = (number()?, number()?);
    Some(Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::Inbox;
    use alloc::format;

    const SECOND: u64 = 1_000_000;

    fn clock(watched: bool) -> Clock {
        let builder = Config::builder().node("a").watch_clocks(watched);
        Clock::new(&builder.config().expect("valid"))
    }

    /// Answers `(sent, now, time of the server)`, in microseconds; the steps that were seen.
    fn steps(answers: &[(u64, u64, u64)]) -> u32 {
        let mut clock = clock(true);
        for (sent, now, time) in answers {
            let micros = |micros: u64| Instant::from_nanos(micros * 1_000);
            assert!(clock.is_due(micros(*sent)));
            clock.asked();
            assert!(!clock.is_due(Instant::from_millis(u64::MAX / 2_000_000)));
            told(&mut clock, micros(*sent), micros(*now), *time);
        }
        clock.steps()
    }

    fn told(clock: &mut Clock, sent: Instant, now: Instant, time: u64) -> bool {
        let (seconds, micros) = (format!("{}", time / SECOND), format!("{}", time % SECOND));
        let reply = format!(
            "*2\r\n${}\r\n{seconds}\r\n${}\r\n{micros}\r\n",
            seconds.len(),
            micros.len()
        );
        answer(clock, sent, now, &reply)
    }

    fn answer(clock: &mut Clock, sent: Instant, now: Instant, reply: &str) -> bool {
        let mut inbox = Inbox::default();
        let mut piece = reply.as_bytes();
        let frame = inbox.next(&mut piece).expect("RESP").expect("whole");
        clock.told(sent, now, frame.value)
    }

    #[test]
    fn a_clock_that_drifts_is_not_stepped() {
        let s = SECOND;
        assert_eq!(steps(&[(0, 1_000, 70 * s)]), 0, "nothing is known before");
        // 10 ms at once, and two milliseconds for each second.
        for (time, stepped) in [(81_012_000, 0), (81_012_001, 1)] {
            assert_eq!(steps(&[(0, 0, 80 * s), (s, s, time)]), stepped, "{time}");
        }
        for (time, stepped) in [(80_988_000, 0), (80_987_999, 1)] {
            assert_eq!(steps(&[(0, 0, 80 * s), (s, s, time)]), stepped, "{time}");
        }
        // A day later it may be 43.2 s off.
        let day = 86_400 * s;
        assert_eq!(steps(&[(0, 0, s), (day, day, day + 44 * s)]), 0);
        assert_eq!(steps(&[(0, 0, s), (day, day, day + 45 * s)]), 1);
    }

    /// What was measured before a shorter lock was asked for may be too much for that: it is asked in front of it.
    #[test]
    fn a_shorter_lock_looks_at_what_is_known() {
        for (step, is_due) in [(15, false), (18, true)] {
            let mut clock = clock(true);
            let allowed = |ttl| crate::quorum::Drift::default().steps(Duration::from_secs(ttl));
            clock.allow(allowed(30));
            for (at, ahead) in [(0, 0), (1, step)] {
                let at = Instant::from_millis(at * 1_000);
                let time = 900 * SECOND + at.as_nanos() / 1_000 + ahead * 1_000;
                assert!(!told(&mut clock, at, at, time + at.as_nanos() / 500_000));
            }
            clock.allow(allowed(2));
            let now = Instant::from_millis(1_500);
            assert_eq!(clock.is_due(now), is_due, "{step}");
            clock.asked();
            let time = 900 * SECOND + 1_502_000 + step * 1_000;
            assert_eq!(told(&mut clock, now, now, time), is_due, "{step}");
        }
    }

    /// Each row: the shortest ttl, so many steps of so many milliseconds, one each so many milliseconds, and
    /// after how many of them the clock is stepped, if ever.
    #[test]
    fn steps_add_up_to_what_the_shortest_lock_allows_for() {
        let ms = SECOND / 1_000;
        for (ttl, count, by, every, after) in [
            (2_000, 1, 15, 1_000, None),
            (10_000, 1, 50, 5_000, None),
            (30_000, 1, 200, 15_000, None),
            (30_000, 20, 10, 1_000, None),
            (2_000, 3, 6, 500, None),
            (2_000, 9, 6, 500, Some(4)), // 1.2 %, which no drift allows for,
            (2_000, 1, 19, 1_000, Some(1)),
            (10_000, 1, 91, 5_000, Some(1)),
            (30_000, 1, 271, 15_000, Some(1)),
            (30_000, 2, 125, 1_000, Some(2)), // and neither alone.
            (100, 1, 12, 1_000, None),
            (100, 1, 13, 1_000, Some(1)),
            (100, 30, 9, 1_000, Some(2)),
        ] {
            for back in [false, true] {
                let mut clock = clock(true);
                clock.allow(crate::quorum::Drift::default().steps(Duration::from_millis(ttl)));
                let mut seen = None;
                for step in 0..=count {
                    let now = step * every * ms;
                    let set = step * by * ms;
                    let time = 900 * SECOND + now;
                    let time = if back { time - set } else { time + set };
                    let at = Instant::from_nanos(now * 1_000);
                    if told(&mut clock, at, at, time) {
                        seen = seen.or(Some(step));
                    }
                }
                assert_eq!(seen, after, "{ttl} {count} x {by} {every} {back}");
            }
        }
    }

    #[test]
    fn what_an_answer_took_is_no_step() {
        let s = SECOND;
        // The time was read at any instant of the three seconds.
        for time in [82 * s, 83 * s, 85 * s] {
            assert_eq!(steps(&[(0, 0, 80 * s), (2 * s, 5 * s, time)]), 0);
        }
        assert_eq!(steps(&[(0, 0, 80 * s), (2 * s, 5 * s, 86 * s)]), 1);
        // And a slow answer does not make us forget what a fast one has shown.
        let slow = (2 * s, 5 * s, 83 * s);
        assert_eq!(steps(&[(0, 0, 80 * s), slow, (7 * s, 7 * s, 87 * s)]), 0);
        assert_eq!(steps(&[(0, 0, 80 * s), slow, (7 * s, 7 * s, 88 * s)]), 1);
    }

    #[test]
    fn each_step_is_seen_once_and_either_way() {
        let s = SECOND;
        let answers = [
            (0, 0, 80 * s),
            (s, s, 81 * s),
            (2 * s, 2 * s, 3_682 * s),
            (3 * s, 3 * s, 3_683 * s),
            (4 * s, 4 * s, 84 * s),
        ];
        assert_eq!(steps(&answers), 2);
    }

    #[test]
    fn who_may_not_tell_is_not_asked_again_before_the_next_connection() {
        for reply in [
            "-NOPERM x\r\n",
            "+OK\r\n",
            "*1\r\n$1\r\n7\r\n",
            "*2\r\n:1\r\n$1\r\nx\r\n",
        ] {
            let mut clock = clock(true);
            clock.asked();
            assert!(!answer(&mut clock, Instant::ZERO, Instant::ZERO, reply));
            assert!(!clock.is_due(Instant::from_millis(1 << 40)), "{reply:?}");
            clock.disconnected();
            assert!(clock.is_due(Instant::ZERO));
        }
        let mut busy = clock(true);
        busy.asked();
        assert!(!answer(
            &mut busy,
            Instant::ZERO,
            Instant::ZERO,
            "-BUSY x\r\n"
        ));
        assert!(busy.is_due(Instant::from_millis(1_000)));
        let mut off = clock(false);
        off.disconnected();
        assert!(!off.is_due(Instant::from_millis(1 << 40)));
    }

    #[test]
    fn the_largest_numbers_are_numbers() {
        let mut clock = clock(true);
        for text in ["18446744073709551615", "0", "18446744073709551615"] {
            let reply = format!("*2\r\n${0}\r\n{text}\r\n${0}\r\n{text}\r\n", text.len());
            answer(&mut clock, Instant::ZERO, Instant::MAX, &reply);
            clock.asked();
        }
    }
}
