//! Every order of the steps of a few callers, the I/O thread and the nodes, over the real [`Roles`].
//!
//! The engine, the wire and the poll are models here: an operation goes from asked to copied out, sent,
//! answered, read and decided; one kind is decided by a timer alone, and some rest after the first answer until a
//! node tells of a change, or a timer ends that. Each section under the mutex is one
//! step, and so is everything between two of them: a wake-up that is on its way, an outcome that is delivered,
//! the bytes that a thread moves. No sleep ends by itself but for a timer, so that a lost wake-up shows: when
//! no process can take another step, every caller must have its outcome, and every drop must be written.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what is not named goes on, or is done by the other kind of process"
)]

use core::hash::{BuildHasherDefault, Hash, Hasher};
use std::collections::HashSet;

use super::*;
use crate::shared::roles::{MANY, Orders, Owner, Poll as PollRole, Roles, Wake as Whom};
use crate::time::Instant;

const SOON: Instant = Instant::from_millis(10);
const NEVER: Instant = Instant::MAX;

/// How often in a row a thread moves bytes here: seldom, so that what is left over occurs.
const MOVES_MAX: u8 = 2;

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Kind {
    /// A thread that waits for an answer.
    Thread,
    /// The same, and its time may be over at any moment.
    Impatient,
    /// A task that waits for an answer.
    Task,
    /// A task whose operation no node answers: a timer decides it.
    Timer,
    /// A thread that waits for an answer that does not come.
    Unanswered,
    /// A thread that leaves a timer behind, and waits for nothing.
    Expiry,
    /// A thread that drops a guard, and returns when its release is written.
    Drop,
    /// A task whose operation is refused at once, and which begins the next one where it is woken.
    Restless,
    /// A task whose future is dropped at some time. That returns when what it asked for is taken back,
    /// and the release is written.
    Dropped,
    /// A task whose operation is refused, and rests until a node tells of a change. Then it asks again.
    Waiter,
    /// The same, and a timer tells.
    Sleeper,
    /// A thread that waits as a `Waiter` does.
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
    /// It was refused, and asks no node. Then a node has told of a change, and that was read.
    Rests,
    Told,
    Heard,
    Decided,
}

/// What a thread has still to do behind a section.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Todo {
    /// All of the three that follow, as a thread does that gives up.
    WakeAll,
    WriteEvent,
    Unpark,
    Call,
    Offer(usize),
    Deliver(usize),
    AddWaker(usize),
}

/// Where a process stands, between two steps.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum At {
    Begin,
    /// It has the wire, outside of the mutex.
    Run(u8),
    HasRun(u8),
    InPoll(Instant),
    Woken(u8),
    InSlot,
    /// Another thread is about to deliver its outcome.
    AwaitsDelivery,
    Enter,
    /// Its time is over, and it gives up what it has.
    GivesUp,
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
    Retakes,
    Delivered,
}

#[derive(Clone, Debug, Hash)]
struct Process {
    at: At,
    todo: Vec<Todo>,
    has_poll: bool,
    lingers: bool,
    served: bool,
    /// A thread that gave up moves bytes.
    gave_up: bool,
    /// The thread wakes the I/O thread when it is awake.
    unparks: bool,
    /// The thread enters again by itself when a timer is due.
    has_alarm: bool,
    /// It has done so: the timer is due.
    is_due: bool,
    /// The I/O thread has looked into the poll since it last served callers again.
    has_looked: bool,
    /// How often it has called wakers since it last did.
    unlooked: u8,
}

/// What threads have left behind that could not enter.
#[derive(Clone, Debug, Default, Hash)]
struct Left {
    ops: u8,
    wire: bool,
    slept: Option<u8>,
    has_poll: bool,
}

#[derive(Clone, Debug, Default, Hash)]
struct Wiring {
    noted: u8,
    orders: u8,
    is_unread: bool,
    tick: bool,
    inbox: u8,
}

