//! Who has the wire, who has the poll, where the I/O thread is, and who has to be woken for what.
//!
//! All of it is under the mutex of the engine, so each decision to sleep and each decision to wake are
//! ordered. Everybody ends his section under the mutex with [`Roles::leave`], which makes these true:
//!
//! 1. Work for the wire (something was asked of the engine, or a sleep in the poll has brought
//!    something) is seen by somebody: by the thread that has the wire, which looks again before it
//!    puts it back; or by the thread that has the poll and is awake, which looks before it falls
//!    asleep; or the I/O thread is called.
//! 2. If somebody waits, a thread has the poll, or was offered it, or the I/O thread is called.
//! 3. A thread that sleeps wakes for the next timer of the engine: the one in the poll, or the I/O
//!    thread that watches the descriptor while the poll is free.
//!
//! *Called* means that the I/O thread comes to [`Roles::orders`] and finds there what made it
//! necessary. Where it rests, the one who called wakes it, by a token that nobody else can take: also where
//! it watches the descriptor, whose events the thread in the poll may take away.
//!
//! `tests/interleavings` walks through every order of these steps.

use crate::time::Instant;

/// From how many operations that are waited for on no caller takes the poll, and the I/O thread serves.
/// Two threads hand the poll to each other (measured: as fast as an I/O thread that serves two).
pub(super) const MANY: usize = 3;

/// Who a role belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum Owner {
    Caller,
    IoThread,
}

/// Who has the poll.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum Poll {
    Free,
    /// A thread that waits was offered it, and comes to take or to refuse it.
    Offered,
    /// It is awake, and looks for work before it falls asleep.
    Awake(Owner),
    /// It sleeps in the poll until that time, and nobody has woken it.
    Asleep(Owner, Instant),
}

/// Where the I/O thread is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum IoThread {
    /// Awake, or in the poll: it comes to [`Roles::orders`] before it rests.
    Busy,
    /// Parked for a millisecond at most. Callers are active and need nothing of it.
    Napping,
    /// Parked for as long as a caller has the poll.
    Parked,
    /// It waits for the descriptor until that time, without having the poll.
    Watching(Instant),
}

/// Whom to wake, once the mutex is unlocked.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[must_use]
pub(super) struct Wake {
    /// The thread that sleeps in the poll.
    pub(super) descriptor: bool,
    /// The parked I/O thread.
    pub(super) thread: bool,
    /// The I/O thread that watches the descriptor.
    pub(super) watcher: bool,
}

impl Wake {
    /// Wherever the I/O thread is, it comes.
    pub(super) const EVERYBODY: Self = Self {
        descriptor: true,
        thread: true,
        watcher: true,
    };
}

/// What the I/O thread does next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Orders {
    /// Callers were active a moment ago: nothing, for a millisecond.
    Nap,
    /// A caller has the poll: nothing, until it gives it back.
    Park,
    /// Wake the tasks that are to be woken.
    WakeTasks,
    /// It has the poll now: see what there is to do, and serve those who wait.
    Serve,
    /// The last handle is gone.
    Close,
}

/// See the [module](self).
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(Hash))]
pub(super) struct Roles {
    /// There is work for the wire.
    pub(super) work: bool,
    pub(super) wire_is_taken: bool,
    pub(super) poll: Poll,
    pub(super) io_thread: IoThread,
    /// The I/O thread has to come.
    called: bool,
    /// The I/O thread serves: it has the poll, or calls wakers and comes back.
    serving: bool,
    /// The I/O thread sleeps until so many operations are waited for. Zero if it does not.
    pub(super) expected: usize,
    /// Tasks are to be woken.
    pub(super) tasks: bool,
    pub(super) closing: bool,
    /// The poll was given back in this section.
    gave_back: bool,
    /// How often a caller has given back the poll, since the I/O thread last looked.
    departures: u32,
}

impl Roles {
    pub(super) const fn new() -> Self {
        Self {
            work: false,
            wire_is_taken: false,
            poll: Poll::Free,
            io_thread: IoThread::Busy,
            called: false,
            serving: false,
            expected: 0,
            tasks: false,
            closing: false,
            gave_back: false,
            departures: 0,
        }
    }

    // ----- everybody ------------------------------------------------------------------------

    /// Returns `true` if a caller that has started an operation leaves the writing to the I/O thread,
    /// which serves others.
    pub(super) fn leaves_writing(&self) -> bool {
        self.serving
    }

    /// Returns `true` if there is work for the wire, and it is free.
    pub(super) fn has_work(&self) -> bool {
        self.work && !self.wire_is_taken
    }

    /// Takes the wire. Returns `true` if it was free.
    pub(super) fn take_wire(&mut self) -> bool {
        !core::mem::replace(&mut self.wire_is_taken, true)
    }

    pub(super) fn put_back_wire(&mut self) {
        self.wire_is_taken = false;
    }

    /// Takes the poll for a caller, if it was `offered` to it, or is free and not too many wait.
    /// Returns `true` if this caller has it now.
    pub(super) fn take_poll(&mut self, offered: bool, waiting: usize) -> bool {
        let takes = match self.poll {
            Poll::Free => waiting < MANY,
            Poll::Offered => offered,
            Poll::Awake(_) | Poll::Asleep(..) => false,
        };
        if takes {
            self.poll = Poll::Awake(Owner::Caller);
        }
        takes
    }

