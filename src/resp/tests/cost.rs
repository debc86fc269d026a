//! What decoding costs: bytes that are looked at, and memory.

use alloc::vec;
use std::format;

use super::*;

/// The bytes that are looked at while a stream arrives one by one, per byte of it.
fn looks_per_byte(stream: &[u8]) -> f64 {
    let mut decoder = Decoder::new(Limits {
        bulk_bytes: 2 << 20,
        ..Limits::default()
    });
    for end in 1..stream.len() {
        assert_eq!(decoder.measure(&stream[..end]), Ok(None), "at {end}");
    }
    assert_eq!(decoder.measure(stream), Ok(Some(stream.len())));
    decoder.looked() as f64 / stream.len() as f64
}

#[test]
fn bytes_that_arrive_one_by_one_cost_a_constant_each() {
    let bulk = |len: usize| [format!("${len}\r\n").as_bytes(), &vec![b'x'; len], b"\r\n"].concat();
    // A payload is not looked at.
    assert!(looks_per_byte(&bulk(1 << 20)) < 0.001);
    // The text of a line is looked at once (digits twice), and its kind each time.
    let text = [&b"+"[..], &vec![b'x'; 60_000], b"\r\n"].concat();
    assert!(looks_per_byte(&text) < 2.1);
    let digits = [&b"("[..], &vec![b'7'; 60_000], b"\r\n"].concat();
    assert!(looks_per_byte(&digits) < 3.1);
    // A header is read again from its kind; it is short.
    let nested = [
        "*1\r\n".repeat(31).as_bytes(),
        b"*1000\r\n",
        &b":1234567\r\n".repeat(1000),
    ]
    .concat();
    assert!(looks_per_byte(&nested) < 8.0);
    let comb = "*2\r\n:1\r\n".repeat(31) + ":1\r\n";
    assert!(looks_per_byte(comb.as_bytes()) < 8.0);
    // Twice as many, twice the cost: the ratio per byte stays.
    let pairs = |count: usize| {
        [
            format!("%{count}\r\n").as_bytes(),
            &b"$1\r\nk\r\n*1\r\n:1\r\n".repeat(count),
        ]
        .concat()
    };
    let (small, large) = (
        looks_per_byte(&pairs(1_000)),
        looks_per_byte(&pairs(16_000)),
    );
    assert!((small - large).abs() < 0.1, "{small} and {large}");
}

#[test]
fn a_header_reserves_nothing() {
    let generous = Limits {
        bulk_bytes: 2 << 30,
        elements: 1 << 30,
        reply_bytes: usize::MAX,
        ..Limits::default()
    };
    for header in [
        "$1073741824\r\n",
        "*1000000\r\n",
        "%1000000\r\n",
        "=1073741824\r\n",
        "|1000000\r\n",
    ] {
        let mut inbox = Inbox::new(generous);
        let mut piece = header.as_bytes();
        assert!(inbox.next(&mut piece).unwrap().is_none());
        assert!(inbox.memory() < 1024, "{header}");
    }
    let error = decode(b"$1073741824\r\n").unwrap_err();
    assert_eq!(error.reason, Reason::BulkTooLong);
    let mut nested = Inbox::new(Limits::default());
    let mut piece = &b"*65536\r\n".repeat(31)[..];
    assert!(nested.next(&mut piece).unwrap().is_none());
    assert!(nested.memory() < 8192);
}

#[test]
fn scalars_and_flat_replies_allocate_as_promised() {
    let mut decoder = Decoder::new(Limits::default());
    for reply in [
        "+OK\r\n",
        "$-1\r\n",
        ":1\r\n",
        "_\r\n",
        "$3\r\nabc\r\n",
        ",1.5\r\n",
        "*0\r\n",
        "-ERR a long text, longer than sixteen bytes\r\n",
        "|0\r\n+OK\r\n",
    ] {
        assert!(decoder.decode(reply.as_bytes()).unwrap().is_some());
        assert_eq!(decoder.memory(), 0, "{reply}");
    }
    let array = [&b"*1000\r\n"[..], &b":1\r\n".repeat(1000)].concat();
    assert!(decoder.decode(&array).unwrap().is_some());
    let memory = decoder.memory();
    assert!(memory < 256, "{memory}");
    let nested = [&b"*60000\r\n"[..], &b"*1\r\n:1\r\n".repeat(60_000)].concat();
    assert!(decoder.decode(&nested).unwrap().is_some());
    assert!(decoder.decode(&array).unwrap().is_some());
    assert!(decoder.memory() < 16 << 10, "given back");
}
