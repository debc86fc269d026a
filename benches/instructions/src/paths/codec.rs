//! Replies and commands of a lock.

use std::hint::black_box;

use shearline::internals::resp::{Decimal, Decoder, Limits, Template, Value, Word, argument};

use super::{Path, Play};
use crate::callgrind::counted;

pub(super) const PATHS: [Path; 8] = [
    path("decode +OK", || decode(b"+OK\r\n")),
    path("decode $-1", || decode(b"$-1\r\n")),
    path("decode _", || decode(b"_\r\n")),
    path("decode :1", || decode(b":1\r\n")),
    path("memchr2 over +OK", || search(b"+OK\r\n")),
    path("encode acquire", || {
        encode(|out, entry, ttl| ACQUIRE.write(out, [entry, Decimal::new(ttl).as_bytes()]))
    }),
    path("encode release", || {
        encode(|out, entry, _| RELEASE.write(out, [entry]))
    }),
    path("encode extend", || {
        encode(|out, entry, ttl| EXTEND.write(out, [entry, Decimal::new(ttl).as_bytes()]))
    }),
];

const fn path(name: &'static str, prepare: fn() -> Play) -> Path {
    Path {
        name,
        repetitions: 100,
        prepare,
    }
}

/// Decodes one reply and looks at its value.
fn decode(reply: &'static [u8]) -> Play {
    let mut decoder = Decoder::new(Limits::default());
    Box::new(move |repetitions| {
        counted(|| {
            for _ in 0..repetitions {
                let frame = decoder.decode(black_box(reply)).expect("valid");
                let frame = frame.expect("complete");
                // The client compares by value too, for the replies of lock commands.
                let said = if let Value::Simple(b"OK") = frame.value {
                    1
                } else if let Value::Null = frame.value {
                    2
                } else {
                    let integer = frame.value.as_integer();
                    integer.expect("a reply to a lock command") as usize
                };
                black_box(said + frame.len);
            }
        });
        repetitions
    })
}

/// Finds the end of the line and does nothing with it.
fn search(reply: &'static [u8]) -> Play {
    Box::new(move |repetitions| {
        counted(|| {
            for _ in 0..repetitions {
                black_box(memchr::memchr2(b'\r', b'\n', black_box(reply)));
            }
        });
        repetitions
    })
}

/// Writes one command into an existing buffer.
fn encode(write: fn(&mut Vec<u8>, &[u8], u64)) -> Play {
    let mut entry = Vec::new();
    argument(&mut entry, b"invoice:42");
    argument(&mut entry, &[0x5a; 20]);
    let mut out = Vec::with_capacity(256);
    Box::new(move |repetitions| {
        counted(|| {
            for _ in 0..repetitions {
                out.clear();
                write(&mut out, black_box(&entry), black_box(30_000));
                black_box(&out);
            }
        });
        repetitions
    })
}

// In the client, key and token are already encoded too, one after the other.
static ACQUIRE: Template<2, 32> = Template::new(&[
    Word::Text(b"SET"),
    Word::Encoded(2),
    Word::Text(b"NX"),
    Word::Text(b"PX"),
    Word::Hole,
]);
static RELEASE: Template<1, 128> = Template::new(&[
    Word::Text(b"EVALSHA"),
    Word::Text(&DIGEST),
    Word::Text(b"1"),
    Word::Encoded(2),
]);
static EXTEND: Template<2, 128> = Template::new(&[
    Word::Text(b"EVALSHA"),
    Word::Text(&DIGEST),
    Word::Text(b"1"),
    Word::Encoded(2),
    Word::Hole,
]);
const DIGEST: [u8; 40] = [b'a'; 40];
