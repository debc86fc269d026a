//! Top-up: a node that has lost its copy of a lock that is held gets another.
//!
//! A node answers an extension that it does not have the key: it restarted without it, it was down
//! when the lock was taken, or it held another's then. Without a copy there, the lock stands on
//! fewer nodes than it could, and the next one that is lost may end it.
//!
//! The copy is a `SET NX` that expires when those of the others do. It is sent only when a majority
//! *without* that node has confirmed the token in a round that was begun after the loss was seen:
//! so at the extension after the one that found it. A nil to it is no vote, and a node that is kept
//! from voting gets a copy too, which counts when its quarantine is over.
//!
//! # Not here
//!
//! Locks that were adopted: whoever handed them over may still give back a copy that he had not
//! heard of. And locks that nobody extends: they end as they are.

use core::time::Duration;

use crate::limits::COMMAND_BYTES_MAX;
use crate::node::{self, Access, Dialect, Errand};
use crate::quorum::{Majority, NodeSet};
use crate::slab::Key;
use crate::time::Instant;

use super::Engine;
use super::claim::{Claim, Stage};
use super::round::Kind;

impl Engine {
    /// The nodes that are known to lack the key of `claim`.
    pub(super) fn lacking(&self, claim: Option<Key>) -> NodeSet {
        let claim = claim.and_then(|claim| self.claims.get(claim));
        claim.map_or(NodeSet::EMPTY, |claim| claim.lacking)
    }

    /// `majority` has confirmed an extension until `end`: those who lacked the key before it was
    /// begun, and still do, get it again.
    pub(super) fn top_up(&mut self, now: Instant, key: Key, majority: &Majority, end: Instant) {
        let Some(Kind::Extend {
            claim: Some(claim),
            lacking,
            ..
        }) = self.rounds.get(key).map(|round| &round.kind)
        else {
            return;
        };
        let claim = *claim;
        let lacking = lacking.without(majority.nodes());
        if lacking.is_empty() || !self.claims.get(claim).is_some_and(may_be_topped_up) {
            return;
        }
        self.encoded.clear();
        for node in lacking.iter() {
            self.top_up_node(now, key, claim, node, end);
        }
    }

    fn top_up_node(&mut self, now: Instant, round: Key, claim: Key, node: usize, end: Instant) {
        let drift = self.settings.drift;
        let Some(Kind::Extend { entry, .. }) = self.rounds.get(round).map(|round| &round.kind)
        else {
            return;
        };
        let Some(held) = self.claims.get_mut(claim) else {
            return;
        };
        if !held.lacking.contains(node) || held.unanswered.contains(node) {
            return; // It has got a copy in between, or one is on its way.
        }
        let left = mutant!(TopUpWithFullTtl => held.ttl, else end.saturating_since(now));
        let ttl = whole_millis(left.saturating_add(drift.of(held.ttl)));
        let there = &mut self.nodes[node];
        if there.access(COMMAND_BYTES_MAX) != Access::Open || there.missing_permission().is_some() {
            return; // It is tried again with the next extension.
        }
        self.to_write.insert(node);
        if there.may_release() {
            let command = match there.marker() {
                None => self
                    .encoded
                    .get(Dialect::Text, |out| node::set(out, entry, ttl)),
                Some(marker) => {
                    self.encoded.clear();
                    let dialect = there.acquire_dialect();
                    self.encoded.get(dialect, |out| {
                        node::fenced_set(out, entry, ttl, marker, dialect);
                    })
                }
            };
            there.send(now, Errand::Set { claim }, command);
        } else {
            there.send_first_set(now, claim, entry, ttl);
        }
        held.set_sent(node);
        held.granted.remove(node); // What it had is gone, and this is not answered.
    }
}

/// Copies at the wrong time: only where a guard is taken out.
impl Engine {
    pub(super) fn top_up_early(&mut self, now: Instant, key: Key, claim: Option<Key>, node: usize) {
        if let Some(claim) = claim
            && self.claims.get(claim).is_some_and(may_be_topped_up)
            && let Some(Kind::Extend { valid_until, .. }) = self.rounds.get(key).map(|r| &r.kind)
        {
            let end = *valid_until;
            self.encoded.clear();
            self.top_up_node(now, key, claim, node, end);
        }
    }

    pub(super) fn top_up_late(&mut self, now: Instant, key: Key) {
        let Some((entry, lacking, until)) = self.claims.get(key).and_then(|claim| {
            let entry = claim.entry.as_ref()?.copy_into(alloc::vec::Vec::new());
            Some((entry, claim.lacking, claim.valid_until))
        }) else {
            return;
        };
        for node in lacking.iter() {
            let mut out = alloc::vec::Vec::new();
            let ttl = whole_millis(until.saturating_since(now));
            node::set(&mut out, &entry, ttl.max(Duration::from_millis(1)));
            if self.nodes[node].access(out.len()) == Access::Open {
                self.nodes[node].send(now, Errand::Set { claim: key }, &out);
                self.to_write.insert(node);
            }
        }
    }
}

/// Whether it is held here, and stands on whatever nodes hold it.
fn may_be_topped_up(claim: &Claim) -> bool {
    claim.stage == (Stage::Held { told: false }) && !claim.adopted
}

/// Rounded up: a copy that is gone before the others is worth nothing.
fn whole_millis(duration: Duration) -> Duration {
    let nanos = duration.subsec_nanos() % 1_000_000;
    let missing = if nanos == 0 { 0 } else { 1_000_000 - nanos };
    duration.saturating_add(Duration::from_nanos(u64::from(missing)))
}
