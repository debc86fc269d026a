//! Tests of the codec as a whole, a subject in each file.

mod bounds;
mod commands;
mod corpus;
mod cost;
mod depth;
mod direct;
mod equality;
mod inbox;
mod measure;
mod model;
mod refusals;
mod spelling;
mod vectors;
mod views;

use bytes::Bytes;

use super::all::*;
use super::fuzz::values::{encode, encode_resp2};

impl OwnedValue {
    fn simple(text: impl Into<Bytes>) -> Self {
        Self::Simple(text.into())
    }

    fn error(text: impl Into<Bytes>) -> Self {
        Self::Error(text.into())
    }

    fn bulk(bytes: &[u8]) -> Self {
        Self::Bulk(Bytes::copy_from_slice(bytes))
    }
}

/// The first reply of `bytes`, owned, and its length.
fn decode(bytes: &[u8]) -> Result<Option<(OwnedValue, usize)>, DecodeError> {
    decode_with(Limits::default(), bytes)
}

fn decode_with(limits: Limits, bytes: &[u8]) -> Result<Option<(OwnedValue, usize)>, DecodeError> {
    let mut decoder = Decoder::new(limits);
    Ok(decoder
        .decode(bytes)?
        .map(|frame| (frame.to_owned(), frame.len)))
}

/// A copy without attributes, by what is public of a value.
#[expect(clippy::wildcard_enum_match_arm, reason = "all others are scalars")]
fn bare(value: Value<'_>) -> OwnedValue {
    let items = |items: Items<'_>| items.iter().map(bare).collect();
    match value {
        Value::Array(inside) => OwnedValue::Array(items(inside)),
        Value::Set(inside) => OwnedValue::Set(items(inside)),
        Value::Push(inside) => OwnedValue::Push(items(inside)),
        Value::Map(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| (bare(key), bare(value)));
            OwnedValue::Map(pairs.collect())
        }
        scalar => scalar.to_owned(),
    }
}

fn refused(bytes: &[u8]) -> (usize, Reason) {
    let error = decode(bytes).expect_err("an error");
    (error.at, error.reason)
}

/// The outcome when bytes are added one by one.
fn decode_growing(limits: Limits, bytes: &[u8]) -> Result<usize, DecodeError> {
    let mut decoder = Decoder::new(limits);
    for end in 0..bytes.len() {
        assert_eq!(decoder.measure(&bytes[..end])?, None, "at {end}");
    }
    Ok(decoder.measure(bytes)?.expect("complete"))
}
