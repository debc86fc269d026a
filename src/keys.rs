//! Keys of the engine's records. Other layers carry them and give them back.
//!
//! Each kind of record has its own type of key: one cannot be taken for the other.

use crate::slab::Key;

/// Names an operation: what a caller waits for, with all its attempts.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct OperationKey(pub(crate) Key);

/// Names a claim: what one token may have left on the nodes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ClaimKey(pub(crate) Key);

/// Names a place: a resource that is held or wanted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct PlaceKey(pub(crate) Key);

/// Names an operation in the queue of a place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct WaiterKey(pub(crate) Key);
