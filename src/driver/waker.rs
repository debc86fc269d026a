//! Wakes a sleeping driver from another thread.

use alloc::sync::Arc;
use alloc::task::Wake;

use crate::process::Process;

/// The waker of a driver. In a forked child, the waker does nothing.
pub(super) struct DriverWaker {
    pub(super) waker: Arc<mio::Waker>,
    pub(super) process: Process,
}

impl Wake for DriverWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.process.is_foreign() {
            // The write cannot fail, because the eventfd is open.
            let _ = self.waker.wake();
        }
    }
}
