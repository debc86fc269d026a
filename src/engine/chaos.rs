//! Random worlds: several engines and nodes, links that delay, tear, stall and break.
//!
//! Two things have to hold in every one of them. No two clients hold a valid lock on one resource
//! at the same time. And when the faults have ended, everything settles: no caller is left
//! waiting, no engine owes anything, and no node has a key that nobody holds, although every ttl
//! is far longer than the run.
//!
//! The worlds are small and many; each comes from its number alone. Restarts without memory are
//! not among the faults: only the restart guard could answer for them.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::config::{LockOptions, Retry};
use crate::error::{ExtendError, LinkError};
use crate::node::{EXTEND, RELEASE};
use crate::resp::{Inbox, Limits};

const NODES: usize = 3;
const CLIENTS: usize = 3;
const KEYS: [&[u8]; 2] = [b"a", b"b"];
const TTL: Duration = Duration::from_secs(600);
const STEPS: usize = 600;

/// A server: keys that never expire within a run, and whether it knows the scripts.
#[derive(Default)]
struct Server {
    keys: BTreeMap<Vec<u8>, Vec<u8>>,
    knows_scripts: bool,
    stalled: bool,
}

/// One client's connection to one server, both directions of it.
#[derive(Default)]
struct Wire {
    up: bool,
    /// Bytes that the server has not read.
    to_server: VecDeque<u8>,
    to_client: VecDeque<u8>,
    /// How the server puts commands together.
    commands: Option<Inbox>,
    /// What connections before this one still bring to the server.
    late: Vec<(Inbox, Vec<u8>)>,
}

struct Client {
    engine: Engine,
    /// What it is about, by resource.
    open: BTreeMap<usize, Open>,
}

enum Open {
    Acquiring(RoundId),
    Holding(Lock),
    Extending(Lock, RoundId),
    Releasing(RoundId),
}

struct Chaos {
    random: StdRng,
    now: Instant,
    servers: Vec<Server>,
    clients: Vec<Client>,
    wires: Vec<Vec<Wire>>,
    locks_taken: usize,
    story: Vec<String>,
}

impl Chaos {
    fn new(seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let now = Instant::from_millis(1);
        let names = (0..NODES).map(|node| format!("node{node}"));
        let config = Config::builder()
            .nodes(names)
            .retry(Retry::new(
                5,
                Duration::from_millis(5)..=Duration::from_millis(40),
            ))
            .dead_after(Duration::from_secs(2))
            .config()
            .expect("valid");
        let client = |index: u8| Client {
            engine: Engine::new(&config, [index; 32], now),
            open: BTreeMap::new(),
        };
        Self {
            random: StdRng::from_seed(bytes),
            now,
            servers: (0..NODES).map(|_| Server::default()).collect(),
            clients: (0..CLIENTS as u8).map(client).collect(),
            wires: (0..CLIENTS)
                .map(|_| (0..NODES).map(|_| Wire::default()).collect())
                .collect(),
            locks_taken: 0,
            story: Vec::new(),
        }
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.random_range(0..bound)
    }

    fn tell(&mut self, what: String) {
        self.story
            .push(format!("{:>9} us {what}", self.now.as_nanos() / 1000));
    }

    // ----- clients --------------------------------------------------------------------------

    /// Does what the engine of a client wants done, and takes its events.
    fn drain(&mut self, client: usize) {
        loop {
            let now = self.now;
            let mut refused = None;
            match self.clients[client].engine.poll(now) {
                None => return,
                Some(Output::Connect { node }) => refused = Some(node),
                Some(Output::Disconnect { node }) => self.cut(client, node.index(), false),
                Some(Output::Event(event)) => self.event(client, event),
                Some(Output::Transmit { node, bytes }) => {
                    let wire = &mut self.wires[client][node.index()];
                    let len = if wire.up { bytes.len() } else { 0 };
                    wire.to_server.extend(&bytes[..len]);
                    let input = Input::Transmitted { node, len };
                    self.clients[client].engine.handle(now, input);
                }
            }
            if let Some(node) = refused {
                self.connect(client, node);
            }
        }
    }

