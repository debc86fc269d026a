//! What a decoder answers, in a form that is common to all of them: values as text.
//!
//! Each type keeps the byte that it has on the wire, so that `+"a"` and `$"a"` are not the same.
//! Doubles are exact, but one NaN is like another. The elements of maps, sets and attributes are
//! sorted: none of them has an order by the specification.

use std::fmt;

use redis_protocol::resp2::types::BytesFrame as Resp2Frame;
use redis_protocol::resp3::types::{
    BytesAttributes, BytesFrame as Resp3Frame, RespVersion, VerbatimStringFormat,
};
use shearline::internals::resp::OwnedValue;

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
    /// The answer of a decoder that speaks in the usual manner.
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

/// A string of any kind.
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

/// An array or a push.
pub(crate) fn list(kind: char, items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<_> = items.into_iter().collect();
    format!("{kind}[{}]", items.join(" "))
}

/// A set, a map or attributes.
pub(crate) fn bag(kind: char, items: impl IntoIterator<Item = String>) -> String {
    let mut items: Vec<_> = items.into_iter().collect();
    items.sort_unstable();
    list(kind, items)
}

pub(crate) fn pair(key: &str, value: &str) -> String {
    format!("{key}={value}")
}

/// A value with the attributes in front of it.
pub(crate) fn attributed(attributes: &str, value: &str) -> String {
    format!("{attributes} {value}")
}

/// A value of ours.
pub(crate) fn ours(value: &OwnedValue) -> String {
    match value {
        OwnedValue::Simple(text) => string('+', text),
        OwnedValue::Error(text) => string('-', text),
        OwnedValue::Integer(integer) => format!(":{integer}"),
        OwnedValue::Bulk(text) => string('$', text),
        OwnedValue::Null => "_".to_owned(),
        OwnedValue::Double(value) => double(*value),
        OwnedValue::Boolean(value) => boolean(*value),
        OwnedValue::BigNumber(digits) => string('(', digits),
        OwnedValue::BulkError(text) => string('!', text),
        OwnedValue::Verbatim { format, text } => verbatim(format, text),
        OwnedValue::Array(items) => list('*', items.iter().map(ours)),
        OwnedValue::Map(pairs) => our_pairs('%', pairs),
        OwnedValue::Set(items) => bag('~', items.iter().map(ours)),
        OwnedValue::Push(items) => list('>', items.iter().map(ours)),
        OwnedValue::Attributed(pairs, value) => attributed(&our_pairs('|', pairs), &ours(value)),
    }
}

fn our_pairs(kind: char, pairs: &[(OwnedValue, OwnedValue)]) -> String {
    let pairs = pairs
        .iter()
        .map(|(key, value)| pair(&ours(key), &ours(value)));
    bag(kind, pairs)
}

/// A frame of the other crate's RESP2.
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

/// A frame of the other crate's RESP3.
pub(crate) fn resp3(frame: &Resp3Frame) -> String {
    let (attributes, value) = match frame {
        Resp3Frame::BlobString { data, attributes } => (attributes, string('$', data)),
        Resp3Frame::BlobError { data, attributes } => (attributes, string('!', data)),
        Resp3Frame::SimpleString { data, attributes } => (attributes, string('+', data)),
        Resp3Frame::SimpleError { data, attributes } => (attributes, string('-', data.as_bytes())),
        Resp3Frame::Boolean { data, attributes } => (attributes, boolean(*data)),
        Resp3Frame::Null => (&None, "_".to_owned()),
        Resp3Frame::Number { data, attributes } => (attributes, format!(":{data}")),
        Resp3Frame::Double { data, attributes } => (attributes, double(*data)),
        Resp3Frame::BigNumber { data, attributes } => (attributes, string('(', data)),
        Resp3Frame::VerbatimString {
            data,
            format,
            attributes,
        } => {
            let format = match format {
                VerbatimStringFormat::Text => b"txt",
                VerbatimStringFormat::Markdown => b"mkd",
            };
            (attributes, verbatim(format, data))
        }
        Resp3Frame::Array { data, attributes } => (attributes, list('*', data.iter().map(resp3))),
        Resp3Frame::Map { data, attributes } => (attributes, resp3_pairs('%', data)),
        Resp3Frame::Set { data, attributes } => (attributes, bag('~', data.iter().map(resp3))),
        Resp3Frame::Push { data, attributes } => (attributes, list('>', data.iter().map(resp3))),
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
            (&None, string('H', hello.as_bytes()))
        }
        Resp3Frame::ChunkedString(data) => (&None, string(';', data)),
    };
    match attributes {
        None => value,
        Some(pairs) => attributed(&resp3_pairs('|', pairs), &value),
    }
}

fn resp3_pairs(kind: char, pairs: &BytesAttributes) -> String {
    bag(
        kind,
        pairs
            .iter()
            .map(|(key, value)| pair(&resp3(key), &resp3(value))),
    )
}
