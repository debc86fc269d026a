//! The outcomes to report and the work to begin at the next poll.

use crate::keys::OperationKey;
use crate::quorum::LockId;

/// An outcome to report, or work to begin, at the next poll.
#[derive(Clone, Copy, Debug)]
pub(super) enum News {
    /// The outcome of an operation.
    Operation(OperationKey),
    /// A lock is over.
    Expired(LockId),
    /// A lock is at risk, if it is still held.
    AtRisk(LockId),
    /// Something that this operation waits for has changed. Callers do not see this event.
    Stirred(OperationKey),
    /// There is room for the extensions of kept locks that have waited.
    Room,
    /// The counter floors have to be looked at.
    Floors,
}
