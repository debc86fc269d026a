//! Waking a sleeping driver from another thread.

use alloc::sync::Arc;
use alloc::task::Wake;

use rustix::process::{Pid, getpid};

/// The waker of a driver. In a forked child it does nothing.
pub(super) struct DriverWaker {
    pub(super) waker: Arc<mio::Waker>,
    pub(super) process: Pid,
}

impl Wake for DriverWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if getpid() == self.process {
            // A write to an eventfd that is open cannot fail.
            let _ = self.waker.wake();
        }
    }
}
