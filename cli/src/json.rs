//! The output of `--json`: one object on one line, with a version.
//!
//! Every JSON object that a command prints begins with `"version"` and `"command"`. New fields may appear without a new
//! version. Removing a field or changing its meaning requires a new version.
//!
//! Times are whole milliseconds in fields whose names end in `_ms`. Bytes that are not UTF-8 are written as hexadecimal
//! digits, in a field whose name ends in `_hex` ([`named`]).

use std::time::Duration;

use serde_json::{Value, json};

use crate::output::without_controls;

/// The version of the JSON format.
const VERSION: u64 = 1;

/// Returns the object that `command` prints. The object begins with `version` and `command`, followed by the fields of
/// `parts`.
pub(crate) fn object<const N: usize>(command: &str, parts: [Value; N]) -> Value {
    let begin = json!({ "version": VERSION, "command": command });
    joined([begin, joined(parts)])
}

/// Returns one object with the fields of all parts.
pub(crate) fn joined<const N: usize>(parts: [Value; N]) -> Value {
    let objects = parts.into_iter().filter_map(|part| match part {
        Value::Object(fields) => Some(fields),
        _ => None,
    });
    Value::Object(objects.flatten().collect())
}

/// Returns the object as one line of text.
pub(crate) fn line(object: &Value) -> String {
    let escape = |letter| format!("\\u{:04x}", u32::from(letter));
    without_controls(&object.to_string(), escape)
}

/// Returns a field for bytes that are usually text. The field is named `NAME`, or `NAME_hex` if the bytes are not
/// UTF-8.
pub(crate) fn named(name: &str, bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!({ name: text }),
        Err(_) => json!({ (format!("{name}_hex")): hex(bytes) }),
    }
}

/// Returns a field for a list of byte strings. The field is named `NAME`, or `NAME_hex` if one of the strings is not
/// UTF-8.
pub(crate) fn named_all(name: &str, all: &[&[u8]]) -> Value {
    let texts: Result<Vec<_>, _> = all.iter().map(|bytes| std::str::from_utf8(bytes)).collect();
    let digits = || all.iter().map(|it| hex(it)).collect::<Vec<_>>();
    match texts {
        Ok(texts) => json!({ name: texts }),
        Err(_) => json!({ (format!("{name}_hex")): digits() }),
    }
}

/// Returns a span of time in milliseconds, rounded down.
pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Writes bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_one_line_in_the_order_of_its_fields() {
        let resource = named("resource", b"a\"b\\c\n\x7f\xc2\x9b\xc3\xa9");
        let object = object("status", [resource, named("owner", b"\xff\x00")]);
        let more = json!({ "valid_for_ms": millis(Duration::from_micros(1_999)), "holder": null });
        assert_eq!(
            line(&joined([object, more])),
            "{\"version\":1,\"command\":\"status\",\"resource\":\"a\\\"b\\\\c\\n\\u007f\\u009b\u{e9}\",\
             \"owner_hex\":\"ff00\",\"valid_for_ms\":1,\"holder\":null}"
        );
    }
}
