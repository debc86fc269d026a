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

use core::ops::Range;

use super::error::{DecodeError, Reason};
use super::lex::{Bounds, Progress, line_end};
use super::number::{big_number, boolean, double, integer};
use super::text::{bulk, length, line, verbatim};

/// What was found at an offset: a value that is complete in itself, or the header of an aggregate.
///
/// Plain fields instead of a `Value`, which is large: the loop over the elements of an aggregate
/// needs `end` and no more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    /// What a number or a boolean says, of a double its bits; of an aggregate the elements (a pair
    /// counts as two).
    pub(super) number: u64,
    /// Where the text begins, if there is one.
    start: usize,
    /// Where the text stops.
    stop: usize,
    /// Offset behind the token.
    pub(super) end: usize,
}

/// The types.
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

    /// Returns the text of the token in `bytes`, from which it was read; empty if it has none.
    #[inline]
    pub(super) fn text_in(self, bytes: &[u8]) -> Option<&[u8]> {
        bytes.get(self.start..self.stop)
    }

    /// Offset behind the element, or of an aggregate behind the shortest elements that it may have.
    #[inline]
    pub(super) const fn end_min(self) -> usize {
        if self.kind.is_scalar() {
            self.end
        } else {
            let elements = (self.elements() as usize).saturating_mul(ELEMENT_BYTES_MIN);
            self.end.saturating_add(elements)
        }
    }

    /// Returns the elements of an aggregate. There are never more than fit.
    pub(super) const fn elements(self) -> u32 {
        self.number as u32
    }
}

/// Least bytes of any element, as `_\r\n`.
pub(super) const ELEMENT_BYTES_MIN: usize = 3;

/// Reads the token that begins at `at`.
pub(super) fn token(
    bytes: &[u8],
    at: usize,
    bounds: &Bounds,
    progress: &mut Progress,
) -> Result<Option<Token>, DecodeError> {
    let Some(&kind) = bytes.get(at) else {
        return Ok(None);
    };
    progress.look(1);
    let body = at + 1;
    let number = |kind| move |found| Token::number(kind, found);
    let text = |kind| move |found| Token::text(kind, found);
    Ok(match kind {
        b'$' if bytes.get(body) == Some(&b'-') => minus_one(bytes, body)?,
        b'$' => bulk(bytes, body, bounds, progress)?.map(text(Kind::Bulk)),
        b':' => integer(bytes, body, progress)?.map(number(Kind::Integer)),
        b'+' => line(bytes, body, bounds, progress)?.map(text(Kind::Simple)),
        b'-' => line(bytes, body, bounds, progress)?.map(text(Kind::Error)),
        b'*' if bytes.get(body) == Some(&b'-') => minus_one(bytes, body)?,
        b'*' => open(bytes, body, Kind::Array, bounds, progress)?,
        b'_' => line_end(bytes, body)?.map(|end| Token::number(Kind::Null, (0, end))),
        b'#' => boolean(bytes, body)?.map(number(Kind::Boolean)),
        b',' => double(bytes, body, bounds, progress)?.map(number(Kind::Double)),
        b'(' => big_number(bytes, body, bounds, progress)?.map(text(Kind::BigNumber)),
        b'!' => bulk(bytes, body, bounds, progress)?.map(text(Kind::BulkError)),
        b'=' => verbatim(bytes, body, bounds, progress)?.map(text(Kind::Verbatim)),
        b'%' => open(bytes, body, Kind::Map, bounds, progress)?,
        b'~' => open(bytes, body, Kind::Set, bounds, progress)?,
        b'>' => open(bytes, body, Kind::Push, bounds, progress)?,
        b'|' => open(bytes, body, Kind::Attribute, bounds, progress)?,
        unknown => return Err(DecodeError::new(at, Reason::UnknownKind(unknown))),
    })
}

/// Reads the rest of `-1`, the null of RESP2, from its sign on.
fn minus_one(bytes: &[u8], sign: usize) -> Result<Option<Token>, DecodeError> {
    let end = match (bytes.get(sign + 1), bytes.get(sign + 2)) {
        (None, _) | (Some(b'1'), None) => return Ok(None),
        (Some(b'1'), Some(b'\r')) => line_end(bytes, sign + 2)?,
        (Some(b'1'), Some(_)) => return Err(DecodeError::new(sign + 2, Reason::Length)),
        (Some(_), _) => return Err(DecodeError::new(sign + 1, Reason::Length)),
    };
    Ok(end.map(|end| Token::number(Kind::Null, (0, end))))
}

/// Reads the header of an aggregate.
fn open(
    bytes: &[u8],
    body: usize,
    kind: Kind,
    bounds: &Bounds,
    progress: &mut Progress,
) -> Result<Option<Token>, DecodeError> {
    // A push without elements has no kind.
    if kind == Kind::Push && bounds.elements == 0 {
        return Err(DecodeError::new(body - 1, Reason::TooManyElements));
    }
    if kind == Kind::Push && bytes.get(body) == Some(&b'0') {
        return Err(DecodeError::new(body, Reason::PushKind));
    }
    let each = if matches!(kind, Kind::Map | Kind::Attribute) {
        2
    } else {
        1
    };
    let most = bounds.elements / each;
    let header = length(bytes, body, most, Reason::TooManyElements, progress)?;
    let Some((count, end)) = header else {
        return Ok(None);
    };
    Ok(Some(Token::number(kind, ((count * each) as u64, end))))
}
