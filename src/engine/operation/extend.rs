//! Extending a lock.
//!
//! A majority has to confirm that it holds the token and lets it live at least the new ttl, within
//! the old validity. Nothing is revived and nothing is shortened: the new validity counts from
//! before the send, and a lock whose validity has run out is refused before any byte is sent.

use crate::error::{ExtendError, NodeOutcome};
use crate::keys::ClaimKey;
use crate::node::Said;
use crate::quorum::{Lock, Majority, Vote};
use crate::time::Instant;

use super::Context;
use super::held::{AboutHeld, Held, Question, Verdict};
use crate::engine::parts::Parts;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::engine) struct Extend {
    pub(super) held: Held,
}

impl Extend {
    /// Returns an error if `lock` cannot be extended, before any node is asked.
    pub(in crate::engine) fn check(now: Instant, lock: &Lock) -> Result<(), ExtendError> {
        if !lock.is_valid_at(now) {
            return Err(ExtendError::Expired);
        }
        match lock.extensions_left() {
            0 => Err(ExtendError::Limit),
            _ => Ok(()),
        }
    }

    pub(in crate::engine) fn new(lock: &Lock, parts: &mut Parts) -> Result<Self, ExtendError> {
        let held = Held::new(lock, Question::AtLeast, parts)?;
        Ok(Self { held })
    }
}

/// Updates the claim, if there is one, by the answer of `node` to an extension, even if that is no
/// longer open. Returns the vote and the outcome for a report.
pub(in crate::engine) fn learn(
    now: Instant,
    node: usize,
    claim: Option<ClaimKey>,
    said: Said,
    parts: &mut Parts,
) -> (Vote, NodeOutcome) {
    let (vote, outcome) = said.vote();
    if let Some(claim) = claim.and_then(|claim| parts.claims.get_mut(claim)) {
        match vote {
            Vote::Yes => {
                claim.unknown.remove(node);
                claim.is_on(node, parts.settings.drift.gone_by(now, claim.ttl));
            }
            // A key that is missing or another's was not extended.
            Vote::No => {
                claim.unknown.remove(node);
                claim.lacking.insert(node);
            }
            Vote::Abstain => {}
        }
    }
    (vote, outcome)
}

impl AboutHeld for Extend {
    fn held(&mut self) -> &mut Held {
        &mut self.held
    }

    fn prepare(&mut self, cx: &mut Context<'_>) {
        if let Some(claim) = self.held.claim_in(&mut cx.parts.claims) {
            claim.ttl = claim.ttl.max(cx.round.ttl);
        }
    }

    /// `majority` keeps the lock for at least as long as was asked.
    fn is_kept_by(&mut self, majority: Majority, cx: &mut Context<'_>) {
        let held = &self.held;
        let claim = held.claim_in(&mut cx.parts.claims);
        // A later question may have found an earlier end.
        let known = match &claim {
            Some(claim) => held.valid_until.min(claim.valid_until),
            None => held.valid_until,
        };
        let drift = cx.parts.settings.drift;
        let end = drift.valid_until(cx.round.sent, cx.round.ttl).max(known);
        if let Some(claim) = claim {
            claim.valid_until = claim.valid_until.max(end);
        }
        held.forget(cx.round.key, &mut cx.parts.claims);
        held.top_up(&majority, end, cx);
        self.held.decide(Verdict::Kept(majority, end), cx);
    }
}
