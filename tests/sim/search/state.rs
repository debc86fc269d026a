//! A state of the search: what may happen in it, what follows, and its fingerprint.
//!
//! The number of a summary ([`engine`](super::engine)) represents the state of an engine and of the commands on their
//! way. The rest is the state of the nodes, and the tokens that were reported.
//!
//! # Guarantees
//!
//! * The fingerprint is the same for states that differ only in the names of nodes or clients. It has one word for each
//!   node, with everything about that node, and these words are sorted.
//! * If an attempt no longer asks or counts, it makes no difference whose lock it has.

use super::engine::{Clients, Summary, Told};
use super::histories::{Engines, Step};
use super::node::{ATTEMPTS, Command, FOREIGN, Floor, Kind, NONE, Node, Nodes, holder};
use super::repair::Repairs;
use super::{Bounds, CLIENTS, NODES, Searched, hash_of};

/// The most tokens that may be reported.
const TOLD: usize = 4;

/// The most commands without an effect on tokens that may follow one move.
const AT_ONCE: usize = 100;

/// The next event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Move {
    Begin(usize),
    /// A node runs the next command of a client, which gets the answer.
    Run(usize, usize),
    /// Like `Run`, after the node's key has ended.
    RunFree(usize, usize),
    /// Like `Run`, after the node's counter has ended; if the command takes the lock, the key has ended too.
    RunEnded(usize, usize),
    /// Like `Run`, but the connection breaks before the answer arrives.
    RunUnheard(usize, usize),
    Break(usize, usize),
    /// A node loses its data in a restart, and is marked.
    Lose(usize),
    /// A node loses its data without a restart, and keeps its connections.
    Flush(usize),
    /// All attempts from before the loss are over. What was lost is repaired.
    Repair,
    /// Like `Repair`, but one node does not answer.
    RepairUnheard(usize),
}

#[derive(Clone, Copy, Debug)]
struct Client {
    /// The summary of what the client has heard.
    class: u32,
    /// The largest token that was reported before its current attempt.
    before: u8,
    /// The current attempt is from before a loss that is not repaired.
    is_old: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    nodes: [Node; NODES],
    clients: [Client; CLIENTS],
    /// The tokens that were reported, the largest first, and zeros.
    told: [u8; TOLD],
    /// The events that may still happen.
    left: Bounds,
}

/// The parts of the world that are not in its current state.
pub(crate) struct World {
    bounds: Bounds,
    engines: Engines<Clients>,
    nodes: Nodes,
    repairs: Repairs,
}

impl World {
    pub(super) fn new(bounds: Bounds) -> Self {
        let mut engines = Engines::new(Clients::new(bounds.nodes));
        engines.number(Summary::default(), &[]);
        Self {
            bounds,
            engines,
            nodes: Nodes::default(),
            repairs: Repairs::default(),
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
        let node = |node: usize| Node {
            holder: NONE,
            counter: NONE,
            floor: Floor::new(Kind::Own, self.bounds.counters[node]),
        };
        let client = Client {
            class: 0,
            before: 0,
            is_old: false,
        };
        State {
            nodes: std::array::from_fn(node),
            clients: [client; CLIENTS],
            told: [0; TOLD],
            left: self.bounds,
        }
    }

    fn moves(&self, state: &State, moves: &mut Vec<Move>) {
        moves.clear();
        let is_lost = |node: &Node| node.floor.kind != Kind::Own;
        if state.nodes.iter().any(is_lost) {
            moves.push(Move::Repair);
            if 0 < state.left.deaf {
                moves.extend((0..self.bounds.nodes).map(Move::RepairUnheard));
            }
        }
        if 0 < state.left.losses {
            moves.extend((0..self.bounds.nodes).map(Move::Lose));
            moves.extend((0..self.bounds.nodes).map(Move::Flush));
        }
        for client in 0..CLIENTS {
            let summary = &self.engines.class(state.clients[client].class).summary;
            if summary.begun < self.bounds.attempts[client] {
                moves.push(Move::Begin(client));
            }
            for node in 0..self.bounds.nodes {
                let next = summary.columns[node].up.front();
                if 0 < state.left.breaks && (summary.is_open || next.is_some()) {
                    moves.push(Move::Break(client, node));
                }
                if let Some(next) = next {
                    self.runs(state, client, node, *next, moves);
                }
            }
        }
    }

    fn go(&mut self, state: &mut State, step: Move) -> Option<String> {
        let wrong = match step {
            Move::Begin(client) => self.begin(state, client),
            Move::Run(client, node) => self.run(state, client, node),
            Move::RunFree(client, node) => {
                state.nodes[node].holder = NONE;
                self.run(state, client, node)
            }
            Move::RunEnded(client, node) => {
                state.left.ends -= 1;
                state.nodes[node].counter = NONE;
                self.free_to_take(state, client, node);
                self.run(state, client, node)
            }
            Move::RunUnheard(client, node) => {
                state.left.breaks -= 1;
                self.free_to_take(state, client, node);
                let command = self.next(state, client, node);
                let (there, wording) = (&mut state.nodes[node], &self.engines.player.wording);
                (*there, _) = self.nodes.run(wording, *there, client, command);
                self.tell(state, client, Told::Cut(node as u8, false))
            }
            Move::Break(client, node) => {
                state.left.breaks -= 1;
                self.tell(state, client, Told::Cut(node as u8, false))
            }
            Move::Lose(node) => {
                self.lose(state, node, self.bounds.counters[node]);
                self.restarted(state, node)
            }
            Move::Flush(node) => {
                self.lose(state, node, 0);
                None
            }
            Move::Repair => self.repair(state, None),
            Move::RepairUnheard(node) => {
                state.left.deaf -= 1;
                self.repair(state, Some(node))
            }
        };
        self.settle(state);
        wrong
    }

    fn fingerprint(&self, state: &State) -> u64 {
        let [one, other] = self.bounds.attempts;
        let by_name = self.hash_by(state, [0, 1]);
        match one == other {
            true => by_name.min(self.hash_by(state, [1, 0])),
            false => by_name,
        }
    }
}

impl World {
    /// Lists the ways in which a node may run this command.
    fn runs(&self, state: &State, client: usize, node: usize, next: Command, all: &mut Vec<Move>) {
        let there = state.nodes[node];
        let (held, counter) = (there.holder, there.counter);
        all.push(Move::Run(client, node));
        if held != NONE {
            all.push(Move::RunFree(client, node));
        }
        // If another client has the lock, nothing is done: that is as if the command had not arrived.
        let does = match next {
            Command::Raise { attempt, .. } => held == holder(client, attempt),
            Command::Take { .. } => true,
            Command::Release { .. } | Command::Look | Command::Aside => false,
        };
        if does && 0 < state.left.ends && counter != NONE {
            all.push(Move::RunEnded(client, node));
        }
        if does && 0 < state.left.breaks {
            all.push(Move::RunUnheard(client, node));
        }
    }

