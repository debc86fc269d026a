//! Owned values as tests need them: built by hand, compared, and encoded.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::owned::OwnedValue;
use super::super::write::{self, LINE_END, header};

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
}

/// Scalars are compared as those of replies are.
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

/// Appends a value as a RESP3 connection gets it.
///
/// What is written reads back as an equal value, but not every reply is written again byte for
/// byte. Doubles get their shortest spelling; `-nan` becomes `nan`; the nulls of RESP2 become `_`;
/// several attributes in a row become one.
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

/// Appends a value as a RESP2 connection gets it: null as `$-1`, maps as flat arrays, sets and
/// pushes as arrays, doubles, big numbers and verbatim texts as bulk strings, booleans as 1 and 0,
/// bulk errors as errors on one line, attributes not at all.
pub(crate) fn encode_resp2(out: &mut Vec<u8>, value: &OwnedValue) {
    match value {
        OwnedValue::BulkError(text) => write::error(out, text),
        OwnedValue::BigNumber(text) | OwnedValue::Verbatim { text, .. } => write::bulk(out, text),
        OwnedValue::Null => write::null_resp2(out),
        OwnedValue::Double(number) => write::bulk(out, double(*number).as_bytes()),
        OwnedValue::Boolean(boolean) => write::integer(out, i64::from(*boolean)),
        OwnedValue::Attributed(_, value) => encode_resp2(out, value),
        OwnedValue::Array(items) | OwnedValue::Set(items) | OwnedValue::Push(items) => {
            write::array(out, items.len());
            items.iter().for_each(|item| encode_resp2(out, item));
        }
        OwnedValue::Map(pairs) => {
            write::array(out, pairs.len() * 2);
            for (key, value) in pairs {
                encode_resp2(out, key);
                encode_resp2(out, value);
            }
        }
        OwnedValue::Simple(_)
        | OwnedValue::Error(_)
        | OwnedValue::Integer(_)
        | OwnedValue::Bulk(_) => encode(out, value),
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

/// Returns the shortest text that reads back as the same double.
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
