//! What a caller can ask of one lock, and how a handle tries again.

use core::ops::RangeInclusive;
use core::time::Duration;

/// How long a handle waits for a lock, where the call does not say.
///
/// The default is 5 s, and any number of attempts. [`Retry::new`] limits the attempts instead.
///
/// The random delay is what passes between two attempts, or between two looks at the lock, where the
/// nodes do not tell when it is free: [`manual::waiting`](crate::manual::waiting).
///
/// ```
/// use core::time::Duration;
/// use shearline::Retry;
///
/// const OFTEN: Retry = Retry::new(100, Duration::from_millis(20)..=Duration::from_millis(80));
/// let patient = Retry::default().wait(Duration::from_secs(60));
/// # let _ = (OFTEN, patient);
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Retry {
    tries: u32,
    shortest: Duration,
    longest: Duration,
    pub(super) wait: Option<Duration>,
}

/// How long a call waits if neither it nor its handle says anything else.
const DEFAULT_WAIT: Duration = Duration::from_secs(5);

impl Retry {
    /// At most `tries` attempts (the first one counts, so 1 is the least), a random `delay` apart.
    ///
    /// Only attempts that are sent count. A caller that waits for others does not send any, so it
    /// gives up after `tries` times the longest delay at the latest.
    ///
    /// No try at all, or a delay that ends before it begins, is refused by
    /// [`Builder::config`](crate::Builder::config).
    #[must_use]
    pub const fn new(tries: u32, delay: RangeInclusive<Duration>) -> Self {
        Self {
            tries,
            shortest: *delay.start(),
            longest: *delay.end(),
            wait: None,
        }
    }

    /// Gives up `wait` after the call, and lifts the limit of attempts. Zero means one attempt.
    #[must_use]
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Returns the most attempts, the first one included. They are not limited where there is
    /// a deadline: the default, which has one, says 32.
    pub(crate) const fn tries(&self) -> u32 {
        self.tries
    }

    /// Returns the range of the delay between two attempts.
    pub(crate) const fn delay(&self) -> RangeInclusive<Duration> {
        RangeInclusive::new(self.shortest, self.longest)
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self::new(32, Duration::from_millis(50)..=Duration::from_millis(250)).wait(DEFAULT_WAIT)
    }
}

/// How nodes that restarted, and may have forgotten locks, are kept from voting.
///
/// Redlock without persistence is safe only if a restarted node stays out of the votes until the
/// locks that it may have forgotten have expired. The usual advice to operators is to delay
/// restarts by hand; this does it in the client. A node in *quarantine* is asked as before, because
/// its key keeps others out, but its answers do not count:
/// [`NodeOutcome::Quarantined`](crate::NodeOutcome). When its quarantine is over it votes again;
/// `Redlock::trust_node` lets an operator end it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum RestartGuard {
    /// A restarted node votes at once. Right for nodes that write every lock to disk before they
    /// answer (`appendfsync always`), and for tests.
    Off,
    /// At every handshake a node identifies itself (`run_id`, `master_replid`). A node whose
    /// identity has changed or can no longer be read, or that refused a command because it loads or
    /// follows another server (`LOADING`, `READONLY`, `MASTERDOWN`), is in quarantine from the end
    /// of that handshake until every lock of [`Builder::max_ttl`](crate::Builder::max_ttl) has
    /// expired, or of the longest ttl that this handle has asked for if that is longer, plus the
    /// drift.
    ///
    /// Where `max_ttl` was set, a node that is connected for the first time and has not been up for
    /// as long is in quarantine for the rest.
    ///
    /// A node whose clock was stepped is treated in the same way
    /// ([`Builder::watch_clocks`](crate::Builder::watch_clocks)).
    ///
    /// Not seen: a restart before the first handshake where `max_ttl` was not set; locks with a
    /// longer ttl of other clients; deleted keys; a node whose user may not ask `INFO`.
    #[default]
    Observed,
    /// Every node carries a marker (`shearline:marker`), and every question about a lock
    /// checks it where it is executed: on which incarnation of the server it was written, the
    /// longest ttl of all clients, how many nodes there are, how many of them are a majority, and
    /// the name of the cluster ([`Builder::cluster`](crate::Builder::cluster)).
    ///
    /// A marker that is missing or of another incarnation means that there was a restart, a
    /// promotion or a `FLUSHALL`, or that this is another data set. A client that finds no marker
    /// writes a new one, with a *barrier* (`shearline:barrier`) that lasts until
    /// every lock is over that may have been forgotten:
    /// [`Builder::max_ttl`](crate::Builder::max_ttl), 60 s if it is not set, and the drift. Until
    /// then no client counts the answers of that node.
    ///
    /// * Longer ttls than `max_ttl` are refused. A client with a shorter one joins and uses the
    ///   longer; a client with a longer one raises the markers, behind a barrier. It is best if all
    ///   have the same.
    /// * A client with another number of nodes or another name gets
    ///   [`LockError::OtherCluster`](crate::LockError::OtherCluster), and no lock. A change is made by
    ///   `Redlock::reinit`.
    /// * Nodes that were never used have no marker, and wait too; `Redlock::trust_nodes` skips
    ///   that.
    /// * There is no barrier where the server has shown, before and after, that it loses nothing in
    ///   a restart: `appendonly yes`, `appendfsync always`, `no-appendfsync-on-rewrite no`, no
    ///   replicas, never promoted (asked by `CONFIG GET` and `INFO`). That rests on more: the disk
    ///   honours `fsync`, the data directory is not put back from a copy, these settings are not
    ///   changed while the server runs, and no replica is promoted *and restarted* before a client
    ///   asks it.
    /// * Alarms (`LOADING`, `READONLY`, `MASTERDOWN`) and clocks that are stepped count as with
    ///   [`Observed`](Self::Observed).
    ///
    /// Cost: scripts instead of plain `SET`s, some 200 bytes more for each question, one round trip
    /// more when a connection is made, and two keys on each node. The user has to be allowed `INFO`
    /// and both keys; [`manual::permissions`](crate::manual::permissions) has the line.
    ///
    /// Not seen: a lock that was deleted or evicted alone, with the marker left where it was;
    /// clients that use the same keys without this guard; a restart from disk, or a promotion,
    /// behind a proxy that hides the loss of the connection; a master that followed its own former
    /// replica, and was master again, between two questions; a barrier that is deleted. Where
    /// clients have different `max_ttl`, a barrier is as long as the longest ttl that its writer
    /// knows: a longer one that is not on all nodes yet, or that a majority has forgotten, is
    /// unknown to a client that reaches only the others. So start the clients with the longest
    /// first, and let them reach every node before the others start.
    Strict,
}

