//! Worlds in which users want several of few resources at once, named in any order, and others want one.
//!
//! The last resource of such a world has no name: it stands for all sets. The users of that resource draw the names for
//! each call. `oracle::sets` judges what nodes keep, and the other oracles judge a lock on several resources like a
//! lock on one: that no other user holds one of its names, that it has its votes, and that nothing is left of it.

use shearline::Lock;

use crate::case::Kind;
use crate::kinds::kind;
use crate::oracle::name_of;
use crate::plan::Plan;
use crate::reading::{busy, guarded};
use crate::user::Hold;
use crate::world::World;

/// The most names of a set.
const NAMES_MAX: usize = 4;

/// Sets of two to four of few names. In some worlds several users of one client want sets; these extend
/// nothing, because it is not known then which command is for which of them.
pub(crate) const SETS: Kind = kind("sets", |entropy| {
    let nodes = entropy.pick(&[3, 3, 5, 1]);
    let clients = 1 + entropy.below(4) as usize;
    let users = entropy.pick(&[1, 1, 2, 3]);
    let shortest_ttl = entropy.pick(&[100, 300, 1_000]);
    Plan {
        nodes,
        servers: nodes,
        hosts: 1 + entropy.below(clients as u32) as usize,
        strangers: entropy.pick(&[0, 0, 1]),
        resources: 2 + entropy.below(4) as usize + 1,
        sets: 1,
        users,
        ..busy(entropy, clients, users, shortest_ttl, false)
    }
});

/// Worlds like [`SETS`] in which locks have a delay, or servers forget and clients know that, or the servers say so; in
/// every fourth world none of these. Engines keep locks, also such that are held already or were handed over.
pub(crate) const GUARDED_SETS: Kind = kind("guarded-sets", |entropy| {
    let plan = (SETS.draw)(entropy);
    guarded(entropy, plan).forgetting(entropy)
});

impl World {
    /// Draws the resources that a user wants, and their order.
    pub(crate) fn draw_set(&mut self, client: usize, user: usize) {
        if !self.plan.wants_sets(user) {
            return;
        }
        let mut left: Vec<usize> = (0..self.plan.names()).collect();
        let most = NAMES_MAX.min(left.len()) as u32;
        let count = 2 + self.entropy.below(most - 1) as usize;
        let draw = |_| left.swap_remove(self.entropy.below(left.len() as u32) as usize);
        self.clients[client].users[user].set = (0..count).map(draw).collect();
    }

    /// Notes that a lock was handed to a user, which then wants the names of the lock.
    pub(crate) fn inherits_set(&mut self, client: usize, user: usize, lock: &Lock) {
        if self.plan.wants_sets(user) {
            self.clients[client].users[user].set = lock.resources().map(name_of).collect();
        }
    }

    /// Returns the resources that a user wants, or has.
    pub(crate) fn names_of(&self, client: usize, user: usize) -> Vec<usize> {
        match &self.clients[client].users[user].set[..] {
            [] => vec![self.plan.resource_of(user)],
            set => set.to_vec(),
        }
    }

    /// Returns `true` if a lock has the names that its user asked for, in this order.
    pub(crate) fn is_asked_for(&self, client: usize, user: usize, lock: &Lock) -> bool {
        let names = self.names_of(client, user).into_iter();
        lock.resources().eq(names.map(|name| &self.names[name][..]))
    }

    /// Notes that a user no longer believes that it holds its resources.
    pub(crate) fn end_beliefs(&mut self, client: usize, user: usize) {
        for resource in self.names_of(client, user) {
            self.end_belief(client, resource, user);
        }
    }

    /// Lets each user of several resources take them, and each user of a resource that may have several holders, after
    /// all faults have ended.
    pub(crate) fn let_take_sets(&mut self) {
        for (number, client) in self.clients.iter_mut().enumerate() {
            let takes = client.alive && !self.plan.is_outsider(number);
            for (user, there) in client.users.iter_mut().enumerate() {
                there.takes |= takes && self.plan.is_taken_by_all(user);
            }
        }
    }

    /// Returns a client and its user that still has to take its resources.
    pub(crate) fn still_wants(&self) -> Option<(usize, usize)> {
        let clients = self.clients.iter().enumerate();
        let mut users = clients.flat_map(|(client, there)| {
            let users = there.users.iter().enumerate();
            users.map(move |(user, there)| (client, user, there.takes))
        });
        let (client, user, _) =
            users.find(|(_, user, takes)| *takes && self.plan.is_taken_by_all(*user))?;
        Some((client, user))
    }

    /// Checks that no two users of one client hold the same resource.
    pub(crate) fn apart(&mut self, client: usize, user: usize, hold: &Hold) {
        if self.plan.sets == 0 {
            return;
        }
        let names = self.names_of(client, user);
        let (shown, kind) = (self.shown(client), self.kind_of(&hold.lock));
        let holds = |other: &usize| {
            let held = self.clients[client].users[*other].task.hold();
            let valid = held.is_some_and(|held| {
                !held.told
                    && held.lock.is_valid_at(shown)
                    && held.lock.token() != hold.lock.token()
                    && !self.kind_of(&held.lock).bears(kind)
            });
            let mut theirs = self.names_of(client, *other).into_iter();
            valid
                && theirs
                    .any(|name| names.contains(&name) && !self.oracle.is_excused(self.now, name))
        };
        let other = (0..self.clients[client].users.len()).find(holds);
        if let Some(other) = other.filter(|other| *other != user) {
            let text = format!("users {user} and {other} of client {client} hold one resource");
            self.object("exclusion", text);
        }
    }
}
