//! Clocks: a client that watches the clocks of servers detects that one was set, and only then.
//!
//! * *quarantine*: a client may read impossible times, which no server could show whose clock runs within its rate and
//!   is set by no more in all than a lock allows for. If the client has a guard, it then counts none of the server's
//!   votes for the longest ttl of all, except for copies that were there before.
//! * *outcome*: no clock is reported to be stepped more often than it, or that of the client, was
//!   set.
//! * *storm*: a server is asked for its time at most once a second over one connection.
//!
//! # What it does not see
//!
//! Steps within what the round trips and the drift may explain. How much smaller the sum of the steps may be if a
//! client was asked for a shorter ttl than the longest of its world.

use super::{Answer, Verb};
use crate::clock::{MILLI, SECOND, Time};
use crate::world::World;

/// How much steps may always add up to, and the error of whole milliseconds.
const SLACK: Time = 10 * MILLI;
const ROOM: Time = 5 * MILLI;

/// What a client knew of the clock of a server when it read a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeRead {
    at: Time,
    /// By how much the clock had been set by then.
    jumped: Time,
    /// The sum of the steps that the client must not report.
    sum: Time,
    /// How many steps it had reported.
    steps: u32,
}

impl World {
    /// Checks the time that a client has read from a server.
    pub(super) fn time_read(&mut self, client: usize, node: usize, answer: &Answer) {
        if answer.said.is_error() {
            return;
        }
        let (now, worst) = (self.now, self.clients[client].worst_trip());
        let longest = self.plan.longest_ttl.min(self.plan.max_ttl_of(client)) * MILLI;
        let there = &mut self.clients[client];
        let steps = there.engine.node_statuses(there.shown).nth(node);
        let steps = steps.map_or(0, |status| status.clock_steps);
        let mut told = TimeRead {
            at: now,
            jumped: answer.jumped,
            sum: 0,
            steps,
        };
        let Some(before) = there.paths[node].time.replace(told) else {
            return;
        };
        let widened = (now - before.at) / 400;
        told.sum = before.sum.saturating_sub(widened) + answer.jumped - before.jumped;
        let stepped = ROOM + 2 * worst + SLACK.max(longest / 125) < told.sum;
        if stepped {
            self.oracle.counts.sights.note("Stepped");
            self.oracle.quarantine.stepped(client, node, now);
        }
        // The client begins again with a step that it reports.
        if stepped || steps != before.steps {
            told.sum = 0;
        }
        self.clients[client].paths[node].time = Some(told);
    }

    /// Checks a request for a server's time.
    pub(crate) fn asked_for_time(&mut self, conn: usize, verb: Verb) {
        let link = &mut self.conns[conn];
        link.times += u64::from(verb == Verb::Time);
        if link.times > 2 + (self.now - link.opened) / (SECOND * 49 / 50) {
            let text = format!("client {} asks {} for the time", link.peer, link.node);
            self.object("storm", text);
        }
    }

    /// Checks that clients report steps only of clocks that were set.
    pub(crate) fn false_steps(&mut self) {
        let frozen = self.frozen;
        let servers = &self.servers;
        let plan = &self.plan;
        let mut clients = self.clients.iter().enumerate();
        let seen = clients.find_map(|(number, client)| {
            let mut statuses = client.engine.node_statuses(client.shown).enumerate();
            let wrong = statuses.find(|(node, status)| {
                let server = &servers[plan.server_of(*node)];
                // A machine that stands still sees a step when it stops, and another when it runs again.
                server.jumps + 2 * frozen < status.clock_steps
            });
            wrong.map(|(node, _)| (number, node))
        });
        if let Some((client, node)) = seen {
            let text = format!("client {client} saw the clock of node {node} set, which was not");
            self.object("outcome", text);
        }
    }
}
