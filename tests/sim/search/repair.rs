//! Repairs in the search: a handle of its own, which lives for long enough, has seen the loss and looks at the floors
//! when it is time. It is the engine, too.
//!
//! It asks for a lock that another has, so nothing is counted for it. What it reads and writes is done at once: no
//! node gives a token meanwhile to an attempt that counts from before, and that is all that the order of these
//! commands could matter for.

use std::collections::HashMap;
use std::time::Duration;

use shearline::engine::Request;
use shearline::internals::{FLOOR_KEY, Store};
use shearline::{Instant, LockOptions};

use super::node::{Floor, Kind, Words, run, run_id};
use super::wired::{Link, User, Wired};
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
            let mut witness = Witness::new(floors, nodes);
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
            let mut witness = Witness::new(before, nodes);
            witness.meet();
            witness.change(floors);
            witness.deaf = deaf;
            witness.wired.now = witness.wired.now.saturating_add(SPAN);
            witness.pump();
            witness.read()
        })
    }
}

struct Witness {
    wired: Wired,
    run_ids: Vec<String>,
    deaf: Option<usize>,
}

/// Writes what is there before the handle looks.
fn put(store: &mut Store, now: Instant, key: &[u8], value: &[u8]) {
    let mut session = Store::session();
    run(store, &mut session, now, &[b"SET", key, value]);
}

impl Witness {
    fn new(floors: Floors, nodes: usize) -> Self {
        let now = Instant::from_millis(1_000);
        let stores = (0..nodes).map(|node| Store::new(100 + node as u64, now));
        let mut witness = Self {
            wired: Wired::new(&config(nodes), 9, now, stores),
            run_ids: vec![String::new(); nodes],
            deaf: None,
        };
        for (node, floor) in floors.into_iter().enumerate().take(nodes) {
            witness.begin(node);
            witness.put_floor(node, floor);
        }
        witness.pump();
        witness.wired.now = Instant::from_millis(5_000);
        witness
    }

    /// A node has begun a life.
    fn begin(&mut self, node: usize) {
        let (store, now) = (&mut self.wired.links[node].store, self.wired.now);
        self.run_ids[node] = run_id(store, now);
        put(store, now, WITNESS, b"another");
    }

    fn put_floor(&mut self, node: usize, floor: Floor) {
        let text = floor.text(&self.run_ids[node], NONCE);
        let (store, now) = (&mut self.wired.links[node].store, self.wired.now);
        put(store, now, FLOOR_KEY, text.as_bytes());
    }

    /// It asks for a lock, and is refused. It looks at the floors that are missing.
    fn meet(&mut self) {
        let options = LockOptions::new(TTL).tries(1).fenced();
        let (engine, now) = (&mut self.wired.engine, self.wired.now);
        let round = engine.acquire(now, &Request::new(WITNESS, &options));
        round.expect("there is room");
        self.pump();
    }

    /// The floors are these now.
    fn change(&mut self, floors: Floors) {
        for (node, floor) in floors.into_iter().enumerate().take(self.run_ids.len()) {
            if floor.kind == Kind::Lost {
                self.wired.restart(node, 200 + node as u64);
                self.begin(node);
                self.wired.cut(node);
            }
            self.put_floor(node, floor);
        }
    }

    fn read(&self) -> Floors {
        std::array::from_fn(|node| match self.wired.links.get(node) {
            Some(link) => {
                let text = link.store.get(self.wired.now, FLOOR_KEY);
                Floor::read(text, &self.run_ids[node])
            }
            None => Floor {
                kind: Kind::Own,
                base: 0,
                number: 0,
            },
        })
    }

    fn pump(&mut self) {
        self.wired.pump(&mut Deaf(self.deaf));
    }
}

/// All nodes answer at once, but that this one says nothing of its floor.
struct Deaf(Option<usize>);

impl User for Deaf {
    fn send(
        &mut self,
        now: Instant,
        node: usize,
        link: &mut Link,
        words: Words,
    ) -> Option<Vec<u8>> {
        let slices: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let looks = fencing_arguments(&slices).is_some_and(|(names, _)| names.is_empty());
        Some(match looks && self.0 == Some(node) {
            true => b"-ERR nothing is heard of it\r\n".to_vec(),
            false => link.run(now, &words),
        })
    }
}
