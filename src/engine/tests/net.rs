//! Several clients and the nodes between them. What is sent arrives at once, unless it is held up.

use crate::config::{Builder, LockOptions, RestartGuard};
use crate::embedded::Memory;
use crate::embedded::session::Session;
use crate::embedded::store::Store;
use crate::engine::{Engine, Event, Input, NodeState, Output, Request, RoundId};
use crate::error::{ExtendError, LinkFault, LockError, ReinitError};
use crate::quorum::Lock;
use crate::resource::MARKER_KEY;
use crate::resp::Inbox;
use crate::time::Instant;

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::{MS, id, named};

pub(super) struct Net {
    pub(super) now: Instant,
    pub(super) clients: Vec<Client>,
    nodes: Vec<Node>,
    restarts: u64,
}

pub(super) struct Client {
    pub(super) engine: Engine,
    links: Vec<Link>,
    events: VecDeque<Event>,
}

struct Node {
    store: Store,
    away: bool,
    /// How often it was asked to join.
    joins: usize,
}

/// One client's connection to one node.
#[derive(Default)]
struct Link {
    session: Option<Session>,
    inbox: Option<Inbox>,
    /// What the node has answered and the client has not read.
    answers: Vec<u8>,
    held: bool,
}

/// A client of the first `nodes` nodes.
pub(super) fn builder(nodes: usize) -> Builder {
    named(nodes)
        .watch_clocks(false)
        .restart_guard(RestartGuard::Strict)
}

impl Net {
    pub(super) fn new(nodes: u64) -> Self {
        let now = Instant::from_millis(1_000);
        Self {
            now,
            clients: Vec::new(),
            nodes: (0..nodes)
                .map(|node| Node {
                    store: Store::new(node, now),
                    away: false,
                    joins: 0,
                })
                .collect(),
            restarts: 100,
        }
    }

    /// Another client, which has greeted all whom it can reach. Which one it is.
    pub(super) fn client(&mut self, builder: Builder) -> usize {
        let config = builder.config().expect("valid");
        let seed = [self.clients.len() as u8; 32];
        self.clients.push(Client {
            engine: Engine::new(&config, seed, self.now),
            links: config.nodes().iter().map(|_| Link::default()).collect(),
            events: VecDeque::new(),
        });
        self.pump();
        self.clients.len() - 1
    }

    // ----- the world ------------------------------------------------------------------------

    /// Lets everything happen that takes no time.
    pub(super) fn pump(&mut self) {
        while (0..self.clients.len()).any(|client| self.serve(client)) {}
    }

    /// Whether anything happened.
    pub(super) fn serve(&mut self, client: usize) -> bool {
        let Self {
            now,
            clients,
            nodes,
            ..
        } = self;
        let Client {
            engine,
            links,
            events,
        } = &mut clients[client];
        let mut inputs: Vec<(usize, Option<usize>)> = Vec::new();
        let mut busy = false;
        while let Some(output) = engine.poll(*now) {
            busy = true;
            match output {
                Output::Connect { node } => inputs.push((node.index(), None)),
                Output::Disconnect { node } => links[node.index()].cut(),
                Output::Probe { .. } | Output::CloseProbe { .. } => {}
                Output::Event(Event::FloorsGiven { .. }) => {} // It shows in what is granted.
                Output::Event(event) => events.push_back(event),
                Output::Transmit { node, bytes } => {
                    links[node.index()].run(&mut nodes[node.index()], *now, bytes);
                    let len = bytes.len();
                    engine.handle(*now, Input::Transmitted { node, len });
                }
            }
        }
        for (node, _) in inputs {
            let (link, there) = (&mut links[node], &mut nodes[node]);
            let node = id(node);
            let input = match there.away {
                true => Input::Disconnected {
                    node,
                    reason: LinkFault::Refused.into(),
                },
                false => {
                    link.session = Some(there.store.session());
                    link.inbox = Some(Inbox::default());
                    Input::Connected { node }
                }
            };
            engine.handle(*now, input);
        }
        for (node, link) in links.iter_mut().enumerate() {
            if !link.held && !link.answers.is_empty() {
                busy = true;
                let bytes = core::mem::take(&mut link.answers);
                let node = id(node);
                engine.handle(
                    *now,
                    Input::Received {
                        node,
                        bytes: &bytes,
                    },
                );
            }
        }
        busy
    }

    /// Moves the time, in steps that no timer is missed in.
    pub(super) fn pass(&mut self, span: Duration) {
        let end = self.now.saturating_add(span);
        while self.now < end {
            let step = 10 * MS;
            self.now = self.now.saturating_add(step).min(end);
            for client in &mut self.clients {
                client.engine.handle(self.now, Input::Tick);
            }
            self.pump();
        }
    }

    fn cut(&mut self, node: usize) {
        for client in &mut self.clients {
            if let Some(link) = client.links.get_mut(node)
                && link.session.is_some()
            {
                link.cut();
                let reason = LinkFault::Reset.into();
                let node = id(node);
                client
                    .engine
                    .handle(self.now, Input::Disconnected { node, reason });
            }
        }
        self.pump();
    }

    /// Nobody reaches `node` any more, or everybody does again.
    pub(super) fn unreachable(&mut self, node: usize, away: bool) {
        self.nodes[node].away = away;
        if away {
            self.cut(node);
        }
    }

    /// All connections to `node` break, and it is as it was.
    pub(super) fn reconnect(&mut self, node: usize) {
        self.cut(node);
    }

    pub(super) fn restart(&mut self, node: usize, memory: Memory) {
        self.restarts += 1;
        let (seed, now) = (self.restarts, self.now);
        self.nodes[node].store.restart(seed, now, memory);
        self.cut(node);
    }

    /// What `node` answers to `client` waits.
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

