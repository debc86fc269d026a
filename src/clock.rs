//! Reads the clocks. The only module that reads a clock.
//!
//! On Linux and Android, the clock of locks is `CLOCK_BOOTTIME`. This clock keeps running while the machine is
//! suspended, and is never set back. Reading it needs no system call. On other systems, the clock of locks is
//! `CLOCK_MONOTONIC`. According to its manual, `CLOCK_MONOTONIC` keeps running on macOS while the machine sleeps. On
//! the BSDs, the behavior depends on the release. Only Linux is tested. If the clock stops during suspend, a lock that
//! has expired during the suspend may look valid.
//!
//! # Not here
//!
//! If a virtual machine and its paravirtual clock are stopped together, the clock does not count the pause.

use core::time::Duration;
use std::fs;
use std::io;

use rustix::time::{ClockId, clock_gettime};

use crate::time::Instant;

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Returns the current time of the clock that measures all locks on this machine.
pub fn now() -> Instant {
    let time = clock_gettime(CLOCK);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
    Instant::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

/// Returns the time since 1970, by the wall clock.
#[cold]
pub(crate) fn wall() -> Duration {
    let time = clock_gettime(ClockId::Realtime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanos)
}

/// Identifies the clock that produced an [`Instant`]. Two instants may be compared only if the identities are equal.
///
/// The identity changes with each boot, and differs between time namespaces, whose clocks have different offsets. If
/// the system does not identify the clock, instants must not be compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ClockIdentity {
    boot: u128,
    namespace: u64,
}

impl ClockIdentity {
    pub(crate) const BYTES: usize = 24;

    /// Returns the identity of the clock that [`now`] reads in this process, or `None` if the system does not report
    /// it.
    ///
    /// Each call reads the identity, because a process can move to another time namespace.
    pub(crate) fn current() -> Option<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(Self {
            boot: parse_uuid(boot.trim_end())?,
            namespace: time_namespace()?,
        })
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..16].copy_from_slice(&self.boot.to_be_bytes());
        bytes[16..].copy_from_slice(&self.namespace.to_be_bytes());
        bytes
    }
}

fn parse_uuid(text: &str) -> Option<u128> {
    let mut value = 0_u128;
    let mut digits = 0;
    for letter in text.chars().filter(|letter| *letter != '-') {
        value = value << 4 | u128::from(letter.to_digit(16)?);
        digits += 1;
    }
    (digits == 32).then_some(value)
}

/// Returns the number of this process's time namespace. Returns zero before Linux 5.6, which has no time namespaces.
fn time_namespace() -> Option<u64> {
    match fs::read_link("/proc/self/ns/time") {
        Ok(link) => {
            let number = link.to_str()?.strip_prefix("time:[")?.strip_suffix(']')?;
            number.parse().ok()
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::read_link("/proc/self/ns/uts").ok().map(|_| 0)
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn the_clock_does_not_run_backwards() {
        let mut last = now();
        assert_ne!(last, Instant::ZERO);
        for _ in 0..1000 {
            let next = now();
            assert!(last <= next);
            last = next;
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_clock_counts_since_the_boot_with_suspended_time() {
        let uptime = || {
            let text = fs::read_to_string("/proc/uptime").unwrap();
            let seconds: f64 = text.split(' ').next().unwrap().parse().unwrap();
            seconds
        };
        let before = uptime() - 0.02;
        let at = now().as_nanos() as f64 / 1e9;
        assert!(before <= at && at <= uptime() + 0.02, "{before} {at}");
    }

    #[test]
    fn one_process_has_one_clock() {
        assert_eq!(ClockIdentity::current(), ClockIdentity::current());
        #[cfg(target_os = "linux")]
        assert!(ClockIdentity::current().is_some());
    }

    #[test]
    fn what_is_no_boot_id_is_no_identity() {
        let zeros = "00000000-0000-0000-0000-0000000000";
        assert_eq!(parse_uuid(&format!("{zeros}ff")), Some(255));
        for text in ["", "ff", &format!("{zeros}fg"), &"f".repeat(33)] {
            assert_eq!(parse_uuid(text), None, "{text}");
        }
    }
}
