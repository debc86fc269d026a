//! `shearline run` on systems other than Linux. On these systems, this program cannot reliably find every descendant of
//! the command.

mod args;

use std::process::ExitCode;

use crate::failure::Failure;

pub(crate) use args::{Args, TEXTS};

/// Prints the error `wrong` if there is one. Otherwise prints which commands to use instead of `run`. Writes no report.
pub(crate) fn run(_: &Args, wrong: Option<Failure>) -> ExitCode {
    let what = "run needs Linux: use `shearline lock` and `shearline unlock`";
    wrong.unwrap_or_else(|| Failure::usage(what)).report()
}

/// Returns `None`, because no process is a part of a run on these systems.
pub(crate) fn as_part() -> Option<ExitCode> {
    None
}
