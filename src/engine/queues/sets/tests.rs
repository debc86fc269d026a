//! Random calls against lists: who stands where, who passes whom, and that nobody waits for nobody.

mod stories;

use std::collections::{BTreeMap, BTreeSet};
use std::vec;
use std::vec::Vec;

use core::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::effort::effort;
use crate::engine::alarm::Timers;
use crate::engine::claims::Claims;
use crate::engine::queues::Waiter;
use crate::quorum::Drift;
use crate::slab::Key;

const NAMES: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];

#[derive(Clone, Debug)]
enum Step {
    /// One that wants these names comes.
    Come(Vec<usize>),
    /// So many come for one name, and each that has its turn at once gets its lock and gives it back.
    Pass(usize, u8),
    /// One that asks beside the others comes, for one name, and gets it.
    Overtake(usize),
    /// One of those that lead gets its lock.
    Grant(usize),
    /// One of those that lead is refused, and waits at one of its names.
    Rest(usize, usize),
    /// One of those that rest wants all its names again.
    Gather(usize),
    /// One of the sets has waited for long.
    Renew(usize),
    /// A lock is given back.
    Release(usize),
    /// One that waits gives up.
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
        1 => (0..NAMES.len(), 1..=PASSED_MAX).prop_map(|(name, times)| Step::Pass(name, times)),
        1 => (0..NAMES.len()).prop_map(Step::Overtake),
        4 => any::<usize>().prop_map(Step::Grant),
        2 => (any::<usize>(), any::<usize>()).prop_map(|(who, at)| Step::Rest(who, at)),
        2 => any::<usize>().prop_map(Step::Gather),
        2 => any::<usize>().prop_map(Step::Renew),
        4 => any::<usize>().prop_map(Step::Release),
        1 => any::<usize>().prop_map(Step::GiveUp),
    ]
}

/// Who has come, by the order in which they did.
type Who = usize;

#[derive(Debug)]
struct Caller {
    names: Vec<usize>,
    places: Vec<PlaceKey>,
    /// It waits as this, or has waited.
    waiter: Option<WaiterKey>,
    /// It is open under this.
    operation: Option<OperationKey>,
    /// How often it was passed at each of its names, since that was allowed again.
    passed: BTreeMap<usize, u32>,
    /// Where it was ever passed.
    was_passed: BTreeSet<usize>,
    /// It waits at one of its names.
    rests: bool,
}

impl Caller {
    fn is_set(&self) -> bool {
        1 < self.names.len()
    }
}

struct World {
    queues: Queues,
    timers: Timers,
    claims: Claims,
    callers: BTreeMap<Who, Caller>,
    locks: Vec<(ClaimKey, Vec<PlaceKey>)>,
    come: u64,
    now: Instant,
    /// The latest contender of each name.
    fronts: [Option<OperationKey>; NAMES.len()],
}

fn key(number: u64) -> Key {
    Key::from_bits(number | 1 << 32).expect("a key")
}

impl World {
    fn new() -> Self {
        Self {
            queues: Queues::new(7),
            timers: Timers::new(Instant::ZERO),
            claims: Claims::new(7, Drift::default()),
            callers: BTreeMap::new(),
            locks: Vec::new(),
            come: 0,
            now: Instant::ZERO,
            fronts: [None; NAMES.len()],
        }
    }

    fn number(&mut self) -> u64 {
        self.come += 1;
        self.come
    }

    fn enter(&mut self, names: &[usize]) -> Vec<PlaceKey> {
        let enter = |name: &usize| self.queues.enter(NAMES[*name], &mut self.claims);
        names.iter().map(enter).collect()
    }

