//! Told: the end of a lock is reported to every holder.
//!
//! A lock lasts no longer than its holder was told, or than a majority has said to a call that was cancelled.
//!
//! The report comes by the first turn at or after the end of the validity less a tick; for a lock that was handed over,
//! as soon as a client has adopted it. It comes once, never for a lock that the client does not hold, and not more than
//! two ticks early, unless a majority said that the lock is lost. A lock whose end was reported is not extended.
//!
//! # What it does not see
//!
//! Locks on their way from one client to another: no client has them. The loss of a lock that a cancelled extension has
//! found: it may be reported, but need not be.

use shearline::{Instant, LockId};

use super::votes::longest_validity;
use super::{TICK, TokenId, Verb};
use crate::user::{Call, Confirming, Hold};
use crate::world::World;

impl World {
    /// Checks a client that has finished its turn, in which it had the time `ticked`.
    pub(crate) fn told(&mut self, client: usize, ticked: Instant) {
        for user in 0..self.clients[client].users.len() {
            let there = &mut self.clients[client].users[user];
            let begun = there.begun;
            let Some(hold) = there.task.hold_mut() else {
                continue;
            };
            let known = hold.lock.valid_until() != Instant::ZERO;
            let end = hold.lock.valid_until().saturating_sub(TICK);
            let unreported = known && begun < ticked && end <= ticked && !hold.told;
            let early = std::mem::take(&mut hold.early);
            let alert = hold
                .alert
                .filter(|alert| alert.since < ticked && !hold.told && known);
            let (until, told) = (hold.lock.valid_until(), hold.told);
            let told_until = hold.known;
            let untold = !told && told_until < until;
            let unwarned = alert.is_some_and(|alert| until.saturating_sub(alert.left) <= ticked);
            if !told {
                for resource in self.names_of(client, user) {
                    self.believe_shown(client, resource, user, until);
                }
            }
            self.object_of(client, unwarned, "told-early", "was not told of the risk");
            self.object_of(client, unreported, "told", "was not told of the end");
            self.object_of(client, early, "told", "was told too early");
            if untold {
                let text = format!("client {client} has {until:?}, and was told {told_until:?}");
                self.object("validity", text);
            }
        }
    }

    /// Notes that a client has cancelled an extension. If a majority had confirmed it, the lock lasts for that long.
    pub(crate) fn extended_untold(
        &mut self,
        client: usize,
        user: usize,
        hold: &mut Hold,
        verb: Verb,
        call: &Call,
    ) {
        let id = self.oracle.id_of(&hold.lock);
        let Some(id) = id.filter(|id| self.majority_extends(client, *id, verb, call)) else {
            return;
        };
        if hold.keep.is_some() {
            hold.extensions = hold.extensions.map(|left| left.saturating_sub(1));
        }
        self.end_untold(client, user, hold, verb, call, id);
    }

    /// Notes that the outcome of a confirmation was reported. If the end of the lock is not that outcome, it is that of
    /// an extension that was cancelled just before.
    pub(crate) fn confirmed_beside(&mut self, client: usize, user: usize, hold: &mut Hold) {
        let id = self.oracle.id_of(&hold.lock);
        if let Some((verb, call)) = hold.either.take()
            && let Some(id) = id
        {
            self.end_untold(client, user, hold, verb, &call, id);
        }
    }

    /// A majority has confirmed the cancelled extension of `call`. Notes the end of the lock if it is that of the
    /// extension.
    fn end_untold(
        &mut self,
        client: usize,
        user: usize,
        hold: &mut Hold,
        verb: Verb,
        call: &Call,
        id: TokenId,
    ) {
        let until = hold.lock.valid_until();
        // Another extension may have been confirmed for longer, which is still to be reported.
        let longest = call.begun.saturating_add(longest_validity(call.ttl));
        // Or the end is that of a confirmation, whose outcome is reported next.
        let asked = hold.confirming.map(|asked| asked.call);
        let confirmed = asked.is_some_and(|asked| self.explains(client, id, &asked, until));
        if confirmed {
            hold.either = Some((verb, *call));
        } else if hold.known < until && until <= longest {
            let before = (hold.known, hold.lock.ttl());
            self.check_extension(client, (hold, until), verb, call, before);
            hold.known = until;
            self.hold_belief(client, user, hold);
        }
    }

