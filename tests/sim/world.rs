//! The world: true time, what happens when, and what carries bytes from one to the other.
//!
//! One queue of events, ordered by true time and then by the order in which they were arranged. No
//! choice comes from anywhere but the [`Entropy`], nothing is looked up by hash, no real clock is
//! read: the same choices give the same history, byte for byte, on every machine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use shearline::LinkError;
use shearline::resp::{Inbox, Limits};

use crate::client::Client;
use crate::clock::{Clock, MILLI, NEVER, SECOND, Time};
use crate::entropy::{Entropy, FATE, Recorded, client_strand, node_strand};
use crate::faults::FAULTS;
use crate::link::{Conn, FarState, Way};
use crate::oracle::{Deed, ENDLESS, Oracle, Verb, Violation};
use crate::plan::Plan;
use crate::server::{Mood, READ_BYTES, Server};
use crate::trace::{self, Place, Trace};

/// How long a client's kernel waits for an acknowledgement before it gives a connection up.
const USER_TIMEOUT: Time = 5 * SECOND;

/// More than a history ever takes that does not go round in circles.
const INPUTS_MAX: u64 = 50_000_000;

/// Odd, and nothing else about it matters.
const MIXER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Most words of a command that anybody here sends.
const WORDS_MAX: usize = 16;

/// Something that is going to happen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// Bytes arrive over a connection.
    Arrive(usize, Way),
    /// The opening of a connection reaches the server.
    Dial(usize),
    /// The server sees the end of a connection.
    EndFar(usize),
    EndNear(usize, LinkError),
    /// The client's kernel looks whether its bytes were acknowledged.
    UserTimeout(usize),
    Serve(usize),
    Turn(usize),
    Fault,
    Continue(usize),
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
    pub(crate) conns: Vec<Conn>,
    /// By client, node and way.
    pub(crate) partitions: Vec<Vec<[bool; 2]>>,
    pub(crate) oracle: Oracle,
    /// Nothing goes wrong any more.
    pub(crate) calm: bool,
    /// Inputs that engines were handed.
    pub(crate) inputs: u64,
    /// How often each of the faults happened.
    pub(crate) struck: [u64; FAULTS.len()],
    /// Of all that happened so far: equal in equal histories.
    pub(crate) fingerprint: u64,
    /// More inputs than this, and the history is broken off.
    pub(crate) inputs_max: u64,
    trace: Option<Trace>,
    scratch: Vec<u8>,
}

/// What is locked.
pub(crate) fn resource_name(resource: usize) -> [u8; 9] {
    let mut name = *b"resource0";
    name[8] += resource as u8;
    name
}

impl World {
    /// A world by a plan that `draw` makes.
    pub(crate) fn new(draw: fn(&mut Entropy) -> Plan, mut entropy: Entropy, traced: bool) -> Self {
        let plan = draw(&mut entropy);
        let worst = plan.switches.worst_clocks;
        let mut clock = |most: u32, worst_way: i64| {
            let fast = if worst {
                worst_way * i64::from(most)
            } else {
                entropy.around_zero(most)
            };
            Clock::new(SECOND, fast)
        };
        let hosts = (0..plan.hosts)
            .map(|_| Host {
                clock: clock(plan.client_drift, -1),
                asleep_until: 0,
            })
            .collect();
        let servers = (0..plan.nodes)
            .map(|node| Server::new(node as u64, clock(plan.server_drift, 1)))
            .collect();
        let mut world = Self {
            now: 0,
            queue: BinaryHeap::new(),
            arranged: 0,
            hosts,
            servers,
            clients: Vec::new(),
            conns: Vec::new(),
            partitions: vec![vec![[false; 2]; plan.nodes]; plan.clients],
            oracle: Oracle::new(&plan),
            calm: false,
            inputs: 0,
            struck: [0; FAULTS.len()],
            fingerprint: 0,
            inputs_max: INPUTS_MAX,
            trace: traced.then(|| Trace::new(&plan)),
            scratch: Vec::new(),
            entropy,
            plan,
        };
        for client in 0..world.plan.clients {
            let born = Client::new(&mut world, client);
            world.clients.push(born);
            world.at(0, Event::Turn(client));
        }
        world.at(world.plan.gap, Event::Fault);
        world.at(100 * MILLI, Event::Look);
        world
    }

