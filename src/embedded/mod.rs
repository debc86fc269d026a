//! A small lock node in process, **for development, tests, demos and the simulator**. It is no
//! production server: nothing is written to disk, nothing is replicated, and against hostile
//! clients it only bounds their buffers.
//!
//! An [`EmbeddedNode`] listens on the loopback interface, with a thread of its own. It can be stopped,
//! restarted with or without its memory, and stalled.
//!
//! It knows the commands and the scripts that this library uses, and a few more that tests use. It
//! answers them byte for byte as `redis-server` 7.0.15 does, errors included: a test sends the same
//! random commands to both (`tests/it/embedded.rs`). Pushes are the server's too. Only tests of this
//! library choose another *flavour*: Valkey 8.1, 9.0 and 9.1 are held against their servers in the same
//! way. (But for `AUTH` on 8.1.1, which does not answer a refused one behind other commands.) One flavour is
//! a server of a service, or behind a proxy, that knows neither `CLIENT` nor `INFO`, and one is a Redis 8.4
//! **from its documentation alone**: `DELEX`, `SET .. IFEQ` and `MSETEX` of Redis were not compared with a
//! server. These tests can also tell a node to refuse commands: scripts, for one, as a user without
//! `+@scripting` is refused them.
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
//! * On keys: `SET` (`NX`, `XX`, `GET`, `PX`, `EX`, `PXAT`, `EXAT`, `KEEPTTL`), `GET`, `DEL`,
//!   `EXISTS`, `PTTL`, `PEXPIRE`, `SETNX`, `GETSET`, `LPUSH`, `DBSIZE`, `FLUSHALL`, `FLUSHDB`. By the
//!   flavour, `SET .. IFEQ`, `DELIFEQ`, `DELEX .. IFEQ` and `MSETEX`.
//! * Transactions: `WATCH`, `UNWATCH`, `MULTI`, `EXEC`, `DISCARD`.
//! * Scripts: `EVAL`, `EVALSHA`, `SCRIPT LOAD`, `EXISTS`, `FLUSH`.
//! * On the connection: `HELLO`, `AUTH`, `SELECT`, `PING`, `CLIENT ID`, `SETNAME`, `GETNAME`,
//!   `SETINFO`.
//! * For clients that wait for a key: `CLIENT TRACKING ON OPTIN NOLOOP`, `CLIENT TRACKING OFF`,
//!   `CLIENT CACHING YES`. The next change of a key that was read after `CACHING YES` is pushed to
//!   that connection once, if it speaks RESP3 (`HELLO 3`), as a server would. Any other client may
//!   have made it, or the key has ended by itself.
//! * On the node: `INFO`, `TIME`.
//!
//! # Where it differs from the server
//!
//! * Any script that is not this library's is refused, and so is any command that is not needed
//!   here.
//! * Commands are arrays of bulk strings; the inline spelling (for people with `telnet`) and a
//!   malformed command end the connection with a `Protocol error` of our own wording.
//! * `INFO` has three sections (`server`, `memory`, `replication`) with few fields.
//! * `CLIENT SETINFO` is accepted, as by newer servers.
//! * `EXAT` and `PXAT` of `SET` are times on the store's own clock, which is not that of the wall. It
//!   always shows more than a year 2000 would.
//! * `DELEX` takes no other condition than `IFEQ`.
//! * At most 4,096 commands stand between `MULTI` and `EXEC`.
//! * A key whose time is over is removed when it is next read, and not before. While a key is
//!   registered for a push, a node looks for such keys ten times a second, in all databases.
//! * `CLIENT TRACKING ON` takes `OPTIN` and `NOLOOP`, both, and no other option: the rest is refused.
//! * At most 65,536 keys are registered, each for each client counted. One more, and a push ends the
//!   registrations of another key. A client that leaves 2 MiB unread is closed at the next push.

mod call;
mod clients;
mod commands;
mod connection;
pub(crate) mod flavour;
mod info;
mod keyspace;
mod known;
pub(crate) mod node;
mod queue;
mod refusal;
mod reply;
mod scripts;
mod serve;
pub(crate) mod session;
pub(crate) mod state;
pub(crate) mod store;
mod strings;
mod tracking;
mod transactions;
mod watches;

pub use node::EmbeddedNode;
pub use store::Memory;

#[cfg(test)]
mod tests;
