//! Ours: [`Decoder`] over the whole stream, [`Inbox`] over the pieces.

use std::hint::black_box;

use bytes::Bytes;
use shearline::resp::{DecodeError, Decoder, Inbox, Limits, OwnedValue, Value};
use shearline_peers::measure::Contestant;

use super::{Form, Room};
use crate::contest::{Entrant, Family};
use crate::stream::{PIECE_BYTES, Stream};

pub(super) fn entrant(stream: &Stream, form: Form) -> Entrant<'_> {
    Entrant {
        family: Family::Shearline,
        name: "shearline".into(),
        contestant: Ok(contestant(stream, form)),
    }
}

pub(crate) fn contestant(stream: &Stream, form: Form) -> Contestant<'_> {
    let replies = stream.replies;
    let bytes = &stream.bytes[..];
    match form {
        Form::Whole => {
            let mut decoder = Decoder::new(Limits::DEFAULT);
            Contestant::new(replies, move || Ok(whole(&mut decoder, black_box(bytes))?))
        }
        Form::Torn => {
            let mut inbox = Inbox::new(Limits::DEFAULT);
            let mut room = Room::new();
            Contestant::new(replies, move || {
                Ok(torn(&mut inbox, &mut room, black_box(bytes))?)
            })
        }
    }
}

/// Values that outlive the buffer: in one piece their strings share it, torn they are copied.
pub(super) fn owned(stream: &Stream, form: Form) -> Entrant<'_> {
    let replies = stream.replies;
    let bytes = &stream.bytes[..];
    let (name, contestant) = match form {
        Form::Whole => {
            let mut decoder = Decoder::new(Limits::DEFAULT);
            let buffer = Bytes::copy_from_slice(bytes);
            let pass = move || Ok(shared(&mut decoder, black_box(&buffer))?);
            ("shearline, owned", Contestant::new(replies, pass))
        }
        Form::Torn => {
            let mut inbox = Inbox::new(Limits::DEFAULT);
            let mut room = Room::new();
            let pass = move || Ok(copied(&mut inbox, &mut room, black_box(bytes))?);
            ("shearline, owned", Contestant::new(replies, pass))
        }
    };
    Entrant {
        family: Family::ShearlineOwned,
        name: name.into(),
        contestant: Ok(contestant),
    }
}

fn shared(decoder: &mut Decoder, buffer: &Bytes) -> Result<u64, DecodeError> {
    let mut sum = 0;
    let mut bytes = &buffer[..];
    while let Some(frame) = decoder.decode(bytes)? {
        sum += weigh_owned(&black_box(frame.value.share(buffer)));
        bytes = &bytes[frame.len..];
    }
    Ok(sum)
}

fn copied(inbox: &mut Inbox, room: &mut Room, bytes: &[u8]) -> Result<u64, DecodeError> {
    let mut sum = 0;
    for piece in bytes.chunks(PIECE_BYTES) {
        let mut piece = room.receive(piece);
        while let Some(frame) = inbox.next(&mut piece)? {
            sum += weigh_owned(&black_box(frame.value.to_owned()));
        }
    }
    Ok(sum)
}

fn weigh_owned(value: &OwnedValue) -> u64 {
    match value {
        OwnedValue::Simple(text) | OwnedValue::Bulk(text) | OwnedValue::Error(text) => {
            text.len() as u64
        }
        OwnedValue::Integer(integer) => *integer as u64,
        OwnedValue::Null => 1,
        OwnedValue::Array(items) | OwnedValue::Set(items) | OwnedValue::Push(items) => {
            items.iter().map(weigh_owned).sum()
        }
        OwnedValue::Map(pairs) => pairs
            .iter()
            .map(|(key, value)| weigh_owned(key) + weigh_owned(value))
            .sum(),
        OwnedValue::Double(_)
        | OwnedValue::Boolean(_)
        | OwnedValue::BigNumber(_)
        | OwnedValue::BulkError(_)
        | OwnedValue::Verbatim { .. }
        | OwnedValue::Attributed(_) => 0,
    }
}

fn whole(decoder: &mut Decoder, mut bytes: &[u8]) -> Result<u64, DecodeError> {
    let mut sum = 0;
    while let Some(frame) = decoder.decode(bytes)? {
        sum += weigh(frame.value);
        bytes = &bytes[frame.len..];
    }
    Ok(sum)
}

fn torn(inbox: &mut Inbox, room: &mut Room, bytes: &[u8]) -> Result<u64, DecodeError> {
    let mut sum = 0;
    for piece in bytes.chunks(PIECE_BYTES) {
        let mut piece = room.receive(piece);
        while let Some(frame) = inbox.next(&mut piece)? {
            sum += weigh(frame.value);
        }
    }
    Ok(sum)
}

/// Takes the value as it is: one that is looked at through a reference has to be in memory first.
#[inline]
fn weigh(value: Value<'_>) -> u64 {
    match value {
        Value::Simple(text) | Value::Bulk(text) | Value::Error(text) => text.len() as u64,
        Value::Integer(integer) => integer as u64,
        Value::Null => 1,
        Value::Array(_)
        | Value::Set(_)
        | Value::Push(_)
        | Value::Map(_)
        | Value::Double(_)
        | Value::Boolean(_)
        | Value::BigNumber(_)
        | Value::BulkError(_)
        | Value::Verbatim { .. } => weigh_rest(value),
    }
}

fn weigh_rest(value: Value<'_>) -> u64 {
    if let Some(items) = value.as_items() {
        items.iter().map(weigh).sum()
    } else if let Some(pairs) = value.as_pairs() {
        pairs
            .iter()
            .map(|(key, value)| weigh(key) + weigh(value))
            .sum()
    } else {
        0
    }
}
