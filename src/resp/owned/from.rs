//! Conversions from Rust types to values.
//!
//! Not here: strings, of which RESP has three kinds; say which one.

use alloc::vec::Vec;

use super::{Attributed, OwnedPairs, OwnedValue};

/// ```
/// use shearline::resp::OwnedValue;
///
/// assert_eq!(OwnedValue::from(7), OwnedValue::Integer(7));
/// ```
impl From<i64> for OwnedValue {
    fn from(integer: i64) -> Self {
        Self::Integer(integer)
    }
}

impl From<f64> for OwnedValue {
    fn from(double: f64) -> Self {
        Self::Double(double)
    }
}

impl From<bool> for OwnedValue {
    fn from(boolean: bool) -> Self {
        Self::Boolean(boolean)
    }
}

/// An array.
///
/// ```
/// use shearline::resp::OwnedValue;
///
/// let array = OwnedValue::from(vec![OwnedValue::from(7), OwnedValue::from(true)]);
/// assert_eq!(array.as_items().map(|items| items.len()), Some(2));
/// ```
impl From<Vec<Self>> for OwnedValue {
    fn from(values: Vec<Self>) -> Self {
        Self::Array(values.into())
    }
}

impl From<OwnedPairs> for OwnedValue {
    fn from(pairs: OwnedPairs) -> Self {
        Self::Map(pairs)
    }
}

impl From<Attributed> for OwnedValue {
    fn from(attributed: Attributed) -> Self {
        Self::Attributed(attributed)
    }
}
