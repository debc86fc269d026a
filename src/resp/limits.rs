//! The limits of a decoder. The limits of the lock client are in `crate::limits`.

/// The limits of a decoder. Each limit has its own error. The decoder returns the error as soon as a header announces
/// too much, before it reserves any memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// The longest text of one line (simple string, error, double, big number), in bytes without the line end. The
    /// default is 64 KiB, because the longest line of a server is an error text. The smallest limit is two, for `OK`.
    pub line_bytes: usize,
    /// The longest payload of one bulk string, bulk error or verbatim string. The default is 1 MiB.
    pub bulk_bytes: usize,
    /// The largest number of elements in one aggregate. A pair of a map counts as two elements. The default is 65,536.
    /// Consecutive attributes are separate aggregates.
    pub elements: usize,
    /// The largest number of nested aggregates. Attributes and empty aggregates count too. The default is 32. `COMMAND
    /// DOCS` has twelve levels, and no other reply of a server has more.
    pub depth: usize,
    /// The longest reply as a whole, including its attributes. The default is 16 MiB. The limit is at most 4 GiB - 1,
    /// because elements are counted in 32 bits. The limit is at least seven bytes, because the fast path does not check
    /// shorter replies such as `+OK`. This limit bounds the memory for a torn reply, because the other limits together
    /// allow far more.
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

    /// The smallest limit on replies. The fast path does not check replies that are shorter than this limit.
    pub(super) const REPLY_BYTES_MIN: usize = 7;

    /// Returns `true` if the decoder can work with these limits.
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
