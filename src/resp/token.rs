//! One token: a scalar, or the header of an aggregate.
//!
//! Every rule of the grammar that concerns a single element stands here and only here; what
//! concerns several (nesting, pushes, attributes) stands in `decode`. The functions keep no state:
//! a torn element is read again from its first byte, which costs little because everything but
//! the text of a line and the payload of a string is short. For these two [`Progress`] remembers
//! how far the element was seen, so that no byte of them is looked at again.
//!
//! A byte is refused as soon as it is seen, never later: an answer of "more" means that some
//! continuation is valid.

use super::error::{DecodeError, Reason};
use super::value::Value;

/// What begins at an offset.
#[derive(Clone, Copy, Debug)]
pub(super) enum Token<'a> {
    /// A value that is complete in itself.
    Scalar(Value<'a>),
    /// The header of an aggregate that has `elements` (a pair counts as two).
    Open { kind: Kind, elements: u32 },
}

/// The aggregates.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Array,
    Map,
    Set,
    Push,
    Attribute,
}

/// The bounds of one element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) line: usize,
    pub(super) bulk: usize,
    pub(super) elements: usize,
    /// Offset that the element must not reach beyond, because of the bound on the reply.
    pub(super) end: usize,
}

impl Bounds {
    /// For bytes that were found valid before.
    pub(super) const NONE: Self = Self {
        line: usize::MAX,
        bulk: usize::MAX,
        elements: u32::MAX as usize,
        end: usize::MAX,
    };
}

/// What is remembered of a torn element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// Up to here the text of a line holds nothing to look at again.
    seen: usize,
    /// With fewer bytes than this there is nothing new to see.
    pub(super) need: usize,
    /// How many bytes were looked at, for the test that proves O(n).
    #[cfg(test)]
    pub(super) looked: usize,
}

impl Progress {
    pub(super) const NEW: Self = Self {
        seen: 0,
        need: 0,
        #[cfg(test)]
        looked: 0,
    };

    /// The next element begins.
    pub(super) fn reset(&mut self) {
        self.seen = 0;
        self.need = 0;
    }

    #[inline]
    fn look(&mut self, bytes: usize) {
        #[cfg(test)]
        {
            self.looked += bytes;
        }
        #[cfg(not(test))]
        let _ = bytes;
    }
}

/// A part of an element and the offset behind it; `None` when bytes are missing.
pub(super) type Lexed<T> = Result<Option<(T, usize)>, DecodeError>;

/// Least bytes of any element, as `_\r\n`.
pub(super) const ELEMENT_BYTES_MIN: usize = 3;

/// Longest double: sign, 309 digits, point and 17 decimals, the longest that servers print.
const DOUBLE_BYTES_MAX: usize = 328;

/// Reads the token that begins at `at`.
pub(super) fn token<'a>(
    bytes: &'a [u8],
    at: usize,
    bounds: &Bounds,
    progress: &mut Progress,
) -> Lexed<Token<'a>> {
    let Some(&kind) = bytes.get(at) else {
        return Ok(None);
    };
    progress.look(1);
    let body = at + 1;
    let scalar = match kind {
        b'$' => nullable(bytes, body, bounds, progress)?,
        b':' => integer(bytes, body, progress)?.map(|(value, end)| (Value::Integer(value), end)),
        b'+' => line(bytes, body, bounds, progress)?.map(|(text, end)| (Value::Simple(text), end)),
        b'-' => line(bytes, body, bounds, progress)?.map(|(text, end)| (Value::Error(text), end)),
        b'_' => line_end(bytes, body)?.map(|end| (Value::Null, end)),
        b'#' => boolean(bytes, body)?.map(|(value, end)| (Value::Boolean(value), end)),
        b',' => double(bytes, body, progress)?.map(|(value, end)| (Value::Double(value), end)),
        b'(' => big_number(bytes, body, bounds, progress)?
            .map(|(digits, end)| (Value::BigNumber(digits), end)),
        b'!' => {
            bulk(bytes, body, bounds, progress)?.map(|(text, end)| (Value::BulkError(text), end))
        }
        b'=' => verbatim(bytes, body, bounds, progress)?,
        b'*' => return array(bytes, body, bounds, progress),
        b'%' => return open(bytes, body, Kind::Map, bounds, progress),
        b'~' => return open(bytes, body, Kind::Set, bounds, progress),
        b'>' => return open(bytes, body, Kind::Push, bounds, progress),
        b'|' => return open(bytes, body, Kind::Attribute, bounds, progress),
        unknown => return Err(DecodeError::new(at, Reason::UnknownKind(unknown))),
    };
    Ok(scalar.map(|(value, end)| (Token::Scalar(value), end)))
}

