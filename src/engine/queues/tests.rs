//! Compares random calls with the rule in one sentence: the contender of each name that is not held is the caller that
//! came first, among all callers that want the name.

use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

use core::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::effort::effort;
use crate::quorum::Drift;
use crate::slab::Key;

impl Queues {
    /// Returns `true` if nothing is held or wanted.
    pub(in crate::engine) fn is_empty(&self) -> bool {
        let places = usize::from(self.idle.is_some());
        let nobody = self.waiters.is_empty() && !self.is_anyone_waiting();
        self.places.len() == places && nobody && self.names.len() == places
    }

    /// Asserts that all places together have this number of users, and that each queue has an open operation at its
    /// front. All operations that have waited are open.
    pub(in crate::engine) fn check(
        &self,
        users: usize,
        is_open: impl Fn(OperationKey) -> bool,
        holds: impl Fn(ClaimKey, PlaceKey) -> bool,
    ) {
        let (mut used, mut waiters) = (0, 0);
        for (key, place) in self.places.iter() {
            let key = PlaceKey(key);
            used += place.users as usize;
            assert_eq!(place.users == 0, self.idle == Some(key));
            assert_eq!(self.find(&place.name), Some(key));
            let leads = place.holder.is_some() || place.contender.is_some();
            assert!(leads || place.line.is_empty(), "nobody leads {place:?}");
            assert!(place.contender.is_none_or(&is_open), "{place:?}");
            let is_held = |claim| holds(claim, key);
            assert!(place.holder.is_none_or(is_held), "{place:?}");
            waiters += self.waiters.of(&place.line).len();
        }
        assert_eq!(used, users);
        let used = |place: &PlaceKey| self.places.get(place.0).is_some_and(|at| at.users != 0);
        assert!(self.waits.keys().all(used), "{:?}", self.waits.keys());
        assert!(self.turns.is_empty(), "{:?}", self.turns);
        assert!(self.waiters.sets().all(&is_open), "a set is over");
        let sets = self.waiters.sets().count();
        assert_eq!(waiters, self.waiters.waiting() + sets);
        assert!(self.waiters.all_opened().all(is_open), "it is over");
        assert!(self.reminders.len() < 1_000, "{}", self.reminders.len());
    }

    /// Asserts that the table of names refers to the claim of each lock that is kept alone. `these` are all such locks.
    pub(in crate::engine) fn check_alone<'a>(
        &self,
        all: impl Iterator<Item = (ClaimKey, &'a [u8])>,
    ) {
        let leads = |(claim, name): (ClaimKey, &[u8])| {
            let is = |at| at == Where::of(claim);
            let found = self.names.find(self.names.hash(name), is);
            assert!(found.is_some(), "nothing leads to {claim:?}");
        };
        assert_eq!(all.map(leads).count() + self.places.len(), self.names.len());
    }

    /// Returns how many places have a user.
    pub(in crate::engine) fn used_places(&self) -> usize {
        self.places.len() - usize::from(self.idle.is_some())
    }
}

const NAMES: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];

#[derive(Clone, Debug)]
enum Step {
    /// A caller arrives that wants these names.
    Come(Vec<usize>),
    /// A caller for one name arrives that asks at the same time as the others. It gets its lock unless the name is
    /// held.
    Overtake(usize),
    /// A caller whose turn it is gets its lock.
    Grant(usize),
    /// A lock is given back.
    Release(usize),
    /// A caller gives up.
    GiveUp(usize),
}

