//! Several clients and the nodes between them. Messages arrive at once, unless they are held up.

use alloc::collections::VecDeque;

use super::*;
use crate::config::{Builder, RestartGuard};
use crate::embedded::Memory;
use crate::embedded::session::Session;
use crate::embedded::store::Store;
use crate::engine::operators::OperatorError;
use crate::node::{JOIN, TAKE_SEVERAL};
use crate::resource::MARKER_KEY;

/// The largest number of exchanges between clients and nodes at one instant, in each of which an answer causes another
/// question.
const ROUNDS_MAX: usize = 10_000;

pub(super) type Locked = Result<Lock, LockError>;
pub(super) type Extended = Result<(), ExtendError>;

pub(super) struct Net {
    pub(super) now: Instant,
    pub(super) clients: Vec<Client>,
    pub(super) nodes: Vec<Node>,
    restarts: u64,
    /// The number of connections so far.
    connections: u64,
}

pub(super) struct Client {
    pub(super) engine: Engine,
    links: Vec<Link>,
    pub(super) events: VecDeque<Event>,
    /// The number of commands that it has sent, and how many of these asked the first node for several names.
    pub(super) sent: usize,
    pub(super) sets: usize,
}

pub(super) struct Node {
    pub(super) store: Store,
    away: bool,
    /// How often the node was asked to join.
    joins: usize,
}

/// One client's connection to one node.
#[derive(Default)]
struct Link {
    number: u64,
    session: Option<Session>,
    inbox: Option<Inbox>,
    /// The commands that the node has not executed.
    waiting: VecDeque<Vec<Vec<u8>>>,
    /// The answers of the node that the client has not read.
    answers: Vec<u8>,
    held: bool,
}

/// Returns a builder for a client of the first `nodes` nodes.
pub(super) fn builder(nodes: usize) -> Builder {
    named(nodes)
        .watch_clocks(false)
        .restart_guard(RestartGuard::Strict)
}

impl Net {
    pub(super) fn new(nodes: u64) -> Self {
        let now = Instant::from_millis(1_000);
        let node = |seed| Node {
            store: Store::new(seed, now),
            away: false,
            joins: 0,
        };
        Self {
            now,
            clients: Vec::new(),
            nodes: (0..nodes).map(node).collect(),
            restarts: 100,
            connections: 0,
        }
    }

    /// Makes another client, which has greeted all nodes that it can reach. Returns its number.
    pub(super) fn client(&mut self, builder: Builder) -> usize {
        let config = builder.config().expect("valid");
        let seed = [self.clients.len() as u8; 32];
        self.clients.push(Client {
            engine: Engine::new(&config, seed, self.now),
            links: config.nodes().iter().map(|_| Link::default()).collect(),
            events: VecDeque::new(),
            sent: 0,
            sets: 0,
        });
        self.pump();
        self.clients.len() - 1
    }

    // ----- the world ------------------------------------------------------------------------

    /// Lets everything happen that takes no time.
    pub(super) fn pump(&mut self) {
        for _ in 0..ROUNDS_MAX {
            if !(0..self.clients.len()).any(|client| self.serve(client)) {
                return;
            }
        }
        panic!("clients and nodes talk without end, and no time passes");
    }

    /// Does everything for a client that needs no other client. Returns `true` if anything happened.
    pub(super) fn serve(&mut self, client: usize) -> bool {
        let mut busy = self.drain(client);
        for node in 0..self.clients[client].links.len() {
            while self.execute(client, node) {}
        }
        for node in 0..self.clients[client].links.len() {
            busy |= self.receive(client, node);
        }
        busy
    }

    /// Carries out the outputs of a client. The commands that it sends wait.
    pub(super) fn drain(&mut self, client: usize) -> bool {
        let mut busy = false;
        while self.act(client) {
            busy = true;
        }
        busy
    }

