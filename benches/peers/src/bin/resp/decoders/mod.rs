//! The decoders that are compared. Each looks at the whole of every value it decodes.
//!
//! In one piece, each has all bytes where its users would have them. Torn, each receives pieces as
//! from a socket: copied to where its users read to, at the end of a growing buffer or into a fixed
//! one.

mod floor;
mod hiredis;
mod redis;
mod redis_protocol;
pub(crate) mod shearline;

use crate::contest::Entrant;
use crate::stream::{PIECE_BYTES, Stream};

/// How the bytes arrive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Form {
    Whole,
    Torn,
}

/// All decoders for this stream in this form.
pub(crate) fn entrants(stream: &Stream, form: Form) -> Vec<Entrant<'_>> {
    let mut all = Vec::new();
    if stream.is_lock() {
        all.extend([
            floor::entrant(stream, form),
            floor::entrant(stream, form).again(),
        ]);
        all.push(shearline::entrant(stream, form));
    } else {
        all.push(shearline::entrant(stream, form));
        all.push(shearline::entrant(stream, form).again());
    }
    all.push(shearline::owned(stream, form));
    all.extend(redis_protocol::entrants(stream, form));
    all.extend(redis::entrants(stream, form));
    all.push(hiredis::entrant(stream, form));
    all
}

/// Where a piece is received if the buffer does not grow.
struct Room([u8; PIECE_BYTES]);

impl Room {
    const fn new() -> Self {
        Self([0; PIECE_BYTES])
    }

    /// Copies the piece, as the system call would.
    fn receive(&mut self, piece: &[u8]) -> &[u8] {
        let room = &mut self.0[..piece.len()];
        room.copy_from_slice(piece);
        room
    }
}
