//! The options of one lock, and how a handle tries again.

#[cfg(feature = "std")]
use alloc::boxed::Box;
use core::ops::RangeInclusive;
use core::time::Duration;

use crate::error::RequestFault;
use crate::limits::OWNER_BYTES_MAX;

/// How long a handle waits for a lock, unless the call sets this itself.
///
/// The default is 5 s, and any number of attempts. [`Retry::new`] limits the attempts instead.
///
/// The random delay is the time between two attempts, or between two looks at the lock if the nodes do not notify the
/// handle when it is free: [`manual::waiting`](crate::manual::waiting).
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

/// How long a call waits if neither the call nor its handle sets it.
const DEFAULT_WAIT: Duration = Duration::from_secs(5);

impl Retry {
    /// Makes at most `tries` attempts (the first one counts, so 1 is the least), with a random `delay` in between.
    ///
    /// Only attempts that are sent count. A caller that waits for other callers sends none, so it gives up after
    /// `tries` times the longest delay at the latest.
    ///
    /// [`Builder::config`](crate::Builder::config) refuses zero tries, and a delay that ends before it begins.
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

    /// Returns the limit of attempts, including the first one. If there is a deadline, attempts are not limited. The
    /// default has a deadline, and returns 32.
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
/// Redlock without persistence is safe only if a restarted node does not vote until the locks that it may have
/// forgotten have expired. The usual advice to operators is to delay restarts by hand; this guard does it in the
/// client. A node in *quarantine* is still asked, because its key keeps others out, but its answers do not count:
/// [`NodeOutcome::Quarantined`](crate::NodeOutcome). After the quarantine it votes again. An operator can end the
/// quarantine with `Redlock::trust_node`.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum RestartGuard {
    /// A restarted node votes at once. This is right for nodes that write every lock to disk before they answer
    /// (`appendfsync always`), and for tests.
    Off,
    /// At every handshake a node identifies itself (`run_id`, `master_replid`). A node is put into quarantine if its
    /// identity has changed or can no longer be read, or if it refused a command because it loads or follows another
    /// server (`LOADING`, `READONLY`, `MASTERDOWN`). The quarantine begins at the end of that handshake. It lasts for
    /// [`Builder::max_ttl`](crate::Builder::max_ttl), or for the longest ttl that this handle was asked for if that is
    /// longer, plus the drift. By then every such lock has expired.
    ///
    /// If `max_ttl` was set, a node that has been up for a shorter time when it is first connected is in quarantine for
    /// the rest of that time.
    ///
    /// A node whose clock was stepped is treated in the same way
    /// ([`Builder::watch_clocks`](crate::Builder::watch_clocks)).
    ///
    /// Not seen: a restart before the first handshake if `max_ttl` was not set; locks of other clients with a longer
    /// ttl; deleted keys; a node whose user may not run `INFO`.
    #[default]
    Observed,
    /// Every node has a marker (`shearline:marker`), and every command about a lock checks it on the node. The marker
    /// holds the incarnation of the server that it was written on, the longest ttl of all clients, the number of nodes,
    /// the number of nodes that are a majority, and the name of the cluster
    /// ([`Builder::cluster`](crate::Builder::cluster)).
    ///
    /// A marker that is missing or belongs to another incarnation means that there was a restart, a promotion or a
    /// `FLUSHALL`, or that this is another data set. A client that finds no marker writes a new one, with a *barrier*
    /// (`shearline:barrier`). The barrier lasts until every lock that may have been forgotten is over: for
    /// [`Builder::max_ttl`](crate::Builder::max_ttl), 60 s if it is not set, and the drift. Until then no client counts
    /// the answers of that node.
    ///
    /// * Longer ttls than `max_ttl` are refused. A client with a shorter `max_ttl` joins and uses the longer one; a
    ///   client with a longer one raises the markers, with a barrier. It is best if all clients use the same.
    /// * A client with another number of nodes or another name gets
    ///   [`LockError::OtherCluster`](crate::LockError::OtherCluster), and no lock. To change these, use
    ///   `Redlock::reinit`.
    /// * Nodes that were never used have no marker, so they have to wait too; `Redlock::trust_nodes` skips this wait.
    /// * There is no barrier if the server has shown, before and after, that it loses nothing in a restart: `appendonly
    ///   yes`, `appendfsync always`, `no-appendfsync-on-rewrite no`, no replicas, never promoted (asked by `CONFIG GET`
    ///   and `INFO`). This also relies on the following: the disk honours `fsync`, the data directory is not restored
    ///   from a copy, these settings are not changed while the server runs, and no replica is promoted *and restarted*
    ///   before a client asks it.
    /// * Alarms (`LOADING`, `READONLY`, `MASTERDOWN`) and stepped clocks count as with [`Observed`](Self::Observed).
    ///
    /// Cost: scripts instead of plain `SET`s, some 200 bytes more for each question, one more round trip for a new
    /// connection, and two keys on each node. The user needs permission for `INFO` and for both keys;
    /// [`manual::permissions`](crate::manual::permissions) has the line.
    ///
    /// Not seen: a lock that was deleted or evicted alone, while the marker stayed; clients that use the same keys
    /// without this guard; a restart from disk, or a promotion, behind a proxy that hides the loss of the connection; a
    /// master that followed its own former replica, and was master again, between two questions; a barrier that is
    /// deleted. If clients have different `max_ttl`, a barrier is as long as the longest ttl that its writer knows. If
    /// a longer ttl is not on all nodes yet, or a majority has forgotten it, a client that reaches only the other nodes
    /// does not know it. So start the clients with the longest `max_ttl` first, and let them reach every node before
    /// the others start.
    Strict,
}

