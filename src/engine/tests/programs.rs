//! Programs on the same three nodes, which run the scripts as a server does.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::net::Net;
use super::*;
use crate::config::Builder;
use crate::entry::Kind;

pub(super) const NODES: usize = 3;

/// A call of a program.
pub(super) type Call = (usize, RoundId);

/// Programs, and the result of each of their calls.
pub(super) struct Programs {
    pub(super) net: Net,
    pub(super) locks: BTreeMap<Call, Lock>,
    pub(super) refused: BTreeMap<Call, LockError>,
    /// When each lock was granted.
    pub(super) granted: BTreeMap<Call, Instant>,
    pub(super) lost: usize,
    /// The last number of each slot.
    numbers: BTreeMap<u16, u64>,
}

impl Programs {
    pub(super) fn new(programs: usize) -> Self {
        Self::with(programs, || named(NODES).watch_clocks(false))
    }

    pub(super) fn with(programs: usize, builder: impl Fn() -> Builder) -> Self {
        let mut net = Net::new(NODES as u64);
        for _ in 0..programs {
            net.client(builder());
        }
        Self {
            net,
            locks: BTreeMap::new(),
            refused: BTreeMap::new(),
            granted: BTreeMap::new(),
            lost: 0,
            numbers: BTreeMap::new(),
        }
    }

    pub(super) fn pump(&mut self) {
        self.net.pump();
        self.tell();
    }

