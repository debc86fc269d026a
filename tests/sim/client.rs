//! A client: a real engine, a model of the driver that turns it, and users on top.
//!
//! A turn does what the driver's does, in its order: read what is there and the clock after each
//! read, hand in the time, do what the engine wants done, tell users. Between any two of these
//! steps the process may be stopped for a while, and the world goes on without it.

use std::collections::VecDeque;
use std::time::Duration;

use shearline::engine::{Engine, Event as Told, Input, NodeId, Output, Request, RoundId};
use shearline::{Config, Instant, Lock, LockId, LockOptions, Retry};

use crate::clock::{MILLI, NEVER, Time};
use crate::oracle::{Belief, token_of};
use crate::trace::{self, Place};
use crate::world::{Event, World, resource_name};

/// More steps than this are no turn.
const STEPS_MAX: u32 = 1_000_000;

pub(crate) struct Client {
    pub(crate) engine: Engine,
    pub(crate) host: usize,
    /// By node: the connection.
    pub(crate) links: Vec<Option<usize>>,
    ids: Vec<Option<NodeId>>,
    stage: Stage,
    /// The newest time that was handed in.
    shown: Instant,
    /// The time of the newest tick.
    ticked: Instant,
    /// How many turns in a row the engine has wanted to be woken in the past.
    pub(crate) hot: u32,
    next_turn: Time,
    told: VecDeque<Told>,
    pub(crate) users: Vec<User>,
    /// Locks of which it was told that they are over.
    pub(crate) expired: Vec<LockId>,
    /// Locks that other clients hand to it.
    handed: Vec<(usize, Lock)>,
    /// It takes no more locks.
    pub(crate) finishing: bool,
    /// Until when its process does not run.
    pub(crate) stopped_until: Time,
    /// A user did something in this turn.
    pub(crate) acted: bool,
}

/// Where a turn stands.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Read(usize),
    Tick,
    Poll,
    Tell,
    Act,
}

/// Somebody who wants one resource now and then.
pub(crate) struct User {
    pub(crate) task: Task,
    /// When it does something next.
    at: Time,
    /// When what it did last was over.
    pub(crate) ended: Time,
    /// Since when it is at its task, by its clock.
    pub(crate) begun: Instant,
}

pub(crate) enum Task {
    Idle,
    Acquiring {
        round: RoundId,
        since: Time,
        deadline: Option<Instant>,
    },
    Holding {
        lock: Lock,
    },
    Extending {
        lock: Lock,
        round: RoundId,
        since: Time,
    },
    Releasing {
        round: RoundId,
    },
}

impl Task {
    fn round(&self) -> Option<RoundId> {
        match self {
            Self::Acquiring { round, .. }
            | Self::Extending { round, .. }
            | Self::Releasing { round } => Some(*round),
            Self::Idle | Self::Holding { .. } => None,
        }
    }
}

impl Client {
    pub(crate) fn new(world: &mut World, number: usize) -> Self {
        let plan = &world.plan;
        let names = (0..plan.nodes).map(|node| format!("node{node}"));
        let mut builder = Config::builder()
            .nodes(names)
            .retry(Retry::new(
                6,
                Duration::from_millis(5)..=Duration::from_millis(60),
            ))
            .dead_after(Duration::from_millis(plan.dead_after));
        if let Some(timeout) = plan.node_timeout {
            builder = builder.node_timeout(Duration::from_millis(timeout));
        }
        let config = builder.config().expect("a valid configuration");
        let host = number % plan.hosts;
        let mut seed = [0; 32];
        seed[0] = number as u8;
        seed[4..8].copy_from_slice(&world.entropy.below(u32::MAX).to_le_bytes());
        let shown = world.hosts[host].clock.show(world.now);
        let users = (0..world.plan.resources)
            .map(|_| User {
                task: Task::Idle,
                at: world.entropy.span(world.plan.rest),
                ended: 0,
                begun: shown,
            })
            .collect();
        Self {
            engine: Engine::new(&config, seed, shown),
            host,
            links: vec![None; world.plan.nodes],
            ids: vec![None; world.plan.nodes],
            stage: Stage::Read(0),
            shown,
            ticked: shown,
            hot: 0,
            next_turn: 0,
            told: VecDeque::new(),
            users,
            expired: Vec::new(),
            handed: Vec::new(),
            finishing: false,
            stopped_until: 0,
            acted: false,
        }
    }
}

