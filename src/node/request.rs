//! The questions to a node, and the forms that they are written in: types that all files of `node` use.
//!
//! This file imports none of the other files.

use core::fmt;
use core::time::Duration;

use crate::error::ServerError;
use crate::keys::{ClaimKey, OperationKey, PlaceKey};

/// A command to a node, and the operation or claim that it serves. Either may be gone when the reply arrives.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Request {
    /// Part of the handshake, or of teaching the scripts again.
    Handshake(Step),
    /// `SET` of a claim's token.
    Set {
        /// The claim.
        claim: ClaimKey,
    },
    /// The release of a claim's token.
    Release {
        /// The claim.
        claim: ClaimKey,
        /// The form of the command.
        dialect: Dialect,
        /// An earlier release failed, or its connection was lost. Until this one is answered, a key that was `SET`
        /// before it may stand.
        repair: bool,
    },
    /// A question about a lock.
    Question {
        /// The kind of question.
        question: Question,
        /// The operation that asks.
        operation: OperationKey,
        /// The claim of the token in question, if this engine has one.
        claim: Option<ClaimKey>,
    },
    /// The first `SET` on a connection, which is done only if the user has the permissions that the lock needs.
    FirstSet {
        /// The claim.
        claim: ClaimKey,
    },
    /// The script that takes a fenced lock for a claim.
    FencedSet {
        /// The claim.
        claim: ClaimKey,
    },
    /// Raises the counters of a claim's lock to its fencing token.
    Raise {
        /// The claim.
        claim: ClaimKey,
    },
    /// Makes the counter floor one of the present `run_id`.
    Floor {
        /// The operation that waits for the answer. `None` for a repair.
        operation: Option<OperationKey>,
    },
    /// Asks whether the counter floor belongs to the present `run_id`, and how high it is.
    LookAtFloor {
        /// The operation that asks.
        operation: OperationKey,
    },
    /// Asks how many counters of fencing tokens there are.
    Count {
        /// The operation that asks.
        operation: OperationKey,
    },
    /// A release before the `SET` of a claim, to see whether the user may run it. If the way is a script, it only asks
    /// whether scripts are run.
    Probe {
        /// The claim.
        claim: ClaimKey,
        /// The way of releasing.
        way: Dialect,
        /// All ways are tried, one behind the other.
        with_others: bool,
    },
    /// A command of the open transaction.
    Transaction,
    /// One script for the renewals behind it. Its answer has one item for each of them.
    Batch {
        /// The number of renewals.
        count: u8,
    },
    /// Asks which permission was missing when an extension or confirmation was refused.
    Why {
        /// The operation that asks.
        operation: OperationKey,
    },
    /// A withdrawn command. Its bytes are removed before any others are written.
    Withdrawn,
    /// Asks for the time of the server.
    Time,
    /// Asks for notifications of changed keys: once on a connection, and before each look.
    Track,
    /// Asks how long a key lives on, or which token it holds.
    Look {
        /// The place of the resource.
        place: PlaceKey,
        /// Whether it asks for the token.
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

    /// Returns `true` if the request asks about the lock of `claim`.
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
            // `Overwrite` changes the key whether the node counts or not.
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

/// A question about a lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Question {
    /// Keep the token at least for a ttl.
    Extend,
    /// How long does the node keep the token?
    Confirm,
    /// Which token of any client is under the name, and how long does the node keep it?
    Inspect,
    /// Replace the token by the [token of a broken lock](crate::resource::broken), and keep the expiry of the key.
    Overwrite,
}

/// The form in which a script or its native equivalent is sent to a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Dialect {
    /// By its digest.
    Sha1,
    /// By its whole text, because the node may have forgotten the script.
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
    /// Returns the command for which the user needs a permission, as ACL rules name it.
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
    /// `AUTH`, if `HELLO` is unknown.
    Auth,
    /// `CLIENT SETNAME`, if `HELLO` is unknown.
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
    /// `CONFIG GET`: whether the server loses nothing in a restart. Only with a strict guard.
    Durability,
    /// The marker: whether the node belongs to the cluster. Only with a strict guard.
    Join,
}

/// A script that a server is taught.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Taught {
    Release,
    Extend,
    /// Extends many locks at once.
    ExtendEach,
    /// The `SET` with a marker check.
    CheckedAcquire,
    CheckedExtend,
}

/// What is left of a key, by the answer of a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Remaining {
    /// There is no such key.
    Missing,
    /// It lives on for this time.
    For(Duration),
    /// It has no expiry.
    Permanent,
}

/// How a node wakes a waiter when a lock may be free.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Waking {
    /// The node was not asked yet: no caller has waited for a lock on this connection, and no lock was kept. Or the
    /// server was busy or loading when it was asked, and is asked again.
    #[default]
    Unasked,
    /// By a push, as soon as the lock is released.
    Push,
    /// It does not, because the connection speaks RESP2. The waiter looks from time to time.
    Resp2,
    /// It does not, because the server has refused `CLIENT TRACKING`, `CLIENT CACHING` or `PTTL` with this error. The
    /// waiter looks from time to time. If the error is `NOPERM`, grant the user `+client|tracking`, `+client|caching`
    /// and `+pttl`.
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
