//! What a reply says, as views of the bytes it was received in.
//!
//! A scalar borrows from the receive buffer. An aggregate is a place in it: [`Items`] and
//! [`Pairs`] read one element after the other when they are iterated, and step over a nested
//! aggregate in constant time by the *tape*, on which the decoder noted where each one ends.
//! So an aggregate costs no allocation per element, and none at all when it is flat.

use core::fmt;

use super::token::{Bounds, Kind, Progress, Token, token};

/// One value of a reply. It borrows from the bytes that were decoded.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// `+`: a short text without CR or LF, such as `OK`.
    Simple(&'a [u8]),
    /// `-`: an error text. Servers echo arguments in it: look at the first word only.
    Error(&'a [u8]),
    /// `:`: a signed integer of 64 bits.
    Integer(i64),
    /// `$`: any bytes.
    Bulk(&'a [u8]),
    /// `_`, or `$-1` or `*-1` as RESP2 spells it.
    Null,
    /// `,`: a double, infinities and NaN included.
    Double(f64),
    /// `#`: true or false.
    Boolean(bool),
    /// `(`: an integer of any length, as its digits, with `-` before them if it is negative.
    BigNumber(&'a [u8]),
    /// `!`: an error text of any bytes.
    BulkError(&'a [u8]),
    /// `=`: a text that is meant for people.
    Verbatim {
        /// What the text is written in: `txt` or `mkd`.
        format: [u8; 3],
        /// The text without its format.
        text: &'a [u8],
    },
    /// `*`: values in order.
    Array(Items<'a>),
    /// `%`: pairs of a key and a value, as they were sent: in order, duplicates included.
    Map(Pairs<'a>),
    /// `~`: values without order, as they were sent: duplicates included.
    Set(Items<'a>),
    /// `>`: something that was not asked for; its first element is a string that says of what
    /// kind it is. It is never inside another value, and never the answer to a command.
    Push(Items<'a>),
}

impl<'a> Value<'a> {
    /// The bytes of a simple, bulk or verbatim string; `None` for everything else, errors
    /// included.
    #[must_use]
    pub const fn as_bytes(&self) -> Option<&'a [u8]> {
        match *self {
            Self::Simple(text) | Self::Bulk(text) | Self::Verbatim { text, .. } => Some(text),
            Self::Error(_)
            | Self::Integer(_)
            | Self::Null
            | Self::Double(_)
            | Self::Boolean(_)
            | Self::BigNumber(_)
            | Self::BulkError(_)
            | Self::Array(_)
            | Self::Map(_)
            | Self::Set(_)
            | Self::Push(_) => None,
        }
    }

    /// The integer, if it is one.
    #[must_use]
    pub const fn as_integer(&self) -> Option<i64> {
        if let Self::Integer(integer) = *self {
            Some(integer)
        } else {
            None
        }
    }

    /// The text of an error, simple or bulk.
    #[must_use]
    pub const fn as_error(&self) -> Option<&'a [u8]> {
        if let Self::Error(text) | Self::BulkError(text) = *self {
            Some(text)
        } else {
            None
        }
    }

    /// The elements of an array, a set or a push.
    #[must_use]
    pub const fn as_items(&self) -> Option<Items<'a>> {
        if let Self::Array(items) | Self::Set(items) | Self::Push(items) = *self {
            Some(items)
        } else {
            None
        }
    }

    /// The pairs of a map.
    #[must_use]
    pub const fn as_pairs(&self) -> Option<Pairs<'a>> {
        if let Self::Map(pairs) = *self {
            Some(pairs)
        } else {
            None
        }
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Simple(text) => write!(f, "Simple(b\"{}\")", text.escape_ascii()),
            Self::Error(text) => write!(f, "Error(b\"{}\")", text.escape_ascii()),
            Self::Integer(integer) => write!(f, "Integer({integer})"),
            Self::Bulk(text) => write!(f, "Bulk(b\"{}\")", text.escape_ascii()),
            Self::Null => f.write_str("Null"),
            Self::Double(double) => write!(f, "Double({double:?})"),
            Self::Boolean(boolean) => write!(f, "Boolean({boolean})"),
            Self::BigNumber(digits) => write!(f, "BigNumber({})", digits.escape_ascii()),
            Self::BulkError(text) => write!(f, "BulkError(b\"{}\")", text.escape_ascii()),
            Self::Verbatim { format, text } => {
                write!(
                    f,
                    "Verbatim(b\"{}:{}\")",
                    format.escape_ascii(),
                    text.escape_ascii()
                )
            }
            Self::Array(items) => f.debug_tuple("Array").field(&items).finish(),
            Self::Map(pairs) => f.debug_tuple("Map").field(&pairs).finish(),
            Self::Set(items) => f.debug_tuple("Set").field(&items).finish(),
            Self::Push(items) => f.debug_tuple("Push").field(&items).finish(),
        }
    }
}

/// A value together with the attributes that were sent before it.
#[derive(Clone, Copy, Debug)]
pub struct Element<'a> {
    /// What is said about the value: auxiliary, and free to be ignored. `None` if nothing is.
    pub attributes: Option<Pairs<'a>>,
    /// The value itself.
    pub value: Value<'a>,
}

/// The elements of an array, a set or a push. A cheap copy of a place in the reply.
#[derive(Clone, Copy)]
pub struct Items<'a> {
    /// Begins with the first element.
    view: View<'a>,
    len: u32,
}

impl<'a> Items<'a> {
    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The values in order. Attributes before one of them are passed over.
    #[must_use]
    pub fn iter(&self) -> Values<'a> {
        Values(self.elements())
    }

    /// The values in order, each with its attributes.
    #[must_use]
    pub const fn elements(&self) -> Elements<'a> {
        Elements {
            view: self.view,
            left: self.len,
        }
    }
}

