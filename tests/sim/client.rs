//! A client: a process with a real engine, and a model of the driver that turns it.
//!
//! A turn has the same steps as a turn of the driver. It reads the received bytes, and the clock after each read,
//! cancels calls that users gave up, passes the time to the engine, carries out its orders, and reports to users.
//! Between any two of these steps the process may be stopped for a while or killed, and the world goes on without it.

use std::collections::VecDeque;
use std::time::Duration;

use shearline::engine::{Engine, Event as Told, Input, NodeId, Output};
use shearline::internals::{LinkFault, MARKER_KEY, all_open};
use shearline::{Config, Instant, Lock, RestartGuard, Retry};

use crate::clock::{MILLI, NEVER, Time};
use crate::oracle::{Inspecting, Process, Said, TICK, TimeRead, Verb};
use crate::plan::{
    CONNECT_TIMEOUT, FIRST_BACKOFF, Guard, LONGEST_BACKOFF, LONGEST_REST, Members, SHORTEST_REST,
    TRIES,
};
use crate::server::Server;
use crate::trace;
use crate::user::{Call, Task, User};
use crate::watchdog;
use crate::watching::Watching;
use crate::world::{Event, World};
use crate::written::Writing;

/// A turn has fewer steps than this.
const STEPS_MAX: u32 = 1_000_000;

pub(crate) struct Client {
    pub(crate) engine: Engine,
    pub(crate) host: usize,
    pub(crate) process: Process,
    /// `true` while the process runs. Another process replaces a process that was killed.
    pub(crate) alive: bool,
    pub(crate) born: Time,
    /// The connection to each node.
    pub(crate) links: Vec<Option<usize>>,
    /// The probe of each node; the last one that was answered stays until there is another.
    probes: Vec<Option<usize>>,
    /// The nodes whose probe was answered in this turn.
    probed: Vec<bool>,
    /// The state of the path to each node.
    pub(crate) paths: Vec<Path>,
    stage: Stage,
    /// The newest time that was handed in.
    pub(crate) shown: Instant,
    /// The time of the newest tick, and of the one before.
    pub(crate) ticked: Instant,
    /// When the client last had nothing left to write.
    flushed: crate::written::Place,
    pub(crate) ticked_before: Instant,
    pub(crate) turn_began: Time,
    pub(crate) turn_place: crate::written::Place,
    /// `true` in the middle of a turn, in which the client may be stopped.
    pub(crate) in_turn: bool,
    /// The number of consecutive turns in which the engine asked for a wake-up in the past.
    pub(crate) hot: u32,
    next_turn: Time,
    told: VecDeque<Told>,
    pub(crate) users: Vec<User>,
    /// Locks that other clients hand to this one.
    pub(crate) handed: Vec<(usize, Lock)>,
    /// The client takes no more locks.
    pub(crate) finishing: bool,
    /// The time until which the process is stopped, and the total time for which it was stopped.
    pub(crate) stopped_until: Time,
    pub(crate) stopped: Time,
    /// The longest stop of the process.
    longest_stop: Time,
    /// The time at which a user has tried once to get a lock in this turn, by the client's clock.
    pub(crate) called: Option<Instant>,
    /// A user did something in this turn.
    pub(crate) acted: bool,
    /// The process replaced one that was killed.
    met: bool,
    /// Nodes that are trusted as soon as they are connected for the first time.
    to_trust: Vec<usize>,
    /// Nodes that an operator has just trusted.
    pub(crate) trusted: Vec<usize>,
    /// An operator has called `reinit`.
    pub(crate) to_reinit: bool,
    pub(crate) reinit: Option<Call>,
    /// How often an operator has set floors and was not told whether they reached the nodes.
    pub(crate) floors: usize,
    /// The open inspection: the client has asked who holds a resource.
    pub(crate) inspecting: Option<Inspecting>,
    /// The watch of a resource, if there is one.
    pub(crate) watching: Option<Watching>,
}

