//! The texts: lines that end with CR LF, and strings that say their length first.

use core::ops::Range;

use memchr::memchr2;

use super::error::{DecodeError, Reason};
use super::lex::{Bounds, Lexed, Progress, line_end};
use super::number::natural;

/// Reads the text of a line: everything up to CR LF, with neither of the two in it.
pub(super) fn line(
    bytes: &[u8],
    body: usize,
    bounds: &Bounds,
    progress: &mut Progress,
) -> Lexed<Range<usize>> {
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
    let text = window.get(start..).unwrap_or_default();
    let stop = memchr2(b'\r', b'\n', text);
    progress.look(stop.map_or(text.len(), |stop| stop + 1));
    let Some(end) = stop.map(|stop| start + stop) else {
        if window.len() > last {
            return Err(DecodeError::new(last, reason));
        }
        progress.seen = window.len();
        return Ok(None);
    };
    match line_end(bytes, end)? {
        Some(behind) => Ok(Some((body..end, behind))),
        None => {
            progress.seen = end;
            Ok(None)
        }
    }
}

/// Reads a length, not above `most`.
#[inline]
pub(super) fn length(
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

/// Reads a length, a payload of that length, CR LF.
#[inline]
pub(super) fn bulk(
    bytes: &[u8],
    body: usize,
    bounds: &Bounds,
    progress: &mut Progress,
) -> Lexed<Range<usize>> {
    let Some((start, end)) = payload(bytes, body, bounds, progress)? else {
        return Ok(None);
    };
    Ok(payload_end(bytes, end, progress)?.map(|behind| (start..end, behind)))
}

/// Reads the header of a string: where its payload begins, and where it ends.
#[inline]
fn payload(bytes: &[u8], body: usize, bounds: &Bounds, progress: &mut Progress) -> Lexed<usize> {
    let header = length(bytes, body, bounds.bulk, Reason::BulkTooLong, progress)?;
    let Some((length, start)) = header else {
        return Ok(None);
    };
    Ok(Some((start, start.saturating_add(length))))
}

/// Reads CR LF behind a payload and returns the offset behind it.
#[inline]
fn payload_end(
    bytes: &[u8],
    end: usize,
    progress: &mut Progress,
) -> Result<Option<usize>, DecodeError> {
    let behind = line_end(bytes, end)?;
    if behind.is_none() {
        // There is nothing to check before the byte behind the payload, or the one after it.
        progress.need = end.max(bytes.len()).saturating_add(1);
    }
    Ok(behind)
}

/// Three letters and a colon.
const FORMAT_BYTES: usize = 4;

/// `=`: a string whose payload begins with three bytes of format and a colon.
pub(super) fn verbatim(
    bytes: &[u8],
    body: usize,
    bounds: &Bounds,
    progress: &mut Progress,
) -> Lexed<Range<usize>> {
    if bounds.bulk < FORMAT_BYTES {
        return Err(DecodeError::new(body - 1, Reason::BulkTooLong));
    }
    let header = payload(bytes, body, bounds, progress);
    // A length that is too short shows with the CR behind it, before the line has ended.
    if let Some(at) = short_verbatim(bytes, body, bounds.bulk) {
        return Err(DecodeError::new(at, Reason::Verbatim));
    }
    let Some((start, end)) = header? else {
        return Ok(None);
    };
    let colon = start + 3;
    match bytes.get(colon) {
        Some(b':') => Ok(payload_end(bytes, end, progress)?.map(|behind| (start..end, behind))),
        Some(_) => Err(DecodeError::new(colon, Reason::Verbatim)),
        None => {
            progress.need = colon + 1;
            Ok(None)
        }
    }
}

/// Returns the offset at which a verbatim string shows that it is too short for its format.
fn short_verbatim(bytes: &[u8], body: usize, longest: usize) -> Option<usize> {
    let first = bytes.get(body)?;
    match first {
        b'0' => Some(body),
        // Another digit would make it too long.
        b'1'..=b'3' if longest < usize::from(first - b'0') * 10 => Some(body),
        b'1'..=b'3' if bytes.get(body + 1) == Some(&b'\r') => Some(body + 1),
        _ => None,
    }
}
