//! Tests the public API of the library against real servers, in one binary.
//!
//! Each test starts its own `redis-server` (or `valkey-server`) processes on free loopback ports
//! and ends exactly those, also when it fails. A missing server binary fails the test with a
//! message that names `tests/run.sh`; no test is skipped in silence.
//!
//! A test reads keys from the servers over its own connection and with its own reply parser
//! ([`servers::Raw`]), not through the library.
//!
//! One file per group of stories; `servers/` holds what they share. The tests of the command
//! (`cli/tests/it`) share some of these modules.
#![expect(
    clippy::disallowed_methods,
    reason = "a test bounds its own waiting; it drives no engine by this clock"
)]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what a test does not expect, it fails on, whatever it is"
)]

#[macro_use]
#[path = "../../src/assert_matches.rs"]
mod assert_matches;
#[macro_use]
mod variants;

mod acl;
#[cfg(target_os = "linux")]
mod background;
mod canary;
mod effort;
mod executor;
mod face;
mod harness;
mod holders;
mod names;
mod namespaces;
mod orphans;
mod parts;
mod readme;
mod servers;

mod addresses;
mod auth;
#[cfg(feature = "embedded")]
mod clocks;
mod contract;
mod deadlines;
mod delay;
mod deleted;
mod drops;
mod elections;
#[cfg(feature = "embedded")]
mod embedded;
mod endings;
mod faults;
mod fencing;
mod fork;
mod frozen;
mod guard;
mod keep;
mod links;
mod permissions;
mod processes;
mod refusal;
mod restart;
mod scene;
mod secrets;
mod sets;
mod slow;
#[cfg(target_os = "linux")]
mod soak;
mod stalls;
mod strict;
#[cfg(target_os = "linux")]
mod suspend;
mod threads;
mod timed;
#[cfg(feature = "tls")]
mod tls;
mod troubles;
mod truth_table;
mod valkey;
mod waiting;
mod watch;
