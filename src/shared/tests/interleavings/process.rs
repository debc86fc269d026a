//! The steps of every process, and what must hold when none can take another.

use super::*;

impl Model {
    pub(super) fn can_step(&self, process: usize) -> bool {
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

    pub(super) fn step(&mut self, process: usize) {
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
    pub(super) fn successors(&self) -> Vec<Self> {
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

    pub(super) fn fingerprint(&self) -> u64 {
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

    pub(super) fn assert_all_are_served(&self) {
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
