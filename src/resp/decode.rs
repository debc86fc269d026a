//! The decoder: which elements make a reply, and where a torn one goes on.
//!
//! One loop over tokens with a stack of open aggregates; nothing calls itself. The stack holds at
//! most [`Limits::depth`] levels, the tape one entry for each aggregate that is not empty, made
//! when its header has arrived: memory grows with what was received, not with what was announced.

use alloc::vec::Vec;

use super::direct::{Longest, compared, direct_len, flat, measured};
use super::error::{DecodeError, Reason};
use super::least::Place;
use super::lex::{Bounds, Progress};
use super::limits::Limits;
use super::token::{ELEMENT_BYTES_MIN, Kind, Token, token};
use super::value::Value;
use super::view::{Entry, View};

/// A resumable decoder of replies, RESP2 and RESP3 alike.
///
/// It holds no bytes, only how far it came in the reply that is torn. Each byte is looked at a
/// bounded number of times however the stream is cut, and the payload of a string not at all.
/// Scalars and empty aggregates allocate nothing; the others use two vectors that are kept for the
/// next reply.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub struct Decoder {
    limits: Limits,
    /// The limits of what is decoded directly (`direct`).
    longest: Longest,
    phase: Phase,
    /// Offset of the element that is being read; everything before it was found valid. The length
    /// of the reply when it is complete, and nothing when there was none.
    at: usize,
    progress: Progress,
    /// How many bytes of the torn reply the last call was given.
    given: usize,
    /// Elements that open aggregates still lack, the one that is being read included.
    owed: usize,
    /// The token of the value itself, behind the attributes of the reply.
    top: Top,
    stack: Vec<Level>,
    tape: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    /// The next byte is the first of a reply.
    Fresh,
    /// Likewise, but memory of the last reply has to be given back before.
    Spent,
    /// A reply has begun.
    Torn,
    /// No reply can follow any more.
    Failed(DecodeError),
}

/// Where the value of a reply begins.
#[derive(Clone, Copy, Debug)]
struct Top {
    /// Offset of the first byte.
    at: usize,
    /// Length of the tape before it: the entries of the attributes.
    entry: usize,
    token: Token,
}

impl Top {
    const NONE: Self = Self {
        at: 0,
        entry: 0,
        token: Token::NONE,
    };
}

/// An aggregate whose elements are still arriving.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// Elements that are not complete yet.
    left: u32,
    /// Its entry on the tape.
    entry: usize,
    /// It is an attribute: not an element of what surrounds it, but about the next one.
    attribute: bool,
    /// Its next element must be a string: it says of what kind a push is.
    kind_due: bool,
}

/// A reply and how many bytes it took.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// What the reply says.
    pub value: Value<'a>,
    /// Its length in bytes as it was sent, attributes before it included. An [`Inbox`](super::Inbox) has
    /// taken them from the piece, or from pieces before it.
    pub len: usize,
    /// The whole reply, if there are attributes in front of the value.
    #[cfg_attr(
        not(any(test, feature = "internals")),
        expect(dead_code, reason = "only tests read attributes")
    )]
    pub(super) attributed: Option<View<'a>>,
}

impl<'a> Frame<'a> {
    #[inline(always)]
    const fn bare(value: Value<'a>, len: usize) -> Self {
        Self {
            value,
            len,
            attributed: None,
        }
    }
}

// Offsets in a reply and places on the tape are kept in 32 bits: a reply has no more bytes than
// that (`Limits::clamped`), hence no more aggregates.

/// Levels and entries that are kept from one reply to the next; more are given back.
const KEPT: usize = 1024;