/// CR LF at `at`: the offset behind it.
#[inline]
fn line_end(bytes: &[u8], at: usize) -> Result<Option<usize>, DecodeError> {
    match bytes.get(at) {
        None => return Ok(None),
        Some(b'\r') => (),
        Some(_) => return Err(DecodeError::new(at, Reason::LineEnd)),
    }
    match bytes.get(at + 1) {
        None => Ok(None),
        Some(b'\n') => Ok(Some(at + 2)),
        Some(_) => Err(DecodeError::new(at + 1, Reason::LineEnd)),
    }
}

/// The text of a line: everything up to CR LF, with neither of the two in it.
fn line<'a>(
    bytes: &'a [u8],
    body: usize,
    bounds: &Bounds,
    progress: &mut Progress,
) -> Lexed<&'a [u8]> {
    // Behind the text come two more bytes, which the reply must have room for too.
    let room = bounds.end.saturating_sub(body + 2);
    let (longest, reason) = if room < bounds.line {
        (room, Reason::ReplyTooLong)
    } else {
        (bounds.line, Reason::LineTooLong)
    };
    // One byte more than the longest text tells whether the text ends there.
    let last = body.saturating_add(longest);
    let window = &bytes[..bytes.len().min(last.saturating_add(1))];
    let start = body.max(progress.seen);
    let Some(end) = line_stop(window, start, progress) else {
        if window.len() > last {
            return Err(DecodeError::new(last, reason));
        }
        progress.seen = window.len();
        return Ok(None);
    };
    match line_end(bytes, end)? {
        Some(behind) => Ok(Some((&bytes[body..end], behind))),
        None => {
            progress.seen = end;
            Ok(None)
        }
    }
}

/// Offset of the first CR or LF from `start` on.
#[inline]
fn line_stop(bytes: &[u8], start: usize, progress: &mut Progress) -> Option<usize> {
    /// Up to so many bytes a loop is done before `memchr` has set out.
    const SHORT: usize = 16;
    let text = bytes.get(start..).unwrap_or_default();
    let (short, long) = text.split_at(text.len().min(SHORT));
    let found = match short
        .iter()
        .position(|&byte| byte == b'\r' || byte == b'\n')
    {
        None if long.is_empty() => None,
        None => memchr::memchr2(b'\r', b'\n', long).map(|found| SHORT + found),
        found => found,
    };
    progress.look(found.map_or(text.len(), |found| found + 1));
    found.map(|found| start + found)
}

/// Digits in their one spelling and CR LF behind them: a number not above `most`.
#[inline]
fn natural(
    bytes: &[u8],
    body: usize,
    most: u64,
    malformed: Reason,
    exceeded: Reason,
    progress: &mut Progress,
) -> Lexed<u64> {
    let mut number = 0_u64;
    let mut at = body;
    loop {
        let Some(&byte) = bytes.get(at) else {
            progress.look(at - body);
            return Ok(None);
        };
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        // A zero can only stand alone.
        if number == 0 && at > body {
            return Err(DecodeError::new(at, malformed));
        }
        let next = number
            .checked_mul(10)
            .and_then(|tens| tens.checked_add(u64::from(digit)));
        number = match next {
            Some(next) if next <= most => next,
            Some(_) | None => return Err(DecodeError::new(at, exceeded)),
        };
        at += 1;
    }
    progress.look(at - body);
    if at == body || bytes[at] != b'\r' {
        return Err(DecodeError::new(at, malformed));
    }
    Ok(line_end(bytes, at)?.map(|end| (number, end)))
}

#[inline]
fn integer(bytes: &[u8], body: usize, progress: &mut Progress) -> Lexed<i64> {
    if bytes.get(body) != Some(&b'-') {
        let most = i64::MAX.unsigned_abs();
        let natural = natural(
            bytes,
            body,
            most,
            Reason::Number,
            Reason::Overflow,
            progress,
        )?;
        return Ok(natural.map(|(number, end)| (number.cast_signed(), end)));
    }
    // Zero has no sign.
    if bytes.get(body + 1) == Some(&b'0') {
        return Err(DecodeError::new(body + 1, Reason::Number));
    }
    let most = i64::MIN.unsigned_abs();
    let natural = natural(
        bytes,
        body + 1,
        most,
        Reason::Number,
        Reason::Overflow,
        progress,
    )?;
    Ok(natural.map(|(number, end)| (0_i64.wrapping_sub_unsigned(number), end)))
}

