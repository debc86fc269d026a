//! The driver combines an engine with sockets and a clock.
//!
//! A [`Driver`] is for programs with their own event loop. One turn sleeps until a socket is ready or a timer is due.
//! After the sleep, the turn reads, fires timers, and writes.
//!
//! * Only `clock` reads a clock. Only `socket` and, for TLS, `tls` read and write. `tcp` interprets the states and the
//!   errors of TCP sockets for both modules.
//! * `link` is the connection to one node, `resolve` looks up its name, and `probe` checks whether its server answers.
//!   `wire` owns the links and probes of all nodes, and carries out the orders of an engine. `inbox` stores the events
//!   on the connections. `poller` sleeps until a socket is ready.
//! * `turn` runs the loop: it sleeps, reads, fires timers and writes.
//! * `ready` decides how long a new driver waits for its nodes. `report` builds the reports that do not come from the
//!   engine. `handover` writes a lock as bytes, and reads it back.
//!
//! # Guarantees
//!
//! * **Nothing blocks** except [`Driver::turn`], which blocks up to its limit, and the calls that wait by
//!   design: [`Driver::wait_until_ready`], [`Driver::shut_down`] and dropping.
//! * **Few system calls**: for one round of requests, the driver makes one write and one read for each node, and waits
//!   for events.
//! * **A forked child does no harm**: the child cannot use the driver, and dropping its copy only closes descriptors.
//!
//! # Not here
//!
//! The module `engine` contains the algorithm, including its timeouts. No type of `mio` is part of the interface.

#[cfg(not(unix))]
compile_error!("the feature `std` of shearline needs a unix; without it the core builds anywhere");

#[cfg(all(test, feature = "tls"))]
#[path = "../../tests/it/servers/authority.rs"]
#[allow(dead_code, reason = "few certificates are needed here")]
mod authority;
mod error;
mod handover;
mod inbox;
mod link;
mod poller;
mod probe;
mod ready;
mod report;
mod resolve;
mod socket;
mod tcp;
#[cfg(test)]
mod tests;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
mod tls;
mod turn;
mod waker;
mod wire;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};
use core::task::Waker;
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::thread;

use crate::calls;
use crate::clock;
use crate::config::{Builder, Config, LockOptions};
use crate::engine::breaking::Breaking;
use crate::engine::inspection::Inspection;
use crate::engine::operators::OperatorError;
use crate::engine::stats::Stats;
use crate::engine::{Engine, Event, NodeStatus, Request, RoundId};
use crate::error::{ExtendError, LockError, UnlockError};
use crate::process::Process;
use crate::quorum::Lock;
use crate::seed;
use crate::trace::Tracer;

pub use error::BuildError;
pub(crate) use error::Refusal;
pub use handover::FromBytesError;
pub(crate) use poller::{Poller, Readiness};
pub(crate) use report::Reporter;
pub(crate) use turn::{Loop, is_owing, until_deadline};
pub(crate) use wire::Wire;

