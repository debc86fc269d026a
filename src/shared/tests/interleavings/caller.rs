//! The steps of a caller: of a thread, a task or a drop.

use super::*;

impl Model {
    /// As `await_outcome`, from the top of its loop or behind a run of the wire.
    pub(super) fn await_outcome(&mut self, op: usize, moves: Option<u8>) {
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

    pub(super) fn cancel(&mut self, op: usize) {
        self.open &= !bit(op);
        self.ops[op] = Op::Decided;
        self.asked += 1;
        self.roles.work = true;
    }

    /// As `give_up` of `serve`, if it enters.
    pub(super) fn give_up(&mut self, op: usize, moves: Option<u8>) {
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
    pub(super) fn leave_behind(&mut self, op: usize) -> bool {
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

    pub(super) fn caller(&mut self, op: usize) {
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

    pub(super) fn wake_in_slot(&mut self, op: usize, at: At) {
        self.processes[op].at = at;
        self.processes[op].has_alarm = false;
        if core::mem::take(&mut self.processes[op].unparks) {
            self.processes[op].todo.push(Todo::Unpark);
        }
    }

    pub(super) fn begin_for_task(&mut self, op: usize, moves: Option<u8>) {
        let at = self.move_bytes(moves, false).unwrap_or(At::AwaitsWaker);
        self.leave(op, at);
    }

    /// As `cancel` of `serve`: also while another thread delivers the outcome.
    pub(super) fn drop_future(&mut self, op: usize) {
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

    pub(super) fn see_written(&mut self, op: usize, moves: Option<u8>) {
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
}
