//! Inputs and timers: each is passed to the parts that it concerns.

use core::time::Duration;

use crate::error::{LinkError, LinkFault, NodeOutcome, Unusable};
use crate::keys::{ClaimKey, NodeId, OperationKey, PlaceKey};
use crate::limits::STRING_BYTES_MAX;
use crate::node::{Dialect, Heard, Remaining, Reply, Trouble};
use crate::resp::Value;
use crate::time::Instant;

use super::Engine;
use super::alarm::Alarm;
use super::claims::Below;
use super::contract::Input;
use super::keeper::LockDue;
use super::news::News;
use super::nodes::Silence;
use super::operation::held::Verdict;
use super::operation::repair::Repair;
use super::operation::{Change, Kind, Lost, due};

impl Engine {
    /// Hands in what happened outside. It cannot fail: a server's bytes are never the caller's mistake.
    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        let nodes = self.parts.nodes.len();
        match input {
            Input::Connected { node }
            | Input::Writable { node }
            | Input::Received { node, .. }
            | Input::Transmitted { node, .. }
            | Input::Disconnected { node, .. }
            | Input::Probed { node }
                if nodes <= node.index() => {} // A node of another engine.
            Input::Connected { node } => self.parts.nodes.connected(now, node),
            Input::Writable { node } => self.parts.nodes.writing_to(node).unblock(),
            Input::Received { node, bytes } => self.received(now, node, bytes),
            Input::Transmitted { node, len } => self.parts.nodes[node].transmitted(len),
            Input::Disconnected { node, reason } => self.disconnected(now, node, reason),
            Input::Probed { node } => self.probed(now, node),
            Input::Tick => self.tick(now),
        }
    }

    /// The driver did not read for a while until `now`, so the delays of the next answers say nothing about round
    /// trips.
    #[cfg(any(test, feature = "std"))]
    pub(crate) fn was_away(&mut self, now: Instant) {
        for node in self.parts.nodes.iter_mut() {
            node.pulse.was_away(now);
        }
    }

    // ----- what a node says -----------------------------------------------------------------

    fn received(&mut self, now: Instant, node: NodeId, bytes: &[u8]) {
        let nodes = &mut self.parts.nodes;
        if !nodes[node].hears() {
            return; // The connection was given up in this very turn, before these bytes were read.
        }
        let was_silent = nodes[node].pulse.is_suspect();
        nodes.close_probe(node);
        let mut piece = bytes;
        while !piece.is_empty() {
            let (operations, queues) = (&mut self.operations, &mut self.parts.queues);
            let looks = &mut self.parts.keeper.looks;
            let show = |key, value: Value<'_>| operations.show(node, key, value);
            let changed = |name: Option<&[u8]>| {
                let looks = looks.changed(name.map(|name| queues.hash_cut(name)));
                // A name that was cut may be any name with this prefix.
                let name = name.filter(|name| name.len() < STRING_BYTES_MAX);
                queues.changed(now, node, name) | looks
            };
            let heard = match self.parts.nodes[node].receive(now, &mut piece, show, changed) {
                Ok(Some(heard)) => self.heard(now, node, heard),
                Ok(None) => break,
                Err(trouble) => self.useless(now, node, trouble),
            };
            if let Err(trouble) = heard {
                self.give_up(now, node, trouble);
                return;
            }
        }
        self.after_reading(now, node);
        if was_silent {
            self.stir_all(now);
            self.regained(now);
        }
        if self.parts.nodes[node].has_moved_away() {
            self.give_up(now, node, Trouble::Link(LinkFault::Silent));
        }
    }

    /// Acts on changed keys that a node has reported.
    #[cold]
    fn changed(&mut self, now: Instant) {
        while let Some(operation) = self.parts.queues.next_stirred() {
            self.stir(now, Some(operation));
        }
        let parts = &mut self.parts;
        parts
            .keeper
            .look_at_changed(now, &mut parts.claims, &mut parts.timers);
        self.operations.extend_kept(now, parts);
    }

    /// Wakes `operation`: something that it may wait for has changed.
    pub(super) fn stir(&mut self, now: Instant, operation: Option<OperationKey>) {
        let queues = &self.parts.queues;
        if let Some(operation) = operation.and_then(|key| queues.waiters.opened(key)) {
            self.operations
                .with(now, operation, &mut self.parts, |operation, cx| {
                    operation.heard(Change::Stirred, cx);
                });
        }
    }

    /// Wakes all operations: a node can be asked that could not before.
    pub(super) fn stir_all(&mut self, now: Instant) {
        self.parts.queues.look_soon(now);
        self.operations.each(now, &mut self.parts, |operation, cx| {
            operation.heard(Change::Stirred, cx)
        });
    }

    /// `node` has said how much time is left of a key.
    #[cold]
    fn looked(
        &mut self,
        now: Instant,
        node: NodeId,
        place: PlaceKey,
        left: Option<Remaining>,
        pushes: bool,
    ) {
        let limit = self.parts.settings.ttl_limit;
        if let Some((waiting, _)) = self.parts.queues.waiting(place) {
            // If a node does not say, ask for the lock itself after the random delay.
            let left = left.unwrap_or(Remaining::For(waiting.delay_left(now)));
            let left = match left {
                Remaining::For(left) => Remaining::For(left.min(limit)),
                Remaining::Missing | Remaining::Permanent => left,
            };
            waiting.answered(now, node, left, pushes);
            let contender = self.parts.queues.contender(place);
            self.stir(now, contender);
        }
    }

    /// Everything that `node` sent was read. Now there may be room for its debts, or a question to send.
    fn after_reading(&mut self, now: Instant, node: NodeId) {
        let parts = &mut self.parts;
        let there = &parts.nodes[node];
        if there.is_ready() && there.debts.is_due() {
            let (claims, mut below) = parts.claims(now);
            claims.pay_debts(node, &mut below);
        }
        if parts.nodes[node].is_to_write() {
            parts.nodes.writing_to(node);
        }
    }

    // Inlined into the loop over received bytes. The only other caller, for answers to batches, is rare.
    #[inline(always)]
    fn heard(&mut self, now: Instant, node: NodeId, heard: Heard) -> Result<(), Trouble> {
        match heard {
            Heard::Admitted => self.admitted(now, node),
            Heard::Ready => return self.ready(now, node),
            Heard::Stepped => self.stepped(now, node),
            Heard::Introduced => {
                let longest = self.parts.restarts.longest();
                return self.parts.nodes.writing_to(node).join(now, longest);
            }
            Heard::Joined => {
                self.joined(now, node);
                self.stir_all(now);
            }
            Heard::Pushed => self.changed(now),
            Heard::Batch => return self.heard_batch(now, node),
            Heard::Tried { claim, way, reply } => {
                return self.heard_way(now, node, claim, (way, reply));
            }
            Heard::Looked {
                place,
                left,
                pushes,
            } => self.looked(now, node, place, left, pushes),
            Heard::Uncounted {
                request,
                reply,
                outcome,
                first,
            } => {
                let (operations, parts) = (&mut self.operations, &mut self.parts);
                let mark = (outcome, first);
                operations.answered_uncounted(now, node, request, reply, mark, parts)?;
                self.rejoin(now, node);
            }
            Heard::Answer(request, reply) => {
                self.operations
                    .answered(now, node, request, reply, &mut self.parts)?;
                if matches!(reply, Reply::Error(_)) {
                    return self.alarm(now, node, reply);
                }
            }
        }
        Ok(())
    }

    /// `node` has answered several renewals at once. Each one counts as an answer to its own command.
    #[cold]
    #[inline(never)]
    fn heard_batch(&mut self, now: Instant, node: NodeId) -> Result<(), Trouble> {
        while let Some(heard) = self.parts.nodes[node].next_in_batch(now) {
            if let Some((operation, shown)) = self.parts.nodes[node].take_shown(&heard) {
                self.operations.show_encoded(node, operation, &shown);
            }
            self.heard(now, node, heard)?;
        }
        let there = &self.parts.nodes[node];
        if there.is_ready() && there.waiting.len() != 0 {
            self.operations.ask_behind(now, node, &mut self.parts);
        }
        Ok(())
    }

    /// `node` has answered whether it can release a lock in this way. Wakes the operations that wait for a node which
    /// could not be asked, even if no operation waits for this answer.
    #[cold]
    #[inline(never)]
    fn heard_way(
        &mut self,
        now: Instant,
        node: NodeId,
        claim: ClaimKey,
        (way, reply): (Dialect, Reply),
    ) -> Result<(), Trouble> {
        let (operations, parts) = (&mut self.operations, &mut self.parts);
        let withheld = !parts.nodes[node].may_release();
        if operations.way_answered(now, node, claim, (way, reply), parts)? {
            self.stir_all(now);
        }
        if withheld && self.parts.nodes[node].may_release() {
            self.parts.keeper.is_back(node, false); // The copies that it lacks can be sent now.
            self.operations.extend_kept(now, &mut self.parts);
        }
        self.alarm(now, node, reply)
    }

    // ----- a handshake ----------------------------------------------------------------------

    /// The server accepts us: sends its debts first, then the rest of the handshake.
    fn admitted(&mut self, now: Instant, node: NodeId) {
        let (claims, mut below) = self.parts.claims(now);
        claims.try_debts_again(node, &mut below);
        claims.pay_debts(node, &mut below);
        below.nodes.writing_to(node).survey(now);
    }

    /// The handshake is done. A server that is connected under two names has one vote.
    fn ready(&mut self, now: Instant, node: NodeId) -> Result<(), Trouble> {
        // Its identity is remembered under every name.
        self.begin_quarantine(now, node);
        if let Some(twin) = self.parts.nodes.twin_of(node) {
            if self.parts.nodes[node].hold_handshake() {
                return Ok(()); // Its debts are paid over this connection.
            }
            return Err(Trouble::Unusable(Unusable::SameServer(twin.index() as u8)));
        }
        self.parts
            .nodes
            .handshake_done(node, &mut self.parts.timers);
        self.joined(now, node);
        let (claims, mut below) = self.parts.claims(now);
        claims.pay_debts(node, &mut below); // Debts that came up meanwhile.
        self.operations.ask_late(now, node, &mut self.parts);
        if self.parts.fencing.is_used() {
            self.parts.fencing.floors_changed(&mut self.parts.news); // It may have lost its floor.
        }
        self.stir_all(now);
        self.regained(now);
        let forgetful = self.parts.nodes[node].kept_until(now).is_some();
        let parts = &mut self.parts;
        parts.keeper.is_back(node, forgetful);
        parts
            .keeper
            .register_again(now, &mut parts.claims, &mut parts.timers);
        self.operations.extend_kept(now, parts);
        Ok(())
    }

    fn begin_quarantine(&mut self, now: Instant, node: NodeId) {
        let terms = self.parts.restarts.terms();
        let nodes = &mut self.parts.nodes;
        let told = nodes[node].guard_handshake(now, terms);
        let Some((names, until)) = nodes.share_quarantine(now, node, terms, told) else {
            return;
        };
        for other in names.iter() {
            self.lose_answers(now, other, NodeOutcome::Quarantined { until });
        }
    }

    // ----- markers --------------------------------------------------------------------------

    /// `node` has joined, perhaps with a barrier, and perhaps with a longer ttl than was known.
    fn joined(&mut self, now: Instant, node: NodeId) {
        let longest = self.parts.nodes[node].longest();
        self.parts.restarts.heard_of(longest);
        let longest = self.parts.restarts.longest();
        for other in self.parts.nodes.ids() {
            if self.parts.nodes[other].demand(longest) {
                self.lose_answers(now, other, NodeOutcome::Quarantined { until: now });
            }
            self.rejoin(now, other);
        }
        if !self.parts.nodes[node].is_settled() {
            return; // It was asked once more, and that answer will tell.
        }
        if let Some(until) = self.parts.nodes[node].kept_until(now) {
            self.lose_answers(now, node, NodeOutcome::Quarantined { until });
        }
        self.operations.each(now, &mut self.parts, |operation, cx| {
            operation.heard(Change::Joined(node), cx);
        });
    }

    /// Asks `node` to join if it has to and was not asked yet.
    fn rejoin(&mut self, now: Instant, node: NodeId) {
        if self.parts.nodes[node].is_to_join() {
            let longest = self.parts.restarts.longest();
            if let Err(trouble) = self.parts.nodes.writing_to(node).join(now, longest) {
                self.give_up(now, node, trouble);
            }
        }
    }

    // ----- what may have been forgotten -----------------------------------------------------

    /// A server that loads or follows another may come back without its locks. The node has to shake hands again, under
    /// each name by which it is connected, and does not vote for a while after that.
    fn alarm(&mut self, now: Instant, node: NodeId, reply: Reply) -> Result<(), Trouble> {
        let Some(trouble) = self.parts.nodes[node].guard.heard(reply) else {
            return Ok(());
        };
        for other in self.parts.nodes.other_names(node).iter() {
            if self.parts.nodes[other].is_ready() {
                self.parts.nodes[other].guard.alarm();
                self.give_up(now, other, trouble);
            }
        }
        Err(trouble)
    }

    /// The connection is useless. If it was ready, a refusal to join again is treated as an alarm.
    fn useless(&mut self, now: Instant, node: NodeId, trouble: Trouble) -> Result<(), Trouble> {
        if let Trouble::Unusable(Unusable::Refused(error)) = trouble
            && self.parts.nodes[node].is_ready()
        {
            self.alarm(now, node, Reply::Error(error))?;
        }
        Err(trouble)
    }

    /// The clock of `node` was stepped, so keys may have ended early there. It does not vote for a while, also in open
    /// operations.
    fn stepped(&mut self, now: Instant, node: NodeId) {
        let terms = self.parts.restarts.terms();
        if let Some(until) = self.parts.nodes[node].guard.stepped(now, terms) {
            self.lose_answers(now, node, NodeOutcome::Quarantined { until });
        }
    }

    fn lose_answers(&mut self, now: Instant, node: NodeId, outcome: NodeOutcome) {
        self.operations
            .lose_answers(now, node, outcome, &mut self.parts);
    }

    // ----- a connection ends ----------------------------------------------------------------

    #[cold]
    fn disconnected(&mut self, now: Instant, node: NodeId, LinkError(reason): LinkError) {
        if self.parts.nodes.has_link(node) {
            let early = reason == LinkFault::Reset && !self.parts.nodes[node].is_ready();
            let reason = match early {
                true => LinkFault::HandshakeReset,
                false => reason,
            };
            let trouble = match Unusable::of(reason) {
                Some(unusable) => Trouble::Unusable(unusable),
                None => Trouble::Link(reason),
            };
            self.lose_link(now, node, trouble);
            self.stir_lasting(now, trouble);
        }
    }

    /// Closes the connection to `node`, or ends the attempt to open one.
    fn give_up(&mut self, now: Instant, node: NodeId, trouble: Trouble) {
        self.parts.nodes.close(node);
        // This comes before the missing node makes an operation fail, because no later attempt would succeed.
        if matches!(trouble, Trouble::Unusable(Unusable::OtherCluster { .. })) {
            self.operations.open_all(&mut self.parts);
            self.operations.each(now, &mut self.parts, |operation, cx| {
                operation.heard(Change::OtherCluster, cx)
            });
        }
        self.lose_link(now, node, trouble);
        self.stir_lasting(now, trouble);
    }

    /// Wakes all operations if the trouble of a node does not pass, because they may wait in vain.
    #[cold]
    fn stir_lasting(&mut self, now: Instant, trouble: Trouble) {
        if matches!(trouble, Trouble::Unusable(why) if why.is_lasting()) {
            self.stir_all(now);
        }
    }

    /// The connection is gone. Questions that were sent over it get no answer, and locks that may have been taken over
    /// it are owed a release.
    fn lose_link(&mut self, now: Instant, node: NodeId, trouble: Trouble) {
        let parts = &mut self.parts;
        let (lost, delay) = parts.nodes.lost(now, node, trouble, &mut parts.random);
        parts.queues.lost(node);
        let (claims, mut below) = parts.claims(now);
        for (request, left) in lost {
            claims.unanswered(node, request, left, &mut below);
        }
        self.operations.each(now, parts, |operation, cx| {
            operation.lose(node, Lost::Connection(trouble.outcome()), cx);
        });
        parts
            .nodes
            .connect_again(now, node, delay, &mut parts.timers);
        self.watch_lines(now);
    }

    // ----- what is due ----------------------------------------------------------------------

    /// The driver has handed in everything of this turn. Checks which nodes were silent in it, and does what is due.
    #[inline(never)]
    fn tick(&mut self, now: Instant) {
        // The wheel does not go back, so the time here must not either. Otherwise an operation could find that its time
        // is still to come, and arm the same timer for ever.
        let now = now.max(self.parts.timers.latest());
        self.parts.nodes.listen(now, &mut self.parts.timers);
        while let Some(place) = self.parts.queues.reminded(now) {
            let contender = self.parts.queues.contender(place);
            self.stir(now, contender);
        }
        while let Some(alarm) = self.parts.timers.expire(now) {
            match alarm {
                Alarm::Connection(node) => self.connection_due(now, node),
                Alarm::Silence(node) => self.silence_due(now, node),
                Alarm::Lines => self.lines_due(now),
                Alarm::Debts(node) => self.debts_due(now, node),
                Alarm::Floors => self.parts.fencing.due(&mut self.parts.news),
                Alarm::Operation(key) => self.operations.with(now, key, &mut self.parts, due),
                Alarm::Claim(key) => self.claim_due(now, key),
                Alarm::Waiter(key) => self.operations.waited(now, key, &mut self.parts),
            }
        }
        self.operations.extend_kept(now, &mut self.parts);
    }

    fn connection_due(&mut self, now: Instant, node: NodeId) {
        let parts = &mut self.parts;
        if parts.nodes.connection_due(now, node, &mut parts.timers) {
            let late = match self.parts.nodes[node].lacks_credentials() {
                true => LinkFault::Credentials,
                false => LinkFault::ConnectTimeout,
            };
            self.give_up(now, node, Trouble::Link(late));
        }
    }

    fn silence_due(&mut self, now: Instant, node: NodeId) {
        let parts = &mut self.parts;
        match parts.nodes.silence_due(now, node, &mut parts.timers) {
            Silence::Short => {}
            Silence::Suspect => self.watch_lines(now),
            Silence::Dead => self.give_up(now, node, Trouble::Link(LinkFault::Silent)),
        }
    }

    fn debts_due(&mut self, now: Instant, node: NodeId) {
        self.parts.nodes[node].debt_timer = None;
        let (claims, mut below) = self.parts.claims(now);
        claims.try_debts_again(node, &mut below);
    }

    /// Looks at the counter floors of all nodes, and repairs those that can be repaired.
    #[cold]
    #[inline(never)]
    pub(super) fn look_at_floors(&mut self, now: Instant) {
        let (operations, parts) = (&mut self.operations, &mut self.parts);
        parts.fencing.looking();
        match operations.is_full_for_holders(&parts.queues) {
            true => parts.looked_at_floors(now),
            false => {
                let kind = Kind::Repair(Repair::new(parts));
                operations.begin(now, Duration::ZERO, None, kind, parts);
            }
        }
    }

    // Out of line, because no timer fires for a lock that is released in time.
    #[inline(never)]
    fn claim_due(&mut self, now: Instant, claim: ClaimKey) {
        let parts = &mut self.parts;
        let (nodes, timers) = (&mut parts.nodes, &mut parts.timers);
        let mut below = Below { now, nodes, timers };
        let Some(held) = parts.claims.due(claim, &mut below) else {
            return;
        };
        match parts.keeper.due(now, claim, held, below.timers) {
            None => {}
            Some(LockDue::Over) => self.lock_is_over(now, claim),
            Some(LockDue::AtRisk) => {
                let lock = self.parts.claims.lock_id(claim);
                self.parts.news.push_back(News::AtRisk(lock));
            }
        }
    }

    /// Reports to the holder of `claim` that its lock is over. An answer in the last tick does not revive a lock that
    /// was reported as over.
    fn lock_is_over(&mut self, now: Instant, claim: ClaimKey) {
        let open = self.parts.tell_lost(now, claim);
        let verdict = || Verdict::Unconfirmed;
        self.operations
            .end_questions(now, claim, open, verdict, &mut self.parts);
        self.operations.remember(now, claim, &mut self.parts);
    }

    // ----- silent majorities ------------------------------------------------------------------

    fn is_anything_wanted(&self) -> bool {
        self.operations.len(&self.parts.queues) != 0 || !self.parts.claims.is_empty()
    }

    fn watch_lines(&mut self, now: Instant) {
        if self.is_anything_wanted() {
            self.parts.nodes.watch_lines(now, &mut self.parts.timers);
        }
    }

    fn lines_due(&mut self, now: Instant) {
        let (wanted, asked) = (
            self.is_anything_wanted(),
            self.operations.len(&self.parts.queues) != 0,
        );
        let timers = &mut self.parts.timers;
        self.parts.nodes.lines_due(now, wanted, asked, timers);
    }

    fn probed(&mut self, now: Instant, node: NodeId) {
        if self.parts.nodes.probed(now, node) {
            self.give_up(now, node, Trouble::Link(LinkFault::Silent));
            if !self.parts.nodes[node].has_link() {
                let timers = &mut self.parts.timers;
                self.parts.nodes.connect(now, node, timers);
            }
        }
    }

    /// A node answers that did not before. Wakes the operations if it completes a majority.
    fn regained(&mut self, now: Instant) {
        if self.parts.nodes.answering() == self.parts.nodes.quorum() {
            let parts = &mut self.parts;
            self.operations.each(now, parts, |operation, cx| {
                operation.heard(Change::MajorityBack, cx)
            });
        }
    }
}
