//! Locks on several resources where anything goes wrong: programs on the same three nodes, which execute late,
//! whose answers are lost, and which lose keys. What a program was told it has is on a majority, whole; and
//! when all is given back no node has a key.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::net::{Client, Net};
use super::*;
use crate::config::RestartGuard;
use crate::effort::effort;
use crate::embedded::Memory;
use crate::embedded::store::Store;

const NODES: usize = 3;
const PROGRAMS: usize = 3;

/// Longer than a story: no key ends by time.
const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(300);

/// In how many ways a story goes on.
const WHAT_HAPPENS: usize = 13;

/// What one of them has open, and what it holds.
#[derive(Default)]
struct Program {
    open: Vec<RoundId>,
    locks: Vec<Lock>,
}

struct Faults {
    seed: u64,
    net: Net,
    random: StdRng,
    programs: [Program; PROGRAMS],
    /// Nodes lose keys, and others write to them.
    keys_are_lost: bool,
    /// Nodes start again, and have forgotten all.
    restarts: bool,
    /// What locks are taken for.
    ttl: Duration,
    /// What was done, and how often.
    done: BTreeMap<&'static str, u32>,
}

impl Faults {
    fn new(seed: u64) -> Self {
        let delay = 990 * MS * (seed / 2 % 2) as u32;
        let ttl = if seed / 4 % 3 == 1 { SHORT } else { LONG };
        let guard = match seed / 12 % 2 {
            0 => RestartGuard::default(),
            _ => RestartGuard::Strict,
        };
        let builder = named(NODES).watch_clocks(false).lock_delay(delay);
        let builder = builder.max_ttl(ttl + 2 * delay).restart_guard(guard);
        let mut random = StdRng::seed_from_u64(seed);
        let mut net = Net::new(NODES as u64);
        net.chance = Some(StdRng::seed_from_u64(random.random()));
        (0..PROGRAMS).for_each(|_| _ = net.client(builder.clone()));
        let mut world = Self {
            seed,
            net,
            random,
            programs: Default::default(),
            keys_are_lost: seed % 2 == 1,
            restarts: seed / 4 % 3 == 2,
            ttl,
            done: BTreeMap::new(),
        };
        if guard == RestartGuard::Strict {
            // Until the nodes vote.
            world.pass(2 * ttl, true);
        }
        world
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.random_range(0..bound)
    }

    fn did(&mut self, what: &'static str) {
        *self.done.entry(what).or_default() += 1;
    }

    // ----- bytes ----------------------------------------------------------------------------

    /// Does all that the programs want done. What they send waits.
    fn drain(&mut self) {
        (0..PROGRAMS).for_each(|number| _ = self.net.drain(number));
        self.tell();
    }

    fn tell(&mut self) {
        for number in 0..PROGRAMS {
            while let Some(event) = self.net.event(number) {
                self.told(number, event);
            }
        }
    }

    fn told(&mut self, number: usize, event: Event) {
        let program = &mut self.programs[number];
        let what = match event {
            Event::Acquired { round, result } => {
                program.open.retain(|open| *open != round);
                let is_ok = result.is_ok();
                program.locks.extend(result);
                if is_ok { "acquired" } else { "refused" }
            }
            Event::Extended {
                result: Ok(extension),
                ..
            }
            | Event::Confirmed {
                result: Ok(extension),
                ..
            } => {
                let applied = |lock: &mut Lock| extension.apply(lock);
                program.locks.iter_mut().any(applied);
                "prolonged"
            }
            Event::Extended { .. } | Event::Confirmed { .. } => "not prolonged",
            Event::Kept { result: Ok(_), .. } => "kept",
            Event::Kept { .. } => "not kept",
            Event::Released { result: Ok(_), .. } => "released",
            Event::Released { .. } => "not released",
            Event::Expired { .. } => {
                let may_end = self.keys_are_lost || self.restarts || self.ttl == SHORT;
                assert!(may_end, "seed {}: a majority has it", self.seed);
                "lost"
            }
            other => panic!("{other:?}"),
        };
        self.did(what);
    }

    /// All nodes execute and answer everything.
    fn settle(&mut self) {
        self.net.pump();
        self.tell();
    }

    fn pass(&mut self, span: Duration, settles: bool) {
        self.net.pass_with(span, |net| match settles {
            true => net.pump(),
            false => (0..PROGRAMS).for_each(|number| _ = net.drain(number)),
        });
        self.tell();
    }

    // ----- what happens ---------------------------------------------------------------------

    fn step(&mut self) {
        let (number, node) = (self.below(PROGRAMS), self.below(NODES));
        match self.below(24) {
            0..2 => self.acquire(number),
            2..6 => self.use_lock(number),
            6 => {
                let open = self.programs[number].open.pop();
                if let Some(round) = open {
                    self.net.clients[number].engine.cancel(self.net.now, round);
                    self.did("cancelled");
                }
            }
            7 if self.below(3) == 0 => self.net.cut_link(number, node),
            8 if self.keys_are_lost => self.lose_key(node),
            9 if self.restarts && self.below(10) == 0 => self.restart(node),
            9..12 => {
                let span = [100, 1_000, 10_000, 150_000][self.below(4)];
                self.pass(Duration::from_micros(span), false);
            }
            12..14 => self.settle(),
            14..17 => {
                self.net.execute(number, node);
            }
            _ => {
                while self.below(4) != 0 && self.net.execute(number, node) {}
                self.net.receive(number, node);
            }
        }
        self.drain();
        self.see();
    }

