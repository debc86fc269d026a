//! How to run the masters: the short form of the README's chapter.
//!
//! * Three or five masters on separate machines. No replicas, no Sentinel, no cluster, no server
//!   twice.
//! * They must not forget: every client knows the longest ttl that any of them uses
//!   ([`Builder::max_ttl`](crate::Builder::max_ttl)) and keeps a node that restarted from voting for
//!   so long; or they write every lock to disk first, `appendonly yes` with `appendfsync always`, and
//!   the [`RestartGuard`](crate::RestartGuard) is off.
//! * Or the nodes say it themselves: [`RestartGuard::Strict`](crate::RestartGuard::Strict) on all
//!   clients. See [below](#nodes-that-carry-markers).
//! * `maxmemory-policy noeviction`.
//! * Clocks are slewed, not stepped, while the servers run.
//! * Every client names the same nodes. To change them, stop all clients for the longest ttl.
//!
//! # Permissions
//!
//! This is all that a user needs; a test holds it against real servers
//! (`readme::the_acl_line_suffices_and_is_the_least`).
//!
//! ```text
//! ACL SETUSER locker on >secret ~lock:* +set +get +del +pttl +pexpire +eval +evalsha +script|load +info +time
//! ```
//!
//! and in addition, with [`RestartGuard::Strict`](crate::RestartGuard::Strict)
//! (`readme::the_acl_line_of_a_strict_guard_suffices_and_is_the_least`; there `+info` is needed):
//!
//! ```text
//! ACL SETUSER locker ~shearline:* +config|get
//! ```
//!
//! `~lock:*` are the names it may lock. Without `+info` two addresses of one server are not found
//! out, and no restart is noticed; without `+script|load` scripts travel as text. Add `+select` for a database other than 0.
//!
//! # Nodes that carry markers
//!
//! * **First use.** The nodes have no markers, which looks like a `FLUSHALL`: nobody gets a lock for
//!   [`max_ttl`](crate::Builder::max_ttl). If nobody holds one, say so, once, from any client:
//!   `Redlock::trust_nodes`.
//! * **The longest ttl.** The same for all clients. Who comes with a longer one makes all wait for it;
//!   it can be made shorter by a `Redlock::reinit` alone.
//! * **Another number of nodes, or another name.** Stop the old clients, or let them be refused; run
//!   `Redlock::reinit` with the new configuration until it is `Ok`; start the
//!   new ones. For the longest ttl of both nobody gets a lock.
//! * **`GET shearline:marker`** tells on any node: version, `run_id`, longest ttl in milliseconds, nodes,
//!   majority, whether it loses nothing in a restart, name. **`PTTL shearline:barrier`** tells for how
//!   long it does not count; -2: it does.
//! * **A restart without waiting** needs a server that has shown that it writes every change to disk
//!   first: `appendonly yes`, `appendfsync always`, `no-appendfsync-on-rewrite no`, no replicas. Do not
//!   change these by `CONFIG SET`, and do not put the data directory back from a copy: the marker in it
//!   would say that nothing was lost.
//!
//! # Who holds a lock
//!
//! The resource name is the key, and the token ends with the label of
//! [`Builder::owner`](crate::Builder::owner): `GET lock:invoice` on any node tells it, `PTTL` for
//! how long. Deleting the key by hand on a majority takes the lock away from its holder, who learns
//! of it at the next extension.
