//! The sections under the mutex, and what happens between them: moving bytes, sleeping in the poll,
//! delivering outcomes, waiting for one.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering;
use core::task::Waker;
use core::time::Duration;
use std::thread;

use super::Shared;
use super::callers::{Delivery, WaitsAs};
use super::mutex::Locked;
use super::roles::Wake;
use super::slot::{Outcome, Slot};
use super::state::{Core, Left, Slept};
use super::tenure::NOTICE;
use crate::driver::{Panics, Refusal, clock};
use crate::engine::{Engine, RoundId};
use crate::quorum::{Lock, LockId};
use crate::time::Instant;

/// Pause after a poll that failed, for want of memory.
const RECOVERY: Duration = Duration::from_millis(1);

/// How often in a row a thread moves bytes. The I/O thread does the rest, so that no caller is held up
/// by the work of others.
const MOVES_MAX: usize = 16;

/// How long a drop waits at most for the thread that has the wire to write its release. That thread does
/// not sleep, so it takes longer only if it is not scheduled.
const WRITING_MAX: Duration = Duration::from_millis(200);

/// The mutex of the engine, while this thread has it. Dropping it unlocks it, wakes the threads that
/// [`Roles::leave`](super::roles::Roles::leave) names, and delivers what is decided.
#[derive(Debug)]
pub(super) struct Section<'a> {
    shared: &'a Shared,
    /// `None` only while it is dropped.
    core: Option<Locked<'a, Core>>,
    panics: Panics,
}

/// Closes the handle if this thread panics while it has the wire or the poll, or at the end of a section.
struct Holding<'a>(&'a Shared, Panics);