    /// Runs a whole history: with faults, then without. What an oracle objected to, if one did.
    pub(crate) fn run(&mut self) -> Result<(), Violation> {
        self.run_until(self.plan.length)?;
        self.heal();
        for client in 0..self.clients.len() {
            self.clients[client].finishing = true;
            self.wake_client(client, 0);
        }
        let end = self.now + self.plan.patience();
        while self.now < end {
            self.run_until((self.now + 100 * MILLI).min(end))?;
            if self.is_settled() {
                break;
            }
        }
        self.check_settled();
        self.run_until(self.now + 2 * SECOND)?;
        self.check_clean();
        self.verdict()
    }

    fn verdict(&mut self) -> Result<(), Violation> {
        self.oracle.violation.take().map_or(Ok(()), Err)
    }

    fn run_until(&mut self, end: Time) -> Result<(), Violation> {
        while let Some(Reverse(next)) = self.queue.peek() {
            if next.at > end {
                break;
            }
            if self.entropy.is_all_spent() && !self.calm {
                return Ok(());
            }
            let Some(Reverse(next)) = self.queue.pop() else {
                break;
            };
            self.now = next.at;
            self.note(next.at);
            self.happen(next.event);
            self.verdict()?;
            if self.inputs > self.inputs_max {
                self.endless();
                self.verdict()?;
            }
        }
        self.now = end;
        Ok(())
    }

    /// Something goes round in circles.
    pub(crate) fn endless(&mut self) {
        let text = format!("no end after {} inputs", self.inputs);
        self.oracle.object(ENDLESS, self.now, text);
    }

    /// Takes a word into the fingerprint.
    fn note(&mut self, word: u64) {
        self.fingerprint = (self.fingerprint.rotate_left(5) ^ word).wrapping_mul(MIXER);
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

    /// Whose choices follow when something happens.
    fn strand_of(&self, event: Event) -> usize {
        match event {
            Event::Turn(client) => client_strand(client),
            Event::Serve(node) | Event::Start(node, _) | Event::Continue(node) => node_strand(node),
            Event::Arrive(conn, Way::ToClient) | Event::EndNear(conn, _) => {
                client_strand(self.conns[conn].client)
            }
            Event::Arrive(conn, Way::ToServer) | Event::EndFar(conn) => {
                node_strand(self.conns[conn].node.index())
            }
            _ => FATE,
        }
    }

    fn happen(&mut self, event: Event) {
        self.entropy.turn_to(self.strand_of(event), self.now);
        match event {
            Event::Arrive(conn, way) => self.arrive(conn, way),
            Event::Dial(conn) => self.dial(conn),
            Event::EndFar(conn) => self.end_far(conn),
            Event::EndNear(conn, reason) => self.end_near(conn, reason),
            Event::UserTimeout(conn) => self.user_timeout(conn),
            Event::Serve(node) => self.serve(node),
            Event::Turn(client) => self.turn(client),
            Event::Fault => self.fault(),
            Event::Continue(node) => self.proceed(node),
            Event::Start(node, lost) if !self.servers[node].up => self.start(node, lost),
            Event::Start(..) => {}
            Event::Heal(client, node, way) => self.heal_partition(client, node, way),
            Event::Cheer(node, number) => self.cheer(node, number),
            Event::Look => {
                self.snapshot();
                self.look();
                self.at(self.now + 100 * MILLI, Event::Look);
            }
        }
    }

    // ----- words about it ---------------------------------------------------------------------

    /// A line of the trace, if there is one.
    pub(crate) fn say(&mut self, place: Place, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            let clock = match place {
                Place::World => None,
                Place::Client(client) => {
                    let host = self.clients.get(client).map_or(0, |client| client.host);
                    Some(&self.hosts[host].clock)
                }
                Place::Node(node) => Some(&self.servers[node].clock),
            };
            let shown = clock.map(|clock| clock.show(self.now));
            trace.line(self.now, place, shown, &what());
        }
    }

