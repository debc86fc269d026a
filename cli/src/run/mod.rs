//! `shearline run`: runs a command while a lock is held.
//!
//! | file | subject |
//! | --- | --- |
//! | `supervisor` | takes the lock, starts the watchdog, releases the lock |
//! | `supervision` | what the supervisor does while the command runs |
//! | `watchdog` | the parent of the command, which ends it if the supervisor cannot |
//! | `trampoline` | the process that becomes the command |
//! | `part` | how this program starts itself for one of these processes |
//! | `processes`, `tree` | finding descendants, and ending them |
//! | `channel` | the socketpairs between them |
//! | `deadline`, `signals` | what the processes wait for: times, signals and futures |
//! | `report` | how the run ended |
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
//! Before another client can take the lock, all processes of the command are dead, except those that this program may
//! not signal. This guarantee holds even if *one* of the supervisor, the watchdog and the nodes fails.

mod args;
mod channel;
mod deadline;
mod part;
mod processes;
mod report;
mod signals;
mod supervision;
mod supervisor;
mod trampoline;
mod tree;
mod watchdog;

use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;

use part::{Part, itself};

pub(crate) use args::{Args, TEXTS};
pub(crate) use supervisor::run;

/// Runs as the watchdog or as the trampoline, if this program started the process for that purpose.
pub(crate) fn as_part() -> Option<ExitCode> {
    Some(match Part::of_this_process()? {
        Part::Watchdog(args) => watchdog::guard(&args),
        Part::Trampoline(args) => trampoline::become_command(&args),
        // `exec` has removed the signal handlers.
        Part::Signal { number } => {
            let _ = signal_hook::low_level::raise(number);
            u8::try_from(128 + number).unwrap_or(u8::MAX).into()
        }
    })
}

/// Terminates this process with a signal for which it has a handler. Returns only if the signal did not terminate the
/// process.
pub(crate) fn end_by(signal: i32) {
    let _ = itself("signal").arg(signal.to_string()).exec();
}
