//! Takes a lock on several resources: the differences from a lock on one resource.
//!
//! A node sets all keys or none, so its vote applies to all keys. A node that refuses the request names one resource
//! that is taken.

use alloc::boxed::Box;
use alloc::vec;

use super::{Acquire, Special};
use crate::engine::operation::Context;
use crate::error::{NodeOutcome, Report};
use crate::keys::{NodeId, PlaceKey, WaiterKey};
use crate::quorum::NodeSet;

/// The additional state of an acquisition of several resources.
#[derive(Debug)]
pub(super) struct Several {
    /// The places of the resources, in the order of the resources.
    pub(super) places: Box<[PlaceKey]>,
    /// The record of the acquisition in the queue of each place, if a record exists or has existed.
    pub(super) waiters: Box<[Option<WaiterKey>]>,
    /// The resource that each node has reported as taken in this attempt, counted from 1. Zero means that the node has
    /// reported no resource.
    held: Box<[u8]>,
}

impl Several {
    pub(super) fn new(places: Box<[PlaceKey]>, nodes: usize) -> Self {
        Self {
            waiters: vec![None; places.len()].into(),
            places,
            held: vec![0; nodes].into(),
        }
    }

    /// Begins another attempt, in which no node has reported a resource yet.
    pub(super) fn forget_named(&mut self) {
        self.held.fill(0);
    }

    /// Records that every node has reported this resource as taken. Resources are counted from 0.
    pub(super) fn all_name(&mut self, number: usize) {
        self.held.fill(number as u8 + 1);
    }

    /// Returns the nodes that have reported a resource other than `number`, which is counted from 0.
    pub(super) fn named_others(&self, number: usize) -> NodeSet {
        NodeSet::first(self.held.len()).filter(|node| {
            let named = usize::from(self.held[node.index()]);
            named != 0 && named != number + 1
        })
    }

    /// Returns the resource that most nodes have reported, counted from 0. In a tie, returns the first of the most
    /// reported resources.
    pub(super) fn most_named(&self) -> Option<usize> {
        let count = |number: u8| self.held.iter().filter(|held| **held == number).count();
        let numbers = self.held.iter().copied().filter(|number| *number != 0);
        let number = numbers.min_by_key(|number| (usize::MAX - count(*number), *number))?;
        Some(usize::from(number) - 1)
    }
}

impl Acquire {
    /// Records that `node` has reported the resource `which`, counted from 0, as taken.
    pub(super) fn named(&mut self, node: NodeId, which: u8) {
        if let Some(Special::Several(several)) = self.special.as_deref_mut()
            && usize::from(which) < several.places.len()
        {
            several.held[node.index()] = which + 1;
        }
    }

    /// Returns the place of the resource that blocks the lock, if the resource is known. Also names the resource in
    /// `report`.
    #[cold]
    pub(super) fn name_held(&self, report: Report, cx: &Context<'_>) -> (Report, Option<PlaceKey>) {
        let Some(several) = self.several() else {
            return (report, Some(self.place));
        };
        let places = self.places();
        let name = |number: usize| cx.parts.queues.name(places[number]);
        let held = several.held.iter().enumerate().map(|(node, number)| {
            let outcome = cx.round.ballots[node].outcome;
            let number = usize::from(*number).checked_sub(1);
            number.filter(|_| outcome == NodeOutcome::Held).map(name)
        });
        let most = self.held_here(cx).or(several.most_named());
        (
            report.of_several(held, most.map(name)),
            most.map(|number| places[number]),
        )
    }
}
