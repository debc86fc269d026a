//! The driver: an engine with the world attached to it.
//!
//! [`Driver`] owns the sockets, the poll and the clock, and takes turns: sleep until something is
//! ready or due, read, let the timers fire, write. It is for programs that have an event loop of
//! their own; the other faces drive one too.
//!
//! * `clock` is the only place that reads a clock, `socket` the only one that reads or writes.
//! * `link` is the connection to one node, `resolve` looks up its name; `probe` asks whether its server
//!   is there. `net` has those of all nodes, and the poll beside them.
//! * `turn` is the loop of one thread; `wire` moves bytes for an engine that many threads share.
//! * `ready` says how long a new driver waits for its nodes, `report` what a handle tells on its own;
//!   `handover` carries a lock to another process.
//!
//! # Guarantees
//!
//! * **Nothing blocks** but [`Driver::turn`], for as long as it is allowed to, and what is
//!   documented to wait: [`Driver::wait_until_ready`], [`Driver::shut_down`] and dropping.
//! * **Few system calls**: one write and one read per node and round, and the waiting for events.
//! * **A forked child does no harm**: it cannot use the driver, and dropping its copy closes
//!   descriptors and nothing else.
//!
//! # Not here
//!
//! The algorithm, and every decision about time: `engine`. No type of `mio` is part of the
//! interface.

#[cfg(not(unix))]
compile_error!("the feature `std` of shearline needs a unix; without it the core builds anywhere");

pub(crate) mod clock;
mod error;
mod handover;
mod link;
mod net;
mod probe;
mod ready;
mod report;
mod resolve;
mod socket;
#[cfg(test)]
mod tests;
mod turn;
mod waker;
mod wire;

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::thread;

use rustix::process::{Pid, getpid};

use crate::config::{Builder, Config, LockOptions};
use crate::engine::{Engine, Event, NodeStatus, RoundId};
use crate::error::{ConfirmError, ExtendError, LockError, ReinitError, TrustError, UnlockError};
use crate::quorum::Lock;

pub use error::BuildError;
pub(crate) use error::Refusal;
pub use handover::FromBytesError;
pub(crate) use net::{Net, Poller, Readiness};
pub(crate) use report::Reporter;
pub(crate) use turn::{Loop, is_owing, until_deadline};
pub use waker::DriverWaker;
pub(crate) use wire::Wire;

/// An engine, its sockets and its clock, to be polled from an event loop.
///
/// Start operations with [`acquire`](Self::acquire), [`extend`](Self::extend) and
/// [`release`](Self::release), each of which returns a [`RoundId`] at once. Write them with
/// [`flush`](Self::flush), or leave that to the next [`turn`](Self::turn). Take turns, and after
/// each take the [`Event`]s with [`poll_event`](Self::poll_event) until there is none.
///
/// In a loop of its own, `turn(None)` sleeps for as long as nothing happens. In a loop that has
/// other things to wait for, register the driver's descriptor ([`AsFd`]) for readability, wait at
/// most [`until_deadline`](Self::until_deadline), and then `turn(Some(Duration::ZERO))`.
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
/// Dropping it writes what is owed to the nodes, waits at most
/// [`Builder::shutdown_timeout`](crate::Builder::shutdown_timeout) for the answers, and closes the connections.
#[derive(Debug)]
pub struct Driver {
    inner: Loop,
    standing: Standing,
    process: Pid,
    shutdown_timeout: Duration,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Standing {
    Open,
    /// Inside a call. A call that finds it so from outside meets a driver whose engine has panicked.
    Working,
    Closed,
}

/// The loop of a driver, for the time of one call. If that panics, the driver is closed.
#[derive(Debug)]
pub(crate) struct Working<'a> {
    driver: &'a mut Driver,
    /// Whether this thread was panicking already, on account of something else.
    was_panicking: bool,
}
impl Driver {
    /// A driver for the nodes of `config`. It begins to connect and waits for nothing.
    ///
    /// # Errors
    ///
    /// The operating system gives no descriptor, or no random bytes. Nodes that cannot be reached
    /// are no error.
    pub fn new(config: &Config) -> io::Result<Self> {
        Self::seeded(config, net::fresh_seed()?)
    }

    fn seeded(config: &Config, seed: [u8; 32]) -> io::Result<Self> {
        Ok(Self {
            inner: Loop::new(config, seed)?,
            standing: Standing::Open,
            process: getpid(),
            shutdown_timeout: config.shutdown_timeout(),
        })
    }

    /// Takes turns until a majority of the nodes is ready, and the others have answered or 50 ms
    /// more have passed. Returns when the connect timeout has passed in any case, and at once when a
    /// majority cannot serve (wrong credentials, for one); that nodes are down is no error. Nodes of
    /// another cluster count as ready here: [`reinit`](Self::reinit) needs them all.
    /// Events stay where they are.
    ///
    /// # Errors
    ///
    /// As [`Self::turn`].
    pub fn wait_until_ready(&mut self) -> io::Result<()> {
        self.begin()?.wait_until_ready()
    }