/// An engine with its sockets and its clock, for use in an event loop.
///
/// Begin operations with [`acquire`](Self::acquire), [`extend`](Self::extend) and [`release`](Self::release), each of
/// which returns a [`RoundId`] immediately. Write the requests with [`flush`](Self::flush), or let the
/// next [`turn`](Self::turn) write them. After each turn, take the [`Event`]s with [`poll_event`](Self::poll_event)
/// until it returns `None`.
///
/// A loop that waits only for the driver calls `turn(None)`, which sleeps until something happens. A loop that also
/// waits for other events registers the driver's descriptor ([`AsFd`]) for readability, waits at
/// most [`until_deadline`](Self::until_deadline), and then calls `turn(Some(Duration::ZERO))`.
///
/// ```no_run
/// use std::time::Duration;
/// use shearline::engine::Event;
/// use shearline::{Builder, LockOptions};
///
/// let nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
/// let mut driver = Builder::default().nodes(nodes).build_driver()?;
/// let round = driver.acquire(b"invoice:42", &LockOptions::new(Duration::from_secs(10)))?;
/// let lock = loop {
///     driver.turn(None)?;
///     if let Some(Event::Acquired { round: of, result }) = driver.poll_event() {
///         assert_eq!(of, round);
///         break result?;
///     }
/// };
/// assert!(lock.is_valid());
/// driver.release(lock)?;
/// driver.flush();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Dropping a driver writes the remaining releases to the nodes, waits up
/// to [`Builder::shutdown_timeout`](crate::Builder::shutdown_timeout) for the answers, and closes the connections.
#[derive(Debug)]
pub struct Driver {
    inner: Loop,
    standing: Standing,
    process: Process,
    shutdown_timeout: Duration,
    tracer: Tracer,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Standing {
    Open,
    /// A call is running. If a later call finds this state, the engine has panicked.
    Working,
    Closed,
}

/// The loop of a driver, borrowed for one call. A panic during the call closes the driver.
#[derive(Debug)]
pub(crate) struct Working<'a> {
    driver: &'a mut Driver,
    panics: Panics,
}

/// Detects a panic that begins during the lifetime of this value.
#[derive(Debug)]
pub(crate) struct Panics {
    /// `true` if this thread was already panicking for another reason.
    was_panicking: bool,
}

impl Panics {
    pub(crate) fn watch() -> Self {
        let was_panicking = thread::panicking();
        Self { was_panicking }
    }

    /// Returns `true` if this thread has begun to panic since this value was created.
    pub(crate) fn has_begun(&self) -> bool {
        thread::panicking() && !self.was_panicking
    }
}

impl Driver {
    /// Creates a driver for the nodes of `config`, and begins to connect without waiting.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system provides no descriptor or no random bytes. If a file for TLS is
    /// unusable, the error contains a [`ConfigError`](crate::ConfigError). An unreachable node is not an error.
    pub fn new(config: &Config) -> io::Result<Self> {
        Self::seeded(config, seed::fresh()?)
    }

    fn seeded(config: &Config, seed: [u8; 32]) -> io::Result<Self> {
        Ok(Self {
            inner: Loop::new(config, seed)?,
            standing: Standing::Open,
            process: Process::current(),
            shutdown_timeout: config.shutdown_timeout(),
            tracer: Tracer::new(config),
        })
    }

    /// Takes turns until a majority of the nodes is ready, and then for at most 50 ms more, until every other node has
    /// answered. Returns after the connect timeout at the latest, and immediately if a majority is unusable (for
    /// example, because of wrong credentials). Nodes of another group count as ready for this call,
    /// because [`reinit`](Self::reinit) needs them. The events stay in the queue.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Self::turn`].
    pub fn wait_until_ready(&mut self) -> io::Result<()> {
        self.begin()?.wait_until_ready()
    }

    /// Takes one turn. First sleeps until a socket is ready, a timer is due, `limit` has passed, or
    /// a [waker](Self::waker) wakes the driver. After the sleep, reads, fires timers, and writes.
    ///
    /// The work of a turn is bounded: a turn reads at most 256 KiB from each node. A turn may do nothing, for example
    /// after a signal. With [`Builder::spin`](crate::Builder::spin) a turn does not sleep while an operation is open.
    ///
    /// # Errors
    ///
    /// Returns an error if the poll has failed because the system is short of memory. The driver is still usable after
    /// this error. If the driver is closed or belongs to another process, the error contains a [`LockError`].
    pub fn turn(&mut self, limit: Option<Duration>) -> io::Result<()> {
        self.begin()?.turn(limit)
    }

    /// Returns the longest time that a turn may sleep, or `None` if no timer is armed.
    ///
    /// The result is zero if the next turn has work to do. While the machine is suspended, the timeout of a sleep may
    /// stop, but the clock of the locks does not. So the result is at most 100 ms while a lock is held or an operation
    /// is open.
    #[must_use]
    pub fn until_deadline(&self) -> Option<Duration> {
        self.inner.until_deadline()
    }

