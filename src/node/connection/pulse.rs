//! How fast a node answers, and how long it has been silent.

use core::time::Duration;

use crate::histogram::Histogram;
use crate::time::Instant;

/// The number of round trips that are compared. The shortest of these round trips counts as the node's round trip.
const SAMPLES: usize = 32;

/// The longest round trip, in nanoseconds, to which the node timeout adapts during a connection. The node timeout is
/// four round trips, so it grows to at most 240 ms. With a longer round trip, a slow network cannot be distinguished
/// from a node that stalls at each question.
const FOLLOWED: u64 = 60_000_000;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Pulse {
    /// The latest round trips in nanoseconds; [`u64::MAX`] marks a sample that is not measured yet.
    samples: [u64; SAMPLES],
    /// The index of the latest round trip.
    latest: usize,
    /// The shortest of the latest round trips.
    round_trip: u64,
    /// The shortest round trip on this connection.
    nearest: u64,
    /// When the latest sample was taken.
    sampled_at: Instant,
    /// Only answers to commands that were sent after this time are measured, because earlier answers may have waited
    /// unread.
    measured_from: Instant,
    /// The round trips of all answers, except answers that may have arrived before the driver read them.
    pub(crate) latency: Histogram,
    /// When the current silence began. During a silence, answers are due but no bytes arrive.
    silent_since: Option<Instant>,
    /// Whether the silence has lasted too long.
    suspect: bool,
}

impl Default for Pulse {
    fn default() -> Self {
        Self {
            samples: [u64::MAX; SAMPLES],
            latest: 0,
            round_trip: u64::MAX,
            nearest: u64::MAX,
            sampled_at: Instant::ZERO,
            measured_from: Instant::ZERO,
            latency: Histogram::default(),
            silent_since: None,
            suspect: false,
        }
    }
}

impl Pulse {
    /// Records that a connection was opened. The handshake of the new connection will measure the round trip.
    pub(in crate::node) fn connected(&mut self, now: Instant) {
        self.samples = [u64::MAX; SAMPLES];
        self.nearest = u64::MAX;
        self.measured_from = now;
    }

    /// Records that the driver did not read for a while before `now`. Answers to earlier commands then give no samples,
    /// because their arrival times are unknown.
    #[cfg(any(test, feature = "std"))]
    pub(crate) fn was_away(&mut self, now: Instant) {
        self.measured_from = now;
    }

    /// Records that bytes have arrived.
    pub(in crate::node) fn heard(&mut self) {
        self.silent_since = None;
        self.suspect = false;
    }

    /// Records that a command sent at `sent` was answered at `now`. All answers that are read together give only one
    /// sample, their shortest round trip.
    pub(in crate::node) fn answered(&mut self, now: Instant, sent: Instant) {
        if sent < self.measured_from {
            return;
        }
        let sample = now.as_nanos().saturating_sub(sent.as_nanos());
        self.latency.record_nanos(sample);
        let mut oldest = u64::MAX;
        if self.sampled_at != now {
            self.sampled_at = now;
            self.latest = (self.latest + 1) % SAMPLES;
            oldest = core::mem::replace(&mut self.samples[self.latest], u64::MAX);
        }
        let latest = &mut self.samples[self.latest];
        *latest = sample.min(*latest);
        if sample <= self.round_trip || self.nearest == u64::MAX {
            self.round_trip = sample;
        } else if oldest <= self.round_trip {
            self.round_trip = self.samples.iter().copied().fold(u64::MAX, u64::min);
        }
        self.nearest = self.nearest.min(sample);
    }

    /// Checks for a silence after the driver has read all bytes that had arrived. The node is silent if answers are
    /// still `open`. Returns the time at which the silence began.
    pub(in crate::node) fn listen(&mut self, now: Instant, open: bool) -> Option<Instant> {
        if !open {
            self.silent_since = None;
        } else if self.silent_since.is_none() {
            self.silent_since = Some(now);
        }
        self.silent_since
    }

    pub(crate) fn silent_since(&self) -> Option<Instant> {
        self.silent_since
    }

    /// Records that the silence has lasted too long.
    pub(crate) fn suspect(&mut self) {
        self.suspect = true;
    }

    pub(crate) fn is_suspect(&self) -> bool {
        self.suspect
    }

