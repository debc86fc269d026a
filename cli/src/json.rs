//! What `--json` prints: one object on one line, with a version.
//!
//! Only written, never read, so a list of names and values is enough: they stand in the order in which
//! they were given. Every object for a program begins with `"version"` and `"command"`. A version gets
//! new fields, and no field changes its meaning or goes away: that needs another version.
//!
//! Times are whole milliseconds, in fields that end in `_ms`. A name that is not UTF-8 stands in
//! hexadecimal digits, in a field that ends in `_hex` ([`Object::name`]).

use std::fmt::{self, Write as _};
use std::time::Duration;

/// The version of all objects.
const VERSION: u64 = 1;

/// A JSON value. Programs read numbers up to 2^53 exactly: none is larger.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(u64),
    Text(String),
    List(Vec<Self>),
    Object(Object),
}

/// An object: its fields, in the order in which they are written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Object(Vec<(String, Value)>);

impl Object {
    /// Returns an object without fields, for a place inside another.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Returns the beginning of what `command` prints.
    pub(crate) fn of(command: &str) -> Self {
        Self::new()
            .with("version", VERSION)
            .with("command", command)
    }

    /// Adds a field.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.push((name.to_owned(), value.into()));
        self
    }

    /// Adds a span of time in milliseconds, as `NAME_ms`, rounded down.
    pub(crate) fn millis(self, name: &str, span: impl Into<Option<Duration>>) -> Self {
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let value = span.into().map(millis);
        self.with(&format!("{name}_ms"), value)
    }

    /// Adds bytes that are mostly text: as `NAME`, or as `NAME_hex` if they are not UTF-8.
    pub(crate) fn name(self, name: &str, bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.with(name, text),
            Err(_) => self.with(&format!("{name}_hex"), hex(bytes)),
        }
    }
}

/// Writes bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}"); // A `String` takes everything.
    }
    text
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Number(value)
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self::Number(value as u64)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<Object> for Value {
    fn from(value: Object) -> Self {
        Self::Object(value)
    }
}

impl<T: Into<Self>> From<Vec<T>> for Value {
    fn from(values: Vec<T>) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Number(value) => write!(f, "{value}"),
            Self::Text(value) => quoted(f, value),
            Self::List(values) => {
                f.write_char('[')?;
                for (place, value) in values.iter().enumerate() {
                    f.write_str(if place == 0 { "" } else { "," })?;
                    write!(f, "{value}")?;
                }
                f.write_char(']')
            }
            Self::Object(object) => write!(f, "{object}"),
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('{')?;
        for (place, (name, value)) in self.0.iter().enumerate() {
            f.write_str(if place == 0 { "" } else { "," })?;
            quoted(f, name)?;
            write!(f, ":{value}")?;
        }
        f.write_char('}')
    }
}

/// Writes a string with its quotes. All control characters are escaped, so it is one line.
fn quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for letter in text.chars() {
        match letter {
            '"' | '\\' => write!(f, "\\{letter}")?,
            _ if letter.is_control() => write!(f, "\\u{:04x}", u32::from(letter))?,
            _ => f.write_char(letter)?,
        }
    }
    f.write_char('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_one_line_in_the_order_of_its_fields() {
        let node = Object::new().with("address", "a:1").with("counts", true);
        let object = Object::of("status")
            .name("resource", b"a\"b\\c\n\x7f\xc3\xa9")
            .name("owner", b"\xff\x00")
            .millis("left", Duration::from_micros(1_999))
            .millis("wait", None)
            .with("nodes", vec![node]);
        assert_eq!(
            object.to_string(),
            "{\"version\":1,\"command\":\"status\",\"resource\":\"a\\\"b\\\\c\\u000a\\u007f\u{e9}\",\
             \"owner_hex\":\"ff00\",\"left_ms\":1,\"wait_ms\":null,\
             \"nodes\":[{\"address\":\"a:1\",\"counts\":true}]}"
        );
    }
}
