//! The questions to a node, and the forms of their commands. All files of `node` use these types.
//!
//! This file imports no other file of `node`.

use core::fmt;
use core::time::Duration;

use crate::error::ServerError;
use crate::keys::{ClaimKey, OperationKey, PlaceKey};

/// The purpose of a command to a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Purpose {
    /// A claim or an operation has sent the command.
    Asked(Request),
    /// The command belongs to the handshake, or loads the scripts again.
    Handshake(Step),
    /// The command belongs to the open transaction.
    Transaction,
    /// The command is a batch: one script that does all the renewals or releases that follow it. The answer to this
    /// script has one item for each renewal or release.
    Batch {
        /// The number of renewals or releases.
        count: u8,
        /// Whether the batch consists of releases.
        releases: bool,
    },
    /// The command was withdrawn. The bytes of the command are removed before any other bytes are written.
    Withdrawn,
    /// Asks for the time of the server.
    Time,
    /// Asks for notifications of changed keys, once per connection and before each [`Look`](Self::Look).
    Track,
    /// Records the intent of a caller that waits for an exclusive lock, or removes a permit's token from a wrong slot.
    /// Nothing depends on the answer.
    Aside,
    /// Asks how much longer the key of the resource lives.
    Look {
        /// Identifies the resource in the engine's queues.
        place: PlaceKey,
    },
}

// The size of a `Purpose` matters, because every command in flight has one.
const _: () = assert!(size_of::<Purpose>() == size_of::<Request>());

impl Purpose {
    /// Returns the request, if a claim or an operation sent the command.
    pub(super) const fn request(self) -> Option<Request> {
        match self {
            Self::Asked(request) => Some(request),
            Self::Handshake(_)
            | Self::Transaction
            | Self::Batch { .. }
            | Self::Withdrawn
            | Self::Time
            | Self::Track
            | Self::Aside
            | Self::Look { .. } => None,
        }
    }
}

/// A question to a node, and the operation or claim that asks it. The operation or claim may no longer exist when the
/// reply arrives.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Request {
    /// Takes the keys of a claim.
    Take {
        /// The claim that takes the keys.
        claim: ClaimKey,
        /// The form of the command.
        by: Taking,
    },
    /// The release of a claim's token.
    Release {
        /// The claim whose token is released.
        claim: ClaimKey,
        /// The form of the command.
        by: Dialect,
        /// `true` if the nodes load the script of this release, or if a native command replaces it. If this is `false`,
        /// the release may have deleted some of the keys even if its answer says otherwise.
        is_taught: bool,
        /// Whether an earlier release failed, or was unanswered when its connection ended. Until the node has answered
        /// this release, it may still have a key from a `SET` that was sent before the release.
        repair: bool,
    },
    /// A question about a lock.
    Question {
        /// The kind of question.
        question: Question,
        /// The operation that asks the question.
        operation: OperationKey,
        /// The claim of the token, if the token belongs to this engine.
        claim: Option<ClaimKey>,
        /// The form of the command.
        by: Dialect,
    },
    /// Raises the counters of a claim's resources to the claim's fencing token.
    Raise {
        /// The claim with the fencing token.
        claim: ClaimKey,
    },
    /// Binds the counter floor to the current `run_id`.
    Floor {
        /// The operation that waits for the answer. `None` if the request is part of a repair.
        operation: Option<OperationKey>,
    },
    /// Asks whether the counter floor belongs to the current `run_id`, and how high it is.
    LookAtFloor {
        /// The operation that asks the question.
        operation: OperationKey,
    },
    /// Asks for the number of fencing-token counters, or for the names of locks.
    Scan {
        /// The operation that asks the question.
        operation: OperationKey,
        /// Whether the node must list the locks instead of counting the counters.
        names: bool,
    },
    /// Sends a release before the `SET` of a claim, to check whether the user may release the lock. If the way is a
    /// script, the command only checks whether the node runs scripts.
    Probe {
        /// The claim whose `SET` follows.
        claim: ClaimKey,
        /// The way to release the lock.
        way: Dialect,
        /// Whether all other ways to release a lock are tried too.
        with_others: bool,
    },
    /// Asks which permission was missing when the node refused an extension or confirmation.
    Why {
        /// The operation that asks the question.
        operation: OperationKey,
    },
    /// Asks for the token in the key of the resource.
    Name {
        /// Identifies the resource in the engine's queues.
        place: PlaceKey,
    },
}

impl Request {
    pub(super) const fn takes(self) -> bool {
        matches!(self, Self::Take { .. })
    }

    /// Returns `true` if the request takes the keys of `claim`.
    pub(super) fn takes_for(self, claim: ClaimKey) -> bool {
        matches!(self, Self::Take { claim: of, .. } if of == claim)
    }

    /// Returns `true` if the request asks about the lock of `claim`.
    pub(super) fn is_about(self, claim: ClaimKey) -> bool {
        matches!(self, Self::Question { claim: Some(about), .. } if about == claim)
    }

    /// Returns `true` if the answer counts as a vote. Before a request whose answer counts, the clock watch may ask for
    /// the server's time.
    pub(crate) const fn is_question(self) -> bool {
        match self {
            Self::Take { .. } | Self::Raise { .. } => true,
            // `Overwrite` must also change the key on nodes that may not vote, so it does not ask for a vote.
            Self::Question { question, .. } => !matches!(question, Question::Overwrite),
            Self::Floor { .. }
            | Self::LookAtFloor { .. }
            | Self::Scan { .. }
            | Self::Release { .. }
            | Self::Probe { .. }
            | Self::Why { .. }
            | Self::Name { .. } => false,
        }
    }
}