    fn come(&mut self, names: Vec<usize>) -> Who {
        let who = self.number();
        let operation = OperationKey(key(who));
        let places = self.enter(&names);
        let (mut waiter, mut open) = (None, Some(operation));
        if 1 < places.len() {
            self.queues.queue_set(&places, operation);
        } else if !self.queues.contend(places[0], operation) {
            let (ttl, started) = (Duration::ZERO, Instant::ZERO);
            let new = Waiter::new(places[0], started, None, ttl, None, 0);
            waiter = self.queues.queue(new);
            open = None;
        }
        let caller = Caller {
            names,
            places,
            waiter,
            operation: open,
            passed: BTreeMap::new(),
            was_passed: BTreeSet::new(),
            rests: false,
        };
        self.callers.insert(who as Who, caller);
        self.settle(None);
        who as Who
    }

    /// Returns those whose names all, or one at least, have them as contender.
    fn lead(&self, all: bool) -> Vec<Who> {
        let leads = |caller: &Caller| {
            let mut places = caller.places.iter();
            let is = |place: &PlaceKey| {
                let contender = self.queues.contender(*place);
                contender.is_some() && contender == caller.operation
            };
            match all {
                true => places.all(is),
                false => places.any(is),
            }
        };
        let callers = self.callers.iter();
        callers
            .filter(|(_, caller)| leads(caller))
            .map(|(who, _)| *who)
            .collect()
    }

