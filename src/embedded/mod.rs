//! A small lock node in process, **for development, tests, demos and the simulator**. It is not a production server:
//! nothing is written to disk, nothing is replicated, and its only protection against hostile clients is a bound on
//! their buffers.
//!
//! An [`EmbeddedNode`] listens on the loopback interface, with a thread of its own. It can be stopped, restarted with
//! or without its memory, and stalled.
//!
//! It knows the commands and the scripts that this library uses, and a few more that tests use. It answers them byte
//! for byte as `redis-server` 7.0.15 does, except that of an error only the first word is the same: a test sends the
//! same random commands to both (`tests/it/embedded.rs`). Its pushes are also the same as the server's. Only tests of
//! this library choose another *flavour*: Valkey 8.1, 9.0 and 9.1 are compared with their servers in the same way. (The
//! exception is `AUTH` on 8.1.1, which does not answer a refused one behind other commands.) One flavour is a server of
//! a service, or behind a proxy, that knows neither `CLIENT` nor `INFO`. One is a Redis 8.4 **from its documentation
//! alone**: `DELEX`, `SET .. IFEQ` and `MSETEX` of Redis were not compared with a server. These tests can also make a
//! node refuse commands, for example scripts, as for a user without `+@scripting`.
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
//!   `ZADD`, `ZRANGE`, `FLUSHALL`. By the flavour, `SET .. IFEQ`, `DELIFEQ`, `DELEX .. IFEQ` and `MSETEX`.
//! * Transactions: `WATCH`, `MULTI`, `EXEC`, `DISCARD`.
//! * Scripts: `EVAL`, `EVALSHA`, `SCRIPT LOAD`, `SCRIPT FLUSH`.
//! * On the connection: `HELLO`, `AUTH`, `SELECT`, `PING`, `CLIENT SETNAME`, `SETINFO`.
//! * For clients that wait for a key: `CLIENT TRACKING ON OPTIN NOLOOP`, `CLIENT TRACKING OFF`, `CLIENT CACHING YES`.
//!   The next change of a key that was read after `CACHING YES` is pushed to that connection once, if it speaks RESP3
//!   (`HELLO 3`), as by a server. The change may be a command of any other client, or the end of the key.
//! * On the node: `INFO`, `TIME`.
//!
//! # Where it differs from the server
//!
//! * Only the scripts of this library and the commands listed here are accepted; all others are refused.
//! * Commands are arrays of bulk strings. The inline spelling (for people with `telnet`) and malformed commands end the
//!   connection with a `Protocol error` in our own words.
//! * `INFO` has three sections (`server`, `memory`, `replication`) with few fields.
//! * `CLIENT SETINFO` is accepted, as by newer servers. The name of a client may have any characters.
//! * `PXAT` of `SET` is a time on the store's own clock, which is not the wall clock. It always shows a time later than
//!   the year 2000.
//! * `ZADD` accepts no options, and `ZRANGE` lists all members only (`0 -1`). `SET` and `PEXPIRE` accept only the
//!   options above, each once. A script is refused if it gets fewer keys or arguments than the library sends.
//! * A key whose time is over is removed when it is next read. While a key is registered for a push, a node looks for
//!   such keys ten times a second, in all databases.
//! * `CLIENT TRACKING ON` takes `OPTIN NOLOOP`, and nothing else.
//! * A client that leaves 2 MiB unread is closed at the next push.

// The files stand in layers. None imports from a higher layer, and no two import from each other:
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
