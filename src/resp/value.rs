//! The value of a reply, as a view of the received bytes.
//!
//! A scalar borrows from the receive buffer. An aggregate stores only a position in the buffer. [`Items`] and [`Pairs`]
//! read one element after another during iteration, and skip the content of nested elements. So an aggregate does not
//! allocate.

use super::token::{Kind, Token};
use super::view::View;

/// One value of a reply, which borrows from the decoded bytes.
///
/// Two values are equal if they have the same content. Attributes of nested values are ignored. Doubles are compared
/// bit by bit, so `0.0` and `-0.0` differ, but all NaNs are equal.
///
/// ```
/// use shearline::resp::{Inbox, Value};
///
/// let mut inbox = Inbox::default();
/// let frame = inbox.next(&mut &b"+OK\r\n"[..])?.expect("complete");
/// assert_eq!(frame.value, Value::Simple(b"OK"));
/// # Ok::<(), shearline::resp::DecodeError>(())
/// ```
#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// `+`: a short text without CR or LF, such as `OK`.
    Simple(&'a [u8]),
    /// `-`: an error text. Servers echo arguments in error texts, so look only at the first word.
    Error(&'a [u8]),
    /// `:`: a signed integer of 64 bits.
    Integer(i64),
    /// `$`: any bytes.
    Bulk(&'a [u8]),
    /// `_`, or `$-1` or `*-1` in RESP2.
    Null,
    /// `,`: a double, including infinities and NaN.
    Double(f64),
    /// `#`: true or false.
    Boolean(bool),
    /// `(`: the text of an integer of any length, as received: digits with an optional `-` or `+`.
    BigNumber(&'a [u8]),
    /// `!`: an error text of any bytes.
    BulkError(&'a [u8]),
    /// `=`: a text for people.
    Verbatim {
        /// The format of the text, which is `txt` or `mkd`.
        format: [u8; 3],
        /// The text without its format.
        text: &'a [u8],
    },
    /// `*`: values in order.
    Array(Items<'a>),
    /// `%`: pairs of a key and a value, in the received order, including duplicates.
    Map(Pairs<'a>),
    /// `~`: values of a set, in the received order, including duplicates.
    Set(Items<'a>),
    /// `>`: a message without a request. The first element of a push is a string that names its kind. A push is never
    /// inside another value, and never answers a command.
    Push(Items<'a>),
}

impl<'a> Value<'a> {
    /// Returns the value of `token`, which was read from `bytes`. Returns `None` for an aggregate.
    #[inline]
    pub(super) fn scalar(token: Token, bytes: &'a [u8]) -> Option<Self> {
        let text = token.text_in(bytes)?;
        Some(match token.kind {
            Kind::Simple => Self::Simple(text),
            Kind::Error => Self::Error(text),
            Kind::Integer => Self::Integer(token.number.cast_signed()),
            Kind::Bulk => Self::Bulk(text),
            Kind::Null => Self::Null,
            Kind::Double => Self::Double(f64::from_bits(token.number)),
            Kind::Boolean => Self::Boolean(token.number != 0),
            Kind::BigNumber => Self::BigNumber(text),
            Kind::BulkError => Self::BulkError(text),
            Kind::Verbatim => {
                let (&format, text) = text.split_first_chunk()?;
                Self::Verbatim {
                    format,
                    text: text.strip_prefix(b":")?,
                }
            }
            Kind::Array | Kind::Map | Kind::Set | Kind::Push | Kind::Attribute => return None,
        })
    }
}

/// The elements of an array, a set or a push, as a position in the reply. Copying `Items` is cheap.
#[derive(Clone, Copy)]
pub struct Items<'a> {
    /// A view that begins with the first element.
    pub(super) view: View<'a>,
    pub(super) len: u32,
}

impl<'a> Items<'a> {
    /// Returns the number of elements.
    pub(crate) const fn len(&self) -> usize {
        self.len as usize
    }
}

/// The pairs of a map, as a position in the reply. Copying `Pairs` is cheap.
#[derive(Clone, Copy)]
pub struct Pairs<'a> {
    /// A view that begins with the first key.
    pub(super) view: View<'a>,
    pub(super) len: u32,
}
