//! Search, breadth first, through every order of events in which few claimants of one name take, share and release it.
//!
//! Each claimant has an engine of its own, and makes one attempt: for a permit, a shared lock, or an exclusive one,
//! which it may make a shared one. Every possible next event is tried: a claimant begins, gives up, releases its lock
//! or no longer believes in it; a node runs the next command of a connection, whose answer arrives or is lost with the
//! connection; a connection breaks with all that is on its way; the entry of a claimant that does not believe in it
//! ends on a node; and a node loses its data in a restart.
//!
//! # Guarantees
//!
//! * No claimant believes that it holds the exclusive lock while another believes that it holds the lock, and no two
//!   believe that they hold the same slot.
//! * Two states with the same fingerprint continue alike: they differ in the names of nodes, and of claimants of one
//!   kind.
//!
//! # Not here
//!
//! No clock runs: an entry ends when the search says so, but not while its claimant asks or believes. Commands about no
//! lock are run at once. Waiting, extending and keeping locks are tested in the worlds of [`reading`](crate::reading).

use std::collections::{HashMap, VecDeque};

use shearline::engine::{Engine, Event, Request, RoundId};
use shearline::internals::{Store, scripts};
use shearline::{Config, Instant, Lock, LockOptions};

use super::histories::{BEGIN, Client, Did, Engines, Player, Playing};
use super::node::{Words, run};
use super::{RESOURCE, Searched, TTL, builder, hash_of};
use crate::oracle::{self, Command, Verb, millis, pairs};

const NODES: usize = 3;
const CLAIMANTS: usize = 4;
const INTENT: &[u8] = b"shearline:intent:r";

/// Stands for the token of a claimant.
const TOKEN: &[u8] = b"\0token";

/// Stands for a command about no lock that follows one about a lock, and for its answer: the claimant knows them.
const ASIDE: &[u8] = b"\0aside";

/// What a claimant wants.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Kind {
    Writer,
    Reader,
    /// One of this many permits.
    Permit(u16),
}

/// The events that may happen, and how often.
#[derive(Clone, Copy, Debug, Hash)]
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

/// No limit: as often as there are occasions.
const ANY_NUMBER: u8 = u8::MAX;

/// The entry of one claimant on a node: nothing, its token alone, as a reader, or in a slot.
const NOTHING: u8 = 0;
const ALONE: u8 = 1;
const READS: u8 = 2;
/// The entry in the first slot of a permit; other slots have larger numbers.
const SLOT: u8 = 3;

type Node = [u8; CLAIMANTS];

// ----- what nodes do ----------------------------------------------------------------------------

/// The number of some words.
type Number = u16;

/// Stands for the end of a connection in the list of what was heard.
const CUT: (Number, Number) = (Number::MAX, Number::MAX);

/// Words that occur again and again, by their numbers.
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
    /// The kinds of locks that the claimants want.
    kinds: &'static [Kind],
    commands: Known<Words>,
    replies: Known<Vec<u8>>,
    /// The scripts that servers have to keep.
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
        let mut session = Store::session();
        let mut execute = |words: &Words, store: &mut Store| run(store, &mut session, now, words);
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
                let slot = millis(parts[1]).expect("a slot");
                (SLOT + slot as u8, parts[2])
            }
        };
        node[claimant_of(token)] = entry;
    }
    node
}

// ----- what engines do --------------------------------------------------------------------------

/// An input of an engine.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Told {
    Begin,
    GiveUp,
    Release,
    Downgrade,
    Answer(u8, Number),
    /// Its connection to a node breaks; the node may have restarted.
    Cut(u8, bool),
}

#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
enum Phase {
    #[default]
    Idle,
    Open,
    Holds,
    /// The claimant has been a writer.
    HoldsOn,
    Over,
}

/// The state of a claimant's traffic with one node.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Column {
    /// The commands that the node has not run yet.
    up: VecDeque<Number>,
    /// The node's answers, and where the connection broke, until all is over.
    heard: Vec<(Number, Number)>,
    /// How often the node has restarted.
    runs: u8,
}

/// What a claimant has heard, as far as it affects what it does.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Summary {
    kind: Kind,
    phase: Phase,
    columns: [Column; NODES],
}

