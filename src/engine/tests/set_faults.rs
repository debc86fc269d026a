//! Locks on several resources where anything goes wrong: programs on the same three nodes, which execute late,
//! whose answers are lost, and which lose keys. What a program was told it has is on a majority, whole; and
//! when all is given back no node has a key.

use std::collections::{BTreeMap, VecDeque};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::config::RestartGuard;
use crate::effort::effort;
use crate::embedded::Memory;
use crate::embedded::session::Session;
use crate::embedded::store::Store;

const NODES: usize = 3;
const PROGRAMS: usize = 3;

/// Longer than a story: no key ends by time.
const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(300);

/// In how many ways a story goes on.
const WHAT_HAPPENS: usize = 13;

/// What one program has sent to one node, and what comes back.
#[derive(Default)]
struct Link {
    session: Option<Session>,
    inbox: Option<Inbox>,
    /// The commands that the node has not executed.
    queue: VecDeque<Vec<Vec<u8>>>,
    answers: Vec<u8>,
}

struct Program {
    engine: Engine,
    links: Vec<Link>,
    open: Vec<RoundId>,
    locks: Vec<Lock>,
}

struct Faults {
    seed: u64,
    now: Instant,
    random: StdRng,
    nodes: Vec<Store>,
    programs: Vec<Program>,
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
        let now = Instant::from_millis(1_000);
        let stores = (0..NODES as u64).map(|node| Store::new(node, now));
        let delay = 990 * MS * (seed / 2 % 2) as u32;
        let ttl = if seed / 4 % 3 == 1 { SHORT } else { LONG };
        let guard = match seed / 12 % 2 {
            0 => RestartGuard::default(),
            _ => RestartGuard::Strict,
        };
        let config = named(NODES).watch_clocks(false).lock_delay(delay);
        let config = config.max_ttl(ttl + 2 * delay).restart_guard(guard);
        let config = config.config().expect("valid");
        let programs = (0..PROGRAMS as u8).map(|program| Program {
            engine: Engine::new(&config, [program; 32], now),
            links: (0..NODES).map(|_| Link::default()).collect(),
            open: Vec::new(),
            locks: Vec::new(),
        });
        let mut world = Self {
            seed,
            now,
            random: StdRng::seed_from_u64(seed),
            nodes: stores.collect(),
            programs: programs.collect(),
            keys_are_lost: seed % 2 == 1,
            restarts: seed / 4 % 3 == 2,
            ttl,
            done: BTreeMap::new(),
        };
        world.settle();
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

    /// Does all that the programs want done.
    fn drain(&mut self) {
        for number in 0..PROGRAMS {
            while self.act(number) {}
        }
    }

