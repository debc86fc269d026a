//! From redsync (Go).
//!
//! Read in its source, [version 4.17](https://github.com/go-redsync/redsync/tree/v4.17.0): `mutex.go`,
//! `redsync.go`, `scripts.go`.
//!
//! There:
//!
//! ```go
//! rs := redsync.New(poolA, poolB, poolC)
//! mutex := rs.NewMutex("invoice:42", redsync.WithExpiry(10*time.Second))
//! if err := mutex.LockContext(ctx); err != nil {
//!     return err
//! }
//! defer mutex.Unlock()
//! printInvoice()
//! ok, err := mutex.Extend()
//! ```
//!
//! Here:
//!
//! ```no_run
//! use std::time::Duration;
//! use shearline::{LockError, Redlock};
//!
//! # fn print_invoice() {}
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
//! let ttl = Duration::from_secs(10);
//! let mut lock = match redlock.lock("invoice:42", ttl) {
//!     Ok(lock) => lock,
//!     Err(LockError::Held(_)) => return Ok(()), // ErrTaken
//!     Err(error) => return Err(error.into()),
//! };
//! print_invoice();
//! lock.extend(ttl)?;
//! lock.unlock()?; // Dropping the lock releases it too: no `defer`.
//! # Ok(())
//! # }
//! ```
//!
//! | there | here |
//! | --- | --- |
//! | `redsync.New(pools...)` | `Redlock::connect(urls)`, `Redlock::builder()`; it makes its own connections, one for each node |
//! | `NewMutex(name, options...)` | Nothing: name and ttl are given to each call. |
//! | `Lock`, `LockContext`, `TryLock` | `lock`, `lock_with` and [`LockOptions::wait`](crate::LockOptions::wait), `try_lock`; each also with `_async`. Dropping the future cancels it. |
//! | `Unlock() (bool, error)` | `unlock()`, or the drop of the guard |
//! | `Extend() (bool, error)` | `extend(ttl)`, [`LockOptions::keep`](crate::LockOptions::keep) |
//! | `Until()`, `Value()` | `valid_until()` or `validity()`, what is left; `token()` |
//! | `Valid()` | `is_valid()` asks nobody; `confirm()` asks the nodes |
//! | `WithExpiry` (8 s), `WithTries` (32), `WithRetryDelay` (50 to 250 ms) | the `ttl` of the call; [`Builder::retry`](crate::Builder::retry) (5 s, 50 to 250 ms) |
//! | `WithDriftFactor` (0.01) | [`Builder::drift`](crate::Builder::drift) (1 % and 2 ms) |
//! | `WithTimeoutFactor` (0.05 of the expiry) | [`Builder::node_timeout`](crate::Builder::node_timeout); by default it follows the ttl and the round trip of the node |
//! | `WithFailFast`, `WithShufflePools` | Nothing: a majority always decides, and all nodes are asked at once. |
//! | `WithValue`, to unlock elsewhere | `into_lock`, `Lock::to_bytes`, `Redlock::adopt` |
//! | `WithGenValueFunc` | [`Builder::owner`](crate::Builder::owner) adds a label to the random bytes |
//! | `ErrTaken`, `ErrFailed` and what it joins | [`LockError::Held`](crate::LockError::Held), [`NoQuorum`](crate::LockError::NoQuorum), [`TooSlow`](crate::LockError::TooSlow), each with what every node said |
//! | `ErrLockAlreadyExpired` | [`UnlockError::NotHeld`](crate::UnlockError::NotHeld) |
//! | `ErrExtendFailed` | [`ExtendError`](crate::ExtendError): `Expired`, `Lost`, or `Unconfirmed`, after which the lock stands until its old end |
//!
//! # What differs in meaning
//!
//! | | redsync | here |
//! | --- | --- | --- |
//! | ttl | One for the mutex, 8 s unless you say otherwise. | One for each call; there is no default. |
//! | validity | Expiry less the time that it took, less 1 %. | The same less 2 ms more, and it goes on while a Linux machine is suspended. |
//! | waiting | Tries again after a random delay, and never learns of a release. | Woken by the release, whoever it comes from; first come, first served inside a handle. |
//! | tries | All tries of a call have one value. | Each has its own token. |
//! | a slow node | Waits for the answers of all nodes unless `WithFailFast` is set; how long depends on whether the Redis client heeds the deadline of the context. | Waits for a majority. |
//! | an attempt that failed | It is released once, on any connection of the pool, within the context of the caller: if that is cancelled the release is too. | It is released behind its `SET` on the same connection, and the release is owed until a node has answered it. |
//! | extension | Sets the expiry back to the full time on a majority. Nothing asks whether the old time was over. With `WithSetNXOnExtend` a missing key is set again. | Refused when the lock is over. Never shortens. A missing key is set again only while a majority of the others has confirmed the lock. |
//! | extension by itself | None. | [`keep`](crate::LockOptions::keep). |
//! | release | `false` and an error if fewer than a majority deleted the key. It has no deadline but that of the context. | [`NotHeld`](crate::UnlockError::NotHeld) and [`Unconfirmed`](crate::UnlockError::Unconfirmed) are told apart. |
//! | loss | You ask `Until()`. | `lost()` and `at_risk()`, futures and waits. |
//! | fencing tokens | None. | [`LockOptions::fenced`](crate::LockOptions::fenced), on nodes that an operator has prepared. |
//! | locking twice | Fails after its tries. | Waits, and ends as [`Held`](crate::LockError::Held): [`is_held_here`](crate::Report::is_held_here) says why. |
//! | a node that restarts empty | Votes at once. | Does not vote for [`max_ttl`](crate::Builder::max_ttl), 60 s if that is not set. |
