//! Keeping a lock: work that may take longer than a ttl.
//!
//! Take it with [`LockOptions::keep`](crate::LockOptions::keep), and the handle extends it, by its ttl, at
//! half of its validity until you release it. Choose the ttl as the time for which the resource may stay
//! locked after your program has died: seconds, not hours. On a busy machine the thread that extends it may
//! not run for tens of milliseconds, so a lock of 10 or 20 ms does not last. That thread also calls the wakers
//! of your tasks, which must return promptly (`Redlock`). Wait for `LockGuard::at_risk`
//! beside your work and begin to stop when it comes, because a quarter of the ttl is left then; when `lost`
//! comes you must have stopped. Limit work that may hang with [`keep_for`](crate::LockOptions::keep_for): a
//! program that hangs keeps its lock.
//!
//! `LocalRedlock` and `Driver` have `alert_below` and
//! [`Event::AtRisk`](crate::engine::Event::AtRisk) in place of `at_risk`: call `poll` or `turn` at least as
//! often as `until_deadline` says, because they extend and report nothing between two calls. A request is
//! reported once: if you go on after it, because a later extension has succeeded (`Lock::validity` is more
//! than the `left` that you will ask for again), call `alert_below` again. Called sooner, it reports at once. A
//! lock of theirs has no `health`: `Lock::validity` is what is left, `nodes` says which nodes are away, and `Driver` reports
//! each extension ([`Event::Kept`](crate::engine::Event::Kept)).
//!
//! ```no_run
//! use std::time::Duration;
//! use shearline::{LockOptions, Redlock};
//!
//! # fn next_step() -> bool { false }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
//! let kept = LockOptions::new(Duration::from_secs(10)).keep_for(Duration::from_secs(3600));
//! let guard = redlock.lock_with("nightly-report", &kept)?;
//! let at_risk = guard.at_risk();
//! while !at_risk.is_at_risk() && next_step() {}
//! guard.unlock()?;
//! # Ok(())
//! # }
//! ```
//!
//! A lock that was taken without it, or that came from another process (`Redlock::adopt`), is kept from the
//! call of `LockGuard::keep` on.
//!
//! # What happens if an extension fails
//!
//! | what fails | what follows |
//! | --- | --- |
//! | A minority of the nodes is gone, silent, or in [quarantine](crate::RestartGuard). | Nothing: a majority extends the lock. A node that restarts is in quarantine for [`max_ttl`](crate::Builder::max_ttl), 60 s by default: if a second of three restarts within that time, no majority is left and kept locks end. |
//! | Too few nodes confirm it. | The lock is valid until its end, and the extension is tried again: after a quarter of what is left each time, at most 15 times. `health` counts the failures and says what each node said. |
//! | A quarter of the ttl is left. | `at_risk` completes. If a later extension succeeds, a new one waits again. |
//! | The end has come. | `lost` completes, a millisecond before it. Nothing revives the lock. |
//! | A majority says that the key is not there. | The same, at once. `health` counts it as a failure and says what each node said. |
//!
//! # When somebody deletes its keys
//!
//! Where keys of a lock are deleted, evicted, flushed or replaced on a majority, another client can have the lock: nothing
//! can prevent that. Its holder learns of it two round trips later. Each extension asks the nodes to tell of the next
//! change of the key (`CLIENT TRACKING`), and when one does, the handle extends the lock at once: `lost` completes if a
//! majority says that the key is not there or another's. A minority that has lost it gets a copy. A handle asks so for
//! the first 1,000 keys of its kept locks, from 50 ms after the grant on; servers keep a table of these keys
//! (`tracking-table-max-keys`, a million by default). Other locks, and those of nodes that
//! [do not tell](super::waiting#where-nodes-do-not-tell), learn of it with their next extension. A key that others
//! delete or set on a minority all the time costs four extensions a second. Where nodes tell of changes that delete nothing (Redis
//! up to 6.2.7 and 7.0.4 tells of our own too), the time between these doubles, up to half of the validity.
//!
//! On a machine that is so busy that answers take longer than the node timeout (5 to 50 ms by the ttl), an
//! extension that the nodes have done counts as failed. Fifteen tries are rarely all late; but where a
//! program keeps locks with a short ttl beside heavy work, choose a longer ttl, or a longer
//! [`node_timeout`](crate::Builder::node_timeout): an eighth of the ttl waits for late answers, and costs time
//! only where a majority is silent.
//!
//! Who keeps a lock, and until when, `inspect` says, which asks at once. A call that ends as
//! [`Held`](crate::LockError::Held) names the holder only where a caller has waited for about 0.8 s.
//!
//! # A holder that hangs, or takes time to stop
//!
//! Validity is a promise that the holder has to keep: it stops when `lost` comes. A program that was
//! killed keeps it. One that hangs, that was suspended, or that needs a while to stop may go on for some
//! time, and by then another client can have the lock. [`Builder::lock_delay`](crate::Builder::lock_delay)
//! has the nodes keep each key for that time longer. The holder believes what it believed without it, and
//! a release frees the lock at once: only after a holder that did not release do others wait for longer.
//!
//! Set it to the time in which you can be sure that such a program is stopped: what a supervisor takes to
//! notice and to kill it, or the timeout of the longest request that it may have sent. It does not stop
//! anything by itself, and **a release ends it**: also that of a guard that is dropped after a loss. Where
//! requests may still be under way then, keep the guard until they have ended, or leak it
//! ([`core::mem::forget`]): others wait for the delay then. With [`keep`](crate::LockOptions::keep) a worker that hangs keeps its lock for as
//! long as the I/O thread extends it; the delay begins when that ends: with
//! [`keep_for`](crate::LockOptions::keep_for), or when the process is killed.
//!
//! ```no_run
//! use std::time::Duration;
//! use shearline::{LockOptions, Redlock};
//!
//! # fn print(_: &shearline::LockGuard) -> bool { true }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let redlock = Redlock::builder()
//!     .nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
//!     .lock_delay(Duration::from_secs(15)) // A page that was sent is printed after so long, whatever happens to us.
//!     .max_ttl(Duration::from_secs(60)) // Of every client: the longest ttl and delay together.
//!     .build()?;
//! let kept = LockOptions::new(Duration::from_secs(10)).keep_for(Duration::from_secs(600));
//! let guard = redlock.lock_with("printer", &kept)?;
//! match print(&guard) {
//!     true => drop(guard.unlock()?), // All is printed: free at once. After a kill: some 25 s later, or less.
//!     false => std::mem::forget(guard), // Lost, and the last page is still in the printer.
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Several at once
//!
//! Work on several resources at once takes one lock on all of them
//! (`Redlock::lock_all`, and the same on the other faces). Each node gives all of the names or none, in one
//! step, and counts only while it has all of them. So nobody holds a part and waits for the rest: callers
//! that name the same resources in different orders cannot block each other for ever, and need not agree on
//! an order.
//!
//! ```no_run
//! use std::time::Duration;
//! use shearline::{LockError, LockOptions, Redlock};
//!
//! # fn transfer() {}
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
//! match redlock.lock_all(["account:17", "account:4"], Duration::from_secs(10)) {
//!     Ok(both) => {
//!         transfer();
//!         both.unlock()?; // Both, or `NotHeld` if either was not ours any more.
//!     }
//!     Err(LockError::Held(report)) => match report.held_resource() {
//!         Some(which) => println!("{} is in use", which.escape_ascii()),
//!         None => println!("one of them is in use"),
//!     },
//!     Err(error) => return Err(error.into()),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! It is one lock, with one token and one end: it is extended, [kept](crate::LockOptions::keep), confirmed,
//! handed over, lost and released as a whole. A majority of nodes that misses any of the names ends it. A
//! node that has lost one of them gets it again, as a node that has lost the key of a lock on one; where
//! another client has taken the name meanwhile, nothing is written there.
//!
//! On the nodes each name is a key of its own, with the same token in it. A lock on one of the names, of this
//! library or another, keeps the set out and is kept out by it. `inspect` and `watch` look at one name.
//!
//! 1 to 64 names that differ, of 1 to 1024 bytes each, are allowed. Each operation is one command to each
//! node, a script that is sent as text; the nodes have to allow `EVAL`. A server runs it in some
//! microseconds for each name, and serves nobody else meanwhile. With a cluster of the server's own kind
//! all names would have to be in one slot; the nodes of a quorum are single masters.
//!
//! # What ends it
//!
//! `unlock`, the drop of the guard, the loss, [`keep_for`](crate::LockOptions::keep_for), the number of
//! [`extensions`](crate::LockOptions::extensions) (your own count too), `into_lock`, `detach`, `to_bytes`,
//! and the end of the handle. Nothing is extended after one of these; an extension that is under way then is
//! ordered before the release on each connection. A lock that was handed over is not kept by its new owner
//! before that calls `keep` (above), or has to be extended by it. A plain [`Lock`](crate::Lock) that is dropped
//! is not released, but is not kept either. A guard that is leaked ([`core::mem::forget`]) is kept until the process ends. A forked child
//! extends nothing.
//!
//! # What it costs
//!
//! One extension on each node for each half of a ttl, one 50 ms after the grant, and one after a connection was lost. Those of all locks that are due in one turn go out in
//! one write to each node, up to 64 of them in one command: a script that does for each key what an extension
//! does, and answers for each. That takes the server about half of its time for a key, and half of the bytes.
//! Locks on several resources are extended one by one, and so are all locks of nodes with a
//! [strict](crate::RestartGuard::Strict) guard, of nodes that refuse the script (it needs no other permission
//! than an extension), and those that you extend yourself. Where more than 48 locks are held, those that are due
//! at about the same time are extended together, up to a 64th of the time between two extensions early: a handle that keeps 10,000
//! locks of 10 s extends some 60 times a second and not in every millisecond. At most
//! 8,192 extensions are open at a time, and others wait
//! for their outcomes; so the nodes have to extend all of your locks within half of the ttl. Where eight or more
//! are due together, one node of three works for them at a time (two of five): a majority is free for whoever
//! takes another lock meanwhile. The others have their turn when it has answered, or after 2 ms. In memory a lock
//! that is kept and that nobody else wants takes some 290 bytes besides its name and token.
