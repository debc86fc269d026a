//! What a node is asked, and how that is written: types that all files of `node` use.
//!
//! This file imports none of the others.

use core::fmt;
use core::time::Duration;

use crate::error::ServerError;
use crate::keys::{ClaimKey, OperationKey, PlaceKey};

/// What a command asks of a node, and for which operation or claim. Either may be gone by the time
/// the reply comes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Request {
    /// Part of the handshake, or of teaching the scripts again.
    Handshake(Step),
    /// `SET` of a claim's token.
    Set {
        /// Whose token.
        claim: ClaimKey,
    },
    /// The release of a claim's token.
    Release {
        /// Whose token.
        claim: ClaimKey,
        /// How it was written.
        dialect: Dialect,
        /// An earlier one came to nothing, or its connection was lost: what was `SET` before it
        /// may stand until it is answered.
        repair: bool,
    },
    /// A question about a lock.
    Question {
        /// Which.
        question: Question,
        /// Who asks.
        operation: OperationKey,
        /// About whose token, if that is in the engine's care.
        claim: Option<ClaimKey>,
    },
    /// The first `SET` on a connection, done only if the user may do what the lock needs.
    FirstSet {
        /// Whose token.
        claim: ClaimKey,
    },
    /// The script that takes a claim's lock with a fencing token.
    FencedSet {
        /// Whose token.
        claim: ClaimKey,
    },
    /// The counters of a claim's lock are to be raised to its fencing token.
    Raise {
        /// Whose lock.
        claim: ClaimKey,
    },
    /// The floor of fencing tokens is to be one of the present `run_id`.
    Floor {
        /// Who waits for the answer: nobody, if it is repaired.
        operation: Option<OperationKey>,
    },
    /// Whether the floor is one of the present `run_id`, and how high.
    LookAtFloor {
        /// Who asks.
        operation: OperationKey,
    },
    /// How many counters of fencing tokens there are.
    Count {
        /// Who asks.
        operation: OperationKey,
    },
    /// A release before the `SET` of a claim: whether the user may run it. By a script, that asks only whether it is
    /// run.
    Probe {
        /// Whose token.
        claim: ClaimKey,
        /// Which release.
        way: Dialect,
        /// All ways are tried, one behind the other.
        with_others: bool,
    },
    /// A command of the transaction that is open.
    Transaction,
    /// The renewals behind it, which one script does. Its answer has one for each of them.
    Batch {
        /// How many.
        count: u8,
    },
    /// Which permission was missing when an extension or confirmation was refused.
    Why {
        /// Who asks.
        operation: OperationKey,
    },
    /// One that was withdrawn. Its bytes are removed before any is written.
    Withdrawn,
    /// The question for the time of the server.
    Time,
    /// That changes of keys are to be told: once on a connection, and before each look.
    Track,
    /// What is left of a key, or which token is in it.
    Look {
        /// Of which resource.
        place: PlaceKey,
        /// The token.
        holder: bool,
    },
}

impl Request {
    pub(super) const fn is_set(self) -> bool {
        matches!(
            self,
            Self::Set { .. } | Self::FirstSet { .. } | Self::FencedSet { .. }
        )
    }

    /// Returns `true` if it asks about the lock of `claim`.
    pub(super) fn is_about(self, claim: ClaimKey) -> bool {
        matches!(self, Self::Question { claim: Some(about), .. } if about == claim)
    }

    /// Returns `true` if a vote depends on the answer, and so on the clock of the server.
    pub(crate) const fn is_question(self) -> bool {
        match self {
            Self::Set { .. }
            | Self::FirstSet { .. }
            | Self::FencedSet { .. }
            | Self::Raise { .. } => true,
            // It changes the key whether it counts or not.
            Self::Question { question, .. } => !matches!(question, Question::Overwrite),
            Self::Handshake(_)
            | Self::Floor { .. }
            | Self::LookAtFloor { .. }
            | Self::Count { .. }
            | Self::Release { .. }
            | Self::Probe { .. }
            | Self::Transaction
            | Self::Batch { .. }
            | Self::Withdrawn
            | Self::Why { .. }
            | Self::Time
            | Self::Track
            | Self::Look { .. } => false,
        }
    }
}

