//! Search: every order of events of a small world with fencing tokens, breadth first.
//!
//! Two engines and three nodes, of which each is a store that runs the scripts. What happens next is chosen in
//! every way: a client begins an attempt and gives up the one before, a node runs the next command of a connection
//! when its key is still there or has ended, and its counter too, a connection breaks with all that is on its way, a
//! node restarts from the disk of the beginning.
//! No clock goes on: a key ends when the search says so. A state that was seen before is not looked at again.
//!
//! An engine cannot be copied. A state is the way to it, which is gone again from the beginning.
//!
//! # Guarantees
//!
//! * Two states with the same fingerprint go on alike: it has all that a client has heard in its present attempt
//!   in that order, what is on its way, what the nodes keep, and the tokens that were reported. The clients are
//!   interchangeable if they make as many attempts, and so are nodes that began with the same counter.
//! * No token is reported twice, and none that is not above all that were reported when its attempt began.
//!
//! # Not here
//!
//! What has no part in tokens is done at once: handshakes, releases that nothing precedes, and reading what a node
//! has answered. What nobody could tell from an earlier or later time is done at one time: a key or a counter ends
//! just before the next command runs on its node, and an attempt is given up when its client begins another. Late
//! answers, extensions, sets, quarantines and repairs are for the worlds of [`fencing`](crate::fencing): a look at a
//! floor comes to nothing, and leaves no mark.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use shearline::embedded::{Memory, Session, Store};
use shearline::engine::{Engine, Event, Input, NodeId, Output, Request, RoundId};
use shearline::resp::{Inbox, Limits};
use shearline::{Config, FLOOR_KEY, Instant, LinkError, Lock, LockOptions, RestartGuard};

use crate::oracle::{Counted, Token, fencing_arguments, token_of};

const NODES: usize = 3;
const CLIENTS: usize = 2;

/// All orders of the nodes.
const ORDERS: [[usize; NODES]; 6] = [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
];

const RESOURCE: &[u8] = b"r";
const COUNTER: &[u8] = b"shearline:fence:r";

/// Longer than any history.
const TTL: Duration = Duration::from_secs(3_600);

/// What may happen in a search, and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// By client.
    pub(crate) attempts: [u8; CLIENTS],
    /// What the nodes have counted before.
    pub(crate) counters: [u64; NODES],
    pub(crate) breaks: u8,
    pub(crate) losses: u8,
    /// Counters that end.
    pub(crate) ends: u8,
}

/// What happens next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Move {
    Begin(usize),
    /// A node runs the next command of a client, which hears of it.
    Run(usize, usize),
    /// The same, after its key has ended.
    RunFree(usize, usize),
    /// The same, after its counter has ended too.
    RunEnded(usize, usize),
    Break(usize, usize),
    Lose(usize),
}

impl Move {
    fn to_byte(self) -> u8 {
        let (kind, client, node) = match self {
            Self::Begin(client) => (0, client, 0),
            Self::Run(client, node) => (1, client, node),
            Self::RunFree(client, node) => (2, client, node),
            Self::RunEnded(client, node) => (3, client, node),
            Self::Break(client, node) => (4, client, node),
            Self::Lose(node) => (5, 0, node),
        };
        (kind * CLIENTS * NODES + client * NODES + node) as u8
    }

    fn of_byte(byte: u8) -> Self {
        let (kind, place) = (
            usize::from(byte) / (CLIENTS * NODES),
            usize::from(byte) % (CLIENTS * NODES),
        );
        let (client, node) = (place / NODES, place % NODES);
        match kind {
            0 => Self::Begin(client),
            1 => Self::Run(client, node),
            2 => Self::RunFree(client, node),
            3 => Self::RunEnded(client, node),
            4 => Self::Break(client, node),
            _ => Self::Lose(node),
        }
    }
}

/// What a search has found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) states: usize,
    pub(crate) steps: usize,
    /// How many moves the longest way has.
    pub(crate) depth: usize,
    /// There are no others.
    pub(crate) all: bool,
    pub(crate) violation: Option<(Vec<Move>, String)>,
}