    /// What happened, and what was chosen.
    pub(crate) fn into_story(self) -> (Vec<String>, Recorded) {
        let lines = self.trace.map(Trace::into_lines);
        (lines.unwrap_or_default(), self.entropy.into_recorded())
    }

    // ----- the network --------------------------------------------------------------------------

    pub(crate) fn delay(&mut self) -> Time {
        let tail = self.entropy.span(self.plan.delay_tail);
        self.plan.delay / 2 + self.entropy.span(self.plan.delay) + tail
    }

    /// Bytes leave for the other end. `mark`: when what they answer was sent.
    pub(crate) fn send(&mut self, conn: usize, way: Way, bytes: &[u8], mark: Time) {
        let link = &self.conns[conn];
        if link.cut {
            return;
        }
        for word in bytes.chunks(8) {
            let word = word
                .iter()
                .fold(0, |word, byte| word << 8 | u64::from(*byte));
            self.note(word);
        }
        let link = &self.conns[conn];
        let (client, node) = (link.client, link.node.index());
        let lost = link.dark || self.partitions[client][node][way as usize];
        let mut rest = bytes;
        while !rest.is_empty() {
            let len = if rest.len() > 1 && self.entropy.chance(self.plan.tear) {
                1 + self.entropy.below(rest.len() as u32 - 1) as usize
            } else {
                rest.len()
            };
            let (piece, later) = rest.split_at(len);
            rest = later;
            let at = if lost { NEVER } else { self.now + self.delay() };
            let link = &mut self.conns[conn];
            let pipe = match way {
                Way::ToServer => &mut link.up,
                Way::ToClient => &mut link.down,
            };
            let at = pipe.push(piece, self.now, at, mark);
            self.at(at, Event::Arrive(conn, way));
        }
        if way == Way::ToServer && self.conns[conn].up.is_held() {
            self.at(self.now + USER_TIMEOUT, Event::UserTimeout(conn));
        }
    }

    fn arrive(&mut self, conn: usize, way: Way) {
        let now = self.now;
        let link = &mut self.conns[conn];
        if link.dark {
            return;
        }
        match way {
            Way::ToServer => {
                let far = &mut link.far;
                if far.state == FarState::Gone {
                    link.up.keep(0);
                    return;
                }
                link.up.arrive(now, |bytes, len, mark| {
                    far.unread.extend(bytes);
                    far.received += len as u64;
                    far.marks.push_back((far.received, mark));
                });
                self.readable(conn);
            }
            Way::ToClient => {
                let near = &mut link.near;
                link.down.arrive(now, |bytes, _, mark| {
                    near.arrived.extend(bytes);
                    near.mark = near.mark.max(mark);
                });
                if !near.gone {
                    let client = link.client;
                    self.wake_client(client, self.plan.lag);
                }
            }
        }
    }

    /// The server has something to read.
    fn readable(&mut self, conn: usize) {
        let link = &mut self.conns[conn];
        let node = link.node.index();
        if link.far.state == FarState::Open && !link.far.ready {
            link.far.ready = true;
            self.servers[node].ready.push_back(conn);
        }
        self.wake_server(node);
    }

    pub(crate) fn wake_server(&mut self, node: usize) {
        let server = &mut self.servers[node];
        if server.up && !server.stalled && !server.serving {
            server.serving = true;
            let lag = self.entropy.span(self.plan.lag);
            self.at(self.now + lag, Event::Serve(node));
        }
    }

    /// A client opens a connection. Its number.
    pub(crate) fn open(&mut self, client: usize, node: shearline::engine::NodeId) -> usize {
        let conn = self.conns.len();
        self.conns.push(Conn::new(client, node));
        let cut = self.partitions[client][node.index()];
        if cut == [false; 2] {
            let delay = self.delay() + self.delay();
            self.at(self.now + delay, Event::Dial(conn));
        }
        conn
    }

    fn dial(&mut self, conn: usize) {
        let link = &mut self.conns[conn];
        let (client, node) = (link.client, link.node.index());
        if link.near.gone {
            return;
        }
        if self.servers[node].up {
            link.far.state = FarState::Backlog;
            link.near.news = true;
            self.servers[node].backlog.push_back(conn);
            self.wake_server(node);
        } else {
            link.near.end = Some(LinkError::Refused);
        }
        self.wake_client(client, self.plan.lag);
    }

