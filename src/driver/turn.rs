//! A loop that runs an engine with its sockets and its clock on one thread.
//!
//! A turn sleeps, reads, fires timers and writes, in this order. Reading comes before timers, so that after a stall of
//! the process, an answer that has already arrived does not time out.
//!
//! # Not here
//!
//! Each call of a [`Driver`](super::Driver) checks that the loop may be used: the process is not a forked child, and
//! the engine has not panicked.

use alloc::collections::VecDeque;
use core::time::Duration;
use std::io;

use super::poller::Poller;
use super::ready::Readying;
use super::wire::Wire;
use crate::clock;
use crate::config::Config;
use crate::engine::{Engine, Event, Input};
use crate::seed;
use crate::time::Instant;
use crate::trace;

/// The longest sleep while a lock is held or an operation is open. The timeout of a sleep stops while the machine is
/// suspended, but the clock of the locks does not.
pub(super) const NAP_MAX: Duration = Duration::from_millis(100);

/// The initial capacity of the queue of events.
const EVENTS: usize = 64;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) engine: Engine,
    pub(super) wire: Wire,
    pub(super) poller: Poller,
    pub(crate) events: VecDeque<Event>,
    connect_timeout: Duration,
    spin: bool,
}

impl Loop {
    /// Begins to connect, without waiting.
    pub(super) fn new(config: &Config, seed: [u8; 32]) -> io::Result<Self> {
        let poller = Poller::new(config)?;
        let mut this = Self {
            engine: Engine::new(config, seed, clock::now()),
            wire: Wire::new(config, &poller)?,
            poller,
            events: VecDeque::with_capacity(EVENTS),
            connect_timeout: config.connect_timeout(),
            spin: config.spin(),
        };
        this.flush();
        Ok(this)
    }

    /// Connects and waits as [`Driver::wait_until_ready`](super::Driver) does. Returns the parts of a shared handle.
    pub(crate) fn connected(config: &Config) -> io::Result<(Engine, Wire, Poller)> {
        let mut this = Self::new(config, seed::fresh()?)?;
        this.wait_until_ready()?;
        Ok((this.engine, this.wire, this.poller))
    }

    /// Takes turns until a majority of the nodes is ready, and then for at most 50 ms more, until every other node has
    /// answered. Returns after the connect timeout at the latest.
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

    /// Calls the engine with the current time.
    pub(crate) fn ask<T>(&mut self, ask: impl FnOnce(&mut Engine, Instant) -> T) -> T {
        ask(&mut self.engine, clock::now())
    }

    // ----- bytes ----------------------------------------------------------------------------

    /// Takes one turn, as [`Driver::turn`](super::Driver::turn) does.
    pub(crate) fn turn(&mut self, limit: Option<Duration>) -> io::Result<()> {
        let sleep = if self.spin && self.engine.load().rounds != 0 {
            Some(Duration::ZERO)
        } else {
            shorter(limit, self.until_deadline())
        };
        // Timers fire even if the poll fails. If they did not fire, a caller that runs turns until its operation is
        // decided would never return.
        let slept = self.poller.sleep(sleep);
        if let Ok(readiness) = slept {
            self.wire.note(readiness);
        }
        self.service();
        let now = clock::now();
        self.engine.handle(now, Input::Tick);
        trace::look(&mut self.engine, now);
        self.flush();
        slept.map(|_| ())
    }

    pub(crate) fn until_deadline(&self) -> Option<Duration> {
        match self.wire.has_more() {
            true => Some(Duration::ZERO),
            false => until_deadline(&self.engine, clock::now()),
        }
    }

    /// Reads the received bytes, without waiting and without firing timers. Callers use this function if they have
    /// taken no turns for a while.
    pub(crate) fn read(&mut self) -> io::Result<()> {
        self.engine.was_away(clock::now());
        let readiness = self.poller.sleep(Some(Duration::ZERO))?;
        self.wire.note(readiness);
        self.service();
        Ok(())
    }

    /// Takes a turn that does not wait: calls [`Self::read`], then fires timers and writes. Callers use this function
    /// if they have taken no turns for a while.
    pub(crate) fn catch_up(&mut self) -> io::Result<()> {
        self.engine.was_away(clock::now());
        self.turn(Some(Duration::ZERO))
    }

    /// Reads the received bytes and passes them to the engine, with the time after the read.
    fn service(&mut self) {
        self.wire.read(self.poller.registry());
        self.wire.hand_in(&mut self.engine);
    }

    /// Carries out all orders of the engine, and queues its events.
    pub(crate) fn flush(&mut self) {
        let (events, registry) = (&mut self.events, self.poller.registry());
        let on_event = |_: &mut Engine, event| events.push_back(event);
        self.wire.flush(&mut self.engine, registry, on_event);
    }

    // ----- shutdown -------------------------------------------------------------------------

    /// Cancels acquisitions, runs turns until no node has an unanswered release or `end` has come, and closes the
    /// connections.
    pub(super) fn shut_down(&mut self, end: Instant) {
        self.engine.cancel_acquisitions(clock::now());
        loop {
            self.give_back_untaken();
            self.flush();
            let left = end.saturating_since(clock::now());
            if !is_owing(&self.engine) || left.is_zero() || self.turn(Some(left)).is_err() {
                break;
            }
        }
        self.wire.close(self.poller.registry());
    }

    fn give_back_untaken(&mut self) {
        while let Some(event) = self.events.pop_front() {
            if let Some(lock) = event.into_lock() {
                self.engine.give_back(clock::now(), lock);
            }
        }
    }
}

/// Returns the longest time that a driver of `engine` may sleep, or `None` if no timer is armed.
pub(crate) fn until_deadline(engine: &Engine, now: Instant) -> Option<Duration> {
    let deadline = engine.poll_timeout();
    let sleep = deadline.map(|(at, _)| at.saturating_since(now));
    let load = engine.load();
    let nap = (load.claims != 0 || load.rounds != 0).then_some(NAP_MAX);
    shorter(sleep, nap)
}

/// Returns `true` if a release is unsent or unanswered.
pub(crate) fn is_owing(engine: &Engine) -> bool {
    let load = engine.load();
    load.claims != 0 && (load.in_flight != 0 || load.unsent != 0 || load.debts != 0)
}

/// Returns the shorter of two waits. `None` is a wait without a limit.
fn shorter(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
