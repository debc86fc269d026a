//! The state that the mutex protects: the engine, the table of callers, and the roles.
//!
//! The mutex is held for computation only: no system call, no user code, no sleep. Outcomes are delivered to the slots
//! of their callers under the mutex. Threads are woken after the mutex is unlocked. The I/O thread wakes tasks.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::time::Duration;

use super::callers::{Callers, WaitsAs};
use super::notes::{Asked, Note, Notes};
use super::roles::{Poll, Roles, Wake};
use super::slot::Slot;
use crate::calls;
use crate::clock;
use crate::driver::{Poller, Readiness, Wire, until_deadline};
use crate::engine::{Engine, Input, RoundId};
use crate::quorum::Lock;
use crate::time::Instant;
use crate::trace;

/// The largest capacity of an empty list of notes that is kept for reuse.
const NOTES_KEPT: usize = 256;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Core {
    pub(super) engine: Engine,
    pub(super) callers: Callers,
    pub(super) roles: Roles<Box<Wire>, RoundId>,
    /// The poll, or `None` while a thread sleeps in it.
    pub(super) poller: Option<Box<Poller>>,
    /// The result of a sleep in the poll, which the wire has not read yet.
    readiness: Option<Readiness>,
    /// `true` if timers may be due. Timers fire after the result of the sleep is read.
    tick: bool,
    /// The notes whose requests the engine begins next.
    noted: VecDeque<Note>,
    /// The total number of requests to write.
    pub(super) asked: u64,
    /// The number of requests that were copied for the wire.
    pub(super) copied: u64,
    /// The number of requests that were written.
    pub(super) written: u64,
    /// The number of threads that wait until their request is written.
    pub(super) awaiting: usize,
    /// `true` if a thread has waited too long for its request to be written, and the wire was not put back since then.
    pub(super) is_stuck: bool,
    /// `true` if every call is refused. The handle is closed if a thread has panicked while it had the engine, the wire
    /// or the poll, or if the connections are closed.
    pub(super) is_closed: bool,
    /// `true` if the next section panics at its end.
    #[cfg(all(test, feature = "embedded"))]
    pub(super) breaks_at_its_end: bool,
}

impl Core {
    pub(super) fn new(engine: Engine, wire: Wire, poller: Poller) -> Self {
        Self {
            engine,
            callers: Callers::new(),
            roles: Roles::new(Box::new(wire)),
            poller: Some(Box::new(poller)),
            readiness: None,
            tick: false,
            noted: VecDeque::new(),
            asked: 0,
            copied: 0,
            written: 0,
            awaiting: 0,
            is_stuck: false,
            is_closed: false,
            #[cfg(all(test, feature = "embedded"))]
            breaks_at_its_end: false,
        }
    }

    // ----- requests ---------------------------------------------------------------------------

    /// Begins an operation whose outcome will be delivered to `slot`.
    pub(super) fn begin<E>(
        &mut self,
        slot: &Arc<Slot>,
        waiter: WaitsAs,
        ask: impl FnOnce(&mut Engine, Instant) -> Result<RoundId, E>,
    ) -> Result<(), E> {
        let round = ask(&mut self.engine, clock::now())?;
        self.callers.open(round, Arc::clone(slot), waiter);
        self.ask();
        Ok(())
    }

    /// Begins the request in `note`. If the engine refuses the request, delivers the reason to the slot of the note.
    pub(super) fn begin_noted(&mut self, note: Note) {
        self.noted.push_back(note);
        self.begin_all_noted();
    }

    /// Begins the requests in `notes`.
    pub(super) fn take_notes(&mut self, notes: &Notes) {
        notes.take(&mut self.noted);
        self.begin_all_noted();
    }

    fn begin_all_noted(&mut self) {
        let now = clock::now();
        // Keeps a note in the list until its request has begun: if the engine panics meanwhile, all callers in the list
        // are refused.
        while let Some(note) = self.noted.front_mut() {
            let begun = match note.asked.take() {
                Some(Asked::Acquire(wanted, options)) => wanted
                    .request(&options.unpacked(), |request| {
                        calls::acquire(&mut self.engine, now, request)
                    }),
                Some(Asked::Release(lock)) => {
                    // Reads the clock again, because the lock may have been reported as lost after `now`.
                    self.callers.release(clock::now(), &lock);
                    Ok(self.engine.release(now, lock))
                }
                None => unreachable!("it is taken once"),
            };
            let Some(Note { slot, waiter, .. }) = self.noted.pop_front() else {
                break;
            };
            match begun {
                Ok(round) => self.callers.open(round, slot, waiter),
                Err(error) => self.callers.refuse(slot, error),
            }
            self.ask();
        }
        if NOTES_KEPT < self.noted.capacity() {
            self.noted = VecDeque::new();
        }
    }

    pub(super) fn give_back(&mut self, lock: Lock) {
        let now = clock::now();
        self.callers.release(now, &lock);
        self.engine.give_back(now, lock);
        self.ask();
    }

    pub(super) fn detach(&mut self, lock: Lock) -> Lock {
        let now = clock::now();
        self.callers.release(now, &lock);
        self.ask();
        self.engine.detach(now, lock)
    }

    /// Adopts `lock`. A loss of the lock will be reported to `slot`.
    pub(super) fn adopt(&mut self, slot: &Arc<Slot>, lock: Lock) -> Lock {
        let lock = self.engine.adopt(clock::now(), lock);
        self.callers.watch(slot, &lock);
        lock
    }

    /// Cancels the operation of `round`, unless its outcome is decided.
    pub(super) fn cancel(&mut self, round: RoundId) {
        if self.callers.take(round).is_some() {
            self.engine.cancel(clock::now(), round);
            self.ask();
        }
    }

