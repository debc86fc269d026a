//! A top-up sends a copy of a held lock to a node that does not have one.
//!
//! When a lock is extended, a node may answer that the key does not exist. The node may have restarted without the key,
//! may have been down when the lock was taken, or may have held another client's key at that time. Without a copy on
//! this node, fewer nodes than possible have the lock, and the loss of one more copy may end the lock.
//!
//! The copy is a `SET NX` that expires when the other copies expire. A first extension finds that the node does not
//! have the key. The engine sends the copy when a majority *without* that node has confirmed the token in a later
//! extension. If the node had the key again for a moment during this extension, the extension sends no copy, because
//! the node may have lost the key after the extension began. A nil reply to the copy does not count as a vote. A node
//! in quarantine gets a copy too. The copy counts as soon as the quarantine ends.
//!
//! When a majority grants the lock, the engine may not know yet how a node without scripts releases locks, and a `SET`
//! to another node may still be unsent. In both situations, the node gets its first copy as soon as possible, unless an
//! extension has already found that the node does not have the lock.
//!
//! # Not here
//!
//! The engine sends no copies of an adopted lock, because the previous engine may still release a copy whose answer it
//! never received. If another process may have received a lock's bytes during an extension, the engine sends no copies
//! of this lock, because that process may have released it. A lock that is not extended gets no new copies.

use core::time::Duration;

use crate::entry::Entry;
use crate::keys::{ClaimKey, NodeId};
use crate::node::Access;
use crate::quorum::{Drift, Majority, NodeSet};
use crate::time::Instant;

use super::Context;
use super::held::LockQuestion;
use crate::engine::claims::claim::Claim;
use crate::engine::news::News;
use crate::engine::parts::Parts;
use crate::engine::restarts::whole;

/// Returns the ttl of a copy that is sent at `now`, for a lock that is valid until `end`. The ttl is rounded up,
/// because a copy that expires before the other copies is useless.
pub(super) fn life_of_copy(
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

/// If `node` has not received a copy of the lock of `key` before, sends it a copy that expires at `end`. The lock was
/// granted before this node had shown how it releases locks.
#[cold]
pub(in crate::engine) fn copy_late(
    now: Instant,
    node: NodeId,
    (key, entry): (ClaimKey, &Entry),
    end: Instant,
    parts: &mut Parts,
) {
    let drift = parts.settings.drift;
    let Some(claim) = parts.claims.get_mut(key) else {
        return; // The claim is over.
    };
    let there = parts.nodes.writing_to(node);
    let wanted = now < end && !claim.may_hold.contains(node);
    // Sends the copy only if no other commands wait in front of it. A copy that waits would arrive late, and expire
    // after the other copies.
    if wanted && there.access() == Access::Open && !there.connection.wire.outbox.is_blocked() {
        let life = life_of_copy(now, end, entry, claim.life(), drift);
        let mut command = parts.claims.command();
        let sent = there.take(now, key, &mut command, entry, (life, None));
        parts.claims.sent(command);
        if let Some(claim) = parts.claims.get_mut(key).filter(|_| sent == Ok(true)) {
            claim.set_sent(node);
        }
        let watches = parts.queues.watching(Some(entry.resource()));
        parts.news.extend(watches.map(News::Stirred));
    }
    parts.claims.rest(key);
}

impl LockQuestion {
    /// Sends a copy to each node that did not have the key before the extension began and still does not have it. After
    /// the extension, `majority` keeps the lock until `end`.
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

    /// If the lock is held and was not adopted, sends a copy to each of `nodes` that has lost its copy and has not been
    /// sent another one. If a copy cannot be sent, the next extension tries again.
    pub(super) fn send_copies(&self, nodes: NodeSet, end: Instant, cx: &mut Context<'_>) {
        let mut command = cx.parts.claims.command();
        let drift = cx.parts.settings.drift;
        let claim = self.claim_in(&mut cx.parts.claims);
        let stands = |claim: &Claim| claim.is_held() && !claim.busy().is_adopted;
        if let Some((key, claim)) = claim.filter(|(_, claim)| stands(claim)) {
            let life = life_of_copy(cx.now, end, &self.entry, claim.life(), drift);
            let lacking = claim.busy().copies.lacking;
            let wants = |node| lacking.contains(node) && !claim.copy_on(node).is_open();
            for node in nodes.filter(wants).iter() {
                let there = cx.parts.nodes.writing_to(node);
                if there.access() == Access::Open && there.abilities.missing.is_none() {
                    let terms = (life, None);
                    if there.take(cx.now, key, &mut command, &self.entry, terms) == Ok(true) {
                        claim.set_sent(node);
                    } // Otherwise the next extension tries again.
                }
            }
        }
        cx.parts.claims.sent(command);
        for name in self.entry.names() {
            cx.parts.wrote_to(cx.now, name);
        }
    }
}
