//! How a reply that was found valid is read again, element by element.
//!
//! The tape is what the decoder noted while it looked for the end of the reply: one entry for each
//! aggregate that is not empty, so that it can be stepped over at once.

use core::fmt;

use super::direct::{Longest, compared, header, measured};
use super::token::{Bounds, ELEMENT_BYTES_MIN, Kind, Progress, Token, token};
use super::value::{Element, Items, Pairs, Value};

/// What the tape holds of one aggregate that is not empty, in the order of their headers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Bytes between its header and its end.
    pub(super) bytes: u32,
    /// How many entries belong to it: its own, and those of all aggregates inside it.
    pub(super) entries: u32,
}

/// The rest of a reply that was found valid: its bytes, and the structure of its aggregates.
///
/// Both slices begin at the same place, so that a part of a reply is a view like the whole.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    bytes: &'a [u8],
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

    /// The same bytes, with the tape from `entry` on.
    #[inline]
    pub(super) fn after(self, entry: usize) -> Self {
        Self {
            tape: self.tape.get(entry..).unwrap_or_default(),
            ..self
        }
    }

    /// So many elements, or fewer if the bytes have no room for them because they were changed. By
    /// what an iterator says of its length, others reserve memory.
    pub(super) const fn at_most(&self, elements: usize) -> usize {
        let room = self.bytes.len() / ELEMENT_BYTES_MIN;
        if elements < room { elements } else { room }
    }

    /// The first element with its attributes; the view moves behind it.
    ///
    /// The bytes were found valid, so `None` means that the caller of the decoder changed them
    /// between two calls; a wrong answer is then as good as any, a panic is not.
    pub(super) fn element(&mut self) -> Option<Element<'a>> {
        let attributed = *self;
        let mut attributes = None;
        let mut token = self.token()?;
        while token.kind == Kind::Attribute {
            // Several in a row are handed out as one.
            let before = attributes.map_or(0, |pairs: Pairs<'_>| pairs.len);
            let len = before.saturating_add(token.elements() / 2);
            attributes = Some(Pairs {
                view: attributed,
                len,
                attributes: true,
            });
            self.skip(token)?;
            token = self.token()?;
        }
        let value = self.value_of(token)?;
        Some(Element { attributes, value })
    }

    /// The first value; the view moves behind it.
    #[inline(always)]
    pub(super) fn value(&mut self) -> Option<Value<'a>> {
        match self.direct() {
            None => self.any_value(),
            value => value,
        }
    }

    /// The first value if it is a short scalar of the usual kinds; the view moves behind it.
    #[inline(always)]
    pub(super) fn direct(&mut self) -> Option<Value<'a>> {
        let (value, end) = compared(self.bytes, Longest::ANY)?;
        self.bytes = &self.bytes[end..];
        Some(value)
    }

    #[inline(never)]
    fn any_value(&mut self) -> Option<Value<'a>> {
        if let Some((value, end)) = measured(self.bytes, Longest::ANY) {
            self.bytes = &self.bytes[end..];
            return Some(value);
        }
        let mut token = self.token()?;
        while token.kind == Kind::Attribute {
            self.skip(token)?;
            token = self.token()?;
        }
        self.value_of(token)
    }

    /// The value that begins with this token; the view moves behind it.
    #[inline]
    fn value_of(&mut self, token: Token) -> Option<Value<'a>> {
        let value = self.read(token);
        self.skip(token)?;
        value
    }

    /// The value that begins with this token.
    #[inline]
    pub(super) fn read(&self, token: Token) -> Option<Value<'a>> {
        let (view, len) = (self.inside(token), token.elements());
        Some(match token.kind {
            Kind::Array => Value::Array(Items { view, len }),
            Kind::Set => Value::Set(Items { view, len }),
            Kind::Push => Value::Push(Items { view, len }),
            Kind::Map => Value::Map(Pairs {
                view,
                len: len / 2,
                attributes: false,
            }),
            Kind::Simple
            | Kind::Error
            | Kind::Integer
            | Kind::Bulk
            | Kind::Null
            | Kind::Double
            | Kind::Boolean
            | Kind::BigNumber
            | Kind::BulkError
            | Kind::Verbatim
            | Kind::Attribute => return token.scalar(self.bytes),
        })
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

    /// Whether the token has an entry on the tape: an aggregate that is not empty.
    const fn has_entry(token: Token) -> bool {
        !token.kind.is_scalar() && token.elements() > 0
    }

    /// The elements of the aggregate that begins with this header.
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
