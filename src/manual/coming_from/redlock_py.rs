//! From redlock-py (Python).
//!
//! Read in its source, [`master` of March 2016](https://github.com/SPSCommerce/redlock-py):
//! `redlock/__init__.py`. Version 1.0.8 of PyPI was run on three servers beside this library: locks keep each other
//! out, a lock wakes our waiter when it is released, and with one server down `lock` raises and leaves its keys.
//! The package `redlock` of PyPI is another one.
//!
//! There:
//!
//! ```python
//! dlm = Redlock([{"host": "10.0.0.1"}, {"host": "10.0.0.2"}, {"host": "10.0.0.3"}])
//! lock = dlm.lock("invoice:42", 10_000)
//! if lock:
//!     print_invoice()
//!     dlm.unlock(lock)
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
//! match redlock.lock("invoice:42", Duration::from_secs(10)) {
//!     Ok(lock) => {
//!         print_invoice();
//!         lock.unlock()?; // Also released if `print_invoice` panics.
//!     }
//!     Err(LockError::Held(_)) => {} // `False` there
//!     Err(error) => return Err(error.into()), // also `False`, or an exception
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | there | here |
//! | --- | --- |
//! | `Redlock(connection_list)` | `Redlock::connect(urls)`, `Redlock::builder()` |
//! | `retry_count` (3), `retry_delay` (0.2 s) | [`Builder::retry`](crate::Builder::retry) (5 s, 50 to 250 ms) |
//! | `lock(resource, milliseconds)` | `lock(resource, ttl)` with a `Duration` |
//! | `False` | [`LockError::Held`](crate::LockError::Held), [`NoQuorum`](crate::LockError::NoQuorum), [`TooSlow`](crate::LockError::TooSlow) |
//! | `lock.validity`, `lock.key` | `validity()`, `token()` |
//! | `unlock(lock)` | `unlock()`, or the drop of the guard |
//! | `MultipleRedlockException` | The [`Report`](crate::Report) in an error. Nodes that failed are no error while a majority answers. |
//!
//! # What differs in meaning
//!
//! | | redlock-py | here |
//! | --- | --- | --- |
//! | ttl | An `int` of milliseconds. | A `Duration`. |
//! | validity | A number of milliseconds, as it was when `lock` returned, by a wall clock that can be stepped. | `validity()` is what is left now. |
//! | tries | Three, 0.2 s apart, all with one value. | For 5 s, woken by the release, each try with its own token. |
//! | the nodes | Asked one after the other. How long a silent one is waited for depends on the socket timeout of the Redis client. | Asked at once; a majority decides. |
//! | a node that fails | `lock` raises an exception even if a majority granted the lock, and the keys stay until their ttl is over. | The lock is yours. |
//! | extension | None. | `extend`, or [`LockOptions::keep`](crate::LockOptions::keep). |
//! | release | Nothing tells whether the lock was still held; failures are logged. | [`Released`](crate::Released), [`NotHeld`](crate::UnlockError::NotHeld) or [`Unconfirmed`](crate::UnlockError::Unconfirmed). |
//! | a lock that is not released | Stays until its ttl is over. | The drop of the guard releases it. |
//! | loss | Not told. | `lost()`, `at_risk()`. |
//! | value | 22 characters from a generator that is not meant for secrets. | 20 bytes from a cryptographic one. |
//! | fencing tokens | None. | [`LockOptions::fenced`](crate::LockOptions::fenced), on nodes that an operator has prepared. |
//! | locking twice | Returns `False` after its tries. | Waits, and ends as [`Held`](crate::LockError::Held): [`is_held_here`](crate::Report::is_held_here) says why. |
//! | a node that restarts empty | Votes at once. | Does not vote for [`max_ttl`](crate::Builder::max_ttl), 60 s if that is not set. |
