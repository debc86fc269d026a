//! From Redisson (Java).
//!
//! Read in its [documentation](https://redisson.pro/docs/data-and-services/locks-and-synchronizers/) and in its
//! [source of 2026](https://github.com/redisson/redisson), package `org.redisson`: `RedissonBaseLock`,
//! `RedissonMultiLock`, `renewal`.
//!
//! `RLock` is a lock on **one** deployment: one server, a master with replicas, or a cluster. Its counterpart
//! here is a handle with one node. `RedissonRedLock`, over several deployments, is deprecated there.
//!
//! There:
//!
//! ```java
//! RLock lock = redisson.getLock("invoice:42");
//! if (lock.tryLock(3, TimeUnit.SECONDS)) { // waits for 3 s; the watchdog keeps the lock
//!     try {
//!         printInvoice();
//!     } finally {
//!         lock.unlock();
//!     }
//! }
//! ```
//!
//! Here:
//!
//! ```no_run
//! use std::time::Duration;
//! use shearline::{LockError, LockOptions, Redlock};
//!
//! # fn print_invoice() {}
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // One node, or better three that know nothing of each other.
//! let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
//! let kept = LockOptions::new(Duration::from_secs(30)).wait(Duration::from_secs(3)).keep();
//! match redlock.lock_with("invoice:42", &kept) {
//!     Ok(lock) => {
//!         print_invoice();
//!         lock.unlock()?; // The drop of the lock releases it too: no `finally`.
//!     }
//!     Err(LockError::Held(_)) => {}
//!     Err(error) => return Err(error.into()),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | there | here |
//! | --- | --- |
//! | `Redisson.create(config)` | `Redlock::connect(urls)`, `Redlock::builder()` |
//! | `getLock(name)` | Nothing: the name is given to each call. |
//! | `lock()` | [`LockOptions::wait`](crate::LockOptions::wait) with `Duration::MAX`, and [`keep`](crate::LockOptions::keep) |
//! | `lock(leaseTime, unit)` | the same without `keep` |
//! | `tryLock()`, `tryLock(wait, lease, unit)` | `try_lock`; `lock_with` and `wait` |
//! | `lockAsync`, reactive and Rx interfaces | `lock_async`, `lock_with_async` |
//! | `unlock()` | `unlock()`, or the drop of the guard |
//! | `lockWatchdogTimeout` (30 s) | the ttl of a kept lock |
//! | `remainTimeToLive()`, `isHeldByCurrentThread()` | `validity()` asks nobody, `confirm()` asks the nodes |
//! | `isLocked()` | `Redlock::inspect` |
//! | `forceUnlock()` | Nothing. An operator deletes the key. |
//! | `getMultiLock(a, b)` | `lock_all` |
//! | `getFairLock` | Callers of one handle are served in their order; between handles no order is promised ([`waiting`](crate::manual::waiting)). |
//! | `getFencedLock` | [`LockOptions::fenced`](crate::LockOptions::fenced), on nodes that an operator has prepared. |
//! | `getReadWriteLock`, semaphores, latches | None. |
//!
//! # What differs in meaning
//!
//! | | Redisson | here |
//! | --- | --- | --- |
//! | ttl | Without a lease time 30 s, extended at every third of it. With one, the lock ends by itself. | Always given. Extended only with [`keep`](crate::LockOptions::keep), at half of the validity; [`keep_for`](crate::LockOptions::keep_for) limits that. |
//! | validity | The client computes none: you ask the server. | Known to the client, from before the first byte was sent. |
//! | waiting | Told by a message that the releasing client publishes, and by the end of the expiry. A key that is deleted in another way wakes nobody. | Told by the nodes, whoever released the lock and how ([`waiting`](crate::manual::waiting)). |
//! | locking twice | The same thread may, and has to unlock as often. | Waits, and ends as [`Held`](crate::LockError::Held): [`is_held_here`](crate::Report::is_held_here) says why. Pass the guard on instead. |
//! | who may unlock | The thread that locked; others get an `IllegalMonitorStateException`. | Whoever has the guard: it can be sent to another thread. |
//! | release of a lock that is over | The same exception. | [`NotHeld`](crate::UnlockError::NotHeld), a value. |
//! | loss | An extension that fails is logged, and newer versions call a listener (`LockRenewalFailureListener`). Nothing is tied to the end of the expiry. | `lost()` and `at_risk()`, by a timer. |
//! | failure of the server | A replica takes its place. After each acquisition Redisson asks whether the replicas have the lock (`checkLockSyncedSlaves`, on by default). | No replicas: a majority of independent nodes ([`choosing`](crate::manual::choosing#one-node-or-a-quorum)). |
//! | several resources | `MultiLock` takes one after the other. | One step on each node. |
//! | `RedissonRedLock` | Asks the nodes one after the other, does not subtract the time that this takes, and sets the expiry of the keys at the end without looking whose they are. | As the [algorithm](crate::manual::redlock) says. |
//!
//! A lock of Redisson is a hash, one of ours a string. On the same key they keep each other out in an ugly way:
//! ours is refused while theirs is there, and theirs ends in an exception (`WRONGTYPE`) while ours is. Give
//! them different names.
