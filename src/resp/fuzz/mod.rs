//! The bodies of the fuzz targets. The ordinary tests run the same functions on the committed corpus and on a few more
//! seeds: see `fuzz/`.
//!
//! Each function compares the results of the decoder for a whole and a torn stream, or compares the decoder with the
//! encoder.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::all::{DecodeError, Decoder, Inbox, Items, Limits, Value};
use super::write;

/// Limits that are small enough for a fuzzer to reach.
const SMALL: Limits = Limits {
    line_bytes: 40,
    bulk_bytes: 300,
    elements: 20,
    depth: 4,
    reply_bytes: 600,
};

/// Decodes any bytes, with wide and with small limits. Checks that nothing panics, that the decoder takes no more bytes
/// than given, and that its memory is proportional to them. Also checks that encoding and decoding a reply returns the
/// same reply. Also checks that an error does not depend on the bytes that follow.
#[doc(hidden)]
pub fn fuzz_decode_any(bytes: &[u8]) {
    for limits in [Limits::default(), SMALL] {
        decode_all(limits, bytes);
    }
}

fn decode_all(limits: Limits, bytes: &[u8]) {
    let mut rest = bytes;
    let mut decoder = Decoder::new(limits);
    loop {
        let (reply, again) = match decoder.decode(rest) {
            Ok(Some(frame)) => {
                assert!(
                    0 < frame.len && frame.len <= rest.len(),
                    "took what was not there"
                );
                rest = &rest[frame.len..];
                (format!("{:?}", frame.value), encoded(frame.value))
            }
            Ok(None) => return,
            Err(error) => {
                let more = [rest, b"\r\n+OK\r\n"].concat();
                assert_eq!(Decoder::new(limits).measure(&more), Err(error));
                return;
            }
        };
        assert!(
            decoder.memory() <= bytes.len() * 16 + 4096,
            "memory for what was announced"
        );
        assert_eq!(only(&again).0, reply);
    }
}

/// Checks that the pieces of a stream give the same replies and the same error as the whole stream, even if long
/// strings are cut. The first byte says how many of the next bytes are the lengths of pieces, and which limits apply.
#[doc(hidden)]
pub fn fuzz_decode_torn(input: &[u8]) {
    let Some((&head, rest)) = input.split_first() else {
        return;
    };
    let limits = if head & 1 == 0 {
        Limits::default()
    } else {
        SMALL
    };
    let (cuts, stream) = rest.split_at(usize::from(head >> 1).min(rest.len()));
    for longest in [None, Some(20)] {
        let drain = |cuts| {
            let mut inbox = Inbox::new(limits);
            if let Some(longest) = longest {
                inbox.cut_strings(longest);
            }
            drain(inbox, pieces(cuts, stream))
        };
        let whole = drain(&[]);
        assert_eq!(drain(cuts), whole, "torn at {cuts:?}");
        assert_eq!(drain(&[1]), whole, "byte by byte");
    }
}

/// Decodes any valid reply, and encodes the result. The encoded bytes must be the same, except that attributes are
/// missing.
#[doc(hidden)]
pub fn fuzz_roundtrip(input: &[u8]) {
    let [whole, bare] = [true, false].map(|with_attributes| {
        let (bytes, out) = (input, Vec::new());
        let mut choices = Choices {
            bytes,
            out,
            with_attributes,
        };
        choices.reply();
        choices.out
    });
    assert_eq!(only(&whole).1, bare);
}

/// Returns the only reply in `bytes`, once as it is printed and once as it is encoded.
fn only(bytes: &[u8]) -> (String, Vec<u8>) {
    let mut decoder = Decoder::new(Limits::default());
    let frame = decoder.decode(bytes).expect("valid").expect("complete");
    assert_eq!(frame.len, bytes.len(), "one reply and nothing else");
    (format!("{:?}", frame.value), encoded(frame.value))
}

/// Returns the replies of a stream that comes in pieces. Also returns how the stream ended: the error, or whether bytes
/// remain.
pub(super) fn drain<'p>(
    mut inbox: Inbox,
    pieces: impl IntoIterator<Item = &'p [u8]>,
) -> (Vec<String>, Result<bool, DecodeError>) {
    let mut replies = Vec::new();
    let mut torn = false;
    for mut piece in pieces {
        while !piece.is_empty() {
            let before = piece.len();
            match inbox.next(&mut piece) {
                Ok(Some(frame)) => {
                    replies.push(format!("{:?}", frame.value));
                    torn = false;
                }
                Ok(None) => {
                    assert!(piece.is_empty(), "all of a piece is taken");
                    torn = true;
                }
                Err(error) => return (replies, Err(error)),
            }
            assert!(piece.len() < before, "no progress");
        }
    }
    (replies, Ok(torn))
}

/// Cuts the stream into pieces of the lengths in `cuts`, and repeats these lengths until the stream ends.
fn pieces<'s>(cuts: &[u8], mut stream: &'s [u8]) -> Vec<&'s [u8]> {
    let mut lengths = cuts.iter().cycle();
    let mut pieces = Vec::new();
    while !stream.is_empty() {
        let length = lengths
            .next()
            .map_or(stream.len(), |cut| usize::from(*cut).max(1));
        let (piece, rest) = stream.split_at(length.min(stream.len()));
        pieces.push(piece);
        stream = rest;
    }
    pieces
}

