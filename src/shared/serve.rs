//! The sections under the mutex, and the work between them: moving bytes, sleeping in the poller, waiting for an
//! outcome.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};
use core::time::Duration;
use std::sync::MutexGuard;
use std::thread;

use super::Shared;
use super::callers::WaitsAs;
use super::notes::Note;
use super::roles::Wake;
use super::slot::Slot;
use super::state::Core;
use crate::calls::Awaited;
use crate::clock;
use crate::driver::{Panics, Refusal};
use crate::engine::{Engine, RoundId};
use crate::quorum::Lock;
use crate::time::Instant;

/// The pause after a poll that has failed for lack of memory.
const RECOVERY: Duration = Duration::from_millis(1);

/// How many times a caller moves bytes before the I/O thread takes over, so that the work of others does not delay the
/// caller for long.
const MOVES_MAX: usize = 16;

/// The longest time that a dropped guard waits until the thread with the wire has written the release. The thread with
/// the wire does not sleep, so writing takes longer only if the system does not schedule that thread.
const WRITING_MAX: Duration = Duration::from_millis(200);

/// The locked mutex of the engine. Dropping a section unlocks the mutex, then wakes the threads
/// that [`Roles::leave`](super::roles::Roles::leave) names and the threads whose outcomes are decided.
#[derive(Debug)]
pub(super) struct Section<'a> {
    core: MutexGuard<'a, Core>,
    /// The panic guard, which is dropped after the mutex is unlocked.
    holding: Holding<'a>,
}

/// A guard for a thread that has the mutex, the wire or the poller. If the thread panics, the guard closes the handle.
/// Otherwise, dropping the guard wakes the threads in `wake` and `woken`.
#[derive(Debug)]
pub(super) struct Holding<'a> {
    shared: &'a Shared,
    panics: Panics,
    wake: Wake,
    /// `true` if dropped guards wait until their releases are written.
    is_awaited: bool,
    /// `true` if the relay wakes the threads in `woken`.
    relays: bool,
    woken: Vec<Arc<Slot>>,
}

/// When a thread began to wait for an outcome, and how long it waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) since: Instant,
    pub(super) wait: Wait,
}

/// How long a thread waits for an outcome.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wait {
    /// The thread waits until the caller's deadline.
    Deadline(Duration),
    /// The thread waits for this time, which is longer than the nodes may take. While the I/O thread serves the
    /// callers, it wakes this thread in time. So this thread sleeps without a timer, which saves 0.6 us.
    Patience(Duration),
    /// The thread waits until the outcome is decided.
    Forever,
}

impl Times {
    pub(super) fn now(wait: Wait) -> Self {
        let since = clock::now();
        Self { since, wait }
    }

    fn deadline(&self) -> Option<Instant> {
        match self.wait {
            Wait::Deadline(wait) => Some(self.since.saturating_add(wait)),
            Wait::Patience(_) | Wait::Forever => None,
        }
    }

    /// Returns the time at which the thread stops waiting.
    fn end(&self) -> Option<Instant> {
        match self.wait {
            Wait::Deadline(wait) | Wait::Patience(wait) => Some(self.since.saturating_add(wait)),
            Wait::Forever => None,
        }
    }
}

/// How long a thread moves bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Moves {
    /// The thread moves bytes until neither the engine nor the sockets have more bytes.
    All,
    /// The serving thread reads once and writes once. If reading decides an outcome, the thread does not write yet, so
    /// that its write can also carry the next requests of the woken callers.
    Once,
}

impl Shared {
    // ----- sections ---------------------------------------------------------------------------

