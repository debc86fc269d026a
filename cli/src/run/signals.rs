//! The signals that a process of the run handles, as bytes on a socket and flags.
//!
//! A signal that was ignored when the program was started stays ignored (`nohup`), in the command
//! too: a handler would give it the default action there.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::{Wake, Waker};

use rustix::net::{SendFlags, send};
use rustix::process::getpid;
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGINT, SIGQUIT, SIGTSTP, SIGWINCH};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;

use super::args::End;
use super::processes;
use crate::signals::{self, Unhandled};

/// A signal that arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    pub(super) number: i32,
    /// Whether the terminal has sent it, to all processes of the group in its foreground.
    pub(super) is_of_terminal: bool,
}

/// What the kernel says of a signal that no process has sent.
const SI_KERNEL: i32 = 0x80;

/// Those that a terminal sends to all processes of the group in its foreground. (HUP comes to the leader of a session
/// alone.)
const OF_TERMINAL: [i32; 4] = [SIGINT, SIGQUIT, SIGTSTP, SIGWINCH];

/// Returns `true` if a terminal may stop this process: not the first one of a container, which nothing stops.
fn is_stopped_by_terminal() -> bool {
    let own = getpid();
    let stat = processes::stat(own).unwrap_or_default();
    // Behind the state, the parent, the group and the session.
    stat.split(' ').nth(4).is_some_and(|it| it != "0") && !own.is_init()
}

/// Puts CONT behind the others that came at once, as the kernel does: a signal that stops a process does not stop it for
/// longer than until the CONT that came with it.
pub(super) fn continued_last(arrived: impl Iterator<Item = Arrived>) -> Vec<Arrived> {
    let mut arrived: Vec<Arrived> = arrived.collect();
    arrived.sort_by_key(|arrived| arrived.number == SIGCONT);
    arrived
}

/// The signals that arrived, and a descriptor that is readable when there are new ones.
#[derive(Debug)]
pub(super) struct Signals {
    delivery: RefCell<SignalDelivery<UnixStream, WithRawSiginfo>>,
    arrived: UnixStream,
    sender: Arc<Sender>,
}

/// The other end of the socket: futures make the same descriptor readable as signals do.
#[derive(Debug)]
struct Sender(UnixStream);

impl Wake for Sender {
    fn wake(self: Arc<Self>) {
        // It fails if there is no room: then there is something to read.
        let _ = send(&self.0, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }
}

impl Signals {
    /// Handles every signal that can be handled, and notes ends of children, from now on. At a terminal those that
    /// stop a job stop this process too.
    pub(super) fn catch() -> io::Result<Self> {
        let (arrived, sender) = UnixStream::pair()?;
        let (own, waking) = (arrived.try_clone()?, sender.try_clone()?);
        let delivery = SignalDelivery::with_pipe(own, sender, WithRawSiginfo, [0; 0])?;
        let is_stopped_by_terminal = is_stopped_by_terminal();
        for (signal, unhandled) in signals::to_handle() {
            if unhandled != Unhandled::Stops || !is_stopped_by_terminal {
                delivery.handle().add_signal(signal)?;
            }
        }
        // Also if it was ignored: no process can wait for its children then.
        delivery.handle().add_signal(SIGCHLD)?;
        Ok(Self {
            delivery: RefCell::new(delivery),
            arrived,
            sender: Arc::new(Sender(waking)),
        })
    }

    /// Returns a waker that makes the descriptor readable, until the next call of [`take`](Self::take).
    pub(super) fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.sender))
    }

    /// Returns the signals that have arrived since the last call, without the ends of children.
    pub(super) fn take(&self) -> impl Iterator<Item = Arrived> {
        let arrived = self.delivery.borrow_mut().pending();
        let arrived = arrived.filter(|it| it.si_signo != SIGCHLD);
        arrived.map(|it| Arrived {
            number: it.si_signo,
            is_of_terminal: it.si_code == SI_KERNEL && OF_TERMINAL.contains(&it.si_signo),
        })
    }

    /// The same, where no command runs: fails with one that would have ended this program, or asks a command to end.
    pub(super) fn check(&self, end: &End) -> Result<(), i32> {
        let mut arrived = self.take().map(|it| it.number);
        let found = arrived.find(|signal| signals::ends(*signal) || end.asks_for_end(*signal));
        found.map_or(Ok(()), Err)
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.arrived.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use signal_hook::consts::{SIGTTIN, SIGUSR1};

    use super::*;

    #[test]
    fn cont_is_passed_on_behind_what_stops() {
        let came = [SIGUSR1, SIGCONT, SIGTSTP, SIGTTIN].map(|number| Arrived {
            number,
            is_of_terminal: false,
        });
        let ordered = continued_last(came.into_iter());
        let numbers: Vec<i32> = ordered.iter().map(|arrived| arrived.number).collect();
        assert_eq!(numbers, [SIGUSR1, SIGTSTP, SIGTTIN, SIGCONT]);
    }
}
