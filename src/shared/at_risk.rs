//! The signal that a lock is about to expire, and the health of a lock.

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

/// Completes when less than a quarter of a lock's ttl is left, for example because extensions fail or have reached
/// their limit. For a [kept](crate::LockOptions::keep) lock, the limit is a quarter of the ttl that the handle's
/// extensions use, even if a caller has extended the lock by a longer ttl. The
/// method [`LockGuard::at_risk`](super::LockGuard::at_risk) returns this signal.
///
/// The signal borrows nothing and may be sent to another task or thread.
///
/// * The future reports a state, not an event: while the lock is at risk, a new future completes immediately. After an
///   extension, a new future waits again.
/// * A timer triggers the signal, so the signal comes even if every node is silent. The signal comes up to two
///   milliseconds early, never late.
/// * If the lock is released or detached before it is lost, the future never completes.
/// * In a forked child the future completes immediately, because the lock belongs to the parent.
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

    /// Returns `true` if the lock is at risk now. Always returns `true` in a forked child.
    #[must_use]
    pub fn is_at_risk(&self) -> bool {
        self.0.is_given()
    }

    /// Blocks this thread until the lock is at risk, for at most `timeout`. Returns `true` if the lock is at risk.
    /// Returns `false` immediately if the lock was released.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> bool {
        self.0.wait(timeout)
    }
}

/// Returns how much validity is left when the signal comes. The result is `left`, rounded up to whole ticks of the
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

/// The state of a held lock, as returned by [`LockGuard::health`](super::LockGuard::health).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// How much longer the lock is valid. This time is zero if the lock is not valid.
    pub validity: Duration,
    /// The addresses of the nodes that have confirmed the lock, in the order of the configuration. The list contains
    /// the nodes of the latest majority (for the grant, an extension or a confirmation), and nodes that have confirmed
    /// the lock since then. A node that has denied the lock since then is not in the list. A node that stops answering
    /// stays in the list until a new majority forms without it. `Redlock::nodes` shows which nodes are unreachable now.
    /// The list leaves out nodes in quarantine. The list is empty if the lock is not valid. The list of
    /// an [adopted](crate::Redlock::adopt) lock stays empty until a majority has confirmed or extended the lock.
    pub confirmed_by: Vec<Arc<str>>,
    /// The number of consecutive failed extensions, if the lock is [kept](crate::LockOptions::keep). Any successful
    /// extension resets the number to zero, including a call of [`extend`](super::LockGuard::extend). A failed call of
    /// `extend` counts only if it found that the lock was lost.
    pub failures: u32,
    /// The answers of the nodes to the last failed extension. If an extension finds that the lock is lost, this report
    /// is already set when [`Lost`](crate::Lost) completes.
    pub last_report: Option<Report>,
}
