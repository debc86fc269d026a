//! The options of one lock, and the retry policy of a handle.

#[cfg(feature = "std")]
use alloc::boxed::Box;
use core::ops::RangeInclusive;
use core::time::Duration;

use crate::error::RequestFault;
use crate::limits::OWNER_BYTES_MAX;

/// The retry policy of a handle: how long a call waits for a lock, unless the call sets its own limit.
///
/// By default a call waits 5 s and makes any number of attempts. [`Retry::new`] limits the number of attempts instead
/// of the time.
///
/// The random delay is the time between two attempts. If the nodes do not notify the handle of a free lock, this delay
/// is also the time between two checks of the lock: see [`manual::waiting`](crate::manual::waiting).
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

/// How long a call waits if neither the call nor its handle sets a wait.
const DEFAULT_WAIT: Duration = Duration::from_secs(5);

impl Retry {
    /// Makes at most `tries` attempts, including the first one, with a random `delay` between two attempts.
    ///
    /// Only sent attempts count. While a caller waits behind other callers of the handle, it sends no attempts. Not
    /// counting its attempts, the call waits for at most `tries` times the longest delay.
    ///
    /// The method [`Builder::config`](crate::Builder::config) refuses zero tries and an empty range for the delay.
    #[must_use]
    pub const fn new(tries: u32, delay: RangeInclusive<Duration>) -> Self {
        Self {
            tries,
            shortest: *delay.start(),
            longest: *delay.end(),
            wait: None,
        }
    }

    /// Makes each call give up after `wait`, and removes the limit of attempts. If `wait` is zero, a call makes one
    /// attempt.
    #[must_use]
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Returns how many attempts a call may make, including the first one. If a wait is set, as in the default policy,
    /// this limit does not apply, and the method returns 32.
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

/// The policy for the votes of restarted nodes, which may have forgotten locks.
///
/// Redlock without persistence is safe only if a restarted node does not vote until all locks that it may have
/// forgotten have expired. The usual advice is to delay each restart. Instead, this guard ignores the votes of a
/// restarted node. A node in *quarantine* still gets commands, because its keys still block other clients, but its
/// answers do not count: [`NodeOutcome::Quarantined`](crate::NodeOutcome). After the quarantine the node votes again.
/// An operator can end the quarantine with `Redlock::trust_node`.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum RestartGuard {
    /// A restarted node votes immediately. Use `Off` for nodes that write every lock to disk before they answer
    /// (`appendfsync always`), and for tests.
    Off,
    /// At every handshake a node identifies itself (`run_id`, `master_replid`). A node enters quarantine if its
    /// identity has changed or can no longer be read. A node also enters quarantine if it refused a command because it
    /// loads its data or is a replica (`LOADING`, `READONLY`, `MASTERDOWN`). A quarantine begins at the end of a
    /// handshake. The quarantine lasts for [`Builder::max_ttl`](crate::Builder::max_ttl) plus the drift. If this handle
    /// was asked for a longer ttl, the quarantine lasts for that ttl plus the drift. After the quarantine, every
    /// forgotten lock has expired.
    ///
    /// If `max_ttl` is set, a node with a shorter uptime at the first connection is in quarantine for the remaining
    /// time.
    ///
    /// A node whose clock was stepped is also put into quarantine
    /// ([`Builder::watch_clocks`](crate::Builder::watch_clocks)).
    ///
    /// `Observed` does not protect locks in these cases:
    ///
    /// * A node restarts before the first handshake, and `max_ttl` is not set.
    /// * Other clients take locks with longer ttls than this handle.
    /// * Keys are deleted.
    /// * The user may not run `INFO`.
    #[default]
    Observed,
    /// Every node has a marker (`shearline:marker`), and every command about a lock checks the marker on the node. The
    /// marker contains the incarnation of the server that it was written on, the longest ttl of all clients, the number
    /// of nodes, the size of a majority, and the group's name ([`Builder::group`](crate::Builder::group)).
    ///
    /// If the marker is missing or belongs to another incarnation, the node was restarted, promoted or flushed
    /// (`FLUSHALL`), or has loaded another data set. A client that finds no valid marker writes a new marker with
    /// a *barrier* (`shearline:barrier`). The barrier lasts until every forgotten lock has expired:
    /// for [`Builder::max_ttl`](crate::Builder::max_ttl), or 60 s if it is not set, plus the drift. During the barrier
    /// no client counts the answers of that node.
    ///
    /// * The handle refuses longer ttls than `max_ttl`. A client with a shorter `max_ttl` than the markers uses the
    ///   value of the markers. A client with a longer `max_ttl` writes its value to the markers, together with
    ///   barriers. All clients should use the same value.
    /// * A client with another number of nodes or another group name
    ///   gets [`LockError::OtherGroup`](crate::LockError::OtherGroup), and no lock. Use `Redlock::reinit` to change the
    ///   number or the name.
    /// * New nodes have no marker, so clients also write a barrier to new nodes. `Redlock::trust_nodes` removes the
    ///   barrier of new nodes.
    /// * A restart causes no barrier if, both before and after the restart, the server's settings make every write
    ///   durable. These settings are `appendonly yes`, `appendfsync always` and `no-appendfsync-on-rewrite no`. The
    ///   server must have no replicas, and must never have been promoted. A client checks these conditions with `CONFIG
    ///   GET` and `INFO`. The exception also assumes that the disk honours `fsync`, and that the data directory is not
    ///   restored from a copy. The exception further assumes that these settings do not change while the server runs,
    ///   and that no replica is promoted *and restarted* before a client has checked that replica.
    /// * The errors `LOADING`, `READONLY` and `MASTERDOWN`, and a stepped clock, cause a quarantine, as
    ///   with [`Observed`](Self::Observed).
    ///
    /// With `Strict`, the nodes run scripts instead of plain `SET`s. Each command is some 200 bytes longer, a new
    /// connection costs one more round trip, and each node stores two more keys. The user needs permission for `INFO`
    /// and for both keys: see the ACL line in [`manual::permissions`](crate::manual::permissions).
    ///
    /// `Strict` does not detect these cases:
    ///
    /// * A lock was deleted or evicted while the marker stayed.
    /// * Other clients use the same keys without this guard.
    /// * A server behind a proxy restarts from disk, or a replica behind it is promoted, and the proxy hides the lost
    ///   connection.
    /// * A master becomes a replica and then a master again, between two commands.
    /// * A barrier is deleted.
    ///
    /// If clients have different values of `max_ttl`, a barrier is as long as the longest ttl that its writer knows. A
    /// client might not know a longer ttl that is not on all nodes yet, or that a majority has forgotten. So start the
    /// clients with the longest `max_ttl` first, and let them reach every node before the other clients start.
    Strict,
}

