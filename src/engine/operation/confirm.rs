//! Confirming a lock: asks how much longer a majority keeps it.
//!
//! Every node is asked how much longer it keeps the key with the token; nothing is changed. The lock is valid for as
//! long as a majority keeps it: the q-th largest answer counts, from before the send, less the lock delay and the
//! drift. This end replaces the known one. So a lock from another clock, whose end was not known, becomes valid, and a
//! lock whose keys were shortened ends earlier.
//!
//! A lock that was reported as over is not revived: its holder has stopped, and a second end would not be reported. If
//! no more than the lock delay and the drift is left of a lock, it is over, and that is reported at once.
//!
//! # Not here
//!
//! Copies for nodes that lost theirs: a confirmation notes them, and the next extension sends them.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use crate::entry::Entry;
use crate::error::ConfirmError;
use crate::keys::NodeId;
use crate::node::{Question, Reply};
use crate::quorum::{Lock, Majority, NodeSet};
use crate::time::Instant;

use super::Context;
use super::held::{AboutHeld, LockQuestion, Verdict};
use crate::engine::contract::{Event, Extension, RoundId};
use crate::engine::parts::Parts;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::engine) struct Confirm {
    pub(super) held: LockQuestion,
    /// How much longer each node keeps it.
    kept: Box<[Duration]>,
}

impl Confirm {
    /// Makes the question how much longer `lock` is kept.
    ///
    /// # Errors
    ///
    /// [`ConfirmError::Expired`] if `lock` is over. A lock whose end is not known ([`Instant::ZERO`]) is not over.
    pub(in crate::engine) fn new(
        now: Instant,
        lock: &Lock,
        parts: &mut Parts,
    ) -> Result<Self, ConfirmError> {
        let mut held = LockQuestion::new(lock, Question::Confirm, parts)?;
        let end = held.entry.end();
        if end != Instant::ZERO && end <= now {
            held.end(parts);
            return Err(ConfirmError::Expired);
        }
        let kept = vec![Duration::ZERO; parts.nodes.len()].into();
        Ok(Self { held, kept })
    }

    /// Makes the question one about another `entry` of the same lock.
    pub(in crate::engine) fn about(mut self, entry: Entry) -> Self {
        self.held.entry = entry;
        self
    }
}

/// Returns how much longer `quorum` of the nodes in `yes` keep the lock: the q-th largest answer.
pub(super) fn kept_by_majority(answers: &[Duration], yes: NodeSet, quorum: usize) -> Duration {
    let mut kept: Vec<Duration> = yes.iter().map(|node| answers[node.index()]).collect();
    kept.sort_unstable();
    let place = kept.len().saturating_sub(quorum);
    kept.get(place).copied().unwrap_or_default()
}

impl AboutHeld for Confirm {
    type Error = ConfirmError;

    fn held(&mut self) -> &mut LockQuestion {
        &mut self.held
    }

    fn event(&self, result: Result<Extension, ConfirmError>, cx: &mut Context<'_>) -> Event {
        let round = RoundId(cx.round.key);
        Event::Confirmed { round, result }
    }

    fn heard(&mut self, node: NodeId, reply: Reply) {
        if let Reply::Kept(kept) = reply {
            self.kept[node.index()] = kept;
        }
    }

    /// `majority` has the lock. If it keeps the lock for less time than was known, the operation also waits for the
    /// other nodes, which may keep it longer. An extension may not have waited for the nodes of this majority, and that
    /// is no reason to shorten the lock.
    fn kept_by(&mut self, majority: Majority, cx: &mut Context<'_>) {
        let held = &self.held;
        let kept = kept_by_majority(&self.kept, cx.round.tally.yes(), cx.round.tally.quorum());
        let sent = cx.round.sent;
        if sent.saturating_add(held.entry.delay().ttl(kept)) < held.entry.end()
            && !cx.round.tally.open().is_empty()
        {
            return;
        }
        let drift = cx.parts.settings.drift;
        let gone_by = drift.gone_by(cx.now, kept.min(cx.parts.settings.ttl_limit));
        let kept = kept.min(cx.parts.restarts.longest());
        let (left, ttl) = (held.entry.delay().ttl(kept), cx.round.ttl);
        cx.round.ttl = left;
        let left = cx.parts.nodes.unless_slewed(cx.now, majority.nodes(), left);
        let mut end = drift.valid_for(sent, left, ttl);
        let known = held.entry.end();
        if known != Instant::ZERO && known <= cx.now {
            return self.held.run_out(cx); // Another question has found that it is lost.
        }
        if let Some((key, claim)) = held.claim_in(&mut cx.parts.claims) {
            claim.confirmed_by(&majority);
            if claim.busy().questions.newest != Some(cx.round.key) {
                end = end.max(known); // An extension began after this question.
            }
            held.entry.set_end(end, cx.round.ttl);
            if end != known {
                claim.busy_mut().again = Instant::ZERO; // The time left is not what was known.
            }
            claim.lives(kept);
            claim.gone_by = claim.gone_by.max(gone_by);
            cx.parts.keeper.arm(key, claim, &mut cx.parts.timers);
        } else {
            held.entry.set_end(end, cx.round.ttl);
        }
        match end <= cx.now {
            true => self.held.run_out(cx),
            false => self.held.decide(Verdict::Kept(majority, end), cx),
        }
    }
}