    /// Locks the mutex.
    pub(super) fn enter(&self) -> Result<Section<'_>, Refusal> {
        self.section(self.core.lock())
    }

    /// Locks the mutex for a call. In a forked child, refuses the call.
    pub(super) fn enter_call(&self) -> Result<Section<'_>, Refusal> {
        self.check_process()?;
        self.notes.pass();
        self.enter()
    }

    fn section<'a>(&'a self, core: MutexGuard<'a, Core>) -> Result<Section<'a>, Refusal> {
        if core.is_closed {
            return Err(Refusal::Closed);
        }
        let holding = Holding::new(self);
        let mut section = Section { core, holding };
        if self.notes.is_in_use() {
            section.take_notes(&self.notes);
        }
        Ok(section)
    }

    // ----- bytes ------------------------------------------------------------------------------

    /// Takes the wire if it is free, and moves bytes. If another thread has the wire, that thread also moves the new
    /// bytes.
    pub(super) fn move_bytes<'a>(
        &'a self,
        mut section: Section<'a>,
        how: Moves,
    ) -> Result<Section<'a>, Refusal> {
        let Some(mut wire) = section.roles.wire.take() else {
            return Ok(section);
        };
        let (mut moves, mut has_read) = (0, false);
        while section.exchange(&mut wire) {
            let is_served = !has_read || section.callers.has_to_wake();
            let is_enough = how == Moves::Once && moves != 0 && is_served;
            if moves == MOVES_MAX || is_enough {
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

    /// Sleeps in the poller until a socket is ready, a timer is due, or the time `until` has come. This thread must
    /// have the poller. If there is work for the wire, only checks which sockets are ready, without sleeping.
    pub(super) fn sleep_in_poll<'a>(
        &'a self,
        mut section: Section<'a>,
        until: Option<Instant>,
    ) -> Result<Section<'a>, Refusal> {
        let now = clock::now();
        let wakes = section.sleeps_until(now, self.spin);
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

    // ----- callers ----------------------------------------------------------------------------

    /// Begins an operation with `ask`, and [waits](Self::wait_for) for the outcome.
    pub(super) fn run<E: From<Refusal>>(
        &self,
        slot: &Arc<Slot>,
        times: Times,
        ask: impl FnOnce(&mut Engine, Instant) -> Result<RoundId, E>,
    ) -> Result<Awaited, E> {
        let mut section = self.enter_call()?;
        section.begin(slot, WaitsAs::Thread, ask)?;
        Ok(self.wait_for(Some(section), slot, times)?)
    }

    /// Makes the request in `note`. If the notes have a free place, the I/O thread begins the request later. If no
    /// place is free, this function begins the request in a section, and returns this section.
    pub(super) fn ask(&self, note: Note) -> Result<Option<Section<'_>>, Refusal> {
        self.check_process()?;
        let Err(note) = self.notes.put(note) else {
            return Ok(None);
        };
        self.notes.pass();
        let mut section = self.enter()?;
        section.begin_noted(note);
        Ok(Some(section))
    }

    /// Waits until the outcome of the operation is in `slot`. If `section` is `None`, the operation was only noted.
    /// Unless the I/O thread serves, this thread moves the bytes itself. If this thread has the poller, it sleeps in
    /// the poller. If no outcome comes in time, cancels the operation.
    pub(super) fn wait_for<'a>(
        &'a self,
        section: Option<Section<'a>>,
        slot: &Slot,
        times: Times,
    ) -> Result<Awaited, Refusal> {
        let (mut next, mut round) = (section, None);
        let mut until = times.deadline();
        loop {
            let mut section = match next.take() {
                Some(section) => section,
                None => {
                    self.relay.pass_on();
                    if let Some(outcome) = slot.wait(until) {
                        self.relay.pass_on();
                        return outcome.map(Ok);
                    }
                    self.enter()?
                }
            };
            // Remembers the operation, which identifies this thread as the owner of the poller. The slot forgets the
            // operation when the outcome is decided.
            round = round.or(slot.round());
            // Makes this thread the owner of the poller before it reads or writes. Otherwise, the end of the section
            // would wake the I/O thread to take the poller.
            let has_poll = round.is_some_and(|round| section.take_poll(round));
            if has_poll || !section.roles.serving {
                section = self.move_bytes(section, Moves::All)?;
            }
            let open = round.filter(|round| section.callers.is_open(*round));
            if open.is_none() || times.end().is_some_and(|end| end <= clock::now()) {
                if has_poll {
                    section.pass_on_poll();
                }
                if let Some(round) = open {
                    return self.give_up(section, round, slot, times);
                }
                drop(section);
                let pending = || Ok(Err(self.reporter.pending(times.since)));
                return slot.take().map_or_else(pending, |outcome| outcome.map(Ok));
            }
            until = match section.is_served() {
                true => times.deadline(),
                false => times.end(),
            };
            if has_poll {
                next = Some(self.sleep_in_poll(section, times.end())?);
            }
        }
    }

    /// Cancels the operation of `round`, which has timed out, and reports that no answers are known.
    #[cold]
    fn give_up<'a>(
        &'a self,
        mut section: Section<'a>,
        round: RoundId,
        slot: &Slot,
        times: Times,
    ) -> Result<Awaited, Refusal> {
        let pending = self.reporter.pending(times.since);
        let pending = section.engine.about(round, pending);
        section.cancel(round);
        drop(self.move_bytes(section, Moves::All)?);
        let outcome = slot.take().map(|outcome| outcome.map(Ok));
        outcome.unwrap_or(Ok(Err(pending)))
    }

    /// Writes the bytes that the engine has queued, unless the I/O thread writes them. Then ends `section`.
    pub(super) fn flush(&self, section: Section<'_>) {
        if !section.roles.serving {
            // Ignores a panic of the engine, because the outcomes of the callers report the panic.
            drop(self.move_bytes(section, Moves::All));
        }
    }

    /// Releases `lock`. Returns when the release is written.
    pub(super) fn give_back(&self, lock: Lock) {
        if let Ok(mut section) = self.enter() {
            section.give_back(lock);
            self.see_written(section);
        }
    }

    /// Cancels the operation of `slot`, even if its outcome is decided but the caller has not read it. Returns when the
    /// release of its locks is written.
    pub(super) fn cancel(&self, slot: &Slot) {
        let Ok(mut section) = self.enter() else {
            return;
        };
        if let Some(round) = slot.round() {
            section.cancel(round);
        }
        let (outcome, waker) = slot.abandon();
        if let Some(lock) = outcome.and_then(|outcome| outcome.ok()?.into_lock()) {
            section.give_back(lock);
        }
        self.see_written(section);
        drop(waker); // User code.
    }

    /// Ends a section in which the engine has queued bytes. Returns when the bytes are written, because the program may
    /// end after this call. If another thread has the wire, waits until that thread has written the bytes.
    pub(super) fn see_written<'a>(&'a self, mut section: Section<'a>) {
        section.read_if_behind();
        let (asked, until) = (section.asked, clock::now().saturating_add(WRITING_MAX));
        while let Ok(mut moved) = self.move_bytes(section, Moves::All) {
            if asked <= moved.written || moved.is_stuck {
                return;
            }
            moved.awaiting += 1;
            drop(moved);
            let waits = |core: &mut Core| {
                core.written < asked && core.roles.wire.is_none() && !core.is_closed
            };
            let left = until.saturating_since(clock::now());
            let mut core = self.core.wait_while(self.core.lock(), left, waits);
            core.awaiting -= 1;
            core.is_stuck |= waits(&mut core);
            let Ok(again) = self.section(core) else {
                return;
            };
            section = again;
        }
    }
}

