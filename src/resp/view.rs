//! A place in a reply that was found valid, and how it moves from element to element.
//!
//! The tape is what the decoder noted while it looked for the end of the reply: one entry for each
//! aggregate that is not empty, so that it can be stepped over at once.
//!
//! Not here: what an element says. `elements` reads the values.

use core::fmt;

use super::header::header;
use super::lex::{Bounds, Progress};
use super::token::{ELEMENT_BYTES_MIN, Token, token};

/// The entry of one aggregate that is not empty. The tape has them in the order of their headers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Bytes between its header and its end.
    pub(super) bytes: u32,
    /// The number of entries of this aggregate and of all aggregates inside it.
    pub(super) entries: u32,
}

/// The rest of a reply that was found valid: its bytes, and the structure of its aggregates.
///
/// Both slices begin at the same place, so that a part of a reply is a view like the whole.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) bytes: &'a [u8],
    tape: &'a [Entry],
}

// The iterators derive their `Debug`; whole replies in it would drown everything else.
impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "View({} bytes, {} aggregates)",
            self.bytes.len(),
            self.tape.len()
        )
    }
}

impl<'a> View<'a> {
    pub(super) const fn new(bytes: &'a [u8], tape: &'a [Entry]) -> Self {
        Self { bytes, tape }
    }

    /// Returns the same bytes, with the tape from `entry` on.
    #[inline]
    pub(super) fn after(self, entry: usize) -> Self {
        Self {
            tape: self.tape.get(entry..).unwrap_or_default(),
            ..self
        }
    }

    /// Returns `elements`, or fewer if the bytes have no room for them because they were changed.
    /// Callers reserve memory by the length that an iterator reports.
    pub(super) const fn at_most(&self, elements: usize) -> usize {
        let room = self.bytes.len() / ELEMENT_BYTES_MIN;
        if elements < room { elements } else { room }
    }

    #[inline]
    pub(super) fn token(&self) -> Option<Token> {
        if let Some(header) = header(self.bytes) {
            return Some(header);
        }
        token(self.bytes, 0, &Bounds::NONE, &mut { Progress::NEW })
            .ok()
            .flatten()
    }

    /// Returns `true` if the token has an entry on the tape: an aggregate that is not empty.
    const fn has_entry(token: Token) -> bool {
        !token.kind.is_scalar() && token.elements() > 0
    }

    /// Returns a view of the elements of the aggregate that begins with this header.
    #[inline]
    pub(super) fn inside(&self, header: Token) -> Self {
        let own = usize::from(Self::has_entry(header));
        let bytes = self.bytes.get(header.end..).unwrap_or_default();
        Self {
            bytes,
            tape: self.tape.get(own..).unwrap_or_default(),
        }
    }

    /// Moves behind the element that begins with this token.
    #[inline]
    pub(super) fn skip(&mut self, token: Token) -> Option<()> {
        let (mut behind, mut entries) = (token.end, 0);
        if Self::has_entry(token) {
            let entry = self.tape.first()?;
            behind += entry.bytes as usize;
            entries = entry.entries as usize;
        }
        self.bytes = self.bytes.get(behind..)?;
        self.tape = self.tape.get(entries..)?;
        Some(())
    }
}
