//! Values that own what they say: for replies that outlive their buffer, and for servers.

use alloc::boxed::Box;
use alloc::vec::Vec;

use bytes::Bytes;

use super::value::{Element, Items, Pairs, Value};

/// A value that borrows nothing.
///
/// Two are equal if they say the same: for doubles bit by bit, so that NaN is itself and the two
/// zeros differ.
#[derive(Clone, Debug)]
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
    Array(Vec<Self>),
    /// `%`: pairs of a key and a value.
    Map(Vec<(Self, Self)>),
    /// `~`: values without order.
    Set(Vec<Self>),
    /// `>`: something that was not asked for.
    Push(Vec<Self>),
    /// `|`: a value, and what is said about it.
    Attributed(Box<Attributed>),
}

/// A value, and what is said about it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Attributed {
    /// The attributes. Several that were sent in a row are one here.
    pub attributes: Vec<(OwnedValue, OwnedValue)>,
    /// What they are said about.
    pub value: OwnedValue,
}

impl OwnedValue {
    /// A simple string.
    #[must_use]
    pub const fn simple(text: &'static str) -> Self {
        Self::Simple(Bytes::from_static(text.as_bytes()))
    }

    /// An error.
    #[must_use]
    pub const fn error(text: &'static str) -> Self {
        Self::Error(Bytes::from_static(text.as_bytes()))
    }

    /// A bulk string, copied.
    #[must_use]
    pub fn bulk(bytes: &[u8]) -> Self {
        Self::Bulk(Bytes::copy_from_slice(bytes))
    }
}

impl PartialEq for OwnedValue {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Simple(one), Self::Simple(two))
            | (Self::Error(one), Self::Error(two))
            | (Self::Bulk(one), Self::Bulk(two))
            | (Self::BigNumber(one), Self::BigNumber(two))
            | (Self::BulkError(one), Self::BulkError(two)) => one == two,
            (Self::Integer(one), Self::Integer(two)) => one == two,
            (Self::Null, Self::Null) => true,
            (Self::Double(one), Self::Double(two)) => {
                one.to_bits() == two.to_bits() || one.is_nan() && two.is_nan()
            }
            (Self::Boolean(one), Self::Boolean(two)) => one == two,
            (
                Self::Verbatim {
                    format: one_format,
                    text: one,
                },
                Self::Verbatim {
                    format: two_format,
                    text: two,
                },
            ) => one_format == two_format && one == two,
            (Self::Array(one), Self::Array(two))
            | (Self::Set(one), Self::Set(two))
            | (Self::Push(one), Self::Push(two)) => one == two,
            (Self::Map(one), Self::Map(two)) => one == two,
            (Self::Attributed(one), Self::Attributed(two)) => one == two,
            _ => false,
        }
    }
}

impl Eq for OwnedValue {}

impl Value<'_> {
    /// A copy that borrows nothing. Attributes of nested values are left out: see
    /// [`Element::to_owned`].
    #[must_use]
    pub fn to_owned(&self) -> OwnedValue {
        Copying {
            buffer: None,
            attributes: false,
        }
        .value(self)
    }

    /// Like [`to_owned`](Self::to_owned), but strings that lie in `buffer` are cheap slices of it
    /// and not copied. `buffer` stays in memory as long as any of them.
    #[must_use]
    pub fn share(&self, buffer: &Bytes) -> OwnedValue {
        Copying {
            buffer: Some(buffer),
            attributes: false,
        }
        .value(self)
    }
}

impl Element<'_> {
    /// A copy that borrows nothing, with all attributes at every depth.
    #[must_use]
    pub fn to_owned(&self) -> OwnedValue {
        Copying {
            buffer: None,
            attributes: true,
        }
        .element(self)
    }
}

/// How a value is copied. The functions call each other once per level of nesting, of which
/// [`Limits::depth`](super::Limits::depth) allows few.
#[derive(Clone, Copy)]
struct Copying<'b> {
    /// Strings in here are shared.
    buffer: Option<&'b Bytes>,
    /// Attributes are kept.
    attributes: bool,
}

impl Copying<'_> {
    fn element(self, element: &Element<'_>) -> OwnedValue {
        let value = self.value(&element.value);
        match element.attributes {
            Some(pairs) if self.attributes => {
                let attributes = self.pairs(&pairs);
                OwnedValue::Attributed(Box::new(Attributed { attributes, value }))
            }
            Some(_) | None => value,
        }
    }

    fn value(self, value: &Value<'_>) -> OwnedValue {
        match *value {
            Value::Simple(text) => OwnedValue::Simple(self.bytes(text)),
            Value::Error(text) => OwnedValue::Error(self.bytes(text)),
            Value::Integer(integer) => OwnedValue::Integer(integer),
            Value::Bulk(text) => OwnedValue::Bulk(self.bytes(text)),
            Value::Null => OwnedValue::Null,
            Value::Double(double) => OwnedValue::Double(double),
            Value::Boolean(boolean) => OwnedValue::Boolean(boolean),
            Value::BigNumber(digits) => OwnedValue::BigNumber(self.bytes(digits)),
            Value::BulkError(text) => OwnedValue::BulkError(self.bytes(text)),
            Value::Verbatim { format, text } => OwnedValue::Verbatim {
                format,
                text: self.bytes(text),
            },
            Value::Array(items) => OwnedValue::Array(self.items(&items)),
            Value::Map(pairs) => OwnedValue::Map(self.pairs(&pairs)),
            Value::Set(items) => OwnedValue::Set(self.items(&items)),
            Value::Push(items) => OwnedValue::Push(self.items(&items)),
        }
    }

    fn items(self, items: &Items<'_>) -> Vec<OwnedValue> {
        items
            .elements()
            .map(|element| self.element(&element))
            .collect()
    }

    fn pairs(self, pairs: &Pairs<'_>) -> Vec<(OwnedValue, OwnedValue)> {
        pairs
            .elements()
            .map(|(key, value)| (self.element(&key), self.element(&value)))
            .collect()
    }

    fn bytes(self, text: &[u8]) -> Bytes {
        match self.buffer {
            Some(buffer)
                if buffer.as_ptr_range().start <= text.as_ptr()
                    && text.as_ptr_range().end <= buffer.as_ptr_range().end =>
            {
                buffer.slice_ref(text)
            }
            Some(_) | None => Bytes::copy_from_slice(text),
        }
    }
}
