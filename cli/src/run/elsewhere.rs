//! `shearline run` on systems other than Linux: these do not guarantee that every descendant of the command can be
//! found.

mod args;

use std::process::ExitCode;

use crate::failure::Failure;

pub(crate) use args::{Args, TEXTS};

/// Prints what to use instead.
pub(crate) fn run(_: &Args) -> ExitCode {
    Failure::usage("run needs Linux: use `shearline lock` and `shearline unlock`").report()
}

/// Prints the failure. No report is written on such systems.
pub(crate) fn in_vain(_: &Args, failure: Failure) -> ExitCode {
    failure.report()
}

/// Returns `None`, because no parts of a run are started on such systems.
pub(crate) fn as_part() -> Option<ExitCode> {
    None
}
