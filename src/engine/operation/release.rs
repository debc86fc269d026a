//! Releasing a lock, with a caller who waits for the outcome.
//!
//! Every node that may hold the token is asked to delete it; what each says of it is counted. What is
//! owed to nodes that do not answer stays owed beyond the operation: that is the claim's.

use crate::error::{NodeOutcome, Released, UnlockError};
use crate::keys::ClaimKey;
use crate::quorum::{Releasing, Vote};
use crate::time::Instant;

use super::patience::Patience;
use super::round::Round;
use super::{After, Operate};
use crate::engine::contract::{Event, RoundId};
use crate::engine::parts::Parts;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::engine) struct Release {
    claim: ClaimKey,
    /// Whether the lock was valid when its release was called.
    valid: bool,
    verdict: Option<Releasing>,
}

impl Release {
    /// The release of `claim`.
    pub(in crate::engine) const fn new(claim: ClaimKey, valid: bool) -> Self {
        Self {
            claim,
            valid,
            verdict: None,
        }
    }
}

impl Operate for Release {
    /// Sends the releases of `claim`, and counts what is known already.
    fn begin(&mut self, now: Instant, round: &mut Round, parts: &mut Parts) -> After {
        let claim = self.claim;
        let ttl = parts.claims.get(claim).map(|claim| claim.ttl);
        let patience = Patience::for_release(ttl.unwrap_or_default(), &parts.settings);
        for node in 0..parts.nodes.len() {
            let patience = patience.with(&mut parts.nodes[node]);
            round.ballots[node].deadline = now.saturating_add(patience);
            round.ballots[node].asked = true;
        }
        let (nodes, timers) = (&mut parts.nodes, &mut parts.timers);
        parts
            .claims
            .release(now, Some(round.key), claim, nodes, timers);
        // A `SET` that had not left was taken back: there is nothing to release.
        let (asked, owed) = parts
            .claims
            .get(claim)
            .map_or_else(Default::default, |claim| {
                (claim.releasing.union(claim.owed), claim.owed)
            });
        for node in 0..parts.nodes.len() {
            let outcome = if !asked.contains(node) {
                NodeOutcome::Missing
            } else if owed.contains(node) && !parts.nodes[node].is_ready() {
                parts.nodes[node].trouble().outcome()
            } else {
                continue;
            };
            round.ballots[node].asked = false;
            if round.count(now, node, Vote::Mute, outcome) {
                let _ = self.judge(now, round, parts);
            }
        }
        round.arm(&mut parts.timers);
        After::Nothing
    }
    fn judge(&mut self, _: Instant, round: &mut Round, parts: &mut Parts) -> After {
        if self.verdict.is_none() {
            self.verdict = round.tally.release(self.valid);
            if self.verdict.is_some() {
                round.decide(&mut parts.news, &mut parts.timers);
            }
        }
        After::Nothing
    }

    fn tell(&mut self, now: Instant, round: &mut Round, parts: &mut Parts) -> Option<Event> {
        let report = || round.report(now, parts.nodes.labels());
        let result = match self.verdict.take()? {
            Releasing::Released => Ok(Released {
                deleted: round.tally.yes().len() as u8,
            }),
            Releasing::NotHeld => Err(UnlockError::NotHeld(report())),
            Releasing::Unconfirmed => Err(UnlockError::Unconfirmed(report())),
        };
        let round = RoundId(round.key);
        Some(Event::Released { round, result })
    }

    fn end(self, _: &mut Parts) {}
}
