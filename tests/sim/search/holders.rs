//! Search: every order of events in which few claimants of one name take, share and release it, breadth first.
//!
//! Each claimant has an engine of its own, and makes one attempt: for a permit, a shared lock, or an exclusive one, which
//! it may make a shared one. What happens next is chosen in every way: a claimant begins, gives up, releases its lock or
//! believes in it no more; a node runs the next command of a connection, whose answer arrives or is lost with the
//! connection; a connection breaks with all that is on its way; the entry of a claimant that does not believe in it
//! ends on a node; and a node loses its data in a restart.
//!
//! # Guarantees
//!
//! * Nobody believes that it holds the exclusive lock while another believes that it holds the lock, and no two that they
//!   hold the same slot.
//! * Histories of one [`Summary`] go on alike: that is tested while the search goes on, with a second history of each.
//! * Two states with the same fingerprint go on alike: they differ in the names of nodes, and of claimants of one kind.
//!
//! # Not here
//!
//! No clock goes on: an entry ends when the search says so, which it does not while its claimant asks or believes. What is
//! about no lock is done at once. Who waits, extends and keeps locks is in the worlds of [`reading`](crate::reading).

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use shearline::engine::{Engine, Event, Input, NodeId, Output, Request, RoundId};
use shearline::internals::resp::Inbox;
use shearline::internals::{LinkFault, Session, Store, scripts};
use shearline::{Config, Instant, Lock, LockOptions};

use super::hash_of;
use super::node::{Words, run};
use crate::mutations;
use crate::oracle::{Command, Verb};

const NODES: usize = 3;
const CLAIMANTS: usize = 4;
const RESOURCE: &[u8] = b"r";
const INTENT: &[u8] = b"shearline:intent:r";

/// Longer than any history.
const TTL: Duration = Duration::from_secs(3_600);

/// Servers have been up for longer when it begins.
const BEGIN: Instant = Instant::from_millis(100_000_000);

/// Stands for the token of a claimant.
const TOKEN: &[u8] = b"\0token";

/// Stands for a command about no lock behind one that is about a lock, and for its answer: its claimant knows.
const ASIDE: &[u8] = b"\0aside";

/// What a claimant wants.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Kind {
    Writer,
    Reader,
    /// One of so many permits.
    Permit(u16),
}

/// What may happen, and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) claimants: &'static [Kind],
    /// Connections that break.
    pub(crate) breaks: u8,
    /// Nodes that lose their data.
    pub(crate) losses: u8,
    /// Writers that become readers.
    pub(crate) downgrades: u8,
    /// Claimants that give up while they are asking.
    pub(crate) give_ups: u8,
}

/// As often as there are occasions.
const ANY_NUMBER: u8 = u8::MAX;

/// What a node keeps of one claimant: nothing, its token alone, as a reader, or in a slot.
const NOTHING: u8 = 0;
const ALONE: u8 = 1;
const READS: u8 = 2;
/// In the first slot of a permit; in others more.
const SLOT: u8 = 3;

type Node = [u8; CLAIMANTS];

// ----- what nodes do ----------------------------------------------------------------------------

/// The number of some words.
type Number = u16;

/// Stands among what was heard for the end of a connection.
const CUT: (Number, Number) = (Number::MAX, Number::MAX);

/// Words that are met again and again, by their numbers.
#[derive(Default)]
struct Known<T> {
    all: Vec<T>,
    numbers: HashMap<T, Number>,
}

impl<T: Clone + Eq + std::hash::Hash> Known<T> {
    fn number(&mut self, of: &T) -> Number {
        if let Some(number) = self.numbers.get(of) {
            return *number;
        }
        let number = Number::try_from(self.all.len()).expect("there are few");
        self.all.push(of.clone());
        self.numbers.insert(of.clone(), number);
        number
    }
}

/// Runs commands, and remembers what they did.
#[derive(Default)]
struct Nodes {
    /// What the claimants want.
    kinds: &'static [Kind],
    commands: Known<Words>,
    replies: Known<Vec<u8>>,
    /// The scripts that servers are to keep.
    loads: Vec<Words>,
    done: HashMap<(Node, usize, Number), (Node, Number)>,
}

fn token_of(claimant: usize) -> Vec<u8> {
    format!("token{claimant:015}").into_bytes()
}

fn claimant_of(token: &[u8]) -> usize {
    let found = (0..CLAIMANTS).find(|claimant| token_of(*claimant) == token);
    found.expect("a token of a claimant")
}

impl Nodes {
    fn run(&mut self, node: Node, claimant: usize, command: Number) -> (Node, Number) {
        if let Some(done) = self.done.get(&(node, claimant, command)) {
            return *done;
        }
        let (after, reply) = self.execute(node, claimant, command);
        let done = (after, self.replies.number(&reply));
        self.done.insert((node, claimant, command), done);
        done
    }

