//! Records which thread has the wire, which thread has the poller, what the I/O thread does, and which threads to wake.
//!
//! The mutex of the engine protects this record, so all decisions to sleep and to wake happen in one order. Every
//! section under the mutex ends with [`Roles::leave`], which ensures the following:
//!
//! 1. Work for the wire is a request to the engine, or the result of a sleep in the poller. The thread that has the
//!    wire checks for such work before it puts the wire back. The thread that has the poller checks for such work
//!    before it falls asleep. If no thread has the wire or the poller, the I/O thread is called.
//! 2. If a caller waits for an operation, a thread has the poller, or was offered the poller, or the I/O thread is
//!    called.
//! 3. The next timer of the engine wakes a thread: the thread that sleeps in the poller, or the I/O thread if the
//!    poller is free.
//! 4. A caller does not sleep in the poller after its outcome is decided.
//! 5. If there are tasks to wake, the I/O thread is awake, or is called.
//!
//! *Called* means that the I/O thread will run [`Roles::orders`], which finds the work. A caller wakes a resting I/O
//! thread through a socket that only the I/O thread reads. An event in the poller would not be enough, because another
//! thread in the poller might take that event.
//!
//! `tests/interleavings` checks every order of these steps.

use crate::time::Instant;

/// If at least this many callers wait, the I/O thread serves them, and no caller takes the poller. If only two threads
/// wait, they pass the poller to each other, because in measurements the I/O thread did not serve them faster.
pub(super) const MANY: usize = 3;

/// The thread that has a role.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum Owner<O> {
    /// The thread that waits for this operation.
    Caller(O),
    IoThread,
}

/// The thread that has the poller.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum Poll<O> {
    Free,
    /// The poller was offered to the thread that waits for this operation. That thread will take the poller.
    Offered(O),
    /// The thread that has the poller is awake, and checks for work before it sleeps.
    Awake(Owner<O>),
    /// The thread that has the poller sleeps until this time, and was not woken yet.
    Asleep(Owner<O>, Instant),
}

/// The state of the I/O thread.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum IoThread {
    /// The I/O thread is awake or in the poller, and calls [`Roles::orders`] before it rests.
    Busy,
    /// The I/O thread is calling wakers, and cannot serve until they return.
    Away,
    /// The I/O thread rests for at most a millisecond, because active callers do not need it.
    Napping,
    /// The I/O thread rests while a caller has the poller.
    Parked,
    /// The I/O thread waits without the poller, until a socket is ready or until this time.
    Watching(Instant),
}

/// The threads to wake after the mutex is unlocked.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[must_use]
pub(super) struct Wake {
    /// The thread that sleeps in the poller.
    pub(super) sleeper: bool,
    /// The resting I/O thread.
    pub(super) io_thread: bool,
}

impl Wake {
    /// Wakes the I/O thread in any state, and the caller that has the poller.
    pub(super) const ALL: Self = Self {
        sleeper: true,
        io_thread: true,
    };
}

/// The next step of the I/O thread.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Orders {
    /// Rest for a millisecond, because callers were active a moment ago.
    Nap,
    /// Rest until the caller gives the poller back.
    Park,
    /// Wake the tasks that must be woken.
    WakeTasks,
    /// The I/O thread has the poller now. Look for work, and serve the waiting callers.
    Serve,
    /// End, because the last handle was dropped.
    Close,
}

/// See the [module](self). `W` is the type of the wire, and `O` identifies an operation.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(Hash))]
pub(super) struct Roles<W, O> {
    /// `true` if there is work for the wire.
    pub(super) work: bool,
    /// The wire, or `None` while a thread moves bytes.
    pub(super) wire: Option<W>,
    pub(super) poll: Poll<O>,
    pub(super) io_thread: IoThread,
    /// `true` if the I/O thread has the poller, or is calling wakers between two sleeps in the poller. Callers then
    /// leave the writing to the I/O thread.
    pub(super) serving: bool,
    pub(super) closing: bool,
    /// `true` if a caller has slept in the poller since the last call of [`Roles::orders`].
    looked: bool,
}

impl<W, O: Copy + Eq> Roles<W, O> {
    pub(super) const fn new(wire: W) -> Self {
        Self {
            work: false,
            wire: Some(wire),
            poll: Poll::Free,
            io_thread: IoThread::Busy,
            serving: false,
            closing: false,
            looked: false,
        }
    }

    // ----- calls from any thread --------------------------------------------------------------

    pub(super) fn has_work(&self) -> bool {
        self.work && self.wire.is_some()
    }

    /// Returns `true` if callers may take the poller: few operations wait, or the I/O thread is calling wakers. A waker
    /// may itself call the handle and wait.
    pub(super) fn leaves_poll(&self, waiting: usize) -> bool {
        waiting < MANY || self.io_thread == IoThread::Away
    }

