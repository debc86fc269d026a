//! When all processes of the command must be dead, and the timer that tells.
//!
//! All times are of `CLOCK_BOOTTIME`, the clock that the library judges locks by: it runs on while the
//! machine is suspended, and is the same in every process.
//!
//! ```text
//! at risk (TERM)      guardian kills     tool kills    the lock may be another's
//! |-------------------|------------------|-------------|
//! a quarter of the    margin before      half of it    end of validity
//! ttl is left
//! ```

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use shearline::Instant;

/// The shortest ttl that leaves room for the margin behind the request to end.
pub(super) const TTL_MIN: Duration = Duration::from_secs(2);

/// To kill 1,500 processes takes some 150 ms.
const MARGIN_MIN: Duration = Duration::from_millis(250);
const MARGIN_MAX: Duration = Duration::from_secs(2);

/// Returns how long before the end of the validity the guardian kills. The tool waits half as long
/// for it.
pub(super) fn margin(ttl: Duration) -> Duration {
    (ttl / 8).clamp(MARGIN_MIN, MARGIN_MAX)
}

/// A descriptor that is readable from a time on.
#[derive(Debug)]
pub(super) struct Timer(OwnedFd);

impl Timer {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(timerfd_create(
            TimerfdClockId::Boottime,
            TimerfdFlags::CLOEXEC,
        )?))
    }

    /// Sets the time. It replaces the previous one.
    pub(super) fn set(&self, at: Instant) -> io::Result<()> {
        // Zero would switch the timer off.
        let nanos = at.as_nanos().max(1);
        let part = |nanos: u64| i64::try_from(nanos).unwrap_or(i64::MAX);
        let time = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec {
                tv_sec: part(nanos / 1_000_000_000),
                tv_nsec: part(nanos % 1_000_000_000),
            },
        };
        timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &time)?;
        Ok(())
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_is_at_least_a_quarter_of_a_second_and_less_than_what_is_left_at_risk() {
        for (seconds, millis) in [(2, 250), (4, 500), (30, 2000), (3600, 2000)] {
            let ttl = Duration::from_secs(seconds);
            assert_eq!(margin(ttl), Duration::from_millis(millis));
            assert!(margin(ttl) < ttl / 4);
        }
        assert!(margin(TTL_MIN) < TTL_MIN / 4);
    }
}
