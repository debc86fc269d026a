//! Assembles replies from the pieces of a stream that a socket delivers.

use alloc::vec::Vec;

use super::decode::{Decoder, Frame};
use super::error::{DecodeError, Reason};
use super::header::natural;
use super::limits::Limits;
use super::write;

/// Assembles replies from received pieces of a stream.
///
/// A reply that is complete in one piece is decoded in place. Only a torn reply is copied, and only once. The inbox
/// keeps the bytes of a torn reply, and adds as many bytes of the following pieces as the reply needs. The kept bytes
/// never take more memory than the longest reply, 16 MiB. The next call after a large reply frees the memory.
///
/// ```
/// use shearline::resp::Inbox;
///
/// let mut inbox = Inbox::default();
/// let mut texts = Vec::new();
/// for mut piece in [&b"+one\r\n$3\r\nt"[..], b"wo\r", b"\n+three\r\n"] {
///     while let Some(frame) = inbox.next(&mut piece).unwrap() {
///         texts.push(frame.value.as_bytes().unwrap().to_vec());
///     }
/// }
/// assert_eq!(texts, [&b"one"[..], b"two", b"three"]);
/// ```
///
/// This example reads replies from a socket until the other side closes the connection:
///
/// ```
/// use shearline::resp::Inbox;
/// use std::io::Read;
///
/// fn count_replies(mut socket: impl Read) -> std::io::Result<usize> {
///     let mut inbox = Inbox::default();
///     let mut buffer = [0; 16 << 10];
///     let mut replies = 0;
///     loop {
///         let mut piece = match socket.read(&mut buffer)? {
///             0 => return Ok(replies),
///             count => &buffer[..count],
///         };
///         while let Some(frame) = inbox.next(&mut piece).map_err(std::io::Error::other)? {
///             println!("{:?}", frame.value);
///             replies += 1;
///         }
///     }
/// }
/// assert_eq!(count_replies(&b"+OK\r\n:1\r\n$-1\r\n"[..])?, 3);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Inbox {
    decoder: Decoder,
    /// The longest reply.
    reply_bytes: usize,
    /// The incomplete beginning of a torn reply, unless `spent` is `true`.
    torn: Vec<u8>,
    /// `true` if the last call has returned the reply in `torn`.
    spent: bool,
    /// `true` if strings that are too long are cut.
    cuts: bool,
    /// The number of bytes of a string that must still be dropped.
    to_drop: usize,
    /// Dropping begins when `torn` has this length.
    drop_at: usize,
}

impl Default for Inbox {
    fn default() -> Self {
        Self::new(Limits::DEFAULT)
    }
}

/// The number of bytes of memory that are kept for the next torn reply.
const KEPT: usize = 4 << 10;

/// The longest string that the inbox cuts. By default, this is the longest string that servers store.
const CUT_BYTES_MAX: usize = 512 << 20;

/// The number of bytes that the inbox first adds to a torn reply of unknown length.
const STEP: usize = 64;

impl Inbox {
    /// Returns an inbox for a new stream. Allocates nothing.
    pub(crate) const fn new(limits: Limits) -> Self {
        let decoder = Decoder::new(limits);
        Self {
            reply_bytes: decoder.reply_bytes(),
            decoder,
            torn: Vec::new(),
            spent: false,
            cuts: false,
            to_drop: 0,
            drop_at: 0,
        }
    }

    /// From the next reply on, cuts every string to at most `bytes` bytes, instead of refusing longer strings. The
    /// inbox drops the rest of a string on arrival, so the rest takes no memory. After each cut, the reply is decoded
    /// again from its beginning.
    pub(crate) fn cut_strings(&mut self, bytes: usize) {
        self.cuts = true;
        self.decoder.set_bulk_bytes(bytes);
    }

