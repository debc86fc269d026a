//! In which way a node releases locks, for operators.

use core::fmt;

use super::permission::Shown;
use super::{Dialect, Node};

/// How a node releases a lock: by a script, or by a command of its own.
///
/// It is found by what the node answers, so it is not known before the first lock of a connection.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum ReleaseWay {
    /// No lock was taken on this connection, or nothing permits its release. Locks on several resources, and those
    /// with a [fencing token](crate::LockOptions::fenced), do not show it.
    #[default]
    Unasked,
    /// By a script: `EVALSHA` or `EVAL`.
    Script,
    /// By `DELIFEQ` (Valkey 9).
    DelIfEq,
    /// By `DELEX .. IFEQ` (Redis 8.4).
    DelEx,
    /// By a `SET .. IFEQ` that ends in the past (Valkey 8.1).
    SetIfEq,
    /// By `WATCH`, `GET`, `MULTI` and `EXEC`: two round trips.
    Transaction,
}

impl fmt::Display for ReleaseWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unasked => "no lock was taken yet",
            Self::Script => "by a script",
            Self::DelIfEq => "by DELIFEQ",
            Self::DelEx => "by DELEX",
            Self::SetIfEq => "by SET IFEQ",
            Self::Transaction => "by a transaction",
        })
    }
}

impl Node {
    /// Returns in which way it releases locks, as far as that was shown on this connection.
    pub(crate) fn releasing(&self) -> ReleaseWay {
        let native = match self.permissions.shown {
            Shown::Nothing => return ReleaseWay::Unasked,
            Shown::Native | Shown::Scripts => self.native_release(),
        };
        match native {
            Some(Dialect::DelIfEq) => ReleaseWay::DelIfEq,
            Some(Dialect::DelEx) => ReleaseWay::DelEx,
            Some(Dialect::SetIfEq) => ReleaseWay::SetIfEq,
            Some(Dialect::Watch) => ReleaseWay::Transaction,
            Some(Dialect::Sha1 | Dialect::Text) | None => ReleaseWay::Script,
        }
    }
}
