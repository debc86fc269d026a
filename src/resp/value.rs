//! What a reply says, as views of the bytes it was received in.
//!
//! A scalar borrows from the receive buffer. An aggregate is a place in it: [`Items`] and
//! [`Pairs`] read one element after the other when they are iterated, and step over a nested
//! aggregate in constant time by the *tape*, on which the decoder noted where each one ends.
//! So an aggregate costs no allocation per element, and none at all when it is flat.

use super::token::Kind;
use super::view::View;

/// One value of a reply. It borrows from the bytes that were decoded.
///
/// Two are equal if they say the same, attributes of nested values aside: for doubles bit by bit,
/// so that the two zeros differ, but that any NaN equals any other. So it is with
/// [`OwnedValue`](super::OwnedValue).
///
/// ```
/// use shearline::resp::{Decoder, Limits, Value};
///
/// let mut decoder = Decoder::new(Limits::default());
/// let frame = decoder.decode(b"+OK\r\n")?.expect("complete");
/// assert_eq!(frame.value, Value::Simple(b"OK"));
/// # Ok::<(), shearline::resp::DecodeError>(())
/// ```
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
    /// `(`: an integer of any length, as its text: digits, and before them `-`, `+` or nothing, as
    /// they were sent.
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
    pub(super) view: View<'a>,
    pub(super) len: u32,
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
        Values {
            view: self.view,
            left: self.len,
        }
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

/// The values of an [`Items`].
#[derive(Clone, Debug)]
pub struct Values<'a> {
    view: View<'a>,
    left: u32,
}

impl<'a> Iterator for Values<'a> {
    type Item = Value<'a>;

    #[inline]
    fn next(&mut self) -> Option<Value<'a>> {
        self.left = self.left.checked_sub(1)?;
        self.view.value()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.view.at_most(self.left as usize);
        (left, Some(left))
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
        let left = self.view.at_most(self.left as usize);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Elements<'_> {}

/// The pairs of a map or of attributes. A cheap copy of a place in the reply.
#[derive(Clone, Copy)]
pub struct Pairs<'a> {
    /// Begins with the first key; or, if these are attributes, with their header.
    pub(super) view: View<'a>,
    pub(super) len: u32,
    pub(super) attributes: bool,
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
    ///
    /// ```
    /// use shearline::resp::{Decoder, Limits};
    ///
    /// let mut decoder = Decoder::new(Limits::default());
    /// let frame = decoder.decode(b"%1\r\n$5\r\nproto\r\n:3\r\n")?.expect("complete");
    /// let pairs = frame.value.as_pairs().expect("a map");
    /// assert_eq!(pairs.get(b"proto").and_then(|value| value.as_integer()), Some(3));
    /// # Ok::<(), shearline::resp::DecodeError>(())
    /// ```
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

/// The keys and values of a [`Pairs`].
#[derive(Clone, Debug)]
pub struct PairValues<'a>(PairElements<'a>);

impl<'a> Iterator for PairValues<'a> {
    type Item = (Value<'a>, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.begin_pair()?;
        let view = &mut self.0.view;
        Some((view.value()?, view.value()?))
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

impl PairElements<'_> {
    /// Counts the next pair and stands before it: of attributes, behind their header.
    #[inline]
    fn begin_pair(&mut self) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        while self.block == 0 {
            let header = self.view.token()?;
            if header.kind != Kind::Attribute {
                return None;
            }
            self.block = header.elements() / 2;
            self.view = self.view.inside(header);
        }
        self.block -= 1;
        Some(())
    }
}

impl<'a> Iterator for PairElements<'a> {
    type Item = (Element<'a>, Element<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.begin_pair()?;
        Some((self.view.element()?, self.view.element()?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.view.at_most(self.left as usize * 2) / 2;
        (left, Some(left))
    }
}

impl ExactSizeIterator for PairElements<'_> {}
