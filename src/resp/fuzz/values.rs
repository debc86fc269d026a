//! Owned values for tests, which can be built by hand, compared and encoded.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use super::super::value::{Items, Value};
use super::super::write::{self, LINE_END, header};

/// An owned [`Value`].
#[derive(Clone)]
pub(crate) enum OwnedValue {
    Simple(Bytes),
    Error(Bytes),
    Integer(i64),
    Bulk(Bytes),
    Null,
    Double(f64),
    Boolean(bool),
    BigNumber(Bytes),
    BulkError(Bytes),
    Verbatim {
        format: [u8; 3],
        text: Bytes,
    },
    Array(Vec<Self>),
    Map(Vec<(Self, Self)>),
    Set(Vec<Self>),
    Push(Vec<Self>),
    /// `|`: attributes of a value, and the value. Tests send attributes, and readers skip them.
    Attributed(Vec<(Self, Self)>, Box<Self>),
}

impl From<Value<'_>> for OwnedValue {
    fn from(value: Value<'_>) -> Self {
        let bytes = Bytes::copy_from_slice;
        let all = |items: Items<'_>| items.iter().map(Self::from).collect();
        match value {
            Value::Simple(text) => Self::Simple(bytes(text)),
            Value::Error(text) => Self::Error(bytes(text)),
            Value::Integer(integer) => Self::Integer(integer),
            Value::Bulk(text) => Self::Bulk(bytes(text)),
            Value::Null => Self::Null,
            Value::Double(double) => Self::Double(double),
            Value::Boolean(boolean) => Self::Boolean(boolean),
            Value::BigNumber(digits) => Self::BigNumber(bytes(digits)),
            Value::BulkError(text) => Self::BulkError(bytes(text)),
            Value::Verbatim { format, text } => Self::Verbatim {
                format,
                text: bytes(text),
            },
            Value::Array(items) => Self::Array(all(items)),
            Value::Set(items) => Self::Set(all(items)),
            Value::Push(items) => Self::Push(all(items)),
            Value::Map(pairs) => {
                let pairs = pairs.iter();
                Self::Map(
                    pairs
                        .map(|(key, value)| (key.into(), value.into()))
                        .collect(),
                )
            }
        }
    }
}

impl OwnedValue {
    pub(crate) fn array(items: impl IntoIterator<Item = Self>) -> Self {
        Self::Array(items.into_iter().collect())
    }

    pub(crate) fn map(pairs: impl IntoIterator<Item = (Self, Self)>) -> Self {
        Self::Map(pairs.into_iter().collect())
    }

    pub(crate) fn set(items: impl IntoIterator<Item = Self>) -> Self {
        Self::Set(items.into_iter().collect())
    }

    pub(crate) fn push(items: impl IntoIterator<Item = Self>) -> Self {
        Self::Push(items.into_iter().collect())
    }

    pub(crate) fn attributed(
        attributes: impl IntoIterator<Item = (Self, Self)>,
        value: Self,
    ) -> Self {
        Self::Attributed(attributes.into_iter().collect(), Box::new(value))
    }

    /// Returns the value without attributes, as a reader sees it.
    pub(crate) fn bare(&self) -> Self {
        let all = |items: &[Self]| items.iter().map(Self::bare).collect();
        match self {
            Self::Array(items) => Self::Array(all(items)),
            Self::Set(items) => Self::Set(all(items)),
            Self::Push(items) => Self::Push(all(items)),
            Self::Map(pairs) => {
                let pairs = pairs.iter();
                Self::Map(
                    pairs
                        .map(|(key, value)| (key.bare(), value.bare()))
                        .collect(),
                )
            }
            Self::Attributed(_, value) => value.bare(),
            Self::Simple(_)
            | Self::Error(_)
            | Self::Integer(_)
            | Self::Bulk(_)
            | Self::Null
            | Self::Double(_)
            | Self::Boolean(_)
            | Self::BigNumber(_)
            | Self::BulkError(_)
            | Self::Verbatim { .. } => self.clone(),
        }
    }
}

