//! Writes commands as bytes.

use bytes::BufMut;

use super::decimal::decimal_len;
use super::write::{LINE_END, header, string};

/// Appends a command as an array of bulk strings.
///
/// Uses no `format!`, and allocates only if `out` must grow. Without arguments, writes an empty array. Servers do not
/// answer an empty array, so do not send one if you match replies by count.
///
/// # Panics
///
/// Panics if `out` has a fixed size and is too small.
///
/// ```
/// let mut out = Vec::new();
/// shearline::resp::command(&mut out, &[b"GET", b"invoice:42"]);
/// assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$10\r\ninvoice:42\r\n");
/// ```
pub fn command<B: BufMut + ?Sized>(out: &mut B, arguments: &[&[u8]]) {
    header(out, b'*', arguments.len());
    for text in arguments {
        argument(out, text);
    }
}

/// Appends one argument of a command as a bulk string. For commands with constant parts, see
/// also [`Template`](super::Template).
///
/// # Panics
///
/// Panics if `out` has a fixed size and is too small.
///
/// ```
/// # #[cfg(feature = "internals")] {
/// let mut out = Vec::new();
/// shearline::internals::resp::argument(&mut out, b"invoice:42");
/// assert_eq!(out, b"$10\r\ninvoice:42\r\n");
/// # }
/// ```
// Not inlined, because the code would be repeated in many places.
#[inline(never)]
pub fn argument<B: BufMut + ?Sized>(out: &mut B, text: &[u8]) {
    string(out, b'$', text);
}

/// Returns how many bytes [`argument`] appends for a text of `len` bytes.
#[must_use]
pub const fn argument_len(len: usize) -> usize {
    header_len(len) + len + LINE_END.len()
}

/// Returns the length of the header that announces a text of `count` bytes.
const fn header_len(count: usize) -> usize {
    1 + decimal_len(count as u64) + LINE_END.len()
}
