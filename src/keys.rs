//! Keys of the nodes and of the engine's records. Other layers pass them on without looking inside.
//!
//! Each kind has its own type, so that one cannot be mistaken for another.

#[cfg(any(feature = "std", test, fuzzing))]
use crate::limits::NODES_MAX;
use crate::slab::Key;

/// A node, by its place in the configuration.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NodeId(u8);

impl NodeId {
    /// Returns the node at place `index`, which must be below [`NODES_MAX`].
    #[cfg(any(feature = "std", test, fuzzing))]
    pub(crate) const fn new(index: usize) -> Self {
        assert!(index < NODES_MAX, "there are fewer nodes");
        Self(index as u8)
    }

    /// Returns the node of the lowest bit that is set in `bits`. Each node has a bit.
    pub(crate) const fn of_lowest_bit(bits: u32) -> Self {
        Self(bits.trailing_zeros() as u8)
    }

    /// Returns the first `nodes` nodes, in the order of the configuration.
    pub(crate) fn first(nodes: usize) -> impl Iterator<Item = Self> {
        (0..nodes as u8).map(Self)
    }

    /// Returns the place of the node in the configuration, counted from 0.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Names an operation: the work that a caller waits for, with all its attempts.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct OperationKey(pub(crate) Key);

/// The index of a key has this bit if the key names an operation by its place in a queue.
const WAITS: u64 = 1 << 31;

impl OperationKey {
    /// A key that is not greater than any other.
    pub(crate) const LEAST: Self = Self(Key::LEAST);

    /// Names no operation.
    #[cfg(feature = "std")]
    pub(crate) const NONE: Self = Self(Key::NONE);

    /// Names the operation that waits, or has waited, as `waiter`.
    pub(crate) fn of_waiter(waiter: WaiterKey) -> Self {
        let key = Key::from_bits(waiter.0.to_bits() | WAITS);
        Self(key.unwrap_or(Key::NONE))
    }

    /// Returns the place of the operation in a queue, if the key names the operation by its place: the operation waits
    /// for its turn, or has waited.
    pub(crate) fn waiter(self) -> Option<WaiterKey> {
        let bits = self.0.to_bits();
        let waits = bits & WAITS != 0;
        waits.then(|| Key::from_bits(bits & !WAITS).map(WaiterKey))?
    }
}

/// Names a claim: everything that one token may have left on the nodes.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct ClaimKey(pub(crate) Key);

/// Names a place: a resource that is held or wanted.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct PlaceKey(pub(crate) Key);

impl PlaceKey {
    /// No place: no other caller wants the resource.
    pub(crate) const NONE: Self = Self(Key::NONE);
}

/// Names an operation in the queue of a place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct WaiterKey(pub(crate) Key);
