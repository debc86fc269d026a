//! Ends a handle. The I/O thread writes the remaining releases and waits for the answers, or repeats the releases in
//! the background.

use core::time::Duration;
use std::thread::{self, JoinHandle};

use super::Shared;
use super::monitor::Monitor;
use super::serve::Moves;
use crate::clock;
use crate::driver::{Refusal, is_owing};
use crate::time::Instant;

/// The shortest time that the I/O thread continues in the background after the last handle is dropped. A node that hung
/// only for a moment answers again within this time.
const BACKGROUND_MIN: Duration = Duration::from_secs(5);

/// How long the last handle waits for the end of the I/O thread, in addition to the shutdown timeout.
const PATIENCE: Duration = Duration::from_millis(50);

/// Whether the I/O thread still serves the handle.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum EndStage {
    /// The thread serves the handle, or waits for the answers to the last releases.
    #[default]
    Open,
    /// The thread repeats unanswered releases in the background.
    Background,
    /// The thread has ended.
    Ended,
}

impl Monitor<EndStage> {
    pub(super) fn reach(&self, stage: EndStage) {
        *self.lock() = stage;
        self.wake_all();
    }
}

impl Shared {
    /// Ends the I/O thread after the last handle is dropped. Returns when all releases are written and answered, or
    /// shortly after [`Builder::shutdown_timeout`](crate::Builder::shutdown_timeout). The thread then repeats
    /// unanswered releases in the background.
    pub(super) fn close(&self, io_thread: JoinHandle<()>) {
        if self.is_foreign() {
            // The I/O thread does not exist in a forked child, so it can be neither joined nor detached.
            core::mem::forget(io_thread);
            self.close_descriptors();
            return;
        }
        self.dismiss();
        // If a waker has dropped the last handle, the current thread is the I/O thread, which cannot join itself.
        if io_thread.thread().id() == thread::current().id() {
            return;
        }
        let limit = self.shutdown_timeout.saturating_add(PATIENCE);
        let (ending, is_open) = (&self.ending, |stage: &mut _| *stage == EndStage::Open);
        let stage = *ending.wait_while(ending.lock(), limit, is_open);
        if stage == EndStage::Ended {
            // Ignores a panic of the I/O thread, because the outcomes of the callers report the panic.
            drop(io_thread.join());
        }
    }

    /// Tells the I/O thread to end, without waiting for it.
    pub(super) fn dismiss(&self) {
        if let Ok(mut section) = self.enter() {
            section.roles.closing = true;
        }
    }

    /// Closes the descriptors in a forked child, except descriptors that a thread of the parent was using at the time
    /// of the fork.
    fn close_descriptors(&self) {
        if let Some(mut core) = self.core.try_lock() {
            drop((core.roles.wire.take(), core.poller.take()));
            // Does not unlock the mutex, because unlocking could wait for a thread that does not exist in this process.
            core::mem::forget(core);
        }
    }

    /// Sends the remaining releases, and closes the connections. The I/O thread calls this function after the last
    /// handle is dropped.
    pub(super) fn shut_down(&self) -> Result<(), Refusal> {
        let until = clock::now().saturating_add(self.shutdown_timeout);
        if !self.settle_debts(until)? {
            self.ending.reach(EndStage::Background);
            let now = clock::now();
            let least = now.saturating_add(BACKGROUND_MIN);
            let until = self.enter()?.engine.keys_end_by(now).max(least);
            self.settle_debts(until)?;
        }
        let mut section = self.enter()?;
        section.is_closed = true;
        let wire = section.roles.wire.take();
        drop(section);
        wire.into_iter()
            .for_each(|mut wire| wire.close(&self.registry));
        Ok(())
    }

    /// Waits until all releases are answered, or until the time `until`. Returns `true` if all releases are answered.
    fn settle_debts(&self, until: Instant) -> Result<bool, Refusal> {
        let mut section = self.enter()?;
        loop {
            section = self.move_bytes(section, Moves::All)?;
            let is_owing = is_owing(&section.engine);
            if !is_owing || until <= clock::now() {
                return Ok(!is_owing);
            }
            // The poll is free, because no callers are left.
            section.roles.serve();
            section = self.sleep_in_poll(section, Some(until))?;
            section.roles.give_back_poll();
        }
    }
}
