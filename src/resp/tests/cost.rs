//! The cost of decoding: the bytes that are looked at, and the memory.

use alloc::vec;
use std::format;

use super::*;
use crate::effort::effort;

/// Returns how often each byte of a reply is looked at while its bytes arrive one by one, and the memory of the decoder
/// at the end.
fn cost(reply: &[u8]) -> (f64, usize) {
    let mut decoder = Decoder::new(Limits {
        bulk_bytes: 2 << 20,
        depth: usize::MAX,
        ..Limits::default()
    });
    for end in 1..reply.len() {
        assert_eq!(decoder.measure(&reply[..end]), Ok(None), "at {end}");
    }
    assert_eq!(decoder.measure(reply), Ok(Some(reply.len())));
    let looks = decoder.looked() as f64 / reply.len() as f64;
    (looks, decoder.memory())
}

/// Fails if the reply costs more.
#[track_caller]
fn costs(reply: impl AsRef<[u8]>, looks_most: f64, memory_most: usize) {
    let (looks, memory) = cost(reply.as_ref());
    assert!(looks <= looks_most, "{looks} looks per byte");
    assert!(memory <= memory_most, "{memory} bytes of memory");
}

/// A payload is not looked at. The text of a line is looked at twice, and its kind each time that a byte arrives.
#[test]
fn a_text_that_arrives_byte_by_byte() {
    let bulk = |len: usize| [format!("${len}\r\n").as_bytes(), &vec![b'x'; len], b"\r\n"].concat();
    costs(bulk(1 << 20), 0.001, 0);
    costs(format!("+{}\r\n", "x".repeat(64 << 10)), 3.1, 0);
    costs(format!("-{}\r\n", "x".repeat(64 << 10)), 3.1, 0);
    costs(format!("({}\r\n", "7".repeat(64 << 10)), 3.1, 0);
}

#[test]
fn a_number_that_arrives_byte_by_byte() {
    let many = |digit: &str| digit.repeat((64 << 10) - 20);
    costs(format!(":{}\r\n", i64::MIN), 3.1, 0);
    costs(format!(",1.{}\r\n", many("5")), 3.1, 0);
    costs(format!(",0.{}e65000\r\n", many("0")), 3.1, 0);
}

#[test]
fn aggregates_that_arrive_byte_by_byte() {
    // A header is read again from its kind on, but it is short.
    let many = "*1\r\n".repeat(31) + "*1000\r\n" + &":1234567\r\n".repeat(1000);
    costs(many, 8.0, 1 << 10);
    costs(format!("*65536\r\n{}", "*0\r\n".repeat(65_536)), 8.0, 256);
    let push = format!(">65536\r\n+k\r\n{}", "_\r\n".repeat(65_535));
    costs(push, 8.0, 256);
    let nested = format!("*60000\r\n{}", "*1\r\n_\r\n".repeat(60_000));
    costs(nested, 8.0, 256);
    let chains = format!("*1050\r\n{}", ("*1\r\n".repeat(31) + "_\r\n").repeat(1050));
    costs(&chains, 8.0, 1 << 10);
    let pairs = |count| format!("%{count}\r\n{}", "$1\r\nk\r\n*1\r\n:1\r\n".repeat(count));
    costs(pairs(16_000), 8.0, 256);
}

#[test]
fn attributes_that_arrive_byte_by_byte() {
    let many = effort(30_000, 100_000);
    costs("|0\r\n".repeat(many) + ":1\r\n", 8.0, 0);
    costs("|1\r\n+k\r\n+v\r\n".repeat(many) + ":1\r\n", 8.0, 256);
    let each = "|1\r\n+k\r\n+v\r\n|0\r\n:1\r\n".repeat(20_000);
    costs(format!("*20000\r\n{each}"), 8.0, 256);
}

/// An element is read once for each level around it.
#[test]
fn a_reply_of_many_levels_is_compared_and_printed() {
    let chains = format!("*1050\r\n{}", ("*1\r\n".repeat(31) + "_\r\n").repeat(1050));
    let mut decoder = Decoder::new(Limits::default());
    let frame = decoder
        .decode(chains.as_bytes())
        .unwrap()
        .expect("complete");
    assert!(frame.value == frame.value);
    assert_eq!(format!("{:?}", frame.value).matches("Null").count(), 1050);
}

#[test]
fn a_header_reserves_nothing() {
    let generous = Limits {
        bulk_bytes: 2 << 30,
        elements: 1 << 30,
        reply_bytes: u32::MAX as usize,
        ..Limits::default()
    };
    for header in [
        "$1073741824",
        "*1000000",
        "%1000000",
        "=1073741824",
        "|1000000",
    ] {
        let mut inbox = Inbox::new(generous);
        let header = format!("{header}\r\n");
        assert!(inbox.next(&mut header.as_bytes()).unwrap().is_none());
        assert!(inbox.memory() < 1024, "{header}");
    }
    let error = decode(b"$1073741824\r\n").unwrap_err();
    assert_eq!(error.reason, Reason::BulkTooLong);
    let mut nested = Inbox::default();
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
    let nested = [&b"*60000\r\n"[..], &b"*1\r\n:1\r\n".repeat(60_000)].concat();
    assert!(decoder.decode(&nested).unwrap().is_some());
    let memory = decoder.memory();
    assert!(memory < 256, "{memory}");
}
