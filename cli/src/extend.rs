//! `shearline extend`: extends a lock that a script holds.

use std::time::Duration;

use shearline::ExtendError;

use crate::duration;
use crate::failure::Failure;
use crate::held::{self, Held, detached};
use crate::help::Texts;
use crate::lock;
use crate::output::Format;
use crate::status::Status;

/// The help texts of this command.
pub(crate) const TEXTS: Texts = Texts::new(
    "\
next=$(shearline extend --ttl 1m \"$lock\") || exit
lock=$next",
    "\
0 1 64
69  too few nodes answered; the lock is valid until its old end
74  the lock is lost: stop what it protects
78",
    "shearline(1), shearline-lock(1), shearline-unlock(1)",
);

/// Extends a lock that `lock` took, and prints its new text.
///
/// Use the new text from now on. The old text is valid only until the old expiry of the lock. If the status is 69, try
/// again before the old expiry.
///
/// Give the nodes on which the lock was taken, in the same order.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Time from now until the lock expires.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration::parse)]
    ttl: Duration,

    #[command(flatten)]
    format: Format,

    #[command(flatten)]
    held: Held,
}

/// Extends the lock and prints it.
pub(crate) fn run(args: &Args) -> Result<Status, Failure> {
    let (redlock, lock) = args.held.open(Some(args.ttl))?;
    let mut guard = redlock.adopt(lock);
    // If the lock comes from another machine, its times were measured by that machine's clock. So the lock is not valid
    // here until a majority of the nodes has said how long its keys will live.
    let confirmed = match guard.is_valid() {
        true => Ok(()),
        false => guard.confirm(),
    };
    let extended = confirmed.and_then(|()| guard.extend(args.ttl));
    // Detaches the lock even after an error, because dropping the guard would release the lock.
    let lock = detached(&args.held.connect.nodes, &redlock, guard);
    let extended = extended.map_err(|error| held::lost(error, ExtendError::report));
    let printed = extended.and_then(|()| lock::print("extend", args.format, &lock));
    printed.map(|()| Status::Success)
}
