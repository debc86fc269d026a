//! The delay before a new connection attempt. If the last connection was ready for at least a second, the next attempt
//! has no delay. After each failed attempt, the delay grows.
//!
//! The delay starts at 50 ms and doubles up to 2 s. Each delay is shortened by a random part of at most one half, so
//! that many clients do not reconnect at the same time.

use core::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Records that a connection failed or ended early. Returns the delay before the next connection.
    pub(crate) fn failed(&mut self, random: &mut StdRng) -> Duration {
        let doubled = FIRST.saturating_mul(1 << self.failures.min(6)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        let half = doubled / 2;
        half + Duration::from_nanos(random.random_range(0..=half.as_nanos() as u64))
    }

    /// Resets the delay to the shortest one, because a connection was ready for long enough.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn the_delay_doubles_up_to_two_seconds() {
        let mut random = StdRng::from_seed([7; 32]);
        let mut backoff = Backoff::default();
        for most in [50, 100, 200, 400, 800, 1600, 2000, 2000, 2000] {
            let most = Duration::from_millis(most);
            let delay = backoff.failed(&mut random);
            assert!(most / 2 <= delay && delay <= most, "{delay:?} of {most:?}");
        }
        backoff.reset();
        assert!(backoff.failed(&mut random) <= FIRST);
    }
}
