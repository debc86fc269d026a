//! Why a configuration, or the URL of a node, cannot be used. A handle finds mistakes in its configuration before any
//! I/O.

use alloc::format;
use alloc::string::String;
use core::time::Duration;

use super::span::Span;
#[cfg(feature = "tls")]
use super::tls::TlsSetting;
use crate::limits::{
    CLIENT_NAME_BYTES_MAX, COUNTER_TTL_MIN, CREDENTIAL_BYTES_MAX, DEAD_AFTER_MIN, GROUP_BYTES_MAX,
    KEY_PREFIX_BYTES_MAX, LOCK_DELAY_MAX, NODES_MAX, OWNER_BYTES_MAX, TTL_HARD_MAX,
    UNIX_PATH_BYTES_MAX,
};

/// The error text for a request that needs scripts, on a handle without scripts.
pub(super) const NEED_SCRIPTS: &str = "fencing tokens, shared locks, permits and a strict restart guard need scripts; \
    permit `EVAL` and `EVALSHA` (`ACL SETUSER .. +eval +evalsha`) and leave out `without_scripts`, or do without these \
    features";

/// Why a configuration, or the URL of a node, cannot be used. The error text names the mistake, and says what to write.
/// The text never shows a URL, which may contain a secret.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(transparent)]
pub struct ConfigError(#[from] pub(crate) ConfigFault);

/// See [`ConfigError`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum ConfigFault {
    #[error("no node was given; give at least one node, preferably three or five")]
    NoNodes,
    #[error("{0} nodes were given, but at most {NODES_MAX} are allowed")]
    TooManyNodes(usize),
    #[error("node {address} was given twice; each server has one vote, so give it only once")]
    DuplicateNode { address: String },
    #[error("the URL{} {fault}", of_node(*index))]
    Url {
        /// The index of the node in the list of nodes, counted from 0.
        index: Option<usize>,
        fault: UrlFault,
    },
    #[cfg(feature = "tls")]
    #[error(transparent)]
    Tls(TlsSetting),
    #[error("{NEED_SCRIPTS}")]
    StrictWithoutScripts,
    #[error("the drift factor must be at least 0 and less than 1")]
    DriftFactor,
    #[error(
        "the longest retry delay must not be shorter than the shortest, and the number of tries must be at least 1"
    )]
    Retry,
    /// The kind of timeout: `node` or `connect`.
    #[error("a {0} timeout of {1:?} is too short; set at least one millisecond")]
    Timeout(&'static str, Duration),
    #[error(
        "a longest ttl (`Builder::max_ttl`) of {} is not between 4 ms and {}; set the longest ttl that any client of \
         these nodes uses, or do not set it", Span(*.0), Span(TTL_HARD_MAX)
    )]
    MaxTtl(Duration),
    #[error(
        "closing a connection after {0:?} of silence is too early; set at least {DEAD_AFTER_MIN:?}, and at least the \
         node timeout"
    )]
    DeadAfter(Duration),
    #[error(
        "the drift of the longest ttl ({}) is {}, so no lock would be valid; lower the drift, or \
         raise `Builder::max_ttl`", Span(*maximum), Span(*drift)
    )]
    DriftTooLarge { drift: Duration, maximum: Duration },
    #[error(
        "a lock delay of {} is longer than the maximum of {}; set a shorter delay",
        Span(*.0), Span(LOCK_DELAY_MAX)
    )]
    LockDelayTooLong(Duration),
    #[error(
        "a lock delay of {} leaves no time for a lock within the longest ttl of {}; shorten the delay, or \
         raise `Builder::max_ttl`", Span(*delay), Span(*maximum)
    )]
    LockDelay { delay: Duration, maximum: Duration },
    #[error(
        "counters of fencing tokens cannot be kept for {} (`Builder::counter_ttl`), but only for {} to {}; set a time \
         in this range, or do not set it", Span(*.0), Span(COUNTER_TTL_MIN), Span(TTL_HARD_MAX)
    )]
    CounterTtl(Duration),
    #[cfg(feature = "tls")]
    #[error(
        "TLS is configured, but no node uses it; write rediss:// in the URLs of the nodes that use TLS"
    )]
    TlsUnused,
    #[error(
        "the owner label has {0} bytes, but at most {OWNER_BYTES_MAX} are allowed; shorten the label"
    )]
    OwnerTooLong(usize),
    #[error(
        "a key prefix must have at most {KEY_PREFIX_BYTES_MAX} bytes, and must not begin with `shearline:`, which is \
         reserved; use another prefix"
    )]
    KeyPrefix,
    #[error(
        "the name of the group must be 1 to {GROUP_BYTES_MAX} printable ASCII characters \
         without a space"
    )]
    Group,
    #[error(
        "the client name must be 1 to {CLIENT_NAME_BYTES_MAX} printable ASCII characters without \
         a space; give `None` to send no name"
    )]
    ClientName,
}

fn of_node(index: Option<usize>) -> String {
    let index = index.map(|index| format!(" of node {index} (counted from 0)"));
    index.unwrap_or_default()
}

/// The mistake in the URL of a node.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, thiserror::Error)]
pub(crate) enum UrlFault {
    #[error("is empty; write redis://host:port")]
    Empty,
    #[error("contains a space or a control character; remove it, or write it as a percent escape")]
    Character,
    #[error("has an unknown scheme; use redis://, rediss://, valkey://, unix:// or host:port")]
    Scheme,
    #[error("has no colon after its scheme; write ://, as in redis://host:port")]
    Colon,
    #[error("has no valid host; write redis://host:port or redis://[::1]:port")]
    Host,
    #[error("has no valid port; write redis://host:port, with a port from 1 to 65535")]
    Port,
    #[error(
        "has no valid path; write unix:///path without a host, and with at most {UNIX_PATH_BYTES_MAX} bytes"
    )]
    Path,
    #[error("has no valid database number; write /0, for example, or ?db=0 for unix://")]
    Database,
    #[error(
        "has an @ after the host; in a password, write / as %2F, ? as %3F, # as %23 and @ as %40"
    )]
    Credentials,
    #[error("has a user name or password that is longer than {CREDENTIAL_BYTES_MAX} bytes")]
    CredentialsTooLong,
    #[error("has an invalid percent escape; write %25 for a percent sign")]
    Escape,
    #[error(
        "has percent escapes that are not UTF-8; the user, the password and the path must be text"
    )]
    Encoding,
    #[error(
        "has an unknown or repeated query parameter; unix:// allows db=N, and rediss:// allows ca, cert, key and name"
    )]
    Query,
    #[cfg(not(feature = "tls"))]
    #[error(
        "asks for TLS, which this build does not support; enable the feature `tls` of shearline"
    )]
    Tls,
    #[cfg(feature = "tls")]
    #[error("has only one of cert= and key=; a client certificate needs both")]
    Identity,
}
