//! The bodies of the fuzz targets, over the committed corpus and over random input.

use alloc::vec::Vec;
use std::path::Path;

use super::*;

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

/// A generator of its own, so that the run is the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn the_fuzz_bodies_hold_on_random_input() {
    const LETTERS: &[u8] = b"+-:$*_#,(!=%~>|\r\n\r\n\r\n0123456789tfeinfatxt:.?";
    let mut random = Random(0x5eed);
    for round in 0..6000 {
        let length = random.next() % 60;
        let input: Vec<u8> = (0..length)
            .map(|_| match random.next() {
                choice if round % 3 == 0 => choice as u8,
                choice => LETTERS[choice as usize % LETTERS.len()],
            })
            .collect();
        for (_, body) in BODIES {
            body(&input);
        }
    }
}