    /// Returns the next event: the outcome of an operation, the loss of a lock, or the outcome of an extension of
    /// a [kept](LockOptions::keep) lock.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.inner.events.pop_front()
    }

    /// Returns `true` if the queue contains events.
    pub(crate) fn has_events(&self) -> bool {
        !self.inner.events.is_empty()
    }

    /// Returns the engine, so that the caller can read its state.
    #[cfg(any(test, feature = "internals"))]
    #[doc(hidden)]
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    /// Returns a waker that any thread can use to end the sleep of the current [`turn`](Self::turn), or of the next
    /// turn if the driver is not sleeping.
    ///
    /// Each wake-up costs a write to an eventfd, so wake only a driver that sleeps. The waker may outlive its driver.
    /// After the driver is dropped, and in a forked child, the waker does nothing.
    #[must_use]
    pub fn waker(&self) -> Waker {
        let waker = Arc::clone(self.inner.wire.waker());
        let process = self.process.clone();
        Waker::from(Arc::new(waker::DriverWaker { waker, process }))
    }

    /// Begins to take the lock on `resource`. The outcome is an [`Event::Acquired`].
    ///
    /// Nothing is written before the next [`flush`](Self::flush) or [`turn`](Self::turn). If the
    /// program has not taken turns for a while, call [`read`](Self::read) first.
    ///
    /// # Errors
    ///
    /// Returns [`LockError::Invalid`], [`LockError::Saturated`], [`LockError::Forked`] or [`LockError::Closed`], and
    /// sends nothing.
    pub fn acquire(
        &mut self,
        resource: &[u8],
        options: &LockOptions,
    ) -> Result<RoundId, LockError> {
        self.acquire_as(&Request::new(resource, options))
    }

    /// Begins to take a lock on several resources, a shared lock, or a permit, depending on `request`. The outcome is
    /// an [`Event::Acquired`].
    /// See [`lock_all_with`](crate::Redlock::lock_all_with), [`lock_shared_with`](crate::Redlock::lock_shared_with)
    /// and [`permit_with`](crate::Redlock::permit_with) of [`Redlock`](crate::Redlock).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`acquire`](Self::acquire).
    pub fn acquire_as(&mut self, request: &Request<'_>) -> Result<RoundId, LockError> {
        self.begin()?
            .ask(|engine, now| calls::acquire(engine, now, request))
    }

    /// Begins to turn `lock` into a shared lock. The outcome is an [`Event::Confirmed`].
    /// See [`LockGuard::downgrade`](crate::LockGuard::downgrade).
    ///
    /// # Errors
    ///
    /// Returns [`ExtendError::Invalid`], [`ExtendError::Expired`], [`ExtendError::Saturated`], [`ExtendError::Forked`]
    /// or [`ExtendError::Closed`]. If the call fails, it sends nothing, and the lock does not change.
    pub fn downgrade(&mut self, lock: &mut Lock) -> Result<RoundId, ExtendError> {
        self.begin()?.ask(|engine, now| engine.downgrade(now, lock))
    }

    /// Begins to extend `lock`, so that it lasts for `ttl` from now. The outcome is an [`Event::Extended`]. Apply
    /// its [`Extension`](crate::engine::Extension) to the lock.
    ///
    /// # Errors
    ///
    /// Returns [`ExtendError::Expired`], [`ExtendError::Limit`], [`ExtendError::Invalid`]
    /// or [`ExtendError::Saturated`]. Also returns [`ExtendError::Forked`] and [`ExtendError::Closed`]. If the call
    /// fails, it sends nothing, and the lock does not change.
    pub fn extend(&mut self, lock: &Lock, ttl: Duration) -> Result<RoundId, ExtendError> {
        self.begin()?
            .ask(|engine, now| engine.extend(now, lock, ttl))
    }

    /// Keeps `lock` from now on: the driver extends it automatically.
    /// See [`LocalRedlock::keep`](crate::LocalRedlock::keep).
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
    /// Returns [`ExtendError::Expired`], [`ExtendError::Limit`], [`ExtendError::Invalid`], [`ExtendError::Forked`]
    /// or [`ExtendError::Closed`]. An error does not change the lock.
    pub fn keep_for(&mut self, lock: &mut Lock, most: Duration) -> Result<(), ExtendError> {
        self.begin()?
            .ask(|engine, now| engine.keep(now, lock, most))
    }

    /// Asks the nodes for the remaining ttl of `lock`. The outcome is an [`Event::Confirmed`]. The answers of a
    /// majority determine the new expiry of the lock, which may be later or earlier than before.
    /// If [`Lock::from_bytes`] has read the lock under another clock, a confirmation makes it valid again. If the
    /// outcome is [`ExtendError::Lost`] or [`ExtendError::Expired`], the lock is no longer valid, and
    /// an [`Event::Expired`] comes before the outcome.
    ///
    /// # Errors
    ///
    /// Returns [`ExtendError::Expired`], [`ExtendError::Saturated`], [`ExtendError::Forked`]
    /// or [`ExtendError::Closed`]. If the call fails, it sends nothing, and the lock does not change.
    pub fn confirm(&mut self, lock: &Lock) -> Result<RoundId, ExtendError> {
        self.begin()?.ask(|engine, now| engine.confirm(now, lock))
    }

    /// Requests one [`Event::AtRisk`] for the time when the validity of `lock` falls below `left`.
    /// See [`Engine::alert_below`].
    pub fn alert_below(&mut self, lock: &Lock, left: Duration) {
        if let Ok(mut inner) = self.begin() {
            inner.ask(|engine, _| engine.alert_below(lock, left));
        }
    }

    /// Begins to ask the nodes for the holder of `resource`, and changes nothing. The outcome is
    /// an [`Event::Inspected`], after every node has answered or timed out.
    /// See [`Redlock::inspect`](crate::Redlock::inspect).
    ///
    /// # Errors
    ///
    /// Returns [`OperatorError::Invalid`], [`OperatorError::Saturated`], [`OperatorError::Forked`]
    /// or [`OperatorError::Closed`], and sends nothing.
    pub fn inspect(&mut self, resource: &[u8]) -> Result<RoundId, OperatorError> {
        self.begin()?
            .ask(|engine, now| engine.inspect(now, resource))
    }

    /// Begins to break the lock on `resource` that an [`inspect`](Self::inspect) has `seen`. The outcome is
    /// an [`Event::Broken`], or an [`Event::Released`] with [`Breaking::AtOnce`].
    /// See [`Redlock::break_lock`](crate::Redlock::break_lock).
    ///
    /// # Errors
    ///
    /// Returns [`OperatorError::NotHeld`], [`OperatorError::NotOurs`] or [`OperatorError::Invalid`]. Also
    /// returns [`OperatorError::Saturated`], [`OperatorError::Forked`] and [`OperatorError::Closed`]. If the call
    /// fails, it sends nothing.
    pub fn break_lock(
        &mut self,
        resource: &[u8],
        seen: &Inspection,
        how: Breaking,
    ) -> Result<RoundId, OperatorError> {
        self.begin()?
            .ask(|engine, now| engine.break_lock(now, resource, seen, how))
    }

    /// Begins to watch `resource`. The outcome is an [`Event::Inspected`] as soon as the state on the nodes differs
    /// from `known`. As `known`, pass the previous outcome, or `None` to get the current state immediately. To
    /// continue, call `watch` again with each outcome. To stop, [`cancel`](Self::cancel) the operation.
    /// See [`Redlock::watch`](crate::Redlock::watch).
    ///
    /// # Errors
    ///
    /// Returns [`OperatorError::Invalid`], [`OperatorError::Saturated`], [`OperatorError::Forked`]
    /// or [`OperatorError::Closed`], and sends nothing.
    pub fn watch(
        &mut self,
        resource: &[u8],
        known: Option<&Inspection>,
    ) -> Result<RoundId, OperatorError> {
        self.begin()?
            .ask(|engine, now| engine.watch(now, resource, known))
    }

    /// Begins to release `lock`. The outcome is an [`Event::Released`].
    ///
    /// # Errors
    ///
    /// Returns [`UnlockError::Forked`] or [`UnlockError::Closed`]. If the call fails, it sends nothing, and the keys
    /// expire with their ttl.
    pub fn release(&mut self, lock: Lock) -> Result<RoundId, UnlockError> {
        Ok(self.begin()?.ask(|engine, now| engine.release(now, lock)))
    }

    /// Releases `lock` without an event for the outcome.
    pub fn give_back(&mut self, lock: Lock) {
        if let Ok(mut inner) = self.begin() {
            inner.ask(|engine, now| engine.give_back(now, lock));
        }
    }

    /// Cancels the operation `round` if it is open, and releases every lock that it may have taken. No event follows.
    pub fn cancel(&mut self, round: RoundId) {
        if let Ok(mut inner) = self.begin() {
            inner.ask(|engine, now| engine.cancel(now, round));
        }
    }

    /// Adopts a lock of another driver or process. From now on, this driver reports a loss of the lock. The validity
    /// does not change.
    pub fn adopt(&mut self, lock: Lock) -> Lock {
        match self.begin() {
            Ok(mut inner) => inner.ask(|engine, now| engine.adopt(now, lock)),
            Err(_) => lock,
        }
    }

    /// Detaches `lock` from this driver, for another driver or another process. This driver no longer reports a loss of
    /// the lock. The lock stays on the nodes that have answered, and a release follows each unanswered `SET`.
    pub fn detach(&mut self, lock: Lock) -> Lock {
        match self.begin() {
            Ok(mut inner) => inner.ask(|engine, now| engine.detach(now, lock)),
            Err(_) => lock,
        }
    }

    /// Returns the state of every node, in the order of the configuration. Show the states to operators, but do not
    /// base decisions on them. The call allocates once and does no I/O.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeStatus> {
        self.inner.engine.node_statuses(clock::now()).collect()
    }

    /// Returns the statistics of the driver: see [`Stats`]. The call takes some microseconds, allocates, and does no
    /// I/O.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.inner.engine.stats()
    }

    /// Declares that the server with this `run_id`, connected as the node at `address`, has not forgotten any lock
    /// that is still valid. The votes of the server count from now on. Returns `true` if the votes did not count
    /// before. [`Redlock::trust_node`](crate::Redlock::trust_node) describes the risk and the errors. If this handle
    /// uses fencing tokens, an [`Event::FloorsGiven`] reports whether the node has written its counter floor.
    ///
    /// # Errors
    ///
    /// If the call returns an [`OperatorError`], it has changed nothing.
    pub fn trust_node(&mut self, address: &str, run_id: &str) -> Result<bool, OperatorError> {
        let (kept, _) = calls::trust(&mut self.begin()?.engine, address, run_id)?;
        Ok(kept)
    }

    /// Calls [`trust_node`](Self::trust_node) for all servers that are connected now. Returns their run_ids. If this
    /// handle uses fencing tokens, an [`Event::FloorsGiven`] reports which of these servers have no counter floor.
    /// See [`Redlock::trust_nodes`](crate::Redlock::trust_nodes).
    pub fn trust_nodes(&mut self) -> Vec<String> {
        match self.begin() {
            Ok(mut inner) => {
                calls::with_floors((calls::trust_all(&mut inner.engine).0, Vec::new()))
            }
            Err(_) => Vec::new(),
        }
    }

    /// Begins to write the marker of this group to every node, and replaces any other marker. The outcome is
    /// an [`Event::Reinitialised`]. See [`Redlock::reinit`](crate::Redlock::reinit).
    ///
    /// # Errors
    ///
    /// Returns [`OperatorError::Invalid`], [`OperatorError::NoQuorum`] or [`OperatorError::Saturated`]. Also
    /// returns [`OperatorError::Forked`] and [`OperatorError::Closed`]. If the call fails, it changes nothing.
    pub fn reinit(&mut self) -> Result<RoundId, OperatorError> {
        self.begin()?.ask(Engine::reinit)
    }

    /// Writes the bytes that the engine has queued, without waiting and without reading.
    pub fn flush(&mut self) {
        if let Ok(mut inner) = self.begin() {
            inner.flush();
        }
    }

    /// Reads the received bytes, without waiting and without firing timers.
    ///
    /// Call `read` before an operation if the program has not taken turns for a while, because unread answers would
    /// make a healthy node look silent.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Self::turn`].
    pub fn read(&mut self) -> io::Result<()> {
        self.begin()?.read()
    }

    /// Closes the driver. Cancels open acquisitions, releases the locks in unread events, writes the remaining releases
    /// to the nodes, and waits up to `limit` for the answers. Then closes the connections. A closed driver does
    /// nothing. Locks that the program has taken from events stay on the nodes until their ttl has passed.
    pub fn shut_down(&mut self, limit: Duration) {
        let Ok(mut inner) = self.begin() else {
            return;
        };
        inner.shut_down(clock::now().saturating_add(limit));
        drop(inner);
        self.standing = Standing::Closed;
    }

    /// Returns the loop for one call.
    ///
    /// # Errors
    ///
    /// Returns an error in a forked child, if the driver is closed, and after the engine has panicked.
    pub(crate) fn begin(&mut self) -> Result<Working<'_>, Refusal> {
        self.usable()?;
        self.standing = Standing::Working;
        Ok(Working {
            panics: Panics::watch(),
            driver: self,
        })
    }

    pub(crate) fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    fn usable(&self) -> Result<(), Refusal> {
        if self.process.is_foreign() {
            return Err(Refusal::Forked);
        }
        match self.standing {
            Standing::Open => Ok(()),
            Standing::Working | Standing::Closed => Err(Refusal::Closed),
        }
    }
}

