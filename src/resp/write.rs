//! Writes replies as servers do, with one function for each kind.
//!
//! To write an aggregate, write its header, then as many elements as the header announces. A pair of a map is a key and
//! a value. The functions do not check the number of elements. Every function appends to `out`, allocates only if `out`
//! must grow, and panics if `out` has a fixed size and is too small.
//!
//! ```
//! # #[cfg(feature = "internals")] {
//! use shearline::internals::resp::write;
//!
//! let mut out = Vec::new();
//! write::simple(&mut out, b"OK");
//! write::error(&mut out, b"ERR unknown\r\ncommand");
//! write::integer(&mut out, -7);
//! write::bulk(&mut out, b"hello");
//! write::null(&mut out);
//! write::null_resp2(&mut out);
//! assert_eq!(out, b"+OK\r\n-ERR unknown  command\r\n:-7\r\n$5\r\nhello\r\n_\r\n$-1\r\n");
//!
//! out.clear();
//! write::array(&mut out, 1);
//! write::map(&mut out, 1);
//! write::bulk(&mut out, b"proto");
//! write::integer(&mut out, 3);
//! assert_eq!(out, b"*1\r\n%1\r\n$5\r\nproto\r\n:3\r\n");
//!
//! out.clear();
//! write::push(&mut out, 1);
//! write::simple(&mut out, b"invalidate");
//! assert_eq!(out, b">1\r\n+invalidate\r\n");
//! # }
//! ```
//!
//! The writer has no functions for kinds that the embedded node does not send.

#![cfg_attr(
    not(any(test, feature = "internals")),
    expect(dead_code, reason = "a client sends arrays of strings and no more")
)]

use bytes::BufMut;

use super::decimal::Decimal;

pub(super) const LINE_END: &[u8] = b"\r\n";

/// `+`: a short text. CR and LF in the text become spaces.
#[inline]
pub fn simple<B: BufMut + ?Sized>(out: &mut B, text: &[u8]) {
    line(out, b'+', text);
}

/// `-`: an error text. CR and LF in the text become spaces.
#[inline]
pub fn error<B: BufMut + ?Sized>(out: &mut B, text: &[u8]) {
    line(out, b'-', text);
}

/// `$`: any bytes.
#[inline]
pub fn bulk<B: BufMut + ?Sized>(out: &mut B, bytes: &[u8]) {
    string(out, b'$', bytes);
}

/// `_`: null, on a connection that speaks RESP3.
#[inline]
pub fn null<B: BufMut + ?Sized>(out: &mut B) {
    out.put_slice(b"_\r\n");
}

/// `$-1`: null, on a connection that speaks RESP2.
#[inline]
pub fn null_resp2<B: BufMut + ?Sized>(out: &mut B) {
    out.put_slice(b"$-1\r\n");
}

/// `*`: the header of an array of this number of elements.
#[inline]
pub fn array<B: BufMut + ?Sized>(out: &mut B, elements: usize) {
    header(out, b'*', elements);
}

/// `=`: a text for people. For RESP2, which has no such type, writes a bulk string without the format.
pub fn verbatim<B: BufMut + ?Sized>(out: &mut B, format: [u8; 3], text: &[u8]) {
    header(out, b'=', text.len() + 4);
    out.put_slice(&format);
    out.put_slice(b":");
    out.put_slice(text);
    out.put_slice(LINE_END);
}

/// `%`: the header of a map with this number of pairs. For RESP2, which has no maps, writes an array with twice as many
/// elements.
#[inline]
pub fn map<B: BufMut + ?Sized>(out: &mut B, pairs: usize) {
    header(out, b'%', pairs);
}

/// `>`: the header of a push with this number of elements. The first element is a string that names the kind of the
/// push. For RESP2, which has no pushes, writes an array.
#[inline]
pub fn push<B: BufMut + ?Sized>(out: &mut B, elements: usize) {
    header(out, b'>', elements);
}

/// Writes `$20\r\n` and similar headers. Short headers, which are by far the most frequent, are written in pieces of
/// constant length, without an intermediate copy.
#[inline]
pub(super) fn header<B: BufMut + ?Sized>(out: &mut B, kind: u8, count: usize) {
    let digit = |power: usize| b'0' + (count / power % 10) as u8;
    match count {
        0..=9 => out.put_slice(&[kind, digit(1), b'\r', b'\n']),
        10..=99 => out.put_slice(&[kind, digit(10), digit(1), b'\r', b'\n']),
        _ => long_header(out, kind, count),
    }
}

#[cold]
fn long_header<B: BufMut + ?Sized>(out: &mut B, kind: u8, count: usize) {
    out.put_slice(&[kind]);
    out.put_slice(Decimal::new(count as u64).as_bytes());
    out.put_slice(LINE_END);
}

#[inline]
pub(super) fn string<B: BufMut + ?Sized>(out: &mut B, kind: u8, text: &[u8]) {
    header(out, kind, text.len());
    out.put_slice(text);
    out.put_slice(LINE_END);
}

/// `:`: an integer.
pub fn integer<B: BufMut + ?Sized>(out: &mut B, number: i64) {
    digits(out, b':', Decimal::from(number).as_bytes());
}

/// Writes a text as one line. CR and LF in the text become spaces, so that the text cannot look like several replies.
fn line<B: BufMut + ?Sized>(out: &mut B, kind: u8, text: &[u8]) {
    let mut rest = text;
    out.put_slice(&[kind]);
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
        out.put_slice(&rest[..at]);
        out.put_slice(b" ");
        rest = &rest[at + 1..];
    }
    out.put_slice(rest);
    out.put_slice(LINE_END);
}

/// Writes a line with a text that has neither CR nor LF.
fn digits<B: BufMut + ?Sized>(out: &mut B, kind: u8, text: &[u8]) {
    out.put_slice(&[kind]);
    out.put_slice(text);
    out.put_slice(LINE_END);
}
