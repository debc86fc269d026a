//! What a reply to a lock command means.
//!
//! Errors are told apart by their first word only, because servers echo arguments behind it. The
//! classes are measured ones (redis-server 7): what refuses *for certain* was not executed and
//! leaves nothing to undo; everything else may have been, and has to be released.

use crate::error::ServerError;
use crate::resp::Value;

/// A reply to a lock command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Reply {
    /// `+OK`.
    Ok,
    /// A null of either protocol.
    Nil,
    /// `:n`.
    Integer(i64),
    /// `-CODE ..`.
    Error(ServerError),
    /// Something that no lock command is answered with.
    Other,
}

impl Reply {
    pub(crate) fn of(value: Value<'_>) -> Self {
        match value {
            Value::Simple(b"OK") => Self::Ok,
            Value::Null => Self::Nil,
            Value::Integer(integer) => Self::Integer(integer),
            Value::Error(line) | Value::BulkError(line) => {
                Self::Error(ServerError::from_line(line))
            }
            Value::Simple(_)
            | Value::Bulk(_)
            | Value::Double(_)
            | Value::Boolean(_)
            | Value::BigNumber(_)
            | Value::Verbatim { .. }
            | Value::Array(_)
            | Value::Map(_)
            | Value::Set(_)
            | Value::Push(_) => Self::Other,
        }
    }
}

/// Whether a command that was answered by this error was certainly not executed.
pub(crate) fn refuses_for_certain(error: ServerError) -> bool {
    matches!(
        error.code(),
        "LOADING"
            | "BUSY"
            | "OOM"
            | "MISCONF"
            | "READONLY"
            | "MASTERDOWN"
            | "NOREPLICAS"
            | "NOAUTH"
            | "WRONGPASS"
            | "NOPERM"
            | "NOSCRIPT"
            | "MOVED"
            | "ASK"
            | "CLUSTERDOWN"
            | "CROSSSLOT"
            | "TRYAGAIN"
            | "DENIED"
    )
}

/// Whether this error says that the script is not known by its digest.
pub(crate) fn wants_the_text(error: ServerError) -> bool {
    error.code() == "NOSCRIPT"
}

/// Whether this error says that the command itself is unknown or forbidden, and not only refused
/// for the time being.
pub(crate) fn refuses_the_verb(error: ServerError) -> bool {
    matches!(error.code(), "ERR" | "NOPERM")
}

/// Whether this error says that the key holds another type, so not our token.
pub(crate) fn is_wrong_type(error: ServerError) -> bool {
    error.code() == "WRONGTYPE"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_decides() {
        for (line, certain) in [
            ("LOADING Redis is loading the dataset in memory", true),
            (
                "OOM command not allowed when used memory > 'maxmemory'.",
                true,
            ),
            (
                "READONLY You can't write against a read only replica.",
                true,
            ),
            (
                "NOPERM this user has no permissions to access one of the keys",
                true,
            ),
            ("ERR value is not an integer or out of range", false),
            (
                "ERR The user executing the script can't run this command",
                false,
            ),
            ("LOADINGX", false),
            ("loading", false),
            ("", false),
        ] {
            let error = ServerError::from_line(line.as_bytes());
            assert_eq!(refuses_for_certain(error), certain, "{line}");
        }
        assert!(wants_the_text(ServerError::from_line(
            b"NOSCRIPT No matching script."
        )));
        assert!(is_wrong_type(ServerError::from_line(
            b"WRONGTYPE Operation against"
        )));
    }
}
