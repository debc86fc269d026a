//! `shearline extend`: extends a lock that a script holds.

use std::time::Duration;

use shearline::LockGuard;

use crate::duration;
use crate::failure::Failure;
use crate::held::Held;
use crate::lock;
use crate::output::Format;
use crate::status::{self, Status};

/// Extends a lock of a script, and prints the line that replaces it.
///
/// Go on with the line that this prints: the old one ends when the lock would have ended. Status 74 means
/// that the lock is lost: stop what it protects. With 69 it is valid until its old end: try again before then.
///
/// The nodes have to be those of the lock, in the same order.
#[derive(Debug, clap::Args)]
#[command(after_long_help = status::table_with(Status::Lost))]
pub(crate) struct Args {
    #[command(flatten)]
    held: Held,

    /// How long the lock lives from now on if it is not extended again.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration::parse)]
    ttl: Duration,

    #[command(flatten)]
    format: Format,
}

/// Extends the lock and prints it.
pub(crate) fn run(args: &Args) -> Result<Status, Failure> {
    let (redlock, lock) = args.held.open(Some(args.ttl))?;
    // An error leaves the lock as it is: dropping a guard would release it.
    let extend = |guard: &mut LockGuard| Ok(guard.extend(args.ttl)?);
    let lock = args.held.with(&redlock, lock, extend)?;
    lock::print("extend", args.format, &lock)?;
    Ok(Status::Success)
}