/// A client's way to one node.
#[derive(Debug, Default)]
pub(crate) struct Path {
    /// When the connection was last lost, and since when its handshake is done.
    pub(crate) lost_at: Time,
    pub(crate) ready_at: Time,
    /// The end of the handshake, by the client's clock.
    ready_shown: Instant,
    /// By when another connection is due, by the client's clock; `None` while there is one.
    pub(crate) back_by: Option<Instant>,
    pub(crate) backoff: Backoff,
    /// When the newest connection was opened, by the client's clock.
    pub(crate) opened_shown: Instant,
    /// How many of the last requests of the handshake were answered. (`joins`: whether a join follows them.)
    loads: u32,
    /// How many such requests a handshake has.
    last: u32,
    joins: bool,
    /// Why connections have ended so far.
    reasons: Vec<LinkFault>,
    /// The longest time until an answer was read.
    pub(crate) worst_trip: Time,
    /// Since when bytes have waited for room in the connection, and for how long bytes did.
    full_since: Option<Time>,
    longest_wait: Time,
    /// What was known when the server has last reported its time.
    pub(crate) time: Option<TimeRead>,
    /// How many connections there were.
    pub(crate) opened: u64,
    /// How many reads in a row brought no answer that was surely fast, and when the last of them was.
    far: (u32, Time),
}

/// How often the connections to one node have failed in a row, and the delay that follows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backoff {
    /// The largest possible number of failures, and whether it is exact.
    failures: u32,
    exact: bool,
    /// When the last one was lost, by the client's clock, and how long the next may take.
    pub(crate) lost_shown: Instant,
    longest: Duration,
}

impl Backoff {
    fn new() -> Self {
        Self {
            exact: true,
            ..Self::default()
        }
    }

    fn lasted(&mut self, shown: Instant) {
        *self = Self {
            lost_shown: shown,
            ..Self::new()
        };
    }

    fn failed(&mut self, shown: Instant) {
        let longest = (FIRST_BACKOFF << self.failures.min(6)).min(LONGEST_BACKOFF);
        self.longest = Duration::from_nanos(longest);
        self.lost_shown = shown;
        self.failures += 1;
    }

    pub(crate) fn longest(&self) -> Duration {
        match self.exact || self.longest.is_zero() {
            true => self.longest,
            false => Duration::from_nanos(LONGEST_BACKOFF),
        }
    }

    /// Returns `true` if the next connection follows after a delay that is known except for its
    /// random part.
    pub(crate) fn is_exact(&self) -> bool {
        self.exact && !self.longest.is_zero()
    }
}

/// The next step of a turn.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Read(usize),
    Rethink,
    Tick,
    Poll,
    Tell,
    Act,
}

/// The longest sleep of the driver while anything is open.
const NAP_MAX: Time = 100 * MILLI;

/// The most bytes of any way to release a lock: a name and a token are short.
const BEHIND: usize = 128;

/// A connection that worked for this long is opened again at once when it ends.
const LASTED: Duration = Duration::from_secs(1);

/// A node that answers faster than this votes as before.
const NEAR: Time = 240 * MILLI;

/// How many answers decide how slow the path to a node is.
const SAMPLES: u32 = 32;

/// How many scripts a handshake loads. It is done when all were answered.
pub(crate) const SCRIPTS: u32 = 4;

impl Path {
    fn new(joins: bool, last: u32) -> Self {
        Self {
            ready_at: NEVER,
            ready_shown: Instant::MAX,
            backoff: Backoff::new(),
            last,
            joins,
            far: (0, NEVER),
            ..Self::default()
        }
    }

    /// Notes that an answer to a request sent at `sent` was read.
    pub(crate) fn answered(&mut self, now: Time, shown: Instant, sent: Time, answer: (Verb, Said)) {
        self.took(now - sent);
        let done = match answer {
            (Verb::Load, _) if self.joins => false,
            (Verb::Load, _) => {
                self.loads += 1;
                self.loads == self.last
            }
            (Verb::Join, Said::One) => self.ready_at == NEVER,
            _ => false,
        };
        if done {
            self.ready_at = now;
            self.ready_shown = shown;
        }
    }

