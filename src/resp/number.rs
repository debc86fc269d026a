//! The numbers: integers, doubles, big numbers, and the two booleans.
//!
//! A byte that cannot be right is refused as soon as it is read.

use core::ops::Range;
use core::str::from_utf8;

use super::error::{DecodeError, Reason};
use super::lex::{Bounds, Lexed, Progress, line_end};

/// Reads a number of at most `most`: digits without a leading zero, and CR LF.
#[inline]
pub(super) fn natural(
    bytes: &[u8],
    body: usize,
    most: u64,
    malformed: Reason,
    exceeded: Reason,
    progress: &mut Progress,
) -> Lexed<u64> {
    let rest = bytes.get(body..).unwrap_or_default();
    let tens = most / 10;
    let mut number = 0_u64;
    let mut len = 0;
    for &byte in rest {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        // A zero can only stand alone.
        if number == 0 && len > 0 {
            return Err(DecodeError::new(body + len, malformed));
        }
        // Nothing overflows: ten times the number is not above `most`, and no `most` is so large
        // that a digit more would not fit.
        if number > tens || number * 10 + u64::from(digit) > most {
            return Err(DecodeError::new(body + len, exceeded));
        }
        number = number * 10 + u64::from(digit);
        len += 1;
    }
    progress.look(len);
    match *rest.get(len..).unwrap_or_default() {
        [] => Ok(None),
        [b'\r'] if len > 0 => Ok(None),
        [b'\r', b'\n', ..] if len > 0 => Ok(Some((number, body + len + 2))),
        [b'\r', ..] if len > 0 => Err(DecodeError::new(body + len + 1, Reason::LineEnd)),
        _ => Err(DecodeError::new(body + len, malformed)),
    }
}

/// Reads an integer, in two's complement.
#[inline]
pub(super) fn integer(bytes: &[u8], body: usize, progress: &mut Progress) -> Lexed<u64> {
    let (malformed, exceeded) = (Reason::Number, Reason::Overflow);
    if bytes.get(body) != Some(&b'-') {
        let body = body + usize::from(bytes.get(body) == Some(&b'+'));
        let most = i64::MAX.unsigned_abs();
        return natural(bytes, body, most, malformed, exceeded, progress);
    }
    // Zero has no sign.
    if bytes.get(body + 1) == Some(&b'0') {
        return Err(DecodeError::new(body + 1, malformed));
    }
    let most = i64::MIN.unsigned_abs();
    let natural = natural(bytes, body + 1, most, malformed, exceeded, progress)?;
    Ok(natural.map(|(number, end)| (number.wrapping_neg(), end)))
}

pub(super) fn boolean(bytes: &[u8], body: usize) -> Lexed<u64> {
    let value = match bytes.get(body) {
        None => return Ok(None),
        Some(b't') => 1,
        Some(b'f') => 0,
        Some(_) => return Err(DecodeError::new(body, Reason::Boolean)),
    };
    Ok(line_end(bytes, body + 1)?.map(|end| (value, end)))
}

/// `(`: an integer of any length, kept as its text. A plus sign and leading zeros are allowed,
/// because servers send what a script returned as it is.
pub(super) fn big_number(
    bytes: &[u8],
    body: usize,
    bounds: &Bounds,
    progress: &mut Progress,
) -> Lexed<Range<usize>> {
    number_line(bytes, body, bounds, progress, |text, _| {
        let valid = match text {
            [b'+' | b'-'] => true,
            [before @ .., b'\r'] => ends_with_digit(before),
            _ => ends_with_digit(text),
        };
        if valid { Ok(()) } else { Err(Reason::Number) }
    })
}

/// `,`: a double in decimal notation, or one of the three words; its bits.
pub(super) fn double(
    bytes: &[u8],
    body: usize,
    bounds: &Bounds,
    progress: &mut Progress,
) -> Lexed<u64> {
    if let Some((word, value)) = double_word(bytes.get(body..).unwrap_or_default()) {
        return double_word_line(bytes, body, word, value);
    }
    let mut value = 0.0;
    let line = number_line(bytes, body, bounds, progress, |text, progress| {
        value = double_check(text, progress)?;
        Ok(())
    });
    Ok(line?.map(|(_, end)| (value.to_bits(), end)))
}

