//! How bytes are moved and outcomes are told: the sections under the mutex, and what happens between
//! them.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};
use core::task::Waker;
use core::time::Duration;
use std::sync::{MutexGuard, PoisonError};
use std::thread;

use super::Shared;
use super::callers::Told;
use super::mutex::Locked;
use super::roles::Wake;
use super::slot::{Outcome, Settled, Slot};
use super::state::Core;
use crate::driver::{Refusal, clock};
use crate::engine::RoundId;
use crate::quorum::Lock;
use crate::time::Instant;

/// Pause after the system refused to wait, which it does only for want of memory.
const RECOVERY: Duration = Duration::from_millis(1);

/// How often in a row a thread moves bytes. What is left then is the I/O thread's, so that nobody is
/// kept by the work of others.
const MOVES_MAX: usize = 16;

/// How long a drop waits at most until the thread that has the wire has written its release. That
/// thread does not sleep, so that it takes longer only if it is not scheduled.
const WRITING_MAX: Duration = Duration::from_millis(200);

/// The mutex of the engine, while this thread has it. Dropping it unlocks it, wakes whom
/// [`Roles::leave`](super::roles::Roles::leave) says, and tells what is decided.
#[derive(Debug)]
pub(super) struct Section<'a> {
    shared: &'a Shared,
    /// `None` only while it is dropped.
    core: Option<Locked<'a, Core>>,
    /// Whether this thread was panicking already, on account of something else.
    was_panicking: bool,
}

/// What breaks the handle down if this thread panics while it has the wire or the poll, or at the end of a
/// section.
struct Holding<'a> {
    shared: &'a Shared,
    was_panicking: bool,
}

impl Shared {
    // ----- sections -------------------------------------------------------------------------

