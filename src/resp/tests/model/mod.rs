//! The decoder against a model of the grammar, within tiny limits.
//!
//! The model lists every reply that the limits allow. So for any bytes it is known whether they are a reply, the
//! beginning of one, or neither. The decoder has to know this too, at the latest when the line or payload of the last
//! byte is complete.

mod grammar;

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::effort::is_long;
use grammar::{Place, Spelled, replies};

/// Bytes that are tried at each place.
const BYTES: &[u8] = b"+-:$*_#,(!=%~>|0123456789\r\n.eEinfatxy?@ \0\xff";

/// What the model says about some bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Says {
    Reply,
    /// The beginning of a reply, and the other bytes that may follow it.
    More(Place),
}

/// Returns what the model says about all bytes that can become a reply.
fn sayings(limits: Limits) -> BTreeMap<Vec<u8>, Says> {
    let mut sayings = BTreeMap::new();
    for Spelled(reply) in replies(limits).iter() {
        let mut beginning = Vec::new();
        for &(byte, place) in reply {
            let says = sayings
                .entry(beginning.clone())
                .or_insert(Says::More(place));
            if let Says::More(known) = says {
                *known = place.max(*known);
            }
            beginning.push(byte);
        }
        sayings.insert(beginning, Says::Reply);
    }
    sayings
}

/// Returns, for each beginning, the length of the shortest reply that it can become.
fn shortest_replies(sayings: &BTreeMap<Vec<u8>, Says>) -> BTreeMap<Vec<u8>, usize> {
    let mut shortest = BTreeMap::new();
    let replies = sayings.iter().filter(|(_, says)| **says == Says::Reply);
    for (reply, _) in replies {
        for end in 0..reply.len() {
            let known = shortest.entry(reply[..end].to_vec()).or_insert(usize::MAX);
            *known = reply.len().min(*known);
        }
    }
    shortest
}

/// Bytes that may follow a wrong byte: they change nothing.
const TAILS: [&[u8]; 3] = [b"0", b"\r\n", b"1\r\n+x\r\n"];

/// Asks the decoder about all bytes that can become a reply, and about all that are wrong by one byte. Returns how many
/// of them the model knew.
fn check(limits: Limits) -> usize {
    let sayings = sayings(limits);
    let shortest = shortest_replies(&sayings);
    for (beginning, says) in &sayings {
        let Says::More(place) = says else { continue };
        let mut grown = Decoder::new(limits);
        for end in 0..=beginning.len() {
            assert_eq!(grown.measure(&beginning[..end]), Ok(None));
        }
        let (need, more) = (grown.need(), shortest[beginning] - beginning.len());
        let shown = beginning.escape_ascii();
        assert_eq!(need == 0, beginning.is_empty(), "{shown}");
        assert!(need <= more, "{shown} needs {more} and not {need}");
        for &byte in BYTES.iter().filter(|&&byte| !place.is_another(byte)) {
            let bytes = [&beginning[..], &[byte]].concat();
            let found = check_one(limits, &bytes, sayings.get(&bytes));
            let shown = bytes.escape_ascii();
            assert_eq!(grown.clone().measure(&bytes), found, "{shown} grown");
        }
    }
    sayings.len()
}

/// Asks the decoder about bytes that were valid up to the last one, about which the model says this. Returns the
/// answer.
fn check_one(
    limits: Limits,
    bytes: &[u8],
    says: Option<&Says>,
) -> Result<Option<usize>, DecodeError> {
    let ask = |bytes: &[u8]| Decoder::new(limits).measure(bytes);
    let found = ask(bytes);
    let shown = bytes.escape_ascii();
    let last = bytes.len() - 1;
    match (says, found) {
        (Some(Says::Reply), Ok(Some(len))) if len == bytes.len() => (),
        (Some(Says::More(_)), Ok(None)) => (),
        (None, Err(_)) => {
            let tail = TAILS[usize::from(bytes[last]) % TAILS.len()];
            assert_eq!(ask(&[bytes, tail].concat()), found, "{shown} and more");
        }
        (None, Ok(None)) => {
            let mut ends = ends(limits, bytes).into_iter().map(|whole| ask(&whole));
            assert!(
                ends.clone().all(|end| !matches!(end, Ok(Some(_)))),
                "{shown}"
            );
            assert!(ends.any(|end| end.is_err()), "{shown}");
        }
        _ => panic!("{shown} is {says:?} and not {found:?} with {limits:?}"),
    }
    let mut decoder = Decoder::new(limits);
    let decoded = decoder.decode(bytes);
    let decoded = decoded.map(|frame| frame.map(|frame| frame.len));
    assert_eq!(decoded, found, "{shown} directly");
    found
}

