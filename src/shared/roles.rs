//! Which thread has the wire and which has the poll, where the I/O thread is, and which threads to wake.
//!
//! All of this is under the mutex of the engine, so the decisions to sleep and to wake have an order. Every section
//! under the mutex ends with [`Roles::leave`], which ensures the following:
//!
//! 1. If there is work for the wire (a request to the engine, or the result of a sleep in the poll), a thread will see
//!    it: the thread that has the wire, which looks again before it puts the wire back; or the awake thread that has
//!    the poll, which looks before it falls asleep; or the I/O thread, which is called.
//! 2. If a caller waits for an operation, a thread has the poll or was offered it, or the I/O thread is called.
//! 3. A thread that sleeps wakes for the next timer of the engine: the thread in the poll, or the I/O thread that
//!    watches the descriptor while the poll is free.
//! 4. A caller does not sleep in the poll once its outcome is decided.
//! 5. If there are tasks to wake, the I/O thread is awake, or is called.
//!
//! *Called* means that the I/O thread comes to [`Roles::orders`] and finds the reason there. If it rests, the caller
//! wakes it by a token that no other thread can take. This matters while it watches the descriptor, because the thread
//! in the poll may take the descriptor's events.
//!
//! `tests/interleavings` walks through every order of these steps.

use crate::time::Instant;

/// If callers wait for at least this many operations, no caller takes the poll, and the I/O thread serves. Two threads
/// pass the poll to each other; measurements show no gain if the I/O thread serves both.
pub(super) const MANY: usize = 3;

/// The thread that a role belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum Owner<O> {
    /// The thread that waits for this operation.
    Caller(O),
    IoThread,
}

/// The thread that has the poll.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum Poll<O> {
    Free,
    /// It was offered to the thread that waits for this operation, which will come to take it.
    Offered(O),
    /// That thread is awake, and looks for work before it falls asleep.
    Awake(Owner<O>),
    /// That thread sleeps in the poll until this time, and no thread has woken it.
    Asleep(Owner<O>, Instant),
}

/// The state of the I/O thread.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum IoThread {
    /// Awake, or in the poll: it comes to [`Roles::orders`] before it rests.
    Busy,
    /// It is calling wakers, and then comes back.
    Away,
    /// It rests for at most a millisecond. Callers are active and do not need it.
    Napping,
    /// It rests for as long as a caller has the poll.
    Parked,
    /// It waits for the descriptor until this time, without the poll.
    Watching(Instant),
}

/// The roles whose threads have to be woken after the mutex is unlocked.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[must_use]
pub(super) struct Wake {
    /// The thread that sleeps in the poll.
    pub(super) sleeper: bool,
    /// The resting I/O thread.
    pub(super) io_thread: bool,
}

impl Wake {
    /// Wakes the I/O thread in any state, and a caller that has the poll.
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
    /// Rest until the caller that has the poll gives it back.
    Park,
    /// Wake the tasks that have to be woken.
    WakeTasks,
    /// It has the poll now: look for work, and serve the callers that wait.
    Serve,
    /// The last handle is dropped.
    Close,
}

/// See the [module](self). `W` is the wire, and `O` names an operation.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(Hash))]
pub(super) struct Roles<W, O> {
    /// There is work for the wire.
    pub(super) work: bool,
    /// `None` while a thread moves bytes.
    pub(super) wire: Option<W>,
    pub(super) poll: Poll<O>,
    pub(super) io_thread: IoThread,
    /// The I/O thread has the poll, or is calling wakers and will come back. A caller that has begun an operation
    /// leaves the writing to it.
    pub(super) serving: bool,
    pub(super) closing: bool,
    /// A caller has looked into the poll since the I/O thread last came for orders.
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

    // ----- any thread -------------------------------------------------------------------------

    /// Returns `true` if there is work for the wire, and it is free.
    pub(super) fn has_work(&self) -> bool {
        self.work && self.wire.is_some()
    }

