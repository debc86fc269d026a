//! The table of all states and events, and a walk through everything that can happen to one node, its connection and a
//! claim. The walk shows that the table is complete, and that no copy is forgotten.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

use super::*;

const STATES: [Copy; 14] = [
    Absent,
    Sent,
    Lost,
    Stands,
    Resent,
    ResentLost,
    StandsLost,
    Releasing,
    ReleasingSent,
    ReleasingLost,
    Owed,
    OwedSent,
    OwedResent,
    OwedLost,
];

const EVENTS: [Event; 9] = [
    Event::Sent,
    Event::NotRun,
    Event::Lost,
    Event::Granted,
    Event::Has,
    Event::Asked,
    Event::Owed,
    Event::Freed,
    Event::HandedOver,
];

/// The new state for each event in each state. An event that is neither in this table nor ignored cannot happen.
const TABLE: &str = "\
Absent: Sent->Sent Has->Stands
    ignored:
Sent: NotRun->Absent Lost->Lost Granted->Stands Has->Resent Asked->ReleasingSent Owed->OwedSent
    ignored:
Lost: Sent->ResentLost Has->Stands Asked->ReleasingLost Owed->OwedLost
    ignored:
Stands: Sent->Resent Asked->Releasing Owed->Owed HandedOver->Absent
    ignored: Has
Resent: NotRun->Stands Lost->StandsLost Granted->Stands Asked->ReleasingSent Owed->OwedResent
    ignored: Has
ResentLost: NotRun->StandsLost Lost->StandsLost Granted->StandsLost Has->StandsLost Asked->ReleasingLost Owed->OwedLost
    ignored:
StandsLost: Sent->ResentLost Asked->ReleasingLost Owed->OwedLost HandedOver->Absent
    ignored: NotRun Lost Granted Has
Releasing: Owed->Owed Freed->Absent
    ignored: Has
ReleasingSent: NotRun->Releasing Lost->ReleasingLost Granted->Releasing Owed->OwedResent Freed->Absent
    ignored: Has
ReleasingLost: Owed->OwedLost Freed->Absent
    ignored: NotRun Lost Granted Has
Owed: Asked->Releasing Freed->Absent
    ignored: Has
OwedSent: NotRun->Absent Lost->OwedLost Granted->Owed Asked->ReleasingSent
    ignored: Has
OwedResent: NotRun->Owed Lost->OwedLost Granted->Owed Asked->ReleasingSent
    ignored: Has
OwedLost: Asked->ReleasingLost
    ignored: NotRun Lost Granted Has
";

/// Returns the line of the table about `state`.
fn row(state: Copy) -> String {
    let (mut changes, mut ignored) = (String::new(), String::new());
    for event in EVENTS {
        match state.after(event) {
            Some(after) if after == state => write!(ignored, " {event:?}"),
            Some(after) => write!(changes, " {event:?}->{after:?}"),
            None => Ok(()),
        }
        .unwrap();
    }
    format!("{state:?}:{changes}\n    ignored:{ignored}\n")
}

#[test]
fn every_event_has_its_effect_on_every_state() {
    let table: String = STATES.into_iter().map(row).collect();
    assert_eq!(table, TABLE, "{table}");
}

/// A command that a claim has put into its connection.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Command {
    Set,
    Question,
    Release,
}

#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
enum Key {
    #[default]
    None,
    Ours,
    Another,
}

/// One node, the connection to it, and the knowledge of a claim about it.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
struct World {
    /// The number of the state. It is zero at first: no copy.
    copy: u8,
    /// The claim is being released.
    leaving: bool,
    /// The lock was handed over, so its key is not ours.
    handed_over: bool,
    /// The unanswered commands; the first `sent` of them have left.
    queue: Vec<Command>,
    sent: usize,
    key: Key,
    /// `SET`s of lost connections that the server may still run.
    late: u8,
    /// One of these has run after the release was answered, which no release can prevent.
    stray: bool,
    /// The node's latest answer says that it has the key.
    has_it: bool,
}

/// The worlds that were found, and the transitions that led to them.
#[derive(Default)]
struct Walk {
    seen: BTreeSet<World>,
    todo: VecDeque<World>,
    /// The pairs of state and event that occur and change something.
    changes: BTreeSet<(u8, usize)>,
}