    fn act(&mut self, client: usize) -> bool {
        let now = self.now;
        let Client {
            engine,
            links,
            events,
            sent,
            sets,
        } = &mut self.clients[client];
        match engine.poll(now) {
            None => return false,
            Some(Output::Connect { node }) => {
                let there = &mut self.nodes[node.index()];
                let reason = LinkFault::Refused.into();
                let input = match there.away {
                    true => Input::Disconnected { node, reason },
                    false => {
                        self.connections += 1;
                        links[node.index()].connect(self.connections);
                        Input::Connected { node }
                    }
                };
                engine.handle(now, input);
            }
            Some(Output::Disconnect { node }) => self.end_link(client, node.index()),
            Some(Output::Probe { .. } | Output::CloseProbe { .. }) => {}
            Some(Output::Event(Event::FloorsGiven { .. })) => {} // The granted locks show this.
            Some(Output::Event(event)) => events.push_back(event),
            Some(Output::Transmit { node, bytes }) => {
                let len = bytes.len();
                for words in links[node.index()].read(bytes) {
                    let text = words.get(1).map(Vec::as_slice);
                    let takes = text == Some(TAKE_SEVERAL.text.as_bytes());
                    *sets += usize::from(takes && node.index() == 0);
                    *sent += 1;
                }
                engine.handle(now, Input::Transmitted { node, len });
            }
        }
        true
    }

    /// `node` executes the next command of a client. Returns `false` if there is none.
    pub(super) fn execute(&mut self, client: usize, node: usize) -> bool {
        let link = &mut self.clients[client].links[node];
        let (Some(words), Some(session)) = (link.waiting.pop_front(), &mut link.session) else {
            return false;
        };
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let there = &mut self.nodes[node];
        there.joins += usize::from(words.get(1) == Some(&JOIN.text.as_bytes()));
        let out = &mut link.answers;
        there.store.execute(session, self.now, &words, out);
        self.tell(node);
        true
    }

    /// Appends the notifications of `node` to its answers to the clients that asked for them.
    fn tell(&mut self, node: usize) {
        while let Some((number, push)) = self.nodes[node].store.poll_push() {
            let clients = self.clients.iter_mut();
            let mut links = clients.filter_map(|client| client.links.get_mut(node));
            if let Some(link) = links.find(|link| link.number == number) {
                link.answers.extend(push);
            }
        }
    }

    /// A client reads the answers of `node`. Returns `true` if there are any.
    pub(super) fn receive(&mut self, client: usize, node: usize) -> bool {
        let Client { engine, links, .. } = &mut self.clients[client];
        let link = &mut links[node];
        if link.held || link.answers.is_empty() {
            return false;
        }
        let bytes = &core::mem::take(&mut link.answers)[..];
        let node = id(node);
        engine.handle(self.now, Input::Received { node, bytes });
        true
    }

    /// Moves the time, and lets timers fire.
    pub(super) fn pass(&mut self, span: Duration) {
        let end = self.now.saturating_add(span);
        loop {
            let engines = self.clients.iter().map(|client| &client.engine);
            let next = engines.filter_map(Engine::poll_timeout).map(|(at, _)| at);
            self.now = self.now.max(next.min().unwrap_or(end).min(end));
            for client in &mut self.clients {
                client.engine.handle(self.now, Input::Tick);
            }
            self.pump();
            if self.now == end {
                return;
            }
        }
    }

    /// The connection of a client to `node` ends. The node has executed all its commands, but no answer arrives.
    fn end_link(&mut self, client: usize, node: usize) {
        while self.execute(client, node) {}
        let link = &mut self.clients[client].links[node];
        if let Some(session) = link.session.take() {
            self.nodes[node].store.disconnect(&session);
        }
        link.answers.clear();
    }

