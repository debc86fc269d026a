//! The strict restart guard: who has joined, what does not count, and whose cluster it is.
//!
//! Each node carries a marker and sometimes a barrier (`node::marker`, `node::fence`), which every
//! question checks where it is executed. So what a client believes of a node is never what a vote
//! rests on; what is kept here only saves asking in vain, and tells of it.
//!
//! # Guarantees
//!
//! * An answer that does not count is never a vote, in no round that is open; what it says about
//!   copies of the lock is taken note of as of any other.
//! * All nodes that count have told the same longest ttl: who learns of a longer one raises the
//!   others before they count again.
//! * While any node says that it is another cluster's, no lock is taken.

use alloc::string::String;
use alloc::vec::Vec;

use crate::error::{NodeOutcome, ReinitError, TrustError, Unusable};
use crate::limits::rounds_max;
use crate::node::{Access, Errand, Mode, Reply, Trouble, whole_millis};
use crate::quorum::Vote;
use crate::slab::Key;
use crate::time::Instant;

use core::time::Duration;

use super::Engine;
use super::claim::Stage;
use super::contract::{NodeId, RoundId};
use super::round::{Decision, Kind, Refusal, State};

impl Engine {
    // ----- what an operator says ------------------------------------------------------------

    /// An operator vouches that no lock lives that the server with this `run_id`, which is connected
    /// as `node`, may have forgotten: its answers count from now on. Returns `true` if it was kept
    /// from voting.
    ///
    /// Rounds that are open go on without it. What it does next can put it into quarantine again.
    ///
    /// With [`RestartGuard::Strict`](crate::RestartGuard::Strict) that is written on the node too, for
    /// all clients: its barrier goes. Of one that is just being greeted it is part of that.
    ///
    /// # Errors
    ///
    /// [`TrustError::UnknownNode`], [`TrustError::NotConnected`], [`TrustError::Changed`],
    /// [`TrustError::NoRunId`], [`TrustError::OtherCluster`]: nothing was changed.
    pub fn trust(&mut self, now: Instant, node: NodeId, run_id: &str) -> Result<bool, TrustError> {
        let index = node.index();
        let longest = self.settings.longest_ttl;
        let strict = self.settings.strict;
        let node = self.nodes.get_mut(index).ok_or(TrustError::UnknownNode)?;
        if node.other_cluster().is_some() {
            return Err(TrustError::OtherCluster);
        }
        let greets = strict && node.run_id().is_some();
        if !node.is_ready() && !greets {
            return Err(TrustError::NotConnected);
        }
        let present = node.run_id().ok_or(TrustError::NoRunId)?;
        if present != run_id {
            let run_id = present.into();
            return Err(TrustError::Changed { run_id });
        }
        let mut kept = node.kept_until(now).is_some();
        node.guard.trust();
        if strict {
            kept |= !node.is_ready();
            kept &= node.vouch(now, longest);
            self.to_write.insert(index);
        }
        self.trust_other_names(index);
        Ok(kept)
    }

    /// What an operator says of the server behind `node` is about it under any name.
    fn trust_other_names(&mut self, node: usize) {
        for other in 0..self.nodes.len() {
            if self.is_other_name(other, node) {
                self.nodes[other].guard.trust();
            }
        }
    }

    /// Does [`trust`](Self::trust) for the servers that are connected now. Returns their run_ids.
    pub fn trust_all(&mut self, now: Instant) -> Vec<String> {
        let mut trusted = Vec::new();
        for node in 0..self.nodes.len() {
            if let Some(run_id) = self.nodes[node].run_id().map(String::from)
                && self.trust(now, NodeId(node as u8), &run_id).is_ok()
            {
                trusted.push(run_id);
            }
        }
        trusted
    }

