//! An engine over nodes in memory that give chosen answers.
//!
//! A node reads its commands only during the handshake. After that the driver of the engine knows
//! what was asked and chooses the answer, so that the nodes add almost nothing to the count.
//!
//! Not here: timeouts, refusals and lost connections, because only the usual case is counted.

use std::time::Duration;

use shearline::engine::{Engine, Event, Input, NodeId, Output, Request};
use shearline::internals::resp::{Inbox, Value};
use shearline::{Config, Instant, Lock, LockOptions};

/// The time until an answer.
const ONE_WAY: Duration = Duration::from_micros(50);

/// The ttl of all locks.
pub const TTL: Duration = Duration::from_secs(30);

/// An engine, its nodes, and the time.
#[derive(Debug)]
pub struct Nodes {
    engine: Engine,
    now: Instant,
    ids: Vec<NodeId>,
}

impl Nodes {
    /// Returns this many nodes after their handshakes. The engine does not ask them for the time: it would do so about
    /// once a second, so that some rounds would count it and others not.
    #[must_use]
    pub fn new(count: usize) -> Self {
        let names = (0..count).map(|node| format!("node{node}:6379"));
        let config = Config::builder().nodes(names).watch_clocks(false).config();
        let config = config.expect("plain names of nodes");
        let now = Instant::from_millis(1_000);
        let mut nodes = Self {
            engine: Engine::new(&config, [42; 32], now),
            now,
            ids: Vec::new(),
        };
        nodes.shake_hands();
        for status in nodes.engine.node_statuses(nodes.now) {
            let state = status.state;
            assert!(matches!(state, shearline::NodeState::Ready), "{state:?}");
        }
        // The first lock of a connection is taken by a script, which answers a number.
        let first = nodes.taken(b"first", b":1\r\n");
        nodes.release(first);
        nodes
    }

    /// Begins to take a lock; the command is not sent yet.
    fn ask(&mut self, resource: &[u8]) {
        let options = LockOptions::new(TTL).tries(1);
        let request = Request::new(resource, &options);
        let asked = self.engine.acquire(self.now, &request);
        asked.expect("a valid request");
    }

    /// Begins to release a lock.
    fn give_back(&mut self, lock: Lock) {
        let _round = self.engine.release(self.now, lock);
    }

    /// Begins to extend a lock.
    fn ask_longer(&mut self, lock: &Lock, ttl: Duration) {
        let asked = self.engine.extend(self.now, lock, ttl);
        asked.expect("a lock that is held");
    }

    /// Makes one exchange: sends the commands, and lets every node answer `answers`. Passes each event to `told`.
    fn exchange(&mut self, answers: &[u8], mut told: impl FnMut(Event)) {
        self.drain(&mut told);
        self.now = self.now.saturating_add(ONE_WAY);
        for node in 0..self.ids.len() {
            let node = self.ids[node];
            let bytes = answers;
            self.engine
                .handle(self.now, Input::Received { node, bytes });
        }
        self.engine.handle(self.now, Input::Tick);
        self.drain(&mut told);
    }

    /// Takes one lock.
    pub fn acquire(&mut self, resource: &[u8]) -> Lock {
        self.taken(resource, b"+OK\r\n")
    }

    fn taken(&mut self, resource: &[u8], answers: &[u8]) -> Lock {
        self.ask(resource);
        let mut lock = None;
        self.exchange(answers, |event| lock = Some(granted(event)));
        lock.expect("all nodes granted it")
    }

    /// Extends one lock.
    pub fn extend(&mut self, lock: &mut Lock, ttl: Duration) {
        self.ask_longer(lock, ttl);
        let mut extended = false;
        self.exchange(b":1\r\n", |event| extended = apply(&event, lock));
        assert!(extended, "all nodes confirmed it");
    }

