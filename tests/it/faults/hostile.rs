//! A hostile server costs its node the connection, and does not affect the others.

use super::story::{Fault, play};
use crate::parts::memory;
use crate::servers::Mischief::{self, Flood, Instead};
use crate::servers::Options;

/// How much more memory the whole process may use: far more than all tests need, and far less than a server that does
/// not stop sends in a second.
const MEMORY: u64 = 256 << 20;

/// Plays servers that send such bytes. The protocol is broken on the open connection, or in the handshake of the next.
fn hostile(faults: &[(&str, Mischief)]) {
    let before = most_memory();
    let says = "Unreachable(LinkError(Protocol)) | Unusable(NotRedis)";
    let faults = faults.iter();
    let faults = faults.map(|(name, mischief)| Fault::of_relay(name, says, *mischief));
    play(&Options::redis(), &faults.collect::<Vec<_>>());
    let more = most_memory().saturating_sub(before);
    assert!(more < MEMORY, "{} MiB more than before", more >> 20);
}

#[test]
fn announced_sizes_that_would_fill_the_memory_take_none() {
    hostile(&[
        ("1 GiB", Instead(b"$1073741824\r\n")),
        ("2^63 - 1", Instead(b"$9223372036854775807\r\n")),
        ("array", Instead(b"*1073741824\r\n")),
        ("map", Instead(b"%4294967295\r\n")),
        ("push", Instead(b">2147483647\r\n")),
    ]);
}

#[test]
fn endless_answers_take_no_memory() {
    hostile(&[
        ("nesting", Flood(b"*1\r\n")),
        ("line", Flood(b"+and so on ")),
        (
            "pushes",
            Flood(b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"),
        ),
        ("attributes", Flood(b"|1\r\n+a\r\n+b\r\n")),
        ("pieces", Flood(b"$?\r\n;3\r\nabc\r\n")),
        ("elements", Flood(b"*4000\r\n+a\r\n+b\r\n+c\r\n")),
        ("digits", Flood(b":000000000")),
    ]);
}

/// Returns the most memory that this process has had so far, in bytes, or zero where there is no `/proc`.
fn most_memory() -> u64 {
    memory("VmHWM:").unwrap_or_default()
}
