//! The driver: an engine with the world attached to it.
//!
//! [`Driver`] owns the sockets, the poll and the clock, and takes turns: sleep until something is
//! ready or due, read, let the timers fire, write. It is for programs that have an event loop of
//! their own; the other faces drive one too.
//!
//! * `clock` is the only place that reads a clock, `socket` the only one that reads or writes.
//! * `link` is the connection to one node, `resolve` looks up its name; `probe` asks whether its server
//!   is there.
//! * `turn` is what happens between two sleeps; `handover` carries a lock to another process.
//!
//! # Guarantees
//!
//! * **Nothing blocks** but [`Driver::turn`], for as long as it is allowed to, and what is
//!   documented to wait: [`Driver::wait_until_ready`], [`Driver::farewell`] and dropping.
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
pub(crate) mod face;
mod handover;
mod link;
mod probe;
mod ready;
mod resolve;
mod socket;
#[cfg(test)]
mod tests;
mod turn;
mod waker;

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use rustix::process::{Pid, getpid};

use self::turn::Net;
use crate::config::{Config, LockOptions};
use crate::engine::{Engine, Event, Input, NodeStatus, Request, RoundId};
use crate::error::{ExtendError, LockError, ReinitError, TrustError, UnlockError};
use crate::quorum::Lock;
use crate::time::Instant;

pub use error::BuildError;
pub(crate) use error::Refusal;
pub use handover::FromBytesError;
pub use waker::DriverWaker;

/// Longest sleep while a lock is held or a round is open. The timeout of a sleep stops while the
/// machine is suspended; the clock of the locks does not.
const NAP_MAX: Duration = Duration::from_millis(100);

/// Room for events before the queue first grows.
const EVENTS: usize = 64;

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
    engine: Engine,
    net: Net,
    events: VecDeque<Event>,
    /// The last acquisition at each index that rounds have: whatever is still open is among them.
    acquiring: Vec<Option<RoundId>>,
    standing: Standing,
    process: Pid,
    connect_timeout: Duration,
    shutdown_timeout: Duration,
    spin: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Standing {
    Open,
    /// Inside a call. Who finds it so from outside meets a driver whose engine has panicked.
    Working,
    Closed,
}

impl Driver {
    /// A driver for the nodes of `config`. It begins to connect and waits for nothing.
    ///
    /// # Errors
    ///
    /// The operating system gives no descriptor, or no random bytes. Nodes that cannot be reached
    /// are no error.
    pub fn new(config: &Config) -> io::Result<Self> {
        Self::seeded(config, turn::fresh_seed()?)
    }

    fn seeded(config: &Config, seed: [u8; 32]) -> io::Result<Self> {
        let mut driver = Self {
            engine: Engine::new(config, seed, clock::now()),
            net: Net::new(config)?,
            events: VecDeque::with_capacity(EVENTS),
            acquiring: Vec::with_capacity(EVENTS),
            standing: Standing::Open,
            process: getpid(),
            connect_timeout: config.connect_timeout(),
            shutdown_timeout: config.shutdown_timeout(),
            spin: config.spin(),
        };
        driver.flush();
        Ok(driver)
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
        self.usable()?;
        self.work(|driver| driver.take_turn(limit))
    }

    /// For how long a turn may sleep at most; `None` if only a node can make progress.
    ///
    /// Zero if there is something to do at once. While a lock is held or a round is open it is
    /// never more than 100 ms, because a host's sleep may stop its clock during a suspend, which
    /// the clock of the locks does not.
    #[must_use]
    pub fn until_deadline(&self) -> Option<Duration> {
        if self.net.has_more() {
            return Some(Duration::ZERO);
        }
        let deadline = self.engine.poll_timeout();
        let sleep = deadline.map(|(at, _)| at.saturating_since(clock::now()));
        let load = self.engine.load();
        let nap = (load.claims != 0 || load.rounds != 0).then_some(NAP_MAX);
        shorter(sleep, nap)
    }

    /// The next thing that a user waits for.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The engine, to be looked at.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Wakes a sleeping [`turn`](Self::turn) from any thread.
    #[must_use]
    pub fn waker(&self) -> DriverWaker {
        DriverWaker::new(self.net.waker(), self.process)
    }

