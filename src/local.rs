//! Locks on the caller's own thread, with blocking calls that use a [`Driver`].
//!
//! # Guarantees
//!
//! * **No other thread** runs, except a short-lived thread that looks up a host name. Steady use needs no switch
//!   between threads, no mutex and no allocation.
//! * **Cost**: each operation costs one write and one read per node, and the wait for the answers.
//! * **No expired lock is returned.** Before a call returns a lock, it compares the end of the validity with the clock.
//!
//! # Not here
//!
//! This module has no guards: its locks are plain values. Dropping a lock does not release it, because a plain value
//! cannot reach its handle. The algorithm is in `engine`, and the sockets are in `driver`.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use crate::calls::{self, Awaited, Trusted};
use crate::clock;
use crate::config::{Builder, LockOptions};
use crate::driver::{BuildError, Driver, Refusal, Reporter};
use crate::engine::breaking::{Breaking, Broken};
use crate::engine::inspection::Inspection;
use crate::engine::operators::OperatorError;
use crate::engine::stats::Stats;
use crate::engine::{Engine, Event, ListedNames, NodeStatus, Request, RoundId};
use crate::error::{ExtendError, LockError, NodeOutcome, Released, UnlockError};
use crate::quorum::Lock;
use crate::time::Instant;
use crate::trace::{Attempts, Operation};

mod call;
mod elections;
mod holders;

use call::Call;
pub use elections::Observation;

/// A lock handle for one thread, at the lowest cost.
///
/// Every call takes `&mut self`, runs on the caller's thread, and returns when its outcome is certain. Locks are
/// plain [`Lock`] values. Dropping a [`Lock`] releases nothing, so [`unlock`](Self::unlock) the lock, or let its keys
/// expire.
///
/// ```no_run
/// use std::time::Duration;
/// use shearline::{Lock, Redlock};
///
/// let ttl = Duration::from_secs(10);
/// let urls = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
/// let mut local = Redlock::builder().nodes(urls).build_local()?;
/// let mut lock: Lock = local.lock("invoice:42", ttl)?;
/// // The work that no other client may do at the same time.
/// local.extend(&mut lock, ttl)?;
/// local.unlock(lock)?;
/// local.poll(Some(Duration::ZERO))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Between two calls the handle does nothing. Late answers, reconnections, unanswered releases and the extensions
/// of [kept](LockOptions::keep) locks wait for the next call, or for [`poll`](Self::poll). A call for a lock that this
/// handle already holds waits until it times out.
///
/// Dropping the handle writes the remaining releases, waits up to [`Builder::shutdown_timeout`] for the answers, and
/// closes the connections. In a forked child the drop only closes descriptors.
#[derive(Debug)]
pub struct LocalRedlock {
    driver: Driver,
    reporter: Reporter,
    /// When the sockets were last read.
    read_at: Instant,
}

