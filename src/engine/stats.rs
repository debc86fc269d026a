//! Statistics of an engine: counts of outcomes, and histograms of times.
//!
//! # Guarantees
//!
//! * Statistics are always on. Counting does not allocate or read a clock, because the engine already knows every time.
//! * Each acquisition, extension and release is counted once, when it ends.
//! * Each lock is counted once in [`hold`](Stats::hold), when the lock ends for its holder.
//!
//! # Not here
//!
//! Confirmations, inspections, and calls that can never succeed as written (`Invalid`) are not counted. The time that
//! nodes take to answer is measured where answers are read (`node::connection::pulse`).

mod prometheus;

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::error::{ExtendError, LockError};
use crate::histogram::Histogram;
use crate::time::Instant;

/// Counts and times of a handle since the handle was built, and the present numbers of waiting operations. Statistics
/// are meant for operators and exporters.
///
/// Counts and histograms only grow. All clones of a `Redlock` share one set of statistics. Another handle has its own
/// set. The statistics hold no names of locks, so their size does not depend on the number of locks.
///
/// ```no_run
/// # use shearline::Redlock;
/// # let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
/// let stats = redlock.stats();
/// println!("{} locks, {} callers wait", stats.acquisitions.acquired, stats.waiting);
/// if let Some(left) = stats.validity_left.quantile(0.01) {
///     println!("one in a hundred was released with no more than {left:?} left");
/// }
/// # Ok::<(), shearline::BuildError>(())
/// ```
///
/// The method [`to_prometheus`](Self::to_prometheus) returns the statistics as Prometheus text. The example
/// `prometheus` serves this text.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Outcomes of calls that take a lock.
    pub acquisitions: Acquisitions,
    /// Outcomes of extensions by callers, and of locks that the handle [keeps](crate::LockOptions::keep).
    pub extensions: Extensions,
    /// Outcomes of releases.
    pub releases: Releases,
    /// Locks that were [adopted](crate::engine::Engine::adopt) from another engine or process.
    pub adopted: u64,
    /// Locks that ended before they were released, because their validity ran out or a majority of the nodes lost them.
    /// Each lost lock was reported to its holder.
    pub lost: u64,
    /// Locks whose fencing token took a second round trip, because the counters of the nodes had different numbers
    /// before. If these locks are a large part of the acquired locks, many clients want the same locks at once.
    pub second_round_trips: u64,
    /// The present number of callers whose acquisition asks no node, because it waits for its turn, for another holder,
    /// or for its next attempt.
    pub waiting: usize,
    /// The present number of held locks, which are locks that were not released, lost or handed over. A forgotten
    /// `Lock` or guard counts until its validity ends.
    pub held: usize,
    /// The present number of held locks that the handle [keeps](crate::LockOptions::keep).
    pub kept: usize,
    /// The present number of debts, which are releases that a node still lacks because it is away, has no room, or has
    /// refused them.
    pub owed: usize,
    /// For each acquired lock, the time from the call to its grant, including all attempts.
    pub acquire: Histogram,
    /// For each acquisition that was granted or refused by the nodes or this handle, the time from the call to the
    /// granted attempt, or to the refusal. After a grant, this is the time for which the call has waited for others and
    /// between attempts. After a refusal, this is the duration of the whole call.
    pub wait: Histogram,
    /// For each lock that was acquired or adopted and has ended, the time until it was released, lost or handed over.
    pub hold: Histogram,
    /// For each released lock, the validity that was left when the release was asked for. Zero means that the lock was
    /// over, so its critical section may have overlapped with another holder's critical section. If many values are
    /// small, the ttl is too short for the work.
    pub validity_left: Histogram,
    /// Statistics of each node, in the order of the configuration.
    pub nodes: Vec<NodeStats>,
}

