//! Computes the time by which all processes of the command must be dead, and sleeps until a given time.
//!
//! All times are read from `CLOCK_BOOTTIME`, the clock that the library uses for locks. This clock keeps running while
//! the machine is suspended, and is the same in every process.
//!
//! ```text
//! at risk (TERM)      watchdog kills     supervisor kills  the lock may be another's
//! |-------------------|------------------|-----------------|
//! a quarter of the    margin before      half of it        end of validity
//! ttl is left
//! ```

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use shearline::Instant;

/// The shortest ttl that `run` accepts. With this ttl, a process that gets the stop signal still has enough time to end
/// before the watchdog kills it.
pub(super) const TTL_MIN: Duration = Duration::from_secs(2);

/// The margin is an eighth of the ttl, between these limits. In a test on two processors with a load of 17, finding and
/// killing a hundred processes took up to 140 ms.
const MARGIN_MIN: Duration = Duration::from_millis(250);
const MARGIN_MAX: Duration = Duration::from_secs(2);

/// How long the watchdog may take to kill all processes after the lock is lost.
const PROMPTLY: Duration = Duration::from_millis(100);

/// Returns the margin: the watchdog kills all processes this long before the lock's validity ends. If the processes are
/// still alive after half of this time, the supervisor kills them.
pub(super) fn margin(ttl: Duration) -> Duration {
    (ttl / 8).clamp(MARGIN_MIN, MARGIN_MAX)
}

/// Returns the time at which the supervisor itself kills all processes. The watchdog kills the processes at `until`, or
/// when the supervisor reports a loss. If the watchdog fails, the supervisor kills the processes a little later. `lost`
/// is the time at which the supervisor noticed a loss.
pub(super) fn kill_at(until: Instant, ttl: Duration, lost: Option<Instant>) -> Instant {
    let late = until.saturating_add(margin(ttl) / 2);
    lost.map_or(late, |lost| late.min(lost.saturating_add(PROMPTLY)))
}

/// Returns the time between the stop signal and the kill.
pub(super) fn warning(ttl: Duration) -> Duration {
    ttl / 4 - margin(ttl)
}

/// A descriptor that becomes readable at a given time.
#[derive(Debug)]
pub(super) struct Timer(OwnedFd);

impl Timer {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(timerfd_create(
            TimerfdClockId::Boottime,
            TimerfdFlags::CLOEXEC,
        )?))
    }

    /// Sleeps until this time, until one of the descriptors is readable, or until a signal arrives.
    pub(super) fn wait(&self, at: Instant, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        // A time of zero would turn off the timer, so the least time is 1 ns.
        let at = Duration::from_nanos(at.as_nanos().max(1));
        let time = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec::try_from(at).map_err(io::Error::other)?,
        };
        timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &time)?;
        let fds = fds.iter().copied().chain([self.0.as_fd()]);
        let fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let mut fds: Vec<PollFd<'_>> = fds.collect();
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_is_an_eighth_of_the_ttl_from_a_quarter_of_a_second_to_two() {
        for (seconds, millis) in [(2, 250), (4, 500), (12, 1_500), (30, 2_000), (3600, 2_000)] {
            let ttl = Duration::from_secs(seconds);
            assert_eq!(margin(ttl), Duration::from_millis(millis), "{seconds}");
            // A lock is extended when half of its validity has passed. The warning must come after this extension.
            assert!(margin(ttl) + warning(ttl) < ttl / 8 * 3);
        }
    }

    #[test]
    fn the_tool_kills_half_a_margin_after_the_watchdog_and_promptly_after_a_loss() {
        let at = Instant::from_millis;
        let ttl = Duration::from_secs(16);
        for (lost, kills) in [
            (None, 11_000),
            (Some(3_000), 3_100),
            // A loss never moves the kill to a later time.
            (Some(10_950), 11_000),
            (Some(12_000), 11_000),
        ] {
            assert_eq!(
                kill_at(at(10_000), ttl, lost.map(at)),
                at(kills),
                "{lost:?}"
            );
        }
    }
}