    /// The marker of `node`, which has one.
    pub(super) fn marker(&self, node: usize) -> String {
        self.value(node, MARKER_KEY).expect("a marker")
    }

    /// The marker of `node` is one of five nodes from now on.
    pub(super) fn mark_as_anothers(&mut self, node: usize) {
        let marker = self.marker(node);
        let mut words: Vec<&str> = marker.split(' ').collect();
        words[3..5].copy_from_slice(&["5", "3"]);
        self.set(node, MARKER_KEY, words.join(" ").as_bytes());
    }

    pub(super) fn set_px(&mut self, node: usize, key: &[u8], value: &[u8], ttl: Duration) {
        let ttl = format!("{}", ttl.as_millis());
        self.run(node, &[b"SET", key, value, b"PX", ttl.as_bytes()]);
    }

    fn run(&mut self, node: usize, words: &[&[u8]]) {
        let store = &mut self.nodes[node].store;
        let mut session = store.session();
        let mut out = Vec::new();
        store.execute(&mut session, self.now, words, &mut out);
        assert_ne!(out[0], b'-', "{}", out.escape_ascii());
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
        self.acquire_with(client, resource, &LockOptions::new(ttl).tries(1))
    }

    pub(super) fn acquire_with(
        &mut self,
        client: usize,
        resource: &[u8],
        options: &LockOptions,
    ) -> RoundId {
        let request = Request::new(resource, options);
        let engine = &mut self.clients[client].engine;
        engine.acquire(self.now, &request).expect("valid")
    }

    pub(super) fn event(&mut self, client: usize) -> Option<Event> {
        self.clients[client].events.pop_front()
    }

    /// What was told of losses meanwhile is not looked at.
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

    pub(super) fn acquired(&mut self, client: usize) -> (RoundId, Result<Lock, LockError>) {
        match self.outcome(client) {
            Event::Acquired { round, result } => (round, result),
            other => panic!("{other:?}"),
        }
    }

    /// One try.
    pub(super) fn try_lock(&mut self, client: usize, ttl: Duration) -> Result<Lock, LockError> {
        self.lock_with(client, &LockOptions::new(ttl).tries(1))
    }

    /// As many as the handle allows.
    pub(super) fn lock(&mut self, client: usize, ttl: Duration) -> Result<Lock, LockError> {
        self.lock_with(client, &LockOptions::new(ttl))
    }

    pub(super) fn lock_with(
        &mut self,
        client: usize,
        options: &LockOptions,
    ) -> Result<Lock, LockError> {
        let request = Request::new(b"k", options);
        let engine = &mut self.clients[client].engine;
        engine.acquire(self.now, &request)?;
        self.acquired(client).1
    }

    pub(super) fn extend(
        &mut self,
        client: usize,
        lock: &mut Lock,
        ttl: Duration,
    ) -> Result<(), ExtendError> {
        let engine = &mut self.clients[client].engine;
        engine.extend(self.now, lock, ttl)?;
        self.extended(client, lock)
    }

    pub(super) fn confirm(&mut self, client: usize, lock: &mut Lock) -> Result<(), ExtendError> {
        let engine = &mut self.clients[client].engine;
        engine.confirm(self.now, lock)?;
        self.extended(client, lock)
    }

    fn extended(&mut self, client: usize, lock: &mut Lock) -> Result<(), ExtendError> {
        match self.outcome(client) {
            Event::Extended { result, .. } => result,
            Event::Confirmed { result, .. } => result.map_err(ExtendError::from),
            other => panic!("{other:?}"),
        }
        .map(|extension| assert!(extension.apply(lock)))
    }

    pub(super) fn inspect(
        &mut self,
        client: usize,
    ) -> Result<crate::Inspection, crate::InspectError> {
        self.clients[client].engine.inspect(self.now, b"k")?;
        match self.outcome(client) {
            Event::Inspected { result, .. } => result,
            other => panic!("{other:?}"),
        }
    }

    /// With nobody waiting.
    pub(super) fn release(&mut self, client: usize, lock: Lock) {
        self.clients[client].engine.give_back(self.now, lock);
        self.pump();
    }

    pub(super) fn reinit(&mut self, client: usize) -> Result<(), ReinitError> {
        self.clients[client].engine.reinit(self.now)?;
        match self.outcome(client) {
            Event::Reinitialised { result, .. } => result,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn kept_until(&self, client: usize, node: usize) -> Option<Instant> {
        let engine = &self.clients[client].engine;
        match engine.node_state(self.now, id(node)) {
            NodeState::Quarantined { left } => Some(self.now.saturating_add(left)),
            _ => None,
        }
    }

    /// Nobody has anything open, and no node a lock.
    pub(super) fn is_clean(&self) {
        for client in &self.clients {
            let load = client.engine.load();
            assert_eq!((load.rounds, load.claims, load.owed), (0, 0, 0), "{load:?}");
        }
        for (node, there) in self.nodes.iter().enumerate() {
            assert_eq!(there.store.get(self.now, b"k"), None, "node {node}");
        }
    }
}

impl Link {
    fn cut(&mut self) {
        self.session = None;
        self.answers.clear();
    }

    fn run(&mut self, node: &mut Node, now: Instant, mut bytes: &[u8]) {
        let (Some(session), Some(inbox)) = (&mut self.session, &mut self.inbox) else {
            return;
        };
        while let Some(frame) = inbox.next(&mut bytes).expect("RESP") {
            let items = frame.value.as_items().expect("a command");
            let words: Vec<&[u8]> = items
                .iter()
                .map(|word| word.as_bytes().expect("a bulk"))
                .collect();
            node.joins += usize::from(words.get(1) == Some(&crate::node::JOIN.text.as_bytes()));
            node.store.execute(session, now, &words, &mut self.answers);
        }
    }
}
