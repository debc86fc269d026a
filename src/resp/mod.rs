//! The protocols RESP2 and RESP3: decodes replies, and encodes commands.
//!
//! An [`Inbox`] reads replies from the pieces that a socket delivers, and [`command()`] writes commands.
//!
//! ```
//! use shearline::resp::{Inbox, Value, command};
//!
//! let mut out = Vec::new();
//! command(&mut out, &[b"SET", b"invoice:42", b"token", b"NX", b"PX", b"30000"]);
//! // ... send `out`, receive a piece:
//! let mut piece: &[u8] = b"+OK\r\n";
//! let mut inbox = Inbox::default();
//! while let Some(frame) = inbox.next(&mut piece)? {
//!     assert!(matches!(frame.value, Value::Simple(b"OK")));
//! }
//! # Ok::<(), shearline::resp::DecodeError>(())
//! ```
//!
//! # Guarantees
//!
//! * **Three different results.** The decoder returns a reply, asks for more bytes, or returns an error that names the
//!   offset and the rule. The decoder refuses a wrong byte at the latest when the line or string with that byte has
//!   ended.
//! * **Linear.** Decoding n bytes takes O(n) steps, no matter how the bytes are cut into pieces. The decoder does not
//!   inspect the payload of a string.
//! * **Limits before memory.** The decoder reserves no memory for the lengths that a header announces. A line has at
//!   most 64 KiB, a string 1 MiB, an aggregate 65,536 elements and 32 levels, and a reply 16 MiB.
//! * **Little stack.** The decoder is not recursive. Comparing or printing a value takes one call for each level, of at
//!   most 32.
//! * **No copy, no allocation for each element.** Values borrow from the receive buffer, and are read from it during
//!   iteration. So iteration reads a nested element once for each aggregate that contains it.
//! * **No panic on any input.**
//!
//! # Choices where implementations differ
//!
//! * Integers, lengths and the integral part of doubles have no leading zeros, and `-0` is not an integer. Integers,
//!   doubles and big numbers may have a `+`, but lengths may not. `-nan` is NaN, because Redis 7.0 sends it.
//! * The decoder keeps a big number as text, byte for byte, with its `+` and its leading zeros. If a script returns
//!   `(+12`, Redis 7.0 and Valkey 9.1 send it unchanged. So `+12` and `12` are not equal.
//! * The decoder refuses a double that is too large for 64 bits, and does not round it to infinity.
//! * Only `$` and `*` accept the length -1.
//! * The decoder does not know the negotiated protocol, so it always accepts RESP3 types.
//! * The decoder refuses inline commands (`PING` on a line, as people type it), because clients send commands as arrays
//!   of bulk strings.
//! * The decoder refuses streamed strings and aggregates (`$?`), because no server sends them.
//! * A push inside another value, or a push that does not begin with a string, is an error.
//!
//! `tests/differential` lists the inputs for which another decoder has a different result, and says which result
//! follows the specification. A fuzz target checks that both decoders have the same result for all other inputs.
//!
//! # Not here
//!
//! The module does not know what a reply means. Callers match replies with commands by count, and must not count
//! pushes.

mod access;
mod command;
mod decimal;
mod decode;
mod direct;
mod elements;
mod equal;
mod error;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod header;
mod inbox;
mod lex;
mod limits;
mod number;
mod print;
mod template;
mod token;
mod value;
mod view;
pub(crate) mod write;

pub use command::command;
pub use decode::Frame;
pub use error::DecodeError;
pub use inbox::Inbox;
pub use value::{Items, Pairs, Value};

pub(crate) use command::{argument, argument_len};
pub(crate) use decimal::Decimal;
#[cfg(test)]
pub(crate) use decode::Decoder;
pub(crate) use limits::Limits;
pub(crate) use template::{Template, Word};

/// All items of this module, for the simulator, the embedded node, the benches and the fuzz targets.
#[cfg(any(test, feature = "internals"))]
pub(crate) mod all {
    pub use super::command::{argument, argument_len, command};
    pub use super::decimal::Decimal;
    pub use super::decode::{Decoder, Frame};
    pub use super::error::{DecodeError, Reason};
    pub use super::inbox::Inbox;
    pub use super::limits::Limits;
    pub use super::template::{Template, Word};
    pub use super::value::{Items, Pairs, Value};
    /// Writes replies, with one function for each kind.
    pub mod write {
        pub use super::super::write::*;
    }
}

#[cfg(test)]
mod tests;
