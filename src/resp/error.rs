//! Errors in the bytes of a reply, with the offset and the broken rule.

/// An error in a reply that no further bytes can make valid.
///
/// The start of the next reply is unknown, so close the connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("byte {at} of the reply: {reason}")]
pub struct DecodeError {
    /// The offset of the first wrong byte, counted from the first byte of the reply. If a text is wrong as a whole,
    /// this is the offset of its first byte.
    pub at: usize,
    /// The rule that the byte breaks.
    pub(crate) reason: Reason,
}

impl DecodeError {
    pub(super) const fn new(at: usize, reason: Reason) -> Self {
        Self { at, reason }
    }
}

/// The rule that a reply breaks.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// No type of RESP2 or RESP3 begins with this byte.
    #[error("no type begins with byte {0:#04x}")]
    UnknownKind(u8),
    /// A CR without LF, a LF without CR, or a missing CR LF.
    #[error("CR LF is missing, or stands where it must not")]
    LineEnd,
    /// Not a number. A number is `0`, or digits without a leading zero. A number may begin with `+`, and with `-`
    /// unless it is the integer zero. A double may have a fraction and an exponent as in `-1.5e-9`, or be `inf`, `-inf`
    /// or `nan`. A big number may begin with zeros.
    #[error("not a number as it is spelled")]
    Number,
    /// Not a length. A length is `0`, or digits without a leading zero. Only `$` and `*` accept `-1`.
    #[error("not a length")]
    Length,
    /// A number that does not fit into 64 bits, or into a finite double.
    #[error("the number does not fit into 64 bits")]
    Overflow,
    /// A boolean that is neither `t` nor `f`.
    #[error("neither #t nor #f")]
    Boolean,
    /// A verbatim string that does not begin with a format of three letters and a colon.
    #[error("a verbatim string begins with three bytes and a colon")]
    Verbatim,
    /// A push inside another value.
    #[error("a push stands inside another value")]
    NestedPush,
    /// A push that does not begin with a string that names its kind.
    #[error("a push begins with a string, its kind")]
    PushKind,
    /// A string or aggregate of unknown length (`$?`, `*?`), which no server sends.
    #[error("streamed strings and aggregates are not taken")]
    Streamed,
    /// More than [`Limits::line_bytes`](super::Limits::line_bytes).
    #[error("the line is longer than the limit (`line_bytes`)")]
    LineTooLong,
    /// More than [`Limits::bulk_bytes`](super::Limits::bulk_bytes).
    #[error("the string is longer than the limit (`bulk_bytes`)")]
    BulkTooLong,
    /// More than [`Limits::elements`](super::Limits::elements).
    #[error("the aggregate has more elements than the limit (`elements`)")]
    TooManyElements,
    /// More than [`Limits::depth`](super::Limits::depth).
    #[error("aggregates are nested deeper than the limit (`depth`)")]
    TooDeep,
    /// More than [`Limits::reply_bytes`](super::Limits::reply_bytes).
    #[error("the reply is longer than the limit (`reply_bytes`)")]
    ReplyTooLong,
    /// The caller did not pass the same bytes again after `Ok(None)`.
    #[error("the bytes are not those that were passed before")]
    Changed,
    /// `Decoder::frame` was called, but no reply was measured before.
    #[error("no reply was measured before")]
    NotMeasured,
}

// Every layer returns `DecodeError` by value, so this type must be small.
const _: () = assert!(size_of::<DecodeError>() <= 2 * size_of::<usize>());
