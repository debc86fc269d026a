//! What an engine has done: counts of outcomes, and histograms of times.
//!
//! # Guarantees
//!
//! * Always on. Counting allocates nothing, and reads no clock: every time is one that the engine was given.
//! * Each acquisition, extension and release is counted once, when it ends.
//! * Each lock is counted once among the [holds](Stats::hold), when it ends for its holder.
//!
//! # Not here
//!
//! Confirmations, inspections and calls that can never succeed as written (`Invalid`), which are not counted.
//! How long nodes take to answer is measured where they are heard (`node::pulse`).

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::error::{ExtendError, LockError};
use crate::histogram::Histogram;
use crate::time::Instant;

/// What a handle has done since it was built, and what it waits for now. For operators and exporters.
///
/// Counts and histograms only grow. All clones of a `Redlock` share theirs; another handle has its own.
/// They hold no names of locks, so they cost the same however many locks there are.
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
/// The example `prometheus` serves them as Prometheus text.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// How calls that take a lock have ended.
    pub acquisitions: Acquisitions,
    /// How extensions have ended, of callers and of the handle itself, which
    /// [keeps](crate::LockOptions::keep) locks.
    pub extensions: Extensions,
    /// How releases have ended.
    pub releases: Releases,
    /// Locks that were [adopted](crate::engine::Engine::adopt) from elsewhere.
    pub adopted: u64,
    /// Locks that ended before they were released: their validity ran out, or a majority of the nodes did
    /// not have them any more. Each of them is a holder that was told to stop.
    pub lost: u64,
    /// Locks whose fencing token took a second round trip, because nodes had counted to different numbers before. Where
    /// these are many of those that were acquired, many clients want the same locks at once.
    pub second_round_trips: u64,
    /// Now: callers whose acquisition asks no node, because it waits for its turn, for another holder, or
    /// for its next attempt.
    pub waiting: usize,
    /// Now: locks that are held, which were not released, lost or handed over. A `Lock` or guard that was
    /// forgotten counts until its validity ends.
    pub held: usize,
    /// Now: those of them that the handle [keeps](crate::LockOptions::keep).
    pub kept: usize,
    /// Now: releases that are owed to nodes, because those are away, have no room or have refused them.
    pub owed: usize,
    /// For each lock that was acquired: the time from the call to its grant, all attempts included.
    pub acquire: Histogram,
    /// For each acquisition that the nodes or this handle have granted or refused: the time from the call to
    /// the attempt that was granted, or to the refusal. What it waited for others, and between attempts;
    /// where it was refused, all of its time.
    pub wait: Histogram,
    /// For each lock that was acquired or adopted, and has ended: the time until it was released, lost or
    /// handed over.
    pub hold: Histogram,
    /// For each lock that was released: the validity that was left when it was asked for. Zero: it was over,
    /// and what it protected may have overlapped with another holder's work. Where much of it is short, the
    /// ttl is too short for the work.
    pub validity_left: Histogram,
    /// Each node, in the order of the configuration.
    pub nodes: Vec<NodeStats>,
}

/// How calls that take a lock have ended. Each is counted once, retries included.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Acquisitions {
    /// It was granted.
    pub acquired: u64,
    /// [`LockError::Held`]: others hold it.
    pub held: u64,
    /// [`LockError::NoQuorum`]: too few nodes answered.
    pub no_quorum: u64,
    /// [`LockError::TooSlow`]: it was granted without validity left, or nodes are too far away.
    pub too_slow: u64,
    /// [`LockError::OtherCluster`]: a node is another cluster's.
    pub other_cluster: u64,
    /// [`LockError::Saturated`]: a bound of the handle was reached.
    pub saturated: u64,
    /// Its caller gave up before the outcome: a future was dropped, or the call was late by its own clock.
    pub cancelled: u64,
}

/// How extensions have ended. Each is counted once.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Extensions {
    /// A majority keeps the lock for longer.
    pub extended: u64,
    /// [`ExtendError::Unconfirmed`]: too few nodes answered. The lock stood as it was.
    pub unconfirmed: u64,
    /// [`ExtendError::Lost`]: a majority did not have it any more.
    pub lost: u64,
    /// [`ExtendError::Expired`]: it was over by the clock of this machine.
    pub expired: u64,
    /// [`ExtendError::Limit`]: its extensions were used up.
    pub limit: u64,
    /// [`ExtendError::Saturated`]: a bound of the handle was reached.
    pub saturated: u64,
    /// Its caller gave up, or the lock was released or handed over meanwhile.
    pub cancelled: u64,
}

/// How releases have ended. Each is counted once.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Releases {
    /// A majority has deleted its key.
    pub released: u64,
    /// [`UnlockError::NotHeld`](crate::UnlockError::NotHeld): the lock had been lost before.
    pub not_held: u64,
    /// [`UnlockError::Unconfirmed`](crate::UnlockError::Unconfirmed): too few nodes answered. The releases stay owed.
    pub unconfirmed: u64,
    /// Nobody waited for the outcome: a guard or a future was dropped, or a lock was given back. The
    /// releases are sent all the same.
    pub unwatched: u64,
}

/// What is known of one node.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeStats {
    /// The address as it was configured, without credentials.
    pub address: Arc<str>,
    /// For each answer: the time since its command was ready to be written. Handshakes are included; left
    /// out are answers that may have waited because this program did not read.
    pub latency: Histogram,
}

impl Stats {
    /// An acquisition that `started` then is granted at `now`, by the attempt that was `sent` then.
    #[inline]
    pub(super) fn granted(&mut self, now: Instant, started: Instant, sent: Instant) {
        self.acquisitions.acquired += 1;
        self.acquire.record_since(started, now);
        match sent == started {
            true => self.wait.record_zero(),
            false => self.wait.record_since(started, sent),
        }
    }

    /// An acquisition that `started` then is refused at `now`.
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

    /// A lock is to be released at `now` that is valid `until` then, as far as its holder knows. `is_held` is `false`
    /// if this engine has reported that it is over.
    #[inline]
    pub(super) fn released(&mut self, now: Instant, until: Instant, is_held: bool) {
        match is_held {
            true => self.validity_left.record_since(now, until),
            false => self.validity_left.record_zero(),
        }
    }

    /// A lock that was held from `since` on is held no longer at `now`. `None`: it was not held.
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
