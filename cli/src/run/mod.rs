//! `shearline run`: runs a command while a lock is held.
//!
//! | file | subject |
//! | --- | --- |
//! | `supervisor` | takes the lock, has the command run, releases |
//! | `supervision` | what the supervisor does while the command runs |
//! | `watchdog` | the parent of the command, which ends it if the supervisor cannot |
//! | `trampoline` | the process that becomes the command |
//! | `processes`, `tree` | finding descendants, and ending them |
//! | `channel` | the socketpairs between them |
//! | `deadline`, `signals` | what is waited for: times, signals and futures |
//! | `report` | how it ended |
//!
//! ```text
//! shell -> supervisor -> watchdog -> command -> ..
//!             |            |
//!             |            holds the command's life: kills all when the supervisor ends, or at the deadline
//!             holds the lock: kills all, the watchdog included, if that does not
//! ```
//!
//! # Guarantees
//!
//! No process of the command that may be signalled is alive when another can hold the lock, whichever
//! *one* of supervisor, watchdog and nodes fails.

#[cfg(target_os = "linux")]
mod channel;
#[cfg(target_os = "linux")]
mod deadline;
#[cfg(target_os = "linux")]
mod processes;
#[cfg(target_os = "linux")]
mod report;
#[cfg(target_os = "linux")]
mod signals;
#[cfg(target_os = "linux")]
mod supervision;
#[cfg(target_os = "linux")]
mod supervisor;
#[cfg(target_os = "linux")]
mod trampoline;
#[cfg(target_os = "linux")]
mod tree;
#[cfg(target_os = "linux")]
mod watchdog;

mod args;

use std::process::ExitCode;

use crate::failure::Failure;
use args::Part;

pub(crate) use args::{Args, TEXTS};

/// Runs the command under the lock.
#[cfg(target_os = "linux")]
pub(crate) fn run(args: &Args) -> ExitCode {
    supervisor::run(args)
}

/// Ends a run that cannot begin, because the configuration is wrong.
#[cfg(target_os = "linux")]
pub(crate) fn in_vain(args: &Args, failure: Failure) -> ExitCode {
    supervisor::in_vain(args, failure)
}

/// Without a report: there is none elsewhere.
#[cfg(not(target_os = "linux"))]
pub(crate) fn in_vain(_: &Args, failure: Failure) -> ExitCode {
    failure.report()
}

/// Elsewhere nothing promises that no descendant of the command gets away.
#[cfg(not(target_os = "linux"))]
pub(crate) fn run(_: &Args) -> ExitCode {
    let text = "run needs Linux: use `shearline lock` and `shearline unlock`";
    Failure::usage(text).report()
}

/// Plays the part of a watchdog or of a trampoline, if this process was started for that.
pub(crate) fn as_part() -> Option<ExitCode> {
    Some(match Part::of_this_process()? {
        #[cfg(target_os = "linux")]
        Part::Watchdog(args) => watchdog::guard(&args),
        #[cfg(target_os = "linux")]
        Part::Trampoline(args) => trampoline::become_command(&args),
        // By `exec` it has lost its handlers.
        #[cfg(target_os = "linux")]
        Part::Signal { number } => {
            let _ = signal_hook::low_level::raise(number);
            u8::try_from(128 + number).unwrap_or(u8::MAX).into()
        }
        #[cfg(not(target_os = "linux"))]
        Part::Watchdog(_) | Part::Trampoline(_) | Part::Signal { .. } => ExitCode::FAILURE,
    })
}

/// Returns this program again, for a part of it. It is the same file, also if that was replaced.
#[cfg(target_os = "linux")]
fn itself(part: &str) -> std::process::Command {
    use std::os::unix::process::CommandExt as _;
    let mut command = std::process::Command::new("/proc/self/exe");
    command.arg0(args::PARTS).arg(part);
    command
}

/// Ends this process by a signal that it has handled. Returns if that is not possible.
#[cfg(target_os = "linux")]
pub(crate) fn end_by(signal: i32) {
    use std::os::unix::process::CommandExt as _;
    let _ = itself("signal").arg(signal.to_string()).exec();
}
