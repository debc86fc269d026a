//! A distributed lock: the Redlock algorithm over N independent Redis or Valkey masters. The library has its own
//! protocol engine and event loop, and needs no async runtime.
//!
//! ```no_run
//! use std::time::Duration;
//! use shearline::{LockError, Redlock};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
//!
//!     // If another client has it, this waits for up to five seconds.
//!     let mut lock = match redlock.lock("invoice:42", Duration::from_secs(10)) {
//!         Ok(lock) => lock,
//!         Err(LockError::Held(_)) => return Ok(()), // another client is still at work
//!         Err(error) => return Err(format!("{error:#}").into()), // what each node said, and what to do
//!     };
//!     println!("ours for {:?}", lock.validity());
//!     lock.extend(Duration::from_secs(10))?; // an error means: stop, unless it is `Unconfirmed`
//!     lock.unlock()?; // dropping it releases too, and does not wait
//!     Ok(())
//! }
//! ```
//!
//! # What it guarantees
//!
//! * **Exclusion.** No two clients hold a *valid* lock on one resource, if a majority of the nodes keeps its keys,
//!   no clock drifts more than allowed, and holders stop when their lock is no longer valid. If another client deletes
//!   the keys, the handle reports a [kept](manual::keeping) lock as lost two round trips later.
//! * **Honest validity.** The validity is measured from a time before the first byte was sent. So it ends early rather
//!   than late, and it also runs while the machine is suspended. A holder can read the remaining ttl from a majority
//!   with [`LockGuard::confirm`], even if it does not know when the lock expires.
//! * **No key left behind.** The handle releases every key that an attempt may have left on a node, even on a node that
//!   was silent for a while.
//! * **No waiting for slow nodes.** The answers of a majority decide, so dead and silent nodes cost no time.
//! * **Every outcome is typed**, and contains the answer of each node.
//!
//! # What it does not do
//!
//! The library cannot stop a holder that was paused between its check of the lock and its next action. Exclusion fails
//! if nodes forget keys and no client detects the loss. Locks are fair only among the callers of one handle, and they
//! are not reentrant. The page [`manual::guarantees`] lists the assumptions and the tests of each guarantee. The
//! page [`manual::choosing`] says when another tool is better than this lock.
//!
//! # The faces, and when to use which
//!
//! | face | use it for |
//! | --- | --- |
//! | [`Redlock`] | most programs: a handle for many threads, and futures for any executor |
//! | [`LocalRedlock`] | one thread that needs the lowest latency |
//! | [`Driver`] | programs with an event loop of their own: a descriptor and a deadline |
//! | [`engine::Engine`] | other transports, simulators, `no_std`: no I/O and no clock |
//!
//! # What they return
//!
//! | type | what it is |
//! | --- | --- |
//! | [`LockGuard`] | a lock of a [`Redlock`], with `extend`, `confirm` and `unlock`; released when it is dropped |
//! | [`Acquiring`] | the future of a [`LockGuard`], for any executor; dropping it releases what it won |
//! | [`Lost`] | the signal that a lock has ended: a future, and [`Lost::wait`] |
//! | [`AtRisk`] | the signal that a lock is about to end: a future, and [`AtRisk::wait`] |
//! | [`Health`] | how long a lock is valid, which nodes have it, and how its extensions went |
//! | [`Lock`] | a plain value: from a [`LocalRedlock`] or [`Driver`], or from a guard by [`LockGuard::into_lock`]; as bytes it goes to another process. Dropping it releases nothing |
//! | [`Released`] | the result of an unlock: on how many nodes the key was deleted |
//! | [`Inspection`] | who holds a resource, how long it is still held, and which nodes disagree |
//! | [`Breaking`], [`Broken`] | how to end the lock of another client, and the result |
//! | [`LockError`], [`ExtendError`], [`UnlockError`] | why an operation failed, with a [`Report`] of what each node said |
//! | [`Stats`] | what a handle has done and what it waits for: counts, and histograms of times ([`Histogram`]) |
//!
//! Operators use `Redlock::nodes` to see the state of each node, `check` to find faults, and `trust_node` and
//! `trust_nodes` to let new servers vote immediately.
//!
//! # Where everything lives
//!
//! The table lists the modules of `src` from top to bottom. A module uses only modules below it.
//!
//! | module | what it does |
//! | --- | --- |
//! | `shared` | [`Redlock`], its guards and futures: lets many threads and tasks use one engine, and wakes them. |
//! | `local` | [`LocalRedlock`]: drives the engine on the caller's own thread. |
//! | `trace` | The spans and events of the feature `tracing`; empty without it. |
//! | `serialized` | The objects of the feature `serde`. |
//! | `calls` | What both handles do in the same way for an operation: how it begins, and what its outcome becomes. |
//! | `embedded` | Lock nodes in this process, for tests, demos and the simulator. |
//! | `driver` | [`Driver`]: moves bytes between the engine and the sockets, encrypts, and looks host names up. The only part that waits. |
//! | [`engine`] | The algorithm over N nodes, as a state machine: begins, decides and ends every operation, and says what is sent next. |
//! | `node` | One connection: handshake, commands in flight, debts, and whether an answer counts. |
//! | `config` | [`Builder`] and what it builds: settings that are valid by construction, and the URLs of nodes. |
//! | `quorum` | Counts votes and computes validity. It alone makes a [`Lock`], from a proof of majority. |
//! | `timer` | The timing wheel: arms, cancels and fires timers. |
//! | `delay` | How much longer nodes keep the key of a lock than its holder may trust it. |
//! | `entry` | The names and the token of a lock, in the form in which they are sent. |
//! | [`resp`] | RESP2 and RESP3: turns bytes into values, and commands into bytes. Knows no lock and no node. |
//! | `keys` | Typed indices of nodes and records, which several modules pass on. |
//! | `invariant` | Reports a broken invariant: panics in tests, counts in release. |
//! | `clock`, `process`, `seed` | The only places that read a clock, detect a forked child, and get random bytes from the operating system. |
//! | `slab` | Records at fixed places, found by small keys. |
//! | `histogram` | [`Histogram`]: counts durations. |
//! | `error`, `limits`, `resource`, `time` | Errors, every bound with its reason, names and tokens, [`Instant`]. |
//! | `effort`, `assert_matches` | How much work the unit tests do, and an assertion that they use. |
//! | `internals` | More names for the simulator, the benches and the fuzz targets (a hidden feature). |
//! | `guards` | Names the checks on which safety depends, so that the simulator can take out each of them. |
//! | [`manual`] | The prose, from `docs`: start, recipes, operating, troubles, outcomes, permissions, the command, guarantees and why they hold. |
//!
//! Outside of `src`, the package `cli` is the `shearline` command ([`manual::command`]). `tests/it` runs the public API
//! against real servers, `tests/sim` runs whole engines in simulated worlds, and `bash tests/run.sh` runs the tests.
//!
//! # Features
//!
//! The feature `std` (default) adds sockets, the event loop and the handles, on Unix. Without `std` the core is
//! `no_std` with `alloc`, for targets with 64-bit atomics. The feature `embedded` adds nodes in this process, for tests
//! and demos. The feature `tls` adds support for nodes with `rediss://` URLs ([`manual::tls`]). With the feature
//! `tracing`, the library emits spans and events for subscribers of `tracing` ([`manual::tracing`]). With the feature
//! `serde`, programs can serialize [`Stats`], [`Inspection`] and [`NodeStatus`] as objects.
// Without `std`, some items are not built. Links to items that are not built lead to the list of features.
#![cfg_attr(not(feature = "std"), doc = "")]
#![cfg_attr(not(feature = "std"), doc = "[`Redlock`]: #features")]
#![cfg_attr(not(feature = "std"), doc = "[`LocalRedlock`]: #features")]
#![cfg_attr(not(feature = "std"), doc = "[`Driver`]: #features")]
#![cfg_attr(not(feature = "std"), doc = "[`LockGuard::confirm`]: #features")]
#![cfg_attr(not(feature = "std"), doc = "[`LockGuard`]: #features")]
#![cfg_attr(not(feature = "std"), doc = "[`LockGuard::into_lock`]: #features")]
#![cfg_attr(not(feature = "std"), doc = "[`Acquiring`]: #features")]
#![cfg_attr(not(feature = "std"), doc = "[`Lost`]: #features")]
#![cfg_attr(not(feature = "std"), doc = "[`Lost::wait`]: #features")]
#![cfg_attr(not(feature = "std"), doc = "[`AtRisk`]: #features")]
#![cfg_attr(not(feature = "std"), doc = "[`AtRisk::wait`]: #features")]
#![cfg_attr(not(feature = "std"), doc = "[`Health`]: #features")]
#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![cfg_attr(
    not(any(test, feature = "internals")),
    allow(unreachable_pub, unnameable_types, reason = "`internals` leads to it")
)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

