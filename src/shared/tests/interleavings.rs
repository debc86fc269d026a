//! Every order of the steps of a few callers, the I/O thread and the nodes, over the real [`Roles`].
//!
//! The engine, the wire and the poll are models here. An operation goes from asked to copied out, sent, answered, read
//! and decided. A timer alone decides one kind. Some kinds rest after the first answer until a node reports a change,
//! or a timer ends the rest. Each section under the mutex is one step. So is everything between two sections: a wake-up
//! that is on its way, a waker that is called, the bytes that a thread moves. Only a timer ends a sleep, so that a lost
//! wake-up shows: when no process can take another step, every caller must have its outcome, and every drop must be
//! written. The promises of `roles` for the end of a section are checked there, because some of them cost only time
//! when they are broken.
//!
//! Each run goes through all orders of small groups of callers, and draws some orders of all others at random, so that
//! each kind of caller meets each other kind. The long run goes through all orders of all groups.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what is not named goes on, or is done by the other kind of process"
)]

mod caller;
mod io_thread;
mod process;
mod sections;

use core::hash::{BuildHasherDefault, Hash, Hasher};
use std::collections::HashSet;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::effort::effort;
use crate::shared::roles::{IoThread, MANY, Orders, Owner, Poll as PollRole, Roles, Wake as Whom};
use crate::time::Instant;

const SOON: Instant = Instant::from_millis(10);
const NEVER: Instant = Instant::MAX;

/// How many times in a row a thread moves bytes here: few, so that some bytes are left over.
const MOVES_MAX: u8 = 2;

/// From this number of woken callers on, the I/O thread gathers here, if it does.
const GATHERED: usize = 2;

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Kind {
    /// A thread that waits for an answer.
    Thread,
    /// Like `Thread`, but its time may be over at any moment.
    Impatient,
    /// A task that waits for an answer.
    Task,
    /// A task whose operation no node answers: a timer decides it.
    Timer,
    /// A thread that waits for an answer that does not come.
    Unanswered,
    /// A thread that starts a timer, and waits for nothing.
    Expiry,
    /// A thread that drops a guard, and returns when its release is written.
    Drop,
    /// A task whose operation is refused at once. It begins the next one inside its waker.
    Restless,
    /// A task whose future is dropped at some time. The drop returns when the operation is withdrawn and the release is
    /// written.
    Dropped,
    /// A task whose operation is refused, and rests until a node reports a change. Then it asks again.
    Waiter,
    /// Like `Waiter`, but a timer ends the rest.
    Sleeper,
    /// A thread that waits like `Waiter`.
    Blocked,
    /// A thread whose operation no node answers: a timer decides it.
    TimedOut,
}

/// How far an operation has come.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Op {
    None,
    Asked,
    CopiedOut,
    Sent,
    Answered,
    Read,
    /// It was refused, and asks no node. Later a node reports a change, and that is read.
    Rests,
    Told,
    Heard,
    Decided,
}

/// What a thread still has to do after a section.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Todo {
    WriteEvent,
    Call,
    /// Wake the thread that sleeps in that slot.
    Wake(usize),
}

/// The place of a process between two steps.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
enum At {
    #[default]
    Begin,
    /// It has the wire, outside of the mutex.
    Run(u8),
    HasRun(u8),
    InPoll(Instant),
    Woken(u8),
    /// It looks into its slot, and then sleeps there.
    InSlot,
    Asleep,
    Enter,
    AwaitsWaker,
    AwaitsWriting(u32),
    Done,
    // The I/O thread alone.
    Napping,
    Parked,
    Watching(Instant),
    CallsWakers {
        serving: bool,
    },
    /// It waits until the callers that it has woken have noted their requests, or until no more of them come.
    Gathers {
        serving: bool,
    },
    HasCalled,
}

#[derive(Clone, Debug, Default, Hash)]
struct Process {
    at: At,
    todo: Vec<Todo>,
    /// A thread has given up its operation, and moves bytes.
    gave_up: bool,
    // The I/O thread alone.
    lingers: bool,
    served: bool,
    /// It has called wakers since it last looked into the poll.
    has_called: bool,
}

