//! Extends a lock.
//!
//! Within the old validity, a majority must confirm that it has the token and keeps it for at least the new ttl. An
//! extension never revives or shortens a lock. The new validity counts from the time before the question was sent. If
//! the old validity has ended, the extension is refused, and nothing is sent.

use crate::error::ExtendError;
use crate::quorum::{Lock, Majority};
use crate::time::Instant;

use super::Context;
use super::held::{Asks, LockQuestion, Verdict};
use crate::engine::contract::{Event, Extension, RoundId};
use crate::engine::parts::Parts;

impl LockQuestion {
    /// Returns an error if `lock` cannot be extended. The check sends nothing.
    pub(in crate::engine) fn check_extension(now: Instant, lock: &Lock) -> Result<(), ExtendError> {
        if !lock.is_valid_at(now) {
            return Err(ExtendError::Expired);
        }
        match lock.extensions_left() {
            0 => Err(ExtendError::Limit),
            _ => Ok(()),
        }
    }

    /// Creates the extension of `lock`.
    pub(in crate::engine) fn extend(lock: &Lock, parts: &mut Parts) -> Result<Self, ExtendError> {
        Self::new(lock, Asks::Extend { is_beyond: false }, parts)
    }

    /// Counts the outcome of the extension, and returns its event.
    pub(super) fn extended(
        &self,
        result: Result<Extension, ExtendError>,
        cx: &mut Context<'_>,
    ) -> Event {
        let result = match self.asks {
            Asks::Extend { is_beyond: true } => Err(ExtendError::Limit),
            Asks::Extend { .. } | Asks::Confirm(_) => result,
        };
        let counts = &mut cx.parts.stats.extensions;
        match &result {
            Ok(_) => counts.extended += 1,
            Err(why) => counts.failed(why),
        }
        match self.own {
            true => Event::Kept {
                lock: self.lock,
                result: result.map(|extension| extension.valid_until()),
            },
            false => Event::Extended {
                round: RoundId(cx.round.key),
                result,
            },
        }
    }

    /// Ends the extension, because `majority` keeps the lock for at least the new ttl.
    pub(super) fn extended_by(&mut self, majority: Majority, cx: &mut Context<'_>) {
        let claim = self.claim_in(&mut cx.parts.claims);
        let kept = claim.as_ref().and_then(|(_, claim)| claim.kept.as_ref());
        if kept.is_some_and(|kept| !kept.count()) {
            self.asks = Asks::Extend { is_beyond: true };
            return self.decide(Verdict::Closed, cx);
        }
        let drift = cx.parts.settings.drift;
        // Subtracts the drift of the full ttl, even if the last extension of a kept lock asks for a shorter ttl.
        let kept = kept.filter(|_| self.own);
        let ttl = kept.map_or(cx.round.ttl, |_| self.entry.ttl());
        let asked = cx
            .parts
            .nodes
            .unless_slewed(cx.now, majority.nodes(), cx.round.ttl);
        let known = self.entry.end();
        let end = drift.valid_for(cx.round.sent, asked, ttl).max(known);
        self.entry.lengthen_end(end, cx.round.ttl);
        if let Some((key, claim)) = claim {
            claim.confirmed_by(&majority);
            if known < end && claim.kept.is_some() {
                claim.busy_mut().again = Instant::ZERO;
                cx.parts.keeper.arm(key, claim, &mut cx.parts.timers);
            }
        }
        self.top_up(&majority, end, cx);
        self.decide(Verdict::Kept(majority, end), cx);
    }
}
