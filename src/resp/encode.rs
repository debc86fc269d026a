//! Values as bytes.
//!
//! A reader always finds the right end of what is written here: lengths are counted, and a CR or LF
//! where none is allowed becomes a space, as in servers. That a value may be sent is not checked:
//! the caller sees to it that a big number has only digits, and that a push begins with a string
//! and is inside no other value.

use core::fmt::{self, Write};
use core::slice::from_ref;

use bytes::BufMut;

use super::decimal::Decimal;
use super::owned::{OwnedValue, Walk};
use super::write::{LINE_END, Length, Sink, digits, header, line, string};

/// Appends a value as a RESP3 connection gets it.
///
/// What is written reads back as an equal value, but not every reply is written again byte for
/// byte. Doubles get their shortest spelling; `-nan` becomes `nan`; the nulls of RESP2 become `_`;
/// several attributes in a row become one.
///
/// ```
/// use shearline::internals::resp::{Decoder, Limits, encode};
///
/// let again = |reply: &[u8]| {
///     let mut decoder = Decoder::new(Limits::default());
///     let value = decoder.decode(reply).unwrap().expect("complete").to_owned();
///     let mut out = Vec::new();
///     encode(&mut out, &value);
///     String::from_utf8(out).unwrap()
/// };
/// assert_eq!(again(b"*2\r\n$5\r\nhello\r\n:1\r\n"), "*2\r\n$5\r\nhello\r\n:1\r\n");
/// assert_eq!(again(b",1.50e1\r\n"), ",15\r\n");
/// assert_eq!(again(b",-nan\r\n"), ",nan\r\n");
/// assert_eq!(again(b"$-1\r\n"), "_\r\n");
/// assert_eq!(
///     again(b"|1\r\n:1\r\n:2\r\n|1\r\n:3\r\n:4\r\n+OK\r\n"),
///     "|2\r\n:1\r\n:2\r\n:3\r\n:4\r\n+OK\r\n",
/// );
/// ```
///
/// # Panics
///
/// When `out` is of a fixed size and too small: [`encoded_len`] says how many bytes it needs.
pub fn encode<B: BufMut + ?Sized>(out: &mut B, value: &OwnedValue) {
    each(value, |value| begin(out, value));
}

/// Appends a value as a RESP2 connection gets it: null as `$-1`, maps as flat arrays, sets and
/// pushes as arrays, doubles, big numbers and verbatim texts as bulk strings, booleans as 1 and 0,
/// bulk errors as errors on one line, attributes not at all.
///
/// ```
/// use shearline::internals::resp::{OwnedValue, encode_resp2};
///
/// let mut out = Vec::new();
/// encode_resp2(&mut out, &OwnedValue::map([(OwnedValue::simple("one"), OwnedValue::Null)]));
/// assert_eq!(out, b"*2\r\n+one\r\n$-1\r\n");
/// ```
///
/// # Panics
///
/// When `out` is of a fixed size and too small.
pub fn encode_resp2<B: BufMut + ?Sized>(out: &mut B, value: &OwnedValue) {
    each(value, |value| begin_resp2(out, value));
}

/// Returns how many bytes [`encode`] appends for this value.
///
/// ```
/// use shearline::internals::resp::{OwnedValue, encoded_len};
///
/// assert_eq!(encoded_len(&OwnedValue::array([OwnedValue::Null])), b"*1\r\n_\r\n".len());
/// ```
#[must_use]
pub fn encoded_len(value: &OwnedValue) -> usize {
    let mut len = Length(0);
    each(value, |value| begin(&mut len, value));
    len.0
}

/// Returns how many bytes [`encode_resp2`] appends for this value.
#[must_use]
pub fn encoded_len_resp2(value: &OwnedValue) -> usize {
    let mut len = Length(0);
    each(value, |value| begin_resp2(&mut len, value));
    len.0
}

/// Calls `begin` with the value and then with those that it returns, each time before the others
/// that are still to come.
#[inline]
fn each<'v>(value: &'v OwnedValue, mut begin: impl FnMut(&'v OwnedValue) -> &'v [OwnedValue]) {
    let inside = begin(value);
    if !inside.is_empty() {
        each_inside(inside, begin);
    }
}