    /// Notes that an answer was read that took this long.
    pub(crate) fn took(&mut self, trip: Time) {
        self.worst_trip = self.worst_trip.max(trip);
    }

    /// Notes that an answer to a request of `since` or later was read. Of several that are read at once, the fastest
    /// counts.
    fn measured(&mut self, now: Time, since: Time) {
        let trip = now - since.min(now);
        let (far, read_at) = self.far;
        self.far = match trip + trip / 50 < NEAR {
            true => (0, now),
            false if read_at == now => (far, now),
            false => (far + 1, now),
        };
    }

    /// Returns `true` if so many answers in a row were slow that the engine may ask for another connection to measure
    /// the path.
    pub(crate) fn may_have_moved(&self) -> bool {
        SAMPLES <= self.far.0
    }

    /// Notes that the connection has taken the offered bytes, or a part of them.
    fn wrote(&mut self, now: Time, all: bool) {
        let since = self.full_since.take();
        self.longest_wait = self.longest_wait.max(now - since.unwrap_or(now));
        self.full_since = (!all).then(|| since.unwrap_or(now));
    }

    fn lost(
        &mut self,
        now: Time,
        (began, shown): (Instant, Instant),
        reason: Option<LinkFault>,
        known: bool,
    ) {
        // The engine may have given up the connection since the turn began. The next delay may be a little shorter if
        // the connection may have lasted for a shorter time.
        let lasts = self.ready_shown.saturating_add(LASTED);
        let lasted = lasts <= began;
        let known = known && (lasted || shown < lasts);
        let was_ready = self.ready_shown < Instant::MAX;
        match reason {
            Some(_) if lasted => self.backoff.lasted(shown),
            Some(_) => self.backoff.failed(shown),
            None => {
                self.backoff.failed(shown);
                self.backoff.exact &= !was_ready;
            }
        }
        self.backoff.exact &= known;
        self.back_by = Some(shown.saturating_add(self.backoff.longest()));
        self.ready_shown = Instant::MAX;
        self.full_since = None;
        self.lost_at = now;
        self.ready_at = NEVER;
        self.loads = 0;
        if let Some(reason) = reason {
            self.told(reason);
        }
    }

    /// Notes that a connection has ended for this reason, or is about to.
    fn told(&mut self, reason: LinkFault) {
        if !self.was_told(reason) {
            self.reasons.push(reason);
        }
    }

    /// Returns `true` if anything has ever waited for room.
    pub(crate) fn was_full(&self) -> bool {
        0 < self.longest_wait || self.full_since.is_some()
    }

    /// Returns `true` if a connection has ended for this reason.
    pub(crate) fn was_told(&self, reason: LinkFault) -> bool {
        self.reasons.contains(&reason)
    }
}

