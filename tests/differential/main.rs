//! Our decoder against the crate `redis-protocol`.
//!
//! For any bytes, `compare/` says whether the two agree, and if not, which known difference it is. The fuzz target
//! `differential` runs it without end. Here it runs over the committed corpora and the vectors, and each known
//! difference is checked by its example.

mod compare;

use std::path::Path;

use compare::answer::{Dialect, ours};
use compare::differences::KNOWN;
use compare::{Unfit, Verdict, compare, compare_first};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Compares the stream and each beginning of it. For a long stream, these are the first few hundred.
fn compare_growing(stream: &[u8]) {
    for end in 0..stream.len().min(600) {
        compare(&stream[..end]);
    }
    compare(stream);
}

#[test]
fn the_corpora_differ_only_as_known() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for (name, least) in [("differential", 100), ("decode_any", 50)] {
        let files = std::fs::read_dir(root.join(name)).expect("the corpus is committed");
        let inputs: Vec<_> = files
            .map(|file| std::fs::read(file.expect("a file").path()).expect("a file"))
            .collect();
        assert!(least <= inputs.len(), "{name}: {} inputs", inputs.len());
        inputs.iter().for_each(|input| compare_growing(input));
    }
}

#[test]
fn the_vectors_differ_only_as_known() {
    let vectors = include_str!("../data/resp-vectors.tsv").lines();
    let vectors: Vec<_> = vectors.filter(|line| !line.starts_with('#')).collect();
    assert_eq!(vectors.len(), 117, "a case was added or lost");
    for vector in vectors {
        let digits = vector.split('\t').nth(2).expect("the bytes");
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex");
        compare_growing(&(0..digits.len()).step_by(2).map(byte).collect::<Vec<_>>());
    }
}

/// For its example, the decoders answer as the list says. The difference explains the example, and no other difference
/// does. A decoder without the difference does not show it.
#[test]
fn every_difference_shows_in_its_example_and_alone_explains_it() {
    for known in &KNOWN {
        let (name, example) = (known.name, known.example);
        compare_growing(example);
        let [expected, their_expected] = known.answers;
        assert_eq!(ours(example).to_string(), expected, "{name}");
        for dialect in Dialect::ALL {
            let verdict = compare_first(dialect, example);
            if known.of.contains(&dialect) {
                assert_eq!(
                    dialect.theirs(example).to_string(),
                    their_expected,
                    "{name}"
                );
                assert_eq!(verdict, Verdict::Differs(vec![name]), "{dialect:?}");
            } else if let Verdict::Differs(names) = verdict {
                assert!(!names.contains(&name), "{dialect:?}: {name}");
            }
        }
    }
}

/// The other decoder does not get input that would end the process, or that it answers at random.
#[test]
fn unfit_input_is_not_given_to_the_other_decoder() {
    let deep = ["*1\r\n", ">1\r\n", "|1\r\n:1\r\n"].map(|header| header.repeat(100_000));
    for deep in deep {
        let verdict = compare_first(Dialect::Resp3, deep.as_bytes());
        assert_eq!(verdict, Verdict::Unfit(Unfit::Deep), "{}", &deep[..4]);
    }
    let zeros = compare_first(Dialect::Resp3, b"~2\r\n,0\r\n,-0\r\n");
    assert_eq!(zeros, Verdict::Unfit(Unfit::Zeros));
}

/// Pieces of replies that are right, nearly right and wrong.
const PIECES: &str = "*2@%1@~2@>2@>1@|1@*0@$-1@*-1@_@#t@#f@:1@:+1@:-1@:01@,1.5@,.5@,1e5@,nan@,-nan@,-0@(12@(-1@(x@\
    +a@+@-ERR@-\u{ff}@=5@txt:a@=3@$1@a@$0@@!1@$+1@$01@HELLO 3@;1@.@?@*?@$?";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn random_replies_differ_only_as_known(
        lines in vec((select(PIECES.split('@').collect::<Vec<_>>()), 0..30), 1..9),
        cut in 0_usize..2,
    ) {
        let end = |wrong| if wrong == 0 { "\n" } else { "\r\n" };
        let lines = lines.into_iter().map(|(piece, wrong)| [piece, end(wrong)].concat());
        let stream: Vec<u8> = lines.collect::<String>().chars().map(|byte| byte as u8).collect();
        compare(&stream[..stream.len() - cut]);
    }
}