impl LocalRedlock {
    /// Returns a handle for the nodes at `urls`, with the defaults for everything else. New servers vote immediately:
    /// see [`Redlock::connect`](crate::Redlock::connect).
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use shearline::LocalRedlock;
    ///
    /// let urls = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// let mut local = LocalRedlock::connect(urls)?;
    /// let lock = local.lock("invoice:42", Duration::from_secs(10))?;
    /// local.unlock(lock)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Builder::build_local`].
    pub fn connect(urls: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, BuildError> {
        Builder::default().nodes(urls).build_local()
    }

    /// Takes the lock on `resource` for `ttl`. If another client holds the lock, waits until the lock is free, by
    /// default for at most 5 s: see [`Retry`](crate::Retry).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`lock_with`](Self::lock_with).
    pub fn lock(&mut self, resource: impl AsRef<[u8]>, ttl: Duration) -> Result<Lock, LockError> {
        self.lock_with(resource, &LockOptions::new(ttl))
    }

    /// Takes the lock on `resource` for `ttl` if it is free now, in one attempt. If the lock is held, the error does
    /// not say for how long; [`inspect`](Self::inspect) returns the remaining time, for example for a `Retry-After`
    /// header.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`lock_with`](Self::lock_with).
    pub fn try_lock(
        &mut self,
        resource: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<Lock, LockError> {
        self.lock_with(resource, &LockOptions::new(ttl).tries(1))
    }

    /// Takes the lock on `resource`, a name of 1 to 1024 arbitrary bytes, with these `options`.
    ///
    /// # Errors
    ///
    /// Returns [`LockError::Invalid`] if an argument is not valid, before any I/O. The
    /// errors [`LockError::Held`], [`LockError::NoQuorum`] and [`LockError::TooSlow`] contain the answers of the nodes
    /// in the last attempt. The call releases the keys of that attempt. If a node belongs to another group, immediately
    /// returns [`LockError::OtherGroup`]. Also returns [`LockError::Saturated`], [`LockError::Forked`]
    /// and [`LockError::Closed`].
    pub fn lock_with(
        &mut self,
        resource: impl AsRef<[u8]>,
        options: &LockOptions,
    ) -> Result<Lock, LockError> {
        self.acquire(&Request::new(resource.as_ref(), options))
    }

    /// Takes one lock on all of `resources` for `ttl`. Each node grants all names in one step, or grants none.
    /// If another client holds one of the names, waits until all names are free, by default for at most 5 s:
    /// see [`Retry`](crate::Retry).
    ///
    /// Callers cannot deadlock, even if they name the resources in different orders.
    /// See [`lock_all_with`](Self::lock_all_with).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`lock_all_with`](Self::lock_all_with).
    pub fn lock_all(
        &mut self,
        resources: impl IntoIterator<Item = impl AsRef<[u8]>>,
        ttl: Duration,
    ) -> Result<Lock, LockError> {
        self.lock_all_with(resources, &LockOptions::new(ttl))
    }

    /// Takes one lock on all of `resources`, 1 to 64 different names, with these `options`.
    ///
    /// The lock has one token and one expiry for all names. The lock is extended, kept, lost and released as a whole,
    /// and [`resources`](Lock::resources) returns the names. While the lock is held, no client can lock any of the
    /// names, even with another library.
    ///
    /// A node counts only while it has the keys of all names. The nodes must allow `EVAL`, and the user needs `GET`,
    /// `SET` and `DEL` on every name. The call sends one command to each node, as with one name. The command contains a
    /// script of some 700 bytes.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use shearline::{LocalRedlock, LockOptions};
    ///
    /// let urls = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// let mut local = LocalRedlock::connect(urls)?;
    /// let options = LockOptions::new(Duration::from_secs(10)).wait(Duration::from_secs(1));
    /// let both = local.lock_all_with(["account:1", "account:2"], &options)?;
    /// // Money goes from one to the other.
    /// local.unlock(both)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`lock_with`](Self::lock_with). The report in [`LockError::Held`] says which resource
    /// is held ([`Report::held_resource`](crate::Report::held_resource)). Also returns [`LockError::Invalid`] if
    /// `resources` is empty, contains more than 64 names, or contains a name twice.
    pub fn lock_all_with(
        &mut self,
        resources: impl IntoIterator<Item = impl AsRef<[u8]>>,
        options: &LockOptions,
    ) -> Result<Lock, LockError> {
        let resources: Vec<_> = resources.into_iter().collect();
        let resources: Vec<&[u8]> = resources.iter().map(AsRef::as_ref).collect();
        self.acquire(&Request::all(&resources, options))
    }

    fn acquire(&mut self, request: &Request<'_>) -> Result<Lock, LockError> {
        let operation = self.driver.tracer().acquire(request);
        operation.run(|operation| {
            let mut call = self.begin()?;
            let since = call.catch_up();
            let outcome = call.ask(since, |engine, now| calls::acquire(engine, now, request))?;
            let lock = calls::acquired(outcome)?;
            if lock.is_valid() {
                operation.made(Attempts::of(&mut call.driver.engine));
                return Ok(lock);
            }
            let error = call.reporter.too_slow(&lock, since);
            call.driver.ask(|engine, now| engine.give_back(now, lock));
            call.driver.flush();
            Err(error)
        })
    }

    /// Extends `lock`, so that it lasts for `ttl` from now. Does not shorten a lock that already lasts longer.
    ///
    /// # Errors
    ///
    /// After [`ExtendError::Lost`] and [`ExtendError::Expired`] the lock is no longer valid. All other errors
    /// do not change the lock. The other errors are [`ExtendError::Unconfirmed`], [`ExtendError::Limit`]
    /// and [`ExtendError::Invalid`], and also [`ExtendError::Saturated`], [`ExtendError::Forked`]
    /// and [`ExtendError::Closed`].
    pub fn extend(&mut self, lock: &mut Lock, ttl: Duration) -> Result<(), ExtendError> {
        let operation = self.driver.tracer().extend(lock, ttl);
        self.prolong(operation, lock, |engine, now, lock| {
            engine.extend(now, lock, ttl)
        })
    }

    /// Makes the calls of this handle extend `lock` automatically from now on, as with [`LockOptions::keep`]. Whenever
    /// half of the lock's validity is left, the lock is extended by its [ttl](Lock::ttl). Use `keep` for
    /// an [adopted](Self::adopt) lock, or for a lock that was taken without that option. The call sends nothing. If the
    /// lock is already kept with a limit, the call removes the limit.
    ///
    /// ```no_run
    /// # use shearline::{Lock, Redlock};
    /// # fn program(bytes: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
    /// # let mut local = shearline::LocalRedlock::connect(["redis://10.0.0.1"])?;
    /// let mut lock = local.adopt(Lock::from_bytes(bytes)?);
    /// local.confirm(&mut lock)?; // Whether it is still held.
    /// local.keep(&mut lock)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`keep_for`](Self::keep_for).
    pub fn keep(&mut self, lock: &mut Lock) -> Result<(), ExtendError> {
        self.keep_for(lock, Duration::MAX)
    }

    /// Like [`keep`](Self::keep), but keeps the lock for at most `most` from now.
    ///
    /// # Errors
    ///
    /// Returns [`ExtendError::Expired`] if the lock is not valid, was reported as lost, or does not belong to this
    /// handle. Returns [`ExtendError::Invalid`] if the ttl of the lock is longer than this handle allows. Also
    /// returns [`ExtendError::Limit`], [`ExtendError::Forked`] and [`ExtendError::Closed`]. An error does not change
    /// the lock.
    pub fn keep_for(&mut self, lock: &mut Lock, most: Duration) -> Result<(), ExtendError> {
        self.driver.keep_for(lock, most)
    }

    /// Asks the nodes for the remaining ttl of `lock`, and sets the end of its validity from the answers of a majority.
    /// The validity may then end later or earlier than before. The call changes nothing on the
    /// nodes. [`LockGuard::confirm`](crate::LockGuard::confirm) describes the call and its errors.
    ///
    /// # Errors
    ///
    /// After [`ExtendError::Lost`] and [`ExtendError::Expired`] the lock is no longer valid. The
    /// errors [`ExtendError::Unconfirmed`], [`ExtendError::Saturated`], [`ExtendError::Forked`]
    /// and [`ExtendError::Closed`] do not change the lock.
    pub fn confirm(&mut self, lock: &mut Lock) -> Result<(), ExtendError> {
        let operation = self.driver.tracer().confirm(lock);
        self.prolong(operation, lock, Engine::confirm)
    }

    /// Asks every node for the holder of `resource`, and changes
    /// nothing. [`Redlock::inspect`](crate::Redlock::inspect) describes the cost and the errors.
    /// To follow changes, use [`observe`](Self::observe), [`Redlock::watch`](crate::Redlock::watch)
    /// or [`Driver::watch`](crate::Driver::watch).
    ///
    /// ```no_run
    /// use shearline::LocalRedlock;
    ///
    /// let urls = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// let mut local = LocalRedlock::connect(urls)?;
    /// println!("{}", local.inspect("invoice:42")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`OperatorError::NoQuorum`], with the answer of each node, if too few nodes answered.
    /// Returns [`OperatorError::Invalid`], [`OperatorError::Saturated`], [`OperatorError::Forked`]
    /// or [`OperatorError::Closed`] if nothing was sent.
    pub fn inspect(&mut self, resource: impl AsRef<[u8]>) -> Result<Inspection, OperatorError> {
        let resource = resource.as_ref();
        let operation = self.driver.tracer().inspect(resource);
        let ask = |engine: &mut Engine, now| engine.inspect(now, resource);
        operation.run(|_| calls::inspected(self.ask(ask)?))
    }

    /// Breaks the lock on `resource`, for an operator who knows that its holder is gone or hangs.
    /// See [`Redlock::break_lock`](crate::Redlock::break_lock).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Redlock::break_lock`](crate::Redlock::break_lock).
    pub fn break_lock(&mut self, resource: impl AsRef<[u8]>) -> Result<Broken, OperatorError> {
        let seen = self.inspect(resource.as_ref())?;
        self.break_seen(resource, &seen, Breaking::KeepOut)
    }

    /// Breaks the lock on `resource` that was `seen`, but not a lock that was taken later.
    /// See [`Redlock::break_seen`](crate::Redlock::break_seen).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Redlock::break_seen`](crate::Redlock::break_seen).
    pub fn break_seen(
        &mut self,
        resource: impl AsRef<[u8]>,
        seen: &Inspection,
        how: Breaking,
    ) -> Result<Broken, OperatorError> {
        let resource = resource.as_ref();
        let operation = self.driver.tracer().break_lock(resource);
        let ask = |engine: &mut Engine, now| engine.break_lock(now, resource, seen, how);
        operation.run(|_| calls::broken(self.ask(ask)?, seen))
    }

    /// Releases `lock` on every node that may hold it, and waits until a majority has answered.
    ///
    /// The call waits for at most one node timeout: [`Builder::node_timeout`](crate::Builder), by default 5 to 50 ms
    /// depending on the ttl, or four round trips to a distant node.
    ///
    /// The call always sends the releases, and later calls repeat unanswered releases.
    ///
    /// # Errors
    ///
    /// Returns [`UnlockError::NotHeld`] if another client may have held the lock during the protected work.
    /// Returns [`UnlockError::Unconfirmed`] if too few nodes answered in time, as may happen on a busy machine. If the
    /// lock was still valid when you called `unlock`, no other client has held the lock, and you need to do nothing
    /// ([`manual::outcomes`](crate::manual::outcomes)). With [`UnlockError::Forked`] and [`UnlockError::Closed`]
    /// nothing was sent, and the keys expire with their ttl.
    pub fn unlock(&mut self, lock: Lock) -> Result<Released, UnlockError> {
        let operation = self.driver.tracer().release(&lock);
        let ask = |engine: &mut Engine, now| Ok::<_, UnlockError>(engine.release(now, lock));
        operation.run(|_| calls::released(self.ask(ask)?))
    }

    /// Detaches `lock` from this handle, for another handle or another process ([`Lock::to_bytes`]). This handle no
    /// longer reports a loss of the lock.
    ///
    /// The lock stays on the nodes that have answered. The handle immediately sends a release after each unanswered
    /// `SET`, because a release over another connection could overtake the `SET`.
    pub fn detach(&mut self, lock: Lock) -> Lock {
        let Ok(mut call) = self.begin() else {
            return lock;
        };
        call.catch_up();
        let lock = call.driver.ask(|engine, now| engine.detach(now, lock));
        call.driver.flush();
        lock
    }

    /// Adopts a lock of another handle or process. This handle then reports a loss of the lock. The validity does not
    /// change, and the call sends nothing. For a lock that was measured by another clock,
    /// see [`Redlock::adopt`](crate::Redlock::adopt).
    pub fn adopt(&mut self, lock: Lock) -> Lock {
        self.driver.adopt(lock)
    }

    /// Returns the state of every node, in the order of the configuration. The states are meant for operators, not for
    /// decisions. The call allocates once and does no I/O.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeStatus> {
        self.driver.nodes()
    }

    /// Returns how many counters for fencing tokens each node has.
    /// See [`Redlock::count_counters`](crate::Redlock::count_counters). Returns an empty list if the wait for the
    /// sockets fails.
    #[must_use]
    pub fn count_counters(&mut self) -> Vec<(u64, Option<NodeOutcome>)> {
        calls::counted(self.ask(|engine, now| Ok::<_, Refusal>(engine.count_counters(now))))
    }

    /// Lists the names on each node that begin with `prefix`. See [`Redlock::names`](crate::Redlock::names).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Redlock::names`](crate::Redlock::names).
    pub fn names(&mut self, prefix: impl AsRef<[u8]>) -> Result<Vec<ListedNames>, OperatorError> {
        calls::listed(self.ask(|engine, now| engine.names(now, prefix.as_ref()))?)
    }

    /// Returns the statistics of the handle: see [`Stats`]. The call takes some microseconds, allocates, and does no
    /// I/O.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.driver.stats()
    }

