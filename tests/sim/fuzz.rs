//! The body of the fuzz target `sim`: bytes make the choices in a short world.
//!
//! Two bytes make each choice. When they have run out, nothing more begins, so the length of a history depends on their
//! number.

use crate::case::{ANY, Case, Choices, Keep};

/// The most inputs of a history: more than one of a few thousand bytes takes.
const INPUTS_MAX: u64 = 200_000;

/// Runs the history that `bytes` choose.
///
/// # Panics
///
/// If an oracle objects.
pub(crate) fn run(bytes: &[u8]) {
    let case = Case {
        kind: ANY,
        choices: Choices::Bytes(bytes.to_vec()),
    };
    let keep = Keep {
        inputs_max: Some(INPUTS_MAX),
        ..Keep::default()
    };
    let violation = case.run(keep).violation;
    assert!(violation.is_none(), "{violation:?}");
}

#[test]
fn the_fuzz_corpus_is_replayed() {
    let _none = crate::mutations::Chosen::new(None);
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/sim");
    let files = std::fs::read_dir(corpus).expect("the corpus is committed");
    let files = files.map(|file| file.expect("it can be read").path());
    let files: Vec<_> = files.collect();
    assert!(files.len() >= 20, "{} files", files.len());
    for file in files {
        run(&std::fs::read(&file).expect("it can be read"));
    }
}
