//! Every way an operation can end other than well, sorted by who can repair it.
//!
//! [`LockError`], [`ExtendError`] and [`UnlockError`] are the outcomes of the three operations.
//! Those that come from the nodes carry a [`Report`]: what each node said, and how long it took.
//! [`InvalidRequest`] and [`ConfigError`] are mistakes of the caller and come before any I/O.
//!
//! No credential and no whole token is ever part of any of these. Servers echo arguments in their
//! error texts, so of a server's error only its first word is kept ([`ServerError`]).

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use crate::limits::{
    CLIENT_NAME_BYTES_MAX, CLUSTER_BYTES_MAX, CREDENTIAL_BYTES_MAX, DEAD_AFTER_MIN, NODES_MAX,
    OWNER_BYTES_MAX, RESOURCE_BYTES_MAX, TTL_HARD_MAX, UNIX_PATH_BYTES_MAX,
};
use crate::time::Instant;

/// Why a lock was not taken.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Enough nodes answered, and others hold the lock on too many of them. Trying again later
    /// may succeed.
    #[error("the lock is held by another: {0}; try again later, or wait longer")]
    Held(Report),
    /// Too few nodes answered to know. The lock may be free.
    #[error("too few nodes answered: {0}; look after the nodes named here")]
    NoQuorum(Report),
    /// A majority granted the lock too late for any of its validity to be left, or is too far away
    /// to answer within half of so short a ttl. What was granted is given back.
    #[error(
        "the nodes are too slow for so short a ttl: {0}; ask for a longer ttl, or look at the \
         latency of the nodes"
    )]
    TooSlow(Report),
    /// A node carries the marker of another cluster
    /// ([`RestartGuard::Strict`](crate::RestartGuard)): other clients use it with other nodes, or
    /// under another name. Two such memberships can have majorities without a node in common, so no
    /// lock is taken while any node says so, and it is not tried again. Locks that are held can be
    /// extended by the nodes that count.
    #[error(
        "a node belongs to another cluster: {0}; make the configurations alike, or see \
         `Redlock::reinit`"
    )]
    OtherCluster(Report),
    /// The request can never succeed as written; nothing was sent.
    #[error("{0}")]
    Invalid(InvalidRequest),
    /// A bound of this handle is reached; nothing was sent. Locks that are held are not affected.
    #[error(
        "too many operations or locks are open on this handle; wait for some to end, or use \
         another handle"
    )]
    Saturated,
    /// The handle was made before a `fork`, in the parent process; nothing was sent.
    #[error("the handle belongs to the parent process; build a new one after the fork")]
    Forked,
    /// The handle is closed, or its driving thread has panicked.
    #[error("the handle is closed; build a new one")]
    Closed,
}

/// Why a lock was not extended, or not confirmed.
///
/// A confirmation asks the same nodes the same about the same lock, but for how long; so its outcomes
/// are these too. It has no limit ([`ExtendError::Limit`]) and no argument that could be wrong
/// ([`ExtendError::Invalid`]).
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExtendError {
    /// The lock's validity had run out, by the clock of this machine. Nothing is revived: what
    /// was done since may have overlapped with another holder. Nor is a lock extended that comes from
    /// another clock and was not confirmed yet: it has no validity.
    #[error("the lock had expired and is not revived; stop, and take it anew")]
    Expired,
    /// A majority says that the key is missing or another's. The lock is over now.
    #[error("the lock was lost: {0}; stop what it protects")]
    Lost(Report),
    /// Too few nodes answered. The lock stands until its old deadline.
    #[error(
        "too few nodes confirmed the extension: {0}; the lock stands until its old deadline, \
         extend again before it"
    )]
    Unconfirmed(Report),
    /// The lock was taken with a limit of extensions, and it is reached.
    #[error(
        "the number of extensions that the lock was taken with is used up; end before its deadline, \
         or take it with more (`LockOptions::extensions`)"
    )]
    Limit,
    /// The request can never succeed as written; nothing was sent.
    #[error("{0}")]
    Invalid(InvalidRequest),
    /// A bound of this handle is reached; nothing was sent, and the lock stands.
    #[error("too many operations are open on this handle; extend again when some have ended")]
    Saturated,
    /// The handle was made before a `fork`, in the parent process; nothing was sent.
    #[error("the lock belongs to the parent process; leave it to that, and take locks of your own")]
    Forked,
    /// The lock was released while it was being extended or confirmed, or the handle is closed.
    #[error("the lock was released while it was being extended, or its handle is closed")]
    Closed,
}