fn names() -> impl Strategy<Value = Vec<usize>> {
    let names = Just((0..NAMES.len()).collect::<Vec<_>>()).prop_shuffle();
    (names, 1..=NAMES.len()).prop_map(|(mut names, len)| {
        names.truncate(len);
        names
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => names().prop_map(Step::Come),
        2 => (0..NAMES.len()).prop_map(|name| Step::Come(vec![name])),
        1 => (0..NAMES.len()).prop_map(Step::Overtake),
        4 => any::<usize>().prop_map(Step::Grant),
        4 => any::<usize>().prop_map(Step::Release),
        1 => any::<usize>().prop_map(Step::GiveUp),
    ]
}

#[derive(Debug)]
struct Caller {
    names: Vec<usize>,
    places: Vec<PlaceKey>,
    /// For each place, the key of the caller in the queue, if it waits or has waited there.
    waiters: Vec<Option<WaiterKey>>,
    /// The key of its operation, once that is open.
    operation: Option<OperationKey>,
}

struct World {
    queues: Queues,
    claims: Claims,
    /// The callers, in the order in which they came.
    callers: BTreeMap<u64, Caller>,
    locks: Vec<(ClaimKey, Vec<PlaceKey>)>,
    last: u64,
}

impl World {
    fn new() -> Self {
        Self {
            queues: Queues::new(7),
            claims: Claims::new(7, Drift::default()),
            callers: BTreeMap::new(),
            locks: Vec::new(),
            last: 0,
        }
    }

    fn key(&mut self) -> Key {
        self.last += 1;
        Key::from_bits(self.last | 1 << 32).expect("a key")
    }

    fn enter(&mut self, names: &[usize]) -> Vec<PlaceKey> {
        let enter = |name: &usize| self.queues.enter(NAMES[*name], &mut self.claims);
        names.iter().map(enter).collect()
    }

    fn come(&mut self, names: Vec<usize>) {
        let places = self.enter(&names);
        let operation = OperationKey(self.key());
        let is_set = 1 < places.len();
        let queue = |place: &PlaceKey| {
            let new = || Waiter::new(*place, Instant::ZERO, None, Duration::ZERO, None, 0);
            match self.queues.contend(*place, operation) {
                true => None,
                false if is_set => self.queues.queue(*place, line::Caller::Set(operation)),
                false => self.queues.queue(*place, line::Caller::Waits(new())),
            }
        };
        let waiters: Vec<_> = places.iter().map(queue).collect();
        let is_open = is_set || waiters[0].is_none();
        let caller = Caller {
            names,
            places,
            waiters,
            operation: is_open.then_some(operation),
        };
        self.callers.insert(self.last, caller);
        self.settle();
    }

    /// Opens the callers whose turn it is.
    fn settle(&mut self) {
        while let Some((next, _)) = self.queues.next_turn() {
            if let Some(waiter) = next.waiter() {
                let operation = OperationKey(self.key());
                self.queues.open(waiter, operation);
                let mut callers = self.callers.values_mut();
                let caller = callers.find(|caller| caller.waiters.contains(&Some(waiter)));
                caller.expect("a caller").operation = Some(operation);
            }
        }
        self.check();
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Come(names) => self.come(names),
            Step::Overtake(name) => self.overtake(name),
            Step::Grant(which) => {
                let turns = self.turns();
                if let Some(who) = turns.get(which % turns.len().max(1)) {
                    self.grant(*who);
                }
            }
            Step::Release(which) if !self.locks.is_empty() => self.release(which),
            Step::GiveUp(which) if !self.callers.is_empty() => {
                let mut callers = self.callers.keys();
                let who = callers.nth(which % callers.len());
                self.give_up(*who.expect("a caller"));
            }
            Step::Release(_) | Step::GiveUp(_) => {}
        }
    }

    /// Returns the callers whose turn it is.
    fn turns(&self) -> Vec<u64> {
        let leads = |caller: &Caller| {
            let is = |place: &PlaceKey| self.queues.contender(*place) == caller.operation;
            caller.operation.is_some() && caller.places.iter().all(is)
        };
        let leading = self.callers.iter().filter(|(_, caller)| leads(caller));
        leading.map(|(who, _)| *who).collect()
    }

    fn overtake(&mut self, name: usize) {
        let places = self.enter(&[name]);
        let operation = OperationKey(self.key());
        let turn = self.queues.contend(places[0], operation);
        if !turn && self.queues.holder(places[0]).is_some() {
            let buffers = &mut self.claims.buffers;
            self.queues.leave(places[0], operation, None, buffers);
            return self.settle();
        }
        let claim = ClaimKey(self.key());
        self.queues.hold(places[0], operation, claim);
        self.locks.push((claim, places));
        self.settle();
    }

    fn grant(&mut self, who: u64) {
        let caller = self.callers.remove(&who).expect("a caller");
        let (operation, claim) = (caller.operation.expect("open"), ClaimKey(self.key()));
        for place in &caller.places {
            self.queues.hold(*place, operation, claim);
        }
        let waited = caller.waiters.into_iter().flatten();
        waited.for_each(|waiter| self.queues.waiters.forget(waiter));
        self.locks.push((claim, caller.places));
        self.settle();
    }

    fn release(&mut self, which: usize) {
        let (claim, places) = self.locks.remove(which % self.locks.len());
        for place in places {
            let buffers = &mut self.claims.buffers;
            self.queues.vacate(Instant::ZERO, place, claim, buffers);
        }
        self.settle();
    }

    fn give_up(&mut self, who: u64) {
        let caller = self.callers.remove(&who).expect("a caller");
        let operation = caller.operation.unwrap_or_else(|| {
            let operation = OperationKey(self.key());
            let waiter = caller.waiters[0].expect("it waits");
            self.queues.open(waiter, operation);
            operation
        });
        for (place, waiter) in caller.places.into_iter().zip(caller.waiters) {
            let buffers = &mut self.claims.buffers;
            self.queues.leave(place, operation, waiter, buffers);
        }
        self.settle();
    }

    fn check(&self) {
        let used = self.callers.values().map(|caller| caller.places.len());
        let held = self.locks.iter().map(|(_, places)| places.len());
        let is_open = |operation| {
            let mut callers = self.callers.values();
            callers.any(|caller| caller.operation == Some(operation))
        };
        let holds = |claim, place| {
            let mut locks = self.locks.iter();
            locks.any(|(lock, places)| *lock == claim && places.contains(&place))
        };
        self.queues.check(used.chain(held).sum(), is_open, holds);
        for name in 0..NAMES.len() {
            self.check_contender(name);
        }
        if self.locks.is_empty() && self.turns().is_empty() {
            assert!(self.callers.is_empty(), "no caller has a turn");
        }
    }

    fn check_contender(&self, name: usize) {
        let queues = &self.queues;
        let place = queues.find(NAMES[name]);
        let mut callers = self.callers.values();
        let first = callers.find(|caller| caller.names.contains(&name));
        let contender = place.and_then(|place| queues.contender(place));
        match place.and_then(|place| queues.holder(place)) {
            Some(_) => assert_eq!(contender, None),
            None => assert_eq!(contender, first.and_then(|first| first.operation)),
        }
    }

    /// Serves all callers, and asserts that nothing is left.
    fn serve(&mut self) {
        while !self.callers.is_empty() || !self.locks.is_empty() {
            while !self.locks.is_empty() {
                self.release(0);
            }
            for who in self.turns() {
                self.grant(who);
            }
        }
        assert!(self.queues.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(effort(60, 400)))]

    #[test]
    fn each_name_goes_to_the_caller_that_came_first(
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.serve();
    }
}
