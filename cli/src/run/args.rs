//! The arguments of `run`, and of the two parts of it that are started by it.

use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser as _;
use shearline::internals::limits::PERMITS_MAX;
use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM};

use crate::acquire::Acquire;
use crate::connect::Connect;
use crate::duration;
use crate::output::listed;
use crate::signals;

/// What the help says below the options.
const PROMISE: &str = "\
Before another client can take the lock, the command and everything it started
are dead. They get TERM (or --stop-signal) when the lock is at risk (less than a
quarter of the ttl is left), and KILL shortly before its end, also if this
program is killed or stopped, and also if they changed their group or session.
Processes that outlive the command get TERM, two seconds (--grace) later KILL,
and then the lock is released.

This is not promised:
  - if somebody deletes or replaces the keys of the lock on a majority of the
    nodes: another client can have it at once. The command is killed two round
    trips later, when the nodes have reported the change;
  - for work that is handed to another daemon or machine (docker run,
    systemd-run, at, ssh);
  - for programs of another user (sudo): they cannot be ended. If one outlives
    the command, the lock is kept until it ends. After a loss it runs on;
  - if the whole machine or container is paused, or so busy that an eighth of
    the ttl (2 s at most) is too short to end all processes. A command that
    starts many hundreds belongs to a service manager, which ends a control
    group as a whole;
  - if this program and its guardian are killed or stopped in the same moment,
    or the guardian while this program is stopped already.
--lock-delay keeps others out for longer after a loss; in a systemd unit,
KillMode=control-group (the default) ends what is left. Only a store that
refuses old writers helps against all of them: with --fenced the command gets a
number that grows with every holder. Hand it to the store with each write, and
each read that a write is computed from. The store keeps the largest number that
it has seen, as durably as its data, and refuses smaller ones. With --permits it
keeps one for each SHEARLINE_SLOT.

Signals: all that can be handled are passed on to the command, except CHLD, ILL,
FPE, SEGV and BUS, which are about this program itself, and at a terminal TSTP,
TTIN and TTOU, which stop it. INT and QUIT by keys of a terminal reach the
command by themselves. Ctrl-Z stops both. If they are stopped for longer than
the ttl, the lock is lost and the command is killed. While the lock is waited
for, signals that end a program by default, or --stop-signal, end this one.

The command finds SHEARLINE_RESOURCE (the name, or the first of several),
SHEARLINE_RESOURCES (all names, one a line) and SHEARLINE_TOKEN in its
environment, with --fenced that number as SHEARLINE_FENCING_TOKEN, and with
--permits the number of its permit as SHEARLINE_SLOT. Its status is the status
of this program; if a signal ended it, the same signal ends this program. Else:
  1    another failure, which is said on stderr
  64   the arguments cannot be used
  69   too few nodes could vote: nothing was started
  74   the lock was lost while it ran, or was not held any more at the end, or
       the guardian was ended: the command may be half done
  75   another holds the lock: nothing was started (-E gives another status)
  78   only an operator can repair it: configuration, password, permission,
       nodes that give no fencing tokens
  126  the command cannot be run
  127  the command does not exist
  128+N  signal N ended the command, or the wait for the lock, as shells count
--report tells them from the same statuses of the command.";

/// Runs a command while a lock is held.
///
/// Takes the lock NAME, runs the command (without a shell), keeps the lock while it runs, ends what
/// is left of it, and releases the lock. With several names it takes one lock on all of them: it has
/// all, or none.
#[derive(Debug, clap::Args)]
#[command(after_long_help = PROMISE)]
pub(crate) struct Args {
    /// The name of the lock: the key on the nodes. With several names it is one lock on all of them.
    #[arg(required = true, value_name = "NAME")]
    pub(super) names: Vec<OsString>,

    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,

    #[command(flatten)]
    pub(super) acquire: Acquire,

    /// Takes a shared lock: others can hold the lock at the same time with --shared, and nobody without it.
    ///
    /// A lock without --shared waits until all shared ones are released, and shared ones that come later wait behind
    /// it. The nodes have to run scripts.
    #[arg(long, help_heading = "Lock")]
    pub(super) shared: bool,

