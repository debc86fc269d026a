//! Clocks: a client that watches the clocks of servers detects that one was set, and only then.
//!
//! * *quarantine*: a client reads a time that a server with a regular clock could not have shown.
//!   If it has a guard, it then counts none of the server's votes for the longest ttl of all.
//! * *outcome*: no clock is reported to be stepped more often than it, or that of the client, was
//!   set.
//! * *storm*: a server is asked for its time at most once a second over one connection.
//!
//! # What it does not see
//!
//! Steps within what the round trips and the drift may explain.

use super::{Answer, Verb};
use crate::clock::{MILLI, SECOND, Time};
use crate::world::World;

/// An error that may always look like a step, and room for whole milliseconds.
const SLACK: Time = 15 * MILLI;

impl World {
    /// A client has read the clock of a server.
    pub(super) fn time_read(&mut self, client: usize, node: usize, answer: &Answer) {
        let (now, worst) = (self.now, self.clients[client].worst_trip());
        let path = &mut self.clients[client].paths[node];
        let before = path.time.replace((now, answer.jumped));
        let Some((then, jumped)) = before.filter(|_| !answer.said.is_error()) else {
            return;
        };
        let passed = now - then;
        if SLACK + 2 * worst + passed / 500 < answer.jumped - jumped {
            self.oracle.counts.sights.note("Stepped");
            self.oracle.quarantine.stepped(client, node, now);
        }
    }

    /// A server was asked for its time.
    pub(crate) fn asked_for_time(&mut self, conn: usize, verb: Verb) {
        let link = &mut self.conns[conn];
        link.times += u64::from(verb == Verb::Time);
        if link.times > 2 + (self.now - link.opened) / (SECOND * 49 / 50) {
            let text = format!("client {} asks {} for the time", link.peer, link.node);
            self.object("storm", text);
        }
    }

    /// A client reports a step only of a clock that was set.
    pub(crate) fn false_steps(&mut self) {
        let frozen = self.frozen;
        let servers = &self.servers;
        let plan = &self.plan;
        let seen = self
            .clients
            .iter()
            .enumerate()
            .find_map(|(number, client)| {
                let mut statuses = client.engine.node_statuses(client.shown).enumerate();
                let wrong = statuses.find(|(node, status)| {
                    let server = &servers[plan.server_of(*node)];
                    // A machine that stands still sees a step when it stops, and when it goes on.
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
