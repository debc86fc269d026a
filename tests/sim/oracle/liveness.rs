//! Liveness: after the faults, everything ends well.
//!
//! A majority of the servers is healed, in some worlds all of them. From then on everything that was begun ends within
//! [`Plan::patience`](crate::plan::Plan::patience), and no live server lacks a release. For each resource a client gets
//! the lock within [`Plan::lock_within`](crate::plan::Plan::lock_within). If users want several resources at once, each
//! of them gets its lock in that time, whatever the order of their names. Where servers carry markers, all connected
//! servers vote again after that time.
//!
//! # What it does not see
//!
//! Calls while faults last: they may always fail. Releases for a server that never comes back are never sent.

use shearline::internals::all_open;
use shearline::{NodeState, NodeStatus};

use crate::client::Client;
use crate::plan::Guard;
use crate::user::Task;
use crate::world::World;

impl World {
    /// Lets one client take each resource, after all faults have ended.
    pub(crate) fn let_take(&mut self) {
        for resource in 0..self.plan.resources {
            let drawn = self.entropy.below(self.plan.clients as u32) as usize;
            let can = self.clients[drawn].alive && !self.plan.is_outsider(drawn);
            let taker = if can { drawn } else { 0 };
            self.clients[taker].users[resource].takes = true;
        }
        self.let_take_sets();
    }

    /// Notes that a client has got a lock.
    pub(crate) fn took(&mut self, client: usize, user: usize) {
        if self.calm {
            self.oracle.taken[self.plan.resource_of(user)] = true;
            self.clients[client].users[user].takes = false;
        }
    }

    /// Checks that every lock was taken in time.
    pub(crate) fn check_taken(&mut self) {
        if self.taken_by <= self.now
            && let Some(resource) = self.oracle.taken.iter().position(|taken| !taken)
        {
            self.object("liveness", format!("no client gets resource {resource}"));
        }
        if self.taken_by <= self.now
            && let Some((client, user)) = self.still_wants()
        {
            let set = &self.clients[client].users[user].set;
            let resource = self.plan.resource_of(user);
            let text = format!("user {user} of client {client} does not get {resource}, {set:?}");
            self.object("liveness", text);
        }
    }

    /// Returns `true` if everything that was begun is over and every lock was taken.
    pub(crate) fn is_settled(&self) -> bool {
        let taken = self.oracle.taken.iter().all(|taken| *taken) && self.still_wants().is_none();
        let strangers = self.strangers.iter().all(|stranger| stranger.is_resting());
        taken && strangers && self.clients.iter().all(|client| self.has_settled(client))
    }

    fn has_settled(&self, client: &Client) -> bool {
        let mut users = client.users.iter();
        let idle = users.all(|user| matches!(user.task, Task::Idle));
        let load = all_open(&client.engine);
        let statuses = client.engine.node_statuses(client.shown).enumerate();
        let owes = |(node, status): (usize, NodeStatus)| {
            let lost = self.servers[self.plan.server_of(node)].lost;
            (status.debts > 0 || status.in_flight > 0) && !lost
        };
        let lost = self.plan.losses > 0;
        let done = load.debts == 0 && load.claims == 0 || lost && !statuses.into_iter().any(owes);
        let watching = client.watching.as_ref();
        let watches = watching.is_some_and(|watching| watching.round.is_some());
        idle && load.rounds == usize::from(watches) && client.handed.is_empty() && done
    }

    /// Checks that connected clients let every server vote again. A server whose clock was set right is excepted if a
    /// client has not asked it since: by the server's earlier clock, a barrier of that time ends much later.
    pub(crate) fn check_voting(&mut self) {
        if self.plan.guard != Guard::Strict {
            return;
        }
        let mut clients = self.clients.iter().enumerate();
        let barred = clients.find_map(|(number, client)| {
            let shown = self.clock_of(number).show(self.now);
            let mut nodes = client.engine.node_statuses(shown).enumerate();
            let (node, _) = nodes.find(|(node, status)| {
                let barred = matches!(status.state, NodeState::Quarantined { .. });
                barred && !self.servers[self.plan.server_of(*node)].was_behind
            })?;
            client.alive.then_some((number, node))
        });
        if let Some((client, node)) = barred {
            let text = format!("node {node} does not vote for client {client} when all is over");
            self.object("liveness", text);
        }
    }

    /// Checks that everything that was begun is over now.
    pub(crate) fn check_settled(&mut self) {
        if !self.is_settled() {
            let loads = self.clients.iter().map(|client| all_open(&client.engine));
            let loads: Vec<_> = loads.collect();
            self.object("liveness", format!("not settled: {loads:?}"));
        }
    }
}
