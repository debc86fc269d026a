//! The steps of every process, and the invariants when none can take another.

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
            At::Parked => self.called,
            At::Asleep => is(self.woken) || is(self.late),
            At::AwaitsWaker if self.kinds[process] == Kind::Dropped => true,
            At::AwaitsWaker => is(self.awake) && is(self.outcomes),
            At::CallsWakers { .. } => !(self.blocks && self.awake != 0),
            At::AwaitsWriting(asked) => asked <= self.written || self.roles.wire.is_some(),
            _ => true,
        }
    }

    pub(super) fn step(&mut self, process: usize) {
        if !self.processes[process].todo.is_empty() {
            return match self.processes[process].todo.remove(0) {
                Todo::WriteEvent => self.event = true,
                Todo::Call => self.called = true,
                Todo::Wake(op) if self.processes[op].at == At::Asleep => self.woken |= bit(op),
                Todo::Wake(_) => {}
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
        // Only the differences count.
        let asked = core::mem::take(&mut seen.asked);
        (seen.copied, seen.written) = (asked - seen.copied, asked - seen.written);
        for process in &mut seen.processes {
            if let At::AwaitsWriting(before) = &mut process.at {
                *before = asked - *before;
            }
        }
        let mut hasher = Mix::default();
        seen.hash(&mut hasher);
        hasher.finish()
    }

    pub(super) fn assert_all_are_served(&self) {
        for (op, kind) in self.kinds.iter().enumerate() {
            let served = match kind {
                Kind::Unanswered => true,
                Kind::Expiry => self.ops[op] == Op::Decided,
                Kind::Task | Kind::Timer if self.blocks => true,
                Kind::Dropped => self.processes[op].at == At::Done && self.released & bit(op) != 0,
                _ => self.processes[op].at == At::Done,
            };
            assert!(served, "{kind:?} {op} is left alone: {self:#?}");
        }
    }
}
