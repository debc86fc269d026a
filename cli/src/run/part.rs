//! The parts of a run that are separate processes, and how this program starts itself as one of them.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use clap::Parser as _;

use super::args::End;

/// The first argument (`argv[0]`) with which this program starts itself as a part of a run. The parts are no
/// subcommands, so they appear in no help and no completions.
const PARTS: &str = "shearline run";

/// A part of a run that is a separate process.
#[derive(Debug, clap::Parser)]
pub(super) enum Part {
    /// The parent of the command.
    Watchdog(PartArgs),
    /// The process that becomes the command.
    Trampoline(PartArgs),
    /// A process that ends by a signal that has a handler in this program.
    Signal { number: i32 },
}

impl Part {
    /// Returns the part that this process was started for.
    pub(super) fn of_this_process() -> Option<Self> {
        let is_part = env::args_os().next()? == PARTS;
        is_part.then(Self::parse)
    }
}

/// The arguments of the watchdog and of the trampoline.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct PartArgs {
    /// For the watchdog: the process group that the command joins, or 0 for a new group. For the trampoline: the
    /// process id of the watchdog.
    pub(super) number: i32,

    /// Whether PIPE was ignored when the supervisor was started.
    #[arg(long)]
    pub(super) ignore_pipe: bool,

    #[command(flatten)]
    pub(super) end: End,

    /// The command and its arguments.
    #[arg(last = true, required = true)]
    pub(super) command: Vec<OsString>,
}

impl PartArgs {
    /// Returns a command that starts the part with these arguments.
    pub(super) fn of(&self, part: &str) -> Command {
        let flags = [
            (self.ignore_pipe, "--ignore-pipe"),
            (self.end.wait_all, "--wait-all"),
            (self.end.leave_children, "--leave-children"),
        ];
        let flags = flags.into_iter().filter(|(is, _)| *is);
        let mut command = itself(part);
        command.arg(self.number.to_string());
        command.args(flags.map(|(_, word)| word));
        command.arg(format!("--stop-signal={}", self.end.stop_signal));
        command.arg(format!("--grace={}ms", self.end.grace.as_millis()));
        command.arg("--").args(&self.command);
        command
    }
}

/// Returns a command that starts this program again, for a part of the run. It starts the same program even if its
/// file was replaced.
pub(super) fn itself(part: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(PARTS).arg(part);
    command
}

/// The value that systemd's variables get if they named the supervisor. Later, the trampoline replaces this value by
/// the process id of the command.
pub(super) const COMMAND: &str = "command";

/// Returns those variables of systemd for a process id that name this process.
pub(super) fn naming(process: &str) -> impl Iterator<Item = &'static str> {
    let all = ["LISTEN_PID", "WATCHDOG_PID"].into_iter();
    all.filter(move |name| env::var(name).is_ok_and(|it| it == process))
}
