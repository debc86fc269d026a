//! The tasks that are to be woken, and what is done about a waker that blocks.
//!
//! Wakers are code of a user. The I/O thread calls them one by one, without a mutex and without a role,
//! and catches a panic. A waker that blocks may hold up its own task only: while wakers are called, a
//! standby thread looks every few milliseconds. If the same waker has not returned since it last looked,
//! the standby thread becomes the I/O thread and goes on with the next waker. The other thread ends when
//! its waker returns.
//!
//! # Guarantees
//!
//! * **At most one thread is in charge.** A thread that was replaced learns so from
//!   [`Wakers::end`], and touches nothing of the handle afterwards.
//! * **Threads are bounded**: one in charge, one on standby, and [`HELD_UP_MAX`] that are held up.
//!   With so many held up the one in charge calls no waker. It leaves them to the first thread that
//!   comes back, and goes on with everything else.
//! * **It costs nothing where no task is woken**: the standby thread is started with the first waker.
//!   While tasks are woken it looks every [`TICK`], and a tenth of a second later it sleeps.
//!
//! If the system gives no thread, wakers are called without a standby.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::Waker;
use core::time::Duration;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::MutexGuard;

use super::monitor::Monitor;

use crate::driver::clock;

/// How long a waker may take, at least, before the standby thread takes over.
const TICK: Duration = Duration::from_millis(5);

/// How long the thread in charge calls wakers before it serves the nodes again. A waker may take some time
/// because it polls its task there, and a thousand of them take a thousand times as long.
const WAKING_MAX: Duration = Duration::from_millis(1);

/// After so many ticks without a waker the standby thread sleeps until there is one.
const IDLE_TICKS: u32 = 20;

/// Most threads that may be held up in wakers.
const HELD_UP_MAX: usize = 8;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Wakers {
    tasks: Monitor<VecDeque<Waker>>,
    state: Monitor<State>,
    /// How many wakers have been called.
    called: AtomicU64,
}

#[derive(Debug)]
struct State {
    /// The number of the thread in charge: the first has zero, and each that takes over one more.
    in_charge: u64,
    /// The thread in charge calls wakers.
    is_waking: bool,
    standby: Standby,
    held_up: usize,
    is_closed: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Standby {
    Missing,
    Asleep,
    Watching,
}

impl Wakers {
    pub(super) fn new() -> Self {
        Self {
            tasks: Monitor::new(VecDeque::new()),
            state: Monitor::new(State {
                in_charge: 0,
                is_waking: false,
                standby: Standby::Missing,
                held_up: 0,
                is_closed: false,
            }),
            called: AtomicU64::new(0),
        }
    }

    // ----- any thread -----------------------------------------------------------------------

    /// Adds tasks to be woken, and empties `wakers`. A task that stands there several times in a row is
    /// woken once.
    pub(super) fn add(&self, wakers: &mut Vec<Waker>) {
        wakers.dedup_by(|one, other| one.will_wake(other));
        self.tasks.lock().extend(wakers.drain(..));
    }

    // ----- the thread in charge -------------------------------------------------------------

    /// Returns `true` if the thread in charge may call wakers: not too many threads are held up.
    pub(super) fn may_wake(&self) -> bool {
        self.state.lock().held_up < HELD_UP_MAX
    }

    /// Calls the wakers that are there now, for [`WAKING_MAX`] at most, as the thread in charge under this
    /// `number`. `start` starts a standby thread, which runs [`Wakers::stand_by`]. Returns `true` if this
    /// thread is still in charge afterwards.
    pub(super) fn call_all(&self, number: u64, start: impl FnOnce() -> io::Result<()>) -> bool {
        if !self.begin(start) {
            return true;
        }
        self.run(WAKING_MAX);
        self.end(number)
    }

    /// Calls the wakers that are there now, until `limit` has passed.
    pub(super) fn run(&self, limit: Duration) {
        let (count, until) = (self.len(), clock::now().saturating_add(limit));
        for _ in 0..count {
            // Others may have taken them.
            let Some(waker) = self.tasks.lock().pop_front() else {
                return;
            };
            self.called.fetch_add(1, Ordering::Relaxed);
            wake(waker);
            if until <= clock::now() {
                return;
            }
        }
    }

