//! Equality of values of replies. Not here: that of owned values (`owned::equal`), by the same
//! rules.

use core::iter::zip;

use super::part::{Attributes, Part};
use super::value::Value;

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        is_like(*self, *other)
            && zip(
                self.inside(Attributes::Skipped),
                other.inside(Attributes::Skipped),
            )
            .all(|parts| match parts {
                (Part::Value(one), Part::Value(other)) => is_like(one, other),
                // Those are skipped.
                (Part::Attributes(_), _) | (_, Part::Attributes(_)) => false,
            })
    }
}

impl Eq for Value<'_> {}

/// Returns `true` if two values are the same, but for what is inside them, of which only the number
/// counts. As long as each is like its counterpart, the values around them have the same shape.
fn is_like(one: Value<'_>, other: Value<'_>) -> bool {
    use Value::{
        Array, BigNumber, Boolean, Bulk, BulkError, Double, Error, Integer, Map, Null, Push, Set,
        Simple, Verbatim,
    };
    match (one, other) {
        (Simple(one), Simple(other))
        | (Error(one), Error(other))
        | (Bulk(one), Bulk(other))
        | (BigNumber(one), BigNumber(other))
        | (BulkError(one), BulkError(other)) => one == other,
        (Integer(one), Integer(other)) => one == other,
        (Null, Null) => true,
        (Double(one), Double(other)) => are_same_doubles(one, other),
        (Boolean(one), Boolean(other)) => one == other,
        (
            Verbatim { format, text },
            Verbatim {
                format: other_format,
                text: other,
            },
        ) => format == other_format && text == other,
        (Array(one), Array(other)) | (Set(one), Set(other)) | (Push(one), Push(other)) => {
            one.len() == other.len()
        }
        (Map(one), Map(other)) => one.len() == other.len(),
        _ => false,
    }
}

/// Compares bit by bit, except that all NaNs are equal.
pub(super) fn are_same_doubles(one: f64, other: f64) -> bool {
    one.to_bits() == other.to_bits() || one.is_nan() && other.is_nan()
}
