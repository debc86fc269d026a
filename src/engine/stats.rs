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
//! Confirmations, inspections, and calls that can never succeed (`Invalid`) are not counted. The module
//! `node::connection::pulse`, which reads answers, measures how long nodes take to answer.

mod prometheus;

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::error::{ExtendError, LockError};
use crate::histogram::Histogram;
use crate::time::Instant;

/// The counts and times of a handle since it was built, and the current numbers of locks, waiting callers and
/// unconfirmed releases. Statistics are meant for operators and exporters.
///
/// Counts and histograms only grow. All clones of a `Redlock` share one set of statistics. Each other handle has its
/// own set of statistics. The statistics contain no names of locks, so their size does not depend on the number of
/// locks.
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
    /// The outcomes of calls that take a lock.
    pub acquisitions: Acquisitions,
    /// The outcomes of extensions, by callers or for locks that the handle [keeps](crate::LockOptions::keep).
    pub extensions: Extensions,
    /// The outcomes of releases.
    pub releases: Releases,
    /// The number of locks that were [adopted](crate::engine::Engine::adopt) from another engine or process.
    pub adopted: u64,
    /// The number of locks that ended before they were released, because their validity ended or a majority of the
    /// nodes lost them. Each lost lock was reported to its holder.
    pub lost: u64,
    /// The number of locks whose fencing token needed a second round trip, because the nodes' counters differed. If
    /// this number is a large share of all acquired locks, many clients want the same locks at the same time.
    pub second_round_trips: u64,
    /// The current number of callers that wait for their turn, for another holder, or for their next attempt.
    /// Meanwhile, they ask no node.
    pub waiting: usize,
    /// The current number of held locks, which have not been released, lost or handed over. A forgotten `Lock` or guard
    /// counts until its validity ends.
    pub held: usize,
    /// The current number of held locks that the handle [keeps](crate::LockOptions::keep).
    pub kept: usize,
    /// The current number of outstanding releases. A release is outstanding if a node has refused it or is down, or if
    /// the buffer of the node's connection is full.
    pub debts: usize,
    /// For each acquired lock, the time from the call to the grant, including all attempts.
    pub acquire: Histogram,
    /// For each acquisition that was granted or refused, the time from the call to the granted attempt or to the
    /// refusal. For a grant, this is how long the call waited before its last attempt. For a refusal, it is the
    /// duration of the whole call.
    pub wait: Histogram,
    /// For each lock that was acquired or adopted and has ended, the time until it was released, lost or handed over.
    pub hold: Histogram,
    /// For each released lock, the validity that was left when the caller requested the release. Zero means that the
    /// lock had already ended, so its critical section may have overlapped with another holder's critical section. If
    /// many values are small, the ttl is too short for the work.
    pub validity_left: Histogram,
    /// The statistics of each node, in the order of the configuration.
    pub nodes: Vec<NodeStats>,
}

/// The name and the count of each outcome.
type Outcomes = Vec<(&'static str, u64)>;

/// Defines a struct with one count for each outcome.
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
    /// The outcomes of calls that take a lock. Each call is counted once, including its retries.
    pub struct Acquisitions {
        /// The lock was granted.
        pub acquired: u64,
        /// Other clients held the lock, and the caller got [`LockError::Held`].
        pub held: u64,
        /// Too few nodes answered, and the caller got [`LockError::NoQuorum`].
        pub no_quorum: u64,
        /// The lock was granted without validity left, or too many nodes are too far away. The caller
        /// got [`LockError::TooSlow`].
        pub too_slow: u64,
        /// A node belongs to another group, and the caller got [`LockError::OtherGroup`].
        pub other_group: u64,
        /// A limit of the handle was reached, and the caller got [`LockError::Saturated`].
        pub saturated: u64,
        /// The caller did not wait for the outcome: it dropped the future, or its deadline passed by its own clock.
        pub cancelled: u64,
    }
}

outcomes! {
    /// The outcomes of extensions. Each extension is counted once.
    pub struct Extensions {
        /// A majority has extended the lock.
        pub extended: u64,
        /// Too few nodes answered, and the caller got [`ExtendError::Unconfirmed`]. The lock did not change.
        pub unconfirmed: u64,
        /// A majority had lost the lock, and the caller got [`ExtendError::Lost`].
        pub lost: u64,
        /// The validity of the lock had ended by this machine's clock, and the caller got [`ExtendError::Expired`].
        pub expired: u64,
        /// The permitted number of extensions was used up, and the caller got [`ExtendError::Limit`].
        pub limit: u64,
        /// A limit of the handle was reached, and the caller got [`ExtendError::Saturated`].
        pub saturated: u64,
        /// The caller gave up, or the lock was released or handed over during the extension.
        pub cancelled: u64,
    }
}

outcomes! {
    /// The outcomes of releases. Each release is counted once.
    pub struct Releases {
        /// A majority of the nodes has deleted the key.
        pub released: u64,
        /// The lock had already been lost, and the caller got [`UnlockError::NotHeld`](crate::UnlockError::NotHeld).
        pub not_held: u64,
        /// Too few nodes answered, and the caller got [`UnlockError::Unconfirmed`](crate::UnlockError::Unconfirmed).
        /// The engine retries the unconfirmed releases.
        pub unconfirmed: u64,
        /// No caller waited for the outcome, because a guard or a future was dropped or a lock was given back. The
        /// releases are still sent.
        pub unwatched: u64,
    }
}

/// The statistics of one node.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeStats {
    /// The address as it was configured, without credentials.
    pub address: Arc<str>,
    /// For each answer, the time since its command was ready to be written. The histogram includes handshakes. The
    /// histogram omits answers that this program may have read late.
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
            LockError::OtherGroup(_) => self.acquisitions.other_group += 1,
            LockError::Saturated => self.acquisitions.saturated += 1,
            LockError::Invalid(_) | LockError::Forked | LockError::Closed => {}
        }
        self.wait.record_since(started, now);
    }

    /// Counts a release at `now` of a lock that its holder believes to be valid until `until`. `is_held` is `false` if
    /// this engine has reported the end of the lock.
    #[inline]
    pub(super) fn released(&mut self, now: Instant, until: Instant, is_held: bool) {
        match is_held {
            true => self.validity_left.record_since(now, until),
            false => self.validity_left.record_zero(),
        }
    }

    /// Counts a lock that was held from `since` until `now`. `None` means that no caller held the lock.
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
