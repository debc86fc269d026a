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

/// What is left for the end of a hundred processes.
const MARGIN_MIN: Duration = Duration::from_millis(250);
const MARGIN_MAX: Duration = Duration::from_secs(2);

/// What each further process takes. To kill 1,500 takes some 150 ms, and 2 s were seen where twenty other
/// programs wanted the two processors.
const MARGIN_EACH: Duration = Duration::from_millis(2);
const FEW: usize = 100;

/// Returns how long before the end of the validity the guardian kills so many processes. The tool waits half as
/// long for it. It is later than the request to end in any case.
pub(super) fn margin(ttl: Duration, processes: usize) -> Duration {
    let least = (ttl / 8).clamp(MARGIN_MIN, MARGIN_MAX);
    let further = u32::try_from(processes.saturating_sub(FEW)).unwrap_or(u32::MAX);
    let wanted = least.saturating_add(MARGIN_EACH.saturating_mul(further));
    wanted.min(ttl / 16 * 3).max(least)
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
        for (seconds, processes, millis) in [
            (2, 0, 250),
            (4, FEW, 500),
            (30, FEW, 2000),
            (3600, FEW, 2000),
            (2, 1_500, 375),
            (4, FEW + 1, 502),
            (12, 1_500, 2250),
            (30, 1_500, 4800),
            (3600, 1_500, 4800),
            (3600, usize::MAX, 675_000),
        ] {
            let ttl = Duration::from_secs(seconds);
            assert_eq!(margin(ttl, processes), Duration::from_millis(millis));
            assert!(margin(ttl, processes) < ttl / 4);
        }
        assert!(margin(TTL_MIN, usize::MAX) < TTL_MIN / 4);
    }
}
