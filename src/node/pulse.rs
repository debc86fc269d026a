//! How a node is heard: how long its answers take, and how long it has been silent.

use core::time::Duration;

use crate::time::Instant;

/// How much longer than twice the usual one round trip may count, in nanoseconds.
const SURPRISE: u64 = 50_000_000;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Pulse {
    /// Smoothed round trip in nanoseconds, in which every answer is reckoned; `None` before the
    /// first.
    round_trip: Option<u64>,
    /// When the latest sample of it was taken.
    sampled_at: Instant,
    /// Since when answers have been open without a byte.
    silent_since: Option<Instant>,
    /// The silence has lasted too long.
    suspect: bool,
}

impl Pulse {
    /// Bytes have arrived.
    pub(super) fn heard(&mut self) {
        self.silent_since = None;
        mutant!(SuspectForEver => return);
        self.suspect = false;
    }

    /// What was sent at `sent` is answered `now`. One sample counts for all that was read at once:
    /// it tells of one journey.
    pub(super) fn answered(&mut self, now: Instant, sent: Instant) {
        if self.sampled_at != now {
            self.sampled_at = now;
            let sample = now.as_nanos().saturating_sub(sent.as_nanos());
            self.round_trip = Some(smoothed(self.round_trip, sample));
        }
    }

    /// One turn has read all that there was: if answers are `open`, the silence begins here. The
    /// instant since which it lasts, if it does.
    pub(super) fn listen(&mut self, now: Instant, open: bool) -> Option<Instant> {
        if !open {
            self.silent_since = None;
        } else if self.silent_since.is_none() {
            self.silent_since = Some(now);
        }
        self.silent_since
    }

    pub(super) fn silent_since(&self) -> Option<Instant> {
        self.silent_since
    }

    /// The silence has lasted too long.
    pub(super) fn suspect(&mut self) {
        self.suspect = true;
    }

    pub(super) fn is_suspect(&self) -> bool {
        self.suspect
    }

    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.round_trip.map(Duration::from_nanos)
    }
}

/// The average with one more round trip in it, an eighth each, as TCP does (RFC 6298).
///
/// A sample counts as twice the average and [`SURPRISE`] at most. What a node answers after it was
/// stopped for ten seconds says nothing about its distance, and must not make everyone wait for it
/// for seconds from then on.
fn smoothed(average: Option<u64>, sample: u64) -> u64 {
    let Some(average) = average else {
        return sample;
    };
    let sample = sample.min(average.saturating_mul(2).saturating_add(SURPRISE));
    average.saturating_mul(7).saturating_add(sample) / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_no_distance() {
        let mut pulse = Pulse::default();
        let at = Instant::from_millis;
        pulse.answered(at(1), at(0));
        assert_eq!(pulse.round_trip(), Some(Duration::from_millis(1)));
        pulse.answered(at(10_000), at(1));
        pulse.answered(at(10_000), at(2));
        // An eighth of 52 ms and seven eighths of 1 ms, once for all that was read together.
        assert_eq!(pulse.round_trip(), Some(Duration::from_micros(7_375)));
    }

    #[test]
    fn a_silence_begins_with_the_first_turn_that_hears_nothing() {
        let mut pulse = Pulse::default();
        let at = Instant::from_millis;
        assert_eq!(pulse.listen(at(1), false), None);
        assert_eq!(pulse.listen(at(2), true), Some(at(2)));
        assert_eq!(pulse.listen(at(3), true), Some(at(2)));
        pulse.suspect();
        pulse.heard();
        assert!(!pulse.is_suspect());
        assert_eq!(pulse.listen(at(4), true), Some(at(4)));
    }
}
