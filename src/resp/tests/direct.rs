//! The fast path gives the answers of the long one.

use alloc::vec::Vec;

use super::super::direct::{Longest, flat};
use super::*;

/// Replies that take the fast path, and some that only look as if they did.
const REPLIES: &[&[u8]] = &[
    b"+OK\r\n",
    b"+OK\n\r",
    b":7\r\n",
    b":-7\r\n",
    b"$-1\r\n",
    b"$-2\r\n",
    b"_\r\n",
    b"$0\r\n\r\n",
    b"$4\r\nabcd\r\n",
    b"$4\r\nabcde\r\n",
    b"$12\r\nhello, world\r\n",
    b"$04\r\nabcd\r\n",
    b"*2\r\n+OK\r\n$4\r\nabcd\r\n",
    b"*3\r\n:1\r\n_\r\n$12\r\nhello, world\r\n",
    b"*2\r\n:1\r\n*1\r\n:2\r\n",
    b"*2\r\n:1\r\n>1\r\n+kind\r\n",
    b"%1\r\n:1\r\n:2\r\n",
    b"~1\r\n:1\r\n",
    b"+QUEUED\r\n",
    b"+a longer text\r\n",
    b"+a longer text\n\r",
    b"-ERR unknown command\r\n",
    b":12345\r\n",
    b":+12345\r\n",
    b":-12345\r\n",
    b":-0\r\n",
    b":01\r\n",
    b":999999999999999999\r\n",
    b":-9223372036854775808\r\n",
    b":-9223372036854775809\r\n",
    b">2\r\n+kind\r\n_\r\n",
    b">2\r\n_\r\n+kind\r\n",
    b">1\r\n$2\r\nab\r\n",
    b"*12\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n:6\r\n:7\r\n:8\r\n:9\r\n:0\r\n:1\r\n:2\r\n",
    b"*0\r\n",
    b">0\r\n",
    b">0\r\n+kind\r\n",
    b"*4294967297\r\n:1\r\n",
];

fn whole(limits: Limits, bytes: &[u8]) -> Result<String, DecodeError> {
    let mut decoder = Decoder::new(limits);
    let frame = decoder.decode(bytes)?.expect("complete");
    assert_eq!(frame.len, bytes.len());
    Ok(shown(&frame))
}

/// Decodes without the fast path: no reply is complete before its last byte, so each one is torn.
fn byte_by_byte(limits: Limits, bytes: &[u8]) -> Result<String, DecodeError> {
    let mut inbox = Inbox::new(limits);
    for byte in bytes.chunks(1) {
        if let Some(frame) = inbox.next(&mut { byte })? {
            return Ok(shown(&frame));
        }
    }
    panic!("incomplete");
}

/// Returns limits in which each bound goes from zero up to a value that allows everything.
fn limits() -> impl Iterator<Item = Limits> {
    let bounds: [fn(&mut Limits, usize); 5] = [
        |limits, bound| limits.depth = bound,
        |limits, bound| limits.elements = bound,
        |limits, bound| limits.bulk_bytes = bound,
        |limits, bound| limits.reply_bytes = bound.max(Limits::REPLY_BYTES_MIN),
        |limits, bound| limits.line_bytes = bound.max(2),
    ];
    bounds.into_iter().flat_map(|set| {
        (0..40).map(move |bound| {
            let mut limits = Limits::DEFAULT;
            set(&mut limits, bound);
            limits
        })
    })
}

#[test]
fn the_direct_way_and_the_long_way_agree_within_all_limits() {
    for limits in limits() {
        for bytes in REPLIES {
            let shown = bytes.escape_ascii();
            let (whole, torn) = (whole(limits, bytes), byte_by_byte(limits, bytes));
            assert_eq!(whole, torn, "{shown} with {limits:?}");
        }
    }
}

#[test]
fn flat_aggregates_are_taken_directly() {
    let direct: Vec<_> = REPLIES
        .iter()
        .filter_map(|bytes| flat(bytes, &Limits::DEFAULT, &Longest::within(Limits::DEFAULT)))
        .map(|(header, len)| (header.elements(), len))
        .collect();
    assert_eq!(direct[..4], [(2, 19), (3, 30), (2, 12), (1, 8)]);
    assert_eq!(direct[4..], [(2, 14), (1, 12), (12, 53), (0, 4)]);
}
