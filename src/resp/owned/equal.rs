//! Equality of two values.

use core::iter::zip;
use core::slice::from_ref;

use super::super::equal::are_same_doubles;
use super::walk::Walk;
use super::{OwnedItems, OwnedValue};

impl PartialEq for OwnedValue {
    fn eq(&self, other: &Self) -> bool {
        are_equal(from_ref(self), from_ref(other))
    }
}

impl Eq for OwnedValue {}

impl PartialEq for OwnedItems {
    fn eq(&self, other: &Self) -> bool {
        are_equal(self, other)
    }
}

impl Eq for OwnedItems {}

/// Goes through both at once: as long as each value is like its counterpart, they have the same
/// shape.
fn are_equal(some: &[OwnedValue], others: &[OwnedValue]) -> bool {
    some.len() == others.len()
        && zip(Walk::new(some), Walk::new(others)).all(|(one, other)| is_like(one, other))
}

/// Returns `true` if two values are the same, but for what is inside them, of which only the number
/// counts.
fn is_like(one: &OwnedValue, other: &OwnedValue) -> bool {
    use OwnedValue::{
        Array, Attributed, BigNumber, Boolean, Bulk, BulkError, Double, Error, Integer, Map, Null,
        Push, Set, Simple, Verbatim,
    };
    match (one, other) {
        (Simple(one), Simple(other))
        | (Error(one), Error(other))
        | (Bulk(one), Bulk(other))
        | (BigNumber(one), BigNumber(other))
        | (BulkError(one), BulkError(other)) => one == other,
        (Integer(one), Integer(other)) => one == other,
        (Null, Null) => true,
        (Double(one), Double(other)) => are_same_doubles(*one, *other),
        (Boolean(one), Boolean(other)) => one == other,
        (
            Verbatim {
                format: one_format,
                text: one,
            },
            Verbatim {
                format: other_format,
                text: other,
            },
        ) => one_format == other_format && one == other,
        (Array(_), Array(_))
        | (Set(_), Set(_))
        | (Push(_), Push(_))
        | (Map(_), Map(_))
        | (Attributed(_), Attributed(_)) => one.inside().len() == other.inside().len(),
        _ => false,
    }
}