    /// Like [`end_link`](Self::end_link), but the client also learns of it.
    pub(super) fn cut_link(&mut self, client: usize, node: usize) {
        let link = self.clients[client].links.get(node);
        if link.is_some_and(|link| link.session.is_some()) {
            self.end_link(client, node);
            let (node, reason) = (id(node), LinkFault::Reset.into());
            let engine = &mut self.clients[client].engine;
            engine.handle(self.now, Input::Disconnected { node, reason });
        }
    }

    /// Makes `node` unreachable for all clients, or reachable again.
    pub(super) fn unreachable(&mut self, node: usize, away: bool) {
        self.nodes[node].away = away;
        if away {
            self.reconnect(node);
        }
    }

    /// Breaks all connections to `node`, which does not change otherwise.
    pub(super) fn reconnect(&mut self, node: usize) {
        (0..self.clients.len()).for_each(|client| self.cut_link(client, node));
        self.pump();
    }

    pub(super) fn restart(&mut self, node: usize, memory: Memory) {
        self.restarts += 1;
        let (seed, now) = (self.restarts, self.now);
        self.nodes[node].store.restart(seed, now, memory);
        self.reconnect(node);
    }

    /// Holds back the answers of `node` to `client`.
    pub(super) fn hold(&mut self, client: usize, node: usize) {
        self.clients[client].links[node].held = true;
    }

    pub(super) fn let_through(&mut self, client: usize, node: usize) {
        self.clients[client].links[node].held = false;
        self.pump();
    }

    pub(super) fn admin(&mut self, node: usize, line: &str) {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.run(node, &words);
    }

    pub(super) fn set(&mut self, node: usize, key: &[u8], value: &[u8]) {
        self.run(node, &[b"SET", key, value]);
    }

    /// Returns the marker of `node`, which has one.
    pub(super) fn marker(&self, node: usize) -> String {
        self.value(node, MARKER_KEY).expect("a marker")
    }

    /// Makes the marker of `node` that of a group of five nodes.
    pub(super) fn mark_as_anothers(&mut self, node: usize) {
        let marker = self.marker(node);
        let mut words: Vec<&str> = marker.split(' ').collect();
        words[3..5].copy_from_slice(&["5", "3"]);
        self.set(node, MARKER_KEY, words.join(" ").as_bytes());
    }

    fn run(&mut self, node: usize, words: &[&[u8]]) {
        let store = &mut self.nodes[node].store;
        let mut session = Store::session();
        let mut out = Vec::new();
        store.execute(&mut session, self.now, words, &mut out);
        store.disconnect(&session);
        assert_ne!(out[0], b'-', "{}", out.escape_ascii());
        self.tell(node);
    }

