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
        let options = LockOptions::new(ttl);
        let options = match self.below(5) {
            0 | 1 => options.tries(1),
            2 => options.tries(3),
            3 => options.wait(300 * MS),
            _ => options,
        };
        let options = match self.below(3) {
            0 => options.keep(),
            _ => options,
        };
        let is_shared = self.below(3) == 0;
        let options = match self.below(3) {
            0 if !is_shared => options.fenced(),
            _ => options,
        };
        let resources: [&[&[u8]]; 5] = [
            &[b"ka"],
            &[b"ka"],
            &[b"kb"],
            &[b"ka", b"kb"],
            &[b"kb", b"kc", b"ka"],
        ];
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
        let lock = self.locks.swap_remove(at);
        match self.below(7) {
            6 => {
                let mut lock = lock;
                _ = self.world.engine.downgrade(self.world.now, &mut lock);
                self.world.drain();
                self.locks.push(lock);
            }
            0 => self.world.release(lock),
            1 => self.world.give_back(lock),
            2 => {
                let lock = self.world.detach(lock);
                self.locks.push(lock);
            }
            3 => {
                let lock = self.world.adopt(lock);
                self.locks.push(lock);
            }
            4 => {
                _ = self.world.engine.extend(self.world.now, &lock, TTL);
                self.world.drain();
                self.locks.push(lock);
            }
            _ => {
                let (mut lock, most) = (lock, [TTL, Duration::MAX][self.below(2)]);
                _ = self.world.engine.keep(self.world.now, &mut lock, most);
                self.world.drain();
                self.locks.push(lock);
            }
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
        let said = match asked.split(' ').next().expect("a verb") {
            "HELLO" => HELLO,
            "INFO" if asked == "INFO server" => return format!("$11|run_id:run{node}|"),
            "INFO" => "$-1|",
            "SCRIPT" => {
                self.asked[node].1 += 1;
                return halves[self.asked[node].1 % 2 * 2..][..2].concat();
            }
            "SET" if asked.contains("intent") => self.one_of(&["+OK|", "-NOPERM no|"]),
            "READ" => self.one_of(&[
                ":1|",
                ":1|",
                ":1|",
                ":2|",
                ":3|",
                ":-8|",
                "-NOPERM no|",
                "-OOM no|",
                "-ERR no|",
            ]),
            "CONFIRM" => self.one_of(&[":9001|", ":101|", ":0|", "-WRONGTYPE no|", "-BUSY no|"]),
            "SET" => self.one_of(&["+OK|", "+OK|", "_|", "_|", "-OOM no|", "-ERR no|"]),
            "by" => self.fenced_reply(),
            "TAKE" if asked.split(' ').count() == 3 => self.fenced_reply(),
            "RAISE" => self.one_of(&[":1|", ":1|", ":0|", ":-1|", "-OOM no|", "-NOSCRIPT no|"]),
            "LOOK" => self.one_of(&[
                "*2|:1|:9|",
                "*2|:1|:0|",
                "*2|:0|:5|",
                "*2|:0|:6|",
                "-OOM no|",
            ]),
            "REPAIR" | "FLOOR" => self.one_of(&[":1|", ":0|", "-OOM no|"]),
            "TAKE" => self.one_of(&[":1|", ":1|", ":1|", ":2|", ":3|", "-OOM no|", "-ERR no|"]),
            "RELEASE" | "EXTEND" => self.one_of(&[":1|", ":1|", ":0|", ":-1|", "-BUSY no|"]),
            "PTTL" => self.one_of(&[":-2|", ":-1|", ":1|", ":100|", ":9000|", "-NOPERM no|"]),
            "CLIENT" => self.one_of(&["+OK|", "+OK|", "+OK|", "+OK|", "-NOPERM no|"]),
            "EVAL" if asked == "EVAL inspect" => self.one_of(&[
                "*3|:0|:0|$0||",
                "*3|:0|:0|$0||",
                "*3|:101|:0|$3|one|",
                "*3|:9001|:0|$3|one|",
                "-WRONGTYPE no|",
                "-WRONGTYPE no|",
                "-BUSY no|",
            ]),
            "EVAL" | "EVALSHA" => self.one_of(&[":1|", ":1|", ":0|", "-NOSCRIPT no|", "-BUSY no|"]),
            other => panic!("{other}"),
        };
        said.into()
    }

    /// A node's answer about a fenced lock.
    fn fenced_reply(&mut self) -> &'static str {
        let said = [
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
        said[self.below(said.len())]
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
            if matches!(event, Event::Acquired { .. }) {
                let ended = event.round().expect("of an operation");
                let open = self.rounds.iter().position(|open| *open == ended);
                self.rounds
                    .swap_remove(open.expect("no caller waits for it"));
                self.over.push(ended);
            }
            if let Event::Inspected { round, result } = &event {
                self.watches.retain(|open| open != round);
                self.known = Some(result.clone().expect("a watch is told what there is"));
            }
            if let Event::Acquired {
                result: Ok(lock), ..
            } = event
            {
                self.locks.push(lock);
            }
        }
        let engine = &self.world.engine;
        let is_alone = |(_, claim): &(ClaimKey, &Claim)| {
            claim.busy().place == Some(PlaceKey::NONE) && !claim.entry.is_several()
        };
        let places = |(key, claim): (ClaimKey, &Claim)| match claim.busy().place {
            Some(_) if !is_alone(&(key, claim)) => claim.entry.names().len(),
            _ => 0,
        };
        let alone = engine.work.parts.claims.iter().filter(is_alone);
        engine
            .work
            .parts
            .queues
            .check_alone(alone.map(|(key, claim)| (key, claim.entry.resource())));
        let held = engine.work.parts.claims.iter().map(places).sum::<usize>();
        let queues = &engine.work.parts.queues;
        queues.check(
            engine.work.places() + engine.work.parts.queues.waiters.waiting() + held,
            |operation| engine.work.is_open(operation),
            |key, place| {
                let claim = engine.work.parts.claims.get(key);
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
            let engine = &chaos.world.engine;
            assert_eq!(
                engine.work.parts.resting,
                engine.work.resting(),
                "seed {seed}: those that rest are counted"
            );
        }
        for lock in core::mem::take(&mut chaos.locks) {
            chaos.world.give_back(lock);
        }
        for watch in core::mem::take(&mut chaos.watches) {
            chaos.world.cancel(watch);
        }
        for _ in 0..100 {
            for node in 0..3 {
                chaos.answer(node);
            }
            chaos.world.sleep(100 * MS);
            chaos.see();
            for lock in core::mem::take(&mut chaos.locks) {
                chaos.world.give_back(lock);
            }
        }
        assert!(
            chaos.rounds.is_empty(),
            "seed {seed}: a caller waits for ever"
        );
        for lock in core::mem::take(&mut chaos.locks) {
            chaos.world.give_back(lock);
        }
        assert!(
            chaos.world.engine.work.parts.queues.is_empty(),
            "seed {seed}"
        );
    }
}