/// The number of an attempt: its client, and how many there were before.
type Attempt = (usize, u8);

type Words = Vec<Vec<u8>>;

#[derive(Default)]
struct Link {
    id: Option<NodeId>,
    session: Option<Session>,
    commands: Option<Box<Inbox>>,
    /// What the node has not run yet.
    up: VecDeque<Words>,
}

/// An attempt that is open.
struct Open {
    round: RoundId,
    /// The largest token that was reported before it.
    before: u64,
    /// What it has heard, in that order: from which node.
    heard: Vec<(usize, Vec<u8>)>,
}

struct Client {
    engine: Engine,
    links: [Link; NODES],
    begun: u8,
    open: Option<Open>,
    /// The largest number that a node has returned to it.
    seen: u64,
}

struct Node {
    store: Store,
    run_id: String,
    runs: u8,
}

/// A state, as it is reached by a row of moves.
struct State {
    bounds: Bounds,
    now: Instant,
    clients: [Client; CLIENTS],
    nodes: [Node; NODES],
    attempts: HashMap<Token, Attempt>,
    told: Vec<u64>,
    wrong: Option<String>,
}

fn run(store: &mut Store, now: Instant, words: &[&[u8]]) -> Vec<u8> {
    let mut session = store.session();
    let mut out = Vec::new();
    store.execute(&mut session, now, words, &mut out);
    store.disconnect(&session);
    out
}

impl Node {
    fn new(number: usize, now: Instant, counter: u64) -> Self {
        let mut node = Self {
            store: Store::new(number as u64, now),
            run_id: String::new(),
            runs: 0,
        };
        let said = run(&mut node.store, now, &[b"INFO", b"server"]);
        let said = String::from_utf8(said).expect("text");
        let run_id = said.lines().find_map(|line| line.strip_prefix("run_id:"));
        node.run_id = run_id.expect("it tells it").to_owned();
        node.start(now, counter);
        node
    }

    /// It has what it had in the beginning.
    fn start(&mut self, now: Instant, counter: u64) {
        let floor = format!("{}:0:{counter}", self.run_id);
        run(&mut self.store, now, &[b"SET", FLOOR_KEY, floor.as_bytes()]);
    }

    fn restart(&mut self, number: usize, now: Instant, counter: u64) {
        self.runs += 1;
        let seed = (number + NODES * usize::from(self.runs)) as u64;
        self.store.restart(seed, now, Memory::Lost);
        self.start(now, counter);
    }
}

impl Client {
    fn new(number: usize, now: Instant) -> Self {
        let config = Config::builder()
            .nodes(["node0", "node1", "node2"])
            .restart_guard(RestartGuard::Off)
            .watch_clocks(false)
            .node_timeout(Duration::from_secs(600))
            .dead_after(Duration::from_secs(600))
            .config()
            .expect("a valid configuration");
        Self {
            engine: Engine::new(&config, [number as u8; 32], now),
            links: Default::default(),
            begun: 0,
            open: None,
            seen: 0,
        }
    }
}

impl State {
    fn new(bounds: Bounds) -> Self {
        let now = Instant::from_millis(1_000);
        let mut state = Self {
            bounds,
            now,
            clients: std::array::from_fn(|client| Client::new(client, now)),
            nodes: std::array::from_fn(|node| Node::new(node, now, bounds.counters[node])),
            attempts: HashMap::new(),
            told: Vec::new(),
            wrong: None,
        };
        for client in 0..CLIENTS {
            state.pump(client);
        }
        // Connections that have lasted are opened again at once.
        state.now = Instant::from_millis(5_000);
        state
    }

    fn of(bounds: Bounds, way: &[u8]) -> Self {
        let mut state = Self::new(bounds);
        for step in way {
            state.go(Move::of_byte(*step));
        }
        state
    }

    // ----- what may happen ------------------------------------------------------------------