    /// A client lets go of a connection by a reset: of what is on its way some arrives first.
    pub(crate) fn abort(&mut self, conn: usize) {
        let link = &mut self.conns[conn];
        link.near.gone = true;
        link.cut = true;
        link.down.keep(0);
        let sent = link.up.segments();
        let kept = if link.up.is_held() || link.dark {
            0
        } else {
            self.entropy.below(sent as u32 + 1) as usize
        };
        self.conns[conn].up.keep(kept);
        self.hurry(conn);
        let (client, node) = (self.conns[conn].client, self.conns[conn].node.index());
        if !self.partitions[client][node][Way::ToServer as usize] {
            self.end_far_later(conn);
        }
    }

    /// What a connection that has ended still brings does not come behind that of a later one.
    pub(crate) fn hurry(&mut self, conn: usize) {
        let now = self.now;
        self.conns[conn].up.hurry(now);
        self.arrive(conn, Way::ToServer);
    }

    fn end_far(&mut self, conn: usize) {
        self.arrive(conn, Way::ToServer);
        let link = &mut self.conns[conn];
        let node = link.node.index();
        match link.far.state {
            FarState::Gone => {}
            // Never accepted: it is as if it had never been.
            FarState::Backlog => {
                link.forget_far();
                self.servers[node]
                    .backlog
                    .retain(|waiting| *waiting != conn);
            }
            FarState::Open => {
                link.far.ended = true;
                self.readable(conn);
            }
        }
    }

    fn end_near(&mut self, conn: usize, reason: LinkError) {
        self.arrive(conn, Way::ToClient);
        let link = &mut self.conns[conn];
        if link.near.gone || link.near.end.is_some() {
            return;
        }
        link.near.end = Some(reason);
        link.up.keep(0);
        let client = link.client;
        self.wake_client(client, self.plan.lag);
    }

    fn user_timeout(&mut self, conn: usize) {
        let link = &mut self.conns[conn];
        if link.near.gone || link.near.end.is_some() {
            return;
        }
        let blocked = link.near.blocked.then_some(link.near.blocked_since);
        let held = link.up.oldest().filter(|_| link.up.is_held());
        let Some(since) = held.into_iter().chain(blocked).min() else {
            return;
        };
        if since + USER_TIMEOUT > self.now {
            self.at(since + USER_TIMEOUT, Event::UserTimeout(conn));
            return;
        }
        const TIMED_OUT: i32 = 110;
        link.up.keep(0);
        link.near.end = Some(LinkError::Os(TIMED_OUT));
        let client = link.client;
        self.wake_client(client, self.plan.lag);
    }

    /// The client's kernel takes as much of `bytes` as it has room for.
    pub(crate) fn write(&mut self, conn: usize, bytes: &[u8]) -> usize {
        let link = &self.conns[conn];
        let waiting = link.up.len() + link.far.unread.len();
        let len = bytes.len().min(self.plan.window.saturating_sub(waiting));
        if len > 0 {
            let (client, node) = (link.client, link.node.index());
            self.say(Place::Client(client), || {
                format!("to node {node}: {}", trace::commands(&bytes[..len]))
            });
            self.send(conn, Way::ToServer, &bytes[..len], self.now);
        }
        let near = &mut self.conns[conn].near;
        if len < bytes.len() && !near.blocked {
            near.blocked = true;
            near.blocked_since = self.now;
            self.at(self.now + USER_TIMEOUT, Event::UserTimeout(conn));
        }
        len
    }

    // ----- servers ------------------------------------------------------------------------------