    fn next(&self, state: &State, client: usize, node: usize) -> Command {
        let summary = &self.engines.class(state.clients[client].class).summary;
        let next = summary.columns[node].up.front();
        *next.expect("a command is on its way")
    }

    /// Frees the lock if the next command takes it.
    fn free_to_take(&self, state: &mut State, client: usize, node: usize) {
        if let Command::Take { .. } = self.next(state, client, node) {
            state.nodes[node].holder = NONE;
        }
    }

    /// Begins an attempt of a client, which gives up the one before if that is open.
    fn begin(&mut self, state: &mut State, client: usize) -> Option<String> {
        let given_up = self.give_up(state, client);
        let there = &mut state.clients[client];
        there.before = state.told[0];
        there.is_old = false;
        given_up.or(self.tell(state, client, Told::Begin))
    }

    fn give_up(&mut self, state: &mut State, client: usize) -> Option<String> {
        let class = self.engines.class(state.clients[client].class);
        match class.summary.is_open {
            true => self.tell(state, client, Told::GiveUp),
            false => None,
        }
    }

    /// Lets a node run the next command, and the client read the answer.
    fn run(&mut self, state: &mut State, client: usize, node: usize) -> Option<String> {
        let told = self.answer(state, client, node);
        self.tell(state, client, told)
    }

    fn answer(&mut self, state: &mut State, client: usize, node: usize) -> Told {
        let command = self.next(state, client, node);
        let (there, wording) = (&mut state.nodes[node], &self.engines.player.wording);
        let (after, reply) = self.nodes.run(wording, *there, client, command);
        *there = after;
        Told::Answer(node as u8, reply)
    }

    /// Gives an input to a client, and runs the commands that do not affect tokens.
    fn tell(&mut self, state: &mut State, client: usize, mut told: Told) -> Option<String> {
        let mut wrong = None;
        for _ in 0..AT_ONCE {
            let Step { class, got } = self.engines.tell(state.clients[client].class, told);
            state.clients[client].class = class;
            wrong = wrong.or(got.and_then(|token| report(state, client, token)));
            let columns = &self.engines.class(class).summary.columns;
            let next = columns.iter().position(|column| {
                matches!(
                    column.up.front(),
                    Some(Command::Release { .. } | Command::Look | Command::Aside)
                )
            });
            match next {
                Some(node) => told = self.answer(state, client, node),
                None => return wrong,
            }
        }
        panic!(
            "client {client} is never at rest: {:?}",
            self.engines.class(state.clients[client].class).summary
        )
    }