    fn moves(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        for (client, there) in self.clients.iter().enumerate() {
            if there.begun < self.bounds.attempts[client] {
                moves.push(Move::Begin(client));
            }
            for (node, link) in there.links.iter().enumerate() {
                let has = |key: &[u8]| self.nodes[node].store.get(self.now, key).is_some();
                if !link.up.is_empty() {
                    moves.push(Move::Run(client, node));
                    if has(RESOURCE) {
                        moves.push(Move::RunFree(client, node));
                    }
                    if 0 < self.bounds.ends && has(COUNTER) {
                        moves.push(Move::RunEnded(client, node));
                    }
                }
                if 0 < self.bounds.breaks && (there.open.is_some() || !link.up.is_empty()) {
                    moves.push(Move::Break(client, node));
                }
            }
        }
        if 0 < self.bounds.losses {
            moves.extend((0..NODES).map(Move::Lose));
        }
        moves
    }

    fn go(&mut self, step: Move) {
        match step {
            Move::Begin(client) => self.begin(client),
            Move::Run(client, node) => {
                self.run(client, node);
                self.pump(client);
            }
            Move::RunFree(client, node) => {
                self.end(node, RESOURCE);
                self.go(Move::Run(client, node));
            }
            Move::RunEnded(client, node) => {
                self.bounds.ends -= 1;
                self.end(node, COUNTER);
                self.go(Move::RunFree(client, node));
            }
            Move::Break(client, node) => {
                self.bounds.breaks -= 1;
                self.cut(client, node);
            }
            Move::Lose(node) => {
                self.bounds.losses -= 1;
                self.nodes[node].restart(node, self.now, self.bounds.counters[node]);
                for client in 0..CLIENTS {
                    self.cut(client, node);
                }
            }
        }
    }

    fn end(&mut self, node: usize, key: &[u8]) {
        run(&mut self.nodes[node].store, self.now, &[b"DEL", key]);
    }

    /// It gives up the attempt before, if that is open.
    fn begin(&mut self, client: usize) {
        if let Some(open) = self.clients[client].open.take() {
            self.clients[client].engine.cancel(self.now, open.round);
            self.pump(client);
        }
        let options = LockOptions::new(TTL).tries(1).fenced();
        let request = Request::new(RESOURCE, &options);
        let there = &mut self.clients[client];
        there.begun += 1;
        let round = there.engine.acquire(self.now, &request);
        there.open = Some(Open {
            round: round.expect("there is room"),
            before: self.told.iter().copied().max().unwrap_or(0),
            heard: Vec::new(),
        });
        self.pump(client);
    }

    /// What is on its way is lost.
    fn cut(&mut self, client: usize, node: usize) {
        let there = &mut self.clients[client];
        let link = &mut there.links[node];
        let Some(id) = link.id else {
            return;
        };
        link.up.clear();
        link.session = None;
        let reason = LinkError::Reset;
        there
            .engine
            .handle(self.now, Input::Disconnected { node: id, reason });
        self.pump(client);
    }

    /// A node runs the next command, and the client reads the answer.
    fn run(&mut self, client: usize, node: usize) {
        let there = &mut self.clients[client];
        let link = &mut there.links[node];
        let (Some(id), Some(session)) = (link.id, link.session.as_mut()) else {
            return;
        };
        let Some(words) = link.up.pop_front() else {
            return;
        };
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let mut reply = Vec::new();
        match looks_at_floor(&words) {
            true => reply.extend_from_slice(b"-ERR a repair takes longer than any history\r\n"),
            false => {
                let store = &mut self.nodes[node].store;
                store.execute(session, self.now, &words, &mut reply);
            }
        }
        if let Some(Counted::Taken(_, number)) = Counted::of(&words, &reply) {
            there.seen = there.seen.max(number);
        }
        let token = fencing_arguments(&words).map(|(_, arguments)| token_of(arguments[0]));
        let attempt = token.and_then(|token| self.attempts.get(&token));
        if attempt == Some(&(client, there.begun))
            && let Some(open) = &mut there.open
        {
            open.heard.push((node, reply.clone()));
        }
        let bytes = &reply[..];
        there
            .engine
            .handle(self.now, Input::Received { node: id, bytes });
    }