    pub(super) fn value(&self, node: usize, key: &[u8]) -> Option<String> {
        let value = self.nodes[node].store.get(self.now, key)?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    pub(super) fn joins(&self, node: usize) -> usize {
        self.nodes[node].joins
    }

    // ----- the clients ----------------------------------------------------------------------

    pub(super) fn acquire(&mut self, client: usize, resource: &[u8], ttl: Duration) -> RoundId {
        self.asks(client, resource, &LockOptions::new(ttl).tries(1))
    }

    pub(super) fn asks(&mut self, client: usize, name: &[u8], options: &LockOptions) -> RoundId {
        let request = Request::new(name, options);
        let engine = &mut self.clients[client].engine;
        let round = engine.acquire(self.now, &request).expect("valid");
        self.pump();
        round
    }

    pub(super) fn event(&mut self, client: usize) -> Option<Event> {
        self.clients[client].events.pop_front()
    }

    /// Skips losses that were reported meanwhile.
    fn outcome(&mut self, client: usize) -> Event {
        for _ in 0..1_000 {
            self.pump();
            match self.event(client) {
                Some(Event::Expired { .. }) => {}
                Some(event) => return event,
                None => self.pass(10 * MS),
            }
        }
        panic!("no outcome")
    }

    pub(super) fn acquired(&mut self, client: usize) -> (RoundId, Locked) {
        match self.outcome(client) {
            Event::Acquired { round, result } => (round, result),
            other => panic!("{other:?}"),
        }
    }

    /// Makes one try.
    pub(super) fn try_lock(&mut self, client: usize, ttl: Duration) -> Locked {
        self.lock_with(client, &LockOptions::new(ttl).tries(1))
    }

    /// Makes as many tries as the handle allows.
    pub(super) fn lock(&mut self, client: usize, ttl: Duration) -> Locked {
        self.lock_with(client, &LockOptions::new(ttl))
    }

    pub(super) fn lock_with(&mut self, client: usize, options: &LockOptions) -> Locked {
        let request = Request::new(b"k", options);
        let engine = &mut self.clients[client].engine;
        engine.acquire(self.now, &request)?;
        self.acquired(client).1
    }

    pub(super) fn extend(&mut self, client: usize, lock: &mut Lock, ttl: Duration) -> Extended {
        let engine = &mut self.clients[client].engine;
        engine.extend(self.now, lock, ttl)?;
        self.extended(client, lock)
    }

    pub(super) fn confirm(&mut self, client: usize, lock: &mut Lock) -> Extended {
        let engine = &mut self.clients[client].engine;
        engine.confirm(self.now, lock)?;
        self.extended(client, lock)
    }

    pub(super) fn extended(&mut self, client: usize, lock: &mut Lock) -> Extended {
        match self.outcome(client) {
            Event::Extended { result, .. } | Event::Confirmed { result, .. } => result,
            other => panic!("{other:?}"),
        }
        .map(|extension| assert!(extension.apply(lock)))
    }

    pub(super) fn inspect(&mut self, client: usize) -> Result<crate::Inspection, OperatorError> {
        self.clients[client].engine.inspect(self.now, b"k")?;
        match self.outcome(client) {
            Event::Inspected { result, .. } => result,
            other => panic!("{other:?}"),
        }
    }

    /// Releases the lock without waiting for the outcome.
    pub(super) fn release(&mut self, client: usize, lock: Lock) {
        self.clients[client].engine.give_back(self.now, lock);
        self.pump();
    }

    pub(super) fn reinit(&mut self, client: usize) -> Result<(), OperatorError> {
        self.clients[client].engine.reinit(self.now)?;
        match self.outcome(client) {
            Event::Reinitialised { result, .. } => result,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn kept_until(&self, client: usize, node: usize) -> Option<Instant> {
        let engine = &self.clients[client].engine;
        match engine.nodes()[id(node)].state(self.now) {
            NodeState::Quarantined { left } => Some(self.now.saturating_add(left)),
            _ => None,
        }
    }

    /// Asserts that no client has anything open, and that no node has a lock.
    pub(super) fn is_clean(&self) {
        for client in &self.clients {
            let load = client.engine.load();
            assert_eq!(
                (load.rounds, load.claims, load.debts),
                (0, 0, 0),
                "{load:?}"
            );
        }
        for (node, there) in self.nodes.iter().enumerate() {
            assert_eq!(there.store.get(self.now, b"k"), None, "node {node}");
        }
    }
}

impl Link {
    fn connect(&mut self, number: u64) {
        self.number = number;
        self.session = Some(Store::session_of(number));
        self.inbox = Some(Inbox::default());
    }

    /// Queues the commands in `bytes` for the node to execute. Returns them.
    fn read(&mut self, mut bytes: &[u8]) -> impl Iterator<Item = &Vec<Vec<u8>>> {
        let before = self.waiting.len();
        let inbox = self.inbox.as_mut().expect("connected");
        while let Some(frame) = inbox.next(&mut bytes).expect("RESP") {
            let words = frame.value.as_items().expect("a command").iter();
            let words = words.map(|word| word.as_bytes().expect("a bulk").to_vec());
            self.waiting.push_back(words.collect());
        }
        self.waiting.range(before..)
    }
}
