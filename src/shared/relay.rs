//! Tasks to wake, left to the first of them.
//!
//! A wake-up of a sleeping executor is a system call. If its thread comes to run at once, it polls that one task and
//! sleeps again, before the next task is woken. So of many tasks the I/O thread wakes one, and leaves the others here.
//! The next task of this handle that is polled wakes them on a thread that is awake. For the tasks of one executor that
//! is a push into a queue.
//!
//! # Guarantees
//!
//! * **No task depends on another**: the I/O thread wakes those that are left after a tenth of a millisecond.
//! * Wakers are user code. They are called without a mutex, and a panic of one is caught.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Waker;
use std::sync::{Mutex, PoisonError};

use super::tenure::wake;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Relay {
    others: Mutex<Vec<Waker>>,
    /// There are some. A thread that does not see it yet leaves them to the I/O thread.
    is_laden: AtomicBool,
}

impl Relay {
    /// Wakes one of these tasks, and leaves the others here.
    pub(super) fn start(&self, tasks: &mut Vec<Waker>) {
        let first = tasks.pop();
        self.with_others(|others| others.append(tasks));
        self.is_laden.store(true, Ordering::Relaxed);
        first.map(wake);
    }

    /// Wakes the others, unless another thread does.
    pub(super) fn run(&self) {
        if !self.is_laden.load(Ordering::Relaxed) {
            return;
        }
        self.is_laden.store(false, Ordering::Relaxed);
        let mut tasks = self.with_others(core::mem::take);
        tasks.drain(..).for_each(wake);
        self.with_others(|others| {
            if others.capacity() == 0 {
                *others = tasks; // Its room is used again.
            }
        });
    }

    fn with_others<T>(&self, change: impl FnOnce(&mut Vec<Waker>) -> T) -> T {
        let others = self.others.lock();
        change(&mut others.unwrap_or_else(PoisonError::into_inner))
    }
}
