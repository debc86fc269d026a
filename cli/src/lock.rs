//! `shearline lock`: takes a lock for a script, and prints it as one line of text.
//!
//! If the command cannot print the lock, it releases the lock, because the user cannot release it without the text.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::parent_id;

use serde_json::json;
use shearline::{Lock, LockOptions};

use crate::acquire::Acquire;
use crate::connect::Connect;
use crate::failure::Failure;
use crate::held;
use crate::help::Texts;
use crate::json::{self, hex, millis};
use crate::output::Format;
use crate::signals::Signals;
use crate::status::Status;
use crate::taking::take;

/// The help texts of this command.
pub(crate) const TEXTS: Texts = Texts::new(
    "\
lock=$(shearline lock -w 10s report) || exit
trap 'shearline unlock \"$lock\"' EXIT
first-step
next=$(shearline extend \"$lock\") || exit
lock=$next
second-step

lock=$(shearline lock --fenced report) || exit
write-to-store --token \"${lock#* }\"",
    "\
0 1 64 69 75 78 128+N",
    "shearline(1), shearline-extend(1), shearline-unlock(1), shearline-run(1)",
);

/// Takes a lock for a script, and prints it as one line of text.
///
/// The script must extend the lock while it works, and unlock it at the end. No other process extends the lock. A step
/// of the script that takes longer than the ttl continues without the lock. If one command does all the work, use
/// `shearline run` instead: it extends the lock, and ends the command if the lock is lost.
///
/// Anyone who has the text can release the lock, so keep the text secret. With --fenced, the line contains the lock, a
/// space, and the fencing token. `extend` and `unlock` take the whole line, so quote it in the shell.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    format: Format,

    /// Name of the lock.
    ///
    /// The name is the key on the nodes.
    name: OsString,

    #[command(flatten)]
    pub(crate) acquire: Acquire,

    #[command(flatten)]
    connect: Connect,
}

/// Takes the lock and prints it.
pub(crate) fn run(args: &Args) -> Result<Status, Failure> {
    let (name, options) = (args.name.as_bytes(), args.acquire.options(args.acquire.ttl));
    // The owner is the parent of this process, which is the script.
    let builder = args.connect.nodes.builder()?;
    let builder = args.acquire.builder(builder, parent_id());
    builder.config()?.check_request(name, options.ttl())?;
    let signals = Signals::catch()?;
    let by = args.acquire.by();
    let redlock = args.connect.connect(&builder, by)?;
    let ask = |options: &LockOptions| redlock.lock_with_async(name, options);
    let guard = signals.wait(take(&args.acquire, &redlock, &[name], &ask, (options, by)))??;
    let lock = held::detached(&args.connect.nodes, &redlock, guard);
    let printed = signals.check();
    let printed = printed.and_then(|()| print("lock", args.format, &lock));
    if printed.is_err() {
        let _ = redlock.adopt(lock).unlock(); // If too few nodes answer, the keys expire.
    }
    printed.map(|()| Status::Success)
}

/// Prints a lock as the text that [`extend`](crate::extend) and [`unlock`](crate::unlock) read, and then its fencing
/// token.
pub(crate) fn print(command: &str, format: Format, lock: &Lock) -> Result<(), Failure> {
    let (text, token) = (hex(&lock.to_bytes()), lock.fencing_token());
    let object = || {
        let fields = json!({
            "lock": text,
            "ttl_ms": millis(lock.ttl()),
            "valid_for_ms": millis(lock.validity()),
            "fencing_token": token,
        });
        let resource = json::named("resource", lock.resource());
        json::object(command, [resource, fields])
    };
    format.say(object, || match token {
        Some(token) => format!("{text} {token}"),
        None => text.clone(),
    })
}
