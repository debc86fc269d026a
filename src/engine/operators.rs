//! The reasons why a call of an operator or observer fails.

use alloc::boxed::Box;

use crate::error::{
    Asked, InvalidRequest, Report, RequestFault, Told, TrustError, TrustFault, ends_by, told,
};

use super::inspection::Inspection;

/// Why a call of `inspect`, `watch`, `observe`, `break_lock`, `check`, `trust_node` or `reinit` failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// Too few nodes gave answers that count, so the holder of the lock is not known. From `check`, this error means
    /// that too few nodes would vote now. From `reinit`, which needs all nodes, this error means that a node cannot be
    /// asked now. Nothing was changed.
    ///
    /// If [`Report::needs_operator`] returns `true`, the problem does not go away by itself. In the
    /// report, [`Granted`](crate::NodeOutcome::Granted) means that the answer of the node counts, or that the node
    /// would vote.
    NoQuorum(Report),
    /// The resource has no lock that can be broken. Either no client holds the lock, because no majority of the nodes
    /// has the same token, or clients hold shared locks or permits, which cannot be broken. Nothing was changed.
    NotHeld(Box<Inspection>),
    /// Another program has written the keys, or has removed their expiry. Nothing was changed. If the keys have no
    /// expiry ([`Holder::valid_for`] is [`Duration::MAX`]), only [`Breaking::AtOnce`] deletes them. Keys that have an
    /// expiry cannot be broken if their value is longer than any token, because this handle does not know the full
    /// value.
    ///
    /// [`Holder::valid_for`]: crate::Holder::valid_for
    /// [`Duration::MAX`]: core::time::Duration::MAX
    /// [`Breaking::AtOnce`]: crate::Breaking::AtOnce
    NotOurs(Box<Inspection>),
    /// The holder that was seen no longer has the lock, because it has released the lock or another client has taken
    /// it. In the report, `missing` and `held` mean that the node does not have the holder's token.
    /// With [`Breaking::AtOnce`](crate::Breaking::AtOnce), `granted` means that the node has deleted its key. If a node
    /// has deleted its key but its first answer was lost, the report may show the node as `missing`.
    Changed(Report),
    /// Too few nodes have confirmed that the lock is broken, but some nodes may have broken it. The holder may still
    /// extend its lock on the other nodes. In the report, `granted` means that the node has broken the lock.
    ///
    /// From `reinit`, this error means that not all nodes have answered in time. Repeat the call before any client
    /// takes a lock with the new membership. A client that reaches no node of the old membership does not notice that
    /// two memberships exist.
    Unconfirmed(Report),
    /// Either the node is not trusted and nothing was changed, or the node is trusted but got no counter floor.
    NotTrusted(TrustError),
    /// The request can never succeed in this form. Nothing was sent.
    Invalid(InvalidRequest),
    /// A limit of this handle is reached. Nothing was sent.
    Saturated,
    /// The handle was created in the parent process before a `fork`. Nothing was sent.
    Forked,
    /// The handle is closed, or a thread has panicked inside it.
    Closed,
}

impl OperatorError {
    fn told(&self) -> Told {
        match self {
            Self::NoQuorum(report) => not_known(report),
            Self::NotHeld(seen) => seen.not_held(),
            Self::NotOurs(seen) => seen.not_ours(),
            Self::Changed(report) => report.told(
                ": the holder that was seen has given it up meanwhile",
                "",
                "; look again who holds it",
            ),
            Self::Unconfirmed(report) if report.asked() == Asked::All => report.told(
                "not every node has answered",
                "",
                "; check them, then call `reinit` again",
            ),
            Self::Unconfirmed(report) => report.told(
                ": too few nodes confirmed that it is broken",
                ", so its holder may still extend it",
                "; try again when these nodes answer",
            ),
            Self::NotTrusted(why) => Told::of(why),
            Self::Invalid(why) => Told::of(why),
            Self::Saturated => Told::of(
                "too many operations are open on this handle, so nothing was sent; ask again when some have ended",
            ),
            Self::Forked => Told::of(
                "the handle belongs to the parent process, so nothing was sent; build a new handle after the fork",
            ),
            Self::Closed => {
                Told::of("the handle is closed, so no node was asked; build a new handle")
            }
        }
    }

    /// Returns the resource about which the nodes were asked, if any.
    #[must_use]
    pub fn resource(&self) -> Option<&[u8]> {
        if let Self::NotHeld(seen) | Self::NotOurs(seen) = self {
            return Some(seen.resource());
        }
        self.report()?.resource()
    }
}

/// Returns the error text of [`OperatorError::NoQuorum`].
fn not_known(report: &Report) -> Told {
    let rest = format_args!("{}; check the nodes named here", ends_by(report));
    match report.asked() {
        Asked::Vote | Asked::Token | Asked::Answer => {
            report.told(": it is not known who holds it", "", rest)
        }
        Asked::Nothing if report.needs_operator() => {
            report.told("every lock is refused", "", "; repair what is named here")
        }
        Asked::Nothing => report.told("too few nodes vote now", "", rest),
        Asked::All => report.told(
            "not every node can be asked",
            "",
            "; nothing was changed, check them and try again",
        ),
    }
}

told!(OperatorError {
    NoQuorum,
    Changed,
    Unconfirmed
});

impl From<RequestFault> for OperatorError {
    fn from(fault: RequestFault) -> Self {
        Self::Invalid(fault.into())
    }
}

impl From<TrustFault> for OperatorError {
    fn from(fault: TrustFault) -> Self {
        Self::NotTrusted(fault.into())
    }
}
