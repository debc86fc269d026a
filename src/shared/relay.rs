//! The relay: many tasks that are to be woken, handed on to one of them.
//!
//! To wake a task of another thread costs that thread's executor a system call, and if the thread
//! comes to run at once, it does that one task and sleeps again before the next is woken. So the I/O
//! thread wakes one task ([`Relay::start`]) and leaves the others here. Whichever call of this handle
//! is polled next wakes them ([`Relay::run`]), on a thread that is awake: for the tasks of one
//! executor that is a push into a queue.
//!
//! No task is left behind: the I/O thread runs the relay itself before it takes the engine again, a
//! millisecond later at most, so that nobody depends on a task that is not polled. Wakers are code of a
//! user: they run with no mutex held, and that of the task which is being polled does not run there,
//! because its executor may hold a mutex of its own.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Waker;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Relay {
    others: Mutex<Vec<Waker>>,
    /// Whether some lie there. Only a hint: who overlooks them leaves them to the I/O thread.
    laden: AtomicBool,
}

impl Relay {
    pub(super) const fn new() -> Self {
        Self {
            others: Mutex::new(Vec::new()),
            laden: AtomicBool::new(false),
        }
    }

    /// Wakes one of these tasks, and leaves the others to whoever runs first. `wakers` is empty
    /// afterwards. Calls of one task that stand behind each other are one wake.
    pub(super) fn start(&self, wakers: &mut Vec<Waker>) {
        wakers.dedup_by(|one, other| one.will_wake(other));
        let first = wakers.pop();
        if !wakers.is_empty() {
            self.load(wakers);
        }
        wakers.extend(first);
        wake_all(wakers);
    }

    /// Wakes the others, if nobody has done so yet, but not the task that is being `polled`. Costs a
    /// look at a flag if there are none.
    pub(super) fn run(&self, polled: &Waker) {
        if self.laden.load(Ordering::Relaxed) {
            let mut others = self.unload_for(polled);
            others.retain(|waker| !waker.will_wake(polled));
            self.wake(others);
        }
    }

    /// The same for the I/O thread, which overlooks nobody.
    pub(super) fn run_surely(&self) {
        let others = self.unload();
        self.wake(others);
    }

    fn load(&self, wakers: &mut Vec<Waker>) {
        let mut others = self.lock();
        others.append(wakers);
        self.laden.store(true, Ordering::Relaxed);
    }

    /// All but one of the task that is polled. That one is never out of here: the I/O thread, which may
    /// come at any moment and for the last time, would overlook it.
    fn unload_for(&self, polled: &Waker) -> Vec<Waker> {
        let mut others = self.lock();
        let own = others.iter().position(|waker| waker.will_wake(polled));
        let own = own.map(|place| others.swap_remove(place));
        self.laden.store(own.is_some(), Ordering::Relaxed);
        core::mem::replace(&mut *others, own.into_iter().collect())
    }

    fn unload(&self) -> Vec<Waker> {
        let mut others = self.lock();
        self.laden.store(false, Ordering::Relaxed);
        core::mem::take(&mut *others)
    }

    /// Wakes them, and keeps their room for the next relay.
    fn wake(&self, mut wakers: Vec<Waker>) {
        wake_all(&mut wakers);
        let mut others = self.lock();
        if others.capacity() == 0 {
            *others = wakers;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes tasks. A waker that panics harms nobody else.
pub(super) fn wake_all(wakers: &mut Vec<Waker>) {
    for waker in wakers.drain(..) {
        let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }
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
    fn one_is_woken_at_once_and_the_others_once_by_whoever_runs() {
        for (tasks, at_once) in [(0, 0), (1, 1), (2, 1), (64, 1)] {
            let (relay, calls) = (Relay::new(), Arc::<Calls>::default());
            let mut wakers = wakers(&calls, tasks);
            relay.start(&mut wakers);
            assert_eq!((wakers.len(), count(&calls)), (0, at_once));
            relay.run(Waker::noop());
            assert_eq!(count(&calls), tasks);
            relay.run(Waker::noop());
            relay.run_surely();
            assert_eq!(count(&calls), tasks);
        }
    }

    #[test]
    fn two_relays_at_once_forget_nobody() {
        let (relay, calls) = (Relay::new(), Arc::<Calls>::default());
        relay.start(&mut wakers(&calls, 3));
        relay.start(&mut wakers(&calls, 4));
        assert_eq!(count(&calls), 2);
        relay.run_surely();
        assert_eq!(count(&calls), 7);
    }

    #[test]
    fn the_task_that_is_polled_is_left_to_the_io_thread() {
        let (relay, calls, polled) = (Relay::new(), Arc::default(), Arc::<Calls>::default());
        let own = Waker::from(Arc::clone(&polled));
        let mut all = wakers(&calls, 3);
        all.insert(0, own.clone());
        all.insert(2, own.clone());
        relay.start(&mut all);
        relay.run(&own);
        relay.run(&own);
        assert_eq!((count(&calls), count(&polled)), (3, 0));
        relay.run_surely();
        assert_eq!((count(&calls), count(&polled)), (3, 1));
    }

    #[test]
    fn calls_of_one_task_wake_it_once() {
        let (relay, calls) = (Relay::new(), Arc::<Calls>::default());
        relay.start(&mut alloc::vec![Waker::from(Arc::clone(&calls)); 40]);
        relay.run_surely();
        assert_eq!(count(&calls), 1);
    }

    #[test]
    fn a_waker_that_panics_harms_nobody_else() {
        let (relay, calls) = (Relay::new(), Arc::<Calls>::default());
        let mut all = wakers(&calls, 2);
        all.insert(1, Arc::new(Panicking).into());
        all.push(Arc::new(Panicking).into());
        relay.start(&mut all);
        relay.run(Waker::noop());
        assert_eq!(count(&calls), 2);
    }
}
