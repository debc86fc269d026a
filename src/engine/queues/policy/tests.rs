//! The policy in a world of its own: many programs with one caller each want the same lock again and again. Three nodes
//! answer and send notifications at random times around half of a round trip.

use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

use rand::SeedableRng;

use super::*;

const NODES: usize = 3;
const HOLD: Duration = Duration::from_millis(1);
const ROUND_TRIP: Duration = Duration::from_micros(200);

#[derive(Clone, Copy, Debug)]
enum Message {
    Set(u32),
    Delete,
    Look,
    /// The answer to the `SET` of the attempt with this number.
    Said(u32, bool),
    Left(Remaining),
    Changed,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Asked(usize, NodeId, Message),
    Told(usize, NodeId, Message),
    Due(usize),
    Release(usize),
}

struct Program {
    wait: Wait,
    rows: Rows,
    started: Instant,
    attempt: u32,
    votes: Vec<bool>,
    rests: bool,
    /// When the latest message to each node and the latest message from it arrive. No message overtakes another.
    latest: [[Instant; NODES]; 2],
}

struct World {
    now: Instant,
    events: BTreeMap<(Instant, u64), Event>,
    programs: Vec<Program>,
    /// For each node: the holder of the lock, and the programs that it notifies of a change.
    nodes: Vec<(Option<usize>, Vec<usize>)>,
    random: StdRng,
    sent: u64,
    locks: u32,
    longest: Duration,
}

impl World {
    fn new(programs: usize) -> Self {
        let program = |_| Program {
            wait: Wait::new(NODES),
            rows: Rows::new(),
            started: Instant::ZERO,
            attempt: 0,
            votes: Vec::new(),
            rests: false,
            latest: [[Instant::ZERO; NODES]; 2],
        };
        Self {
            now: Instant::ZERO,
            events: BTreeMap::new(),
            programs: (0..programs).map(program).collect(),
            nodes: vec![(None, Vec::new()); NODES],
            random: StdRng::seed_from_u64(7),
            sent: 0,
            locks: 0,
            longest: Duration::ZERO,
        }
    }

    fn at(&mut self, at: Instant, event: Event) {
        let number = self.random.random();
        self.events.insert((at, number), event);
    }

    fn ask(&mut self, who: usize, node: NodeId, message: Message) {
        self.sent += 1;
        let at = self.arrival(who, node, 0);
        self.at(at, Event::Asked(who, node, message));
    }

    fn ask_all(&mut self, who: usize, message: Message) {
        NodeId::first(NODES).for_each(|node| self.ask(who, node, message));
    }

    fn tell(&mut self, who: usize, node: NodeId, message: Message) {
        let at = self.arrival(who, node, 1);
        self.at(at, Event::Told(who, node, message));
    }

    fn arrival(&mut self, who: usize, node: NodeId, way: usize) -> Instant {
        let takes = between(&mut self.random, ROUND_TRIP / 4, ROUND_TRIP * 3 / 4);
        let latest = &mut self.programs[who].latest[way][node.index()];
        *latest = latest.saturating_add(Duration::from_nanos(1));
        *latest = (*latest).max(self.now.saturating_add(takes));
        *latest
    }

    fn run(&mut self, span: Duration) {
        (0..self.programs.len()).for_each(|who| self.attempt(who));
        while self.now < Instant::ZERO.saturating_add(span) {
            let ((now, _), event) = self.events.pop_first().expect("nobody waits for ever");
            self.now = now;
            match event {
                Event::Asked(who, node, message) => self.asked(who, node, message),
                Event::Told(who, node, message) => self.told(who, node, message),
                Event::Due(who) => self.go_on(who),
                Event::Release(who) => self.release(who),
            }
        }
    }

    fn asked(&mut self, who: usize, node: NodeId, message: Message) {
        let (holder, watch) = &mut self.nodes[node.index()];
        let before = *holder;
        let answer = match message {
            Message::Set(attempt) => {
                *holder = before.or(Some(who));
                Some(Message::Said(attempt, before.is_none()))
            }
            Message::Delete => {
                *holder = before.filter(|holder| *holder != who);
                None
            }
            Message::Look | Message::Said(..) | Message::Left(_) | Message::Changed => {
                watch.push(who);
                let left = before.map(|_| Remaining::For(Duration::from_secs(10)));
                Some(Message::Left(left.unwrap_or(Remaining::Missing)))
            }
        };
        if *holder != before {
            for who in core::mem::take(watch) {
                self.tell(who, node, Message::Changed);
            }
        }
        if let Some(answer) = answer {
            self.tell(who, node, answer);
        }
    }