    /// One turn of a server's loop.
    fn serve(&mut self, node: usize) {
        let server = &mut self.servers[node];
        server.serving = false;
        if !server.up || server.stalled {
            return;
        }
        let mut ready = std::mem::take(&mut server.ready);
        if ready.len() > 1 {
            let first = self.entropy.below(ready.len() as u32) as usize;
            ready.rotate_left(first);
        }
        for conn in ready.drain(..) {
            self.read(node, conn);
        }
        let server = &mut self.servers[node];
        ready.append(&mut server.ready);
        server.ready = ready;
        while let Some(conn) = self.servers[node].backlog.pop_front() {
            let server = &mut self.servers[node];
            let link = &mut self.conns[conn];
            link.far.state = FarState::Open;
            link.far.session = Some(server.store.session());
            server.open.push(conn);
            if !link.far.unread.is_empty() {
                self.readable(conn);
            }
        }
        if !self.servers[node].ready.is_empty() {
            self.wake_server(node);
        }
    }

    /// The server reads from one connection, and answers what it has read.
    fn read(&mut self, node: usize, conn: usize) {
        let link = &mut self.conns[conn];
        link.far.ready = false;
        if link.far.state != FarState::Open {
            return;
        }
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        let len = link.far.unread.len().min(READ_BYTES);
        bytes.extend(link.far.unread.drain(..len));
        let mut commands = std::mem::replace(&mut link.far.commands, Inbox::new(Limits::DEFAULT));
        let mut replies = Vec::new();
        let mut newest = 0;
        let mut piece = &bytes[..];
        while let Ok(Some(frame)) = commands.next(&mut piece) {
            let far = &mut self.conns[conn].far;
            far.consumed += frame.len as u64;
            let mut sent = 0;
            while let Some((end, mark)) = far.marks.front() {
                sent = *mark;
                if *end >= far.consumed {
                    break;
                }
                far.marks.pop_front();
            }
            let mut words: [&[u8]; WORDS_MAX] = [&[]; WORDS_MAX];
            let mut count = 0;
            for word in frame.value.as_items().into_iter().flatten() {
                words[count] = word.as_bytes().unwrap_or_default();
                count += 1;
            }
            let start = replies.len();
            self.execute(node, conn, sent, &words[..count], &mut replies);
            // An error is no answer that settles anything.
            if replies.get(start) != Some(&b'-') {
                newest = sent;
            }
        }
        self.scratch = bytes;
        let link = &mut self.conns[conn];
        link.far.commands = commands;
        if !replies.is_empty() && !link.far.ended {
            self.send(conn, Way::ToClient, &replies, newest);
        }
        let link = &mut self.conns[conn];
        if !link.far.unread.is_empty() {
            self.readable(conn);
        } else if link.far.ended {
            link.forget_far();
            self.servers[node].open.retain(|open| *open != conn);
        }
        let client = self.conns[conn].client;
        if self.conns[conn].near.blocked {
            self.wake_client(client, self.plan.lag);
        }
    }

    fn execute(
        &mut self,
        node: usize,
        conn: usize,
        sent: Time,
        words: &[&[u8]],
        out: &mut Vec<u8>,
    ) {
        let client = self.conns[conn].client;
        let server = &mut self.servers[node];
        let shown = server.clock.show(self.now);
        let start = out.len();
        let (verb, key) = Verb::of(words);
        let before = key.and_then(|key| self.oracle.token_at(&server.store, shown, key));
        let mood = server.mood;
        match mood.answer(words, before.is_some()) {
            Some(refusal) => out.extend_from_slice(refusal),
            None => {
                if let Some(session) = &mut self.conns[conn].far.session {
                    server.store.execute(session, shown, words, out);
                }
            }
        }
        if let Some(key) = key {
            let after = self.oracle.token_at(&server.store, shown, key);
            let deed = Deed {
                node,
                client,
                at: self.now,
                sent,
                shown,
                verb,
                words,
                reply: &out[start..],
                before,
                after,
                calm: mood == Mood::Fine,
            };
            self.oracle.executed(&deed, &server.clock);
        }
        self.say(Place::Node(node), || {
            let reply = trace::raw(&out[start..]);
            format!("of client {client}: {}: {reply}", trace::command(words))
        });
    }

    /// What is on disk, ten times a second.
    fn snapshot(&mut self) {
        let now = self.now;
        for server in &mut self.servers {
            if server.up {
                server.snapshots.push_back((now, server.store.clone()));
                if server.snapshots.len() > 12 {
                    server.snapshots.pop_front();
                }
            }
        }
    }
}