    /// Returns `Ok` if a majority of the nodes would vote now. Returns an error with the reasons if too few nodes would
    /// vote. See [`Redlock::check`](crate::Redlock::check). The call first reads the sockets, without waiting, so that
    /// it notices repaired nodes.
    ///
    /// # Errors
    ///
    /// Returns [`OperatorError::NoQuorum`], [`OperatorError::Forked`] or [`OperatorError::Closed`].
    pub fn check(&mut self) -> Result<(), OperatorError> {
        let mut call = self.begin()?;
        // Ignores an error of the wait, because the state of the nodes shows the failure too.
        let _ = call.turn(Some(Duration::ZERO));
        call.driver.engine.check(clock::now())
    }

    /// Declares that the server with this `run_id`, connected as the node at `address`, has not forgotten any lock
    /// that is still valid. The votes of the server count from now on. Returns `true` if the votes did not count
    /// before. [`Redlock::trust_node`](crate::Redlock::trust_node) describes the risk and the errors.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Redlock::trust_node`](crate::Redlock::trust_node).
    pub fn trust_node(
        &mut self,
        address: impl AsRef<str>,
        run_id: impl AsRef<str>,
    ) -> Result<bool, OperatorError> {
        let (address, run_id) = (address.as_ref(), run_id.as_ref());
        calls::with_floor(self.trust(|engine| calls::trust(engine, address, run_id))?)
    }

