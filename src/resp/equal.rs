//! Equality of two values of replies.
//!
//! Both are gone through at once: as long as each part is like its counterpart, they have the same
//! shape.

use core::iter::zip;

use super::part::Part;
use super::value::Value;

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        zip(self.parts(), other.parts()).all(|(one, other)| is_like(one, other))
    }
}

impl Eq for Value<'_> {}

fn is_like(one: Part<'_>, other: Part<'_>) -> bool {
    match (one, other) {
        (Part::Scalar(one), Part::Scalar(other)) => is_same_scalar(one, other),
        (Part::Open(one, values), Part::Open(other, others)) => (one, values) == (other, others),
        (Part::Scalar(_), Part::Open(..)) | (Part::Open(..), Part::Scalar(_)) => false,
    }
}

fn is_same_scalar(one: Value<'_>, other: Value<'_>) -> bool {
    use Value::{
        BigNumber, Boolean, Bulk, BulkError, Double, Error, Integer, Null, Simple, Verbatim,
    };
    match (one, other) {
        (Simple(one), Simple(other))
        | (Error(one), Error(other))
        | (Bulk(one), Bulk(other))
        | (BigNumber(one), BigNumber(other))
        | (BulkError(one), BulkError(other)) => one == other,
        (Integer(one), Integer(other)) => one == other,
        (Null, Null) => true,
        // Bit by bit, except that all NaNs are equal.
        (Double(one), Double(other)) => {
            one.to_bits() == other.to_bits() || one.is_nan() && other.is_nan()
        }
        (Boolean(one), Boolean(other)) => one == other,
        (
            Verbatim { format, text },
            Verbatim {
                format: other_format,
                text: other,
            },
        ) => format == other_format && text == other,
        _ => false,
    }
}
