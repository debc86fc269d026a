//! The clock that the library judges locks by: it runs on while the machine is suspended, and is the same
//! in every process.

use rustix::time::{ClockId, clock_gettime};
use shearline::Instant;

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Returns the time.
pub(crate) fn now() -> Instant {
    let time = clock_gettime(CLOCK);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
    Instant::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}
