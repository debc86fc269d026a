//! The signals, in one table, and those that ask a command to end while it waits.
//!
//! A command that dies at once would leave what its last attempt has written on the nodes until it
//! expires. So the wait ends, what was taken is released, and then the command ends by that signal.
//! A signal that was ignored when the program was started stays ignored (`nohup`).

use std::fs;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{
    SIGABRT, SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGIO, SIGKILL, SIGPIPE, SIGPROF, SIGQUIT, SIGSYS,
    SIGTERM, SIGTRAP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGUSR1, SIGUSR2, SIGVTALRM, SIGWINCH,
    SIGXCPU, SIGXFSZ,
};

use crate::failure::Failure;
use crate::status::Status;

/// A signal is seen this late at most. It does not end a wait by itself.
const LOOK: Duration = Duration::from_millis(50);

/// What a signal does to this program if it does not handle it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Unhandled {
    Ends,
    Stops,
    Nothing,
}

/// The signals that can be handled, without those of [`more`].
///
/// Not here: KILL and STOP; ILL, FPE, SEGV and BUS, by which a fault of this program ends it; and CHLD, which tells
/// of its own children.
const TABLE: [(i32, Unhandled); 22] = [
    (SIGHUP, Unhandled::Ends),
    (SIGINT, Unhandled::Ends),
    (SIGQUIT, Unhandled::Ends),
    (SIGTRAP, Unhandled::Ends),
    (SIGABRT, Unhandled::Ends),
    (SIGUSR1, Unhandled::Ends),
    (SIGUSR2, Unhandled::Ends),
    // The runtime of Rust ignores it.
    (SIGPIPE, Unhandled::Nothing),
    (SIGALRM, Unhandled::Ends),
    (SIGTERM, Unhandled::Ends),
    (SIGCONT, Unhandled::Nothing),
    (SIGTSTP, Unhandled::Stops),
    (SIGTTIN, Unhandled::Stops),
    (SIGTTOU, Unhandled::Stops),
    (SIGURG, Unhandled::Nothing),
    (SIGXCPU, Unhandled::Ends),
    (SIGXFSZ, Unhandled::Ends),
    (SIGVTALRM, Unhandled::Ends),
    (SIGPROF, Unhandled::Ends),
    (SIGWINCH, Unhandled::Nothing),
    (SIGIO, IO),
    (SIGSYS, Unhandled::Ends),
];

/// Where this differs.
const IO: Unhandled = match cfg!(target_os = "linux") {
    true => Unhandled::Ends,
    false => Unhandled::Nothing,
};

/// The signals of this system alone, with their names: PWR, STKFLT and the real-time ones.
fn more() -> Vec<(i32, String)> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::Signal;
        use rustix_libc_wrappers::process::SignalExt as _;
        let named = [(Signal::POWER, "SIGPWR"), (Signal::STKFLT, "SIGSTKFLT")];
        let named = named.map(|(signal, name)| (signal, name.to_owned()));
        let real_time = (0..).map_while(Signal::rt).zip(0..);
        let real_time = real_time.map(|(signal, place)| (signal, format!("SIGRTMIN+{place}")));
        let all = named.into_iter().chain(real_time);
        all.map(|(signal, name)| (signal.as_raw(), name)).collect()
    }
    #[cfg(not(target_os = "linux"))]
    Vec::new()
}

/// Returns the signals that can be handled, except those that were ignored when this program was started.
///
/// That PIPE was ignored cannot be seen, since the runtime ignores it.
pub(crate) fn to_handle() -> impl Iterator<Item = (i32, Unhandled)> {
    let ignored = ignored();
    let more = more()
        .into_iter()
        .map(|(signal, _)| (signal, Unhandled::Ends));
    let all = TABLE.into_iter().chain(more);
    all.filter(move |(signal, _)| *signal == SIGPIPE || ignored >> (signal - 1) & 1 == 0)
}

/// Reads a signal that asks a process to end, one that can be handled or KILL: `TERM`, `SIGTERM`, `15` or `RTMIN+3`.
pub(crate) fn parse(text: &str) -> Result<i32, &'static str> {
    let wanted = text.to_ascii_uppercase();
    let wanted = format!("SIG{}", wanted.strip_prefix("SIG").unwrap_or(&wanted));
    let table = TABLE.iter().map(|(signal, _)| *signal).chain([SIGKILL]);
    let name = |signal| signal_hook::low_level::signal_name(signal).unwrap_or_default();
    let table = table.map(|signal| (signal, name(signal).to_owned()));
    let mut all = table.chain(more());
    let found = all.find(|(signal, name)| *name == wanted || text == signal.to_string());
    let found = found.map(|(signal, _)| signal);
    found.ok_or(
        "write KILL or one that can be handled, as a name such as TERM or RTMIN+3, or as a number",
    )
}