    fn connect(&mut self, client: usize, node: NodeId) {
        let input = if self.chance(80) {
            let wire = &mut self.wires[client][node.index()];
            wire.up = true;
            wire.commands = Some(Inbox::new(Limits::default()));
            Input::Connected { node }
        } else {
            Input::Disconnected {
                node,
                reason: LinkError::Refused,
            }
        };
        self.clients[client].engine.handle(self.now, input);
    }

    /// The connection ends. What the server has not read may reach it later, or never.
    fn cut(&mut self, client: usize, node: usize, tell: bool) {
        let arrives = self.chance(70);
        let wire = &mut self.wires[client][node];
        if !core::mem::take(&mut wire.up) {
            return;
        }
        wire.to_client.clear();
        let rest: Vec<u8> = wire.to_server.drain(..).collect();
        if let Some(commands) = wire.commands.take().filter(|_| arrives) {
            wire.late.push((commands, rest));
        }
        if tell {
            let input = Input::Disconnected {
                node: NodeId(node as u8),
                reason: LinkError::Reset,
            };
            self.clients[client].engine.handle(self.now, input);
        }
        self.tell(format!(
            "client {client} loses node {node}, rest arrives: {arrives}"
        ));
    }

    fn event(&mut self, client: usize, event: Event) {
        let find = |open: &BTreeMap<usize, Open>, round: RoundId| {
            open.iter().find_map(|(key, open)| match open {
                Open::Acquiring(of) | Open::Extending(_, of) | Open::Releasing(of) => {
                    (*of == round).then_some(*key)
                }
                Open::Holding(_) => None,
            })
        };
        let open = &mut self.clients[client].open;
        match event {
            Event::Acquired { round, result } => {
                let key = find(open, round).expect("asked for");
                open.remove(&key);
                if let Ok(lock) = result {
                    open.insert(key, Open::Holding(lock));
                    self.locks_taken += 1;
                    self.tell(format!("client {client} holds {key}"));
                    self.check_exclusion(key);
                }
            }
            Event::Extended { round, result } => {
                let Some(key) = find(open, round) else { return };
                let Some(Open::Extending(mut lock, _)) = open.remove(&key) else {
                    unreachable!("found as such")
                };
                match result {
                    Ok(extension) => assert!(extension.apply(&mut lock)),
                    Err(ExtendError::Lost(report)) => panic!("nobody takes keys away: {report}"),
                    Err(_) => {}
                }
                open.insert(key, Open::Holding(lock));
            }
            Event::Released { round, .. } => {
                if let Some(key) = find(open, round) {
                    open.remove(&key);
                }
            }
            Event::Expired { .. } => panic!("no ttl is that short"),
        }
    }

    fn check_exclusion(&self, key: usize) {
        let holders = self.clients.iter().filter(|client| {
            matches!(
                client.open.get(&key),
                Some(Open::Holding(lock) | Open::Extending(lock, _)) if lock.is_valid_at(self.now)
            )
        });
        assert!(holders.count() <= 1, "two holders of {key}");
    }

    /// A client's user does something.
    fn act(&mut self, client: usize) {
        let key = self.below(KEYS.len());
        let dice = self.below(100);
        let now = self.now;
        let Client { engine, open } = &mut self.clients[client];
        let next = match open.remove(&key) {
            None => {
                let options = LockOptions::new(TTL).wait(Duration::from_millis(200));
                let request = Request::new(KEYS[key], &options);
                engine.acquire(now, &request).ok().map(Open::Acquiring)
            }
            Some(Open::Acquiring(round)) if dice < 20 => {
                engine.cancel(now, round);
                None
            }
            Some(Open::Holding(lock)) if dice < 30 => engine
                .extend(now, &lock, TTL)
                .ok()
                .map(|round| Open::Extending(lock, round)),
            Some(Open::Holding(lock)) if dice < 60 => {
                Some(Open::Releasing(engine.release(now, lock)))
            }
            Some(Open::Holding(lock)) if dice < 80 => {
                engine.give_back(now, lock);
                None
            }
            Some(Open::Extending(lock, round)) if dice < 10 => {
                engine.cancel(now, round);
                engine.give_back(now, lock);
                None
            }
            other => other,
        };
        if let Some(next) = next {
            open.insert(key, next);
        }
        self.drain(client);
    }

