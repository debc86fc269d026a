//! The world: true time, the events, and everything in it.
//!
//! There is one queue of events, ordered by true time and then by the order of scheduling. All choices come from the
//! [`Entropy`], no order comes from a hash, and no real clock is read: the same choices give the same history, byte for
//! byte, on every machine.

use std::collections::BTreeMap;

use shearline::internals::LinkFault;

use crate::client::Client;
use crate::clock::{Clock, MILLI, NEVER, SECOND, Time};
use crate::entropy::{Entropy, FATE, Recorded, peer_strand, server_strand};
use crate::faults::Fault;
use crate::link::{Conn, End, Way};
use crate::oracle::{ENDLESS, Oracle, Violation};
use crate::plan::{Guard, Plan};
use crate::server::Server;
use crate::stranger::Stranger;
use crate::trace::{Place, Trace};
use crate::watchdog;

/// How long the world continues after everything is over.
const AFTERMATH: Time = 2 * SECOND;

/// The uptime of all servers when the world begins.
const LONG_UP: Time = 1_000 * SECOND;

/// More inputs than any history with an end takes.
const INPUTS_MAX: u64 = 50_000_000;

/// An odd number; any other would do.
const MIXER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Something that is going to happen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// Bytes arrive over a connection.
    Arrive(usize, Way),
    /// The opening of a connection reaches the server.
    Dial(usize),
    /// The server sees the end of a connection.
    EndFar(usize, End),
    EndNear(usize, LinkFault),
    /// The client's kernel checks whether its bytes were acknowledged.
    UserTimeout(usize),
    /// It checks whether the other end is there, after a long silence.
    KeepAlive(usize),
    Serve(usize),
    Turn(usize),
    Stranger(usize),
    /// Another process replaces one that was killed.
    Birth(usize),
    Fault,
    /// A fault of a server is over.
    Over(usize, Fault),
    /// A server comes up, with or without all of its data.
    Start(usize, bool),
    Heal(usize, usize, Way),
    Cheer(usize, u32),
    /// The oracles check everything.
    Look,
}

/// A machine: the clock that its clients share.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) clock: Clock,
    pub(crate) asleep_until: Time,
}

pub(crate) struct World {
    pub(crate) now: Time,
    /// What is going to happen, by its time and then by the order of scheduling.
    events: BTreeMap<(Time, u64), Event>,
    scheduled: u64,
    pub(crate) entropy: Entropy,
    pub(crate) plan: Plan,
    pub(crate) hosts: Vec<Host>,
    pub(crate) servers: Vec<Server>,
    /// By how many microseconds the wall clock of each machine is ahead, where there are fencing tokens.
    pub(crate) walls: Vec<Option<i64>>,
    /// The names of the resources.
    pub(crate) names: Vec<[u8; 9]>,
    pub(crate) clients: Vec<Client>,
    pub(crate) strangers: Vec<Stranger>,
    pub(crate) conns: Vec<Conn>,
    /// The numbers of the connections, by peer and node.
    pub(crate) opened: Vec<Vec<Vec<usize>>>,
    /// Whether there is a partition, by peer, node and direction.
    pub(crate) partitions: Vec<Vec<[bool; 2]>>,
    /// The digest of the script that is a `SET` where servers carry markers, once it was loaded.
    pub(crate) fenced_set: Vec<u8>,
    pub(crate) oracle: Oracle,
    /// How many calls users have made.
    pub(crate) calls: u64,
    /// There are no more faults.
    pub(crate) calm: bool,
    /// By when every lock has to be taken once more after the faults.
    pub(crate) taken_by: Time,
    /// The number of inputs of engines, and how many are too many.
    pub(crate) inputs: u64,
    pub(crate) inputs_max: u64,
    /// How often a machine has stood still with its clock.
    pub(crate) frozen: u32,
    /// A hash of all events so far: equal in equal histories.
    pub(crate) fingerprint: u64,
    trace: Option<Trace>,
    /// Memory that is reused: of servers, of their answers, of clients.
    pub(crate) scratch: Vec<u8>,
    pub(crate) replies: Vec<u8>,
    pub(crate) offered: Vec<u8>,
}

/// Returns the name of a resource. The last byte distinguishes them.
fn resource_name(resource: usize) -> [u8; 9] {
    let mut name = *b"resource0";
    name[8] += resource as u8;
    name
}

