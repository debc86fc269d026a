//! The ways in which a request of an operator can fail: check, trust, reinit.

use alloc::string::String;

use super::{NodeOutcome, Report, ends_by};

/// Why no lock is granted now: the findings of `Redlock::check` and `LocalRedlock::check`.
///
/// In the reports, `Granted` means that the node would vote.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// No majority is left without the nodes that only an operator can repair (a wrong password, a missing permission,
    /// a server of the wrong kind), or a node belongs to another cluster. Every lock is refused at once until that is
    /// repaired.
    #[error("every lock is refused: {0}; repair what is named here")]
    Unusable(Report),
    /// Too few nodes vote now, but that may pass: they are down, silent or in quarantine.
    #[error("too few nodes vote now: {0}{ends}; check the nodes named here", ends = ends_by(.0))]
    NoQuorum(Report),
    /// The handle was made before a `fork`, in the parent process.
    #[error("the handle belongs to the parent process; build a handle after the fork")]
    Forked,
    /// The handle is closed, or a thread has panicked inside it.
    #[error("the handle is closed; build a new handle")]
    Closed,
}

/// Why `trust_node` did not trust a node, or the node got no counter floor. Nothing was changed, unless the error is
/// [`NoFloor`](Self::NoFloor).
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// No node is configured with this address.
    #[error("no node is configured by this address; `nodes` shows the addresses")]
    UnknownNode,
    /// There is no connection to the node now. The server could restart before there is one, so it
    /// cannot be trusted in advance.
    #[error("there is no connection to the node now; trust it when `nodes` shows one")]
    NotConnected,
    /// Another server answers at the address: the node restarted, or was replaced.
    #[error(
        "another server answers there now, with the run_id {run_id}; check whether that one may \
         have forgotten a lock before you trust it"
    )]
    Changed {
        /// The `run_id` of the server that answers now.
        run_id: String,
    },
    /// The server does not report its `run_id`: its user may not run `INFO server`.
    #[error("the server does not tell its run_id; permit `INFO` (`ACL SETUSER .. +info`)")]
    NoRunId,
    /// The node belongs to another cluster, and is never trusted.
    #[error("the node belongs to another cluster and is not trusted; see `Redlock::reinit`")]
    OtherCluster,
    /// The node is trusted, but has not confirmed that it wrote a counter floor. The floor is needed because this
    /// handle was asked for [fencing tokens](crate::LockOptions::fenced) before. The node may have written it.
    #[error(
        "the node is trusted, but may have no floor for fencing tokens: {outcome}; mend that, then trust it again"
    )]
    NoFloor {
        /// The answer of the node, or why there is none.
        outcome: NodeOutcome,
    },
    /// The handle was made before a `fork`, in the parent process.
    #[error("the handle belongs to the parent process; build a handle after the fork")]
    Forked,
    /// The handle is closed, or a thread has panicked inside it.
    #[error("the handle is closed; build a new handle")]
    Closed,
}

/// Why some or all of the nodes did not become a new cluster.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReinitError {
    /// The restart guard is not [`RestartGuard::Strict`](crate::RestartGuard): there are no markers.
    #[error("only a strict restart guard has markers; there is nothing to do")]
    NotStrict,
    /// A node cannot be asked now. Nothing was changed anywhere.
    #[error("not every node can be asked: {}; nothing was changed, check them and try again", .0.of_all("answered"))]
    Unready(Report),
    /// Not all nodes have answered in time; those that have are [`Granted`](NodeOutcome::Granted). Repeat the call
    /// before a client takes a lock with the new membership: a client that reaches no node of the other membership does
    /// not know that there are two.
    #[error("not every node has answered: {}; check them, then call `reinit` again", .0.of_all("answered"))]
    Incomplete(Report),
    /// A bound of this handle is reached; nothing was changed.
    #[error(
        "too many operations are open on this handle, so nothing was changed; try again when some \
         have ended"
    )]
    Saturated,
    /// The handle was made before a `fork`, in the parent process; nothing was sent.
    #[error("the handle belongs to the parent process; build a handle after the fork")]
    Forked,
    /// The handle is closed, a thread has panicked inside it, or it could not wait for the nodes.
    #[error("the handle is closed; build a new handle")]
    Closed,
}
