//! Values that own their contents: for replies that outlive their buffer, and for servers.
//!
//! Unlike a reply, whose depth is bounded by [`Limits::depth`](super::Limits::depth), a value that
//! was built by hand may be nested as deep as memory allows. So nothing that is done to it calls
//! itself for each level, dropping it included.

mod copy;
mod equal;
mod nested;
mod print;
mod walk;

use bytes::Bytes;

use super::part::{Part, Shape};
use super::value::Value;

pub use nested::{Attributed, OwnedItems, OwnedPairs};
pub(super) use walk::Walk;

/// A value that borrows nothing.
///
/// Two are equal if they say the same: for doubles bit by bit, so that NaN is itself and the two
/// zeros differ.
///
/// ```
/// use shearline::internals::resp::{OwnedValue, encode};
///
/// let one = (OwnedValue::simple("one"), OwnedValue::Integer(1));
/// let value = OwnedValue::array([OwnedValue::Null, OwnedValue::map([one])]);
/// let mut out = Vec::new();
/// encode(&mut out, &value);
/// assert_eq!(out, b"*2\r\n_\r\n%1\r\n+one\r\n:1\r\n");
/// assert_eq!(format!("{value:?}"), r#"Array([Null, Map({Simple(b"one"): Integer(1)})])"#);
/// ```
#[derive(Clone)]
pub enum OwnedValue {
    /// `+`: a short text. It cannot hold CR or LF: they are encoded as spaces.
    Simple(Bytes),
    /// `-`: an error text. It cannot hold CR or LF: they are encoded as spaces.
    Error(Bytes),
    /// `:`: a signed integer of 64 bits.
    Integer(i64),
    /// `$`: any bytes.
    Bulk(Bytes),
    /// `_`, or `$-1` in RESP2.
    Null,
    /// `,`: a double.
    Double(f64),
    /// `#`: true or false.
    Boolean(bool),
    /// `(`: an integer of any length, as its digits.
    BigNumber(Bytes),
    /// `!`: an error text of any bytes.
    BulkError(Bytes),
    /// `=`: a text that is meant for people.
    Verbatim {
        /// What the text is written in: `txt` or `mkd`.
        format: [u8; 3],
        /// The text without its format.
        text: Bytes,
    },
    /// `*`: values in order.
    Array(OwnedItems),
    /// `%`: pairs of a key and a value.
    Map(OwnedPairs),
    /// `~`: values without order.
    Set(OwnedItems),
    /// `>`: something that was not asked for.
    Push(OwnedItems),
    /// `|`: a value, and what is said about it.
    Attributed(Attributed),
}

impl OwnedValue {
    /// A simple string. A `&'static str` or [`Bytes`] is not copied, a `String` or `Vec<u8>` kept.
    ///
    /// ```
    /// use shearline::internals::resp::OwnedValue;
    ///
    /// assert_eq!(OwnedValue::simple(format!("v{}", 7)), OwnedValue::simple("v7"));
    /// ```
    #[must_use]
    pub fn simple(text: impl Into<Bytes>) -> Self {
        Self::Simple(text.into())
    }

    /// An error. Like [`simple`](Self::simple).
    #[must_use]
    pub fn error(text: impl Into<Bytes>) -> Self {
        Self::Error(text.into())
    }

    /// A bulk string, copied. One that is owned already needs no copy:
    ///
    /// ```
    /// use bytes::Bytes;
    /// use shearline::internals::resp::OwnedValue;
    ///
    /// let kept = Bytes::from(vec![0; 1 << 20]);
    /// assert_eq!(OwnedValue::Bulk(kept.clone()), OwnedValue::bulk(&kept));
    /// ```
    #[must_use]
    pub fn bulk(bytes: &[u8]) -> Self {
        Self::Bulk(Bytes::copy_from_slice(bytes))
    }

    /// An array of these values.
    #[must_use]
    pub fn array(items: impl IntoIterator<Item = Self>) -> Self {
        Self::Array(items.into_iter().collect())
    }

    /// A map of these keys and values.
    #[must_use]
    pub fn map(pairs: impl IntoIterator<Item = (Self, Self)>) -> Self {
        Self::Map(pairs.into_iter().collect())
    }

    /// A set of these values.
    #[must_use]
    pub fn set(items: impl IntoIterator<Item = Self>) -> Self {
        Self::Set(items.into_iter().collect())
    }

    /// A push of these values, of which the first has to be a string.
    #[must_use]
    pub fn push(items: impl IntoIterator<Item = Self>) -> Self {
        Self::Push(items.into_iter().collect())
    }

    /// A value, and what is said about it.
    #[must_use]
    pub fn attributed(attributes: impl IntoIterator<Item = (Self, Self)>, value: Self) -> Self {
        Self::Attributed(Attributed::new(attributes, value))
    }

    /// Returns the values inside an aggregate in the order in which they are sent: of a map each
    /// key before its value, of an attributed value the attributes before the value itself.
    pub(super) fn inside(&self) -> &[Self] {
        self.items().map_or(&[], |items| items)
    }

    const fn items(&self) -> Option<&OwnedItems> {
        if let Self::Array(items)
        | Self::Set(items)
        | Self::Push(items)
        | Self::Map(OwnedPairs(items))
        | Self::Attributed(Attributed(items)) = self
        {
            Some(items)
        } else {
            None
        }
    }

    const fn items_mut(&mut self) -> Option<&mut OwnedItems> {
        if let Self::Array(items)
        | Self::Set(items)
        | Self::Push(items)
        | Self::Map(OwnedPairs(items))
        | Self::Attributed(Attributed(items)) = self
        {
            Some(items)
        } else {
            None
        }
    }

    /// Returns the value without what is inside it.
    #[inline]
    pub(super) fn part(&self) -> Part<'_> {
        let scalar = match self {
            Self::Array(items) => return Part::Open(Shape::Array, items.len()),
            Self::Set(items) => return Part::Open(Shape::Set, items.len()),
            Self::Push(items) => return Part::Open(Shape::Push, items.len()),
            Self::Map(OwnedPairs(items)) => return Part::Open(Shape::Map, items.len()),
            Self::Attributed(Attributed(items)) => {
                return Part::Open(Shape::Attributed, items.len());
            }
            Self::Simple(text) => Value::Simple(text),
            Self::Error(text) => Value::Error(text),
            Self::Integer(integer) => Value::Integer(*integer),
            Self::Bulk(text) => Value::Bulk(text),
            Self::Null => Value::Null,
            Self::Double(double) => Value::Double(*double),
            Self::Boolean(boolean) => Value::Boolean(*boolean),
            Self::BigNumber(digits) => Value::BigNumber(digits),
            Self::BulkError(text) => Value::BulkError(text),
            &Self::Verbatim { format, ref text } => Value::Verbatim { format, text },
        };
        Part::Scalar(scalar)
    }
}