#[cfg(test)]
#[macro_use]
mod assert_matches;
#[cfg(not(shearline_mutants))]
#[macro_use]
mod guards;
#[cfg(shearline_mutants)]
#[doc(hidden)]
#[macro_use]
pub mod guards;

// The leaf modules import only one another.
mod delay;
mod error;
mod histogram;
mod limits;
mod resource;
mod time;

mod config;
#[cfg(test)]
mod effort;
mod entry;
mod invariant;
mod keys;
mod slab;

pub mod engine;
mod node;

mod quorum;
pub mod resp;
mod timer;

#[cfg(feature = "std")]
mod calls;
#[cfg(feature = "std")]
mod clock;
#[cfg(feature = "std")]
mod driver;
#[cfg(feature = "std")]
mod local;
#[cfg(feature = "std")]
mod process;
#[cfg(feature = "std")]
mod seed;
#[cfg(feature = "serde")]
mod serialized;
#[cfg(feature = "std")]
mod shared;
#[cfg(all(feature = "std", not(feature = "tracing")))]
#[path = "no_trace.rs"]
mod trace;
#[cfg(feature = "tracing")]
mod trace;

#[cfg(feature = "embedded")]
pub mod embedded;

#[cfg(doc)]
pub mod manual;

/// Internal items for the simulator, the benches and the fuzz targets. Internal items may change in any release.
#[cfg(any(test, feature = "internals"))]
#[doc(hidden)]
pub mod internals;