    // ----- servers --------------------------------------------------------------------------

    /// A server reads some of what waits, and answers.
    fn serve(&mut self, client: usize, node: usize, most: usize) {
        let wire = &mut self.wires[client][node];
        if self.servers[node].stalled {
            return;
        }
        // Connections are accepted in order: what an earlier one brought is read first.
        for (mut commands, rest) in core::mem::take(&mut wire.late) {
            self.answer(client, node, &mut commands, &rest);
        }
        let wire = &mut self.wires[client][node];
        let Some(mut commands) = wire.commands.take() else {
            return;
        };
        let len = most.min(wire.to_server.len());
        let bytes: Vec<u8> = wire.to_server.drain(..len).collect();
        let reply = self.answer(client, node, &mut commands, &bytes);
        let wire = &mut self.wires[client][node];
        wire.commands = Some(commands);
        wire.to_client.extend(reply);
    }

    /// What a server answers to `bytes`.
    fn answer(&mut self, client: usize, node: usize, inbox: &mut Inbox, bytes: &[u8]) -> Vec<u8> {
        let mut replies = Vec::new();
        let mut piece = bytes;
        while let Some(frame) = inbox.next(&mut piece).expect("a client speaks RESP") {
            let items = frame.value.as_items().expect("a command");
            let words: Vec<&[u8]> = items.iter().filter_map(|word| word.as_bytes()).collect();
            let reply = execute(&mut self.servers[node], &words);
            let token = words
                .get(2)
                .into_iter()
                .chain(words.get(4))
                .map(|word| brief(word));
            let token: Vec<_> = token.collect();
            self.story.push(format!(
                "{:>9} us node {node} runs {} {token:?} of client {client}: {}",
                self.now.as_nanos() / 1000,
                words[0].escape_ascii(),
                reply.trim_end()
            ));
            replies.extend(reply.bytes());
        }
        replies
    }

    /// Some of what a server has said arrives.
    fn deliver(&mut self, client: usize, node: usize, most: usize) {
        let wire = &mut self.wires[client][node];
        let len = most.min(wire.to_client.len());
        let bytes: Vec<u8> = wire.to_client.drain(..len).collect();
        if wire.up && !bytes.is_empty() {
            let input = Input::Received {
                node: NodeId(node as u8),
                bytes: &bytes,
            };
            self.clients[client].engine.handle(self.now, input);
            self.drain(client);
        }
    }

    // ----- the world ------------------------------------------------------------------------

    fn tick(&mut self, span: Duration) {
        self.now = self.now.saturating_add(span);
        for client in 0..CLIENTS {
            self.clients[client].engine.handle(self.now, Input::Tick);
            self.drain(client);
        }
    }

    fn step(&mut self) {
        let (client, node) = (self.below(CLIENTS), self.below(NODES));
        match self.below(100) {
            0..20 => self.act(client),
            20..50 => {
                let most = self.below(400);
                self.serve(client, node, most);
            }
            50..80 => {
                let most = self.below(60);
                self.deliver(client, node, most);
            }
            80..93 => {
                let span = self.random.random_range(0..3_000_000);
                self.tick(Duration::from_nanos(span));
            }
            93..95 => self.tick(Duration::from_millis(60)),
            95..96 => {
                self.cut(client, node, true);
                self.drain(client);
            }
            96..97 => self.servers[node].stalled ^= true,
            97..98 => self.servers[node].knows_scripts = false,
            _ => {}
        }
    }

