//! The replies and elements that come all day, by direct comparison.
//!
//! What [`token`](super::token::token) would find, or `None` if it has to be asked: nothing is
//! refused here, and nothing torn is understood. A `memchr` alone would cost more than all of this.

use core::num::NonZeroUsize;

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

/// The header of an aggregate of one to nine elements or pairs at the front of `bytes`: four bytes.
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

/// The length of an array of up to nine such elements at the front of `bytes`, and how many.
#[inline(always)]
pub(super) fn flat(bytes: &[u8], limits: &Limits, longest: usize) -> Option<(u32, usize)> {
    match *bytes {
        [b'*', digit @ b'1'..=b'9', b'\r', b'\n', ..] => {
            let len = u32::from(digit - b'0');
            let end = elements(bytes, len, limits, longest)?;
            Some((len, end.get()))
        }
        _ => None,
    }
}

#[inline(never)]
fn elements(bytes: &[u8], len: u32, limits: &Limits, longest: usize) -> Option<NonZeroUsize> {
    let mut rest = &bytes[4..];
    for _ in 0..len {
        let (_, length) = direct(rest, longest)?;
        rest = &rest[length..];
    }
    let end = bytes.len() - rest.len();
    let fits = end <= limits.reply_bytes && len as usize <= limits.elements && limits.depth > 0;
    NonZeroUsize::new(end).filter(|_| fits)
}