impl Deref for Working<'_> {
    type Target = Loop;

    fn deref(&self) -> &Loop {
        &self.driver.inner
    }
}

impl DerefMut for Working<'_> {
    fn deref_mut(&mut self) -> &mut Loop {
        &mut self.driver.inner
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        if !self.panics.has_begun() {
            self.driver.standing = Standing::Open;
            let Driver { inner, tracer, .. } = &mut *self.driver;
            tracer.emit(&mut inner.engine); // This call runs a subscriber, so it comes last.
        }
    }
}

impl Builder {
    /// Builds a [`Driver`]. Waits until a majority of the nodes is ready, and then for at most 50 ms more, until every
    /// other node has answered. Returns after the connect timeout at the latest, even if nodes are
    /// down. [`Driver::new`] does not wait.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError::Config`] for the first wrong setting, before any I/O, and for an unusable certificate or
    /// key. Returns [`BuildError::Io`] if the operating system provides no descriptor or random bytes.
    pub fn build_driver(&self) -> Result<Driver, BuildError> {
        let mut driver = Driver::new(&self.config()?)?;
        driver.wait_until_ready()?;
        Ok(driver)
    }
}

/// Calls [`Driver::shut_down`] with the limit of [`Builder::shutdown_timeout`](crate::Builder::shutdown_timeout). In a
/// forked child, and after a panic of the engine, the drop only closes descriptors.
impl Drop for Driver {
    fn drop(&mut self) {
        self.shut_down(self.shutdown_timeout);
    }
}

/// The descriptor is readable while a socket is ready. A due timer does not make the descriptor readable:
/// see [`Driver::until_deadline`].
impl AsFd for Driver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.poller.registry().as_fd()
    }
}

/// Returns the same descriptor as [`AsFd`].
impl AsRawFd for Driver {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