/// Reads a number on a line. `check` is called once for each byte, with the text up to that byte;
/// the last time the byte is the CR.
fn number_line(
    bytes: &[u8],
    body: usize,
    bounds: &Bounds,
    progress: &mut Progress,
    mut check: impl FnMut(&[u8], &mut Progress) -> Result<(), Reason>,
) -> Lexed<Range<usize>> {
    for at in body.max(progress.seen)..bytes.len() {
        let text = &bytes[body..=at];
        progress.look(1);
        check(text, progress).map_err(|reason| DecodeError::new(at, reason))?;
        if bytes[at] == b'\r' {
            return Ok(line_end(bytes, at)?.map(|end| (body..at, end)));
        }
        if bounds.line < number_bytes_min(text) {
            return Err(DecodeError::new(at, Reason::LineTooLong));
        }
        progress.seen = at + 1;
    }
    Ok(None)
}

/// Returns the word that a double which begins like this can only be. Redis 7.0 prints the sign of
/// a NaN, which means nothing.
fn double_word(text: &[u8]) -> Option<(&'static [u8], f64)> {
    match text {
        [b'i', ..] => Some((b"inf", f64::INFINITY)),
        [b'n', ..] => Some((b"nan", f64::NAN)),
        [b'-', b'i', ..] => Some((b"-inf", f64::NEG_INFINITY)),
        [b'-', b'n', ..] => Some((b"-nan", f64::NAN)),
        _ => None,
    }
}

fn double_word_line(bytes: &[u8], body: usize, word: &[u8], value: f64) -> Lexed<u64> {
    let text = &bytes[body..];
    let wrong = text
        .iter()
        .zip(word)
        .position(|(byte, letter)| byte != letter);
    match wrong {
        Some(wrong) => Err(DecodeError::new(body + wrong, Reason::Number)),
        None if text.len() < word.len() => Ok(None),
        None => Ok(line_end(bytes, body + word.len())?.map(|end| (value.to_bits(), end))),
    }
}

/// Checks the last byte of `text`; the bytes before it were checked before. Returns the value if
/// the last byte is the CR, and an unspecified number otherwise.
///
/// That a double is too large becomes certain at the CR, or earlier at a byte that makes its
/// exponent larger, since a further digit never makes an exponent smaller. The value is computed
/// only at these bytes, so each byte is looked at a bounded number of times.
fn double_check(text: &[u8], progress: &mut Progress) -> Result<f64, Reason> {
    let Some((&byte, before)) = text.split_last() else {
        return Ok(0.0);
    };
    if !double_may_go_on(before, byte, progress) {
        return Err(Reason::Number);
    }
    let exponent = exponent_with(progress.exponent, before, byte);
    let is_larger = exponent.is_some() && exponent != progress.exponent;
    progress.exponent = exponent;
    let number = match (byte, before) {
        (b'\r', _) => before,
        (b'+', [mantissa @ .., _]) => mantissa,
        _ if is_larger => text,
        _ => return Ok(0.0),
    };
    progress.look(number.len());
    let value: Option<f64> = from_utf8(number).ok().and_then(|text| text.parse().ok());
    value
        .filter(|value| value.is_finite())
        .ok_or(Reason::Overflow)
}

/// Returns `true` if `byte` may follow `text` in a double. This depends on the byte before it; for
/// the point and the `e`, which a double has at most once, on all bytes before it.
fn double_may_go_on(text: &[u8], byte: u8, progress: &mut Progress) -> bool {
    match byte {
        b'0'..=b'9' => !matches!(text, [b'0'] | [b'+' | b'-', b'0']),
        b'+' | b'-' => matches!(text, [] | [.., b'e' | b'E']),
        b'\r' => ends_with_digit(text),
        b'.' | b'e' | b'E' => {
            progress.look(text.len());
            let bars =
                |before: &u8| matches!(before, b'e' | b'E') || byte == b'.' && *before == b'.';
            ends_with_digit(text) && !text.iter().any(bars)
        }
        _ => false,
    }
}

/// Returns the exponent of `text` followed by `byte`, where `exponent` is that of `text`. `None` if
/// there is no exponent, if it is negative, or if its first digit or sign has not arrived.
fn exponent_with(exponent: Option<u64>, text: &[u8], byte: u8) -> Option<u64> {
    let digit = u64::from(byte.wrapping_sub(b'0'));
    match (exponent, text, byte) {
        (Some(exponent), _, b'0'..=b'9') => Some(exponent.saturating_mul(10).saturating_add(digit)),
        (None, [.., b'e' | b'E'], b'0'..=b'9') => Some(digit),
        (None, [.., b'e' | b'E'], b'+') => Some(0),
        _ => None,
    }
}

fn ends_with_digit(text: &[u8]) -> bool {
    text.last().is_some_and(u8::is_ascii_digit)
}

/// Returns the least length of an integer, double or big number that begins with `text`.
pub(super) fn number_bytes_min(text: &[u8]) -> usize {
    match double_word(text) {
        Some((word, _)) => word.len(),
        None => text.len() + usize::from(!ends_with_digit(text)),
    }
}
