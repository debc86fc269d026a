//! Dispatches inputs and timers to the parts of the engine. The nodes handle each input or timer first, then the
//! claims, then the operations.

use crate::error::{LinkError, LinkFault, ServerError, Unusable};
use crate::keys::NodeId;
use crate::limits::STRING_BYTES_MAX;
use crate::node::{Answer, Heard, Reply, Trouble};
use crate::quorum::NodeSet;
use crate::time::Instant;

use super::Engine;
use super::alarm::Alarm;
use super::contract::Input;
use super::operation::{Change, Lost, due};
use super::parts::Parts;

impl Engine {
    /// Handles an event from outside. This call returns no error, because the caller cannot correct what a server
    /// sends.
    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        let nodes = self.work.parts.nodes.len();
        match input {
            Input::Connected { node }
            | Input::Writable { node }
            | Input::Received { node, .. }
            | Input::Transmitted { node, .. }
            | Input::Disconnected { node, .. }
            | Input::Probed { node }
                if nodes <= node.index() => {} // A node of another engine.
            Input::Connected { node } => self.work.parts.nodes.connected(now, node),
            Input::Writable { node } => {
                let there = self.work.parts.nodes.writing_to(node);
                there.connection.wire.outbox.unblock();
            }
            Input::Received { node, bytes } => self.received(now, node, bytes),
            Input::Transmitted { node, len } => {
                self.work.parts.nodes[node].connection.wire.transmitted(len);
            }
            Input::Disconnected { node, reason } => self.disconnected(now, node, reason),
            Input::Probed { node } => {
                if self.work.parts.nodes.probed(now, node) {
                    self.give_up(now, node, Trouble::Link(LinkFault::Silent));
                    let timers = &mut self.work.parts.timers;
                    self.work.parts.nodes.replace(now, node, timers);
                }
            }
            Input::Tick => self.tick(now),
        }
    }

    /// Records that the driver did not read for a while before `now`. The driver reads the next answers late, so their
    /// delays say nothing about round trips.
    #[cfg(any(test, feature = "std"))]
    pub(crate) fn was_away(&mut self, now: Instant) {
        for node in self.work.parts.nodes.iter_mut() {
            node.connection.pulse.was_away(now);
        }
    }

    // ----- answers --------------------------------------------------------------------------

    fn received(&mut self, now: Instant, node: NodeId, bytes: &[u8]) {
        let nodes = &mut self.work.parts.nodes;
        if !nodes[node].handshake.hears() {
            return; // The connection was given up earlier in this turn, before these bytes were read.
        }
        let was_silent = nodes[node].connection.pulse.is_suspect();
        nodes.close_probe(node);
        let mut piece = bytes;
        while !piece.is_empty() {
            let (queues, looks) = (
                &mut self.work.parts.queues,
                &mut self.work.parts.keeper.looks,
            );
            let changed = |name: Option<&[u8]>| {
                let looks = looks.changed(name.map(|name| queues.hash_cut(name)));
                // A name of the maximum length may have been cut off, so any name with this prefix may have changed.
                let name = name.filter(|name| name.len() < STRING_BYTES_MAX);
                queues.changed(now, node, name) | looks
            };
            let heard = match self.work.parts.nodes[node].receive(now, &mut piece, changed) {
                Ok(Some(heard)) => self.heard(now, node, heard),
                Ok(None) => break,
                // After the handshake, only another request to join gets this refusal. The refusal may show that the
                // server has lost its locks.
                Err(trouble @ Trouble::Unusable(Unusable::Refused(error)))
                    if self.work.parts.nodes[node].handshake.is_ready() =>
                {
                    let alarm = self.alarm(now, node, error);
                    alarm.and(Err(trouble))
                }
                Err(trouble) => Err(trouble),
            };
            if let Err(trouble) = heard {
                self.give_up(now, node, trouble);
                return;
            }
        }
        let work = &mut self.work;
        let there = &work.parts.nodes[node];
        if there.handshake.is_ready() && there.debts.is_due() {
            work.parts.claims(now).pay_debts(node);
        }
        if work.parts.nodes[node].connection.wire.is_to_write() {
            work.parts.nodes.writing_to(node);
        }
        if was_silent {
            work.stir_all(now);
            work.regained(now);
        }
        if self.work.parts.nodes[node].has_moved_away() {
            self.give_up(now, node, Trouble::Link(LinkFault::Silent));
        }
    }

    // Inlined, because the loop over received bytes calls this function for each answer. The only other caller is
    // `heard_batch`.
    #[inline(always)]
    fn heard(&mut self, now: Instant, node: NodeId, heard: Heard) -> Result<(), Trouble> {
        match heard {
            Heard::Admitted => admitted(now, node, &mut self.work.parts),
            Heard::Ready => return self.ready(now, node),
            Heard::Stepped => self.stepped(now, node),
            Heard::Introduced => {
                let longest = self.work.parts.restarts.longest();
                return self.work.parts.nodes.writing_to(node).join(now, longest);
            }
            Heard::Joined => {
                self.joined(now, node);
                self.work.stir_all(now);
            }
            Heard::Pushed => self.work.look_at_changes(now),
            Heard::Batch => return self.heard_batch(now, node),
            Heard::Tried {
                answer,
                error,
                is_usable_again,
                is_news,
            } => {
                let news = (is_usable_again, is_news);
                return self.heard_way(now, node, answer, error, news);
            }
            Heard::Looked {
                place,
                left,
                pushes,
            } => {
                let said = (left, pushes);
                self.work.looked(now, node, place, said);
            }
            Heard::Uncounted {
                mut answer,
                outcome,
                first,
            } => {
                let work = &mut self.work;
                work.answered_uncounted(now, node, &mut answer, (outcome, first));
                let longest = work.parts.restarts.longest();
                return work.parts.nodes.rejoin(now, node, longest);
            }
            Heard::Done(request) => {
                let reply = Reply::Done;
                let mut answer = Answer { request, reply };
                self.work.answered(now, node, &mut answer);
            }
            Heard::Answer(answer) => return self.heard_answer(now, node, answer),
        }
        Ok(())
    }

    // Out of line, because most answers are `Heard::Done`.
    #[inline(never)]
    fn heard_answer(
        &mut self,
        now: Instant,
        node: NodeId,
        mut answer: Answer,
    ) -> Result<(), Trouble> {
        self.work.answered(now, node, &mut answer);
        match answer.reply.error() {
            Some(error) => self.alarm(now, node, error),
            None => Ok(()),
        }
    }

    /// Handles a step of the clock of `node`, where keys may have expired early.
    fn stepped(&mut self, now: Instant, node: NodeId) {
        let terms = self.work.parts.restarts.terms();
        let until = self.work.parts.nodes[node].trust.stepped(now, terms);
        self.work.quarantine(now, NodeSet::of(node), until);
    }

    /// Handles one answer of `node` to several renewals or releases. Each renewal or release is handled as if it had
    /// its own answer.
    #[cold]
    #[inline(never)]
    fn heard_batch(&mut self, now: Instant, node: NodeId) -> Result<(), Trouble> {
        while let Some(heard) = self.work.parts.nodes[node].next_in_batch(now)? {
            self.heard(now, node, heard)?;
        }
        let there = &self.work.parts.nodes[node];
        if there.handshake.is_ready() && there.connection.waiting.len() != 0 {
            self.work.ask_behind(now, node);
        }
        Ok(())
    }

    /// Handles an answer that shows whether `node` supports a way to release locks. Also wakes operations that wait for
    /// a node that could not be asked before.
    #[cold]
    #[inline(never)]
    fn heard_way(
        &mut self,
        now: Instant,
        node: NodeId,
        answer: Option<Answer>,
        error: Option<ServerError>,
        (is_usable_again, is_news): (bool, bool),
    ) -> Result<(), Trouble> {
        let work = &mut self.work;
        if let Some(mut answer) = answer {
            work.answered(now, node, &mut answer);
        }
        if is_usable_again {
            work.stir_all(now);
        }
        if is_news {
            work.parts.keeper.is_back(node, false); // The node can now get the copies that it lacks.
            work.extend_kept(now);
        }
        error.map_or(Ok(()), |error| self.alarm(now, node, error))
    }

    // ----- handshakes -----------------------------------------------------------------------

    /// Handles the end of a handshake. If the server is already connected under another name, this connection is not
    /// used, so that each server has one vote.
    fn ready(&mut self, now: Instant, node: NodeId) -> Result<(), Trouble> {
        // If the server needs a quarantine, all names under which the configuration lists it are quarantined.
        let terms = self.work.parts.restarts.terms();
        if let Some((names, until)) = self.work.parts.nodes.begin_quarantine(now, node, terms) {
            self.work.quarantine(now, names, Some(until));
        }
        if let Some(twin) = self.work.parts.nodes.twin_of(node) {
            if self.work.parts.nodes[node].hold_handshake() {
                return Ok(()); // The other connection pays the debts.
            }
            return Err(Trouble::Unusable(Unusable::SameServer(twin.index() as u8)));
        }
        let Parts { nodes, timers, .. } = &mut self.work.parts;
        nodes.handshake_done(node, timers);
        self.joined(now, node);
        let work = &mut self.work;
        work.parts.claims(now).pay_debts(node); // Debts that came up during the handshake.
        work.ask_late(now, node);
        if work.parts.fencing.is_used() {
            work.parts.fencing.floors_changed(&mut work.parts.news); // The node may have lost its floor.
        }
        work.stir_all(now);
        work.regained(now);
        let forgetful = work.parts.nodes[node].trust.kept_until(now).is_some();
        work.parts.keeper.is_back(node, forgetful);
        let (claims, timers) = (&mut work.parts.claims, &mut work.parts.timers);
        work.parts.keeper.register_again(now, claims, timers);
        work.extend_kept(now);
        Ok(())
    }

    // ----- markers --------------------------------------------------------------------------

    /// Handles the news that `node` has joined the group. The node may have a barrier, or may report a ttl that is
    /// longer than all known ttls.
    fn joined(&mut self, now: Instant, node: NodeId) {
        if let Some(membership) = self.work.parts.nodes[node].trust.membership() {
            self.work.parts.restarts.heard_of(membership.longest);
        }
        let longest = self.work.parts.restarts.longest();
        for other in self.work.parts.nodes.ids() {
            if self.work.parts.nodes[other].trust.demand(longest) {
                self.work.quarantine(now, NodeSet::of(other), Some(now));
            }
            if let Err(trouble) = self.work.parts.nodes.rejoin(now, other, longest) {
                self.give_up(now, other, trouble);
            }
        }
        if self.work.parts.nodes[node].trust.has_joined() != Some(true) {
            return; // The node was asked again, and the next answer decides.
        }
        let until = self.work.parts.nodes[node].trust.kept_until(now);
        self.work.quarantine(now, NodeSet::of(node), until);
        self.work.each(now, |operation, cx| {
            operation.heard(Change::Joined(node), cx);
        });
    }

    // ----- nodes that may have lost locks ---------------------------------------------------

    /// Handles an error that shows that a server is loading its data or is a replica, so it may have lost its locks.
    /// Every node that is connected to this server must repeat the handshake, and is then quarantined.
    #[cold]
    fn alarm(&mut self, now: Instant, node: NodeId, error: ServerError) -> Result<(), Trouble> {
        let Some((names, trouble)) = self.work.parts.nodes.alarm(node, error) else {
            return Ok(());
        };
        for other in names.iter() {
            self.give_up(now, other, trouble);
        }
        Err(trouble)
    }

    // ----- lost connections -----------------------------------------------------------------

    #[cold]
    fn disconnected(&mut self, now: Instant, node: NodeId, LinkError(reason): LinkError) {
        if self.work.parts.nodes.has_link(node) {
            let early =
                reason == LinkFault::Reset && !self.work.parts.nodes[node].handshake.is_ready();
            let reason = match early {
                true => LinkFault::HandshakeReset,
                false => reason,
            };
            let trouble = match Unusable::of(reason) {
                Some(unusable) => Trouble::Unusable(unusable),
                None => Trouble::Link(reason),
            };
            self.lose_link(now, node, trouble);
        }
    }

    /// Closes the connection to `node`, or ends the attempt to open one.
    fn give_up(&mut self, now: Instant, node: NodeId, trouble: Trouble) {
        self.work.parts.nodes.close(node);
        // The operations must learn that the node belongs to another group before they learn that its connection is
        // lost. Otherwise the operations would plan an attempt that cannot succeed.
        if matches!(trouble, Trouble::Unusable(Unusable::OtherGroup { .. })) {
            self.work.open_all();
            self.work
                .each(now, |operation, cx| operation.heard(Change::OtherGroup, cx));
        }
        self.lose_link(now, node, trouble);
    }

    /// Handles the loss of a connection. Open questions to the node end without an answer. If an unanswered command may
    /// have taken a lock, the engine must release this lock later.
    fn lose_link(&mut self, now: Instant, node: NodeId, trouble: Trouble) {
        let work = &mut self.work;
        let parts = &mut work.parts;
        let (lost, delay) = parts.nodes.lost(now, node, trouble, &mut parts.random);
        work.parts.queues.lost(node);
        for (request, left) in lost {
            work.parts.claims(now).unanswered(node, request, left);
        }
        work.each(now, |operation, cx| {
            operation.lose(node, Lost::Connection(trouble.outcome()), cx);
        });
        let wanted = work.is_anything_wanted();
        let (nodes, timers) = (&mut work.parts.nodes, &mut work.parts.timers);
        nodes.connect_again(now, node, delay, timers);
        nodes.watch_lines(now, wanted, timers);
        if matches!(trouble, Trouble::Unusable(why) if why.is_lasting()) {
            work.stir_all(now); // These operations may wait for nothing.
        }
    }

    // ----- timers ---------------------------------------------------------------------------

    /// Handles the end of a turn of the driver. Checks which nodes were silent during the turn, and runs the due
    /// timers.
    #[inline(never)]
    fn tick(&mut self, now: Instant) {
        // The timer wheel does not go back in time, so `now` must not go back either. Otherwise an operation could find
        // that its timer has fired too early, and set the same timer for ever.
        let now = now.max(self.work.parts.timers.latest());
        let Parts { nodes, timers, .. } = &mut self.work.parts;
        nodes.listen(now, timers);
        while let Some(place) = self.work.parts.queues.reminded(now) {
            let contender = self.work.parts.queues.contender(place);
            self.work.stir(now, contender);
        }
        while let Some(alarm) = self.work.parts.timers.expire(now) {
            self.fired(now, alarm);
        }
        if !self.work.parts.keeper.is_idle() {
            self.work.extend_kept(now);
        }
    }

    /// Handles a timer that has fired.
    fn fired(&mut self, now: Instant, alarm: Alarm) {
        let work = &mut self.work;
        match alarm {
            Alarm::Connection(node) => {
                let Parts { nodes, timers, .. } = &mut work.parts;
                if let Some(trouble) = nodes.connection_due(now, node, timers) {
                    self.give_up(now, node, trouble);
                }
            }
            Alarm::Silence(node) => {
                let wanted = work.is_anything_wanted();
                let Parts { nodes, timers, .. } = &mut work.parts;
                if let Some(trouble) = nodes.silence_due(now, node, wanted, timers) {
                    self.give_up(now, node, trouble);
                }
            }
            Alarm::Lines => {
                let (asked, wanted) = (work.len() != 0, work.is_anything_wanted());
                let Parts { nodes, timers, .. } = &mut work.parts;
                nodes.lines_due(now, wanted, asked, timers);
            }
            Alarm::Debts(node) => {
                work.parts.nodes[node].debt_timer = None;
                work.parts.claims(now).try_debts_again(node);
            }
            Alarm::Floors => work.parts.fencing.due(&mut work.parts.news),
            Alarm::Operation(key) => {
                work.with(now, key, due);
                work.lead_others(now);
            }
            Alarm::Claim(key) => work.claim_due(now, key),
            Alarm::Waiter(key) => {
                work.waited(now, key);
                work.lead_others(now);
            }
        }
    }
}

/// Sends all overdue releases, then the rest of the handshake, to a server that has accepted the connection.
#[cold]
#[inline(never)]
fn admitted(now: Instant, node: NodeId, parts: &mut Parts) {
    parts.claims(now).try_debts_again(node);
    parts.claims(now).pay_debts(node);
    parts.nodes.writing_to(node).survey(now);
}