    /// Asks for the lock on `resource`. [`Event::Acquired`] tells the outcome.
    ///
    /// Nothing is written before the next [`flush`](Self::flush) or [`turn`](Self::turn). Who has
    /// been away from the driver for a while calls [`harvest`](Self::harvest) first.
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
        self.usable()?;
        let request = Request::new(resource, options);
        self.work(|driver| {
            let round = driver.engine.acquire(clock::now(), &request)?;
            driver.remember(round);
            Ok(round)
        })
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
        self.usable()?;
        self.work(|driver| driver.engine.extend(clock::now(), lock, ttl))
    }

    /// Asks for how long a majority keeps `lock`. [`Event::Extended`] tells the outcome, and holds
    /// what is to be applied to the lock: its end then is the one that was found, also if it is
    /// earlier than the known one. A lock of [`Lock::from_bytes`] under another clock comes to life
    /// by it.
    ///
    /// # Errors
    ///
    /// [`ExtendError::Expired`], [`ExtendError::Saturated`], [`ExtendError::Forked`] or
    /// [`ExtendError::Closed`]: nothing is sent, and the lock is as it was.
    pub fn confirm(&mut self, lock: &Lock) -> Result<RoundId, ExtendError> {
        self.usable()?;
        self.work(|driver| driver.engine.confirm(clock::now(), lock))
    }

    /// Releases `lock`. [`Event::Released`] tells the outcome.
    ///
    /// # Errors
    ///
    /// [`UnlockError::Forked`] or [`UnlockError::Closed`]: nothing is sent, and the keys end with
    /// their ttl.
    pub fn release(&mut self, lock: Lock) -> Result<RoundId, UnlockError> {
        self.usable()?;
        Ok(self.work(|driver| driver.engine.release(clock::now(), lock)))
    }

    /// Releases `lock`, and nobody waits for the outcome.
    pub fn give_back(&mut self, lock: Lock) {
        if self.usable().is_ok() {
            self.work(|driver| driver.engine.give_back(clock::now(), lock));
        }
    }

    /// Ends the operation `round`, if it is open. What it may have won is given back, and no event
    /// tells of it any more.
    pub fn cancel(&mut self, round: RoundId) {
        if self.usable().is_err() {
            return;
        }
        self.work(|driver| driver.engine.cancel(clock::now(), round));
    }

    /// Takes a lock that another driver or process had into the care of this one, which tells of
    /// its loss from now on. Its validity is what it was.
    pub fn adopt(&mut self, lock: Lock) -> Lock {
        match self.usable() {
            Ok(()) => self.work(|driver| driver.engine.adopt(clock::now(), lock)),
            Err(_) => lock,
        }
    }

    /// Takes `lock` out of the care of this driver, for another one or another process: its loss
    /// is not told any more. It stands on the nodes that have answered; behind each `SET` that is
    /// still unanswered a release is sent.
    pub fn detach(&mut self, lock: Lock) -> Lock {
        match self.usable() {
            Ok(()) => self.work(|driver| driver.engine.detach(clock::now(), lock)),
            Err(_) => lock,
        }
    }

    /// How every node stands now, in the order of the configuration: for an operator's eyes, not to
    /// decide by. Costs an allocation and no I/O.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeStatus> {
        self.engine.node_statuses(clock::now()).collect()
    }

    /// Asserts that no lock lives that the server with this `run_id`, which is connected as the node
    /// at `address`, may have forgotten: its votes count from now on. Returns `true` if it was kept
    /// from voting. See [`Redlock::trust_node`](crate::Redlock::trust_node), also for the errors.
    ///
    /// # Errors
    ///
    /// [`TrustError`]: nothing was changed.
    pub fn trust_node(&mut self, address: &str, run_id: &str) -> Result<bool, TrustError> {
        self.usable()?;
        let node = self.engine.node_at(address);
        let node = node.ok_or(TrustError::UnknownNode)?;
        self.work(|driver| driver.engine.trust(clock::now(), node, run_id))
    }

    /// Does [`trust_node`](Self::trust_node) for the servers that are connected now. Returns their
    /// run_ids. See [`Redlock::trust_nodes`](crate::Redlock::trust_nodes).
    pub fn trust_nodes(&mut self) -> Vec<String> {
        match self.usable() {
            Ok(()) => self.work(|driver| driver.engine.trust_all(clock::now())),
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
        self.usable()?;
        self.work(|driver| driver.engine.reinit(clock::now()))
    }

    /// Writes what is due, without waiting and without reading.
    pub fn flush(&mut self) {
        if self.usable().is_ok() {
            self.work(Self::drain);
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
    pub fn harvest(&mut self) -> io::Result<()> {
        self.usable()?;
        self.work(|driver| {
            driver.engine.was_away(clock::now());
            driver.read_all()
        })
    }

    /// Ends the driver: acquisitions that are open are cancelled, locks in events that nobody has
    /// taken are given back, what is owed to the nodes is written, and their answers are waited
    /// for, at most `limit`. Then the connections are closed. A driver that has ended does nothing
    /// any more. Locks that were taken out of it stand until their ttl has passed.
    pub fn farewell(&mut self, limit: Duration) {
        if self.usable().is_err() {
            return;
        }
        self.work(|driver| {
            driver.pay_debts(clock::now().saturating_add(limit));
            driver.net.close();
        });
        self.standing = Standing::Closed;
    }

    fn read_all(&mut self) -> io::Result<()> {
        self.net.wait(Some(Duration::ZERO))?;
        self.net.service(&mut self.engine);
        Ok(())
    }

    fn take_turn(&mut self, limit: Option<Duration>) -> io::Result<()> {
        let sleep = if self.spin && self.engine.load().rounds != 0 {
            Some(Duration::ZERO)
        } else {
            shorter(limit, self.until_deadline())
        };
        // Deadlines are kept also when waiting fails: whoever takes turns until a call has its
        // outcome would otherwise never have it.
        let waited = self.net.wait(sleep);
        self.net.service(&mut self.engine);
        self.engine.handle(clock::now(), Input::Tick);
        self.drain();
        waited
    }

    fn remember(&mut self, round: RoundId) {
        let index = round.index();
        if self.acquiring.len() <= index {
            self.acquiring.resize(index + 1, None);
        }
        self.acquiring[index] = Some(round);
    }

    fn drain(&mut self) {
        self.net.drain(&mut self.engine, &mut self.events);
    }

    /// Cancels what is open, and takes turns until no node owes an answer, or until `end`. Returns
    /// `true` if none does.
    fn pay_debts(&mut self, end: Instant) -> bool {
        for round in self.acquiring.drain(..).flatten() {
            self.engine.cancel(clock::now(), round);
        }
        loop {
            self.give_back_untaken();
            self.drain();
            if !self.is_owing() {
                return true;
            }
            let left = end.saturating_since(clock::now());
            if left.is_zero() || self.take_turn(Some(left)).is_err() {
                return false;
            }
        }
    }

    fn give_back_untaken(&mut self) {
        while let Some(event) = self.events.pop_front() {
            if let Event::Acquired {
                result: Ok(lock), ..
            } = event
            {
                self.engine.give_back(clock::now(), lock);
            }
        }
    }

    fn is_owing(&self) -> bool {
        let load = self.engine.load();
        load.claims != 0 && (load.in_flight != 0 || load.unsent != 0 || load.owed != 0)
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

    fn work<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        self.standing = Standing::Working;
        let result = act(self);
        self.standing = Standing::Open;
        result
    }
}

/// Takes leave of the nodes as [`Driver::farewell`] does, within the time of
/// [`Builder::shutdown_timeout`](crate::Builder::shutdown_timeout). In a forked child, and after a panic of the
/// engine, it closes descriptors only.
impl Drop for Driver {
    fn drop(&mut self) {
        self.farewell(self.shutdown_timeout);
    }
}

/// Readable when a turn would find something to do. Deadlines do not make it so: see
/// [`Driver::until_deadline`].
impl AsFd for Driver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.net.poll().registry().as_fd()
    }
}

/// The same descriptor as [`AsFd`] gives.
impl AsRawFd for Driver {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

fn shorter(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
