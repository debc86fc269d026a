//! The nodes of the search: the state of a node, and what a command does to it.
//!
//! The embedded store runs the commands. A node has so little state that the same command often comes to the same state
//! again, so results are remembered.

use std::collections::HashMap;

use shearline::Instant;
use shearline::internals::{FLOOR_KEY, Session, Store};

use super::{COUNTER, RESOURCE, TTL};
use crate::oracle::fencing_arguments;

/// There is no key.
pub(super) const NONE: u8 = u8::MAX;

/// The key of the lock belongs to another: to an attempt that no longer asks nor counts.
pub(super) const FOREIGN: u8 = u8::MAX - 1;

/// How many attempts a client makes at most.
pub(super) const ATTEMPTS: u8 = 4;

/// Returns the holder number of this attempt of a client.
pub(super) fn holder(client: usize, attempt: u8) -> u8 {
    client as u8 * ATTEMPTS + attempt
}

pub(super) type Words = Vec<Vec<u8>>;

/// The floor of a node.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Kind {
    /// A floor of its current `run_id`.
    Own,
    /// No floor, or one of another `run_id`: the node has lost its data since the last look.
    Lost,
    /// The node is in repair.
    Marked,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Floor {
    pub(super) kind: Kind,
    pub(super) base: u8,
    pub(super) number: u8,
}

/// The state of a node.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Node {
    pub(super) holder: u8,
    pub(super) counter: u8,
    pub(super) floor: Floor,
}

/// A command of a client that affects tokens.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Command {
    Take {
        attempt: u8,
        proposal: u8,
    },
    Raise {
        attempt: u8,
        number: u8,
    },
    Release {
        attempt: u8,
    },
    Look,
    /// A command that does not affect tokens, but follows one that does.
    Aside,
}

/// An answer of a node.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Reply {
    Granted(u8),
    Held,
    NoFloor,
    Said(i8),
    /// The answer to a client that looks at a floor: the client does not live long enough to repair one.
    Error,
    /// The answer to [`Command::Aside`]: the client knows it.
    Aside,
}

impl Reply {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        match self {
            Self::Granted(number) => format!("${}\r\n{number}\r\n", number.to_string().len()),
            Self::Held => "*3\r\n:2\r\n:0\r\n:0\r\n".to_owned(),
            Self::NoFloor => "*3\r\n:-1\r\n:0\r\n:0\r\n".to_owned(),
            Self::Said(said) => format!(":{said}\r\n"),
            Self::Error => "-ERR a repair takes longer than a short life\r\n".to_owned(),
            Self::Aside => unreachable!("its client knows"),
        }
        .into_bytes()
    }

    fn of_bytes(bytes: &[u8]) -> Self {
        let text = str::from_utf8(bytes).expect("numbers");
        let mut lines = text.lines();
        let reply = match (lines.next(), lines.next()) {
            (Some("*3"), Some(":2")) => Self::Held,
            (Some("*3"), _) => Self::NoFloor,
            (Some(said), None) => Self::Said(small(said.strip_prefix(':'))),
            (_, number) => Self::Granted(small(number)),
        };
        assert_eq!(reply.to_bytes(), bytes, "an answer of another kind: {text}");
        reply
    }
}

/// Reads a number of at most three digits: no history counts further.
fn small<T: std::str::FromStr>(word: Option<&str>) -> T {
    let number = word.and_then(|word| word.parse().ok());
    number.unwrap_or_else(|| panic!("no small number: {word:?}"))
}

fn number(word: &[u8]) -> u8 {
    small(str::from_utf8(word).ok())
}

/// The words that engines use in their commands. The rest of a command is in [`Command`].
#[derive(Clone, Debug, Default)]
pub(super) struct Wording {
    take: Words,
    raise: Words,
    release: Words,
    /// The scripts that servers have to keep.
    pub(super) loads: Vec<Words>,
}

impl Wording {
    /// Reads a command of the attempts with these tokens, and remembers its words. Returns `None` if it does not affect
    /// tokens.
    pub(super) fn read(&mut self, words: Words, tokens: &mut Vec<Vec<u8>>) -> Option<Command> {
        let slices: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        if let Some((names, arguments)) = fencing_arguments(&slices) {
            let &[token, ttl, _, given, ..] = arguments else {
                return Some(Command::Look);
            };
            if names.is_empty() {
                return Some(Command::Look);
            }
            let known = tokens.iter().position(|known| known == token);
            let attempt = known.unwrap_or_else(|| {
                tokens.push(token.to_vec());
                tokens.len() - 1
            }) as u8;
            let given = number(given);
            let (place, command) = match ttl {
                b"" => (
                    &mut self.raise,
                    Command::Raise {
                        attempt,
                        number: given,
                    },
                ),
                _ => (
                    &mut self.take,
                    Command::Take {
                        attempt,
                        proposal: given,
                    },
                ),
            };
            // The text, not its digest: a store that was just made knows no digests.
            if place.is_empty() && words[0] == b"EVAL" {
                *place = words;
            }
            return Some(command);
        }
        let is_about = |key: &[u8]| words.iter().any(|word| word == key);
        if is_about(RESOURCE) {
            let attempt = tokens.iter().position(|token| is_about(token));
            let attempt = attempt.expect("a lock of an attempt") as u8;
            self.release = words;
            return Some(Command::Release { attempt });
        }
        if words[0] == b"SCRIPT" && !self.loads.contains(&words) {
            self.loads.push(words);
        }
        None
    }

