//! A hostile server costs its node the connection, and does not affect the others.

use shearline::internals::LinkFault;
use shearline::{NodeOutcome, Unusable};

use super::story::{mischief, play};
use crate::parts::memory;
use crate::servers::{Mischief, Options};

/// How much more memory the whole process may use: far more than all tests need, and far less than a server that does
/// not stop sends in a second.
const MEMORY: u64 = 256 << 20;

/// Returns `true` if the protocol was broken, on the open connection or in the handshake of the next.
fn wrong(outcome: NodeOutcome) -> bool {
    outcome == NodeOutcome::Unreachable(LinkFault::Protocol.into())
        || outcome == NodeOutcome::Unusable(Unusable::NotRedis)
}

macro_rules! hostile {
    ($name:literal, $mischief:expr) => {
        mischief!($name, $mischief, Some(wrong))
    };
}

#[test]
fn announced_sizes_that_would_fill_the_memory_take_none() {
    let before = most_memory();
    play(
        &Options::redis(),
        &[
            hostile!("1 GiB", Mischief::Instead(b"$1073741824\r\n")),
            hostile!("2^63 - 1", Mischief::Instead(b"$9223372036854775807\r\n")),
            hostile!("array", Mischief::Instead(b"*1073741824\r\n")),
            hostile!("map", Mischief::Instead(b"%4294967295\r\n")),
            hostile!("push", Mischief::Instead(b">2147483647\r\n")),
        ],
    );
    assert_memory(before);
}

#[test]
fn endless_answers_take_no_memory() {
    let before = most_memory();
    play(
        &Options::redis(),
        &[
            hostile!("nesting", Mischief::Flood(b"*1\r\n")),
            hostile!("line", Mischief::Flood(b"+and so on ")),
            hostile!(
                "pushes",
                Mischief::Flood(b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n")
            ),
            hostile!("attributes", Mischief::Flood(b"|1\r\n+a\r\n+b\r\n")),
            hostile!("pieces", Mischief::Flood(b"$?\r\n;3\r\nabc\r\n")),
            hostile!("elements", Mischief::Flood(b"*4000\r\n+a\r\n+b\r\n+c\r\n")),
            hostile!("digits", Mischief::Flood(b":000000000")),
        ],
    );
    assert_memory(before);
}

fn assert_memory(before: u64) {
    let more = most_memory().saturating_sub(before);
    assert!(more < MEMORY, "{} MiB more than before", more >> 20);
}

/// Returns the most memory that this process has had so far, in bytes, or zero where there is no `/proc`.
fn most_memory() -> u64 {
    memory("VmHWM:").unwrap_or_default()
}