/// The options of one lock: its ttl, and optionally how long or how often to try.
///
/// If neither [`wait`](Self::wait) nor [`tries`](Self::tries) is set, the handle's [`Retry`] applies, which waits 5 s
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
    terms: Terms,
    owner: Option<Owner>,
}

/// A compact form of a request's options. The owner text is boxed, because it is large and few locks have one.
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

/// All options except the owner text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Terms {
    ttl: Duration,
    wait: Option<Duration>,
    tries: Option<u32>,
    /// The allowed number of extensions. [`u32::MAX`] means no limit.
    extensions: u32,
    /// The longest time for which the lock is kept, in nanoseconds, or zero if the lock is not kept.
    keep: u64,
    fenced: bool,
    /// `true` if the request asks for a fencing token or sets an owner text, which few requests do.
    rare: bool,
}

/// The owner text of one lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Owner {
    /// The length of the given text, which may be too long. The bytes after the text are zero.
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
    /// Returns options for a lock with this `ttl`, and with the wait of the handle's [`Retry`].
    ///
    /// The ttl is checked when the lock is requested. A ttl must be longer than its drift (some 3 ms), and at most the
    /// longest ttl of the handle.
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

    /// Makes the call give up after `wait`, and removes the handle's limit of tries. If [`tries`](Self::tries) is set
    /// too, the call ends at whichever limit comes first. If `wait` is zero, the call makes one try.
    ///
    /// If only an operator can repair the fault ([`Report::needs_operator`](crate::Report::needs_operator)), the call
    /// fails immediately. A program should pause before it calls again.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.terms.wait = Some(wait);
        self
    }

    /// Makes at most `tries` attempts, including the first one. While a caller waits behind other callers of the
    /// handle, it sends no attempts. Not counting its attempts, the call waits for at most `tries` times the longest
    /// delay of the handle's [`Retry`]. An extension by the current holder may also use up a try. With one try, the
    /// call does not wait. Zero is refused when the lock is requested ([`InvalidRequest`](crate::InvalidRequest)).
    pub const fn tries(mut self, tries: u32) -> Self {
        self.terms.tries = Some(tries);
        self
    }

    /// Allows at most this many extensions of the lock. Further extensions fail
    /// with [`ExtendError::Limit`](crate::ExtendError::Limit). By default, and with [`u32::MAX`], the number is not
    /// limited. An extension whose outcome the caller drops does not count, unless the lock is kept.
    pub const fn extensions(mut self, most: u32) -> Self {
        self.terms.extensions = most;
        self
    }

    /// Makes the handle extend the lock automatically until the lock is released or lost. Whenever half of the validity
    /// is left, the handle extends the lock to its full ttl. If an extension fails, the handle tries again in the
    /// remaining time.
    ///
    /// * The handle stops extending the lock when the lock is unlocked or lost, when the guard or the handle is
    ///   dropped, and when the allowed [`extensions`](Self::extensions) are used up. `LockGuard::into_lock`, `detach`
    ///   and `Lock::to_bytes` also end the extensions. Dropping a plain [`Lock`](crate::Lock) ends its extensions, but
    ///   does not release the lock. A leaked guard or lock is still extended.
    /// * A failed extension does not end the lock. The lock stays valid until it expires, and the handle tries to
    ///   extend it again (at most 15 times, with ever shorter pauses). If a majority reports that the key is missing,
    ///   the lock is lost.
    /// * The nodes notify the handle when another client deletes or replaces the key, and the handle then asks all
    ///   nodes. The handle reports the lock as lost two round trips after the key has changed on a majority.
    ///   Notifications need `+client|tracking` and `+client|caching`. Notifications begin 50 ms after the grant.
    ///   Notifications cover at most 1,000 keys of a handle, because each server has a bounded table of the keys that
    ///   it watches. Without notifications, or if the number of [`extensions`](Self::extensions) is limited, the handle
    ///   notices the change at the next extension. Between the change and the report another client can take the lock.
    /// * `Redlock` extends locks on its I/O thread, independently of the threads of the program. `LocalRedlock`,
    ///   `Driver` and `Engine` extend locks only during calls, so the program must call `poll` or `turn` at the times
    ///   that `until_deadline` returns.
    /// * `LockGuard::keep` and `LocalRedlock::keep` keep a lock that is already held, or that another process handed
    ///   over.
    /// * A program that hangs keeps its lock. [`keep_for`](Self::keep_for) limits the time.
    ///
    /// Granting a kept lock needs a few small allocations. Each extension that comes more than 50 ms after the grant
    /// costs one command to each node. Extensions that are due in the same turn share one write to each node.
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

    /// Keeps the lock as [`keep`](Self::keep) does, but for at most `most` in total, counted from the grant. The lock
    /// ends after this time unless you extend it yourself. If `most` is shorter than the ttl, the handle does not
    /// extend the lock at all.
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
    /// resource, even if clocks are wrong. See [`Lock::fencing_token`](crate::Lock::fencing_token) for its use,
    /// and [`manual::fencing`](crate::manual::fencing) for the proof.
    ///
    /// * Every node has a counter floor for its fencing tokens (`shearline:floor`). An operator creates the floors
    ///   once, with `Redlock::trust_nodes`. A node without a floor is [`Unusable::NoFloor`](crate::Unusable::NoFloor)
    ///   for fenced locks, but votes on other locks.
    /// * A node loses its floor when it restarts, even if it keeps its data. If the node then gives a handle no fencing
    ///   token, the handle uses the other nodes to repair it. Only a handle that lives longer than the longest ttl can
    ///   repair a node. Until then, the node is [`Unusable::InRepair`](crate::Unusable::InRepair). If a majority has
    ///   restarted at the same time, an operator must create the floors again. The
    ///   page [`manual::operating`](crate::manual::operating#nodes-that-give-fencing-tokens) explains how to create
    ///   floors, and how to see which nodes have a floor.
    /// * A repair waits for the longest ttl, because every attempt that began before the restart has expired by then.
    ///   The longest ttl is [`Builder::max_ttl`](crate::Builder::max_ttl), or 60 s if it is not set. If any client
    ///   takes fenced locks with a longer ttl, set `max_ttl` in every client, because a handle does not know the
    ///   requests of other clients.
    /// * A fenced lock and a plain lock on the same resource exclude each other.
    /// * A permit's fencing token is larger than all earlier tokens of its [slot](crate::PermitGuard::slot), but may be
    ///   smaller than tokens of other slots.
    /// * Every node runs a script, and its user needs permission for the keys
    ///   `shearline:*`: [`manual::permissions`](crate::manual::permissions). A handle [without
    ///   scripts](crate::Builder::without_scripts) refuses the request
    ///   ([`InvalidRequest::needs_scripts`](crate::InvalidRequest::needs_scripts)).
    ///
    /// For a fenced lock, each node runs a script instead of a `SET`. Rarely, no majority returns the same fencing
    /// token. Then the call makes a second round trip, which shortens the validity
    /// ([`Stats::second_round_trips`](crate::Stats::second_round_trips)). Locking one name again, or another name of
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

    /// Sets the owner text of this lock, instead of the owner text of the handle
    /// ([`Builder::owner`](crate::Builder::owner)): at most 64 arbitrary bytes, such as the address of the holder.
    /// Other clients see the owner text in an [`Inspection`](crate::Inspection), a [`Watch`](crate::Watch), and the
    /// report of [`LockError::Held`](crate::LockError::Held). The handle refuses a longer text when the lock is
    /// requested ([`InvalidRequest`](crate::InvalidRequest)).
    ///
    /// If the lock is also [`fenced`](Self::fenced), other clients see its fencing token
    /// too: [`Holder::fencing_token`](crate::Holder::fencing_token).
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

    /// Returns the options for a leader's lock: kept, fenced, and with this `owner`.
    #[cfg(feature = "std")]
    pub(crate) fn of_leader(&self, owner: impl AsRef<[u8]>) -> Self {
        let options = self.fenced().owner(owner);
        match options.terms.keep {
            0 => options.keep(),
            _ => options,
        }
    }

    /// Returns the same options in a compact form.
    #[cfg(feature = "std")]
    pub(crate) fn packed(&self) -> PackedOptions {
        PackedOptions {
            terms: self.terms,
            owner: self.owner.map(Box::new),
        }
    }

    /// Returns the owner text of this lock, if it was set.
    pub(crate) const fn own_owner(&self) -> Option<&Owner> {
        self.owner.as_ref()
    }

    /// Returns `true` if the request asks for a fencing token or sets an owner text, which few requests do.
    pub(crate) const fn is_rare(&self) -> bool {
        self.terms.rare
    }

    /// Checks whether a handle can serve the request for a fencing token, and whether the owner text is short enough.
    /// `without_scripts` is `true` if the handle uses no scripts.
    ///
    /// # Errors
    ///
    /// Returns [`RequestFault::NeedsScripts`] or [`RequestFault::OwnerTooLong`].
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

    /// Returns how long a call to a handle with this `retry` may take, or `None` if only the number of tries is
    /// limited.
    pub(crate) const fn wait_allowed(&self, retry: &Retry) -> Option<Duration> {
        match (self.terms.wait, self.terms.tries) {
            (None, None) => retry.wait,
            (wait, _) => wait,
        }
    }

    /// Returns how many attempts a handle with this `retry` may make, or `None` if only the time is limited.
    pub(crate) const fn tries_allowed(&self, retry: &Retry) -> Option<u32> {
        match (self.terms.tries, self.wait_allowed(retry)) {
            (Some(tries), _) => Some(tries),
            (None, Some(Duration::ZERO)) => Some(1),
            (None, Some(_)) => None,
            (None, None) => Some(retry.tries),
        }
    }

    /// Returns the allowed number of extensions. [`u32::MAX`] means no limit.
    pub(crate) const fn extensions_left(&self) -> u32 {
        self.terms.extensions
    }

    /// Returns the longest time for which the lock is kept, in nanoseconds, or zero if the lock is not kept.
    pub(crate) const fn kept_nanos(&self) -> u64 {
        self.terms.keep
    }
}

#[cfg(feature = "internals")]
#[doc(hidden)]
impl LockOptions {
    /// Returns how long the call may take, or `None` if the tries or the handle's [`Retry`] limit it.
    #[must_use]
    pub const fn deadline(&self) -> Option<Duration> {
        self.terms.wait
    }

    /// Returns how many attempts a handle with this `retry` may make.
    #[must_use]
    pub const fn limit(&self, retry: &Retry) -> Option<u32> {
        self.tries_allowed(retry)
    }

    /// Returns the longest time for which the lock is kept: [`Duration::MAX`] without a limit, or `None` if it is not
    /// kept.
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
        let (nano, now) = (Duration::from_nanos(1), options.wait(Duration::ZERO));
        for (options, tries, deadline) in [
            (options, Some(7), None),
            (options.wait(second), None, Some(second)),
            (options.wait(nano), None, Some(nano)),
            (now, Some(1), Some(Duration::ZERO)),
            (options.tries(3), Some(3), None),
            (options.tries(0), Some(0), None),
            (options.wait(second).tries(3), Some(3), Some(second)),
            (now.tries(3), Some(3), Some(Duration::ZERO)),
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
