//! Votes and verdicts: every answer that counts passes here.

use crate::error::NodeOutcome;
use crate::quorum::Vote;
use crate::slab::Key;
use crate::time::Instant;

use super::Engine;
use super::round::Kind;

impl Engine {
    /// `node` has answered a round, and `outcome` is what it said.
    pub(super) fn vote(
        &mut self,
        now: Instant,
        key: Key,
        node: usize,
        vote: Vote,
        outcome: NodeOutcome,
    ) {
        let Some(round) = self.rounds.get_mut(key) else {
            return;
        };
        if round.record(node, vote, outcome) {
            if round.ballots[node].asked {
                let since = mutant!(LatencySinceCall => round.started, else round.sent);
                round.ballots[node].latency = Some(now.saturating_since(since));
            }
            mutant!(RefusalNotJudged => if vote != Vote::Yes { return });
            self.judge(now, key);
        }
    }

    /// Takes note that the answer of `node` to what a round is about to ask does not count, if it
    /// restarted and may have forgotten locks.
    pub(super) fn leave_out(&mut self, now: Instant, key: Key, node: usize) {
        if let Some(until) = self.nodes[node].kept_until(now)
            && let Some(round) = self.rounds.get_mut(key)
        {
            let counts = match round.kind {
                Kind::Acquire { .. } => mutant!(QuarantinedVotes),
                Kind::Extend { .. } => mutant!(QuarantinedExtends),
                Kind::Release { .. } | Kind::Reinit => false,
            };
            if counts {
                return;
            }
            round.record(node, Vote::Mute, NodeOutcome::Quarantined { until });
        }
    }

    /// Ends the round, or its attempt, if its outcome is certain.
    pub(super) fn judge(&mut self, now: Instant, key: Key) {
        let Some(round) = self.rounds.get(key) else {
            return;
        };
        if !round.is_voting() {
            return;
        }
        match round.kind {
            Kind::Acquire { .. } => {
                self.judge_attempt(now, key);
            }
            Kind::Extend { .. } => self.judge_extension(now, key),
            Kind::Release { valid } => self.judge_release(key, valid),
            Kind::Reinit => self.judge_reinit(key),
        }
    }
}