    /// Does what an engine asks for, and runs what has no part in tokens.
    fn pump(&mut self, client: usize) {
        self.clients[client].engine.handle(self.now, Input::Tick);
        loop {
            while self.obey(client) {}
            let links = &self.clients[client].links;
            let next = links.iter().position(|link| {
                let words = link.up.front();
                words.is_some_and(|words| !is_of_tokens(words))
            });
            match next {
                Some(node) => self.run(client, node),
                None => return,
            }
        }
    }

    /// Does one thing that an engine asks for. Returns `false` if there is none.
    fn obey(&mut self, client: usize) -> bool {
        let now = self.now;
        let Client {
            engine,
            links,
            begun,
            ..
        } = &mut self.clients[client];
        match engine.poll(now) {
            None => return false,
            Some(Output::Connect { node }) => {
                let link = &mut links[node.index()];
                *link = Link {
                    id: Some(node),
                    session: Some(self.nodes[node.index()].store.session()),
                    commands: Some(Box::new(Inbox::new(Limits::DEFAULT))),
                    up: VecDeque::new(),
                };
                engine.handle(now, Input::Connected { node });
            }
            Some(Output::Disconnect { node }) => links[node.index()].up.clear(),
            Some(Output::Probe { .. } | Output::CloseProbe { .. }) => {}
            Some(Output::Transmit { node, mut bytes }) => {
                let len = bytes.len();
                let link = &mut links[node.index()];
                let commands = link.commands.as_mut().expect("it is connected");
                while let Ok(Some(frame)) = commands.next(&mut bytes) {
                    let words = frame.value.as_items().expect("a command").iter();
                    let words = words.map(|word| word.as_bytes().expect("a word").to_vec());
                    let words: Words = words.collect();
                    if is_of_tokens(&words) {
                        let token = token_in(&words);
                        self.attempts.entry(token).or_insert((client, *begun));
                    }
                    link.up.push_back(words);
                }
                engine.handle(now, Input::Transmitted { node, len });
            }
            Some(Output::Event(Event::Acquired { round, result })) => {
                let open = self.clients[client]
                    .open
                    .take_if(|open| open.round == round);
                if let (Some(open), Ok(lock)) = (open, result) {
                    self.told(client, &open, lock);
                }
            }
            Some(Output::Event(_)) => {}
        }
        true
    }

    /// A lock is reported. Its user leaves it to itself.
    fn told(&mut self, client: usize, open: &Open, lock: Lock) {
        let token = lock.fencing_token().expect("it was asked for");
        if self.told.contains(&token) {
            self.wrong = Some(format!("{token} was given twice"));
        } else if token <= open.before {
            self.wrong = Some(format!("{token} follows {}", open.before));
        }
        self.told.push(token);
        self.told.sort_unstable();
        let _left = self.clients[client].engine.detach(self.now, lock);
    }

    // ----- what it is -----------------------------------------------------------------------

    /// Returns the same number for states that go on alike.
    fn fingerprint(&self) -> u64 {
        let Bounds {
            attempts, counters, ..
        } = self.bounds;
        let ways = [[0, 1], [1, 0]];
        let ways = &ways[..if attempts[0] == attempts[1] { 2 } else { 1 }];
        let alike = |order: &&[usize; NODES]| {
            let mut nodes = (0..NODES).zip(order.iter());
            nodes.all(|(node, other)| counters[node] == counters[*other])
        };
        let orders = ORDERS.iter().filter(alike);
        let all = orders.flat_map(|order| ways.iter().map(|way| self.hash_by(*way, *order)));
        all.min().unwrap_or(0)
    }

