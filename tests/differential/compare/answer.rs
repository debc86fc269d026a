//! The answer of each decoder, in a form that all of them share.

use std::fmt;

use redis_protocol::bytes::Bytes;
use redis_protocol::resp2::types::BytesFrame as Resp2Frame;
use redis_protocol::resp3::types::{BytesFrame as Resp3Frame, VerbatimStringFormat};
use redis_protocol::{resp2, resp3};
use shearline::internals::resp::{Decoder, Limits, Value};

/// One of three answers of a decoder about the first reply of some bytes.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// A reply and how many bytes it took. Each type keeps the byte that it has on the wire. Attributes are left out,
    /// because our decoder skips them.
    Reply { text: String, len: usize },
    /// More bytes are needed.
    Torn,
    /// This is no reply. Only our decoder says at which byte.
    Refused { at: usize },
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reply { text, len } => write!(f, "{text} in {len}"),
            Self::Torn => f.write_str("more"),
            Self::Refused { .. } => f.write_str("refused"),
        }
    }
}

fn string(kind: char, bytes: &[u8]) -> String {
    format!("{kind}\"{}\"", bytes.escape_ascii())
}

fn verbatim(format: &[u8], text: &[u8]) -> String {
    string('=', &[format, b":", text].concat())
}

/// Doubles are exact, but all NaNs are equal.
fn double(value: f64) -> String {
    let value = if value.is_nan() { f64::NAN } else { value };
    format!(",{value:?}")
}

/// Returns an aggregate of these elements or pairs. Those of sets and maps are sorted, because they have no order.
fn all(kind: char, items: impl Iterator<Item = String>) -> String {
    let mut items: Vec<_> = items.collect();
    if "~%".contains(kind) {
        items.sort_unstable();
    }
    format!("{kind}[{}]", items.join(" "))
}

/// The two decoders of the other crate. Our decoder is the same for both.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Dialect {
    Resp2,
    Resp3,
}

impl Dialect {
    pub(crate) const ALL: [Self; 2] = [Self::Resp2, Self::Resp3];

    /// Returns the answer of the other decoder about the first reply of `bytes`.
    pub(crate) fn theirs(self, bytes: &[u8]) -> Answer {
        let bytes = Bytes::copy_from_slice(bytes);
        let decoded = match self {
            Self::Resp2 => resp2::decode::decode_bytes(&bytes)
                .map(|found| found.map(|(frame, len)| (of_resp2(&frame), len))),
            Self::Resp3 => resp3::decode::complete::decode_bytes(&bytes)
                .map(|found| found.map(|(frame, len)| (of_resp3(&frame), len))),
        };
        match decoded {
            Ok(Some((text, len))) => Answer::Reply { text, len },
            Ok(None) => Answer::Torn,
            Err(_) => Answer::Refused { at: 0 },
        }
    }
}

/// Returns our decoder's answer about the first reply of `bytes`.
pub(crate) fn ours(bytes: &[u8]) -> Answer {
    match Decoder::new(Limits::default()).decode(bytes) {
        Ok(Some(frame)) => Answer::Reply {
            text: of_ours(frame.value),
            len: frame.len,
        },
        Ok(None) => Answer::Torn,
        Err(error) => Answer::Refused { at: error.at },
    }
}

fn of_ours(value: Value<'_>) -> String {
    match value {
        Value::Simple(text) => string('+', text),
        Value::Error(text) => string('-', text),
        Value::Integer(integer) => format!(":{integer}"),
        Value::Bulk(text) => string('$', text),
        Value::Null => "_".to_owned(),
        Value::Double(value) => double(value),
        Value::Boolean(value) => format!("#{value}"),
        Value::BigNumber(digits) => string('(', digits),
        Value::BulkError(text) => string('!', text),
        Value::Verbatim { format, text } => verbatim(&format, text),
        Value::Array(items) => all('*', items.iter().map(of_ours)),
        Value::Map(pairs) => {
            let pairs = pairs
                .iter()
                .map(|(key, value)| of_ours(key) + " " + &of_ours(value));
            all('%', pairs)
        }
        Value::Set(items) => all('~', items.iter().map(of_ours)),
        Value::Push(items) => all('>', items.iter().map(of_ours)),
    }
}

fn of_resp2(frame: &Resp2Frame) -> String {
    match frame {
        Resp2Frame::SimpleString(text) => string('+', text),
        Resp2Frame::Error(text) => string('-', text.as_bytes()),
        Resp2Frame::Integer(integer) => format!(":{integer}"),
        Resp2Frame::BulkString(text) => string('$', text),
        Resp2Frame::Array(items) => all('*', items.iter().map(of_resp2)),
        Resp2Frame::Null => "_".to_owned(),
    }
}

fn of_resp3(frame: &Resp3Frame) -> String {
    match frame {
        Resp3Frame::BlobString { data, .. } => string('$', data),
        Resp3Frame::BlobError { data, .. } => string('!', data),
        Resp3Frame::SimpleString { data, .. } => string('+', data),
        Resp3Frame::SimpleError { data, .. } => string('-', data.as_bytes()),
        Resp3Frame::Boolean { data, .. } => format!("#{data}"),
        Resp3Frame::Null => "_".to_owned(),
        Resp3Frame::Number { data, .. } => format!(":{data}"),
        Resp3Frame::Double { data, .. } => double(*data),
        Resp3Frame::BigNumber { data, .. } => string('(', data),
        Resp3Frame::VerbatimString { data, format, .. } => match format {
            VerbatimStringFormat::Text => verbatim(b"txt", data),
            VerbatimStringFormat::Markdown => verbatim(b"mkd", data),
        },
        Resp3Frame::Array { data, .. } => all('*', data.iter().map(of_resp3)),
        Resp3Frame::Map { data, .. } => {
            let pairs = data
                .iter()
                .map(|(key, value)| of_resp3(key) + " " + &of_resp3(value));
            all('%', pairs)
        }
        Resp3Frame::Set { data, .. } => all('~', data.iter().map(of_resp3)),
        Resp3Frame::Push { data, .. } => all('>', data.iter().map(of_resp3)),
        // Our decoder has neither of these.
        Resp3Frame::Hello { .. } => string('H', b""),
        Resp3Frame::ChunkedString(data) => string(';', data),
    }
}