/// A length, not above `most`.
#[inline]
fn length(
    bytes: &[u8],
    body: usize,
    most: usize,
    exceeded: Reason,
    progress: &mut Progress,
) -> Lexed<usize> {
    if bytes.get(body) == Some(&b'?') {
        return Err(DecodeError::new(body, Reason::Streamed));
    }
    let length = natural(bytes, body, most as u64, Reason::Length, exceeded, progress)?;
    // Not above `most`, hence no longer than a `usize`.
    Ok(length.map(|(length, end)| (length as usize, end)))
}

/// The rest of `-1`, the null of RESP2, from its sign on: the offset behind its line.
fn minus_one(bytes: &[u8], sign: usize) -> Result<Option<usize>, DecodeError> {
    match bytes.get(sign + 1) {
        None => Ok(None),
        Some(b'1') => match bytes.get(sign + 2) {
            Some(byte) if *byte != b'\r' => Err(DecodeError::new(sign + 2, Reason::Length)),
            Some(_) | None => line_end(bytes, sign + 2),
        },
        Some(_) => Err(DecodeError::new(sign + 1, Reason::Length)),
    }
}

/// `$`: a bulk string or the null of RESP2.
#[inline]
fn nullable<'a>(
    bytes: &'a [u8],
    body: usize,
    bounds: &Bounds,
    progress: &mut Progress,
) -> Lexed<Value<'a>> {
    if bytes.get(body) == Some(&b'-') {
        return Ok(minus_one(bytes, body)?.map(|end| (Value::Null, end)));
    }
    Ok(bulk(bytes, body, bounds, progress)?.map(|(text, end)| (Value::Bulk(text), end)))
}

/// A length, a payload of that length, CR LF.
#[inline]
fn bulk<'a>(
    bytes: &'a [u8],
    body: usize,
    bounds: &Bounds,
    progress: &mut Progress,
) -> Lexed<&'a [u8]> {
    let Some((start, end)) = payload(bytes, body, bounds, progress)? else {
        return Ok(None);
    };
    Ok(payload_end(bytes, end, progress)?.map(|behind| (&bytes[start..end], behind)))
}

/// The header of a string: where its payload begins, and where it ends.
#[inline]
fn payload(bytes: &[u8], body: usize, bounds: &Bounds, progress: &mut Progress) -> Lexed<usize> {
    let header = length(bytes, body, bounds.bulk, Reason::BulkTooLong, progress)?;
    let Some((length, start)) = header else {
        return Ok(None);
    };
    let end = start.saturating_add(length);
    if end.saturating_add(2) > bounds.end {
        return Err(DecodeError::new(body, Reason::ReplyTooLong));
    }
    Ok(Some((start, end)))
}

/// CR LF behind a payload: the offset behind it.
#[inline]
fn payload_end(
    bytes: &[u8],
    end: usize,
    progress: &mut Progress,
) -> Result<Option<usize>, DecodeError> {
    let behind = line_end(bytes, end)?;
    if behind.is_none() {
        // Nothing is to be seen before the byte behind the payload, or the one after that.
        progress.need = end.max(bytes.len()).saturating_add(1);
    }
    Ok(behind)
}

/// `=`: a string whose payload begins with three bytes of format and a colon.
fn verbatim<'a>(
    bytes: &'a [u8],
    body: usize,
    bounds: &Bounds,
    progress: &mut Progress,
) -> Lexed<Value<'a>> {
    let header = payload(bytes, body, bounds, progress);
    // A length that is too short shows with the CR behind it, before the line has ended.
    if let Some(at) = short_verbatim(bytes, body) {
        return Err(DecodeError::new(at, Reason::Verbatim));
    }
    let Some((start, end)) = header? else {
        return Ok(None);
    };
    let colon = start + 3;
    match bytes.get(colon) {
        Some(b':') => (),
        Some(_) => return Err(DecodeError::new(colon, Reason::Verbatim)),
        None => {
            progress.need = colon + 1;
            return Ok(None);
        }
    }
    let Some(behind) = payload_end(bytes, end, progress)? else {
        return Ok(None);
    };
    let format = [bytes[start], bytes[start + 1], bytes[start + 2]];
    Ok(Some((
        Value::Verbatim {
            format,
            text: &bytes[colon + 1..end],
        },
        behind,
    )))
}

/// Where it shows that a verbatim string is too short for its format.
fn short_verbatim(bytes: &[u8], body: usize) -> Option<usize> {
    match bytes.get(body)? {
        b'0' => Some(body),
        b'1'..=b'3' if bytes.get(body + 1) == Some(&b'\r') => Some(body + 1),
        _ => None,
    }
}