impl Client {
    pub(crate) fn new(world: &mut World, number: usize) -> Self {
        let plan = &world.plan;
        let outsider = plan.is_outsider(number);
        let names = (0..plan.nodes_of(number)).map(|node| plan.url(node));
        let rest = Duration::from_millis(SHORTEST_REST)..=Duration::from_millis(LONGEST_REST);
        let mut builder = Config::builder()
            .nodes(names)
            .retry(Retry::new(TRIES, rest))
            .dead_after(Duration::from_millis(plan.dead_after))
            .lock_delay(Duration::from_millis(plan.lock_delay))
            .watch_clocks(plan.watch)
            .without_scripts(plan.is_without_scripts());
        builder = match plan.guard {
            Guard::Off => builder.restart_guard(RestartGuard::Off),
            Guard::Observed => builder.max_ttl(Duration::from_millis(plan.max_life())),
            Guard::Untold => builder,
            Guard::Strict => builder
                .restart_guard(RestartGuard::Strict)
                .max_ttl(Duration::from_millis(plan.max_life_of(number))),
        };
        if outsider && plan.members == Members::OtherName {
            builder = builder.group("other");
        }
        if let Some(timeout) = plan.node_timeout {
            builder = builder.node_timeout(Duration::from_millis(timeout));
        }
        let config = builder.config().expect("a valid configuration");
        let host = number % plan.hosts;
        let process = world.oracle.born(number);
        let mut seed = [0; 32];
        seed[..4].copy_from_slice(&process.to_le_bytes());
        seed[4..8].copy_from_slice(&world.entropy.below(u32::MAX).to_le_bytes());
        let shown = world.hosts[host].clock.show(world.now);
        let engine = Engine::new(&config, seed, shown);
        let trusts = world.plan.trusted && world.now == 0 && !world.plan.is_late(number);
        // No node has ever been used.
        let to_trust = if trusts { world.plan.nodes } else { 0 };
        let joins = world.plan.guard == Guard::Strict;
        let last = match world.plan.is_without_scripts() {
            true => 1,
            false => SCRIPTS,
        };
        let paths = (0..world.plan.nodes).map(|_| Path::new(joins, last));
        let rest = world.plan.rest;
        let user = |_| User {
            at: world.now + world.entropy.span(rest),
            begun: shown,
            ..User::default()
        };
        let users = (0..world.plan.resources * world.plan.users)
            .map(user)
            .collect();
        Self {
            engine,
            host,
            process,
            alive: true,
            born: world.now,
            links: vec![None; world.plan.nodes],
            probes: vec![None; world.plan.nodes],
            probed: vec![false; world.plan.nodes],
            paths: paths.collect(),
            stage: Stage::Read(0),
            shown,
            ticked: shown,
            flushed: world.inputs,
            ticked_before: shown,
            turn_began: world.now,
            turn_place: world.inputs,
            in_turn: false,
            hot: 0,
            next_turn: NEVER,
            told: VecDeque::new(),
            users,
            handed: Vec::new(),
            finishing: world.calm,
            stopped_until: 0,
            stopped: 0,
            longest_stop: 0,
            called: None,
            acted: false,
            met: false,
            to_trust: (0..to_trust).collect(),
            trusted: Vec::new(),
            to_reinit: false,
            reinit: None,
            floors: 0,
            inspecting: None,
            watching: None,
        }
    }

    /// Returns the next node to trust that is ready for it.
    pub(crate) fn next_to_trust(&mut self) -> Option<usize> {
        let ready = |node: &usize| self.paths[*node].ready_at < NEVER;
        let place = self.to_trust.iter().position(ready)?;
        Some(self.to_trust.swap_remove(place))
    }

    /// Returns the longest round trip that the client can have measured by its own clock, from when it had something to
    /// send. It may have been stopped before it sent that, or had no room for it.
    pub(crate) fn worst_trip(&self) -> Time {
        let trips = self.paths.iter();
        let worst = trips.map(|path| path.worst_trip + path.longest_wait).max();
        let worst = worst.unwrap_or(0) + self.longest_stop;
        worst + worst / 50
    }

    /// Returns `true` if fewer nodes than a majority have finished their handshake.
    pub(crate) fn is_short_of_a_quorum(&self, quorum: usize) -> bool {
        let links = self.links.iter().zip(&self.paths);
        let ready = links.filter(|(link, path)| link.is_some() && path.ready_at < NEVER);
        ready.count() < quorum
    }

    /// Records that the process has ended.
    fn die(&mut self) -> Vec<Option<usize>> {
        self.alive = false;
        self.next_turn = NEVER;
        self.told.clear();
        self.handed.clear();
        self.trusted.clear();
        self.to_trust.clear();
        self.to_reinit = false;
        self.reinit = None;
        self.inspecting = None;
        self.watching = None;
        for user in &mut self.users {
            user.task = Task::Idle;
        }
        let none = vec![None; self.links.len()];
        let mut open = std::mem::replace(&mut self.links, none.clone());
        open.append(&mut std::mem::replace(&mut self.probes, none));
        open
    }
}

impl World {
    // ----- life and death ---------------------------------------------------------------------

