//! The world: true time, what happens when, and who is in it.
//!
//! One queue of events, ordered by true time and then by the order in which they were arranged. No
//! choice comes from anywhere but the [`Entropy`], no order comes from a hash, no real clock is
//! read: the same choices give the same history, byte for byte, on every machine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use shearline::LinkError;

use crate::client::Client;
use crate::clock::{Clock, MILLI, NEVER, SECOND, Time};
use crate::entropy::Entropy;
use crate::faults::Fault;
use crate::link::{Conn, End, Way};
use crate::oracle::{Oracle, Violation};
use crate::plan::Plan;
use crate::server::Server;
use crate::stranger::Stranger;
use crate::trace::Place;

/// How long the world is looked at after all is over.
const AFTERMATH: Time = 2 * SECOND;

/// Something that is going to happen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// Bytes arrive over a connection.
    Arrive(usize, Way),
    /// The opening of a connection reaches the server.
    Dial(usize),
    /// The server sees the end of a connection.
    EndFar(usize, End),
    EndNear(usize, LinkError),
    /// The client's kernel looks whether its bytes were acknowledged.
    UserTimeout(usize),
    /// It looks whether anybody is there, after a long silence.
    KeepAlive(usize),
    Serve(usize),
    Turn(usize),
    Stranger(usize),
    /// Another process begins in the place of one that was killed.
    Birth(usize),
    Fault,
    /// What has befallen a server is over.
    Over(usize, Fault),
    /// A server comes up, having lost something or not.
    Start(usize, bool),
    Heal(usize, usize, Way),
    Cheer(usize, u32),
    /// The oracles look around.
    Look,
}

#[derive(Debug)]
struct Arranged {
    at: Time,
    number: u64,
    event: Event,
}

impl PartialEq for Arranged {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Arranged {}

impl PartialOrd for Arranged {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Arranged {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// A machine: the clock that its clients share.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) clock: Clock,
    pub(crate) asleep_until: Time,
}

pub(crate) struct World {
    pub(crate) now: Time,
    queue: BinaryHeap<Reverse<Arranged>>,
    arranged: u64,
    pub(crate) entropy: Entropy,
    pub(crate) plan: Plan,
    pub(crate) hosts: Vec<Host>,
    pub(crate) servers: Vec<Server>,
    pub(crate) clients: Vec<Client>,
    pub(crate) strangers: Vec<Stranger>,
    pub(crate) conns: Vec<Conn>,
    /// By peer, node and way.
    pub(crate) partitions: Vec<Vec<[bool; 2]>>,
    pub(crate) oracle: Oracle,
    /// Nothing goes wrong any more.
    pub(crate) calm: bool,
    /// By when every lock has to be taken once more, then.
    pub(crate) taken_by: Time,
    /// Clients read a clock that stops while the machine sleeps.
    pub(crate) monotonic: bool,
    /// Inputs that engines were handed.
    pub(crate) inputs: u64,
    trace: Option<Vec<String>>,
    /// Memory that is used again: of servers, of their answers, of clients.
    pub(crate) scratch: Vec<u8>,
    pub(crate) replies: Vec<u8>,
    pub(crate) offered: Vec<u8>,
}

/// What is locked.
pub(crate) fn resource_name(resource: usize) -> [u8; 9] {
    let mut name = *b"resource0";
    name[8] += resource as u8;
    name
}

/// How fast a clock is, at most `most` either way.
pub(crate) fn skew(entropy: &mut Entropy, most: i64) -> i64 {
    let most = most.max(1) as u32;
    i64::from(entropy.below(2 * most)) - i64::from(most)
}

impl World {
    pub(crate) fn new(mut entropy: Entropy, traced: bool) -> Self {
        let plan = Plan::draw(&mut entropy);
        let hosts = (0..plan.hosts)
            .map(|_| Host {
                clock: Clock::new(SECOND, skew(&mut entropy, plan.client_drift)),
                asleep_until: 0,
            })
            .collect();
        let servers = (0..plan.servers)
            .map(|server| {
                let clock = Clock::new(SECOND, skew(&mut entropy, plan.server_drift));
                Server::new(server, plan.kinds, clock)
            })
            .collect();
        let mut world = Self {
            now: 0,
            queue: BinaryHeap::new(),
            arranged: 0,
            hosts,
            servers,
            clients: Vec::new(),
            strangers: Vec::new(),
            conns: Vec::new(),
            partitions: vec![vec![[false; 2]; plan.nodes]; plan.peers()],
            oracle: Oracle::new(&plan),
            calm: false,
            taken_by: NEVER,
            monotonic: false,
            inputs: 0,
            trace: traced.then(Vec::new),
            scratch: Vec::new(),
            replies: Vec::new(),
            offered: Vec::new(),
            entropy,
            plan,
        };
        let shown = format!("{:?}", world.plan);
        world.say(Place::World, || shown);
        for client in 0..world.plan.clients {
            let born = Client::new(&mut world, client);
            world.clients.push(born);
            world.wake_client(client, 0);
        }
        for peer in world.plan.clients..world.plan.peers() {
            let fast = skew(&mut world.entropy, world.plan.client_drift);
            let stranger = Stranger::new(&mut world, peer, fast);
            world.strangers.push(stranger);
            world.wake_stranger(peer);
        }
        world.at(world.plan.gap, Event::Fault);
        world.at(100 * MILLI, Event::Look);
        world
    }

