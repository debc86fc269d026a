//! The work of a section under the mutex, as in `state` and `serve`, over models of the engine, the wire and the poll.

use super::*;

impl Model {
    pub(super) fn ask(&mut self, op: usize) {
        self.ops[op] = Op::Asked;
        self.asked += 1;
        self.roles.work = true;
        if self.kinds[op] != Kind::Drop {
            self.open |= bit(op);
        }
    }

    /// Begins the noted requests, as every section does.
    pub(super) fn begin_noted(&mut self) {
        for op in core::mem::take(&mut self.noted) {
            self.ask(op);
        }
    }

    pub(super) fn cancel(&mut self, op: usize) {
        self.open &= !bit(op);
        self.ops[op] = Op::Decided;
        self.asked += 1;
        self.roles.work = true;
    }

    pub(super) fn exchange(&mut self) -> bool {
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
        if let Some(ready) = self.readiness.take() {
            self.wire.noted |= ready;
            (self.wire.is_unread, self.wire.tick) = (true, true);
            return true;
        }
        self.copied = self.asked;
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
        let has_more = self.wire.is_unread || self.wire.orders != 0;
        if !has_more {
            self.written = self.copied;
        }
        has_more
    }

    pub(super) fn decide(&mut self, op: usize) {
        self.ops[op] = Op::Decided;
        if self.open & bit(op) == 0 {
            return;
        }
        self.open &= !bit(op);
        self.outcomes |= bit(op);
        if self.is_task(op) {
            self.tasks.push(op);
        } else if self.processes[op].at == At::Asleep {
            self.to_wake.push(op);
        }
    }

    pub(super) fn run_wire(&mut self) {
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

    /// Continues to move bytes; `Some` is the place to continue at outside of the mutex. A thread that `serves` returns
    /// to wake callers, or to look into the poll, with work left.
    pub(super) fn move_bytes(&mut self, moves: Option<u8>, serves: bool) -> Option<At> {
        let has_read = self.wire.inbox != 0;
        let moves = match moves {
            Some(moves) => {
                self.written = self.copied;
                moves
            }
            None if self.roles.wire.take().is_some() => 0,
            None => return None,
        };
        if self.exchange() {
            let has_to_wake = !self.to_wake.is_empty() || !self.tasks.is_empty();
            let is_enough = serves && moves != 0 && (!has_read || has_to_wake);
            if moves != MOVES_MAX && !is_enough {
                return Some(At::Run(moves + 1));
            }
            self.roles.work = true;
        }
        self.roles.wire = Some(());
        None
    }

    pub(super) fn offer_poll(&mut self) {
        let is_thread = |op: &usize| self.open & bit(*op) != 0 && !self.is_task(*op);
        if let Some(op) = (0..self.ops.len()).rfind(is_thread) {
            self.roles.poll = PollRole::Offered(op);
            self.offers |= bit(op);
            self.to_wake.push(op);
        }
    }

    pub(super) fn pass_on_poll(&mut self) {
        self.roles.give_back_poll();
        if self.roles.leaves_poll(self.waiting()) {
            self.offer_poll();
        }
    }

    /// Ends a section of `process`, which continues at `at`.
    pub(super) fn leave(&mut self, process: usize, at: At) {
        let open = self.open;
        let stands = |op: usize| open & bit(op) != 0;
        if let PollRole::Offered(op) = self.roles.poll
            && !stands(op)
        {
            self.pass_on_poll();
        }
        let (waiting, due, tasks) = (self.waiting(), self.due(), !self.tasks.is_empty());
        let whom: Whom = self.roles.leave(waiting, stands, tasks, || due);
        let unheard = self.unheard();
        assert!(unheard.is_none(), "{unheard:?}: {self:#?}");
        let mut todo = Vec::new();
        if whom.sleeper {
            todo.push(Todo::WriteEvent);
        }
        if whom.io_thread {
            todo.push(Todo::Call);
        }
        todo.extend(self.to_wake.drain(..).map(Todo::Wake));
        self.processes[process].at = at;
        self.processes[process].todo = todo;
    }

    /// Returns the promise that is broken, among those that the module doc of `roles` makes for the end of a section.
    fn unheard(&self) -> Option<&'static str> {
        let (roles, due) = (&self.roles, self.due());
        let (is_free, rests) = (
            roles.poll == PollRole::Free,
            !matches!(roles.io_thread, IoThread::Busy | IoThread::Away),
        );
        let asleep = match roles.poll {
            PollRole::Asleep(owner, until) => Some((owner, until)),
            _ => None,
        };
        let wakes = match roles.io_thread {
            IoThread::Watching(until) if is_free => Some(until),
            _ => asleep.map(|(_, until)| until),
        };
        let has_work = roles.work && roles.wire.is_some(); // Computed here, because `roles` is under test.
        let has_outcome =
            |(owner, _)| matches!(owner, Owner::Caller(op) if self.open & bit(op) == 0);
        let cases = [
            ("work", has_work && (asleep.is_some() || is_free && rests)),
            ("an operation", self.waiting() != 0 && is_free && rests),
            (
                "a timer",
                roles.wire.is_some() && wakes.is_some_and(|until| due < until),
            ),
            ("an outcome", asleep.is_some_and(has_outcome)),
            (
                "a task",
                !self.tasks.is_empty()
                    && (rests || asleep.is_some_and(|(owner, _)| owner == Owner::IoThread)),
            ),
        ];
        cases
            .into_iter()
            .find(|(_, is_unheard)| *is_unheard)
            .map(|(what, _)| what)
    }

    pub(super) fn fall_asleep(&mut self, until: Instant) -> At {
        let until = until.min(self.sleeps_until());
        if until != Instant::ZERO {
            self.roles.fall_asleep(until);
        }
        At::InPoll(until)
    }

    pub(super) fn sleeps_until(&self) -> Instant {
        match self.roles.wire {
            None => SOON,
            Some(()) if self.roles.work => Instant::ZERO,
            Some(()) => self.due(),
        }
    }

    pub(super) fn wake_up(&mut self, ready: u8) {
        self.roles.wake_up();
        *self.readiness.get_or_insert(0) |= ready;
    }
}