    /// Kills a process. Its kernel closes its connections, and another process starts `away` later.
    pub(crate) fn kill_client(&mut self, client: usize, away: Time) {
        if !self.clients[client].alive {
            return;
        }
        self.oracle.died(self.clients[client].process);
        for conn in self.clients[client].die().into_iter().flatten() {
            self.hang_up(conn);
        }
        self.at(self.now + away, Event::Birth(client));
    }

    /// Starts a process that replaces one that was killed.
    pub(crate) fn bear_client(&mut self, client: usize) {
        let awaits = !self.clients[client].alive && self.is_awaited(client);
        if awaits && !self.calm {
            self.at(self.now + 100 * MILLI, Event::Birth(client));
        } else if !awaits && !self.clients[client].alive {
            self.client_says(client, || "begins anew".into());
            self.clients[client] = Client::new(self, client);
            self.clients[client].met = true;
            self.wake_client(client, self.plan.lag);
        }
    }

    /// Returns `true` if a client has not begun, and may not begin before every server has a marker.
    fn is_awaited(&self, client: usize) -> bool {
        let marked = |server: &Server| {
            let shown = server.clock.show(self.now);
            server.store.get(shown, MARKER_KEY).is_some()
        };
        let late = self.plan.is_late(client);
        late && !self.clients[client].met && !self.servers.iter().all(marked)
    }

    // ----- turns --------------------------------------------------------------------------------

    /// Schedules a turn of a client, `lag` from now at the latest.
    pub(crate) fn wake_client(&mut self, client: usize, lag: Time) {
        let lag = self.entropy.span(lag);
        self.wake_client_at(client, self.now + lag);
    }

    /// Schedules a turn of a client at `at`. Nothing wakes a process that is stopped.
    fn wake_client_at(&mut self, client: usize, at: Time) {
        let there = &mut self.clients[client];
        let at = at.max(there.stopped_until);
        if there.alive && at < there.next_turn {
            there.next_turn = at;
            self.at(at, Event::Turn(client));
        }
    }

    /// Continues a client's turn until it is done or the process is stopped in the middle.
    pub(crate) fn turn(&mut self, client: usize) {
        if self.now < self.clients[client].next_turn {
            return;
        }
        self.clients[client].next_turn = NEVER;
        let asleep_until = self.hosts[self.clients[client].host].asleep_until;
        if self.now < asleep_until {
            self.stop_client(client, asleep_until - self.now);
            return;
        }
        let there = &mut self.clients[client];
        if !std::mem::replace(&mut there.in_turn, true) {
            there.turn_began = self.now;
            there.turn_place = self.inputs;
        }
        for steps in 0.. {
            match self.step(client) {
                None => break,
                Some(stage) => self.clients[client].stage = stage,
            }
            if steps > STEPS_MAX {
                return self.endless();
            }
            if !self.calm && self.entropy.chance(self.plan.pause) {
                let pause = self.entropy.span(self.plan.longest_pause);
                self.stop_client(client, pause);
                return;
            }
        }
        self.clients[client].stage = Stage::Read(0);
        self.clients[client].in_turn = false;
        self.clients[client].probed.fill(false);
        let ticked = self.clients[client].ticked;
        self.settling(client, ticked);
        self.wake(client, ticked);
        self.told(client, ticked);
        self.memory(client);
        self.silence(client, ticked);
        self.claims_in_time(client, ticked);
        self.keeps_no_garbage(client);
        self.certain(client);
        self.reopens(client, ticked);
        self.sleep_until_needed(client);
    }

    /// Stops the process of a client for a while.
    fn stop_client(&mut self, client: usize, pause: Time) {
        let until = self.now + pause;
        self.client_says(client, || {
            format!("is stopped for {} ms", trace::millis(pause))
        });
        let there = &mut self.clients[client];
        there.stopped_until = until;
        there.stopped += pause;
        there.longest_stop = there.longest_stop.max(pause);
        self.wake_client_at(client, until);
    }

