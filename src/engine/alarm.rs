//! The purposes of timers.

use crate::keys::{ClaimKey, NodeId, OperationKey, WaiterKey};
use crate::timer::Wheel;

/// The timer wheel type of an engine.
pub(super) type Timers = Wheel<Alarm>;

/// The purpose of a timer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Alarm {
    /// It is time to open a connection, or opening one takes too long.
    Connection(NodeId),
    /// A node may have been silent for too long.
    Silence(NodeId),
    /// The engine may have been without a majority for a while.
    Lines,
    /// It is time to retry the releases that a node refused.
    Debts(NodeId),
    /// It is time to look at the counter floors, if any is missing.
    Floors,
    /// An operation has to act.
    Operation(OperationKey),
    /// A waiter has waited for as long as it may.
    Waiter(WaiterKey),
    /// A held lock needs attention, or the keys of a claim are gone.
    Claim(ClaimKey),
}