/// The claim or operation that sent a command, and may withdraw it. Each asker has at most one open question on a node.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Asker {
    /// A claim whose keys are being taken.
    Claim(ClaimKey),
    /// An operation that asks about a lock.
    Operation(OperationKey),
}

impl Asker {
    /// Returns the asker that may withdraw `request`, if there is one.
    pub(super) const fn of(request: Request) -> Option<Self> {
        match request {
            Request::Take { claim, .. } => Some(Self::Claim(claim)),
            Request::Question { operation, .. } => Some(Self::Operation(operation)),
            Request::Raise { .. }
            | Request::Floor { .. }
            | Request::LookAtFloor { .. }
            | Request::Scan { .. }
            | Request::Release { .. }
            | Request::Probe { .. }
            | Request::Why { .. }
            | Request::Name { .. } => None,
        }
    }

    /// Returns `true` if this asker may withdraw a command with this `purpose`.
    pub(super) fn asks(self, purpose: Purpose) -> bool {
        purpose.request().and_then(Self::of) == Some(self)
    }
}

/// The command that takes a lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Taking {
    /// `SET`.
    Set,
    /// A script that does the same as `SET`, and also checks a marker.
    Checked {
        /// The form of the command.
        by: Dialect,
    },
    /// A script for the first lock on a connection. The script takes the key only if the user may release it.
    First,
    /// A script that is always sent as text, and checks the permissions itself.
    Untaught,
    /// A script that adds the token to a sorted set. If this script is sent as text, it checks the permissions itself.
    Member {
        /// The form of the command.
        by: Dialect,
    },
    /// A script that returns a fencing token.
    Fenced {
        /// The form of the command.
        by: Dialect,
    },
    /// A transaction, used for locks on several resources.
    Watch,
}

/// A question about a lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Question {
    /// Keep the token for at least this ttl.
    Extend,
    /// Ask how much longer the node keeps the token.
    Confirm,
    /// Ask which client's token the key contains, and how much longer the node keeps it.
    Inspect,
    /// Replace the token with the [token of a broken lock](crate::resource::broken), and keep the expiry of the key.
    Overwrite,
    /// Move the permit to the slot of its entry, and keep the deadline of the permit. The
    /// answer [`Reply::Foreign`](super::Reply) means that another client has the slot.
    Move,
}

/// The form in which a script, or its native equivalent, is sent to a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Dialect {
    /// The script is sent by its digest.
    Sha1,
    /// The script is sent as text, because the node may have forgotten it.
    Text,
    /// The native compare-and-delete `DELIFEQ` of Valkey 9 replaces the script. Only releases use this form.
    DelIfEq,
    /// The native compare-and-delete `DELEX` with `IFEQ` of Redis 8.4 replaces the script. Only releases use this form.
    DelEx,
    /// A `SET` with `IFEQ` and an expiry in the past (Valkey 8.1) replaces the script. Only releases use this form.
    SetIfEq,
    /// A transaction replaces the script.
    Watch,
    /// The script is sent as text, and has no other form for a node that runs no scripts.
    TextOnly,
}

impl Dialect {
    /// Returns `true` if the form is a script.
    pub(crate) const fn is_script(self) -> bool {
        matches!(self, Self::Sha1 | Self::Text | Self::TextOnly)
    }

    /// Returns the name that ACL rules use for the command of this form.
    pub(crate) const fn verb(self) -> &'static str {
        match self {
            Self::Sha1 => "evalsha",
            Self::Text | Self::TextOnly => "eval",
            Self::DelIfEq => "delifeq",
            Self::DelEx => "delex",
            Self::SetIfEq => "set",
            Self::Watch => "watch",
        }
    }
}

/// One command of the handshake.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    /// `HELLO 3 [AUTH user password] [SETNAME name]`.
    Hello,
    /// `AUTH`, if the server does not know `HELLO`.
    Auth,
    /// `CLIENT SETNAME`, if the server does not know `HELLO`.
    SetName,
    /// `SELECT`.
    Select,
    /// `INFO server`, for the run id and the mode.
    Server,
    /// `INFO replication`, for the role and the replication id.
    Replication,
    /// `INFO memory`, which shows whether the server may evict keys.
    Memory,
    /// `SCRIPT LOAD`.
    Load(Taught),
    /// `CONFIG GET`, which shows whether the server loses no data in a restart. Only a strict guard uses this command.
    Durability,
    /// The script that reads the marker and says whether the node belongs to the group. Only a strict guard uses this
    /// script.
    Join,
}

/// A script that a server loads in the handshake.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Taught {
    Release,
    Extend,
    /// A script that extends many locks at once.
    ExtendEach,
    /// A script that releases many locks at once.
    ReleaseEach,
    /// A script that does the same as `SET`, and also checks a marker.
    CheckedAcquire,
    CheckedExtend,
}

/// How much longer a key lives, as a node reports it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Remaining {
    /// The key does not exist.
    Missing,
    /// The key lives for the given time.
    For(Duration),
    /// The key has no expiry.
    Permanent,
}

/// How a node wakes a waiter when a lock may be free.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Waking {
    /// The node was not asked for notifications yet, because no caller has waited for a lock on this connection and no
    /// lock was kept. The value is also `Unasked` if the server was busy or loading when it was asked, and will be
    /// asked again.
    #[default]
    Unasked,
    /// The node sends a push as soon as the lock is released.
    Push,
    /// The node does not wake waiters, because the connection speaks RESP2. The waiter checks from time to time whether
    /// the lock is free.
    Resp2,
    /// The node does not wake waiters, because the server has refused `CLIENT TRACKING`, `CLIENT CACHING` or `PTTL`
    /// with this error. The waiter checks from time to time whether the lock is free. If the error is `NOPERM`, grant
    /// the user `+client|tracking`, `+client|caching` and `+pttl`.
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
