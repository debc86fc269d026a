//! The answer of a decoder, in a form that all decoders share: values as text.
//!
//! Each type keeps the byte that it has on the wire, so that `+"a"` and `$"a"` are not the same. Doubles are exact, but
//! all NaNs are equal. The elements of maps and sets are sorted, because they have no order in the specification.
//! Attributes are left out, because our decoder skips them.

use std::fmt;

use redis_protocol::resp2::types::BytesFrame as Resp2Frame;
use redis_protocol::resp3::types::{BytesFrame as Resp3Frame, RespVersion, VerbatimStringFormat};
use shearline::resp::{Pairs, Value};

/// One of three answers of a decoder about the first reply of some bytes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Answer {
    /// A reply and how many bytes it took.
    Reply { text: String, len: usize },
    /// More bytes are needed.
    Torn,
    /// This is no reply.
    Refused,
}

impl Answer {
    /// Returns the answer of a decoder with the usual interface.
    pub(crate) fn of<F, E>(
        outcome: Result<Option<F>, E>,
        reply: impl FnOnce(F) -> (String, usize),
    ) -> Self {
        match outcome {
            Ok(Some(found)) => {
                let (text, len) = reply(found);
                Self::Reply { text, len }
            }
            Ok(None) => Self::Torn,
            Err(_) => Self::Refused,
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reply { text, len } => write!(f, "{text} in {len}"),
            Self::Torn => f.write_str("more"),
            Self::Refused => f.write_str("refused"),
        }
    }
}

/// Returns a string of any kind.
pub(crate) fn string(kind: char, bytes: &[u8]) -> String {
    format!("{kind}\"{}\"", bytes.escape_ascii())
}

pub(crate) fn verbatim(format: &[u8], text: &[u8]) -> String {
    format!("={}\"{}\"", format.escape_ascii(), text.escape_ascii())
}

pub(crate) fn double(value: f64) -> String {
    if value.is_nan() {
        ",nan".to_owned()
    } else {
        format!(",{value:?}")
    }
}

pub(crate) fn boolean(value: bool) -> String {
    (if value { "#t" } else { "#f" }).to_owned()
}

/// Returns an array or a push.
pub(crate) fn list(kind: char, items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<_> = items.into_iter().collect();
    format!("{kind}[{}]", items.join(" "))
}

/// Returns a set, a map or attributes.
pub(crate) fn bag(kind: char, items: impl IntoIterator<Item = String>) -> String {
    let mut items: Vec<_> = items.into_iter().collect();
    items.sort_unstable();
    list(kind, items)
}

pub(crate) fn pair(key: &str, value: &str) -> String {
    format!("{key}={value}")
}

/// Returns a value of our decoder.
pub(crate) fn ours(value: Value<'_>) -> String {
    match value {
        Value::Simple(text) => string('+', text),
        Value::Error(text) => string('-', text),
        Value::Integer(integer) => format!(":{integer}"),
        Value::Bulk(text) => string('$', text),
        Value::Null => "_".to_owned(),
        Value::Double(value) => double(value),
        Value::Boolean(value) => boolean(value),
        Value::BigNumber(digits) => string('(', digits),
        Value::BulkError(text) => string('!', text),
        Value::Verbatim { format, text } => verbatim(&format, text),
        Value::Array(items) => list('*', items.iter().map(ours)),
        Value::Map(pairs) => our_pairs(pairs),
        Value::Set(items) => bag('~', items.iter().map(ours)),
        Value::Push(items) => list('>', items.iter().map(ours)),
    }
}

fn our_pairs(pairs: Pairs<'_>) -> String {
    let pairs = pairs.iter();
    bag(
        '%',
        pairs.map(|(key, value)| pair(&ours(key), &ours(value))),
    )
}

/// Returns a RESP2 frame of the other crate.
pub(crate) fn resp2(frame: &Resp2Frame) -> String {
    match frame {
        Resp2Frame::SimpleString(text) => string('+', text),
        Resp2Frame::Error(text) => string('-', text.as_bytes()),
        Resp2Frame::Integer(integer) => format!(":{integer}"),
        Resp2Frame::BulkString(text) => string('$', text),
        Resp2Frame::Array(items) => list('*', items.iter().map(resp2)),
        Resp2Frame::Null => "_".to_owned(),
    }
}

/// Returns a RESP3 frame of the other crate, without its attributes.
pub(crate) fn resp3(frame: &Resp3Frame) -> String {
    match frame {
        Resp3Frame::BlobString { data, .. } => string('$', data),
        Resp3Frame::BlobError { data, .. } => string('!', data),
        Resp3Frame::SimpleString { data, .. } => string('+', data),
        Resp3Frame::SimpleError { data, .. } => string('-', data.as_bytes()),
        Resp3Frame::Boolean { data, .. } => boolean(*data),
        Resp3Frame::Null => "_".to_owned(),
        Resp3Frame::Number { data, .. } => format!(":{data}"),
        Resp3Frame::Double { data, .. } => double(*data),
        Resp3Frame::BigNumber { data, .. } => string('(', data),
        Resp3Frame::VerbatimString { data, format, .. } => {
            let format = match format {
                VerbatimStringFormat::Text => b"txt",
                VerbatimStringFormat::Markdown => b"mkd",
            };
            verbatim(format, data)
        }
        Resp3Frame::Array { data, .. } => list('*', data.iter().map(resp3)),
        Resp3Frame::Map { data, .. } => {
            let pairs = data.iter();
            bag(
                '%',
                pairs.map(|(key, value)| pair(&resp3(key), &resp3(value))),
            )
        }
        Resp3Frame::Set { data, .. } => bag('~', data.iter().map(resp3)),
        Resp3Frame::Push { data, .. } => list('>', data.iter().map(resp3)),
        Resp3Frame::Hello {
            version,
            auth,
            setname,
        } => {
            let version = match version {
                RespVersion::RESP2 => "2",
                RespVersion::RESP3 => "3",
            };
            let auth = auth
                .as_ref()
                .map(|(name, word)| format!(" AUTH {name} {word}"));
            let setname = setname.as_ref().map(|name| format!(" SETNAME {name}"));
            let hello = [
                version,
                &auth.unwrap_or_default(),
                &setname.unwrap_or_default(),
            ]
            .concat();
            string('H', hello.as_bytes())
        }
        Resp3Frame::ChunkedString(data) => string(';', data),
    }
}
