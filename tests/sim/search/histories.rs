//! Treats the engines of the search as functions of their inputs.
//!
//! An engine cannot be copied, but it is deterministic: its actions follow from its inputs and their order. So a new
//! engine plays each history once, and its action after the history is stored. All clients have the same engine, with
//! the same seed: nodes never see its random tokens, but others in their place.
//!
//! # Guarantees
//!
//! * Histories of one [`Summary`](Player::Summary) continue alike: what an engine does after one of them counts for
//!   all. The search tests this as it goes: it plays a second history of each summary, and compares what follows.

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use shearline::engine::{Engine, Event};
use shearline::internals::Store;
use shearline::{Config, Instant};

use super::node::Words;
use super::wired::{Link, User, Wired};
use crate::mutations;

/// When an engine begins: servers have been up for long enough by then.
pub(super) const BEGIN: Instant = Instant::from_millis(100_000_000);

/// How the engines of a search are played.
pub(super) trait Player {
    /// An input of an engine.
    type Told: Copy + Debug + Eq + Hash;

    /// What a client has heard, as far as it affects what it does.
    type Summary: Clone + Eq + Hash;

    /// Gives a new engine a whole history, whose summary before the last input is `before`. Returns the summary of the
    /// whole history, and what the client has got by the last input.
    fn play(&mut self, before: &Self::Summary, told: &[Self::Told]) -> (Self::Summary, Option<u8>);

    /// Returns a hash of the part that is the same for all nodes, and one for the part about each node.
    fn hashes(summary: &Self::Summary) -> (u64, Vec<u64>);
}

/// The effect of an input of an engine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Step {
    /// The number of the summary.
    pub(super) class: u32,
    /// What the client has got: the token of a lock, or what it believes to hold from then on.
    pub(super) got: Option<u8>,
}

/// All histories of one summary.
pub(super) struct Class<P: Player> {
    pub(super) summary: P::Summary,
    history: Vec<P::Told>,
    /// A second history, to compare with.
    other: Option<Vec<P::Told>>,
    /// The hash of the part that is the same for all nodes, and (`columns`) those of the parts about each node.
    pub(super) hash: u64,
    pub(super) columns: Vec<u64>,
}

pub(super) struct Engines<P: Player> {
    pub(super) player: P,
    classes: Vec<Class<P>>,
    numbers: HashMap<P::Summary, u32>,
    steps: HashMap<(u32, P::Told), Step>,
    /// How many histories were played.
    played: usize,
    is_compared: bool,
    /// Two histories of one summary that do not continue alike.
    unlike: Option<String>,
}

impl<P: Player> Engines<P> {
    pub(super) fn new(player: P) -> Self {
        Self {
            player,
            classes: Vec::new(),
            numbers: HashMap::new(),
            steps: HashMap::new(),
            played: 0,
            is_compared: mutations::chosen().is_none(),
            unlike: None,
        }
    }

    pub(super) fn class(&self, class: u32) -> &Class<P> {
        &self.classes[class as usize]
    }

    pub(super) fn summary(&self, class: u32) -> &P::Summary {
        &self.class(class).summary
    }

    /// Returns how many histories were played, of how many kinds they are, and two of one kind that do not continue
    /// alike.
    pub(super) fn played(&self) -> (usize, usize, Option<String>) {
        (self.played, self.classes.len(), self.unlike.clone())
    }

    /// Gives an input to an engine whose history has the summary `class`.
    pub(super) fn tell(&mut self, class: u32, told: P::Told) -> Step {
        if let Some(step) = self.steps.get(&(class, told)) {
            return *step;
        }
        let known = &self.classes[class as usize];
        let summary = known.summary.clone();
        let other = known.other.clone().filter(|_| self.is_compared);
        let history = [&known.history[..], &[told]].concat();
        let step = self.play(&summary, &history);
        if let Some(mut other) = other {
            other.push(told);
            let also = self.play(&summary, &other);
            if step != also {
                let history = &self.classes[class as usize].history;
                let unlike = format!("{history:?} and {other:?}: {step:?}, {also:?}");
                self.unlike.get_or_insert(unlike);
            }
        }
        self.steps.insert((class, told), step);
        step
    }

    fn play(&mut self, before: &P::Summary, history: &[P::Told]) -> Step {
        self.played += 1;
        let (summary, got) = self.player.play(before, history);
        let class = self.number(summary, history);
        Step { class, got }
    }