/// What one step of a turn came to.
enum Step {
    Next(Stage),
    Done,
}

impl World {
    /// Arranges a turn of a client, `lag` from now at the latest.
    pub(crate) fn wake_client(&mut self, client: usize, lag: Time) {
        let lag = self.entropy.span(lag);
        self.wake_client_at(client, self.now + lag);
    }

    fn wake_client_at(&mut self, client: usize, at: Time) {
        if at < self.clients[client].next_turn {
            self.clients[client].next_turn = at;
            self.at(at, Event::Turn(client));
        }
    }

    /// Goes on with a client's turn, until it is done or the process is stopped in the middle.
    pub(crate) fn turn(&mut self, client: usize) {
        if self.now < self.clients[client].next_turn {
            return;
        }
        self.clients[client].next_turn = NEVER;
        let asleep_until = self.hosts[self.clients[client].host].asleep_until;
        if self.now < asleep_until {
            self.clients[client].stopped_until = asleep_until;
            self.wake_client_at(client, asleep_until);
            return;
        }
        for steps in 0.. {
            match self.step(client) {
                Step::Done => break,
                Step::Next(stage) => self.clients[client].stage = stage,
            }
            if steps > STEPS_MAX {
                return self.endless();
            }
            if !self.calm && self.entropy.chance(self.plan.pause) {
                let pause = self.entropy.span(self.plan.longest_pause);
                self.clients[client].stopped_until = self.now + pause;
                self.say(Place::Client(client), || {
                    format!("is stopped for {} ms", trace::millis(pause))
                });
                self.wake_client_at(client, self.now + pause);
                return;
            }
        }
        self.clients[client].stage = Stage::Read(0);
        let ticked = self.clients[client].ticked;
        self.settling(client, ticked);
        self.sleep_until_needed(client);
    }

    fn sleep_until_needed(&mut self, client: usize) {
        if self.has_news(client) {
            self.wake_client(client, self.plan.lag);
            return;
        }
        let Client {
            engine,
            users,
            host,
            ..
        } = &self.clients[client];
        let clock = &self.hosts[*host].clock;
        let engine_wants = engine.poll_timeout().map(|(at, _)| clock.when(at));
        let users_want = users.iter().map(|user| user.at);
        let at = engine_wants
            .into_iter()
            .chain(users_want)
            .min()
            .unwrap_or(NEVER);
        let lag = self.entropy.span(self.plan.lag);
        self.wake_client_at(client, at.max(self.now) + lag);
    }

    /// Something came in behind the turn's back.
    fn has_news(&self, client: usize) -> bool {
        let links = self.clients[client].links.iter().flatten();
        links
            .map(|conn| &self.conns[*conn].near)
            .any(|near| near.news || !near.arrived.is_empty() || near.end.is_some())
    }

    fn step(&mut self, client: usize) -> Step {
        Step::Next(match self.clients[client].stage {
            Stage::Read(node) if node == self.plan.nodes => Stage::Tick,
            Stage::Read(node) => {
                let more = self.read_link(client, node);
                Stage::Read(if more { node } else { node + 1 })
            }
            Stage::Tick => {
                self.input(client, Input::Tick);
                self.clients[client].ticked = self.clients[client].shown;
                Stage::Poll
            }
            Stage::Poll => {
                if self.poll(client) {
                    Stage::Poll
                } else {
                    Stage::Tell
                }
            }
            Stage::Tell => match self.clients[client].told.pop_front() {
                Some(told) => {
                    self.tell(client, told);
                    Stage::Tell
                }
                None => Stage::Act,
            },
            Stage::Act => {
                if self.act(client) {
                    self.clients[client].acted = true;
                    Stage::Poll
                } else {
                    return Step::Done;
                }
            }
        })
    }

    /// What the client's clock shows.
    fn shown(&mut self, client: usize) -> Instant {
        let host = self.clients[client].host;
        let shown = self.hosts[host].clock.show(self.now);
        self.clients[client].shown = shown;
        shown
    }

    fn input(&mut self, client: usize, input: Input<'_>) {
        let shown = self.shown(client);
        self.inputs += 1;
        self.clients[client].engine.handle(shown, input);
    }

