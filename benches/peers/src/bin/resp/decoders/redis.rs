//! The crate `redis`: its `Parser`, through which a blocking connection reads, and its
//! `ValueCodec`, through which an asynchronous one does.

use std::hint::black_box;
use std::io::{self, Read};

use bytes::BytesMut;
use redis::{Parser, Value, ValueCodec};
use shearline_peers::measure::{Contestant, Failure};
use tokio_util::codec::Decoder;

use super::Form;
use crate::contest::{Entrant, Family};
use crate::stream::{PIECE_BYTES, Stream};

pub(super) fn entrants(stream: &Stream, form: Form) -> [Entrant<'_>; 2] {
    let (parser, codec) = match form {
        Form::Whole => (parser(stream, usize::MAX), codec_whole(stream)),
        Form::Torn => (parser(stream, PIECE_BYTES), codec_torn(stream)),
    };
    [("Parser", parser), ("ValueCodec", codec)].map(|(way, contestant)| Entrant {
        family: Family::Redis,
        name: format!("redis {}, `{way}`", env!("REDIS_VERSION")),
        contestant: Ok(contestant),
    })
}

fn parser(stream: &Stream, piece: usize) -> Contestant<'_> {
    let mut parser = Parser::new();
    Contestant::new(stream.replies, move || {
        let mut reader = Pieces {
            rest: black_box(&stream.bytes),
            piece,
            left: piece,
        };
        let mut sum = 0;
        for _ in 0..stream.replies {
            sum += weigh(&parser.parse_value(&mut reader)?);
        }
        Ok(sum)
    })
}

fn codec_whole(stream: &Stream) -> Contestant<'_> {
    let mut codec = ValueCodec::default();
    let filled = || BytesMut::from(&stream.bytes[..]);
    Contestant::prepared(stream.replies, filled, move |mut buffer| {
        decode(&mut codec, &mut buffer)
    })
}

fn codec_torn(stream: &Stream) -> Contestant<'_> {
    let mut codec = ValueCodec::default();
    let mut buffer = BytesMut::new();
    Contestant::new(stream.replies, move || {
        let mut sum = 0;
        for piece in black_box(&stream.bytes).chunks(PIECE_BYTES) {
            buffer.extend_from_slice(piece);
            sum += decode(&mut codec, &mut buffer)?;
        }
        Ok(sum)
    })
}

fn decode(codec: &mut ValueCodec, buffer: &mut BytesMut) -> Result<u64, Failure> {
    let mut sum = 0;
    while let Some(value) = codec.decode(buffer)? {
        sum += weigh(&value);
    }
    Ok(sum)
}

/// A socket that gives no more than what is left of one piece at a time.
struct Pieces<'a> {
    rest: &'a [u8],
    piece: usize,
    left: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let most = room.len().min(self.left);
        let len = self.rest.read(&mut room[..most])?;
        self.left -= len;
        if self.left == 0 {
            self.left = self.piece;
        }
        Ok(len)
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "no stream has the others")]
fn weigh(value: &Value) -> u64 {
    match value {
        Value::Okay => 2,
        Value::SimpleString(text) => text.len() as u64,
        Value::BulkString(text) => text.len() as u64,
        Value::Int(integer) => *integer as u64,
        Value::Nil => 1,
        // It cuts the line at the first space.
        Value::ServerError(error) => {
            let details = error.details().map_or(0, |details| 1 + details.len());
            (error.code().len() + details) as u64
        }
        Value::Array(items) => items.iter().map(weigh).sum(),
        Value::Map(pairs) => {
            let weigh = |(key, value): &(Value, Value)| weigh(key) + weigh(value);
            pairs.iter().map(weigh).sum()
        }
        _ => 0,
    }
}
