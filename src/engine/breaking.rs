//! The ways to break a lock, and the result of breaking it.
//!
//! # Not here
//!
//! The module [`overwrite`](super::operation::overwrite) describes how an engine breaks a lock.

use alloc::boxed::Box;
use core::time::Duration;

use super::inspection::Holder;
#[cfg(feature = "std")]
use super::inspection::Inspection;
#[cfg(feature = "std")]
use super::operators::OperatorError;

/// What happens to the keys of a broken lock.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Breaking {
    /// The keys get another token and keep their expiry. No other client can take the lock before the keys expire, and
    /// by then the holder must have stopped. The holder of a [kept](crate::LockOptions::keep) lock learns of the break
    /// immediately, or after half of its validity if the nodes send no notifications. Any other holder learns of the
    /// break at its next extension.
    #[default]
    KeepOut,
    /// The keys are deleted. Any client may take the lock immediately, while the old holder still believes that it
    /// holds the lock. Use this variant only if you know that the holder has stopped.
    AtOnce,
}

/// A description of a broken lock.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Broken {
    /// The holder of the lock, as it was before the lock was broken.
    pub holder: Box<Holder>,
    /// The number of nodes that have broken the lock, at least a majority. With [`Breaking::AtOnce`], more nodes may
    /// delete their keys later.
    pub nodes: usize,
    /// The time until the lock is free on every node, which is the longest remaining time of any key. This time is zero
    /// if the keys were deleted.
    pub free_in: Duration,
}

/// Returns the outcome of breaking the lock described by `seen`.
#[cfg(feature = "std")]
pub(crate) fn finish(
    outcome: super::contract::Event,
    seen: &Inspection,
) -> Result<Broken, OperatorError> {
    use super::contract::Event;
    use crate::error::UnlockError;

    if let Event::Broken { result, .. } = outcome {
        return result;
    }
    let Event::Released { result, .. } = outcome else {
        unreachable!("the outcome of breaking a lock is that of another operation")
    };
    let released = result.map_err(|error| match error {
        UnlockError::NotHeld(report) => OperatorError::Changed(report),
        UnlockError::Unconfirmed(report) => OperatorError::Unconfirmed(report),
        UnlockError::Forked => OperatorError::Forked,
        UnlockError::Closed => OperatorError::Closed,
    })?;
    let Some(holder) = seen.holder().cloned() else {
        return Err(OperatorError::NotHeld(Box::new(seen.clone())));
    };
    Ok(Broken {
        holder: holder.into(),
        nodes: released.deleted.into(),
        free_in: Duration::ZERO,
    })
}
