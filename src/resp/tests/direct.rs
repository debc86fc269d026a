//! The fast path gives the answers of the long one.

use alloc::vec::Vec;

use super::super::direct::{Longest, flat};
use super::*;

/// Replies that take the fast path, and some that only look as if they did.
/// They are divided by spaces, and CR LF is shown as `|`.
const REPLIES: &str = "+OK| +OK\n\r :7| :-7| $-1| $-2| _| $0|| $4|abcd| $4|abcde| $12|hello,_world| $04|abcd| \
    *2|+OK|$4|abcd| *3|:1|_|$12|hello,_world| *2|:1|*1|:2| *2|:1|>1|+kind| %1|:1|:2| ~1|:1| \
    +QUEUED| +a_longer_text| +a_longer_text\n\r -ERR_unknown_command| :12345| :+12345| :-12345| \
    :-0| :01| :999999999999999999| :-9223372036854775808| :-9223372036854775809| >2|+kind|_| \
    >2|_|+kind| >1|$2|ab| *12|:1|:2|:3|:4|:5|:6|:7|:8|:9|:0|:1|:2| *0| >0| >0|+kind| \
    *4294967297|:1|";

fn replies() -> impl Iterator<Item = Vec<u8>> {
    REPLIES
        .split(' ')
        .map(|reply| reply.replace('|', "\r\n").into_bytes())
}

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
    let replies: Vec<_> = replies().collect();
    for limits in limits() {
        for bytes in &replies {
            let shown = bytes.escape_ascii();
            let (whole, torn) = (whole(limits, bytes), byte_by_byte(limits, bytes));
            assert_eq!(whole, torn, "{shown} with {limits:?}");
        }
    }
}

#[test]
fn flat_aggregates_are_taken_directly() {
    let longest = Longest::within(Limits::DEFAULT);
    let direct: Vec<_> = replies()
        .filter_map(|bytes| flat(&bytes, &Limits::DEFAULT, &longest))
        .map(|(header, len)| (header.elements(), len))
        .collect();
    assert_eq!(direct[..4], [(2, 19), (3, 30), (2, 12), (1, 8)]);
    assert_eq!(direct[4..], [(2, 14), (1, 12), (12, 53), (0, 4)]);
}
