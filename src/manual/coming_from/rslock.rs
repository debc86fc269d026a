//! From rslock (Rust).
//!
//! Read in its source, [version 0.10](https://docs.rs/rslock/0.10.0): `src/lock.rs`. It was run on three servers beside
//! this library: locks keep each other out, a lock wakes our waiter when it is released, and what the table says of
//! extensions and of the drop of a guard was seen. The programs in `benches/peers` of the repository compare speed.
//!
//! There:
//!
//! ```text
//! let manager = LockManager::new(vec!["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"]);
//! let lock = manager.lock("invoice:42", Duration::from_secs(10)).await?;
//! print_invoice().await;
//! let lock = manager.extend(&lock, Duration::from_secs(10)).await?;
//! manager.unlock(&lock).await;
//! ```
//!
//! Here:
//!
//! ```no_run
//! use std::time::Duration;
//! use shearline::Redlock;
//!
//! # async fn print_invoice() {}
//! # async fn program() -> Result<(), Box<dyn std::error::Error>> {
//! let urls = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
//! let redlock = Redlock::builder().nodes(urls).build_async().await?;
//! let mut lock = redlock.lock_async("invoice:42", Duration::from_secs(10)).await?;
//! print_invoice().await;
//! lock.extend_async(Duration::from_secs(10)).await?;
//! lock.unlock_async().await?;
//! # Ok(())
//! # }
//! ```
//!
//! | there | here |
//! | --- | --- |
//! | `LockManager::new(urls)`, which panics at a wrong URL | `Redlock::connect(urls)`, which returns an error |
//! | `LockManager::from_clients` | `Redlock::builder()`; it makes its own connections |
//! | features `tokio-comp`, `smol-comp` | Nothing: the futures run on any executor. |
//! | `lock(name, ttl).await` | `lock_async(name, ttl).await`, or `lock(name, ttl)` without async |
//! | `acquire(..)`, `acquire_no_guard(..)`, which try for ever | [`LockOptions::wait`](crate::LockOptions::wait) with `Duration::MAX` |
//! | `extend(&lock, ttl)`, which returns another lock | `lock.extend_async(ttl)`; the guard stays the same |
//! | `unlock(&lock)`, `release()` | `unlock_async()`, `unlock()`, or the drop of the guard |
//! | `using(name, ttl, routine)` | [`LockOptions::keep`](crate::LockOptions::keep) and a guard |
//! | `is_freed(&lock)` | `confirm()` for a lock of yours, `Redlock::inspect` for any |
//! | `lock.validity_time`, `lock.val` | `validity()`, `token()` |
//! | `set_retry(3, 200 ms)` | [`Builder::retry`](crate::Builder::retry) (5 s, 50 to 250 ms) |
//! | `LockError::Unavailable` | [`LockError::Held`](crate::LockError::Held) or [`LockError::NoQuorum`](crate::LockError::NoQuorum) |
//! | `LockError::TtlExceeded` | [`LockError::TooSlow`](crate::LockError::TooSlow) |
//!
//! # What differs in meaning
//!
//! | | rslock | here |
//! | --- | --- | --- |
//! | ttl | A `Duration`. | The same. |
//! | validity | `validity_time` is a number of milliseconds, as it was when the call returned, by a clock that stops while a Linux machine is suspended. | `validity()` is what is left now, by a clock that does not stop. |
//! | tries | Three, up to 200 ms apart, all with one value. | For 5 s, woken by the release, each try with its own token. |
//! | a silent node | Every call waits for all nodes, for as long as the Redis client does. | A majority decides. |
//! | answers that come too late | `TtlExceeded`; the keys stay until their ttl is over. | Released. |
//! | extension | Sets the new ttl, which may be shorter than what is left. If too few nodes answer, the lock is **released on all nodes**, and the extension is tried again. | Never shortens. Too few answers end nothing: [`Unconfirmed`](crate::ExtendError::Unconfirmed). |
//! | extension by itself | `using`, 500 ms before the end. The routine stands still while it extends, and is dropped if that fails. | At half of the validity, and again within what is left. |
//! | release | Returns nothing. Nodes that do not answer are not asked again. | [`Released`](crate::Released), [`NotHeld`](crate::UnlockError::NotHeld) or [`Unconfirmed`](crate::UnlockError::Unconfirmed); what is owed is sent later. |
//! | drop | Does nothing, of a lock and of a guard. | The drop of a guard releases. The drop of a plain [`Lock`](crate::Lock) does nothing. |
//! | cancellation | A future that is dropped leaves its keys until their ttl is over. | They are released. |
//! | loss | Not told. | `lost()`, `at_risk()`. |
//! | `is_freed` | Goes by one node; one that cannot be reached counts as "not there". `Ok(true)` never occurs: what is freed is an error. | `confirm` and `inspect` ask a majority. |
//! | fencing tokens | None. | [`LockOptions::fenced`](crate::LockOptions::fenced), on nodes that an operator has prepared. |
//! | locking twice | Fails after its tries. | Waits, and ends as [`Held`](crate::LockError::Held): [`is_held_here`](crate::Report::is_held_here) says why. |
//! | cluster | One cluster may be used, with the feature `cluster`. | Refused; [`hosted`](crate::manual::hosted) says why. |
//! | a node that restarts empty | Votes at once. | Does not vote for [`max_ttl`](crate::Builder::max_ttl), 60 s if that is not set. |