    /// Makes every node one of this cluster, whatever its marker says, with a barrier as long as
    /// the longest lock of either. The outcome comes as
    /// [`Event::Reinitialised`](super::Event::Reinitialised). See
    /// `Redlock::reinit`.
    ///
    /// # Errors
    ///
    /// [`ReinitError::NotStrict`], [`ReinitError::Saturated`], and [`ReinitError::Unready`] where a
    /// node cannot be asked: nothing was sent.
    pub fn reinit(&mut self, now: Instant) -> Result<RoundId, ReinitError> {
        if !self.settings.strict {
            return Err(ReinitError::NotStrict);
        }
        if self.rounds.len() >= rounds_max() {
            return Err(ReinitError::Saturated);
        }
        let key = self.open_round(now, Kind::Reinit);
        if let Some(error) = self.why_unready(now, key) {
            self.close_round(key);
            return Err(error);
        }
        self.settings.longest_ttl = whole(self.settings.ttl_limit);
        for node in 0..self.nodes.len() {
            self.nodes[node].claim(now, self.settings.longest_ttl);
            self.to_write.insert(node);
            if !self.nodes[node].has_link() {
                self.connect(now, node);
            }
        }
        self.arm_round(key);
        Ok(RoundId(key))
    }

    /// Who cannot be asked, if anybody. Notes until when the others may take.
    fn why_unready(&mut self, now: Instant, key: Key) -> Option<ReinitError> {
        let deadline = now.saturating_add(self.settings.connect_timeout);
        let round = self.rounds.get_mut(key)?;
        let mut all = true;
        for (node, there) in self.nodes.iter().enumerate() {
            let ballot = &mut round.ballots[node];
            ballot.deadline = deadline;
            ballot.asked = true;
            let other = matches!(
                there.trouble(),
                Trouble::Unusable(Unusable::OtherCluster { .. })
            );
            ballot.outcome = match there.access(0) {
                Access::Open => continue,
                _ if other && !there.is_ready() => continue,
                Access::Shut(outcome) => outcome,
                Access::Greeting { .. } => there.trouble().outcome(),
            };
            all = false;
        }
        (!all).then(|| ReinitError::Unready(round.report(now, &self.settings.labels)))
    }

    /// Looks whether a reinitialisation is over.
    pub(super) fn judge_reinit(&mut self, key: Key) {
        let Some(round) = self.rounds.get(key) else {
            return;
        };
        let (yes, open) = (round.tally.yes(), round.tally.open());
        if yes == self.all_nodes() {
            self.decide(key, Decision::Reinitialised);
        } else if open.is_empty() {
            self.decide(key, Decision::ReinitIncomplete);
        }
    }

    /// A reinitialisation has ended: who has not been asked yet is not asked any more.
    pub(super) fn end_reinit(&mut self) {
        for node in &mut self.nodes {
            node.call_off(Mode::Anew);
        }
    }

    // ----- joining --------------------------------------------------------------------------

    /// The server has said who it is.
    pub(super) fn introduced(&mut self, now: Instant, node: usize) -> Result<(), Trouble> {
        self.to_write.insert(node);
        self.nodes[node].join(now, self.settings.longest_ttl)
    }

    /// `node` has joined, perhaps behind a barrier, and perhaps with a longer ttl than was known.
    pub(super) fn joined(&mut self, now: Instant, node: usize) {
        let longest = self.nodes[node].longest();
        self.settings.longest_ttl = self.settings.longest_ttl.max(longest);
        for other in 0..self.nodes.len() {
            if self.nodes[other].demand(self.settings.longest_ttl) {
                self.lose_answers(now, other, NodeOutcome::Quarantined { until: now });
            }
            self.rejoin(now, other);
        }
        if !self.nodes[node].is_settled() {
            return; // It was asked once more, and that answer tells.
        }
        if let Some(until) = self.nodes[node].kept_until(now) {
            self.lose_answers(now, node, NodeOutcome::Quarantined { until });
        }
        for key in self.open_rounds() {
            let kind = self.rounds.get(key).map(|round| &round.kind);
            if matches!(kind, Some(Kind::Reinit)) {
                self.vote(now, key, node, Vote::Yes, NodeOutcome::Granted);
            }
        }
    }

