//! Silence: who does not answer is not asked, and in the end given up.
//!
//! A silence begins with the first turn that looks at its timers when something that was written is
//! unanswered and nothing was read; it ends with the next byte. All of it by the client's clock.
//!
//! * After `dead_after` the connection is given up, at the first turn at or after that.
//! * Before that no connection is given up whose greeting is done, unless its server is another
//!   node's too.
//! * After four node timeouts and 100 ms the node gets neither a `SET` nor an extension.
//!
//! # What it does not see
//!
//! A node that is suspect for want of room. The node timeout is the engine's to choose from the
//! round trips that it has seen; here the worst of them counts. What was asked for in the very turn
//! that looked at its timers first may have been asked for before the silence was noticed.

use std::time::Duration;

use shearline::Instant;

use super::{Deed, Verb};
use crate::clock::MILLI;
use crate::plan::Guard;
use crate::world::World;

/// The tick of the engine's timers.
const TICK: Duration = Duration::from_millis(1);

/// How long anybody may be silent.
const PATIENCE: Duration = Duration::from_millis(100);

impl World {
    /// A client has read all that there was and looks at its timers.
    pub(crate) fn listen(&mut self, client: usize) {
        let there = &self.clients[client];
        for conn in there.links.iter().flatten() {
            let written = &mut self.conns[*conn].written;
            if written.is_open() {
                written.silent_since.get_or_insert(there.shown);
            }
        }
    }

    /// Whether the other end of a connection has been silent for so long, by `then`, that it is
    /// not asked.
    pub(crate) fn is_beyond_patience(&self, client: usize, conn: usize, then: Instant) -> bool {
        let Some(since) = self.conns[conn].written.silent_since else {
            return false;
        };
        let timeouts = Duration::from_nanos(4 * self.longest_release(client));
        let patience = PATIENCE.max(timeouts) + TICK;
        since.saturating_add(patience) <= then
    }

    /// A client has done all that its turn brought; the time that it had was `ticked`.
    pub(crate) fn silence(&mut self, client: usize, ticked: Instant) {
        let dead_after = Duration::from_nanos(self.plan.dead_after * MILLI) + TICK;
        let mut silent = self.clients[client].links.iter().flatten().filter(|conn| {
            let since = self.conns[**conn].written.silent_since;
            since.is_some_and(|since| since.saturating_add(dead_after) <= ticked)
        });
        if let Some(conn) = silent.next() {
            let node = self.conns[*conn].node;
            let text = format!("client {client} keeps its connection to {node}, which is dead");
            self.object("silence", text);
        }
    }

    /// A client gives a connection up.
    pub(crate) fn gives_up(&mut self, client: usize, node: usize) {
        let there = &self.clients[client];
        // Greetings fail in many ways.
        let greeted = there.paths[node].ready_at < there.turn_began;
        let Some(conn) = there.links[node].filter(|_| greeted) else {
            return;
        };
        let server = self.plan.server_of(node);
        let twin =
            (0..self.plan.nodes).any(|other| other != node && self.plan.server_of(other) == server);
        let dead_after = Duration::from_nanos(self.plan.dead_after * MILLI);
        let heard = self.conns[conn].near.heard.unwrap_or(Instant::ZERO);
        // Under a guard who loads or follows another has to greet anew.
        let doubted = self.plan.guard != Guard::Off && self.servers[server].is_doubted();
        if !twin && !doubted && there.shown < heard.saturating_add(dead_after) {
            let text = format!("client {client} gives up its connection to {node}, which is well");
            self.object("silence", text);
        }
    }

    /// A server was asked for a vote that had been silent for too long.
    pub(super) fn asked_of_silent(&mut self, deed: &Deed<'_>) {
        let asked = matches!(deed.command.verb, Verb::Set | Verb::Extend | Verb::Confirm);
        if asked && deed.begun.to_silent {
            let text = format!(
                "client {} asks node {}, which is silent",
                deed.peer, deed.node
            );
            self.object("silence", text);
        }
    }
}