    fn execute(&self, node: Node, claimant: usize, command: Number) -> (Node, Vec<u8>) {
        let now = BEGIN;
        if self.commands.all[usize::from(command)] == [ASIDE] {
            return (node, ASIDE.to_vec());
        }
        let mut store = Store::new(1, now);
        let mut session = store.session();
        let mut execute = |words: &Words, store: &mut Store| {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            run(store, &mut session, now, &words)
        };
        for words in &self.loads {
            execute(words, &mut store);
        }
        for (holder, entry) in node.into_iter().enumerate() {
            if entry != NOTHING {
                execute(&taken(self.kinds[holder], holder, entry), &mut store);
            }
        }
        let words = self.commands.all[usize::from(command)].iter();
        let own = token_of(claimant);
        let words = words.map(|word| match word == TOKEN {
            true => own.clone(),
            false => word.clone(),
        });
        let reply = execute(&words.collect(), &mut store);
        (read(&store, now), reply)
    }
}

/// Returns the command by which a claimant gets this entry.
fn taken(kind: Kind, claimant: usize, entry: u8) -> Words {
    let ttl = TTL.as_millis().to_string().into_bytes();
    let token = token_of(claimant);
    let words: Vec<&[u8]> = match entry {
        ALONE => vec![b"SET", RESOURCE, &token, b"PX", &ttl],
        SLOT.. => {
            let Kind::Permit(all) = kind else {
                unreachable!("only a permit has slots");
            };
            let numbers = [all, u16::from(entry - SLOT), 1];
            let [all, slot, tries] = numbers.map(|number| number.to_string().into_bytes());
            let script = scripts::TAKE_SLOT.0.as_bytes();
            let head: [&[u8]; 7] = [b"EVAL", script, b"1", RESOURCE, &token, &ttl, b""];
            let words = head.into_iter().chain([&all[..], &slot[..], &tries[..]]);
            return words.map(<[u8]>::to_vec).collect();
        }
        _ => {
            let script = scripts::TAKE_SHARED.0.as_bytes();
            vec![
                b"EVAL", script, b"2", RESOURCE, INTENT, &token, &ttl, b"", b"1",
            ]
        }
    };
    words.into_iter().map(<[u8]>::to_vec).collect()
}

fn read(store: &Store, now: Instant) -> Node {
    let mut node = [NOTHING; CLAIMANTS];
    if let Some(token) = store.get(now, RESOURCE) {
        node[claimant_of(token)] = ALONE;
    }
    for (member, _) in store.members(now, RESOURCE) {
        let (entry, token) = match member.strip_prefix(b"r/") {
            Some(token) => (READS, token),
            None => {
                let parts: Vec<&[u8]> = member.splitn(3, |byte| *byte == b'/').collect();
                let slot = str::from_utf8(parts[1])
                    .ok()
                    .and_then(|slot| slot.parse::<u8>().ok());
                (SLOT + slot.expect("a slot"), parts[2])
            }
        };
        node[claimant_of(token)] = entry;
    }
    node
}

// ----- what engines do --------------------------------------------------------------------------

/// What an engine is told.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Told {
    Begin,
    GiveUp,
    Release,
    Downgrade,
    Answer(u8, Number),
    /// Its connection to a node breaks; the node has restarted, perhaps.
    Cut(u8, bool),
}

#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
enum Phase {
    #[default]
    Idle,
    Open,
    Holds,
    /// It has been a writer.
    HoldsOn,
    Over,
}

/// What it has to do with one node.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Column {
    /// What the node has not run yet.
    up: VecDeque<Number>,
    /// What it has answered, and where the connection broke, until all is over.
    heard: Vec<(Number, Number)>,
    /// How often it has restarted.
    runs: u8,
}

/// What a claimant has heard, as far as it matters for what it does.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Summary {
    kind: Kind,
    phase: Phase,
    columns: [Column; NODES],
}

/// What follows when an engine is told something.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Step {
    /// The number of the summary.
    class: u32,
    /// It believes from then on that it holds this.
    got: Option<u8>,
}

struct Class {
    summary: Summary,
    history: Vec<Told>,
    /// A second history, to compare with.
    other: Option<Vec<Told>>,
    hash: u64,
    columns: [u64; NODES],
}

struct Engines {
    config: Config,
    classes: Vec<Class>,
    numbers: HashMap<Summary, u32>,
    steps: HashMap<(u32, Told), Step>,
    played: usize,
    is_compared: bool,
    /// Connections break: what is owed then depends on what was heard before.
    keeps_all: bool,
    unlike: Option<String>,
}

impl Engines {
    fn new(keeps_all: bool) -> Self {
        let config = Config::builder()
            .nodes(["node0", "node1", "node2"])
            .max_ttl(TTL)
            .watch_clocks(false)
            .node_timeout(Duration::from_secs(600))
            .dead_after(Duration::from_secs(600));
        Self {
            config: config.config().expect("a valid configuration"),
            classes: Vec::new(),
            numbers: HashMap::new(),
            steps: HashMap::new(),
            played: 0,
            is_compared: mutations::chosen().is_none(),
            keeps_all,
            unlike: None,
        }
    }

    fn summary(&self, class: u32) -> &Summary {
        &self.classes[class as usize].summary
    }

