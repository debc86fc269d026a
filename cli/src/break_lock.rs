//! `shearline break`: ends a lock whose holder is gone or hangs.

use serde_json::json;
use shearline::{Breaking, Broken, Inspection};

use crate::duration;
use crate::failure::Failure;
use crate::help::Texts;
use crate::inspect::{self, Subject};
use crate::json::{self, millis, named};
use crate::output::{DOUBTFUL, Format, confirm, count, item, painted, printable};
use crate::status::Status;

/// The help texts of this command.
pub(crate) const TEXTS: Texts = Texts::new(
    "\
shearline break report                # shows the holder, and asks
shearline break report --yes
shearline break report --now --yes    # its machine is certainly off",
    "\
0  broken
1  nothing was changed: the lock is free or has another holder than shown; its keys never expire (--now \
    deletes them) or are no lock (delete them with DEL on each node); or the answer was no
64  the arguments cannot be used, or stdin is not a terminal (give --yes)
69  too few nodes answered or confirmed the request; try again
78",
    "shearline(1), shearline-status(1), shearline-watch(1)",
);

/// Ends a lock whose holder is gone or hangs.
///
/// `break` shows the holder and asks for confirmation. Then it replaces the holder's token on every node, and the keys
/// keep their expiry. So the holder can no longer extend its lock. If `shearline run` holds the lock, `run` ends its
/// command immediately. If the nodes do not push changes, `run` ends its command when half of the ttl is left. Other
/// clients get the lock after its ttl, because the holder must have stopped by then.
///
/// If another client has taken the lock since `break` showed it, `break` changes nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Does not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    /// Deletes the keys, so other clients get the lock immediately.
    ///
    /// Use this option only if you are certain that the holder has stopped. If the holder still works, two clients can
    /// hold the lock.
    #[arg(long)]
    now: bool,

    #[command(flatten)]
    format: Format,

    #[command(flatten)]
    subject: Subject,
}

/// Shows the lock, asks for confirmation, and then breaks exactly this lock.
pub(crate) fn run(args: &Args) -> Result<Status, Failure> {
    let name = args.subject.name();
    let redlock = args.subject.connect()?;
    args.subject.nodes.settled(&redlock);
    let seen = redlock.inspect(name).map_err(inspect::unanswered)?;
    if !args.yes && seen.holder().is_some() {
        confirm(&question(name, &seen, args.now))?;
    }
    let how = match args.now {
        true => Breaking::AtOnce,
        false => Breaking::KeepOut,
    };
    let broken = redlock.break_seen(name, &seen, how);
    let broken = broken.map_err(inspect::unanswered)?;
    let line = || line(name, &broken, seen.nodes().len(), args.now);
    args.format.say(|| object(name, &broken), line)?;
    Ok(Status::Success)
}

fn question(name: &[u8], seen: &Inspection, now: bool) -> String {
    let shown = inspect::lines(name, seen);
    let warning = "If its holder still works, two clients can then hold the lock.";
    match now {
        true => format!("{shown}\nDelete its keys? {}", painted(DOUBTFUL, warning)),
        false => format!("{shown}\nBreak this lock? Other clients get it after its ttl."),
    }
}

fn line(name: &[u8], broken: &Broken, all: usize, now: bool) -> String {
    let by = inspect::by(&broken.holder.owner);
    let (nodes, of) = (broken.nodes, count(all, "node"));
    let text = match now {
        true => {
            // The other nodes also get the request, but the command does not wait for all answers.
            let least = if broken.nodes < all { " at least" } else { "" };
            format!(
                "held{by}, deleted, and free on {nodes} of {of}{least}: if its holder still works, two clients can \
                 hold the lock now"
            )
        }
        false => format!(
            "held{by}, broken on {nodes} of {of}: free in {}",
            duration::shown(broken.free_in)
        ),
    };
    item(&printable(name), &text)
}

fn object(name: &[u8], broken: &Broken) -> serde_json::Value {
    let fields = json!({
        "holder": inspect::holder_object(&broken.holder),
        "broken": broken.nodes,
        "free_in_ms": millis(broken.free_in),
    });
    json::object("break", [named("resource", name), fields])
}