    /// Notes that a client has cancelled a confirmation. If a majority had answered, the lock ends when they said.
    pub(crate) fn confirmed_untold(
        &mut self,
        client: usize,
        user: usize,
        hold: &mut Hold,
        asked: &Confirming,
    ) {
        let (until, since) = (hold.lock.valid_until(), asked.call.since);
        let id = self.oracle.id_of(&hold.lock);
        let has_said = |id| {
            self.plan.quorum() <= self.keepers(client, id, since, until).0
                && until <= self.longest_confirmed(client, id, &asked.call)
        };
        if hold.known != until && id.is_some_and(has_said) {
            self.check_confirmation(client, hold, asked, (hold.known, until));
            hold.known = until;
            self.hold_belief(client, user, hold);
        }
    }

    /// Returns `true` if a majority has said yes to an extension.
    fn majority_extends(&self, client: usize, id: TokenId, verb: Verb, call: &Call) -> bool {
        self.has_quorum(id, verb, |node, entry| {
            self.is_vote(client, node, entry, call.since) && entry.read_shown < call.ends
        })
    }

    /// Checks the report of a lock's end to a client. Returns the user that has the lock.
    pub(crate) fn told_of(&mut self, client: usize, lock: LockId) -> Option<usize> {
        let shown = self.clients[client].shown;
        let users = &mut self.clients[client].users;
        let mut holds = users.iter_mut().map(|user| user.task.hold_mut());
        let is_of = |hold: &Hold| hold.lock.id() == lock;
        let user = holds.position(|hold| hold.is_some_and(|hold| is_of(hold)));
        let Some(user) = user else {
            self.object_of(client, true, "told", "was told of a lock that it has not");
            return None;
        };
        let again = users[user]
            .task
            .hold_mut()
            .is_some_and(|hold| note(hold, shown));
        self.object_of(client, again, "told", "was told twice");
        Some(user)
    }

    /// Notes the report to its holder that a lock is lost, because a majority said so.
    pub(crate) fn told_of_loss(&mut self, client: usize, hold: &mut Hold) {
        hold.early = false;
        self.object_of(client, !hold.told, "told", "was not told of the loss");
    }

    /// Checks the report of a lock's end to a user. If a majority has said so in answer to an extension that the user
    /// has cancelled, the report is not too early.
    pub(crate) fn lost_unasked(&mut self, client: usize, user: usize) {
        let there = &mut self.clients[client];
        let Some(hold) = there.users[user].task.hold_mut() else {
            return;
        };
        // A cancelled request may have found an earlier end, or none.
        let unasked = hold.unasked.is_some();
        hold.early &= !unasked;
        let cancelled = hold.cancelled_calls();
        let Some(id) = self.oracle.id_of(&hold.lock) else {
            return;
        };
        let missed = |(verb, call): (Verb, Option<Call>)| {
            call.is_some_and(|call| self.missed_since(client, id, verb, call.since))
        };
        let is_lost = unasked && self.misses_it(client, id, Verb::Confirm)
            || cancelled.into_iter().any(missed);
        if is_lost && let Some(hold) = self.clients[client].users[user].task.hold_mut() {
            hold.early = false;
            self.oracle.misses(&hold.lock);
        }
    }

    /// Checks that a lock whose end was reported is not extended.
    pub(crate) fn told_and_extended(&mut self, client: usize, hold: &Hold) {
        self.object_of(client, hold.told, "told", "extends what is over");
    }
}

/// Records that the end was reported. Returns whether it had been before.
fn note(hold: &mut Hold, shown: Instant) -> bool {
    let earliest = hold.known.saturating_sub(2 * TICK);
    hold.early = shown < earliest;
    std::mem::replace(&mut hold.told, true)
}