/// Why no lock can be had now: what `Redlock::check` and `LocalRedlock::check` find.
///
/// In the reports `Granted` means that the node would vote.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// So many nodes are unusable for a reason that only an operator can repair (a wrong password,
    /// a missing permission, a server of the wrong kind) that no majority is left, or a node
    /// belongs to another cluster. Every lock is refused, at once, until that is repaired.
    #[error("no lock can be had: {0}; mend what is named here")]
    Unusable(Report),
    /// Too few nodes vote now, and that may pass: they are down, silent or in quarantine.
    #[error("too few nodes vote now: {0}; look after the nodes named here")]
    NoQuorum(Report),
    /// The handle was made before a `fork`, in the parent process.
    #[error("the handle belongs to the parent process; build a new one after the fork")]
    Forked,
    /// The handle is closed, or its driving thread has panicked.
    #[error("the handle is closed; build a new one")]
    Closed,
}

/// Why a node was not trusted: what `trust_node` answers. Nothing was changed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// No node is configured by this address.
    #[error("no node is configured by this address; `nodes` shows the addresses")]
    UnknownNode,
    /// There is no connection to the node now. Whether it restarts before there is one cannot be
    /// known today.
    #[error("there is no connection to the node now; look at it again when there is (`nodes`)")]
    NotConnected,
    /// Another server answers there than the one that was seen: it restarted, or was replaced.
    #[error(
        "another server answers there by now, with the run_id {run_id}; look again whether it may \
         have forgotten a lock, then trust that one"
    )]
    Changed {
        /// The `run_id` of the server that answers now.
        run_id: String,
    },
    /// The server does not say which it is: its user may not ask `INFO server`.
    #[error("the server does not tell its run_id; permit it (`ACL SETUSER .. +info`)")]
    NoRunId,
    /// The node belongs to another cluster, and is never trusted.
    #[error("the node belongs to another cluster; see `Redlock::reinit`")]
    OtherCluster,
    /// The handle was made before a `fork`, in the parent process.
    #[error("the handle belongs to the parent process; build a new one after the fork")]
    Forked,
    /// The handle is closed, or its driving thread has panicked.
    #[error("the handle is closed; build a new one")]
    Closed,
}

/// Why the nodes were not, or not all of them, made a new cluster.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReinitError {
    /// The restart guard is not [`RestartGuard::Strict`](crate::RestartGuard): there are no markers.
    #[error("only a strict restart guard has markers; there is nothing to do")]
    NotStrict,
    /// A node cannot be asked now. Nothing was changed anywhere.
    #[error("not every node can be asked: {0}; nothing was changed, look after them and try again")]
    Unready(Report),
    /// Not all nodes have answered in time; those that did are named as `granted`. Repeat it,
    /// before a client takes a lock with the new membership: a client that can reach no node of the
    /// other one does not know that there are two.
    #[error("not every node has answered: {0}; look after them, then repeat it")]
    Incomplete(Report),
    /// A bound of this handle is reached; nothing was changed.
    #[error("too many operations are open on this handle; try again when some have ended")]
    Saturated,
    /// The handle was made before a `fork`, in the parent process; nothing was sent.
    #[error("the handle belongs to the parent process; build a new one after the fork")]
    Forked,
    /// The handle is closed, its driving thread has panicked, or it could not wait for the nodes.
    #[error("the handle is closed; build a new one")]
    Closed,
}

