//! Random calls against the rule in one sentence: at each name that is not held, the contender is the caller that
//! came first of those that want it.

use std::collections::BTreeMap;
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
    /// A caller that wants these names comes.
    Come(Vec<usize>),
    /// A caller that asks beside the others comes, for one name, and gets its lock unless the name is held.
    Overtake(usize),
    /// One of those whose turn it is gets its lock.
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
    /// What it is while it waits in a queue, or has waited there.
    waiter: Option<WaiterKey>,
    /// What it is once it is open.
    operation: Option<OperationKey>,
}

struct World {
    queues: Queues,
    timers: Timers,
    claims: Claims,
    /// In the order in which they came.
    callers: BTreeMap<u64, Caller>,
    locks: Vec<(ClaimKey, Vec<PlaceKey>)>,
    last: u64,
}

impl World {
    fn new() -> Self {
        Self {
            queues: Queues::new(7),
            timers: Timers::new(Instant::ZERO),
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

    fn come(&mut self, names: Vec<usize>) -> u64 {
        let places = self.enter(&names);
        let operation = OperationKey(self.key());
        let (who, mut waiter, mut open) = (self.last, None, Some(operation));
        if 1 < places.len() {
            self.queues.queue_set(&places, operation);
        } else if !self.queues.contend(places[0], operation) {
            let new = Waiter::new(places[0], Instant::ZERO, None, Duration::ZERO, None, 0);
            waiter = self.queues.queue(new);
            open = None;
        }
        let caller = Caller {
            names,
            places,
            waiter,
            operation: open,
        };
        self.callers.insert(who, caller);
        self.settle(None);
        who
    }

    /// It is the turn of `next`, and of those that are the next at other places.
    fn settle(&mut self, mut next: Option<OperationKey>) {
        loop {
            if let Some(waiter) = next.and_then(OperationKey::waiter) {
                let operation = OperationKey(self.key());
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
            Step::Come(names) => drop(self.come(names)),
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

    /// Returns those whose turn it is.
    fn turns(&self) -> Vec<u64> {
        let leads = |caller: &Caller| {
            let is = |place: &PlaceKey| self.queues.contender(*place) == caller.operation;
            caller.operation.is_some() && caller.places.iter().all(is)
        };
        let callers = self.callers.iter();
        callers
            .filter(|(_, caller)| leads(caller))
            .map(|(who, _)| *who)
            .collect()
    }

    fn overtake(&mut self, name: usize) {
        let places = self.enter(&[name]);
        let operation = OperationKey(self.key());
        let turn = self.queues.contend(places[0], operation);
        if !turn && self.queues.holder(places[0]).is_some() {
            let buffers = &mut self.claims.buffers;
            let next = self.queues.leave(places[0], operation, None, buffers);
            return self.settle(next);
        }
        let claim = ClaimKey(self.key());
        self.queues.hold(places[0], operation, claim);
        self.locks.push((claim, places));
        self.settle(None);
    }

    fn grant(&mut self, who: u64) {
        let caller = self.callers.remove(&who).expect("a caller");
        let (operation, claim) = (caller.operation.expect("open"), ClaimKey(self.key()));
        match caller.places[..] {
            [place] => self.queues.hold(place, operation, claim),
            _ => self.queues.hold_set(operation, claim),
        }
        let waited = caller.waiter.into_iter();
        waited.for_each(|waiter| self.queues.waiters.forget(waiter));
        self.locks.push((claim, caller.places));
        self.settle(None);
    }

    fn release(&mut self, which: usize) {
        let (claim, places) = self.locks.remove(which % self.locks.len());
        let (now, buffers) = (Instant::ZERO, &mut self.claims.buffers);
        let next = match places[..] {
            [place] => self.queues.vacate(now, place, claim, buffers),
            _ => {
                self.queues.vacate_set(now, claim, &places, buffers);
                None
            }
        };
        self.settle(next.map(|(next, _)| next));
    }

    fn give_up(&mut self, who: u64) {
        let caller = self.callers.remove(&who).expect("a caller");
        let (place, buffers) = (caller.places[0], &mut self.claims.buffers);
        let mut next = None;
        match (caller.operation, caller.waiter) {
            (Some(operation), _) if 1 < caller.places.len() => {
                self.queues.leave_set(operation, buffers);
            }
            (Some(operation), waiter) => {
                next = self.queues.leave(place, operation, waiter, buffers);
            }
            (None, Some(waiter)) => {
                assert!(self.queues.quit(waiter, &mut self.timers, buffers));
            }
            (None, None) => panic!("{caller:?}"),
        }
        self.settle(next);
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
        let place = queues.find(queues.names.hash(NAMES[name]), NAMES[name]);
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

const A: usize = 0;
const B: usize = 1;

#[test]
fn sets_that_name_the_same_in_different_orders_have_their_turns_one_after_the_other() {
    let mut world = World::new();
    let who = [vec![A, B], vec![B, A], vec![A], vec![A, B]].map(|names| world.come(names));
    for who in who {
        assert_eq!(world.turns(), [who]);
        world.grant(who);
        assert_eq!(world.turns(), []);
        world.release(0);
    }
    world.serve();
}

#[test]
fn while_a_set_waits_for_one_of_its_names_callers_behind_it_wait_for_the_others() {
    let mut world = World::new();
    let held = world.come(vec![B]);
    world.grant(held);
    let set = world.come(vec![A, B]);
    let behind = world.come(vec![A]);
    assert_eq!(world.turns(), [], "a is free for the set");
    world.give_up(set);
    assert_eq!(world.turns(), [behind]);
    world.serve();
}

#[test]
fn a_lock_taken_beside_a_set_costs_it_no_turn() {
    let mut world = World::new();
    let set = world.come(vec![A, B]);
    let behind = world.come(vec![A]);
    world.overtake(A);
    assert_eq!(world.turns(), []);
    world.release(0);
    assert_eq!(world.turns(), [set]);
    world.give_up(set);
    assert_eq!(world.turns(), [behind]);
    world.serve();
}
