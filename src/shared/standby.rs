//! The standby thread: takes over from an I/O thread that a waker holds up.
//!
//! Wakers are code of a user, and one that blocks may hold up its own task only. So the I/O thread
//! says when it begins to call wakers ([`Standby::begin_waking`]) and with each of them
//! ([`Standby::progress`]). The standby thread looks every few milliseconds, and if the same waker
//! has not returned since it last looked, it is the I/O thread from then on. The other one ends
//! when its waker returns.
//!
//! # Guarantees
//!
//! * **At most one thread is in charge.** A thread that was replaced learns so from
//!   [`Standby::end_waking`], and touches nothing of the handle afterwards.
//! * **Threads are bounded**: one in charge, one on standby, and [`HELD_UP_MAX`] that are held up.
//!   With so many held up the one in charge calls no waker. It leaves them to the first thread that
//!   comes back, and goes on with everything else.
//! * **It costs nothing where no task is woken**: the thread is started with the first waker. While
//!   tasks are woken it looks every [`TICK`], and a tenth of a second later it sleeps.
//!
//! If the system gives no thread, wakers are called without a standby.

use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::build::spawn;
use super::hub::Hub;
use super::keeper::Keeper;

/// How long a waker may take, at least, before the standby thread takes over.
const TICK: Duration = Duration::from_millis(5);

/// After so many ticks without a waker the standby thread sleeps until there is one.
const IDLE_TICKS: u32 = 20;

/// Most threads that may be held up in wakers.
const HELD_UP_MAX: usize = 8;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Standby {
    state: Mutex<State>,
    changed: Condvar,
    /// How many wakers the thread in charge has begun to call.
    called: AtomicU64,
}

#[derive(Debug)]
struct State {
    /// The number of the thread in charge: the first has zero, and each that takes over one more.
    in_charge: u64,
    /// The thread in charge calls wakers.
    is_waking: bool,
    thread: StandbyThread,
    held_up: usize,
    is_closed: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum StandbyThread {
    Missing,
    Asleep,
    Watching,
}

impl Standby {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                in_charge: 0,
                is_waking: false,
                thread: StandbyThread::Missing,
                held_up: 0,
                is_closed: false,
            }),
            changed: Condvar::new(),
            called: AtomicU64::new(0),
        }
    }

    // ----- the thread in charge -------------------------------------------------------------

    /// Returns `true` if the thread in charge may call wakers: not too many threads are held up.
    pub(super) fn may_wake(&self) -> bool {
        self.lock().held_up < HELD_UP_MAX
    }

    /// The thread in charge is about to call wakers, if it may. Returns `true` if so.
    pub(super) fn begin_waking(self: &Arc<Self>, hub: &Arc<Hub>) -> bool {
        let mut state = self.lock();
        if HELD_UP_MAX <= state.held_up {
            return false;
        }
        state.is_waking = true;
        match core::mem::replace(&mut state.thread, StandbyThread::Watching) {
            StandbyThread::Watching => {}
            StandbyThread::Asleep => self.changed.notify_one(),
            StandbyThread::Missing => {
                drop(state);
                self.start(Arc::downgrade(hub));
            }
        }
        true
    }

    fn start(self: &Arc<Self>, hub: Weak<Hub>) {
        let standby = Arc::clone(self);
        if spawn(move || standby.watch(&hub)).is_err() {
            self.lock().thread = StandbyThread::Missing;
        }
    }

    /// The thread in charge calls the next waker.
    pub(super) fn progress(&self) {
        self.called.fetch_add(1, Ordering::Relaxed);
    }

    /// The wakers have returned. Returns `true` if the thread with this `number` is still in charge.
    pub(super) fn end_waking(&self, number: u64) -> bool {
        let mut state = self.lock();
        let in_charge = state.in_charge == number;
        match in_charge {
            true => state.is_waking = false,
            false => state.held_up -= 1,
        }
        in_charge
    }

    /// The thread in charge ends, and nobody takes over from it.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    #[cfg(all(test, feature = "embedded"))]
    pub(super) fn pretend_held_up(&self) {
        self.lock().held_up += 1;
    }

    // ----- the standby thread ---------------------------------------------------------------

    fn watch(&self, hub: &Weak<Hub>) {
        if let Some(number) = self.wait_for_a_hold_up()
            && let Some(hub) = hub.upgrade()
        {
            Keeper::in_place_of_another(hub, number).run();
        }
    }

    /// Returns the number under which this thread is in charge now, or `None` if it is to end.
    fn wait_for_a_hold_up(&self) -> Option<u64> {
        let mut state = self.lock();
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
        let is_open = |state: &mut State| !state.is_closed;
        let waited = self.changed.wait_timeout_while(state, TICK, is_open);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn sleep<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.thread = StandbyThread::Asleep;
        let asleep = |state: &mut State| {
            state.thread == StandbyThread::Asleep && !state.is_closed && !state.is_waking
        };
        let waited = self.changed.wait_while(state, asleep);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.thread = StandbyThread::Watching;
        state
    }

    /// Nothing panics under this mutex.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take_over(&mut self) -> u64 {
        self.in_charge += 1;
        self.is_waking = false;
        self.held_up += 1;
        self.thread = StandbyThread::Missing;
        self.in_charge
    }
}