/// How one lock is requested: its ttl, and optionally how long or how often to try.
///
/// With neither [`wait`](Self::wait) nor [`tries`](Self::tries), the handle's [`Retry`] applies: 5 s by default.
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
    terms: Terms,
    owner: Option<Owner>,
}

/// The options of a request that moves from place to place. An owner text is large and rare.
#[cfg(feature = "std")]
#[derive(Debug)]
pub(crate) struct PackedOptions {
    terms: Terms,
    owner: Option<Box<Owner>>,
}

#[cfg(feature = "std")]
impl PackedOptions {
    pub(crate) fn ttl(&self) -> Duration {
        self.terms.ttl
    }

    pub(crate) fn unpacked(self) -> LockOptions {
        LockOptions {
            terms: self.terms,
            owner: self.owner.map(|owner| *owner),
        }
    }
}

/// All options but the owner text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Terms {
    ttl: Duration,
    wait: Option<Duration>,
    tries: Option<u32>,
    /// The largest number means any number.
    extensions: u32,
    /// How many nanoseconds the lock is kept. Zero if it is not kept.
    keep: u64,
    fenced: bool,
    /// Whether it asks for a fencing token or an owner of its own, which few requests do.
    rare: bool,
}

/// The owner text of one lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Owner {
    /// The length that was asked for, which may be too long. The rest of the text is zero.
    len: usize,
    text: [u8; OWNER_BYTES_MAX],
}

impl Owner {
    fn new(text: &[u8]) -> Self {
        let mut owner = Self {
            len: text.len(),
            text: [0; OWNER_BYTES_MAX],
        };
        let kept = &text[..text.len().min(OWNER_BYTES_MAX)];
        owner.text[..kept.len()].copy_from_slice(kept);
        owner
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.text[..self.len.min(OWNER_BYTES_MAX)]
    }
}

impl LockOptions {
    /// Requests a lock with this `ttl`, tried for as long as the handle's [`Retry`] says.
    ///
    /// The ttl is checked when the lock is requested: it must be longer than its own drift (some 3 ms), and no longer
    /// than the handle allows.
    pub const fn new(ttl: Duration) -> Self {
        let terms = Terms {
            ttl,
            wait: None,
            tries: None,
            extensions: u32::MAX,
            keep: 0,
            fenced: false,
            rare: false,
        };
        Self { terms, owner: None }
    }

