//! Our decoder against the crate `redis-protocol`, on any bytes. The fuzz target `differential` runs it, and so do the
//! ordinary tests in this folder, over the committed corpora.
//!
//! The answers must be the same, or a known difference ([`differences`]) must explain it. If ours refuses, the
//! difference must show in the element at which ours refuses.
//!
//! Not here: streams that are cut (the target `decode_torn`), limits other than the defaults, and
//! the other crate's interface for streamed types, which ours refuses as a whole.

pub(crate) mod answer;
pub(crate) mod differences;
mod elements;

use answer::{Answer, Dialect, ours};
use differences::KNOWN;
use elements::{Element, elements};

/// The result of one comparison.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    Same,
    /// The names of all differences that explain the answers.
    Differs(Vec<&'static str>),
    /// The other decoder was not asked.
    Unfit(Unfit),
}

/// Why the other decoder is not asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Unfit {
    /// The other decoder calls itself once for each level. When its stack is used up, the process ends.
    Deep,
    /// The answer of the other decoder is random. It compares a few bits of the hashes of the two zeros, under a random
    /// seed. If these bits are the same, the zeros count as equal.
    Zeros,
}

/// The other decoder is not given input that is nested deeper.
const THEIR_DEPTH_MAX: usize = 64;

/// Longer input is skipped: it could reach the bound on a whole reply.
const INPUT_BYTES_MAX: usize = 1 << 20;

/// The body of the fuzz target: every reply that our decoder finds in `stream`, and the bytes after the last one.
///
/// # Panics
///
/// On a disagreement that no known difference explains.
pub(crate) fn compare(stream: &[u8]) {
    let mut rest = &stream[..stream.len().min(INPUT_BYTES_MAX)];
    loop {
        for dialect in Dialect::ALL {
            compare_first(dialect, rest);
        }
        match ours(rest) {
            Answer::Reply { len, .. } => rest = &rest[len..],
            Answer::Torn | Answer::Refused { .. } => return,
        }
    }
}

/// Compares the answers about the first reply of `bytes`.
///
/// # Panics
///
/// On a disagreement that no known difference explains.
pub(crate) fn compare_first(dialect: Dialect, bytes: &[u8]) -> Verdict {
    let elements = elements(bytes);
    if elements.iter().any(|one| THEIR_DEPTH_MAX < one.depth) {
        return Verdict::Unfit(Unfit::Deep);
    }
    let has = |is: fn(&Element<'_>) -> bool| elements.iter().any(is);
    if has(|one| one.is_zero(false)) && has(|one| one.is_zero(true)) && has(|one| one.is_key) {
        return Verdict::Unfit(Unfit::Zeros);
    }
    let (ours, theirs) = (ours(bytes), dialect.theirs(bytes));
    if ours.to_string() == theirs.to_string() {
        return Verdict::Same;
    }
    let mut names = Vec::new();
    for known in KNOWN.iter().filter(|known| known.of.contains(&dialect)) {
        if known.explains(&elements, &ours, &theirs) {
            names.push(known.name);
        }
    }
    let shown = bytes.escape_ascii();
    assert!(
        !names.is_empty(),
        "{dialect:?} on \"{shown}\": ours {ours}, theirs {theirs}"
    );
    Verdict::Differs(names)
}
