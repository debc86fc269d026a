//! The signal that a lock is lost.
//!
//! A timer of the engine signals the loss a millisecond before the validity ends. The signal comes earlier if a
//! majority of the nodes reports that the lock is gone.

use alloc::boxed::Box;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use super::signal::Signal;
use crate::error::Shown;

/// Completes when the lock must no longer be trusted, because its validity is about to end or a majority of the nodes
/// has reported that the lock is gone. The method [`LockGuard::lost`](super::LockGuard::lost) returns this signal.
///
/// The signal borrows nothing and may be sent to another task or thread.
///
/// * If the lock is released or detached before it is lost, the future never completes.
/// * An adopted lock that another clock has measured is not valid until you confirm it. If you do not confirm it, it
///   counts as lost when its keys must have expired.
/// * In a forked child the future completes immediately, because the lock belongs to the parent.
/// * If the engine panics, the future completes immediately, because no loss can be reported after a panic.
///
/// ```no_run
/// # use std::time::Duration;
/// # fn next_step() {}
/// # let redlock = shearline::Redlock::connect(["redis://10.0.0.1"])?;
/// let guard = redlock.lock("report", Duration::from_secs(10))?;
/// let lost = guard.lost();
/// let watchdog = std::thread::spawn(move || {
///     if lost.wait(Duration::MAX) {
///         std::process::abort(); // Better no report than two.
///     }
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "it signals only a task or thread that waits for it"]
#[derive(Clone)]
pub struct Lost(pub(super) Signal);

impl Lost {
    /// Returns `true` if the lock is lost. Always returns `true` in a forked child.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.0.is_given()
    }

    /// Blocks this thread until the lock is lost, for at most `timeout`. Returns `true` if the lock is lost. Returns
    /// `false` immediately if the lock was released.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> bool {
        self.0.wait(timeout)
    }
}

impl Future for Lost {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl fmt::Debug for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lost")
            .field("is_lost", &self.is_lost())
            .finish_non_exhaustive()
    }
}

/// The error of [`LockGuard::while_held`](super::LockGuard::while_held): the lock was lost before the work ended.
#[derive(Clone, Eq, PartialEq, thiserror::Error)]
pub struct LockLost(pub(crate) Box<[u8]>);

impl LockLost {
    /// Returns the resource of the lock, or the first resource if the lock is on several.
    #[must_use]
    pub fn resource(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for LockLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "lock `{}`: lost before the work had ended",
            Shown(&self.0)
        )?;
        match f.alternate() {
            true => f.write_str(
                ", so the work was dropped; see what it left half done, and take the lock again",
            ),
            false => Ok(()),
        }
    }
}

impl fmt::Debug for LockLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockLost({})", Shown(&self.0))
    }
}
