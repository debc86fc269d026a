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
//!
//! The margin grows with the number of the processes, and on a busy machine. They are asked to end a sixteenth of the
//! ttl before it in any case.

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

/// The margin for up to [`FEW`] processes: an eighth of the ttl, between these.
const MARGIN_MIN: Duration = Duration::from_millis(250);
const MARGIN_MAX: Duration = Duration::from_secs(2);

/// What each process beyond these takes at least. To kill 1,500 takes some 250 ms, and 2 s were seen where twenty
/// other programs wanted the two processors.
const MARGIN_EACH: Duration = Duration::from_millis(2);
const FEW: usize = 100;

/// How often a process has to get a processor until it is dead. How late this process is woken shows how long it takes
/// to get one.
const MARGIN_TURNS: u32 = 4;

/// How many times as long as one count of all processes their end takes: some four looks to stop them, kill them and
/// see that none is left, and the same time again for them to die.
const MARGIN_LOOKS: u32 = 8;

/// What is known of the processes of a command.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Crowd {
    /// The most that were counted.
    pub(super) processes: usize,
    /// How long it took to count them: long on a busy machine.
    pub(super) look: Duration,
    /// How late a timer has woken this process.
    pub(super) late: Duration,
}

impl Crowd {
    /// Remembers a count and how long it took. Of an earlier time that was longer, and of how late this process was
    /// woken, three quarters are kept at each count: after a busy moment the margin becomes shorter step by step.
    pub(super) fn counted(&mut self, processes: usize, look: Duration) {
        self.processes = self.processes.max(processes);
        self.look = look.max(self.look / 4 * 3);
        self.late = self.late / 4 * 3;
    }

    /// Remembers how late a timer has woken this process, if that is later than before.
    pub(super) fn woken(&mut self, late: Duration) {
        self.late = self.late.max(late);
    }

    /// Returns how long before the end of the validity the guardian kills them. The tool waits half as long for it.
    pub(super) fn margin(&self, ttl: Duration) -> Duration {
        let least = (ttl / 8).clamp(MARGIN_MIN, MARGIN_MAX);
        let further = u32::try_from(self.processes.saturating_sub(FEW)).unwrap_or(u32::MAX);
        let each = MARGIN_EACH.max(self.late.saturating_mul(MARGIN_TURNS));
        let wanted = least
            .saturating_add(each.saturating_mul(further))
            .saturating_add(self.look.saturating_mul(MARGIN_LOOKS));
        wanted.min(ttl / 4).max(least)
    }
}

/// Returns how long before they are killed they are asked to end, at the latest.
pub(super) fn warning(ttl: Duration) -> Duration {
    ttl / 16
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

    fn margin(ttl: Duration, processes: usize, look: u64) -> Duration {
        let look = Duration::from_millis(look);
        let crowd = Crowd {
            processes,
            look,
            late: Duration::ZERO,
        };
        crowd.margin(ttl)
    }

    #[test]
    fn the_margin_is_at_least_a_quarter_of_a_second_and_at_most_a_quarter_of_the_ttl() {
        for (seconds, processes, look, millis) in [
            (2, 0, 0, 250),
            (4, FEW, 0, 500),
            (30, FEW, 0, 2000),
            (3600, FEW, 0, 2000),
            (2, 1_500, 0, 500),
            (4, FEW + 1, 0, 502),
            (12, 1_500, 0, 3000),
            (30, 1_500, 0, 4800),
            (30, 1_500, 100, 5600),
            (30, 1_500, 1_000, 7500),
            (30, 1, 10, 2080),
            (3600, 1_500, 0, 4800),
            (3600, usize::MAX, 0, 900_000),
            (3600, 0, u64::MAX, 900_000),
        ] {
            let ttl = Duration::from_secs(seconds);
            let expected = Duration::from_millis(millis);
            assert_eq!(
                margin(ttl, processes, look),
                expected,
                "{seconds} {processes} {look}"
            );
            // An extension that comes at half of the validity is in time.
            assert!(margin(ttl, processes, look) + warning(ttl) < ttl / 8 * 3);
        }
        let most = margin(TTL_MIN, usize::MAX, u64::MAX);
        assert!(most + warning(TTL_MIN) < TTL_MIN / 8 * 3);
    }

    #[test]
    fn a_busy_moment_is_forgotten_step_by_step() {
        let mut crowd = Crowd::default();
        let millis = Duration::from_millis;
        crowd.counted(7, millis(64));
        crowd.counted(3, millis(1));
        assert_eq!((crowd.processes, crowd.look), (7, millis(48)));
        crowd.counted(9, millis(50));
        assert_eq!((crowd.processes, crowd.look), (9, millis(50)));
        crowd.woken(millis(4));
        crowd.woken(millis(2));
        assert_eq!(crowd.late, millis(4));
        crowd.counted(1_500, Duration::ZERO);
        assert_eq!(crowd.late, millis(3));
        // Each process beyond a hundred takes four turns of three milliseconds.
        crowd.look = Duration::ZERO;
        let margin = crowd.margin(Duration::from_secs(3600));
        assert_eq!(margin, millis(2_000 + 1_400 * 12));
    }
}
