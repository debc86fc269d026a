//! The parts of a run that are processes of their own, and how this program starts itself for one.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use clap::Parser as _;

use super::args::End;

/// The name under which this program starts itself for a part of a run. The parts have a name of their own so that they
/// appear in no help and no completions.
const PARTS: &str = "shearline run";

/// A part of a run that is a process of its own.
#[derive(Debug, clap::Parser)]
pub(super) enum Part {
    /// The parent of the command.
    Watchdog(PartArgs),
    /// What becomes the command.
    Trampoline(PartArgs),
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

/// What the watchdog and the trampoline are started with.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct PartArgs {
    /// For the watchdog the group that the command joins, or 0 for its own. For the trampoline the watchdog.
    pub(super) number: i32,

    /// PIPE was ignored when the supervisor was started.
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

/// Returns a command that starts this program again, for a part of the run. It is the same file, even if that was
/// replaced.
pub(super) fn itself(part: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(PARTS).arg(part);
    command
}

/// In variables of systemd that named the supervisor, this word stands for the number of the command until it has one.
pub(super) const COMMAND: &str = "command";

/// Returns the variables in which systemd gives the number of a process, if they give this one.
pub(super) fn naming(process: &str) -> impl Iterator<Item = &'static str> {
    let all = ["LISTEN_PID", "WATCHDOG_PID"].into_iter();
    all.filter(move |name| env::var(name).is_ok_and(|it| it == process))
}
