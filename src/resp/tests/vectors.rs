//! The cases of `tests/data/resp-vectors.tsv`: each whole, byte by byte, and cut at every place.

use alloc::string::String;
use alloc::vec::Vec;
use std::format;

use super::*;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/resp-vectors.tsv");

/// The fate of the last reply of a stream.
#[derive(Clone, Debug, PartialEq)]
enum End {
    Clean,
    Incomplete,
    Error(DecodeError),
}

/// Decodes a stream that comes in pieces. Returns the replies in it, and how it ends.
fn drain<'p>(pieces: impl Iterator<Item = &'p [u8]>) -> (Vec<OwnedValue>, End) {
    let mut inbox = Inbox::default();
    let mut replies = Vec::new();
    let mut torn = false;
    for mut piece in pieces {
        while !piece.is_empty() {
            match inbox.next(&mut piece) {
                Ok(Some(frame)) => {
                    replies.push(frame.value.into());
                    torn = false;
                }
                Ok(None) => torn = true,
                Err(error) => return (replies, End::Error(error)),
            }
        }
    }
    (replies, if torn { End::Incomplete } else { End::Clean })
}

/// Like `drain`, but the decoder gets all bytes again each time that there is one more. It measures each reply first.
/// Then the reply is read several times, also after it was moved, and together with the bytes after it.
fn drain_growing(bytes: &[u8]) -> (Vec<OwnedValue>, End) {
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
                    OwnedValue::from(frame.value)
                });
                assert_eq!(read[0], read[1]);
                replies.extend(read.into_iter().next());
                start = end;
            }
            Ok(None) => (),
            Err(error) => return (replies, End::Error(error)),
        }
    }
    let end = match start < bytes.len() {
        true => End::Incomplete,
        false => End::Clean,
    };
    (replies, end)
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
    let whole = drain([&bytes[..]].into_iter());
    assert_eq!(described(&whole), expected, "{name}");
    assert_eq!(drain(bytes.chunks(1)), whole, "{name}: byte by byte");
    assert_eq!(drain_growing(&bytes), whole, "{name}: growing");
    for cut in 0..=bytes.len() {
        let (left, right) = bytes.split_at(cut);
        assert_eq!(
            drain([left, right].into_iter()),
            whole,
            "{name}: cut at {cut}"
        );
    }
    if whole.1 == End::Clean && whole.0.len() == 1 {
        for cut in 1..bytes.len() {
            let prefix = drain([&bytes[..cut]].into_iter());
            assert_eq!(
                prefix,
                (Vec::new(), End::Incomplete),
                "{name}: prefix of {cut}"
            );
        }
    }
}

/// Prints replies, and the end after them, as the file does.
fn described((replies, end): &(Vec<OwnedValue>, End)) -> String {
    let end = match end {
        End::Clean if replies.is_empty() => Some("nothing".into()),
        End::Clean => None,
        End::Incomplete => Some("incomplete".into()),
        End::Error(_) => Some("error".into()),
    };
    let replies = replies.iter().map(|reply| format!("{reply:?}"));
    replies.chain(end).collect::<Vec<String>>().join("; ")
}

fn hex(text: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("two hex digits");
    (0..text.len()).step_by(2).map(byte).collect()
}
