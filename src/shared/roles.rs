//! Which thread has the wire, which has the poll, where the I/O thread is, and which threads are woken.
//!
//! All of it is under the mutex of the engine, so each decision to sleep and each decision to wake are
//! ordered. Every section under the mutex ends with [`Roles::leave`], which makes these true:
//!
//! 1. Work for the wire (a request to the engine, or what a sleep in the poll has brought) is seen by a
//!    thread: by the one that has the wire, which looks again before it puts it back; or by the one that
//!    has the poll and is awake, which looks before it falls asleep; or the I/O thread is called.
//! 2. If an operation is waited for, a thread has the poll, or was offered it, or the I/O thread is
//!    called.
//! 3. A thread that sleeps wakes for the next timer of the engine: the one in the poll, or the I/O
//!    thread that watches the descriptor while the poll is free, or a caller that waits in its slot, which
//!    then wakes the one in the poll.
//! 4. A caller does not sleep in the poll once its outcome is decided.
//!
//! *Called* means that the I/O thread comes to [`Roles::orders`] and finds the reason there. If it rests,
//! the thread that calls it wakes it, by a token that no other thread can take. That holds also while it
//! watches the descriptor, whose events the thread in the poll may take.
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

/// Which thread has the poll.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum Poll {
    Free,
    /// It was offered to a thread that waits, which comes to take or to refuse it.
    Offered,
    /// That thread is awake, and looks for work before it falls asleep.
    Awake(Owner),
    /// That thread sleeps in the poll until that time, and no thread has woken it.
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
    /// It waits for the descriptor until that time, without the poll.
    Watching(Instant),
}

/// Which threads to wake, once the mutex is unlocked.
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
    /// Wakes the I/O thread wherever it is, and a caller that has the poll.
    pub(super) const ALL: Self = Self {
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
    /// The last handle is dropped.
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
    /// Tasks are to be woken.
    pub(super) tasks: bool,
    pub(super) closing: bool,
    /// The poll was given back in this section.
    gave_back: bool,
    /// How often a caller has given back the poll, since the I/O thread last looked.
    departures: u32,
    /// A caller has looked into the poll since the I/O thread last found that free.
    looked: bool,
    /// A caller that waits in its slot enters again by that time, unless an outcome is delivered before.
    alarm: Instant,
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
            tasks: false,
            closing: false,
            gave_back: false,
            departures: 0,
            looked: false,
            alarm: Instant::MAX,
        }
    }

    // ----- any thread -----------------------------------------------------------------------

    /// Returns `true` if a caller that has begun an operation leaves the writing to the I/O thread, which
    /// serves others.
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
        if let Poll::Asleep(owner, _) | Poll::Awake(owner) = self.poll {
            self.poll = Poll::Awake(owner);
            self.looked |= owner == Owner::Caller;
        }
        self.work = true;
        self.end_alarm();
    }

    /// A caller is about to wait in its slot, and the next timer of the engine is due at `due`. If another
    /// caller sleeps in the poll, and would wake too late for that, this one enters again then, and the
    /// time is returned. Mostly its outcome comes before, and the other has not been woken in vain. For what
    /// is due at `now` already there is no alarm: [`Self::leave`] wakes the other.
    pub(super) fn set_alarm(
        &mut self,
        now: impl FnOnce() -> Instant,
        due: impl FnOnce() -> Instant,
    ) -> Option<Instant> {
        let Poll::Asleep(Owner::Caller, until) = self.poll else {
            return None;
        };
        let due = due();
        if until.min(self.alarm) <= due || due <= now() {
            return None;
        }
        self.alarm = due;
        Some(due)
    }

    /// The caller that was to enter at the time of the alarm has entered, or may have its outcome.
    pub(super) fn end_alarm(&mut self) {
        self.alarm = Instant::MAX;
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

    /// Ends a section under the mutex. Returns which threads to wake for what is left to do. `waiting`
    /// operations are waited for, and the next timer of the engine is due at `due`. `served`: the operation
    /// of the caller that has the poll is decided.
    pub(super) fn leave(
        &mut self,
        waiting: usize,
        served: bool,
        due: impl FnOnce() -> Instant,
    ) -> Wake {
        let mut wake = Wake::default();
        let gave_back = core::mem::take(&mut self.gave_back);
        let work = self.has_work();
        match self.poll {
            Poll::Asleep(owner, until) => {
                let wanted = match owner {
                    Owner::IoThread => self.tasks || self.closing,
                    Owner::Caller => served,
                };
                // A thread that has the wire may change what is due. Its last section ends without it.
                let until = until.min(self.alarm);
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

    /// Returns what to do next, while `waiting` operations are waited for. `may_wake`: not too many threads
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
            let (rest, orders) = match departures {
                0 => (IoThread::Parked, Orders::Park),
                _ => (IoThread::Napping, Orders::Nap),
            };
            self.io_thread = rest;
            return orders;
        }
        // Callers whose calls need no node read nothing, and fire no timer.
        let looked = core::mem::take(&mut self.looked);
        let needed = called || waiting != 0 || self.work;
        if departures != 0 && looked && !needed {
            self.io_thread = IoThread::Napping;
            return Orders::Nap;
        }
        self.take_poll_again();
        Orders::Serve
    }

    /// Takes the note that tasks are to be woken, for the I/O thread. If it may call no waker now, a thread
    /// that is held up in one calls the others when it comes back.
    pub(super) fn take_tasks(&mut self) -> bool {
        core::mem::take(&mut self.tasks)
    }

    /// Takes the poll for the I/O thread, if it is free. Returns `true` if so.
    pub(super) fn take_poll_again(&mut self) -> bool {
        self.serving = self.poll == Poll::Free;
        if self.serving {
            self.poll = Poll::Awake(Owner::IoThread);
        }
        self.serving
    }

    /// Gives the poll back, for the I/O thread, which watches the descriptor next. Returns `false` if there
    /// is something to do instead.
    pub(super) fn watch(&mut self, waiting: usize, until: Instant) -> bool {
        self.serving = false;
        let quiet = waiting == 0 && !self.work && !self.called && !self.tasks && !self.closing;
        self.give_back_poll();
        if quiet {
            self.io_thread = IoThread::Watching(until);
        }
        quiet
    }

    /// Gives the poll back, for the I/O thread, which has served callers. They are likely to come again.
    pub(super) fn has_served(&mut self) {
        self.serving = false;
        self.give_back_poll();
        self.departures = 1;
        self.looked = true;
    }

    /// Makes another thread the I/O thread, which comes to [`Roles::orders`] next. The one before may have
    /// left wakers uncalled.
    pub(super) fn replace_io_thread(&mut self) {
        self.io_thread = IoThread::Busy;
        self.tasks = true;
    }
}