    /// Calls [`trust_node`](Self::trust_node) for all servers that are connected now. Returns their run_ids.
    /// See [`Redlock::trust_nodes`](crate::Redlock::trust_nodes).
    pub fn trust_nodes(&mut self) -> Vec<String> {
        let trusted = self.trust(|engine| Ok::<_, Refusal>(calls::trust_all(engine)));
        trusted.map_or_else(|_| Vec::new(), calls::with_floors)
    }

    fn trust<T, E: From<Refusal>>(
        &mut self,
        trust: impl FnOnce(&mut Engine) -> Result<(T, Option<RoundId>), E>,
    ) -> Result<Trusted<T>, E> {
        let mut call = self.begin()?;
        let since = call.catch_up();
        let (trusted, round) = trust(&mut call.driver.engine)?;
        let without = round.map(|round| calls::without_floors(call.outcome(round, since)));
        Ok((trusted, without.unwrap_or_default()))
    }

    /// Writes the marker of this group to every node, and replaces any other marker.
    /// See [`Redlock::reinit`](crate::Redlock::reinit). The call takes at most one connect timeout.
    ///
    /// # Errors
    ///
    /// Returns [`OperatorError::NoQuorum`] or [`OperatorError::Invalid`] if nothing was changed.
    /// After [`OperatorError::Unconfirmed`], call `reinit` again.
    pub fn reinit(&mut self) -> Result<(), OperatorError> {
        let operation = self.driver.tracer().reinit();
        operation.run(|_| calls::reinitialised(self.ask(Engine::reinit)?))
    }