impl Decoder {
    /// A decoder at the beginning of a reply. Allocates nothing.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        let limits = limits.clamped();
        Self {
            limits,
            longest: Longest::within(limits),
            phase: Phase::Fresh,
            at: 0,
            progress: Progress::NEW,
            given: 0,
            owed: 0,
            top: Top::NONE,
            stack: Vec::new(),
            tape: Vec::new(),
        }
    }

    /// Decodes the first reply of `bytes`.
    ///
    /// `bytes` begins at the first byte of a reply. `Ok(None)` means that every byte so far is
    /// valid and more are needed: call again with the *same* bytes and more behind them. After
    /// `Ok(Some(frame))` the decoder is ready for the next reply, at `bytes[frame.len..]`.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] when no continuation can be valid, or a bound is exceeded. Every later call
    /// gives the same error.
    // Inlined, with only plain numbers coming back from what is not: a frame that goes through
    // memory costs more than the short replies themselves.
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

    /// Returns the first reply of `bytes` if it is a whole scalar of a usual kind. The decoder is as it was.
    #[inline(always)]
    pub(super) fn short<'a>(&self, bytes: &'a [u8]) -> Option<Frame<'a>> {
        if self.phase != Phase::Fresh {
            return None;
        }
        if let Some((value, len)) = compared(bytes, self.longest) {
            return Some(Frame::bare(value, len));
        }
        measured(bytes, self.longest).map(|(value, len)| Frame::bare(value, len))
    }

    /// Like [`decode`](Self::decode), but only says how long the reply is; [`frame`](Self::frame)
    /// tells what it says.
    ///
    /// # Errors
    ///
    /// Those of [`decode`](Self::decode).
    pub(crate) fn measure(&mut self, bytes: &[u8]) -> Result<Option<usize>, DecodeError> {
        match self.phase {
            Phase::Failed(error) => return Err(error),
            Phase::Fresh | Phase::Spent => {
                self.begin();
                self.phase = Phase::Fresh;
                if bytes.is_empty() {
                    return Ok(None);
                }
                if let Some((header, end)) = flat(bytes, &self.limits, &self.longest) {
                    self.top.token = header;
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
            Ok(Some(_)) if self.tape.capacity().max(self.stack.capacity()) > KEPT => Phase::Spent,
            Ok(Some(_)) => Phase::Fresh,
            Ok(None) => Phase::Torn,
            Err(error) => Phase::Failed(error),
        };
        result
    }

    /// Returns the reply that [`measure`](Self::measure) found last, at the front of the same
    /// bytes. They may have been moved. See there for examples; it can be asked for again and
    /// again, as long as nothing else is decoded.
    ///
    /// # Errors
    ///
    /// [`Reason::NotMeasured`] if the last call found no complete reply, and [`Reason::Changed`]
    /// if the bytes are fewer than then. Other bytes of the same length give a wrong answer.
    #[inline]
    pub(crate) fn frame<'a>(&'a self, bytes: &'a [u8]) -> Result<Frame<'a>, DecodeError> {
        if !matches!(self.phase, Phase::Fresh | Phase::Spent) || self.at == 0 {
            return Err(DecodeError::new(0, Reason::NotMeasured));
        }
        let len = self.at;
        let value = bytes.get(..len).and_then(|bytes| {
            let reply = View::new(bytes, &self.tape);
            let value = reply.after(self.top.entry).read(self.top.token)?;
            Some((value, (self.top.at > 0).then_some(reply)))
        });
        match value {
            Some((value, attributed)) => Ok(Frame {
                value,
                len,
                attributed,
            }),
            None => Err(DecodeError::new(0, Reason::Changed)),
        }
    }

    /// Forgets the torn reply, or the error: the next byte is the first of a new stream.
    pub(crate) fn reset(&mut self) {
        self.phase = Phase::Spent;
        self.at = 0;
    }

    /// Longest reply.
    pub(super) const fn reply_bytes(&self) -> usize {
        self.limits.reply_bytes
    }

    /// Accepts strings of at most `bytes` bytes from the next reply on.
    pub(super) fn set_bulk_bytes(&mut self, bytes: usize) {
        self.limits.bulk_bytes = bytes;
        self.longest = Longest::within(self.limits);
    }

    /// Longest string.
    pub(super) const fn bulk_bytes(&self) -> usize {
        self.limits.bulk_bytes
    }

    /// Returns the offset of the element that is torn or wrong.
    pub(super) const fn element(&self) -> usize {
        self.at
    }

    /// Returns why no reply can follow any more, if none can.
    pub(super) fn failure(&self) -> Option<DecodeError> {
        match self.phase {
            Phase::Failed(error) => Some(error),
            Phase::Fresh | Phase::Spent | Phase::Torn => None,
        }
    }

    /// Returns how many more bytes the torn reply needs at least, beyond those that the last call
    /// was given. 0 if no reply is torn.
    #[must_use]
    pub(crate) fn need(&self) -> usize {
        if self.phase != Phase::Torn {
            return 0;
        }
        let element = self.progress.need.max(self.at + ELEMENT_BYTES_MIN);
        let others = (self.owed - 1) * ELEMENT_BYTES_MIN;
        element.max(self.given + 1) + others - self.given
    }

    /// With fewer bytes than this in all there is nothing new to see.
    #[cfg(any(test, fuzzing))]
    pub(super) fn blind(&self) -> usize {
        self.progress.need
    }

    /// Returns how many bytes of memory it holds.
    #[cfg(any(test, fuzzing))]
    pub(super) fn memory(&self) -> usize {
        self.stack.capacity() * size_of::<Level>() + self.tape.capacity() * size_of::<Entry>()
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
        self.top = Top::NONE;
        self.stack.clear();
        self.tape.clear();
        self.stack.shrink_to(KEPT);
        self.tape.shrink_to(KEPT);
    }

    /// Reads elements until the reply is complete or the bytes end. Returns the length of the
    /// reply.
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
            if let Err(error) = self.admit(kind, bytes.get(self.at + 1).copied()) {
                return self.unfinished(bytes, end, Err(error));
            }
            let token = match token(bytes, self.at, &bounds, &mut self.progress) {
                Ok(Some(token)) if token.end_min() <= end => token,
                found => return self.unfinished(bytes, end, found),
            };
            self.progress.reset();
            if self.stack.is_empty() {
                self.top = Top {
                    at: self.at,
                    entry: self.tape.len(),
                    token,
                };
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

    /// Returns the error or the need of an element that is torn, wrong, or too long for `end`.
    ///
    /// A byte after which no end is within the bound comes before one that is wrong for itself.
    #[cold]
    fn unfinished(
        &mut self,
        bytes: &[u8],
        end: usize,
        found: Result<Option<Token>, DecodeError>,
    ) -> Result<Option<usize>, DecodeError> {
        let place = Place {
            kind_due: self.stack.last().is_some_and(|level| level.kind_due),
            deepest: self.stack.len() == self.limits.depth,
        };
        let valid = found.map_or_else(|error| error.at, |_| bytes.len());
        let begun = bytes.get(self.at..valid).unwrap_or_default();
        let room = end.saturating_sub(self.at);
        match place.excess(begun, room, &mut self.progress) {
            Some(last) => Err(DecodeError::new(self.at + last, Reason::ReplyTooLong)),
            None => found.map(|_| None),
        }
    }

    /// Reads the elements of the innermost aggregate as long as they are of the usual kinds, but
    /// for the last: the caller ends the aggregate.
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
            // What is owed after it must still find room: `room`, for an element.
            let owed = (self.owed - 1).saturating_mul(ELEMENT_BYTES_MIN);
            if self.at + len + owed > self.limits.reply_bytes {
                return;
            }
            self.at += len;
            self.owed -= 1;
            level.left -= 1;
        }
    }

    /// Checks that a value of this kind may stand where it does. `next` is the byte behind the
    /// kind, if it has arrived.
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
            // The null of RESP2 is no array, even when it is spelled `*-1`.
            (b'*', Some(byte)) if byte != b'-' => refuse(1, Reason::TooDeep),
            _ => Ok(()),
        }
    }

    /// Offset that the next element must not reach beyond, so that what is still owed after it
    /// finds room in the reply. An attribute does not count towards that.
    fn room(&self, kind: u8) -> usize {
        let owed = self.owed.saturating_sub(usize::from(kind != b'|'));
        self.limits
            .reply_bytes
            .saturating_sub(owed.saturating_mul(ELEMENT_BYTES_MIN))
    }

    /// Opens an aggregate whose header ends at `behind`. Returns whether the reply is complete.
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
        // Behind an attribute its value is still owed; any other aggregate is itself what was.
        self.owed = self.owed - usize::from(!attribute) + elements as usize;
        let kind_due = kind == Kind::Push;
        self.stack.push(Level {
            left: elements,
            entry: self.tape.len(),
            attribute,
            kind_due,
        });
        // Where they begin, until it is known how many they are.
        let start = Entry {
            bytes: behind as u32,
            entries: self.tape.len() as u32,
        };
        self.tape.push(start);
        false
    }

    /// Ends an element at `behind`, and the aggregates whose last one it was. Returns whether the
    /// reply is complete.
    fn close(&mut self, behind: usize) -> bool {
        self.at = behind;
        self.owed -= 1;
        while let Some(level) = self.stack.last_mut() {
            level.left -= 1;
            level.kind_due = false;
            if level.left > 0 {
                return false;
            }
            let Level {
                entry, attribute, ..
            } = *level;
            self.stack.pop();
            let length = self.tape.len() as u32;
            let entry = &mut self.tape[entry];
            entry.bytes = behind as u32 - entry.bytes;
            entry.entries = length - entry.entries;
            if attribute {
                return false;
            }
        }
        true
    }
}
