//! Callers of one engine want the same resources, in any order and with any answers. The queues stay intact, and
//! nothing is left in them.

use super::inspection::Inspection;
use super::*;
use crate::effort::effort;
use crate::engine::claims::claim::Claim;
use crate::keys::{ClaimKey, PlaceKey};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// An engine with nodes that give any answer that fits the question.
struct Chaos {
    world: World,
    random: StdRng,
    /// The questions that each node has not answered, and the number of scripts that it was taught.
    asked: Vec<(Vec<String>, usize)>,
    rounds: Vec<RoundId>,
    watches: Vec<RoundId>,
    /// The latest state that a watch has reported.
    known: Option<Inspection>,
    /// Operations that are over or were cancelled.
    over: Vec<RoundId>,
    locks: Vec<Lock>,
}

/// The answers of a node about a fenced lock.
const FENCED: [&str; 12] = [
    "$1|7|",
    "$1|7|",
    "$1|9|",
    "$1|8|",
    "*3|:2|:0|:0|",
    "*3|:3|:0|:0|",
    "*3|:-1|:0|:0|",
    "*3|:-1|:0|:1|",
    "*3|:-2|:0|:0|",
    "-NOSCRIPT no|",
    "-OOM no|",
    "-ERR no|",
];

/// The answers of a node to an inspection.
const INSPECTED: [&str; 7] = [
    "*3|:0|:0|$0||",
    "*3|:0|:0|$0||",
    "*3|:101|:0|$3|one|",
    "*3|:9001|:0|$3|one|",
    "-WRONGTYPE no|",
    "-WRONGTYPE no|",
    "-BUSY no|",
];