impl World {
    /// Makes a world with a plan that `draw` draws.
    pub(crate) fn new(draw: fn(&mut Entropy) -> Plan, mut entropy: Entropy, traced: bool) -> Self {
        let plan = draw(&mut entropy);
        let host = |_| Host {
            clock: Clock::new(SECOND, plan.client_skew(&mut entropy)),
            asleep_until: 0,
        };
        let hosts = (0..plan.hosts).map(host).collect();
        let servers = (0..plan.servers)
            .map(|server| {
                let clock = Clock::new(LONG_UP, plan.server_skew(&mut entropy));
                let mut server = Server::new(server, &plan, clock);
                server.store.set_password(plan.password());
                server
            })
            .collect();
        let walls = plan.draw_walls(&mut entropy);
        let mut world = Self {
            now: 0,
            events: BTreeMap::new(),
            scheduled: 0,
            hosts,
            servers,
            walls,
            names: (0..plan.resources).map(resource_name).collect(),
            clients: Vec::new(),
            strangers: Vec::new(),
            conns: Vec::new(),
            opened: vec![vec![Vec::new(); plan.nodes]; plan.peers()],
            partitions: vec![vec![[false; 2]; plan.nodes]; plan.peers()],
            fenced_set: Vec::new(),
            oracle: Oracle::new(&plan),
            calls: 0,
            calm: false,
            taken_by: NEVER,
            inputs: 0,
            inputs_max: INPUTS_MAX,
            frozen: 0,
            fingerprint: 0,
            trace: traced.then(|| Trace::new(&plan)),
            scratch: Vec::new(),
            replies: Vec::new(),
            offered: Vec::new(),
            entropy,
            plan,
        };
        for client in 0..world.plan.clients {
            let born = Client::new(&mut world, client);
            world.clients.push(born);
            world.wake_client(client, 0);
            if world.plan.is_late(client) {
                world.kill_client(client, 100 * MILLI);
            }
        }
        for peer in world.plan.clients..world.plan.peers() {
            let fast = world.plan.client_skew(&mut world.entropy);
            let stranger = Stranger::new(&mut world, peer, fast);
            world.strangers.push(stranger);
            world.wake_stranger(peer);
        }
        world.at(world.plan.gap, Event::Fault);
        world.at(100 * MILLI, Event::Look);
        world
    }

    /// Runs a whole history: with faults, then without. Returns what an oracle objected to, if one
    /// did.
    pub(crate) fn run(&mut self) -> Result<(), Violation> {
        self.run_until(self.plan.length)?;
        self.heal();
        let healed = self.now;
        self.run_until(self.awake_by())?;
        self.taken_by = self.now + self.plan.lock_within();
        let end = self.now + self.plan.patience();
        self.finish();
        while self.now < end && !self.is_settled() {
            self.run_until((self.now + 100 * MILLI).min(end))?;
            self.check_taken();
        }
        self.check_settled();
        let marked = self.plan.guard == Guard::Strict;
        let barriers = if marked { self.plan.lock_within() } else { 0 };
        self.run_until((self.now + AFTERMATH).max(healed + barriers))?;
        self.end_watches();
        self.check_clean();
        self.check_voting();
        self.verdict()
    }

    /// Returns by when all stopped processes run again.
    fn awake_by(&self) -> Time {
        let hosts = self.hosts.iter().map(|host| host.asleep_until);
        let clients = self.clients.iter().map(|client| client.stopped_until);
        hosts.chain(clients).fold(self.now, Time::max)
    }

    fn verdict(&mut self) -> Result<(), Violation> {
        self.oracle.violation.take().map_or(Ok(()), Err)
    }

    fn run_until(&mut self, end: Time) -> Result<(), Violation> {
        while let Some(next) = self.events.first_entry().filter(|next| next.key().0 <= end) {
            if self.entropy.is_all_spent() && !self.calm {
                return Ok(());
            }
            let ((at, _), event) = next.remove_entry();
            self.now = at;
            self.note(at);
            self.happen(event);
            if self.inputs > self.inputs_max {
                self.endless();
            }
            self.verdict()?;
        }
        self.now = end;
        Ok(())
    }

