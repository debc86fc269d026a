//! The fast path for the header of an aggregate, and for the number in it.
//!
//! As in `direct`, the caller calls [`token`](super::token::token) if a function returns `None`, so this file reports
//! no errors.

use super::token::{Kind, Token};

/// Returns the header of an array, map, set or push at the front of `bytes`. Returns `None` for attributes, and for a
/// push without elements.
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
    (kind != Kind::Push || elements > 0)
        .then_some(Token::number(kind, (u64::from(elements), 1 + len)))
}

/// Returns a number without leading zeros, and the length of its line with CR LF.
#[inline(always)]
pub(super) fn natural(bytes: &[u8]) -> Option<(u64, usize)> {
    /// Every number with this many digits fits into 64 bits, even with a sign.
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