    /// Returns `true` if callers poll for themselves: few operations wait, or the I/O thread calls wakers, one of which
    /// may call the handle and wait.
    pub(super) fn leaves_poll(&self, waiting: usize) -> bool {
        waiting < MANY || self.io_thread == IoThread::Away
    }

    /// Takes the poll for the thread that waits for `operation`, if it was offered to that thread, or is free and the
    /// I/O thread need not serve. Returns `true` if this thread has it now.
    pub(super) fn take_poll(&mut self, operation: O, waiting: usize) -> bool {
        let takes = match self.poll {
            Poll::Free => self.leaves_poll(waiting),
            Poll::Offered(to) => to == operation,
            Poll::Awake(owner) => owner == Owner::Caller(operation), // This thread has it already.
            Poll::Asleep(..) => false,
        };
        if takes {
            self.poll = Poll::Awake(Owner::Caller(operation));
        }
        takes
    }

    /// Records that the thread that has the poll falls asleep in it.
    pub(super) fn fall_asleep(&mut self, until: Instant) {
        if let Poll::Awake(owner) = self.poll {
            self.poll = Poll::Asleep(owner, until);
        }
    }

    /// Records that the thread that has the poll is awake, and has found something ready.
    pub(super) fn wake_up(&mut self) {
        if let Poll::Asleep(owner, _) | Poll::Awake(owner) = self.poll {
            self.poll = Poll::Awake(owner);
            self.looked |= owner != Owner::IoThread;
        }
        self.work = true;
    }

    /// Frees the poll for others.
    pub(super) fn give_back_poll(&mut self) {
        self.poll = Poll::Free;
        self.serving = false;
    }

    /// Ends a section under the mutex. Returns which threads to wake for the remaining work. Callers wait for `waiting`
    /// operations, and `open` says whether one of them is still open. The next timer of the engine is due at `due`.
    /// `tasks`: there are tasks to wake.
    pub(super) fn leave(
        &mut self,
        waiting: usize,
        open: impl FnOnce(O) -> bool,
        tasks: bool,
        due: impl FnOnce() -> Instant,
    ) -> Wake {
        let (work, wanted) = (self.has_work(), tasks || self.closing);
        // While a thread has the wire, the time of the next timer may change. That thread checks it once it has put the
        // wire back.
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
                    IoThread::Parked => true, // The caller that had the poll has given it back.
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

    // ----- the I/O thread ---------------------------------------------------------------------

    /// Returns the next step while callers wait for `waiting` operations. `tasks`: there are tasks to wake.
    pub(super) fn orders(&mut self, waiting: usize, tasks: bool) -> Orders {
        self.io_thread = IoThread::Busy;
        // A caller that needs no node does not look into the poll, so it reads nothing and fires no timer.
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

    /// Takes the poll, which is free, for the I/O thread.
    pub(super) fn serve(&mut self) {
        self.poll = Poll::Awake(Owner::IoThread);
        self.serving = true;
    }

    /// Records that the I/O thread is about to call wakers, without the poll.
    pub(super) fn go_away(&mut self) {
        self.io_thread = IoThread::Away;
        if self.poll == Poll::Awake(Owner::IoThread) {
            self.poll = Poll::Free;
        }
    }

    /// Records that the I/O thread has woken callers. Returns `true` if it still has the poll, or has it again.
    pub(super) fn come_back(&mut self) -> bool {
        self.io_thread = IoThread::Busy;
        if self.poll == Poll::Free {
            self.serve();
        }
        self.poll == Poll::Awake(Owner::IoThread)
    }

    /// Records that the I/O thread gives the poll back, and is about to watch the descriptor.
    pub(super) fn watch(&mut self, until: Instant) {
        self.give_back_poll();
        self.io_thread = IoThread::Watching(until);
    }

    /// Records that the I/O thread has served callers and gives the poll back. The callers are likely to come again.
    pub(super) fn has_served(&mut self) {
        self.give_back_poll();
        self.looked = true;
    }
}
