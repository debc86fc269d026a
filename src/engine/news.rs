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
    /// A lock is at risk, if it is still held.
    AtRisk(LockId),
    /// An operation waits for something that has changed. Callers do not see this event.
    Stirred(OperationKey),
    /// There is room for the extensions of kept locks that were waiting.
    Room,
    /// The counter floors must be checked.
    Floors,
}