    /// Lets a node lose its data. It then has the floor of the beginning, or none.
    fn lose(&mut self, state: &mut State, node: usize, number: u8) {
        state.left.losses -= 1;
        let was_marked = state.nodes[node].floor.kind != Kind::Own;
        state.nodes[node] = Node {
            holder: NONE,
            counter: NONE,
            floor: Floor::new(Kind::Lost, number),
        };
        // A node that was marked is not looked at before the repair.
        if !was_marked {
            let floors = state.nodes.map(|node| node.floor);
            self.set_floors(state, |repairs, nodes| repairs.mark(floors, nodes));
        }
    }

    fn restarted(&mut self, state: &mut State, node: usize) -> Option<String> {
        let mut wrong = None;
        for client in 0..CLIENTS {
            wrong = wrong.or(self.tell(state, client, Told::Cut(node as u8, true)));
        }
        wrong
    }

    fn repair(&mut self, state: &mut State, deaf: Option<usize>) -> Option<String> {
        let mut wrong = None;
        for client in 0..CLIENTS {
            if state.clients[client].is_old {
                wrong = wrong.or(self.give_up(state, client));
                state.clients[client].is_old = false;
            }
        }
        let floors = state.nodes.map(|node| node.floor);
        self.set_floors(state, |repairs, nodes| repairs.repair(floors, nodes, deaf));
        wrong
    }

    /// Sets the floors. Attempts from before a node is marked are old.
    fn set_floors(
        &mut self,
        state: &mut State,
        floors: impl FnOnce(&mut Repairs, usize) -> [Floor; NODES],
    ) {
        let after = floors(&mut self.repairs, self.bounds.nodes);
        for (node, floor) in state.nodes.iter_mut().zip(after).take(self.bounds.nodes) {
            if node.floor.kind == Kind::Lost && floor.kind == Kind::Marked {
                for client in &mut state.clients {
                    client.is_old = true;
                }
            }
            node.floor = floor;
        }
    }

    /// Forgets what no longer makes a difference.
    fn settle(&self, state: &mut State) {
        let is_lost = |node: &Node| node.floor.kind != Kind::Own;
        let any_lost = state.nodes.iter().any(is_lost);
        for client in &mut state.clients {
            let is_open = self.engines.class(client.class).summary.is_open;
            client.is_old &= is_open && any_lost;
            client.before = if is_open { client.before } else { 0 };
        }
        let clients = state.clients;
        for (place, node) in state.nodes.iter_mut().enumerate() {
            if node.holder < FOREIGN {
                let (client, attempt) = (node.holder / ATTEMPTS, node.holder % ATTEMPTS);
                let class = self.engines.class(clients[usize::from(client)].class);
                let summary = &class.summary;
                let is_open = summary.is_open && attempt + 1 == summary.begun;
                let asks = |command: &Command| {
                    let (Command::Take { attempt: of, .. }
                    | Command::Raise { attempt: of, .. }
                    | Command::Release { attempt: of }) = *command
                    else {
                        return false;
                    };
                    of == attempt
                };
                if !is_open && !summary.columns[place].up.iter().any(asks) {
                    node.holder = FOREIGN;
                }
            }
        }
    }

    /// Returns the fingerprint with the clients in this order.
    fn hash_by(&self, state: &State, clients: [usize; CLIENTS]) -> u64 {
        let classes = clients.map(|client| self.engines.class(state.clients[client].class));
        let mut nodes: Vec<u64> = (0..self.bounds.nodes)
            .map(|place| {
                let node = state.nodes[place];
                let holder = match node.holder < FOREIGN && clients[0] != 0 {
                    true => (1 - node.holder / ATTEMPTS) * ATTEMPTS + node.holder % ATTEMPTS,
                    false => node.holder,
                };
                // What the node would have after a loss.
                let lost = match state.left.losses {
                    0 => 0,
                    _ => self.bounds.counters[place],
                };
                let heard = classes.map(|class| class.columns[place]);
                hash_of(&(Node { holder, ..node }, lost, heard))
            })
            .collect();
        nodes.sort_unstable();
        let clients = clients.map(|client| {
            let there = state.clients[client];
            let hash = self.engines.class(there.class).hash;
            (
                there.before,
                there.is_old,
                self.bounds.attempts[client],
                hash,
            )
        });
        hash_of(&(nodes, clients, state.told, state.left))
    }
}

/// Reports a lock with this token. Returns what is wrong with it.
fn report(state: &mut State, client: usize, token: u8) -> Option<String> {
    let before = state.clients[client].before;
    let wrong = match state.told.contains(&token) {
        true => Some(format!("{token} was given twice")),
        false => (token <= before).then(|| format!("{token} follows {before}")),
    };
    state.told[TOLD - 1] = token;
    state.told.sort_unstable_by(|one, other| other.cmp(one));
    wrong
}
