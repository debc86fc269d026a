//! What is to be reported or begun at the next poll.

use crate::keys::{ClaimKey, OperationKey};
use crate::quorum::LockId;

/// Something to be reported or begun at the next poll.
#[derive(Clone, Copy, Debug)]
pub(super) enum News {
    /// The outcome of an operation.
    Operation(OperationKey),
    /// A lock is over.
    Expired(LockId),
    /// A lock is at risk, if it is still held.
    AtRisk(LockId),
    /// Something has changed that this operation waits for. There is nothing to tell a caller.
    Stirred(OperationKey),
    /// Extensions of locks that are kept can begin, which have waited for that.
    Room,
    /// A node lacks the lock of this claim, if it is kept: another extension gives it a copy.
    Lacking(ClaimKey),
    /// Floors of fencing tokens are to be looked at.
    Floors,
}