/// Why a lock was not, or perhaps not, released in time.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnlockError {
    /// A majority no longer had the lock: the critical section may have overlapped with
    /// another's.
    #[error("the lock was no longer held: {0}; what it protected may have overlapped")]
    NotHeld(Report),
    /// Too few nodes answered. The releases stay owed and are paid when the nodes are back.
    #[error(
        "too few nodes confirmed the release: {0}; it stays owed and is tried until it is done or \
         the keys have ended, mend what is named here if anything is"
    )]
    Unconfirmed(Report),
    /// The handle was made before a `fork`, in the parent process; nothing was sent.
    #[error("the lock belongs to the parent process; leave it to that, and take locks of your own")]
    Forked,
    /// The handle is closed, or its driving thread has panicked. The key ends with its ttl.
    #[error("the handle is closed; the key goes when its ttl has passed")]
    Closed,
}

/// A release that did what it should.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Released {
    /// On how many nodes the key was deleted before the verdict. Stragglers may add to it.
    pub deleted: u8,
}

/// A request that can never succeed as written. Found before any I/O.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRequest {
    /// The resource name has no bytes.
    #[error("the resource name is empty; give the lock a name")]
    EmptyResource,
    /// The resource name is one of the two keys that [`RestartGuard::Strict`](crate::RestartGuard)
    /// keeps on each node: [`MARKER_KEY`](crate::MARKER_KEY), [`BARRIER_KEY`](crate::BARRIER_KEY).
    #[error("the resource name is a key of the strict restart guard; give the lock another")]
    ReservedResource,
    /// The resource name is too long.
    #[error(
        "the resource name has {bytes} bytes, {RESOURCE_BYTES_MAX} are allowed; use a hash of it"
    )]
    ResourceTooLong {
        /// Its length.
        bytes: usize,
    },
    /// The ttl leaves no validity even if every node answered at once: it is zero, or not longer
    /// than its own allowance for clock drift.
    #[error(
        "a ttl of {} is not longer than its own drift of {}; ask for a longer one",
        Span(*ttl), Span(*drift)
    )]
    TtlTooShort {
        /// The ttl asked for.
        ttl: Duration,
        /// What is subtracted from it for drifting clocks.
        drift: Duration,
    },
    /// The ttl is longer than the longest that this handle allows.
    #[error(
        "a ttl of {} is longer than the {} this handle allows; ask for a shorter one and extend it, \
         or raise `Builder::max_ttl`", Span(*ttl), Span(*maximum)
    )]
    TtlTooLong {
        /// The ttl asked for.
        ttl: Duration,
        /// The longest that is allowed.
        maximum: Duration,
    },
    /// Zero tries were asked for.
    #[error("zero tries were asked for; one is the least")]
    NoTries,
}

impl From<InvalidRequest> for LockError {
    fn from(invalid: InvalidRequest) -> Self {
        Self::Invalid(invalid)
    }
}

impl From<InvalidRequest> for ExtendError {
    fn from(invalid: InvalidRequest) -> Self {
        Self::Invalid(invalid)
    }
}

/// What the nodes said in the attempt that decided, the last one if there were several.
///
/// One pointer wide. It is made only when an operation fails.
#[derive(Clone)]
pub struct Report(Box<ReportParts>);

#[derive(Clone)]
struct ReportParts {
    nodes: Box<[NodeReport]>,
    quorum: u8,
    tries: u32,
    elapsed: Duration,
    /// When it was made.
    now: Instant,
}

impl Report {
    pub(crate) fn new(
        now: Instant,
        nodes: Box<[NodeReport]>,
        quorum: u8,
        tries: u32,
        elapsed: Duration,
    ) -> Self {
        Self(Box::new(ReportParts {
            nodes,
            quorum,
            tries,
            elapsed,
            now,
        }))
    }

    /// Returns what each configured node said, in the order of the configuration.
    #[must_use]
    pub fn nodes(&self) -> &[NodeReport] {
        &self.0.nodes
    }

    /// Returns how many nodes have to agree: `N / 2 + 1` of the configured ones.
    #[must_use]
    pub fn quorum(&self) -> usize {
        usize::from(self.0.quorum)
    }

    /// Returns how many attempts were made, this one included.
    #[must_use]
    pub fn tries(&self) -> u32 {
        self.0.tries
    }