impl Chaos {
    fn new(seed: u64) -> Self {
        // Every other handle has a lock delay.
        let delay = 990 * MS * (seed % 2) as u32;
        Self {
            world: World::with(named(3).lock_delay(delay)).greeted(),
            random: StdRng::seed_from_u64(seed),
            asked: vec![(Vec::new(), 0); 3],
            rounds: Vec::new(),
            watches: Vec::new(),
            known: None,
            over: Vec::new(),
            locks: Vec::new(),
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.random_range(0..bound)
    }

    fn one_of<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    fn step(&mut self) {
        let node = self.below(3);
        match self.below(20) {
            0 if self.below(8) == 0 => self.watch(),
            0..3 => self.acquire(),
            3..6 => self.use_lock(),
            6 if !self.rounds.is_empty() => {
                let at = self.below(self.rounds.len());
                let round = self.rounds.swap_remove(at);
                self.world.cancel(round);
                self.over.push(round);
            }
            // An outdated key names no operation.
            12 if !self.over.is_empty() => {
                let at = self.below(self.over.len());
                self.world.cancel(self.over[at]);
            }
            7 if self.world.links[node] == "up" && self.below(4) == 0 => {
                self.asked[node].0.clear();
                self.world.lose(node);
            }
            8 => {
                let name = self.one_of(&["*1|$2|ka|", "*1|$2|kb|", "_|"]);
                if self.world.links[node] == "up" {
                    self.world.say(node, &format!(">2|$10|invalidate|{name}"));
                }
            }
            9..12 => {
                let micros = [100, 1_000, 5_000, 300_000, 2_000_000][self.below(5)];
                let span = Duration::from_micros(micros);
                match self.below(3) {
                    0 => self.world.sleep(span),
                    1 => self.world.pass(span),
                    _ => self.world.wait(span),
                }
            }
            _ => self.answer(node),
        }
        self.see();
    }

    fn acquire(&mut self) {
        let ttl = [5 * MS, 100 * MS, TTL][self.below(3)];
        let mut options = LockOptions::new(ttl);
        options = match self.below(5) {
            0 | 1 => options.tries(1),
            2 => options.tries(3),
            3 => options.wait(300 * MS),
            _ => options,
        };
        if self.below(3) == 0 {
            options = options.keep();
        }
        let is_shared = self.below(3) == 0;
        if self.below(3) == 0 && !is_shared {
            options = options.fenced();
        }
        let (ka, kb, kc) = (&b"ka"[..], &b"kb"[..], &b"kc"[..]);
        let resources: [&[_]; 5] = [&[ka], &[ka], &[kb], &[ka, kb], &[kb, kc, ka]];
        let request = match resources[self.below(5)] {
            names if is_shared => Request::shared(names[0], &options),
            names => Request::all(names, &options),
        };
        let round = self.world.engine.acquire(self.world.now, &request);
        let round = round.expect("valid");
        self.world.drain();
        let known = |open: &RoundId| *open == round || open.index() == round.index();
        assert!(!self.rounds.iter().any(known), "{round:?} is another's");
        assert!(!self.over.contains(&round), "{round:?} was another's");
        self.rounds.push(round);
    }

    /// Watches one of the names, or ends a watch.
    fn watch(&mut self) {
        match self.watches.pop() {
            Some(watch) if self.below(2) == 0 => self.world.cancel(watch),
            watch => {
                self.watches.extend(watch);
                let (now, known) = (self.world.now, self.known.as_ref());
                let watch = self.world.engine.watch(now, b"ka", known);
                self.watches.push(watch.expect("there is room"));
                self.world.drain();
            }
        }
    }

    fn use_lock(&mut self) {
        if self.locks.is_empty() {
            return;
        }
        let at = self.below(self.locks.len());
        let mut lock = self.locks.swap_remove(at);
        let (now, world) = (self.world.now, &mut self.world);
        match self.random.random_range(0..7) {
            0 => return world.release(lock),
            1 => return world.give_back(lock),
            2 => lock = world.detach(lock),
            3 => lock = world.adopt(lock),
            4 => _ = world.engine.extend(now, &lock, TTL),
            5 => _ = world.engine.downgrade(now, &mut lock),
            _ => {
                let most = [TTL, Duration::MAX][self.random.random_range(0..2)];
                _ = world.engine.keep(now, &mut lock, most);
            }
        }
        world.drain();
        self.locks.push(lock);
    }

    fn give_all_back(&mut self) {
        for lock in core::mem::take(&mut self.locks) {
            self.world.give_back(lock);
        }
    }

    /// `node` answers its questions, or a part of them.
    fn answer(&mut self, node: usize) {
        if self.world.links[node] == "connecting" {
            self.world.connect(node);
        }
        let asked = &mut self.asked[node].0;
        asked.extend(self.world.take(node));
        let count = self.below(4).min(self.asked[node].0.len());
        for _ in 0..count {
            if self.asked[node].0.is_empty() {
                break; // The connection was given up.
            }
            let asked = self.asked[node].0.remove(0);
            let said = self.reply(node, &asked);
            self.world.say(node, &said);
            self.see();
            if self.world.links[node] != "up" {
                return;
            }
        }
    }

    fn reply(&mut self, node: usize, asked: &str) -> String {
        let digests = digests();
        let halves: Vec<_> = digests.split_inclusive('|').collect();
        let said: &[&str] = match asked.split(' ').next().expect("a verb") {
            "HELLO" => &[HELLO],
            "INFO" if asked == "INFO server" => return format!("$11|run_id:run{node}|"),
            "INFO" => &["$-1|"],
            "SCRIPT" => {
                self.asked[node].1 += 1;
                return halves[self.asked[node].1 % 2 * 2..][..2].concat();
            }
            "SET" if asked.contains("intent") => &["+OK|", "-NOPERM no|"],
            "READ" => &[
                ":1|",
                ":1|",
                ":2|",
                ":3|",
                ":-8|",
                "-NOPERM no|",
                "-OOM no|",
                "-ERR no|",
            ],
            "CONFIRM" => &[":9001|", ":101|", ":0|", "-WRONGTYPE no|", "-BUSY no|"],
            "SET" => &["+OK|", "+OK|", "_|", "_|", "-OOM no|", "-ERR no|"],
            "by" => &FENCED,
            "TAKE" if asked.split(' ').count() == 3 => &FENCED,
            "RAISE" => &[":1|", ":1|", ":0|", ":-1|", "-OOM no|", "-NOSCRIPT no|"],
            "LOOK" => &[
                "*2|:1|:9|",
                "*2|:1|:0|",
                "*2|:0|:5|",
                "*2|:0|:6|",
                "-OOM no|",
            ],
            "REPAIR" | "FLOOR" => &[":1|", ":0|", "-OOM no|"],
            "TAKE" => &[":1|", ":1|", ":1|", ":2|", ":3|", "-OOM no|", "-ERR no|"],
            "RELEASE" | "EXTEND" => &[":1|", ":1|", ":0|", ":-1|", "-BUSY no|"],
            "PTTL" => &[":-2|", ":-1|", ":1|", ":100|", ":9000|", "-NOPERM no|"],
            "CLIENT" => &["+OK|", "+OK|", "+OK|", "+OK|", "-NOPERM no|"],
            "EVAL" if asked == "EVAL inspect" => &INSPECTED,
            "EVAL" | "EVALSHA" => &[":1|", ":1|", ":0|", "-NOSCRIPT no|", "-BUSY no|"],
            other => panic!("{other}"),
        };
        self.one_of(said).into()
    }

    /// Takes the events, and checks the queues.
    fn see(&mut self) {
        for node in 0..3 {
            if self.world.links[node] != "up" {
                self.asked[node].0.clear();
                self.world.take(node);
            }
        }
        for event in core::mem::take(&mut self.world.events) {
            match event {
                Event::Acquired { round, result } => {
                    let open = self.rounds.iter().position(|open| *open == round);
                    let open = open.expect("no caller waits for it");
                    self.over.push(self.rounds.swap_remove(open));
                    self.locks.extend(result.ok());
                }
                Event::Inspected { round, result } => {
                    self.watches.retain(|open| *open != round);
                    self.known = Some(result.expect("a watch is told what there is"));
                }
                _ => {}
            }
        }
        let work = &self.world.engine.work;
        let (queues, claims) = (&work.parts.queues, &work.parts.claims);
        let is_alone = |(_, claim): &(ClaimKey, &Claim)| {
            claim.busy().place == Some(PlaceKey::NONE) && !claim.entry.is_several()
        };
        let places = |(key, claim): (ClaimKey, &Claim)| match claim.busy().place {
            Some(_) if !is_alone(&(key, claim)) => claim.entry.names().len(),
            _ => 0,
        };
        let alone = claims.iter().filter(is_alone);
        queues.check_alone(alone.map(|(key, claim)| (key, claim.entry.resource())));
        let held = claims.iter().map(places).sum::<usize>();
        queues.check(
            work.places() + queues.waiters.waiting() + held,
            |operation| work.is_open(operation),
            |key, place| {
                let claim = claims.get(key);
                claim.is_some_and(|claim| {
                    let mut names = claim.entry.names();
                    claim.busy().place == Some(place)
                        || claim.entry.is_several()
                            && claim.busy().place.is_some()
                            && names.any(|name| queues.find(name) == Some(place))
                })
            },
        );
    }
}

#[test]
fn queues_stay_whole_whatever_happens() {
    for seed in 0..effort(30, 200) {
        let mut chaos = Chaos::new(seed);
        for _ in 0..400 {
            chaos.step();
            let work = &chaos.world.engine.work;
            let resting = work.resting();
            assert_eq!(
                work.parts.resting, resting,
                "seed {seed}: those that rest are counted"
            );
        }
        chaos.give_all_back();
        for watch in core::mem::take(&mut chaos.watches) {
            chaos.world.cancel(watch);
        }
        for _ in 0..100 {
            (0..3).for_each(|node| chaos.answer(node));
            chaos.world.sleep(100 * MS);
            chaos.see();
            chaos.give_all_back();
        }
        assert!(chaos.rounds.is_empty(), "seed {seed}: a caller waits");
        let queues = &chaos.world.engine.work.parts.queues;
        assert!(queues.is_empty(), "seed {seed}");
    }
}