    /// It is the turn of `next`, and of those that are the next at other places.
    fn settle(&mut self, next: Option<OperationKey>) {
        let mut next = next;
        loop {
            if let Some(waiter) = next.and_then(OperationKey::waiter) {
                let operation = OperationKey(key(self.number()));
                self.queues.open(waiter, operation);
                let mut callers = self.callers.values_mut();
                let caller = callers.find(|caller| caller.waiter == Some(waiter));
                caller.expect("a caller").operation = Some(operation);
            }
            match self.queues.next_freed(Instant::ZERO) {
                Some(promoted) => next = Some(promoted.next),
                None => break,
            }
        }
        self.check();
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Come(names) => {
                self.come(names);
            }
            Step::Pass(name, times) => (0..times).for_each(|_| self.pass(name)),
            Step::Overtake(name) => self.overtake(name),
            Step::Grant(which) => {
                let leading = self.lead(true);
                if let Some(who) = leading.get(which % leading.len().max(1)) {
                    self.grant(*who);
                }
            }
            Step::Rest(which, at) => {
                let leading = self.lead(true);
                if let Some(who) = leading.get(which % leading.len().max(1)) {
                    self.rest(*who, at);
                }
            }
            Step::Gather(which) => {
                let resting: Vec<_> = self.resting();
                if let Some(who) = resting.get(which % resting.len().max(1)) {
                    self.gather(*who);
                }
            }
            Step::Renew(which) => {
                let sets = self.callers.iter().filter(|(_, caller)| caller.is_set());
                let sets: Vec<_> = sets.map(|(who, _)| *who).collect();
                if let Some(who) = sets.get(which % sets.len().max(1)) {
                    self.renew(*who);
                }
            }
            Step::Release(which) => {
                if !self.locks.is_empty() {
                    let lock = self.locks.remove(which % self.locks.len());
                    self.release(lock);
                }
            }
            Step::GiveUp(which) => {
                let callers: Vec<_> = self.callers.keys().copied().collect();
                if let Some(who) = callers.get(which % callers.len().max(1)) {
                    self.give_up(*who);
                }
            }
        }
    }

    fn resting(&self) -> Vec<Who> {
        let rest = self.callers.iter().filter(|(_, caller)| caller.rests);
        rest.map(|(who, _)| *who).collect()
    }

    fn pass(&mut self, name: usize) {
        let who = self.come(vec![name]);
        if self.lead(true).contains(&who) {
            self.grant(who);
            let lock = self.locks.pop().expect("held");
            self.release(lock);
        }
    }

    /// One that has entered the place besides takes the lock.
    fn overtake(&mut self, name: usize) {
        let held = |(_, places): &(ClaimKey, Vec<PlaceKey>), place| places.contains(&place);
        let places = self.enter(&[name]);
        let operation = OperationKey(key(self.number()));
        let turn = self.queues.contend(places[0], operation);
        if !turn && self.locks.iter().any(|lock| held(lock, places[0])) {
            let next = self
                .queues
                .leave(places[0], operation, None, &mut self.claims.buffers);
            self.settle(next);
            return;
        }
        let claim = ClaimKey(key(self.number()));
        self.queues.hold(places[0], operation, claim);
        self.locks.push((claim, places));
        self.settle(None);
    }

    fn grant(&mut self, who: Who) {
        let caller = self.callers.remove(&who).expect("a caller");
        let (operation, claim) = (
            caller.operation.expect("open"),
            ClaimKey(key(self.number())),
        );
        if caller.is_set() {
            self.queues.hold_set(operation, claim);
        } else {
            self.queues.hold(caller.places[0], operation, claim);
            caller
                .waiter
                .into_iter()
                .for_each(|waiter| self.queues.forget(waiter));
        }
        self.locks.push((claim, caller.places));
        self.settle(None);
    }

    fn rest(&mut self, who: Who, at: usize) {
        let caller = self.callers.get_mut(&who).expect("a caller");
        if caller.is_set() {
            caller.rests = true;
            let place = caller.places[at % caller.places.len()];
            self.queues.rest_at(place, caller.operation.expect("open"));
            self.settle(None);
        }
    }

    fn gather(&mut self, who: Who) {
        let caller = self.callers.get_mut(&who).expect("a caller");
        caller.rests = false;
        let operation = caller.operation.expect("open");
        let led = self.queues.gather(operation);
        assert_eq!(led, self.lead(true).contains(&who));
        self.settle(None);
    }

    /// It may be passed again where that was in vain: it waits for another program, or for a lock that did not
    /// pass it.
    fn renew(&mut self, who: Who) {
        let caller = self.callers.get_mut(&who).expect("a caller");
        let operation = caller.operation.expect("open");
        let mut held = caller.names.iter().zip(&caller.places);
        let in_vain = caller.rests
            || held.any(|(name, place)| {
                let mut locks = self.locks.iter();
                let is_held = locks.any(|(_, places)| places.contains(place));
                is_held && !caller.was_passed.contains(name)
            });
        let passed = |queues: &Queues| {
            let members = queues.sets.members(operation).iter();
            members.map(|member| member.passed).collect::<Vec<_>>()
        };
        let before = passed(&self.queues);
        for _ in 0..2 {
            self.now = self.now.saturating_add(LEFT_FREE);
            self.queues.renew(self.now, operation);
        }
        let both = before.into_iter().zip(passed(&self.queues));
        for (name, (before, after)) in caller.names.iter().zip(both) {
            if after != before {
                assert_eq!((before, after), (PASSED_MAX, 0), "{who} at {name}");
                assert!(in_vain, "{who} is passed again at {name}");
                caller.passed.insert(*name, 0);
            }
        }
        self.settle(None);
    }

    fn release(&mut self, (claim, places): (ClaimKey, Vec<PlaceKey>)) {
        let now = Instant::ZERO;
        let next = match places.len() {
            1 => {
                let next = self
                    .queues
                    .vacate(now, places[0], claim, &mut self.claims.buffers);
                next.map(|(next, _)| next)
            }
            _ => {
                let buffers = &mut self.claims.buffers;
                self.queues.vacate_set(now, claim, &places, buffers);
                None
            }
        };
        self.settle(next);
    }

    fn give_up(&mut self, who: Who) {
        let caller = self.callers.remove(&who).expect("a caller");
        let buffers = &mut self.claims.buffers;
        let next = match (caller.operation, caller.waiter) {
            (Some(operation), _) if caller.is_set() => {
                self.queues.leave_set(operation, buffers);
                None
            }
            (Some(operation), waiter) => {
                self.queues
                    .leave(caller.places[0], operation, waiter, buffers)
            }
            (None, Some(waiter)) => {
                assert!(self.queues.quit(waiter, &mut self.timers, buffers));
                None
            }
            (None, None) => panic!("{caller:?}"),
        };
        self.settle(next);
    }

    // ----- what holds at any time -----------------------------------------------------------

    fn check(&mut self) {
        let used = self.callers.values().map(|caller| caller.places.len());
        let held = self.locks.iter().map(|(_, places)| places.len());
        let users = used.chain(held).sum();
        let is_open = |operation| {
            let mut callers = self.callers.values();
            callers.any(|caller| caller.operation == Some(operation))
        };
        let holds = |claim, place| {
            let mut locks = self.locks.iter();
            locks.any(|(lock, places)| *lock == claim && places.contains(&place))
        };
        self.queues.check(users, is_open, holds);
        for name in 0..NAMES.len() {
            self.check_line(name);
        }
        if self.locks.is_empty() && self.lead(false).is_empty() {
            assert!(
                self.callers.is_empty(),
                "nobody has a turn: {:?}",
                self.callers
            );
        }
    }

    /// Those that wait for `name` stand as they came, and those that pass others are counted.
    fn check_line(&mut self, name: usize) {
        let place = self
            .queues
            .find(self.queues.names.hash(NAMES[name]), NAMES[name]);
        let front = place.and_then(|place| self.queues.contender(place));
        let line = place.and_then(|place| self.queues.places.get(place.0));
        let line = line.map_or_else(Vec::new, |at| self.queues.waiters.of(&at.line));
        let wanted = self
            .callers
            .iter()
            .filter(|(_, caller)| caller.names.contains(&name));
        let waits = |caller: &Caller| caller.is_set() || caller.operation.is_none();
        let stand: Vec<_> = wanted
            .filter(|(_, caller)| waits(caller))
            .map(|(who, _)| *who)
            .collect();
        let found: Vec<_> = line.iter().map(|record| self.who(*record)).collect();
        assert_eq!(found, stand, "in the line of {name}");
        // One that was overtaken and is the contender again passes nobody.
        if let Some(front) = front
            && self.fronts[name].replace(front) != Some(front)
        {
            self.count_passed(name, front, &stand);
        }
    }

    fn who(&self, record: WaiterKey) -> Who {
        let (set, _) = self.queues.waiters.set_of(record);
        let is = |caller: &Caller| match set {
            Some(set) => caller.operation == Some(set),
            None => caller.waiter == Some(record),
        };
        let mut callers = self.callers.iter();
        *callers.find(|(_, caller)| is(caller)).expect("a caller").0
    }

    fn count_passed(&mut self, name: usize, front: OperationKey, stand: &[Who]) {
        let mut callers = self.callers.iter();
        let leads = callers.find(|(_, caller)| caller.operation == Some(front));
        let leads = *leads.expect("a caller").0;
        for before in stand.iter().filter(|who| **who < leads) {
            let caller = self.callers.get_mut(before).expect("a caller");
            assert!(caller.is_set(), "{leads} was before {before} at {name}");
            caller.was_passed.insert(name);
            let passed = caller.passed.entry(name).or_default();
            *passed += 1;
            assert!(
                *passed <= u32::from(PASSED_MAX),
                "{before} was passed at {name}"
            );
        }
    }

    /// Serves all that are there, and asserts that nothing is left.
    fn serve(&mut self) {
        while !self.callers.is_empty() || !self.locks.is_empty() {
            while let Some(lock) = self.locks.pop() {
                self.release(lock);
            }
            for who in self.resting() {
                self.gather(who);
            }
            let leading = self.lead(true);
            assert!(
                !leading.is_empty() || self.callers.is_empty(),
                "{:?}",
                self.callers
            );
            for who in leading {
                self.grant(who);
            }
        }
        assert!(self.queues.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(effort(60, 400)))]

    #[test]
    fn sets_and_singles_wait_in_order_and_nobody_waits_for_nobody(
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.serve();
    }
}
