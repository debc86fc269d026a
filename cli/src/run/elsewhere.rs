//! `shearline run` where the system is not Linux: nothing there promises that no descendant of the command gets away.

mod args;

use std::process::ExitCode;

use crate::failure::Failure;

pub(crate) use args::{Args, TEXTS};

/// Says what to use instead.
pub(crate) fn run(_: &Args) -> ExitCode {
    Failure::usage("run needs Linux: use `shearline lock` and `shearline unlock`").report()
}

/// Without a report: there is none here.
pub(crate) fn in_vain(_: &Args, failure: Failure) -> ExitCode {
    failure.report()
}

/// No process is started for a part of a run.
pub(crate) fn as_part() -> Option<ExitCode> {
    None
}
