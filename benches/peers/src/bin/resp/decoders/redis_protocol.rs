//! The crate `redis-protocol`, on which fred is built: its RESP2 and its RESP3 decoder, each as
//! offsets into the bytes (`range`) and as reference-counted slices of them (`Bytes`).
//!
//! Torn, offsets are read from a growing buffer, and slices through the crate's own codec.

use std::error::Error;
use std::hint::black_box;

use bytes::{Buf, Bytes, BytesMut};
use redis_protocol::codec::{Resp2, Resp3};
use redis_protocol::error::RedisProtocolError;
use redis_protocol::{resp2, resp3};
use shearline_peers::measure::{Contestant, Failure};
use tokio_util::codec::Decoder;

use super::Form;
use crate::contest::{Entrant, Family};
use crate::stream::{PIECE_BYTES, Stream};

type Decoded<T> = Result<Option<(T, usize)>, RedisProtocolError>;

pub(super) fn entrants(stream: &Stream, form: Form) -> [Entrant<'_>; 4] {
    use resp2::decode as two;
    use resp3::decode::complete as three;
    [
        range(stream, form, "RESP2", two::decode_range, weigh_range_2),
        range(stream, form, "RESP3", three::decode_range, weigh_range_3),
        match form {
            Form::Whole => slices(stream, "RESP2", two::decode_bytes, weigh_2),
            Form::Torn => codec(stream, "RESP2", Resp2::default(), weigh_2),
        },
        match form {
            Form::Whole => slices(stream, "RESP3", three::decode_bytes, weigh_3),
            Form::Torn => codec(stream, "RESP3", Resp3::default(), weigh_3),
        },
    ]
}

fn entrant<'a>(family: Family, protocol: &str, contestant: Contestant<'a>) -> Entrant<'a> {
    let kind = if family == Family::RedisProtocolRange {
        "range"
    } else {
        "`Bytes`"
    };
    Entrant {
        family,
        name: format!(
            "redis-protocol {}, {protocol} {kind}",
            env!("REDIS_PROTOCOL_VERSION")
        ),
        contestant: Ok(contestant),
    }
}

fn range<'a, T>(
    stream: &'a Stream,
    form: Form,
    protocol: &str,
    decode: impl Fn(&[u8]) -> Decoded<T> + 'a,
    weigh: impl Fn(&T) -> u64 + 'a,
) -> Entrant<'a> {
    let bytes = &stream.bytes[..];
    let mut buffer = BytesMut::new();
    let contestant = match form {
        Form::Whole => Contestant::new(stream.replies, move || {
            let mut sum = 0;
            let mut rest = black_box(bytes);
            while let Some((frame, len)) = decode(rest)? {
                sum += weigh(&frame);
                rest = &rest[len..];
            }
            Ok(sum)
        }),
        Form::Torn => Contestant::new(stream.replies, move || {
            let mut sum = 0;
            for piece in black_box(bytes).chunks(PIECE_BYTES) {
                buffer.extend_from_slice(piece);
                while let Some((frame, len)) = decode(&buffer)? {
                    sum += weigh(&frame);
                    buffer.advance(len);
                }
            }
            Ok(sum)
        }),
    };
    entrant(Family::RedisProtocolRange, protocol, contestant)
}

fn slices<'a, T>(
    stream: &'a Stream,
    protocol: &str,
    decode: impl Fn(&Bytes) -> Decoded<T> + 'a,
    weigh: impl Fn(&T) -> u64 + 'a,
) -> Entrant<'a> {
    let contestant = Contestant::new(stream.replies, move || {
        let mut sum = 0;
        let mut rest = black_box(&stream.bytes).clone();
        while let Some((frame, len)) = decode(&rest)? {
            sum += weigh(&frame);
            rest.advance(len);
        }
        Ok(sum)
    });
    entrant(Family::RedisProtocolBytes, protocol, contestant)
}

fn codec<'a, C>(
    stream: &'a Stream,
    protocol: &str,
    mut codec: C,
    weigh: impl Fn(&C::Item) -> u64 + 'a,
) -> Entrant<'a>
where
    C: Decoder<Error: Error + Send + Sync + 'static> + 'a,
{
    let mut buffer = BytesMut::new();
    let contestant = Contestant::new(stream.replies, move || {
        let mut sum = 0;
        for piece in black_box(&stream.bytes).chunks(PIECE_BYTES) {
            buffer.extend_from_slice(piece);
            while let Some(frame) = codec.decode(&mut buffer).map_err(Failure::from)? {
                sum += weigh(&frame);
            }
        }
        Ok(sum)
    });
    entrant(Family::RedisProtocolBytes, protocol, contestant)
}

// Variants that no stream has weigh nothing: the sums would not agree.

fn weigh_range_2(frame: &resp2::types::RangeFrame) -> u64 {
    use resp2::types::RangeFrame as Frame;
    match frame {
        Frame::SimpleString((start, end))
        | Frame::BulkString((start, end))
        | Frame::Error((start, end)) => (end - start) as u64,
        Frame::Integer(integer) => *integer as u64,
        Frame::Null => 1,
        Frame::Array(items) => items.iter().map(weigh_range_2).sum(),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "no stream has the others")]
fn weigh_range_3(frame: &resp3::types::RangeFrame) -> u64 {
    use resp3::types::RangeFrame as Frame;
    match frame {
        Frame::SimpleString {
            data: (start, end), ..
        }
        | Frame::BlobString {
            data: (start, end), ..
        }
        | Frame::SimpleError {
            data: (start, end), ..
        } => (end - start) as u64,
        Frame::Number { data, .. } => *data as u64,
        Frame::Null => 1,
        Frame::Array { data, .. } => data.iter().map(weigh_range_3).sum(),
        Frame::Map { data, .. } => {
            let mut sum = 0;
            for (key, value) in data {
                sum += weigh_range_3(key) + weigh_range_3(value);
            }
            sum
        }
        _ => 0,
    }
}

fn weigh_2(frame: &resp2::types::BytesFrame) -> u64 {
    use resp2::types::BytesFrame as Frame;
    match frame {
        Frame::SimpleString(text) | Frame::BulkString(text) => text.len() as u64,
        Frame::Error(text) => text.len() as u64,
        Frame::Integer(integer) => *integer as u64,
        Frame::Null => 1,
        Frame::Array(items) => items.iter().map(weigh_2).sum(),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "no stream has the others")]
fn weigh_3(frame: &resp3::types::BytesFrame) -> u64 {
    use resp3::types::BytesFrame as Frame;
    match frame {
        Frame::SimpleString { data, .. } | Frame::BlobString { data, .. } => data.len() as u64,
        Frame::SimpleError { data, .. } => data.len() as u64,
        Frame::Number { data, .. } => *data as u64,
        Frame::Null => 1,
        Frame::Array { data, .. } => data.iter().map(weigh_3).sum(),
        Frame::Map { data, .. } => {
            let mut sum = 0;
            for (key, value) in data {
                sum += weigh_3(key) + weigh_3(value);
            }
            sum
        }
        _ => 0,
    }
}