    /// Returns how long the operation took from its first attempt on.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed
    }

    /// Returns how many nodes said yes.
    #[must_use]
    pub fn granted(&self) -> usize {
        self.count(|outcome| matches!(outcome, NodeOutcome::Granted))
    }

    fn count(&self, predicate: impl Fn(&NodeOutcome) -> bool) -> usize {
        self.nodes()
            .iter()
            .filter(|node| predicate(&node.outcome))
            .count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of the {} votes needed (",
            self.granted(),
            self.quorum()
        )?;
        for (index, node) in self.nodes().iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{} ", node.address)?;
            if let NodeOutcome::Quarantined { until } = node.outcome
                && self.0.now < until
            {
                let left = Span(until.saturating_since(self.0.now)).rounded_up();
                write!(
                    f,
                    "quarantined for {left} more: it may have forgotten locks"
                )?;
            } else {
                write!(f, "{}", node.outcome)?;
            }
        }
        f.write_str(")")?;
        match self.tries() {
            0 | 1 => {}
            tries => write!(f, " after {tries} tries in {:?}", self.elapsed())?,
        }
        let quarantined =
            |outcome: &NodeOutcome| matches!(outcome, NodeOutcome::Quarantined { .. });
        match self.count(quarantined) {
            0 => Ok(()),
            _ => f.write_str(
                "; a quarantine ends by itself, or by `trust_nodes` if no lock of before can live",
            ),
        }
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Errors are often shown by `Debug`, on return from `main` for one: as readable as `Display`.
        write!(f, "{self}")
    }
}

/// What one node said.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeReport {
    /// The address as it was configured, without credentials.
    pub address: Arc<str>,
    /// What it said.
    pub outcome: NodeOutcome,
    /// From before the first byte of the attempt to its answer; `None` if it did not answer.
    pub latency: Option<Duration>,
}

impl NodeReport {
    pub(crate) fn new(address: Arc<str>, outcome: NodeOutcome, latency: Option<Duration>) -> Self {
        Self {
            address,
            outcome,
            latency,
        }
    }
}

/// The outcome of the question at one node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum NodeOutcome {
    /// It said yes: locked, extended or deleted.
    Granted,
    /// The key holds another's token.
    Held,
    /// The key is not there (extend and release).
    Missing,
    /// It answered with an error.
    Refused(ServerError),
    /// It did not answer within its node timeout, or has been silent and was not asked.
    TimedOut,
    /// There was no connection, or it was lost before the answer.
    Unreachable(LinkError),
    /// Its answer does not count until `until`, on the clock of the handle: it restarted and may
    /// have forgotten locks, or its clock was stepped and may have ended them, or it stands behind a
    /// barrier. With [`RestartGuard::Strict`](crate::RestartGuard) `until` is the present while it is
    /// asked how it stands: it may be ready a round trip later. See
    /// [`RestartGuard`](crate::RestartGuard) and
    /// [`Builder::watch_clocks`](crate::Builder::watch_clocks).
    Quarantined {
        /// When it votes again.
        until: Instant,
    },
    /// It cannot serve as a node, for a reason that an operator has to repair.
    Unusable(Unusable),
    /// Its answer was still open when the others had decided.
    Pending,
}

impl fmt::Display for NodeOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted => f.write_str("granted"),
            Self::Held => f.write_str("held"),
            Self::Missing => f.write_str("missing"),
            Self::Refused(error) => match error.advice() {
                Some(advice) => write!(f, "refused: {error} ({advice})"),
                None => write!(f, "refused: {error}"),
            },
            Self::TimedOut => f.write_str("timed out"),
            Self::Unreachable(error) => write!(f, "unreachable: {error}"),
            Self::Quarantined { .. } => f.write_str("quarantined: it may have forgotten locks"),
            Self::Unusable(reason) => write!(f, "unusable: {reason}"),
            Self::Pending => f.write_str("pending"),
        }
    }
}

/// The first word of a server's error reply, such as `READONLY`.
///
/// The rest of the text is not kept: servers echo arguments in it.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct ServerError {
    bytes: [u8; Self::BYTES_MAX],
    len: u8,
}

impl ServerError {
    const BYTES_MAX: usize = 15;