impl<'a> IntoIterator for Items<'a> {
    type Item = Value<'a>;
    type IntoIter = Values<'a>;

    fn into_iter(self) -> Values<'a> {
        self.iter()
    }
}

impl fmt::Debug for Items<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The values of an [`Items`].
#[derive(Clone, Debug)]
pub struct Values<'a>(Elements<'a>);

impl<'a> Iterator for Values<'a> {
    type Item = Value<'a>;

    #[inline]
    fn next(&mut self) -> Option<Value<'a>> {
        self.0.next().map(|element| element.value)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for Values<'_> {}

/// The values of an [`Items`] with their attributes.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    view: View<'a>,
    left: u32,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        self.left = self.left.checked_sub(1)?;
        self.view.element()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Elements<'_> {}

/// The pairs of a map or of attributes. A cheap copy of a place in the reply.
#[derive(Clone, Copy)]
pub struct Pairs<'a> {
    /// Begins with the first key; or, if these are attributes, with their header.
    view: View<'a>,
    len: u32,
    attributes: bool,
}

impl<'a> Pairs<'a> {
    /// How many pairs there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The pairs in the order they were sent. Attributes of keys and values are passed over.
    #[must_use]
    pub fn iter(&self) -> PairValues<'a> {
        PairValues(self.elements())
    }

    /// The pairs in the order they were sent, keys and values with their attributes.
    #[must_use]
    pub const fn elements(&self) -> PairElements<'a> {
        let block = if self.attributes { 0 } else { self.len };
        PairElements {
            view: self.view,
            block,
            left: self.len,
        }
    }

    /// The first value whose key is a string with these bytes. Looks at one pair after the other.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<Value<'a>> {
        self.iter()
            .find(|(candidate, _)| candidate.as_bytes() == Some(key))
            .map(|(_, value)| value)
    }
}

impl<'a> IntoIterator for Pairs<'a> {
    type Item = (Value<'a>, Value<'a>);
    type IntoIter = PairValues<'a>;

    fn into_iter(self) -> PairValues<'a> {
        self.iter()
    }
}