    pub(crate) fn sleep_until_needed(&mut self, client: usize) {
        if self.has_news(client) {
            self.wake_client(client, self.plan.lag);
            return;
        }
        let there = &self.clients[client];
        let clock = &self.hosts[there.host].clock;
        let engine_wants = there.engine.poll_timeout().map(|(at, _)| {
            // Every second client also wakes a tick early, when nothing is due.
            let early = at.saturating_sub(TICK);
            let looks = client.is_multiple_of(2) && there.shown < early;
            clock.when(if looks { early } else { at })
        });
        let load = all_open(&there.engine);
        let nap = (load.claims != 0 || load.rounds != 0).then_some(self.now + NAP_MAX);
        let users_want = there.users.iter().map(|user| user.at);
        let all = engine_wants.into_iter().chain(nap).chain(users_want);
        let at = all.min().unwrap_or(NEVER);
        let lag = self.entropy.span(self.plan.lag);
        self.wake_client_at(client, at.max(self.now) + lag);
    }

    /// Returns `true` if something arrived during the turn.
    fn has_news(&self, client: usize) -> bool {
        let there = &self.clients[client];
        let links = there.links.iter().chain(&there.probes).flatten();
        links
            .map(|conn| &self.conns[*conn].near)
            .any(|near| near.news || !near.arrived.is_empty() || near.end.is_some())
    }

