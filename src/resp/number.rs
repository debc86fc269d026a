//! The numbers: integers, doubles, big numbers, and the two booleans.
//!
//! Every number has one spelling, and a digit that cannot be right is refused when it is seen.

use core::ops::Range;

use super::error::{DecodeError, Reason};
use super::text::{line, line_end};
use super::token::{Bounds, Lexed, Progress};

/// Longest double: sign, 309 digits, point and 17 decimals, the longest that servers print.
const DOUBLE_BYTES_MAX: usize = 328;

/// So many digits never exceed the largest double.
const DIGITS_FINITE: usize = 308;

/// Digits in their one spelling and CR LF behind them: a number not above `most`.
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

/// An integer, in two's complement.
#[inline]
pub(super) fn integer(bytes: &[u8], body: usize, progress: &mut Progress) -> Lexed<u64> {
    let (malformed, exceeded) = (Reason::Number, Reason::Overflow);
    if bytes.get(body) != Some(&b'-') {
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

/// `(`: an integer of any length, kept as its digits. Servers pass on what a script made, so
/// leading zeros are let through; nothing is computed from them here.
pub(super) fn big_number(
    bytes: &[u8],
    body: usize,
    bounds: &Bounds,
    progress: &mut Progress,
) -> Lexed<Range<usize>> {
    let malformed = |at| DecodeError::new(at, Reason::Number);
    let first = body + usize::from(bytes.get(body) == Some(&b'-'));
    if bytes.get(first).is_some_and(|byte| !byte.is_ascii_digit()) {
        return Err(malformed(first));
    }
    let start = first.max(progress.seen);
    let found = line(bytes, body, bounds, progress);
    let text_end = match &found {
        Ok(Some((text, _))) => text.end,
        Ok(None) => progress.seen.max(first),
        Err(error) => error.at,
    };
    // A byte that is no digit comes before whatever was found behind it, but for a CR without LF.
    let digits = bytes.get(start..text_end).unwrap_or_default();
    progress.look(digits.len());
    let stray = digits.iter().position(|byte| !byte.is_ascii_digit());
    match stray.map(|stray| start + stray) {
        Some(at) if !(bytes[at] == b'\r' && at + 1 == text_end) => Err(malformed(at)),
        Some(_) | None => found,
    }
}

/// `,`: a double in decimal notation, or one of the three words; its bits.
pub(super) fn double(bytes: &[u8], body: usize, progress: &mut Progress) -> Lexed<u64> {
    let text = bytes.get(body..).unwrap_or_default();
    if let Some((word, value)) = double_word(text) {
        return match text
            .iter()
            .zip(word)
            .position(|(byte, letter)| byte != letter)
        {
            Some(wrong) => Err(DecodeError::new(body + wrong, Reason::Number)),
            None if text.len() < word.len() => Ok(None),
            None => Ok(line_end(bytes, body + word.len())?.map(|end| (value.to_bits(), end))),
        };
    }
    let (state, length) = double_syntax(text, progress);
    let (digits, next) = (&text[..length], text.get(length).copied());
    let refuse = |at, reason| Err(DecodeError::new(at, reason));
    if let Some(digit) = double_overflow(digits, progress) {
        return refuse(body + digit, Reason::Overflow);
    }
    if length == DOUBLE_BYTES_MAX {
        // The last byte that may be must end the number; one more must not go on with it.
        if !state.is_complete() {
            return refuse(body + length - 1, Reason::LineTooLong);
        }
        if next.is_some_and(|byte| state.after(byte).is_some()) {
            return refuse(body + length, Reason::LineTooLong);
        }
    }
    match next {
        None => Ok(None),
        Some(b'\r') if state.is_complete() => {
            // There is a value: the text is complete.
            let value = double_value(digits).unwrap_or_default();
            Ok(line_end(bytes, body + length)?.map(|end| (value.to_bits(), end)))
        }
        Some(_) => refuse(body + length, Reason::Number),
    }
}

/// The word that a double which begins like this can only be. Redis 7.0 prints the sign of a
/// NaN, which means nothing.
fn double_word(text: &[u8]) -> Option<(&'static [u8], f64)> {
    match text {
        [b'i', ..] => Some((b"inf", f64::INFINITY)),
        [b'n', ..] => Some((b"nan", f64::NAN)),
        [b'-', b'i', ..] => Some((b"-inf", f64::NEG_INFINITY)),
        [b'-', b'n', ..] => Some((b"-nan", f64::NAN)),
        _ => None,
    }
}

/// Where the text of a double stands.
#[derive(Clone, Copy, Debug)]
enum DoubleState {
    Start,
    Minus,
    Zero,
    Integral,
    Point,
    Fraction,
    ExponentMark,
    ExponentPlus,
    ExponentMinus,
    Exponent,
    NegativeExponent,
}

impl DoubleState {
    const fn is_complete(self) -> bool {
        matches!(
            self,
            Self::Zero | Self::Integral | Self::Fraction | Self::Exponent | Self::NegativeExponent
        )
    }

    const fn after(self, byte: u8) -> Option<Self> {
        Some(match (self, byte) {
            (Self::Start, b'-') => Self::Minus,
            (Self::Start | Self::Minus, b'0') => Self::Zero,
            (Self::Start | Self::Minus, b'1'..=b'9') => Self::Integral,
            (Self::Integral, b'0'..=b'9') => Self::Integral,
            (Self::Zero | Self::Integral, b'.') => Self::Point,
            (Self::Point | Self::Fraction, b'0'..=b'9') => Self::Fraction,
            (Self::Zero | Self::Integral | Self::Fraction, b'e' | b'E') => Self::ExponentMark,
            (Self::ExponentMark, b'+') => Self::ExponentPlus,
            (Self::ExponentMark, b'-') => Self::ExponentMinus,
            (Self::ExponentMark | Self::ExponentPlus | Self::Exponent, b'0'..=b'9') => {
                Self::Exponent
            }
            (Self::ExponentMinus | Self::NegativeExponent, b'0'..=b'9') => Self::NegativeExponent,
            _ => return None,
        })
    }
}

/// How many bytes of `text` can be a double, and where they leave it.
fn double_syntax(text: &[u8], progress: &mut Progress) -> (DoubleState, usize) {
    let mut state = DoubleState::Start;
    let mut length = 0;
    for &byte in text.iter().take(DOUBLE_BYTES_MAX) {
        let Some(next) = state.after(byte) else {
            break;
        };
        state = next;
        length += 1;
    }
    progress.look(length);
    (state, length)
}

/// The digit with which a double becomes too large, whatever follows. Its digits have to fit
/// without their exponent: one that would bring them back is none that a server prints, and has
/// not arrived yet when the stream is cut before it.
fn double_overflow(text: &[u8], progress: &mut Progress) -> Option<usize> {
    progress.look(text.len());
    let is_infinite = |text| double_value(text).is_some_and(f64::is_infinite);
    let mark = text.iter().position(|byte| matches!(byte, b'e' | b'E'));
    let digits = &text[..mark.unwrap_or(text.len())];
    if DIGITS_FINITE < digits.len() && is_infinite(digits) || mark.is_some() && is_infinite(text) {
        (0..text.len()).find(|&last| is_infinite(&text[..=last]))
    } else {
        None
    }
}

/// How many bytes a double that begins like this has at least.
pub(super) fn double_bytes_min(text: &[u8]) -> usize {
    if let Some((word, _)) = double_word(text) {
        return word.len();
    }
    let (state, length) = double_syntax(text, &mut { Progress::NEW });
    length + usize::from(!state.is_complete())
}

fn double_value(text: &[u8]) -> Option<f64> {
    core::str::from_utf8(text).ok()?.parse().ok()
}