/// What a node is asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Question {
    /// To keep the token for a ttl at least.
    Extend,
    /// For how long it keeps the token.
    Confirm,
    /// Which token it has under the name, of any client, and for how long.
    Inspect,
    /// To have the [token of a broken lock](crate::resource::broken) in place of the token, for as long as the key lives.
    Overwrite,
}

/// How a script or its native equivalent is sent to a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Dialect {
    /// By the digest.
    Sha1,
    /// By the whole text: the node may have forgotten the script.
    Text,
    /// By a native compare-and-delete: `DELIFEQ` (Valkey 9). For releases only.
    DelIfEq,
    /// By a native compare-and-delete: `DELEX .. IFEQ` (Redis 8.4). For releases only.
    DelEx,
    /// By a `SET .. IFEQ` that ends in the past (Valkey 8.1). For releases only.
    SetIfEq,
    /// By a transaction. For releases only.
    Watch,
}

impl Dialect {
    /// Returns the command that the user needs a permission for, as ACL rules name it.
    pub(crate) const fn verb(self) -> &'static str {
        match self {
            Self::Sha1 => "evalsha",
            Self::Text => "eval",
            Self::DelIfEq => "delifeq",
            Self::DelEx => "delex",
            Self::SetIfEq => "set",
            Self::Watch => "watch",
        }
    }
}

/// One question of the handshake.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    /// `HELLO 3 [AUTH user password] [SETNAME name]`.
    Hello,
    /// `AUTH`, where `HELLO` is unknown.
    Auth,
    /// `CLIENT SETNAME`, where `HELLO` is unknown.
    SetName,
    /// `SELECT`.
    Select,
    /// `INFO server`: run id, mode.
    Server,
    /// `INFO replication`: role, replication id.
    Replication,
    /// `INFO memory`: whether keys may be evicted.
    Memory,
    /// `SCRIPT LOAD`.
    Load(Taught),
    /// `CONFIG GET`: whether the server loses nothing in a restart. With a strict guard alone.
    Durability,
    /// The marker: whether the node is one of the cluster. With a strict guard alone.
    Join,
}

/// A script that a server is taught.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Taught {
    Release,
    Extend,
    /// Many of them at once.
    ExtendEach,
    /// The `SET` with a marker check.
    CheckedAcquire,
    CheckedExtend,
}

/// What a node says is left of a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Remaining {
    /// There is no such key.
    Missing,
    /// It lives for so much longer.
    For(Duration),
    /// It has no end.
    Permanent,
}

/// How a node tells a waiter that a lock may be free.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Waking {
    /// No caller has waited for a lock on this connection yet, and none was kept, or the server was
    /// busy or loading when it was asked: it is asked again.
    #[default]
    Unasked,
    /// By a push, as soon as the lock is released.
    Push,
    /// It does not: the waiter looks from time to time, because the connection speaks RESP2.
    Resp2,
    /// It does not: the waiter looks from time to time, because the server has refused
    /// `CLIENT TRACKING`, `CLIENT CACHING` or `PTTL` with this error. With `NOPERM`, grant the user
    /// `+client|tracking`, `+client|caching` and `+pttl`.
    Refused(ServerError),
}

impl fmt::Display for Waking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unasked => f.write_str("not asked to tell of releases yet"),
            Self::Push => f.write_str("tells of releases"),
            Self::Resp2 => f.write_str("cannot tell of releases over RESP2"),
            Self::Refused(error) => write!(
                f,
                "does not tell of releases ({error}; the user needs +client|tracking, \
                 +client|caching and +pttl)"
            ),
        }
    }
}
