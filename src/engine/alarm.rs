//! The purposes of timers.

use crate::keys::{ClaimKey, OperationKey};
use crate::timer::Wheel;

/// The one wheel of an engine.
pub(super) type Timers = Wheel<Alarm>;

/// The purpose of a timer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Alarm {
    /// A connection is to be tried, or takes too long.
    Connection(usize),
    /// A node may have been silent for too long.
    Silence(usize),
    /// There may have been no majority for a while.
    Lines,
    /// What a node refused to release is tried again.
    Debts(usize),
    /// An operation has to be looked at.
    Operation(OperationKey),
    /// A lock's validity ends, or a claim's keys are gone.
    Claim(ClaimKey),
}
