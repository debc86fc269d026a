//! The clock watch of one node: detects steps of the server's wall clock.
//!
//! Keys expire by the server's wall clock. If this clock is stepped forward, locks expire early. The client does not
//! notice, because the connection and the server's identity do not change. However, the command `TIME` reads the
//! server's clock, and the clock of this process is never stepped. Unless the server's clock is stepped, the difference
//! between the two clocks changes only as fast as clocks drift.
//!
//! The engine sends `TIME` directly before a lock command, in the same write, at most once a second. So the answer to
//! `TIME` arrives before the answer to the lock command. If the clock was stepped since the last `TIME`, the node's
//! answer to this lock command does not count. The engine does not ask a node for its time if the node gets no lock
//! commands.
//!
//! The server reads its time after this process sends the question, and before this process reads the answer. So each
//! answer gives a lower and an upper bound for the difference between the two clocks, no matter how long the answer
//! takes. The bounds widen as fast as clocks drift. If two answers contradict each other, the clock was set between
//! them. The size of the contradiction is the size of the step. The clock watch keeps contradictory bounds, so small
//! steps add up.
//!
//! # What is allowed
//!
//! The drift of a lock covers two kinds of clock errors while the lock's keys live: wrong rates, and steps. One fifth
//! of the drift covers the rate ([`Drift::rate`](crate::quorum::Drift::rate)), and the bounds widen at this rate. From
//! two seconds after the last answer ([`PAUSE`]), the bounds widen at a rate of at most 0.05 %, because no kernel slews
//! a clock faster. The rest of the drift is the allowance for steps. In total, one clock may step by the allowance for
//! the shortest ttl that a caller has requested. Steps within this allowance do not make locks with this ttl or a
//! longer ttl expire early. If the steps add up to more than the allowance, the clock counts as stepped, and a new sum
//! begins.
//!
//! # Not here
//!
//! The restart guard and the engine decide what to do after a step. The clock watch misses some steps: a step that is
//! undone before the next question, a step within the last second, and a step below [`SLACK`]. The allowed drift must
//! be large enough for these missed steps.

use core::time::Duration;

use crate::config::Config;
use crate::quorum::SLEWED;
use crate::resp::Value;
use crate::time::{Instant, nanos};

use crate::node::refusal::{Refusal, refuses_the_verb};

/// The `TIME` command.
pub(in crate::node) const TIME: &[u8] = b"*1\r\n$4\r\nTIME\r\n";

/// The minimum time between two `TIME` questions.
const EVERY: Duration = Duration::from_secs(1);

/// After this time without an answer, the bounds widen only as fast as a kernel slews a clock. While the engine does
/// not ask the node for its time, it cannot notice that the node's clock drifts faster.
const PAUSE: Duration = Duration::from_secs(2);

/// The sum of steps that is always allowed.
const SLACK: Duration = Duration::from_millis(10);

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Clock {
    watched: bool,
    /// When the node may be asked for its time again, or [`Instant::MAX`] while a question is open.
    next: Instant,
    known: Option<Difference>,
    /// How fast the server's clock may diverge from our clock, in parts per billion.
    rate: u64,
    /// The sum of steps that is allowed, in nanoseconds.
    allowed: i128,
    /// The number of steps that the clock watch has detected.
    steps: u32,
}

/// The number of nanoseconds by which the server's clock is ahead of our clock: at least `least`, and at most `most`.
/// If `most` is less than `least`, the clock was set by the difference between them.
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

    /// Returns `true` if the server should be asked for its time now.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next <= now
    }

    pub(crate) fn asked(&mut self) {
        self.next = Instant::MAX;
    }

    /// Records that the connection is lost, so no answer is expected any more. The next connection asks for the time
    /// immediately.
    pub(crate) fn disconnected(&mut self) {
        if self.watched {
            self.next = Instant::ZERO;
        }
    }

    /// Allows steps that add up to at most `steps`, or to [`SLACK`] if that is more. If the known steps already exceed
    /// this sum, the engine asks the node for its time immediately.
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

    /// Handles the answer at `now` to the question that was sent at `sent`. Returns `true` if the clock was stepped. If
    /// the user may not run `TIME`, the node is not asked again on this connection.
    #[cold]
    #[inline(never)]
    pub(crate) fn told(&mut self, sent: Instant, now: Instant, value: Value<'_>) -> bool {
        let Some(time) = time_of(value) else {
            if value.as_error().is_some() && !refuses_the_verb(Refusal::of(value).error()) {
                self.next = now.saturating_add(EVERY); // The server refuses it only for now.
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

    /// Returns the bounds that satisfy both answers. The clocks diverge by at most `rate` in the first two seconds
    /// after the earlier answer ([`PAUSE`]). Later, the clocks diverge by at most `rate` or the rate at which a kernel
    /// slews a clock, whichever is lower.
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

/// Returns the time in an answer, which consists of the seconds since 1970 and the microseconds.
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
    use alloc::string::ToString;

    const SECOND: u64 = 1_000_000;

    fn clock(watched: bool) -> Clock {
        let builder = Config::builder().node("a").watch_clocks(watched);
        Clock::new(&builder.config().expect("valid"))
    }

    /// Returns the number of steps that are seen in answers of the form `(sent, now, time of the server)`, in
    /// microseconds.
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
        let parts = [time / SECOND, time % SECOND].map(|part| part.to_string());
        let parts = parts.map(|part| format!("${}\r\n{part}\r\n", part.len()));
        answer(clock, sent, now, &format!("*2\r\n{}", parts.concat()))
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
        // The clock may jump by 10 ms, and may drift by two milliseconds in each second.
        for (time, stepped) in [(81_012_000, 0), (81_012_001, 1)] {
            assert_eq!(steps(&[(0, 0, 80 * s), (s, s, time)]), stepped, "{time}");
        }
        for (time, stepped) in [(80_988_000, 0), (80_987_999, 1)] {
            assert_eq!(steps(&[(0, 0, 80 * s), (s, s, time)]), stepped, "{time}");
        }
        // After a day, the clock may be off by 43.2 s.
        let day = 86_400 * s;
        assert_eq!(steps(&[(0, 0, s), (day, day, day + 44 * s)]), 0);
        assert_eq!(steps(&[(0, 0, s), (day, day, day + 45 * s)]), 1);
    }

    /// An earlier measurement may be too inexact for a lock with a shorter ttl, so the node is asked again before that
    /// lock is taken.
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

    /// Each row has the shortest ttl, the number of steps, their size, and the time between them, in milliseconds. The
    /// last item is the number of the step after which the clock counts as stepped, if any.
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
        // The server may have read its clock at any moment within the three seconds.
        for time in [82 * s, 83 * s, 85 * s] {
            assert_eq!(steps(&[(0, 0, 80 * s), (2 * s, 5 * s, time)]), 0);
        }
        assert_eq!(steps(&[(0, 0, 80 * s), (2 * s, 5 * s, 86 * s)]), 1);
        // A slow answer does not replace the bounds of a fast one.
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
        let (mut busy, zero) = (clock(true), Instant::ZERO);
        busy.asked();
        assert!(!answer(&mut busy, zero, zero, "-BUSY x\r\n"));
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
