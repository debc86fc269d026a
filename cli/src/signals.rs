//! The table of signals, and the handling of signals that ask a waiting command to end.
//!
//! If a signal killed the command immediately, the keys of its last attempt would stay on the nodes until they expire.
//! So the signal first ends the wait. Then the command releases its lock, and lets the signal terminate it. A signal
//! that was ignored when the program started (as under `nohup`) stays ignored.

use std::fs;
use std::future::Future;
use std::pin::pin;
use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use nix::sys::signal::Signal;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{
    SIGBUS, SIGCHLD, SIGCONT, SIGFPE, SIGILL, SIGKILL, SIGPIPE, SIGSEGV, SIGSTOP, SIGTSTP, SIGTTIN,
    SIGTTOU, SIGURG, SIGWINCH,
};

use crate::failure::Failure;

/// The longest delay until the command notices a signal. A signal does not interrupt a wait, so the command checks for
/// signals at this interval.
const LOOK: Duration = Duration::from_millis(50);

/// Signals for which this program installs no handler. KILL and STOP cannot have a handler. ILL, FPE, SEGV and BUS
/// report faults of this program, and end the program. CHLD reports changes of the program's own children.
const NOT_HANDLED: [i32; 7] = [SIGKILL, SIGSTOP, SIGILL, SIGFPE, SIGSEGV, SIGBUS, SIGCHLD];

/// Signals that stop a program that has no handler for them.
pub(crate) const STOPPING: [i32; 3] = [SIGTSTP, SIGTTIN, SIGTTOU];

/// Signals that have no effect on a program that has no handler for them. PIPE is one of them, because the Rust runtime
/// ignores it.
const QUIET: &[i32] = &[
    SIGCONT,
    SIGURG,
    SIGWINCH,
    SIGPIPE,
    #[cfg(not(target_os = "linux"))]
    signal_hook::consts::SIGIO,
    #[cfg(any(target_vendor = "apple", target_os = "freebsd", target_os = "netbsd"))]
    signal_hook::consts::SIGINFO,
];

/// The signals that can be handled, without the real-time signals of [`real_time`].
fn plain() -> impl Iterator<Item = i32> {
    (1..=31).filter(|signal| !NOT_HANDLED.contains(signal))
}

#[cfg(target_os = "linux")]
fn real_time() -> impl Iterator<Item = i32> {
    use rustix::process::Signal;
    use rustix_libc_wrappers::process::SignalExt as _;
    (0..).map_while(Signal::rt).map(Signal::as_raw)
}

#[cfg(not(target_os = "linux"))]
fn real_time() -> impl Iterator<Item = i32> {
    std::iter::empty()
}

/// Returns the signals that can be handled, except those that were ignored when this program started.
pub(crate) fn to_handle() -> impl Iterator<Item = i32> {
    plain().chain(real_time()).filter(|it| !was_ignored(*it))
}

/// Returns `true` if the signal ends a program that does not handle it.
pub(crate) fn ends(signal: i32) -> bool {
    !STOPPING.contains(&signal) && !QUIET.contains(&signal)
}

/// Parses a signal that asks a process to end, such as `TERM`, `SIGTERM`, `15` or `RTMIN+3`. Accepts KILL and all
/// signals that can be handled.
pub(crate) fn parse(text: &str) -> Result<i32, &'static str> {
    let name = text.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    let named = |name: &str| Signal::from_str(name).ok().map(|it| it as i32);
    let number = match (text.parse(), name.strip_prefix("RTMIN+")) {
        (Ok(number), _) => Some(number),
        (_, Some(place)) => place.parse().ok().and_then(|place| real_time().nth(place)),
        (_, None) => named(&format!("SIG{name}")),
    };
    let mut good = plain().chain(real_time()).chain([SIGKILL]);
    good.find(|signal| Some(*signal) == number).ok_or(
        "give KILL or a signal that programs can handle, as a name (TERM, RTMIN+3) or as a number (15)",
    )
}

/// Terminates this process with `signal`, whose default action must be to terminate. Returns only if the signal did not
/// terminate the process.
pub(crate) fn end_by(signal: i32) {
    // Turns off the core dump of this program, which would be useless. The command may have left its own core dump when
    // this signal terminated it.
    let none = Rlimit {
        current: Some(0),
        ..getrlimit(Resource::Core)
    };
    let _ = setrlimit(Resource::Core, none);
    // The function returns if it does not know the signal, or if it expects a program to survive the signal.
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    #[cfg(target_os = "linux")]
    crate::run::end_by(signal);
}

/// The signals that have arrived.
#[derive(Debug)]
pub(crate) struct Signals(Arc<AtomicUsize>);

impl Signals {
    /// Starts to catch the signals that would end this program.
    pub(crate) fn catch() -> Result<Self, Failure> {
        let last = Arc::new(AtomicUsize::new(0));
        for signal in to_handle().filter(|signal| ends(*signal)) {
            let number = usize::try_from(signal).unwrap_or_default();
            signal_hook::flag::register_usize(signal, Arc::clone(&last), number)?;
        }
        Ok(Self(last))
    }

    /// Fails if a signal has asked the command to end.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.0.load(SeqCst) {
            0 => Ok(()),
            number => Err(Failure::by_signal(
                i32::try_from(number).unwrap_or_default(),
            )),
        }
    }

    /// Waits for the future. Drops the future when a signal arrives.
    pub(crate) fn wait<F: Future>(&self, future: F) -> Result<F::Output, Failure> {
        wait(future, || self.check())
    }
}

/// Waits for the future. Drops the future if `check` fails. Repeatedly polls the future and calls `check`.
pub(crate) fn wait<F: Future>(
    future: F,
    check: impl Fn() -> Result<(), Failure>,
) -> Result<F::Output, Failure> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        check()?;
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Ok(output);
        }
        thread::park_timeout(LOOK);
    }
}

/// A waker for the waiting thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A bit for each signal that was ignored when this program started. All bits are zero if the system has no
/// `/proc/self/status`.
static IGNORED: AtomicU64 = AtomicU64::new(0);

/// Records the ignored signals before the Rust runtime starts, because the Rust runtime itself ignores PIPE.
#[ctor::ctor]
fn note_ignored() {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let bits = bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    IGNORED.store(bits.unwrap_or_default(), SeqCst);
}

/// Returns `true` if this signal was ignored when this program started.
pub(crate) fn was_ignored(signal: i32) -> bool {
    IGNORED.load(SeqCst) >> (signal - 1) & 1 == 1
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_a_name_or_a_number() {
        for (text, signal) in [
            ("sigwinch", 28),
            ("35", 35),
            ("Usr1", 10),
            ("PWR", 30),
            ("KILL", 9),
        ] {
            assert_eq!(parse(text), Ok(signal), "{text}");
        }
        for (place, signal) in (0..).zip(real_time()) {
            assert_eq!(parse(&format!("RTMIN+{place}")), Ok(signal));
        }
        for text in ["", "SIG", "0", "65", "-1", "15 ", "SIGSIGTERM", "RTMIN+31"] {
            assert!(parse(text).is_err(), "{text}");
        }
        for text in ["STOP", "19", "CHLD", "32", "33"] {
            assert!(parse(text).is_err(), "{text}");
        }
        for (signal, name) in
            plain().filter_map(|it| Some((it, Signal::try_from(it).ok()?.as_str())))
        {
            assert_eq!(parse(name), Ok(signal), "{name}");
        }
    }
}
