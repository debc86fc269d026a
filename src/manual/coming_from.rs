//! For people who come from another lock: what you write there, what you write here, what differs.
//!
//! | you use | in | page |
//! | --- | --- | --- |
//! | redsync | Go | [`redsync`] |
//! | node-redlock (`redlock` on npm) | JavaScript | [`node_redlock`] |
//! | redlock-py | Python | [`redlock_py`] |
//! | rslock | Rust | [`rslock`] |
//! | Redisson (`RLock`) | Java | [`redisson`] |
//! | `consul lock` | shell | [`consul_lock`] |
//! | `flock` | shell | [`flock`] |
//!
//! What these pages say of another program was read in its source, and each page names the version. What was also
//! run is named on the page. Programs change: if one does something else today, believe it and not the page.
//!
//! # The same things under other names
//!
//! | elsewhere | here |
//! | --- | --- |
//! | expiry, duration, lease time | ttl |
//! | value, val, key (of redlock-py) | [token](crate::Token) |
//! | until, expiration, validity time | validity: `LockGuard::validity`, `Lock::validity` |
//! | mutex name, resource | resource: the Redis key, without a prefix |
//! | tries, retry count | [`Retry::new`](crate::Retry::new), [`LockOptions::tries`](crate::LockOptions::tries) |
//! | retry delay and jitter | [`Retry::new`](crate::Retry::new); of less use here, because waiters are woken |
//! | drift factor | [`Builder::drift`](crate::Builder::drift) |
//! | watchdog, auto-extension, `using` | [`LockOptions::keep`](crate::LockOptions::keep) |
//! | try lock, retry count 0 | `try_lock` |
//! | "could not achieve a quorum" | [`LockError::Held`](crate::LockError::Held) if another has the lock, [`LockError::NoQuorum`](crate::LockError::NoQuorum) if too few nodes answered |
//!
//! # What is different from the Redlock libraries
//!
//! None of the first four does all of this:
//!
//! * **The end of a lock is told by a timer.** `LockGuard::lost` and `at_risk` come in time when every node is
//!   silent, too.
//! * **A majority decides, and nothing is left on the others.** No call waits for a slow node, and the release for
//!   that node is sent behind its `SET` on the same connection.
//! * **A node that restarted does not vote** until the locks that it may have forgotten are over
//!   ([`RestartGuard`](crate::RestartGuard)). This is why there is no lock for a while after you have started
//!   all nodes at once, if [`max_ttl`](crate::Builder::max_ttl) is set: call `Redlock::trust_nodes`.
//! * **Every attempt has its own token**, so a retry is never refused because of a key of the same call.
//! * **An extension that fails ends nothing.** The lock is valid until its old end.
//!
//! # While both are in use
//!
//! A program that changes over is not changed everywhere in one moment. redsync, node-redlock, redlock-py and
//! rslock take a lock on each node as this library does: a key with the name of the resource, set only if
//! it is not there, with a random value and an expiry. So locks of theirs and locks of ours keep each other out
//! (tried by hand, in both directions, with all of them but redsync), provided that
//!
//! 1. both use the same nodes, all of them, and the same database on each;
//! 2. the names are the same byte for byte (look for a prefix that the other side's Redis client adds);
//! 3. a node that restarts stays down for the longest ttl of both, because the others do not keep it from
//!    voting ([`operating`](super::operating#restarts-must-not-forget), number 4). For the same reason
//!    `RestartGuard::Strict` has to wait until all have changed over.
//!
//! Our waiters are woken by their releases as by ours (tried with the same three). Their waiters look from time to time as before, and
//! get the lock more rarely when the two compete.
//!
//! Redisson keeps locks as hashes, Consul has servers of its own, and `flock` has files: these do not keep ours
//! out. Stop the old programs before you start the new ones, or take both locks for a while, in the same order
//! everywhere.

pub mod consul_lock;
pub mod flock;
pub mod node_redlock;
pub mod redisson;
pub mod redlock_py;
pub mod redsync;
pub mod rslock;
