//! The end of a handle: its debts are written and answered, or sent again in the background.

use core::time::Duration;
use std::thread::{self, JoinHandle};

use super::Shared;
use super::monitor::Monitor;
use super::serve::Moves;
use crate::clock;
use crate::driver::{Refusal, is_owing};
use crate::time::Instant;

/// The least time that the I/O thread continues in the background after the last handle. A node that hung for a moment
/// is back by then.
const BACKGROUND_MIN: Duration = Duration::from_secs(5);

/// How much longer than the shutdown timeout the last handle waits for the I/O thread to end.
const PATIENCE: Duration = Duration::from_millis(50);

/// The stage of the I/O thread's end.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum EndStage {
    /// It serves the handle, or waits for the answers to the last releases.
    #[default]
    Open,
    /// It sends the releases that silent nodes still need, in the background.
    Background,
    /// It has ended.
    Ended,
}

impl Monitor<EndStage> {
    pub(super) fn reach(&self, stage: EndStage) {
        *self.lock() = stage;
        self.wake_all();
    }
}

impl Shared {
    /// Ends the I/O thread after the last handle is dropped. Returns when all debts are written and answered, or a
    /// little after [`Builder::shutdown_timeout`](crate::Builder::shutdown_timeout). The thread sends the rest in the
    /// background.
    pub(super) fn close(&self, io_thread: JoinHandle<()>) {
        if self.is_foreign() {
            // The thread does not exist in this process, so it can be neither joined nor detached.
            core::mem::forget(io_thread);
            self.close_descriptors();
            return;
        }
        self.dismiss();
        // If a waker has dropped the last handle, this is the I/O thread, which cannot wait for itself.
        if io_thread.thread().id() == thread::current().id() {
            return;
        }
        let limit = self.shutdown_timeout.saturating_add(PATIENCE);
        let (ending, is_open) = (&self.ending, |stage: &mut _| *stage == EndStage::Open);
        let stage = *ending.wait_while(ending.lock(), limit, is_open);
        if stage == EndStage::Ended {
            // If the thread has panicked, the callers learn that from their outcomes.
            drop(io_thread.join());
        }
    }

    /// Ends the I/O thread without waiting for its end. No handle exists any more.
    pub(super) fn dismiss(&self) {
        if let Ok(mut section) = self.enter() {
            section.roles.closing = true;
        }
    }

    /// Closes the descriptors in a forked child, except those that a thread of the parent had taken at the time of the
    /// fork.
    fn close_descriptors(&self) {
        if let Some(mut core) = self.core.try_lock() {
            drop((core.roles.wire.take(), core.poller.take()));
            // Unlocking it could wait for a thread that does not exist in this process.
            core::mem::forget(core);
        }
    }

    /// Sends the debts, and closes the connections. The I/O thread does this after the last handle is dropped.
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

    /// Waits until all debts are answered, or until `until`. Returns `true` if all are answered.
    fn settle_debts(&self, until: Instant) -> Result<bool, Refusal> {
        let mut section = self.enter()?;
        loop {
            section = self.move_bytes(section, Moves::All)?;
            let is_owing = is_owing(&section.engine);
            if !is_owing || until <= clock::now() {
                return Ok(!is_owing);
            }
            // There are no callers any more, so the poll is free.
            section.roles.serve();
            section = self.sleep_in_poll(section, Some(until))?;
            section.roles.give_back_poll();
        }
    }
}
