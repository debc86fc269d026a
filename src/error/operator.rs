//! The ways in which a request of an operator can fail: check, trust, reinit.

use alloc::format;
use alloc::string::String;

use super::told::{Told, told};
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
    Unusable(Report),
    /// Too few nodes vote now, but that may pass: they are down, silent or in quarantine.
    NoQuorum(Report),
    /// The handle was made before a `fork`, in the parent process.
    Forked,
    /// The handle is closed, or a thread has panicked inside it.
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
    NotStrict,
    /// A node cannot be asked now. Nothing was changed anywhere.
    Unready(Report),
    /// Not all nodes have answered in time; those that have are [`Granted`](NodeOutcome::Granted). Repeat the call
    /// before a client takes a lock with the new membership: a client that reaches no node of the other membership does
    /// not know that there are two.
    Incomplete(Report),
    /// A bound of this handle is reached; nothing was changed.
    Saturated,
    /// The handle was made before a `fork`, in the parent process; nothing was sent.
    Forked,
    /// The handle is closed, a thread has panicked inside it, or it could not wait for the nodes.
    Closed,
}

impl CheckError {
    fn told(&self) -> Told {
        match self {
            Self::Unusable(report) => {
                report.told("every lock is refused", "", "; repair what is named here")
            }
            Self::NoQuorum(report) => report.told(
                "too few nodes vote now",
                "",
                format_args!("{}; check the nodes named here", ends_by(report)),
            ),
            Self::Forked => Told::of(FORKED),
            Self::Closed => Told::of(CLOSED),
        }
    }
}

impl ReinitError {
    fn told(&self) -> Told {
        match self {
            Self::NotStrict => {
                Told::of("only a strict restart guard has markers; there is nothing to do")
            }
            Self::Unready(report) => Told {
                clause: "not every node can be asked".into(),
                rest: format!(
                    ": {}; nothing was changed, check them and try again",
                    report.of_all("answered")
                ),
            },
            Self::Incomplete(report) => Told {
                clause: "not every node has answered".into(),
                rest: format!(
                    ": {}; check them, then call `reinit` again",
                    report.of_all("answered")
                ),
            },
            Self::Saturated => Told::of(
                "too many operations are open on this handle, so nothing was changed; try again when some have ended",
            ),
            Self::Forked => Told::of(FORKED),
            Self::Closed => Told::of(CLOSED),
        }
    }
}

const FORKED: &str = "the handle belongs to the parent process; build a handle after the fork";

const CLOSED: &str = "the handle is closed; build a new handle";

told! {
    CheckError { Unusable, NoQuorum }
    ReinitError { Unready, Incomplete }
}
