//! Why a node is not trusted.

use alloc::string::String;

#[cfg(feature = "std")]
use super::NodeOutcome;

/// Why `trust_node` did not trust a node, or why the node got no counter floor. The text of the error says what to do.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(transparent)]
pub struct TrustError(#[from] pub(crate) TrustFault);

/// See [`TrustError`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum TrustFault {
    #[error("no node is configured with this address; `nodes` shows the addresses")]
    UnknownNode,
    /// The server could restart before the handle connects to it, so it cannot be trusted in advance.
    #[error("the node is not connected now; trust it when `nodes` shows a connection")]
    NotConnected,
    /// The node restarted, or was replaced.
    #[error(
        "another server answers at this address now, with the run_id {run_id}; before you trust it, check whether it \
         may have forgotten a lock"
    )]
    Changed { run_id: String },
    #[error("the server does not report its run_id; permit `INFO` (`ACL SETUSER .. +info`)")]
    NoRunId,
    #[error("the node belongs to another group and is not trusted; see `Redlock::reinit`")]
    OtherGroup,
    /// The node is trusted, but has not confirmed that it wrote the counter floor that this handle's fencing tokens
    /// need. The node may still have written the floor.
    #[cfg(feature = "std")]
    #[error(
        "the node is trusted, but may have no counter floor for fencing tokens: {outcome}; repair the cause, then \
         trust the node again"
    )]
    NoFloor { outcome: NodeOutcome },
}
