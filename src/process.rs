//! Detects that this process is a forked child. The only module that does this.
//!
//! A child has copies of its parent's handles, and must not use them. The C library calls a handler in the child of each
//! `fork`, and the handler counts forks. A check compares two counts, and makes no system call.
//!
//! # Guarantees
//!
//! * **A child can build handles of its own**, even if the parent forked while another thread built its first handle.
//!   Then the counter may never be ready in the child, so the handles of this child compare process ids.
//!
//! # Not here
//!
//! * The C library calls no handler for `_Fork`, or for the bare system call `clone`. Such a child is not detected.
//! * In a child, the C library calls the handlers in the order in which the program has registered them. A handler that
//!   was registered before the first handle was built runs before the fork is counted, and must not use a handle.

#[cfg(test)]
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use forkguard::{atfork, pid};

/// The process id of the process in which the C library was asked to count forks, or zero.
static COUNTED_FOR: AtomicU32 = AtomicU32::new(0);

/// Whether the C library counts forks.
static IS_COUNTED: AtomicBool = AtomicBool::new(false);

/// The process that created a handle.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    forks: Forks,
    #[cfg(test)]
    pretends: Arc<AtomicBool>,
}

#[derive(Clone, Debug)]
enum Forks {
    Counted(atfork::Guard),
    ById(pid::Guard),
}

impl Process {
    /// Returns this process.
    pub(crate) fn current() -> Self {
        Self {
            forks: Forks::until_now(),
            #[cfg(test)]
            pretends: Arc::default(),
        }
    }

    /// Returns `true` in a forked child of the process.
    pub(crate) fn is_foreign(&self) -> bool {
        #[cfg(test)]
        if self.pretends.load(Ordering::Relaxed) {
            return true;
        }
        // A guard reports each fork once. The copy reports it, so the original reports it again at the next call.
        match &self.forks {
            Forks::Counted(guard) => guard.clone().detected_fork(),
            Forks::ById(guard) => guard.clone().detected_fork(),
        }
    }

    /// Sets whether this process and its clones pretend to be a forked child.
    #[cfg(test)]
    pub(crate) fn pretend(&self, is_foreign: bool) {
        self.pretends.store(is_foreign, Ordering::Relaxed);
    }
}

impl Forks {
    fn until_now() -> Self {
        let by_id = || Self::ById(pid::Guard::default());
        if !IS_COUNTED.load(Ordering::Relaxed) {
            let own = std::process::id();
            let first = COUNTED_FOR.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed);
            if first.is_err_and(|first| first != own) {
                // A thread of the parent may have been in `try_new` at the fork, so here it would wait for that thread
                // forever.
                return by_id();
            }
        }
        match atfork::Guard::try_new() {
            Ok(guard) => {
                IS_COUNTED.store(true, Ordering::Relaxed);
                Self::Counted(guard)
            }
            Err(_) => by_id(), // The C library has no memory for the handler.
        }
    }
}
