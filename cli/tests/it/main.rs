//! Tests of the command against real servers, as one binary. They run the command as a script or a person does.
#![expect(
    clippy::disallowed_methods,
    reason = "a test bounds its own waiting; it drives no engine by this clock"
)]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what a test does not expect, it fails on, whatever it is"
)]

#[macro_use]
mod library;

mod command;
mod demo;

use library::{acl, canary, effort, executor, face, namespaces, parts, servers, variants};