    fn told(&mut self, who: usize, node: NodeId, message: Message) {
        let program = &mut self.programs[who];
        match message {
            Message::Said(attempt, yes) => {
                if attempt == program.attempt && !program.rests {
                    program.votes.push(yes);
                    self.judge(who);
                }
                return;
            }
            Message::Left(left) => program.wait.answered(self.now, node, left, true),
            Message::Changed | Message::Set(_) | Message::Delete | Message::Look => {
                program.wait.changed(self.now, node);
            }
        }
        self.go_on(who);
    }

    fn attempt(&mut self, who: usize) {
        let program = &mut self.programs[who];
        (program.rests, program.attempt) = (false, program.attempt + 1);
        program.votes.clear();
        let attempt = program.attempt;
        self.ask_all(who, Message::Set(attempt));
    }

    fn judge(&mut self, who: usize) {
        let now = self.now;
        let program = &mut self.programs[who];
        let yes = program.votes.iter().filter(|yes| **yes).count();
        if yes == 2 {
            program.rests = true; // A third answer changes nothing.
            self.locks += 1;
            // A program that has met no others keeps the lock for this long at first.
            if Instant::ZERO.saturating_add(LATELY) < program.started {
                self.longest = self.longest.max(now.saturating_since(program.started));
            }
            self.at(now.saturating_add(HOLD), Event::Release(who));
        } else if program.votes.len() - yes == 2 {
            program.rests = true;
            let outcome = |yes: &bool| [NodeOutcome::Held, NodeOutcome::Granted][usize::from(*yes)];
            let said = program.votes.iter().map(outcome);
            let said = said.chain([NodeOutcome::Pending]).take(NODES);
            let random = &mut self.random;
            let delay = now.saturating_add(between(random, HOLD * 50, HOLD * 250));
            let delays = (delay, HOLD);
            let wait = &mut program.wait;
            wait.refused(Refusal::Held, said, NodeSet::EMPTY, delays, random);
            program.rows.of(now, 1).met_others(now, true);
            self.ask_all(who, Message::Delete);
            self.look(who);
            self.go_on(who);
        }
    }

    fn release(&mut self, who: usize) {
        let now = self.now;
        self.ask_all(who, Message::Delete);
        let program = &mut self.programs[who];
        (program.wait, program.started) = (Wait::new(NODES), now);
        program.votes.clear();
        let row = program.rows.of(now, 1);
        row.released(now);
        match row.is_over(now, true) {
            true => {
                program.wait.leave_to_others(now, ROUND_TRIP);
                self.go_on(who);
            }
            false => self.attempt(who),
        }
    }

    fn look(&mut self, who: usize) {
        let wait = &mut self.programs[who].wait;
        wait.begin_to_look(self.now);
        let ask = |node: &NodeId| wait.belief.is_to_be_asked(*node);
        let asked: Vec<_> = NodeId::first(NODES).filter(ask).collect();
        asked.iter().for_each(|node| wait.belief.asked(*node));
        let delays = (HOLD * 50, HOLD * 250);
        wait.looked(self.now, ROUND_TRIP, delays, &mut self.random);
        for node in asked {
            self.ask(who, node, Message::Look);
        }
    }

    fn go_on(&mut self, who: usize) {
        let next = |world: &Self| {
            let program = &world.programs[who];
            let always = |_| Instant::ZERO;
            program.wait.next(world.now, program.started, always)
        };
        let program = &self.programs[who];
        let holds = program.votes.iter().filter(|yes| **yes).count() == 2;
        if !program.rests || holds {
            return;
        }
        if matches!(next(self), Next::Look(at) if at <= self.now) {
            self.look(who);
        }
        match next(self) {
            Next::Attempt(at) if at <= self.now => self.attempt(who),
            next @ (Next::Attempt(_) | Next::Look(_)) => self.at(next.at(), Event::Due(who)),
        }
    }
}