    /// Returns the shortest of the last [`SAMPLES`] round trips, if the node has ever answered.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        (self.round_trip != u64::MAX).then(|| Duration::from_nanos(self.round_trip))
    }

    /// Returns `true` if the network seems to have become too slow for answers to arrive in time. Only the handshake of
    /// another connection can distinguish a slow network from a node that stalls.
    pub(in crate::node) fn has_moved_away(&self) -> bool {
        let far = self.nearest.max(FOLLOWED).saturating_mul(4) < self.round_trip;
        // If the oldest sample exists, all samples exist.
        far && self.samples[(self.latest + 1) % SAMPLES] != u64::MAX
    }

    /// Returns the round trip on which the node timeout is based. Only a new connection can raise the result
    /// above [`FOLLOWED`], so that a node that stalls does not lengthen its own timeout.
    pub(crate) fn distance(&self) -> Duration {
        Duration::from_nanos(self.distance_nanos())
    }

    /// Returns the result of [`distance`](Self::distance) in nanoseconds.
    pub(crate) fn distance_nanos(&self) -> u64 {
        match self.round_trip {
            u64::MAX => 0,
            trip => trip.min(self.nearest.max(FOLLOWED)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the results of `round_trip` and `distance` after these samples, in milliseconds.
    fn measured(samples: &[u64]) -> (u64, u64) {
        let mut pulse = Pulse::default();
        let mut now = 1_000;
        for sample in samples {
            now += 10_000;
            let sent = Instant::from_millis(now - sample);
            pulse.answered(Instant::from_millis(now), sent);
        }
        let trips = (pulse.round_trip().unwrap(), pulse.distance());
        (trips.0.as_millis() as u64, trips.1.as_millis() as u64)
    }

    #[test]
    fn the_shortest_of_the_last_thirty_two_round_trips_counts() {
        let with = |first: &[u64], then: usize, sample| {
            let mut samples = first.to_vec();
            samples.resize(first.len() + then, sample);
            measured(&samples)
        };
        assert_eq!(with(&[1], 31, 10_000), (1, 1));
        // If all 32 samples are long, the shortest of them becomes the round trip, but `distance` is at most
        // `FOLLOWED`.
        assert_eq!(with(&[1], 32, 10_000), (10_000, 60));
        assert_eq!(with(&[1], 320, 60), (60, 60));
        assert_eq!(with(&[9, 1], 30, 5), (1, 1));
        assert_eq!(with(&[9, 1], 31, 5), (1, 1));
        assert_eq!(with(&[9, 1], 32, 5), (5, 5));
        // The round trip was already this long when the connection was opened.
        assert_eq!(with(&[200], 31, 900), (200, 200));
        assert_eq!(with(&[200], 32, 900), (900, 200));
        assert_eq!(with(&[200], 32, 100), (100, 100));
    }

    #[test]
    fn what_is_read_at_once_is_one_sample() {
        let mut pulse = Pulse::default();
        let at = Instant::from_millis;
        assert_eq!(pulse.round_trip(), None);
        assert_eq!(pulse.distance(), Duration::ZERO);
        for sent in 0..100 {
            pulse.answered(at(10_000), at(sent));
        }
        assert_eq!(pulse.round_trip(), Some(Duration::from_millis(9_901)));
        for read in 1..32 {
            pulse.answered(at(20_000 + read), at(0));
        }
        assert_eq!(pulse.round_trip(), Some(Duration::from_millis(9_901)));
        pulse.answered(at(30_000), at(0));
        assert_eq!(pulse.round_trip(), Some(Duration::from_millis(20_001)));
    }

    #[test]
    fn each_connection_is_measured_anew() {
        let mut pulse = Pulse::default();
        let at = Instant::from_millis;
        pulse.answered(at(3), at(1));
        pulse.connected(at(100));
        assert_eq!(pulse.round_trip(), Some(Duration::from_millis(2)));
        pulse.answered(at(300), at(100));
        assert_eq!(pulse.round_trip(), Some(Duration::from_millis(200)));
        assert_eq!(pulse.distance(), Duration::from_millis(200));
        pulse.was_away(at(10_000));
        pulse.answered(at(10_000), at(9_999));
        assert_eq!(pulse.round_trip(), Some(Duration::from_millis(200)));
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