    /// Requests one [`Event::AtRisk`] for `lock`, which comes when less than `left` of its validity
    /// remains. [`poll`](Self::poll) returns the event. If less than `left` of the validity remains already, the event
    /// comes immediately. Otherwise, the event comes up to two milliseconds early, and never late. An extension
    /// postpones the event. If there are several requests, only the request with the largest `left` counts until its
    /// event has come. A lock that was released, handed over or reported as lost causes no event.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use shearline::LockOptions;
    /// use shearline::engine::Event;
    ///
    /// # let mut local = shearline::LocalRedlock::connect(["redis://10.0.0.1"])?;
    /// # fn next_step() -> bool { false }
    /// let ttl = Duration::from_secs(10);
    /// let lock = local.lock_with("report", &LockOptions::new(ttl).keep())?;
    /// local.alert_below(&lock, ttl / 4);
    /// while next_step() {
    ///     if local.poll(Some(Duration::ZERO))?.is_some() {
    ///         break; // At risk, or lost: it is the only lock here.
    ///     }
    /// }
    /// local.unlock(lock)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn alert_below(&mut self, lock: &Lock, left: Duration) {
        self.driver.alert_below(lock, left);
    }

    /// Handles late answers, reconnections and unanswered releases, and extends [kept](LockOptions::keep) locks.
    /// Reports lost locks ([`Event::Expired`]), and [requested](Self::alert_below) locks that are at risk
    /// ([`Event::AtRisk`]).
    ///
    /// Returns the first report, or `None` after `limit`. If `limit` is [`Duration::ZERO`], the call does not wait. If
    /// `limit` is `None`, the call waits for a report. Reports from earlier calls are returned first. A lock in an
    /// earlier report may have been extended since that call, so check its validity. Only the latest 1024 reports are
    /// kept.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Driver::turn`].
    pub fn poll(&mut self, limit: Option<Duration>) -> io::Result<Option<Event>> {
        let mut call = self.begin()?;
        let end = limit.map(|limit| clock::now().saturating_add(limit));
        let mut left = match call.driver.events.is_empty() {
            true => limit,
            false => Some(Duration::ZERO),
        };
        loop {
            call.turn(left)?;
            if let Some(report) = call.next_report() {
                return Ok(Some(report));
            }
            left = end.map(|end| end.saturating_since(clock::now()));
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
        }
    }

    /// Returns how long a program may wait on the descriptor ([`AsFd`]) before it calls [`poll`](Self::poll), or `None`
    /// if no timer is armed. See [`Driver::until_deadline`].
    #[must_use]
    pub fn until_deadline(&self) -> Option<Duration> {
        match self.driver.has_events() {
            true => Some(Duration::ZERO),
            false => self.driver.until_deadline(),
        }
    }

    fn prolong(
        &mut self,
        operation: Operation,
        lock: &mut Lock,
        ask: impl FnOnce(&mut Engine, Instant, &Lock) -> Result<RoundId, ExtendError>,
    ) -> Result<(), ExtendError> {
        operation.run(|operation| {
            let outcome = self.ask(|engine, now| ask(engine, now, lock))?;
            calls::prolonged(operation, lock, outcome)
        })
    }

    /// Begins an operation, and waits for its outcome.
    fn ask<E: From<Refusal>>(
        &mut self,
        ask: impl FnOnce(&mut Engine, Instant) -> Result<RoundId, E>,
    ) -> Result<Awaited, E> {
        let mut call = self.begin()?;
        let since = call.catch_up();
        call.ask(since, ask)
    }

    fn begin(&mut self) -> Result<Call<'_>, Refusal> {
        let mut call = Call {
            driver: self.driver.begin()?,
            reporter: &self.reporter,
            read_at: &mut self.read_at,
        };
        call.keep_reports();
        Ok(call)
    }
}

