//! The bounds that a decoder keeps. Not here: the bounds of the lock client (`crate::limits`).

/// The largest values that a decoder accepts. Each bound has an error of its own, returned as soon as a header
/// announces too much and before any memory is reserved for it.
///
/// A value above its maximum counts as the maximum, and a value below its minimum as the minimum.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Longest text of one line (simple string, error, double, big number), in bytes without its end.
    /// 64 KiB by default: the longest line of a server is an error text. At least two, for `OK`.
    pub line_bytes: usize,
    /// Longest payload of one bulk string, bulk error or verbatim string. 1 MiB by default.
    pub bulk_bytes: usize,
    /// Most elements of one aggregate, where a pair of a map counts as two. 65,536 by default.
    /// Attributes in a row are several aggregates.
    pub elements: usize,
    /// Most levels of aggregates inside each other; an attribute is a level, an empty aggregate
    /// too. 32 by default: `COMMAND DOCS` has twelve, the most that a server sends of its own
    /// accord.
    pub depth: usize,
    /// Longest reply as a whole, its attributes included. 16 MiB by default, 4 GiB - 1 at most
    /// and seven at least.
    /// The other bounds multiply with each other; this one bounds the memory for a torn reply.
    pub reply_bytes: usize,
}

impl Limits {
    pub(crate) const DEFAULT: Self = Self {
        line_bytes: 64 << 10,
        bulk_bytes: 1 << 20,
        elements: 1 << 16,
        depth: 32,
        reply_bytes: 16 << 20,
    };

    /// Every reply of a lock is shorter, and its text no longer than `LINE_BYTES_MIN`.
    pub(super) const REPLY_BYTES_MIN: usize = 7;
    const LINE_BYTES_MIN: usize = 2;

    /// Longest reply that can be asked for: elements are counted in 32 bits.
    const REPLY_BYTES_MAX: usize = u32::MAX as usize;

    /// These limits, cut to what the decoder can keep.
    pub(super) const fn clamped(self) -> Self {
        Self {
            line_bytes: clamp(self.line_bytes, Self::LINE_BYTES_MIN, Self::REPLY_BYTES_MAX),
            bulk_bytes: clamp(self.bulk_bytes, 0, Self::REPLY_BYTES_MAX),
            elements: clamp(self.elements, 0, Self::REPLY_BYTES_MAX),
            depth: self.depth,
            reply_bytes: clamp(
                self.reply_bytes,
                Self::REPLY_BYTES_MIN,
                Self::REPLY_BYTES_MAX,
            ),
        }
    }
}

const fn clamp(bound: usize, least: usize, most: usize) -> usize {
    if bound < least {
        least
    } else if bound > most {
        most
    } else {
        bound
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