/// Returns the bytes that complete the line or the payload at the end of `bytes`, for each place where it may end.
fn ends(limits: Limits, bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut decoder = Decoder::new(limits);
    assert_eq!(decoder.measure(bytes), Ok(None));
    let ends = (0..=decoder.need()).map(|len| [bytes, &vec![b'x'; len], b"\r\n"].concat());
    ends.chain([[bytes, b"\n"].concat()]).collect()
}

/// No bound but that on the reply matters.
const WIDE: Limits = Limits {
    line_bytes: 99,
    bulk_bytes: 99,
    elements: 99,
    depth: 9,
    reply_bytes: 99,
};

/// Checks the first of these limits in each run, and the others in the long run. The model knows this number of replies
/// within the first, and within all.
#[track_caller]
fn check_all<const N: usize>(limits: [Limits; N], first: usize, known: [usize; 2]) {
    let (first, others) = limits.split_at(first);
    let sum = |limits: &[Limits]| limits.iter().map(|limits| check(*limits)).sum::<usize>();
    let within_first = sum(first);
    assert_eq!(within_first, known[0]);
    if is_long() {
        assert_eq!(within_first + sum(others), known[1]);
    }
}

#[test]
fn the_bound_on_the_reply() {
    let bound = |reply_bytes| Limits {
        reply_bytes,
        ..WIDE
    };
    check_all([7, 8, 9, 10, 11, 12].map(bound), 4, [3_861, 15_531]);
}

#[test]
fn the_bound_on_the_reply_and_each_other() {
    let lines = [2, 3, 4, 5].map(|line_bytes| Limits { line_bytes, ..WIDE });
    let bulks = [0, 1, 2, 3].map(|bulk_bytes| Limits { bulk_bytes, ..WIDE });
    let elements = [0, 1, 2, 3].map(|elements| Limits { elements, ..WIDE });
    let depths = [0, 1, 2, 3].map(|depth| Limits { depth, ..WIDE });
    let bounds = [lines, bulks, elements, depths];
    let all: [Limits; 32] = core::array::from_fn(|at| Limits {
        reply_bytes: [8, 10][at / 16],
        ..bounds[at / 4 % 4][at % 4]
    });
    check_all(all, 16, [9_357, 33_352]);
}

#[test]
fn all_bounds_at_once() {
    let bound = |reply_bytes| Limits {
        line_bytes: 2,
        bulk_bytes: 4,
        elements: 3,
        depth: 2,
        reply_bytes,
    };
    check_all([10, 13].map(bound), 1, [784, 11_515]);
}

/// Checks integers, doubles and big numbers with room for everything that they may contain.
#[test]
fn numbers_of_some_length() {
    let numbers = |(line_bytes, reply_bytes)| Limits {
        line_bytes,
        reply_bytes,
        bulk_bytes: 0,
        elements: 0,
        depth: 0,
    };
    check_all([(9, 13), (16, 19)].map(numbers), 1, [2_061, 12_324]);
}

/// A verbatim string of ten bytes has the first length of two digits.
#[test]
fn scalars_of_some_length() {
    let scalars = Limits {
        line_bytes: 3,
        elements: 1,
        depth: 0,
        ..WIDE
    };
    let known = [9, 10].map(|bulk_bytes| {
        check(Limits {
            bulk_bytes,
            reply_bytes: 19,
            ..scalars
        })
    });
    assert_eq!(known.iter().sum::<usize>(), 1_118);
}