/// The descriptor is readable when [`LocalRedlock::poll`] would find a socket ready. A due timer does not make the
/// descriptor readable.
impl AsFd for LocalRedlock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.driver.as_fd()
    }
}

/// Returns the same descriptor as [`AsFd`].
impl AsRawFd for LocalRedlock {
    fn as_raw_fd(&self) -> RawFd {
        self.driver.as_raw_fd()
    }
}

impl Builder {
    /// Builds a [`LocalRedlock`]. Waits until a majority of the nodes is ready, and then until every other node has
    /// answered, for at most another 50 ms. Returns after the connect timeout at the latest, even if nodes are down.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError::Config`] for the first wrong setting, before any I/O, and for an unusable certificate or
    /// key. Returns [`BuildError::Io`] if the operating system provides no descriptor or random bytes.
    pub fn build_local(&self) -> Result<LocalRedlock, BuildError> {
        let config = self.config()?;
        let mut driver = Driver::new(&config)?;
        driver.wait_until_ready()?;
        Ok(LocalRedlock {
            driver,
            reporter: Reporter::new(&config),
            read_at: clock::now(),
        })
    }
}

#[cfg(feature = "embedded")]
#[cfg(test)]
mod tests {
    use super::call::REPORTS_MAX;
    use super::*;
    use crate::embedded::EmbeddedNode;
    use crate::quorum::LockId;