    fn tell(&mut self) {
        for (program, client) in self.net.clients.iter_mut().enumerate() {
            for event in client.events.drain(..) {
                match event {
                    Event::Acquired { round, result } => match result {
                        Ok(lock) => {
                            // A lock that is over may be told of after the next one.
                            let number = lock.slot().zip(lock.fencing_token());
                            let number = number.filter(|_| lock.is_valid_at(self.net.now));
                            if let Some((slot, number)) = number {
                                let before = self.numbers.insert(slot, number);
                                assert!(before < Some(number), "{before:?} before {lock:?}");
                            }
                            self.locks.insert((program, round), lock);
                            self.granted.insert((program, round), self.net.now);
                        }
                        Err(error) => drop(self.refused.insert((program, round), error)),
                    },
                    Event::Expired { .. } => self.lost += 1,
                    Event::Kept { .. } | Event::Confirmed { .. } | Event::Extended { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    pub(super) fn pass(&mut self, span: Duration) {
        self.net.pass(span);
        self.tell();
    }

    pub(super) fn engine(&mut self, program: usize) -> &mut Engine {
        &mut self.net.clients[program].engine
    }

    pub(super) fn asks(&mut self, program: usize, request: &Request<'_>) -> Call {
        let now = self.net.now;
        let round = self.engine(program).acquire(now, request).expect("valid");
        self.pump();
        (program, round)
    }

    pub(super) fn calls(&mut self, program: usize, shared: bool, options: &LockOptions) -> Call {
        let request = [Request::new, Request::shared][usize::from(shared)];
        self.asks(program, &request(b"k", options))
    }

    /// Makes a program ask for the resources whose names are these letters, with these `options`.
    pub(super) fn wants_as(&mut self, program: usize, names: &str, options: &LockOptions) -> Call {
        let names: Vec<&[u8]> = names.as_bytes().chunks(1).collect();
        let request = match names[..] {
            [name] => Request::new(name, options),
            _ => Request::all(&names, options),
        };
        self.asks(program, &request)
    }

    pub(super) fn has(&self, call: Call) -> bool {
        self.locks.contains_key(&call)
    }

    /// Asserts that `call` was refused because others hold the lock.
    #[track_caller]
    pub(super) fn refusal(&mut self, call: Call) -> crate::error::Report {
        match self.refused.remove(&call).expect("it is refused") {
            LockError::Held(report) => report,
            error => panic!("{error:?}"),
        }
    }

    #[track_caller]
    pub(super) fn gives_back(&mut self, call: Call) {
        let lock = self.locks.remove(&call).expect("it is held");
        let now = self.net.now;
        self.engine(call.0).give_back(now, lock);
        self.pump();
    }

    pub(super) fn cancel(&mut self, (program, round): Call) {
        let now = self.net.now;
        self.engine(program).cancel(now, round);
        self.pump();
    }

    #[track_caller]
    pub(super) fn downgrades(&mut self, call: Call) {
        let lock = self.locks.get_mut(&call).expect("it is held");
        let begun = self.net.clients[call.0]
            .engine
            .downgrade(self.net.now, lock);
        assert_matches!(begun, Ok(_) | Err(ExtendError::Expired));
        self.pump();
    }

    /// Lets a foreign client ask for the lock for a second. Returns whether a majority has granted it.
    pub(super) fn foreign_takes(&mut self) -> bool {
        (0..NODES).for_each(|node| self.net.admin(node, "SET k f NX PX 1000"));
        let own = |node: &usize| self.net.value(*node, b"k").as_deref() == Some("f");
        NODES / 2 < (0..NODES).filter(own).count()
    }

    /// Asserts for each name that no exclusive lock is believed valid together with another lock, that readers and
    /// permits are not held together, and that no two permits have the same slot.
    pub(super) fn exclude_each_other(&self) {
        let mut by_name: BTreeMap<&[u8], Vec<&Lock>> = BTreeMap::new();
        for lock in self.locks.values() {
            for name in lock.resources().filter(|_| lock.is_valid_at(self.net.now)) {
                by_name.entry(name).or_default().push(lock);
            }
        }
        for valid in by_name.values() {
            let exclusive = |lock: &&&Lock| lock.entry().kind() == Kind::Plain;
            let writers = valid.iter().filter(exclusive).count();
            assert!(writers == 0 || valid.len() == 1, "{valid:?}");
            let slots: Vec<_> = valid.iter().filter_map(|lock| lock.slot()).collect();
            assert!(slots.is_empty() || slots.len() == valid.len(), "{valid:?}");
            let different: BTreeSet<_> = slots.iter().collect();
            assert_eq!(different.len(), slots.len(), "{slots:?}");
        }
    }

    /// Releases the held locks until no caller waits and there is no debt, and asserts that no node has a key other
    /// than counters and an intent, which ends.
    pub(super) fn serve_all(&mut self) {
        self.serve_within(8_000);
        self.pass(SECOND);
        let counters = "DEL shearline:fence:k shearline:floor";
        (0..NODES).for_each(|node| self.net.admin(node, counters));
        self.nothing_is_left();
    }

    /// Like [`serve_all`](Self::serve_all), but this takes at most a second, and nothing at all is left.
    pub(super) fn serve_in_a_second(&mut self) {
        self.serve_within(1_000);
        self.nothing_is_left();
    }

    fn serve_within(&mut self, millis: u32) {
        for _ in 0..millis {
            while let Some(call) = self.locks.keys().next().copied() {
                self.gives_back(call);
                self.exclude_each_other();
            }
            let mut loads = self.net.clients.iter().map(|client| client.engine.load());
            if loads.all(|load| load.rounds + load.claims == 0) {
                return;
            }
            self.pass(MS);
        }
        panic!("somebody waits for ever");
    }

    /// Asserts that nothing is open, and that no node has a key.
    pub(super) fn nothing_is_left(&self) {
        self.net.is_clean();
        for client in &self.net.clients {
            assert!(client.engine.work.parts.queues.is_empty());
            assert_eq!(client.engine.resting(), 0);
        }
        for node in &self.net.nodes {
            assert_eq!(node.store.keys(self.net.now), 0);
        }
        assert_eq!(crate::invariant::count(), 0);
    }

    /// Asserts that, if a caller wants something and nothing is held, some caller gets a lock within the time for which
    /// a lock is left to other programs.
    fn serves_somebody(&mut self) {
        for _ in 0..8 {
            let mut clients = self.net.clients.iter();
            if !self.locks.is_empty() || !clients.any(|one| one.engine.load().rounds != 0) {
                return;
            }
            self.pass(Duration::from_micros(250));
        }
        panic!("nobody is served");
    }

    /// The first lock becomes a shared one, a connection is cut, or a node cannot be reached or comes back.
    fn suffers(
        &mut self,
        fault: usize,
        program: usize,
        away: &mut Option<usize>,
        below: &mut dyn FnMut(usize) -> usize,
    ) {
        let is_one = |lock: &Lock| lock.slot().is_none() && lock.resources().len() == 1;
        let first = self.locks.iter().next();
        match (fault, first.filter(|(_, lock)| is_one(lock))) {
            (8, Some((&call, _))) => self.downgrades(call),
            (8, None) => {}
            (9, _) => self.net.cut_link(program, below(NODES)),
            _ => match away.take() {
                Some(node) => self.net.unreachable(node, false),
                None => self.net.unreachable(*away.insert(below(NODES)), true),
            },
        }
        self.pump();
    }

    /// Makes random calls, releases and cancels until all callers are served. `call` draws the kind of call. Unless the
    /// world is `calm`, locks become shared ones, connections are cut and nodes cannot be reached for a while.
    pub(super) fn at_random(
        mut self,
        seed: u64,
        calm: bool,
        call: impl Fn(&mut Self, usize, &LockOptions, &mut dyn FnMut(usize) -> usize) -> Call,
    ) {
        let mut random = StdRng::seed_from_u64(seed);
        let mut below = |bound: usize| random.random_range(0..bound);
        let (mut calls, mut away) = (Vec::new(), None);
        for _ in 0..200 {
            let program = below(self.net.clients.len());
            match below(if calm { 9 } else { 11 }) {
                0..4 => {
                    let options = LockOptions::new([TTL, 300 * MS][below(2)]);
                    let options = match below(6) {
                        0 => options.tries(1),
                        1 => options.wait(30 * MS),
                        2 => options.keep(),
                        _ => options.wait(3600 * SECOND),
                    };
                    calls.push(call(&mut self, program, &options, &mut below));
                }
                4..7 => {
                    let count = self.locks.len().max(1);
                    if let Some(&call) = self.locks.keys().nth(below(count)) {
                        self.gives_back(call);
                    }
                }
                7 if !calls.is_empty() => {
                    let call = calls.swap_remove(below(calls.len()));
                    if !self.has(call) {
                        self.cancel(call);
                    }
                }
                fault @ 8..11 if !calm && below(if fault == 8 { 2 } else { 4 }) == 0 => {
                    self.suffers(fault, program, &mut away, &mut below);
                }
                _ => self.pass([MS / 10, 2 * MS, 60 * MS, 400 * MS][below(4)]),
            }
            self.exclude_each_other();
            if calm {
                self.serves_somebody();
            }
        }
        if let Some(node) = away {
            self.net.unreachable(node, false);
        }
        match calm {
            true => self.serve_in_a_second(),
            false => self.serve_all(),
        }
    }
}
