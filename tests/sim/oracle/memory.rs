//! Memory: what an engine has open is within its limits and in proportion to what it was asked for.
//!
//! * As many rounds as calls are open: none is forgotten, none outlives its caller.
//! * As many claims as locks are held and attempts are open; any other has a release in flight or
//!   owed somewhere.
//! * No more releases are owed to a node than there are claims, and no more bytes wait than the
//!   commands in flight have.
//! * No more commands are in flight to one node than there may be, and what waits for it fits its
//!   buffer. The latter is seen when its kernel has room again; until then only what waits for all
//!   nodes is known.
//!
//! # What it does not see
//!
//! The bytes of the heap. Whether half of the room is kept for releases: only when all of it is
//! taken, and more, somebody objects.

use shearline::engine::Load;
use shearline::limits::{
    CLAIMS_MAX, COMMAND_BYTES_MAX, DEBTS_MAX, GREETING_BYTES_MAX, IN_FLIGHT_MAX, OUT_BYTES_MAX,
    ROUNDS_MAX,
};

use crate::user::Task;
use crate::world::World;

/// Calls and locks that users have open.
#[derive(Default)]
struct Open {
    calls: usize,
    /// Locks that are held, and attempts to take one.
    tokens: usize,
}

impl World {
    /// A client has done all that its turn brought.
    pub(crate) fn memory(&mut self, client: usize) {
        let load = self.clients[client].engine.load();
        let mut open = Open::default();
        open.calls += usize::from(self.clients[client].reinit.is_some());
        for user in &self.clients[client].users {
            open.add(&user.task);
            open.calls += user.let_go.len();
        }
        let nodes = self.plan.nodes;
        let what = too_much(&load, &open, nodes).or(beyond_limits(&load, nodes));
        if let Some(what) = what.or_else(|| self.too_many_in_flight(client, &load)) {
            let text = format!("client {client} has {what}: {load:?}");
            self.object("memory", text);
        }
    }

    fn too_many_in_flight(&self, client: usize, load: &Load) -> Option<&'static str> {
        if load.in_flight <= IN_FLIGHT_MAX {
            return None; // Then there are no more to any node.
        }
        let mut statuses = self.clients[client]
            .engine
            .node_statuses(self.clients[client].shown);
        let beyond = statuses.any(|status| status.in_flight > IN_FLIGHT_MAX);
        beyond.then_some("more in flight to one node than it may have")
    }

    /// A client has so many bytes for one node that no kernel has taken.
    pub(crate) fn offered_within_bounds(&mut self, client: usize, len: usize) {
        if len > OUT_BYTES_MAX {
            let text = format!("client {client} keeps {len} bytes for one node");
            self.object("memory", text);
        }
    }
}

impl Open {
    fn add(&mut self, task: &Task) {
        let (calls, tokens) = match task {
            Task::Idle => (0, 0),
            Task::Acquiring { .. } | Task::Extending { .. } => (1, 1),
            Task::Holding(_) => (0, 1),
            Task::Releasing { .. } => (1, 0),
        };
        let asks = task.hold().is_some_and(|hold| hold.confirming.is_some());
        self.calls += calls + usize::from(asks);
        self.tokens += tokens;
    }
}

fn too_much(load: &Load, open: &Open, nodes: usize) -> Option<&'static str> {
    let bytes = load.in_flight * COMMAND_BYTES_MAX + nodes * GREETING_BYTES_MAX;
    if load.rounds != open.calls {
        Some("more rounds than calls, or fewer")
    } else if load.claims > open.tokens + load.in_flight + load.owed {
        Some("claims of nothing")
    } else if load.owed > load.claims * nodes {
        Some("debts of nothing")
    } else if load.unsent > bytes {
        Some("bytes of nothing")
    } else {
        None
    }
}

fn beyond_limits(load: &Load, nodes: usize) -> Option<&'static str> {
    let within = load.rounds <= ROUNDS_MAX
        && load.claims <= CLAIMS_MAX
        && load.in_flight <= IN_FLIGHT_MAX * nodes
        && load.owed <= DEBTS_MAX * nodes
        && load.unsent <= OUT_BYTES_MAX * nodes;
    (!within).then_some("more than its limits allow")
}
