//! `shearline run` on systems other than Linux: they do not promise that no descendant of the command gets away.

mod args;

use std::process::ExitCode;

use crate::failure::Failure;

pub(crate) use args::{Args, TEXTS};

/// Says what to use instead.
pub(crate) fn run(_: &Args) -> ExitCode {
    Failure::usage("run needs Linux: use `shearline lock` and `shearline unlock`").report()
}

/// No report is written here.
pub(crate) fn in_vain(_: &Args, failure: Failure) -> ExitCode {
    failure.report()
}

/// No parts of a run are started here.
pub(crate) fn as_part() -> Option<ExitCode> {
    None
}