    fn acquire(&mut self, number: usize) {
        let mut names: Vec<&[u8]> = vec![b"a", b"b", b"c", b"d"];
        (1..4).rev().for_each(|at| {
            let other = self.below(at + 1);
            names.swap(at, other);
        });
        names.truncate([1, 2, 2, 3][self.below(4)]);
        let options = LockOptions::new(self.ttl);
        let options = match self.below(3) {
            0 => options.tries(1),
            1 => options.wait(300 * MS).keep(),
            _ => options.wait(300 * MS),
        };
        let request = Request::all(&names, &options);
        let engine = &mut self.net.clients[number].engine;
        let round = engine.acquire(self.net.now, &request).expect("valid");
        self.programs[number].open.push(round);
    }

    fn use_lock(&mut self, number: usize) {
        let held = self.programs[number].locks.len();
        if held == 0 {
            return;
        }
        let (at, other) = (self.below(held), self.below(PROGRAMS));
        let what = self.below(9);
        let (now, ttl) = (self.net.now, self.ttl);
        let engine = &mut self.net.clients[number].engine;
        let locks = &mut self.programs[number].locks;
        match what {
            0..3 => drop(engine.extend(now, &locks[at], ttl)),
            3 => drop(engine.confirm(now, &locks[at])),
            4 | 5 => {
                engine.release(now, locks.swap_remove(at));
            }
            6 => engine.give_back(now, locks.swap_remove(at)),
            _ => {
                let lock = engine.detach(now, locks.swap_remove(at));
                let bytes = lock.to_bytes();
                let lock = Lock::from_bytes(&bytes).expect("whole");
                let engine = &mut self.net.clients[other].engine;
                self.programs[other].locks.push(engine.adopt(now, lock));
                self.did("handed over");
            }
        }
    }

    /// A node loses a key, which another client may take.
    fn lose_key(&mut self, node: usize) {
        let key = ["a", "b", "c", "d"][self.below(4)];
        self.net.admin(node, &format!("DEL {key}"));
        if self.below(3) == 0 {
            self.net.set(node, key.as_bytes(), b"of another");
        }
        self.did("key lost");
    }

    fn restart(&mut self, node: usize) {
        self.net.restart_alone(node, Memory::Lost);
        self.did("restarted");
    }

    // ----- what is judged -------------------------------------------------------------------

    /// Each lock that is valid is on a majority, with all its names, and no two have the same.
    fn see(&self) {
        assert_eq!(crate::invariant::count(), 0);
        if self.keys_are_lost {
            return;
        }
        let locks = self.programs.iter().flat_map(|program| &program.locks);
        let mut names: Vec<&[u8]> = Vec::new();
        for lock in locks.filter(|lock| lock.is_valid_at(self.net.now)) {
            let token = Some(lock.token().as_bytes());
            let has_all = |store: &&Store| {
                let mut of = lock.resources();
                of.all(|name| store.get(self.net.now, name) == token)
            };
            let stores = self.net.nodes.iter().map(|node| &node.store);
            let copies = stores.filter(has_all).count();
            assert!(
                self.restarts || NODES / 2 < copies,
                "seed {}: {lock:?} on {copies}",
                self.seed
            );
            names.extend(lock.resources());
        }
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "seed {}: two have one name", self.seed);
    }

    /// Everything is given back, and the nodes answer again: nothing is left.
    fn end(mut self) -> BTreeMap<&'static str, u32> {
        for (client, program) in self.net.clients.iter_mut().zip(&mut self.programs) {
            let (engine, now) = (&mut client.engine, self.net.now);
            for round in program.open.drain(..) {
                engine.cancel(now, round);
            }
            for lock in program.locks.drain(..) {
                engine.give_back(now, lock);
            }
        }
        self.pass(Duration::from_secs(30), true);
        for Client { engine, .. } in &self.net.clients {
            let load = engine.load();
            let (open, seed) = ((load.rounds, load.claims, load.owed), self.seed);
            assert_eq!(open, (0, 0, 0), "seed {seed}: {load:?}");
            let parts = &engine.parts;
            assert!(parts.queues.is_empty() && parts.places_of_several.is_empty());
        }
        for (node, there) in self.net.nodes.iter().enumerate() {
            for name in [b"a", b"b", b"c", b"d"] {
                let left = there.store.get(self.net.now, name);
                let left = left.filter(|text| *text != b"of another");
                assert_eq!(
                    left,
                    None,
                    "seed {}: {} on {node}",
                    self.seed,
                    name.escape_ascii()
                );
            }
        }
        self.done
    }
}

#[test]
fn whatever_goes_wrong_a_set_is_whole_on_a_majority_and_nothing_of_it_is_left_behind() {
    let mut done: BTreeMap<&'static str, u32> = BTreeMap::new();
    for seed in 0..effort(56, 96) {
        let mut world = Faults::new(seed);
        (0..600).for_each(|_| world.step());
        for (what, count) in world.end() {
            *done.entry(what).or_default() += count;
        }
    }
    // Not one of them is missing.
    assert_eq!(done.len(), WHAT_HAPPENS, "{done:?}");
}
