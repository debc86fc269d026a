//! The bytes that are queued for one node.
//!
//! A position counts from the first byte of the connection, so it stays valid when earlier bytes are removed. Bytes are
//! removed once the operating system has accepted them. A command can be withdrawn if the operating system has accepted
//! none of its bytes.

use alloc::vec::Vec;

/// After this many bytes have been sent, the unsent bytes move to the front of the buffer.
const COMPACT_BYTES: usize = 64 << 10;

/// The maximum capacity of an empty buffer that is kept for reuse. A larger buffer is freed.
const KEPT_BYTES: usize = 256 << 10;

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    /// The number of bytes in `bytes` that have already been sent.
    sent: usize,
    /// The number of unsent bytes that belong to withdrawn commands.
    withdrawn: usize,
    /// The position of the first byte of `bytes`.
    base: u64,
    /// Whether the operating system accepted only part of the last write. Until the socket is writable again, no bytes
    /// are offered.
    blocked: bool,
}

impl Outbox {
    /// Queues `command`, and returns its position.
    pub(crate) fn push(&mut self, command: &[u8]) -> u64 {
        self.push_with(|bytes| bytes.extend_from_slice(command))
    }

    /// Queues the command that `write` appends, and returns its position.
    #[inline(always)]
    pub(crate) fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> u64 {
        let start = self.end();
        write(&mut self.bytes);
        start
    }

    /// Returns the bytes from `start` on, which must not have been sent yet.
    pub(crate) fn bytes_from(&self, start: u64) -> &[u8] {
        &self.bytes[(start - self.base) as usize..]
    }

    /// Removes the bytes from `start` on, which must not have been sent or withdrawn.
    pub(crate) fn cut_off(&mut self, start: u64) {
        self.bytes.truncate((start - self.base) as usize);
    }

    /// Returns the number of bytes from `start` on.
    pub(crate) fn len_from(&self, start: u64) -> usize {
        (self.end() - start) as usize
    }

    /// Returns the bytes to write now, if any may be written.
    pub(crate) fn offer(&self) -> Option<&[u8]> {
        (!self.blocked && !self.is_empty()).then(|| &self.bytes[self.sent..])
    }

    /// Records that the operating system has accepted the first `len` of the offered bytes. A `len` that is larger than
    /// the offer counts as the whole offer. After the end of the connection, this call does nothing.
    pub(crate) fn transmitted(&mut self, len: usize) {
        let offered = self.len();
        let len = len.min(offered);
        self.blocked = len < offered;
        self.sent += len;
        if self.is_empty() {
            self.base += self.bytes.len() as u64;
            self.sent = 0;
            self.bytes.clear();
            if self.bytes.capacity() > KEPT_BYTES {
                self.bytes = Vec::new();
            }
        } else if self.sent >= COMPACT_BYTES {
            self.base += self.sent as u64;
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Returns `true` if nothing may be written until the socket is writable.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Records that the socket is writable again.
    pub(crate) fn unblock(&mut self) {
        self.blocked = false;
    }

    /// Returns `true` if none of the bytes from `start` on has been sent.
    pub(crate) fn is_unsent(&self, start: u64) -> bool {
        self.base + self.sent as u64 <= start
    }

    /// Marks `len` unsent bytes as withdrawn. The withdrawn bytes stay in the buffer until [`remove`](Self::remove).
    pub(crate) fn withdraw(&mut self, len: usize) {
        self.withdrawn += len;
    }

    /// Returns `true` if the buffer holds withdrawn bytes.
    #[inline]
    pub(crate) fn has_withdrawn(&self) -> bool {
        self.withdrawn != 0
    }

    /// Removes the bytes of all withdrawn commands. `places` must pass the position and the length of each of these
    /// commands to its argument, in order.
    pub(crate) fn remove(&mut self, places: impl FnOnce(&mut dyn FnMut(u64, usize))) {
        let (mut kept, mut read) = (0, 0);
        let Self { bytes, base, .. } = self;
        places(&mut |start, len| {
            let from = (start - *base) as usize;
            if read != 0 {
                bytes.copy_within(read..from, kept);
                kept += from - read;
            } else {
                kept = from;
            }
            read = from + len;
        });
        if read != 0 {
            let end = bytes.len();
            bytes.copy_within(read..end, kept);
            bytes.truncate(kept + end - read);
        }
        self.withdrawn = 0;
    }

    /// Returns the number of bytes that wait to be sent.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.sent - self.withdrawn
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets everything because the connection is lost. Keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        (self.sent, self.withdrawn, self.base, self.blocked) = (0, 0, 0, false);
    }

    /// Returns the position after the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_write_blocks_until_the_socket_is_writable() {
        let mut outbox = Outbox::default();
        assert_eq!(outbox.push(b"first"), 0);
        assert_eq!(outbox.push(b"second"), 5);
        outbox.transmitted(3);
        assert_eq!(outbox.offer(), None);
        outbox.unblock();
        assert_eq!(outbox.offer(), Some(&b"stsecond"[..]));
        outbox.transmitted(8);
        assert_eq!(outbox.offer(), None);
        assert_eq!(outbox.push(b"x"), 11);
    }

    #[test]
    fn only_what_has_not_begun_to_leave_is_withdrawn() {
        let mut outbox = Outbox::default();
        let starts = [&b"aaaa"[..], b"bb", b"cc"].map(|command| outbox.push(command));
        outbox.transmitted(5);
        assert_eq!(
            starts.map(|start| outbox.is_unsent(start)),
            [false, false, true]
        );
        outbox.withdraw(2);
        outbox.remove(|remove| remove(starts[2], 2));
        outbox.unblock();
        assert_eq!(outbox.offer(), Some(&b"b"[..]));
    }

    #[test]
    fn positions_stay_true_while_the_front_is_given_back() {
        let mut outbox = Outbox::default();
        outbox.push(&[b'a'; COMPACT_BYTES + 10]);
        let start = outbox.push(b"tail");
        outbox.transmitted(COMPACT_BYTES + 1);
        assert!(outbox.is_unsent(start));
        outbox.withdraw(4);
        assert_eq!(outbox.len(), 9);
        outbox.remove(|remove| remove(start, 4));
        outbox.unblock();
        assert_eq!(outbox.offer(), Some(&b"aaaaaaaaa"[..]));
    }
}
