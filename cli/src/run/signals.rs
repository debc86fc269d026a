//! The signals that a process of the run handles, as bytes on a socket and flags.
//!
//! A signal that was ignored when the program was started stays ignored (`nohup`), in the command
//! too: a handler would give it the default action there.

use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use rustix::process::Signal;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::{flag, low_level};

use crate::signals::is_ignored;

/// The signals that ask for an end or mean something to the command.
pub(super) const PASSED_ON: [i32; 6] = [SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGINT, SIGQUIT];

/// Returns `true` if the terminal sends this signal to all processes of the group in its foreground.
pub(super) fn is_of_terminal(signal: i32) -> bool {
    matches!(signal, SIGINT | SIGQUIT)
}

/// Returns `true` if who sends this signal wants the command to end.
pub(super) fn asks_for_end(signal: Signal) -> bool {
    [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT].contains(&signal)
}

/// The signals that arrived, and a descriptor that is readable when there are new ones.
#[derive(Debug)]
pub(super) struct Signals {
    arrived: UnixStream,
    flags: Vec<(i32, Arc<AtomicBool>)>,
}

impl Signals {
    /// Handles [`PASSED_ON`], and notes ends of children, from now on.
    pub(super) fn catch() -> io::Result<Self> {
        let (arrived, sender) = UnixStream::pair()?;
        arrived.set_nonblocking(true)?;
        let mut flags = Vec::new();
        for signal in PASSED_ON.into_iter().filter(|signal| !is_ignored(*signal)) {
            let flag = Arc::new(AtomicBool::new(false));
            // In this order: the flag is set when the byte comes.
            flag::register(signal, Arc::clone(&flag))?;
            low_level::pipe::register(signal, sender.try_clone()?)?;
            flags.push((signal, flag));
        }
        // Also if it was ignored: no process can wait for its children then.
        low_level::pipe::register(SIGCHLD, sender)?;
        Ok(Self { arrived, flags })
    }

    /// Returns the signals that have arrived since the last call, without the ends of children.
    pub(super) fn take(&self) -> impl Iterator<Item = i32> {
        let mut bytes = [0; 64];
        while let Ok(1..) = (&self.arrived).read(&mut bytes) {}
        let flags = self.flags.iter();
        flags.filter_map(|(signal, flag)| flag.swap(false, SeqCst).then_some(*signal))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.arrived.as_fd()
    }
}