    /// An engine whose history has the summary `class` is told something.
    fn tell(&mut self, class: u32, told: Told, nodes: &mut Nodes) -> Step {
        if let Some(step) = self.steps.get(&(class, told)) {
            return *step;
        }
        let known = &self.classes[class as usize];
        let summary = known.summary.clone();
        let other = known.other.clone().filter(|_| self.is_compared);
        let history = [&known.history[..], &[told]].concat();
        let step = self.play(&summary, history, nodes);
        if let Some(mut other) = other {
            other.push(told);
            let also = self.play(&summary, other.clone(), nodes);
            if step != also {
                let history = &self.classes[class as usize].history;
                let unlike = format!("{history:?} and {other:?}: {step:?}, {also:?}");
                self.unlike.get_or_insert(unlike);
            }
        }
        self.steps.insert((class, told), step);
        step
    }

    fn play(&mut self, before: &Summary, history: Vec<Told>, nodes: &mut Nodes) -> Step {
        self.played += 1;
        let mut playing = Playing::new(before.kind, &self.config, nodes);
        let mut last = Did::default();
        for told in &history {
            last = playing.tell(*told, nodes);
        }
        let told = history.last().copied().expect("it was told something");
        let summary = before.after(told, &last, self.keeps_all);
        Step {
            class: self.number(summary, &history),
            got: last.got,
        }
    }

    /// Returns the number of a summary, which `history` has.
    fn number(&mut self, summary: Summary, history: &[Told]) -> u32 {
        if let Some(number) = self.numbers.get(&summary) {
            let known = &mut self.classes[*number as usize];
            if known.other.is_none() && known.history != history {
                known.other = Some(history.to_vec());
            }
            return *number;
        }
        let number = self.classes.len() as u32;
        self.classes.push(Class {
            hash: hash_of(&(summary.kind, summary.phase)),
            columns: std::array::from_fn(|node| hash_of(&summary.columns[node])),
            summary: summary.clone(),
            history: history.to_vec(),
            other: None,
        });
        self.numbers.insert(summary, number);
        number
    }
}

impl Summary {
    /// If it `keeps_all`, nothing that was heard is forgotten.
    fn after(&self, told: Told, did: &Did, keeps_all: bool) -> Self {
        let mut next = self.clone();
        match told {
            Told::Begin => next.phase = Phase::Open,
            Told::GiveUp | Told::Release => next.phase = Phase::Over,
            Told::Downgrade => next.phase = Phase::HoldsOn,
            Told::Answer(node, reply) => {
                let column = &mut next.columns[usize::from(node)];
                let command = column.up.pop_front().expect("it has answered something");
                column.heard.push((command, reply));
            }
            Told::Cut(node, has_restarted) => {
                let column = &mut next.columns[usize::from(node)];
                let lost = column.up.drain(..);
                column
                    .heard
                    .extend(lost.map(|command| (command, Number::MAX)));
                column.heard.push(CUT);
                column.runs += u8::from(has_restarted);
            }
        }
        if did.got.is_some() && next.phase == Phase::Open {
            next.phase = Phase::Holds;
        }
        if did.is_over {
            next.phase = Phase::Over;
        }
        for (node, command) in &did.sent {
            next.columns[*node].up.push_back(*command);
        }
        // What a connection has lost may be owed for long.
        let is_cut = |column: &Column| column.heard.contains(&CUT);
        let forgets = matches!(next.phase, Phase::Idle | Phase::Over);
        if forgets && !keeps_all && !next.columns.iter().any(is_cut) {
            next.columns
                .iter_mut()
                .for_each(|column| column.heard.clear());
        }
        next
    }
}

/// What an engine did when it was told the last thing.
#[derive(Debug, Default)]
struct Did {
    sent: Vec<(usize, Number)>,
    got: Option<u8>,
    is_over: bool,
}

struct Link {
    id: Option<NodeId>,
    store: Store,
    session: Session,
    commands: Box<Inbox>,
    runs: u64,
    /// How many commands are on their way; and of these, those that are about no lock.
    up: usize,
    asides: VecDeque<Words>,
}

impl Link {
    fn run(&mut self, now: Instant, words: &Words) -> Vec<u8> {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        run(&mut self.store, &mut self.session, now, &words)
    }
}

/// An engine that is told a history.
struct Playing {
    kind: Kind,
    engine: Engine,
    now: Instant,
    links: Vec<Link>,
    token: Option<Vec<u8>>,
    round: Option<RoundId>,
    lock: Option<Lock>,
}

impl Playing {
    fn new(kind: Kind, config: &Config, nodes: &mut Nodes) -> Self {
        let link = |node: usize| {
            let mut store = Store::new(node as u64, Instant::ZERO);
            Link {
                id: None,
                session: store.session(),
                store,
                commands: Box::new(Inbox::default()),
                runs: 0,
                up: 0,
                asides: VecDeque::new(),
            }
        };
        let mut playing = Self {
            kind,
            engine: Engine::new(config, [3; 32], BEGIN),
            now: BEGIN,
            links: (0..NODES).map(link).collect(),
            token: None,
            round: None,
            lock: None,
        };
        playing.pump(nodes);
        playing
    }

