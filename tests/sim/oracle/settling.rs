//! Settling: every call ends in time, by the clock of its client.
//!
//! * An acquire with a deadline ends with the first turn at or after it, and one with tries only
//!   after as much time as its attempts and delays may take.
//! * An extension ends with the old validity at the latest.
//! * A release ends with its node timeout, however long the nodes are silent.
//! * A lost connection is opened again: at once if it had lasted for a second, otherwise after the longest back-off at
//!   the latest. It is also opened when a call would lack a quorum without it, if it was not tried for a quarter of a
//!   second.
//! * No engine asks again and again to be woken in the past, and none sleeps for ever with
//!   something open.
//!
//! # What it does not see
//!
//! How long a turn waits for its process to run: a client that is stopped is not late. The engine
//! chooses the node timeout of a release by the round trips that it has seen; here the worst of
//! them counts.

use std::time::Duration;

use shearline::Instant;
use shearline::internals::{Cause, all_open};

use super::TICK;
use super::wake::after;
use crate::clock::{MILLI, Time};
use crate::plan::{CONNECT_TIMEOUT, TRIES};
use crate::user::{Hold, Task};
use crate::world::World;

/// How long a call that is short of a quorum waits before it tries an unreachable node again.
const RECONNECT_EARLY_AFTER: Duration = Duration::from_millis(250);

/// After this many ticks in a row, an engine that asks to be woken in the past runs hot.
const HOT: u32 = 3;

/// The longest that a release waits for a node that has always answered quickly.
const USUAL_RELEASE: Time = 50 * MILLI;

impl World {
    /// Checks a client that has finished its turn, in which it had the time `ticked`.
    pub(crate) fn settling(&mut self, client: usize, ticked: Instant) {
        for user in 0..self.clients[client].users.len() {
            let there = &self.clients[client].users[user];
            if ticked <= there.begun {
                continue;
            }
            if let Some(what) = self.overdue(client, user, ticked) {
                self.object("settling", format!("client {client}: {what}"));
            }
        }
        self.wakes(client, ticked);
    }

    /// Returns which call of a user should have ended by now.
    fn overdue(&self, client: usize, user: usize, ticked: Instant) -> Option<&'static str> {
        let late = |end: Instant| end.saturating_add(TICK) <= ticked;
        match &self.clients[client].users[user].task {
            Task::Acquiring { call, stopped, .. } => {
                if let Some(deadline) = call.limits.deadline {
                    return late(deadline).then_some("an acquire is open after its deadline");
                }
                let stopped = self.clients[client].stopped - *stopped;
                let longest = self.plan.longest_tries(TRIES, call.ttl);
                // A second round trip for the fencing token has the same time again.
                let fenced = self.clients[client].users[user].asks_twice;
                let longest = longest * (1 + u64::from(fenced)) + stopped + stopped / 50;
                late(after(call.begun, longest)).then_some("an acquire is open after all its tries")
            }
            Task::Extending { hold, .. } => {
                let calls = &self.oracle.calls[client][self.plan.resource_of(user)];
                let over =
                    late(calls.extend.within).then_some("an extension is open after the old end");
                over.or_else(|| self.unended_beside(client, user, hold, late))
            }
            Task::Releasing { call, .. } => {
                let longest = self.longest_release(client);
                late(after(call.begun, longest))
                    .then_some("a release is open after its node timeout")
            }
            Task::Holding(hold) => self.unended_beside(client, user, hold, late),
            Task::Idle => None,
        }
    }

    fn unended_beside(
        &self,
        client: usize,
        user: usize,
        hold: &Hold,
        late: impl Fn(Instant) -> bool,
    ) -> Option<&'static str> {
        let calls = &self.oracle.calls[client][self.plan.resource_of(user)];
        let over = hold.beside.is_some() && late(calls.beside.within);
        let over = over.then_some("a second extension is open after the old end");
        over.or_else(|| self.unended(client, hold, late))
    }

    /// Returns the node timeout of a release: a fixed one, or four of the worst round trips, which the client measures
    /// by its own clock.
    pub(super) fn longest_release(&self, client: usize) -> Time {
        match self.plan.node_timeout {
            Some(timeout) => timeout * MILLI,
            None => USUAL_RELEASE.max(4 * self.clients[client].worst_trip()),
        }
    }

    /// Checks that a client opens lost connections again, after a turn in which it had the time `ticked`.
    pub(crate) fn reopens(&mut self, client: usize, ticked: Instant) {
        let called = self.clients[client].called.take();
        let there = &self.clients[client];
        // A client of another group asks no node.
        let called = called.filter(|_| !self.plan.is_outsider(client));
        let begun = called.filter(|_| there.is_short_of_a_quorum(self.plan.quorum()));
        let late = (0..self.plan.nodes_of(client)).find(|node| {
            let path = &there.paths[*node];
            let early = path.opened_shown.saturating_add(RECONNECT_EARLY_AFTER);
            // A client that was stopped for longer may have given up connections that it had not begun.
            let due = path.back_by.is_some_and(|by| {
                let given_up = after(by, CONNECT_TIMEOUT);
                by.saturating_add(TICK) <= ticked && ticked < given_up
            });
            let due_early = begun.is_some_and(|begun| early <= begun);
            there.links[*node].is_none() && (due || due_early)
        });
        if let Some(node) = late {
            self.object(
                "settling",
                format!("client {client} does not open {node} again"),
            );
        }
    }

    fn wakes(&mut self, client: usize, ticked: Instant) {
        let there = &mut self.clients[client];
        let wake = there.engine.poll_timeout();
        let late = wake.is_some_and(|(at, wake)| at <= ticked && wake.cause() != Cause::Output);
        let acted = std::mem::take(&mut there.acted);
        there.hot = if late && !acted { there.hot + 1 } else { 0 };
        let hot = there.hot > HOT;
        let load = all_open(&there.engine);
        let open = load.rounds + load.debts > 0;
        self.object_of(client, hot, "settling", "wants to be woken in the past");
        self.object_if(wake.is_none() && open, "settling", || {
            format!("client {client} sleeps for ever on {load:?}")
        });
    }
}
