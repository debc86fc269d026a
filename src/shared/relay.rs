//! Callers to wake, left to the first of them.
//!
//! The I/O thread that wakes many callers is slow: each wake-up of a sleeping thread is a system call, and a thread that
//! comes to run at once takes the processor away before the next is woken. So it wakes one task and two threads, and
//! leaves the others here. The next task that is polled wakes the other tasks: for those of its executor that is a push
//! into a queue. Each woken thread wakes two others.
//!
//! # Guarantees
//!
//! * **No caller depends on another**: the I/O thread wakes those that are left after a tenth of a millisecond.
//! * Wakers are user code. They are called without a mutex, and a panic of one is caught.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Waker;
use std::sync::{Mutex, PoisonError};

use super::slot::Slot;
use super::tenure::wake;

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
    /// Wakes the first of these callers, and leaves the others here.
    pub(super) fn start(&self, tasks: &mut Vec<Waker>, threads: &mut Vec<Arc<Slot>>) {
        let first = tasks.pop();
        self.with_rest(|rest| {
            rest.tasks.append(tasks);
            rest.threads.append(threads);
        });
        match first {
            Some(task) => wake(task),
            None => {
                self.pass_on();
                self.pass_on();
            }
        }
    }

    /// Wakes the other tasks, unless another thread does.
    pub(super) fn wake_tasks(&self) {
        if !self.is_laden.load(Ordering::Relaxed) {
            return;
        }
        let mut tasks = self.with_rest(|rest| core::mem::take(&mut rest.tasks));
        tasks.drain(..).for_each(wake);
        self.with_rest(|rest| {
            if rest.tasks.capacity() == 0 {
                rest.tasks = tasks; // Its room is used again.
            }
        });
    }

    /// Wakes two other threads. Returns `false` if there was none.
    pub(super) fn pass_on(&self) -> bool {
        if !self.is_laden.load(Ordering::Relaxed) {
            return false;
        }
        let next = self.with_rest(|rest| [rest.threads.pop(), None]);
        let is_there = next[0].is_some();
        next.into_iter().flatten().for_each(|slot| slot.wake());
        is_there
    }

    /// Wakes all.
    pub(super) fn run(&self) {
        self.wake_tasks();
        while self.pass_on() {}
    }

    fn with_rest<T>(&self, change: impl FnOnce(&mut Rest) -> T) -> T {
        let rest = self.rest.lock();
        let mut rest = rest.unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut rest);
        let is_laden = !rest.tasks.is_empty() || !rest.threads.is_empty();
        self.is_laden.store(is_laden, Ordering::Relaxed);
        changed
    }
}
