//! The replies and elements that come all day, by direct comparison.
//!
//! What [`token`](super::token::token) would find, or `None` if it has to be asked: nothing is
//! refused here, and nothing torn is understood. A `memchr` alone would cost more than all of this.

use super::limits::Limits;
use super::token::Kind;
use super::value::Value;

/// A short reply of the usual kinds at the front of `bytes`, and its length. Strings have at most
/// `longest` bytes, and 99.
#[inline(always)]
pub(super) fn direct(bytes: &[u8], longest: usize) -> Option<(Value<'_>, usize)> {
    match *bytes {
        [b'+', b'O', b'K', b'\r', b'\n', ..] => Some((Value::Simple(&bytes[1..3]), 5)),
        [b':', digit @ b'0'..=b'9', b'\r', b'\n', ..] => {
            Some((Value::Integer(i64::from(digit - b'0')), 4))
        }
        [b'$', b'-', b'1', b'\r', b'\n', ..] => Some((Value::Null, 5)),
        [b'$', digit @ b'0'..=b'9', b'\r', b'\n', ..] => {
            bulk(bytes, 4, usize::from(digit - b'0'), longest)
        }
        [b'$', ten @ b'1'..=b'9', one @ b'0'..=b'9', b'\r', b'\n', ..] => {
            let length = usize::from(ten - b'0') * 10 + usize::from(one - b'0');
            bulk(bytes, 5, length, longest)
        }
        [b'_', b'\r', b'\n', ..] => Some((Value::Null, 3)),
        _ => None,
    }
}

/// A short string whose header ends at `start`, if it is all there.
#[inline(always)]
fn bulk(bytes: &[u8], start: usize, length: usize, longest: usize) -> Option<(Value<'_>, usize)> {
    let stop = start + length;
    match bytes.get(stop..stop + 2) {
        Some(b"\r\n") if length <= longest => Some((Value::Bulk(&bytes[start..stop]), stop + 2)),
        Some(_) | None => None,
    }
}

/// Length of a header with one digit.
pub(super) const HEADER_BYTES: usize = 4;

/// The header of an aggregate of one to nine elements or pairs at the front of `bytes`.
#[inline(always)]
pub(super) fn header(bytes: &[u8]) -> Option<(Kind, u32)> {
    match *bytes {
        [kind, digit @ b'1'..=b'9', b'\r', b'\n', ..] => {
            let count = u32::from(digit - b'0');
            match kind {
                b'*' => Some((Kind::Array, count)),
                b'%' => Some((Kind::Map, count * 2)),
                b'~' => Some((Kind::Set, count)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// A flat array of one to nine such replies at the front of `bytes`, if it is within the limits:
/// how many there are, and its length.
#[inline]
pub(super) fn flat(bytes: &[u8], limits: &Limits, longest: usize) -> Option<(u32, usize)> {
    let (Kind::Array, count) = header(bytes)? else {
        return None;
    };
    let mut end = HEADER_BYTES;
    for _ in 0..count {
        end += direct(&bytes[end..], longest)?.1;
    }
    let fits = end <= limits.reply_bytes && count as usize <= limits.elements && limits.depth > 0;
    fits.then_some((count, end))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::super::{DecodeError, Decoder, Inbox, Limits, OwnedValue};
    use super::flat;

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
    fn flat_arrays_are_taken_directly() {
        let direct: Vec<_> = REPLIES
            .iter()
            .filter_map(|bytes| flat(bytes, &Limits::DEFAULT, 99))
            .collect();
        assert_eq!(direct, [(2, 19), (3, 30)]);
    }
}
