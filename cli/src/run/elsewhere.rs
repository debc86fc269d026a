//! `shearline run` on systems other than Linux: these do not guarantee that every descendant of the command can be
//! found.

mod args;

use std::process::ExitCode;

use crate::failure::Failure;

pub(crate) use args::{Args, TEXTS};

/// Says what to use instead, or what is `wrong`. No report is written here.
pub(crate) fn run(_: &Args, wrong: Option<Failure>) -> ExitCode {
    let what = "run needs Linux: use `shearline lock` and `shearline unlock`";
    wrong.unwrap_or_else(|| Failure::usage(what)).report()
}

/// Returns `None`, because no parts of a run are started on such systems.
pub(crate) fn as_part() -> Option<ExitCode> {
    None
}