impl World {
    fn copy(&self) -> Copy {
        STATES[usize::from(self.copy)]
    }

    fn has(&self, command: Command) -> bool {
        self.queue.contains(&command)
    }

    /// Withdraws the last `SET`, if no part of it has left.
    fn withdraw(&mut self, walk: &mut Walk) {
        let last = self.queue.iter().rposition(|one| *one == Command::Set);
        if let Some(at) = last.filter(|at| self.sent <= *at && self.copy().is_open()) {
            self.queue.remove(at);
            self.apply(Event::NotRun, walk);
        }
    }

    fn apply(&mut self, event: Event, walk: &mut Walk) {
        let before = self.copy();
        if self.leaving && !before.may_hold() {
            return; // The claim does the same.
        }
        let after = before.after(event);
        let after = after.unwrap_or_else(|| panic!("{before:?} and {event:?}: {self:?}"));
        if after != before {
            walk.changes.insert((before as u8, event as usize));
        }
        self.copy = after as u8;
    }

    fn run_set(&mut self) -> Event {
        match self.key {
            Key::None => {
                self.key = Key::Ours;
                Event::Granted
            }
            Key::Ours | Key::Another => Event::NotRun,
        }
    }

    /// Checks the invariants.
    fn check(&self) {
        let (copy, set) = (self.copy(), self.has(Command::Set));
        let is_over = self.leaving && copy == Absent;
        let may_run = copy.may_run() || is_over;
        assert!(may_run || !set, "a `SET` is open: {self:?}");
        assert!(may_run || self.late == 0, "one may run: {self:?}");
        assert!(!copy.is_open() || set, "none is open: {self:?}");
        let is_releasing = matches!(copy, Releasing | ReleasingSent | ReleasingLost);
        assert!(!is_releasing || self.has(Command::Release), "{self:?}");
        if self.leaving {
            let is_left = copy.is_owed() || is_releasing;
            assert!(is_left || !copy.may_hold(), "nobody releases it: {self:?}");
            let ours = self.key == Key::Ours && !self.handed_over && !self.stray;
            assert!(is_left || !ours, "a key is forgotten: {self:?}");
        }
    }
}

impl Walk {
    fn found(&mut self, world: World) {
        world.check();
        if world.queue.len() <= 4 && world.late <= 2 && self.seen.insert(world.clone()) {
            self.todo.push_back(world);
        }
    }

    /// Continues from `world` with `step`.
    fn step(&mut self, world: &World, step: impl FnOnce(&mut World, &mut Self)) {
        let mut next = world.clone();
        step(&mut next, self);
        self.found(next);
    }

    /// Takes every step that the claim may take.
    fn claim(&mut self, world: &World) {
        let copy = world.copy();
        if !world.leaving && !copy.is_open() && !world.has_it {
            self.step(world, |world, walk| {
                world.queue.push(Command::Set);
                world.apply(Event::Sent, walk);
            });
        }
        let is_question = |one: &&Command| **one == Command::Question;
        let questions = world.queue.iter().filter(is_question).count();
        if !world.leaving && questions < 2 {
            self.step(world, |world, _| world.queue.push(Command::Question));
        }
        if !world.leaving {
            for (handed_over, owed) in [(false, false), (false, true), (true, false), (true, true)]
            {
                self.step(world, |world, walk| world.leave(handed_over, owed, walk));
            }
            self.step(world, World::withdraw);
        }
        if copy.is_owed() && !world.has(Command::Release) {
            self.step(world, |world, walk| {
                world.queue.push(Command::Release);
                world.apply(Event::Asked, walk);
            });
        }
        if copy == Owed {
            self.step(world, |world, walk| {
                world.expire();
                world.apply(Event::Freed, walk);
            });
        }
    }

    /// Takes every step that the server, the network and other clients may take.
    fn server(&mut self, world: &World) {
        if world.sent < world.queue.len() {
            self.step(world, |world, _| world.sent += 1);
        }
        if 0 < world.sent {
            self.answer(world);
        }
        for runs in [false, true] {
            self.step(world, |world, walk| world.cut(runs, walk));
        }
        if 0 < world.late {
            self.step(world, |world, _| {
                world.late -= 1;
                let ran = world.run_set() == Event::Granted;
                world.stray |= ran && world.leaving && world.copy() == Absent;
            });
        }
        match world.key {
            Key::None => self.step(world, |world, _| world.key = Key::Another),
            Key::Another | Key::Ours => self.step(world, |world, _| world.key = Key::None),
        }
        let copy = world.copy();
        if world.key == Key::None && copy == Stands && !world.leaving {
            self.step(world, |world, _| world.key = Key::Ours); // The data of the server is restored.
        }
    }

