//! What is due when: the one place that arms and fires timers.

use core::time::Duration;

use crate::error::LinkError;
use crate::node::Trouble;
use crate::quorum::NodeSet;
use crate::slab::Key;
use crate::time::{Instant, NANOS_PER_TICK};

use super::claim::Stage;
use super::contract::Wake;
use super::round::{Decision, Kind, Question, State};
use super::{Due, Engine};

/// What a timer is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Alarm {
    /// A connection is to be tried, or takes too long.
    Connection(usize),
    /// A node may have been silent for too long.
    Silence(usize),
    /// There may have been no majority for a while.
    Lines,
    /// What a node refused to release is tried again.
    Debts(usize),
    /// A round has to be looked at.
    Round(Key),
    /// A lock's validity ends, or a claim's keys are gone.
    Claim(Key),
}

impl Engine {
    /// When the engine wants to be woken next, and why; `None` when only new input can make
    /// progress. Pure: it can be asked at any time. [`Instant::ZERO`] means at once.
    ///
    /// A silence is noticed by an [`Input::Tick`](super::Input::Tick): a driver hands one in after
    /// it has sent something, and before it goes to sleep on this.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Instant, Wake)> {
        if self.is_anything_due() {
            return Some((Instant::ZERO, Wake::Output));
        }
        mutant!(SleepsForEver => return None);
        let (at, alarm) = self.wheel.next()?;
        let wake = self.reason(*alarm);
        #[cfg(shearline_mutants)]
        let at = crate::mutant::woken_at(at, wake);
        Some((at, wake))
    }

    fn reason(&self, alarm: Alarm) -> Wake {
        match alarm {
            Alarm::Connection(_) | Alarm::Lines => Wake::Connection,
            Alarm::Silence(_) => Wake::Silence,
            Alarm::Debts(_) => Wake::Debt,
            Alarm::Round(key) => self.rounds.get(key).map_or(Wake::Retry, |round| round.wake),
            Alarm::Claim(key) => match self.claims.get(key).map(|claim| claim.stage) {
                Some(Stage::Held { told: false }) => Wake::Expiry,
                _ => Wake::Debt,
            },
        }
    }

    /// All that one turn brought has been fed in: notes who was silent in it, and fires what is
    /// due.
    pub(super) fn tick(&mut self, now: Instant) {
        // The wheel does not go back. Whoever it wakes must not find that its time is still to
        // come, and arm the same timer again for ever.
        let now = now.max(self.wheel.latest());
        for node in 0..self.nodes.len() {
            self.listen(now, node);
        }
        while let Some(alarm) = self.wheel.expire(now) {
            match alarm {
                Alarm::Connection(node) => self.connection_due(now, node),
                Alarm::Silence(node) => self.silence_due(now, node),
                Alarm::Lines => self.lines_due(now),
                Alarm::Debts(node) => {
                    self.nodes[node].debt_timer = None;
                    self.try_debts_again(now, node);
                }
                Alarm::Round(key) => self.round_due(now, key),
                Alarm::Claim(key) => self.claim_due(now, key),
            }
        }
    }

    fn connection_due(&mut self, now: Instant, node: usize) {
        self.nodes[node].connection_timer = None;
        if self.to_connect.contains(node) {
            // The driver has not heard of it yet: it was stopped within a turn.
            self.connect(now, node);
        } else if self.nodes[node].has_link() {
            self.give_up(now, node, Trouble::Link(LinkError::ConnectTimeout));
        } else {
            self.connect(now, node);
        }
    }

    /// Arms the end of patience with a node that owes answers. The timer is not cancelled by an
    /// answer but looks again when it fires, so that steady traffic leaves the wheel alone. Only
    /// one that would fire too late, because it was armed for the end of an earlier silence, is
    /// armed anew.
    fn listen(&mut self, now: Instant, node: usize) {
        let there = &mut self.nodes[node];
        let Some(since) = there.listen(now) else {
            return;
        };
        let patience = there.patience().min(self.settings.dead_after);
        let at = if there.is_silent() {
            since.saturating_add(self.settings.dead_after)
        } else {
            since.saturating_add(patience)
        };
        if there.silence_timer.is_none_or(|(_, armed)| at < armed) {
            self.arm_silence(node, at);
        }
    }

    fn arm_silence(&mut self, node: usize, at: Instant) {
        let timer = self.wheel.insert(at, Alarm::Silence(node));
        if let Some((before, _)) = self.nodes[node].silence_timer.replace((timer, at)) {
            self.wheel.cancel(before);
        }
    }

    fn silence_due(&mut self, now: Instant, node: usize) {
        let dead_after = self.settings.dead_after;
        let there = &mut self.nodes[node];
        there.silence_timer = None;
        let Some(since) = there.silent_since() else {
            return;
        };
        let suspect_at = since.saturating_add(there.patience().min(dead_after));
        let dead_at = since.saturating_add(dead_after);
        if dead_at <= now || suspect_at <= now && mutant!(SuspectGivenUp) {
            mutant!(DeadAfterIgnored => return);
            self.give_up(now, node, Trouble::Link(LinkError::Silent));
        } else if suspect_at <= now {
            there.suspect();
            self.arm_silence(node, dead_at);
            self.watch_lines(now);
        } else {
            self.arm_silence(node, suspect_at);
        }
    }

    /// Arms the timer of a round that is not decided.
    pub(super) fn arm_round(&mut self, key: Key) {
        let Some(round) = self.rounds.get_mut(key) else {
            return;
        };
        if let Some(before) = round.timer.take() {
            self.wheel.cancel(before);
        }
        if let Some((at, wake)) = round.next_wake() {
            round.wake = wake;
            round.timer = Some(self.wheel.insert(at, Alarm::Round(key)));
        }
    }

    fn round_due(&mut self, now: Instant, key: Key) {
        let Some(round) = self.rounds.get_mut(key) else {
            return;
        };
        round.timer = None;
        match round.state {
            State::Resting { .. } => self.rested(now, key),
            State::Voting => {
                self.time_out(now, key);
                self.judge(now, key);
                if self.rounds.get(key).is_some_and(|round| round.is_voting()) {
                    self.arm_round(key);
                }
            }
            State::Decided(_) | State::Told => {}
        }
    }

    /// Ends the wait for nodes that took too long, and for all of them at the caller's deadline.
    /// A question of which no byte has left is taken back: it is never sent late.
    fn time_out(&mut self, now: Instant, key: Key) {
        let Some(round) = self.rounds.get_mut(key) else {
            return;
        };
        let open = round.tally.open();
        let nodes = &self.nodes;
        round.time_out(now, |node| nodes[node].trouble().outcome());
        if round.deadline.is_some_and(|deadline| deadline <= now) {
            round.close();
            if let Kind::Acquire { tries_allowed, .. } = &mut round.kind {
                *tries_allowed = Some(round.tries); // There is no time for another.
            }
        }
        let given_up = open
            .without(round.tally.open())
            .union(round.end_left_out(now));
        self.take_questions_back(key, given_up);
    }

    /// Takes what a round asks back from `nodes`, where no byte of it has left: its time is over.
    pub(super) fn take_questions_back(&mut self, key: Key, nodes: NodeSet) {
        match self.rounds.get(key).map(|round| &round.kind) {
            Some(Kind::Acquire {
                claim: Some(claim), ..
            }) => self.take_back(*claim, nodes),
            Some(Kind::Extend {
                claim, question, ..
            }) => {
                mutant!(QueuedExtensionSentLate => return);
                mutant!(QueuedConfirmationSentLate => if matches!(question, Question::HowLong(_)) { return });
                let errand = question.errand(key, *claim);
                for node in nodes.iter() {
                    self.nodes[node].withdraw(errand);
                }
            }
            Some(Kind::Acquire { claim: None, .. } | Kind::Release { .. } | Kind::Reinit)
            | None => {}
        }
    }

    /// Takes the `SET`s of a claim back from `nodes`, where no byte of them has left.
    fn take_back(&mut self, key: Key, nodes: NodeSet) {
        mutant!(QueuedSetSentLate => return);
        let Some(claim) = self.claims.get_mut(key) else {
            return;
        };
        for node in nodes.iter() {
            if claim.unanswered.contains(node) && self.nodes[node].withdraw_set(key) {
                claim.set_withdrawn(node);
            }
        }
    }

    /// Watches over a lock that is held from now on.
    ///
    /// The end of its validity is told a tick early rather than late: the one timer that rounds
    /// down.
    pub(super) fn watch(&mut self, key: Key) {
        let Some(claim) = self.claims.get_mut(key) else {
            return;
        };
        let at = told_at(claim.stands_until());
        if let Some(before) = claim
            .timer
            .replace(self.wheel.insert(at, Alarm::Claim(key)))
        {
            self.wheel.cancel(before);
        }
    }

    fn claim_due(&mut self, now: Instant, key: Key) {
        let Some(claim) = self.claims.get_mut(key) else {
            return;
        };
        claim.timer = None;
        match claim.stage {
            Stage::Held { told: false } if now < told_at(claim.stands_until()) => {
                self.watch(key); // It was extended meanwhile.
            }
            Stage::Held { told: false } => {
                self.tell_lost(key);
                // What was told to be over is not revived by an answer in its last tick.
                mutant!(ExpiredExtensionStands => (), else {
                    self.end_extension(key, || Decision::ExtensionUnconfirmed);
                });
                self.take_back(key, self.all_nodes()); // A copy that waits for room.
                self.forget_later(now, key);
            }
            Stage::Held { told: true } => self.forget(now, key),
            Stage::Releasing { .. } => self.expire_debts(now, key),
            Stage::Attempt { .. } => {}
        }
    }

    /// Tells the holder, once, that its lock is over.
    pub(super) fn tell_lost(&mut self, key: Key) {
        let id = self.lock_id(key);
        if let Some(claim) = self.claims.get_mut(key)
            && claim.stage == (Stage::Held { told: false })
        {
            claim.stage = Stage::Held { told: true };
            mutant!(LossNotTold => return);
            self.due.push_back(Due::Expired(id));
        }
    }

    /// A lock that is over and was never released is remembered until its keys are gone, so that
    /// a late release still goes to the right nodes.
    fn forget_later(&mut self, now: Instant, key: Key) {
        let Some(claim) = self.claims.get_mut(key) else {
            return;
        };
        if claim.adopted {
            // The longest ttl there is may be a month, and a late release goes to all nodes anyway.
            self.claims.remove(key);
            return;
        }
        let at = claim.gone_by.max(now.saturating_add(claim.ttl));
        claim.timer = Some(self.wheel.insert(at, Alarm::Claim(key)));
    }

    fn forget(&mut self, now: Instant, key: Key) {
        // A `SET` that may be run later is not forgotten before the lock is released.
        let open = self
            .claims
            .get(key)
            .is_some_and(|claim| !claim.unanswered.union(claim.lost).is_empty());
        if open {
            self.forget_later(now, key);
        } else {
            self.claims.remove(key);
        }
    }
}

/// When the end of a validity is told: a tick before it, rounded down.
fn told_at(end: Instant) -> Instant {
    let tick = Duration::from_nanos(NANOS_PER_TICK);
    mutant!(LossToldLate => return end.saturating_add(tick));
    Instant::from_tick(end.saturating_sub(tick).tick_floor())
}