/// A function of its own, so that a scalar costs nothing but its bytes.
#[inline(never)]
fn each_inside<'v>(
    values: &'v [OwnedValue],
    mut begin: impl FnMut(&'v OwnedValue) -> &'v [OwnedValue],
) {
    let mut walk = Walk::new(values);
    while let Some(value) = walk.step() {
        walk.enter(begin(value));
    }
}

/// Appends all of a scalar, or the header of an aggregate. Returns the values that come next.
#[inline(always)]
fn begin<'v, S: Sink + ?Sized>(out: &mut S, value: &'v OwnedValue) -> &'v [OwnedValue] {
    match value {
        OwnedValue::Simple(text) => line(out, b'+', text),
        OwnedValue::Error(text) => line(out, b'-', text),
        OwnedValue::Integer(number) => digits(out, b':', Decimal::from(*number).as_bytes()),
        OwnedValue::Bulk(text) => string(out, b'$', text),
        OwnedValue::Null => out.add(b"_\r\n"),
        OwnedValue::Double(number) => {
            out.add(b",");
            double(out, *number);
            out.add(LINE_END);
        }
        OwnedValue::Boolean(true) => out.add(b"#t\r\n"),
        OwnedValue::Boolean(false) => out.add(b"#f\r\n"),
        OwnedValue::BigNumber(digits) => line(out, b'(', digits),
        OwnedValue::BulkError(text) => string(out, b'!', text),
        OwnedValue::Verbatim { format, text } => verbatim(out, *format, text),
        OwnedValue::Array(items) => header(out, b'*', items.len()),
        OwnedValue::Set(items) => header(out, b'~', items.len()),
        OwnedValue::Push(items) => header(out, b'>', items.len()),
        OwnedValue::Map(pairs) => header(out, b'%', pairs.len()),
        OwnedValue::Attributed(attributed) => header(out, b'|', attributed.attributes().len()),
    }
    value.inside()
}

/// Like [`begin`].
#[inline(always)]
fn begin_resp2<'v, S: Sink + ?Sized>(out: &mut S, value: &'v OwnedValue) -> &'v [OwnedValue] {
    match value {
        OwnedValue::Simple(text) => line(out, b'+', text),
        OwnedValue::Error(text) | OwnedValue::BulkError(text) => line(out, b'-', text),
        OwnedValue::Integer(number) => digits(out, b':', Decimal::from(*number).as_bytes()),
        OwnedValue::Bulk(text) | OwnedValue::BigNumber(text) => string(out, b'$', text),
        OwnedValue::Verbatim { text, .. } => string(out, b'$', text),
        OwnedValue::Null => out.add(b"$-1\r\n"),
        OwnedValue::Double(number) => {
            let mut len = Length(0);
            double(&mut len, *number);
            header(out, b'$', len.0);
            double(out, *number);
            out.add(LINE_END);
        }
        OwnedValue::Boolean(boolean) => digits(out, b':', if *boolean { b"1" } else { b"0" }),
        OwnedValue::Attributed(attributed) => return from_ref(attributed.value()),
        OwnedValue::Array(_) | OwnedValue::Set(_) | OwnedValue::Push(_) | OwnedValue::Map(_) => {
            header(out, b'*', value.inside().len());
        }
    }
    value.inside()
}

fn verbatim<S: Sink + ?Sized>(out: &mut S, format: [u8; 3], text: &[u8]) {
    header(out, b'=', text.len() + 4);
    out.add(&format);
    out.add(b":");
    out.add(text);
    out.add(LINE_END);
}

/// Writes the shortest text that reads back as the same double.
fn double<S: Sink + ?Sized>(out: &mut S, double: f64) {
    let mut out = Text(out);
    let magnitude = double.abs();
    let written = if double.is_nan() {
        out.write_str("nan")
    } else if double.is_infinite() {
        out.write_str(if double > 0.0 { "inf" } else { "-inf" })
    } else if magnitude == 0.0 || (1e-5..1e17).contains(&magnitude) {
        write!(out, "{double}")
    } else {
        write!(out, "{double:e}")
    };
    written.expect("a sink takes all that is written");
}

/// Takes text for a sink.
struct Text<'o, S: ?Sized>(&'o mut S);

impl<S: Sink + ?Sized> Write for Text<'_, S> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.0.add(part.as_bytes());
        Ok(())
    }
}