/// Scalars are compared in the same way as in replies.
impl PartialEq for OwnedValue {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Array(some), Self::Array(others))
            | (Self::Set(some), Self::Set(others))
            | (Self::Push(some), Self::Push(others)) => some == others,
            (Self::Map(some), Self::Map(others)) => some == others,
            (Self::Attributed(some, one), Self::Attributed(others, other)) => {
                some == others && one == other
            }
            _ => match (self.scalar(), other.scalar()) {
                (Some(one), Some(other)) => one == other,
                _ => false,
            },
        }
    }
}

impl Eq for OwnedValue {}

/// Appends a value in its RESP3 form.
///
/// Decoding the bytes returns an equal value, but encoding a decoded reply may return different bytes. Doubles get
/// their shortest text, `-nan` becomes `nan`, the nulls of RESP2 become `_`, and attributes are skipped.
pub(crate) fn encode(out: &mut Vec<u8>, value: &OwnedValue) {
    match value {
        OwnedValue::Simple(text) => write::simple(out, text),
        OwnedValue::Error(text) => write::error(out, text),
        OwnedValue::Integer(number) => write::integer(out, *number),
        OwnedValue::Bulk(text) => write::bulk(out, text),
        OwnedValue::Null => write::null(out),
        OwnedValue::Double(number) => line(out, b",", double(*number).as_bytes()),
        OwnedValue::Boolean(true) => line(out, b"#", b"t"),
        OwnedValue::Boolean(false) => line(out, b"#", b"f"),
        OwnedValue::BigNumber(digits) => line(out, b"(", digits),
        OwnedValue::BulkError(text) => {
            header(out, b'!', text.len());
            line(out, b"", text);
        }
        OwnedValue::Verbatim { format, text } => write::verbatim(out, *format, text),
        OwnedValue::Array(items) => aggregate(out, b'*', items),
        OwnedValue::Set(items) => aggregate(out, b'~', items),
        OwnedValue::Push(items) => aggregate(out, b'>', items),
        OwnedValue::Map(pairs) => map(out, b'%', pairs),
        OwnedValue::Attributed(pairs, value) => {
            map(out, b'|', pairs);
            encode(out, value);
        }
    }
}

fn line(out: &mut Vec<u8>, kind: &[u8], text: &[u8]) {
    out.extend([kind, text, LINE_END].concat());
}

fn aggregate(out: &mut Vec<u8>, kind: u8, items: &[OwnedValue]) {
    header(out, kind, items.len());
    items.iter().for_each(|item| encode(out, item));
}

fn map(out: &mut Vec<u8>, kind: u8, pairs: &[(OwnedValue, OwnedValue)]) {
    header(out, kind, pairs.len());
    for (key, value) in pairs {
        encode(out, key);
        encode(out, value);
    }
}

/// Returns the shortest text that parses to the same double.
fn double(double: f64) -> String {
    let magnitude = double.abs();
    if double.is_nan() {
        "nan".into()
    } else if magnitude == 0.0 || magnitude.is_infinite() || (1e-5..1e17).contains(&magnitude) {
        format!("{double}")
    } else {
        format!("{double:e}")
    }
}

impl OwnedValue {
    /// Returns a value that is not an aggregate.
    #[expect(clippy::wildcard_enum_match_arm, reason = "all others are aggregates")]
    fn scalar(&self) -> Option<Value<'_>> {
        Some(match self {
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
            _ => return None,
        })
    }
}

/// Prints the value on one line, like a [`Value`].
impl fmt::Debug for OwnedValue {
    #[expect(clippy::wildcard_enum_match_arm, reason = "all others are scalars")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Array(items) => write!(f, "Array({items:?})"),
            Self::Set(items) => write!(f, "Set({items:?})"),
            Self::Push(items) => write!(f, "Push({items:?})"),
            Self::Map(pairs) => write!(f, "Map({:?})", Said(pairs)),
            Self::Attributed(pairs, value) => write!(f, "Attributed({:?}, {value:?})", Said(pairs)),
            _ => self
                .scalar()
                .map_or(Ok(()), |scalar| write!(f, "{scalar:?}")),
        }
    }
}

/// Pairs, for printing.
struct Said<'a>(&'a [(OwnedValue, OwnedValue)]);

impl fmt::Debug for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = self.0.iter().map(|(key, value)| (key, value));
        f.debug_map().entries(pairs).finish()
    }
}