    /// Gives up `wait` after the call. Lifts the limit of tries, unless [`tries`](Self::tries) is set too. In that
    /// case, the call ends at whichever limit it reaches first. Zero means one try.
    ///
    /// A call does not wait if only an operator can repair the fault
    /// ([`Report::needs_operator`](crate::Report::needs_operator)): it fails at once. A program that calls again should
    /// pause in between.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.terms.wait = Some(wait);
        self
    }

    /// Makes at most `tries` attempts, the first one included. Gives up after `tries` times the longest delay of the
    /// handle's [`Retry`] at the latest, because a caller that waits for others sends no attempts. A try may also be
    /// used up because the holder extends its lock. With one try, the call does not wait. Zero is refused when the lock
    /// is requested ([`InvalidRequest`](crate::InvalidRequest)).
    pub const fn tries(mut self, tries: u32) -> Self {
        self.terms.tries = Some(tries);
        self
    }

    /// Allows at most this many extensions of the lock; further ones fail with
    /// [`ExtendError::Limit`](crate::ExtendError::Limit). Without this, and with [`u32::MAX`], there is no such limit.
    /// An extension does not count if the caller drops its outcome, unless the lock is kept.
    pub const fn extensions(mut self, most: u32) -> Self {
        self.terms.extensions = most;
        self
    }

    /// Keeps the lock: the handle extends it by its ttl whenever half of its validity is left, until it is released or
    /// lost. If an extension fails, the handle tries again in the time that is left.
    ///
    /// * Keeping ends when the lock is unlocked or lost, when the guard is dropped, with `LockGuard::into_lock`,
    ///   `detach` or `Lock::to_bytes`, when the number of [`extensions`](Self::extensions) is used up, and when the
    ///   handle ends. For a plain [`Lock`](crate::Lock) it also ends when the lock is dropped, which does not release
    ///   it. A leaked guard or lock is still kept.
    /// * A failed extension does not end the lock. The lock is valid until its end, and the extension is tried again
    ///   (at most 15 times, with shorter and shorter pauses). If a majority says that the key is missing, the lock is
    ///   lost.
    /// * The nodes notify the handle when another client deletes or replaces the key, and the handle asks all of them
    ///   at once. The lock is reported as lost two round trips after the change on a majority. This needs
    ///   `+client|tracking` and `+client|caching`. It works for 1,000 keys of a handle, from 50 ms after the grant on,
    ///   because servers have a bounded table for it. Without it, and with a number of
    ///   [`extensions`](Self::extensions), the next extension finds the change. Between the change and this report
    ///   another client can have the lock.
    /// * `Redlock` extends on its I/O thread, whatever the threads of the program do. `LocalRedlock`, `Driver` and
    ///   `Engine` do it in their turns: the program has to call `poll` or `turn`, at least as often as
    ///   `until_deadline` says.
    /// * A lock that is already held, or came from another process, can be kept later: `LockGuard::keep`,
    ///   `LocalRedlock::keep`.
    /// * A program that hangs keeps its lock. [`keep_for`](Self::keep_for) limits that.
    ///
    /// Costs small allocations when the lock is granted, and one command to each node for each extension, from 50 ms
    /// after the grant on. Extensions that are due in one turn go to each node in one write.
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
        self.terms.keep = u64::MAX;
        self
    }

    /// Keeps the lock as [`keep`](Self::keep) does, but for at most `most` in total, counted from the grant. No
    /// extension lasts longer, so the lock ends then unless you extend it yourself. If `most` is shorter than the ttl,
    /// the lock is not extended at all.
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
        self.terms.keep = crate::time::nanos(most);
        self
    }

    /// Adds a fencing token to the lock: a number that is larger than the tokens of all earlier locks on the same
    /// resource, without any assumption about clocks. See [`Lock::fencing_token`](crate::Lock::fencing_token) for its
    /// use, and [`manual::fencing`](crate::manual::fencing) for the proof.
    ///
    /// * Every node has a counter floor for its tokens (`shearline:floor`). An operator creates it once:
    ///   `Redlock::trust_nodes`, called on a handle whose request for a token was refused. A node without a floor is
    ///   [`Unusable::NoFloor`](crate::Unusable::NoFloor) for locks with a token, and votes on other locks.
    /// * A node that restarts, with or without its data, has no floor again. Any handle whose request for a token it
    ///   refuses, and that lives longer than the longest ttl, repairs the node from the other nodes. Until then the
    ///   node is [`Unusable::InRepair`](crate::Unusable::InRepair). If a majority has restarted at once, an operator
    ///   has to create the floors again. [`manual::operating`](crate::manual::operating#nodes-that-give-fencing-tokens)
    ///   says how, and how to see which nodes have a floor.
    /// * A repair waits for the longest ttl, so that every attempt from before the loss is over: for
    ///   [`Builder::max_ttl`](crate::Builder::max_ttl), or 60 s if it is not set. Set it in every client if any client
    ///   asks for a token with a longer ttl, because a handle cannot know the requests of others.
    /// * A fenced lock excludes plain locks on the same resource, and they exclude it.
    /// * The token of a permit is larger than the tokens of all earlier holders of its
    ///   [slot](crate::PermitGuard::slot), but perhaps not larger than those of other slots.
    /// * Every node runs a script, and its user needs permission for the keys `shearline:*`:
    ///   [`manual::permissions`](crate::manual::permissions). On a handle [without
    ///   scripts](crate::Builder::without_scripts) the request is invalid
    ///   ([`InvalidRequest::needs_scripts`](crate::InvalidRequest::needs_scripts)).
    ///
    /// Costs a script in place of a `SET`. Sometimes no majority returns the same number, which is rare even if many
    /// callers ask at once. Then the call makes a second round trip, whose time is taken from the validity
    /// ([`Stats::second_round_trips`](crate::Stats::second_round_trips)). Steady locking of one name, or of names of
    /// the same length, still allocates nothing.
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
        (self.terms.fenced, self.terms.rare) = (true, true);
        self
    }

    /// Sets the owner text of this lock, in place of the owner text of the handle
    /// ([`Builder::owner`](crate::Builder::owner)): at most 64 arbitrary bytes, such as the address of the holder.
    /// Others see it in an [`Inspection`](crate::Inspection), a [`Watch`](crate::Watch), and the report of
    /// [`LockError::Held`](crate::LockError::Held). A longer text is refused when the lock is requested
    /// ([`InvalidRequest`](crate::InvalidRequest)).
    ///
    /// If the lock is also [`fenced`](Self::fenced), others see its fencing token too:
    /// [`Holder::fencing_token`](crate::Holder::fencing_token).
    ///
    /// ```
    /// use core::time::Duration;
    /// use shearline::LockOptions;
    ///
    /// let options = LockOptions::new(Duration::from_secs(10)).owner("10.0.0.7:8080");
    /// # let _ = options;
    /// ```
    pub fn owner(mut self, owner: impl AsRef<[u8]>) -> Self {
        self.owner = Some(Owner::new(owner.as_ref()));
        self.terms.rare = true;
        self
    }

    /// Returns the options of the lock of a leader: kept, fenced, and with this `owner`.
    #[cfg(feature = "std")]
    pub(crate) fn of_leader(&self, owner: impl AsRef<[u8]>) -> Self {
        let options = self.fenced().owner(owner);
        match options.terms.keep {
            0 => options.keep(),
            _ => options,
        }
    }

    /// Returns the same options in less room.
    #[cfg(feature = "std")]
    pub(crate) fn packed(&self) -> PackedOptions {
        PackedOptions {
            terms: self.terms,
            owner: self.owner.map(Box::new),
        }
    }

    /// Returns the owner text of this lock, if it has one of its own.
    pub(crate) const fn own_owner(&self) -> Option<&Owner> {
        self.owner.as_ref()
    }

    /// Returns `true` if the request asks for a fencing token or has an owner of its own, which few requests do.
    pub(crate) const fn is_rare(&self) -> bool {
        self.terms.rare
    }

    /// Checks the request for a fencing token and the owner, on a handle that may be `without_scripts`.
    ///
    /// # Errors
    ///
    /// [`RequestFault::NeedsScripts`], [`RequestFault::OwnerTooLong`].
    #[cold]
    pub(crate) fn check_rare(&self, without_scripts: bool) -> Result<(), RequestFault> {
        if self.terms.fenced && without_scripts {
            return Err(RequestFault::NeedsScripts);
        }
        match self.owner {
            Some(Owner { len, .. }) if OWNER_BYTES_MAX < len => {
                Err(RequestFault::OwnerTooLong { bytes: len })
            }
            _ => Ok(()),
        }
    }

    /// Returns `true` if the request asks for a [fencing token](Self::fenced).
    #[must_use]
    pub const fn is_fenced(&self) -> bool {
        self.terms.fenced
    }

    /// Returns the requested ttl.
    #[must_use]
    pub const fn ttl(&self) -> Duration {
        self.terms.ttl
    }

    /// Returns how long after the call a handle with this `retry` gives up; `None` if only the tries end it.
    pub(crate) const fn wait_allowed(&self, retry: &Retry) -> Option<Duration> {
        match (self.terms.wait, self.terms.tries) {
            (None, None) => retry.wait,
            (wait, _) => wait,
        }
    }

    /// Returns how many attempts a handle with this `retry` may make; `None` if only the time ends them.
    pub(crate) const fn tries_allowed(&self, retry: &Retry) -> Option<u32> {
        match (self.terms.tries, self.wait_allowed(retry)) {
            (Some(tries), _) => Some(tries),
            (None, Some(Duration::ZERO)) => Some(1),
            (None, Some(_)) => None,
            (None, None) => Some(retry.tries),
        }
    }

    /// Returns how many extensions the lock may have; the largest number means any number.
    pub(crate) const fn extensions_left(&self) -> u32 {
        self.terms.extensions
    }

    /// Returns how many nanoseconds the lock is kept at most; zero if it is not kept.
    pub(crate) const fn kept_nanos(&self) -> u64 {
        self.terms.keep
    }
}

