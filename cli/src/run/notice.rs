//! A waker that makes a descriptor readable, so that futures and descriptors are waited for together.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::Wake;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};

/// The descriptor.
#[derive(Debug)]
pub(super) struct Notice(OwnedFd);

impl Notice {
    pub(super) fn new() -> io::Result<Arc<Self>> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Arc::new(Self(eventfd(0, flags)?)))
    }

    /// Makes it unreadable until it is woken again. What woke it is to be looked at after this.
    pub(super) fn clear(&self) {
        // It fails if nothing has woken it.
        let _ = read(&self.0, &mut [0; 8]);
    }
}

impl Wake for Notice {
    fn wake(self: Arc<Self>) {
        // It fails only if it has been woken 2^64 times.
        let _ = write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl AsFd for Notice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