    /// The faults end, and everything takes its course.
    fn heal(&mut self) {
        self.servers
            .iter_mut()
            .for_each(|server| server.stalled = false);
        for round in 0..4_000 {
            for client in 0..CLIENTS {
                for node in 0..NODES {
                    self.serve(client, node, usize::MAX);
                    self.deliver(client, node, usize::MAX);
                }
                self.finish(client);
            }
            self.tick(Duration::from_millis(5));
            if round % 10 == 9 && self.is_settled() {
                return;
            }
        }
        let loads: Vec<_> = self
            .clients
            .iter()
            .map(|client| client.engine.load())
            .collect();
        panic!("not settled: {loads:?}");
    }

    /// Whoever holds a lock gives it back; whoever waits goes on waiting.
    fn finish(&mut self, client: usize) {
        let now = self.now;
        let Client { engine, open } = &mut self.clients[client];
        for key in 0..KEYS.len() {
            if let Some(Open::Holding(_)) = open.get(&key)
                && let Some(Open::Holding(lock)) = open.remove(&key)
            {
                open.insert(key, Open::Releasing(engine.release(now, lock)));
            }
        }
        self.drain(client);
    }

    fn is_settled(&self) -> bool {
        self.clients.iter().all(|client| {
            let load = client.engine.load();
            client.open.is_empty() && load.claims == 0 && load.rounds == 0 && load.owed == 0
        })
    }
}

/// The story of a world that went wrong.
impl Drop for Chaos {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.story.iter().for_each(|line| std::println!("{line}"));
        }
    }
}

/// Enough of a token to tell it from others.
fn brief(word: &[u8]) -> String {
    word.iter()
        .take(2)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn execute(server: &mut Server, words: &[&[u8]]) -> String {
    let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    match *words {
        [b"HELLO", ..] => "%2\r\n+role\r\n+master\r\n+mode\r\n+standalone\r\n".into(),
        [b"INFO", ..] => "$-1\r\n".into(),
        [b"SCRIPT", b"LOAD", text] => {
            server.knows_scripts = true;
            let release = text == RELEASE.text.as_bytes();
            bulk(if release { RELEASE.sha1 } else { EXTEND.sha1 })
        }
        [b"SET", key, token, ..] => {
            if server.keys.contains_key(key) {
                return "$-1\r\n".into();
            }
            server.keys.insert(key.into(), token.into());
            "+OK\r\n".into()
        }
        [b"EVALSHA", ..] if !server.knows_scripts => "-NOSCRIPT No matching script.\r\n".into(),
        [b"EVAL" | b"EVALSHA", _, _, key, token, ref extend @ ..] => {
            match server.keys.get(key).map(|held| held == token) {
                None => ":0\r\n".into(),
                Some(false) => ":-1\r\n".into(),
                Some(true) => {
                    if extend.is_empty() {
                        server.keys.remove(key);
                    }
                    ":1\r\n".into()
                }
            }
        }
        _ => panic!("{words:?}"),
    }
}

fn run(seed: u64) -> usize {
    let mut chaos = Chaos::new(seed);
    for _ in 0..STEPS {
        chaos.step();
    }
    chaos.heal();
    for (node, server) in chaos.servers.iter().enumerate() {
        assert!(server.keys.is_empty(), "node {node} keeps an orphan");
    }
    chaos.locks_taken
}

#[test]
fn exclusion_holds_and_nothing_is_left_behind() {
    let mut locks_taken = 0;
    for seed in 0..if cfg!(debug_assertions) { 400 } else { 20_000 } {
        let outcome = std::panic::catch_unwind(|| run(seed));
        match outcome {
            Ok(taken) => locks_taken += taken,
            Err(_) => panic!("seed {seed}"),
        }
    }
    assert!(
        locks_taken > 400,
        "the worlds are not all dead: {locks_taken}"
    );
}
