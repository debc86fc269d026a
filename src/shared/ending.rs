//! The end of a handle: what is owed is written and answered, or paid in the background.

use core::time::Duration;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use super::Shared;
use crate::driver::{Refusal, clock};
use crate::time::Instant;

/// How long at least the I/O thread pays in the background what is owed after the last handle. Nodes
/// that stand still for a moment are back by then.
const BACKGROUND_MIN: Duration = Duration::from_secs(5);

/// How much longer than the shutdown timeout the last handle waits for the end of the I/O thread.
const PATIENCE: Duration = Duration::from_millis(50);

/// Pause before another try where another thread has a role, which it has for a moment.
const PAUSE: Duration = Duration::from_millis(1);

/// How far the I/O thread has come with its end.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum EndStage {
    /// It serves the handle, or waits for the answers to the last releases.
    #[default]
    Open,
    /// It pays in the background what silent nodes are owed.
    Background,
    /// It does nothing any more.
    Ended,
}

/// How far the I/O thread has come, for the last handle that waits for it.
#[derive(Debug, Default)]
pub(super) struct Ending {
    stage: Mutex<EndStage>,
    changed: Condvar,
}

impl Ending {
    pub(super) fn reach(&self, stage: EndStage) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = stage;
        self.changed.notify_all();
    }

    /// Waits until the I/O thread has ended or goes on in the background, or `limit` has passed.
    fn wait(&self, limit: Duration) -> EndStage {
        let stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        let is_open = |stage: &mut EndStage| *stage == EndStage::Open;
        let waited = self.changed.wait_timeout_while(stage, limit, is_open);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Shared {
    /// Ends the I/O thread and waits for its end: what is owed was written then, and answered for
    /// as long as [`Builder::shutdown_timeout`](crate::Builder::shutdown_timeout) allows. The last
    /// handle is gone. Not much longer than that is waited in any case: what is owed beyond it the
    /// thread pays in the background.
    pub(super) fn close(&self, io_thread: JoinHandle<()>) {
        if self.is_foreign() {
            // The thread is not in this process: neither joined nor detached.
            core::mem::forget(io_thread);
            self.close_descriptors();
            return;
        }
        self.dismiss();
        // A waker or the drop of a task may be what drops the last handle, on the I/O thread.
        if self.is_io_thread(thread::current().id()) {
            return;
        }
        match self
            .ending
            .wait(self.shutdown_timeout.saturating_add(PATIENCE))
        {
            // What it panicked with, if it did, was told to those who waited.
            EndStage::Ended if self.is_io_thread(io_thread.thread().id()) => drop(io_thread.join()),
            // One that was replaced may be held up for ever, and has nothing of the handle any more.
            EndStage::Ended | EndStage::Background => {}
            EndStage::Open => {
                // It is held up in a waker, which may even wait for something that this thread has:
                // the queue of an executor that drops its tasks. It has no role there, so the
                // releases are seen to here; the thread does the rest when it goes on.
                let until = clock::now().saturating_add(self.shutdown_timeout);
                let _ = self.settle_debts(until);
            }
        }
    }

    /// Ends the I/O thread, and does not wait for its end. Nobody else has a handle.
    pub(super) fn dismiss(&self) {
        if let Ok(mut section) = self.enter() {
            section.roles.closing = true;
        }
    }

    /// In a forked child. What a thread of the parent had in its hands when the child was made stays
    /// open.
    fn close_descriptors(&self) {
        if let Some(mut core) = self.core.try_lock() {
            drop((core.wire.take(), core.poller.take()));
            // Unlocking it could wait for a thread that is not here.
            core::mem::forget(core);
        }
    }

    /// Pays what the nodes are owed, and closes the connections. The I/O thread does so when nobody
    /// has a handle any more.
    pub(super) fn shut_down(&self) -> Result<(), Refusal> {
        let until = clock::now().saturating_add(self.shutdown_timeout);
        if !self.settle_debts(until)? {
            self.ending.reach(EndStage::Background);
            let now = clock::now();
            let least = now.saturating_add(BACKGROUND_MIN);
            let until = self.enter()?.engine.keys_end_by(now).max(least);
            self.settle_debts(until)?;
        }
        loop {
            let mut section = self.enter()?;
            if let Some(mut wire) = section.wire.take() {
                section.is_closed = true;
                drop(section);
                wire.close(&self.registry);
                return Ok(());
            }
            drop(section);
            thread::sleep(PAUSE);
        }
    }

    /// Cancels what is open, and waits until no node owes an answer, or until `until`. Returns `true` if
    /// none does.
    fn settle_debts(&self, until: Instant) -> Result<bool, Refusal> {
        let mut section = self.enter()?;
        section.cancel_all();
        loop {
            section = self.move_bytes(section)?;
            let is_owing = section.is_owing();
            if !is_owing || until <= clock::now() {
                return Ok(!is_owing);
            }
            if section.roles.take_poll_again() {
                section = self.sleep_in_poll(section, Some(until))?;
                section.roles.give_back_poll();
            } else {
                drop(section);
                thread::sleep(PAUSE);
                section = self.enter()?;
            }
        }
    }
}
