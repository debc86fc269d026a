//! Queue: waiters for a lock are served in turn, soon, and without a storm.
//!
//! * **Order.** Of users of one client that wait for the same resource with more than one try, the one that
//!   came first gets it first, unless it has given up; also if either wants other resources besides.
//! * **Overtaking.** If all have time, nobody reads, and nothing else disturbs them, other clients get the lock at most
//!   [`OVERTAKEN_MAX`] times each, on average, while one waits for it.
//! * **Wake.** No waiter sleeps longer than [`SLEEP_MAX`] while it could know that a majority is free: that is, while a
//!   majority of nodes that answer its client have had no key of the resource all that time. If a user of the client
//!   gets a lock or a permit, a new period begins: the others wait for their turns.
//! * **Storm.** In worlds in which all users wait, clients send no more than [`COMMANDS_MAX`] commands
//!   per client, node and lock.
//!
//! # What it does not see
//!
//! How long names are free for sets. The order between clients, except for that bound; `starvation` has another bound
//! for worlds with faults. A waiter is excused while its process is stopped, while another user of its client has the
//! lock as far as it knows, and while any of these nodes answers late or errors; then a later majority begins a new
//! period.

use shearline::internals::Store;

use crate::clock::{MILLI, NEVER, Time};
use crate::server::{Mood, Server};
use crate::user::{Call, Hold, Task, User};
use crate::world::World;

/// The sum of the longest delay after a wrong belief, the widest windows, and the time for a look.
const SLEEP_MAX: Time = 200 * MILLI;

/// How often each of the other clients may get a lock while one waits for it. It was 140 times at most in hundreds of
/// histories: a client keeps a lock for 16 of its users, and chance may favour it again.
const OVERTAKEN_MAX: u32 = 350;

/// From this number of locks on, their average cost is meaningful.
const ENOUGH_LOCKS: u64 = 100;

/// How many commands a lock may cost on each node: a fixed number, and a number for each client.
const COMMANDS_MAX: (u64, u64) = (10, 8);

/// What is known of the waiters.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// For each client and resource, since when a waiter could have had the lock.
    free: Vec<Vec<Option<Time>>>,
    /// For each client and resource, how often others have got the lock while one waits.
    overtaken: Vec<Vec<u32>>,
}

impl Waiting {
    pub(super) fn new(clients: usize, resources: usize) -> Self {
        Self {
            free: vec![vec![None; resources]; clients],
            overtaken: vec![vec![0; resources]; clients],
        }
    }
}

impl World {
    /// Checks, when a user has got its lock, that no other user has waited for longer.
    pub(crate) fn in_turn(&mut self, client: usize, user: usize, call: &Call) {
        self.waited(call);
        self.oracle.waiting.free[client][self.plan.resource_of(user)] = None;
        if self.plan.permits.0 != 0 {
            return; // Callers with different numbers of permits do not wait for each other.
        }
        let names = self.names_of(client, user);
        let wants = |other: usize| {
            let mut theirs = self.names_of(client, other).into_iter();
            theirs.any(|name| names.contains(&name))
        };
        let mut users = self.clients[client].users.iter().enumerate();
        // Readers do not wait for other readers.
        let passed = users
            .find(|(other, there)| is_before(there, call) && !there.asks_beside() && wants(*other));
        let passed = passed.filter(|_| !self.clients[client].users[user].asks_beside());
        if let Some((first, _)) = passed.filter(|_| call.limits.tries != Some(1)) {
            let text = format!("client {client}: user {user} gets its lock before user {first}");
            self.object("queue", text);
        }
    }

    /// Notes that a call has waited until now.
    fn waited(&mut self, call: &Call) {
        let counts = &mut self.oracle.counts;
        counts.longest_wait = counts.longest_wait.max(self.now - call.since);
        let (locks, sent) = (counts.locks, counts.asked);
        let (base, more) = COMMANDS_MAX;
        let most = (base + more * self.plan.clients as u64) * self.plan.nodes as u64 * locks;
        if self.plan.patient && ENOUGH_LOCKS <= locks && most < sent {
            let text = format!("{sent} commands for {locks} locks");
            self.object("queue", text);
        }
    }

