//! Our decoder against the crate `redis-protocol`.
//!
//! For any bytes, `compare/` says whether the two agree, and if not, which known difference it is. The fuzz target
//! `differential` runs it without end. Here it runs over the committed corpora and the vectors, and each known
//! difference is checked by its example.

mod compare;

use std::path::{Path, PathBuf};

use compare::differences::{Difference, Differences, KNOWN, Right};
use compare::reader::read;
use compare::rules::Unfit;
use compare::{Dialect, Verdict, compare, compare_first, ours};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let files = std::fs::read_dir(root().join("fuzz/corpus").join(name));
    let mut paths: Vec<PathBuf> = files
        .expect("the corpus is committed")
        .map(|file| file.expect("a file").path())
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| std::fs::read(path).expect("a file"))
        .collect()
}

/// Returns the inputs of `tests/data/resp-vectors.tsv`.
fn vectors() -> Vec<Vec<u8>> {
    let file =
        std::fs::read_to_string(root().join("tests/data/resp-vectors.tsv")).expect("the vectors");
    let cases = file.lines().filter(|line| !line.starts_with('#'));
    cases
        .map(|case| {
            let digits = case.split('\t').nth(2).expect("the bytes");
            let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex");
            (0..digits.len()).step_by(2).map(byte).collect()
        })
        .collect()
}

fn first(dialect: Dialect, bytes: &[u8]) -> Verdict {
    compare_first(dialect, bytes, &ours(bytes))
}

/// Compares the stream and each beginning of it. For a long stream, these are the first few hundred.
fn compare_growing(stream: &[u8]) {
    for end in 0..stream.len().min(600) {
        compare(&stream[..end]);
    }
    compare(stream);
}

#[test]
fn the_corpora_differ_only_as_known() {
    for (name, least) in [("differential", 100), ("decode_any", 50)] {
        let inputs = corpus(name);
        assert!(least <= inputs.len(), "{name}: {} inputs", inputs.len());
        inputs.iter().for_each(|input| compare_growing(input));
    }
}

#[test]
fn the_vectors_differ_only_as_known() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 117, "a case was added or lost");
    vectors.iter().for_each(|vector| compare_growing(vector));
}

#[test]
fn the_examples_differ_only_as_known() {
    KNOWN
        .iter()
        .for_each(|known| compare_growing(known.example));
}

#[test]
fn every_difference_is_in_the_list_once_and_has_a_reason() {
    for (place, known) in KNOWN.iter().enumerate() {
        assert_eq!(known.difference as usize, place, "{:?}", known.difference);
        assert!(!known.of.is_empty() && known.because.ends_with('.'));
    }
}

/// For its example, the decoders answer as the list says. The difference alone explains the example, and no other
/// difference does.
#[test]
fn every_difference_shows_in_its_example_and_alone_explains_it() {
    for known in &KNOWN {
        let (difference, example) = (known.difference, known.example);
        assert_eq!(ours(example).to_string(), known.ours, "{difference:?}");
        for dialect in Dialect::ALL {
            if !known.of.contains(&dialect) {
                continue;
            }
            let theirs = dialect.theirs(example);
            assert_eq!(theirs.to_string(), known.theirs, "{difference:?}");
            let verdict = first(dialect, example);
            assert_eq!(verdict, Verdict::Differs(difference));

            let alone = read(example, Differences::only(difference));
            assert_eq!(alone.answer.as_ref(), Ok(&theirs), "{difference:?} alone");
            assert!(alone.met.iter().all(|met| *met == difference));
            let without = Differences::of(dialect).without(difference);
            let answer = read(example, without).answer;
            assert_eq!(answer, Ok(ours(example)), "without {difference:?}");
        }
    }
}

/// A decoder without the difference does not show it.
#[test]
fn a_difference_shows_in_no_other_decoder() {
    for known in &KNOWN {
        for dialect in Dialect::ALL {
            if !known.of.contains(&dialect) {
                let verdict = first(dialect, known.example);
                assert_ne!(verdict, Verdict::Differs(known.difference));
            }
        }
    }
}

/// In these cases, the specification supports the other decoder, and ours follows the servers.
#[test]
fn ours_is_stricter_than_the_specification_in_the_spelling_of_numbers_only() {
    let theirs = KNOWN.iter().filter(|known| known.right == Right::Theirs);
    let differences: Vec<_> = theirs.map(|known| known.difference).collect();
    assert_eq!(
        differences,
        [
            Difference::IntegerZeros,
            Difference::IntegerMinusZero,
            Difference::LengthZeros,
            Difference::DoubleZeros,
        ]
    );
}

/// The other decoder does not get input that would end the process, or that it answers at random.
#[test]
fn unfit_input_is_not_given_to_the_other_decoder() {
    for header in ["*1\r\n", ">1\r\n", "|1\r\n:1\r\n"] {
        let deep = header.repeat(100_000);
        let verdict = first(Dialect::Resp3, deep.as_bytes());
        assert_eq!(verdict, Verdict::Unfit(Unfit::Deep), "{header}");
    }
    let zeros = b"~2\r\n,0\r\n,-0\r\n";
    let verdict = first(Dialect::Resp3, zeros);
    assert_eq!(verdict, Verdict::Unfit(Unfit::Zeros));
}

/// A generator of its own, so that the run is the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 as usize % bound
    }
}

/// Makes random replies from pieces that are right, nearly right and wrong.
#[test]
fn random_replies_differ_only_as_known() {
    const PIECES: &[u8] =
        b"*2@%1@~2@>2@>1@|1@*0@$-1@*-1@_@#t@#f@:1@:+1@:-1@:01@,1.5@,.5@,1e5@,nan@,-nan@\
        ,-0@(12@(-1@(x@+a@+@-ERR@-\xff@=5@txt:a@=3@$1@a@$0@@!1@$+1@$01@HELLO 3@;1@.@?@*?@$?";
    let pieces: Vec<&[u8]> = PIECES.split(|byte| *byte == b'@').collect();
    let mut random = Random(0x5eed);
    for _ in 0..20_000 {
        let mut stream = Vec::new();
        for _ in 0..1 + random.below(8) {
            stream.extend_from_slice(pieces[random.below(pieces.len())]);
            let end: &[u8] = if random.below(30) == 0 {
                b"\n"
            } else {
                b"\r\n"
            };
            stream.extend_from_slice(end);
        }
        stream.truncate(stream.len() - random.below(2));
        compare(&stream);
    }
}