    fn tell(&mut self, told: Told, nodes: &mut Nodes) -> Did {
        let now = self.now;
        match told {
            Told::Begin => {
                let options = LockOptions::new(TTL).tries(1);
                let request = match self.kind {
                    Kind::Writer => Request::new(RESOURCE, &options),
                    Kind::Reader => Request::shared(RESOURCE, &options),
                    Kind::Permit(all) => Request::permit(RESOURCE, all.into(), &options),
                };
                let round = self.engine.acquire(now, &request);
                self.round = Some(round.expect("there is room"));
            }
            Told::GiveUp => {
                let round = self.round.take().expect("an attempt is open");
                self.engine.cancel(now, round);
            }
            Told::Release => {
                let lock = self.lock.take().expect("a lock is held");
                self.engine.release(now, lock);
            }
            Told::Downgrade => {
                let lock = self.lock.as_mut().expect("a lock is held");
                let round = self.engine.downgrade(now, lock);
                round.expect("it is valid");
            }
            Told::Answer(node, reply) => {
                let link = &mut self.links[usize::from(node)];
                link.up -= 1;
                let node = link.id.expect("it is connected");
                let reply = &nodes.replies.all[usize::from(reply)];
                let bytes = match reply == ASIDE {
                    true => {
                        let words = link.asides.pop_front().expect("one is on its way");
                        link.run(now, &words)
                    }
                    false => reply.clone(),
                };
                let bytes = &bytes[..];
                self.engine.handle(now, Input::Received { node, bytes });
            }
            Told::Cut(node, has_restarted) => {
                // A connection that has lasted for some time is opened again at once.
                self.now = now.saturating_add(Duration::from_secs(10));
                let now = self.now;
                let link = &mut self.links[usize::from(node)];
                link.up = 0;
                link.asides.clear();
                if has_restarted {
                    link.runs += 1;
                    let seed = u64::from(node) + NODES as u64 * link.runs;
                    let memory = shearline::embedded::Memory::Lost;
                    link.store.restart(seed, now, memory);
                }
                if let Some(node) = link.id.take() {
                    let reason = LinkFault::Reset.into();
                    self.engine
                        .handle(now, Input::Disconnected { node, reason });
                }
            }
        }
        self.pump(nodes)
    }

    /// Does what the engine asks for. What is about no lock is answered at once.
    fn pump(&mut self, nodes: &mut Nodes) -> Did {
        let mut did = Did::default();
        let now = self.now;
        self.engine.handle(now, Input::Tick);
        loop {
            let mut sent: Vec<(NodeId, Words)> = Vec::new();
            match self.engine.poll(now) {
                None => return did,
                Some(Output::Connect { node }) => {
                    let link = &mut self.links[node.index()];
                    link.id = Some(node);
                    link.session = link.store.session();
                    *link.commands = Inbox::default();
                    self.engine.handle(now, Input::Connected { node });
                }
                Some(Output::Transmit { node, mut bytes }) => {
                    let len = bytes.len();
                    let commands = &mut self.links[node.index()].commands;
                    while let Ok(Some(frame)) = commands.next(&mut bytes) {
                        let words = frame.value.as_items().expect("a command").iter();
                        let words = words.map(|word| word.as_bytes().expect("a word").to_vec());
                        sent.push((node, words.collect()));
                    }
                    self.engine.handle(now, Input::Transmitted { node, len });
                }
                Some(Output::Event(event)) => self.hear(event, &mut did),
                Some(_) => {}
            }
            for (node, words) in sent {
                self.send(node, words, nodes, &mut did);
            }
        }
    }

    fn hear(&mut self, event: Event, did: &mut Did) {
        match event {
            Event::Acquired { round, result } if self.round == Some(round) => {
                self.round = None;
                did.is_over = result.is_err();
                self.lock = result.ok();
                did.got = self.lock.as_ref().map(what_it_is);
            }
            // What has become of a writer that reads.
            Event::Confirmed {
                result: Ok(extension),
                ..
            } => {
                if let Some(lock) = &mut self.lock {
                    extension.apply(lock);
                }
            }
            Event::Expired { .. } => {
                did.is_over = self.lock.take().is_some();
            }
            Event::Acquired { .. } | Event::Confirmed { .. } | Event::Released { .. } | _ => {}
        }
    }

    fn send(&mut self, node: NodeId, mut words: Words, nodes: &mut Nodes, did: &mut Did) {
        let link = &mut self.links[node.index()];
        if words.iter().any(|word| word == RESOURCE) {
            if self.token.is_none() {
                self.token = Some(token_in(&words));
            }
            for word in &mut words {
                if Some(&*word) == self.token.as_ref() {
                    *word = TOKEN.to_vec();
                }
            }
            link.up += 1;
            did.sent.push((node.index(), nodes.commands.number(&words)));
            return;
        }
        if 0 < link.up {
            link.up += 1;
            link.asides.push_back(words);
            did.sent
                .push((node.index(), nodes.commands.number(&vec![ASIDE.to_vec()])));
            return;
        }
        if words[0] == b"SCRIPT" && !nodes.loads.contains(&words) {
            nodes.loads.push(words.clone());
        }
        let bytes = link.run(self.now, &words);
        let bytes = &bytes[..];
        self.engine
            .handle(self.now, Input::Received { node, bytes });
    }
}

