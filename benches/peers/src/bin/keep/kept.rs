//! Locks that one handle keeps.

use std::thread;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use futures::future::{join_all, try_join_all};
use shearline::{LockGuard, LockOptions, Redlock, UnlockError};
use shearline_peers::Failure;
use shearline_peers::cycle::now;

/// How many locks are requested at once.
const WAVE: usize = 1_000;

/// The length of all names: eight letters and seven digits.
const NAME_BYTES: usize = 15;

/// Random bytes of a token.
const TOKEN_BYTES: usize = 20;

/// The bytes of a lock's name and token, which are not counted as its memory.
pub(crate) const NAME_AND_TOKEN: usize = NAME_BYTES + TOKEN_BYTES;

/// Locks that one handle keeps, in the order in which they were taken.
#[derive(Debug)]
pub(crate) struct KeptLocks {
    ttl: Duration,
    guards: Vec<LockGuard>,
}

/// The state of the locks at one moment.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct State {
    /// How many are no longer valid.
    pub(crate) lost: usize,
    /// How many are valid although the first try to extend them cannot have been answered in time: less than three
    /// eighths of the ttl are left.
    pub(crate) late: usize,
    /// The shortest remaining validity.
    pub(crate) least: Duration,
}

impl State {
    /// Returns the worse of each figure.
    pub(crate) fn worse(self, other: Self) -> Self {
        Self {
            lost: self.lost.max(other.lost),
            late: self.late.max(other.late),
            least: self.least.min(other.least),
        }
    }
}

impl KeptLocks {
    /// Takes this many locks: evenly within `over` if that is given, otherwise as fast as possible.
    pub(crate) fn take(
        handle: &Redlock,
        count: usize,
        ttl: Duration,
        over: Option<Duration>,
    ) -> Result<Self, Failure> {
        let mut guards = Vec::with_capacity(count);
        let begin = now();
        let wave = over.map_or(WAVE, |over| {
            // A wave every two milliseconds, as far as possible.
            let waves = over.as_millis().max(2) as usize / 2;
            count.div_ceil(waves).min(WAVE)
        });
        let options = LockOptions::new(ttl).keep();
        while guards.len() < count {
            if let Some(over) = over {
                let due = over.mul_f64(guards.len() as f64 / count as f64);
                thread::sleep(due.saturating_sub(begin.elapsed()));
            }
            let wave = guards.len()..count.min(guards.len() + wave);
            let locks = wave.map(|index| handle.lock_with_async(name(index), &options));
            guards.append(&mut block_on(try_join_all(locks))?);
        }
        Ok(Self { ttl, guards })
    }

    /// Returns the state of the locks.
    pub(crate) fn state(&self) -> State {
        let mut state = State {
            least: Duration::MAX,
            ..State::default()
        };
        for guard in &self.guards {
            let left = guard.validity();
            match left {
                Duration::ZERO => state.lost += 1,
                left if left < self.ttl * 3 / 8 => state.late += 1,
                _ => {}
            }
            state.least = state.least.min(left);
        }
        state
    }

    /// Looks at the locks again and again until then, and returns the worst state.
    pub(crate) fn watch(&self, until: Instant, each: impl Fn()) -> State {
        let mut worst = self.state();
        while now() < until {
            thread::sleep((self.ttl / 40).min(until.saturating_duration_since(now())));
            worst = worst.worse(self.state());
            each();
        }
        worst
    }

    /// Returns the end of each lock.
    pub(crate) fn ends(&self) -> Vec<u64> {
        let ends = self.guards.iter();
        ends.map(|guard| guard.valid_until().as_nanos()).collect()
    }

    /// Returns how many locks were extended since they had these ends. None is extended twice in less than half of the
    /// ttl.
    pub(crate) fn extended_since(&self, ends: &[u64]) -> usize {
        let pairs = self.guards.iter().zip(ends);
        pairs
            .filter(|(guard, end)| guard.valid_until().as_nanos() != **end)
            .count()
    }

    /// Releases all locks, and waits for that. Returns how many were no longer held by a majority. This is not known if
    /// too few nodes have answered in time because the machine is busy.
    pub(crate) fn release(mut self) -> Result<usize, Failure> {
        let mut gone = 0;
        while !self.guards.is_empty() {
            let rest = self.guards.len().saturating_sub(WAVE);
            let wave = self.guards.drain(rest..);
            for result in block_on(join_all(wave.map(LockGuard::unlock_async))) {
                match result {
                    Err(UnlockError::NotHeld(_)) => gone += 1,
                    Err(UnlockError::Unconfirmed(_)) => {}
                    result => drop(result?),
                }
            }
        }
        Ok(gone)
    }
}

/// Returns the name of a lock.
pub(crate) fn name(index: usize) -> String {
    format!("account:{index:07}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_length_that_is_not_counted() {
        assert_eq!(name(0).len(), NAME_BYTES);
        assert_eq!(name(1_048_575).len(), NAME_BYTES);
    }
}
