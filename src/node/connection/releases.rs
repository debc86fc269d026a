//! Joins consecutive releases into one command.
//!
//! The first of several consecutive releases enters the out buffer as an ordinary command. When a second release
//! follows, both of them and all later releases go into a [`Row`]. The row is written as one script that takes many
//! keys. The row is written as soon as another command follows, or before the driver writes to the socket. In a
//! measurement with 64 keys, a server needed a third less time for one script than for single releases.
//!
//! Among the commands in flight, a batch of releases works like a batch of renewals: see [`batch`](super::batch).
//!
//! # Guarantees
//!
//! * The commands keep their order.
//! * Until a [`Row`] is written, each release in it counts as an ordinary command. If the connection ends before
//!   the [`Row`] is written, its releases count as not sent.
//!
//! # Not here
//!
//! Releases are sent one at a time to nodes with a native release and to nodes that have forgotten the script. Repeated
//! releases and releases of locks on several resources are also sent one at a time.

use alloc::vec::Vec;

use crate::limits::{BATCH_BYTES_MAX, BATCH_MAX, ENTRY_BYTES_MAX};
use crate::node::script::RELEASE_EACH;

use super::batch::{begin_command, empty};
use super::in_flight::InFlight;
use super::outbox::Outbox;

/// The bytes that come before the key in a release by digest.
const HEAD: usize =
    b"*5\r\n$7\r\nEVALSHA\r\n$40\r\n\r\n$1\r\n1\r\n".len() + RELEASE_EACH.sha1.len();

/// The releases since the last command of another kind.
#[derive(Debug, Default)]
pub(super) struct Row {
    count: usize,
    /// The length of the first release's key. The first release stays in the out buffer until a second release follows.
    first_key: usize,
    /// The keys and the tokens of all releases, as arguments in wire form.
    keys: Vec<u8>,
    tokens: Vec<u8>,
}

impl Row {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns `true` if another release would make the command too long.
    pub(super) fn is_full(&self) -> bool {
        self.count == BATCH_MAX || BATCH_BYTES_MAX < self.bytes() + ENTRY_BYTES_MAX
    }

    /// Returns the number of bytes that are not in the out buffer yet.
    pub(super) fn bytes(&self) -> usize {
        self.keys.len() + self.tokens.len()
    }

    /// Begins the row with a release that enters the out buffer.
    #[inline(always)]
    pub(super) fn begin(&mut self, key: &[u8]) {
        (self.count, self.first_key) = (1, key.len());
    }

    /// Adds a release. The caller then adds the command in flight for this release. Returns `false` if the release
    /// cannot be joined with others.
    pub(super) fn add(
        &mut self,
        key: &[u8],
        token: &[u8],
        outbox: &mut Outbox,
        in_flight: &mut InFlight,
    ) -> bool {
        if self.count == 0 {
            return false;
        }
        if self.count == 1 {
            let Some(start) = in_flight.begin_row(|start| outbox.is_unsent(start)) else {
                return false;
            };
            let first = &outbox.bytes_from(start)[HEAD..];
            let (key, token) = first.split_at(self.first_key);
            self.keys.extend_from_slice(key);
            self.tokens.extend_from_slice(token);
            outbox.cut_off(start);
        }
        self.count += 1;
        self.keys.extend_from_slice(key);
        self.tokens.extend_from_slice(token);
        true
    }

    /// Ends the row, and puts its releases into the out buffer. A single release is already in the out buffer.
    #[inline(always)]
    pub(super) fn end(&mut self, outbox: &mut Outbox, in_flight: &mut InFlight) {
        match self.count {
            0 | 1 => self.count = 0,
            _ => self.write(outbox, in_flight),
        }
    }

    #[cold]
    #[inline(never)]
    fn write(&mut self, outbox: &mut Outbox, in_flight: &mut InFlight) {
        outbox.push_with(|out| {
            begin_command(out, &RELEASE_EACH, self.count, 2 * self.count);
            out.extend_from_slice(&self.keys);
            out.extend_from_slice(&self.tokens);
        });
        in_flight.end_row(self.count);
        self.clear();
    }

    /// Forgets all releases.
    pub(super) fn clear(&mut self) {
        self.count = 0;
        empty(&mut self.keys);
        empty(&mut self.tokens);
    }
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
                wire.put_release(Instant::ZERO, request, &entry, &single);
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
