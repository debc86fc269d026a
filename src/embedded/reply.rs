//! The answers to commands, and their encoding in both protocols.

use alloc::string::String;
use alloc::vec::Vec;

use crate::resp::write;

use super::refusal::Refusal;

/// The answer to a command.
pub(super) type Answer = Result<Reply, Refusal>;

/// A reply. The reply to `EXEC` contains the replies to the queued commands, which never include `EXEC`.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Reply {
    Simple(&'static str),
    Error(Refusal),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    /// A null in place of an array.
    NullArray,
    /// A text that is meant for people.
    Text(String),
    Array(Vec<Self>),
    /// Names and values.
    Map(Vec<(&'static str, Self)>),
}

impl Reply {
    pub(super) fn bulk(bytes: &[u8]) -> Self {
        Self::Bulk(bytes.to_vec())
    }

    pub(super) fn array(items: impl IntoIterator<Item = Self>) -> Self {
        Self::Array(items.into_iter().collect())
    }

    /// Appends the reply as a client receives it, in RESP2 or RESP3.
    pub(super) fn write(&self, resp2: bool, out: &mut Vec<u8>) {
        match self {
            Self::Simple(text) => write::simple(out, text.as_bytes()),
            Self::Error(refusal) => write::error(out, refusal.line()),
            Self::Integer(number) => write::integer(out, *number),
            Self::Bulk(bytes) => write::bulk(out, bytes),
            Self::Null if resp2 => write::null_resp2(out),
            Self::NullArray if resp2 => out.extend_from_slice(b"*-1\r\n"),
            Self::Null | Self::NullArray => write::null(out),
            Self::Text(text) if resp2 => write::bulk(out, text.as_bytes()),
            Self::Text(text) => write::verbatim(out, *b"txt", text.as_bytes()),
            Self::Array(items) => {
                write::array(out, items.len());
                items.iter().for_each(|item| item.write(resp2, out));
            }
            Self::Map(pairs) => {
                match resp2 {
                    true => write::array(out, pairs.len() * 2),
                    false => write::map(out, pairs.len()),
                }
                for (name, value) in pairs {
                    write::bulk(out, name.as_bytes());
                    value.write(resp2, out);
                }
            }
        }
    }
}
