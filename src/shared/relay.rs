//! Callers to wake, left to the first of them.
//!
//! To wake a sleeping thread is a system call. A thread that comes to run at once may also take the processor from the
//! thread that wakes, and sleep again before the next is woken. So of many callers the I/O thread wakes one task, or two
//! threads, and leaves the others here. The next task that is polled wakes the other tasks: for those of its executor
//! that is a push into a queue. Each woken thread wakes another one at once, and another before it sleeps again.
//!
//! Measured with 64 threads: 7 % more cycles than if the I/O thread wakes all.
//!
//! # Guarantees
//!
//! * **No caller depends on another**: the I/O thread wakes those that are left after a tenth of a millisecond. Only a
//!   waker that blocks holds up its own task.
//! * Wakers are user code. They are called without a mutex, and a panic of one is caught. That of the task that is
//!   polled is left to the I/O thread: its executor may hold a mutex of its own.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Waker;
use std::sync::{Mutex, PoisonError};

use super::slot::Slot;
use super::tenure::wake;

/// An empty list of tasks with more room is freed.
const KEPT: usize = 256;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Relay {
    rest: Mutex<Rest>,
    /// There are some. Changed under the mutex. A thread that does not see it yet leaves them to the I/O thread.
    is_laden: AtomicBool,
}

#[derive(Debug, Default)]
struct Rest {
    tasks: Vec<Waker>,
    threads: Vec<Arc<Slot>>,
}

impl Relay {
    /// Leaves these threads here.
    pub(super) fn add(&self, threads: &mut Vec<Arc<Slot>>) {
        self.with_rest(|rest| rest.threads.append(threads));
    }

    /// Wakes the first task, and leaves the others here. If there are none, wakes the first two threads.
    pub(super) fn start(&self, tasks: &mut Vec<Waker>) {
        match tasks.pop() {
            Some(first) => {
                self.with_rest(|rest| rest.tasks.append(tasks));
                wake(first);
            }
            None => {
                self.pass_on();
                self.pass_on();
            }
        }
    }

    /// Wakes the other tasks, but not the one that is `polled`. Other threads may take part.
    pub(super) fn wake_tasks(&self, polled: &Waker) {
        while self.is_laden.load(Ordering::Relaxed) {
            let other = |task: &Waker| !task.will_wake(polled);
            let next = self.with_rest(|rest| {
                let place = rest.tasks.iter().rposition(other)?;
                Some(rest.tasks.swap_remove(place))
            });
            let Some(task) = next else { return };
            wake(task);
        }
    }

    /// Wakes another thread. Returns `false` if there is none.
    pub(super) fn pass_on(&self) -> bool {
        if !self.is_laden.load(Ordering::Relaxed) {
            return false;
        }
        let next = self.with_rest(|rest| rest.threads.pop());
        next.as_deref().map(Slot::wake).is_some()
    }

    /// Wakes all that are left.
    pub(super) fn run(&self) {
        while self.is_laden.load(Ordering::Relaxed) {
            if let Some(task) = self.with_rest(|rest| rest.tasks.pop()) {
                wake(task);
            }
            self.pass_on();
        }
    }

    fn with_rest<T>(&self, change: impl FnOnce(&mut Rest) -> T) -> T {
        let rest = self.rest.lock();
        let mut rest = rest.unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut rest);
        if rest.tasks.is_empty() && KEPT < rest.tasks.capacity() {
            rest.tasks = Vec::new();
        }
        let is_laden = !rest.tasks.is_empty() || !rest.threads.is_empty();
        self.is_laden.store(is_laden, Ordering::Relaxed);
        changed
    }
}
