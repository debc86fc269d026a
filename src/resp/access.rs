//! Accessors that return the content of a value if it has the requested kind.
//!
//! The accessors convert nothing: the text `1` is not an integer.

use core::str::from_utf8;

use super::value::{Items, Pairs, Value};

/// ```
/// use shearline::resp::Value;
///
/// let text = Value::Bulk(b"token");
/// assert_eq!((text.as_bytes(), text.as_str()), (Some(&b"token"[..]), Some("token")));
/// assert_eq!(Value::Error(b"ERR").as_error(), Some(&b"ERR"[..]));
/// assert_eq!(Value::Integer(7).as_integer(), Some(7));
/// assert!(text.as_items().is_none() && text.as_pairs().is_none());
/// ```
impl<'a> Value<'a> {
    /// Returns the bytes of a simple, bulk or verbatim string. Returns `None` for all other values, including errors.
    #[must_use]
    pub const fn as_bytes(&self) -> Option<&'a [u8]> {
        if let Self::Simple(text) | Self::Bulk(text) | Self::Verbatim { text, .. } = *self {
            Some(text)
        } else {
            None
        }
    }

    /// Returns the text of a simple, bulk or verbatim string, if it is valid UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&'a str> {
        from_utf8(self.as_bytes()?).ok()
    }

    /// Returns the text of a simple or bulk error.
    #[must_use]
    pub const fn as_error(&self) -> Option<&'a [u8]> {
        if let Self::Error(text) | Self::BulkError(text) = *self {
            Some(text)
        } else {
            None
        }
    }

    /// Returns the number, if the value is an integer.
    #[must_use]
    pub const fn as_integer(&self) -> Option<i64> {
        if let Self::Integer(integer) = *self {
            Some(integer)
        } else {
            None
        }
    }

    /// Returns the elements of an array, a set or a push.
    #[must_use]
    pub const fn as_items(&self) -> Option<Items<'a>> {
        if let Self::Array(items) | Self::Set(items) | Self::Push(items) = *self {
            Some(items)
        } else {
            None
        }
    }

    /// Returns the pairs of a map.
    #[must_use]
    pub const fn as_pairs(&self) -> Option<Pairs<'a>> {
        if let Self::Map(pairs) = *self {
            Some(pairs)
        } else {
            None
        }
    }
}