    /// Runs the first command, and answers it in every possible way.
    fn answer(&mut self, world: &World) {
        let mut world = world.clone();
        let first = world.queue.remove(0);
        world.sent -= 1;
        match first {
            Command::Set => {
                self.step(&world, |world, walk| {
                    let event = world.run_set();
                    world.has_it |= event == Event::Granted;
                    world.apply(event, walk);
                });
                for runs in [false, true] {
                    self.step(&world, |world, walk| {
                        let _ = runs && world.run_set() == Event::Granted;
                        world.apply(Event::Lost, walk); // An error that does not say whether the `SET` was run.
                    });
                }
            }
            Command::Question => self.step(&world, |world, walk| match world.key {
                Key::Ours => {
                    world.has_it = true;
                    world.apply(Event::Has, walk);
                }
                Key::None | Key::Another => world.has_it = false,
            }),
            Command::Release => {
                // The release was refused, or it has only read the key of another client while a `SET` may still run.
                self.step(&world, |world, walk| world.apply(Event::Owed, walk));
                self.step(&world, |world, walk| {
                    world.expire();
                    world.apply(Event::Freed, walk);
                });
            }
        }
    }
}

impl World {
    /// The claim is released or handed over. Its release becomes a debt at once if it is `owed`.
    fn leave(&mut self, handed_over: bool, owed: bool, walk: &mut Walk) {
        self.leaving = true;
        let copy = self.copy();
        let standing = copy == Stands || copy == StandsLost && self.has_it;
        if handed_over && standing {
            let queued = self.queue.split_off(self.sent).into_iter();
            let others = queued.filter(|one| *one != Command::Set);
            self.queue.extend(others);
            self.apply(Event::HandedOver, walk);
            self.handed_over = true;
        }
        self.withdraw(walk);
        if self.copy().may_hold() && owed {
            self.apply(Event::Owed, walk);
        } else if self.copy().may_hold() {
            self.queue.push(Command::Release);
            self.apply(Event::Asked, walk);
        }
    }

    /// The connection ends. Commands that have left may have run, or may run late.
    fn cut(&mut self, runs: bool, walk: &mut Walk) {
        let sent = core::mem::take(&mut self.sent);
        for (at, command) in core::mem::take(&mut self.queue).into_iter().enumerate() {
            match command {
                Command::Set if at < sent => {
                    match runs {
                        true => _ = self.run_set(),
                        false => self.late += 1,
                    }
                    self.apply(Event::Lost, walk);
                }
                Command::Set => self.apply(Event::NotRun, walk),
                Command::Release => self.apply(Event::Owed, walk),
                Command::Question => {}
            }
        }
    }

    fn expire(&mut self) {
        if self.key == Key::Ours {
            self.key = Key::None;
        }
    }
}

/// State changes that cannot happen on a node whose replies are true and in order.
const BY_LIARS_ALONE: [(Copy, Event); 4] = [
    (Absent, Event::Has),
    (Sent, Event::Has),
    (ReleasingSent, Event::Owed),
    (ReleasingSent, Event::Freed),
];

#[test]
fn no_copy_is_forgotten_whatever_happens() {
    let mut walk = Walk::default();
    walk.found(World::default());
    while let Some(world) = walk.todo.pop_front() {
        walk.claim(&world);
        walk.server(&world);
    }
    let reached: BTreeSet<u8> = walk.seen.iter().map(|world| world.copy).collect();
    assert_eq!(reached.len(), STATES.len());
    let pairs = STATES.map(|state| EVENTS.map(|event| (state, event)));
    let is_unused = |(state, event): &(Copy, Event)| {
        let changes = state.after(*event).is_some_and(|after| after != *state);
        changes && !walk.changes.contains(&(*state as u8, *event as usize))
    };
    let unused: Vec<_> = pairs.into_iter().flatten().filter(is_unused).collect();
    assert_eq!(unused, BY_LIARS_ALONE);
}