#[derive(Clone, Debug, Hash)]
struct Model {
    kinds: Vec<Kind>,
    roles: Roles,
    ops: Vec<Op>,
    /// The operations that are waited for.
    open: u8,
    deliveries: Vec<usize>,
    readiness: Option<u8>,
    wire: Wiring,
    offered_to: Option<usize>,
    offered_now: Option<usize>,
    asked: u32,
    written: u32,
    put_back: u32,
    awaiting: u8,
    progress: (u32, u32),
    left: Option<Left>,
    /// Slots: an outcome is there, the thread was woken for the poll, the task was woken.
    outcomes: u8,
    offers: u8,
    awake: u8,
    late: u8,
    /// The tasks whose future is dropped and whose release is asked for.
    released: u8,
    /// The operations whose first attempt was refused.
    refused: u8,
    wakers: Vec<usize>,
    /// The event of the waker, and the answers of which no event was taken yet.
    event: bool,
    edges: u8,
    token: bool,
    called: bool,
    /// The waker of the first task never returns.
    blocks: bool,
    /// The callers, and behind them the I/O thread.
    processes: Vec<Process>,
}

impl Model {
    fn new(kinds: &[Kind], blocks: bool) -> Self {
        let process = |at| Process {
            at,
            todo: Vec::new(),
            has_poll: false,
            lingers: false,
            served: false,
            gave_up: false,
            unparks: false,
            has_alarm: false,
            is_due: false,
            has_looked: true,
            unlooked: 0,
        };
        let mut processes: Vec<_> = kinds.iter().map(|_| process(At::Begin)).collect();
        processes.push(process(At::Enter));
        Self {
            kinds: kinds.into(),
            roles: Roles::new(),
            ops: kinds.iter().map(|_| Op::None).collect(),
            open: 0,
            deliveries: Vec::new(),
            readiness: None,
            wire: Wiring::default(),
            offered_to: None,
            offered_now: None,
            asked: 0,
            written: 0,
            put_back: 0,
            awaiting: 0,
            progress: (0, 0),
            left: None,
            outcomes: 0,
            offers: 0,
            awake: 0,
            late: 0,
            released: 0,
            refused: 0,
            wakers: Vec::new(),
            event: false,
            edges: 0,
            token: false,
            called: false,
            blocks,
            processes,
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

    // ----- what stands in `state` and `serve` -----------------------------------------------

    fn ask(&mut self, op: usize) {
        self.ops[op] = Op::Asked;
        self.asked += 1;
        self.roles.work = true;
        if self.kinds[op] != Kind::Drop {
            self.open |= bit(op);
        }
    }

    fn exchange(&mut self) -> bool {
        self.roles.work = false;
        for op in 0..self.ops.len() {
            if self.wire.inbox & bit(op) == 0 {
                continue;
            }
            if self.ops[op] == Op::Heard {
                self.ops[op] = Op::Asked;
            } else if self.rests(op) && self.refused & bit(op) == 0 {
                self.refused |= bit(op);
                self.ops[op] = Op::Rests;
            } else {
                self.decide(op);
            }
        }
        self.wire.inbox = 0;
        if let Some(ready) = self.readiness.take() {
            self.wire.noted |= ready;
            (self.wire.is_unread, self.wire.tick) = (true, true);
            return true;
        }
        if self.wire.tick && !self.wire.is_unread {
            self.wire.tick = false;
            for op in 0..self.ops.len() {
                match (self.ops[op], self.kinds[op]) {
                    (Op::Sent, Kind::Timer | Kind::Expiry | Kind::TimedOut) => self.decide(op),
                    (Op::Rests, Kind::Sleeper) => self.ops[op] = Op::Asked,
                    _ => {}
                }
            }
        }
        for op in 0..self.ops.len() {
            if self.ops[op] != Op::Asked {
                continue;
            }
            if self.kinds[op] == Kind::Restless {
                self.decide(op);
            } else {
                self.ops[op] = Op::CopiedOut;
                self.wire.orders |= bit(op);
            }
        }
        self.wire.is_unread || self.wire.orders != 0
    }

    fn decide(&mut self, op: usize) {
        self.ops[op] = Op::Decided;
        if self.open & bit(op) != 0 {
            self.open &= !bit(op);
            self.deliveries.push(op);
        }
    }

    fn run_wire(&mut self) {
        for op in 0..self.ops.len() {
            if self.wire.orders & bit(op) != 0 {
                self.ops[op] = Op::Sent;
            }
            if self.wire.noted & bit(op) != 0 {
                self.ops[op] = match self.ops[op] {
                    Op::Answered => Op::Read,
                    Op::Told => Op::Heard,
                    _ => continue,
                };
                self.wire.inbox |= bit(op);
            }
        }
        (self.wire.orders, self.wire.noted) = (0, 0);
        self.wire.is_unread = false;
    }

    /// Goes on with moving bytes; `Some` is where to go on outside of the mutex. The thread that `serves`
    /// returns to deliver outcomes, or to look into the poll, with work left.
    fn move_bytes(&mut self, moves: Option<u8>, serves: bool) -> Option<At> {
        let has_read = self.wire.inbox != 0;
        let moves = match moves {
            Some(moves) => {
                self.written = self.asked.min(self.written.max(self.asked_before()));
                moves
            }
            None if self.roles.take_wire() => 0,
            None => return None,
        };
        if self.exchange() {
            let is_enough = serves && moves != 0 && (!has_read || !self.deliveries.is_empty());
            if moves != MOVES_MAX && !is_enough {
                return Some(At::Run(moves + 1));
            }
            self.roles.work = true;
        } else {
            self.written = self.asked;
        }
        self.roles.put_back_wire();
        self.put_back += 1;
        None
    }

    /// How much of what was asked for is sent.
    fn asked_before(&self) -> u32 {
        // What asks again was not asked for.
        let unsent = |op: &usize| {
            matches!(self.ops[*op], Op::Asked | Op::CopiedOut) && self.refused & bit(*op) == 0
        };
        self.asked - (0..self.ops.len()).filter(unsent).count() as u32
    }

    fn offer_poll(&mut self) {
        let is_thread = |op: &usize| self.open & bit(*op) != 0 && !self.is_task(*op);
        if let Some(op) = (0..self.ops.len()).rfind(is_thread) {
            self.roles.offer_poll();
            self.offered_to = Some(op);
            self.offered_now = Some(op);
        }
    }

    fn pass_on_poll(&mut self) {
        self.roles.give_back_poll();
        if self.waiting() < MANY {
            self.offer_poll();
        }
    }

    /// The end of a section of `process`, which goes on at `at`.
    fn leave(&mut self, process: usize, at: At) {
        let stands = |op: usize| self.open & bit(op) != 0;
        if self.roles.poll == PollRole::Offered && !self.offered_to.is_some_and(stands) {
            self.roles.give_back_poll();
        }
        let (waiting, due) = (self.waiting(), self.due());
        let sleeper = self.processes.iter().position(|process| process.has_poll);
        let served = !sleeper.is_some_and(stands);
        if !self.deliveries.is_empty() {
            self.roles.end_alarm();
        }
        let whom: Whom = self.roles.leave(waiting, served, || due);
        if matches!(self.roles.poll, PollRole::Asleep(Owner::Caller, _)) {
            assert!(!served, "it sleeps on with its outcome: {self:#?}");
        }
        let mut todo = Vec::new();
        if whom.descriptor {
            todo.push(Todo::WriteEvent);
        }
        if whom.watcher {
            todo.push(Todo::Call);
        }
        todo.extend(self.offered_now.take().map(Todo::Offer));
        todo.extend(self.deliveries.drain(..).map(Todo::Deliver));
        if whom.thread {
            todo.push(Todo::Unpark);
        }
        if core::mem::take(&mut self.processes[process].unparks) {
            todo.push(Todo::Unpark);
        }
        if self.awaiting != 0 {
            self.progress = (self.written, self.put_back);
        }
        self.processes[process].at = at;
        self.processes[process].todo = todo;
    }

    fn fall_asleep(&mut self, until: Instant) -> At {
        if self.roles.has_work() || until == Instant::ZERO {
            return At::InPoll(Instant::ZERO);
        }
        let wakes = match self.roles.wire_is_taken {
            true => SOON,
            false => self.due(),
        };
        let until = until.min(wakes);
        self.roles.fall_asleep(until);
        At::InPoll(until)
    }

    fn wake_up(&mut self, ready: u8) {
        self.roles.wake_up();
        *self.readiness.get_or_insert(0) |= ready;
    }

    /// The beginning of a section.
    fn take_back(&mut self) {
        let Some(left) = self.left.take() else { return };
        self.roles.end_alarm();
        for op in 0..self.ops.len() {
            if left.ops & self.open & bit(op) != 0 {
                self.cancel(op);
            }
        }
        if left.wire {
            self.roles.put_back_wire();
            self.put_back += 1;
            self.roles.work = true;
        }
        if let Some(ready) = left.slept {
            self.wake_up(ready);
        }
        if left.has_poll {
            self.pass_on_poll();
        }
    }

    // ----- the steps of a caller ------------------------------------------------------------

    /// As `await_outcome`, from the top of its loop or behind a run of the wire.
    fn await_outcome(&mut self, op: usize, moves: Option<u8>) {
        if moves.is_none() {
            let has_poll = self.processes[op].has_poll
                || self
                    .roles
                    .take_poll(self.offered_to == Some(op), self.waiting());
            self.processes[op].has_poll = has_poll;
        }
        let has_poll = self.processes[op].has_poll;
        if (moves.is_some() || has_poll || !self.roles.leaves_writing())
            && let Some(at) = self.move_bytes(moves, false)
        {
            return self.leave(op, at);
        }
        if self.open & bit(op) == 0 {
            if core::mem::take(&mut self.processes[op].has_poll) {
                self.pass_on_poll();
            }
            let own = self.deliveries.iter().position(|of| *of == op);
            if let Some(own) = own {
                self.deliveries.remove(own);
                self.outcomes |= bit(op);
            }
            let at = match self.outcomes & bit(op) != 0 {
                true => At::Done,
                false => At::AwaitsDelivery,
            };
            return self.leave(op, at);
        }
        if self.late & bit(op) != 0 {
            return self.leave(op, At::GivesUp);
        }
        let at = match has_poll {
            true => self.fall_asleep(NEVER),
            false => At::InSlot,
        };
        if at == At::InSlot {
            let due = self.due();
            let now = match core::mem::take(&mut self.processes[op].is_due) {
                true => SOON,
                false => Instant::ZERO,
            };
            let alarm = self.roles.set_alarm(|| now, || due);
            self.processes[op].has_alarm = alarm.is_some();
        }
        self.leave(op, at);
    }

    fn cancel(&mut self, op: usize) {
        self.open &= !bit(op);
        self.ops[op] = Op::Decided;
        self.asked += 1;
        self.roles.work = true;
    }

    /// As `give_up` of `serve`, if it enters.
    fn give_up(&mut self, op: usize, moves: Option<u8>) {
        self.processes[op].gave_up = true;
        if moves.is_none() {
            self.roles.end_alarm();
            if self.open & bit(op) != 0 {
                self.cancel(op);
            }
            if core::mem::take(&mut self.processes[op].has_poll) {
                self.pass_on_poll();
            }
        }
        let at = self.move_bytes(moves, false).unwrap_or(At::Done);
        self.leave(op, at);
    }

    /// The time of this thread may be over while another one is stopped with the mutex: then it does not
    /// enter, and leaves behind what it has. Returns `false` if it waits for the mutex.
    fn leave_behind(&mut self, op: usize) -> bool {
        let (this, mut left) = (
            &mut self.processes[op],
            self.left.clone().unwrap_or_default(),
        );
        if self.late & bit(op) == 0 || !this.todo.is_empty() {
            return false;
        }
        let at = match this.at {
            At::HasRun(_) => {
                left.wire = true;
                match this.gave_up {
                    true => At::Done,
                    false => At::GivesUp,
                }
            }
            At::Woken(ready) => {
                left.slept = Some(ready);
                At::GivesUp
            }
            At::GivesUp => {
                left.ops |= bit(op);
                left.has_poll |= core::mem::take(&mut this.has_poll);
                At::Done
            }
            At::Enter => {
                this.at = At::GivesUp;
                return true;
            }
            _ => return false,
        };
        this.at = at;
        this.todo = alloc::vec![Todo::WakeAll];
        self.left = Some(left);
        true
    }

    fn caller(&mut self, op: usize) {
        let at = self.processes[op].at;
        if !matches!(at, At::Run(_) | At::InPoll(_) | At::InSlot) {
            self.take_back();
        }
        match (at, self.kinds[op]) {
            (At::Run(moves), _) => {
                self.run_wire();
                self.processes[op].at = At::HasRun(moves);
            }
            (At::Begin, Kind::Expiry) => {
                self.ops[op] = Op::Sent;
                self.leave(op, At::Done);
            }
            (At::AwaitsWriting(_), _) => {
                self.awaiting -= 1;
                self.see_written(op, None);
            }
            (At::Begin, kind) => {
                self.ask(op);
                match kind {
                    Kind::Thread
                    | Kind::Impatient
                    | Kind::Unanswered
                    | Kind::Blocked
                    | Kind::TimedOut => {
                        self.await_outcome(op, None);
                    }
                    Kind::Drop | Kind::Expiry => self.see_written(op, None),
                    _ if self.roles.leaves_writing() => self.leave(op, At::AwaitsWaker),
                    _ => self.begin_for_task(op, None),
                }
            }
            (At::GivesUp, _) => self.give_up(op, None),
            (At::HasRun(moves), _) if self.processes[op].gave_up => self.give_up(op, Some(moves)),
            (
                At::HasRun(moves),
                Kind::Thread | Kind::Impatient | Kind::Unanswered | Kind::Blocked | Kind::TimedOut,
            ) => self.await_outcome(op, Some(moves)),
            (At::HasRun(moves), Kind::Dropped) if self.released & bit(op) != 0 => {
                self.see_written(op, Some(moves));
            }
            (At::AwaitsWaker, Kind::Restless) => {
                self.outcomes &= !bit(op);
                self.awake &= !bit(op);
                self.processes[op].at = At::Begin;
            }
            (At::AwaitsWaker | At::AwaitsDelivery, Kind::Dropped) => self.drop_future(op),
            (At::HasRun(moves), Kind::Drop | Kind::Expiry) => self.see_written(op, Some(moves)),
            (At::HasRun(moves), _) => self.begin_for_task(op, Some(moves)),
            (At::InPoll(_), _) => {
                let ready = core::mem::take(&mut self.edges);
                self.event = false;
                self.processes[op].at = At::Woken(ready);
            }
            (At::Woken(ready), _) => {
                self.wake_up(ready);
                self.await_outcome(op, None);
            }
            (At::InSlot, _) if self.outcomes & bit(op) != 0 => self.wake_in_slot(op, At::Done),
            (At::InSlot, _) => {
                let enters = self.offers & bit(op) != 0 || self.processes[op].has_alarm;
                self.processes[op].is_due = enters && self.offers & bit(op) == 0;
                self.offers &= !bit(op);
                self.wake_in_slot(op, if enters { At::Enter } else { At::GivesUp });
            }
            (At::Enter, _) => {
                self.roles.end_alarm();
                self.await_outcome(op, None);
            }
            _ => self.wake_in_slot(op, At::Done),
        }
    }

    fn wake_in_slot(&mut self, op: usize, at: At) {
        self.processes[op].at = at;
        self.processes[op].has_alarm = false;
        if core::mem::take(&mut self.processes[op].unparks) {
            self.processes[op].todo.push(Todo::Unpark);
        }
    }

    fn begin_for_task(&mut self, op: usize, moves: Option<u8>) {
        let at = self.move_bytes(moves, false).unwrap_or(At::AwaitsWaker);
        self.leave(op, at);
    }

    /// As `cancel` of `serve`: also while another thread delivers the outcome.
    fn drop_future(&mut self, op: usize) {
        let place = self.deliveries.iter().position(|of| *of == op);
        if let Some(place) = place {
            self.deliveries.remove(place);
        } else if self.open & bit(op) == 0 && self.outcomes & bit(op) == 0 {
            return self.leave(op, At::AwaitsDelivery);
        }
        self.open &= !bit(op);
        self.released |= bit(op);
        self.ops[op] = Op::Asked;
        self.asked += 1;
        self.roles.work = true;
        self.see_written(op, None);
    }

    fn see_written(&mut self, op: usize, moves: Option<u8>) {
        let at = self.move_bytes(moves, false).unwrap_or_else(|| {
            let is_sent = !matches!(self.ops[op], Op::Asked | Op::CopiedOut);
            match is_sent {
                true => At::Done,
                false => {
                    self.awaiting += 1;
                    At::AwaitsWriting(self.put_back)
                }
            }
        });
        self.leave(op, at);
    }

    // ----- the steps of the I/O thread ------------------------------------------------------

    fn io_thread(&mut self) {
        let me = self.ops.len();
        let at = self.processes[me].at;
        if matches!(
            at,
            At::HasRun(_) | At::Woken(_) | At::Delivered | At::Retakes | At::Enter
        ) {
            self.take_back();
        }
        match at {
            At::Run(moves) => {
                self.run_wire();
                self.processes[me].at = At::HasRun(moves);
            }
            At::HasRun(moves) => self.serve(Some(moves)),
            At::InPoll(_) => {
                let timed = !self.event && self.edges == 0;
                let ready = core::mem::take(&mut self.edges);
                self.event = false;
                self.processes[me].lingers &= !timed;
                self.processes[me].at = At::Woken(ready);
            }
            At::Woken(ready) => {
                self.processes[me].unlooked = 0;
                self.wake_up(ready);
                self.serve(None);
            }
            At::Delivered => self.serve_delivered(),
            At::CallsWakers { serving } => match self.wakers.pop() {
                Some(task) => self.awake |= bit(task),
                None if serving => self.processes[me].at = At::Retakes,
                None => self.processes[me].at = At::Enter,
            },
            At::Retakes => match self.roles.take_poll_again() {
                true if !core::mem::take(&mut self.processes[me].has_looked) => {
                    let at = self.fall_asleep(Instant::ZERO);
                    self.leave(me, at);
                }
                true => self.serve(None),
                false => self.leave(me, At::Enter),
            },
            At::Watching(_) => {
                self.called = false;
                self.processes[me].at = At::Enter;
            }
            At::Napping | At::Parked => {
                self.token = false;
                self.processes[me].at = At::Enter;
            }
            _ => self.follow_orders(),
        }
    }

    fn follow_orders(&mut self) {
        let me = self.ops.len();
        let at = match self.roles.orders(self.waiting(), true) {
            Orders::Nap => At::Napping,
            Orders::Park => At::Parked,
            Orders::WakeTasks => At::CallsWakers { serving: false },
            Orders::Serve => {
                self.processes[me].lingers = false;
                self.processes[me].has_looked = true;
                self.processes[me].served = self.waiting() != 0;
                if self.processes[me].served {
                    return self.serve(None);
                }
                self.fall_asleep(Instant::ZERO)
            }
            Orders::Close => unreachable!("there are handles"),
        };
        self.leave(me, at);
    }

    fn serve(&mut self, moves: Option<u8>) {
        let me = self.ops.len();
        if let Some(at) = self.move_bytes(moves, true) {
            return self.leave(me, at);
        }
        let is_needed = MANY <= self.waiting() || self.tasks() != 0;
        let delivers_to_task = self.deliveries.iter().any(|op| self.is_task(*op));
        self.processes[me].served |= self.waiting() != 0;
        self.processes[me].lingers |= is_needed || delivers_to_task;
        if !is_needed && !self.processes[me].lingers {
            return self.stop_serving();
        }
        match self.deliveries.is_empty() {
            true => self.serve_delivered(),
            false => self.leave(me, At::Delivered),
        }
    }

    fn serve_delivered(&mut self) {
        let me = self.ops.len();
        if self.roles.take_tasks() {
            self.roles.give_back_poll();
            self.offer_poll();
            self.processes[me].unlooked += 1;
            assert!(
                self.processes[me].unlooked <= 2,
                "nodes and timers wait for tasks without end: {self:#?}"
            );
            return self.leave(me, At::CallsWakers { serving: true });
        }
        self.processes[me].has_looked = true;
        let is_needed = MANY <= self.waiting() || self.tasks() != 0;
        let at = self.fall_asleep(if is_needed { NEVER } else { SOON });
        self.leave(me, at);
    }

    fn stop_serving(&mut self) {
        let me = self.ops.len();
        let only_rests = self.waiting() == 0 && self.resting_tasks() != 0;
        let at = if self.processes[me].served && !only_rests {
            self.roles.has_served();
            self.offer_poll();
            At::Enter
        } else {
            let until = match self.roles.wire_is_taken {
                true => SOON,
                false => self.due(),
            };
            match self.roles.watch(self.waiting(), until) {
                true => At::Watching(until),
                false => At::Enter,
            }
        };
        self.leave(me, at);
    }

    // ----- every process --------------------------------------------------------------------

    fn can_step(&self, process: usize) -> bool {
        let this = &self.processes[process];
        if !this.todo.is_empty() {
            return true;
        }
        let readable = self.event || self.edges != 0;
        let is = |set: u8| process < self.ops.len() && set & bit(process) != 0;
        match this.at {
            At::Done => false,
            At::InPoll(until) => readable || until != NEVER || is(self.late),
            At::Watching(until) => readable || until != NEVER || self.called,
            At::Parked => self.token,
            At::InSlot => is(self.outcomes) || is(self.offers) || is(self.late) || this.has_alarm,
            At::AwaitsDelivery => is(self.outcomes) || is(self.late),
            At::AwaitsWaker if self.kinds[process] == Kind::Dropped => true,
            At::AwaitsWaker => is(self.awake) && is(self.outcomes),
            At::AwaitsWriting(put_back) => {
                self.progress.1 > put_back || self.progress.0 == self.asked
            }
            At::CallsWakers { .. } => !(self.blocks && self.awake != 0),
            _ => true,
        }
    }

    fn step(&mut self, process: usize) {
        if !self.processes[process].todo.is_empty() {
            return match self.processes[process].todo.remove(0) {
                Todo::WakeAll => (self.event, self.token, self.called) = (true, true, true),
                Todo::WriteEvent => self.event = true,
                Todo::Unpark => self.token = true,
                Todo::Call => self.called = true,
                Todo::Offer(op) => self.offers |= bit(op),
                Todo::Deliver(op) => {
                    self.outcomes |= bit(op);
                    let sleeps = matches!(self.processes[op].at, At::InSlot | At::AwaitsDelivery);
                    let todo = &mut self.processes[process].todo;
                    if sleeps && todo.contains(&Todo::Unpark) {
                        todo.retain(|todo| *todo != Todo::Unpark);
                        self.processes[op].unparks = true;
                    }
                    if self.is_task(op) {
                        self.processes[process].todo.push(Todo::AddWaker(op));
                    }
                }
                Todo::AddWaker(op) => {
                    self.take_back();
                    self.wakers.push(op);
                    self.roles.tasks = true;
                    let (at, rest) = (
                        self.processes[process].at,
                        core::mem::take(&mut self.processes[process].todo),
                    );
                    self.leave(process, at);
                    self.processes[process].todo.extend(rest);
                }
            };
        }
        match process < self.ops.len() {
            true => self.caller(process),
            false => self.io_thread(),
        }
    }

    /// Everything that can happen next.
    fn successors(&self) -> Vec<Self> {
        let mut next = Vec::new();
        for process in 0..self.processes.len() {
            if self.can_step(process) {
                let mut model = self.clone();
                model.step(process);
                next.push(model);
            }
            let mut model = self.clone();
            if process < self.ops.len() && model.leave_behind(process) {
                next.push(model);
            }
        }
        for op in 0..self.ops.len() {
            let kind = self.kinds[op];
            let is_answered = match kind {
                Kind::Thread | Kind::Impatient | Kind::Task => true,
                Kind::Waiter | Kind::Sleeper | Kind::Blocked => true,
                Kind::Dropped => self.released & bit(op) == 0,
                _ => false,
            };
            let says = match self.ops[op] {
                Op::Sent if is_answered => Some(Op::Answered),
                Op::Rests if kind != Kind::Sleeper => Some(Op::Told),
                _ => None,
            };
            if let Some(says) = says {
                let mut model = self.clone();
                model.ops[op] = says;
                model.edges |= bit(op);
                next.push(model);
            }
            if kind == Kind::Impatient && self.late & bit(op) == 0 {
                let mut model = self.clone();
                model.late |= bit(op);
                next.push(model);
            }
        }
        next
    }

    fn fingerprint(&self) -> u64 {
        let mut seen = self.clone();
        // Only differences count.
        let (asked, put_back) = (seen.asked, seen.put_back);
        (seen.asked, seen.written) = (0, asked - seen.written);
        seen.progress = (asked.saturating_sub(seen.progress.0).min(1), 0);
        for process in &mut seen.processes {
            if let At::AwaitsWriting(before) = &mut process.at {
                *before = u32::from(self.progress.1 > *before) + 2 * u32::from(put_back > *before);
            }
        }
        seen.put_back = 0;
        let mut hasher = Mix::default();
        seen.hash(&mut hasher);
        hasher.finish()
    }

    fn assert_all_are_served(&self) {
        assert!(self.left.is_none(), "it is never put back: {self:#?}");
        for (op, kind) in self.kinds.iter().enumerate() {
            let served = match kind {
                Kind::Unanswered => true,
                Kind::Expiry => self.ops[op] == Op::Decided,
                Kind::Dropped => self.processes[op].at == At::Done && self.released & bit(op) != 0,
                Kind::Task | Kind::Timer if self.blocks => true,
                _ => self.processes[op].at == At::Done,
            };
            assert!(served, "{kind:?} {op} is left alone: {self:#?}");
        }
    }
}

fn bit(op: usize) -> u8 {
    1 << op
}

/// A hash that costs little where nothing is optimised. (With the one of `std` this test took twice as long,
/// for the same 3,278,471 states.) What differs in a hundred fields of a few values each does not need a better one.
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

/// Walks through every state that can be reached. Returns how many there are.
fn walk(kinds: &[Kind], blocks: bool) -> usize {
    let mut met = HashSet::<u64, BuildHasherDefault<Mix>>::default();
    let mut open = alloc::vec![Model::new(kinds, blocks)];
    while let Some(model) = open.pop() {
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
    for kinds in [
        &[Thread][..],
        &[Task],
        &[Timer],
        &[Drop],
        &[Impatient],
        &[Thread, Thread],
        &[Thread, Task],
        &[Thread, Timer],
        &[Thread, Drop],
        &[Thread, Impatient],
        &[Task, Timer],
        &[Task, Drop],
        &[Drop, Drop],
        &[Impatient, Task],
        &[Expiry],
        &[Thread, Expiry],
        &[Task, Expiry],
        &[Drop, Expiry],
        &[Unanswered, Thread],
        &[Unanswered, Task],
        &[Unanswered, Timer],
        &[Unanswered, Drop],
        &[Unanswered, Expiry],
        &[Thread, Thread, Thread],
        &[Dropped],
        &[Thread, Dropped],
        &[Task, Dropped],
        &[Drop, Dropped],
        &[Impatient, Drop],
        &[Restless, Timer],
        &[Restless, Thread],
        &[Waiter],
        &[Sleeper],
        &[Blocked],
        &[Waiter, Thread],
        &[Sleeper, Thread],
        &[Waiter, Task],
        &[Waiter, Drop],
        &[Waiter, Waiter],
        &[Waiter, Sleeper],
        &[Waiter, Blocked],
        &[Waiter, Impatient],
        &[Waiter, Expiry],
        &[Blocked, Thread],
        &[Blocked, Task],
        &[TimedOut],
        &[TimedOut, TimedOut],
        &[TimedOut, Unanswered],
        &[TimedOut, Thread],
        &[TimedOut, Impatient],
        &[TimedOut, Blocked],
        &[TimedOut, Waiter],
    ] {
        assert!(10 < walk(kinds, false), "{kinds:?}");
    }
}

/// Threads are served while the I/O thread is held up in a waker.
#[test]
fn a_waker_that_blocks_leaves_no_thread_alone() {
    use Kind::{Task, Thread};
    walk(&[Thread, Task], true);
}
