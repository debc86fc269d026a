//! The `Debug` output of replies, for people.

use core::fmt::{Debug, Formatter, Result};

use super::value::{Items, Pairs, Value};

/// Prints the value on one line.
impl Debug for Value<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Null => f.write_str("Null"),
            Self::Integer(integer) => write!(f, "Integer({integer})"),
            Self::Double(double) => write!(f, "Double({double:?})"),
            Self::Boolean(boolean) => write!(f, "Boolean({boolean})"),
            Self::BigNumber(digits) => write!(f, "BigNumber({})", digits.escape_ascii()),
            Self::Simple(text) => write!(f, "Simple(b\"{}\")", text.escape_ascii()),
            Self::Error(text) => write!(f, "Error(b\"{}\")", text.escape_ascii()),
            Self::Bulk(text) => write!(f, "Bulk(b\"{}\")", text.escape_ascii()),
            Self::BulkError(text) => write!(f, "BulkError(b\"{}\")", text.escape_ascii()),
            Self::Verbatim { format, text } => {
                let (format, text) = (format.escape_ascii(), text.escape_ascii());
                write!(f, "Verbatim(b\"{format}:{text}\")")
            }
            Self::Array(items) => write!(f, "Array({items:?})"),
            Self::Set(items) => write!(f, "Set({items:?})"),
            Self::Push(items) => write!(f, "Push({items:?})"),
            Self::Map(pairs) => write!(f, "Map({pairs:?})"),
        }
    }
}

impl Debug for Items<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Debug for Pairs<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