    const LONG: Duration = Duration::from_secs(120);
    /// A ttl that is longer than any pause of this process.
    const SHORT: Duration = Duration::from_secs(1);

    /// Returns three nodes and a handle for them.
    fn local() -> ([EmbeddedNode; 3], LocalRedlock) {
        let nodes = [(); 3].map(|()| EmbeddedNode::spawn().unwrap());
        let builder = Builder::default().nodes(nodes.each_ref().map(EmbeddedNode::url));
        let local = builder.node_timeout(Duration::from_secs(10)).build_local();
        (nodes, local.unwrap())
    }

    #[test]
    fn a_lock_at_risk_is_reported_before_its_loss_if_that_was_asked_for() {
        let (nodes, mut local) = local();
        let kept = LockOptions::new(SHORT).keep();
        let lock = local.lock_with("kept", &kept).unwrap();
        local.alert_below(&lock, SHORT / 4);
        for node in &nodes {
            node.pause().unwrap();
        }
        assert_matches!(local.poll(None), Ok(Some(Event::AtRisk { lock: told })) if told == lock.id());
        assert!(lock.validity() <= SHORT / 4 + Duration::from_millis(2));
        assert_matches!(local.poll(None), Ok(Some(Event::Expired { lock: told })) if told == lock.id());
        assert!(local.poll(Some(SHORT / 10)).unwrap().is_none());
    }

    #[test]
    fn what_was_released_since_is_not_reported_to_be_at_risk() {
        let (_nodes, mut local) = local();
        let (lock, other) = (
            local.lock("a", LONG).unwrap(),
            local.lock("b", LONG).unwrap(),
        );
        local.alert_below(&lock, 2 * LONG);
        local.alert_below(&other, 2 * LONG);
        // Takes and releases a third lock until the driver has reported that the other two are at risk.
        while local.begin().unwrap().driver.events.len() < 2 {
            let third = local.lock("third", LONG).unwrap();
            local.unlock(third).unwrap();
        }
        local.unlock(lock).unwrap();
        assert_matches!(local.poll(None), Ok(Some(Event::AtRisk { lock: told })) if told == other.id());
        assert!(local.poll(Some(Duration::ZERO)).unwrap().is_none());
        local.unlock(other).unwrap();
    }

    /// The handle may find a loss while a call waits for an outcome, or in a call that waits for none. The program must
    /// not sleep after either call.
    #[test]
    fn a_loss_that_was_met_by_the_way_is_there_for_poll_at_once() {
        for waits in [false, true] {
            let (_nodes, mut local) = local();
            let lock = local.lock("a", SHORT).unwrap();
            let lock = local.detach(lock);
            let lock = local.adopt(lock);
            std::thread::sleep(lock.validity());
            match waits {
                true => {
                    let other = local.lock("other", LONG).unwrap();
                    local.unlock(other).unwrap();
                }
                false => local.check().unwrap(),
            }
            assert_eq!(local.until_deadline(), Some(Duration::ZERO));
            assert_matches!(local.poll(Some(Duration::ZERO)), Ok(Some(Event::Expired { lock: told })) if told == lock.id());
            assert!(local.poll(Some(Duration::ZERO)).unwrap().is_none());
            drop(local.unlock(lock)); // The validity has ended, but the nodes may still have the keys.
        }
    }

