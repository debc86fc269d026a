//! Memory: the operations that an engine has open are within its limits and in proportion to its calls.
//!
//! * An engine has as many rounds as calls: none is forgotten, and none outlives its caller. There is one more for each
//!   lock that the engine keeps, and one more if nodes may have to be repaired for fencing tokens.
//! * There are as many claims as held locks and open attempts; any other claim has a release in flight or still to be
//!   sent to some node.
//! * No more releases wait for a node than there are claims, and no more bytes wait than the commands in flight have.
//! * No more commands are in flight to one node than allowed, plus those of operators, and the bytes that wait for it
//!   fit its buffer. The number of these bytes is known when its kernel has room again; until then only the bytes for
//!   all nodes together are known.
//! * A call for a lock begins if there is room for it, and is refused for lack of room only if
//!   there is none.
//!
//! # What it does not see
//!
//! The bytes of the heap. Whether half of the room is kept for releases: an oracle objects only
//! when more than all of it is taken.

use shearline::internals::limits::{self, COMMAND_BYTES_MAX, HANDSHAKE_BYTES_MAX};
use shearline::internals::{Load, all_open};
use shearline::{ExtendError, LockError};

use crate::mutations::is_narrow;
use crate::user::Task;
use crate::world::World;

/// The bounds of an engine.
struct Bounds {
    rounds: usize,
    claims: usize,
    in_flight: usize,
    out_bytes: usize,
}

/// The number of commands of a handshake, which are sent without asking for room.
const GREETING: usize = 13;

impl Bounds {
    fn get() -> Self {
        if is_narrow() {
            // The same numbers as in tests/breakages/BoundIgnored.patch.
            Self {
                rounds: 6,
                claims: 10,
                in_flight: 12 + GREETING,
                out_bytes: (16 << 10) + HANDSHAKE_BYTES_MAX,
            }
        } else {
            Self {
                rounds: limits::ROUNDS_MAX,
                claims: limits::CLAIMS_MAX,
                in_flight: limits::IN_FLIGHT_MAX,
                out_bytes: limits::OUT_BYTES_MAX,
            }
        }
    }

    /// Returns `true` if there is no room for another call for a lock.
    fn is_full(&self, load: &Load) -> bool {
        self.rounds <= load.rounds || self.claims <= load.claims
    }
}

/// Calls and locks that users have open.
#[derive(Default)]
struct Open {
    calls: usize,
    /// Locks that are held, and attempts to take one.
    tokens: usize,
    /// Locks that the engine keeps: each may have an extension open.
    kept: usize,
}

impl World {
    /// Checks a client that has finished its turn.
    pub(crate) fn memory(&mut self, client: usize) {
        let load = all_open(&self.clients[client].engine);
        let mut open = Open::default();
        open.calls += usize::from(self.clients[client].reinit.is_some());
        open.calls += self.clients[client].floors;
        open.calls += usize::from(self.clients[client].inspecting.is_some());
        let watching = self.clients[client].watching.as_ref();
        open.calls += usize::from(watching.is_some_and(|watching| watching.round.is_some()));
        for user in &self.clients[client].users {
            open.add(&user.task);
            open.calls += user.let_go.len();
        }
        open.kept += usize::from(self.plan.fenced != 0); // The engine may look at floors.
        let nodes = self.plan.nodes;
        let operators = (0..nodes).map(|node| self.asked_by_operators(client, node));
        let what = too_much(&load, &open, nodes).or(beyond_limits(&load, nodes, operators.sum()));
        self.is_full(client);
        if let Some(what) = what.or_else(|| self.too_many_in_flight(client, &load)) {
            let text = format!("client {client} has {what}: {load:?}");
            self.object("memory", text);
        }
    }

