//! From node-redlock (JavaScript).
//!
//! Read in its source, [version 5, `main` of August 2025](https://github.com/mike-marcacci/node-redlock):
//! `src/index.ts`. Version 5.0.0-beta.2 of npm was run on three servers beside this library: locks keep each other
//! out, a lock wakes our waiter when it is released, and what the table says of half of the nodes, of extensions
//! that shorten and of the release of a lock that is over was seen. In version 4 `acquire` is `lock` and
//! `release` is `unlock`.
//!
//! There:
//!
//! ```js
//! const redlock = new Redlock([clientA, clientB, clientC], { retryCount: 10 });
//! await redlock.using(["account:1", "account:2"], 5000, async (signal) => {
//!   await debit();
//!   if (signal.aborted) throw signal.error;
//!   await credit();
//! });
//! ```
//!
//! Here:
//!
//! ```no_run
//! use std::time::Duration;
//! use shearline::{LockOptions, Redlock};
//!
//! # async fn debit() {}
//! # async fn credit() {}
//! # async fn program() -> Result<(), Box<dyn std::error::Error>> {
//! let urls = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
//! let redlock = Redlock::builder().nodes(urls).build_async().await?;
//! let kept = LockOptions::new(Duration::from_secs(5)).keep();
//! let lock = redlock.lock_all_with_async(["account:1", "account:2"], &kept).await?;
//! let lost = lock.lost(); // Also a future: race it against the work.
//! debit().await;
//! if lost.is_lost() {
//!     return Err("the lock was lost".into());
//! }
//! credit().await;
//! lock.unlock_async().await?;
//! # Ok(())
//! # }
//! ```
//!
//! | there | here |
//! | --- | --- |
//! | `new Redlock(clients, settings)` | `Redlock::connect(urls)`, `Redlock::builder()`; it makes its own connections, one for each node |
//! | `acquire([name], duration)` | `lock_async(name, ttl)`, or `lock` without async |
//! | `acquire([a, b], duration)` | `lock_all_async([a, b], ttl)` |
//! | `lock.extend(duration)`, which returns another lock | `lock.extend_async(ttl)`; the guard stays the same |
//! | `lock.release()` | `unlock_async()`, or the drop of the guard |
//! | `using(.., routine)` | [`LockOptions::keep`](crate::LockOptions::keep) and a guard; there is no closure to write |
//! | `signal.aborted`, `signal.error` | `lost()`, `at_risk()`; `health()` says why |
//! | `retryCount` (10), `retryDelay` (200 ms), `retryJitter` (100 ms) | [`Builder::retry`](crate::Builder::retry) (5 s, 50 to 250 ms) |
//! | `retryCount: 0` | `try_lock_async` |
//! | `retryCount: -1` | [`LockOptions::wait`](crate::LockOptions::wait) with `Duration::MAX` |
//! | `driftFactor` (0.01) | [`Builder::drift`](crate::Builder::drift) (1 % and 2 ms: the same) |
//! | `automaticExtensionThreshold` (500 ms before the end) | Nothing: a kept lock is extended at half of its validity. |
//! | `lock.expiration`, `lock.value` | `validity()`, `token()` |
//! | `ExecutionError` and its `attempts` | [`LockError`](crate::LockError), [`ExtendError`](crate::ExtendError), [`UnlockError`](crate::UnlockError), each with a [`Report`](crate::Report) of what every node said |
//! | `redlock.on("error")` | `Redlock::nodes`, `Redlock::stats`, and [`tracing`](crate::manual::tracing) |
//! | `quit()` | The drop of the last handle. |
//!
//! # What differs in meaning
//!
//! | | node-redlock | here |
//! | --- | --- | --- |
//! | ttl | Whole milliseconds. | A `Duration`. The nodes get whole milliseconds. |
//! | validity | `expiration` is a time of the wall clock, which can be stepped. `acquire` does not ask whether it has passed: if the answers take longer than the duration, you get a lock that is over. | A clock that nobody steps. An answer that comes too late is no lock: [`TooSlow`](crate::LockError::TooSlow). |
//! | a node that does not answer | The promise waits as long as the Redis client does. With half of the nodes for and half against, as with two nodes and one vote each, it waits for ever. | The node timeout ends the vote, and half is not a majority: refused at once. |
//! | tries | All tries of a call have one value, and nothing is released between them: a node that granted the first try refuses the second. | Each try has its own token, and the one before it is released. |
//! | waiting | Tries again after a random delay. | Woken by the release. |
//! | several resources | One script for all of them on each node. | The same. A node that lost one of the names gets it again, or does not count. |
//! | extension | `SET` with the new expiry, which may be shorter than what is left. | Never shortens. |
//! | extension by itself | `using` begins 500 ms before the end and tries until the end. | At half of the validity, up to 15 tries within what is left, on a thread of its own: a busy event loop does not stop it. |
//! | loss | `signal` is aborted when an extension was refused and the time is over. While an extension gets no answer nothing aborts it. | A timer, whether anything is answered or not. |
//! | release | Throws, after all tries, if the lock was over: that hides an error of the work. Fewer than a majority throws too. | One attempt, and what is missing is sent later. The outcome is a value that you may ignore. |
//! | fencing tokens | None. | [`LockOptions::fenced`](crate::LockOptions::fenced), on nodes that an operator has prepared. |
//! | locking twice | Fails after its tries. | Waits, and ends as [`Held`](crate::LockError::Held): [`is_held_here`](crate::Report::is_held_here) says why. |
//! | cluster, Sentinel | Each "node" may be one of these. | Refused; [`hosted`](crate::manual::hosted) says why. |
//! | a node that restarts empty | Votes at once. | Does not vote for [`max_ttl`](crate::Builder::max_ttl), 60 s if that is not set. |