#[derive(Clone, Debug, Default, Hash)]
struct Wiring {
    noted: u8,
    orders: u8,
    is_unread: bool,
    tick: bool,
    inbox: u8,
}

#[derive(Clone, Debug, Default, Hash)]
struct Model {
    kinds: Vec<Kind>,
    roles: Roles<(), usize>,
    ops: Vec<Op>,
    /// The operations that callers wait for.
    open: u8,
    readiness: Option<u8>,
    wire: Wiring,
    asked: u32,
    copied: u32,
    written: u32,
    /// Slots: an outcome is there, the thread was offered the poll, it was woken, the task was woken.
    outcomes: u8,
    offers: u8,
    woken: u8,
    awake: u8,
    late: u8,
    /// The tasks whose futures are dropped and whose releases are asked for.
    released: u8,
    /// The operations whose first attempt was refused.
    refused: u8,
    /// The threads to wake after this section, and the tasks.
    to_wake: Vec<usize>,
    tasks: Vec<usize>,
    /// The tasks that the I/O thread is waking now.
    calling: Vec<usize>,
    /// Whether the I/O thread gathers, or is about to. Then the free places for notes, and the operations that are
    /// noted and have not begun.
    gathers: bool,
    is_gathering: bool,
    calls_wakers: bool,
    moves_again: bool,
    places: usize,
    noted: Vec<usize>,
    /// The tasks and the threads that the relay wakes.
    relay: [Vec<usize>; 2],
    /// The event of the waker, and the answers whose events were not taken yet.
    event: bool,
    edges: u8,
    called: bool,
    /// The waker of the first woken task never returns.
    blocks: bool,
    /// The callers, followed by the I/O thread.
    processes: Vec<Process>,
}

impl Default for Roles<(), usize> {
    fn default() -> Self {
        Self::new(())
    }
}

impl Model {
    fn new(kinds: &[Kind], blocks: bool, gathers: bool) -> Self {
        let mut processes: Vec<_> = kinds.iter().map(|_| Process::default()).collect();
        processes.push(Process {
            at: At::Enter,
            ..Process::default()
        });
        Self {
            kinds: kinds.into(),
            ops: kinds.iter().map(|_| Op::None).collect(),
            gathers,
            blocks,
            processes,
            ..Self::default()
        }
    }

    fn waiting(&self) -> usize {
        self.open.count_ones() as usize - self.resting_tasks()
    }

    fn is_task(&self, op: usize) -> bool {
        matches!(
            self.kinds[op],
            Kind::Task
                | Kind::Timer
                | Kind::Restless
                | Kind::Dropped
                | Kind::Waiter
                | Kind::Sleeper
        )
    }

    /// The operation rests at some time.
    fn rests(&self, op: usize) -> bool {
        matches!(self.kinds[op], Kind::Waiter | Kind::Sleeper | Kind::Blocked)
    }

    fn is_timed(&self, op: usize) -> bool {
        matches!(self.kinds[op], Kind::Timer | Kind::Expiry | Kind::TimedOut)
    }

    fn all_tasks(&self) -> usize {
        let is_open = |op: &usize| self.open & bit(*op) != 0;
        let ops = (0..self.ops.len()).filter(is_open);
        ops.filter(|op| self.is_task(*op)).count()
    }

    fn tasks(&self) -> usize {
        self.all_tasks() - self.resting_tasks()
    }

    fn resting_tasks(&self) -> usize {
        let rests = |op: &&Op| matches!(op, Op::Rests | Op::Told | Op::Heard);
        let resting = self.ops.iter().filter(rests).count();
        resting.min(self.all_tasks())
    }

