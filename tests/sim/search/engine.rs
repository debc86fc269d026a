//! The engine of a client in the search, as a function of what it has heard.
//!
//! An engine cannot be copied. But it is deterministic: what it does follows from what it was told, in that order.
//! So what it does after each history is found out once, by a new engine that is told all of it, and is remembered.
//! The clients have the same engine, with the same seed: a node never sees its random tokens, but those that stand for
//! them.
//!
//! # Guarantees
//!
//! * Histories of one [`Summary`] go on alike: what an engine does after one of them counts for all. That is tested
//!   while the search goes on: what follows from a summary is found out by a second history of it as well.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use shearline::engine::{Engine, Event, Input, NodeId, Output, Request, RoundId};
use shearline::internals::resp::Inbox;
use shearline::internals::{LinkFault, Session, Store};
use shearline::{Config, Instant, LockOptions};

use super::node::{Command, Reply, Wording, Words, run};
use super::{NODES, RESOURCE, TTL, config};
use crate::mutations;

/// What an engine is told.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Told {
    Begin,
    GiveUp,
    Answer(u8, Reply),
    /// Its connection to a node breaks; the node has restarted, perhaps.
    Cut(u8, bool),
}

/// What it has to do with one node.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Column {
    /// What the node has not run yet.
    pub(super) up: VecDeque<Command>,
    /// What the node has answered in the present attempt: when it was to take the lock, and to raise its counter.
    taken: Option<Reply>,
    raised: Option<Reply>,
    /// The connection was lost in the present attempt.
    is_cut: bool,
    runs: u8,
    /// It has said that it has no floor, and nothing else since.
    is_without_floor: bool,
}

/// What a client has heard, as far as it matters for what it does.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Summary {
    pub(super) begun: u8,
    pub(super) is_open: bool,
    /// The largest number that a node has returned to it.
    seen: u8,
    /// The largest number of the first majority of the present attempt.
    token: u8,
    /// The floors are looked at once more when they have been looked at: a node has come meanwhile.
    is_to_look: bool,
    pub(super) columns: [Column; NODES],
}

/// What follows when an engine is told something.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Step {
    /// The number of the summary.
    pub(super) class: u32,
    /// The token of a lock that is reported.
    pub(super) token: Option<u8>,
}

/// All histories of one summary.
pub(super) struct Class {
    pub(super) summary: Summary,
    history: Vec<Told>,
    /// A second history, to compare with.
    other: Option<Vec<Told>>,
    /// Of what is the same for all nodes, and of each column.
    pub(super) hash: u64,
    pub(super) columns: [u64; NODES],
}

pub(super) struct Engines {
    nodes: usize,
    config: Config,
    pub(super) wording: Wording,
    pub(super) classes: Vec<Class>,
    numbers: HashMap<Summary, u32>,
    steps: HashMap<(u32, Told), Step>,
    /// How many histories were played.
    pub(super) played: usize,
    is_compared: bool,
    /// Two histories of one summary that do not go on alike.
    pub(super) unlike: Option<String>,
}

impl Engines {
    pub(super) fn new(nodes: usize) -> Self {
        let mut engines = Self {
            nodes,
            config: config(nodes),
            wording: Wording::default(),
            classes: Vec::new(),
            numbers: HashMap::new(),
            steps: HashMap::new(),
            played: 0,
            is_compared: mutations::chosen().is_none(),
            unlike: None,
        };
        engines.number(Summary::default(), &[]);
        engines
    }

    pub(super) fn class(&self, class: u32) -> &Class {
        &self.classes[class as usize]
    }