    /// Runs a whole history: with faults, then without. What an oracle objected to, if one did.
    pub(crate) fn run(&mut self) -> Result<(), Violation> {
        self.run_until(self.plan.length)?;
        self.heal();
        self.run_until(self.awake_by())?;
        self.taken_by = self.now + self.plan.lock_within();
        let end = self.now + self.plan.patience();
        self.finish();
        while self.now < end && !self.is_settled() {
            self.run_until((self.now + 100 * MILLI).min(end))?;
            self.check_taken();
        }
        if !self.is_settled() {
            self.dump();
        }
        self.check_settled();
        self.run_until(self.now + AFTERMATH)?;
        self.check_clean();
        self.verdict()
    }

    /// By when all who were stopped go on.
    fn awake_by(&self) -> Time {
        let hosts = self.hosts.iter().map(|host| host.asleep_until);
        let clients = self.clients.iter().map(|client| client.stopped_until);
        hosts.chain(clients).fold(self.now, Time::max)
    }

    fn verdict(&mut self) -> Result<(), Violation> {
        self.oracle.violation.take().map_or(Ok(()), Err)
    }

    fn run_until(&mut self, end: Time) -> Result<(), Violation> {
        while let Some(Reverse(next)) = self.queue.peek() {
            if next.at > end {
                break;
            }
            let Some(Reverse(next)) = self.queue.pop() else {
                break;
            };
            self.now = next.at;
            self.happen(next.event);
            self.verdict()?;
        }
        self.now = end;
        Ok(())
    }

    pub(crate) fn at(&mut self, at: Time, event: Event) {
        if at < NEVER {
            self.arranged += 1;
            self.queue.push(Reverse(Arranged {
                at,
                number: self.arranged,
                event,
            }));
        }
    }

    fn happen(&mut self, event: Event) {
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
                self.look();
                self.at(self.now + 100 * MILLI, Event::Look);
            }
        }
    }

    /// The clock by which a client or a stranger lives.
    pub(crate) fn clock_of(&self, peer: usize) -> &Clock {
        match self.clients.get(peer) {
            Some(client) => &self.hosts[client.host].clock,
            None => &self.strangers[peer - self.clients.len()].clock,
        }
    }

    // ----- words about it ---------------------------------------------------------------------

    /// A line of the trace, if there is one.
    pub(crate) fn say(&mut self, place: Place, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!(
                "{:>12.3} ms  {place:?} {}",
                self.now as f64 / 1e6,
                what()
            ));
        }
    }

    pub(crate) fn into_story(self) -> (Vec<String>, Vec<u32>) {
        (self.trace.unwrap_or_default(), self.entropy.into_tape())
    }
}