    /// Returns the words of a command of `client`, to a server with this `run_id`.
    fn write(&self, client: usize, command: Command, run_id: &[u8]) -> Words {
        let of = |words: &Words, attempt: u8, number: u8| {
            let mut words = words.clone();
            words[6] = token(holder(client, attempt));
            words[9] = number.to_string().into_bytes();
            words[11] = run_id.to_vec();
            words
        };
        match command {
            Command::Take { attempt, proposal } => of(&self.take, attempt, proposal),
            Command::Raise { attempt, number } => of(&self.raise, attempt, number),
            Command::Release { attempt } => {
                let mut words = self.release.clone();
                *words.last_mut().expect("its token") = token(holder(client, attempt));
                words
            }
            Command::Look | Command::Aside => unreachable!("it is answered without a store"),
        }
    }
}

fn token(holder: u8) -> Vec<u8> {
    format!("token{holder:015}").into_bytes()
}

pub(super) fn run(
    store: &mut Store,
    session: &mut Session,
    now: Instant,
    words: &[impl AsRef<[u8]>],
) -> Vec<u8> {
    let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
    let mut out = Vec::new();
    store.execute(session, now, &words, &mut out);
    out
}

/// Runs commands, and remembers what they did.
#[derive(Default)]
pub(super) struct Nodes {
    done: HashMap<(Node, u8, Command), (Node, Reply)>,
}

impl Nodes {
    /// Lets `node` run a command of `client`.
    pub(super) fn run(
        &mut self,
        wording: &Wording,
        node: Node,
        client: usize,
        command: Command,
    ) -> (Node, Reply) {
        let key = (node, client as u8, command);
        let done = self.done.entry(key);
        *done.or_insert_with(|| match command {
            Command::Look => (node, Reply::Error),
            Command::Aside => (node, Reply::Aside),
            Command::Take { .. } | Command::Raise { .. } | Command::Release { .. } => {
                execute(wording, node, client, command)
            }
        })
    }
}

fn execute(wording: &Wording, node: Node, client: usize, command: Command) -> (Node, Reply) {
    let now = Instant::from_millis(1_000);
    let mut store = Store::new(1, now);
    let mut session = Store::session();
    for words in &wording.loads {
        run(&mut store, &mut session, now, words);
    }
    let run_id = run_id(&mut store, now);
    let mut set = |key: &[u8], value: &[u8]| {
        let ttl = TTL.as_millis().to_string();
        let words = [b"SET", key, value, b"PX", ttl.as_bytes()];
        run(&mut store, &mut session, now, &words);
    };
    if node.holder != NONE {
        set(RESOURCE, &token(node.holder));
    }
    if node.counter != NONE {
        set(COUNTER, node.counter.to_string().as_bytes());
    }
    set(FLOOR_KEY, node.floor.text(&run_id, 7).as_bytes());
    let words = wording.write(client, command, run_id.as_bytes());
    let reply = Reply::of_bytes(&run(&mut store, &mut session, now, &words));
    let holder = store.get(now, RESOURCE).map_or(NONE, |value| {
        let known = (0..=u8::MAX).find(|holder| token(*holder) == value);
        known.expect("a token of an attempt")
    });
    let after = Node {
        holder,
        counter: store.get(now, COUNTER).map_or(NONE, number),
        floor: Floor::read(store.get(now, FLOOR_KEY), &run_id),
    };
    (after, reply)
}

/// Returns the `run_id` of a server.
pub(super) fn run_id(store: &mut Store, now: Instant) -> String {
    let mut session = Store::session();
    let said = run(store, &mut session, now, &["INFO", "server"]);
    let said = String::from_utf8(said).expect("text");
    let run_id = said.lines().find_map(|line| line.strip_prefix("run_id:"));
    run_id.expect("it tells it").to_owned()
}

impl Floor {
    pub(super) const fn new(kind: Kind, number: u8) -> Self {
        Self {
            kind,
            base: 0,
            number,
        }
    }

    /// Returns the text of the floor in a server with this `run_id`. A mark has this nonce.
    pub(super) fn text(self, run_id: &str, nonce: u64) -> String {
        let Self { kind, base, number } = self;
        match kind {
            Kind::Own => format!("{run_id}:{base}:{number}"),
            Kind::Lost => format!("another:{base}:{number}"),
            Kind::Marked => format!("{run_id}:?{nonce}:{number}"),
        }
    }

    pub(super) fn read(text: Option<&[u8]>, run_id: &str) -> Self {
        let text = str::from_utf8(text.expect("a floor")).expect("text");
        let words: Vec<&str> = text.split(':').collect();
        let [owner, base, last] = words[..] else {
            panic!("no floor: {text}");
        };
        let kind = match owner == run_id {
            false => Kind::Lost,
            true if base.starts_with('?') => Kind::Marked,
            true => Kind::Own,
        };
        let base = if kind == Kind::Marked { "0" } else { base };
        Self {
            kind,
            base: small(Some(base)),
            number: small(Some(last)),
        }
    }
}