impl Section<'_> {
    /// Sets whether the relay wakes the threads when this section is dropped.
    pub(super) fn leaves_to_relay(&mut self, relays: bool) {
        self.holding.relays = relays;
    }
}

impl Deref for Section<'_> {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl DerefMut for Section<'_> {
    fn deref_mut(&mut self) -> &mut Core {
        &mut self.core
    }
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        let Self { core, holding } = self;
        if holding.panics.has_begun() {
            return core.break_down(&holding.shared.notes);
        }
        let core = &mut **core;
        let seen = holding.shared.tracer.collect(&mut core.engine);
        core.callers.tasks.extend(seen);
        (holding.wake, holding.is_awaited) = (core.leave(), core.awaiting != 0);
        if !core.callers.woken.is_empty() {
            // Replaces the callers' list by the spare list, which has capacity, so that waking allocates nothing. If
            // another thread holds the mutex of the spare list, the callers get a new list.
            if let Ok(mut spare) = holding.shared.spare.try_lock() {
                core::mem::swap(&mut holding.woken, &mut spare);
            }
            core::mem::swap(&mut holding.woken, &mut core.callers.woken);
        }
    }
}

impl<'a> Holding<'a> {
    pub(super) fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            panics: Panics::watch(),
            wake: Wake::default(),
            is_awaited: false,
            relays: false,
            woken: Vec::new(),
        }
    }
}

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        let shared = self.shared;
        if self.panics.has_begun() {
            let mut core = shared.core.lock();
            core.break_down(&shared.notes);
            self.woken.append(&mut core.callers.woken);
            (self.wake, self.is_awaited, self.relays) = (Wake::ALL, true, false);
        }
        if self.wake.sleeper {
            // The write cannot fail, because the eventfd is open.
            let _ = shared.waker.wake();
        }
        if self.wake.io_thread {
            shared.call.send();
        }
        if self.is_awaited {
            shared.core.wake_all();
        }
        if !self.woken.is_empty() {
            match self.relays {
                true => shared.relay.add(&mut self.woken),
                false => self.woken.drain(..).for_each(|slot| slot.wake()),
            }
            if let Ok(mut spare) = shared.spare.try_lock() {
                *spare = core::mem::take(&mut self.woken);
            }
        }
    }
}
