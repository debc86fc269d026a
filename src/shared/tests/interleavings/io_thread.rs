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
                None if self.is_gathering => {
                    self.wake_relayed_thread(me);
                    self.wake_relayed_thread(me);
                    self.processes[me].at = At::Gathers { serving };
                }
                None => self.has_woken(serving),
            },
            At::Gathers { .. } if self.relay != [const { Vec::<usize>::new() }; 2] => {
                self.wake_relayed_tasks();
                while !self.relay[1].is_empty() {
                    self.wake_relayed_thread(me);
                }
            }
            At::Gathers { serving } => {
                (self.is_gathering, self.places) = (false, 0);
                self.has_woken(serving);
            }
            At::HasCalled => {
                self.begin_noted();
                match self.roles.come_back() {
                    true if self.moves_again => self.serve(None),
                    true => self.look(),
                    false => self.leave(me, At::Enter),
                }
            }
            At::Watching(_) | At::Napping | At::Parked => {
                self.called = false;
                self.processes[me].at = At::Enter;
            }
            _ => self.follow_orders(),
        }
    }

    fn follow_orders(&mut self) {
        let me = self.ops.len();
        self.begin_noted();
        let at = match self.roles.orders(self.waiting(), !self.tasks.is_empty()) {
            Orders::Nap | Orders::Park if !self.tasks.is_empty() => {
                unreachable!("it rests although tasks are to be woken: {self:#?}")
            }
            Orders::Nap => At::Napping,
            Orders::Park => At::Parked,
            Orders::WakeTasks => return self.wake_callers(false),
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

    /// Wakes callers. If there are many, prepares places for their next requests.
    fn wake_callers(&mut self, serving: bool) {
        let me = self.ops.len();
        self.calling = core::mem::take(&mut self.tasks);
        let woken = self.calling.len() + self.to_wake.len();
        self.calls_wakers = !self.calling.is_empty();
        if self.gathers && GATHERED <= woken {
            (self.is_gathering, self.places) = (true, woken);
        }
        self.moves_again = self.calls_wakers || self.is_gathering;
        if self.calling.is_empty() {
            if self.is_gathering {
                self.relay[1] = core::mem::take(&mut self.to_wake);
            }
        } else {
            self.processes[me].lingers = true;
            self.roles.go_away();
            if self.roles.poll == PollRole::Free {
                self.offer_poll();
            }
        }
        if self.is_gathering && !self.calling.is_empty() {
            self.relay[0] = self.calling.split_off(1);
        }
        self.leave(me, At::CallsWakers { serving });
    }

    fn has_woken(&mut self, serving: bool) {
        let me = self.ops.len();
        self.processes[me].at = match serving {
            true => At::HasCalled,
            false => At::Enter,
        };
    }

    /// Moves bytes, and then wakes callers. After wakers, or if it has gathered, it moves bytes once more.
    fn serve(&mut self, moves: Option<u8>) {
        let me = self.ops.len();
        self.begin_noted();
        if let Some(at) = self.move_bytes(moves, true) {
            return self.leave(me, at);
        }
        self.processes[me].served |= self.waiting() != 0;
        let has_to_wake = !self.tasks.is_empty() || !self.to_wake.is_empty();
        if has_to_wake && !self.processes[me].has_called {
            self.processes[me].has_called = true;
            self.wake_callers(true);
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
