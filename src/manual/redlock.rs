//! The algorithm, from a vote to a lock.
//!
//! N masters, no replication between them. A lock is a key that a majority of them hold: q = N / 2
//! + 1 of the *configured* nodes, whether they can be reached or not. N = 1 is the plain lock on
//! one server and takes the same path.
//!
//! # Acquire
//!
//! `SET resource token NX PX ttl` goes to all nodes at once, before any reply is read. Each answer
//! is a vote:
//!
//! | answer | vote |
//! | --- | --- |
//! | `OK` | granted |
//! | nil | held by another |
//! | an error, a lost connection, no answer within the node timeout | none |
//!
//! The attempt ends when its outcome is certain: granted with the q-th grant, refused as soon as q
//! grants are out of reach. It does not wait for stragglers, but reads their answers later.
//!
//! A grant is not yet a lock. The validity is
//!
//! ```text
//! ttl - (now - time before the first byte was sent) - drift,    drift = ttl x 0.01 + 2 ms
//! ```
//!
//! and if nothing is left of it, there is no lock ([`LockError::TooSlow`]). It counts from before the
//! send, because the keys may have begun to age then.
//!
//! An attempt that gives no lock is released at once. The next one has a fresh token. Where others hold the
//! lock it follows when a majority may be free ([`waiting`](super::waiting)); where too few nodes
//! answered, after a random delay.
//!
//! # Extend
//!
//! A script raises the expiry where the key holds our token. It takes a majority, within the *old*
//! validity; the new one counts from before the send. A majority that says "missing" or "another's"
//! ends the lock at once ([`ExtendError::Lost`]). Too few answers change nothing
//! ([`ExtendError::Unconfirmed`]).
//!
//! # Confirm
//!
//! Another script asks for how long the key still has our token, and changes nothing. The q-th
//! largest answer is for how long a majority keeps it. Counted from before the send, less the drift,
//! it is the new end of the lock, whether that is later or earlier than before. So a lock whose
//! deadline is a time of another clock can be used again. A lock whose end was reported to its holder
//! cannot.
//!
//! # Release
//!
//! A script deletes the key where it holds our token. It goes to every node that *may* hold it: not
//! only to those that granted, but to each that was sent a `SET` and has not refused it for
//! certain. So also to a node that has not answered yet. Its connection is kept, and the release is
//! written behind the `SET`, because two connections have no order and closing one does not undo
//! what was sent on it. A node that cannot be reached is owed the release, and gets it before
//! anything else when it is back.
//!
//! The token is 20 random bytes, fresh for every attempt, and the label of [`Builder::owner`]
//! behind them, or that of the lock. If a fenced lock has a label, its fencing token stands in place of the last 12 of
//! the random bytes: a node takes the lock only if it gives just that number, so whoever sees the token on a majority
//! knows it.
//!
//! Where no scripts may be run, transactions and native commands do the same
//! ([`permissions`](super::permissions#without-scripts)).
//!
//! [`LockError::TooSlow`]: crate::LockError::TooSlow
//! [`ExtendError::Lost`]: crate::ExtendError::Lost
//! [`ExtendError::Unconfirmed`]: crate::ExtendError::Unconfirmed
//! [`Builder::owner`]: crate::Builder::owner
