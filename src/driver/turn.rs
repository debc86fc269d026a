//! The loop of one thread: an engine, its sockets and its clock.
//!
//! The order within a turn is: sleep, read, let the timers fire, write. Answers come before timers,
//! so that a process that was stalled does not time out what is already there.
//!
//! # Not here
//!
//! Whether the loop may be used at all (forks, panics): [`Driver`](super::Driver) asks that once for
//! each call of a user, and nothing here does.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;
use std::io;

use super::clock;
use super::net::{Net, Poller, fresh_seed};
use super::ready::Readying;
use crate::config::{Config, LockOptions};
use crate::engine::{Engine, Event, Input, Output, Request, RoundId};
use crate::error::{LockError, TrustError};
use crate::time::Instant;

/// Longest sleep while a lock is held or a round is open. The timeout of a sleep stops while the
/// machine is suspended; the clock of the locks does not.
pub(super) const NAP_MAX: Duration = Duration::from_millis(100);

/// Room for events before the queue first grows.
const EVENTS: usize = 64;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Loop {
    pub(super) engine: Engine,
    pub(super) net: Net,
    pub(super) poller: Poller,
    pub(super) events: VecDeque<Event>,
    /// The last acquisition at each index that rounds have: whatever is still open is among them.
    acquiring: Vec<Option<RoundId>>,
    connect_timeout: Duration,
    spin: bool,
}

impl Loop {
    /// Begins to connect and waits for nothing.
    pub(super) fn new(config: &Config, seed: [u8; 32]) -> io::Result<Self> {
        let poller = Poller::new(config)?;
        let mut this = Self {
            engine: Engine::new(config, seed, clock::now()),
            net: Net::new(config, &poller)?,
            poller,
            events: VecDeque::with_capacity(EVENTS),
            acquiring: Vec::with_capacity(EVENTS),
            connect_timeout: config.connect_timeout(),
            spin: config.spin(),
        };
        this.flush();
        Ok(this)
    }

    /// A loop of a shared handle, connected as [`Driver::wait_until_ready`](super::Driver) says, in
    /// its parts.
    pub(crate) fn connected(config: &Config) -> io::Result<(Engine, Net, Poller)> {
        let mut this = Self::new(config, fresh_seed()?)?;
        this.wait_until_ready()?;
        Ok((this.engine, this.net, this.poller))
    }

    /// Takes turns until a majority of the nodes is ready, and the others have answered or 50 ms
    /// more have passed, or the connect timeout has.
    pub(super) fn wait_until_ready(&mut self) -> io::Result<()> {
        let mut readying = Readying::new(clock::now(), self.connect_timeout);
        loop {
            let now = clock::now();
            let until = readying.wait_until_of(now, &self.engine);
            if until <= now {
                return Ok(());
            }
            self.turn(Some(until.saturating_since(now)))?;
        }
    }

    // ----- operations -----------------------------------------------------------------------

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn acquire(
        &mut self,
        resource: &[u8],
        options: &LockOptions,
    ) -> Result<RoundId, LockError> {
        let request = Request::new(resource, options);
        let round = self.engine.acquire(clock::now(), &request)?;
        let index = round.index();
        if self.acquiring.len() <= index {
            self.acquiring.resize(index + 1, None);
        }
        self.acquiring[index] = Some(round);
        Ok(round)
    }

    /// Asks the engine for something else, now.
    pub(crate) fn ask<T>(&mut self, ask: impl FnOnce(&mut Engine, Instant) -> T) -> T {
        ask(&mut self.engine, clock::now())
    }