/// The claimants of a search.
struct Claimants {
    config: Config,
    nodes: Nodes,
    /// Connections may break: the releases to send then depend on what was heard before.
    keeps_all: bool,
}

impl Player for Claimants {
    type Told = Told;
    type Summary = Summary;

    fn play(&mut self, before: &Summary, history: &[Told]) -> (Summary, Option<u8>) {
        let asking = Asking {
            kind: before.kind,
            nodes: &mut self.nodes,
            token: None,
            round: None,
            lock: None,
        };
        let mut playing = Playing::new(NODES, &self.config, asking);
        let mut last = Did::default();
        for told in history {
            last = playing.tell(*told);
        }
        let told = history.last().copied().expect("it was told something");
        (before.after(told, &last, self.keeps_all), last.got)
    }

    fn hashes(summary: &Summary) -> (u64, Vec<u64>) {
        let same = hash_of(&(summary.kind, summary.phase));
        (same, summary.columns.iter().map(hash_of).collect())
    }
}

impl Summary {
    /// Returns the summary after an input. If it `keeps_all`, nothing that was heard is forgotten.
    fn after(&self, told: Told, did: &Did<Number>, keeps_all: bool) -> Self {
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
                let lost = lost.map(|command| (command, Number::MAX));
                column.heard.extend(lost);
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
        // The releases that a connection has lost may wait for long.
        let is_cut = |column: &Column| column.heard.contains(&CUT);
        let forgets = matches!(next.phase, Phase::Idle | Phase::Over);
        if forgets && !keeps_all && !next.columns.iter().any(is_cut) {
            for column in &mut next.columns {
                column.heard.clear();
            }
        }
        next
    }
}

/// A user that asks for the lock that it wants.
struct Asking<'a> {
    kind: Kind,
    nodes: &'a mut Nodes,
    token: Option<Vec<u8>>,
    round: Option<RoundId>,
    lock: Option<Lock>,
}

impl Client for Asking<'_> {
    type Command = Number;

    fn aside(&mut self) -> Number {
        self.nodes.commands.number(&vec![ASIDE.to_vec()])
    }

    /// Reads a command about a lock.
    fn read(&mut self, words: &Words) -> Option<Number> {
        if !words.iter().any(|word| word == RESOURCE) {
            if words[0] == b"SCRIPT" && !self.nodes.loads.contains(words) {
                self.nodes.loads.push(words.clone());
            }
            return None;
        }
        let own = self.token.get_or_insert_with(|| token_in(words));
        let words = words.iter().map(|word| match word == own {
            true => TOKEN.to_vec(),
            false => word.clone(),
        });
        Some(self.nodes.commands.number(&words.collect()))
    }

    fn hear(&mut self, _: Instant, _: &mut Engine, event: Event, did: &mut Did<Number>) {
        match event {
            Event::Acquired { round, result } if self.round == Some(round) => {
                self.round = None;
                did.is_over = result.is_err();
                self.lock = result.ok();
                did.got = self.lock.as_ref().map(what_it_is);
            }
            // The outcome for a writer that becomes a reader.
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
}

impl Playing<Asking<'_>> {
    fn tell(&mut self, told: Told) -> Did<Number> {
        let (engine, now) = (&mut self.wired.engine, self.wired.now);
        let client = &mut self.client;
        match told {
            Told::Begin => {
                let options = LockOptions::new(TTL).tries(1);
                let request = match client.kind {
                    Kind::Writer => Request::new(RESOURCE, &options),
                    Kind::Reader => Request::shared(RESOURCE, &options),
                    Kind::Permit(all) => Request::permit(RESOURCE, all, &options),
                };
                let round = engine.acquire(now, &request);
                client.round = Some(round.expect("there is room"));
            }
            Told::GiveUp => {
                let round = client.round.take().expect("an attempt is open");
                engine.cancel(now, round);
            }
            Told::Release => {
                let lock = client.lock.take().expect("a lock is held");
                engine.release(now, lock);
            }
            Told::Downgrade => {
                let lock = client.lock.as_mut().expect("a lock is held");
                engine.downgrade(now, lock).expect("it is valid");
            }
            Told::Answer(node, reply) => {
                let reply = &client.nodes.replies.all[usize::from(reply)];
                let bytes = (reply != ASIDE).then(|| reply.clone());
                self.answer(node, bytes);
            }
            Told::Cut(node, has_restarted) => self.cut(node, has_restarted),
        }
        self.pump()
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
    let command = Command::of(&slices, b"");
    let token = command.token.expect("a lock of a claimant");
    let word = words.iter().find(|word| word.starts_with(&token));
    word.expect("its token").clone()
}

// ----- what may happen --------------------------------------------------------------------------

/// The next event. A claimant is named first, then a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Move {
    Begin(u8),
    GiveUp(u8),
    Release(u8),
    Downgrade(u8),
    /// Before it, the entries of these claimants (a bit each) end on the node: by a release that comes next there, or
    /// by their time. Their claimants no longer believe in them by then.
    Run(u8, u8, u8),
    /// Like `Run`, but the connection breaks before the answer arrives.
    RunUnheard(u8, u8, u8),
    Break(u8, u8),
    /// A node loses its data in a restart.
    Lose(u8),
}

