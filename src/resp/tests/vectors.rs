//! The cases of `tests/data/resp-vectors.tsv`: each whole, byte by byte, and cut at every place.

use super::*;
use crate::resp::fuzz::drain;
use alloc::string::String;
use alloc::vec::Vec;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/resp-vectors.tsv");

/// The replies of a stream, and whether bytes remain after them, or the error there.
type Drained = (Vec<String>, Result<bool, DecodeError>);

fn in_pieces<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> Drained {
    drain(Inbox::default(), pieces)
}

/// Like `drain`, but the decoder gets all bytes again each time that there is one more. It measures each reply first.
/// Then the reply is read several times, also after it was moved, and together with the bytes after it.
fn drain_growing(bytes: &[u8]) -> Drained {
    let mut decoder = Decoder::new(Limits::default());
    let mut replies = Vec::new();
    let mut start = 0;
    for end in 0..=bytes.len() {
        match decoder.measure(&bytes[start..end]) {
            Ok(Some(len)) => {
                assert_eq!(start + len, end, "a reply is complete with its last byte");
                assert_eq!(decoder.measure(&bytes[start..]), Ok(Some(len)));
                let moved = bytes[start..].to_vec();
                let read = [&bytes[start..end], &moved].map(|bytes| {
                    let frame = decoder.frame(bytes).expect("it was measured");
                    assert_eq!(frame.len, len);
                    shown(&frame)
                });
                assert_eq!(read[0], read[1]);
                replies.extend(read.into_iter().next());
                start = end;
            }
            Ok(None) => (),
            Err(error) => return (replies, Err(error)),
        }
    }
    (replies, Ok(start < bytes.len()))
}

#[test]
fn every_case_at_every_cut() {
    let text = std::fs::read_to_string(FILE).expect("it is committed");
    let cases = text.lines().filter(|line| !line.starts_with('#'));
    let done = cases.map(check).count();
    assert_eq!(done, 117, "a case was added or lost");
}

fn check(case: &str) {
    let mut columns = case.split('\t');
    let mut column = || columns.next().expect("a column");
    let (name, _protocol, bytes, expected) = (column(), column(), hex(column()), column());
    let whole = in_pieces([&bytes[..]]);
    assert_eq!(described(&whole), expected, "{name}");
    assert_eq!(in_pieces(bytes.chunks(1)), whole, "{name}: byte by byte");
    assert_eq!(drain_growing(&bytes), whole, "{name}: growing");
    for cut in 0..=bytes.len() {
        let (left, right) = bytes.split_at(cut);
        assert_eq!(in_pieces([left, right]), whole, "{name}: cut at {cut}");
    }
    if whole.1 == Ok(false) && whole.0.len() == 1 {
        for cut in 1..bytes.len() {
            let beginning = in_pieces([&bytes[..cut]]);
            assert_eq!(beginning, (Vec::new(), Ok(true)), "{name}: first {cut}");
        }
    }
}

/// Prints replies, and the end after them, as the file does.
fn described((replies, end): &Drained) -> String {
    let end = match end {
        Ok(false) if replies.is_empty() => Some("nothing".into()),
        Ok(false) => None,
        Ok(true) => Some("incomplete".into()),
        Err(_) => Some("error".into()),
    };
    replies
        .iter()
        .cloned()
        .chain(end)
        .collect::<Vec<String>>()
        .join("; ")
}

fn hex(text: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("two hex digits");
    (0..text.len()).step_by(2).map(byte).collect()
}
