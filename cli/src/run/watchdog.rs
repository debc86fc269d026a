//! The watchdog is a separate process, and the parent of the command.
//!
//! # Guarantees
//!
//! * The command runs only while the watchdog lives, because the kernel kills the command when the watchdog ends.
//! * If the supervisor ends, the watchdog immediately kills all processes of the command. If the supervisor is stopped,
//!   the watchdog kills the processes at the last deadline that it got.
//! * The watchdog ends when all processes that it may signal have ended.
//!
//! # Not here
//!
//! The supervisor holds the lock. If the watchdog is killed or stopped, the supervisor inherits its processes and kills
//! them.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, set_child_subreaper};
use rustix::thread::set_name;
use rustix_libc_wrappers::process::SignalExt as _;
use shearline::Instant;
use shearline::internals::now;

use super::args::End;
use super::channel::{Channel, Message, Received};
use super::deadline::Timer;
use super::part::PartArgs;
use super::signals::Signals;
use super::tree::{Child, Tree, go_first};

/// The time between two attempts to kill processes of another user.
const AGAIN: Duration = Duration::from_millis(100);

/// Guards one command. Always returns success, because the supervisor gets all results through the channel.
pub(super) fn guard(args: &PartArgs) -> ExitCode {
    let guarded = Watchdog::start(args).and_then(|watchdog| watchdog.map_or(Ok(()), Watchdog::run));
    if let Err(error) = guarded {
        eprintln!("shearline run: the watchdog failed: {error}");
    }
    ExitCode::SUCCESS
}

/// The phases of the command.
#[derive(Debug)]
enum Phase {
    /// The trampoline has not yet become the command. When the command replaces the trampoline, the kernel closes the
    /// trampoline's socket.
    Starting(Channel),
    Running,
    /// The command has ended. At the given time, if any, the watchdog kills the processes that the command left behind.
    Leaving(Option<Instant>),
}

#[derive(Debug)]
struct Watchdog {
    channel: Channel,
    signals: Signals,
    timer: Timer,
    tree: Tree,
    phase: Phase,
    /// The time by which all processes must be dead.
    until: Instant,
    end: End,
    /// The signal that asks processes to end.
    stop_signal: Signal,
    /// Whether the lock was at risk.
    is_at_risk: bool,
}

impl Watchdog {
    /// Starts the command. Returns `None` if the command cannot start and the watchdog has reported the reason.
    fn start(args: &PartArgs) -> io::Result<Option<Self>> {
        let channel = Channel::from_stdin()?;
        set_name(c"shearline")?; // Otherwise the process would be named `exe`.
        // Installs the signal handlers before this process starts a child. A service manager, for example, may send a
        // signal to all processes. The watchdog must survive this signal, because the supervisor passes it on to the
        // command.
        let signals = Signals::catch()?;
        set_child_subreaper(Some(getpid()))?;
        let mut tree = Tree::new();
        let Received::Message(Message::Until(until), Some(stdin)) = channel.receive()? else {
            return Err(io::Error::other("the supervisor has ended"));
        };
        if until <= now() {
            let what = "the lock was lost before the command was started";
            return Err(io::Error::other(what));
        }
        let (trampoline, child) = match spawn(args) {
            Ok(started) => started,
            Err(error) => {
                let number = error.raw_os_error().ok_or(error)?;
                return channel.send(Message::NotStarted(number)).map(|()| None);
            }
        };
        tree.remember(child);
        // Sends this message before the command runs. If the watchdog is killed later, the supervisor then knows that
        // the command may have run.
        let _ = channel.send(Message::Started);
        // If a signal such as Ctrl-C has already terminated the trampoline, this counts as the end of the command.
        trampoline.send_with(Message::Until(Instant::ZERO), stdin.as_fd())?;
        Ok(Some(Self {
            channel,
            signals,
            timer: Timer::new()?,
            tree,
            phase: Phase::Starting(trampoline),
            until,
            end: args.end.clone(),
            stop_signal: Signal::from_raw(args.end.stop_signal).unwrap_or(Signal::TERM),
            is_at_risk: false,
        }))
    }

    fn run(mut self) -> io::Result<()> {
        let _before = go_first();
        let watched = self.watch();
        if self.leaves_children() {
            return watched;
        }
        // If processes of another user remain, the supervisor inherits them.
        self.tree.end(None);
        self.see_started()?;
        self.see_ended(false);
        watched
    }