#[cfg(feature = "internals")]
#[doc(hidden)]
impl LockOptions {
    /// Returns how long after the call it gives up; `None` if the tries or the handle's [`Retry`] end it.
    #[must_use]
    pub const fn deadline(&self) -> Option<Duration> {
        self.terms.wait
    }

    /// Returns how many attempts a handle with this `retry` may make.
    #[must_use]
    pub const fn limit(&self, retry: &Retry) -> Option<u32> {
        self.tries_allowed(retry)
    }

    /// Returns how long the lock is kept at most: [`Duration::MAX`] without a limit, `None` if it is not kept.
    #[must_use]
    pub const fn kept_for(&self) -> Option<Duration> {
        match self.terms.keep {
            0 => None,
            u64::MAX => Some(Duration::MAX),
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "std")]
    #[test]
    fn options_are_unpacked_as_they_were_packed() {
        let options = LockOptions::new(Duration::from_secs(1));
        for options in [
            options,
            options.tries(3).wait(Duration::from_secs(2)).keep(),
            options.owner("me").extensions(7),
            options.fenced().owner([7; 90]),
        ] {
            assert_eq!(options.packed().ttl(), options.ttl());
            assert_eq!(options.packed().unpacked(), options);
        }
    }

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
            assert_eq!(options.terms.wait, deadline, "{options:?}");
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
