//! The steps of the I/O thread.

use super::*;

impl Model {
    pub(super) fn io_thread(&mut self) {
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

    pub(super) fn follow_orders(&mut self) {
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

    pub(super) fn serve(&mut self, moves: Option<u8>) {
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

    pub(super) fn serve_delivered(&mut self) {
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

    pub(super) fn stop_serving(&mut self) {
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
}