    /// The error of a reply `line` (without its `-` and line end): its first word, cut to fifteen
    /// bytes of letters, digits and `_`.
    #[must_use]
    pub fn from_line(line: &[u8]) -> Self {
        let mut bytes = [0; Self::BYTES_MAX];
        let mut len = 0_u8;
        let word = line
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_');
        for (place, byte) in bytes.iter_mut().zip(word) {
            *place = *byte;
            len += 1;
        }
        Self { bytes, len }
    }

    /// Returns the word, such as `"LOADING"`; empty if the error began with none.
    #[must_use]
    pub fn code(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }

    /// Returns what it means, and what to do, where that is known.
    fn advice(&self) -> Option<&'static str> {
        Some(match self.code() {
            "OOM" => "its memory is full: raise its `maxmemory`, or remove other keys",
            "MISCONF" => "it cannot save to disk: look at its log and at the space that is left",
            "READONLY" => "it is a replica: name its master",
            "MASTERDOWN" => "it is a replica without its master: name a master",
            "NOREPLICAS" => "it has too few replicas: look at its `min-replicas-to-write`",
            "LOADING" => "it loads its data, and serves when it has",
            "BUSY" => "a script runs there for too long: `SCRIPT KILL` ends it",
            "MOVED" | "ASK" | "CLUSTERDOWN" | "CROSSSLOT" | "TRYAGAIN" => {
                "it is part of a cluster: name independent masters"
            }
            _ => return None,
        })
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.len == 0 {
            "an error without a code"
        } else {
            self.code()
        })
    }
}

impl fmt::Debug for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerError({self})")
    }
}

/// Why there is no connection to a node.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// No connection was tried yet.
    #[error("not connected yet")]
    NotYet,
    /// The host name could not be resolved to an address.
    #[error("its name does not resolve")]
    Unresolved,
    /// There is no socket at the path.
    #[error("no socket at its path")]
    NotFound,
    /// No process listens at the address.
    #[error("connection refused")]
    Refused,
    /// The connection, or the handshake on it, was not finished in time.
    #[error("no answer within the connect timeout")]
    ConnectTimeout,
    /// The other side closed the connection.
    #[error("connection closed by the node")]
    Closed,
    /// The connection was reset.
    #[error("connection reset")]
    Reset,
    /// The connection was reset before the handshake was done: as a port does that wants TLS, or a
    /// proxy that has nothing behind it.
    #[error("connection reset in the handshake; the port may want TLS, look at what listens there")]
    HandshakeReset,
    /// The connection was given up after a long silence.
    #[error("silent for too long, given up")]
    Silent,
    /// The node sent bytes that are no RESP, or an answer to nothing.
    #[error("it broke the protocol")]
    Protocol,
    /// There is no route, no permission, or no file descriptor left: the operating system's
    /// error number.
    #[error("operating system error {0}")]
    Os(i32),
}