    /// Takes one of K permits: at most K commands run at the same time, each with a permit of its own.
    ///
    /// The command finds the number of its permit, from 0 to K - 1, in SHEARLINE_SLOT. All runs of a name give the same
    /// K, from 1 to 1024; while others have permits, another K is refused with status 75. A lock on the name waits
    /// until no permit is held. The nodes have to run scripts.
    #[arg(
        long,
        value_name = "K",
        help_heading = "Lock",
        conflicts_with = "shared"
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(PERMITS_MAX)))]
    pub(super) permits: Option<u32>,

    #[command(flatten)]
    pub(super) connect: Connect,

    /// Keeps the lock for at least this time, also when the command is done.
    ///
    /// For jobs that several machines start at the same time: their clocks differ. A signal ends it
    /// early.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration::parse)]
    #[arg(help_heading = "Command")]
    pub(super) at_least: Duration,

    #[command(flatten)]
    pub(super) end: End,

    /// Takes the lock and starts the command again after the lock was lost.
    ///
    /// Until the command ends by itself, TERM, INT, QUIT or --stop-signal is passed on to it, or the lock is not taken
    /// again: then the status is 74. --wait counts from each loss.
    #[arg(long, help_heading = "Command")]
    pub(super) again: bool,

    /// Writes one line of JSON at the end: to this file, or descriptor if it is a number.
    ///
    /// Its fields: version, command, resource, resources (of several), outcome (released, release_unconfirmed, lost,
    /// guardian_ended, not_started, held, no_quorum, interrupted, failed), started, command_status,
    /// command_signal, status, fencing_token, error, slot (of a permit).
    #[arg(long, value_name = "FILE|FD", help_heading = "Command")]
    pub(super) report: Option<PathBuf>,
}

impl Args {
    /// Returns the names of the lock.
    pub(super) fn names(&self) -> Vec<&[u8]> {
        self.names.iter().map(|name| name.as_bytes()).collect()
    }

    /// Returns the names, as messages show them.
    pub(super) fn title(&self) -> String {
        listed(&self.names())
    }
}

/// How the command is ended, and what it leaves behind.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Command")]
pub(super) struct End {
    /// Waits for processes that outlive the command, instead of ending them.
    #[arg(long)]
    pub(super) wait_all: bool,

    /// Lets processes that outlive the command live on without the lock, as `flock -o` does.
    ///
    /// If the lock is at risk while the command runs, they are ended all the same. They also end with this program if
    /// it is the first process of a container, or in a unit with KillMode=control-group.
    #[arg(long, conflicts_with = "wait_all")]
    pub(super) leave_children: bool,

    /// The signal that asks processes to end: a name such as WINCH or RTMIN+3, or a number.
    ///
    /// It is sent when the lock is at risk, and to what outlives the command. A TERM that this program gets is passed
    /// on as TERM.
    #[arg(long, value_name = "SIGNAL", default_value = "TERM", value_parser = signals::parse)]
    pub(super) stop_signal: i32,

    /// How long processes that outlive the command may take to end after that signal.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration::parse)]
    pub(super) grace: Duration,
}

impl End {
    /// Returns `true` if who sends this signal wants the command to end. Not by HUP: it may ask for a reload.
    pub(super) fn asks_for_end(&self, signal: i32) -> bool {
        [SIGTERM, SIGINT, SIGQUIT, self.stop_signal].contains(&signal)
    }

    /// Returns the same as words for the guardian.
    pub(super) fn words(&self) -> impl Iterator<Item = String> {
        let flags = [
            (self.wait_all, "--wait-all"),
            (self.leave_children, "--leave-children"),
        ];
        let flags = flags.into_iter().filter(|(is, _)| *is);
        let flags = flags.map(|(_, word)| word.to_owned());
        flags.chain([
            format!("--stop-signal={}", self.stop_signal),
            format!("--grace={}ms", self.grace.as_millis()),
        ])
    }
}

/// The name under which this program starts itself for a part of it. Under its own name the parts are in no help
/// and in no completions.
pub(super) const PARTS: &str = "shearline run";

/// What stands for the number of the command, before it has one, in variables of systemd that named the tool.
pub(super) const COMMAND: &str = "command";

/// Returns the variables by which systemd names a process, if they name this one.
pub(super) fn naming(process: &str) -> impl Iterator<Item = &'static str> {
    let all = ["LISTEN_PID", "WATCHDOG_PID"].into_iter();
    all.filter(move |name| env::var(name).is_ok_and(|it| it == process))
}

/// A part of a run that is a process of its own.
#[derive(Debug, clap::Parser)]
pub(super) enum Part {
    /// The parent of the command.
    Guardian(GuardianArgs),
    /// What becomes the command.
    Trampoline(TrampolineArgs),
    /// What ends by a signal that was handled before.
    Signal { number: i32 },
}

impl Part {
    /// Returns the part that this process was started for.
    pub(super) fn of_this_process() -> Option<Self> {
        let is_part = env::args_os().next()? == PARTS;
        is_part.then(Self::parse)
    }
}

/// What the tool starts as the guardian.
#[derive(Debug, clap::Args)]
pub(super) struct GuardianArgs {
    /// The group that the command joins; 0 for its own.
    #[arg(long)]
    pub(super) group: i32,

    #[command(flatten)]
    pub(super) end: End,

    /// The command and its arguments.
    #[arg(last = true, required = true)]
    pub(super) command: Vec<OsString>,
}

/// What the guardian starts to become the command.
#[derive(Debug, clap::Args)]
pub(super) struct TrampolineArgs {
    /// The guardian.
    pub(super) guardian: i32,

    /// The command and its arguments.
    #[arg(last = true, required = true)]
    pub(super) command: Vec<OsString>,
}
