//! Repairs in the search. A separate handle, which lives long enough, has seen the loss and looks at the floors when it
//! is time. It too is a real engine.
//!
//! It asks for a lock that another client has, so nothing is counted for it. Its reads and writes are done at once:
//! their order could only matter if a node gave a token meanwhile to an attempt from before the loss, and no node does.

use std::collections::HashMap;
use std::time::Duration;

use shearline::engine::Request;
use shearline::internals::{FLOOR_KEY, Store};
use shearline::{Instant, LockOptions};

use super::node::{Floor, Kind, Words, run, run_id};
use super::wired::{Link, User, Wired};
use super::{NODES, TTL, config};
use crate::oracle::fencing_arguments;

/// The name of a lock that another client has.
const WITNESS: &[u8] = b"w";

/// A time that is longer than every earlier lock.
const SPAN: Duration = Duration::from_secs(3 * 24 * 3_600);

/// The nonce of the mark that a handle has set before.
const NONCE: u64 = 7;

pub(super) type Floors = [Floor; NODES];

/// The repairs of missing floors, with the results of earlier ones.
#[derive(Default)]
pub(super) struct Repairs {
    marked: HashMap<Floors, Floors>,
    repaired: HashMap<(Floors, Option<usize>), Floors>,
}

impl Repairs {
    /// Lets a handle find the missing floors. Returns the floors afterwards.
    pub(super) fn mark(&mut self, floors: Floors, nodes: usize) -> Floors {
        *self.marked.entry(floors).or_insert_with(|| {
            let mut witness = Witness::new(floors, nodes);
            witness.meet();
            witness.read()
        })
    }

    /// Lets that handle look again when every attempt from before the marks is over. A node that has lost its data once
    /// more was marked before as well. One node may not answer.
    pub(super) fn repair(&mut self, floors: Floors, nodes: usize, deaf: Option<usize>) -> Floors {
        let done = self.repaired.entry((floors, deaf));
        *done.or_insert_with(|| {
            // What the handle read then must not count now.
            let before = floors.map(|floor| match floor.kind {
                Kind::Own => Floor::new(Kind::Own, 0),
                Kind::Lost | Kind::Marked => Floor::new(Kind::Marked, 0),
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

/// Writes a key that exists before the handle looks.
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

    /// Begins a life of a node.
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

    /// Lets the handle ask for a lock. It is refused, and looks at the missing floors.
    fn meet(&mut self) {
        let options = LockOptions::new(TTL).tries(1).fenced();
        let (engine, now) = (&mut self.wired.engine, self.wired.now);
        let round = engine.acquire(now, &Request::new(WITNESS, &options));
        round.expect("there is room");
        self.pump();
    }

    /// Replaces the floors of the nodes.
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
            None => Floor::new(Kind::Own, 0),
        })
    }

    fn pump(&mut self) {
        self.wired.pump(&mut Deaf(self.deaf));
    }
}

/// A user for which all nodes answer at once, except that this node does not answer about its floor.
struct Deaf(Option<usize>);

impl User for Deaf {
    fn send(&mut self, now: Instant, to: usize, link: &mut Link, words: Words) -> Option<Vec<u8>> {
        let slices: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let looks = fencing_arguments(&slices).is_some_and(|(names, _)| names.is_empty());
        Some(match looks && self.0 == Some(to) {
            true => b"-ERR nothing is heard of it\r\n".to_vec(),
            false => link.run(now, &words),
        })
    }
}
