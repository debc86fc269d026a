//! Waking a sleeping driver from another thread.

use alloc::sync::Arc;

use mio::Waker;
use rustix::process::{Pid, getpid};

/// Wakes a driver's [`turn`](super::Driver::turn) from any thread.
///
/// Each call costs a write to an eventfd, so call it only when the driver sleeps. No wake-up is lost: if no turn is
/// under way, the next one does not sleep. The waker may outlive its driver. Then, and in a forked child, it does
/// nothing.
#[derive(Clone, Debug)]
pub struct DriverWaker {
    waker: Arc<Waker>,
    process: Pid,
}

impl DriverWaker {
    pub(super) fn new(waker: &Arc<Waker>, process: Pid) -> Self {
        Self {
            waker: Arc::clone(waker),
            process,
        }
    }

    /// Ends the sleep of the present turn, or if there is none, of the next one.
    pub fn wake(&self) {
        if getpid() == self.process {
            // A write to an eventfd that is open cannot fail.
            let _ = self.waker.wake();
        }
    }
}