#[cfg(feature = "tls")]
pub use config::TlsOptions;
pub use config::{Builder, Config, Credentials, LockOptions, NodeConfig, RestartGuard, Retry};
#[cfg(feature = "std")]
pub use driver::{BuildError, Driver, FromBytesError};
pub use engine::breaking::{Breaking, Broken};
#[doc(inline)]
pub use engine::contract::NodeStatus;
pub use engine::inspection::{Found, Holder, HolderKind, InspectedNode, Inspection};
pub use engine::operators::OperatorError;
#[doc(inline)]
pub use engine::stats::{Acquisitions, Extensions, NodeStats, Releases, Stats};
#[doc(inline)]
pub use error::{
    ConfigError, ExtendError, InvalidRequest, LinkError, LockError, NodeOutcome, NodeReport,
    Released, Report, ServerError, TrustError, UnlockError, Unusable,
};
pub use histogram::Histogram;
#[cfg(feature = "std")]
pub use local::{LocalRedlock, Observation};
#[doc(inline)]
pub use node::{NodeState, Waking};
pub use quorum::{Lock, LockId};
pub use resource::Token;
#[cfg(feature = "std")]
pub use shared::{
    Acquiring, AtRisk, Guard, Health, Leader, Leadership, LockGuard, LockLost, Lost, Observer,
    PermitGuard, Redlock, SharedGuard, Watch, WithLockError, held,
};
pub use time::Instant;

/// The programs in the README are compiled as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