/// How one lock is asked for: its ttl, and if wanted how long or how often to try.
///
/// With neither [`wait`](Self::wait) nor [`tries`](Self::tries) the handle's [`Retry`] holds: 5 s
/// by default.
///
/// ```
/// use core::time::Duration;
/// use shearline::LockOptions;
///
/// // Tries for three seconds, however often; the lock can be extended twice.
/// let options = LockOptions::new(Duration::from_secs(10))
///     .wait(Duration::from_secs(3))
///     .extensions(2);
/// assert_eq!(options.ttl(), Duration::from_secs(10));
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use = "options do nothing until a lock is asked for with them"]
pub struct LockOptions {
    ttl: Duration,
    wait: Option<Duration>,
    tries: Option<u32>,
    /// The largest number: any number.
    extensions: u32,
    /// For how many nanoseconds it is kept. Zero: it is not.
    keep: u64,
    fenced: bool,
}

impl LockOptions {
    /// A lock of this `ttl`, tried for as the handle's [`Retry`] says.
    ///
    /// The ttl is checked when the lock is asked for: longer than its own drift (some 3 ms), and
    /// no longer than the handle allows.
    pub const fn new(ttl: Duration) -> Self {
        Self {
            ttl,
            wait: None,
            tries: None,
            extensions: u32::MAX,
            keep: 0,
            fenced: false,
        }
    }

    /// Gives up `wait` after the call. Lifts the limit of tries, unless [`tries`](Self::tries) is
    /// set too: then whichever is reached first ends it. Zero means one try.
    ///
    /// A call does not wait for what only an operator can repair ([`Report::needs_operator`](crate::Report::needs_operator)):
    /// it fails at once. A program that calls again pauses in between.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Makes at most `tries` attempts, the first one included, and gives up after `tries` times the
    /// longest delay of the handle's [`Retry`] at the latest: a caller that waits for others sends
    /// none. When the holder extends its lock, that may use up a try. One try does not wait. Zero
    /// is refused when the lock is asked for, as [`NoTries`](crate::InvalidRequest::NoTries).
    pub const fn tries(mut self, tries: u32) -> Self {
        self.tries = Some(tries);
        self
    }

    /// Allows at most this many extensions of the lock; after them
    /// [`ExtendError::Limit`](crate::ExtendError::Limit). Without this, and with [`u32::MAX`], there is
    /// no such limit. Unless the lock is kept, one whose outcome the caller drops does not count.
    pub const fn extensions(mut self, most: u32) -> Self {
        self.extensions = most;
        self
    }

