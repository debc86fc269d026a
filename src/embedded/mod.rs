//! A small lock node inside your process, **for development, tests, demos and the simulator**. An embedded node is not
//! a production server: it writes nothing to disk, replicates nothing, and limits no memory except the buffers of its
//! connections.
//!
//! An [`EmbeddedNode`] listens on the loopback interface, on its own thread. A test can stop the node, restart it with
//! or without its memory, and stall it.
//!
//! An embedded node runs the commands and scripts that this library uses, and a few more commands for tests. The node
//! sends the same replies and pushes as `redis-server` 7.0.15, byte for byte. Only error texts may differ, and only
//! after the first word. A test sends the same random commands to both (`tests/it/embedded.rs`).
//!
//! The tests of this library can also choose another *flavour*. The flavours for Valkey 8.1, 9.0 and 9.1 are compared
//! with their servers in the same way. (The exception is `AUTH` on 8.1.1: that server does not answer a refused `AUTH`
//! that follows other commands.) The flavour for Redis 8.4 is written **from its documentation alone**: `DELEX`,
//! `MSETEX` and the option `IFEQ` of `SET` were not compared with a server. Another flavour has neither `CLIENT` nor
//! `INFO`, like a hosted service or a proxy. The tests can also make a node refuse commands, for example scripts, as
//! for a user without `+@scripting`.
//!
//! ```
//! use shearline::embedded::EmbeddedNode;
//!
//! let node = EmbeddedNode::spawn()?;
//! println!("a lock node at {}", node.url());
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # The commands
//!
//! * On keys: `SET` (`NX`, `XX`, `PX`, `PXAT`, `KEEPTTL`), `GET`, `DEL`, `PTTL`, `PEXPIRE` (`LT`), `SETNX`, `GETSET`,
//!   `ZADD`, `ZRANGE`, `FLUSHALL`. Some flavours also have `SET` with `IFEQ`, `DELIFEQ`, `DELEX` with `IFEQ`, and
//!   `MSETEX`.
//! * Transactions: `WATCH`, `MULTI`, `EXEC`, `DISCARD`.
//! * Scripts: `EVAL`, `EVALSHA`, `SCRIPT LOAD`, `SCRIPT FLUSH`.
//! * On the connection: `HELLO`, `AUTH`, `SELECT`, `PING`, `CLIENT SETNAME`, `SETINFO`.
//! * For clients that wait for a key: `CLIENT TRACKING ON OPTIN NOLOOP`, `CLIENT TRACKING OFF`, `CLIENT CACHING YES`.
//!   If the client uses RESP3 (`HELLO 3`), the node pushes one change for each key that the client has read after
//!   `CACHING YES`. A command of another client or the expiry of the key counts as a change.
//! * On the node: `INFO`, `TIME`.
//!
//! # Where it differs from the server
//!
//! * The node runs only this library's scripts and the commands listed here, and refuses all others.
//! * Commands are arrays of bulk strings. Inline commands (as typed into `telnet`) and malformed commands end the
//!   connection with a `Protocol error`, whose text differs from the server's.
//! * `INFO` has three sections (`server`, `memory`, `replication`) with few fields.
//! * The node accepts `CLIENT SETINFO`, like newer servers. The name of a client may have any characters.
//! * `PXAT` of `SET` is a time on the store's own clock, which is not the wall clock. The store's clock always shows a
//!   time later than the year 2000.
//! * `ZADD` accepts no options, and `ZRANGE` lists all members only (`0 -1`). `SET` and `PEXPIRE` accept only the
//!   options above, each once. The node refuses a script that gets fewer keys or arguments than the library sends.
//! * The node removes an expired key at the next access. While a key is registered for a push, the node also looks for
//!   expired keys ten times a second, in all databases.
//! * `CLIENT TRACKING ON` accepts only `OPTIN NOLOOP`.
//! * If a client has left 2 MiB unread when the next push comes, the node closes its connection.

// The files form layers. No file imports from a higher layer, and no two files import from each other:
//
//   node · serve · connection                        threads, sockets, buffers
//   commands                                         looks a command up and runs it, also for `EXEC`
//   strings · transactions · scripts · info          what each command does
//   call                                             a command that is being executed, and its steps on keys
//   store                                            all that a node knows
//   keyspace · tracking · watches                    keys, and the clients that a change concerns
//   session · flavour · reply · refusal              plain data

mod call;
mod commands;
mod connection;
pub(crate) mod flavour;
mod info;
mod keyspace;
pub(crate) mod node;
mod refusal;
mod reply;
mod scripts;
mod serve;
pub(crate) mod session;
pub(crate) mod store;
mod strings;
mod tracking;
mod transactions;
mod watches;

pub use node::EmbeddedNode;
pub use store::Memory;

#[cfg(test)]
mod tests;
