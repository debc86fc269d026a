//! `shearline watch`: shows who holds a lock, and each change.

use crate::failure::Failure;
use crate::help::Texts;
use crate::inspect::{self, Subject};
use crate::output::Format;
use crate::signals::Signals;
use crate::status::Status;

/// The help texts of this command.
pub(crate) const TEXTS: Texts = Texts::new(
    "\
shearline watch report
shearline watch --count 2 report      # how it is now, and its next change",
    "\
0  --count lines were printed
1 64 78 128+N",
    "shearline(1), shearline-status(1), shearline-break(1)",
);

/// Shows who holds a lock, and each change, until Ctrl-C.
///
/// Each change is one line, or one object with --json. The nodes push changes, and send nothing while nothing changes.
/// If changes follow each other within a hundredth of a second, the command shows them as one.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Ends after this many lines.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    #[command(flatten)]
    format: Format,

    #[command(flatten)]
    subject: Subject,
}

/// Prints each state.
pub(crate) fn run(args: &Args) -> Result<Status, Failure> {
    let name = args.subject.name();
    let signals = Signals::catch()?;
    let mut watch = args.subject.connect()?.watch(name)?;
    let (mut left, mut last) = (args.count.unwrap_or(u64::MAX), String::new());
    while left != 0 {
        let told = signals.wait(watch.changed())?;
        let told = told.expect("the handle is open");
        let object = || inspect::object("watch", name, &told);
        let line = inspect::line(name, &told);
        // An equal line about a holder shows an extension. Without a holder, only the nodes have changed.
        if !args.format.json && told.holders().is_empty() && line == last {
            continue;
        }
        last.clone_from(&line);
        args.format.say(object, || line)?;
        left -= 1;
    }
    Ok(Status::Success)
}
