//! Access to what a value says, if it is of the kind that is asked for.
//!
//! The same methods for a value of a reply and for one that owns its contents. Nothing is
//! converted: the text `1` is not an integer.

use core::str::from_utf8;

use super::owned::{OwnedItems, OwnedPairs, OwnedValue};
use super::part::Part;
use super::value::{Items, Pairs, Value};

/// ```
/// use shearline::resp::Value;
///
/// let text = Value::Bulk(b"token");
/// assert_eq!((text.as_bytes(), text.as_str()), (Some(&b"token"[..]), Some("token")));
/// assert_eq!(Value::Error(b"ERR").as_error(), Some(&b"ERR"[..]));
/// assert_eq!(Value::Integer(7).as_integer(), Some(7));
/// assert_eq!(Value::Double(1.5).as_double(), Some(1.5));
/// assert_eq!(Value::Boolean(true).as_boolean(), Some(true));
/// assert!(Value::Null.is_null());
/// assert!(text.as_items().is_none() && text.as_pairs().is_none());
/// ```
impl<'a> Value<'a> {
    /// Returns the bytes of a simple, bulk or verbatim string; `None` for everything else, errors
    /// included.
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

    /// Returns the first word of an error, which says of what kind it is, such as `NOSCRIPT` or
    /// `ERR`: all before the first space or line end. The rest may repeat what the client sent.
    ///
    /// ```
    /// use shearline::resp::Value;
    ///
    /// let error = Value::Error(b"NOSCRIPT No matching script.");
    /// assert_eq!(error.error_code(), Some(&b"NOSCRIPT"[..]));
    /// assert_eq!(Value::Simple(b"OK").error_code(), None);
    /// ```
    #[must_use]
    pub fn error_code(&self) -> Option<&'a [u8]> {
        self.as_error().map(first_word)
    }

    /// Returns the text of an error, simple or bulk.
    #[must_use]
    pub const fn as_error(&self) -> Option<&'a [u8]> {
        if let Self::Error(text) | Self::BulkError(text) = *self {
            Some(text)
        } else {
            None
        }
    }

    /// Returns the integer, if it is one.
    #[must_use]
    pub const fn as_integer(&self) -> Option<i64> {
        if let Self::Integer(integer) = *self {
            Some(integer)
        } else {
            None
        }
    }

    /// Returns the double, if it is one. In RESP2 servers send doubles as strings.
    #[must_use]
    pub const fn as_double(&self) -> Option<f64> {
        if let Self::Double(double) = *self {
            Some(double)
        } else {
            None
        }
    }

    /// Returns the boolean, if it is one. In RESP2 servers send 1 and 0.
    #[must_use]
    pub const fn as_boolean(&self) -> Option<bool> {
        if let Self::Boolean(boolean) = *self {
            Some(boolean)
        } else {
            None
        }
    }

    /// Returns `true` if it is null, however that was spelled.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
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

fn first_word(text: &[u8]) -> &[u8] {
    let end = text
        .iter()
        .position(|byte| matches!(byte, b' ' | b'\r' | b'\n'));
    &text[..end.unwrap_or(text.len())]
}

/// Attributes are skipped: they are about the value and not part of it.
///
/// ```
/// use shearline::resp::OwnedValue;
///
/// let text = OwnedValue::bulk(b"token");
/// assert_eq!((text.as_bytes(), text.as_str()), (Some(&b"token"[..]), Some("token")));
/// assert_eq!(OwnedValue::error("ERR").as_error(), Some(&b"ERR"[..]));
/// assert_eq!(OwnedValue::Integer(7).as_integer(), Some(7));
/// assert_eq!(OwnedValue::Double(1.5).as_double(), Some(1.5));
/// assert_eq!(OwnedValue::Boolean(true).as_boolean(), Some(true));
/// assert!(OwnedValue::Null.is_null());
///
/// let array = OwnedValue::array([text]);
/// assert_eq!(array.as_items().map(|items| items.len()), Some(1));
/// let map = OwnedValue::map([(OwnedValue::simple("proto"), OwnedValue::Integer(3))]);
/// let proto = map.as_pairs().and_then(|pairs| pairs.get(b"proto"));
/// assert_eq!(proto, Some(&OwnedValue::Integer(3)));
///
/// let attributed = OwnedValue::attributed([], OwnedValue::Integer(7));
/// assert_eq!(attributed.as_integer(), Some(7));
/// ```
impl OwnedValue {
    /// Returns the bytes of a simple, bulk or verbatim string; `None` for everything else, errors
    /// included.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        self.scalar()?.as_bytes()
    }

    /// Returns the text of a simple, bulk or verbatim string, if it is valid UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        from_utf8(self.as_bytes()?).ok()
    }

    /// Returns the first word of an error: see [`Value::error_code`].
    #[must_use]
    pub fn error_code(&self) -> Option<&[u8]> {
        self.as_error().map(first_word)
    }

    /// Returns the text of an error, simple or bulk.
    #[must_use]
    pub fn as_error(&self) -> Option<&[u8]> {
        self.scalar()?.as_error()
    }

    /// Returns the integer, if it is one.
    #[must_use]
    pub fn as_integer(&self) -> Option<i64> {
        self.scalar()?.as_integer()
    }

    /// Returns the double, if it is one.
    #[must_use]
    pub fn as_double(&self) -> Option<f64> {
        self.scalar()?.as_double()
    }

    /// Returns the boolean, if it is one.
    #[must_use]
    pub fn as_boolean(&self) -> Option<bool> {
        self.scalar()?.as_boolean()
    }

    /// Returns `true` if it is null.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self.bare(), Self::Null)
    }

    /// Returns the elements of an array, a set or a push.
    #[must_use]
    pub fn as_items(&self) -> Option<&OwnedItems> {
        if let Self::Array(items) | Self::Set(items) | Self::Push(items) = self.bare() {
            Some(items)
        } else {
            None
        }
    }

    /// Returns the pairs of a map.
    #[must_use]
    pub fn as_pairs(&self) -> Option<&OwnedPairs> {
        if let Self::Map(pairs) = self.bare() {
            Some(pairs)
        } else {
            None
        }
    }

    fn scalar(&self) -> Option<Value<'_>> {
        match self.bare().part() {
            Part::Scalar(value) => Some(value),
            Part::Open(..) => None,
        }
    }

    /// Returns the value without its attributes.
    fn bare(&self) -> &Self {
        let mut value = self;
        while let Self::Attributed(attributed) = value {
            value = attributed.value();
        }
        value
    }
}