    /// An engine whose history has the summary `class` is told something.
    pub(super) fn tell(&mut self, class: u32, told: Told) -> Step {
        if let Some(step) = self.steps.get(&(class, told)) {
            return *step;
        }
        let known = &self.classes[class as usize];
        let summary = known.summary.clone();
        let other = known.other.clone().filter(|_| self.is_compared);
        let history = [&known.history[..], &[told]].concat();
        let step = self.play(&summary, history);
        if let Some(mut other) = other {
            other.push(told);
            let also = self.play(&summary, other.clone());
            if step != also {
                let history = &self.classes[class as usize].history;
                let unlike = format!("{history:?} and {other:?}: {step:?}, {also:?}");
                self.unlike.get_or_insert(unlike);
            }
        }
        self.steps.insert((class, told), step);
        step
    }

    /// A new engine is told all of a history, of which the summary is known up to the last.
    fn play(&mut self, before: &Summary, history: Vec<Told>) -> Step {
        self.played += 1;
        let mut playing = Playing::new(self.nodes, &self.config, &mut self.wording);
        let mut last = Did::default();
        for told in &history {
            last = playing.tell(*told, &mut self.wording);
        }
        let told = history.last().copied().expect("it was told something");
        let summary = before.after(told, &last, self.nodes);
        Step {
            class: self.number(summary, &history),
            token: last.token,
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
        let Summary {
            begun,
            is_open,
            seen,
            token,
            is_to_look,
            ..
        } = summary;
        self.classes.push(Class {
            hash: super::hash_of(&(begun, is_open, seen, token, is_to_look)),
            columns: std::array::from_fn(|node| super::hash_of(&summary.columns[node])),
            summary: summary.clone(),
            history: history.to_vec(),
            other: None,
        });
        self.numbers.insert(summary, number);
        number
    }
}

impl Summary {
    fn after(&self, told: Told, did: &Did, nodes: usize) -> Self {
        let mut next = self.clone();
        match told {
            Told::Begin => {
                next.begun += 1;
                next.is_open = true;
            }
            Told::GiveUp => next.close(),
            Told::Answer(node, reply) => next.hear(usize::from(node), reply, nodes),
            Told::Cut(node, has_restarted) => {
                let column = &mut next.columns[usize::from(node)];
                column.up.clear();
                column.is_cut = next.is_open;
                column.runs += u8::from(has_restarted);
                next.is_to_look = 0 < next.begun;
            }
        }
        let looks = did
            .sent
            .iter()
            .any(|(_, command)| *command == Command::Look);
        next.is_to_look &= !looks;
        if did.is_over {
            next.close();
        }
        for (node, command) in &did.sent {
            next.columns[*node].up.push_back(*command);
        }
        next
    }

    fn close(&mut self) {
        self.is_open = false;
        self.token = 0;
        for column in &mut self.columns {
            (column.taken, column.raised, column.is_cut) = (None, None, false);
        }
    }

    fn hear(&mut self, node: usize, reply: Reply, nodes: usize) {
        let column = &mut self.columns[node];
        let command = column.up.pop_front().expect("it has answered something");
        let is_present = |attempt: u8| self.is_open && attempt + 1 == self.begun;
        match command {
            Command::Take { attempt, .. } => {
                column.is_without_floor = reply == Reply::NoFloor;
                if let Reply::Granted(number) = reply {
                    self.seen = self.seen.max(number);
                }
                if is_present(attempt) {
                    column.taken = Some(reply);
                }
            }
            Command::Raise { attempt, .. } if is_present(attempt) => column.raised = Some(reply),
            Command::Raise { .. } | Command::Release { .. } | Command::Look | Command::Aside => {}
        }
        let numbers = self.columns.iter().filter(|column| !column.is_cut);
        let numbers = numbers.filter_map(|column| match column.taken {
            Some(Reply::Granted(number)) => Some(number),
            _ => None,
        });
        let numbers: Vec<u8> = numbers.collect();
        if self.token == 0 && nodes / 2 < numbers.len() {
            self.token = numbers.into_iter().max().unwrap_or(0);
        }
    }
}

/// What an engine did when it was told the last thing.
#[derive(Debug, Default)]
struct Did {
    sent: Vec<(usize, Command)>,
    token: Option<u8>,
    is_over: bool,
}

struct Link {
    id: Option<NodeId>,
    store: Store,
    session: Session,
    commands: Box<Inbox>,
    runs: u64,
    /// How many commands are on their way: those that have a part in tokens, and what is behind them.
    up: usize,
    /// Of these, those that have none.
    asides: VecDeque<Words>,
}

/// An engine that is told a history.
struct Playing {
    engine: Engine,
    now: Instant,
    links: Vec<Link>,
    /// The tokens of its attempts.
    tokens: Vec<Vec<u8>>,
    round: Option<RoundId>,
}

impl Playing {
    fn new(nodes: usize, config: &Config, wording: &mut Wording) -> Self {
        let now = Instant::from_millis(1_000);
        let link = |node: usize| {
            let mut store = Store::new(node as u64, now);
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
            engine: Engine::new(config, [3; 32], now),
            now,
            links: (0..nodes).map(link).collect(),
            tokens: Vec::new(),
            round: None,
        };
        playing.pump(wording);
        playing
    }

