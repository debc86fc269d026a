//! How busy the processor was with this process, and how long it waited for one.

use std::fs;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// What turns of one kind have taken.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    pub(super) time: Duration,
    /// Of all threads.
    pub(super) busy: Duration,
    /// How long the main thread could have run and did not; zero where the system does not say it.
    pub(super) queued: Duration,
}

impl Usage {
    /// Adds what `turn` takes.
    pub(super) fn add<T>(&mut self, turn: impl FnOnce() -> T) -> T {
        let (begin, busy_before, queued_before) = (Instant::now(), busy(), queued());
        let result = turn();
        self.time += begin.elapsed();
        self.busy += busy().saturating_sub(busy_before);
        self.queued += queued().saturating_sub(queued_before);
        result
    }

    /// Returns how many percent of its time it was busy.
    pub(super) fn busy_percent(&self) -> u64 {
        percent(self.busy, self.time)
    }

    /// Returns how many percent of its time it waited for a processor.
    pub(super) fn queued_percent(&self) -> u64 {
        percent(self.queued, self.time)
    }

    /// Returns so many things in each second.
    pub(super) fn per_second(&self, things: u64) -> u64 {
        (things as f64 / self.time.as_secs_f64().max(1e-9)) as u64
    }
}

fn percent(part: Duration, whole: Duration) -> u64 {
    (100.0 * part.as_secs_f64() / whole.as_secs_f64().max(1e-9)).round() as u64
}

fn busy() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanos)
}

/// The second number is nanoseconds in the queue of a processor.
fn queued() -> Duration {
    let text = fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').nth(1).and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or_default())
}