/// Why a node that can be reached cannot serve.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// What answers there does not speak the protocol.
    #[error("no Redis or Valkey server answers there")]
    NotRedis,
    /// It is a replica: a lock on it could vanish in a failover.
    #[error("it is a replica; name its master, or a master of its own")]
    Replica,
    /// It runs in cluster or sentinel mode.
    #[error("it does not run in standalone mode; Redlock wants independent masters")]
    Mode,
    /// It wants credentials and was given none.
    #[error("it wants a password; put credentials into the URL")]
    NoCredentials,
    /// It refuses the credentials.
    #[error("it refuses the credentials; correct the user or password in the URL")]
    WrongCredentials,
    /// The user lacks a permission that the handshake needs, and the server does not say which.
    #[error(
        "the user lacks a permission; the manual (`shearline::manual::permissions`) has an ACL line \
         that suffices"
    )]
    NoPermission,
    /// The user may not run `command`, without which a lock cannot be taken, released or extended.
    /// A user who may take a lock but not release it gets none.
    #[error(
        "its user may not run `{command}`; permit it (`ACL SETUSER .. +{command}`), the manual \
         (`shearline::manual::permissions`) has a line that suffices"
    )]
    Permission {
        /// The command, in lower case and as ACL rules name it, such as `"evalsha"`.
        command: &'static str,
    },
    /// The user may not use the key that has the name of the lock. Other names may be permitted.
    #[error(
        "its user may not use a key of this name; permit it (`ACL SETUSER .. ~lock:*` for names \
         that begin with `lock:`)"
    )]
    KeyPermission,
    /// It has no database of the number in the URL.
    #[error("it has no such database; correct the number in the URL")]
    NoDatabase,
    /// Protected mode refuses clients from other hosts.
    #[error("its protected mode refuses us; set a password, or `protected-mode no`")]
    Protected,
    /// It has no client slot left.
    #[error("it has reached its `maxclients`")]
    TooManyClients,
    /// It is the same server as another configured node, which has the vote of both.
    #[error("it is the same server as node {0} of the configuration; name each server once")]
    SameServer(u8),
    /// It carries the marker of another cluster ([`RestartGuard::Strict`](crate::RestartGuard)): it
    /// is configured with other nodes, or under another name, elsewhere. While any node says so, no
    /// lock is taken.
    #[error(
        "its marker is that of a cluster of {nodes} nodes with a quorum of {quorum}{}; make the \
         configurations alike, or see `Redlock::reinit`", if *name { " under another name" } else { "" }
    )]
    OtherCluster {
        /// How many nodes the marker tells of; 0 if it cannot be read.
        nodes: u16,
        /// How many of them are a majority; 0 if it cannot be read.
        quorum: u16,
        /// The cluster has another name, or the marker cannot be read. The name itself stands in the
        /// key [`MARKER_KEY`](crate::MARKER_KEY).
        name: bool,
    },
    /// It does not say which incarnation it is: the user may not ask `INFO server`, without which
    /// [`RestartGuard::Strict`](crate::RestartGuard) cannot tell a restart.
    #[error("it does not tell its `run_id`, which a strict restart guard needs; permit `INFO`")]
    NoRunId,
    /// It refused the handshake otherwise.
    #[error("it refused the handshake with {0}")]
    Refused(ServerError),
}

impl Unusable {
    /// Returns `true` if only an operator can repair it: no later attempt will succeed.
    pub(crate) const fn is_lasting(self) -> bool {
        match self {
            Self::NotRedis
            | Self::Replica
            | Self::Mode
            | Self::NoCredentials
            | Self::WrongCredentials
            | Self::NoPermission
            | Self::Permission { .. }
            | Self::KeyPermission
            | Self::NoDatabase
            | Self::Protected
            | Self::SameServer(_)
            | Self::OtherCluster { .. }
            | Self::NoRunId => true,
            Self::TooManyClients | Self::Refused(_) => false,
        }
    }
}

/// Why a configuration cannot be used.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No node was named.
    #[error("no node was named; name at least one, better three or five")]
    NoNodes,
    /// More nodes than a quorum may have.
    #[error("{0} nodes were named, {NODES_MAX} are the most")]
    TooManyNodes(usize),
    /// One address was named twice. One server has one vote.
    #[error("node {address} was named twice; each server has one vote")]
    DuplicateNode {
        /// The address, without credentials.
        address: String,
    },
    /// A node's URL cannot be used.
    #[error("the URL of node {index} (counted from 0) {problem}")]
    Url {
        /// Which of the named nodes it is, counted from 0. The text itself may hold a secret
        /// and is not shown.
        index: usize,
        /// What is wrong with it.
        problem: UrlProblem,
    },
    /// The drift factor is not a number from 0 up to, but not including, 1.
    #[error("the drift factor must be at least 0 and less than 1")]
    DriftFactor,
    /// The retry delay ends before it begins, or no try was allowed.
    #[error("the retry delay must not end before it begins, and one try is the least")]
    Retry,
    /// The node timeout is below a millisecond.
    #[error("a node timeout of {0:?} is too short; a millisecond is the least")]
    NodeTimeout(Duration),
    /// The connect timeout is below a millisecond.
    #[error("a connect timeout of {0:?} is too short; a millisecond is the least")]
    ConnectTimeout(Duration),
    /// `max_ttl` is too short for any lock, or longer than the hard limit.
    #[error("a max_ttl of {} is not between 4 ms and {}", Span(*.0), Span(TTL_HARD_MAX))]
    MaxTtl(Duration),
    /// Silence of this length is too short to give a connection up for: it is below 100 ms, or
    /// below the fixed node timeout.
    #[error(
        "giving a connection up after {0:?} of silence is too soon; {DEAD_AFTER_MIN:?} and the \
         node timeout are the least"
    )]
    DeadAfter(Duration),
    /// The allowance for clock drift is as long as the longest ttl: no lock would ever be valid.
    #[error(
        "the drift of the longest ttl, {}, is {}, which leaves nothing of it; lower the drift, or \
         raise `Builder::max_ttl`", Span(*maximum), Span(*drift)
    )]
    DriftTooLarge {
        /// What would be subtracted from the longest ttl.
        drift: Duration,
        /// The longest ttl.
        maximum: Duration,
    },
    /// The owner label is too long.
    #[error("the owner label has {0} bytes, {OWNER_BYTES_MAX} are allowed")]
    OwnerTooLong(usize),
    /// The name of the cluster is empty, too long, or has characters that are not printable.
    #[error(
        "the name of the cluster must be 1 to {CLUSTER_BYTES_MAX} printable ASCII characters \
         without a space"
    )]
    Cluster,
    /// The client name is empty, too long, or has characters that servers refuse.
    #[error(
        "the client name must be 1 to {CLIENT_NAME_BYTES_MAX} printable ASCII characters without \
         a space; give `None` to send no name"
    )]
    ClientName,
}