    /// Reads once from a connection. Whether there may be more.
    fn read_link(&mut self, client: usize, node: usize) -> bool {
        let Some(conn) = self.clients[client].links[node] else {
            return false;
        };
        let link = &mut self.conns[conn];
        let node = link.node;
        if std::mem::take(&mut link.near.news) {
            self.say(Place::Client(client), || {
                format!("is connected to node {}", node.index())
            });
            self.input(client, Input::Connected { node });
            return true;
        }
        if !link.near.arrived.is_empty() {
            let mut arrived = std::mem::take(&mut link.near.arrived);
            let mark = link.near.mark;
            self.say(Place::Client(client), || {
                format!("from node {}: {}", node.index(), trace::replies(&arrived))
            });
            self.input(
                client,
                Input::Received {
                    node,
                    bytes: &arrived,
                },
            );
            self.oracle.answer_read(client, node.index(), mark);
            arrived.clear();
            self.conns[conn].near.arrived = arrived;
            return true;
        }
        if let Some(reason) = link.near.end {
            link.near.gone = true;
            self.clients[client].links[node.index()] = None;
            self.say(Place::Client(client), || {
                format!("loses node {}: {reason}", node.index())
            });
            self.input(client, Input::Disconnected { node, reason });
            return true;
        }
        let waiting = link.up.len() + link.far.unread.len();
        if link.near.blocked && waiting < self.plan.window {
            link.near.blocked = false;
            self.input(client, Input::Writable { node });
        }
        false
    }

    /// Does one thing that the engine wants done. Whether there may be more.
    fn poll(&mut self, client: usize) -> bool {
        let shown = self.shown(client);
        let Some(output) = self.clients[client].engine.poll(shown) else {
            return false;
        };
        match output {
            Output::Connect { node } => {
                let conn = self.open(client, node);
                self.clients[client].links[node.index()] = Some(conn);
                self.clients[client].ids[node.index()] = Some(node);
            }
            Output::Disconnect { node } => {
                if let Some(conn) = self.clients[client].links[node.index()].take() {
                    self.say(Place::Client(client), || {
                        format!("gives node {} up", node.index())
                    });
                    self.abort(conn);
                }
            }
            Output::Event(told) => self.clients[client].told.push_back(told),
            Output::Transmit { node, bytes } => {
                let bytes = bytes.to_vec();
                let len = match self.clients[client].links[node.index()] {
                    Some(conn) => self.write(conn, &bytes),
                    None => 0,
                };
                self.input(client, Input::Transmitted { node, len });
            }
        }
        true
    }

    // ----- users --------------------------------------------------------------------------------

    fn user_of(&self, client: usize, round: RoundId) -> Option<usize> {
        let users = &self.clients[client].users;
        users
            .iter()
            .position(|user| user.task.round() == Some(round))
    }

    /// The task of a user, which is idle now.
    fn take_task(&mut self, client: usize, user: usize) -> Task {
        std::mem::replace(&mut self.clients[client].users[user].task, Task::Idle)
    }

    fn set_task(&mut self, client: usize, user: usize, task: Task, next: Time) {
        let begun = self.shown(client);
        let user = &mut self.clients[client].users[user];
        user.task = task;
        user.at = next;
        user.begun = begun;
    }

    /// What a user did is over: it rests.
    fn rest(&mut self, client: usize, user: usize) {
        let rest = self.entropy.rest(self.plan.rest);
        let now = self.now;
        let user = &mut self.clients[client].users[user];
        user.task = Task::Idle;
        user.ended = now;
        user.at = now + rest;
    }

    /// It works for a while before it does anything with its lock.
    fn work(&mut self) -> Time {
        self.now + self.entropy.span(self.plan.work)
    }

    fn believe(&mut self, client: usize, resource: usize, lock: &Lock) {
        self.oracle.beliefs[resource][client] = Some(Belief {
            token: token_of(&lock.token()),
            until: lock.valid_until(),
        });
        self.exclusion(resource);
    }

    fn end_belief(&mut self, client: usize, resource: usize) {
        self.oracle.beliefs[resource][client] = None;
    }

    fn check_votes(&mut self, client: usize, lock: &Lock, since: Time) {
        let until = self.clock_of(client).when(lock.valid_until());
        let clocks: Vec<_> = self.servers.iter().map(|server| &server.clock).collect();
        self.oracle
            .votes(self.now, token_of(&lock.token()), since, until, &clocks);
    }

