//! A decoder that finds the elements of a reply, and continues a torn reply.
//!
//! The decoder is one loop over tokens with a stack of open aggregates; no function calls itself. The stack has at
//! most [`Limits::depth`] levels, even if headers announce more.

use alloc::vec::Vec;

use super::direct::{Longest, compared, direct_len, flat, measured};
use super::error::{DecodeError, Reason};
use super::lex::{Bounds, Progress};
use super::limits::Limits;
use super::token::{ELEMENT_BYTES_MIN, Kind, Token, token};
use super::value::Value;
use super::view::View;

/// A resumable decoder of RESP2 and RESP3 replies.
///
/// The decoder stores no bytes, only its position in a torn reply. The decoder inspects each byte a bounded number of
/// times, no matter how the stream is cut into pieces. It never inspects the payload of a string. Decoding scalars and
/// flat aggregates allocates nothing. Other replies need a stack, which the decoder keeps and uses again.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub struct Decoder {
    limits: Limits,
    /// The limits for values on the fast path (`direct`).
    longest: Longest,
    phase: Phase,
    /// The offset of the current element. All bytes before this offset are valid. After a complete reply, the offset is
    /// the length of the reply. Before the first reply, the offset is zero.
    at: usize,
    progress: Progress,
    /// The number of bytes of the torn reply that were passed to the last call.
    given: usize,
    /// The number of elements that are still missing from open aggregates, including the current element.
    owed: usize,
    /// The token of the value itself, which follows the attributes of the reply.
    top: Token,
    stack: Vec<Level>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    /// The next byte is the first byte of a reply.
    Fresh,
    /// A reply has begun.
    Torn,
    /// No more replies can follow.
    Failed(DecodeError),
}

/// An aggregate whose elements are still arriving.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// The number of incomplete elements.
    left: u32,
    /// `true` for an attribute. An attribute describes the next element, and is not an element of the surrounding
    /// aggregate.
    attribute: bool,
    /// `true` if the next element is the kind of a push, which must be a string.
    kind_due: bool,
}

/// A reply and its length in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The value of the reply.
    pub value: Value<'a>,
    /// The length in bytes as received, including attributes before the value. An [`Inbox`](super::Inbox) has taken
    /// these bytes from the current piece and earlier pieces.
    pub len: usize,
}