fn what_it_is(lock: &Lock) -> u8 {
    match lock.slot() {
        Some(slot) => SLOT + u8::try_from(slot).expect("there are few"),
        None if lock.is_shared() => READS,
        None => ALONE,
    }
}

/// Returns the token in the first command about a lock.
fn token_in(words: &Words) -> Vec<u8> {
    let slices: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let token = Command::of(&slices, b"")
        .token
        .expect("a lock of a claimant");
    let word = words.iter().find(|word| word.starts_with(&token));
    word.expect("its token").clone()
}

// ----- what may happen --------------------------------------------------------------------------

/// What happens next. A claimant is named first, then a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Move {
    Begin(u8),
    GiveUp(u8),
    Release(u8),
    Downgrade(u8),
    /// Before it the entries of these claimants end on the node, a bit each: by a release that comes next there, or with
    /// their time, before which their claimants believe in them no more.
    Run(u8, u8, u8),
    /// The same, and the connection breaks before its answer arrives.
    RunUnheard(u8, u8, u8),
    Break(u8, u8),
    /// A node loses its data in a restart.
    Lose(u8),
}

#[derive(Clone, Copy, Debug)]
struct Claimant {
    class: u32,
    /// What it believes to hold.
    believes: u8,
}

#[derive(Clone, Copy, Debug)]
struct State {
    nodes: [Node; NODES],
    claimants: [Claimant; CLAIMANTS],
    breaks: u8,
    losses: u8,
    downgrades: u8,
    give_ups: u8,
}

struct World {
    bounds: Bounds,
    engines: Engines,
    nodes: Nodes,
    /// The orders of claimants that make no difference.
    orders: Vec<Vec<usize>>,
}

impl World {
    fn new(bounds: Bounds) -> Self {
        let kinds = bounds.claimants;
        let mut orders = vec![Vec::new()];
        for place in 0..kinds.len() {
            let longer = orders.iter().flat_map(|order: &Vec<usize>| {
                let free = (0..kinds.len()).filter(|next| !order.contains(next));
                let alike = free.filter(|next| kinds[*next] == kinds[place]);
                alike.map(|next| [&order[..], &[next]].concat())
            });
            orders = longer.collect();
        }
        Self {
            bounds,
            engines: Engines::new(bounds.breaks != 0),
            nodes: Nodes {
                kinds,
                ..Nodes::default()
            },
            orders,
        }
    }

    fn first(&mut self) -> State {
        let idle = |kind| Summary {
            kind,
            phase: Phase::Idle,
            columns: std::array::from_fn(|_| Column::default()),
        };
        let kinds = self.bounds.claimants;
        let class = |claimant: usize| {
            let kind = kinds.get(claimant).copied().unwrap_or(Kind::Reader);
            self.engines.number(idle(kind), &[])
        };
        let classes: Vec<u32> = (0..CLAIMANTS).map(class).collect();
        State {
            nodes: [[NOTHING; CLAIMANTS]; NODES],
            claimants: std::array::from_fn(|claimant| Claimant {
                class: classes[claimant],
                believes: NOTHING,
            }),
            breaks: self.bounds.breaks,
            losses: self.bounds.losses,
            downgrades: self.bounds.downgrades,
            give_ups: self.bounds.give_ups,
        }
    }

    fn moves(&self, state: &State, moves: &mut Vec<Move>) {
        moves.clear();
        if let Some(alone) = self.makes_no_difference(state) {
            return moves.push(alone);
        }
        if 0 < state.losses {
            moves.extend((0..NODES as u8).map(Move::Lose));
        }
        for number in 0..self.bounds.claimants.len() as u8 {
            let Claimant { class, believes } = state.claimants[usize::from(number)];
            let Summary { phase, columns, .. } = self.engines.summary(class);
            match phase {
                Phase::Idle => moves.push(Move::Begin(number)),
                Phase::Open if 0 < state.give_ups => moves.push(Move::GiveUp(number)),
                Phase::Open => {}
                Phase::Holds | Phase::HoldsOn => moves.push(Move::Release(number)),
                Phase::Over => {}
            }
            let may_read = believes == ALONE && *phase == Phase::Holds;
            if may_read && 0 < state.downgrades {
                moves.push(Move::Downgrade(number));
            }
            for node in 0..NODES as u8 {
                let next = columns[usize::from(node)].up.front();
                let asks = matches!(phase, Phase::Open | Phase::Holds | Phase::HoldsOn);
                if 0 < state.breaks && (asks || next.is_some()) {
                    moves.push(Move::Break(number, node));
                }
                if next.is_some() {
                    self.runs(state, (number, node), moves);
                }
            }
        }
    }

