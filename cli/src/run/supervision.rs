//! What the supervisor does while the command runs. The supervisor sends the deadline to the watchdog. If the watchdog
//! does not kill all processes in time, the supervisor does.
//!
//! # Guarantees
//!
//! * When [`run`](Supervision::run) returns, all processes of the command have ended, except those that the supervisor
//!   may not signal.
//! * After a majority of the nodes has confirmed an extension, the watchdog gets the new deadline.
//! * If the watchdog is killed or stopped, the supervisor notices this immediately, inherits the watchdog's processes
//!   and kills them.
//!
//! # Not here
//!
//! The module `supervisor` takes and releases the lock.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::pin::pin;
use std::process::ExitStatus;
use std::task::Context;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, getpgrp, getpid, set_child_subreaper};
use rustix::termios::tcgetpgrp;
use shearline::held::Holds;
use shearline::internals::now;
use shearline::{Guard, Instant};
use signal_hook::consts::SIGPIPE;

use super::Args;
use super::channel::{Channel, Message, Received};
use super::deadline::{Timer, kill_at, margin, warning};
use super::part::{COMMAND, PartArgs, naming};
use super::signals::{Signals, continued_last};
use super::tree::{Child, Tree, go_first};
use crate::json::hex;
use crate::output::{BAD, complain};
use crate::signals::{ends, was_ignored};

/// The longest time between two checks of the deadline.
const TICK_MAX: Duration = Duration::from_millis(500);

/// The environment variable with the fencing token of the command.
const FENCING_TOKEN: &str = "SHEARLINE_FENCING_TOKEN";

/// The environment variable with the number of the command's permit.
const SLOT: &str = "SHEARLINE_SLOT";

/// How the command ended.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// `Ok` if the command may have run, or the system's error if starting it failed.
    pub(super) started: Option<Result<(), i32>>,
    /// The exit status of the command, if it is known.
    pub(super) status: Option<ExitStatus>,
    /// A signal that the terminal sent before the command had started. The signal may have terminated the watchdog.
    pub(super) early: Option<i32>,
    /// Whether the supervisor asked the command to end or killed it, because the lock was at risk or lost.
    pub(super) for_lock: bool,
    /// Whether the command must not be restarted, because it ended by itself or a signal asked it to end.
    pub(super) is_done: bool,
    /// Whether all processes of the command have ended. The remaining processes, if any, belong to another user.
    pub(super) all: bool,
    /// The thread that prints why the command must end.
    pub(super) told: Option<JoinHandle<()>>,
}

/// A command that runs under a lock.
#[derive(Debug)]
pub(super) struct Supervision<'a, H: Holds> {
    args: &'a Args,
    guard: &'a Guard<H>,
    signals: &'a Signals,
    channel: Channel,
    timer: Timer,
    tree: Tree,
    watchdog: Pid,
    /// The time at which the watchdog kills all processes.
    until: Instant,
    /// The time at which the supervisor noticed the loss of the lock.
    lost_at: Option<Instant>,
    /// Whether the command is in the process group of this process, so that a terminal sends its signals to both.
    shares_group: bool,
    ended: Ended,
}

