//! The purposes of timers.

use crate::keys::{ClaimKey, NodeId, OperationKey, WaiterKey};
use crate::timer::Wheel;

/// The type of an engine's timer wheel.
pub(super) type Timers = Wheel<Alarm>;

/// The purpose of a timer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Alarm {
    /// Opens a connection, or ends an attempt to open one that takes too long.
    Connection(NodeId),
    /// Checks whether a node has been silent for too long.
    Silence(NodeId),
    /// Checks whether too few nodes have answered for a while.
    Lines,
    /// Retries the releases that a node has refused.
    Debts(NodeId),
    /// Checks the counter floors, if a node has no floor.
    Floors,
    /// Wakes an operation that must act.
    Operation(OperationKey),
    /// Ends the wait of a waiter.
    Waiter(WaiterKey),
    /// Handles the due work on a held lock, or on a claim whose keys have expired.
    Claim(ClaimKey),
}
