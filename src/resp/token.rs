//! A token is a scalar, or the header of an aggregate.
//!
//! This file contains all rules of the grammar about a single element. The rules about several elements (nesting,
//! pushes, attributes) are in `decode`. Each element begins with a line, and is read after that line has arrived. A
//! torn element is read again from its first byte. Reading again costs little, because only the text of a line and the
//! payload of a string can be long. The text and the payload are read only once, because [`Progress`] records how far
//! they were read.

use core::ops::Range;

use super::error::{DecodeError, Reason};
use super::lex::{Bounds, Progress, line};
use super::number::{double, integer, is_big_number, length};

/// An element at an offset: a complete scalar, or the header of an aggregate.
///
/// A token has plain fields instead of a `Value`, because a `Value` is large, and the loop over the elements of an
/// aggregate needs only `end`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    /// The value of a number or a boolean, or the bits of a double. For an aggregate, the number of elements (a pair
    /// counts as two).
    pub(super) number: u64,
    /// The start of the text, if the token has a text.
    start: usize,
    /// The end of the text.
    stop: usize,
    /// The offset after the token.
    pub(super) end: usize,
}

/// The types of elements.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Simple,
    Error,
    Integer,
    Bulk,
    Null,
    Double,
    Boolean,
    BigNumber,
    BulkError,
    Verbatim,
    Array,
    Map,
    Set,
    Push,
    Attribute,
}

impl Kind {
    /// Returns the type that begins with this byte.
    const fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            b'+' => Self::Simple,
            b'-' => Self::Error,
            b':' => Self::Integer,
            b'$' => Self::Bulk,
            b'_' => Self::Null,
            b',' => Self::Double,
            b'#' => Self::Boolean,
            b'(' => Self::BigNumber,
            b'!' => Self::BulkError,
            b'=' => Self::Verbatim,
            b'*' => Self::Array,
            b'%' => Self::Map,
            b'~' => Self::Set,
            b'>' => Self::Push,
            b'|' => Self::Attribute,
            _ => return None,
        })
    }

    pub(super) const fn is_scalar(self) -> bool {
        !matches!(
            self,
            Self::Array | Self::Map | Self::Set | Self::Push | Self::Attribute
        )
    }
}

impl Token {
    /// No token yet.
    pub(super) const NONE: Self = Self {
        kind: Kind::Null,
        number: 0,
        start: 0,
        stop: 0,
        end: 0,
    };

    fn text(kind: Kind, (text, end): (Range<usize>, usize)) -> Self {
        Self {
            kind,
            start: text.start,
            stop: text.end,
            end,
            ..Self::NONE
        }
    }

    #[inline(always)]
    pub(super) fn number(kind: Kind, (number, end): (u64, usize)) -> Self {
        Self {
            kind,
            number,
            end,
            ..Self::NONE
        }
    }

    /// Returns the text of the token, which was read from `bytes`. Returns an empty text if the token has no text.
    #[inline]
    pub(super) fn text_in(self, bytes: &[u8]) -> Option<&[u8]> {
        bytes.get(self.start..self.stop)
    }

    /// Returns the offset after the element. For an aggregate, returns the smallest offset at which its elements may
    /// end.
    #[inline]
    pub(super) const fn end_min(self) -> usize {
        if self.kind.is_scalar() {
            self.end
        } else {
            let elements = (self.elements() as usize).saturating_mul(ELEMENT_BYTES_MIN);
            self.end.saturating_add(elements)
        }
    }

    /// Returns the number of elements of an aggregate, which always fits into 32 bits.
    pub(super) const fn elements(self) -> u32 {
        self.number as u32
    }
}

/// The length of the shortest element, such as `_\r\n`.
pub(super) const ELEMENT_BYTES_MIN: usize = 3;

/// The longest text of an integer or a length: the length of the smallest integer.
const NUMBER_BYTES_MAX: usize = 20;

/// The three letters and the colon at the beginning of a verbatim string.
const FORMAT_BYTES: usize = 4;

