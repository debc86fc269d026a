//! The steps of a caller: of a thread, a task or a drop.

use super::*;

impl Model {
    /// Like `await_outcome`, from the top of its loop or after a run of the wire.
    pub(super) fn await_outcome(&mut self, op: usize, moves: Option<u8>) {
        self.begin_noted();
        let has_poll = match moves {
            None => self.roles.take_poll(op, self.waiting()),
            Some(_) => self.roles.poll == PollRole::Awake(Owner::Caller(op)),
        };
        if (moves.is_some() || has_poll || !self.roles.serving)
            && let Some(at) = self.move_bytes(moves, false)
        {
            return self.leave(op, at);
        }
        let is_open = self.open & bit(op) != 0;
        if is_open && self.late & bit(op) == 0 {
            let at = match has_poll {
                true => self.fall_asleep(NEVER),
                false => At::InSlot,
            };
            return self.leave(op, at);
        }
        if is_open {
            self.cancel(op);
        }
        if has_poll {
            self.pass_on_poll();
        }
        match is_open {
            true => self.give_up(op, None),
            false => self.leave(op, At::Done),
        }
    }

    fn give_up(&mut self, op: usize, moves: Option<u8>) {
        self.processes[op].gave_up = true;
        let at = self.move_bytes(moves, false).unwrap_or(At::Done);
        self.leave(op, at);
    }

    pub(super) fn caller(&mut self, op: usize) {
        match (self.processes[op].at, self.kinds[op]) {
            (At::Run(moves), _) => {
                self.run_wire();
                self.processes[op].at = At::HasRun(moves);
            }
            (At::Begin, kind) => self.begin(op, kind),
            (At::HasRun(moves), Kind::Drop) => self.see_written(op, self.asked, Some(moves)),
            (At::HasRun(moves), Kind::Dropped) if self.released & bit(op) != 0 => {
                self.see_written(op, self.asked, Some(moves));
            }
            (At::HasRun(moves), _) if self.is_task(op) => self.begin_for_task(op, Some(moves)),
            (At::HasRun(moves), _) if self.processes[op].gave_up => self.give_up(op, Some(moves)),
            (At::HasRun(moves), _) => self.await_outcome(op, Some(moves)),
            (At::AwaitsWriting(asked), _) => self.see_written(op, asked, None),
            (At::AwaitsWaker, Kind::Restless) => {
                self.wake_relayed_tasks();
                self.outcomes &= !bit(op);
                self.awake &= !bit(op);
                self.processes[op].at = At::Begin;
            }
            (At::AwaitsWaker, Kind::Dropped) => self.drop_future(op),
            (At::AwaitsWaker, _) => {
                self.wake_relayed_tasks();
                self.processes[op].at = At::Done;
            }
            (At::InPoll(_), _) => {
                let ready = core::mem::take(&mut self.edges);
                self.event = false;
                self.processes[op].at = At::Woken(ready);
            }
            (At::Woken(ready), _) => {
                self.wake_up(ready);
                self.await_outcome(op, None);
            }
            (At::InSlot, _) => {
                let enters = (self.offers | self.late) & bit(op) != 0;
                self.offers &= !bit(op);
                self.processes[op].at = match self.outcomes & bit(op) != 0 {
                    true => {
                        self.wake_relayed_thread(op);
                        At::Done
                    }
                    false if enters => At::Enter,
                    false => At::Asleep,
                };
            }
            (At::Asleep, _) => {
                self.woken &= !bit(op);
                self.processes[op].at = At::InSlot;
            }
            _ => self.await_outcome(op, None),
        }
    }

    /// Notes the request of the caller, or begins it.
    fn begin(&mut self, op: usize, kind: Kind) {
        if self.may_note(op) {
            self.places -= 1;
            self.noted.push(op);
            self.processes[op].at = match self.is_task(op) {
                true => At::AwaitsWaker,
                false => At::InSlot,
            };
            return;
        }
        self.begin_noted();
        if kind == Kind::Expiry {
            self.ops[op] = Op::Sent;
            return self.leave(op, At::Done);
        }
        self.ask(op);
        match kind {
            Kind::Drop => self.see_written(op, self.asked, None),
            _ if !self.is_task(op) => self.await_outcome(op, None),
            _ if self.roles.serving => self.leave(op, At::AwaitsWaker),
            _ => self.begin_for_task(op, None),
        }
    }

    /// Returns `true` if there is a place for the request of the caller. While wakers are called, threads take no
    /// place.
    fn may_note(&self, op: usize) -> bool {
        let takes = self.is_task(op) || !self.calls_wakers;
        takes && self.places != 0 && !matches!(self.kinds[op], Kind::Expiry | Kind::Drop)
    }

    /// A polled task wakes the other tasks.
    pub(super) fn wake_relayed_tasks(&mut self) {
        for task in core::mem::take(&mut self.relay[0]) {
            self.awake |= bit(task);
        }
    }

    /// A woken thread wakes another one.
    pub(super) fn wake_relayed_thread(&mut self, process: usize) {
        let next = self.relay[1].pop();
        self.processes[process].todo.extend(next.map(Todo::Wake));
    }

    fn begin_for_task(&mut self, op: usize, moves: Option<u8>) {
        self.begin_noted();
        let at = self.move_bytes(moves, false).unwrap_or(At::AwaitsWaker);
        self.leave(op, at);
    }

    /// Like `cancel` of `serve`, even if the outcome is there.
    fn drop_future(&mut self, op: usize) {
        self.begin_noted();
        self.open &= !bit(op);
        self.outcomes &= !bit(op);
        self.released |= bit(op);
        self.ops[op] = Op::Asked;
        self.asked += 1;
        self.roles.work = true;
        self.see_written(op, self.asked, None);
    }

    /// Waits until the requests up to `asked` are written. Other callers may have asked since then.
    fn see_written(&mut self, op: usize, asked: u32, moves: Option<u8>) {
        self.begin_noted();
        let at = match self.move_bytes(moves, false) {
            Some(at) => at,
            None if self.written < asked => At::AwaitsWriting(asked),
            None => {
                let is_sent = !matches!(self.ops[op], Op::Asked | Op::CopiedOut);
                assert!(is_sent, "it returns too early: {self:#?}");
                At::Done
            }
        };
        self.leave(op, at);
    }
}
