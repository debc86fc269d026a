//! Equality of two values of replies.

use super::value::Value;

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (*self, *other) {
            (Self::Simple(one), Self::Simple(other))
            | (Self::Error(one), Self::Error(other))
            | (Self::Bulk(one), Self::Bulk(other))
            | (Self::BigNumber(one), Self::BigNumber(other))
            | (Self::BulkError(one), Self::BulkError(other)) => one == other,
            (Self::Integer(one), Self::Integer(other)) => one == other,
            (Self::Null, Self::Null) => true,
            // Compares bit by bit, except that all NaNs are equal.
            (Self::Double(one), Self::Double(other)) => {
                one.to_bits() == other.to_bits() || one.is_nan() && other.is_nan()
            }
            (Self::Boolean(one), Self::Boolean(other)) => one == other,
            (
                Self::Verbatim { format, text },
                Self::Verbatim {
                    format: other_format,
                    text: other,
                },
            ) => format == other_format && text == other,
            (Self::Array(one), Self::Array(other))
            | (Self::Set(one), Self::Set(other))
            | (Self::Push(one), Self::Push(other)) => one.iter().eq(other.iter()),
            (Self::Map(one), Self::Map(other)) => one.iter().eq(other.iter()),
            _ => false,
        }
    }
}

impl Eq for Value<'_> {}