    /// A node runs the next command of a claimant, after any entries have ended there that may.
    ///
    /// An entry need not end before a command comes that can see it. So the release of an attempt that is over is not run
    /// for itself.
    fn runs(&self, state: &State, (number, node): (u8, u8), moves: &mut Vec<Move>) {
        let class = state.claimants[usize::from(number)].class;
        let there = state.nodes[usize::from(node)];
        let is_over = self.engines.summary(class).phase == Phase::Over;
        let reads = !self.is_released_next(class, node);
        if !reads && is_over && there[usize::from(number)] != NOTHING {
            return;
        }
        let may_end = (0..self.bounds.claimants.len()).filter(|claimant| {
            let Claimant { class, .. } = state.claimants[*claimant];
            there[*claimant] != NOTHING && self.engines.summary(class).phase != Phase::Open
        });
        let may_end: u8 = may_end.map(|claimant| 1 << claimant).sum();
        let all = if reads { may_end } else { 0 };
        let mut ends = all;
        loop {
            moves.push(Move::Run(number, node, ends));
            if 0 < state.breaks {
                moves.push(Move::RunUnheard(number, node, ends));
            }
            if ends == 0 {
                return;
            }
            ends = (ends - 1) & all; // The next of all subsets.
        }
    }

    /// Returns a move that comes first without loss, if there is one: it changes nothing that another move reads, now or
    /// later, nor what anybody believes.
    ///
    /// So does a claimant begin while no connection breaks and no node loses its data. And so does a node run the
    /// release of an attempt that is over if it has no entry of it.
    fn makes_no_difference(&self, state: &State) -> Option<Move> {
        let Bounds { breaks, losses, .. } = self.bounds;
        let claimants = 0..self.bounds.claimants.len() as u8;
        claimants.into_iter().find_map(|number| {
            let class = state.claimants[usize::from(number)].class;
            let may_run = |node: &u8| {
                let entry = state.nodes[usize::from(*node)][usize::from(number)];
                entry == NOTHING && self.is_released_next(class, *node)
            };
            match self.engines.summary(class).phase {
                Phase::Idle if breaks == 0 && losses == 0 => Some(Move::Begin(number)),
                Phase::Over if state.breaks == 0 && state.losses == 0 => {
                    let node = (0..NODES as u8).find(may_run)?;
                    Some(Move::Run(number, node, 0))
                }
                Phase::Idle | Phase::Open | Phase::Holds | Phase::HoldsOn | Phase::Over => None,
            }
        })
    }

    /// Returns `true` if the next command of a claimant to a node is a release, or about no lock.
    fn is_released_next(&self, class: u32, node: u8) -> bool {
        let next = self.engines.summary(class).columns[usize::from(node)]
            .up
            .front();
        next.is_some_and(|command| {
            let words = &self.nodes.commands.all[usize::from(*command)];
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            words == [ASIDE] || Command::of(&words, b"").verb == Verb::Release
        })
    }

    /// Returns what is wrong, if anything is.
    fn go(&mut self, state: &mut State, step: Move) -> Option<String> {
        match step {
            Move::Begin(claimant) => self.tell(state, claimant, Told::Begin),
            Move::GiveUp(claimant) => {
                state.give_ups -= u8::from(state.give_ups != ANY_NUMBER);
                self.tell(state, claimant, Told::GiveUp);
            }
            Move::Release(claimant) => {
                state.claimants[usize::from(claimant)].believes = NOTHING;
                self.tell(state, claimant, Told::Release);
            }
            Move::Downgrade(claimant) => {
                state.downgrades -= 1;
                state.claimants[usize::from(claimant)].believes = READS;
                self.tell(state, claimant, Told::Downgrade);
            }
            Move::Run(claimant, node, ends) => {
                self.end(state, node, ends);
                let reply = self.run(state, claimant, node);
                self.tell(state, claimant, Told::Answer(node, reply));
            }
            Move::RunUnheard(claimant, node, ends) => {
                state.breaks -= 1;
                self.end(state, node, ends);
                self.run(state, claimant, node);
                self.tell(state, claimant, Told::Cut(node, false));
            }
            Move::Break(claimant, node) => {
                state.breaks -= 1;
                self.tell(state, claimant, Told::Cut(node, false));
            }
            Move::Lose(node) => {
                state.losses -= 1;
                state.nodes[usize::from(node)] = [NOTHING; CLAIMANTS];
                for claimant in 0..self.bounds.claimants.len() as u8 {
                    self.tell(state, claimant, Told::Cut(node, true));
                }
            }
        }
        wrong(self.bounds.claimants, state)
    }

    /// The entries of these claimants end on a node.
    fn end(&mut self, state: &mut State, node: u8, ends: u8) {
        for claimant in (0..self.bounds.claimants.len() as u8).filter(|one| ends & 1 << one != 0) {
            let there = &mut state.claimants[usize::from(claimant)];
            let phase = self.engines.summary(there.class).phase;
            if phase == Phase::Over && self.is_released_next(there.class, node) {
                let reply = self.run(state, claimant, node);
                self.tell(state, claimant, Told::Answer(node, reply));
            } else {
                there.believes = NOTHING;
                state.nodes[usize::from(node)][usize::from(claimant)] = NOTHING;
            }
        }
    }