    /// Counts a request that the wire must write.
    pub(super) fn ask(&mut self) {
        self.asked += 1;
        self.roles.work = true;
    }

    // ----- bytes ------------------------------------------------------------------------------

    /// Records the sockets that became ready during a sleep, so that the wire reads them.
    pub(super) fn note(&mut self, readiness: Readiness) {
        self.readiness
            .get_or_insert_with(Readiness::default)
            .merge(readiness);
        self.roles.work = true;
    }

    /// Passes the received bytes from `wire` to the engine, and the bytes to send from the engine to `wire`. Returns
    /// `true` if the wire has something to do. Timers fire after each read, even if more bytes have arrived.
    pub(super) fn exchange(&mut self, wire: &mut Wire) -> bool {
        self.roles.work = false;
        wire.hand_in(&mut self.engine);
        if self.tick && !wire.is_unread() {
            self.tick = false;
            let now = clock::now();
            self.engine.handle(now, Input::Tick);
            trace::look(&mut self.engine, now);
        }
        if let Some(readiness) = self.readiness.take() {
            wire.note(readiness);
            self.tick = true;
            return true;
        }
        self.copied = self.asked;
        let callers = &mut self.callers;
        let has_more = wire.copy(&mut self.engine, |engine, event| {
            callers.handle(engine, event);
        });
        if !has_more {
            self.written = self.copied;
        }
        has_more
    }

    /// Returns when a thread that sleeps in the poll must wake. If there is work for the wire, returns `now`. With
    /// `spin`, also returns `now` if an operation is open.
    pub(super) fn sleeps_until(&self, now: Instant, spin: bool) -> Instant {
        if self.roles.has_work() || spin && self.engine.load().rounds != 0 {
            return now;
        }
        if self.roles.wire.is_none() {
            // Another thread has the wire and may set an earlier timer, so this thread wakes soon.
            return now.saturating_add(Duration::from_millis(1));
        }
        let limit = until_deadline(&self.engine, now);
        limit.map_or(Instant::MAX, |limit| now.saturating_add(limit))
    }

    /// Returns the time of the engine's next timer.
    pub(super) fn due(&self) -> Instant {
        due(&self.engine)
    }

    // ----- roles ------------------------------------------------------------------------------

    /// Returns the number of operations that callers wait for, without the resting operations of tasks.
    pub(super) fn waiting(&self) -> usize {
        self.callers.waiting() - self.resting_tasks()
    }

    /// Like [`waiting`](Self::waiting), but counts only the operations of tasks.
    pub(super) fn tasks(&self) -> usize {
        self.callers.tasks() - self.resting_tasks()
    }

    /// Returns the number of resting operations of tasks. A resting operation currently sends nothing to the nodes. The
    /// number may include resting operations of threads, which does no harm.
    pub(super) fn resting_tasks(&self) -> usize {
        self.engine.resting().min(self.callers.tasks())
    }

    pub(super) fn leave(&mut self) -> Wake {
        #[cfg(all(test, feature = "embedded"))]
        assert!(!core::mem::take(&mut self.breaks_at_its_end), "expected");
        // A thread whose operation is decided does not take the poll, so the poll is offered to another thread.
        if let Poll::Offered(round) = self.roles.poll
            && !self.callers.is_open(round)
        {
            self.pass_on_poll();
        }
        let waiting = self.waiting();
        let (callers, engine) = (&self.callers, &self.engine);
        let open = |round| callers.is_open(round);
        let tasks = !callers.tasks.is_empty();
        let due = || due(engine);
        self.roles.leave(waiting, open, tasks, due)
    }

    /// Returns `true` if the I/O thread serves and can fire the timers of the engine.
    pub(super) fn is_served(&self) -> bool {
        self.roles.serving && self.roles.wire.is_some()
    }

    pub(super) fn put_back(&mut self, wire: Box<Wire>) {
        self.roles.wire = Some(wire);
        self.is_stuck = false;
    }

    /// Gives the poll to the thread that waits for `round`, if that thread may have it.
    pub(super) fn take_poll(&mut self, round: RoundId) -> bool {
        self.roles.take_poll(round, self.waiting())
    }

    /// Passes the poll to a waiting thread if few operations wait, and otherwise to the I/O thread.
    pub(super) fn pass_on_poll(&mut self) {
        self.roles.give_back_poll();
        if self.roles.leaves_poll(self.waiting()) {
            self.offer_poll();
        }
    }

    /// Offers the free poll to a thread, if one waits.
    pub(super) fn offer_poll(&mut self) {
        if let Some(round) = self.callers.offer() {
            self.roles.poll = Poll::Offered(round);
        }
    }

    /// Makes the wire also read, if more than two commands to a node are unanswered. The drop of a guard calls this
    /// function, because the program may end after the drop.
    ///
    /// If a connection is closed with unread answers, the kernel resets it. If the server then writes another answer,
    /// the write fails, and the server drops its unread input, which may contain the release. With only two commands in
    /// flight, the other answer is the answer to the release itself, so the release cannot be lost.
    pub(super) fn read_if_behind(&mut self) {
        if 2 < self.engine.nodes().most_in_flight() {
            self.note(Readiness::all_readable(self.engine.nodes().len()));
        }
    }

    // ----- shutdown ---------------------------------------------------------------------------

    /// Handles a panic of the engine. Closes the handle, refuses every call, and reports every lock as lost.
    pub(super) fn break_down(&mut self, notes: &Notes) {
        self.is_closed = true;
        notes.close(&mut self.noted);
        self.callers
            .refuse_all(self.noted.drain(..).map(|note| note.slot));
        self.engine.end_all_kept();
    }
}

fn due(engine: &Engine) -> Instant {
    engine.poll_timeout().map_or(Instant::MAX, |(at, _)| at)
}
