//! Extending a lock.
//!
//! A majority has to confirm, within the old validity, that it holds the token and keeps it for at least the new ttl.
//! Nothing is revived and nothing is shortened: the new validity counts from before the send, and a lock whose validity
//! has run out is refused before any byte is sent.

use crate::error::ExtendError;
use crate::keys::ClaimKey;
use crate::node::Question;
use crate::quorum::{Lock, Majority};
use crate::time::Instant;

use super::Context;
use super::held::{AboutHeld, LockQuestion, Verdict};
use crate::engine::contract::{Event, Extension, RoundId};
use crate::engine::parts::Parts;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::engine) struct Extend {
    pub(super) held: LockQuestion,
    /// A majority has confirmed it, but meanwhile other extensions have used up the allowed number.
    is_beyond: bool,
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
        let held = LockQuestion::new(lock, Question::Extend, parts)?;
        Ok(Self {
            held,
            is_beyond: false,
        })
    }

    /// Makes the extension of the lock of `claim`, which this engine keeps.
    pub(in crate::engine) fn of_kept(claim: ClaimKey, parts: &mut Parts) -> Option<Self> {
        let held = LockQuestion::of_kept(claim, Question::Extend, parts)?;
        Some(Self {
            held,
            is_beyond: false,
        })
    }
}

impl AboutHeld for Extend {
    type Error = ExtendError;

    fn held(&mut self) -> &mut LockQuestion {
        &mut self.held
    }

    fn event(&self, result: Result<Extension, ExtendError>, cx: &mut Context<'_>) -> Event {
        let result = match self.is_beyond {
            true => Err(ExtendError::Limit),
            false => result,
        };
        let counts = &mut cx.parts.stats.extensions;
        match &result {
            Ok(_) => counts.extended += 1,
            Err(why) => counts.failed(why),
        }
        match self.held.own {
            true => self.held.kept_event(result),
            false => Event::Extended {
                round: RoundId(cx.round.key),
                result,
            },
        }
    }

    /// `majority` keeps the lock for at least the ttl that was asked for.
    fn kept_by(&mut self, majority: Majority, cx: &mut Context<'_>) {
        let held = &self.held;
        let claim = held.claim_in(&mut cx.parts.claims);
        let kept = claim.as_ref().and_then(|(_, claim)| claim.kept.as_ref());
        if kept.is_some_and(|kept| !kept.count()) {
            self.is_beyond = true;
            return self.held.decide(Verdict::Closed, cx);
        }
        let drift = cx.parts.settings.drift;
        // The last extension of a kept lock may ask for a shorter ttl, but takes off the drift of the full ttl.
        let kept = kept.filter(|_| held.own);
        let ttl = kept.map_or(cx.round.ttl, |_| held.entry.ttl());
        let asked = cx
            .parts
            .nodes
            .unless_slewed(cx.now, majority.nodes(), cx.round.ttl);
        let known = held.entry.end();
        let end = drift.valid_for(cx.round.sent, asked, ttl).max(known);
        held.entry.lengthen_end(end, cx.round.ttl);
        if let Some((key, claim)) = claim {
            claim.confirmed_by(&majority);
            if known < end && claim.kept.is_some() {
                claim.busy_mut().again = Instant::ZERO;
                cx.parts.keeper.arm(key, claim, &mut cx.parts.timers);
            }
        }
        held.top_up(&majority, end, cx);
        self.held.decide(Verdict::Kept(majority, end), cx);
    }
}