    /// The thread that has the poll falls asleep in it.
    pub(super) fn fall_asleep(&mut self, until: Instant) {
        if let Poll::Awake(owner) = self.poll {
            self.poll = Poll::Asleep(owner, until);
        }
    }

    /// The thread that has the poll is awake, and has brought something.
    pub(super) fn wake_up(&mut self) {
        if let Poll::Asleep(owner, _) = self.poll {
            self.poll = Poll::Awake(owner);
        }
        self.work = true;
    }

    /// The poll is free for others.
    pub(super) fn give_back_poll(&mut self) {
        if self.poll != Poll::Awake(Owner::IoThread) {
            self.departures = self.departures.saturating_add(1);
        }
        self.poll = Poll::Free;
        self.gave_back = true;
    }

    /// The poll was given back in this section, and a thread that waits is to take it.
    pub(super) fn offer_poll(&mut self) {
        self.poll = Poll::Offered;
    }

    /// The end of a section under the mutex: whom to wake for what is left. `waiting` operations are
    /// waited for, and the next timer of the engine is `due` then.
    pub(super) fn leave(&mut self, waiting: usize, due: impl FnOnce() -> Instant) -> Wake {
        let mut wake = Wake::default();
        let gave_back = core::mem::take(&mut self.gave_back);
        if self.expected != 0 && self.expected <= waiting {
            self.expected = 0;
            wake.thread = true;
        }
        let work = self.has_work();
        match self.poll {
            Poll::Asleep(owner, until) => {
                let wanted = owner == Owner::IoThread && (self.tasks || self.closing);
                // Who has the wire changes what is due, and ends its last section without it.
                if work || wanted || (!self.wire_is_taken && due() < until) {
                    self.poll = Poll::Awake(owner);
                    wake.descriptor = true;
                } else {
                    self.call_if(self.tasks || self.closing, &mut wake);
                }
            }
            Poll::Free => {
                let late = !self.wire_is_taken
                    && matches!(self.io_thread, IoThread::Watching(until) if due() < until);
                let needed = work || waiting != 0 || late || self.tasks || self.closing;
                self.call_if(needed, &mut wake);
                if gave_back && self.io_thread == IoThread::Parked {
                    self.io_thread = IoThread::Busy;
                    wake.thread = true;
                }
            }
            Poll::Awake(Owner::IoThread) => {}
            Poll::Offered | Poll::Awake(Owner::Caller) => {
                self.call_if(self.tasks || self.closing, &mut wake);
            }
        }
        wake
    }

    fn call_if(&mut self, needed: bool, wake: &mut Wake) {
        if !needed || self.called {
            return;
        }
        self.called = true;
        match self.io_thread {
            IoThread::Busy => {}
            IoThread::Napping | IoThread::Parked => {
                self.io_thread = IoThread::Busy;
                wake.thread = true;
            }
            IoThread::Watching(_) => {
                self.io_thread = IoThread::Busy;
                wake.watcher = true;
            }
        }
    }

    // ----- the I/O thread -------------------------------------------------------------------

    /// What to do next, while `waiting` operations are waited for. `may_wake`: not too many threads
    /// are held up in wakers.
    pub(super) fn orders(&mut self, waiting: usize, may_wake: bool) -> Orders {
        self.io_thread = IoThread::Busy;
        let called = core::mem::take(&mut self.called);
        let departures = core::mem::take(&mut self.departures);
        if self.take_tasks() && may_wake {
            return Orders::WakeTasks;
        }
        if self.closing {
            return Orders::Close;
        }
        if self.poll != Poll::Free {
            self.serving = false;
            self.io_thread = if departures == 0 {
                IoThread::Parked
            } else {
                IoThread::Napping
            };
            return if departures == 0 {
                Orders::Park
            } else {
                Orders::Nap
            };
        }
        let needed = called || waiting != 0 || self.work;
        if departures != 0 && !needed {
            self.io_thread = IoThread::Napping;
            return Orders::Nap;
        }
        self.take_poll_again();
        Orders::Serve
    }

    /// The I/O thread sees to the tasks that are to be woken, if there are any. Where no waker may be
    /// called, a thread that is held up in one calls the others when it comes back.
    pub(super) fn take_tasks(&mut self) -> bool {
        core::mem::take(&mut self.tasks)
    }

    /// The I/O thread has called wakers, and goes on if the poll is still free. Returns `true` if so.
    pub(super) fn take_poll_again(&mut self) -> bool {
        self.serving = self.poll == Poll::Free;
        if self.serving {
            self.poll = Poll::Awake(Owner::IoThread);
        }
        self.serving
    }

    /// The I/O thread, which has the poll, gives it back to watch the descriptor. Returns `false` if
    /// there is something to do.
    pub(super) fn watch(&mut self, waiting: usize, until: Instant) -> bool {
        self.serving = false;
        let quiet = waiting == 0 && !self.work && !self.called && !self.tasks && !self.closing;
        self.give_back_poll();
        if quiet {
            self.io_thread = IoThread::Watching(until);
        }
        quiet
    }

    /// The I/O thread has served callers, and gives back the poll. They are likely to come again.
    pub(super) fn has_served(&mut self) {
        self.serving = false;
        self.give_back_poll();
        self.departures = 1;
    }

    /// Another thread is the I/O thread from here on, and comes to [`Roles::orders`]. The one that was
    /// may have left wakers uncalled.
    pub(super) fn replace_io_thread(&mut self) {
        self.io_thread = IoThread::Busy;
        self.expected = 0;
        self.tasks = true;
    }
}
