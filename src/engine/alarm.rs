//! The purposes of timers.

use crate::keys::{ClaimKey, NodeId, OperationKey, WaiterKey};
use crate::timer::Wheel;

/// The one wheel of an engine.
pub(super) type Timers = Wheel<Alarm>;

/// The purpose of a timer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Alarm {
    /// A connection is to be tried, or takes too long.
    Connection(NodeId),
    /// A node may have been silent for too long.
    Silence(NodeId),
    /// There may have been no majority for a while.
    Lines,
    /// What a node refused to release is tried again.
    Debts(NodeId),
    /// Floors of fencing tokens that are missing may be repaired.
    Floors,
    /// An operation has to be looked at.
    Operation(OperationKey),
    /// The time of one that waits for its turn is up.
    Waiter(WaiterKey),
    /// Locks that are kept are to be looked at.
    Looks,
    /// A lock's validity ends, or a claim's keys are gone.
    Claim(ClaimKey),
}