/// Returns the longest line that an element of this `kind` may have.
fn longest_line(kind: Kind, bounds: &Bounds) -> usize {
    match kind {
        Kind::Simple | Kind::Error | Kind::Double | Kind::BigNumber => bounds.line,
        Kind::Integer
        | Kind::Bulk
        | Kind::Null
        | Kind::Boolean
        | Kind::BulkError
        | Kind::Verbatim
        | Kind::Array
        | Kind::Map
        | Kind::Set
        | Kind::Push
        | Kind::Attribute => NUMBER_BYTES_MAX,
    }
}

/// Reads the token that begins at `at`.
pub(super) fn token(
    bytes: &[u8],
    at: usize,
    bounds: &Bounds,
    progress: &mut Progress,
) -> Result<Option<Token>, DecodeError> {
    let Some(&byte) = bytes.get(at) else {
        return Ok(None);
    };
    progress.look(1);
    let unknown = DecodeError::new(at, Reason::UnknownKind(byte));
    let kind = Kind::of(byte).ok_or(unknown)?;
    let body = at + 1;
    let Some((text, end)) = line(bytes, body, longest_line(kind, bounds), bounds, progress)? else {
        return Ok(None);
    };
    progress.look(text.len());
    let wrong = |reason| DecodeError::new(body, reason);
    let number = |number| Ok(Some(Token::number(kind, (number, end))));
    let whole = || Ok(Some(Token::text(kind, (body..body + text.len(), end))));
    match kind {
        Kind::Bulk | Kind::Array if text == b"-1" => {
            Ok(Some(Token::number(Kind::Null, (0, end)))) // The null of RESP2.
        }
        Kind::Simple | Kind::Error => whole(),
        Kind::BigNumber if is_big_number(text) => whole(),
        Kind::BigNumber => Err(wrong(Reason::Number)),
        Kind::Integer => number(integer(text).map_err(wrong)?.cast_unsigned()),
        Kind::Double => number(double(text).map_err(wrong)?.to_bits()),
        Kind::Boolean => match text {
            b"t" => number(1),
            b"f" => number(0),
            _ => Err(wrong(Reason::Boolean)),
        },
        Kind::Null if text.is_empty() => number(0),
        Kind::Null => Err(wrong(Reason::LineEnd)),
        Kind::Bulk | Kind::BulkError | Kind::Verbatim => {
            let length = length(text, bounds.bulk, Reason::BulkTooLong).map_err(wrong)?;
            let payload = end..end.saturating_add(length);
            string(bytes, kind, payload, bounds, progress)
        }
        Kind::Array | Kind::Set | Kind::Push | Kind::Map | Kind::Attribute => {
            let each = match kind == Kind::Map || kind == Kind::Attribute {
                true => 2,
                false => 1,
            };
            let most = bounds.elements / each;
            let count = length(text, most, Reason::TooManyElements).map_err(wrong)?;
            if kind == Kind::Push && count == 0 {
                return Err(wrong(Reason::PushKind)); // A push without elements has no kind.
            }
            number((count * each) as u64)
        }
    }
}

/// Reads a payload, and the CR LF after it.
fn string(
    bytes: &[u8],
    kind: Kind,
    payload: Range<usize>,
    bounds: &Bounds,
    progress: &mut Progress,
) -> Result<Option<Token>, DecodeError> {
    let (start, stop) = (payload.start, payload.end);
    let end = stop.saturating_add(2);
    if bounds.end < end {
        return Err(DecodeError::new(start, Reason::ReplyTooLong));
    }
    if kind == Kind::Verbatim && payload.len() < FORMAT_BYTES {
        return Err(DecodeError::new(start, Reason::Verbatim));
    }
    match bytes.get(stop..end) {
        None => {
            progress.need = end; // No check is possible before `end`.
            Ok(None)
        }
        Some(b"\r\n") if kind == Kind::Verbatim && bytes[start + FORMAT_BYTES - 1] != b':' => {
            Err(DecodeError::new(start, Reason::Verbatim))
        }
        Some(b"\r\n") => Ok(Some(Token::text(kind, (payload, end)))),
        Some(_) => Err(DecodeError::new(stop, Reason::LineEnd)),
    }
}