    /// Releases one lock.
    pub fn release(&mut self, lock: Lock) {
        self.give_back(lock);
        let mut released = false;
        self.exchange(b":1\r\n", |event| released = is_released(&event));
        assert!(released, "all nodes confirmed it");
    }

    /// Carries out the orders of the engine.
    fn drain(&mut self, told: &mut impl FnMut(Event)) {
        while let Some(output) = self.engine.poll(self.now) {
            match output {
                Output::Transmit { node, bytes } => {
                    let len = bytes.len();
                    self.engine
                        .handle(self.now, Input::Transmitted { node, len });
                }
                Output::Event(event) => told(event),
                Output::Connect { .. }
                | Output::Disconnect { .. }
                | Output::Probe { .. }
                | Output::CloseProbe { .. } => {
                    unreachable!("all nodes are connected and none is given up")
                }
            }
        }
    }

    /// Lets all nodes do their handshake.
    fn shake_hands(&mut self) {
        let mut wires: Vec<Inbox> = Vec::new();
        let mut answers: Vec<(NodeId, Vec<u8>)> = Vec::new();
        loop {
            while let Some(output) = self.engine.poll(self.now) {
                match output {
                    Output::Connect { node } => {
                        self.ids.push(node);
                        wires.push(Inbox::default());
                        self.engine.handle(self.now, Input::Connected { node });
                    }
                    Output::Transmit { node, mut bytes } => {
                        let len = bytes.len();
                        let wire = &mut wires[node.index()];
                        let mut out = Vec::new();
                        while let Some(frame) = wire.next(&mut bytes).expect("commands") {
                            answer(&mut out, node, frame.value);
                        }
                        answers.push((node, out));
                        self.engine
                            .handle(self.now, Input::Transmitted { node, len });
                    }
                    Output::Disconnect { .. }
                    | Output::Probe { .. }
                    | Output::CloseProbe { .. }
                    | Output::Event(_) => {
                        unreachable!("only handshakes are under way")
                    }
                }
            }
            if answers.is_empty() {
                return;
            }
            self.now = self.now.saturating_add(ONE_WAY);
            for (node, bytes) in answers.drain(..) {
                let bytes = &bytes;
                self.engine
                    .handle(self.now, Input::Received { node, bytes });
            }
        }
    }
}

/// Returns the lock that an attempt has won.
fn granted(event: Event) -> Lock {
    let Event::Acquired { result, .. } = event else {
        panic!("no lock: {event:?}");
    };
    result.expect("granted")
}

/// Applies an extension to `lock`. Returns whether it was an extension of that lock.
fn apply(event: &Event, lock: &mut Lock) -> bool {
    let Event::Extended { result, .. } = event else {
        panic!("no extension: {event:?}");
    };
    result.as_ref().expect("extended").apply(lock)
}

/// Returns `true` if this is a successful release.
fn is_released(event: &Event) -> bool {
    matches!(event, Event::Released { result: Ok(_), .. })
}

/// Writes the answer of a node to one command of the handshake.
fn answer(out: &mut Vec<u8>, node: NodeId, command: Value<'_>) {
    let words = command.as_items().expect("an array");
    let word = |index| {
        let word = words.iter().nth(index);
        word.and_then(|word| word.as_bytes()).unwrap_or_default()
    };
    match (word(0), word(1)) {
        (b"HELLO", _) => out.extend_from_slice(b"%1\r\n+role\r\n+master\r\n"),
        (b"INFO", b"server") => {
            let uptime = "uptime_in_seconds:1000000";
            bulk(out, &format!("run_id:{}\r\n{uptime}", node.index()));
        }
        (b"INFO", _) => out.extend_from_slice(b"$-1\r\n"),
        (b"SCRIPT", b"LOAD") => bulk(out, &sha1_smol::Sha1::from(word(2)).digest().to_string()),
        (verb, _) => panic!("{} is no part of a handshake", verb.escape_ascii()),
    }
}

fn bulk(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(format!("${}\r\n{text}\r\n", text.len()).as_bytes());
}
