//! Queue: who waits for a lock is served in turn, soon, and without a storm.
//!
//! * **Order.** Of users of one client that wait for the same resource with more than one try, who came
//!   first gets it first, unless it has given up.
//! * **Wake.** No waiter sleeps longer than [`SLEEP_MAX`] while it could know that a majority is free:
//!   while so many nodes that answer its client have no key of the resource, all that time.
//! * **Storm.** In worlds in which all users wait, clients send no more than [`COMMANDS_MAX`] commands
//!   per client, node and lock.
//!
//! # What it does not see
//!
//! The order between clients: `starvation` bounds it. A waiter is excused while its process is stopped
//! and while any of these nodes answers late or errors; there a later majority begins a new time.

use crate::clock::{MILLI, NEVER, Time};
use crate::server::{Mood, Server};
use crate::user::{Call, Task, User};
use crate::world::World;

/// The longest delay after a belief that was wrong, the widest windows, and what a look takes.
const SLEEP_MAX: Time = 200 * MILLI;

/// From so many locks on their average cost is meaningful.
const ENOUGH_LOCKS: u64 = 100;

/// How many commands a lock may cost on each node: so many, and so many more for each client.
const COMMANDS_MAX: (u64, u64) = (10, 4);

/// What is known of those who wait.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// By client and resource: since when one that waits could have had it.
    free: Vec<Vec<Option<Time>>>,
}

impl Waiting {
    pub(super) fn new(clients: usize, resources: usize) -> Self {
        Self {
            free: vec![vec![None; resources]; clients],
        }
    }
}

impl World {
    /// A user has got its lock after a call with so many tries: no other has waited for longer.
    pub(crate) fn in_turn(&mut self, client: usize, user: usize, call: &Call, tries: Option<u32>) {
        self.waited(call);
        let resource = self.plan.resource_of(user);
        let users = self.clients[client].users.iter().enumerate();
        let mut wanted = users.filter(|(other, _)| self.plan.resource_of(*other) == resource);
        let passed = wanted.find(|(_, other)| is_before(other, call));
        if let Some((first, _)) = passed.filter(|_| tries != Some(1)) {
            let text = format!("client {client}: user {user} gets its lock before user {first}");
            self.object("queue", text);
        }
    }

    /// A call has waited until now.
    fn waited(&mut self, call: &Call) {
        let counts = &mut self.oracle.counts;
        counts.longest_wait = counts.longest_wait.max(self.now - call.since);
        let (locks, sent) = (counts.locks, counts.asked);
        let (base, more) = COMMANDS_MAX;
        let most = (base + more * self.plan.clients as u64) * self.plan.nodes as u64 * locks;
        if self.plan.patient && ENOUGH_LOCKS <= locks && most < sent {
            self.object("queue", format!("{sent} commands for {locks} locks"));
        }
    }

    /// A key has changed, or some time has passed: looks whether any waiter sleeps though its resource
    /// is free.
    pub(crate) fn asleep(&mut self, resource: usize) {
        if !self.plan.is_crowded() && !self.plan.patient {
            return; // There are faults of which waiters cannot know.
        }
        let free: Vec<_> = (0..self.plan.nodes)
            .map(|node| is_free(&self.servers[self.plan.server_of(node)], self, resource))
            .collect();
        for client in 0..self.clients.len() {
            let known = self.quorum_knows(client, &free) && self.has_waiter(client, resource);
            let since = &mut self.oracle.waiting.free[client][resource];
            let begun = *since.get_or_insert(self.now);
            if !known {
                *since = None;
            } else if begun + SLEEP_MAX < self.now {
                let text = format!("client {client} sleeps though resource {resource} is free");
                self.object("queue", text);
            }
        }
    }

    /// Returns `true` if a client has been connected to a majority of the nodes that are `free`.
    fn quorum_knows(&self, client: usize, free: &[bool]) -> bool {
        let there = &self.clients[client];
        let asleep_until = self.hosts[there.host].asleep_until.max(there.stopped_until);
        let knows = |node: &usize| {
            let link = there.links[*node].map(|conn| &self.conns[conn]);
            let reached = link.is_some_and(|link| !link.dark && !link.cut);
            let parted = self.partitions[client][*node].contains(&true);
            let ready = there.paths[*node].ready_at < NEVER;
            free[*node] && reached && !parted && ready
        };
        let known = (0..self.plan.nodes_of(client)).filter(knows).count();
        there.alive && asleep_until <= self.now && self.plan.quorum() <= known
    }

    fn has_waiter(&self, client: usize, resource: usize) -> bool {
        let mut users = self.clients[client].users.iter().enumerate();
        users.any(|(user, there)| self.plan.resource_of(user) == resource && is_waiting(there))
    }
}

/// Returns `true` if a server would grant `resource` now.
fn is_free(server: &Server, world: &World, resource: usize) -> bool {
    let answers = server.up && !server.stalled && !server.paused && server.mood == Mood::Fine;
    let shown = server.clock.show(world.now);
    answers && server.token_at(shown, &world.names[resource]).is_none()
}

fn is_waiting(user: &User) -> bool {
    matches!(user.task, Task::Acquiring { tries, .. } if tries != Some(1))
}

/// Returns `true` if a user has waited since before `call`.
fn is_before(user: &User, call: &Call) -> bool {
    let began = user.task.call().map(|other| other.number);
    is_waiting(user) && began.is_some_and(|number| number < call.number)
}