impl Decoder {
    /// Returns a decoder that expects the beginning of a reply. Allocates nothing.
    ///
    /// # Panics
    ///
    /// Panics if a limit is out of range.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        assert!(limits.are_sound(), "each limit has a range");
        Self {
            limits,
            longest: Longest::within(limits),
            phase: Phase::Fresh,
            at: 0,
            progress: Progress::NEW,
            given: 0,
            owed: 0,
            top: Token::NONE,
            stack: Vec::new(),
        }
    }

    /// Decodes the first reply of `bytes`.
    ///
    /// `bytes` begins at the first byte of a reply. `Ok(None)` means that more bytes are needed. Call again with
    /// the *same* bytes, followed by more bytes. After `Ok(Some(frame))` the decoder is ready for the next reply, at
    /// `bytes[frame.len..]`.
    ///
    /// # Errors
    ///
    /// Returns a [`DecodeError`] if the bytes are wrong, or a limit is exceeded. Every later call returns the same
    /// error.
    // Inlined, because returning a frame through memory takes longer than decoding a short reply.
    #[cfg(any(test, feature = "internals"))]
    #[inline(always)]
    pub fn decode<'a>(&'a mut self, bytes: &'a [u8]) -> Result<Option<Frame<'a>>, DecodeError> {
        if let Some(frame) = self.short(bytes) {
            return Ok(Some(frame));
        }
        match self.measure(bytes)? {
            None => Ok(None),
            Some(_) => self.frame(bytes).map(Some),
        }
    }

    /// Returns the first reply of `bytes` if it is a complete scalar of a usual kind. The state of the decoder does not
    /// change.
    #[inline(always)]
    pub(super) fn short<'a>(&self, bytes: &'a [u8]) -> Option<Frame<'a>> {
        if self.phase != Phase::Fresh {
            return None;
        }
        if let Some((value, len)) = compared(bytes, self.longest) {
            return Some(Frame { value, len });
        }
        measured(bytes, self.longest).map(|(value, len)| Frame { value, len })
    }

    /// Like [`decode`](Self::decode), but returns only the length of the reply; [`frame`](Self::frame) returns its
    /// value.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`decode`](Self::decode).
    pub(crate) fn measure(&mut self, bytes: &[u8]) -> Result<Option<usize>, DecodeError> {
        match self.phase {
            Phase::Failed(error) => return Err(error),
            Phase::Fresh => {
                self.begin();
                if bytes.is_empty() {
                    return Ok(None);
                }
                if let Some((header, end)) = flat(bytes, &self.limits, &self.longest) {
                    self.top = header;
                    self.at = end;
                    return Ok(Some(end));
                }
            }
            Phase::Torn if bytes.len() < self.progress.need => {
                self.given = bytes.len();
                return Ok(None);
            }
            Phase::Torn => (),
        }
        self.given = bytes.len();
        let result = self.scan(bytes);
        self.phase = match result {
            Ok(Some(_)) => Phase::Fresh,
            Ok(None) => Phase::Torn,
            Err(error) => Phase::Failed(error),
        };
        result
    }

    /// Returns the reply whose length [`measure`](Self::measure) has returned, from the front of the same bytes. The
    /// bytes may have been moved. The caller can request the reply again until the next call that decodes.
    ///
    /// # Errors
    ///
    /// Returns [`Reason::NotMeasured`] if the last call found no complete reply, and [`Reason::Changed`] if `bytes` has
    /// become shorter. If the caller passes other bytes of the same length, the result is wrong.
    #[inline]
    pub(crate) fn frame<'a>(&'a self, bytes: &'a [u8]) -> Result<Frame<'a>, DecodeError> {
        if self.phase != Phase::Fresh || self.at == 0 {
            return Err(DecodeError::new(0, Reason::NotMeasured));
        }
        let len = self.at;
        let reply = bytes.get(..len);
        let value = reply.and_then(|bytes| View { bytes }.read(self.top));
        let value = value.ok_or(DecodeError::new(0, Reason::Changed))?;
        Ok(Frame { value, len })
    }

    /// Forgets the torn reply, or the error. The next byte begins a new stream.
    pub(crate) fn reset(&mut self) {
        self.phase = Phase::Fresh;
        self.at = 0;
    }

    /// Returns the length of the longest reply that the decoder accepts.
    pub(super) const fn reply_bytes(&self) -> usize {
        self.limits.reply_bytes
    }

    /// From the next reply on, accepts strings of at most `bytes` bytes.
    pub(super) fn set_bulk_bytes(&mut self, bytes: usize) {
        self.limits.bulk_bytes = bytes;
        self.longest = Longest::within(self.limits);
    }

    /// Returns the length of the longest string that the decoder accepts.
    pub(super) const fn bulk_bytes(&self) -> usize {
        self.limits.bulk_bytes
    }

    /// Returns the offset of the element that is torn or wrong.
    pub(super) const fn element(&self) -> usize {
        self.at
    }

    /// Returns the reason why no more replies can follow, or `None` if more replies may follow.
    pub(super) fn failure(&self) -> Option<DecodeError> {
        match self.phase {
            Phase::Failed(error) => Some(error),
            Phase::Fresh | Phase::Torn => None,
        }
    }

    /// Returns the smallest number of further bytes that the torn reply needs, or 0 if no reply is torn.
    #[must_use]
    pub(crate) fn need(&self) -> usize {
        if self.phase != Phase::Torn {
            return 0;
        }
        let element = self.progress.need.max(self.at + ELEMENT_BYTES_MIN);
        let others = (self.owed - 1) * ELEMENT_BYTES_MIN;
        element.max(self.given + 1) + others - self.given
    }

    /// Returns how many bytes of memory the decoder uses.
    #[cfg(any(test, fuzzing))]
    pub(super) fn memory(&self) -> usize {
        self.stack.capacity() * size_of::<Level>()
    }

    #[cfg(test)]
    pub(super) fn looked(&self) -> usize {
        self.progress.looked
    }

    #[inline]
    fn begin(&mut self) {
        self.at = 0;
        self.progress.reset();
        self.owed = 1;
        self.stack.clear();
    }

    /// Reads elements until the reply is complete or the bytes end. Returns the length of the reply.
    fn scan(&mut self, bytes: &[u8]) -> Result<Option<usize>, DecodeError> {
        loop {
            let Some(&kind) = bytes.get(self.at) else {
                return Ok(None);
            };
            let end = self.room(kind);
            let bounds = Bounds {
                line: self.limits.line_bytes,
                bulk: self.limits.bulk_bytes,
                elements: self.limits.elements,
                end,
            };
            self.admit(kind, bytes.get(self.at + 1).copied())?;
            let Some(token) = token(bytes, self.at, &bounds, &mut self.progress)? else {
                return Ok(None);
            };
            if end < token.end_min() {
                return Err(DecodeError::new(self.at, Reason::ReplyTooLong));
            }
            self.progress.reset();
            if self.stack.is_empty() {
                self.top = token;
            }
            let complete = if token.kind.is_scalar() {
                self.close(token.end)
            } else {
                self.open(token.kind, token.elements(), token.end)
            };
            if complete {
                return Ok(Some(self.at));
            }
            self.scan_direct(bytes);
        }
    }

    /// Reads the elements of the innermost aggregate as long as they are of the usual kinds. The caller reads the last
    /// element, which ends the aggregate.
    #[inline]
    fn scan_direct(&mut self, bytes: &[u8]) {
        let Some(level) = self.stack.last_mut().filter(|level| !level.kind_due) else {
            return;
        };
        while level.left > 1 {
            let rest = bytes.get(self.at..).unwrap_or_default();
            let Some(len) = direct_len(rest, &self.longest) else {
                return;
            };
            // Stops if the elements that follow would not fit into the longest allowed reply.
            let owed = (self.owed - 1).saturating_mul(ELEMENT_BYTES_MIN);
            if self.at + len + owed > self.limits.reply_bytes {
                return;
            }
            self.at += len;
            self.owed -= 1;
            level.left -= 1;
        }
    }

    /// Checks that a value of this kind may be at this position. `next` is the byte after the kind, if it has arrived.
    #[inline]
    fn admit(&self, kind: u8, next: Option<u8>) -> Result<(), DecodeError> {
        let refuse = |ahead, reason| Err(DecodeError::new(self.at + ahead, reason));
        if let Some(level) = self.stack.last() {
            match (kind, next) {
                (b'$', Some(b'-')) if level.kind_due => return refuse(1, Reason::PushKind),
                (b'$' | b'+' | b'|', _) => (),
                _ if level.kind_due => return refuse(0, Reason::PushKind),
                (b'>', _) => return refuse(0, Reason::NestedPush),
                _ => (),
            }
        }
        if self.stack.len() < self.limits.depth {
            return Ok(());
        }
        match (kind, next) {
            (b'%' | b'~' | b'>' | b'|', _) => refuse(0, Reason::TooDeep),
            // `*-1` is the null of RESP2, not an array.
            (b'*', Some(byte)) if byte != b'-' => refuse(1, Reason::TooDeep),
            _ => Ok(()),
        }
    }

    /// Returns the offset that the next element must not exceed, so that the elements after it still fit into the
    /// reply. An attribute is not one of these elements.
    fn room(&self, kind: u8) -> usize {
        let owed = self.owed.saturating_sub(usize::from(kind != b'|'));
        self.limits
            .reply_bytes
            .saturating_sub(owed.saturating_mul(ELEMENT_BYTES_MIN))
    }

    /// Opens an aggregate whose header ends at `behind`. Returns `true` if the reply is complete.
    fn open(&mut self, kind: Kind, elements: u32, behind: usize) -> bool {
        let attribute = kind == Kind::Attribute;
        if elements == 0 {
            if !attribute {
                return self.close(behind);
            }
            self.at = behind;
            return false;
        }
        self.at = behind;
        // After an attribute, the expected value still follows. Any other aggregate is itself the expected value.
        self.owed = self.owed - usize::from(!attribute) + elements as usize;
        self.stack.push(Level {
            left: elements,
            attribute,
            kind_due: kind == Kind::Push,
        });
        false
    }

    /// Ends an element at `behind`, and all aggregates that end with it. Returns `true` if the reply is complete.
    fn close(&mut self, behind: usize) -> bool {
        self.at = behind;
        self.owed -= 1;
        while let Some(level) = self.stack.last_mut() {
            level.left -= 1;
            level.kind_due = false;
            if level.left > 0 {
                return false;
            }
            let attribute = level.attribute;
            self.stack.pop();
            if attribute {
                return false;
            }
        }
        true
    }
}