/// What is wrong with a node's URL.
///
/// It never shows the URL, which may hold a secret.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlProblem {
    /// It is empty.
    #[error("is empty; write redis://host:port")]
    Empty,
    /// There is a space, a line end or another control character in it.
    #[error("has a space or control character; remove it, or write it as a percent escape")]
    Character,
    /// The scheme is none of `redis`, `valkey`, `unix`, and not their TLS forms either.
    #[error("has an unknown scheme; use redis://, valkey://, unix:// or host:port")]
    Scheme,
    /// There is no host, or none that can exist. An IPv6 address stands in brackets.
    #[error("names no valid host; write redis://host:port or redis://[::1]:port")]
    Host,
    /// The port is not a number from 1 to 65535.
    #[error("has no valid port; a number from 1 to 65535 is wanted")]
    Port,
    /// There is no path for `unix://`, it is too long, or it has a zero byte.
    #[error(
        "names no valid path; write unix:///path, at most {UNIX_PATH_BYTES_MAX} bytes and \
         without a host"
    )]
    Path,
    /// The database is not a small number.
    #[error("has no valid database; a number such as /0 is wanted, or ?db=0 for unix://")]
    Database,
    /// There is an `@` behind the host: the password probably has one of `/`, `?`, `#` in it.
    #[error("has an @ behind the host; write / ? # in a password as %2F %3F %23, and @ as %40")]
    Credentials,
    /// The user name or the password is too long.
    #[error("has a user name or password of more than {CREDENTIAL_BYTES_MAX} bytes")]
    CredentialsTooLong,
    /// A `%` is not followed by two hexadecimal digits.
    #[error("has a broken percent escape; write %25 for a percent sign")]
    Escape,
    /// The percent escapes spell bytes that are no UTF-8.
    #[error("has percent escapes that spell no UTF-8 text; user, password and path are text")]
    Encoding,
    /// It has a query parameter that means nothing here, or a fragment.
    #[error("has an unknown query parameter; only db=N is known, and only for unix://")]
    Query,
    /// `rediss://` or `valkeys://` was asked for and this build has no TLS.
    #[error("asks for TLS, which this build does not have; tunnel it, or use redis://")]
    Tls,
}

/// A span of time as people say it: `30 days`, `1 h 30 min`, `1.5 s`.
#[derive(Clone, Copy)]
struct Span(Duration);