/// Returns `true` if the signal ends a program that does not handle it.
#[cfg(target_os = "linux")]
pub(crate) fn ends(signal: i32) -> bool {
    let known = TABLE.iter().find(|(number, _)| *number == signal);
    known.is_none_or(|(_, unhandled)| *unhandled == Unhandled::Ends)
}

/// Ends this process by a signal that ends those that do not handle it. Returns if that is not possible.
pub(crate) fn end_by(signal: i32) {
    // What ended by it may have left an image of its memory. Ours says nothing.
    let none = Rlimit {
        current: Some(0),
        ..getrlimit(Resource::Core)
    };
    let _ = setrlimit(Resource::Core, none);
    // It returns if it does not know the signal, or takes it for one that ends nothing.
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    #[cfg(target_os = "linux")]
    crate::run::end_by(signal);
}

/// The signals that came.
#[derive(Debug)]
pub(crate) struct Signals(Arc<AtomicUsize>);

impl Signals {
    /// Catches the signals that would end this program, from now on.
    pub(crate) fn catch() -> Result<Self, Failure> {
        let last = Arc::new(AtomicUsize::new(0));
        for (signal, _) in to_handle().filter(|(_, unhandled)| *unhandled == Unhandled::Ends) {
            let number = usize::try_from(signal).unwrap_or_default();
            let caught = signal_hook::flag::register_usize(signal, Arc::clone(&last), number);
            caught
                .map_err(|error| Failure::new(Status::Failure, format_args!("signals: {error}")))?;
        }
        Ok(Self(last))
    }

    /// Returns the failure of a command that was asked to end, if it was.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.0.load(SeqCst) {
            0 => Ok(()),
            number => Err(Failure::by_signal(u8::try_from(number).unwrap_or_default())),
        }
    }

    /// Waits for the future, or for a signal: then the future is dropped.
    pub(crate) fn wait<F: Future>(&self, future: F) -> Result<F::Output, Failure> {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return Ok(output);
            }
            self.check()?;
            thread::park_timeout(LOOK);
        }
    }
}

/// Wakes the thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Returns the signals that this process ignores, as bits: before a handler is registered, those that were ignored when
/// it was started.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let bits = bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.unwrap_or_default()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use signal_hook::consts::{SIGBUS, SIGCHLD, SIGFPE, SIGILL, SIGSEGV, SIGSTOP};

    use super::*;

    #[test]
    fn every_signal_has_its_place() {
        let not_passed_on = [SIGKILL, SIGSTOP, SIGILL, SIGFPE, SIGSEGV, SIGBUS, SIGCHLD];
        let more = more().into_iter().map(|(signal, _)| signal);
        let more: Vec<i32> = more.collect();
        // The C library keeps these for itself.
        let reserved = [32, 33, 34].into_iter().filter(|it| !more.contains(it));
        let mut all: Vec<i32> = TABLE.into_iter().map(|(signal, _)| signal).collect();
        all.extend(&more);
        all.extend(not_passed_on.into_iter().chain(reserved));
        all.sort_unstable();
        assert_eq!(all, Vec::from_iter(1..=64));
    }

    #[test]
    fn a_signal_is_a_name_or_a_number() {
        for (text, signal) in [("sigwinch", 28), ("35", 35), ("Usr1", 10), ("PWR", 30)] {
            assert_eq!(parse(text), Ok(signal), "{text}");
        }
        for (signal, name) in more() {
            assert_eq!(parse(&name), Ok(signal), "{name}");
        }
        for text in ["", "SIG", "0", "65", "-1", "15 ", "SIGSIGTERM", "RTMIN+31"] {
            assert!(parse(text).is_err(), "{text}");
        }
        for text in ["STOP", "19", "CHLD", "32", "33"] {
            assert!(parse(text).is_err(), "{text}");
        }
        for (signal, _) in TABLE {
            let name = signal_hook::low_level::signal_name(signal).unwrap();
            assert_eq!(parse(name), Ok(signal), "{name}");
        }
    }
}