    /// A node runs the next command of a claimant. Returns the number of its reply.
    fn run(&mut self, state: &mut State, claimant: u8, node: u8) -> Number {
        let (claimant, node) = (usize::from(claimant), usize::from(node));
        let summary = self.engines.summary(state.claimants[claimant].class);
        let command = summary.columns[node].up.front();
        let command = *command.expect("a command is on its way");
        let (after, reply) = self.nodes.run(state.nodes[node], claimant, command);
        state.nodes[node] = after;
        reply
    }

    fn tell(&mut self, state: &mut State, claimant: u8, told: Told) {
        let there = &mut state.claimants[usize::from(claimant)];
        let step = self.engines.tell(there.class, told, &mut self.nodes);
        there.class = step.class;
        there.believes = step.got.unwrap_or(there.believes);
        if self.engines.summary(step.class).phase == Phase::Over {
            there.believes = NOTHING;
        }
    }

    /// Returns the same number for states that go on alike.
    fn fingerprint(&self, state: &State) -> u64 {
        let by = |order: &Vec<usize>| {
            let mut words: Vec<u64> = (0..NODES)
                .map(|node| {
                    let own = order.iter().map(|claimant| {
                        let class = state.claimants[*claimant].class;
                        let column = self.engines.classes[class as usize].columns[node];
                        (state.nodes[node][*claimant], column)
                    });
                    hash_of(&own.collect::<Vec<_>>())
                })
                .collect();
            words.sort_unstable();
            let all = order.iter().map(|claimant| {
                let Claimant { class, believes } = state.claimants[*claimant];
                (self.engines.classes[class as usize].hash, believes)
            });
            let all: Vec<_> = all.collect();
            let left = (state.breaks, state.losses, state.downgrades, state.give_ups);
            hash_of(&(words, all, left))
        };
        self.orders.iter().map(by).min().unwrap_or(0)
    }
}

/// Returns which beliefs do not go together.
fn wrong(kinds: &[Kind], state: &State) -> Option<String> {
    let held = state.claimants.iter().enumerate();
    let held: Vec<_> = held
        .filter(|(_, claimant)| claimant.believes != NOTHING)
        .collect();
    let bear = |(one, held): &(usize, &Claimant), (other, besides): &(usize, &Claimant)| match (
        held.believes,
        besides.believes,
    ) {
        (READS, READS) => true,
        (SLOT.., SLOT..) => held.believes != besides.believes && kinds[*one] == kinds[*other],
        _ => false,
    };
    let mut pairs = held.iter().enumerate().flat_map(|(number, one)| {
        let others = held[number + 1..].iter();
        others.map(move |other| (one, other))
    });
    let bad = pairs.any(|(one, other)| !bear(one, other));
    let who = || held.iter().map(|(number, _)| *number).collect::<Vec<_>>();
    bad.then(|| format!("{:?} hold the lock", who()))
}

/// What a search has found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) states: usize,
    pub(crate) steps: usize,
    pub(crate) depth: usize,
    pub(crate) played: usize,
    pub(crate) classes: usize,
    pub(crate) unlike: Option<String>,
    /// There are no others.
    pub(crate) all: bool,
    pub(crate) violation: Option<(Vec<Move>, String)>,
}

/// Looks at all states within the bounds, until two beliefs do not go together, or there are `most`.
pub(crate) fn search(bounds: Bounds, most: usize) -> Found {
    let mut world = World::new(bounds);
    let first = world.first();
    let mut seen = HashSet::from([world.fingerprint(&first)]);
    // By state: the one before it, and the move.
    let mut ways: Vec<(u32, Option<Move>)> = vec![(0, None)];
    let mut row = vec![first];
    let (mut steps, mut depth, mut violation, mut all) = (0, 0, None, true);
    let mut moves = Vec::new();
    while !row.is_empty() && all {
        let mut next = Vec::new();
        let begin = ways.len() - row.len();
        'row: for (at, state) in (begin..).zip(&row) {
            world.moves(state, &mut moves);
            for step in &moves {
                steps += 1;
                let mut after = *state;
                if let Some(wrong) = world.go(&mut after, *step) {
                    let way = way_to(&ways, at).into_iter().chain([*step]);
                    violation = Some((way.collect(), wrong));
                    all = false;
                    break 'row;
                }
                if !seen.insert(world.fingerprint(&after)) {
                    continue;
                }
                if ways.len() == most {
                    all = false;
                    break 'row;
                }
                ways.push((at as u32, Some(*step)));
                next.push(after);
            }
        }
        row = next;
        depth += usize::from(!row.is_empty());
    }
    Found {
        states: ways.len(),
        steps,
        depth,
        played: world.engines.played,
        classes: world.engines.classes.len(),
        unlike: world.engines.unlike,
        all,
        violation,
    }
}

