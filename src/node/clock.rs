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
//! so an answer bounds the difference from both sides, however long it took. Two answers fit together
//! if a clock that drifts could have given both: then what is known of the difference is what both
//! allow. Otherwise it was stepped.
//!
//! # Not here
//!
//! What follows from a step: the restart guard and the engine decide that. A step that is taken
//! back before the next question is not seen, nor is one within the last second or below [`SLACK`],
//! for which the drift of the locks has to make up.

use core::time::Duration;

use crate::resp::Value;
use crate::time::Instant;

use super::reply::{Reply, refuses_the_verb};

/// The question.
pub(super) const TIME: &[u8] = b"*1\r\n$4\r\nTIME\r\n";

/// How often it is asked at most.
const EVERY: Duration = Duration::from_secs(1);

/// By how much the difference may change at any time, which is no step.
const SLACK: Duration = Duration::from_millis(10);

/// By which part of the time that has passed it may change besides: 500 parts in a million, as fast
/// as a kernel slews a clock.
const PART: i128 = 2_000;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Clock {
    watched: bool,
    /// From when on it is to be asked again; never while it is being asked.
    next: Instant,
    known: Option<Difference>,
    /// How often it was seen to have been stepped.
    steps: u32,
}

/// By how many nanoseconds the server's clock is ahead of ours, at least and at most.
#[derive(Clone, Copy, Debug)]
struct Difference {
    at: Instant,
    least: i128,
    most: i128,
}

impl Clock {
    pub(crate) fn new(watched: bool) -> Self {
        let mut clock = Self {
            watched,
            next: Instant::MAX,
            known: None,
            steps: 0,
        };
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
        let fitting = self.known.map_or(Some(said), |known| known.narrowed(said));
        self.known = Some(fitting.unwrap_or(said));
        self.steps = self.steps.saturating_add(u32::from(fitting.is_none()));
        fitting.is_none()
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

    /// Returns what both allow; `None` if they contradict each other.
    fn narrowed(self, later: Self) -> Option<Self> {
        let passed = later.at.saturating_since(self.at);
        let slack = (SLACK.as_nanos() + passed.as_nanos() / PART.cast_unsigned()).cast_signed();
        let least = later.least.max(self.least - slack);
        let most = later.most.min(self.most + slack);
        (least <= most).then_some(Self {
            at: later.at,
            least,
            most,
        })
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

    /// Answers `(sent, now, time of the server)`, in microseconds; the steps that were seen.
    fn steps(answers: &[(u64, u64, u64)]) -> u32 {
        let mut clock = Clock::new(true);
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
        // 10 ms at once, and half a millisecond for each second.
        for (time, stepped) in [(81_010_500, 0), (81_010_501, 1)] {
            assert_eq!(steps(&[(0, 0, 80 * s), (s, s, time)]), stepped, "{time}");
        }
        for (time, stepped) in [(80_989_500, 0), (80_989_499, 1)] {
            assert_eq!(steps(&[(0, 0, 80 * s), (s, s, time)]), stepped, "{time}");
        }
        // A day later it may be 43 s off.
        let day = 86_400 * s;
        assert_eq!(steps(&[(0, 0, s), (day, day, day + 44 * s)]), 0);
        assert_eq!(steps(&[(0, 0, s), (day, day, day + 45 * s)]), 1);
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
            let mut clock = Clock::new(true);
            clock.asked();
            assert!(!answer(&mut clock, Instant::ZERO, Instant::ZERO, reply));
            assert!(!clock.is_due(Instant::from_millis(1 << 40)), "{reply:?}");
            clock.disconnected();
            assert!(clock.is_due(Instant::ZERO));
        }
        let mut busy = Clock::new(true);
        busy.asked();
        assert!(!answer(
            &mut busy,
            Instant::ZERO,
            Instant::ZERO,
            "-BUSY x\r\n"
        ));
        assert!(busy.is_due(Instant::from_millis(1_000)));
        let mut off = Clock::new(false);
        off.disconnected();
        assert!(!off.is_due(Instant::from_millis(1 << 40)));
    }

    #[test]
    fn the_largest_numbers_are_numbers() {
        let mut clock = Clock::new(true);
        for text in ["18446744073709551615", "0", "18446744073709551615"] {
            let reply = format!("*2\r\n${0}\r\n{text}\r\n${0}\r\n{text}\r\n", text.len());
            answer(&mut clock, Instant::ZERO, Instant::MAX, &reply);
            clock.asked();
        }
    }
}
