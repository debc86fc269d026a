//! `shearline list`: shows which locks are held.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{IsTerminal as _, stderr};
use std::os::unix::ffi::OsStrExt as _;
use std::thread;

use shearline::{Inspection, NodeOutcome, OperatorError, Redlock};

use crate::connect::Nodes;
use crate::failure::{Failure, in_words};
use crate::help::Texts;
use crate::inspect::{self, unanswered};
use crate::output::{DOUBTFUL, Format, NOTE, complain, printable};
use crate::status::Status;

/// The help texts of this command.
pub(crate) const TEXTS: Texts = Texts::new(
    "\
shearline list
shearline list --json report: | jq -r .holder.owner",
    "\
0  the list is complete, even if no lock is held
1  there are too many names; or another failure, which stderr explains
64
69  too few nodes voted, or listed all names in time
78",
    "shearline(1), shearline-status(1), shearline-watch(1)",
);

/// Shows which locks are held, and by whom.
///
/// The command prints one line for each lock, or one object with --json. It asks each node for at most 1,000 names that
/// begin with PREFIX, and then inspects the locks with these names. To find the names, each node scans all its
/// keys, 2,000 at a time and for ten seconds at most. The user needs the permissions +scan, +type and +strlen.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    format: Format,

    /// Prefix of the names [default: any].
    prefix: Option<OsString>,

    #[command(flatten)]
    nodes: Nodes,
}

/// The number of locks that the command inspects at the same time.
const AT_ONCE: usize = 16;

/// Prints each held lock whose name begins with the prefix.
pub(crate) fn run(args: &Args) -> Result<Status, Failure> {
    let redlock = args.nodes.connect()?;
    let lists = redlock.names(args.prefix.as_deref().unwrap_or_default().as_bytes())?;
    redlock.check().map_err(unanswered)?;
    let names: BTreeSet<_> = lists.iter().flat_map(|(names, _)| names).collect();
    let names: Vec<&[u8]> = names.into_iter().map(AsRef::as_ref).collect();
    let mut none = true;
    for names in names.chunks(AT_ONCE) {
        for (name, told) in names.iter().zip(inspect_each(&redlock, names)) {
            let told = told.map_err(unanswered)?;
            if told.holders().is_empty() {
                continue;
            }
            none = false;
            let object = || inspect::object("list", name, &told);
            let line = || format!("{}  {}", printable(name), inspect::in_full(&told));
            args.format.say(object, line)?;
        }
    }
    let status = complete(&redlock, lists.iter().map(|(_, why)| *why))?;
    if none && stderr().is_terminal() {
        complain(NOTE, "no lock is held");
    }
    Ok(status)
}

/// Inspects all these locks at the same time. If the system cannot start another thread, inspects the remaining locks
/// one after the other.
fn inspect_each(redlock: &Redlock, names: &[&[u8]]) -> Vec<Result<Inspection, OperatorError>> {
    thread::scope(|scope| {
        let inspect = |name| {
            let thread = thread::Builder::new();
            (
                name,
                thread.spawn_scoped(scope, move || redlock.inspect(name)),
            )
        };
        let inspecting: Vec<_> = names.iter().map(inspect).collect();
        let told = inspecting.into_iter().map(|(name, thread)| match thread {
            Ok(thread) => thread.join().expect("an inspection does not panic"),
            Err(_) => redlock.inspect(name),
        });
        told.collect()
    })
}

/// Prints for each incomplete list why it is incomplete. Fails if a majority of the lists is incomplete, because a held
/// lock may then be missing from all lists.
fn complete(
    redlock: &Redlock,
    lists: impl Iterator<Item = Option<NodeOutcome>>,
) -> Result<Status, Failure> {
    let (nodes, mut status, mut missing) = (redlock.nodes(), Status::NoQuorum, 0);
    for (node, why) in nodes.iter().zip(lists) {
        let why = match why {
            None => continue,
            Some(NodeOutcome::Pending) => {
                status = Status::Failure;
                "it has more than 1000 such names; give a longer PREFIX".to_owned()
            }
            Some(why) => {
                if matches!(why, NodeOutcome::Unusable(_)) {
                    status = Status::Configuration;
                }
                in_words(why)
            }
        };
        missing += 1;
        complain(DOUBTFUL, format_args!("{}: {why}", node.address));
    }
    match missing <= nodes.len() / 2 {
        true => Ok(Status::Success),
        false => Err(Failure::new(
            status,
            "a held lock may be missing from the list",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node may list any bytes as a name. U+202E writes the rest of the line from right to left.
    #[test]
    fn a_name_of_a_node_changes_no_line_of_the_terminal() {
        for name in ["a\u{202e}b", "a\u{2066}b", "a\u{2028}b", "a\u{200b}b"] {
            let shown = printable(name.as_bytes());
            assert!(shown.is_ascii(), "{}", shown.escape_unicode());
        }
    }
}
