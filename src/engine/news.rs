//! The outcomes to report and the work to begin at the next poll.

use crate::keys::OperationKey;
use crate::quorum::LockId;

/// An outcome to report, or work to begin, at the next poll.
#[derive(Clone, Copy, Debug)]
pub(super) enum News {
    /// The outcome of an operation.
    Operation(OperationKey),
    /// A lock has ended.
    Expired(LockId),
    /// A lock is at risk. The engine reports this only if a caller still holds the lock.
    AtRisk(LockId),
    /// Something that an operation waits for has changed. Callers do not see this event.
    Stirred(OperationKey),
    /// Waiting extensions of kept locks may begin.
    Room,
    /// The counter floors must be checked.
    Floors,
}