    /// Asks `node` to join, if it has to and was not asked.
    fn rejoin(&mut self, now: Instant, node: usize) {
        if self.nodes[node].is_to_join() {
            self.to_write.insert(node);
            if let Err(trouble) = self.nodes[node].join(now, self.settings.longest_ttl) {
                self.give_up(now, node, trouble);
            }
        }
    }

    // ----- what does not count --------------------------------------------------------------

    /// `node` has answered, and that is no vote. `first`: until now its answers were.
    pub(super) fn uncounted(
        &mut self,
        now: Instant,
        node: usize,
        errand: Errand,
        reply: Reply,
        outcome: NodeOutcome,
        first: bool,
    ) -> Result<(), Trouble> {
        let counts = match errand {
            Errand::Set { .. } | Errand::FirstSet { .. } => mutant!(QuarantinedVotes),
            Errand::Extend { .. } | Errand::Confirm { .. } => mutant!(QuarantinedExtends),
            Errand::Greet(_)
            | Errand::Release { .. }
            | Errand::Probe { .. }
            | Errand::Why { .. }
            | Errand::Time => false,
        };
        if counts {
            return self.answered(now, node, errand, reply);
        }
        let round = self.round_of(errand);
        if let Some(round) = round.and_then(|key| self.rounds.get_mut(key)) {
            round.lose(node, outcome);
        }
        self.answered(now, node, errand, reply)?;
        if first {
            self.lose_answers(now, node, outcome);
        }
        if let Some(key) = round {
            self.judge(now, key);
        }
        self.rejoin(now, node);
        Ok(())
    }

    /// The round that asked, if it is still about that.
    fn round_of(&self, errand: Errand) -> Option<Key> {
        match errand {
            Errand::Set { claim } | Errand::FirstSet { claim } => {
                match self.claims.get(claim)?.stage {
                    Stage::Attempt { round } => Some(round),
                    Stage::Held { .. } | Stage::Releasing { .. } => None,
                }
            }
            Errand::Extend { round, .. } | Errand::Confirm { round, .. } => Some(round),
            Errand::Greet(_)
            | Errand::Release { .. }
            | Errand::Probe { .. }
            | Errand::Why { .. }
            | Errand::Time => None,
        }
    }

    // ----- another cluster's ----------------------------------------------------------------

    /// Refuses an attempt that is about to begin, if any node is another cluster's; whether it did.
    pub(super) fn refuse_for_other_cluster(&mut self, now: Instant, key: Key) -> bool {
        mutant!(OtherClusterIgnored => return false);
        let any = self.name_other_clusters(key);
        if any {
            self.fail(now, key, Refusal::OtherCluster);
        }
        any
    }

    /// Says in the report of an attempt which nodes are another cluster's; whether any is.
    fn name_other_clusters(&mut self, key: Key) -> bool {
        let Some(round) = self.rounds.get_mut(key) else {
            return false;
        };
        let mut any = false;
        for (node, there) in self.nodes.iter().enumerate() {
            if let Some(reason) = there.other_cluster() {
                round.ballots[node].outcome = NodeOutcome::Unusable(reason);
                any = true;
            }
        }
        any
    }

    /// A node has said that it is another cluster's: whoever wants a lock is refused.
    pub(super) fn refuse_all(&mut self, now: Instant) {
        mutant!(OtherClusterIgnored => return);
        for key in self.open_rounds() {
            let Some(round) = self.rounds.get(key) else {
                continue;
            };
            if !matches!(round.kind, Kind::Acquire { .. }) {
                continue;
            }
            match round.state {
                State::Voting => drop(self.refuse_for_other_cluster(now, key)),
                State::Resting { .. } => {
                    self.name_other_clusters(key);
                    self.decide(key, Decision::Refused(Refusal::OtherCluster));
                }
                State::Decided(_) | State::Told => {}
            }
        }
    }
}

/// In whole milliseconds, as markers tell it: rounded up.
pub(super) fn whole(ttl: Duration) -> Duration {
    Duration::from_millis(whole_millis(ttl))
}
