//! The relay: tasks that are to be woken, handed on to the first of them.
//!
//! To wake a task of another thread costs that thread's executor a system call, and if the thread
//! comes to run at once, it does that one task and sleeps again before the next is woken. So the I/O
//! thread wakes one task ([`Relay::start`]) and leaves the others here. Whichever task of this handle
//! is polled next wakes them ([`Relay::run`]), on a thread that is awake: for the tasks of one
//! executor that is a push into a queue.
//!
//! No task is left behind: the I/O thread runs the relay itself before it does anything else that
//! could take long, so that nobody depends on a task that is not polled. Wakers are code of a user:
//! they run with no mutex held.

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
    /// afterwards.
    pub(super) fn start(&self, wakers: &mut Vec<Waker>) {
        let first = wakers.pop();
        if !wakers.is_empty() {
            let mut others = self.lock();
            others.append(wakers);
            self.laden.store(true, Ordering::Relaxed);
        }
        wakers.extend(first);
        wake_all(wakers);
    }

    /// Wakes the others, if nobody has done so yet. Costs a look at a flag if there are none.
    pub(super) fn run(&self) {
        if self.laden.load(Ordering::Relaxed) {
            self.run_surely();
        }
    }

    /// The same for the I/O thread, which overlooks nobody.
    pub(super) fn run_surely(&self) {
        let mut others = self.unload();
        wake_all(&mut others);
        self.keep_room(others);
    }

    fn unload(&self) -> Vec<Waker> {
        let mut others = self.lock();
        self.laden.store(false, Ordering::Relaxed);
        core::mem::take(&mut *others)
    }

    /// The next relay needs no allocation then.
    fn keep_room(&self, room: Vec<Waker>) {
        let mut others = self.lock();
        if others.capacity() == 0 {
            *others = room;
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
    use core::sync::atomic::AtomicU32;

    use super::*;

    #[derive(Default)]
    struct Calls(AtomicU32);

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

    fn wakers(calls: &Arc<Calls>, count: usize) -> Vec<Waker> {
        (0..count).map(|_| Arc::clone(calls).into()).collect()
    }

    #[test]
    fn one_is_woken_at_once_and_the_others_once_by_whoever_runs() {
        let (relay, calls) = (Relay::new(), Arc::<Calls>::default());
        for (tasks, at_once) in [(0, 0), (1, 1), (2, 1), (64, 1)] {
            calls.0.store(0, Ordering::Relaxed);
            let mut wakers = wakers(&calls, tasks);
            relay.start(&mut wakers);
            assert_eq!(
                (wakers.len(), calls.0.load(Ordering::Relaxed)),
                (0, at_once)
            );
            relay.run();
            assert_eq!(usize::try_from(calls.0.load(Ordering::Relaxed)), Ok(tasks));
            relay.run();
            relay.run_surely();
            assert_eq!(usize::try_from(calls.0.load(Ordering::Relaxed)), Ok(tasks));
        }
    }

    #[test]
    fn two_relays_at_once_forget_nobody() {
        let (relay, calls) = (Relay::new(), Arc::<Calls>::default());
        relay.start(&mut wakers(&calls, 3));
        relay.start(&mut wakers(&calls, 4));
        assert_eq!(calls.0.load(Ordering::Relaxed), 2);
        relay.run_surely();
        assert_eq!(calls.0.load(Ordering::Relaxed), 7);
    }

    #[test]
    fn a_waker_that_panics_harms_nobody_else() {
        let (relay, calls) = (Relay::new(), Arc::<Calls>::default());
        let mut all = wakers(&calls, 2);
        all.insert(1, Arc::new(Panicking).into());
        all.push(Arc::new(Panicking).into());
        relay.start(&mut all);
        relay.run();
        assert_eq!(calls.0.load(Ordering::Relaxed), 2);
    }
}