impl fmt::Debug for Pairs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// The keys and values of a [`Pairs`].
#[derive(Clone, Debug)]
pub struct PairValues<'a>(PairElements<'a>);

impl<'a> Iterator for PairValues<'a> {
    type Item = (Value<'a>, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(key, value)| (key.value, value.value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for PairValues<'_> {}

/// The keys and values of a [`Pairs`] with their attributes.
#[derive(Clone, Debug)]
pub struct PairElements<'a> {
    view: View<'a>,
    /// Pairs left until the next header of an attribute, or the end of the map.
    block: u32,
    /// Pairs left in all.
    left: u32,
}

impl<'a> Iterator for PairElements<'a> {
    type Item = (Element<'a>, Element<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        while self.block == 0 {
            let (token, end) = self.view.token()?;
            let Token::Open {
                kind: Kind::Attribute,
                elements,
            } = token
            else {
                return None;
            };
            self.block = elements / 2;
            self.view = self.view.inside(end, elements);
        }
        self.block -= 1;
        Some((self.view.element()?, self.view.element()?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for PairElements<'_> {}

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

    /// The first element with its attributes; the view moves behind it.
    ///
    /// The bytes were found valid, so `None` means that the caller of the decoder changed them
    /// between two calls; a wrong answer is then as good as any, a panic is not.
    #[inline]
    pub(super) fn element(&mut self) -> Option<Element<'a>> {
        match self.token()? {
            (Token::Scalar(value), end) => {
                self.bytes = &self.bytes[end..];
                Some(Element {
                    attributes: None,
                    value,
                })
            }
            (Token::Open { kind, elements }, end) => self.aggregate(kind, elements, end),
        }
    }

    /// The same when it begins with a header, which ends at `end`.
    fn aggregate(
        &mut self,
        mut kind: Kind,
        mut elements: u32,
        mut end: usize,
    ) -> Option<Element<'a>> {
        let attributed = *self;
        let mut attributes = None;
        while kind == Kind::Attribute {
            // Several in a row are handed out as one.
            let sum = attributes.map_or(0, |pairs: Pairs<'_>| pairs.len) + elements / 2;
            attributes = Some(Pairs {
                view: attributed,
                len: sum,
                attributes: true,
            });
            self.skip(end, elements)?;
            let (token, behind) = self.token()?;
            (kind, elements) = match token {
                Token::Open { kind, elements } => (kind, elements),
                Token::Scalar(value) => {
                    self.bytes = &self.bytes[behind..];
                    return Some(Element { attributes, value });
                }
            };
            end = behind;
        }
        let view = self.inside(end, elements);
        self.skip(end, elements)?;
        let items = Items {
            view,
            len: elements,
        };
        let value = match kind {
            Kind::Array => Value::Array(items),
            Kind::Set => Value::Set(items),
            Kind::Push => Value::Push(items),
            Kind::Map | Kind::Attribute => Value::Map(Pairs {
                view,
                len: elements / 2,
                attributes: false,
            }),
        };
        Some(Element { attributes, value })
    }

    #[inline]
    fn token(&self) -> Option<(Token<'a>, usize)> {
        token(self.bytes, 0, &Bounds::NONE, &mut { Progress::NEW })
            .ok()
            .flatten()
    }

    /// The elements of the aggregate whose header ends at `end`. An empty one has no entry.
    fn inside(&self, end: usize, elements: u32) -> Self {
        let own = usize::from(elements > 0);
        Self {
            bytes: &self.bytes[end..],
            tape: self.tape.get(own..).unwrap_or_default(),
        }
    }

    /// Moves behind the aggregate whose header ends at `end`.
    fn skip(&mut self, end: usize, elements: u32) -> Option<()> {
        let (mut behind, mut entries) = (end, 0);
        if elements > 0 {
            let entry = self.tape.first()?;
            behind += entry.bytes as usize;
            entries = entry.entries as usize;
        }
        self.bytes = self.bytes.get(behind..)?;
        self.tape = self.tape.get(entries..)?;
        Some(())
    }
}
