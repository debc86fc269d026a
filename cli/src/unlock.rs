//! `shearline unlock`: releases a lock that a script holds.

use serde_json::json;
use shearline::UnlockError;

use crate::failure::Failure;
use crate::held::{self, Held};
use crate::help::Texts;
use crate::json::{line, named, object};
use crate::output::{self, Format};
use crate::status::Status;

/// The help texts of this command.
pub(crate) const TEXTS: Texts = Texts::new(
    "shearline unlock \"$lock\"",
    "\
0 1 64
69  too few nodes answered; try again, or wait until the lock expires
74  the lock was no longer held: another client may have worked meanwhile
78",
    "shearline(1), shearline-lock(1), shearline-extend(1), shearline-break(1)",
);

/// Releases a lock that `lock` took.
///
/// Give the nodes on which the lock was taken, in the same order. The command waits for connections to the nodes
/// (--connect-timeout) and for their answers (--node-timeout).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    format: Format,

    #[command(flatten)]
    held: Held,
}

/// Releases the lock. Without `--json`, the command prints nothing, because the exit status says whether it succeeded.
pub(crate) fn run(args: &Args) -> Result<Status, Failure> {
    let (redlock, lock) = args.held.open(None)?;
    let resource = lock.resource().to_vec();
    let mut guard = redlock.adopt(lock);
    if !guard.is_valid() {
        // The lock may have been extended since its text was printed, so only the nodes know whether it is still valid.
        // The command releases the lock in any case.
        let _ = guard.confirm();
    }
    let released = guard.unlock();
    // Waits for nodes that are still connecting, because they need the release too.
    args.held.connect.nodes.settled(&redlock);
    let released = released.map_err(|error| held::lost(error, UnlockError::report))?;
    if args.format.json {
        let fields = json!({ "deleted": released.deleted });
        let object = object("unlock", [named("resource", &resource), fields]);
        output::say(line(&object))?;
    }
    Ok(Status::Success)
}