/// Deliveries, and the tasks that they wake. An empty one is kept, so that delivering allocates nothing.
#[derive(Debug, Default)]
pub(super) struct Batch {
    deliveries: Vec<Delivery>,
    wakers: Vec<Waker>,
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
        let mut section = Section {
            shared: self,
            core: Some(core),
            panics: Panics::watch(),
        };
        if self.has_left.load(Ordering::Acquire) {
            self.has_left.store(false, Ordering::Release);
            let left = core::mem::take(&mut *self.left.lock());
            section.take_back(left);
        }
        Ok(section)
    }

    fn leave(&self, locked: Locked<'_, Core>) {
        let holding = Holding(self, Panics::watch());
        let mut locked = locked; // In a panic it is dropped before `holding`.
        let core = &mut *locked;
        let wake = core.leave();
        let offered = core.offered_now.take();
        let progress = (core.awaiting != 0).then_some((core.written, core.put_back));
        let events = self.tracer.collect(&mut core.engine);
        let batch = (core.callers.has_deliveries() || events.is_some()).then(|| {
            let mut batch = self.spare.try_lock().map_or_else(
                |_| Batch::default(), // Another thread delivers too.
                |mut spare| core::mem::take(&mut *spare),
            );
            core.callers.take_deliveries(&mut batch.deliveries);
            batch.wakers.extend(events);
            batch
        });
        drop(locked);
        drop(holding);
        // A thread whose outcome is delivered wakes the I/O thread, if there is one.
        let unpark = batch.is_some() && wake.thread;
        self.wake(Wake {
            thread: wake.thread && !unpark,
            ..wake
        });
        if let Some((written, put_back)) = progress {
            self.progress.advance(written, put_back);
        }
        if let Some(slot) = offered {
            slot.offer();
        }
        if let Some(batch) = batch {
            self.deliver(batch, unpark);
        }
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

    /// Delivers what is decided, and wakes the I/O thread to `unpark` it. That thread wakes the tasks.
    fn deliver(&self, mut batch: Batch, mut unpark: bool) {
        for delivery in batch.deliveries.drain(..) {
            match delivery {
                Delivery::Outcome(slot, outcome) => match slot.deliver(outcome, &mut unpark) {
                    Ok(waker) => batch.wakers.extend(waker),
                    Err(outcome) => {
                        if let Some(lock) = outcome.lock()
                            && let Ok(mut section) = self.enter()
                        {
                            section.give_back(lock);
                        }
                    }
                },
                Delivery::Lost(slot) => slot.tenure.lose(&mut batch.wakers),
                Delivery::Released(slot) => slot.tenure.release_into(&mut batch.wakers),
                Delivery::Ends(slot) => slot.tenure.look_again(),
                Delivery::Alert(slot, lock) => {
                    if let Some(early) = slot.tenure.alerted(clock::now(), &mut batch.wakers) {
                        self.alert(lock, early);
                    }
                }
                Delivery::NotKept(slot, report) => slot.tenure.not_kept(report),
            }
        }
        if unpark {
            self.unpark_io_thread();
        }
        if !batch.wakers.is_empty() {
            // Before the mutex is locked: this drops double wakers, which is code of a user.
            self.wakers.add(&mut batch.wakers);
            match self.enter() {
                Ok(mut section) => section.roles.tasks = true,
                Err(_) => self.wakers.run(Duration::MAX),
            }
        }
        if let Ok(mut spare) = self.spare.try_lock() {
            keep(&mut spare.deliveries, batch.deliveries);
            keep(&mut spare.wakers, batch.wakers);
        }
    }

    /// Returns the slot to which the loss of `lock`, which is kept, is reported from now on.
    pub(super) fn slot_of_kept(&self, lock: &Lock) -> Arc<Slot> {
        if self.is_foreign() {
            return Slot::of_lost(); // It is the parent's.
        }
        match self.enter() {
            Ok(mut section) => section.callers.slot_of_kept(lock),
            Err(_) => Slot::of_lost(),
        }
    }

    /// Asks for an alert about `lock`, so `early` before its end.
    pub(super) fn alert(&self, lock: LockId, early: Duration) {
        if let Ok(mut section) = self.enter() {
            section.engine.alert(lock, early.saturating_sub(NOTICE)); // It comes as much early.
        }
    }

    // ----- bytes ----------------------------------------------------------------------------

    /// Moves bytes until neither side has more, if the wire is free. Otherwise the thread that has it does:
    /// it looks again before it puts it back.
    pub(super) fn move_bytes<'a>(&'a self, section: Section<'a>) -> Result<Section<'a>, Refusal> {
        let moved = self.move_bytes_until(section, None, |_, _| false)?;
        Ok(moved.expect("it waits for the mutex without end"))
    }

    /// Does [`Self::move_bytes`] for the thread that serves: it reads and writes once, and returns between
    /// the two if an outcome is to be delivered. What the callers ask for next is then written with the
    /// rest.
    pub(super) fn serve_bytes<'a>(&'a self, section: Section<'a>) -> Result<Section<'a>, Refusal> {
        let is_enough = |core: &Core, has_read: bool| !has_read || core.callers.has_deliveries();
        let moved = self.move_bytes_until(section, None, is_enough)?;
        Ok(moved.expect("it waits for the mutex without end"))
    }

    /// Moves bytes until neither side has more or `is_enough` returns `true`. Its last argument is `true`
    /// if something was read. Returns `None` if another thread had the mutex until `until`: then the wire
    /// is left to the next thread that has it.
    fn move_bytes_until<'a>(
        &'a self,
        mut section: Section<'a>,
        until: Option<Instant>,
        is_enough: impl Fn(&Core, bool) -> bool,
    ) -> Result<Option<Section<'a>>, Refusal> {
        if !section.roles.take_wire() {
            return Ok(Some(section));
        }
        let mut wire = section
            .wire
            .take()
            .expect("it is there while no thread has it");
        let (mut moves, mut has_read) = (0, false);
        while section.exchange(&mut wire) {
            if moves == MOVES_MAX || (moves != 0 && is_enough(&section, has_read)) {
                section.roles.work = true;
                break;
            }
            moves += 1;
            drop(section);
            let holding = Holding(self, Panics::watch());
            has_read = wire.run(&self.registry);
            drop(holding);
            section = match self.enter_until(until)? {
                Some(section) => section,
                None => {
                    self.leave_behind(|left| left.wire = Some(wire));
                    return Ok(None);
                }
            };
            section.written = section.copied;
        }
        section.put_back(wire);
        Ok(Some(section))
    }

    /// Sleeps in the poll, which this thread has, until something is ready, a timer is due or `until`
    /// has come. If there is work for the wire it only looks what is ready.
    pub(super) fn sleep_in_poll<'a>(
        &'a self,
        section: Section<'a>,
        until: Option<Instant>,
    ) -> Result<Section<'a>, Refusal> {
        let slept = self.sleep(section, until);
        let mut section = self.enter()?;
        section.wake_up(slept);
        Ok(section)
    }

    /// Ends `section`, and sleeps. [`Core::wake_up`] comes next.
    fn sleep(&self, mut section: Section<'_>, until: Option<Instant>) -> Slept {
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
        let holding = Holding(self, Panics::watch());
        let slept = poller.sleep(limit);
        drop(holding);
        if slept.is_err() {
            thread::sleep(RECOVERY);
        }
        Slept(poller, slept.unwrap_or_default())
    }

    // ----- callers --------------------------------------------------------------------------

    /// Begins an operation with `ask` and waits on this thread for its outcome, no longer than `until`.
    /// Returns `None` if it was not decided by then.
    pub(super) fn run<E: From<Refusal>>(
        &self,
        slot: &Arc<Slot>,
        until: Option<Instant>,
        ask: impl FnOnce(&mut Engine, Instant) -> Result<RoundId, E>,
    ) -> Result<Option<Outcome>, E> {
        self.check_process()?;
        let Some(mut section) = self.enter_until(until)? else {
            return Ok(None);
        };
        let round = section.begin(slot, WaitsAs::Thread, ask)?;
        Ok(self.wait_for(section, slot, round, until))
    }

    /// Waits on this thread for the outcome of `round`, which was begun in `section`, no longer than
    /// `until` by the clock of this thread. It moves the bytes itself unless another thread serves, and
    /// sleeps in the poll if it is alone. If there is no outcome in time, cancels the operation and
    /// returns `None`.
    pub(super) fn wait_for(
        &self,
        section: Section<'_>,
        slot: &Arc<Slot>,
        round: RoundId,
        until: Option<Instant>,
    ) -> Option<Outcome> {
        let mut has_poll = false;
        match self.await_outcome(section, slot, round, until, &mut has_poll) {
            Ok(None) => {
                let outcome = slot.abandon();
                self.give_up(round, has_poll);
                outcome
            }
            Ok(outcome) => outcome,
            Err(refusal) => Some(Outcome::Refused(refusal)),
        }
    }

    /// Cancels the operation of `round`, for which this thread does not wait any more, and gives back the
    /// poll, if it has that.
    fn give_up(&self, round: RoundId, has_poll: bool) {
        match self.enter_until(Some(Instant::ZERO)) {
            Ok(Some(mut section)) => {
                section.roles.end_alarm();
                section.cancel(round);
                if has_poll {
                    section.pass_on_poll();
                }
                // If the engine panics here, every caller gets that as its outcome.
                drop(self.move_bytes_until(section, Some(Instant::ZERO), |_, _| false));
            }
            Ok(None) => self.leave_behind(|left| {
                left.rounds.push(round);
                left.has_poll |= has_poll;
            }),
            Err(_) => {}
        }
    }

    /// Leaves behind what this thread has: another one is stopped with the mutex, and the time of this one
    /// is over. The next thread that enters puts it back. The I/O thread is woken for that.
    fn leave_behind(&self, put: impl FnOnce(&mut Left)) {
        put(&mut self.left.lock());
        self.has_left.store(true, Ordering::Release);
        self.wake(Wake::ALL);
    }

    /// Returns `None` if there is no outcome by `until`, and this thread has to give up. `has_poll` says if
    /// it has the poll then.
    fn await_outcome<'a>(
        &'a self,
        mut section: Section<'a>,
        slot: &Arc<Slot>,
        round: RoundId,
        until: Option<Instant>,
        has_poll: &mut bool,
    ) -> Result<Option<Outcome>, Refusal> {
        loop {
            // Before the bytes are moved: otherwise the I/O thread would be called for the poll.
            *has_poll = *has_poll || section.take_poll(round);
            if *has_poll || !section.roles.leaves_writing() {
                match self.move_bytes_until(section, until, |_, _| false)? {
                    Some(moved) => section = moved,
                    None => return Ok(None),
                }
            }
            if !section.callers.is_open(round) {
                if core::mem::take(has_poll) {
                    section.pass_on_poll();
                }
                let outcome = section.callers.take_outcome(slot);
                drop(section);
                // Otherwise another thread is about to deliver it.
                return Ok(outcome.or_else(|| slot.wait_for_outcome(until, self)));
            }
            if until.is_some_and(|until| until <= clock::now()) {
                return Ok(None);
            }
            let slept = if *has_poll {
                Some(self.sleep(section, until))
            } else {
                let alarm = section.set_alarm();
                drop(section);
                let wakes = [until, alarm].into_iter().flatten().min();
                let woken = slot.wait(wakes, self);
                if woken.outcome.is_some() || !(woken.offered || alarm.is_some()) {
                    return Ok(woken.outcome);
                }
                None
            };
            let Some(entered) = self.enter_until(until)? else {
                if slept.is_some() {
                    self.leave_behind(|left| left.slept = slept);
                }
                return Ok(None);
            };
            section = entered;
            match slept {
                Some(slept) => section.wake_up(slept),
                None => section.roles.end_alarm(),
            }
        }
    }

    /// Ends a section in which the engine was given something to write, and writes it if the wire is free.
    pub(super) fn flush(&self, mut section: Section<'_>) {
        section.ask();
        // If the engine panics here, every caller gets that as its outcome.
        drop(self.move_bytes(section));
    }

    /// Ends a section in which a task has begun an operation. Moves the bytes unless the I/O thread
    /// serves. The I/O thread waits for the answers.
    pub(super) fn begin_for_task(&self, section: Section<'_>) {
        if !section.roles.leaves_writing() {
            // If the engine panics here, the task gets that as its outcome.
            drop(self.move_bytes(section));
        }
    }

    /// Releases `lock`, whose slot is `slot` unless it is kept, and returns when the release is written.
    pub(super) fn give_back(&self, slot: Option<&Slot>, lock: Lock) {
        if let Some(slot) = slot {
            slot.tenure.release();
        }
        if let Ok(mut section) = self.enter() {
            section.give_back(lock);
            self.see_written(section);
        }
    }

    /// Cancels the operation of `round`, also if its outcome is being delivered. Returns when the release of
    /// what it has locked is written.
    pub(super) fn cancel(&self, slot: &Arc<Slot>, round: RoundId) {
        let Ok(mut section) = self.enter() else {
            return;
        };
        let mut outcome = None;
        if !section.cancel(round) {
            outcome = section.callers.take_outcome(slot);
            if outcome.is_none() {
                drop(section);
                outcome = slot.await_delivery(clock::now().saturating_add(WRITING_MAX), self);
                match self.enter() {
                    Ok(again) => section = again,
                    Err(_) => return,
                }
            }
        }
        if let Some(lock) = outcome.and_then(Outcome::lock) {
            section.give_back(lock);
        }
        self.see_written(section);
    }

    /// Ends a section in which the engine was given something to write, and returns when it is written: the
    /// program may end next. If another thread has the wire, waits until that thread has written it.
    pub(super) fn see_written<'a>(&'a self, mut section: Section<'a>) {
        section.read_if_behind();
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

    /// This thread has panicked with the engine, the wire or the poll: closes the handle, refuses every
    /// call and reports every lock as lost.
    pub(super) fn break_down(&self, mut core: Locked<'_, Core>) {
        core.break_down();
        let mut batch = Batch::default();
        core.callers.take_deliveries(&mut batch.deliveries);
        drop(core);
        self.wake(Wake::ALL);
        self.progress.advance(u64::MAX, u64::MAX);
        self.deliver(batch, false);
    }
}

/// Two threads may deliver at once: the longer list is kept.
fn keep<T>(spare: &mut Vec<T>, list: Vec<T>) {
    if spare.capacity() < list.capacity() {
        *spare = list;
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
        match self.panics.has_begun() {
            true => self.shared.break_down(core),
            false => self.shared.leave(core),
        }
    }
}

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        let Self(shared, panics) = self;
        if panics.has_begun() {
            shared.break_down(shared.core.lock());
        }
    }
}