    /// Gives the poller to the thread that waits for `operation`, if the poller was offered to that thread, or if the
    /// poller is free and the I/O thread need not serve. Returns `true` if the thread has the poller now.
    pub(super) fn take_poll(&mut self, operation: O, waiting: usize) -> bool {
        let takes = match self.poll {
            Poll::Free => self.leaves_poll(waiting),
            Poll::Offered(to) => to == operation,
            Poll::Awake(owner) => owner == Owner::Caller(operation), // This thread has the poller already.
            Poll::Asleep(..) => false,
        };
        if takes {
            self.poll = Poll::Awake(Owner::Caller(operation));
        }
        takes
    }

    pub(super) fn fall_asleep(&mut self, until: Instant) {
        if let Poll::Awake(owner) = self.poll {
            self.poll = Poll::Asleep(owner, until);
        }
    }

    /// Records that the thread with the poller has woken up, and that there is work for the wire.
    pub(super) fn wake_up(&mut self) {
        if let Poll::Asleep(owner, _) | Poll::Awake(owner) = self.poll {
            self.poll = Poll::Awake(owner);
            self.looked |= owner != Owner::IoThread;
        }
        self.work = true;
    }

    pub(super) fn give_back_poll(&mut self) {
        self.poll = Poll::Free;
        self.serving = false;
    }

    /// Ends a section under the mutex. Returns which threads to wake for the remaining work. Callers wait for `waiting`
    /// operations, and `open` returns `true` for an open operation. The next timer of the engine is due at `due`. If
    /// `tasks` is `true`, there are tasks to wake.
    pub(super) fn leave(
        &mut self,
        waiting: usize,
        open: impl FnOnce(O) -> bool,
        tasks: bool,
        due: impl FnOnce() -> Instant,
    ) -> Wake {
        let (work, wanted) = (self.has_work(), tasks || self.closing);
        // A thread that has the wire may change the next timer, and checks the timer when it puts the wire back.
        let is_late = |until| self.wire.is_some() && due() < until;
        let mut wake = Wake::default();
        let calls = match self.poll {
            Poll::Asleep(owner, until) => {
                let (ends, calls) = match owner {
                    Owner::IoThread => (wanted, false),
                    Owner::Caller(operation) => (!open(operation), wanted),
                };
                wake.sleeper = work || ends || is_late(until);
                if wake.sleeper {
                    self.poll = Poll::Awake(owner);
                }
                calls
            }
            Poll::Free => {
                let ends = match self.io_thread {
                    IoThread::Watching(until) => is_late(until),
                    IoThread::Parked => true, // The caller that had the poller has given it back.
                    IoThread::Busy | IoThread::Away | IoThread::Napping => false,
                };
                ends || work || waiting != 0 || wanted
            }
            Poll::Awake(Owner::IoThread) => false,
            Poll::Offered(_) | Poll::Awake(Owner::Caller(_)) => wanted,
        };
        if calls {
            wake.io_thread = !matches!(self.io_thread, IoThread::Busy | IoThread::Away);
            if wake.io_thread {
                self.io_thread = IoThread::Busy;
            }
        }
        wake
    }

    // ----- calls by the I/O thread ------------------------------------------------------------

    /// Returns the next step of the I/O thread, while callers wait for `waiting` operations. If `tasks` is `true`,
    /// there are tasks to wake.
    pub(super) fn orders(&mut self, waiting: usize, tasks: bool) -> Orders {
        self.io_thread = IoThread::Busy;
        // If no caller has slept in the poller, no caller has read the sockets or fired timers.
        let looked = core::mem::take(&mut self.looked);
        if self.closing && !tasks {
            return Orders::Close;
        }
        if self.poll != Poll::Free {
            self.serving = false;
            if tasks {
                return Orders::WakeTasks;
            }
            let (rest, orders) = match looked {
                false => (IoThread::Parked, Orders::Park),
                true => (IoThread::Napping, Orders::Nap),
            };
            self.io_thread = rest;
            return orders;
        }
        let needed = tasks || waiting != 0 || self.work;
        if looked && !needed {
            self.io_thread = IoThread::Napping;
            return Orders::Nap;
        }
        self.serve();
        Orders::Serve
    }

    /// Takes the free poller for the I/O thread.
    pub(super) fn serve(&mut self) {
        self.poll = Poll::Awake(Owner::IoThread);
        self.serving = true;
    }

    /// Records that the I/O thread is about to call wakers, without the poller.
    pub(super) fn go_away(&mut self) {
        self.io_thread = IoThread::Away;
        if self.poll == Poll::Awake(Owner::IoThread) {
            self.poll = Poll::Free;
        }
    }

    /// Records that the I/O thread has woken callers. Returns `true` if the I/O thread has the poller.
    pub(super) fn come_back(&mut self) -> bool {
        self.io_thread = IoThread::Busy;
        if self.poll == Poll::Free {
            self.serve();
        }
        self.poll == Poll::Awake(Owner::IoThread)
    }

    /// Gives the poller back, and records that the I/O thread waits without the poller.
    pub(super) fn watch(&mut self, until: Instant) {
        self.give_back_poll();
        self.io_thread = IoThread::Watching(until);
    }

    /// Records that the I/O thread has served callers and gives the poller back. These callers are likely to begin more
    /// operations soon.
    pub(super) fn has_served(&mut self) {
        self.give_back_poll();
        self.looked = true;
    }
}