    /// The same with the clients and the nodes in this order.
    fn hash_by(&self, clients: [usize; CLIENTS], nodes: [usize; NODES]) -> u64 {
        let mut hash = DefaultHasher::new();
        let place = |token: &[u8]| {
            let (client, attempt) = self.attempts.get(&token_of(token))?;
            Some((clients.iter().position(|other| other == client), *attempt))
        };
        for node in nodes.map(|node| &self.nodes[node]) {
            let get = |key: &[u8]| node.store.get(self.now, key);
            get(RESOURCE).map(place).hash(&mut hash);
            get(COUNTER).hash(&mut hash);
            // Its number: the run_id is that of the node.
            let floor = get(FLOOR_KEY).and_then(|floor| floor.rsplit(|byte| *byte == b':').next());
            (floor, node.runs).hash(&mut hash);
        }
        for client in clients {
            let there = &self.clients[client];
            (there.begun, there.seen).hash(&mut hash);
            if let Some(open) = &there.open {
                open.before.hash(&mut hash);
                for (node, reply) in &open.heard {
                    let node = nodes.iter().position(|other| other == node);
                    (node, reply).hash(&mut hash);
                }
            }
            for link in nodes.map(|node| &there.links[node]) {
                usize::MAX.hash(&mut hash);
                for words in &link.up {
                    // Its kind, its token and its number; the rest is the same for all.
                    let fenced = is_of_tokens(words);
                    let (token, number) = match fenced {
                        true => (&words[6], words.get(9)),
                        false => (words.last().expect("a command"), None),
                    };
                    let raises = fenced && words[7].is_empty();
                    (fenced, raises, place(token), number).hash(&mut hash);
                }
            }
        }
        self.told.hash(&mut hash);
        let Bounds {
            breaks,
            losses,
            ends,
            ..
        } = self.bounds;
        (breaks, losses, ends).hash(&mut hash);
        hash.finish()
    }
}

fn is_of_tokens(words: &[Vec<u8>]) -> bool {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    fencing_arguments(&words).is_some() && !looks_at_floor(&words)
}

/// Returns `true` for a script that is about a floor alone.
fn looks_at_floor(words: &[&[u8]]) -> bool {
    fencing_arguments(words).is_some_and(|(names, _)| names.is_empty())
}

/// Returns the token of the lock of a script of fencing tokens.
fn token_in(words: &[Vec<u8>]) -> Token {
    token_of(&words[6])
}

/// Looks at all states within the bounds, until there is one in which a token is wrong, or there are `most`.
pub(crate) fn search(bounds: Bounds, most: usize) -> Found {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut seen = HashSet::from([State::new(bounds).fingerprint()]);
    let mut found = Found {
        states: 1,
        steps: 0,
        depth: 0,
        all: true,
        violation: None,
    };
    // By state: the one before it, and the move.
    let mut states: Vec<(u32, u8)> = vec![(0, 0)];
    let mut row = 0..1;
    while !row.is_empty() && found.all {
        let each = row.len().div_ceil(threads);
        let next: Vec<Vec<Next>> = std::thread::scope(|scope| {
            let starts = row.clone().step_by(each);
            let (states, end) = (&states, row.end);
            let look = |start: usize| {
                let part = start..(start + each).min(end);
                scope.spawn(move || part.flat_map(|at| after(bounds, states, at)).collect())
            };
            let parts: Vec<_> = starts.map(look).collect();
            let parts = parts.into_iter();
            parts
                .map(|part| part.join().expect("no engine panics"))
                .collect()
        });
        for next in next.into_iter().flatten() {
            found.steps += 1;
            if let Some(wrong) = next.wrong {
                let way = way_to(&states, next.before).into_iter().chain([next.step]);
                let way = way.map(Move::of_byte).collect();
                found.violation.get_or_insert((way, wrong));
                found.all = false;
            } else if states.len() == most {
                found.all = false;
            } else if seen.insert(next.fingerprint) {
                states.push((next.before as u32, next.step));
            }
        }
        row = row.end..states.len();
        found.depth += usize::from(!row.is_empty());
    }
    found.states = states.len();
    found
}

/// What follows a state.
struct Next {
    before: usize,
    step: u8,
    fingerprint: u64,
    wrong: Option<String>,
}

