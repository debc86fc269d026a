//! Random worlds: several engines and nodes, links that delay, tear, stall and break, servers that
//! refuse for a while, writes that are cut short, and locks that change hands.
//!
//! In every one of them no two clients hold a valid lock on one resource at the same time, and a
//! lock that is valid has its token on a majority of the servers; whoever
//! waits is told by its deadline, and whoever holds is told of the end; no engine wants to be woken
//! in the past. And when the faults have ended, everything settles: no caller is left waiting, no
//! engine owes anything, and no node has a key that nobody holds.
//!
//! There are two kinds of worlds. In one every ttl is far longer than the run, so that an orphan
//! cannot hide. In the other ttls are short, and the clocks of the servers run apart by almost as
//! much as the drift allows for, so that it matters to the tick when a validity ends.
//!
//! The worlds are small and many; each comes from its number alone. Restarts without memory are
//! not among the faults: only the restart guard could answer for them.

use alloc::collections::btree_map::Entry;
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
use crate::node::{CONFIRM, EXTEND, RELEASE, SET_IF_PERMITTED};
use crate::resp::{Inbox, Limits};

const CLIENTS: usize = 3;
const KEYS: [&[u8]; 2] = [b"a", b"b"];
const LONG: Duration = Duration::from_secs(600);
const WAIT: Duration = Duration::from_millis(200);
const STEPS: usize = 600;

/// Not executed, and answered for certain.
const REFUSALS: [&str; 4] = [
    "-LOADING Redis is loading the dataset in memory\r\n",
    "-MISCONF Redis is configured to save RDB snapshots\r\n",
    "-READONLY You can't write against a read only replica.\r\n",
    "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
];

/// A server: its keys with their tokens and ends, and whether it knows the scripts.
#[derive(Default)]
struct Server {
    keys: BTreeMap<Vec<u8>, (Vec<u8>, u64)>,
    knows_scripts: bool,
    stalled: bool,
    /// It says that it has `DELIFEQ`, and whether it has.
    valkey: Option<bool>,
    /// How many parts in a million its clock is fast.
    fast: i64,
    /// Its clock, in milliseconds.
    clock: u64,
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
    /// How much less than everything the next write takes.
    cut: usize,
}

struct Client {
    engine: Engine,
    /// What it is about, by resource.
    open: BTreeMap<usize, Open>,
    /// The locks of which it was told that they are over.
    told: Vec<LockId>,
}

enum Open {
    Acquiring(RoundId, Instant),
    Holding(Lock),
    Extending(Lock, RoundId),
    Releasing(RoundId),
}