    /// Takes one step of a turn. Returns the next one, if there is one.
    fn step(&mut self, client: usize) -> Option<Stage> {
        Some(match self.clients[client].stage {
            Stage::Read(node) if node == self.plan.nodes => Stage::Rethink,
            Stage::Read(node) => {
                let more = self.read_link(client, node);
                Stage::Read(if more { node } else { node + 1 })
            }
            Stage::Rethink => {
                self.rethink(client);
                Stage::Tick
            }
            Stage::Tick => {
                let asked = self.clients[client].engine.poll_timeout();
                self.input(client, Input::Tick);
                self.ticked(client, asked);
                let there = &mut self.clients[client];
                there.ticked_before = std::mem::replace(&mut there.ticked, there.shown);
                self.listen(client);
                Stage::Poll
            }
            Stage::Poll => {
                if self.poll(client) {
                    Stage::Poll
                } else {
                    self.note_waiting(client);
                    self.clients[client].flushed = self.inputs;
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
                if !self.act(client) {
                    return None;
                }
                self.clients[client].acted = true;
                Stage::Poll
            }
        })
    }

    /// Returns the time on the client's clock.
    pub(crate) fn shown(&mut self, client: usize) -> Instant {
        let Client {
            host, turn_began, ..
        } = self.clients[client];
        let stale = self.plan.switches.stale_clock;
        let read = if stale { turn_began } else { self.now };
        let shown = self.hosts[host].clock.show(read);
        self.clients[client].shown = shown;
        shown
    }

    // ----- the driver ---------------------------------------------------------------------------

    fn input(&mut self, client: usize, input: Input<'_>) {
        let shown = self.shown(client);
        self.inputs += 1;
        watchdog::beat();
        self.clients[client].engine.handle(shown, input);
    }

    /// Reads once from a connection, or from the probe. Returns whether there may be more.
    fn read_link(&mut self, client: usize, node: usize) -> bool {
        let Some(conn) = self.clients[client].links[node] else {
            return self.read_probe(client, node);
        };
        let link = &mut self.conns[conn];
        let Some(id) = link.id else {
            return false;
        };
        if std::mem::take(&mut link.near.news) {
            self.client_says(client, || format!("is connected to node {node}"));
            self.input(client, Input::Connected { node: id });
            return true;
        }
        if !link.near.arrived.is_empty() {
            let mut arrived = std::mem::take(&mut link.near.arrived);
            link.near.read += arrived.len() as u64;
            link.written.silent_since = None;
            link.near.last_read = Some(self.clients[client].shown);
            let bytes = &arrived[..];
            self.client_says(client, || {
                format!("from node {node}: {}", trace::replies(bytes))
            });
            self.input(client, Input::Received { node: id, bytes });
            self.answers_read(client, conn);
            self.garbage_read(client, conn);
            self.turned_away(client, conn);
            arrived.clear();
            self.conns[conn].near.arrived = arrived;
            return true;
        }
        if let Some(reason) = link.near.end {
            link.near.gone = true;
            self.lose(client, node, Some(reason));
            let reason = reason.into();
            self.input(client, Input::Disconnected { node: id, reason });
            return true;
        }
        if link.near.blocked && link.waiting() < self.plan.window {
            link.near.blocked = false;
            link.near.unblocked_at = self.now;
            self.input(client, Input::Writable { node: id });
        }
        self.read_probe(client, node)
    }

    /// Does what a probe allows, after the connection of its node. Returns whether there may be
    /// more.
    fn read_probe(&mut self, client: usize, node: usize) -> bool {
        let Some(conn) = self.clients[client].probes[node] else {
            return false;
        };
        let link = &mut self.conns[conn];
        if std::mem::take(&mut link.near.news) {
            self.write(conn, b"*1\r\n$5\r\nHELLO\r\n");
            return true;
        }
        if !link.near.arrived.is_empty() {
            link.near.arrived.clear();
            self.client_says(client, || format!("node {node} answers the probe"));
            let id = self.conns[conn].id.expect("a client's");
            self.clients[client].probed[node] = true;
            self.input(client, Input::Probed { node: id });
            return true;
        }
        if link.near.end.is_some() {
            link.near.gone = true;
            self.clients[client].probes[node] = None;
        }
        false
    }

    fn open_probe(&mut self, client: usize, id: NodeId) {
        let node = id.index();
        self.close_probe(client, node);
        let process = self.clients[client].process;
        let conn = self.open(client, process, node);
        self.conns[conn].id = Some(id);
        self.clients[client].probes[node] = Some(conn);
    }

    fn close_probe(&mut self, client: usize, node: usize) {
        if let Some(conn) = self.clients[client].probes[node].take() {
            self.abort(conn);
        }
    }

    /// Handles an invalid reply that was read: the connection is useless from now on.
    fn garbage_read(&mut self, client: usize, conn: usize) {
        let link = &self.conns[conn];
        if link.has_read_garbage() {
            self.oracle.counts.sights.note("GarbageRead");
            self.clients[client].paths[link.node].told(LinkFault::Protocol);
        }
    }

    /// Notes that an answer to a request of `since` or later was read.
    pub(crate) fn measured(&mut self, client: usize, node: usize, since: Time) {
        self.clients[client].paths[node].measured(self.now, since);
    }

    /// Handles the refusal of a client, which takes it for the answer to its first command.
    fn turned_away(&mut self, client: usize, conn: usize) {
        let link = &self.conns[conn];
        if link.far.session.is_none() && link.talk == 0 {
            let there = &mut self.clients[client];
            let shown = there.shown;
            there.paths[link.node].answered(
                self.now,
                shown,
                link.opened,
                (Verb::Other, Said::Else),
            );
        }
    }

    fn lose(&mut self, client: usize, node: usize, reason: Option<LinkFault>) {
        self.client_says(client, || {
            let why = reason.map_or("given up".to_owned(), |reason| reason.to_string());
            format!("loses node {node}: {why}")
        });
        if reason.is_none() && !self.clients[client].probed[node] {
            self.gives_up(client, node);
        }
        let (now, shown) = (self.now, self.shown(client));
        let began = self.clock_of(client).show(self.clients[client].turn_began);
        let there = &mut self.clients[client];
        there.links[node] = None;
        // A client that was stopped for long may have given up connections that it had not begun.
        let known = there.longest_stop < CONNECT_TIMEOUT / 2;
        there.paths[node].lost(now, (began, shown), reason, known);
    }

    /// Does one thing that the engine asks for. Returns whether there may be more.
    fn poll(&mut self, client: usize) -> bool {
        let shown = self.shown(client);
        let Some(output) = self.clients[client].engine.poll(shown) else {
            return false;
        };
        match output {
            Output::Connect { node } => self.connect(client, node),
            Output::Disconnect { node } => {
                if let Some(conn) = self.clients[client].links[node.index()] {
                    self.lose(client, node.index(), None);
                    if self.plan.switches.polite {
                        self.hang_up(conn);
                    } else {
                        self.abort(conn);
                    }
                }
            }
            Output::Probe { node, bytes } => {
                assert_eq!(bytes, b"*1\r\n$5\r\nHELLO\r\n");
                self.open_probe(client, node);
            }
            // The probe stays for the next connection.
            Output::CloseProbe { .. } if self.plan.switches.keeps_probes => {}
            Output::CloseProbe { node } => self.close_probe(client, node.index()),
            Output::Event(told) => {
                // The rounds distinguish them.
                let told = if let Told::Confirmed { round, result } = told {
                    Told::Extended { round, result }
                } else {
                    told
                };
                self.alive_when_told(client, &told);
                if let (Told::Inspected { .. }, Some(open)) =
                    (&told, &mut self.clients[client].inspecting)
                {
                    open.polled = shown;
                }
                self.clients[client].told.push_back(told);
            }
            Output::Transmit { node, bytes } => {
                let offered = bytes.len();
                // Only look at as much as the kernel takes, and the command after that.
                let bytes = &bytes[..offered.min(self.plan.window + BEHIND)];
                let mut copy = std::mem::take(&mut self.offered);
                copy.clear();
                copy.extend_from_slice(bytes);
                let len = match self.clients[client].links[node.index()] {
                    Some(conn) => self.transmit(client, conn, &copy),
                    None => 0,
                };
                self.offered = copy;
                self.offered_within_bounds(client, offered);
                self.clients[client].paths[node.index()].wrote(self.now, len == offered);
                self.input(client, Input::Transmitted { node, len });
            }
        }
        true
    }

    /// Writes, and records when.
    fn transmit(&mut self, client: usize, conn: usize, bytes: &[u8]) -> usize {
        self.is_newer_than_the_last(client, conn);
        let len = self.write(conn, bytes);
        self.watch_writes(conn, &bytes[..len]);
        let writing = self.writing(client);
        let writing = Writing {
            to_silent: self.is_beyond_patience(client, conn, writing.ticked_before),
            ..writing
        };
        let written = &mut self.conns[conn].written;
        written.wrote(len, len == bytes.len(), writing);
        len
    }

    /// Notes the pieces that wait until no transaction is open: they were requested in this turn, if not before.
    fn note_waiting(&mut self, client: usize) {
        let judged = self.plan.sets != 0 || self.plan.has_kept_locks();
        if !self.plan.is_bare() || !judged {
            return; // In other worlds much may wait, and no oracle judges for how long.
        }
        for node in 0..self.plan.nodes {
            let Some(conn) = self.clients[client].links[node] else {
                continue;
            };
            let writing = self.writing(client);
            self.asked_to_wait(client, conn, writing);
        }
    }

    /// Returns the place of what a client writes now.
    fn writing(&self, client: usize) -> Writing {
        let there = &self.clients[client];
        Writing {
            place: self.inputs,
            asked: there.flushed,
            since: there.turn_began,
            ticked: there.ticked,
            ticked_before: there.ticked_before,
            ..Writing::default()
        }
    }

    fn connect(&mut self, client: usize, node: NodeId) {
        let process = self.clients[client].process;
        let kept = self.clients[client].probes[node.index()].take();
        let conn = match kept.filter(|_| self.plan.switches.keeps_probes) {
            Some(probe) => {
                self.conns[probe].near.news = true;
                probe
            }
            None => self.open(client, process, node.index()),
        };
        self.conns[conn].id = Some(node);
        let there = &mut self.clients[client];
        there.links[node.index()] = Some(conn);
        let path = &mut there.paths[node.index()];
        (path.back_by, path.opened_shown) = (None, there.shown);
        path.far = (0, NEVER);
        self.opened(client, node.index());
        self.in_step(client, node.index());
    }

    /// Wakes a client for which bytes or room have arrived.
    pub(crate) fn wake_peer(&mut self, peer: usize) {
        if peer < self.clients.len() {
            self.wake_client(peer, self.plan.lag);
        } else {
            self.wake_stranger(peer);
        }
    }
}
