//! The public faces of the library against real servers, as one binary.
//!
//! Each test starts its own `redis-server` (or `valkey-server`) processes on free loopback ports
//! and ends exactly those, also when it fails. A missing server binary fails the test with a
//! message that names `tests/run.sh`; no test is skipped in silence.
//!
//! What a test says about keys it learned from the servers, over a connection of its own and with
//! a reply parser of its own ([`servers::Raw`]), not from the library.
//!
//! One file per group of stories; `servers/` holds what they share.
#![expect(
    clippy::disallowed_methods,
    reason = "a test bounds its own waiting; it drives no engine by this clock"
)]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what a test does not expect, it fails on, whatever it is"
)]

// faces: mod executor;
// faces: mod face;
mod harness;
mod readme;
mod servers;

// faces: mod addresses;
// faces: mod auth;
// faces: mod deadlines;
// faces: mod drops;
// faces: mod extend;
// faces: mod frozen;
// faces: mod invalid;
// faces: mod names;
// faces: mod processes;
// faces: mod refusal;
// faces: mod restart;
// faces: mod scripts;
// faces: mod slow;
// faces: mod threads;
// faces: mod truth_table;
// faces: mod unlock;
// faces: mod valkey;
