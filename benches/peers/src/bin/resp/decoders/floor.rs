//! The floor: a tokenizer by hand that knows the lock replies and nothing else.

use std::hint::black_box;

use shearline_peers::measure::Contestant;

use super::{Form, Room};
use crate::contest::{Entrant, Family};
use crate::stream::{PIECE_BYTES, Stream};

/// The longest lock reply.
const REPLY_BYTES_MAX: usize = 5;

pub(super) fn entrant(stream: &Stream, form: Form) -> Entrant<'_> {
    let mut room = Room::new();
    let contestant = Contestant::new(stream.replies, move || {
        let bytes = black_box(&stream.bytes[..]);
        Ok(match form {
            Form::Whole => tokens(bytes).0,
            Form::Torn => torn(bytes, &mut room),
        })
    });
    Entrant {
        family: Family::Floor,
        name: "floor".into(),
        contestant: Ok(contestant),
    }
}

/// The weight of the replies at the beginning, and what is left behind them.
///
/// Not inlined, so that its code does not change with what stands around it.
#[inline(never)]
fn tokens(mut bytes: &[u8]) -> (u64, &[u8]) {
    let mut sum = 0;
    loop {
        (sum, bytes) = match *bytes {
            [b'+', b'O', b'K', b'\r', b'\n', ref rest @ ..] => (sum + 2, rest),
            [b'$', b'-', b'1', b'\r', b'\n', ref rest @ ..] => (sum + 1, rest),
            [b':', digit, b'\r', b'\n', ref rest @ ..] => (sum + u64::from(digit - b'0'), rest),
            [b'_', b'\r', b'\n', ref rest @ ..] => (sum + 1, rest),
            _ => return (sum, bytes),
        };
    }
}

/// What is left of a piece is put in front of the beginning of the next.
fn torn(bytes: &[u8], room: &mut Room) -> u64 {
    let mut sum = 0;
    let mut kept = [0; 2 * REPLY_BYTES_MAX];
    let mut len = 0;
    for piece in bytes.chunks(PIECE_BYTES) {
        let mut piece = room.receive(piece);
        if len > 0 {
            let more = piece.len().min(REPLY_BYTES_MAX);
            kept[len..len + more].copy_from_slice(&piece[..more]);
            let (weight, rest) = tokens(&kept[..len + more]);
            sum += weight;
            piece = &piece[more - rest.len()..];
        }
        let (weight, rest) = tokens(piece);
        sum += weight;
        len = rest.len();
        kept[..len].copy_from_slice(rest);
    }
    sum
}