/// Returns the bytes of a value in its RESP3 form. Doubles get their shortest text, `-nan` becomes `nan`, and the nulls
/// of RESP2 become `_`.
pub(super) fn encoded(value: Value<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out, value);
    out
}

fn encode(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::Simple(text) => write::simple(out, text),
        Value::Error(text) => write::error(out, text),
        Value::Integer(number) => write::integer(out, number),
        Value::Bulk(text) => write::bulk(out, text),
        Value::Null => write::null(out),
        Value::Double(number) => out.extend(format!(",{}\r\n", double(number)).bytes()),
        Value::Boolean(true) => out.extend(b"#t\r\n"),
        Value::Boolean(false) => out.extend(b"#f\r\n"),
        Value::BigNumber(digits) => out.extend([b"(", digits, b"\r\n"].concat()),
        Value::BulkError(text) => write::string(out, b'!', text),
        Value::Verbatim { format, text } => write::verbatim(out, format, text),
        Value::Array(items) => encode_all(out, b'*', items),
        Value::Set(items) => encode_all(out, b'~', items),
        Value::Push(items) => encode_all(out, b'>', items),
        Value::Map(pairs) => {
            write::map(out, pairs.iter().count());
            for (key, value) in pairs.iter() {
                encode(out, key);
                encode(out, value);
            }
        }
    }
}

fn encode_all(out: &mut Vec<u8>, kind: u8, items: Items<'_>) {
    write::header(out, kind, items.len());
    items.iter().for_each(|item| encode(out, item));
}

/// Returns the shortest text that parses to the same double.
fn double(double: f64) -> String {
    let magnitude = double.abs();
    if double.is_nan() {
        "nan".into()
    } else if magnitude == 0.0 || magnitude.is_infinite() || (1e-5..1e17).contains(&magnitude) {
        format!("{double}")
    } else {
        format!("{double:e}")
    }
}

/// Writes the reply that the fuzzer's bytes determine. When the bytes have ended, always chooses the first option.
struct Choices<'a> {
    bytes: &'a [u8],
    out: Vec<u8>,
    with_attributes: bool,
}

impl<'a> Choices<'a> {
    const DEPTH_MAX: u8 = 6;

    fn byte(&mut self) -> u8 {
        self.bytes.split_off_first().copied().unwrap_or(0)
    }

    fn number(&mut self) -> u64 {
        let length = self.byte() % 9;
        (0..length).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    /// Returns a text of up to 40 bytes, or sometimes of some hundreds of bytes.
    fn text(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte());
        let length = if length < 250 {
            length % 41
        } else {
            length * 3
        };
        let (text, rest) = self.bytes.split_at(length.min(self.bytes.len()));
        self.bytes = rest;
        text
    }

    fn reply(&mut self) {
        if self.byte() % 8 != 7 {
            return self.value(0);
        }
        let (items, kind) = (self.byte() % 7, self.text());
        write::push(&mut self.out, usize::from(items) + 1);
        write::bulk(&mut self.out, kind);
        (0..items).for_each(|_| self.value(1));
    }

    fn value(&mut self, depth: u8) {
        let kinds = if depth < Self::DEPTH_MAX { 15 } else { 10 };
        let digits: Vec<u8>;
        let scalar = match self.byte() % kinds {
            0 => Value::Null,
            1 => Value::Integer(self.number().cast_signed()),
            2 => Value::Simple(self.text()),
            3 => Value::Error(self.text()),
            4 => Value::Bulk(self.text()),
            5 => Value::Double(f64::from_bits(self.number())),
            6 => Value::Boolean(self.byte() & 1 == 1),
            7 => {
                let sign = if self.byte() & 1 == 1 { "-7" } else { "7" };
                let text = self.text().iter().map(|byte| b'0' + byte % 10);
                digits = sign.bytes().chain(text).collect();
                Value::BigNumber(&digits)
            }
            8 => Value::BulkError(self.text()),
            9 => Value::Verbatim {
                format: [self.byte(), self.byte(), self.byte()],
                text: self.text(),
            },
            10 | 11 => return self.items(b'*', 7, 1, depth + 1),
            12 => return self.items(b'~', 7, 1, depth + 1),
            13 => return self.items(b'%', 4, 2, depth + 1),
            _ => {
                let before = self.out.len();
                self.items(b'|', 4, 2, depth + 1);
                if !self.with_attributes {
                    self.out.truncate(before);
                }
                return self.value(depth + 1);
            }
        };
        encode(&mut self.out, scalar);
    }

    /// Writes an aggregate of fewer than `bound` items, each of which has `each` elements.
    fn items(&mut self, kind: u8, bound: u8, each: u8, depth: u8) {
        let length = self.byte() % bound;
        write::header(&mut self.out, kind, usize::from(length));
        (0..length * each).for_each(|_| self.value(depth));
    }
}
