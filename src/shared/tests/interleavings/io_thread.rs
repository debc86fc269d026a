//! The steps of the I/O thread.

use super::*;

impl Model {
    pub(super) fn io_thread(&mut self) {
        let me = self.ops.len();
        match self.processes[me].at {
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
                self.processes[me].has_called = false;
                self.wake_up(ready);
                self.serve(None);
            }
            At::CallsWakers { serving } => match self.calling.pop() {
                Some(task) => self.awake |= bit(task),
                None if serving => self.processes[me].at = At::HasCalled,
                None => self.processes[me].at = At::Enter,
            },
            At::HasCalled => match self.roles.come_back() {
                true => self.serve(None),
                false => self.leave(me, At::Enter),
            },
            At::HasWoken => self.look(),
            At::Watching(_) | At::Napping | At::Parked => {
                self.called = false;
                self.processes[me].at = At::Enter;
            }
            _ => self.follow_orders(),
        }
    }

    fn follow_orders(&mut self) {
        let me = self.ops.len();
        let at = match self.roles.orders(self.waiting(), !self.tasks.is_empty()) {
            Orders::Nap | Orders::Park if !self.tasks.is_empty() => {
                unreachable!("it rests although tasks are to be woken: {self:#?}")
            }
            Orders::Nap => At::Napping,
            Orders::Park => At::Parked,
            Orders::WakeTasks => {
                self.go_away();
                At::CallsWakers { serving: false }
            }
            Orders::Serve => {
                self.processes[me].lingers = false;
                self.processes[me].has_called = false;
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

    fn go_away(&mut self) {
        self.calling = core::mem::take(&mut self.tasks);
        self.roles.go_away();
        if self.roles.poll == PollRole::Free {
            self.offer_poll();
        }
    }

    /// Moves bytes, and then wakes callers. After wakers it moves bytes once more.
    fn serve(&mut self, moves: Option<u8>) {
        let me = self.ops.len();
        if let Some(at) = self.move_bytes(moves, true) {
            return self.leave(me, at);
        }
        self.processes[me].served |= self.waiting() != 0;
        if self.processes[me].has_called {
            self.look();
        } else if !self.tasks.is_empty() {
            self.processes[me].has_called = true;
            self.processes[me].lingers = true;
            self.go_away();
            self.leave(me, At::CallsWakers { serving: true });
        } else if !self.to_wake.is_empty() {
            self.leave(me, At::HasWoken);
        } else {
            self.look();
        }
    }

    /// Looks into the poll, or stops serving.
    fn look(&mut self) {
        let me = self.ops.len();
        let is_needed = MANY <= self.waiting() || self.tasks() != 0;
        self.processes[me].lingers |= is_needed;
        if !self.processes[me].lingers {
            return self.stop_serving();
        }
        let at = self.fall_asleep(match (self.tasks.is_empty(), is_needed) {
            (false, _) => Instant::ZERO,
            (true, true) => NEVER,
            (true, false) => SOON,
        });
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
            let until = self.sleeps_until();
            self.roles.watch(until);
            At::Watching(until)
        };
        self.leave(me, at);
    }
}