fn boolean(bytes: &[u8], body: usize) -> Lexed<bool> {
    let value = match bytes.get(body) {
        None => return Ok(None),
        Some(b't') => true,
        Some(b'f') => false,
        Some(_) => return Err(DecodeError::new(body, Reason::Boolean)),
    };
    Ok(line_end(bytes, body + 1)?.map(|end| (value, end)))
}

/// `*`: an array or the other null of RESP2.
fn array<'a>(
    bytes: &'a [u8],
    body: usize,
    bounds: &Bounds,
    progress: &mut Progress,
) -> Lexed<Token<'a>> {
    if bytes.get(body) == Some(&b'-') {
        return Ok(minus_one(bytes, body)?.map(|end| (Token::Scalar(Value::Null), end)));
    }
    open(bytes, body, Kind::Array, bounds, progress)
}

/// The header of an aggregate.
fn open<'a>(
    bytes: &'a [u8],
    body: usize,
    kind: Kind,
    bounds: &Bounds,
    progress: &mut Progress,
) -> Lexed<Token<'a>> {
    let each = match kind {
        Kind::Map | Kind::Attribute => 2,
        Kind::Array | Kind::Set | Kind::Push => 1,
    };
    // A push without elements has no kind.
    if kind == Kind::Push && bytes.get(body) == Some(&b'0') {
        return Err(DecodeError::new(body, Reason::PushKind));
    }
    let most = bounds.elements / each;
    let header = length(bytes, body, most, Reason::TooManyElements, progress)?;
    let Some((count, end)) = header else {
        return Ok(None);
    };
    let elements = count * each;
    if end.saturating_add(elements.saturating_mul(ELEMENT_BYTES_MIN)) > bounds.end {
        return Err(DecodeError::new(body, Reason::ReplyTooLong));
    }
    match u32::try_from(elements) {
        Ok(elements) => Ok(Some((Token::Open { kind, elements }, end))),
        Err(_) => Err(DecodeError::new(body, Reason::TooManyElements)),
    }
}

/// `(`: an integer of any length, kept as its digits. Servers pass on what a script made, so
/// leading zeros are let through; nothing is computed from them here.
fn big_number<'a>(
    bytes: &'a [u8],
    body: usize,
    bounds: &Bounds,
    progress: &mut Progress,
) -> Lexed<&'a [u8]> {
    let malformed = |at| DecodeError::new(at, Reason::Number);
    let first = body + usize::from(bytes.get(body) == Some(&b'-'));
    if bytes.get(first).is_some_and(|byte| !byte.is_ascii_digit()) {
        return Err(malformed(first));
    }
    let start = first.max(progress.seen);
    let found = line(bytes, body, bounds, progress);
    let text_end = match &found {
        Ok(Some((text, _))) => body + text.len(),
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

/// `,`: a double in decimal notation, or one of the three words.
fn double(bytes: &[u8], body: usize, progress: &mut Progress) -> Lexed<f64> {
    let text = bytes.get(body..).unwrap_or_default();
    if let Some((word, value)) = double_word(text) {
        return match text
            .iter()
            .zip(word)
            .position(|(byte, letter)| byte != letter)
        {
            Some(wrong) => Err(DecodeError::new(body + wrong, Reason::Number)),
            None if text.len() < word.len() => Ok(None),
            None => Ok(line_end(bytes, body + word.len())?.map(|end| (value, end))),
        };
    }
    let (state, length) = double_syntax(text, progress);
    let (digits, next) = (&text[..length], text.get(length).copied());
    let refuse = |at, reason| Err(DecodeError::new(at, reason));
    if state.only_grows() && double_value(digits).is_none_or(f64::is_infinite) {
        return refuse(body, Reason::Overflow);
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
    match (next, double_value(digits)) {
        (None, _) => Ok(None),
        (Some(b'\r'), Some(value)) if state.is_complete() => {
            Ok(line_end(bytes, body + length)?.map(|end| (value, end)))
        }
        (Some(_), _) => refuse(body + length, Reason::Number),
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

    /// Whether all that may follow makes the number larger, or is an exponent. What has
    /// overflowed stays so; an exponent that would bring it back is none that a server prints.
    const fn only_grows(self) -> bool {
        matches!(self, Self::Integral | Self::Fraction | Self::Exponent)
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

fn double_value(text: &[u8]) -> Option<f64> {
    core::str::from_utf8(text).ok()?.parse().ok()
}
