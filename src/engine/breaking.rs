//! The results of breaking a lock, and the ways to ask for it.
//!
//! # Not here
//!
//! How a lock is broken: see the [operation](super::operation::overwrite).

use alloc::boxed::Box;
use alloc::format;
use core::time::Duration;

use crate::error::{InvalidRequest, Report, Told, told};

use super::inspection::{CLOSED, FORKED, Holder, InspectError, Inspection, SATURATED, not_known};

/// What to do with the keys of the broken lock.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Breaking {
    /// The keys get another token and keep their expiry, so no client takes the lock before its holder must have
    /// stopped. The holder of a [kept](crate::LockOptions::keep) lock learns of it at once, or when half of its
    /// validity is left if the nodes send no notifications. Any other holder learns of it at its next extension.
    #[default]
    KeepOut,
    /// The keys are deleted. Any client may take the lock at once, while the holder still believes that it has it. Use
    /// this only if the holder is known to have stopped.
    AtOnce,
}

/// A lock that was broken.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Broken {
    /// The holder, as it was seen before the lock was broken.
    pub holder: Box<Holder>,
    /// The number of nodes that have broken it, at least a majority. With [`Breaking::AtOnce`] more may follow.
    pub nodes: usize,
    /// The time after which the lock is free on every node: the longest time that one of them keeps its key. Zero if
    /// the keys were deleted.
    pub free_in: Duration,
}

/// Why a lock was not broken.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BreakError {
    /// No majority of the nodes has the same token, so no client holds the lock; or clients hold shared locks or
    /// permits, which cannot be broken. Nothing was changed.
    NotHeld(Box<Inspection>),
    /// The holder that was seen no longer has the lock: it has released it, or another client has taken it. In the
    /// report, `missing` and `held` stand for nodes without its token. With [`Breaking::AtOnce`], `granted` stands for
    /// a node that has deleted its key. A node that deleted the key may say `missing` if its first answer was lost.
    Changed(Report),
    /// The holder's keys have no expiry, so they would keep other clients out for ever; nothing was changed.
    /// [`Breaking::AtOnce`] deletes them.
    NoExpiry,
    /// The value of the keys is longer than a token, so it is not known in full; nothing was changed.
    TooLong,
    /// Too few nodes answered to know who holds the lock; nothing was changed.
    NoQuorum(Report),
    /// Too few nodes confirmed that the lock is broken; some may have broken it. The holder may still extend its lock
    /// on the others. In the report, `granted` stands for a node that has broken it.
    Unconfirmed(Report),
    /// The request can never succeed as written; nothing was sent.
    Invalid(#[from] InvalidRequest),
    /// A bound of this handle is reached; nothing was sent.
    Saturated,
    /// The handle was made before a `fork`, in the parent process; nothing was sent.
    Forked,
    /// The handle is closed, or a thread has panicked inside it.
    Closed,
}

impl BreakError {
    fn told(&self) -> Told {
        match self {
            Self::NotHeld(seen) => Told {
                clause: seen.not_held(),
                rest: format!(", so nothing was changed: {seen}"),
            },
            Self::Changed(report) => report.told(
                ": the holder that was seen has given it up meanwhile",
                "",
                "; look again who holds it",
            ),
            Self::NoExpiry => Told::of(
                "the keys of this lock have no expiry, so it was not made by this library, and would never be free; \
                 delete them with `Breaking::AtOnce`",
            ),
            Self::TooLong => Told::of(
                "the value of the keys is longer than any token of this library, so it was not made by it, and \
                 cannot be told from others; if its holder has stopped, delete the key on each node (`DEL`)",
            ),
            Self::NoQuorum(report) => not_known(report),
            Self::Unconfirmed(report) => report.told(
                ": too few nodes confirmed that it is broken",
                ", so its holder may still extend it",
                "; try again when these nodes answer",
            ),
            Self::Invalid(why) => Told::of(why),
            Self::Saturated => Told::of(SATURATED),
            Self::Forked => Told::of(FORKED),
            Self::Closed => Told::of(CLOSED),
        }
    }
}

told!(BreakError {
    Changed,
    NoQuorum,
    Unconfirmed
});

impl BreakError {
    /// Returns the resource, if the nodes were asked about it.
    #[must_use]
    pub fn resource(&self) -> Option<&[u8]> {
        if let Self::NotHeld(seen) = self {
            return Some(seen.resource());
        }
        self.report()?.resource()
    }
}

impl From<InspectError> for BreakError {
    fn from(error: InspectError) -> Self {
        match error {
            InspectError::NoQuorum(report) => Self::NoQuorum(report),
            InspectError::Invalid(why) => Self::Invalid(why),
            InspectError::Saturated => Self::Saturated,
            InspectError::Forked => Self::Forked,
            InspectError::Closed => Self::Closed,
        }
    }
}

/// Returns the outcome of breaking the lock described by `seen`.
#[cfg(feature = "std")]
pub(crate) fn finish(
    outcome: super::contract::Event,
    seen: &Inspection,
) -> Result<Broken, BreakError> {
    use super::contract::Event;
    use crate::error::UnlockError;

    if let Event::Broken { result, .. } = outcome {
        return result;
    }
    let Event::Released { result, .. } = outcome else {
        unreachable!("the outcome of breaking a lock is that of another operation")
    };
    let released = result.map_err(|error| match error {
        UnlockError::NotHeld(report) => BreakError::Changed(report),
        UnlockError::Unconfirmed(report) => BreakError::Unconfirmed(report),
        UnlockError::Forked => BreakError::Forked,
        UnlockError::Closed => BreakError::Closed,
    })?;
    let Some(holder) = seen.holder().cloned() else {
        return Err(BreakError::NotHeld(Box::new(seen.clone())));
    };
    Ok(Broken {
        holder: holder.into(),
        nodes: released.deleted.into(),
        free_in: Duration::ZERO,
    })
}
