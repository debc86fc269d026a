//! Receives the signals that arrive at the supervisor or the watchdog.
//!
//! A signal that was ignored when the program started (as under `nohup`) stays ignored, and the command ignores it too.
//! So this program must not handle an ignored signal, because the command would then start with the signal's default
//! action.

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
use crate::failure::Failure;
use crate::signals::{STOPPING, ends, to_handle};

/// A signal that arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    pub(super) number: i32,
    /// Whether the terminal sent the signal to all processes of its foreground group.
    pub(super) is_of_terminal: bool,
}

/// The code of a signal that the kernel has sent.
const SI_KERNEL: i32 = 0x80;

/// The signals that a terminal sends to all processes of its foreground group. HUP is not in this list, because the
/// terminal sends it only to the leader of a session.
const OF_TERMINAL: [i32; 4] = [SIGINT, SIGQUIT, SIGTSTP, SIGWINCH];

/// Returns `true` if a terminal may stop this process. A terminal cannot stop the first process of a container.
fn is_stopped_by_terminal() -> bool {
    let own = getpid();
    let stat = processes::stat(own).unwrap_or_default();
    // The fifth field is the terminal. The fields before the terminal are the state, the parent, the group and the
    // session.
    stat.split(' ').nth(4).is_some_and(|it| it != "0") && !own.is_init()
}

/// Moves CONT behind the other signals that arrived at the same time, as the kernel does. So if CONT and a stop signal
/// arrive together, the process continues.
pub(super) fn continued_last(arrived: impl Iterator<Item = Arrived>) -> Vec<Arrived> {
    let mut arrived: Vec<Arrived> = arrived.collect();
    arrived.sort_by_key(|arrived| arrived.number == SIGCONT);
    arrived
}

/// The signals that have arrived, and a descriptor that becomes readable when new signals arrive.
#[derive(Debug)]
pub(super) struct Signals {
    delivery: RefCell<SignalDelivery<UnixStream, WithRawSiginfo>>,
    arrived: UnixStream,
    sender: Arc<Sender>,
}

/// A waker that makes the descriptor readable, as a signal does.
#[derive(Debug)]
struct Sender(UnixStream);

impl Wake for Sender {
    fn wake(self: Arc<Self>) {
        // Sending fails if the socket is full, but then the descriptor is already readable.
        let _ = send(&self.0, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }
}

impl Signals {
    /// Installs a handler for every signal that can be handled, and for the end of children. If a terminal may stop
    /// this process, leaves out the signals that stop a job.
    pub(super) fn catch() -> io::Result<Self> {
        let (arrived, sender) = UnixStream::pair()?;
        let (own, waking) = (arrived.try_clone()?, sender.try_clone()?);
        let delivery = SignalDelivery::with_pipe(own, sender, WithRawSiginfo, [0; 0])?;
        let is_stopped_by_terminal = is_stopped_by_terminal();
        for signal in to_handle() {
            if !STOPPING.contains(&signal) || !is_stopped_by_terminal {
                delivery.handle().add_signal(signal)?;
            }
        }
        // Handles SIGCHLD even if it was ignored. Otherwise this process could not wait for its children.
        delivery.handle().add_signal(SIGCHLD)?;
        Ok(Self {
            delivery: RefCell::new(delivery),
            arrived,
            sender: Arc::new(Sender(waking)),
        })
    }

    /// Returns a waker that makes the descriptor readable until the next call of [`take`](Self::take).
    pub(super) fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.sender))
    }

    /// Returns the signals that have arrived since the last call. Leaves out SIGCHLD.
    pub(super) fn take(&self) -> impl Iterator<Item = Arrived> {
        let arrived = self.delivery.borrow_mut().pending();
        let arrived = arrived.filter(|it| it.si_signo != SIGCHLD);
        arrived.map(|it| Arrived {
            number: it.si_signo,
            is_of_terminal: it.si_code == SI_KERNEL && OF_TERMINAL.contains(&it.si_signo),
        })
    }

    /// Reads the signals while no command runs. Fails if a signal has arrived that would end this program by default,
    /// or that would make it end its command.
    pub(super) fn check(&self, end: &End) -> Result<(), Failure> {
        let mut arrived = self.take().map(|it| it.number);
        let found = arrived.find(|signal| ends(*signal) || end.asks_for_end(*signal));
        found.map_or(Ok(()), |signal| Err(Failure::by_signal(signal)))
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
