//! Releases a lock for a caller that waits for the outcome.
//!
//! The engine asks every node that may have the token to delete it, and counts each answer. If a node does not answer,
//! the engine retries the release after the operation has ended.

use crate::error::{Asked, NodeOutcome, Released, Report, UnlockError};
use crate::invariant::Must;
use crate::keys::ClaimKey;
use crate::quorum::{NodeSet, Releasing, Vote};

use super::patience::Patience;
use super::{Context, Operate};
use crate::engine::contract::{Event, RoundId};
use crate::engine::parts::Parts;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::engine) struct Release {
    claim: ClaimKey,
    /// Whether the lock was still valid when the caller requested its release.
    valid: bool,
    verdict: Option<Releasing>,
}

impl Release {
    /// Creates the release of `claim`.
    pub(in crate::engine) const fn new(claim: ClaimKey, valid: bool) -> Self {
        Self {
            claim,
            valid,
            verdict: None,
        }
    }
}

impl Operate for Release {
    /// Sends the releases of `claim`, and counts the nodes whose outcome is already known.
    fn begin(&mut self, cx: &mut Context<'_>) {
        let claim = self.claim;
        let life = cx.parts.claims.get(claim).must().map(|claim| claim.life());
        let patience = Patience::for_release(life.unwrap_or_default(), &cx.parts.settings);
        for (ballot, node) in cx.round.ballots.iter_mut().zip(cx.parts.nodes.iter_mut()) {
            ballot.deadline = patience.until(cx.now, node);
            ballot.asked = true;
        }
        let asked = cx.parts.release(cx.now, Some(cx.round.key), claim);
        // A node outside `held` has no token to release, because its `SET` was withdrawn before it was sent.
        let left = cx.parts.claims.get(claim);
        let held = left.map_or(NodeSet::EMPTY, |claim| claim.may_hold);
        for node in cx.parts.nodes.set().without(asked).iter() {
            let outcome = match held.contains(node) {
                false => NodeOutcome::Missing,
                true if cx.parts.nodes[node].handshake.is_ready() => continue,
                true => cx.parts.nodes[node].handshake.trouble.outcome(),
            };
            cx.round[node].asked = false;
            self.vote(node, (Vote::Abstain, outcome), cx);
        }
        cx.round.arm(&mut cx.parts.timers);
    }

    fn judge(&mut self, cx: &mut Context<'_>) {
        self.verdict = cx.round.tally.release(self.valid);
        if self.verdict.is_some() {
            cx.round.decide(cx.parts);
        }
    }

    fn tell(&mut self, cx: &mut Context<'_>) -> Option<Event> {
        let result = match self.verdict.take()? {
            Releasing::Released => {
                cx.parts.stats.releases.released += 1;
                Ok(Released {
                    deleted: cx.round.tally.yes().len() as u8,
                })
            }
            Releasing::NotHeld => {
                cx.parts.stats.releases.not_held += 1;
                Err(UnlockError::NotHeld(cx.report(self)))
            }
            Releasing::Unconfirmed => {
                cx.parts.stats.releases.unconfirmed += 1;
                Err(UnlockError::Unconfirmed(cx.report(self)))
            }
        };
        let round = RoundId(cx.round.key);
        Some(Event::Released { round, result })
    }

    fn about(&mut self, report: Report, parts: &Parts) -> Report {
        let report = report.of_release(self.valid).of(Asked::Token);
        match parts.claims.entry_of(self.claim) {
            Some(entry) => report.about(entry.names()),
            None => report,
        }
    }
}
