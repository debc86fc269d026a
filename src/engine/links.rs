//! Connections as the engine sees them: opened, greeted, heard, lost.

use alloc::vec::Vec;

use crate::error::{LinkError, NodeOutcome, Unusable};
use crate::node::{Errand, Heard, Reply, Terms, Trouble, may_forget};
use crate::quorum::{NodeSet, Vote};
use crate::slab::Key;
use crate::time::Instant;

use super::Engine;
use super::contract::{Input, NodeId};
use super::round::{Kind, Round};
use super::timers::Alarm;

impl Engine {
    /// Takes note of what happened outside. Infallible: nothing that a server sends is a mistake
    /// of the caller.
    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::Connected { node }
            | Input::Writable { node }
            | Input::Received { node, .. }
            | Input::Transmitted { node, .. }
            | Input::Disconnected { node, .. }
            | Input::Probed { node }
                if node.index() >= self.nodes.len() => {} // A node of another engine.
            Input::Connected { node } => self.connected(now, node),
            Input::Writable { node } => self.writable(node),
            Input::Received { node, bytes } => self.received(now, node, bytes),
            Input::Transmitted { node, len } => self.transmitted(node, len),
            Input::Disconnected { node, reason } => self.disconnected(now, node, reason),
            Input::Probed { node } => self.probed(now, node),
            Input::Tick => self.tick(now),
        }
    }

    /// Nobody has read what the nodes sent for a while until `now`: that tells nothing of how far away
    /// they are.
    #[cfg(any(test, feature = "std"))]
    pub(crate) fn was_away(&mut self, now: Instant) {
        for node in &mut self.nodes {
            node.was_away(now);
        }
    }

    /// Asks for a connection to `node`, which has none.
    pub(super) fn connect(&mut self, now: Instant, node: usize) {
        self.nodes[node].connecting(now);
        self.to_connect.insert(node);
        let limit = now.saturating_add(self.settings.connect_timeout);
        self.arm_connection(node, limit);
    }

    fn connected(&mut self, now: Instant, node: NodeId) {
        let node = node.index();
        // Before the driver has heard of the next connection, this can only be about the last.
        if !self.to_connect.contains(node) && self.nodes[node].connected(now) {
            self.probes.close(node);
            self.to_write.insert(node);
        }
    }

    fn writable(&mut self, node: NodeId) {
        self.nodes[node.index()].unblock();
        self.to_write.insert(node.index());
    }

    fn transmitted(&mut self, node: NodeId, len: usize) {
        self.nodes[node.index()].transmitted(len);
    }

    fn received(&mut self, now: Instant, node: NodeId, bytes: &[u8]) {
        let node = node.index();
        if !self.nodes[node].hears() {
            return; // It was given up in this very turn, before these bytes were read.
        }
        let was_silent = self.nodes[node].is_silent();
        self.probes.close(node);
        let mut piece = bytes;
        loop {
            let heard = match self.nodes[node].receive(now, &mut piece) {
                Ok(Some(heard)) => self.heard(now, node, heard),
                Ok(None) => break,
                Err(trouble) => self.useless(now, node, trouble),
            };
            if let Err(trouble) = heard {
                self.give_up(now, node, trouble);
                return;
            }
        }
        if self.nodes[node].is_ready() && self.nodes[node].debts.is_due() {
            self.pay_debts(now, node);
        }
        self.to_write.insert(node); // It may have something to ask again.
        if was_silent {
            self.regained(now);
        }
        if self.nodes[node].has_moved_away() {
            self.give_up(now, node, Trouble::Link(LinkError::Silent));
        }
    }

    fn heard(&mut self, now: Instant, node: usize, heard: Heard) -> Result<(), Trouble> {
        match heard {
            Heard::Greeted => self.greeted(now, node),
            Heard::Ready => return self.ready(now, node),
            Heard::Stepped => self.stepped(now, node),
            Heard::Introduced => return self.introduced(now, node),
            Heard::Joined => self.joined(now, node),
            Heard::Uncounted {
                errand,
                reply,
                outcome,
                first,
            } => return self.uncounted(now, node, errand, reply, outcome, first),
            Heard::Answer(errand, reply) => {
                self.answered(now, node, errand, reply)?;
                return self.alarm(now, node, reply);
            }
        }
        Ok(())
    }

    // In line: every answer passes here, and only those that do not count come from elsewhere.
    #[inline]
    pub(super) fn answered(
        &mut self,
        now: Instant,
        node: usize,
        errand: Errand,
        reply: Reply,
    ) -> Result<(), Trouble> {
        match errand {
            Errand::Set { claim } => self.set_answered(now, node, claim, reply),
            Errand::Release { claim, dialect, .. } => {
                self.release_answered(now, node, claim, dialect, reply)
            }
            Errand::Extend { round, claim } => {
                self.extension_answered(now, node, round, claim, reply)
            }
            Errand::Confirm { round, claim } => {
                self.confirmation_answered(now, node, round, claim, reply)
            }
            Errand::FirstSet { claim } => self.first_set_answered(now, node, claim, reply),
            Errand::Probe { claim } => self.probe_answered(now, node, claim, reply),
            Errand::Why { round } => {
                self.why_answered(now, node, round, reply);
                Ok(())
            }
            Errand::Greet(_) | Errand::Time => Ok(()),
        }
    }

    /// A server that loads or follows another may come back as one that has forgotten locks. It has
    /// to greet anew, under whatever names it is connected, and is kept from voting after that.
    fn alarm(&mut self, now: Instant, node: usize, reply: Reply) -> Result<(), Trouble> {
        mutant!(AlarmIgnored => return Ok(()));
        if let Reply::Error(error) = reply
            && self.settings.guarded
            && may_forget(error)
        {
            let trouble = Trouble::Unusable(Unusable::Refused(error));
            self.nodes[node].guard.alarm();
            for other in 0..self.nodes.len() {
                if self.is_other_name(other, node) && self.nodes[other].is_ready() {
                    self.nodes[other].guard.alarm();
                    self.give_up(now, other, trouble);
                }
            }
            return Err(trouble);
        }
        Ok(())
    }

    /// The connection is of no use any more. Over one that was, a refusal to join again is an alarm as
    /// any other.
    fn useless(&mut self, now: Instant, node: usize, trouble: Trouble) -> Result<(), Trouble> {
        if let Trouble::Unusable(Unusable::Refused(error)) = trouble
            && self.nodes[node].is_ready()
        {
            self.alarm(now, node, Reply::Error(error))?;
        }
        Err(trouble)
    }

    /// A server that stands in the configuration under several names has one quarantine, whichever
    /// of them it is met by: until when the others say, and the alarm that one of them has heard. A
    /// name that is connected has served what it knew; of an alarm it hears at once, and where there
    /// are markers of any quarantine, because no change of identity tells it of one.
    fn share_quarantine(&mut self, now: Instant, node: usize, terms: Terms, alarmed: bool) {
        self.note_names(node);
        for other in self.nodes[node].guard.names.iter() {
            if other != node {
                let same = self.is_other_name(other, node);
                let until = self.nodes[other].guard.hand_on(now, terms, same);
                self.nodes[node].guard.keep_until(until);
            }
        }
        let told = alarmed || self.settings.strict;
        let Some(until) = self.nodes[node].guard.until(now).filter(|_| told) else {
            return;
        };
        for other in 0..self.nodes.len() {
            if self.is_other_name(other, node) {
                self.nodes[other].guard.keep_until(Some(until));
                self.lose_answers(now, other, NodeOutcome::Quarantined { until });
            }
        }
    }

    /// Notes for all names of the server behind `node` that they are.
    fn note_names(&mut self, node: usize) {
        let mut names = self.nodes[node].guard.names;
        names.insert(node);
        for other in 0..self.nodes.len() {
            if self.is_other_name(other, node) {
                names = names.union(self.nodes[other].guard.names);
                names.insert(other);
            }
        }
        for name in names.iter() {
            self.nodes[name].guard.names = names;
        }
    }

    /// Whether `other` is the server behind `node` under another name.
    pub(super) fn is_other_name(&self, other: usize, node: usize) -> bool {
        other != node && self.nodes[other].guard.is_of(&self.nodes[node].guard)
    }

    /// The server lets us in: what is owed goes first, then the rest of the greeting.
    fn greeted(&mut self, now: Instant, node: usize) {
        self.try_debts_again(now, node);
        self.pay_debts(now, node);
        self.nodes[node].survey(now);
        self.to_write.insert(node);
    }

    /// The greeting is done. The same server under another name has one vote.
    fn ready(&mut self, now: Instant, node: usize) -> Result<(), Trouble> {
        // Who it was is remembered under every name.
        if self.settings.guarded {
            let terms = self.quarantine_terms();
            let alarmed = self.nodes[node].guard.is_alarmed();
            self.nodes[node].guard_greeted(now, terms);
            self.share_quarantine(now, node, terms, alarmed);
        }
        if let Some(twin) = self.twin_of(node) {
            return Err(Trouble::Unusable(Unusable::SameServer(twin as u8)));
        }
        if let Some(timer) = self.nodes[node].connection_timer.take() {
            mutant!(GreetedGivenUp => self.nodes[node].connection_timer = Some(timer), else {
                self.wheel.cancel(timer);
            });
        }
        if self.settings.strict {
            self.joined(now, node);
        }
        self.pay_debts(now, node); // Those that came up during the greeting.
        for _ in 0..self.nodes[node].waiting.len() {
            if let Some(round) = self.nodes[node].waiting.pop_front() {
                self.ask_late(now, round, node);
            }
        }
        self.regained(now);
        Ok(())
    }

    /// The clock of `node` was stepped: keys may have ended early there. It is kept from voting, also
    /// in the rounds that are open.
    fn stepped(&mut self, now: Instant, node: usize) {
        if !self.settings.guarded {
            return; // It is reported, and that is all.
        }
        mutant!(StepIgnored => return);
        let terms = self.quarantine_terms();
        self.nodes[node].guard.stepped(now, terms);
        if let Some(until) = self.nodes[node].guard.until(now) {
            self.lose_answers(now, node, NodeOutcome::Quarantined { until });
        }
    }

    /// A question that waited for the greeting goes out now, if it still counts.
    fn ask_late(&mut self, now: Instant, key: Key, node: usize) {
        // A round that has begun anew while it waited stands in the queue once for each attempt.
        // Nobody waits for a node that does not vote, and it is not asked late either.
        let waits = |round: &&Round| {
            let ballot = round.ballots[node];
            let in_time = round.awaits(node) || now < ballot.deadline;
            round.asks(node) && in_time && !ballot.asked
        };
        let Some(round) = self.rounds.get(key).filter(waits) else {
            return;
        };
        match round.kind {
            Kind::Acquire { .. } => self.ask_set_late(now, key, node),
            Kind::Extend { .. } => {
                self.encoded.clear();
                self.leave_out(now, key, node);
                self.ask_extension(now, key, node);
                self.judge(now, key);
            }
            Kind::Release { .. } | Kind::Reinit => {}
        }
    }

    /// Another ready node that is the same process.
    fn twin_of(&self, node: usize) -> Option<usize> {
        mutant!(TwinVotes => return None);
        let own = self.nodes[node].identity()?.run_id.as_ref()?;
        (0..self.nodes.len()).find(|&other| {
            other != node
                && self.nodes[other].is_ready()
                && self.nodes[other]
                    .identity()
                    .is_some_and(|identity| identity.run_id.as_ref() == Some(own))
        })
    }

    fn disconnected(&mut self, now: Instant, node: NodeId, reason: LinkError) {
        let node = node.index();
        // Before the driver has heard of the next connection, this can only be about the last.
        if self.nodes[node].has_link() && !self.to_connect.contains(node) {
            let early = reason == LinkError::Reset && !self.nodes[node].is_ready();
            let reason = if early {
                LinkError::HandshakeReset
            } else {
                reason
            };
            self.lose_link(now, node, Trouble::Link(reason));
        }
    }

    /// Gives the connection to `node` up, or the attempt to open one.
    pub(super) fn give_up(&mut self, now: Instant, node: usize, trouble: Trouble) {
        if !self.to_connect.contains(node) {
            self.to_disconnect.insert(node);
        }
        // Before anybody is refused for want of this node: no later try would do.
        if matches!(trouble, Trouble::Unusable(Unusable::OtherCluster { .. })) {
            self.refuse_all(now);
        }
        self.lose_link(now, node, trouble);
    }

    /// The connection is gone. What was asked over it is not answered, and what may have been
    /// given over it is owed a release.
    fn lose_link(&mut self, now: Instant, node: usize, trouble: Trouble) {
        self.to_connect.remove(node);
        self.to_write.remove(node);
        self.probes.close(node);
        let delay = self.nodes[node].delay(now, &mut self.random);
        mutant!(QuarantineFromBreak => self.nodes[node].guard.broke(now));
        for (errand, left) in self.nodes[node].disconnected(trouble) {
            self.unanswered(errand, node, left);
        }
        self.lose_votes(now, node, trouble.outcome());
        self.nodes[node].waiting.clear();
        mutant!(NeverReconnects => return);
        if delay.is_zero() {
            self.connect(now, node);
        } else {
            self.arm_connection(node, now.saturating_add(delay));
        }
        self.watch_lines(now);
    }

    /// A command will never be answered; `left` is whether any of it may have arrived.
    fn unanswered(&mut self, errand: Errand, node: usize, left: bool) {
        match errand {
            Errand::Set { claim } | Errand::FirstSet { claim } => {
                if let Some(claim) = self.claims.get_mut(claim) {
                    match left && !mutant!(SentSetForgotten) {
                        true => claim.set_lost(node),
                        false => claim.set_withdrawn(node),
                    }
                }
            }
            Errand::Release { claim, .. } => self.owe(claim, node),
            Errand::Extend {
                claim: Some(claim), ..
            } if left => {
                if let Some(claim) = self.claims.get_mut(claim) {
                    // It may have been run, whatever was answered to an earlier one.
                    claim.unknown.insert(node);
                    mutant!(LostExtensionIsNone => claim.unknown.remove(node));
                }
            }
            Errand::Extend { .. }
            | Errand::Confirm { .. }
            | Errand::Probe { .. }
            | Errand::Why { .. }
            | Errand::Greet(_)
            | Errand::Time => {}
        }
    }

    /// No open round counts `node` any more: neither an answer to come, nor a yes that it gave
    /// over the connection that is lost.
    fn lose_votes(&mut self, now: Instant, node: usize, outcome: NodeOutcome) {
        for key in self.open_rounds() {
            let Some(round) = self.rounds.get_mut(key) else {
                continue;
            };
            // A confirmed release stays confirmed, and one that is owed was noted as such.
            let changed = match round.kind {
                Kind::Release { .. } | Kind::Reinit => round.record(node, Vote::Mute, outcome),
                Kind::Acquire { .. } | Kind::Extend { .. } => round.lose(node, outcome),
            };
            if changed && !mutant!(LostVoteNotJudged) {
                self.judge(now, key);
            }
        }
    }

    /// No open round that may give a lock, or have it last, counts `node` any more.
    pub(super) fn lose_answers(&mut self, now: Instant, node: usize, outcome: NodeOutcome) {
        for key in self.open_rounds() {
            if let Some(round) = self.rounds.get_mut(key)
                && matches!(round.kind, Kind::Acquire { .. } | Kind::Extend { .. })
                && round.lose(node, outcome)
            {
                self.judge(now, key);
            }
        }
    }

    pub(super) fn open_rounds(&self) -> Vec<Key> {
        self.rounds.iter().map(|(key, _)| key).collect()
    }

    pub(super) fn arm_connection(&mut self, node: usize, at: Instant) {
        let timer = self.wheel.insert(at, Alarm::Connection(node));
        if let Some(before) = self.nodes[node].connection_timer.replace(timer) {
            self.wheel.cancel(before);
        }
    }

    /// The nodes that are to be told about at the next poll.
    pub(super) fn is_anything_due(&self) -> bool {
        !self.due.is_empty()
            || self.probes.to_open != NodeSet::EMPTY
            || self.probes.to_close != NodeSet::EMPTY
            || self.to_connect != NodeSet::EMPTY
            || self.to_disconnect != NodeSet::EMPTY
            || self
                .to_write
                .iter()
                .any(|node| self.nodes[node].offer().is_some())
    }
}