    /// Locks the mutex.
    pub(super) fn enter(&self) -> Result<Section<'_>, Refusal> {
        self.section(self.core.lock())
    }

    /// Locks the mutex if that is possible by `until`.
    pub(super) fn enter_until(
        &self,
        until: Option<Instant>,
    ) -> Result<Option<Section<'_>>, Refusal> {
        let locked = self.core.lock_until(until);
        locked.map(|core| self.section(core)).transpose()
    }

    fn section<'a>(&'a self, core: Locked<'a, Core>) -> Result<Section<'a>, Refusal> {
        if core.is_closed {
            return Err(Refusal::Closed);
        }
        Ok(Section {
            shared: self,
            core: Some(core),
            was_panicking: thread::panicking(),
        })
    }

    fn leave(&self, locked: Locked<'_, Core>) {
        let holding = Holding::new(self);
        let mut locked = locked; // Dropped before that is, in a panic.
        let core = &mut *locked;
        let wake = core.leave();
        let offered = core.offered_now.take();
        let progress = (core.awaiting != 0).then_some((core.written, core.put_back));
        let told = match core.callers.has_told() {
            true => core.callers.take_told(self.take_spare()),
            false => Vec::new(),
        };
        drop(locked);
        drop(holding);
        self.wake(wake);
        if let Some((written, put_back)) = progress {
            self.progress.tell(written, put_back);
        }
        if let Some(slot) = offered {
            slot.offer();
        }
        self.deliver(told);
    }

    fn wake(&self, whom: Wake) {
        if whom.descriptor {
            // A write to an eventfd that is open cannot fail.
            let _ = self.waker.wake();
        }
        if whom.thread {
            self.unpark_io_thread();
        }
        if whom.watcher {
            self.call.send();
        }
    }

    /// Tells what is decided. Tasks are left to the I/O thread.
    fn deliver(&self, mut told: Vec<Told>) {
        if told.is_empty() {
            return;
        }
        let mut wakers = Vec::new();
        for told in told.drain(..) {
            match told {
                Told::Outcome(slot, outcome) => match slot.settle(outcome) {
                    Settled::Told(waker) => wakers.extend(waker),
                    Settled::Unwanted(Outcome::Acquired(Ok(grant))) => {
                        if let Ok(mut section) = self.enter() {
                            section.give_back(grant.lock);
                        }
                    }
                    Settled::Unwanted(_) => {}
                },
                Told::Lost(slot) => slot.watch.lose(&mut wakers),
                Told::Ends(slot, until) => slot.watch.ends(until),
            }
        }
        self.keep_spare(told);
        if !wakers.is_empty() {
            self.leave_to_io_thread(wakers);
        }
    }

    fn leave_to_io_thread(&self, mut wakers: Vec<Waker>) {
        // Before the mutex is locked: those that are there twice are dropped, which is code of a user.
        self.wakers.add(&mut wakers);
        match self.enter() {
            Ok(mut section) => section.roles.tasks = true,
            Err(_) => self.wakers.run(Duration::MAX),
        }
    }

    /// A room for what is told, so that telling does not allocate.
    fn take_spare(&self) -> Vec<Told> {
        let spare = self.spare.try_lock();
        spare.map_or_else(|_| Vec::new(), |mut spare| core::mem::take(&mut *spare))
    }

    fn keep_spare(&self, told: Vec<Told>) {
        if let Ok(mut spare) = self.spare.try_lock() {
            *spare = told;
        }
    }

    // ----- bytes ----------------------------------------------------------------------------

    /// Moves bytes until neither side has more, if the wire is free. A thread that has it looks again
    /// before it puts it back.
    pub(super) fn move_bytes<'a>(&'a self, section: Section<'a>) -> Result<Section<'a>, Refusal> {
        self.move_bytes_until(section, |_, _| false)
    }

    /// As [`Self::move_bytes`], for the thread that serves: it reads and writes once, and between the two
    /// returns if something is to be told. Those who are told ask for more, which is then written with it.
    pub(super) fn serve_bytes<'a>(&'a self, section: Section<'a>) -> Result<Section<'a>, Refusal> {
        self.move_bytes_until(section, |core, has_read| {
            !has_read || core.callers.has_told()
        })
    }

    /// `is_enough` hears after each time whether something was read.
    fn move_bytes_until<'a>(
        &'a self,
        mut section: Section<'a>,
        is_enough: impl Fn(&Core, bool) -> bool,
    ) -> Result<Section<'a>, Refusal> {
        if !section.roles.take_wire() {
            return Ok(section);
        }
        let mut wire = section
            .wire
            .take()
            .expect("it is there while nobody has it");
        let (mut moves, mut has_read) = (0, false);
        loop {
            if !section.exchange(&mut wire) {
                section.written = section.copied;
                break;
            }
            if moves == MOVES_MAX || (moves != 0 && is_enough(&section, has_read)) {
                section.roles.work = true;
                break;
            }
            moves += 1;
            drop(section);
            let holding = Holding::new(self);
            has_read = wire.run(&self.registry);
            drop(holding);
            section = self.enter()?;
            section.written = section.copied;
        }
        section.put_back(wire);
        Ok(section)
    }

    /// Sleeps in the poll, which this thread has, until something is ready, a timer is due or `until`
    /// has come. If there is work for the wire it only looks what is ready.
    pub(super) fn sleep_in_poll<'a>(
        &'a self,
        mut section: Section<'a>,
        until: Option<Instant>,
    ) -> Result<Section<'a>, Refusal> {
        let now = clock::now();
        let wakes = match section.roles.has_work() {
            true => now,
            false => section.sleeps_until(now, self.spin),
        };
        let wakes = until.map_or(wakes, |until| until.min(wakes));
        let limit = (wakes != Instant::MAX).then(|| wakes.saturating_since(now));
        let mut poller = section.poller.take().expect("this thread has the poll");
        if now < wakes {
            section.roles.fall_asleep(wakes);
        }
        drop(section);
        let holding = Holding::new(self);
        let slept = poller.sleep(limit);
        drop(holding);
        if slept.is_err() {
            thread::sleep(RECOVERY);
        }
        let mut section = self.enter()?;
        section.poller = Some(poller);
        section.roles.wake_up();
        section.note(slept.unwrap_or_default());
        Ok(section)
    }

    // ----- callers --------------------------------------------------------------------------

    /// Waits on this thread for the outcome of `round`, which was begun in `section`, no longer than
    /// `until` by the clock of this thread. It moves the bytes itself where nobody serves, and sleeps in
    /// the poll if it is alone. Returns `None` if it has waited in vain; the operation is cancelled
    /// then.
    pub(super) fn wait_for(
        &self,
        section: Section<'_>,
        slot: &Arc<Slot>,
        round: RoundId,
        until: Option<Instant>,
    ) -> Option<Outcome> {
        match self.await_outcome(section, slot, round, until) {
            Ok(None) => slot.abandon().or_else(|| {
                self.give_up(round);
                None
            }),
            Ok(outcome) => outcome,
            Err(_) => Some(Outcome::Closed),
        }
    }

    /// The thread that has begun the operation of `round` waits no longer. Where another one is stopped with the
    /// mutex the I/O thread cancels it: otherwise the poll might be offered to a thread that has gone.
    fn give_up(&self, round: RoundId) {
        match self.enter_until(Some(Instant::ZERO)) {
            Ok(Some(mut section)) => {
                section.cancel(round);
                self.flush(section);
            }
            Ok(None) => {
                self.lock_given_up().push(round);
                self.wake(Wake::EVERYBODY);
            }
            Err(_) => {}
        }
    }

    /// The operations that their threads have given up and could not cancel.
    pub(super) fn take_given_up(&self) -> Vec<RoundId> {
        core::mem::take(&mut *self.lock_given_up())
    }

    fn lock_given_up(&self) -> MutexGuard<'_, Vec<RoundId>> {
        self.given_up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn await_outcome<'a>(
        &'a self,
        mut section: Section<'a>,
        slot: &Arc<Slot>,
        round: RoundId,
        until: Option<Instant>,
    ) -> Result<Option<Outcome>, Refusal> {
        let mut has_poll = false;
        loop {
            // Before the bytes are moved: otherwise the I/O thread would be called for the poll.
            has_poll = has_poll || section.take_poll(round);
            if has_poll || !section.roles.leaves_writing() {
                section = self.move_bytes(section)?;
            }
            let is_late = until.is_some_and(|until| until <= clock::now());
            if is_late || !section.callers.is_open(round) {
                section.cancel(round);
                if has_poll {
                    section.pass_on_poll();
                }
                let outcome = section.callers.take_own(slot);
                drop(section);
                // Otherwise another thread is about to tell it.
                return Ok(outcome.or_else(|| slot.wait_for_outcome(until)));
            }
            if has_poll {
                section = self.sleep_in_poll(section, until)?;
                continue;
            }
            drop(section);
            let woken = slot.wait(until);
            if woken.outcome.is_some() || !woken.offered {
                return Ok(woken.outcome);
            }
            section = match self.enter_until(until)? {
                Some(section) => section,
                None => return Ok(None),
            };
        }
    }

    /// Ends a section in which something was asked for that nobody waits for.
    pub(super) fn flush(&self, mut section: Section<'_>) {
        section.ask();
        // If the engine breaks, those who wait are told so.
        drop(self.move_bytes(section));
    }

    /// Ends a section of a task in which an operation was begun. It moves the bytes itself where
    /// nobody serves, and the I/O thread waits for the answers.
    pub(super) fn begin_for_task(&self, section: Section<'_>) {
        if !section.roles.leaves_writing() {
            // If the engine breaks, the task is told so.
            drop(self.move_bytes(section));
        }
    }

    /// Releases `lock`, whose slot is `slot`. Its release is written then, but not answered.
    pub(super) fn give_back(&self, slot: &Slot, lock: Lock) {
        slot.watch.release();
        if let Ok(mut section) = self.enter() {
            section.give_back(lock);
            self.see_written(section);
        }
    }

    /// Nobody waits for the operation of `round` any more: what it may have won is given back, and that is
    /// written then.
    pub(super) fn cancel(&self, slot: &Arc<Slot>, round: RoundId) {
        let Ok(mut section) = self.enter() else {
            return;
        };
        let mut outcome = None;
        if !section.cancel(round) {
            outcome = section.callers.take_own(slot);
            if outcome.is_none() {
                drop(section);
                outcome = slot.take_told(clock::now().saturating_add(WRITING_MAX));
                match self.enter() {
                    Ok(again) => section = again,
                    Err(_) => return,
                }
            }
        }
        if let Some(Outcome::Acquired(Ok(grant))) = outcome {
            section.give_back(grant.lock);
        }
        self.see_written(section);
    }

    /// Ends a section in which something was asked for, and returns when it is written: the program
    /// may end next. If another thread has the wire, waits the moment until that has written it.
    pub(super) fn see_written<'a>(&'a self, mut section: Section<'a>) {
        section.catch_up();
        let (asked, until) = (section.asked, clock::now().saturating_add(WRITING_MAX));
        while let Ok(mut moved) = self.move_bytes(section) {
            if asked <= moved.written || moved.is_stuck {
                return;
            }
            moved.awaiting += 1;
            let put_back = moved.put_back;
            drop(moved);
            let in_time = self.progress.wait(asked, put_back, until);
            let Ok(again) = self.enter() else { return };
            section = again;
            section.awaiting -= 1;
            section.is_stuck |= !in_time && section.put_back == put_back;
        }
    }

    // ----- the end of the engine ------------------------------------------------------------

    /// This thread has panicked with the engine, the wire or the poll. Everybody is told.
    pub(super) fn break_down(&self, mut core: Locked<'_, Core>) {
        core.break_down();
        let told = core.callers.take_told(Vec::new());
        drop(core);
        self.wake(Wake::EVERYBODY);
        self.progress.tell(u64::MAX, u64::MAX);
        self.deliver(told);
    }
}

impl Deref for Section<'_> {
    type Target = Core;

    fn deref(&self) -> &Core {
        self.core.as_ref().expect("held until it is dropped")
    }
}

impl DerefMut for Section<'_> {
    fn deref_mut(&mut self) -> &mut Core {
        self.core.as_mut().expect("held until it is dropped")
    }
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        let Some(core) = self.core.take() else { return };
        match thread::panicking() && !self.was_panicking {
            true => self.shared.break_down(core),
            false => self.shared.leave(core),
        }
    }
}

impl<'a> Holding<'a> {
    fn new(shared: &'a Shared) -> Self {
        let was_panicking = thread::panicking();
        Self {
            shared,
            was_panicking,
        }
    }
}

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        if thread::panicking() && !self.was_panicking {
            self.shared.break_down(self.shared.core.lock());
        }
    }
}
