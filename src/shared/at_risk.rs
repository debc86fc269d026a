//! The signal that a lock is about to end, and the health of a lock.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use super::signal::Signal;
use super::tenure::NOTICE;
use crate::error::Report;
use crate::time::{NANOS_PER_TICK, nanos};

/// Completes when less than a quarter of a lock's ttl is left, for example because extensions fail, or because a limit
/// is reached. For a [kept](crate::LockOptions::keep) lock, the ttl by which the handle extends the lock counts, even
/// if the lock was also extended by a longer ttl. The method [`LockGuard::at_risk`](super::LockGuard::at_risk) returns
/// this signal.
///
/// The signal borrows nothing and may be sent to another task or thread.
///
/// * The future signals a state and not an event: while the lock is at risk, a new future completes at once. After an
///   extension, a new future waits again.
/// * The signal comes from a timer, even if every node is silent. The signal comes up to two milliseconds early, never
///   late.
/// * If the lock is released or detached before it is lost, the future never completes.
/// * In a forked child the future completes at once, because the lock belongs to the parent.
///
/// ```no_run
/// # use std::time::Duration;
/// # use shearline::{LockOptions, Redlock};
/// # fn stop_working() {}
/// # let redlock = Redlock::connect(["redis://10.0.0.1"])?;
/// let kept = LockOptions::new(Duration::from_secs(10)).keep();
/// let guard = redlock.lock_with("report", &kept)?;
/// let at_risk = guard.at_risk();
/// std::thread::spawn(move || {
///     if at_risk.wait(Duration::MAX) {
///         stop_working(); // There are 2.5 s left.
///     }
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "it signals only a task or thread that waits for it"]
#[derive(Clone)]
pub struct AtRisk(pub(super) Signal);

impl AtRisk {
    /// Returns a future that completes when less than `left` is left, instead of a quarter of the ttl.
    pub fn below(self, left: Duration) -> Self {
        let mut this = self;
        this.0.set_early(early(left));
        this
    }

    /// Returns `true` if the lock is at risk now. Always `true` in a forked child.
    #[must_use]
    pub fn is_at_risk(&self) -> bool {
        self.0.is_given()
    }

    /// Waits on this thread until the lock is at risk, at most for `timeout`. Returns `true` if the lock is at risk.
    /// Returns `false` at once if the lock was released.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> bool {
        self.0.wait(timeout)
    }
}

/// Returns how long before the end of the lock the signal comes. This is `left`, rounded up to whole ticks of the
/// engine, plus one tick.
pub(super) fn early(left: Duration) -> Duration {
    let ticks = nanos(left).div_ceil(NANOS_PER_TICK);
    let whole = Duration::from_nanos(ticks.saturating_mul(NANOS_PER_TICK));
    whole.saturating_add(NOTICE)
}

impl Future for AtRisk {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl fmt::Debug for AtRisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AtRisk")
            .field("is_at_risk", &self.is_at_risk())
            .finish_non_exhaustive()
    }
}

/// The state of a held lock: [`LockGuard::health`](super::LockGuard::health).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// How much longer the lock is valid. Zero if the lock is not valid.
    pub validity: Duration,
    /// The addresses of the nodes that have confirmed the lock, in the order of the configuration. The list contains
    /// the nodes of the latest majority (of the grant, an extension or a confirmation), and nodes that have confirmed
    /// the lock later. A node that has denied the lock since is not in the list. A node that has fallen silent stays
    /// included until the next majority forms without it. `Redlock::nodes` shows which nodes are unreachable now. A
    /// node in quarantine is left out. The list is empty if the lock is not valid, and for
    /// an [adopted](crate::Redlock::adopt) lock until a majority has confirmed or extended it.
    pub confirmed_by: Vec<Arc<str>>,
    /// The number of failed extensions in a row, if the lock is [kept](crate::LockOptions::keep). Any successful
    /// extension resets the number to zero, also a call of [`extend`](super::LockGuard::extend). A failed call of
    /// `extend` counts only if it has found the lock lost.
    pub failures: u32,
    /// The answer of each node to the last of these failed extensions. If an extension has found the loss, the report
    /// is set when [`Lost`](crate::Lost) completes.
    pub last_report: Option<Report>,
}
