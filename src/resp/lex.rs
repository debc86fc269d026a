//! Reads the first line of an element, and records how far a torn element was read.
//!
//! `number` and `token` interpret the text of a line.

use memchr::memchr2;

use super::error::{DecodeError, Reason};

/// The limits of one element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) line: usize,
    pub(super) bulk: usize,
    pub(super) elements: usize,
    /// The offset that the element must not exceed, because of the limit on the reply.
    pub(super) end: usize,
}

impl Bounds {
    /// No limits, for bytes that are known to be valid.
    pub(super) const NONE: Self = Self {
        line: usize::MAX,
        bulk: u32::MAX as usize,
        elements: u32::MAX as usize,
        end: usize::MAX,
    };
}

/// How far a torn element was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// The line does not end before this offset.
    pub(super) seen: usize,
    /// The number of bytes that are needed to continue with the element.
    pub(super) need: usize,
    /// The number of bytes that were read, for the test that decoding takes O(n).
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

    /// Prepares for the next element.
    pub(super) fn reset(&mut self) {
        self.seen = 0;
        self.need = 0;
    }

    #[inline]
    pub(super) fn look(&mut self, bytes: usize) {
        #[cfg(test)]
        {
            self.looked += bytes;
        }
        #[cfg(not(test))]
        let _ = bytes;
    }
}

/// Reads the text of a line, from `body` up to CR LF. The text has at most `longest` bytes, and contains neither CR nor
/// LF. Returns the text and the offset after the line. Returns `None` if bytes are missing.
pub(super) fn line<'a>(
    bytes: &'a [u8],
    body: usize,
    longest: usize,
    bounds: &Bounds,
    progress: &mut Progress,
) -> Result<Option<(&'a [u8], usize)>, DecodeError> {
    // Leaves room for the CRLF after the text.
    let room = bounds.end.saturating_sub(body + 2);
    let (longest, reason) = if room < longest {
        (room, Reason::ReplyTooLong)
    } else {
        (longest, Reason::LineTooLong)
    };
    // Also scans the byte after the longest allowed text, because the line may end there.
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
    match bytes[end..] {
        [b'\r', b'\n', ..] => Ok(Some((&bytes[body..end], end + 2))),
        [b'\r'] => {
            progress.seen = end;
            Ok(None)
        }
        _ => Err(DecodeError::new(end, Reason::LineEnd)),
    }
}