    /// A user is told something.
    fn tell(&mut self, client: usize, told: Told) {
        self.say(Place::Client(client), || trace::outcome(&told));
        match told {
            Told::Acquired { round, result } => {
                let Some(user) = self.user_of(client, round) else {
                    return;
                };
                let Task::Acquiring { since, .. } = self.take_task(client, user) else {
                    return;
                };
                match result {
                    Ok(lock) => self.acquired(client, user, lock, since),
                    Err(_) => self.rest(client, user),
                }
            }
            Told::Extended { round, result } => self.extended(client, round, result),
            Told::Released { round, .. } => {
                if let Some(user) = self.user_of(client, round) {
                    self.rest(client, user);
                }
            }
            Told::Expired { lock } => {
                self.oracle.counts.losses += 1;
                self.clients[client].expired.push(lock);
                let now = self.now;
                for resource in 0..self.plan.resources {
                    let user = &mut self.clients[client].users[resource];
                    if let Task::Holding { lock: held } | Task::Extending { lock: held, .. } =
                        &user.task
                        && held.id() == lock
                    {
                        user.at = user.at.min(now + MILLI);
                        self.end_belief(client, resource);
                    }
                }
            }
            _ => {}
        }
    }

    /// As the faces do, the clock is read once more before a lock is handed out.
    fn acquired(&mut self, client: usize, user: usize, lock: Lock, since: Time) {
        self.oracle.counts.locks += 1;
        let shown = self.shown(client);
        if !lock.is_valid_at(shown) {
            self.clients[client].engine.give_back(shown, lock);
            self.rest(client, user);
            return;
        }
        self.check_votes(client, &lock, since);
        self.believe(client, user, &lock);
        let next = self.work();
        self.set_task(client, user, Task::Holding { lock }, next);
    }

    fn extended(
        &mut self,
        client: usize,
        round: RoundId,
        result: Result<shearline::engine::Extension, shearline::ExtendError>,
    ) {
        let Some(user) = self.user_of(client, round) else {
            return;
        };
        let Task::Extending {
            mut lock, since, ..
        } = self.take_task(client, user)
        else {
            return;
        };
        let shown = self.shown(client);
        let before = lock.valid_until();
        match result {
            Ok(extension) if extension.apply(&mut lock) => {
                self.oracle.counts.extensions += 1;
                // What lasts as long as before stands on its old votes.
                let since = if lock.valid_until() == before {
                    0
                } else {
                    since
                };
                self.check_votes(client, &lock, since);
                if lock.is_valid_at(shown) && !self.clients[client].expired.contains(&lock.id()) {
                    self.believe(client, user, &lock);
                }
            }
            Ok(_) | Err(shearline::ExtendError::Unconfirmed(_)) => {}
            Err(_) => self.end_belief(client, user),
        }
        let next = self.work();
        self.set_task(client, user, Task::Holding { lock }, next);
    }

    /// One user whose time has come does something. Whether one did.
    fn act(&mut self, client: usize) -> bool {
        if let Some((resource, lock)) = self.clients[client].handed.pop() {
            self.adopt(client, resource, lock);
            return true;
        }
        let now = self.now;
        let finishing = self.clients[client].finishing || self.entropy.is_spent();
        let due = self.clients[client]
            .users
            .iter()
            .position(|user| user.at <= now && !(finishing && matches!(user.task, Task::Idle)));
        let Some(user) = due else {
            if finishing {
                for user in &mut self.clients[client].users {
                    if matches!(user.task, Task::Idle) {
                        user.at = NEVER;
                    }
                }
            }
            return false;
        };
        self.clients[client].users[user].at = NEVER;
        match self.take_task(client, user) {
            Task::Idle => self.acquire(client, user),
            Task::Acquiring { round, .. } => {
                let shown = self.shown(client);
                self.clients[client].engine.cancel(shown, round);
                self.rest(client, user);
            }
            Task::Holding { lock } => self.use_lock(client, user, lock),
            Task::Extending { lock, .. } => self.release(client, user, lock),
            Task::Releasing { round } => {
                self.set_task(client, user, Task::Releasing { round }, NEVER)
            }
        }
        true
    }

    fn acquire(&mut self, client: usize, user: usize) {
        let ttl = self.ttl();
        let wait = MILLI + self.entropy.span(self.plan.wait);
        let options = LockOptions::new(ttl);
        let options = match self.entropy.below(3) {
            0 => options.tries(1),
            1 => options.wait(Duration::from_nanos(wait)),
            _ => options,
        };
        let shown = self.shown(client);
        let deadline = options.deadline().map(|wait| shown.saturating_add(wait));
        let name = resource_name(user);
        let request = Request::new(&name, &options);
        match self.clients[client].engine.acquire(shown, &request) {
            Ok(round) => {
                let next = if self.entropy.chance(self.plan.cancels) {
                    self.work()
                } else {
                    NEVER
                };
                let since = self.now;
                self.say(Place::Client(client), || {
                    format!("wants resource {user} for {ttl:?}")
                });
                let task = Task::Acquiring {
                    round,
                    since,
                    deadline,
                };
                self.set_task(client, user, task, next);
            }
            Err(_) => self.rest(client, user),
        }
    }

