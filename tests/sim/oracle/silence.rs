//! Silence: a node that does not answer is not asked, and given up in the end.
//!
//! A silence begins with the first turn that looks at its timers when something that was written is unanswered and
//! nothing was read; it ends with the next byte. All times are by the client's clock.
//!
//! * After `dead_after` the connection is given up, at the first turn at or after that.
//! * Before that no ready connection is given up, unless its server belongs to another node too, or none of the last 32
//!   answers has come within 240 ms.
//! * A connection is given up in the turn in which an invalid reply was read. The replies after it do not count as
//!   votes either.
//! * After four node timeouts and 100 ms the node gets neither a `SET` nor an extension.
//! * It gets both for 100 ms at least, if no release waits for it and there is room.
//!
//! # What it does not see
//!
//! A node that is suspect for lack of room. The engine chooses the node timeout by the round trips
//! that it has seen; here the worst of them counts. Commands of the very turn that looked at its
//! timers first may have been asked for before the silence was noticed.

use std::time::Duration;

use shearline::internals::all_open;
use shearline::internals::limits::{IN_FLIGHT_MAX, OUT_BYTES_MAX};
use shearline::{Instant, NodeState};

use super::{Deed, TICK, Verb};
use crate::clock::MILLI;
use crate::plan::Guard;
use crate::world::World;

/// How long a node may be silent.
const PATIENCE: Duration = Duration::from_millis(100);

impl World {
    /// Notes that a client has read everything and looks at its timers.
    pub(crate) fn listen(&mut self, client: usize) {
        let there = &self.clients[client];
        for conn in there.links.iter().flatten() {
            let written = &mut self.conns[*conn].written;
            if written.is_open() {
                written.silent_since.get_or_insert(there.shown);
            } else {
                written.idle_at = there.shown;
            }
        }
    }

    /// Returns `true` if the other end of a connection has been silent for so long, by `then`, that
    /// it is not asked.
    pub(crate) fn is_beyond_patience(&self, client: usize, conn: usize, then: Instant) -> bool {
        let Some(since) = self.conns[conn].written.silent_since else {
            return false;
        };
        let timeouts = Duration::from_nanos(4 * self.longest_release(client));
        let patience = PATIENCE.max(timeouts) + TICK;
        since.saturating_add(patience) <= then
    }

    /// Checks a client that has finished its turn, in which it had the time `ticked`.
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
        if let Some(node) = self.suspect_too_soon(client) {
            let text = format!("client {client} does not ask {node}, which answered just now");
            self.object("silence", text);
        }
    }

    /// Returns a node that is not asked because of its silence, although that has only begun.
    fn suspect_too_soon(&self, client: usize) -> Option<usize> {
        if crate::mutations::is_narrow() {
            return None; // The reason may be a lack of room.
        }
        let there = &self.clients[client];
        let mut statuses = there.engine.node_statuses(there.shown).enumerate();
        let has_room = all_open(&there.engine).unsent < OUT_BYTES_MAX / 2;
        let found = statuses.find(|(node, status)| {
            let roomy = has_room && status.debts == 0 && status.in_flight < IN_FLIGHT_MAX / 2;
            let suspect = status.state == NodeState::Suspect;
            let conn = there.links[*node].filter(|_| suspect && roomy);
            conn.is_some_and(|conn| {
                let link = &self.conns[conn];
                let last_read = link.near.last_read.unwrap_or(Instant::ZERO);
                let since = link.written.idle_at.max(last_read);
                there.shown < since.saturating_add(PATIENCE)
            })
        });
        found.map(|(node, _)| node)
    }

    /// Checks that a client may give up a connection.
    pub(crate) fn gives_up(&mut self, client: usize, node: usize) {
        let there = &self.clients[client];
        // Handshakes fail in many ways.
        let was_ready = there.paths[node].ready_at < there.turn_began;
        let Some(conn) = there.links[node].filter(|_| was_ready) else {
            return;
        };
        let server = self.plan.server_of(node);
        let twin =
            (0..self.plan.nodes).any(|other| other != node && self.plan.server_of(other) == server);
        let dead_after = Duration::from_nanos(self.plan.dead_after * MILLI);
        let last_read = self.conns[conn].near.last_read.unwrap_or(Instant::ZERO);
        // With a guard, a client has to connect again to a server that loads or follows another.
        let doubted = self.plan.guard != Guard::Off && self.servers[server].is_doubted();
        let garbage = self.conns[conn].has_read_garbage();
        let moved = there.paths[node].may_have_moved();
        if !twin
            && !doubted
            && !garbage
            && !moved
            && there.shown < last_read.saturating_add(dead_after)
        {
            let text = format!("client {client} gives up its connection to {node}, which is well");
            self.object("silence", text);
        }
    }

    /// Checks that no connection is kept after an invalid reply.
    pub(crate) fn keeps_no_garbage(&mut self, client: usize) {
        let mut conns = self.clients[client].links.iter().flatten();
        let invalid = conns.find(|conn| self.conns[**conn].has_read_all_garbage());
        if let Some(conn) = invalid {
            let node = self.conns[*conn].node;
            let text = format!("client {client} still reads node {node} after an invalid reply");
            self.object("silence", text);
        }
    }

    /// Checks that no server was asked for a vote that had been silent for too long.
    pub(super) fn asked_of_silent(&mut self, deed: &Deed<'_>) {
        let asked = matches!(
            deed.command.verb,
            Verb::Set | Verb::Extend | Verb::Beside | Verb::Keep | Verb::Confirm
        );
        if asked && deed.begun.to_silent {
            self.object_at(deed, "silence", "asks a silent node");
        }
    }
}