    /// Returns the number of a summary; `history` has that summary.
    pub(super) fn number(&mut self, summary: P::Summary, history: &[P::Told]) -> u32 {
        if let Some(number) = self.numbers.get(&summary) {
            let known = &mut self.classes[*number as usize];
            if known.other.is_none() && known.history != history {
                known.other = Some(history.to_vec());
            }
            return *number;
        }
        let number = self.classes.len() as u32;
        let (hash, columns) = P::hashes(&summary);
        self.classes.push(Class {
            summary: summary.clone(),
            history: history.to_vec(),
            other: None,
            hash,
            columns,
        });
        self.numbers.insert(summary, number);
        number
    }
}

/// The user of an engine that gets a history.
pub(super) trait Client {
    /// A command of the client that matters.
    type Command;

    /// Returns what stands for a command that does not matter and follows one that does, and for its answer: the client
    /// knows them.
    fn aside(&mut self) -> Self::Command;

    /// Reads a command. Returns `None` if it does not matter.
    fn read(&mut self, words: &Words) -> Option<Self::Command>;

    fn hear(
        &mut self,
        now: Instant,
        engine: &mut Engine,
        event: Event,
        did: &mut Did<Self::Command>,
    );
}

/// What an engine did after the last input.
#[derive(Debug)]
pub(super) struct Did<C> {
    pub(super) sent: Vec<(usize, C)>,
    pub(super) got: Option<u8>,
    pub(super) is_over: bool,
}

impl<C> Default for Did<C> {
    fn default() -> Self {
        Self {
            sent: Vec::new(),
            got: None,
            is_over: false,
        }
    }
}

/// The commands on their way to a node.
#[derive(Default)]
struct Way {
    runs: u64,
    /// How many commands there are: those that matter, and those after them.
    up: usize,
    /// Those of them that do not matter.
    asides: VecDeque<Words>,
}

/// An engine that gets a history.
pub(super) struct Playing<C: Client> {
    pub(super) wired: Wired,
    pub(super) client: C,
    ways: Vec<Way>,
}

/// Notes what the client sends and hears.
struct Notes<'a, C: Client> {
    client: &'a mut C,
    ways: &'a mut [Way],
    did: Did<C::Command>,
}

impl<C: Client> Playing<C> {
    pub(super) fn new(nodes: usize, config: &Config, client: C) -> Self {
        let stores = (0..nodes).map(|node| Store::new(node as u64, Instant::ZERO));
        let mut playing = Self {
            wired: Wired::new(config, 3, BEGIN, stores),
            client,
            ways: (0..nodes).map(|_| Way::default()).collect(),
        };
        playing.pump();
        playing
    }

    /// Hands over the answer of a node. `None` stands for the answer to a command that does not matter.
    pub(super) fn answer(&mut self, node: u8, bytes: Option<Vec<u8>>) {
        let node = usize::from(node);
        let way = &mut self.ways[node];
        way.up -= 1;
        let bytes = bytes.unwrap_or_else(|| {
            let words = way.asides.pop_front().expect("one is on its way");
            self.wired.links[node].run(self.wired.now, &words)
        });
        self.wired.answer(node, &bytes);
    }

    /// Breaks the connection to a node, which may have restarted.
    pub(super) fn cut(&mut self, node: u8, has_restarted: bool) {
        // A connection that has lasted for a second is opened again at once.
        self.wired.now = self.wired.now.saturating_add(Duration::from_secs(1));
        let node = usize::from(node);
        let way = &mut self.ways[node];
        way.up = 0;
        way.asides.clear();
        if has_restarted {
            way.runs += 1;
            let seed = node as u64 + 5 * way.runs;
            self.wired.restart(node, seed);
        }
        self.wired.cut(node);
    }

    /// Does what the engine asks for. Commands that do not matter are answered at once.
    pub(super) fn pump(&mut self) -> Did<C::Command> {
        let mut notes = Notes {
            client: &mut self.client,
            ways: &mut self.ways,
            did: Did::default(),
        };
        self.wired.pump(&mut notes);
        notes.did
    }
}

impl<C: Client> User for Notes<'_, C> {
    fn send(&mut self, now: Instant, to: usize, link: &mut Link, words: Words) -> Option<Vec<u8>> {
        let way = &mut self.ways[to];
        let command = match self.client.read(&words) {
            Some(command) => command,
            None if way.up == 0 => return Some(link.run(now, &words)),
            None => {
                way.asides.push_back(words);
                self.client.aside()
            }
        };
        way.up += 1;
        self.did.sent.push((to, command));
        None
    }

    fn hear(&mut self, now: Instant, engine: &mut Engine, event: Event) {
        self.client.hear(now, engine, event, &mut self.did);
    }
}