    pub(crate) fn trust_node(&mut self, address: &str, run_id: &str) -> Result<bool, TrustError> {
        let node = self.engine.node_at(address);
        let node = node.ok_or(TrustError::UnknownNode)?;
        self.engine.trust(clock::now(), node, run_id)
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    // ----- bytes ----------------------------------------------------------------------------

    /// One turn, as [`Driver::turn`](super::Driver::turn).
    pub(crate) fn turn(&mut self, limit: Option<Duration>) -> io::Result<()> {
        let sleep = if self.spin && self.engine.load().rounds != 0 {
            Some(Duration::ZERO)
        } else {
            shorter(limit, self.until_deadline())
        };
        // Deadlines are kept also when waiting fails: a caller that takes turns until a call has its
        // outcome would otherwise never have it.
        let slept = self.poller.sleep(sleep);
        if let Ok(readiness) = slept {
            self.net.note(readiness);
        }
        self.service();
        self.engine.handle(clock::now(), Input::Tick);
        self.flush();
        slept.map(|_| ())
    }

    pub(crate) fn until_deadline(&self) -> Option<Duration> {
        match self.net.has_more() {
            true => Some(Duration::ZERO),
            false => until_deadline(&self.engine, clock::now()),
        }
    }

    /// Reads what the nodes have sent, without waiting, and without letting any timer fire, for who
    /// has been away from the loop for a while.
    pub(crate) fn read(&mut self) -> io::Result<()> {
        self.engine.was_away(clock::now());
        let readiness = self.poller.sleep(Some(Duration::ZERO))?;
        self.net.note(readiness);
        self.service();
        Ok(())
    }

    /// A turn that does not wait, of a loop that took none for a while: as [`Self::read`], and then
    /// timers fire.
    pub(crate) fn catch_up(&mut self) -> io::Result<()> {
        self.engine.was_away(clock::now());
        self.turn(Some(Duration::ZERO))
    }

    /// Hands the engine what is there to be read. The time given with it is read after it.
    fn service(&mut self) {
        let engine = &mut self.engine;
        let mut sink = |input: Input<'_>| engine.handle(clock::now(), input);
        self.net.service(self.poller.registry(), &mut sink);
    }

    /// Does all that the engine wants done; what its users wait for becomes events.
    pub(crate) fn flush(&mut self) {
        let (engine, net, registry) = (&mut self.engine, &mut self.net, self.poller.registry());
        let mut now = clock::now();
        while let Some(output) = engine.poll(now) {
            match output {
                Output::Transmit { node, bytes } => match net.write(registry, node, bytes) {
                    Ok(len) => engine.handle(now, Input::Transmitted { node, len }),
                    Err(reason) => {
                        net.give_up(registry, node, reason, &mut |input| {
                            engine.handle(clock::now(), input);
                        });
                        now = clock::now();
                    }
                },
                Output::Connect { node } => {
                    // A copy of this process draws other tokens from its next connection on.
                    if let Ok(seed) = fresh_seed() {
                        engine.reseed(seed);
                    }
                    net.connect(registry, node, &mut |input| engine.handle(now, input));
                }
                Output::Disconnect { node } => net.disconnect(registry, node),
                Output::Probe { node, bytes } => net.open_probe(registry, node, bytes),
                Output::CloseProbe { node } => net.close_probe(registry, node),
                Output::Event(event) => self.events.push_back(event),
            }
        }
    }

    // ----- the end --------------------------------------------------------------------------

    /// Cancels what is open, takes turns until no node owes an answer, or until `end`, and closes
    /// the connections.
    pub(super) fn shut_down(&mut self, end: Instant) {
        for round in self.acquiring.drain(..).flatten() {
            self.engine.cancel(clock::now(), round);
        }
        loop {
            self.give_back_untaken();
            self.flush();
            let left = end.saturating_since(clock::now());
            if !is_owing(&self.engine) || left.is_zero() || self.turn(Some(left)).is_err() {
                break;
            }
        }
        self.net.close(self.poller.registry());
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
}

/// For how long a driver of `engine` may sleep; `None` if only a node can make progress.
pub(crate) fn until_deadline(engine: &Engine, now: Instant) -> Option<Duration> {
    let deadline = engine.poll_timeout();
    let sleep = deadline.map(|(at, _)| at.saturating_since(now));
    let load = engine.load();
    let nap = (load.claims != 0 || load.rounds != 0).then_some(NAP_MAX);
    shorter(sleep, nap)
}

/// Returns `true` if a node is owed a release, or has not answered one.
pub(crate) fn is_owing(engine: &Engine) -> bool {
    let load = engine.load();
    load.claims != 0 && (load.in_flight != 0 || load.unsent != 0 || load.owed != 0)
}

/// The shorter of two waits, of which `None` has no end.
fn shorter(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