fn way_to(ways: &[(u32, Option<Move>)], mut at: usize) -> Vec<Move> {
    let mut way = Vec::new();
    while let (before, Some(step)) = ways[at] {
        way.push(step);
        at = before as usize;
    }
    way.reverse();
    way
}

#[cfg(test)]
mod tests {
    use super::Kind::{Permit, Reader, Writer};
    use super::*;
    use crate::mutations::Chosen;
    use crate::replay::{effort, number};
    use crate::sweep::{real_time, say};

    const NONE: Bounds = Bounds {
        claimants: &[Reader, Reader, Writer],
        breaks: 0,
        losses: 0,
        downgrades: 0,
        give_ups: ANY_NUMBER,
    };

    const PERMITS: Bounds = Bounds {
        claimants: &[Permit(2), Permit(2), Permit(2)],
        ..NONE
    };

    /// And whether the long run looks at all states.
    const ALL: [(&str, Bounds, bool); 10] = [
        (
            "three claimants of two permits, none of whom gives up",
            Bounds {
                give_ups: 0,
                ..PERMITS
            },
            true,
        ),
        (
            "three claimants of two permits, one of whom gives up",
            Bounds {
                give_ups: 1,
                ..PERMITS
            },
            false,
        ),
        ("three claimants of two permits", PERMITS, false),
        (
            "three claimants of two permits, a loss",
            Bounds {
                losses: 1,
                ..PERMITS
            },
            false,
        ),
        (
            "two claimants of two permits, and one of three",
            Bounds {
                claimants: &[Permit(2), Permit(2), Permit(3)],
                ..NONE
            },
            true,
        ),
        ("two readers and a writer", NONE, true),
        (
            "two readers and a writer that reads",
            Bounds {
                downgrades: 1,
                ..NONE
            },
            true,
        ),
        (
            "two readers and a writer, a loss",
            Bounds { losses: 1, ..NONE },
            true,
        ),
        (
            "two readers and a writer, a loss and a break",
            Bounds {
                losses: 1,
                breaks: 1,
                ..NONE
            },
            false,
        ),
        (
            "a reader and a writer that reads, a loss and a break",
            Bounds {
                claimants: &[Reader, Writer],
                losses: 1,
                breaks: 1,
                downgrades: 1,
                ..NONE
            },
            false,
        ),
    ];

    /// States of each that the long run looks at: of those that it looks at to the end, and of the others.
    const STATES: [u64; 2] = [30_000_000, 100_000];

    /// States of each that the ordinary run looks at.
    const STATES_OF_ORDINARY_RUN: u64 = 3_000;

    fn look(name: &str, bounds: Bounds, most: u64) -> Found {
        let begun = real_time();
        let found = search(bounds, most as usize);
        say(&format!(
            "{name}: {} states, {} steps, {} moves at most, {} histories of {} kinds, {:.1} s, {}",
            found.states,
            found.steps,
            found.depth,
            found.played,
            found.classes,
            begun.elapsed().as_secs_f64(),
            match (&found.violation, found.all) {
                (Some((way, wrong)), _) => format!("{wrong}: {way:?}"),
                (None, true) => "there are no others".to_owned(),
                (None, false) => "there are others".to_owned(),
            }
        ));
        found
    }

    /// `STATES` looks further, by hand, and `WORLD` at one of them.
    #[test]
    fn no_order_of_events_gives_two_holders() {
        let _none = Chosen::new(None);
        for (name, bounds, to_the_end) in ALL {
            let [all, some] = STATES;
            let many = if to_the_end { all } else { some };
            let most = number("STATES").unwrap_or(effort(STATES_OF_ORDINARY_RUN, many));
            if std::env::var("WORLD").is_ok_and(|world| world != name) {
                continue;
            }
            let found = look(name, bounds, most);
            assert!(found.violation.is_none());
            assert_eq!(found.unlike, None, "histories of one kind");
            assert!(found.all || !to_the_end || most < all, "there are others");
        }
    }

    /// What makes exclusion wrong.
    #[cfg(shearline_mutants)]
    const FOUND: [(&str, Bounds); 8] = [
        ("AnySlotCounts", PERMITS),
        ("SlotGivenTwice", PERMITS),
        ("SlotMovedOver", PERMITS),
        ("ReadersIgnored", NONE),
        ("ReaderOverWriter", NONE),
        ("RefusedReaderCounts", NONE),
        ("ReleaseDeletesAll", NONE),
        ("QuarantineIgnored", Bounds { losses: 1, ..NONE }),
    ];

    #[cfg(shearline_mutants)]
    #[test]
    fn mutants_of_holders_are_found_by_the_search() {
        let most = number("STATES").unwrap_or(1_000_000);
        let missed: Vec<_> = FOUND
            .into_iter()
            .filter(|(mutant, _)| crate::mutations::tests::is_asked_for(mutant))
            .filter(|(mutant, bounds)| {
                let _chosen = Chosen::new(Some(mutant));
                look(mutant, *bounds, most).violation.is_none()
            })
            .map(|(mutant, _)| mutant)
            .collect();
        assert!(missed.is_empty(), "not found: {missed:?}");
    }
}