    fn due(&self) -> Instant {
        let mut due = NEVER;
        for (op, stage) in self.ops.iter().enumerate() {
            match stage {
                Op::Asked => return Instant::ZERO,
                Op::CopiedOut | Op::Sent if self.is_timed(op) => due = SOON,
                Op::Rests if self.kinds[op] == Kind::Sleeper => due = SOON,
                _ => {}
            }
        }
        due
    }
}

fn bit(op: usize) -> u8 {
    1 << op
}

/// A hash that is cheap without optimisation. (With the one of `std` this test took twice as long.) For states of a
/// hundred fields with a few values each it is good enough.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        let both = u128::from(self.0 ^ value ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        self.0 = both as u64 ^ (both >> 64) as u64;
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Walks through every reachable state, or through some of them and then along some paths to their ends. Returns the
/// number of states.
fn walk(kinds: &[Kind], blocks: bool) -> usize {
    let gatherings = [false, true].map(|gathers| {
        let start = Model::new(kinds, blocks, gathers);
        let most = effort(1_000, usize::MAX);
        let met = walk_all(start.clone(), most);
        if met == most {
            let mut random = StdRng::seed_from_u64(kinds.len() as u64);
            (0..WAYS).for_each(|_| walk_one(start.clone(), &mut random));
        }
        met
    });
    gatherings.into_iter().sum()
}

/// The number of random paths if there are too many states for each run, and the largest number of steps, because some
/// paths have no end.
const WAYS: usize = 40;
const STEPS: usize = 300;

/// Takes random possible steps until there is none.
fn walk_one(mut model: Model, random: &mut StdRng) {
    for _ in 0..STEPS {
        let mut next = model.successors();
        if next.is_empty() {
            return model.assert_all_are_served();
        }
        model = next.swap_remove(random.random_range(0..next.len()));
    }
}

/// Returns the number of states, at most `most`.
fn walk_all(start: Model, most: usize) -> usize {
    let mut met = HashSet::<u64, BuildHasherDefault<Mix>>::default();
    let mut open = alloc::vec![start];
    while met.len() != most
        && let Some(model) = open.pop()
    {
        if !met.insert(model.fingerprint()) {
            continue;
        }
        let next = model.successors();
        if next.is_empty() {
            model.assert_all_are_served();
        }
        open.extend(next);
    }
    met.len()
}

#[test]
fn every_operation_is_served_in_every_order_of_the_steps() {
    use Kind::*;
    let walk_group = |kinds: &[Kind]| assert!(10 < walk(kinds, false), "{kinds:?}");
    for kind in [
        Thread, Task, Timer, Drop, Impatient, Expiry, Dropped, Waiter, Sleeper, Blocked, TimedOut,
    ] {
        walk_group(&[kind]);
    }
    for (kind, others) in [
        (
            Thread,
            &[Thread, Task, Timer, Drop, Impatient, Expiry, Dropped][..],
        ),
        (Task, &[Timer, Drop, Expiry, Dropped]),
        (Drop, &[Drop, Expiry, Dropped]),
        (Impatient, &[Task, Drop]),
        (Unanswered, &[Thread, Task, Timer, Drop, Expiry]),
        (Restless, &[Timer, Thread]),
        (
            Waiter,
            &[
                Thread, Task, Drop, Waiter, Sleeper, Blocked, Impatient, Expiry,
            ],
        ),
        (Sleeper, &[Thread]),
        (Blocked, &[Thread, Task]),
        (
            TimedOut,
            &[TimedOut, Unanswered, Thread, Impatient, Blocked, Waiter],
        ),
    ] {
        others.iter().for_each(|other| walk_group(&[kind, *other]));
    }
    walk_group(&[Thread, Thread, Thread]);
}

/// Threads poll for themselves while a waker blocks the I/O thread.
#[test]
fn a_waker_that_blocks_leaves_no_thread_alone() {
    use Kind::{Drop, Impatient, Task, Thread, TimedOut};
    for kinds in [
        &[Thread, Task][..],
        &[Task, Drop],
        &[Impatient, Task],
        &[TimedOut, Task],
        &[Thread, Thread, Task],
    ] {
        walk(kinds, true);
    }
}
