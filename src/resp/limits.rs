//! The bounds that a decoder keeps. Not here: the bounds of the lock client (`crate::limits`).

/// The largest values that a decoder accepts. Each bound has an error of its own, returned as soon as a header
/// announces too much and before any memory is reserved for it.
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
    /// and seven at least: elements are counted in 32 bits, and every reply of a lock is shorter.
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

    /// Every reply of a lock is shorter.
    pub(super) const REPLY_BYTES_MIN: usize = 7;

    /// Returns `true` if the decoder can keep these limits.
    pub(super) const fn are_sound(&self) -> bool {
        const MOST: usize = u32::MAX as usize;
        let is_reply_sound = Self::REPLY_BYTES_MIN <= self.reply_bytes && self.reply_bytes <= MOST;
        is_reply_sound && 2 <= self.line_bytes && self.bulk_bytes <= MOST && self.elements <= MOST
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