    fn ttl(&mut self) -> Duration {
        let longest = self.plan.longest_ttl;
        let ttl = self.plan.shortest_ttl + self.entropy.span(longest - self.plan.shortest_ttl);
        Duration::from_millis(ttl)
    }

    fn use_lock(&mut self, client: usize, user: usize, lock: Lock) {
        let habits = self.plan.habits;
        let total: u32 = habits.iter().sum();
        let over = self.clients[client].finishing || self.entropy.is_spent() || total == 0;
        let mut drawn = if over { 0 } else { self.entropy.below(total) };
        let mut chosen = 0;
        if !over {
            for (habit, weight) in habits.iter().enumerate() {
                if drawn < *weight {
                    chosen = habit;
                    break;
                }
                drawn -= weight;
            }
        }
        match chosen {
            0 => self.release(client, user, lock),
            1 => {
                self.end_belief(client, user);
                let shown = self.shown(client);
                self.say(Place::Client(client), || format!("drops resource {user}"));
                self.clients[client].engine.give_back(shown, lock);
                self.rest(client, user);
            }
            2 => {
                let ttl = self.ttl();
                let shown = self.shown(client);
                let task = match self.clients[client].engine.extend(shown, &lock, ttl) {
                    Ok(round) => Task::Extending {
                        lock,
                        round,
                        since: self.now,
                    },
                    Err(_) => Task::Holding { lock },
                };
                let next = if matches!(task, Task::Holding { .. })
                    || self.entropy.chance(self.plan.cancels)
                {
                    self.work() + 1
                } else {
                    NEVER
                };
                self.say(Place::Client(client), || {
                    format!("extends resource {user} by {ttl:?}")
                });
                self.set_task(client, user, task, next);
            }
            3 => self.hand_over(client, user, lock),
            _ => {
                let next = self.now + MILLI + self.entropy.span(2 * self.plan.longest_ttl * MILLI);
                self.set_task(client, user, Task::Holding { lock }, next);
            }
        }
    }

    fn release(&mut self, client: usize, user: usize, lock: Lock) {
        self.end_belief(client, user);
        let shown = self.shown(client);
        self.say(Place::Client(client), || {
            format!("releases resource {user}")
        });
        let round = self.clients[client].engine.release(shown, lock);
        self.set_task(client, user, Task::Releasing { round }, NEVER);
    }

    /// Gives the lock to another client of the same machine.
    fn hand_over(&mut self, client: usize, user: usize, lock: Lock) {
        let others = self.plan.clients;
        let to = self.entropy.below(others as u32) as usize;
        let to = if self.clients[to].host == self.clients[client].host {
            to
        } else {
            client
        };
        self.end_belief(client, user);
        let shown = self.shown(client);
        let lock = self.clients[client].engine.detach(shown, lock);
        self.oracle.counts.hand_overs += 1;
        self.oracle.inherited(token_of(&lock.token()), to);
        self.say(Place::Client(client), || {
            format!("hands resource {user} over to client {to}")
        });
        self.rest(client, user);
        self.clients[to].handed.push((user, lock));
        self.wake_client(to, self.plan.lag);
    }

    fn adopt(&mut self, client: usize, user: usize, lock: Lock) {
        let shown = self.shown(client);
        let lock = self.clients[client].engine.adopt(shown, lock);
        if !matches!(self.clients[client].users[user].task, Task::Idle) {
            let now = self.now;
            self.clients[client].engine.give_back(shown, lock);
            self.clients[client].users[user].ended = now;
            return;
        }
        if lock.is_valid_at(shown) {
            self.believe(client, user, &lock);
        }
        let next = self.work();
        self.set_task(client, user, Task::Holding { lock }, next);
    }

    /// A token is on its way from one client to another.
    pub(crate) fn is_handed_over(&self, token: [u8; 20]) -> bool {
        self.clients
            .iter()
            .flat_map(|client| &client.handed)
            .any(|(_, lock)| token_of(&lock.token()) == token)
    }
}
