//! A set of nodes, with one bit for each node.

use crate::keys::NodeId;
use crate::limits::NODES_MAX;

/// A set of nodes, by their index in the configuration. The set takes four bytes, and needs no allocation.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct NodeSet(u32);

impl NodeSet {
    /// The empty set of nodes.
    pub(crate) const EMPTY: Self = Self(0);

    /// Returns the first `nodes` nodes, at most [`NODES_MAX`].
    #[must_use]
    pub(crate) const fn first(nodes: usize) -> Self {
        assert!(nodes <= NODES_MAX);
        Self((1 << nodes) - 1)
    }

    /// Returns the set that contains only `node`.
    pub(crate) const fn of(node: NodeId) -> Self {
        Self(Self::bit(node))
    }

    /// Returns the set as a number with a bit for each node.
    #[cfg(feature = "std")]
    pub(crate) const fn to_bits(self) -> u32 {
        self.0
    }

    /// Returns the set for a number that [`NodeSet::to_bits`] has returned. Returns `None` if the number contains nodes
    /// that cannot exist.
    #[cfg(feature = "std")]
    pub(crate) const fn from_bits(bits: u32) -> Option<Self> {
        if bits >> NODES_MAX == 0 {
            Some(Self(bits))
        } else {
            None
        }
    }

    /// Returns the number of nodes in the set.
    #[must_use]
    pub(crate) const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns `true` if no node is in the set.
    #[must_use]
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns `true` if `node` is in the set.
    #[must_use]
    pub(crate) const fn contains(self, node: NodeId) -> bool {
        self.0 & Self::bit(node) != 0
    }

    /// Inserts `node`. Returns `true` if `node` was not in the set before.
    pub(crate) fn insert(&mut self, node: NodeId) -> bool {
        let new = !self.contains(node);
        self.0 |= Self::bit(node);
        new
    }

    /// Removes `node`. Returns `true` if `node` was in the set.
    pub(crate) fn remove(&mut self, node: NodeId) -> bool {
        let old = self.contains(node);
        self.0 &= !Self::bit(node);
        old
    }

    /// Returns the first node.
    pub(crate) fn first_node(self) -> Option<NodeId> {
        self.iter().next()
    }

    /// Removes the first node and returns it.
    pub(crate) fn take_first(&mut self) -> Option<NodeId> {
        let first = self.first_node()?;
        self.remove(first);
        Some(first)
    }

    const fn bit(node: NodeId) -> u32 {
        1 << node.index()
    }

    /// Returns the nodes in either set.
    #[must_use]
    pub(crate) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the nodes that are in this set but not in `other`.
    #[must_use]
    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the nodes of the set for which `is` returns `true`.
    pub(crate) fn filter(self, mut is: impl FnMut(NodeId) -> bool) -> Self {
        let mut rest = Self::EMPTY;
        for node in self.iter().filter(|node| is(*node)) {
            rest.insert(node);
        }
        rest
    }

    /// Returns the nodes of the set in ascending order.
    pub(crate) fn iter(self) -> impl Iterator<Item = NodeId> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let next = (rest != 0).then(|| NodeId::of_lowest_bit(rest))?;
            rest &= rest - 1;
            Some(next)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn it_is_a_set() {
        let mut set = NodeSet::EMPTY;
        let [zero, one, two, last] = [0, 1, 2, 30].map(NodeId::new);
        assert!(set.insert(last) && set.insert(zero) && !set.insert(zero));
        assert_eq!(set.iter().collect::<Vec<_>>(), [zero, last]);
        assert!(set.remove(last) && !set.remove(last) && !set.contains(last));
        assert_eq!(
            NodeSet::first(3).without(set).iter().collect::<Vec<_>>(),
            [one, two]
        );
        assert_eq!(NodeSet::first(31).len(), 31);
    }
}