fn after(bounds: Bounds, states: &[(u32, u8)], at: usize) -> Vec<Next> {
    let way = way_to(states, at);
    let here = State::of(bounds, &way);
    let moves = here.moves();
    let mut here = Some(here);
    let mut all = Vec::with_capacity(moves.len());
    for (left, step) in (0..moves.len()).rev().zip(&moves) {
        let mut next = match left {
            0 => here.take().expect("it is there until the last"),
            _ => State::of(bounds, &way),
        };
        next.go(*step);
        all.push(Next {
            before: at,
            step: step.to_byte(),
            fingerprint: next.fingerprint(),
            wrong: next.wrong,
        });
    }
    all
}

fn way_to(states: &[(u32, u8)], mut at: usize) -> Vec<u8> {
    let mut way = Vec::new();
    while at != 0 {
        let (before, step) = states[at];
        way.push(step);
        at = before as usize;
    }
    way.reverse();
    way
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutations::Chosen;
    use crate::replay::number;
    use crate::sweep::{real_time, say};

    /// One attempt of each client, whose keys may end at any time.
    const TWO: Bounds = Bounds {
        attempts: [1, 1],
        counters: [0, 0, 0],
        breaks: 0,
        losses: 0,
        ends: 0,
    };

    /// The same with everything else, and nodes that have counted differently before.
    const PAIR: Bounds = Bounds {
        attempts: [1, 1],
        counters: [0, 0, 3],
        breaks: 1,
        losses: 1,
        ends: 1,
    };

    const THREE: Bounds = Bounds {
        attempts: [2, 1],
        ..TWO
    };

    /// With one loss of data.
    const THREE_WITH_LOSS: Bounds = Bounds {
        counters: [0, 0, 3],
        losses: 1,
        ..THREE
    };

    const ALL: [(&str, Bounds); 4] = [
        ("two attempts", TWO),
        ("two attempts and all else", PAIR),
        ("three attempts", THREE),
        ("three attempts and a loss", THREE_WITH_LOSS),
    ];

    /// States of each that the ordinary run looks at.
    const STATES: u64 = 3_000;

    fn look(name: &str, bounds: Bounds, most: u64) -> Found {
        let begun = real_time();
        let found = search(bounds, most as usize);
        say(&format!(
            "{name}: {} states, {} steps, {} moves at most, {:.1} s, {}",
            found.states,
            found.steps,
            found.depth,
            begun.elapsed().as_secs_f64(),
            match (&found.violation, found.all) {
                (Some((way, wrong)), _) => format!("{wrong}: {way:?}"),
                (None, true) => "there are no others".to_owned(),
                (None, false) => "there are others".to_owned(),
            }
        ));
        found
    }

    /// `STATES` looks further, by hand.
    #[test]
    fn no_order_of_events_gives_a_wrong_token() {
        let _none = Chosen::new(None);
        let most = number("STATES").unwrap_or(STATES);
        for (name, bounds) in ALL {
            assert!(look(name, bounds, most).violation.is_none());
        }
    }

    /// What makes tokens wrong.
    #[cfg(shearline_mutants)]
    const FOUND: [&str; 7] = [
        "TokenIsNotWrittenBack",
        "RaisedUnconditionally",
        "RaisedWithoutLock",
        "TokenSeenOnce",
        "LaterTokenCounts",
        "FloorOfAnyRun",
        "FloorNotLifted",
    ];

    #[cfg(shearline_mutants)]
    #[test]
    fn mutants_of_tokens_are_found_by_the_search() {
        let most = number("STATES").unwrap_or(200_000);
        let missed: Vec<_> = FOUND
            .into_iter()
            .filter(|mutant| crate::mutations::tests::is_asked_for(mutant))
            .filter(|mutant| {
                let _chosen = Chosen::new(Some(mutant));
                let found = ALL.iter().any(|(name, bounds)| {
                    let name = format!("{mutant}, {name}");
                    look(&name, *bounds, most).violation.is_some()
                });
                !found
            })
            .collect();
        assert!(missed.is_empty(), "not found: {missed:?}");
    }
}