    /// The turn that reads the outcome fails for lack of memory. The lock does not stay on the nodes.
    #[test]
    fn an_outcome_that_comes_in_a_turn_that_fails_is_not_lost() {
        let (_nodes, mut local) = local();
        let mut call = local.begin().unwrap();
        let options = LockOptions::new(LONG);
        let request = Request::new(b"a", &options);
        let ask = |engine: &mut Engine, now| engine.acquire(now, &request);
        let round = call.driver.ask(ask).unwrap();
        call.driver.flush();
        let outcome = call.outcome_by(round, clock::now(), |call| {
            call.turn(None)?;
            match call.driver.events.is_empty() {
                true => Ok(()),
                false => Err(io::ErrorKind::OutOfMemory.into()),
            }
        });
        let Event::Acquired { result, .. } = outcome.unwrap() else {
            panic!("it was asked for")
        };
        drop(call);
        local.unlock(result.unwrap()).unwrap();
    }

    /// The unread reports are about lost locks and locks at risk.
    #[test]
    fn what_calls_meet_by_the_way_does_not_pile_up() {
        let (_nodes, mut local) = local();
        let lock = local.lock("a", LONG).unwrap();
        for _ in 0..=REPORTS_MAX {
            local.alert_below(&lock, 2 * LONG);
            local.check().unwrap();
        }
        assert_eq!(local.begin().unwrap().driver.events.len(), REPORTS_MAX);
        local.unlock(lock).unwrap();
    }

    #[test]
    fn a_call_that_waits_for_long_keeps_only_the_latest_losses() {
        let (_nodes, mut local) = local();
        let mut call = local.begin().unwrap();
        let options = LockOptions::new(LONG);
        let ask = |engine: &mut Engine, now| engine.acquire(now, &Request::new(b"a", &options));
        let round = call.driver.ask(ask).unwrap();
        call.driver.flush();
        let met = core::cell::Cell::new(0);
        let outcome = call.outcome_by(round, clock::now(), |call| {
            assert!(call.driver.events.len() <= REPORTS_MAX);
            met.set(met.get() + 1);
            if REPORTS_MAX + 2 <= met.get() {
                return call.turn(None);
            }
            let lock = LockId::NONE;
            call.driver.events.push_back(Event::Expired { lock });
            Ok(())
        });
        assert!(outcome.is_ok());
        assert_eq!(call.driver.events.len(), REPORTS_MAX);
    }

    #[test]
    fn the_latest_unread_losses_are_kept() {
        let (_nodes, mut local) = local();
        let id = |claim| LockId { engine: 7, claim };
        for claim in 0..REPORTS_MAX as u64 + 3 {
            let lost = Event::Expired { lock: id(claim) };
            local.begin().unwrap().driver.events.push_back(lost);
        }
        for claim in 3..REPORTS_MAX as u64 + 3 {
            let Some(Event::Expired { lock }) = local.poll(Some(Duration::ZERO)).unwrap() else {
                panic!("it was kept")
            };
            assert_eq!(lock, id(claim));
        }
        assert!(local.poll(Some(Duration::ZERO)).unwrap().is_none());
    }

    #[test]
    fn dropping_the_handle_sends_owed_releases() {
        let (nodes, mut local) = local();
        nodes[2].pause().unwrap();
        let lock = local.lock("a", LONG).unwrap();
        assert_eq!(local.unlock(lock).unwrap().deleted, 2);
        nodes[2].resume().unwrap();
        drop(local);
        while nodes.iter().any(|node| node.keys() != 0) {
            std::thread::yield_now();
        }
    }
}
