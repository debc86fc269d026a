//! Joins releases that follow one another in the out buffer into one command.
//!
//! Each release enters the out buffer as a command of its own. [`Wire`](super::Wire) counts the releases at the end of
//! the buffer, called a row. The row is rewritten in place as a script that takes many keys, before another command
//! goes behind it or the socket is written to. A single release stays as it is. For 64 keys, a server needs two thirds
//! of the time that it needs for single releases.
//!
//! Among the commands in flight, a batch of releases works like a batch of renewals: see [`batch`](super::batch).
//!
//! # Guarantees
//!
//! * The commands keep their order.
//! * A release in a row is an ordinary command until the row ends: it takes the same room, and if the connection ends,
//!   it counts as not sent.
//!
//! # Not here
//!
//! Releases are sent one at a time to nodes with a native release and to nodes that have forgotten the script, and so
//! are repeated releases and releases of locks on several resources.

use alloc::vec::Vec;

use crate::limits::{BATCH_BYTES_MAX, ENTRY_BYTES_MAX};
use crate::node::script::RELEASE_EACH;

use super::batch::{begin_command, empty};
use super::in_flight::InFlight;
use super::outbox::Outbox;

/// The bytes of a release by digest before its key.
const HEAD: usize =
    b"*5\r\n$7\r\nEVALSHA\r\n$40\r\n\r\n$1\r\n1\r\n".len() + RELEASE_EACH.sha1.len();

/// Rewrites the last `count` commands, which are releases by digest, no more than fit into one command. `singles` is a
/// buffer for their bytes. This function leaves it as empty as it was.
#[cold]
#[inline(never)]
pub(super) fn join(
    count: usize,
    outbox: &mut Outbox,
    in_flight: &mut InFlight,
    singles: &mut Vec<u8>,
) {
    let (mut place, start) = in_flight.last(count);
    outbox.cut_off(start, singles);
    let mut rest = &singles[..];
    while !rest.is_empty() {
        let (count, len) = next_command(rest);
        let (commands, behind) = rest.split_at(len);
        let start = outbox.push_with(|out| match count {
            1 => out.extend_from_slice(commands),
            _ => write(out, count, commands),
        });
        place = in_flight.join(place, count, start, outbox.len_from(start));
        rest = behind;
    }
    empty(singles);
}

/// Returns how many of these releases go into the next command, and their length.
fn next_command(commands: &[u8]) -> (usize, usize) {
    let (mut count, mut bytes) = (0, 0);
    for (key, token) in each(commands) {
        if BATCH_BYTES_MAX < bytes + ENTRY_BYTES_MAX {
            break;
        }
        count += 1;
        bytes += key.len() + token.len();
    }
    (count, count * HEAD + bytes)
}

/// Writes one command for these releases.
fn write(out: &mut Vec<u8>, count: usize, commands: &[u8]) {
    begin_command(out, &RELEASE_EACH, count, 2 * count);
    for (key, _) in each(commands) {
        out.extend_from_slice(key);
    }
    for (_, token) in each(commands) {
        out.extend_from_slice(token);
    }
}

/// Returns the key and the token of each of these releases, as arguments in wire form.
fn each(mut commands: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    core::iter::from_fn(move || {
        let (key, behind) = split_argument(commands.get(HEAD..)?);
        let (token, behind) = split_argument(behind);
        commands = behind;
        Some((key, token))
    })
}

/// Splits these arguments in wire form behind the first one.
fn split_argument(arguments: &[u8]) -> (&[u8], &[u8]) {
    let digits = arguments[1..].iter().take_while(|byte| **byte != b'\r');
    let (mut header, mut len) = (b"$\r\n".len(), 0);
    for digit in digits {
        len = 10 * len + usize::from(digit - b'0');
        header += 1;
    }
    arguments.split_at(header + len + b"\r\n".len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Entry;
    use crate::keys::ClaimKey;
    use crate::limits::{RESOURCE_BYTES_MAX, TOKEN_BYTES_MAX};
    use crate::node::connection::Wire;
    use crate::node::recipes;
    use crate::node::request::{Dialect, Request};
    use crate::node::script::RELEASE;
    use crate::resp::command;
    use crate::slab::Slab;
    use crate::time::Instant;
    use alloc::string::ToString;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_row_is_written_as_the_general_encoder_writes_it(
            locks in vec(
                (vec(any::<u8>(), 0..=RESOURCE_BYTES_MAX), vec(any::<u8>(), 0..=TOKEN_BYTES_MAX)),
                1..6,
            ),
        ) {
            let (mut wire, mut slab) = (Wire::default(), Slab::new());
            for (name, token) in &locks {
                let (entry, mut single) = (Entry::new(Vec::new(), name, token), Vec::new());
                recipes::release(&mut single, &entry, Dialect::Sha1);
                let request = Request::Release {
                    claim: ClaimKey(slab.insert(())),
                    by: Dialect::Sha1,
                    is_taught: true,
                    repair: false,
                };
                wire.put_release(Instant::ZERO, request, &single);
            }
            let count = locks.len().to_string();
            let (script, count) = match locks.len() {
                1 => (RELEASE.sha1, "1"),
                _ => (RELEASE_EACH.sha1, &*count),
            };
            let head = [&b"EVALSHA"[..], script.as_bytes(), count.as_bytes()];
            let names = locks.iter().map(|(name, _)| &name[..]);
            let tokens = locks.iter().map(|(_, token)| &token[..]);
            let words: Vec<&[u8]> = head.into_iter().chain(names).chain(tokens).collect();
            let mut expected = Vec::new();
            command(&mut expected, &words);
            prop_assert_eq!(wire.offer(Instant::ZERO), Some(&expected[..]));
        }
    }
}