#[derive(Clone, Copy, Debug)]
struct Claimant {
    class: u32,
    /// What the claimant believes to hold.
    believes: u8,
}

#[derive(Clone, Copy, Debug)]
struct State {
    nodes: [Node; NODES],
    claimants: [Claimant; CLAIMANTS],
    /// The events that may still happen.
    left: Bounds,
}

struct World {
    bounds: Bounds,
    engines: Engines<Claimants>,
    /// The permutations of claimants that make no difference.
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
        let config = builder(NODES).max_ttl(TTL);
        let claimants = Claimants {
            config: config.config().expect("a valid configuration"),
            nodes: Nodes {
                kinds,
                ..Nodes::default()
            },
            keeps_all: bounds.breaks != 0,
        };
        Self {
            bounds,
            engines: Engines::new(claimants),
            orders,
        }
    }
}

impl Searched for World {
    type State = State;
    type Move = Move;

    fn played(&self) -> (usize, usize, Option<String>) {
        self.engines.played()
    }

    fn first(&mut self) -> State {
        let idle = |kind| Summary {
            kind,
            phase: Phase::Idle,
            columns: std::array::from_fn(|_| Column::default()),
        };
        let kinds = self.bounds.claimants;
        let claimant = |number: usize| {
            let kind = kinds.get(number).copied().unwrap_or(Kind::Reader);
            let class = self.engines.number(idle(kind), &[]);
            let believes = NOTHING;
            Claimant { class, believes }
        };
        State {
            nodes: [[NOTHING; CLAIMANTS]; NODES],
            claimants: std::array::from_fn(claimant),
            left: self.bounds,
        }
    }

    fn moves(&self, state: &State, moves: &mut Vec<Move>) {
        moves.clear();
        if let Some(alone) = self.makes_no_difference(state) {
            return moves.push(alone);
        }
        if 0 < state.left.losses {
            moves.extend((0..NODES as u8).map(Move::Lose));
        }
        for number in 0..self.bounds.claimants.len() as u8 {
            let Claimant { class, believes } = state.claimants[usize::from(number)];
            let Summary { phase, columns, .. } = self.engines.summary(class);
            match phase {
                Phase::Idle => moves.push(Move::Begin(number)),
                Phase::Open if 0 < state.left.give_ups => moves.push(Move::GiveUp(number)),
                Phase::Open => {}
                Phase::Holds | Phase::HoldsOn => moves.push(Move::Release(number)),
                Phase::Over => {}
            }
            let may_read = believes == ALONE && *phase == Phase::Holds;
            if may_read && 0 < state.left.downgrades {
                moves.push(Move::Downgrade(number));
            }
            for node in 0..NODES as u8 {
                let next = columns[usize::from(node)].up.front();
                let asks = matches!(phase, Phase::Open | Phase::Holds | Phase::HoldsOn);
                if 0 < state.left.breaks && (asks || next.is_some()) {
                    moves.push(Move::Break(number, node));
                }
                if next.is_some() {
                    self.runs(state, (number, node), moves);
                }
            }
        }
    }