    fn act(&mut self, number: usize) -> bool {
        let (now, program) = (self.now, &mut self.programs[number]);
        let event = match program.engine.poll(now) {
            None => return false,
            Some(Output::Connect { node }) => {
                let link = &mut program.links[node.index()];
                link.session = Some(self.nodes[node.index()].session_of(number as u64));
                link.inbox = Some(Inbox::default());
                program.engine.handle(now, Input::Connected { node });
                return true;
            }
            Some(Output::Transmit { node, bytes }) => {
                let (link, len) = (&mut program.links[node.index()], bytes.len());
                let mut rest = bytes;
                let inbox = link.inbox.as_mut().expect("connected");
                while let Some(frame) = inbox.next(&mut rest).expect("RESP") {
                    let items = frame.value.as_items().expect("a command").iter();
                    let words = items.map(|word| word.as_bytes().expect("a bulk").to_vec());
                    link.queue.push_back(words.collect());
                }
                program.engine.handle(now, Input::Transmitted { node, len });
                return true;
            }
            Some(Output::Disconnect { node }) => {
                self.end_link(number, node.index());
                return true;
            }
            Some(Output::Probe { .. } | Output::CloseProbe { .. }) => return true,
            Some(Output::Event(event)) => event,
        };
        self.told(number, event);
        true
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

    /// `node` executes the next command of a program. Returns `false` if there is none.
    fn execute(&mut self, number: usize, node: usize) -> bool {
        let link = &mut self.programs[number].links[node];
        let Some(words) = link.queue.pop_front() else {
            return false;
        };
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let session = link.session.as_mut().expect("connected");
        self.nodes[node].execute(session, self.now, &words, &mut link.answers);
        true
    }

    /// A program reads what `node` has answered.
    fn receive(&mut self, number: usize, node: usize) -> bool {
        while let Some((connection, push)) = self.nodes[node].poll_push() {
            let links = &mut self.programs[connection as usize].links;
            links[node].answers.extend(push);
        }
        let Program { engine, links, .. } = &mut self.programs[number];
        let bytes = core::mem::take(&mut links[node].answers);
        let node = id(node);
        if !bytes.is_empty() {
            let bytes = &bytes[..];
            engine.handle(self.now, Input::Received { node, bytes });
        }
        self.drain();
        !bytes.is_empty()
    }

    /// The connection is over; some of what was sent is executed yet, and no answer arrives.
    fn end_link(&mut self, number: usize, node: usize) {
        let waiting = self.programs[number].links[node].queue.len();
        for _ in 0..self.below(waiting + 1) {
            self.execute(number, node);
        }
        let link = core::mem::take(&mut self.programs[number].links[node]);
        if let Some(session) = link.session {
            self.nodes[node].disconnect(&session);
        }
    }

    fn cut(&mut self, number: usize, node: usize) {
        if self.programs[number].links[node].session.is_some() {
            self.end_link(number, node);
            let (node, reason) = (id(node), LinkFault::Reset.into());
            let engine = &mut self.programs[number].engine;
            engine.handle(self.now, Input::Disconnected { node, reason });
        }
        self.drain();
    }

    /// All nodes execute and answer everything.
    fn settle(&mut self) {
        self.drain();
        let mut busy = true;
        while busy {
            busy = false;
            for (number, node) in
                (0..PROGRAMS).flat_map(|number| (0..NODES).map(move |node| (number, node)))
            {
                while self.execute(number, node) {
                    busy = true;
                }
                busy |= self.receive(number, node);
            }
        }
    }

    fn pass(&mut self, span: Duration, settles: bool) {
        let end = self.now.saturating_add(span);
        while self.now < end {
            let engines = self.programs.iter().map(|program| &program.engine);
            let next = engines.filter_map(Engine::poll_timeout).map(|(at, _)| at);
            self.now = self.now.max(next.min().unwrap_or(end).min(end));
            for program in &mut self.programs {
                program.engine.handle(self.now, Input::Tick);
            }
            self.drain();
            if settles {
                self.settle();
            }
        }
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
                    self.programs[number].engine.cancel(self.now, round);
                    self.did("cancelled");
                }
            }
            7 if self.below(3) == 0 => self.cut(number, node),
            8 if self.keys_are_lost => self.lose_key(node),
            9 if self.restarts && self.below(10) == 0 => self.restart(node),
            9..12 => {
                let span = [100, 1_000, 10_000, 150_000][self.below(4)];
                self.pass(Duration::from_micros(span), false);
            }
            12..14 => self.settle(),
            14..17 => {
                self.execute(number, node);
            }
            _ => {
                while self.below(4) != 0 && self.execute(number, node) {}
                self.receive(number, node);
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
        let Program { engine, open, .. } = &mut self.programs[number];
        open.push(engine.acquire(self.now, &request).expect("valid"));
    }

    fn use_lock(&mut self, number: usize) {
        let held = self.programs[number].locks.len();
        if held == 0 {
            return;
        }
        let (at, other) = (self.below(held), self.below(PROGRAMS));
        let what = self.below(9);
        let (now, ttl) = (self.now, self.ttl);
        let Program { engine, locks, .. } = &mut self.programs[number];
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
                let Program { engine, locks, .. } = &mut self.programs[other];
                locks.push(engine.adopt(now, lock));
                self.did("handed over");
            }
        }
    }

    /// A node loses a key, which another client may take.
    fn lose_key(&mut self, node: usize) {
        let key = [b"a", b"b", b"c", b"d"][self.below(4)];
        self.tell(node, &[b"DEL", key]);
        if self.below(3) == 0 {
            self.tell(node, &[b"SET", key, b"of another"]);
        }
        self.did("key lost");
    }

    fn restart(&mut self, node: usize) {
        let seed = self.random.random();
        self.nodes[node].restart(seed, self.now, Memory::Lost);
        for number in 0..PROGRAMS {
            self.programs[number].links[node].queue.clear();
            self.cut(number, node);
        }
        self.did("restarted");
    }

    fn tell(&mut self, node: usize, words: &[&[u8]]) {
        let mut session = self.nodes[node].session();
        self.nodes[node].execute(&mut session, self.now, words, &mut Vec::new());
        self.nodes[node].disconnect(&session);
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
        for lock in locks.filter(|lock| lock.is_valid_at(self.now)) {
            let token = Some(lock.token().as_bytes());
            let has_all = |store: &&Store| {
                let mut of = lock.resources();
                of.all(|name| store.get(self.now, name) == token)
            };
            let copies = self.nodes.iter().filter(has_all).count();
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
        for number in 0..PROGRAMS {
            let Program {
                engine,
                open,
                locks,
                ..
            } = &mut self.programs[number];
            open.drain(..)
                .for_each(|round| engine.cancel(self.now, round));
            for lock in locks.drain(..) {
                engine.give_back(self.now, lock);
            }
        }
        self.pass(Duration::from_secs(30), true);
        for program in &self.programs {
            let load = program.engine.load();
            let (open, seed) = ((load.rounds, load.claims, load.owed), self.seed);
            assert_eq!(open, (0, 0, 0), "seed {seed}: {load:?}");
            let parts = &program.engine.parts;
            assert!(parts.queues.is_empty() && parts.places_of_several.is_empty());
        }
        for (node, store) in self.nodes.iter().enumerate() {
            for name in [b"a", b"b", b"c", b"d"] {
                let left = store.get(self.now, name);
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