    /// Has the lock extended by the handle until it is released or lost: at half of its validity, by
    /// its ttl each time, and again within what is left if that fails.
    ///
    /// * It ends with `unlock` and the drop of the guard, with the loss of the lock, with
    ///   `LockGuard::into_lock` or `detach`, with `Lock::to_bytes`, with the number of
    ///   [`extensions`](Self::extensions) and with the handle. Of a plain [`Lock`](crate::Lock) also with
    ///   its drop, which does not release it. A guard or lock that is leaked is kept.
    /// * An extension that fails does not end the lock: it is valid until its end, and tried again
    ///   (at most 15 times; the pauses get shorter). If a majority says that the key is not there,
    ///   the lock is lost.
    /// * The nodes tell when another client deletes or replaces its key, and the handle asks all of them at
    ///   once: the lock is lost two round trips after the change on a majority. That takes
    ///   `+client|tracking` and `+client|caching`, and is so for 1,000 keys of a handle from 50 ms after the
    ///   grant on, as servers have a bounded table for it. Without it, and with a number of
    ///   [`extensions`](Self::extensions), the next extension finds it. Between the change and the loss
    ///   another client can have the lock.
    /// * `Redlock` extends on its I/O thread, whatever the threads of the program do. `LocalRedlock`,
    ///   `Driver` and [`Engine`](crate::engine::Engine) do it in their turns: the program has to call
    ///   `poll` or `turn`, at least as often as `until_deadline` says.
    /// * A lock that is held already, or that came from another process, can be kept from then on:
    ///   `LockGuard::keep`, `LocalRedlock::keep`.
    /// * A program that hangs keeps its lock. [`keep_for`](Self::keep_for) limits that.
    ///
    /// Costs small allocations when the lock is granted, and for each extension one command to each
    /// node, which begin 50 ms after the grant. Those that are due in one turn go out in one write to each.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use shearline::{LockOptions, Redlock};
    /// # fn work() {}
    /// # let redlock = Redlock::connect(["redis://10.0.0.1"])?;
    /// let kept = LockOptions::new(Duration::from_secs(10)).keep();
    /// let guard = redlock.lock_with("nightly-report", &kept)?;
    /// work(); // For an hour, perhaps.
    /// assert!(guard.is_valid()); // Unless it was lost: see `LockGuard::at_risk`, `lost`.
    /// guard.unlock()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn keep(mut self) -> Self {
        self.keep = u64::MAX;
        self
    }

    /// Keeps the lock as [`keep`](Self::keep) does, for at most `most` in all, counted from the
    /// grant: no extension lasts longer, so the lock ends then, unless you extend it further
    /// yourself. If that is shorter than its ttl it is not extended at all.
    ///
    /// ```
    /// use core::time::Duration;
    /// use shearline::LockOptions;
    ///
    /// let hour = Duration::from_secs(3600);
    /// let kept = LockOptions::new(Duration::from_secs(10)).keep_for(hour);
    /// # let _ = kept;
    /// ```
    pub const fn keep_for(mut self, most: Duration) -> Self {
        self.keep = crate::time::nanos(most);
        self
    }

    /// Has the lock come with a fencing token: a number that is larger than that of every lock on the same
    /// resource before it, without any assumption about clocks. See
    /// [`Lock::fencing_token`](crate::Lock::fencing_token) for what to do with it, and
    /// [`manual::safety`](crate::manual::safety) for why it is so.
    ///
    /// * Every node has a floor for its tokens (`shearline:floor`), which an operator gives it once:
    ///   by `Redlock::trust_nodes` on a handle that was refused a token. A node without one is [`Unusable::NoFloor`](crate::Unusable::NoFloor) for locks
    ///   with a token, and votes on others.
    /// * A node that restarts, with its data or without, has none again. It is repaired from the others by any handle that
    ///   is refused a token there and lives for longer than the longest ttl: until then it is
    ///   [`Unusable::InRepair`](crate::Unusable::InRepair). Where a majority has restarted at once, an operator gives all of
    ///   them floors again. [`manual::operating`](crate::manual::operating#nodes-that-give-fencing-tokens) says how,
    ///   and how to see which nodes have one.
    /// * A repair waits for the longest ttl, so that every attempt from before the loss is over: for
    ///   [`Builder::max_ttl`](crate::Builder::max_ttl), or 60 s where it is not set. Set it in every client if any asks
    ///   for a token with a longer ttl: a handle cannot know what others ask for.
    /// * It excludes plain locks on the same resource, and they exclude it.
    /// * Every node runs a script, and its user has to be allowed the keys `shearline:*`:
    ///   [`manual::permissions`](crate::manual::permissions). On a handle
    ///   [without scripts](crate::Builder::without_scripts) it is
    ///   [`InvalidRequest::FencedWithoutScripts`](crate::InvalidRequest::FencedWithoutScripts).
    ///
    /// Costs a script in place of a `SET`, and a second round trip within the same call, counted against the
    /// validity, if no majority returns the same number: rarely, also where many ask at once
    /// ([`Stats::second_round_trips`](crate::Stats::second_round_trips)). Without that it allocates nothing more in steady
    /// locking of one name, or of names of one length.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use shearline::{LockOptions, Redlock};
    /// # fn write(value: u32, token: u64) {}
    /// # let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
    /// let fenced = LockOptions::new(Duration::from_secs(10)).fenced();
    /// let guard = redlock.lock_with("account:7", &fenced)?;
    /// let token = guard.fencing_token().expect("it was asked for");
    /// write(5, token); // The store refuses a smaller one than it has seen.
    /// guard.unlock()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn fenced(mut self) -> Self {
        self.fenced = true;
        self
    }

    /// Returns `true` if the lock is to come with a [fencing token](Self::fenced).
    #[must_use]
    pub const fn is_fenced(&self) -> bool {
        self.fenced
    }

    /// Returns the ttl that is asked for.
    #[must_use]
    pub const fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Returns how long after the call it gives up on a handle with this `retry`; `None` if only the
    /// tries end it.
    pub(crate) const fn wait_allowed(&self, retry: &Retry) -> Option<Duration> {
        match (self.wait, self.tries) {
            (None, None) => retry.wait,
            (wait, _) => wait,
        }
    }

    /// Returns how many attempts may be made on a handle with this `retry`; `None` if only the time
    /// ends them.
    pub(crate) const fn tries_allowed(&self, retry: &Retry) -> Option<u32> {
        match (self.tries, self.wait_allowed(retry)) {
            (Some(tries), _) => Some(tries),
            (None, Some(Duration::ZERO)) => Some(1),
            (None, Some(_)) => None,
            (None, None) => Some(retry.tries),
        }
    }

    /// Returns how many extensions the lock may have; the largest number if any number.
    pub(crate) const fn extensions_left(&self) -> u32 {
        self.extensions
    }

    /// Returns for how many nanoseconds the lock is kept at most; zero if it is not kept.
    pub(crate) const fn kept_nanos(&self) -> u64 {
        self.keep
    }
}

