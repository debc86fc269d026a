//! Complete replies and elements of the usual kinds: strings, errors, integers and null.
//!
//! What [`token`](super::token::token) would find, or `None` if it has to be asked: nothing is
//! refused here, and nothing torn is understood. So a value costs one scan for the end of its
//! line, or for the digits of its length, and nothing goes through memory.

use memchr::memchr2;

use super::limits::Limits;
use super::token::{Kind, Token};
use super::value::Value;

/// The longest that is taken here. Those of few bytes pass all limits that there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Longest {
    /// Text of a line.
    line: usize,
    /// Payload of a bulk string. With a header of two digits it passes the next bound too.
    bulk: usize,
    /// All of it.
    whole: usize,
}

impl Longest {
    /// For bytes that were found valid before.
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

/// The length of a string, an error, an integer or null at the front of `bytes`.
#[inline(always)]
pub(super) fn direct_len(bytes: &[u8], longest: &Longest) -> Option<usize> {
    match compared(bytes, *longest) {
        None => measured_len(bytes, longest),
        Some((_, len)) => Some(len),
    }
}

/// Apart, so that loops over short elements stay short.
#[inline(never)]
fn measured_len(bytes: &[u8], longest: &Longest) -> Option<usize> {
    measured(bytes, *longest).map(|(_, len)| len)
}

/// The replies of a lock, and short bulk strings. They are compared instead of measured: where the
/// next one begins then does not have to be computed from these bytes, only foretold by the
/// processor.
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

/// The others, whatever their length.
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

/// A text of at most `longest` bytes, and the length of its line.
#[inline(always)]
fn line(bytes: &[u8], longest: Longest) -> Option<(&[u8], usize)> {
    let stop = memchr2(b'\r', b'\n', bytes)?;
    let (text, end) = bytes.split_at(stop);
    (end.starts_with(b"\r\n") && stop <= longest.line).then_some((text, stop + 2))
}

/// Digits without a zero before them, and the length of their line.
#[inline(always)]
fn natural(bytes: &[u8]) -> Option<(u64, usize)> {
    /// Longest number that always fits.
    const DIGITS_MAX: usize = 18;
    let mut number = 0;
    for (len, &byte) in bytes.iter().enumerate().take(DIGITS_MAX + 1) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            let valid = len == 1 || len > 1 && bytes[0] != b'0';
            let valid = valid && bytes[len..].starts_with(b"\r\n");
            return valid.then_some((number, len + 2));
        }
        number = number * 10 + u64::from(digit);
    }
    None
}

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

/// A string whose header ends at `start`, if it is all there.
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

/// The header of an aggregate at the front of `bytes`, but for attributes and for a push without
/// elements.
#[inline(always)]
pub(super) fn header(bytes: &[u8]) -> Option<Token> {
    let (kind, rest) = bytes.split_first()?;
    let (kind, each) = match kind {
        b'*' => (Kind::Array, 1),
        b'%' => (Kind::Map, 2),
        b'~' => (Kind::Set, 1),
        b'>' => (Kind::Push, 1),
        _ => return None,
    };
    let (count, len) = natural(rest)?;
    let elements = u32::try_from(count.checked_mul(each)?).ok()?;
    (kind != Kind::Push || elements > 0).then_some(Token::header(kind, elements, 1 + len))
}

/// More elements are not worth the attempt, which is in vain when one of them is torn.
const FLAT_MAX: usize = 16;

/// A short aggregate at the front of `bytes` whose elements are all taken directly, if it is within the
/// limits: its header, and its length.
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

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::super::{DecodeError, Decoder, Inbox, Limits, OwnedValue};
    use super::{Longest, flat};

    /// Replies that are taken directly, and some that only look like it.
    const REPLIES: &[&[u8]] = &[
        b"+OK\r\n",
        b"+OK\n\r",
        b":7\r\n",
        b":-7\r\n",
        b"$-1\r\n",
        b"$-2\r\n",
        b"_\r\n",
        b"$0\r\n\r\n",
        b"$4\r\nabcd\r\n",
        b"$4\r\nabcde\r\n",
        b"$12\r\nhello, world\r\n",
        b"$04\r\nabcd\r\n",
        b"*2\r\n+OK\r\n$4\r\nabcd\r\n",
        b"*3\r\n:1\r\n_\r\n$12\r\nhello, world\r\n",
        b"*2\r\n:1\r\n*1\r\n:2\r\n",
        b"*2\r\n:1\r\n>1\r\n+kind\r\n",
        b"%1\r\n:1\r\n:2\r\n",
        b"~1\r\n:1\r\n",
        b"+QUEUED\r\n",
        b"+a longer text\r\n",
        b"+a longer text\n\r",
        b"-ERR unknown command\r\n",
        b":12345\r\n",
        b":+12345\r\n",
        b":-12345\r\n",
        b":-0\r\n",
        b":01\r\n",
        b":999999999999999999\r\n",
        b":-9223372036854775808\r\n",
        b":-9223372036854775809\r\n",
        b">2\r\n+kind\r\n_\r\n",
        b">2\r\n_\r\n+kind\r\n",
        b">1\r\n$2\r\nab\r\n",
        b"*12\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n:6\r\n:7\r\n:8\r\n:9\r\n:0\r\n:1\r\n:2\r\n",
        b"*0\r\n",
        b">0\r\n",
        b"*4294967297\r\n:1\r\n",
    ];

    fn whole(limits: Limits, bytes: &[u8]) -> Result<OwnedValue, DecodeError> {
        let mut decoder = Decoder::new(limits);
        let frame = decoder.decode(bytes)?.expect("complete");
        assert_eq!(frame.len, bytes.len());
        Ok(frame.element().to_owned())
    }

    /// Never directly: no reply is complete before its last byte, and then it is torn.
    fn byte_by_byte(limits: Limits, bytes: &[u8]) -> Result<OwnedValue, DecodeError> {
        let mut inbox = Inbox::new(limits);
        for byte in bytes.chunks(1) {
            if let Some(frame) = inbox.next(&mut { byte })? {
                return Ok(frame.element().to_owned());
            }
        }
        panic!("incomplete");
    }

    /// Each bound from nothing up to where it lets everything through.
    fn limits() -> impl Iterator<Item = Limits> {
        let most = Limits::DEFAULT;
        (0..40).flat_map(move |bound| {
            [
                Limits {
                    depth: bound,
                    ..most
                },
                Limits {
                    elements: bound,
                    ..most
                },
                Limits {
                    bulk_bytes: bound,
                    ..most
                },
                Limits {
                    reply_bytes: bound,
                    ..most
                },
                Limits {
                    line_bytes: bound,
                    ..most
                },
            ]
        })
    }

    #[test]
    fn the_direct_way_and_the_long_way_agree_within_all_limits() {
        for limits in limits() {
            for bytes in REPLIES {
                let shown = bytes.escape_ascii();
                assert_eq!(
                    whole(limits, bytes),
                    byte_by_byte(limits, bytes),
                    "{shown} with {limits:?}"
                );
            }
        }
    }

    #[test]
    fn flat_aggregates_are_taken_directly() {
        let direct: Vec<_> = REPLIES
            .iter()
            .filter_map(|bytes| flat(bytes, &Limits::DEFAULT, &Longest::within(Limits::DEFAULT)))
            .map(|(header, len)| (header.elements(), len))
            .collect();
        let wanted = [
            (2, 19),
            (3, 30),
            (2, 12),
            (1, 8),
            (2, 14),
            (1, 12),
            (12, 53),
            (0, 4),
        ];
        assert_eq!(direct, wanted);
    }
}