    /// Objects to a history without an end.
    pub(crate) fn endless(&mut self) {
        self.object(ENDLESS, format!("no end after {} inputs", self.inputs));
    }

    /// Adds a word to the fingerprint.
    pub(crate) fn note(&mut self, word: u64) {
        watchdog::beat();
        self.fingerprint = (self.fingerprint.rotate_left(5) ^ word).wrapping_mul(MIXER);
    }

    pub(crate) fn at(&mut self, at: Time, event: Event) {
        if at < NEVER {
            self.scheduled += 1;
            self.events.insert((at, self.scheduled), event);
        }
    }

    /// Returns the strand of choices of an event.
    fn strand_of(&self, event: Event) -> usize {
        match event {
            Event::Turn(peer) | Event::Stranger(peer) | Event::Birth(peer) => peer_strand(peer),
            Event::Serve(server)
            | Event::Over(server, _)
            | Event::Start(server, _)
            | Event::Cheer(server, _) => server_strand(server),
            Event::Arrive(conn, Way::ToServer) | Event::Dial(conn) | Event::EndFar(conn, _) => {
                server_strand(self.conns[conn].server)
            }
            Event::Arrive(conn, Way::ToClient)
            | Event::EndNear(conn, _)
            | Event::UserTimeout(conn)
            | Event::KeepAlive(conn) => peer_strand(self.conns[conn].peer),
            Event::Fault | Event::Heal(..) | Event::Look => FATE,
        }
    }

    fn happen(&mut self, event: Event) {
        self.entropy.turn_to(self.strand_of(event), self.now);
        match event {
            Event::Arrive(conn, way) => self.arrive(conn, way),
            Event::Dial(conn) => self.dial(conn),
            Event::EndFar(conn, end) => self.end_far(conn, end),
            Event::EndNear(conn, reason) => self.end_near(conn, reason),
            Event::UserTimeout(conn) => self.user_timeout(conn),
            Event::KeepAlive(conn) => self.keep_alive(conn),
            Event::Serve(server) => self.serve(server),
            Event::Turn(client) => self.turn(client),
            Event::Stranger(peer) => self.stranger_turn(peer),
            Event::Birth(client) => self.bear_client(client),
            Event::Fault => self.fault(),
            Event::Over(server, fault) => self.over(server, fault),
            Event::Start(server, lost) => self.start(server, lost),
            Event::Heal(peer, node, way) => self.heal_partition(peer, node, way),
            Event::Cheer(server, number) => self.cheer(server, number),
            Event::Look => {
                self.snapshot();
                self.expire_some();
                self.look();
                self.tend_floors();
                self.false_steps();
                self.at(self.now + 100 * MILLI, Event::Look);
            }
        }
    }

    /// Returns the clock of a client or a stranger.
    pub(crate) fn clock_of(&self, peer: usize) -> &Clock {
        match self.clients.get(peer) {
            Some(client) => &self.hosts[client.host].clock,
            None => &self.strangers[peer - self.clients.len()].clock,
        }
    }

    // ----- words about it ---------------------------------------------------------------------

    /// Adds a line to the trace, if there is one.
    pub(crate) fn say(&mut self, place: Place, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            let clock = match place {
                Place::World => None,
                Place::Client(client) => {
                    let host = self.clients.get(client).map_or(0, |client| client.host);
                    Some(&self.hosts[host].clock)
                }
                Place::Stranger(stranger) => Some(&self.strangers[stranger].clock),
                Place::Server(server) => Some(&self.servers[server].clock),
            };
            let shown = clock.map(|clock| clock.show(self.now));
            trace.line(self.now, place, shown, &what());
        }
    }

    /// Adds a line about a client.
    pub(crate) fn client_says(&mut self, client: usize, what: impl FnOnce() -> String) {
        self.say(Place::Client(client), what);
    }

    /// Returns the place of a client or a stranger in the trace.
    pub(crate) fn place_of(&self, peer: usize) -> Place {
        match peer.checked_sub(self.plan.clients) {
            None => Place::Client(peer),
            Some(stranger) => Place::Stranger(stranger),
        }
    }

    /// Returns what happened, and what was chosen.
    pub(crate) fn into_story(self) -> (Vec<String>, Recorded) {
        let lines = self.trace.map(|trace| trace.0);
        (lines.unwrap_or_default(), self.entropy.into_recorded())
    }
}