    /// Notes that a client has got a lock: all others that wait for it are overtaken.
    pub(crate) fn overtakes(&mut self, winner: usize, resource: usize) {
        if !self.plan.patient || !self.plan.is_undisturbed() {
            return; // A user with little time left does not leave the lock to others.
        }
        if self.plan.shared != 0 {
            return; // Readers have it together, and pass a waiting writer for a while: `starvation` has a bound.
        }
        // Each permit goes from hand to hand as a lock does.
        let permits = u32::from(self.plan.permits.1.max(1));
        let most = OVERTAKEN_MAX * permits * (self.plan.clients as u32 - 1);
        let all = vec![true; self.plan.nodes];
        for client in 0..self.clients.len() {
            let waits = self.has_waiter(client, resource) && self.quorum_knows(client, &all);
            let times = &mut self.oracle.waiting.overtaken[client][resource];
            *times = match client != winner && waits {
                true => *times + 1,
                false => 0,
            };
            let times = *times;
            let counts = &mut self.oracle.counts;
            counts.overtaken = counts.overtaken.max(times);
            self.object_if(most < times, "queue", || {
                format!("client {client} waits while others get {times} locks")
            });
        }
    }

    /// Checks, after a key has changed or some time has passed, that no waiter sleeps while its resource is free.
    pub(crate) fn asleep(&mut self, resource: usize) {
        let faults = self.plan.has_several_holders() && !self.plan.is_undisturbed();
        if !self.plan.is_crowded() && !self.plan.patient || self.plan.sets != 0 || faults {
            return; // There are faults, or turns of sets, of which waiters cannot know.
        }
        let server = |node| &self.servers[self.plan.server_of(node)];
        let free = (0..self.plan.nodes).map(|node| is_free(server(node), self, resource));
        let free: Vec<_> = free.collect();
        for client in 0..self.clients.len() {
            let known = !self.is_any_intent_left(resource)
                && self.quorum_knows(client, &free)
                && self.has_waiter(client, resource)
                && (self.plan.permits.0 != 0 || !self.has_holder(client, resource));
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

    /// Returns `true` if a caller of the exclusive lock keeps readers out on some node, perhaps without need.
    fn is_any_intent_left(&self, resource: usize) -> bool {
        let key = [b"shearline:intent:", &self.names[resource][..]].concat();
        let left = |server: &Server| server.token_at(server.clock.show(self.now), &key).is_some();
        self.plan.has_several_holders() && self.servers.iter().any(left)
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
        self.users_of(client, resource).any(is_waiting)
    }

    /// Returns `true` if a user of the client holds the lock, as far as it knows: no other user of that client asks for
    /// it then.
    fn has_holder(&self, client: usize, resource: usize) -> bool {
        let shown = self.clients[client].shown;
        let is_valid = |hold: &Hold| hold.lock.is_valid_at(shown);
        let holds = |user: &User| user.task.hold().is_some_and(is_valid);
        self.users_of(client, resource).any(holds)
    }

    fn users_of(&self, client: usize, resource: usize) -> impl Iterator<Item = &User> {
        let users = self.clients[client].users.iter().enumerate();
        users
            .filter(move |(user, _)| self.plan.resource_of(*user) == resource)
            .map(|(_, user)| user)
    }
}

/// Returns `true` if a server would grant `resource` now.
fn is_free(server: &Server, world: &World, resource: usize) -> bool {
    let answers = server.up && !server.stalled && !server.paused && server.mood == Mood::Fine;
    let shown = server.clock.show(world.now);
    let held = server.members_at(shown, &world.names[resource]);
    let (rate, permits) = world.plan.permits;
    // In these worlds all users want permits.
    let has_room = rate == 1_000_000 && held.len() < usize::from(permits);
    answers && (held.is_empty() || has_room)
}

fn is_waiting(user: &User) -> bool {
    matches!(user.task, Task::Acquiring { call, .. } if call.limits.tries != Some(1))
}

/// Returns `true` if a user has waited since before `call`.
fn is_before(user: &User, call: &Call) -> bool {
    let began = user.task.call().map(|other| other.number);
    is_waiting(user) && began.is_some_and(|number| number < call.number)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use shearline::engine::Request;
    use shearline::{Instant, LockOptions};

    use super::*;
    use crate::clock::SECOND;
    use crate::entropy::{Entropy, Tape};
    use crate::kinds::contended;
    use crate::oracle::Limits;
    use crate::plan::Plan;

    const TTL: u64 = 1_000;

    /// Makes two clients with three users each, in a world in which nothing happens by itself.
    fn world() -> World {
        let draw = |_: &mut Entropy| Plan {
            patient: true,
            ..contended(2, 3)
        };
        World::new(draw, Entropy::of_tape(Tape::default(), None), false)
    }

    /// Makes a call with this number and so many tries.
    fn call(world: &mut World, number: u64, tries: Option<u32>) -> Call {
        let options = LockOptions::new(Duration::from_millis(TTL));
        let request = Request::new(b"resource0", &options);
        let shown = Instant::from_millis(1_000);
        let engine = &mut world.clients[0].engine;
        Call {
            ends: Instant::MAX,
            round: engine.acquire(shown, &request).expect("there is room"),
            since: 0,
            begun: shown,
            ttl: TTL,
            number,
            limits: Limits {
                tries,
                deadline: None,
            },
        }
    }

    /// Lets a user of the first client wait.
    fn waits(world: &mut World, user: usize, number: u64, tries: Option<u32>) {
        let call = call(world, number, tries);
        world.clients[0].users[user].task = Task::Acquiring {
            call,
            keep: None,
            passed_over: 0,
            stopped: 0,
        };
    }

    fn objects(world: &World) -> bool {
        let violation = world.oracle.violation.as_ref();
        violation.is_some_and(|violation| violation.oracle == "queue")
    }

    /// Returns `true` if the oracle objects when user 2 gets its lock by call `number`, while user 1 has waited since
    /// call 1. Either has so many tries, and wants these names if they are several.
    fn is_passed_over(
        number: u64,
        tries: Option<u32>,
        other_tries: Option<u32>,
        sets: [&[usize]; 2],
    ) -> bool {
        let mut world = world();
        waits(&mut world, 1, 1, other_tries);
        for (user, set) in (1..).zip(sets) {
            world.clients[0].users[user].set = set.to_vec();
        }
        let call = call(&mut world, number, tries);
        world.in_turn(0, 2, &call);
        objects(&world)
    }

    #[test]
    fn who_came_first_gets_it_first() {
        let is_passed_over = |number, tries, other| is_passed_over(number, tries, other, [&[]; 2]);
        assert!(is_passed_over(2, None, None));
        assert!(is_passed_over(2, Some(6), None));
        assert!(!is_passed_over(2, Some(1), None), "it asks once");
        assert!(!is_passed_over(2, None, Some(1)), "the other asks once");
        assert!(!is_passed_over(0, None, None), "it came first");
    }

    #[test]
    fn a_set_that_came_first_gets_its_names_first() {
        let is_passed_over = |sets| is_passed_over(2, None, None, sets);
        assert!(is_passed_over([&[0, 1], &[]]));
        assert!(is_passed_over([&[1, 2], &[2, 3]]));
        assert!(!is_passed_over([&[1, 2], &[]]));
        assert!(!is_passed_over([&[1, 2], &[0, 3]]));
    }

    /// Connects the first client to this many nodes.
    fn connects(world: &mut World, nodes: usize) {
        for node in 0..nodes {
            let process = world.clients[0].process;
            let conn = world.open(0, process, node);
            world.clients[0].links[node] = Some(conn);
            world.clients[0].paths[node].ready_at = 0;
        }
    }

    /// Returns `true` if the oracle objects to a waiter that is connected to all nodes, which were checked from time to
    /// time until `now`, while `taken` of them were taken.
    fn sleeps(world: &mut World, taken: usize, now: Time) -> bool {
        waits(world, 0, 1, None);
        connects(world, 3);
        world.asleep(0);
        world.now = SLEEP_MAX / 2;
        for server in 0..taken {
            let there = &mut world.servers[server];
            let shown = there.clock.show(world.now);
            let words: &[&[u8]] = &[b"SET", b"resource0", b"token", b"PX", b"100"];
            let mut session = Store::session();
            there
                .store
                .execute(&mut session, shown, words, &mut Vec::new());
        }
        world.asleep(0);
        world.now = now;
        world.asleep(0);
        objects(world)
    }

    /// Returns `true` if the oracle objects when each of these clients in turn gets the lock so many times, while one
    /// waits that is connected to `nodes` of three.
    fn overtaken(nodes: usize, times: u32, winners: &[usize]) -> bool {
        let mut world = world();
        waits(&mut world, 0, 1, None);
        connects(&mut world, nodes);
        for winner in winners {
            (0..times).for_each(|_| world.overtakes(*winner, 0));
        }
        objects(&world)
    }

    #[test]
    fn no_client_is_overtaken_again_and_again() {
        assert!(!overtaken(3, OVERTAKEN_MAX, &[1]));
        assert!(overtaken(3, OVERTAKEN_MAX + 1, &[1]));
        assert!(overtaken(2, OVERTAKEN_MAX + 1, &[1]));
        assert!(!overtaken(1, OVERTAKEN_MAX + 1, &[1]), "it cannot know");
        assert!(!overtaken(3, OVERTAKEN_MAX, &[1, 0, 1]), "it got its lock");
    }

    #[test]
    fn no_waiter_sleeps_while_a_majority_is_free() {
        assert!(!sleeps(&mut world(), 0, SLEEP_MAX));
        assert!(sleeps(&mut world(), 0, SLEEP_MAX + 1));
        assert!(sleeps(&mut world(), 1, SLEEP_MAX + 1));
        assert!(!sleeps(&mut world(), 2, SLEEP_MAX + 1));
    }

    /// Another user of its client has had its turn meanwhile.
    #[test]
    fn a_waiter_does_not_sleep_while_others_of_its_client_get_their_locks() {
        for served in [false, true] {
            let mut world = world();
            assert!(!sleeps(&mut world, 0, SLEEP_MAX));
            if served {
                let call = call(&mut world, 0, None);
                world.in_turn(0, 1, &call);
            }
            for after in [SLEEP_MAX + 1, 2 * SLEEP_MAX + 1] {
                world.now = after;
                world.asleep(0);
                assert_eq!(objects(&world), !served);
            }
            world.now = 2 * SLEEP_MAX + 2;
            world.asleep(0);
            assert!(objects(&world), "it waits as long again");
        }
    }

    #[test]
    fn a_waiter_that_cannot_know_is_excused() {
        for excuse in [
            |world: &mut World| world.servers[0].stalled = true,
            |world: &mut World| world.partitions[0][0] = [false, true],
            |world: &mut World| world.clients[0].stopped_until = SECOND,
        ] {
            let mut world = world();
            world.servers[1].up = false;
            excuse(&mut world);
            assert!(!sleeps(&mut world, 0, SLEEP_MAX + 1));
        }
    }

    #[test]
    fn a_lock_costs_few_commands() {
        let (base, more) = COMMANDS_MAX;
        let most = (base + more * 2) * 3 * ENOUGH_LOCKS;
        for (locks, asked, objected) in [
            (ENOUGH_LOCKS, most, false),
            (ENOUGH_LOCKS, most + 1, true),
            (ENOUGH_LOCKS - 1, most + 1, false),
        ] {
            let mut world = world();
            world.oracle.counts.locks = locks;
            world.oracle.counts.asked = asked;
            let call = call(&mut world, 1, None);
            world.in_turn(0, 0, &call);
            assert_eq!(objects(&world), objected, "{locks} {asked}");
        }
    }
}