    fn begin(&self, start: impl FnOnce() -> io::Result<()>) -> bool {
        let mut state = self.state.lock();
        if HELD_UP_MAX <= state.held_up {
            return false;
        }
        state.is_waking = true;
        match core::mem::replace(&mut state.standby, Standby::Watching) {
            Standby::Watching => {}
            Standby::Asleep => self.state.wake_one(),
            Standby::Missing => {
                drop(state);
                if start().is_err() {
                    self.state.lock().standby = Standby::Missing;
                }
            }
        }
        true
    }

    fn end(&self, number: u64) -> bool {
        let mut state = self.state.lock();
        let in_charge = state.in_charge == number;
        match in_charge {
            true => state.is_waking = false,
            false => state.held_up -= 1,
        }
        in_charge
    }

    /// The thread in charge ends, and no thread takes over from it.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.state.wake_one();
    }

    /// Returns how many tasks are to be woken.
    pub(super) fn len(&self) -> usize {
        self.tasks.lock().len()
    }

    #[cfg(all(test, feature = "embedded"))]
    pub(super) fn pretend_held_up(&self, count: usize) {
        self.state.lock().held_up = count;
    }

    /// No standby thread is started: no other thread takes over.
    #[cfg(all(test, feature = "embedded"))]
    pub(super) fn pretend_standby(&self) {
        self.state.lock().standby = Standby::Watching;
    }

    // ----- the standby thread ---------------------------------------------------------------

    /// The life of a standby thread. Returns the number under which it is in charge from then on, or
    /// `None` if it is to end.
    pub(super) fn stand_by(self: &Arc<Self>) -> Option<u64> {
        let mut state = self.state.lock();
        let (mut seen, mut idle) = (None, 0);
        while !state.is_closed {
            let calling = state.is_waking.then(|| self.called.load(Ordering::Relaxed));
            if calling.is_some() && calling == seen {
                return Some(state.take_over());
            }
            idle = if calling == seen { idle + 1 } else { 0 };
            seen = calling;
            state = match idle < IDLE_TICKS {
                true => self.tick(state),
                false => {
                    idle = 0;
                    self.sleep(state)
                }
            };
        }
        None
    }

    /// Waits a whole tick, unless the handle is closed.
    fn tick<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.state.wait_while(state, TICK, |state| !state.is_closed)
    }

    fn sleep<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.standby = Standby::Asleep;
        while state.standby == Standby::Asleep && !state.is_closed && !state.is_waking {
            state = self.state.wait(state, None);
        }
        state.standby = Standby::Watching;
        state
    }
}

impl State {
    fn take_over(&mut self) -> u64 {
        self.in_charge += 1;
        self.is_waking = false;
        self.held_up += 1;
        self.standby = Standby::Missing;
        self.in_charge
    }
}

/// Wakes a task. Catches a panic of its waker, and of dropping what that panicked with.
pub(super) fn wake(waker: Waker) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake()))
        && let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload)))
    {
        core::mem::forget(another);
    }
}

#[cfg(test)]
mod tests {
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

    fn tasks(calls: &Arc<Calls>, count: usize) -> Vec<Waker> {
        let task = || Arc::new(Task(Arc::clone(calls)));
        (0..count).map(|_| task().into()).collect()
    }

    fn count(calls: &Calls) -> usize {
        calls.0.load(Ordering::Relaxed)
    }

    #[test]
    fn each_task_is_woken_once() {
        for tasks_there in [0, 1, 2, 64] {
            let (wakers, calls) = (Wakers::new(), Arc::<Calls>::default());
            let mut all = tasks(&calls, tasks_there);
            wakers.add(&mut all);
            wakers.run(Duration::MAX);
            wakers.run(Duration::MAX);
            assert_eq!((all.len(), count(&calls)), (0, tasks_there));
        }
    }

    #[test]
    fn calls_of_one_task_wake_it_once() {
        let (wakers, calls) = (Wakers::new(), Arc::<Calls>::default());
        wakers.add(&mut alloc::vec![Waker::from(Arc::clone(&calls)); 40]);
        wakers.run(Duration::MAX);
        assert_eq!(count(&calls), 1);
    }

    #[test]
    fn a_waker_that_panics_harms_no_other_task() {
        let (wakers, calls) = (Wakers::new(), Arc::<Calls>::default());
        let mut all = tasks(&calls, 2);
        all.insert(1, Arc::new(Panicking).into());
        all.push(Arc::new(Panicking).into());
        wakers.add(&mut all);
        wakers.run(Duration::MAX);
        assert_eq!(count(&calls), 2);
    }
}
