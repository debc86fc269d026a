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

use alloc::format;
use alloc::string::String;

use super::all::*;
use super::fuzz::encoded;

/// Returns the first reply of `bytes` as it is printed, and its length.
fn decode(bytes: &[u8]) -> Result<Option<(String, usize)>, DecodeError> {
    decode_with(Limits::default(), bytes)
}

fn decode_with(limits: Limits, bytes: &[u8]) -> Result<Option<(String, usize)>, DecodeError> {
    let mut decoder = Decoder::new(limits);
    Ok(decoder
        .decode(bytes)?
        .map(|frame| (shown(&frame), frame.len)))
}

fn shown(frame: &Frame<'_>) -> String {
    format!("{:?}", frame.value)
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
