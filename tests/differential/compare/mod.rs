//! Our decoder against the crate `redis-protocol`, on any bytes. The fuzz target `differential` runs it, and so do the
//! ordinary tests in this folder, over the committed corpora.
//!
//! A plain reader, written from the grammar ([`reader`]), is between the two. It has a switch for each known difference
//! ([`differences`]). With all switches off it must give exactly our answer, and with all of them on exactly the other
//! answer. So no disagreement is excused in general: each one is predicted, and named by the first switch that made a
//! difference.
//!
//! Not here: streams that are cut (the target `decode_torn`), limits other than the defaults, and
//! the other crate's interface for streamed types, which ours refuses as a whole.

mod answer;
pub(crate) mod differences;
mod node;
pub(crate) mod reader;
pub(crate) mod rules;
mod spelling;

use redis_protocol::bytes::Bytes;
use redis_protocol::{resp2, resp3};
use shearline::internals::resp::{Decoder, Limits};

use answer::Answer;
use differences::{Difference, Differences};
use reader::read;
use rules::Unfit;

/// The two decoders of the other crate. Our decoder is the same for both.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Dialect {
    Resp2,
    Resp3,
}

/// The result of one comparison.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    /// Both gave the same answer.
    Same,
    /// The answers differ, because of this difference.
    Differs(Difference),
    /// The other decoder was not asked.
    Unfit(Unfit),
}

/// Longer input is skipped: the reader does not know the bound on a whole reply, which takes
/// several times as many bytes to reach.
const INPUT_BYTES_MAX: usize = 1 << 20;

impl Dialect {
    pub(crate) const ALL: [Self; 2] = [Self::Resp2, Self::Resp3];

    /// Returns the answer of the other decoder about the first reply of `bytes`.
    pub(crate) fn theirs(self, bytes: &[u8]) -> Answer {
        let bytes = Bytes::copy_from_slice(bytes);
        match self {
            Self::Resp2 => Answer::of(resp2::decode::decode_bytes(&bytes), |(frame, len)| {
                (answer::resp2(&frame), len)
            }),
            Self::Resp3 => Answer::of(
                resp3::decode::complete::decode_bytes(&bytes),
                |(frame, len)| (answer::resp3(&frame), len),
            ),
        }
    }
}

/// Returns our decoder's answer about the first reply of `bytes`.
///
/// # Panics
///
/// If the reader gives another answer.
pub(crate) fn ours(bytes: &[u8]) -> Answer {
    let mut decoder = Decoder::new(Limits::default());
    let ours = Answer::of(decoder.decode(bytes), |frame| {
        (answer::ours(frame.value), frame.len)
    });
    let plain = read(bytes, Differences::NONE).answer;
    assert_eq!(plain.as_ref(), Ok(&ours), "on \"{}\"", bytes.escape_ascii());
    ours
}

/// The body of the fuzz target: every reply that our decoder finds in `stream`, and the bytes after the last one.
///
/// # Panics
///
/// On a disagreement that the list does not predict.
pub(crate) fn compare(stream: &[u8]) {
    let mut rest = &stream[..stream.len().min(INPUT_BYTES_MAX)];
    loop {
        let ours = ours(rest);
        for dialect in Dialect::ALL {
            compare_first(dialect, rest, &ours);
        }
        match ours {
            Answer::Reply { len, .. } => rest = &rest[len..],
            Answer::Torn | Answer::Refused => return,
        }
    }
}

/// Compares the first reply of `bytes`, with our answer.
///
/// # Panics
///
/// On a disagreement that the list does not predict.
pub(crate) fn compare_first(dialect: Dialect, bytes: &[u8], ours: &Answer) -> Verdict {
    let predicted = read(bytes, Differences::of(dialect));
    let theirs = match predicted.answer {
        Err(unfit) => return Verdict::Unfit(unfit),
        Ok(answer) => answer,
    };
    let met = &predicted.met;
    assert_eq!(
        dialect.theirs(bytes),
        theirs,
        "{dialect:?} on \"{}\", ours {ours}, met {met:?}",
        bytes.escape_ascii()
    );
    if theirs == *ours {
        return Verdict::Same;
    }
    // Up to the first difference, both read the bytes in the same way.
    let first = met.first().expect("a difference, if they differ");
    Verdict::Differs(*first)
}