    /// Takes one turn: sleeps until a node has something to say, a deadline comes, `limit` has
    /// passed or a [`DriverWaker`] wakes it; then reads, lets timers fire, and writes.
    ///
    /// The work of a turn is bounded: at most 256 KiB are read from a node. A turn may find
    /// nothing to do, after a signal for instance. With [`Builder::spin`](crate::Builder::spin) it does not sleep while
    /// a round is open.
    ///
    /// # Errors
    ///
    /// Waiting failed, which it does only for want of memory; the driver stays usable. Or the
    /// driver is another process's or closed; the error then holds a [`LockError`] that says so.
    pub fn turn(&mut self, limit: Option<Duration>) -> io::Result<()> {
        self.begin()?.turn(limit)
    }

    /// For how long a turn may sleep at most; `None` if only a node can make progress.
    ///
    /// Zero if there is something to do at once. While a lock is held or a round is open it is
    /// never more than 100 ms, because a host's sleep may stop its clock during a suspend, which
    /// the clock of the locks does not.
    #[must_use]
    pub fn until_deadline(&self) -> Option<Duration> {
        self.inner.until_deadline()
    }

    /// The next thing that a user waits for.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.inner.poll_event()
    }

    /// The engine, to be looked at.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        self.inner.engine()
    }

    /// Wakes a sleeping [`turn`](Self::turn) from any thread.
    #[must_use]
    pub fn waker(&self) -> DriverWaker {
        DriverWaker::new(self.inner.net.waker(), self.process)
    }

    /// Asks for the lock on `resource`. [`Event::Acquired`] tells the outcome.
    ///
    /// Nothing is written before the next [`flush`](Self::flush) or [`turn`](Self::turn). Who has
    /// been away from the driver for a while calls [`read`](Self::read) first.
    ///
    /// # Errors
    ///
    /// [`LockError::Invalid`], [`LockError::Saturated`], [`LockError::Forked`] or
    /// [`LockError::Closed`]: nothing is sent.
    pub fn acquire(
        &mut self,
        resource: &[u8],
        options: &LockOptions,
    ) -> Result<RoundId, LockError> {
        self.begin()?.acquire(resource, options)
    }

    /// Asks for `lock` to last `ttl` from now. [`Event::Extended`] tells the outcome, and holds
    /// what is to be applied to the lock.
    ///
    /// # Errors
    ///
    /// [`ExtendError::Expired`], [`ExtendError::Limit`], [`ExtendError::Invalid`],
    /// [`ExtendError::Saturated`], [`ExtendError::Forked`] or [`ExtendError::Closed`]: nothing is
    /// sent, and the lock is as it was.
    pub fn extend(&mut self, lock: &Lock, ttl: Duration) -> Result<RoundId, ExtendError> {
        self.begin()?
            .ask(|engine, now| engine.extend(now, lock, ttl))
    }

    /// Asks for how long a majority keeps `lock`. [`Event::Confirmed`] tells the outcome, and holds
    /// what is to be applied to the lock: its end then is the one that was found, also if it is
    /// earlier than the known one. A lock of [`Lock::from_bytes`] under another clock comes to life
    /// by it.
    ///
    /// # Errors
    ///
    /// [`ConfirmError::Expired`], [`ConfirmError::Saturated`], [`ConfirmError::Forked`] or
    /// [`ConfirmError::Closed`]: nothing is sent, and the lock is as it was.
    pub fn confirm(&mut self, lock: &Lock) -> Result<RoundId, ConfirmError> {
        self.begin()?.ask(|engine, now| engine.confirm(now, lock))
    }

    /// Releases `lock`. [`Event::Released`] tells the outcome.
    ///
    /// # Errors
    ///
    /// [`UnlockError::Forked`] or [`UnlockError::Closed`]: nothing is sent, and the keys end with
    /// their ttl.
    pub fn release(&mut self, lock: Lock) -> Result<RoundId, UnlockError> {
        Ok(self.begin()?.ask(|engine, now| engine.release(now, lock)))
    }

    /// Releases `lock`, and nobody waits for the outcome.
    pub fn give_back(&mut self, lock: Lock) {
        if let Ok(mut inner) = self.begin() {
            inner.ask(|engine, now| engine.give_back(now, lock));
        }
    }

    /// Ends the operation `round`, if it is open. What it may have won is given back, and no event
    /// tells of it any more.
    pub fn cancel(&mut self, round: RoundId) {
        if let Ok(mut inner) = self.begin() {
            inner.ask(|engine, now| engine.cancel(now, round));
        }
    }

    /// Takes a lock that another driver or process had into the care of this one, which tells of
    /// its loss from now on. Its validity is what it was.
    pub fn adopt(&mut self, lock: Lock) -> Lock {
        match self.begin() {
            Ok(mut inner) => inner.ask(|engine, now| engine.adopt(now, lock)),
            Err(_) => lock,
        }
    }

    /// Takes `lock` out of the care of this driver, for another one or another process: its loss
    /// is not told any more. It stands on the nodes that have answered; behind each `SET` that is
    /// still unanswered a release is sent.
    pub fn detach(&mut self, lock: Lock) -> Lock {
        match self.begin() {
            Ok(mut inner) => inner.ask(|engine, now| engine.detach(now, lock)),
            Err(_) => lock,
        }
    }

    /// How every node stands now, in the order of the configuration: for an operator's eyes, not to
    /// decide by. Costs an allocation and no I/O.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeStatus> {
        self.engine().node_statuses(clock::now()).collect()
    }

    /// Asserts that no lock lives that the server with this `run_id`, which is connected as the node
    /// at `address`, may have forgotten: its votes count from now on. Returns `true` if it was kept
    /// from voting. See [`Redlock::trust_node`](crate::Redlock::trust_node), also for the errors.
    ///
    /// # Errors
    ///
    /// [`TrustError`]: nothing was changed.
    pub fn trust_node(&mut self, address: &str, run_id: &str) -> Result<bool, TrustError> {
        self.begin()?.trust_node(address, run_id)
    }

    /// Does [`trust_node`](Self::trust_node) for the servers that are connected now. Returns their
    /// run_ids. See [`Redlock::trust_nodes`](crate::Redlock::trust_nodes).
    pub fn trust_nodes(&mut self) -> Vec<String> {
        match self.begin() {
            Ok(mut inner) => inner.ask(Engine::trust_all),
            Err(_) => Vec::new(),
        }
    }

    /// Makes every node one of this cluster, whatever its marker says
    /// ([`Redlock::reinit`](crate::Redlock::reinit)). [`Event::Reinitialised`] tells the outcome.
    ///
    /// # Errors
    ///
    /// [`ReinitError::NotStrict`], [`ReinitError::Unready`], [`ReinitError::Saturated`],
    /// [`ReinitError::Forked`] or [`ReinitError::Closed`]: nothing was changed.
    pub fn reinit(&mut self) -> Result<RoundId, ReinitError> {
        self.begin()?.ask(Engine::reinit)
    }

    /// Writes what is due, without waiting and without reading.
    pub fn flush(&mut self) {
        if let Ok(mut inner) = self.begin() {
            inner.flush();
        }
    }

    /// Reads what the nodes have sent, without waiting, and without letting any timer fire.
    ///
    /// For who has been away from the driver for a while and is about to start a round: answers
    /// that nobody has read would make a healthy node look silent.
    ///
    /// # Errors
    ///
    /// As [`Self::turn`].
    pub fn read(&mut self) -> io::Result<()> {
        self.begin()?.read()
    }

    /// Ends the driver: acquisitions that are open are cancelled, locks in events that nobody has
    /// taken are given back, what is owed to the nodes is written, and their answers are waited
    /// for, at most `limit`. Then the connections are closed. A driver that has ended does nothing
    /// any more. Locks that were taken out of it stand until their ttl has passed.
    pub fn shut_down(&mut self, limit: Duration) {
        let Ok(mut inner) = self.begin() else {
            return;
        };
        inner.shut_down(clock::now().saturating_add(limit));
        drop(inner);
        self.standing = Standing::Closed;
    }

    /// The loop, for one call of a user.
    ///
    /// # Errors
    ///
    /// This is another process than the driver's, or the driver is closed or broken.
    pub(crate) fn begin(&mut self) -> Result<Working<'_>, Refusal> {
        self.usable()?;
        self.standing = Standing::Working;
        Ok(Working {
            was_panicking: thread::panicking(),
            driver: self,
        })
    }

    fn usable(&self) -> Result<(), Refusal> {
        if getpid() != self.process {
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
        if self.was_panicking || !thread::panicking() {
            self.driver.standing = Standing::Open;
        }
    }
}

impl Builder {
    /// A [`Driver`], as soon as a majority of the nodes is ready and the others have answered or
    /// 50 ms more have passed; after the connect timeout in any case, also with nodes down.
    /// [`Driver::new`] does not wait.
    ///
    /// # Errors
    ///
    /// [`BuildError::Config`] for the first mistake in what was set, before any I/O;
    /// [`BuildError::Io`] if the operating system gives no descriptor or random bytes.
    pub fn build_driver(&self) -> Result<Driver, BuildError> {
        let mut driver = Driver::new(&self.config()?)?;
        driver.wait_until_ready()?;
        Ok(driver)
    }
}

/// Ends the driver as [`Driver::shut_down`] does, within the time of
/// [`Builder::shutdown_timeout`](crate::Builder::shutdown_timeout). In a forked child, and after a panic of the
/// engine, it closes descriptors only.
impl Drop for Driver {
    fn drop(&mut self) {
        self.shut_down(self.shutdown_timeout);
    }
}

/// Readable when a turn would find something to do. Deadlines do not make it so: see
/// [`Driver::until_deadline`].
impl AsFd for Driver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.poller.registry().as_fd()
    }
}

/// The same descriptor as [`AsFd`] gives.
impl AsRawFd for Driver {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