impl Span {
    /// In whole seconds.
    fn rounded_up(self) -> Self {
        let more = u64::from(self.0.subsec_nanos() != 0);
        Self(Duration::from_secs(self.0.as_secs().saturating_add(more)))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] = [(86_400, "days"), (3_600, "h"), (60, "min"), (1, "s")];
        let seconds = self.0.as_secs();
        if seconds < 120 {
            return write!(f, "{:?}", self.0);
        }
        let mut left = seconds;
        let mut written = 0;
        for (unit, name) in UNITS {
            let count = left / unit;
            left %= unit;
            // Two of them say enough.
            if count == 0 || written == 2 {
                continue;
            }
            let space = if written == 0 { "" } else { " " };
            let name = if (count, name) == (1, "days") {
                "day"
            } else {
                name
            };
            write!(f, "{space}{count} {name}")?;
            written += 1;
        }
        Ok(())
    }
}

// An error is returned through every layer, by value; keep it in a few registers.
const _: () = assert!(size_of::<LockError>() <= 40 && size_of::<Report>() == size_of::<usize>());

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::vec;

    #[test]
    fn only_the_first_word_of_a_server_error_is_kept() {
        for (line, code) in [
            (
                &b"READONLY You can't write against a read only replica."[..],
                "READONLY",
            ),
            (
                b"ERR unknown command 'AUTH', with args beginning with: 'secret'",
                "ERR",
            ),
            (b"WRONGPASS", "WRONGPASS"),
            (b"", ""),
            (b" x", ""),
            (b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "ABCDEFGHIJKLMNO"),
        ] {
            assert_eq!(ServerError::from_line(line).code(), code);
        }
    }

    #[test]
    fn a_report_reads_as_a_sentence() {
        let node = |address: &str, outcome| NodeReport::new(address.into(), outcome, None);
        let nodes = vec![
            node("a:1", NodeOutcome::Granted),
            node("b:2", NodeOutcome::Unreachable(LinkError::Refused)),
            node("c:3", NodeOutcome::TimedOut),
        ];
        let report = Report::new(
            Instant::ZERO,
            nodes.into(),
            2,
            3,
            Duration::from_millis(400),
        );
        assert_eq!(
            format!("{}", LockError::NoQuorum(report)),
            "too few nodes answered: 1 of the 2 votes needed (a:1 granted, b:2 unreachable: \
             connection refused, c:3 timed out) after 3 tries in 400ms; look after the nodes \
             named here"
        );
    }

    #[test]
    fn a_quarantine_says_how_long_it_lasts_and_what_ends_it() {
        let nodes = vec![
            NodeReport::new(
                "a:1".into(),
                NodeOutcome::Quarantined {
                    until: Instant::from_millis(41_001),
                },
                None,
            ),
            NodeReport::new(
                "b:2".into(),
                NodeOutcome::Refused(ServerError::from_line(b"OOM command not allowed")),
                None,
            ),
        ];
        let now = Instant::from_millis(1_000);
        let report = Report::new(now, nodes.into(), 2, 1, Duration::ZERO);
        assert_eq!(
            format!("{report}"),
            "0 of the 2 votes needed (a:1 quarantined for 41s more: it may have forgotten locks, \
             b:2 refused: OOM (its memory is full: raise its `maxmemory`, or remove other keys)); \
             a quarantine ends by itself, or by `trust_nodes` if no lock of before can live"
        );
    }

    #[test]
    fn spans_read_as_people_say_them() {
        let seconds = |seconds| format!("{}", Span(Duration::from_secs(seconds)));
        for (span, text) in [
            (0, "0ns"),
            (90, "90s"),
            (120, "2 min"),
            (5_400, "1 h 30 min"),
            (86_400, "1 day"),
            (30 * 86_400, "30 days"),
            (30 * 86_400 + 7_201, "30 days 2 h"),
            (TTL_HARD_MAX.as_secs(), "36500 days"),
        ] {
            assert_eq!(seconds(span), text);
        }
        assert_eq!(format!("{}", Span(Duration::from_millis(1_500))), "1.5s");
        let up = Span(Duration::from_millis(1_500)).rounded_up();
        assert_eq!(format!("{up}"), "2s");
        let invalid = InvalidRequest::TtlTooLong {
            ttl: Duration::from_secs(31 * 86_400),
            maximum: Duration::from_secs(30 * 86_400),
        };
        assert!(format!("{invalid}").starts_with("a ttl of 31 days is longer than the 30 days"));
    }
}