    /// Waits until no process is left, or until it is time to kill the remaining processes.
    fn watch(&mut self) -> io::Result<()> {
        loop {
            self.wait()?;
            self.signals.take().for_each(drop);
            let any_left = self.tree.reap();
            self.see_started()?;
            self.see_ended(any_left);
            if !any_left || self.leaves_children() || self.obey()? || self.until <= now() {
                return Ok(());
            }
            self.hurry();
        }
    }

    /// Returns `true` if the command has ended and the processes that it left behind may continue.
    fn leaves_children(&self) -> bool {
        self.end.leave_children && !self.is_at_risk && matches!(self.phase, Phase::Leaving(_))
    }

    /// Sleeps until a descriptor is readable or the next deadline has come.
    fn wait(&self) -> io::Result<()> {
        let mut next = self.until;
        if let Phase::Leaving(Some(kill)) = self.phase {
            next = next.min(kill);
        }
        let mut fds = vec![self.channel.as_fd(), self.signals.as_fd()];
        if let Phase::Starting(trampoline) = &self.phase {
            fds.push(trampoline.as_fd());
        }
        self.timer.wait(next, &fds)
    }

    fn see_started(&mut self) -> io::Result<()> {
        let Phase::Starting(trampoline) = &self.phase else {
            return Ok(());
        };
        match trampoline.try_receive()? {
            Received::Nothing => return Ok(()),
            Received::Message(error, _) => self.tell(error),
            Received::Closed => {}
        }
        self.phase = Phase::Running;
        Ok(())
    }

    /// If the command has ended, tells the supervisor, and asks the processes that the command left behind to end.
    fn see_ended(&mut self, any_left: bool) {
        let (Phase::Running, Child::Ended(status)) = (&self.phase, self.tree.child()) else {
            return;
        };
        self.tell(Message::Exited(status));
        self.phase = Phase::Leaving(None);
        if any_left && !self.end.wait_all && !self.leaves_children() {
            self.phase = Phase::Leaving(Some(now().saturating_add(self.end.grace)));
            self.tree.signal(self.stop_signal, self.until);
        }
    }

    /// Handles the messages from the supervisor. Returns `true` if the supervisor has ended. The caller must then kill
    /// all processes.
    fn obey(&mut self) -> io::Result<bool> {
        loop {
            match self.channel.try_receive()? {
                Received::Nothing => return Ok(false),
                Received::Closed => return Ok(true),
                Received::Message(Message::Until(until), _) => self.until = until,
                Received::Message(Message::Risk, _) => {
                    self.is_at_risk = true;
                    self.tree.signal(self.stop_signal, self.until);
                }
                Received::Message(Message::Signal(signal), _) => self.pass_on(signal),
                Received::Message(..) => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }

    fn pass_on(&self, number: i32) {
        let Some(signal) = Signal::from_raw(number) else {
            return;
        };
        match self.phase {
            Phase::Starting(_) | Phase::Running => {
                self.tree.signal_child(signal);
                // A stopped command would not handle the signal until it continues, so the watchdog also sends CONT, as
                // a shell does. For example, the command is stopped if it reads from a terminal in the background.
                let asks = signal == Signal::HUP || self.end.asks_for_end(number);
                if self.tree.child() == Child::Stopped && asks {
                    self.tree.signal_child(Signal::CONT);
                }
            }
            Phase::Leaving(_) => self.tree.signal(signal, self.until),
        }
    }

    /// Kills the processes that the command left behind, when their grace time has passed.
    fn hurry(&mut self) {
        if let Phase::Leaving(Some(kill)) = self.phase
            && kill <= now()
            && !self.tree.end(None)
        {
            // The remaining processes belong to another user. The supervisor keeps the lock while these processes run,
            // and the watchdog tries again.
            self.phase = Phase::Leaving(Some(now().saturating_add(AGAIN)));
        }
    }

    /// Sends a message to the supervisor. If the supervisor has ended, the watchdog notices this when it next reads the
    /// channel.
    fn tell(&self, message: Message) {
        let _ = self.channel.send(message);
    }
}

/// Starts the trampoline, which waits for the standard input of the command.
fn spawn(args: &PartArgs) -> io::Result<(Channel, Pid)> {
    let (channel, far) = Channel::pair()?;
    // The kernel kills the child when the thread that started it ends. This process has only one thread.
    let trampoline = PartArgs {
        number: getpid().as_raw_pid(),
        ..args.clone()
    };
    let child = trampoline
        .of("trampoline")
        .stdin(far)
        .process_group(args.number)
        .spawn()?;
    Ok((channel, Pid::from_child(&child)))
}