#[cfg(feature = "internals")]
#[doc(hidden)]
impl LockOptions {
    /// Returns how long after the call it gives up; `None` if the tries or the handle's [`Retry`]
    /// end it.
    #[must_use]
    pub const fn deadline(&self) -> Option<Duration> {
        self.wait
    }

    /// Returns how many attempts may be made on a handle with this `retry`.
    #[must_use]
    pub const fn limit(&self, retry: &Retry) -> Option<u32> {
        self.tries_allowed(retry)
    }

    /// Returns for how long the lock is kept at most: [`Duration::MAX`] without a limit, `None` if it
    /// is not kept.
    #[must_use]
    pub const fn kept_for(&self) -> Option<Duration> {
        match self.keep {
            0 => None,
            u64::MAX => Some(Duration::MAX),
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_lifts_the_limit_of_tries_unless_both_are_given() {
        let second = Duration::from_secs(1);
        let retry = Retry::new(7, Duration::ZERO..=second);
        let options = LockOptions::new(second);
        for (options, tries, deadline) in [
            (options, Some(7), None),
            (options.wait(second), None, Some(second)),
            (
                options.wait(Duration::from_nanos(1)),
                None,
                Some(Duration::from_nanos(1)),
            ),
            (options.wait(Duration::ZERO), Some(1), Some(Duration::ZERO)),
            (options.tries(3), Some(3), None),
            (options.tries(0), Some(0), None),
            (options.wait(second).tries(3), Some(3), Some(second)),
            (
                options.wait(Duration::ZERO).tries(3),
                Some(3),
                Some(Duration::ZERO),
            ),
        ] {
            assert_eq!(options.tries_allowed(&retry), tries, "{options:?}");
            assert_eq!(options.wait, deadline, "{options:?}");
            assert_eq!(options.wait_allowed(&retry), deadline, "{options:?}");
            assert_eq!(options.extensions_left(), u32::MAX);
        }
        assert_eq!(options.extensions(0).extensions_left(), 0);
    }

    #[test]
    fn the_wait_of_a_handle_holds_where_the_call_says_nothing() {
        let second = Duration::from_secs(1);
        let (usual, once) = (Retry::default(), Retry::default().wait(Duration::ZERO));
        let options = LockOptions::new(second);
        for (options, retry, tries, wait) in [
            (options, usual, None, Some(5 * second)),
            (options.wait(second), usual, None, Some(second)),
            (options.tries(3), usual, Some(3), None),
            (options.wait(second).tries(3), usual, Some(3), Some(second)),
            (options, once, Some(1), Some(Duration::ZERO)),
        ] {
            assert_eq!(options.tries_allowed(&retry), tries, "{options:?}");
            assert_eq!(options.wait_allowed(&retry), wait, "{options:?}");
        }
    }
}
