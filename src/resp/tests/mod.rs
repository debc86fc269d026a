//! Tests of the codec as a whole, with one subject in each file.

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
use super::fuzz::values::{OwnedValue, encode};

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

/// Returns the first reply of `bytes` as an owned value, and its length.
fn decode(bytes: &[u8]) -> Result<Option<(OwnedValue, usize)>, DecodeError> {
    decode_with(Limits::default(), bytes)
}

fn decode_with(limits: Limits, bytes: &[u8]) -> Result<Option<(OwnedValue, usize)>, DecodeError> {
    let mut decoder = Decoder::new(limits);
    Ok(decoder
        .decode(bytes)?
        .map(|frame| (frame.value.into(), frame.len)))
}

fn refused(bytes: &[u8]) -> (usize, Reason) {
    let error = decode(bytes).expect_err("an error");
    (error.at, error.reason)
}

/// Returns the outcome when bytes are added one by one.
fn decode_growing(limits: Limits, bytes: &[u8]) -> Result<usize, DecodeError> {
    let mut decoder = Decoder::new(limits);
    for end in 0..bytes.len() {
        assert_eq!(decoder.measure(&bytes[..end])?, None, "at {end}");
    }
    Ok(decoder.measure(bytes)?.expect("complete"))
}
