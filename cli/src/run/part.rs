//! The parts of a run that are separate processes. This program starts a copy of itself for each part.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use clap::Parser as _;

use super::args::End;

/// The `argv[0]` of a process that this program starts as a part of a run. The parts are not subcommands, so they do
/// not appear in the help and the completions.
const PARTS: &str = "shearline run";

/// A part of a run that is a separate process.
#[derive(Debug, clap::Parser)]
pub(super) enum Part {
    /// The parent of the command.
    Watchdog(PartArgs),
    /// The process that becomes the command.
    Trampoline(PartArgs),
    /// A process without signal handlers, which terminates itself with a signal.
    Signal { number: i32 },
}

impl Part {
    /// Returns which part of a run this process is. Returns `None` for any other process.
    pub(super) fn of_this_process() -> Option<Self> {
        let is_part = env::args_os().next()? == PARTS;
        is_part.then(Self::parse)
    }
}

/// The arguments of the watchdog and of the trampoline.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct PartArgs {
    /// For the watchdog, this is the process group that the command joins, or 0 for a new group. For the trampoline,
    /// this is the process id of the watchdog.
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

/// Returns a command that starts this program again, as a part of the run. The command starts the same program even if
/// the program's file has been replaced.
pub(super) fn itself(part: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(PARTS).arg(part);
    command
}

/// In systemd's variables, the supervisor replaces its own process id with this placeholder. Later, the trampoline
/// replaces the placeholder with the process id of the command.
pub(super) const COMMAND: &str = "command";

/// Returns the systemd variables that contain the process id of this process.
pub(super) fn naming(process: &str) -> impl Iterator<Item = &'static str> {
    let all = ["LISTEN_PID", "WATCHDOG_PID"].into_iter();
    all.filter(move |name| env::var(name).is_ok_and(|it| it == process))
}
