//! Replies that borrow nothing and have their attributes, for tests: the library passes over these.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use super::decode::Frame;
use super::token::Kind;
use super::value::Value;
use super::view::View;

/// A value that borrows nothing. See [`Value`].
///
/// What is done to it calls itself for each level: the depth of a reply is bounded.
#[derive(Clone)]
#[expect(missing_docs, reason = "as in `Value`")]
pub enum OwnedValue {
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
    /// `|`: what is said about a value, and the value. Several that were sent in a row are one.
    Attributed(Vec<(Self, Self)>, Box<Self>),
}

#[doc(hidden)]
impl Frame<'_> {
    /// Returns a copy of the reply that borrows nothing, with all its attributes.
    #[must_use]
    pub fn to_owned(&self) -> OwnedValue {
        let attributed = self.attributed.and_then(|mut reply| element(&mut reply));
        attributed.unwrap_or_else(|| self.value.to_owned())
    }
}

impl Value<'_> {
    /// Returns a copy that borrows nothing, with all attributes of the values inside it.
    pub(super) fn to_owned(self) -> OwnedValue {
        let bytes = Bytes::copy_from_slice;
        match self {
            Self::Simple(text) => OwnedValue::Simple(bytes(text)),
            Self::Error(text) => OwnedValue::Error(bytes(text)),
            Self::Integer(integer) => OwnedValue::Integer(integer),
            Self::Bulk(text) => OwnedValue::Bulk(bytes(text)),
            Self::Null => OwnedValue::Null,
            Self::Double(double) => OwnedValue::Double(double),
            Self::Boolean(boolean) => OwnedValue::Boolean(boolean),
            Self::BigNumber(digits) => OwnedValue::BigNumber(bytes(digits)),
            Self::BulkError(text) => OwnedValue::BulkError(bytes(text)),
            Self::Verbatim { format, text } => OwnedValue::Verbatim {
                format,
                text: bytes(text),
            },
            Self::Array(items) => OwnedValue::Array(elements(items.view, items.len)),
            Self::Set(items) => OwnedValue::Set(elements(items.view, items.len)),
            Self::Push(items) => OwnedValue::Push(elements(items.view, items.len)),
            Self::Map(map) => OwnedValue::Map(pairs(map.view, map.len)),
        }
    }
}

/// Takes the first element with its attributes. `None`: the caller of the decoder changed the
/// bytes, and a wrong answer is then as good as any.
fn element(view: &mut View<'_>) -> Option<OwnedValue> {
    let mut said: Option<Vec<_>> = None;
    let mut token = view.token()?;
    while token.kind == Kind::Attribute {
        let more = pairs(view.inside(token), token.elements() / 2);
        said.get_or_insert_default().extend(more);
        view.skip(token)?;
        token = view.token()?;
    }
    let value = view.read(token)?.to_owned();
    view.skip(token)?;
    Some(match said {
        Some(said) => OwnedValue::Attributed(said, Box::new(value)),
        None => value,
    })
}

fn elements(mut view: View<'_>, count: u32) -> Vec<OwnedValue> {
    (0..count).map_while(|_| element(&mut view)).collect()
}

fn pairs(mut view: View<'_>, count: u32) -> Vec<(OwnedValue, OwnedValue)> {
    let mut pair = || Some((element(&mut view)?, element(&mut view)?));
    (0..count).map_while(|_| pair()).collect()
}

impl OwnedValue {
    /// Returns a value that is no aggregate.
    #[expect(clippy::wildcard_enum_match_arm, reason = "all others are aggregates")]
    pub(super) fn scalar(&self) -> Option<Value<'_>> {
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

/// On one line, like a [`Value`].
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

/// Pairs, to be printed.
struct Said<'a>(&'a [(OwnedValue, OwnedValue)]);

impl fmt::Debug for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = self.0.iter().map(|(key, value)| (key, value));
        f.debug_map().entries(pairs).finish()
    }
}
