//! The relay: the tasks that are to be woken, and who wakes them.
//!
//! Every waker comes here, and is called by the I/O thread ([`Relay::run_surely`]), one by one, so that
//! whoever takes over from a thread that is held up in one goes on with the next.
//!
//! To wake a task of another thread costs that thread's executor a system call, and if the thread
//! comes to run at once, it does that one task and sleeps again before the next is woken. So of many
//! tasks the I/O thread wakes one ([`Relay::run_one`]) and leaves the others here for a moment.
//! Whichever call of this handle is polled next wakes those of the same kind of executor
//! ([`Relay::run`]), on a thread that is awake: that is a push into a queue. Wakers of another kind
//! are not called there, because they may block.
//!
//! No task is left behind: the I/O thread runs the relay itself before it takes the engine again, a
//! millisecond later at most, so that nobody depends on a task that is not polled. Wakers are code of a
//! user: they run with no mutex held, and that of the task which is being polled does not run there,
//! because its executor may hold a mutex of its own.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Waker;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Relay {
    tasks: Mutex<VecDeque<Waker>>,
    /// Whether some lie there. Only a hint: who overlooks them leaves them to the I/O thread.
    laden: AtomicBool,
}

impl Relay {
    pub(super) const fn new() -> Self {
        Self {
            tasks: Mutex::new(VecDeque::new()),
            laden: AtomicBool::new(false),
        }
    }

    /// Adds tasks to be woken. `wakers` is empty afterwards, and keeps its room. Calls of one task
    /// that stand behind each other are one wake.
    pub(super) fn load(&self, wakers: &mut Vec<Waker>) {
        if wakers.is_empty() {
            return;
        }
        wakers.dedup_by(|one, other| one.will_wake(other));
        let mut tasks = self.lock();
        tasks.extend(wakers.drain(..));
        self.laden.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if tasks are to be woken. Exact for a thread that has the engine.
    pub(super) fn is_laden(&self) -> bool {
        self.laden.load(Ordering::Relaxed)
    }

    /// Returns how many tasks are to be woken.
    pub(super) fn len(&self) -> usize {
        match self.is_laden() {
            true => self.lock().len(),
            false => 0,
        }
    }

    /// Wakes the tasks that are there now and belong to the same kind of executor as the task that is
    /// being `polled`, but not that one. Costs a look at a flag if there are none.
    pub(super) fn run(&self, polled: &Waker) {
        for _ in 0..self.len() {
            let Some(waker) = self.pop_like(polled) else {
                return;
            };
            wake(waker);
        }
    }

    /// Wakes all tasks that are there now. Calls `progress` before each waker.
    pub(super) fn run_surely(&self, progress: impl Fn()) {
        for _ in 0..self.len() {
            self.run_one(&progress);
        }
    }

    /// Wakes one task.
    pub(super) fn run_one(&self, progress: impl Fn()) {
        if let Some(waker) = self.pop() {
            progress();
            wake(waker);
        }
    }

    fn pop(&self) -> Option<Waker> {
        let mut tasks = self.lock();
        let waker = tasks.pop_front();
        self.laden.store(!tasks.is_empty(), Ordering::Relaxed);
        waker
    }

    fn pop_like(&self, polled: &Waker) -> Option<Waker> {
        let mut tasks = self.lock();
        let place = tasks.iter().position(|waker| {
            ptr::eq(waker.vtable(), polled.vtable()) && !waker.will_wake(polled)
        })?;
        let waker = tasks.remove(place);
        self.laden.store(!tasks.is_empty(), Ordering::Relaxed);
        waker
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Waker>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes tasks. A waker that panics harms nobody else.
pub(super) fn wake_all(wakers: &mut Vec<Waker>) {
    wakers.drain(..).for_each(wake);
}

/// Wakes a task.
pub(super) fn wake(waker: Waker) {
    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use alloc::task::Wake;
    use core::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Calls(AtomicUsize);

    impl Wake for Calls {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    struct Panicking;

    impl Wake for Panicking {
        fn wake(self: Arc<Self>) {
            panic!("expected: a waker of a test");
        }
    }

    /// Tasks of their own, all of which count for `calls`.
    struct Task(Arc<Calls>);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            Arc::clone(&self.0).wake();
        }
    }

    fn wakers(calls: &Arc<Calls>, count: usize) -> Vec<Waker> {
        let task = || Arc::new(Task(Arc::clone(calls)));
        (0..count).map(|_| task().into()).collect()
    }

    fn count(calls: &Calls) -> usize {
        calls.0.load(Ordering::Relaxed)
    }

    #[test]
    fn one_is_woken_at_once_and_the_others_once_by_a_task_of_their_kind() {
        for (tasks, at_once) in [(0, 0), (1, 1), (2, 1), (64, 1)] {
            let (relay, calls) = (Relay::new(), Arc::<Calls>::default());
            let mut all = wakers(&calls, tasks);
            relay.load(&mut all);
            relay.run_one(|| {});
            assert_eq!((all.len(), count(&calls)), (0, at_once));
            relay.run(Waker::noop());
            assert_eq!(count(&calls), at_once, "of another kind");
            let polled = &wakers(&calls, 1)[0];
            relay.run(polled);
            assert_eq!(count(&calls), tasks);
            relay.run(polled);
            relay.run_surely(|| {});
            assert_eq!(count(&calls), tasks);
            assert!(!relay.is_laden());
        }
    }

    #[test]
    fn two_relays_at_once_forget_nobody() {
        let (relay, calls) = (Relay::new(), Arc::<Calls>::default());
        relay.load(&mut wakers(&calls, 3));
        relay.run_one(|| {});
        relay.load(&mut wakers(&calls, 4));
        relay.run_one(|| {});
        assert_eq!(count(&calls), 2);
        relay.run_surely(|| {});
        assert_eq!(count(&calls), 7);
    }

    #[test]
    fn the_task_that_is_polled_is_left_to_the_io_thread() {
        let (relay, calls, own) = (Relay::new(), Arc::default(), Arc::default());
        let mut all = wakers(&calls, 3);
        let polled = wakers(&own, 1).remove(0);
        all.insert(0, polled.clone());
        all.insert(2, polled.clone());
        relay.load(&mut all);
        relay.run(&polled);
        relay.run(&polled);
        assert_eq!((count(&calls), count(&own)), (3, 0));
        relay.run_surely(|| {});
        assert_eq!((count(&calls), count(&own)), (3, 2));
    }

    #[test]
    fn calls_of_one_task_wake_it_once() {
        let (relay, calls) = (Relay::new(), Arc::<Calls>::default());
        relay.load(&mut alloc::vec![Waker::from(Arc::clone(&calls)); 40]);
        relay.run_surely(|| {});
        assert_eq!(count(&calls), 1);
    }

    #[test]
    fn a_waker_that_panics_harms_nobody_else() {
        let (relay, calls) = (Relay::new(), Arc::<Calls>::default());
        let mut all = wakers(&calls, 2);
        all.insert(1, Arc::new(Panicking).into());
        all.push(Arc::new(Panicking).into());
        relay.load(&mut all);
        relay.run_surely(|| {});
        assert_eq!(count(&calls), 2);
    }
}
