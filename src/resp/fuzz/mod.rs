//! The bodies of the fuzz targets. The ordinary tests run the same functions on the committed corpus and on a few more
//! seeds: see `fuzz/`.
//!
//! Each function compares the decoder with itself on a torn stream, or with the encoder.

pub(super) mod values;

use alloc::vec::Vec;

use bytes::Bytes;

use super::all::{DecodeError, Decoder, Inbox, Limits};
use values::{OwnedValue, encode};

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
        let reply = match decoder.decode(rest) {
            Ok(Some(frame)) => {
                assert!(
                    0 < frame.len && frame.len <= rest.len(),
                    "took what was not there"
                );
                rest = &rest[frame.len..];
                OwnedValue::from(frame.value)
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
        let mut again = Vec::new();
        encode(&mut again, &reply);
        assert_eq!(only(&again), reply);
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
            drain(inbox, cuts, stream)
        };
        let whole = drain(&[]);
        assert_eq!(drain(cuts), whole, "torn at {cuts:?}");
        assert_eq!(drain(&[1]), whole, "byte by byte");
    }
}

/// Encodes and decodes any valid value. The result must be the same value, without attributes.
#[doc(hidden)]
pub fn fuzz_roundtrip(input: &[u8]) {
    let mut choices = Choices { bytes: input };
    let value = choices.reply();
    let mut out = Vec::new();
    encode(&mut out, &value);
    assert_eq!(only(&out), value.bare());
}

/// Returns the reply in `bytes`, which must contain exactly one reply.
fn only(bytes: &[u8]) -> OwnedValue {
    let mut decoder = Decoder::new(Limits::default());
    let frame = decoder.decode(bytes).expect("valid").expect("complete");
    assert_eq!(frame.len, bytes.len(), "one reply and nothing else");
    frame.value.into()
}

/// Returns the replies of a stream that is cut into pieces of the lengths in `cuts`. Also returns the end of the
/// stream: an error with the offset of its reply, or the remaining bytes.
fn drain(
    mut inbox: Inbox,
    cuts: &[u8],
    stream: &[u8],
) -> (Vec<OwnedValue>, Result<bool, DecodeError>) {
    let mut replies = Vec::new();
    let mut torn = false;
    let mut lengths = cuts.iter().cycle();
    let mut rest = stream;
    while !rest.is_empty() {
        let length = lengths
            .next()
            .map_or(rest.len(), |cut| usize::from(*cut).max(1));
        let (mut piece, later) = rest.split_at(length.min(rest.len()));
        rest = later;
        while !piece.is_empty() {
            let before = piece.len();
            match inbox.next(&mut piece) {
                Ok(Some(frame)) => {
                    replies.push(frame.value.into());
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

/// Choices that the fuzzer's bytes determine. After the end of the bytes, every choice is the first option.
struct Choices<'a> {
    bytes: &'a [u8],
}

impl Choices<'_> {
    const DEPTH_MAX: u8 = 6;

    fn byte(&mut self) -> u8 {
        self.bytes.split_off_first().copied().unwrap_or(0)
    }

    fn number(&mut self) -> u64 {
        let length = self.byte() % 9;
        (0..length).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    /// Returns a text of up to 40 bytes, or occasionally of some hundreds.
    fn text(&mut self) -> Bytes {
        let length = usize::from(self.byte());
        let length = if length < 250 {
            length % 41
        } else {
            length * 3
        };
        let (text, rest) = self.bytes.split_at(length.min(self.bytes.len()));
        self.bytes = rest;
        Bytes::copy_from_slice(text)
    }

    fn line(&mut self) -> Bytes {
        let text = self.text();
        text.iter()
            .copied()
            .filter(|byte| !matches!(byte, b'\r' | b'\n'))
            .collect()
    }

    fn reply(&mut self) -> OwnedValue {
        if self.byte() % 8 != 7 {
            return self.value(0);
        }
        let mut items = self.items(1);
        items.insert(0, OwnedValue::Bulk(self.text()));
        OwnedValue::push(items)
    }

    fn value(&mut self, depth: u8) -> OwnedValue {
        let kinds = if depth < Self::DEPTH_MAX { 15 } else { 10 };
        match self.byte() % kinds {
            0 => OwnedValue::Null,
            1 => OwnedValue::Integer(self.number().cast_signed()),
            2 => OwnedValue::Simple(self.line()),
            3 => OwnedValue::Error(self.line()),
            4 => OwnedValue::Bulk(self.text()),
            5 => OwnedValue::Double(f64::from_bits(self.number())),
            6 => OwnedValue::Boolean(self.byte() & 1 == 1),
            7 => self.big_number(),
            8 => OwnedValue::BulkError(self.text()),
            9 => OwnedValue::Verbatim {
                format: [self.byte(), self.byte(), self.byte()],
                text: self.text(),
            },
            10 | 11 => OwnedValue::array(self.items(depth + 1)),
            12 => OwnedValue::set(self.items(depth + 1)),
            13 => OwnedValue::map(self.pairs(depth + 1)),
            _ => {
                let attributes = self.pairs(depth + 1);
                OwnedValue::attributed(attributes, self.value(depth + 1))
            }
        }
    }

    fn big_number(&mut self) -> OwnedValue {
        let sign = if self.byte() & 1 == 1 { &b"-"[..] } else { b"" };
        let digits = self.text();
        let digits = digits.iter().map(|byte| b'0' + byte % 10);
        OwnedValue::BigNumber(sign.iter().copied().chain([b'7']).chain(digits).collect())
    }

    fn items(&mut self, depth: u8) -> Vec<OwnedValue> {
        let length = self.byte() % 7;
        (0..length).map(|_| self.value(depth)).collect()
    }

    fn pairs(&mut self, depth: u8) -> Vec<(OwnedValue, OwnedValue)> {
        let length = self.byte() % 4;
        (0..length)
            .map(|_| (self.value(depth), self.value(depth)))
            .collect()
    }
}
