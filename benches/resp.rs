//! The speed of the RESP codec: streams of one kind of reply, whole and torn, and commands.
//!
//! `floor` is a tokenizer by hand that knows the lock replies and nothing else: what any decoder
//! has to be compared with. Run with `cargo bench -p shearline-benches --bench resp`.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use shearline::internals::resp::{
    Decimal, Decoder, Inbox, Limits, Pairs, Template, Value, Word, argument, command,
};

/// Bytes in one stream.
const STREAM_BYTES: usize = 1 << 20;

/// How much a socket gives at once when the network cuts the stream.
const PIECE_BYTES: usize = 1460;

/// What a server answers to a lock command.
const LOCK_REPLIES: [&[u8]; 4] = [b"+OK\r\n", b"$-1\r\n", b":1\r\n", b"_\r\n"];

/// A stream that repeats `unit`.
fn stream(unit: &[u8]) -> Vec<u8> {
    unit.repeat((STREAM_BYTES / unit.len()).max(1))
}

/// The lock replies by chance, so that a branch predictor does not know what comes next.
fn random_lock_replies() -> Vec<u8> {
    let mut random = StdRng::seed_from_u64(42);
    let mut bytes = Vec::new();
    while bytes.len() < STREAM_BYTES {
        bytes.extend_from_slice(LOCK_REPLIES[random.random_range(0..LOCK_REPLIES.len())]);
    }
    bytes
}

fn streams() -> [(&'static str, Vec<u8>); 7] {
    let bulk = b"$20\r\n0123456789abcdefghij\r\n";
    let array = [&b"*5\r\n"[..], &bulk.repeat(5)].concat();
    let large = [&b"$65536\r\n"[..], &vec![b'x'; 65536], b"\r\n"].concat();
    [
        ("lock_replies", stream(&LOCK_REPLIES.concat())),
        ("lock_replies_random", random_lock_replies()),
        ("bulk_20", stream(bulk)),
        ("array_of_five", stream(&array)),
        ("bulk_64k", stream(&large)),
        ("deep_map", stream(&deep_map())),
        (
            "error_line",
            stream(b"-NOSCRIPT No matching script. Please use EVAL.\r\n"),
        ),
    ]
}

/// Sixteen maps inside each other, each with a text beside the next.
fn deep_map() -> Vec<u8> {
    let level = b"%2\r\n$4\r\nname\r\n$9\r\nshearline\r\n$4\r\nnext\r\n";
    [&level.repeat(16), &b":1\r\n"[..]].concat()
}

/// Looks at all of a value, as its reader would.
#[inline]
fn weigh(value: Value<'_>) -> usize {
    if let Some(text) = value.as_bytes() {
        text.len()
    } else if let Some(integer) = value.as_integer() {
        integer as usize
    } else if let Value::Null = value {
        1
    } else {
        weigh_rest(value)
    }
}

fn weigh_rest(value: Value<'_>) -> usize {
    let items = value
        .as_items()
        .map(|items| items.iter().map(|item| weigh(item)).sum());
    let pairs = |pairs: Pairs<'_>| pairs.iter().map(|pair| weigh(pair.0) + weigh(pair.1)).sum();
    let rest = items.or_else(|| value.as_pairs().map(pairs));
    rest.or_else(|| value.as_error().map(<[u8]>::len))
        .unwrap_or(1)
}

fn decode_whole(decoder: &mut Decoder, mut bytes: &[u8]) -> usize {
    let mut sum = 0;
    while let Some(frame) = decoder.decode(bytes).expect("valid") {
        sum += weigh(frame.value);
        bytes = &bytes[frame.len..];
    }
    sum
}

fn decode_torn(inbox: &mut Inbox, bytes: &[u8]) -> usize {
    let mut sum = 0;
    for mut piece in bytes.chunks(PIECE_BYTES) {
        while let Some(frame) = inbox.next(&mut piece).expect("valid") {
            sum += weigh(frame.value);
        }
    }
    sum
}

fn floor(mut bytes: &[u8]) -> usize {
    let mut sum = 0;
    loop {
        (sum, bytes) = match *bytes {
            [b'+', b'O', b'K', b'\r', b'\n', ref rest @ ..] => (sum + 2, rest),
            [b'$', b'-', b'1', b'\r', b'\n', ref rest @ ..] => (sum + 1, rest),
            [b':', digit, b'\r', b'\n', ref rest @ ..] => (sum + usize::from(digit - b'0'), rest),
            [b'_', b'\r', b'\n', ref rest @ ..] => (sum + 1, rest),
            _ => return sum,
        };
    }
}

fn decode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode");
    for (name, bytes) in streams() {
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        if name.starts_with("lock_replies") {
            assert_eq!(
                floor(&bytes),
                decode_whole(&mut Decoder::new(Limits::DEFAULT), &bytes)
            );
            group.bench_function(BenchmarkId::new("floor", name), |bencher| {
                bencher.iter(|| floor(black_box(&bytes)));
            });
        }
        group.bench_function(BenchmarkId::new("whole", name), |bencher| {
            let mut decoder = Decoder::new(Limits::DEFAULT);
            bencher.iter(|| decode_whole(&mut decoder, black_box(&bytes)));
        });
        group.bench_function(BenchmarkId::new("torn", name), |bencher| {
            let mut inbox = Inbox::new(Limits::DEFAULT);
            bencher.iter(|| decode_torn(&mut inbox, black_box(&bytes)));
        });
    }
    group.finish();
}