    fn tell(&mut self, told: Told, wording: &mut Wording) -> Did {
        let now = self.now;
        match told {
            Told::Begin => {
                let options = LockOptions::new(TTL).tries(1).fenced();
                let round = self.engine.acquire(now, &Request::new(RESOURCE, &options));
                self.round = Some(round.expect("there is room"));
            }
            Told::GiveUp => {
                let round = self.round.take().expect("an attempt is open");
                self.engine.cancel(now, round);
            }
            Told::Answer(node, reply) => {
                let link = &mut self.links[usize::from(node)];
                link.up -= 1;
                let node = link.id.expect("it is connected");
                let bytes = match reply {
                    Reply::Aside => link.aside(now),
                    Reply::Granted(_)
                    | Reply::Held
                    | Reply::NoFloor
                    | Reply::Said(_)
                    | Reply::Error => reply.to_bytes(),
                };
                let bytes = &bytes[..];
                self.engine.handle(now, Input::Received { node, bytes });
            }
            Told::Cut(node, has_restarted) => {
                // A connection that has lasted for a second is opened again at once.
                self.now = now.saturating_add(Duration::from_secs(1));
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
        self.pump(wording)
    }

    /// Does what the engine asks for. What has no part in tokens is answered at once.
    fn pump(&mut self, wording: &mut Wording) -> Did {
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
                Some(Output::Event(Event::Acquired { round, result })) => {
                    if self.round == Some(round) {
                        self.round = None;
                        did.is_over = true;
                        // Its user leaves the lock to itself.
                        did.token = result.ok().map(|lock| {
                            let token = lock.fencing_token().expect("it was asked for");
                            let _left = self.engine.detach(now, lock);
                            u8::try_from(token).expect("no history counts further")
                        });
                    }
                }
                Some(_) => {}
            }
            for (node, words) in sent {
                self.send(node, words, wording, &mut did);
            }
        }
    }

    fn send(&mut self, node: NodeId, words: Words, wording: &mut Wording, did: &mut Did) {
        let link = &mut self.links[node.index()];
        if let Some(command) = wording.read(words.clone(), &mut self.tokens) {
            link.up += 1;
            did.sent.push((node.index(), command));
            return;
        }
        if 0 < link.up {
            link.up += 1;
            link.asides.push_back(words);
            did.sent.push((node.index(), Command::Aside));
            return;
        }
        let bytes = link.run(self.now, &words);
        let bytes = &bytes[..];
        self.engine
            .handle(self.now, Input::Received { node, bytes });
    }
}

impl Link {
    fn run(&mut self, now: Instant, words: &Words) -> Vec<u8> {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        run(&mut self.store, &mut self.session, now, &words)
    }

    /// The answer to a command that has no part in tokens, and was sent behind one that has.
    fn aside(&mut self, now: Instant) -> Vec<u8> {
        let words = self.asides.pop_front().expect("one is on its way");
        self.run(now, &words)
    }
}
