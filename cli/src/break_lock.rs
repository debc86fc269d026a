//! `shearline break`: ends a lock whose holder is gone or hangs.

use serde_json::json;
use shearline::{Breaking, Broken, Inspection};

use crate::duration;
use crate::failure::Failure;
use crate::inspect::{self, Subject};
use crate::json::{self, joined, millis, named};
use crate::output::{DOUBTFUL, Format, confirm, count, item, painted, printable};
use crate::status::Status;

const NOTES: &str = "\
Examples:
  shearline break report                # shows the holder, and asks
  shearline break report --yes
  shearline break report --now --yes    # its machine is known to be off

Exit statuses:
  0    broken
  1    not held by anybody, or not by the holder that was shown; keys without an
       expiry (--now deletes them), or longer than a token; or not wanted
  64   the arguments cannot be used, or nobody can be asked
  69   too few nodes answered or confirmed it; try again
  78   only an operator can repair it: configuration, password, permission";

/// Ends a lock whose holder is gone or hangs.
///
/// It shows the holder and asks. Then no node has the token of the holder any more, but each keeps the key for as
/// long as before. The holder cannot extend its lock: a `shearline run` ends its command at once, or where nodes
/// do not tell when half of the ttl is left at the latest. Others get the lock when the holder must have stopped:
/// when its ttl is over.
///
/// A lock that another client has taken since it was shown is left alone.
#[derive(Debug, clap::Args)]
#[command(after_long_help = NOTES)]
pub(crate) struct Args {
    #[command(flatten)]
    subject: Subject,

    /// Does not ask.
    #[arg(short, long)]
    yes: bool,

    /// Deletes the keys, so that others get the lock at once. If the holder still works, two have the lock then:
    /// only for a holder that is known to have stopped.
    #[arg(long)]
    now: bool,

    #[command(flatten)]
    pub(crate) format: Format,
}

/// Asks, and breaks the lock that was shown.
pub(crate) fn run(args: &Args) -> Result<Status, Failure> {
    let name = args.subject.name();
    let redlock = args.subject.connect()?;
    args.subject.nodes().settled(&redlock);
    let seen = redlock.inspect(name).map_err(inspect::unanswered)?;
    if !args.yes && seen.holder().is_some() {
        confirm(&question(name, &seen, args.now))?;
    }
    let how = match args.now {
        true => Breaking::AtOnce,
        false => Breaking::KeepOut,
    };
    let broken = redlock.break_seen(name, &seen, how)?;
    let of = seen.nodes().len();
    args.format.say(
        || object(name, &broken),
        || line(name, &broken, of, args.now),
    )?;
    Ok(Status::Success)
}

fn question(name: &[u8], seen: &Inspection, now: bool) -> String {
    let shown = inspect::lines(name, seen);
    match now {
        true => format!(
            "{shown}\nDelete it? {}",
            painted(
                DOUBTFUL,
                "If its holder still works, two have the lock then."
            )
        ),
        false => format!("{shown}\nBreak it? Others get it when its ttl is over."),
    }
}

fn line(name: &[u8], broken: &Broken, all: usize, now: bool) -> String {
    let by = inspect::by(&broken.holder.owner);
    let (nodes, of) = (broken.nodes, count(all, "node"));
    let text = match now {
        true => {
            // The others are asked too, and not all of them are waited for.
            let least = if broken.nodes < all { " at least" } else { "" };
            format!(
                "held{by}, deleted, and free on {nodes} of {of}{least}: if its holder still works, two have the \
                 lock now"
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
    json::object("break", joined(named("resource", name), fields))
}