// The lock commands as the client has them: key and token come encoded, side by side.
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
const TOKEN: [u8; 20] = [0x5a; 20];
const KEY: &[u8] = b"invoice:42";
const TTL: u64 = 30_000;

/// Each lock command by the general encoder, by its template, and as nothing but a copy of its
/// bytes.
fn encode_commands(criterion: &mut Criterion) {
    let ttl = |ttl: u64| Decimal::new(black_box(ttl));
    let mut entry = Vec::new();
    argument(&mut entry, KEY);
    argument(&mut entry, &TOKEN);
    let entry = entry.as_slice();
    encode_command(
        criterion,
        "acquire",
        |out| {
            let ttl = ttl(TTL);
            let words: [&[u8]; 6] = [b"SET", KEY, &TOKEN, b"NX", b"PX", ttl.as_bytes()];
            command(out, black_box(&words));
        },
        |out| ACQUIRE.write(out, [black_box(entry), ttl(TTL).as_bytes()]),
    );
    encode_command(
        criterion,
        "release",
        |out| {
            let words: [&[u8]; 5] = [b"EVALSHA", &DIGEST, b"1", KEY, &TOKEN];
            command(out, black_box(&words));
        },
        |out| RELEASE.write(out, [black_box(entry)]),
    );
    encode_command(
        criterion,
        "extend",
        |out| {
            let ttl = ttl(TTL);
            let words: [&[u8]; 6] = [b"EVALSHA", &DIGEST, b"1", KEY, &TOKEN, ttl.as_bytes()];
            command(out, black_box(&words));
        },
        |out| EXTEND.write(out, [black_box(entry), ttl(TTL).as_bytes()]),
    );
}

fn encode_command(
    criterion: &mut Criterion,
    name: &str,
    general: impl Fn(&mut Vec<u8>),
    template: impl Fn(&mut Vec<u8>),
) {
    let (mut bytes, mut same) = (Vec::new(), Vec::new());
    general(&mut bytes);
    template(&mut same);
    assert_eq!(same, bytes);
    let copy = |out: &mut Vec<u8>| out.extend_from_slice(black_box(&bytes));
    let mut group = criterion.benchmark_group("encode");
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    for (way, write) in [
        ("general", &general as &dyn Fn(&mut Vec<u8>)),
        ("template", &template),
        ("copy", &copy),
    ] {
        let mut out = Vec::with_capacity(bytes.len());
        group.bench_function(BenchmarkId::new(way, name), |bencher| {
            bencher.iter(|| {
                out.clear();
                write(&mut out);
                out.len()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, decode, encode_commands);
criterion_main!(benches);