/// The name and the count of each outcome.
type Outcomes = Vec<(&'static str, u64)>;

/// Makes a struct of counts, one for each outcome.
macro_rules! outcomes {
    ($(#[$doc:meta])* pub struct $name:ident { $($(#[$about:meta])* pub $outcome:ident: u64,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$about])* pub $outcome: u64,)+
        }

        impl $name {
            fn each(&self) -> Outcomes {
                [$((stringify!($outcome), self.$outcome)),+].into()
            }
        }
    };
}

outcomes! {
    /// Outcomes of calls that take a lock. Each call is counted once, including its retries.
    pub struct Acquisitions {
        /// The lock was granted.
        pub acquired: u64,
        /// Other clients held the lock, and the caller got [`LockError::Held`].
        pub held: u64,
        /// Too few nodes answered, and the caller got [`LockError::NoQuorum`].
        pub no_quorum: u64,
        /// The lock was granted without validity left, or nodes are too far away. The caller
        /// got [`LockError::TooSlow`].
        pub too_slow: u64,
        /// A node belongs to another group, and the caller got [`LockError::OtherCluster`].
        pub other_cluster: u64,
        /// A limit of the handle was reached, and the caller got [`LockError::Saturated`].
        pub saturated: u64,
        /// The caller gave up before the outcome, because it dropped the future or the call was late by the caller's
        /// own clock.
        pub cancelled: u64,
    }
}

outcomes! {
    /// Outcomes of extensions. Each extension is counted once.
    pub struct Extensions {
        /// A majority keeps the lock for longer.
        pub extended: u64,
        /// Too few nodes answered, and the caller got [`ExtendError::Unconfirmed`]. The lock did not change.
        pub unconfirmed: u64,
        /// A majority had lost the lock, and the caller got [`ExtendError::Lost`].
        pub lost: u64,
        /// The validity of the lock was over by the clock of this machine, and the caller got [`ExtendError::Expired`].
        pub expired: u64,
        /// The permitted number of extensions was used up, and the caller got [`ExtendError::Limit`].
        pub limit: u64,
        /// A limit of the handle was reached, and the caller got [`ExtendError::Saturated`].
        pub saturated: u64,
        /// The caller gave up, or the lock was released or handed over in the meantime.
        pub cancelled: u64,
    }
}

outcomes! {
    /// Outcomes of releases. Each release is counted once.
    pub struct Releases {
        /// A majority has deleted its key.
        pub released: u64,
        /// The lock had been lost before, and the caller got [`UnlockError::NotHeld`](crate::UnlockError::NotHeld).
        pub not_held: u64,
        /// Too few nodes answered, and the caller got [`UnlockError::Unconfirmed`](crate::UnlockError::Unconfirmed).
        /// The missing releases stay debts.
        pub unconfirmed: u64,
        /// No caller waited for the outcome, because a guard or a future was dropped or a lock was given back. The
        /// releases are still sent.
        pub unwatched: u64,
    }
}

/// Statistics of one node.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeStats {
    /// The address as it was configured, without credentials.
    pub address: Arc<str>,
    /// For each answer, the time since the command was ready to be written. The histogram includes handshakes. The
    /// histogram leaves out answers that may have waited because this program did not read.
    pub latency: Histogram,
}

impl Stats {
    /// Counts an acquisition that began at `started` and is granted at `now`, by the attempt that was sent at `sent`.
    #[inline]
    pub(super) fn granted(&mut self, now: Instant, started: Instant, sent: Instant) {
        self.acquisitions.acquired += 1;
        self.acquire.record_since(started, now);
        match sent == started {
            true => self.wait.record_zero(),
            false => self.wait.record_since(started, sent),
        }
    }

    /// Counts an acquisition that began at `started` and is refused at `now`.
    #[cold]
    pub(super) fn refused(&mut self, now: Instant, started: Instant, why: &LockError) {
        match why {
            LockError::Held(_) => self.acquisitions.held += 1,
            LockError::NoQuorum(_) => self.acquisitions.no_quorum += 1,
            LockError::TooSlow(_) => self.acquisitions.too_slow += 1,
            LockError::OtherCluster(_) => self.acquisitions.other_cluster += 1,
            LockError::Saturated => self.acquisitions.saturated += 1,
            LockError::Invalid(_) | LockError::Forked | LockError::Closed => {}
        }
        self.wait.record_since(started, now);
    }

    /// Counts a release at `now` of a lock whose holder believes that the lock is valid until `until`. `is_held` is
    /// `false` if this engine has reported the end of the lock.
    #[inline]
    pub(super) fn released(&mut self, now: Instant, until: Instant, is_held: bool) {
        match is_held {
            true => self.validity_left.record_since(now, until),
            false => self.validity_left.record_zero(),
        }
    }

    /// Counts the end, at `now`, of a lock that was held since `since`. `None` means that the lock was not held.
    #[inline]
    pub(super) fn end_hold(&mut self, now: Instant, since: Option<Instant>, is_kept: bool) {
        if let Some(since) = since {
            self.hold.record_since(since, now);
            self.kept -= usize::from(is_kept);
        }
    }
}

impl Extensions {
    #[cold]
    pub(super) fn failed(&mut self, why: &ExtendError) {
        match why {
            ExtendError::Unconfirmed(_) => self.unconfirmed += 1,
            ExtendError::Lost(_) => self.lost += 1,
            ExtendError::Expired => self.expired += 1,
            ExtendError::Limit => self.limit += 1,
            ExtendError::Saturated => self.saturated += 1,
            ExtendError::Closed => self.cancelled += 1,
            ExtendError::Invalid(_) | ExtendError::Forked => {}
        }
    }
}
