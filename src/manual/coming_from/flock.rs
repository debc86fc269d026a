//! From `flock`, the command.
//!
//! Read in its [source and manual page](https://github.com/util-linux/util-linux/blob/master/sys-utils/flock.c)
//! (util-linux).
//!
//! **On one machine, stay with `flock`.** It needs no server, no ttl and no clock, and the kernel ends the lock
//! when the last process that has it ends. Come here when the same job is started on several machines.
//!
//! There:
//!
//! ```sh
//! flock -w 10 -E 75 /run/lock/report make report
//! ```
//!
//! Here:
//!
//! ```sh
//! export SHEARLINE_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3
//! shearline run -w 10 report -- make report
//! ```
//!
//! (`cargo install --path cli` in a checkout installs it. A server that was started less than a minute ago may have
//! forgotten a lock, and does not vote yet; `--trust` says that none has. [More](crate::manual::command#which-nodes))
//!
//! And where a script locks a part of itself, there:
//!
//! ```sh
//! exec 9> /run/lock/report
//! flock -n 9 || exit
//! first-step
//! ```
//!
//! Here:
//!
//! ```sh
//! lock=$(shearline lock -n report) || exit
//! trap 'shearline unlock "$lock"' EXIT
//! first-step                     # must take less than the ttl (30 s), or:
//! next=$(shearline extend "$lock") || exit
//! lock=$next
//! ```
//!
//! | there | here |
//! | --- | --- |
//! | a file or directory | `NAME`, and the nodes (`--node`, `SHEARLINE_NODES`, `--config`) |
//! | `-n`, `-w SECONDS` | `-n`, `-w SECONDS`, or with a unit: `-w 2m` |
//! | without them, waits for ever | the same |
//! | `-E N` (1 by default) | `-E N` (75 by default) |
//! | `-c 'COMMAND LINE'` | `-- sh -c 'COMMAND LINE'` |
//! | `-x` | always |
//! | `-s`, a shared lock | None. |
//! | `-o`, `-F` | Nothing: the command does not inherit the lock. |
//! | `-u` | `shearline unlock` |
//! | `flock NUMBER` | `shearline lock`, whose text is the lock |
//! | `flock`(2) in a program | `Redlock`, as below |
//!
//! # What differs in meaning
//!
//! | | `flock` | here |
//! | --- | --- | --- |
//! | where | One kernel. Some network file systems pass it on, some refuse it, some ignore it. | All machines that use the same nodes. |
//! | how long | As long as a process has the file open: children and daemons too, unless `-o` is given. | While the tool extends it. If that dies, until the ttl is over. |
//! | if the lock is lost | It cannot be. | It can: nodes fail, the machine stands still. Then `run` ends the command and all that it started before another can have the lock. |
//! | what the command leaves behind | Keeps the lock. | Is ended before the release; `--wait-all` waits for it, and keeps the lock meanwhile. |
//! | status | That of the command, 128 + N after a signal. | That of the command. After a signal, `shearline` ends by the same signal, which shells show as 128 + N. |
//! | Ctrl-Z | Stops the command, which keeps the lock. | Stops the command and `shearline`. If that lasts longer than the ttl, the lock is lost and the command is killed. |
//! | locking twice | A second `flock` of the same file by a child waits for its parent: for ever, without `-n` or `-w`. | The same. |
//! | who waits longest | No order. | No order between machines. |
//!
//! In a program:
//!
//! ```no_run
//! use std::time::Duration;
//! use shearline::{LockError, LockOptions, Redlock};
//!
//! # fn make_report(_: &dyn Fn() -> bool) {}
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
//! let kept = LockOptions::new(Duration::from_secs(30)).keep().tries(1); // `-n`
//! match redlock.lock_with("report", &kept) {
//!     Ok(lock) => {
//!         let at_risk = lock.at_risk();
//!         make_report(&|| at_risk.is_at_risk()); // Stops soon when this is true.
//!         lock.unlock()?;
//!     }
//!     Err(LockError::Held(_)) => {} // Another machine is at it.
//!     Err(error) => return Err(error.into()),
//! }
//! # Ok(())
//! # }
//! ```
