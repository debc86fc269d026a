//! Shared by the readers of one element: its bounds, how far a torn one was read, and the end of a
//! line.
//!
//! Not here: the rules of the single kinds. They are in `text`, `number` and `token`.

use super::error::{DecodeError, Reason};

/// The bounds of one element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) line: usize,
    pub(super) bulk: usize,
    pub(super) elements: usize,
    /// Offset that the element must not reach beyond, because of the bound on the reply. Only lines
    /// look at it, which have no other end; `least` checks the rest.
    pub(super) end: usize,
}

impl Bounds {
    /// For bytes that were found valid before.
    pub(super) const NONE: Self = Self {
        line: usize::MAX,
        bulk: u32::MAX as usize,
        elements: u32::MAX as usize,
        end: usize::MAX,
    };
}

/// What is remembered of a torn element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// Up to here the text of a line holds nothing to look at again.
    pub(super) seen: usize,
    /// The exponent of a double up to there, unless it has none or a negative one.
    pub(super) exponent: Option<u64>,
    /// With fewer bytes than this there is nothing new to see.
    pub(super) need: usize,
    /// How many bytes were looked at, for the test that proves O(n).
    #[cfg(test)]
    pub(super) looked: usize,
}

impl Progress {
    pub(super) const NEW: Self = Self {
        seen: 0,
        exponent: None,
        need: 0,
        #[cfg(test)]
        looked: 0,
    };

    /// The next element begins.
    pub(super) fn reset(&mut self) {
        self.seen = 0;
        self.exponent = None;
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

/// A part of an element and the offset behind it; `None` when bytes are missing.
pub(super) type Lexed<T> = Result<Option<(T, usize)>, DecodeError>;

/// Reads CR LF at `at` and returns the offset behind it.
#[inline]
pub(super) fn line_end(bytes: &[u8], at: usize) -> Result<Option<usize>, DecodeError> {
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