impl<'a, H: Holds> Supervision<'a, H> {
    /// Starts the watchdog, which starts the command. `slot` is the number of the permit.
    pub(super) fn start(
        args: &'a Args,
        (guard, slot): (&'a Guard<H>, Option<u16>),
        signals: &'a Signals,
    ) -> io::Result<Self> {
        set_child_subreaper(Some(getpid()))?;
        let mut tree = Tree::new();
        let timer = Timer::new()?;
        let (channel, far) = Channel::pair()?;
        let group = foreground_group();
        let own = getpid().as_raw_pid().to_string();
        let names = guard.resources().collect::<Vec<_>>().join(&b'\n');
        let token = guard.fencing_token();
        let watchdog = PartArgs {
            number: group.unwrap_or(0),
            ignore_pipe: was_ignored(SIGPIPE),
            end: args.end.clone(),
            command: args.command.clone(),
        };
        let child = watchdog
            .of("watchdog")
            .env("SHEARLINE_RESOURCE", OsStr::from_bytes(guard.resource()))
            .env("SHEARLINE_RESOURCES", OsStr::from_bytes(&names))
            .env("SHEARLINE_TOKEN", hex(guard.token().as_bytes()))
            // If this program itself runs under another lock, the command must not get the fencing token of that lock.
            .env_remove(FENCING_TOKEN)
            .env_remove(SLOT)
            .envs(token.map(|token| (FENCING_TOKEN, token.to_string())))
            .envs(slot.map(|slot| (SLOT, slot.to_string())))
            .envs(naming(&own).map(|name| (name, COMMAND)))
            .stdin(far)
            .process_group(0)
            .spawn();
        let failed = |error| io::Error::other(format!("cannot start the watchdog: {error}"));
        let child = child.map_err(failed)?;
        let watchdog = Pid::from_child(&child);
        tree.remember(watchdog);
        let until = guard.valid_until();
        let until = until.saturating_sub(margin(args.acquire.ttl));
        let mut this = Self {
            args,
            guard,
            signals,
            channel,
            timer,
            tree,
            watchdog,
            until,
            lost_at: None,
            shares_group: group.is_some(),
            ended: Ended::default(),
        };
        let start = Message::Until(until);
        if let Err(error) = this.channel.send_with(start, io::stdin().as_fd()) {
            this.tree.end(None);
            return Err(error);
        }
        Ok(this)
    }

    /// Waits until the command and all processes that it started have ended. Calls `look` at least twice a second.
    pub(super) fn run(mut self, look: impl FnMut()) -> io::Result<Ended> {
        let _before = go_first(); // When dropped, restores the priority for the next watchdog.
        let watched = self.watch(look);
        self.hear();
        let may_live = self.args.end.leave_children && !self.ended.for_lock;
        self.ended.all = match (may_live, self.ended.status, self.tree.child()) {
            (true, Some(_), Child::Ended(_)) => true,
            _ => self.tree.end(Some(self.watchdog)),
        };
        self.hear();
        if self.ended.started.is_none() {
            self.pass_on(true); // These signals arrived while the watchdog ended.
        }
        watched.map(|()| self.ended)
    }

    /// Waits until the watchdog has ended or is stopped, or until the supervisor itself must kill the processes.
    fn watch(&mut self, mut look: impl FnMut()) -> io::Result<()> {
        let waker = self.signals.waker();
        let mut context = Context::from_waker(&waker);
        let mut lost = pin!(self.guard.lost());
        loop {
            // The order of these steps matters. A signal counts as early if it arrived before the message that the
            // command has started.
            let is_early = self.ended.started.is_none();
            self.hear();
            self.pass_on(is_early);
            self.tree.reap();
            self.tree.spare_orphans();
            self.extend();
            look();
            let ttl = self.args.acquire.ttl;
            let warn_at = self.until.saturating_sub(warning(ttl));
            if lost.as_mut().poll(&mut context).is_ready() {
                self.end();
            } else if warn_at <= now() {
                self.warn();
            }
            // The supervisor waits for the watchdog until `kill_at`.
            let kill_at = kill_at(self.until, ttl, self.lost_at);
            if self.tree.child() != Child::Running || kill_at <= now() {
                return Ok(());
            }
            let tick = now().saturating_add((ttl / 16).min(TICK_MAX));
            let next = match self.ended.for_lock {
                true => kill_at,
                false => warn_at,
            };
            let fds = [self.channel.as_fd(), self.signals.as_fd()];
            self.timer.wait(tick.min(next), &fds)?;
        }
    }

    /// Reads the messages from the watchdog.
    fn hear(&mut self) {
        while let Ok(Received::Message(message, _)) = self.channel.try_receive() {
            match message {
                Message::Started => self.ended.started = Some(Ok(())),
                Message::NotStarted(error) => self.ended.started = Some(Err(error)),
                Message::Exited(status) => {
                    self.ended.status = Some(status);
                    self.ended.is_done |= !self.ended.for_lock;
                }
                Message::Until(_) | Message::Signal(_) | Message::Risk => {}
            }
        }
    }

    /// After an extension, sends the later deadline to the watchdog.
    fn extend(&mut self) {
        // After a loss, sends no new deadline, so that the watchdog can still report how the command ended.
        if self.lost_at.is_some() || !self.guard.is_valid() {
            return;
        }
        let until = self
            .guard
            .valid_until()
            .saturating_sub(margin(self.args.acquire.ttl));
        // If this message cannot be sent, the earlier deadline remains in force.
        let is_told = until != self.until && self.channel.send(Message::Until(until)).is_ok();
        if is_told || until < self.until {
            self.until = until;
        }
    }

    /// Prints once why the command must end.
    fn tell(&mut self, why: &str) {
        if !self.ended.for_lock {
            self.ended.for_lock = true;
            let line = format!("{}: {why}", self.args.title());
            // A separate thread writes the line, because a slow reader would block the supervision of the command. If
            // the thread cannot start, the line is lost.
            let telling = thread::Builder::new().spawn(move || complain(BAD, line));
            self.ended.told = telling.ok();
        }
    }

    /// Asks all processes to end, because the lock is at risk.
    fn warn(&mut self) {
        if !self.ended.for_lock {
            let _ = self.channel.send(Message::Risk);
            self.tell("the lock is at risk, so the command is asked to end");
        }
    }

    /// Makes the watchdog kill all processes, because the lock is lost.
    fn end(&mut self) {
        if self.lost_at.is_none() {
            self.lost_at = Some(now());
            let _ = self.channel.send(Message::Until(Instant::ZERO));
            self.tell("the lock is lost, so the command and all its processes are killed");
        }
    }

    /// Passes signals on to the command, except signals that the terminal has also sent to the command. `is_early`
    /// means that the signals may have arrived before the command existed.
    fn pass_on(&mut self, is_early: bool) {
        for arrived in continued_last(self.signals.take()) {
            let signal = arrived.number;
            self.ended.is_done |= self.args.end.asks_for_end(signal);
            let came_to_both = self.shares_group && arrived.is_of_terminal;
            if is_early && came_to_both && ends(signal) {
                self.ended.early = Some(signal);
            }
            if is_early || !came_to_both {
                // If the watchdog is stopped or has ended, `watch` notices it.
                let _ = self.channel.send(Message::Signal(signal));
            }
        }
    }
}

/// Returns the group of this process if it is the foreground group of its terminal.
fn foreground_group() -> Option<i32> {
    let terminal = File::open("/dev/tty").ok()?;
    let group = tcgetpgrp(terminal).ok()?;
    (group == getpgrp()).then(|| group.as_raw_pid())
}
