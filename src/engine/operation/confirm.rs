//! Confirms a lock by asking how much longer a majority keeps it.
//!
//! Every node is asked how much longer it keeps the key with the token. The question changes nothing. The lock is valid
//! for as long as a majority of the nodes keeps it. The validity is the q-th largest answer, minus the lock delay and
//! the drift, and counts from the time before the question was sent. The new validity replaces the known one, even if
//! it is shorter. A lock whose validity was unknown becomes valid.
//!
//! A lock that was reported as lost does not become valid again, because its holder has stopped. The engine also
//! reports the end of a lock only once. If the nodes will keep a lock for no longer than the lock delay plus the drift,
//! the lock has ended, and the engine reports this immediately.
//!
//! # Not here
//!
//! A confirmation only records the nodes that have lost their copies. The next extension sends new copies to these
//! nodes.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use crate::entry::Entry;
use crate::error::ExtendError;
use crate::quorum::{Lock, Majority, NodeSet};
use crate::time::Instant;

use super::held::{Asks, LockQuestion, Verdict};
use super::{Context, Operate};
use crate::engine::parts::Parts;

impl LockQuestion {
    /// Creates an operation that asks how much longer the nodes keep `lock`.
    ///
    /// # Errors
    ///
    /// Returns [`ExtendError::Expired`] if `lock` has ended. A lock whose validity is unknown ([`Instant::ZERO`]) does
    /// not count as ended.
    pub(in crate::engine) fn confirm(
        now: Instant,
        lock: &Lock,
        parts: &mut Parts,
    ) -> Result<Self, ExtendError> {
        let answers = vec![Duration::ZERO; parts.nodes.len()];
        let mut held = Self::new(lock, Asks::Confirm(answers.into()), parts)?;
        let end = held.entry.end();
        if end != Instant::ZERO && end <= now {
            held.end(parts);
            return Err(ExtendError::Expired);
        }
        Ok(held)
    }

    /// Turns this question into a question about another `entry` of the same lock.
    pub(in crate::engine) fn about(mut self, entry: Entry) -> Self {
        self.entry = entry;
        self
    }
}

/// Returns how much longer `quorum` of the nodes in `yes` keep the lock, which is the q-th largest answer.
pub(super) fn kept_by_majority(answers: &[Duration], yes: NodeSet, quorum: usize) -> Duration {
    let mut kept: Vec<Duration> = yes.iter().map(|node| answers[node.index()]).collect();
    kept.sort_unstable();
    let place = kept.len().saturating_sub(quorum);
    kept.get(place).copied().unwrap_or_default()
}

impl LockQuestion {
    /// Handles the confirmation of the lock by `majority`. If these nodes keep the lock for less time than expected,
    /// the operation also waits for the other nodes, which may keep it longer. An earlier extension may have succeeded
    /// on other nodes, so the answers of this majority alone must not shorten the lock.
    pub(super) fn confirmed_by(&mut self, majority: Majority, cx: &mut Context<'_>) {
        let Asks::Confirm(answers) = &self.asks else {
            return;
        };
        let kept = kept_by_majority(answers, cx.round.tally.yes(), cx.round.tally.quorum());
        let sent = cx.round.sent;
        if sent.saturating_add(self.entry.delay().ttl(kept)) < self.entry.end()
            && !cx.round.tally.open().is_empty()
        {
            return;
        }
        let drift = cx.parts.settings.drift;
        let gone_by = drift.gone_by(cx.now, kept.min(cx.parts.settings.ttl_limit));
        let kept = kept.min(cx.parts.restarts.longest());
        let (left, ttl) = (self.entry.delay().ttl(kept), cx.round.ttl);
        cx.round.ttl = left;
        let left = cx.parts.nodes.unless_slewed(cx.now, majority.nodes(), left);
        let mut end = drift.valid_for(sent, left, ttl);
        let known = self.entry.end();
        if known != Instant::ZERO && known <= cx.now {
            return self.run_out(cx); // Another question has found that the lock is lost.
        }
        if let Some((key, claim)) = self.claim_in(&mut cx.parts.claims) {
            claim.confirmed_by(&majority);
            if claim.busy().questions.newest != Some(cx.round.key) {
                end = end.max(known); // An extension began after this question.
            }
            self.entry.set_end(end, cx.round.ttl);
            if end != known {
                claim.busy_mut().again = Instant::ZERO; // The remaining time differs from the known one.
            }
            claim.lives(kept);
            claim.gone_by = claim.gone_by.max(gone_by);
            cx.parts.keeper.arm(key, claim, &mut cx.parts.timers);
        } else {
            self.entry.set_end(end, cx.round.ttl);
        }
        match end <= cx.now {
            true => self.run_out(cx),
            false => self.decide(Verdict::Kept(majority, end), cx),
        }
    }
}
