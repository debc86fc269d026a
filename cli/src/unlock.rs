//! `shearline unlock`: releases a lock that a script holds.

use serde_json::json;

use crate::failure::Failure;
use crate::held::Held;
use crate::json::{joined, line, named, object};
use crate::output::Format;
use crate::status::{self, Status};

/// Releases a lock of a script.
///
/// Status 74 means that the lock was not held any more: what it protected may have overlapped with another's
/// work. With 69 too few nodes have answered: try again, or the lock ends with its ttl.
///
/// The nodes have to be those of the lock, in the same order. One that is not connected yet is waited for
/// (`--connect-timeout`), and then its answer (`--node-timeout`).
#[derive(Debug, clap::Args)]
#[command(after_long_help = status::TABLE)]
pub(crate) struct Args {
    #[command(flatten)]
    held: Held,

    #[command(flatten)]
    format: Format,
}

/// Releases the lock. A person reads nothing: the status says it.
pub(crate) fn run(args: &Args) -> Result<Status, Failure> {
    let (redlock, lock) = args.held.open(None)?;
    let resource = lock.resource().to_vec();
    let mut guard = redlock.adopt(lock);
    if !guard.is_valid() {
        // It is released in any case. The nodes know better than an old text whether it still lives.
        let _ = guard.confirm();
    }
    let released = guard.unlock();
    // A node that is on its way is owed the release too, and this process ends.
    args.held.connect.nodes.settled(&redlock);
    let released = released?;
    if args.format.json {
        let fields = joined(
            named("resource", &resource),
            json!({ "deleted": released.deleted }),
        );
        crate::output::say(line(&object("unlock", fields)))?;
    }
    Ok(Status::Success)
}
