//! Stories: the whole engine against nodes whose every byte the test writes.
//!
//! Time is a number that the test moves. A node says what the test makes it say, and the test reads what the engine
//! sends as commands. There is no socket, no clock and no sleep.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what a story does not expect, it fails on, whatever it is"
)]

mod acquire;
mod alarms;
mod batches;
mod bounds;
mod breaks;
mod calls;
mod chaos;
mod claims;
mod clocks;
mod confirm;
mod connections;
mod copies;
mod counters;
mod delay;
mod deleted;
mod expiry;
mod extend;
mod extensions;
mod fencing;
mod handover;
mod holders;
mod inspect;
mod keep;
mod memory;
#[cfg(feature = "embedded")]
mod net;
mod operators;
mod owners;
mod patience;
mod permissions;
mod permits;
mod probes;
#[cfg(feature = "embedded")]
mod programs;
mod queue;
mod release;
mod restarts;
mod room;
mod rows;
mod scenes;
mod scripts;
#[cfg(feature = "embedded")]
mod set_waits;
mod sets;
mod shared;
mod stats;
#[cfg(feature = "embedded")]
mod strict;
mod trust;
mod turns;
mod unwoken;
mod waits;
mod wake;
mod watch;
mod ways;
mod whole;
mod world;

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use core::ops::Range;
use core::time::Duration;

use super::contract::Cause;
use super::*;
use crate::config::LockOptions;
use crate::error::{
    ExtendError, InvalidRequest, LinkFault, LockError, NodeOutcome, RequestFault, UnlockError,
    Unusable,
};
use crate::resp::{Inbox, Value};
use calls::outcomes;
use world::{HELLO, VALKEY, World, digests, greeting, id, named, released_by, released_each};

const TTL: Duration = Duration::from_secs(10);
/// The longest validity of a lock of [`TTL`].
const VALIDITY: Duration = Duration::from_millis(9_898);
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// The first look at a key on a connection, and each later one.
const FIRST_LOOK: [&str; 3] = [
    "CLIENT TRACKING ON OPTIN NOLOOP",
    "CLIENT CACHING YES",
    "PTTL k",
];
const LOOK: [&str; 2] = ["CLIENT CACHING YES", "PTTL k"];

/// A node reports that the key `k` has changed, or all keys.
const PUSH: &str = ">2|$10|invalidate|*1|$1|k|";
const PUSH_ALL: &str = ">2|$10|invalidate|_|";

/// A user may not use a key, or run a script.
const NO_KEY: &str = "-NOPERM No permissions to access a key|";
const NO_EVAL: &str = "-NOPERM User u has no permissions to run the 'eval' command|";

/// The commands to a node that was sent nothing.
const NOTHING: [&str; 0] = [];

/// Returns options of a caller that makes one attempt.
fn once() -> LockOptions {
    LockOptions::new(TTL).tries(1)
}

/// Returns options of a caller that waits for as long as a story lasts.
fn patient() -> LockOptions {
    LockOptions::new(TTL).wait(Duration::from_secs(3600))
}
