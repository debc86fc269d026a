//! Detects that this process is a forked child. The only module that does this.
//!
//! A child has copies of its parent's handles, and must not use them. The C library calls a handler in the child of
//! each `fork`, and the handler counts forks. A check compares two counts, and makes no system call.
//!
//! # Not here
//!
//! * The C library calls no handler for `_Fork`, `vfork` or `clone`, or for a bare system call. Such a child is not
//!   detected.
//! * In the child, the handlers run in the order of their registration. A handler that the program has registered
//!   before its first handle was built does not detect the fork yet.
//! * If a process forks while another thread builds the first handle, the child may wait forever in
//!   [`Process::current`].

#[cfg(test)]
use alloc::sync::Arc;
#[cfg(test)]
use core::sync::atomic::{AtomicBool, Ordering};
use std::io;

use forkguard::atfork::Guard;

/// The process that created a handle.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    forks: Guard,
    #[cfg(test)]
    pretends: Arc<AtomicBool>,
}

impl Process {
    /// Returns this process, or an error if the C library has no memory for the handler.
    pub(crate) fn current() -> io::Result<Self> {
        let forks = Guard::try_new().map_err(|error| error.code().get());
        Ok(Self {
            forks: forks.map_err(io::Error::from_raw_os_error)?,
            #[cfg(test)]
            pretends: Arc::default(),
        })
    }

    /// Returns `true` in a forked child of the process.
    pub(crate) fn is_foreign(&self) -> bool {
        #[cfg(test)]
        if self.pretends.load(Ordering::Relaxed) {
            return true;
        }
        // A guard reports each fork once. The copy reports it, so the original reports it again at the next call.
        self.forks.clone().detected_fork()
    }

    /// Sets whether all checks, also those of copies, find that they run in a forked child.
    #[cfg(test)]
    pub(crate) fn pretend(&self, is_foreign: bool) {
        self.pretends.store(is_foreign, Ordering::Relaxed);
    }
}
