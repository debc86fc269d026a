//! Keys of the nodes and of the engine's records. Other layers only pass the keys on.
//!
//! Each kind of key has its own type, so that the compiler finds mix-ups.

#[cfg(any(feature = "std", test, fuzzing))]
use crate::limits::NODES_MAX;
use crate::slab::Key;

/// Identifies a node by its place in the configuration.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NodeId(u8);

impl NodeId {
    /// Returns the node at place `index`, which must be below [`NODES_MAX`].
    #[cfg(any(feature = "std", test, fuzzing))]
    pub(crate) const fn new(index: usize) -> Self {
        assert!(index < NODES_MAX, "there are fewer nodes");
        Self(index as u8)
    }

    /// Returns the node of the lowest set bit of `bits`, which has one bit for each node.
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

/// Identifies an operation: the work that a caller waits for, with all its attempts.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct OperationKey(pub(crate) Key);

/// The bit that is set in an [`OperationKey`] if the key identifies the operation by its place in a queue.
const WAITS: u64 = 1 << 31;

impl OperationKey {
    /// A key that is less than or equal to every other key.
    pub(crate) const LEAST: Self = Self(Key::LEAST);

    /// Matches no operation.
    #[cfg(feature = "std")]
    pub(crate) const NONE: Self = Self(Key::NONE);

    /// Returns the key of the operation that waits or has waited in the queue as `waiter`.
    pub(crate) fn of_waiter(waiter: WaiterKey) -> Self {
        let key = Key::from_bits(waiter.0.to_bits() | WAITS);
        Self(key.unwrap_or(Key::NONE))
    }

    /// Returns the operation's place in a queue, or `None` if the operation never waited for its turn.
    pub(crate) fn waiter(self) -> Option<WaiterKey> {
        let bits = self.0.to_bits();
        let waits = bits & WAITS != 0;
        waits.then(|| Key::from_bits(bits & !WAITS).map(WaiterKey))?
    }
}

/// Identifies a claim: everything that one token may have left on the nodes.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct ClaimKey(pub(crate) Key);

/// Identifies a resource that is held or wanted.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct PlaceKey(pub(crate) Key);

impl PlaceKey {
    /// The resource has no key, because no other caller wants it.
    pub(crate) const NONE: Self = Self(Key::NONE);
}

/// Identifies an operation in the queue of a resource.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct WaiterKey(pub(crate) Key);
