//! Top-up: a node that has lost its copy of a lock that is held gets another.
//!
//! A node answers an extension that it does not have the key: it restarted without it, it was down
//! when the lock was taken, or it held another's then. Without a copy there, the lock stands on
//! fewer nodes than it could, and the next one that is lost may end it.
//!
//! The copy is a `SET NX` that expires when those of the others do. It is sent only when a majority
//! *without* that node has confirmed the token in a round that was begun after the loss was seen:
//! so at the extension after the one that found it. Where a node had it again in between, nothing is
//! sent in that round: it may have been lost since the round was begun. A nil to it is not a vote, and
//! a node that is kept from voting gets a copy too, which counts when its quarantine is over.
//!
//! A node without scripts may show in which way it releases when a majority has granted the lock already, or
//! its `SET` may not have left by then. It gets its first copy at once, if no extension has found it lacking
//! meanwhile.
//!
//! # Not here
//!
//! Locks that were adopted: the previous owner may still release a copy that it had no answer
//! about. Locks that were written down for another process while an extension by the engine was under way:
//! that process may have released them. And locks that are not extended: they end as they are.

use core::time::Duration;

use crate::entry::Entry;
use crate::keys::{ClaimKey, NodeId};
use crate::node::Access;
use crate::quorum::{Drift, Majority, NodeSet};
use crate::time::Instant;

use super::Context;
use super::held::LockQuestion;
use crate::engine::claims::claim::Claim;
use crate::engine::parts::Parts;
use crate::engine::restarts::whole;

/// Returns for how long a copy at `now` of a lock until `end` lives. Rounded up: one that expires before the
/// others is useless.
fn life_of_copy(
    now: Instant,
    end: Instant,
    entry: &Entry,
    longest: Duration,
    drift: Drift,
) -> Duration {
    let left = end.saturating_since(now);
    let ttl = left.saturating_add(drift.of(entry.delay().ttl(longest)));
    whole(entry.delay().life(ttl))
}

/// `node` has shown how locks are released when the lock of `key`, which ends at `end`, was granted without
/// it: it gets a copy, if it was sent none.
#[cold]
pub(super) fn copy_late(
    now: Instant,
    node: NodeId,
    (key, entry): (ClaimKey, &Entry),
    end: Instant,
    parts: &mut Parts,
) {
    let drift = parts.settings.drift;
    let Some(claim) = parts.claims.wake(key) else {
        return; // It is over.
    };
    let there = parts.nodes.writing_to(node);
    let wanted = now < end && !claim.may_hold().contains(node);
    // Behind what has to wait it would come late, and last longer than those of the others.
    if wanted && there.access() == Access::Open && !there.is_blocked() {
        let life = life_of_copy(now, end, entry, claim.life(), drift);
        let mut command = parts.claims.command();
        let sent = there.send_set(now, key, &mut command, entry, life);
        parts.claims.sent(command);
        if let Some(claim) = parts.claims.get_mut(key).filter(|_| sent) {
            claim.set_sent(node);
        }
        parts.tell_watches(entry.resource());
    }
    parts.claims.rest(key);
}

impl LockQuestion {
    /// `majority` has confirmed an extension until `end`: the nodes that lacked the key before it
    /// was begun, and still do, get a copy again.
    pub(super) fn top_up(&self, majority: &Majority, end: Instant, cx: &mut Context<'_>) {
        let lacking = self.lacking.without(majority.nodes());
        let claim = self.claim_in(&mut cx.parts.claims);
        let stands = |(_, claim): (_, &mut Claim)| {
            let has_left = claim.kept.as_ref().is_some_and(|kept| kept.has_ended());
            claim.busy().copies.regained == self.regained && !has_left
        };
        if !lacking.is_empty() && claim.is_some_and(stands) {
            self.send_copies(lacking, end, cx);
        }
    }

    /// Sends a copy to those of `nodes` that have not got one in between, if the lock is held here, and
    /// every node that has it counts. What cannot be sent is tried again with the next extension.
    pub(super) fn send_copies(&self, nodes: NodeSet, end: Instant, cx: &mut Context<'_>) {
        let mut command = cx.parts.claims.command();
        let drift = cx.parts.settings.drift;
        let claim = self.claim_in(&mut cx.parts.claims);
        let stands = |claim: &Claim| claim.is_held() && !claim.is_adopted();
        if let Some((key, claim)) = claim.filter(|(_, claim)| stands(claim)) {
            let life = life_of_copy(cx.now, end, &self.entry, claim.life(), drift);
            let lacking = claim.lacking();
            let wants = |node| lacking.contains(node) && !claim.copy_on(node).is_open();
            for node in nodes.filter(wants).iter() {
                let there = cx.parts.nodes.writing_to(node);
                if there.access() == Access::Open && there.missing_permission().is_none() {
                    let sent = there.send_set(cx.now, key, &mut command, &self.entry, life);
                    if !sent {
                        continue; // With the next extension.
                    }
                    claim.set_sent(node);
                }
            }
        }
        cx.parts.claims.sent(command);
        for name in self.entry.names() {
            cx.parts.tell_watches(name);
        }
    }
}