    /// Returns the next reply from the kept bytes and `piece`, and removes the used bytes from `piece`.
    ///
    /// Returns `Ok(None)` if `piece` was used completely and more bytes are needed.
    ///
    /// # Errors
    ///
    /// Returns a [`DecodeError`] if no continuation can be valid, or a limit is exceeded. Every later call returns the
    /// same error. After an error, the rest of `piece` is meaningless.
    // Inlined, so that a short reply is returned in registers instead of memory, as in `Decoder::decode`.
    #[inline(always)]
    pub fn next<'a, 'p: 'a>(
        &'a mut self,
        piece: &mut &'p [u8],
    ) -> Result<Option<Frame<'a>>, DecodeError> {
        let bytes = *piece;
        if self.torn.is_empty()
            && let Some(frame) = self.decoder.short(bytes)
        {
            *piece = bytes.get(frame.len..).unwrap_or_default();
            return Ok(Some(frame));
        }
        self.next_long(piece)
    }

    /// Returns the next reply if it was torn, or is not a short scalar.
    #[inline(never)]
    fn next_long<'a, 'p: 'a>(
        &'a mut self,
        piece: &mut &'p [u8],
    ) -> Result<Option<Frame<'a>>, DecodeError> {
        if !self.torn.is_empty() {
            if !self.spent {
                if !self.complete(piece)? {
                    return Ok(None);
                }
                return self.decoder.frame(&self.torn).map(Some);
            }
            self.forget();
        }
        let bytes = *piece;
        // A fast path: a caller that has read all replies calls `next` once more and gets `None`.
        if bytes.is_empty() {
            return self.decoder.failure().map_or(Ok(None), Err);
        }
        match self.decoder.measure(bytes) {
            Ok(Some(len)) => {
                *piece = bytes.get(len..).unwrap_or_default();
                self.decoder.frame(bytes).map(Some)
            }
            Ok(None) => {
                keep(&mut self.torn, bytes, self.reply_bytes);
                *piece = &[];
                Ok(None)
            }
            Err(error) if self.is_to_cut(error) => {
                self.decoder.reset();
                match self.complete(piece)? {
                    true => self.decoder.frame(&self.torn).map(Some),
                    false => Ok(None),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Forgets the torn reply, or the error. The next piece begins a new stream.
    pub(crate) fn clear(&mut self) {
        self.forget();
        self.decoder.reset();
    }

    /// Returns the smallest number of further bytes that the torn reply needs, or 0 if no reply is torn.
    #[cfg(test)]
    pub(crate) fn need(&self) -> usize {
        self.decoder.need()
    }

    /// Returns how many bytes of memory the inbox uses.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.torn.capacity() + self.decoder.memory()
    }

    /// Drops the torn bytes, and frees most of the memory.
    fn forget(&mut self) {
        self.spent = false;
        self.to_drop = 0;
        self.torn.clear();
        if self.torn.capacity() > KEPT {
            self.torn.shrink_to(KEPT);
        }
    }

    /// Adds bytes of `piece` to the torn reply until the reply is complete, if possible. Bytes after the reply stay in
    /// the piece.
    ///
    /// Each step adds more bytes than the previous step. So the number of attempts and the number of unnecessarily
    /// copied bytes are at most the length of the reply.
    fn complete(&mut self, piece: &mut &[u8]) -> Result<bool, DecodeError> {
        if let Some(error) = self.decoder.failure() {
            return Err(error);
        }
        let mut step = STEP;
        let mut rest = *piece;
        while !rest.is_empty() {
            let known = self.decoder.need();
            // Never buffers more bytes than the longest allowed reply has. At this limit, the reply is complete or
            // refused.
            let room = self.reply_bytes.saturating_sub(self.torn.len()).max(1);
            let (now, later) = rest.split_at(known.max(step).min(room).min(rest.len()));
            self.add(now);
            rest = later;
            step = step.saturating_mul(2);
            loop {
                match self.decoder.measure(&self.torn) {
                    Ok(Some(len)) => {
                        let unused = self.torn.len() - len + rest.len();
                        *piece = piece.get(piece.len() - unused..).unwrap_or_default();
                        self.spent = true;
                        return Ok(true);
                    }
                    Ok(None) => break,
                    Err(error) => self.cut(error)?,
                }
            }
        }
        *piece = &[];
        Ok(false)
    }

    /// Adds `bytes` to the torn reply, without the bytes that the inbox drops.
    fn add(&mut self, bytes: &[u8]) {
        let before = match self.to_drop {
            0 => bytes.len(),
            _ => self
                .drop_at
                .saturating_sub(self.torn.len())
                .min(bytes.len()),
        };
        let (kept, rest) = bytes.split_at(before);
        let (dropped, behind) = rest.split_at(self.to_drop.min(rest.len()));
        self.to_drop -= dropped.len();
        keep(&mut self.torn, kept, self.reply_bytes);
        keep(&mut self.torn, behind, self.reply_bytes);
    }

    /// Returns `true` if `error` means that a string is too long, and the inbox cuts such strings.
    fn is_to_cut(&self, error: DecodeError) -> bool {
        self.cuts && error.reason == Reason::BulkTooLong
    }

    /// If the decoder has refused a string because of its length, cuts it: replaces the length in its header by the
    /// longest accepted length. The decoder starts again at the beginning of the reply.
    ///
    /// # Errors
    ///
    /// Returns `error` if no string can be cut.
    #[cold]
    fn cut(&mut self, error: DecodeError) -> Result<(), DecodeError> {
        let start = self.decoder.element();
        let string = self.torn.get(start..).unwrap_or_default();
        let header = string.strip_prefix(b"$").and_then(natural);
        let header = header.filter(|_| self.is_to_cut(error));
        let (length, header) = header.ok_or(error)?;
        let length = usize::try_from(length).map_err(|_| error)?;
        if length > CUT_BYTES_MAX {
            return Err(error);
        }
        let most = self.decoder.bulk_bytes();
        let begun = self.torn.split_off(start + 1 + header);
        self.torn.truncate(start);
        write::header(&mut self.torn, b'$', most);
        self.drop_at = self.torn.len() + most;
        self.to_drop = length - most;
        self.add(&begun);
        self.decoder.reset();
        Ok(())
    }
}

/// Adds bytes to a torn reply. Doubles the memory when necessary, but never takes more than `most`.
fn keep(torn: &mut Vec<u8>, bytes: &[u8], most: usize) {
    let len = torn.len() + bytes.len();
    if torn.capacity() < len {
        let doubled = torn.capacity().saturating_mul(2).max(STEP);
        torn.reserve_exact(doubled.min(most).max(len) - torn.len());
    }
    torn.extend_from_slice(bytes);
}