    fn too_many_in_flight(&self, client: usize, load: &Load) -> Option<&'static str> {
        let Bounds { in_flight, .. } = Bounds::get();
        if load.in_flight <= in_flight {
            return None; // Then there are no more commands to any node.
        }
        let there = &self.clients[client];
        let mut statuses = there.engine.node_statuses(there.shown).enumerate();
        let beyond = statuses.any(|(node, status)| {
            in_flight + self.asked_by_operators(client, node) < status.in_flight
        });
        beyond.then_some("more in flight to one node than it may have")
    }

    /// Returns the most commands that operators can have caused on the current connection: these are sent without
    /// asking for room.
    fn asked_by_operators(&self, client: usize, node: usize) -> usize {
        let conn = self.clients[client].links[node];
        conn.map_or(0, |conn| self.conns[conn].asked_to_join as usize)
    }

    /// Records whether a client has no room for another request to some node.
    fn is_full(&mut self, client: usize) {
        let there = &self.clients[client];
        let half = (Bounds::get().in_flight - GREETING) / 2;
        let mut statuses = there.engine.node_statuses(there.shown);
        let full = is_narrow() && statuses.any(|node| half <= node.in_flight);
        self.oracle.counts.sights.note_if(full, "Full");
    }

    /// Checks a call for a lock that was begun. `before` is what was open then.
    pub(crate) fn check_room(&mut self, client: usize, before: Load) {
        self.object_if(Bounds::get().is_full(&before), "memory", || {
            format!("client {client} begins a call without room: {before:?}")
        });
    }

    /// Checks a call that was refused for lack of room, for which nothing was sent. `before` is what was open then.
    pub(crate) fn check_saturated(&mut self, client: usize, before: Load) {
        self.oracle.counts.sights.note("Saturated");
        let full = Bounds::get().is_full(&before);
        if !full || all_open(&self.clients[client].engine) != before {
            let text = format!("client {client} is refused for want of room: {before:?}");
            self.object("memory", text);
        }
    }

    /// Returns `true` if a call for a lock, or about one, was refused for lack of room.
    pub(crate) fn is_saturated(error: &LockError) -> bool {
        is_narrow() && matches!(error, LockError::Saturated)
    }

    pub(crate) fn is_unasked(error: &ExtendError) -> bool {
        is_narrow() && matches!(error, ExtendError::Saturated)
    }

    /// Checks the number of bytes that a client has for one node and that no kernel has taken.
    pub(crate) fn offered_within_bounds(&mut self, client: usize, len: usize) {
        self.object_if(len > Bounds::get().out_bytes, "memory", || {
            format!("client {client} keeps {len} bytes for one node")
        });
    }
}

impl Open {
    fn add(&mut self, task: &Task) {
        let kept = task.hold().is_some_and(|hold| hold.keep.is_some());
        self.kept += usize::from(kept);
        self.calls += task.calls().count();
        self.tokens += usize::from(!matches!(task, Task::Idle | Task::Releasing { .. }));
    }
}

fn too_much(load: &Load, open: &Open, nodes: usize) -> Option<&'static str> {
    let bytes = load.in_flight * COMMAND_BYTES_MAX + nodes * HANDSHAKE_BYTES_MAX;
    if load.rounds < open.calls || open.calls + open.kept < load.rounds {
        Some("more rounds than calls, or fewer")
    } else if load.claims > open.tokens + load.in_flight + load.debts {
        Some("claims of nothing")
    } else if load.debts > load.claims * nodes {
        Some("debts of nothing")
    } else if load.unsent > bytes {
        Some("bytes of nothing")
    } else {
        None
    }
}

fn beyond_limits(load: &Load, nodes: usize, operators: usize) -> Option<&'static str> {
    let bounds = Bounds::get();
    // Locks that are handed to an engine are adopted without asking for room.
    let claims = load.claims <= bounds.claims || is_narrow();
    // No release is ever refused.
    let releases = if is_narrow() { load.claims } else { 0 };
    // Questions of holders have an equal room of their own.
    let within = load.rounds <= 2 * bounds.rounds + releases
        && claims
        && load.in_flight <= bounds.in_flight * nodes + operators
        && load.debts <= load.claims.max(bounds.claims) * nodes
        && load.unsent <= bounds.out_bytes * nodes;
    (!within).then_some("more than its limits allow")
}