    fn go(&mut self, state: &mut State, step: Move) -> Option<String> {
        match step {
            Move::Begin(claimant) => self.tell(state, claimant, Told::Begin),
            Move::GiveUp(claimant) => {
                state.left.give_ups -= u8::from(state.left.give_ups != ANY_NUMBER);
                self.tell(state, claimant, Told::GiveUp);
            }
            Move::Release(claimant) => {
                state.claimants[usize::from(claimant)].believes = NOTHING;
                self.tell(state, claimant, Told::Release);
            }
            Move::Downgrade(claimant) => {
                state.left.downgrades -= 1;
                state.claimants[usize::from(claimant)].believes = READS;
                self.tell(state, claimant, Told::Downgrade);
            }
            Move::Run(claimant, node, ends) => {
                self.end(state, node, ends);
                let reply = self.run(state, claimant, node);
                self.tell(state, claimant, Told::Answer(node, reply));
            }
            Move::RunUnheard(claimant, node, ends) => {
                state.left.breaks -= 1;
                self.end(state, node, ends);
                self.run(state, claimant, node);
                self.tell(state, claimant, Told::Cut(node, false));
            }
            Move::Break(claimant, node) => {
                state.left.breaks -= 1;
                self.tell(state, claimant, Told::Cut(node, false));
            }
            Move::Lose(node) => {
                state.left.losses -= 1;
                state.nodes[usize::from(node)] = [NOTHING; CLAIMANTS];
                for claimant in 0..self.bounds.claimants.len() as u8 {
                    self.tell(state, claimant, Told::Cut(node, true));
                }
            }
        }
        wrong(self.bounds.claimants, state)
    }

    fn fingerprint(&self, state: &State) -> u64 {
        let by = |order: &Vec<usize>| {
            let mut words: Vec<u64> = (0..NODES)
                .map(|node| {
                    let own = order.iter().map(|claimant| {
                        let class = state.claimants[*claimant].class;
                        let column = self.engines.class(class).columns[node];
                        (state.nodes[node][*claimant], column)
                    });
                    hash_of(&own.collect::<Vec<_>>())
                })
                .collect();
            words.sort_unstable();
            let all = order.iter().map(|claimant| {
                let Claimant { class, believes } = state.claimants[*claimant];
                (self.engines.class(class).hash, believes)
            });
            let all: Vec<_> = all.collect();
            hash_of(&(words, all, state.left))
        };
        self.orders.iter().map(by).min().unwrap_or(0)
    }
}

impl World {
    /// Lists the moves in which a node runs the next command of a claimant, after any possible set of entries has ended
    /// there.
    ///
    /// An entry does not have to end before a command comes that can see it. So the release of an attempt that is over
    /// is not a move of its own.
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
            if 0 < state.left.breaks {
                moves.push(Move::RunUnheard(number, node, ends));
            }
            if ends == 0 {
                return;
            }
            ends = (ends - 1) & all; // The next subset.
        }
    }

    /// Returns a move that may come first without loss, if there is one: it changes nothing that another move reads,
    /// now or later, and no belief.
    ///
    /// A claimant may begin so if no connection breaks and no node loses its data. A node may run the release of an
    /// attempt so if that is over and the node has no entry of it.
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
                Phase::Over if state.left.breaks == 0 && state.left.losses == 0 => {
                    let node = (0..NODES as u8).find(may_run)?;
                    Some(Move::Run(number, node, 0))
                }
                Phase::Idle | Phase::Open | Phase::Holds | Phase::HoldsOn | Phase::Over => None,
            }
        })
    }

    /// Returns `true` if the next command of a claimant to a node is a release, or about no lock.
    fn is_released_next(&self, class: u32, node: u8) -> bool {
        let column = &self.engines.summary(class).columns[usize::from(node)];
        column.up.front().is_some_and(|command| {
            let words = &self.engines.player.nodes.commands.all[usize::from(*command)];
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            words == [ASIDE] || Command::of(&words, b"").verb == Verb::Release
        })
    }

    /// Ends the entries of these claimants on a node.
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

    /// Lets a node run the next command of a claimant. Returns the number of its reply.
    fn run(&mut self, state: &mut State, claimant: u8, node: u8) -> Number {
        let (claimant, node) = (usize::from(claimant), usize::from(node));
        let summary = self.engines.summary(state.claimants[claimant].class);
        let command = summary.columns[node].up.front();
        let command = *command.expect("a command is on its way");
        let nodes = &mut self.engines.player.nodes;
        let (after, reply) = nodes.run(state.nodes[node], claimant, command);
        state.nodes[node] = after;
        reply
    }

    fn tell(&mut self, state: &mut State, claimant: u8, told: Told) {
        let there = &mut state.claimants[usize::from(claimant)];
        let step = self.engines.tell(there.class, told);
        there.class = step.class;
        there.believes = step.got.unwrap_or(there.believes);
        if self.engines.summary(step.class).phase == Phase::Over {
            there.believes = NOTHING;
        }
    }
}

