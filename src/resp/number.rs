//! Reads integers, lengths, doubles and big numbers from the text of a line.

use core::str::{FromStr, from_utf8};

use super::error::Reason;

/// Reads digits without a leading zero. The number must not exceed `most`.
pub(super) fn length(text: &[u8], most: usize, exceeded: Reason) -> Result<usize, Reason> {
    if text.first() == Some(&b'?') {
        return Err(Reason::Streamed);
    }
    if !is_plain(text) {
        return Err(Reason::Length);
    }
    let length = parse(text).filter(|length| *length <= most);
    length.ok_or(exceeded)
}

/// Reads an integer. Zero has no minus sign.
pub(super) fn integer(text: &[u8]) -> Result<i64, Reason> {
    if !is_plain(unsigned(text)) || text == b"-0" {
        return Err(Reason::Number);
    }
    parse(text).ok_or(Reason::Overflow)
}

/// Reads a finite double in decimal notation, or one of the words for infinities and NaN. Redis 7.0 prints the sign of
/// a NaN, which has no meaning.
pub(super) fn double(text: &[u8]) -> Result<f64, Reason> {
    match text {
        b"inf" => return Ok(f64::INFINITY),
        b"-inf" => return Ok(f64::NEG_INFINITY),
        b"nan" | b"-nan" => return Ok(f64::NAN),
        _ if !is_decimal(unsigned(text)) => return Err(Reason::Number),
        _ => {}
    }
    let value = parse(text).filter(|value: &f64| value.is_finite());
    value.ok_or(Reason::Overflow)
}

/// Returns `true` if `text` is an integer of any length. A plus sign and leading zeros are allowed, because servers
/// pass on the text that a script returned.
pub(super) fn is_big_number(text: &[u8]) -> bool {
    are_digits(unsigned(text))
}

/// Returns `true` if `text` is a decimal number, such as `1.5e-9`.
fn is_decimal(text: &[u8]) -> bool {
    let (mantissa, exponent) = split(text, |byte| matches!(byte, b'e' | b'E'));
    let (integral, fraction) = split(mantissa, |byte| *byte == b'.');
    is_plain(integral)
        && fraction.is_none_or(are_digits)
        && exponent.is_none_or(|exponent| are_digits(unsigned(exponent)))
}

/// Splits `text` at the first byte for which `is` holds.
fn split(text: &[u8], is: impl Fn(&u8) -> bool) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(is) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

/// Returns `text` without its sign.
fn unsigned(text: &[u8]) -> &[u8] {
    match text {
        [b'+' | b'-', rest @ ..] => rest,
        _ => text,
    }
}

/// Returns `true` if `text` consists of digits, and has no leading zero.
fn is_plain(text: &[u8]) -> bool {
    are_digits(text) && !matches!(text, [b'0', _, ..])
}

fn are_digits(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

fn parse<T: FromStr>(text: &[u8]) -> Option<T> {
    from_utf8(text).ok()?.parse().ok()
}