struct Chaos {
    random: StdRng,
    now: Instant,
    /// The world is one of short ttls.
    expiring: bool,
    /// How often, in percent, a server refuses.
    refusing: u32,
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
        let mut random = StdRng::from_seed(bytes);
        let nodes = [1, 2, 3, 3, 3, 5][random.random_range(0..6)];
        let names = (0..nodes).map(|node| format!("node{node}"));
        let config = Config::builder()
            .nodes(names)
            .retry(Retry::new(
                5,
                Duration::from_millis(5)..=Duration::from_millis(40),
            ))
            .dead_after(Duration::from_secs(2))
            .watch_clocks(false) // They run apart by what the drift allows.
            .config()
            .expect("valid");
        let client = |index: u8| Client {
            engine: Engine::new(&config, [index; 32], now),
            open: BTreeMap::new(),
            told: Vec::new(),
        };
        let server = |random: &mut StdRng| Server {
            valkey: random.random_bool(0.3).then(|| random.random_bool(0.5)),
            fast: random.random_range(-9_000..9_000),
            ..Server::default()
        };
        Self {
            servers: (0..nodes).map(|_| server(&mut random)).collect(),
            expiring: seed % 2 == 1,
            refusing: [0, 0, 5, 20][random.random_range(0..4)],
            random,
            now,
            clients: (0..CLIENTS as u8).map(client).collect(),
            wires: (0..CLIENTS)
                .map(|_| (0..nodes).map(|_| Wire::default()).collect())
                .collect(),
            locks_taken: 0,
            story: Vec::new(),
        }
    }

    fn ttl(&mut self) -> Duration {
        if self.expiring {
            Duration::from_millis(self.random.random_range(20..400))
        } else {
            LONG
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
                Some(Output::Probe { .. } | Output::CloseProbe { .. }) => {}
                Some(Output::Event(event)) => self.event(client, event),
                Some(Output::Transmit { node, bytes }) => {
                    let wire = &mut self.wires[client][node.index()];
                    let taken = bytes.len().saturating_sub(core::mem::take(&mut wire.cut));
                    let len = if wire.up { taken } else { 0 };
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
            wire.cut = 0;
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
                Open::Acquiring(of, _) | Open::Extending(_, of) | Open::Releasing(of) => {
                    (*of == round).then_some(*key)
                }
                Open::Holding(_) => None,
            })
        };
        let Client { open, told, .. } = &mut self.clients[client];
        match event {
            Event::Acquired { round, result } => {
                let key = find(open, round).expect("asked for");
                open.remove(&key);
                if let Ok(lock) = result {
                    assert!(lock.is_valid_at(self.now), "a dead lock");
                    open.insert(key, Open::Holding(lock));
                    self.locks_taken += 1;
                    self.tell(format!("client {client} holds {key}"));
                    self.check_exclusion(key);
                }
            }
            Event::Extended { round, result } => {
                if let Err(ExtendError::Lost(report)) = &result {
                    assert!(self.expiring, "nobody takes keys away: {report}");
                }
                // Its lock may have been extended again since.
                let mut extended = None;
                for (key, open) in open.iter_mut() {
                    if let Open::Holding(lock) | Open::Extending(lock, _) = open
                        && let Ok(extension) = &result
                        && extension.apply(lock)
                    {
                        assert!(!told.contains(&lock.id()), "over, and alive again");
                        extended = Some(*key);
                    }
                }
                if let Some(key) = find(open, round)
                    && let Some(Open::Extending(lock, _)) = open.remove(&key)
                {
                    open.insert(key, Open::Holding(lock));
                }
                if let Some(key) = extended {
                    self.check_exclusion(key);
                }
            }
            Event::Released { round, .. } => {
                if let Some(key) = find(open, round) {
                    open.remove(&key);
                }
            }
            Event::Reinitialised { .. } => unreachable!("nobody asks for it"),
            Event::Expired { lock } => {
                assert!(self.expiring, "no ttl is that short");
                assert!(!told.contains(&lock), "told twice");
                told.push(lock);
            }
        }
    }

    /// Whether a majority of the servers has the lock.
    fn stands(&self, lock: &Lock) -> bool {
        let has = |server: &&Server| {
            let key = server.keys.get(lock.resource());
            key.is_some_and(|(token, end)| server.clock < *end && token[..] == *lock.token())
        };
        self.servers.iter().filter(has).count() > self.servers.len() / 2
    }

    /// Everybody has been told what is due by now, and the engine wants to sleep.
    fn check_time(&mut self, client: usize) {
        let Client { engine, open, told } = &self.clients[client];
        for open in open.values() {
            match open {
                Open::Acquiring(_, deadline) => assert!(
                    self.now <= deadline.saturating_add(Duration::from_millis(1)),
                    "told late"
                ),
                Open::Holding(lock) | Open::Extending(lock, _) if lock.is_valid_at(self.now) => {
                    assert!(self.stands(lock), "valid, and not on a majority");
                }
                Open::Holding(lock) | Open::Extending(lock, _) => {
                    let known = lock.has_known_end();
                    assert_eq!(told.contains(&lock.id()), known, "told of what ended, once");
                }
                Open::Releasing(_) => {}
            }
        }
        let load = engine.load();
        match engine.poll_timeout() {
            None => assert_eq!(load.rounds, 0, "asleep with a round open"),
            Some((at, wake)) => assert!(self.now < at, "awake for {wake:?}"),
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
        let ttl = self.ttl();
        let now = self.now;
        let Client { engine, open, .. } = &mut self.clients[client];
        let next = match open.remove(&key) {
            None => {
                let options = LockOptions::new(ttl).wait(WAIT);
                let request = Request::new(KEYS[key], &options);
                let round = engine.acquire(now, &request).ok();
                round.map(|round| Open::Acquiring(round, now.saturating_add(WAIT)))
            }
            Some(Open::Acquiring(round, _)) if dice < 20 => {
                engine.cancel(now, round);
                None
            }
            Some(Open::Holding(lock)) if dice < 10 => Some(match engine.confirm(now, &lock) {
                Ok(round) => Open::Extending(lock, round),
                Err(_) => Open::Holding(lock),
            }),
            Some(Open::Holding(lock)) if dice < 30 => Some(match engine.extend(now, &lock, ttl) {
                Ok(round) => Open::Extending(lock, round),
                Err(_) => Open::Holding(lock),
            }),
            Some(Open::Holding(lock)) if dice < 60 => {
                Some(Open::Releasing(engine.release(now, lock)))
            }
            Some(Open::Holding(lock)) if dice < 75 => {
                engine.give_back(now, lock);
                None
            }
            Some(Open::Holding(lock)) if dice < 85 => {
                let lock = engine.detach(now, lock);
                self.hand_over(client, key, lock);
                None
            }
            Some(Open::Extending(lock, round)) if dice < 10 => {
                engine.cancel(now, round);
                Some(Open::Holding(lock))
            }
            Some(Open::Extending(lock, before)) if dice < 15 => {
                Some(match engine.confirm(now, &lock) {
                    Ok(round) => Open::Extending(lock, round),
                    Err(_) => Open::Extending(lock, before),
                })
            }
            Some(Open::Extending(lock, before)) if dice < 20 => {
                Some(match engine.extend(now, &lock, ttl) {
                    Ok(round) => Open::Extending(lock, round),
                    Err(_) => Open::Extending(lock, before),
                })
            }
            Some(Open::Extending(lock, _)) if dice < 25 => {
                Some(Open::Releasing(engine.release(now, lock)))
            }
            other => other,
        };
        if let Some(next) = next {
            self.clients[client].open.insert(key, next);
        }
        self.drain(client);
    }

    /// A client gives a lock to another, or takes it back if that is busy. Its clock may be another.
    fn hand_over(&mut self, from: usize, key: usize, mut lock: Lock) {
        let to = self.below(CLIENTS);
        if self.chance(30) {
            lock.forget_end();
        }
        let now = self.now;
        self.tell(format!("client {from} hands {key} over to {to}"));
        let Client { engine, open, .. } = &mut self.clients[to];
        let lock = engine.adopt(now, lock);
        match open.entry(key) {
            Entry::Occupied(_) => engine.give_back(now, lock),
            Entry::Vacant(free) => drop(free.insert(Open::Holding(lock))),
        }
        self.drain(to);
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
            let reply = match words[0] {
                b"SET" | b"EVAL" | b"EVALSHA" | b"DELIFEQ" if self.chance(self.refusing) => {
                    let which = self.below(REFUSALS.len() + 1);
                    // What is no certain refusal may have been executed.
                    REFUSALS.get(which).map_or_else(
                        || {
                            execute(&mut self.servers[node], &words);
                            "-ERR something\r\n".into()
                        },
                        |refusal| (*refusal).into(),
                    )
                }
                _ => execute(&mut self.servers[node], &words),
            };
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
        for server in &mut self.servers {
            let micros = i128::from(self.now.as_nanos() / 1_000);
            server.clock = (micros * (1_000_000 + i128::from(server.fast)) / 1_000_000_000) as u64;
        }
        for client in 0..CLIENTS {
            self.clients[client].engine.handle(self.now, Input::Tick);
            self.drain(client);
            // What was told just now may have armed what is due already.
            self.clients[client].engine.handle(self.now, Input::Tick);
            self.drain(client);
            self.check_time(client);
        }
    }

    fn writable(&mut self, client: usize, node: usize) {
        if self.wires[client][node].up {
            let node = NodeId(node as u8);
            let input = Input::Writable { node };
            self.clients[client].engine.handle(self.now, input);
            self.drain(client);
        }
    }

    fn step(&mut self) {
        let (client, node) = (self.below(CLIENTS), self.below(self.servers.len()));
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
            98..99 => self.wires[client][node].cut = self.random.random_range(1..300),
            99..100 => self.writable(client, node),
            _ => {}
        }
    }

    /// The faults end, and everything takes its course.
    fn heal(&mut self) {
        self.servers
            .iter_mut()
            .for_each(|server| server.stalled = false);
        self.refusing = 0;
        for round in 0..4_000 {
            for client in 0..CLIENTS {
                for node in 0..self.servers.len() {
                    self.writable(client, node);
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
        let Client { engine, open, .. } = &mut self.clients[client];
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
    let clock = server.clock;
    server.keys.retain(|_, (_, end)| clock < *end);
    let held = |server: &Server, key: &[u8], token: &[u8]| {
        server.keys.get(key).map(|(held, _)| held == token)
    };
    let end = |ttl: &[u8]| {
        let ttl = core::str::from_utf8(ttl)
            .ok()
            .and_then(|ttl| ttl.parse::<u64>().ok());
        clock + ttl.expect("milliseconds")
    };
    match *words {
        [b"HELLO", ..] if server.valkey.is_some() => {
            "%4\r\n+server\r\n+valkey\r\n+version\r\n+9.1.0\r\n+role\r\n+master\r\n+mode\r\n+standalone\r\n"
                .into()
        }
        [b"HELLO", ..] => "%2\r\n+role\r\n+master\r\n+mode\r\n+standalone\r\n".into(),
        [b"INFO", ..] => "$-1\r\n".into(),
        [b"SCRIPT", b"LOAD", text] => {
            server.knows_scripts = true;
            let release = text == RELEASE.text.as_bytes();
            bulk(if release { RELEASE.sha1 } else { EXTEND.sha1 })
        }
        [b"SET", key, token, b"NX", b"PX", ttl] => {
            if server.keys.contains_key(key) {
                return "$-1\r\n".into();
            }
            server.keys.insert(key.into(), (token.into(), end(ttl)));
            "+OK\r\n".into()
        }
        #[cfg(shearline_mutants)]
        [b"DEL", key] => format!(":{}\r\n", i32::from(server.keys.remove(key).is_some())),
        #[cfg(shearline_mutants)]
        [b"SET", key, token, b"PX", ttl] => {
            server.keys.insert(key.into(), (token.into(), end(ttl)));
            "+OK\r\n".into()
        }
        #[cfg(shearline_mutants)]
        [b"PEXPIRE", key, ttl] => {
            let held = server.keys.get_mut(key).map(|(_, until)| *until = end(ttl));
            format!(":{}\r\n", i32::from(held.is_some()))
        }
        [b"DELIFEQ", ..] if server.valkey != Some(true) => "-ERR unknown command\r\n".into(),
        [b"DELIFEQ", key, token] => {
            if held(server, key, token) != Some(true) {
                return ":0\r\n".into();
            }
            server.keys.remove(key);
            ":1\r\n".into()
        }
        [b"EVAL", text, _, key, token, ttl, ..] if text == SET_IF_PERMITTED.text.as_bytes() => {
            let words: [&[u8]; 6] = [b"SET", key, token, b"NX", b"PX", ttl];
            let done = execute(server, &words).starts_with('+');
            format!(":{}\r\n", i32::from(done))
        }
        [b"EVAL", text, _, key, token] if text == CONFIRM.text.as_bytes() => {
            match server.keys.get(key) {
                None => ":0\r\n".into(),
                Some((held, end)) if held == token => format!(":{}\r\n", end - clock + 1),
                Some(_) => ":-1\r\n".into(),
            }
        }
        [b"EVALSHA", ..] if !server.knows_scripts => "-NOSCRIPT No matching script.\r\n".into(),
        [b"EVAL" | b"EVALSHA", _, _, key, token, ref extend @ ..] => {
            match (held(server, key, token), extend) {
                (None, _) => return ":0\r\n".into(),
                (Some(false), _) => return ":-1\r\n".into(),
                (Some(true), [ttl, ..]) => {
                    let (_, until) = server.keys.get_mut(key).expect("held");
                    *until = end(ttl).max(*until);
                }
                (Some(true), []) => {
                    server.keys.remove(key);
                }
            }
            ":1\r\n".into()
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
    for Client { engine, .. } in &chaos.clients {
        let nodes = engine.nodes();
        assert!(
            engine.wheel.len() <= 3 * nodes,
            "a timer is left over: {engine:?}"
        );
        assert!(engine.due.is_empty(), "something is not told");
    }
    for (node, server) in chaos.servers.iter_mut().enumerate() {
        execute(server, &[b"INFO"]);
        assert!(server.keys.is_empty(), "node {node} keeps an orphan");
    }
    chaos.locks_taken
}

#[test]
fn exclusion_holds_and_nothing_is_left_behind() {
    let mut locks_taken = 0;
    // The long form: `SHEARLINE_SEEDS=1000000 cargo test --release --lib chaos`.
    let seeds = std::env::var("SHEARLINE_SEEDS").map(|seeds| seeds.parse().expect("a number"));
    for seed in 0..seeds.unwrap_or(if cfg!(debug_assertions) { 400 } else { 20_000 }) {
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
