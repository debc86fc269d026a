//! The fast path for complete values of the usual kinds: strings, errors, integers and null, and short aggregates of
//! such values.
//!
//! Each function returns the same result as [`token`](super::token::token), or `None`. `None` means that the value is
//! torn, invalid, longer than a limit, or of another kind. After `None`, the caller calls `token`, which reports the
//! error or asks for more bytes. So this file reports no errors and keeps no state. Each value costs one scan, either
//! for the end of its line or for the digits of its length.

use memchr::memchr2;

use super::header::{header, natural};
use super::limits::Limits;
use super::token::{Kind, Token};
use super::value::Value;

/// The limits that the fast path checks. The fast path does not check the shortest replies, because every limit permits
/// them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Longest {
    /// The longest text of a line.
    line: usize,
    /// The longest payload of a bulk string. A bulk string whose length has at most two digits and is within this limit
    /// is also within `whole`.
    bulk: usize,
    /// The longest reply, including its header and line ends.
    whole: usize,
}

impl Longest {
    /// No limits, for bytes that are known to be valid.
    pub(super) const ANY: Self = Self {
        line: usize::MAX,
        bulk: usize::MAX,
        whole: usize::MAX,
    };

    pub(super) const fn within(limits: Limits) -> Self {
        let room = limits.reply_bytes - Limits::REPLY_BYTES_MIN;
        Self {
            line: limits.line_bytes,
            bulk: if limits.bulk_bytes < room {
                limits.bulk_bytes
            } else {
                room
            },
            whole: limits.reply_bytes,
        }
    }
}

/// Returns the length of a string, an error, an integer or null at the front of `bytes`.
#[inline(always)]
pub(super) fn direct_len(bytes: &[u8], longest: &Longest) -> Option<usize> {
    match compared(bytes, *longest) {
        None => measured_len(bytes, longest),
        Some((_, len)) => Some(len),
    }
}

/// This function is not inlined, so that the machine code of loops over short elements stays small.
#[inline(never)]
fn measured_len(bytes: &[u8], longest: &Longest) -> Option<usize> {
    measured(bytes, *longest).map(|(_, len)| len)
}

/// Returns the value and the length of a reply to a lock command, or of a short bulk string.
///
/// This function compares the bytes with constant patterns. The offset of the next reply then depends on a branch that
/// the processor predicts, and not on a computation from these bytes.
#[inline(always)]
pub(super) fn compared(bytes: &[u8], longest: Longest) -> Option<(Value<'_>, usize)> {
    match *bytes {
        [b'+', b'O', b'K', b'\r', b'\n', ..] => Some((Value::Simple(&bytes[1..3]), 5)),
        [b':', digit @ b'0'..=b'9', b'\r', b'\n', ..] => {
            Some((Value::Integer(i64::from(digit - b'0')), 4))
        }
        [b'$', b'-', b'1', b'\r', b'\n', ..] => Some((Value::Null, 5)),
        [b'$', one @ b'0'..=b'9', b'\r', b'\n', ..] => {
            bulk(bytes, 4, usize::from(one - b'0'), longest)
        }
        [b'$', ten @ b'1'..=b'9', one @ b'0'..=b'9', b'\r', b'\n', ..] => {
            let length = usize::from(ten - b'0') * 10 + usize::from(one - b'0');
            bulk(bytes, 5, length, longest)
        }
        [b'_', b'\r', b'\n', ..] => Some((Value::Null, 3)),
        _ => None,
    }
}

/// Returns the value and the length of any string, error or integer.
#[inline(always)]
pub(super) fn measured(bytes: &[u8], longest: Longest) -> Option<(Value<'_>, usize)> {
    let (kind, rest) = bytes.split_first()?;
    let (value, len) = match kind {
        b'+' => line(rest, longest).map(|(text, len)| (Value::Simple(text), 1 + len)),
        b'-' => line(rest, longest).map(|(text, len)| (Value::Error(text), 1 + len)),
        b':' => integer(rest).map(|(integer, len)| (Value::Integer(integer), 1 + len)),
        b'$' => {
            let (length, len) = natural(rest)?;
            bulk(bytes, 1 + len, usize::try_from(length).ok()?, longest)
        }
        _ => None,
    }?;
    (len <= longest.whole).then_some((value, len))
}

/// Returns the text of a line, and the length of the line with its CR LF.
#[inline(always)]
fn line(bytes: &[u8], longest: Longest) -> Option<(&[u8], usize)> {
    let stop = memchr2(b'\r', b'\n', bytes)?;
    let (text, end) = bytes.split_at(stop);
    (end.starts_with(b"\r\n") && stop <= longest.line).then_some((text, stop + 2))
}

/// Returns an integer without `+`, and the length of its line with CR LF.
#[inline(always)]
fn integer(bytes: &[u8]) -> Option<(i64, usize)> {
    match bytes.split_first() {
        Some((b'-', digits)) => {
            let (number, len) = natural(digits).filter(|(number, _)| *number > 0)?;
            Some((-number.cast_signed(), 1 + len))
        }
        _ => natural(bytes).map(|(number, len)| (number.cast_signed(), len)),
    }
}

/// Returns a bulk string whose payload begins at `start` and has `length` bytes, and the offset where it ends.
#[inline(always)]
fn bulk(bytes: &[u8], start: usize, length: usize, longest: Longest) -> Option<(Value<'_>, usize)> {
    let stop = start.checked_add(length)?;
    match bytes.get(stop..)?.first_chunk() {
        Some(b"\r\n") if length <= longest.bulk => {
            Some((Value::Bulk(&bytes[start..stop]), stop + 2))
        }
        Some(_) | None => None,
    }
}

/// The largest number of elements on the fast path. If one element is torn, all elements before it are read again.
const FLAT_MAX: usize = 16;

/// Returns the header and the length of a short aggregate at the front of `bytes`, if it is within
/// the limits and all its elements are strings, errors, integers or null.
#[inline]
pub(super) fn flat(bytes: &[u8], limits: &Limits, longest: &Longest) -> Option<(Token, usize)> {
    let header = header(bytes)?;
    if header.elements() as usize > limits.elements.min(FLAT_MAX) || limits.depth == 0 {
        return None;
    }
    let mut end = header.end;
    let says_kind = matches!(bytes[end..], [b'+', ..] | [b'$', b'0'..=b'9', ..]);
    if header.kind == Kind::Push && !says_kind {
        return None;
    }
    for _ in 0..header.elements() {
        end += direct_len(&bytes[end..], longest)?;
    }
    (end <= limits.reply_bytes).then_some((header, end))
}
