//! The clients in the search of tokens: what one does, and what it has heard. See [`histories`](super::histories).

use std::collections::VecDeque;

use shearline::engine::{Engine, Event, Request, RoundId};
use shearline::{Config, Instant, LockOptions};

use super::histories::{Client, Did, Player, Playing};
use super::node::{Command, Reply, Wording, Words};
use super::{NODES, RESOURCE, TTL, config, hash_of};

/// An input of an engine.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Told {
    Begin,
    GiveUp,
    Answer(u8, Reply),
    /// Its connection to a node breaks; the node may have restarted.
    Cut(u8, bool),
}

/// The state of a client's traffic with one node.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Column {
    /// The commands that the node has not run yet.
    pub(super) up: VecDeque<Command>,
    /// The node's answers in the current attempt: to the command that takes the lock, and to the one that raises the
    /// counter.
    taken: Option<Reply>,
    raised: Option<Reply>,
    /// The connection was lost in the current attempt.
    is_cut: bool,
    runs: u8,
    /// The node has said that it has no floor, and nothing else since.
    is_without_floor: bool,
}

/// What a client has heard, as far as it affects what it does.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Summary {
    pub(super) begun: u8,
    pub(super) is_open: bool,
    /// The largest number that a node has returned to it.
    seen: u8,
    /// The largest number of the first majority of the current attempt.
    token: u8,
    /// The client looks at the floors once more after the current look, because a node has come meanwhile.
    is_to_look: bool,
    pub(super) columns: [Column; NODES],
}

/// The clients of a search.
pub(super) struct Clients {
    nodes: usize,
    config: Config,
    pub(super) wording: Wording,
}

impl Clients {
    pub(super) fn new(nodes: usize) -> Self {
        Self {
            nodes,
            config: config(nodes),
            wording: Wording::default(),
        }
    }
}

impl Player for Clients {
    type Told = Told;
    type Summary = Summary;

    fn play(&mut self, before: &Summary, history: &[Told]) -> (Summary, Option<u8>) {
        let contender = Contender {
            wording: &mut self.wording,
            tokens: Vec::new(),
            round: None,
        };
        let mut playing = Playing::new(self.nodes, &self.config, contender);
        let mut last = Did::default();
        for told in history {
            last = playing.tell(*told);
        }
        let told = history.last().copied().expect("it was told something");
        (before.after(told, &last, self.nodes), last.got)
    }

    fn hashes(summary: &Summary) -> (u64, Vec<u64>) {
        let numbers = [summary.begun, summary.seen, summary.token];
        let same = hash_of(&(numbers, summary.is_open, summary.is_to_look));
        (same, summary.columns.iter().map(hash_of).collect())
    }
}

impl Summary {
    fn after(&self, told: Told, did: &Did<Command>, nodes: usize) -> Self {
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
        let mut sent = did.sent.iter();
        let looks = sent.any(|(_, command)| *command == Command::Look);
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

/// A user that makes attempts to take the lock.
struct Contender<'a> {
    wording: &'a mut Wording,
    /// The tokens of its attempts.
    tokens: Vec<Vec<u8>>,
    round: Option<RoundId>,
}

impl Client for Contender<'_> {
    type Command = Command;

    fn aside(&mut self) -> Command {
        Command::Aside
    }

    fn read(&mut self, words: &Words) -> Option<Command> {
        self.wording.read(words.clone(), &mut self.tokens)
    }

    fn hear(&mut self, now: Instant, engine: &mut Engine, event: Event, did: &mut Did<Command>) {
        if let Event::Acquired { round, result } = event
            && self.round == Some(round)
        {
            self.round = None;
            did.is_over = true;
            // The user leaves the lock alone.
            did.got = result.ok().map(|lock| {
                let token = lock.fencing_token().expect("it was asked for");
                let _left = engine.detach(now, lock);
                u8::try_from(token).expect("no history counts further")
            });
        }
    }
}

impl Playing<Contender<'_>> {
    fn tell(&mut self, told: Told) -> Did<Command> {
        let (engine, now) = (&mut self.wired.engine, self.wired.now);
        match told {
            Told::Begin => {
                let options = LockOptions::new(TTL).tries(1).fenced();
                let round = engine.acquire(now, &Request::new(RESOURCE, &options));
                self.client.round = Some(round.expect("there is room"));
            }
            Told::GiveUp => {
                let round = self.client.round.take().expect("an attempt is open");
                engine.cancel(now, round);
            }
            Told::Answer(node, reply) => {
                let bytes = (reply != Reply::Aside).then(|| reply.to_bytes());
                self.answer(node, bytes);
            }
            Told::Cut(node, has_restarted) => self.cut(node, has_restarted),
        }
        self.pump()
    }
}