/// Returns the beliefs that contradict each other.
fn wrong(kinds: &[Kind], state: &State) -> Option<String> {
    let held = state.claimants.iter().enumerate();
    let held = held.filter(|(_, claimant)| claimant.believes != NOTHING);
    let held: Vec<_> = held.collect();
    let kind = |(number, claimant): &(usize, &Claimant)| match (claimant.believes, kinds[*number]) {
        (slot @ SLOT.., Kind::Permit(all)) => oracle::Kind::Permit(slot.into(), all),
        (READS, _) => oracle::Kind::Reader,
        _ => oracle::Kind::Alone,
    };
    let bad = pairs(&held).any(|(one, other)| !kind(one).bears(kind(other)));
    let who = || held.iter().map(|(number, _)| *number).collect::<Vec<_>>();
    bad.then(|| format!("{:?} hold the lock", who()))
}

#[cfg(test)]
mod tests {
    use super::Kind::{Permit, Reader, Writer};
    use super::*;
    use crate::mutations::Chosen;
    #[cfg(shearline_mutants)]
    use crate::search::all_are_found;
    use crate::search::nothing_is_wrong;

    const NONE: Bounds = Bounds {
        claimants: &[Reader, Reader, Writer],
        breaks: 0,
        losses: 0,
        downgrades: 0,
        give_ups: ANY_NUMBER,
    };

    const PAIR: Bounds = Bounds {
        claimants: &[Reader, Writer],
        ..NONE
    };

    const PERMITS: Bounds = Bounds {
        claimants: &[Permit(2), Permit(2), Permit(2)],
        ..NONE
    };

    const UNLIKE_PERMITS: Bounds = Bounds {
        claimants: &[Permit(2), Permit(2), Permit(3)],
        ..NONE
    };

    impl Bounds {
        const fn breaks(self, breaks: u8) -> Self {
            Self { breaks, ..self }
        }

        const fn losses(self, losses: u8) -> Self {
            Self { losses, ..self }
        }

        const fn downgrades(self, downgrades: u8) -> Self {
            Self { downgrades, ..self }
        }

        const fn give_ups(self, give_ups: u8) -> Self {
            Self { give_ups, ..self }
        }
    }

    /// The worlds, and whether the long run looks at all their states.
    const ALL: [(Bounds, bool); 10] = [
        (PERMITS.give_ups(0), true),
        (PERMITS.give_ups(1), false),
        (PERMITS, false),
        (PERMITS.losses(1), false),
        (UNLIKE_PERMITS, true),
        (NONE, true),
        (NONE.downgrades(1), true),
        (NONE.losses(1), true),
        (NONE.losses(1).breaks(1), false),
        (PAIR.losses(1).breaks(1).downgrades(1), false),
    ];

    /// How many states the long run looks at: of a world that it searches completely, and of any other.
    const STATES: [u64; 2] = [30_000_000, 100_000];

    #[test]
    fn no_order_of_events_gives_two_holders() {
        let _none = Chosen::new(None);
        nothing_is_wrong(ALL, World::new, STATES);
    }

    /// The mutants that break exclusion, each with a world that shows it.
    #[cfg(shearline_mutants)]
    const FOUND: [(&str, Bounds); 8] = [
        ("AnySlotCounts", PERMITS),
        ("SlotGivenTwice", PERMITS),
        ("SlotMovedOver", PERMITS),
        ("ReadersIgnored", NONE),
        ("ReaderOverWriter", NONE),
        ("RefusedReaderCounts", NONE),
        ("ReleaseDeletesAll", NONE),
        ("QuarantineIgnored", NONE.losses(1)),
    ];

    #[cfg(shearline_mutants)]
    #[test]
    fn mutants_of_holders_are_found_by_the_search() {
        all_are_found(&FOUND, World::new);
    }
}