/// Checks the bounds of the design: the longest wait in fair shares, and the messages to a node for each lock.
#[test]
fn no_program_waits_for_long_or_asks_for_much() {
    for (programs, most_fair, most_messages) in [(4, 12, 12), (16, 12, 35)] {
        let mut world = World::new(programs as usize);
        world.run(LATELY * 2);
        let fair = LATELY * 2 * programs / world.locks;
        let longest = world.longest.as_nanos() / fair.as_nanos();
        let messages = world.sent / u64::from(world.locks) / NODES as u64;
        assert!(longest <= most_fair, "{longest} fair shares of {programs}");
        assert!(messages <= most_messages, "{messages} of {programs}");
    }
}

/// All nodes say that another client has the lock.
fn denied(wait: &mut Wait, delays: (Instant, Duration), random: &mut StdRng) {
    let said = [NodeOutcome::Held; NODES].into_iter();
    wait.refused(Refusal::Held, said, NodeSet::EMPTY, delays, random);
}

#[test]
fn a_lone_contender_asks_as_soon_as_a_majority_has_told() {
    let mut random = StdRng::seed_from_u64(1);
    let (now, mut wait) = (Instant::from_millis(1_000), Wait::new(NODES));
    let delay = now.saturating_add(OLD);
    denied(&mut wait, (delay, OLD), &mut random);
    NodeId::first(NODES).for_each(|node| wait.belief.asked(node));
    wait.looked(now, ROUND_TRIP, (OLD, OLD), &mut random);
    for node in NodeId::first(NODES) {
        let left = Remaining::For(Duration::from_secs(10));
        wait.answered(now, node, left, true);
    }
    let next = |wait: &Wait| wait.next(now, now, |_| Instant::ZERO);
    assert_matches!(next(&wait), Next::Look(at) if now.saturating_add(OLD) < at);
    wait.changed(now, NodeId::new(0));
    assert_eq!(next(&wait), Next::Look(now.saturating_add(LOOK_SOON)));
    wait.changed(now, NodeId::new(1));
    assert_eq!(next(&wait), Next::Attempt(now));
}

#[test]
fn a_row_is_short_where_others_were_met() {
    let now = Instant::from_millis(5_000);
    for (met, row, one) in [(true, ROW, Duration::ZERO), (false, ROW_AMONG_US, LATELY)] {
        for (most, for_one) in [(row, false), (one, true)] {
            let mut row = Row::default();
            if met {
                row.met_others(now, true);
            }
            row.released(now);
            let mut over = |at: Instant| row.is_over(at, for_one);
            let end = now.saturating_add(most);
            let before = end.saturating_sub(Duration::from_nanos(1));
            assert!(most.is_zero() || !over(before), "{met} {for_one}");
            assert!(over(end), "{met} {for_one}");
            assert!(!over(end), "another has begun");
        }
    }
}

/// A lock that was waited for is released long after the previous one.
#[test]
fn others_are_remembered_where_no_lock_was_released_of_late() {
    let met = Instant::from_millis(5_000);
    let released = met.saturating_add(LATELY / 2);
    let mut rows = Rows::new();
    rows.of(met, 7).met_others(met, true);
    rows.of(released, 7).released(released);
    let end = released.saturating_add(ROW);
    assert!(rows.of(end, 7).is_over(end, false));
}

#[test]
fn a_key_that_changes_all_the_time_is_asked_for_less_and_less() {
    let mut random = StdRng::seed_from_u64(7);
    let now = Instant::from_millis(1_000);
    let rests = [0, 39, 59, 2_100].map(|wasted| {
        let mut wait = Wait::new(NODES);
        for _ in 0..wasted {
            denied(&mut wait, (now, HOLD), &mut random);
        }
        wait.looked(now, ROUND_TRIP, (HOLD, HOLD), &mut random);
        NodeId::first(2).for_each(|node| wait.changed(now, node));
        wait.belief.free_at(|_| Instant::ZERO).saturating_since(now)
    });
    let most = LOOK_SOON * 10;
    assert_eq!(rests, [Duration::ZERO, Duration::ZERO, ROUND_TRIP, most]);
}
