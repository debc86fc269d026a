//! Repairs in the search: a handle of its own, which lives for long enough, has seen the loss and looks at the floors
//! when it is time. It is the engine, too.
//!
//! It asks for a lock that another has, so nothing is counted for it. What it reads and writes is done at once: no
//! node gives a token meanwhile to an attempt that counts from before, and that is all that the order of these
//! commands could matter for.

use std::collections::HashMap;
use std::time::Duration;

use shearline::engine::{Engine, Input, NodeId, Output, Request};
use shearline::internals::FLOOR_KEY;
use shearline::internals::resp::Inbox;
use shearline::internals::{LinkFault, Session, Store};
use shearline::{Instant, LockOptions};

use super::node::{Floor, Kind, Words, run, run_id};
use super::{NODES, TTL, config};
use crate::oracle::fencing_arguments;

/// A lock that another has.
const WITNESS: &[u8] = b"w";

/// Longer than every lock lasts that was begun before.
const SPAN: Duration = Duration::from_secs(3 * 24 * 3_600);

/// The nonce of the mark that a handle has set before.
const NONCE: u64 = 7;

pub(super) type Floors = [Floor; NODES];

/// What is done about floors that are missing, as far as it was done before.
#[derive(Default)]
pub(super) struct Repairs {
    marked: HashMap<Floors, Floors>,
    repaired: HashMap<(Floors, Option<usize>), Floors>,
}

impl Repairs {
    /// A handle meets the floors that are missing.
    pub(super) fn mark(&mut self, floors: Floors, nodes: usize) -> Floors {
        *self.marked.entry(floors).or_insert_with(|| {
            let mut witness = Witness::new(floors, nodes, NONCE);
            witness.meet();
            witness.read()
        })
    }

    /// That handle looks again when every attempt from before the marks is over. A node that is lost once more was
    /// marked before as well. One node does not answer, perhaps.
    pub(super) fn repair(&mut self, floors: Floors, nodes: usize, deaf: Option<usize>) -> Floors {
        let done = self.repaired.entry((floors, deaf));
        *done.or_insert_with(|| {
            // What it read then must not count now.
            let before = floors.map(|floor| Floor {
                kind: match floor.kind {
                    Kind::Own => Kind::Own,
                    Kind::Lost | Kind::Marked => Kind::Marked,
                },
                base: 0,
                number: 0,
            });
            let mut witness = Witness::new(before, nodes, NONCE);
            witness.meet();
            witness.change(floors);
            witness.deaf = deaf;
            witness.now = witness.now.saturating_add(SPAN);
            witness.pump();
            witness.read()
        })
    }
}

struct Place {
    store: Store,
    run_id: String,
    session: Session,
    link: Option<NodeId>,
    commands: Box<Inbox>,
}

struct Witness {
    now: Instant,
    engine: Engine,
    places: Vec<Place>,
    deaf: Option<usize>,
}

fn put(place: &mut Place, now: Instant, key: &[u8], value: &[u8]) {
    let mut session = place.store.session();
    run(&mut place.store, &mut session, now, &[b"SET", key, value]);
}

impl Witness {
    fn new(floors: Floors, nodes: usize, nonce: u64) -> Self {
        let now = Instant::from_millis(1_000);
        let place = |node: usize| {
            let mut store = Store::new(100 + node as u64, now);
            let run_id = run_id(&mut store, now);
            let session = store.session();
            let mut place = Place {
                store,
                run_id,
                session,
                link: None,
                commands: Box::new(Inbox::default()),
            };
            let text = floors[node].text(&place.run_id, nonce);
            put(&mut place, now, FLOOR_KEY, text.as_bytes());
            put(&mut place, now, WITNESS, b"another");
            place
        };
        let mut witness = Self {
            now,
            engine: Engine::new(&config(nodes), [9; 32], now),
            places: (0..nodes).map(place).collect(),
            deaf: None,
        };
        witness.pump();
        witness.now = Instant::from_millis(5_000);
        witness
    }

    /// It asks for a lock, and is refused. It looks at the floors that are missing.
    fn meet(&mut self) {
        let options = LockOptions::new(TTL).tries(1).fenced();
        let round = self
            .engine
            .acquire(self.now, &Request::new(WITNESS, &options));
        round.expect("there is room");
        self.pump();
    }

    /// The floors are these now.
    fn change(&mut self, floors: Floors) {
        for (node, floor) in floors.into_iter().enumerate().take(self.places.len()) {
            if floor.kind == Kind::Lost {
                self.restart(node);
            }
            let place = &mut self.places[node];
            let text = floor.text(&place.run_id, NONCE);
            put(place, self.now, FLOOR_KEY, text.as_bytes());
        }
    }

    fn restart(&mut self, node: usize) {
        let place = &mut self.places[node];
        let memory = shearline::embedded::Memory::Lost;
        place.store.restart(200 + node as u64, self.now, memory);
        place.run_id = run_id(&mut place.store, self.now);
        put(place, self.now, WITNESS, b"another");
        if let Some(node) = place.link.take() {
            let reason = LinkFault::Reset.into();
            self.engine
                .handle(self.now, Input::Disconnected { node, reason });
        }
    }

    fn read(&self) -> Floors {
        std::array::from_fn(|node| match self.places.get(node) {
            Some(place) => Floor::read(place.store.get(self.now, FLOOR_KEY), &place.run_id),
            None => Floor {
                kind: Kind::Own,
                base: 0,
                number: 0,
            },
        })
    }

    /// Does what the engine asks for, until it asks for nothing more.
    fn pump(&mut self) {
        self.engine.handle(self.now, Input::Tick);
        loop {
            let mut sent: Vec<(NodeId, Words)> = Vec::new();
            match self.engine.poll(self.now) {
                None => return,
                Some(Output::Connect { node }) => {
                    let place = &mut self.places[node.index()];
                    place.session = place.store.session();
                    place.link = Some(node);
                    *place.commands = Inbox::default();
                    self.engine.handle(self.now, Input::Connected { node });
                }
                Some(Output::Transmit { node, mut bytes }) => {
                    let len = bytes.len();
                    let place = &mut self.places[node.index()];
                    while let Ok(Some(frame)) = place.commands.next(&mut bytes) {
                        let words = frame.value.as_items().expect("a command").iter();
                        let words = words.map(|word| word.as_bytes().expect("a word").to_vec());
                        sent.push((node, words.collect()));
                    }
                    self.engine
                        .handle(self.now, Input::Transmitted { node, len });
                }
                Some(_) => {}
            }
            for (node, words) in sent {
                self.answer(node, &words);
            }
        }
    }

    fn answer(&mut self, node: NodeId, words: &Words) {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let looks = fencing_arguments(&words).is_some_and(|(names, _)| names.is_empty());
        let place = &mut self.places[node.index()];
        let bytes = match looks && self.deaf == Some(node.index()) {
            true => b"-ERR nothing is heard of it\r\n".to_vec(),
            false => run(&mut place.store, &mut place.session, self.now, &words),
        };
        let bytes = &bytes[..];
        self.engine
            .handle(self.now, Input::Received { node, bytes });
    }
}
