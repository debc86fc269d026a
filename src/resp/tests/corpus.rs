//! The bodies of the fuzz targets, over the committed corpus and over random input.

use alloc::vec::Vec;
use std::format;
use std::path::Path;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::resp::fuzz::{fuzz_decode_any, fuzz_decode_torn, fuzz_roundtrip};

type Body = fn(&[u8]);
const BODIES: [(&str, Body); 3] = [
    ("decode_any", fuzz_decode_any),
    ("decode_torn", fuzz_decode_torn),
    ("roundtrip", fuzz_roundtrip),
];

#[test]
fn the_fuzz_corpus_is_replayed() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for (name, body) in BODIES {
        let files = std::fs::read_dir(corpus.join(name)).expect("the corpus is committed");
        let mut seeds = 0;
        for file in files {
            body(&std::fs::read(file.unwrap().path()).unwrap());
            seeds += 1;
        }
        assert!(10 <= seeds, "{name}: {seeds} seeds");
    }
}

#[test]
fn the_fuzz_bodies_hold_on_random_input() {
    const LETTERS: &[u8] = b"+-:$*_#,(!=%~>|\r\n\r\n\r\n0123456789tfeinfatxt:.?";
    let mut random = StdRng::seed_from_u64(0x5eed);
    for round in 0..6000 {
        let length = random.random_range(0..60);
        let letter = |_| match round % 3 {
            0 => random.random(),
            _ => LETTERS[random.random_range(0..LETTERS.len())],
        };
        let input: Vec<u8> = (0..length).map(letter).collect();
        for (_, body) in BODIES {
            body(&input);
        }
    }
}

/// Tests numbers for which one more digit is too many, cut at every place.
#[test]
fn the_fuzz_bodies_hold_at_the_borders_of_numbers() {
    let ones = |count| "1".repeat(count);
    for number in [
        format!(":{}\r\n", i64::MAX),
        format!(":{}\r\n", i64::MIN),
        ":9223372036854775808\r\n".into(),
        ":-9223372036854775809\r\n".into(),
        ",1.7976931348623157e308\r\n".into(),
        ",1.7976931348623159e308\r\n".into(),
        format!(",{}.{}\r\n", ones(309), ones(18)),
        format!(",{}.{}1\r\n", ones(309), ones(18)),
        format!(",{}.{}e\r\n", ones(309), ones(17)),
        format!(",-{}e-1\r\n", ones(310)),
        format!(",-{}e-9\r\n", ones(310)),
        ":+9223372036854775807\r\n".into(),
        ":+9223372036854775808\r\n".into(),
        ",+1.5e+308\r\n".into(),
        "(+12\r\n".into(),
        format!(",0.{}e{}\r\n", ones(300), ones(20)),
        format!(",0e{}\r\n", ones(327)),
    ] {
        for end in 1..=number.len() {
            fuzz_decode_any(&number.as_bytes()[..end]);
        }
    }
}
