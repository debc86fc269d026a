//! The lock algorithm as a state machine with N nodes, any number of operations, and one timer wheel.
//!
//! The engine has no socket, no clock and no thread. The engine derives random numbers from the seed that the driver
//! passes. Events from outside arrive as an [`Input`] or a call, each with the current time. [`Engine::poll`] returns
//! what the driver must do.
//!
//! ```text
//!   calls, Input --> Engine --> Output, Event       joins the parts and does nothing else
//!                      |
//!                  Operations                       the work that callers wait for
//!                      |
//!                    Parts: Keeper                  when held locks are over, or have to be extended
//!                             |
//!                           Claims                  the copies that tokens may have left on nodes
//!                             |
//!                           Nodes                   connections, and the bytes to write
//!                             |
//!                           Timers                  the one wheel
//! ```
//!
//! Each part calls only the parts below it, and returns its findings to the part above it.
//!
//! | file | subject |
//! | --- | --- |
//! | `contract` | everything that goes in or comes out |
//! | `mod` | the state of the engine, its outputs, and when it wants to be woken |
//! | `calls`, `dispatch` | the calls; the inputs and timers |
//! | `learning` | passes each answer to the claims that learn from it |
//! | `operations`, `operation` | the open operations; one file for each kind |
//! | `operations::changes` | what happens to several of them, and what the engine begins by itself |
//! | `inspection`, `breaking` | the results of inspecting and of breaking a lock |
//! | `claims`, `claims::claim` | tokens, their releases and debts; one record |
//! | `fencing` | the proposals for fencing tokens, and the nodes that have lost their counter floor |
//! | `queues` | callers that wait for a lock, their order, and when the first one asks again |
//! | `keeper`, `keeper::looks` | when a held lock is at risk or over, and which kept locks have to be extended |
//! | `nodes`, `nodes::probes` | connections; checks whether the server behind a silent one is alive |
//! | `parts` | claims, nodes and timers side by side, as operations use them |
//! | `restarts` | how long a node that may have forgotten locks does not vote |
//! | `stats` | counts of outcomes, and histograms of times |
//! | `notices` | with the feature `tracing`: notices for an operator |
//! | `check` | checks whether a majority would vote, and what an operator has to repair |
//! | `alarm`, `news` | purposes of timers; news for the next poll |
//! | `inside` | functions for the simulator |
//! | `settings`, `pool` | the configuration; buffers |
//!
//! # Guarantees
//!
//! * No bytes, in any order and at any time, can cause a panic or let memory grow without bound.
//! * When the engine grants a lock, a majority of the configured nodes has it, and the lock is still valid.
//! * The engine releases everything that an ended attempt may have left on a node. The release follows the `SET` on the
//!   same connection, or uses a later connection. The engine retries the release until the node confirms it or the key
//!   has expired.
//! * The same seed and the same inputs produce the same outputs.
//!
//! # Not here
//!
//! A driver, such as `Driver`, provides sockets, clocks, threads and wakers.

mod alarm;
pub(crate) mod breaking;
mod calls;
mod check;
mod claims;
pub(crate) mod contract;
mod dispatch;
mod fencing;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
#[cfg(feature = "internals")]
pub(crate) mod inside;
pub(crate) mod inspection;
mod keeper;
mod learning;
mod news;
mod nodes;
#[cfg(feature = "tracing")]
pub(crate) mod notices;
mod operation;
mod operations;
pub(crate) mod operators;
mod parts;
mod pool;
mod queues;
mod restarts;
mod settings;
pub(crate) mod stats;
#[cfg(test)]
mod tests;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::config::Config;
use crate::engine::operators::OperatorError;
#[cfg(feature = "std")]
use crate::quorum::{Lock, LockId};
use crate::time::Instant;

use contract::Cause;
use news::News;
#[cfg(any(feature = "std", test))]
use nodes::Nodes;
#[cfg(feature = "tracing")]
use notices::Notices;
use operations::Operations;
use parts::Parts;
use stats::{NodeStats, Stats};

#[cfg(any(feature = "std", test))]
pub(crate) use crate::node::NodeState;
pub(crate) use check::check;
#[cfg(feature = "std")]
pub(crate) use contract::prolong;
pub use contract::{Event, Extension, Input, NodeId, Output, Request, RoundId, Wake};
pub(crate) use contract::{Load, NodeStatus};
#[cfg(feature = "std")]
pub(crate) use operation::ListedNames;
#[cfg(feature = "std")]
pub(crate) use operation::patience::{distant_timeout, usual_timeout};

/// The lock algorithm over N nodes. See the [module](self), [`Input`] and [`Output`].
///
/// ```
/// use std::time::Duration;
/// use shearline::engine::{Engine, Input, Output, Request};
/// use shearline::{Config, Instant, LockOptions};
///
/// let config = Config::builder().node("127.0.0.1:6379").config()?;
/// let now = Instant::from_millis(5);
/// let mut engine = Engine::new(&config, [7; 32], now);
/// let options = LockOptions::new(Duration::from_secs(10));
/// let round = engine.acquire(now, &Request::new(b"invoice:42", &options))?;
/// // The engine asks for a connection first; the lock follows when the handshake is done.
/// assert!(matches!(engine.poll(now), Some(Output::Connect { .. })));
/// assert!(engine.poll(now).is_none());
/// engine.cancel(now, round);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Engine {
    work: Operations,
}

impl Engine {
    /// Creates an engine for the nodes of `config`. After this call, the engine asks the driver to connect to all of
    /// these nodes.
    ///
    /// All random choices, including the tokens, depend on `seed`. Except in tests, the seed must be secret and unique.
    /// `start` is the current time.
    #[must_use]
    pub fn new(config: &Config, seed: [u8; 32], start: Instant) -> Self {
        let mut parts = Parts::new(config, seed, start);
        for node in parts.nodes.ids() {
            parts.nodes.connect(start, node, &mut parts.timers);
        }
        Self {
            work: Operations::new(parts),
        }
    }

    // ----- getters ----------------------------------------------------------------------------

    #[cfg(any(feature = "std", test))]
    pub(crate) fn nodes(&self) -> &Nodes {
        &self.work.parts.nodes
    }

    /// Returns the status of every node at `now`, in the order of the configuration.
    pub fn node_statuses(&self, now: Instant) -> impl Iterator<Item = NodeStatus> {
        let Parts { nodes, fencing, .. } = &self.work.parts;
        nodes.statuses(now, |node| fencing.lacks_floor(node))
    }

    /// Checks whether a majority of the nodes would vote at `now`. This call allocates memory, but does no I/O. See
    /// `Redlock::check`.
    ///
    /// # Errors
    ///
    /// Returns [`OperatorError::NoQuorum`] if too few nodes vote. The report says what is wrong with each node. The
    /// method [`Report::needs_operator`](crate::Report::needs_operator) says whether an operator must fix something.
    pub fn check(&self, now: Instant) -> Result<(), OperatorError> {
        check(now, &self.node_statuses(now).collect::<Vec<_>>())
    }

    /// Returns how much work is open.
    pub(crate) fn load(&self) -> Load {
        let mut load = Load {
            rounds: self.work.len(),
            claims: self.work.parts.claims.len(),
            broken: crate::invariant::count(),
            ..Load::default()
        };
        for node in self.work.parts.nodes.iter() {
            load.in_flight += node.connection.in_flight();
            load.unsent += node.connection.wire.unsent();
            load.debts += node.debts.len();
        }
        load
    }

    /// Returns the counts and times since the engine was created, and the current numbers of locks, waiting operations
    /// and unconfirmed releases. This call takes some microseconds and allocates memory, but does no I/O.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let (parts, mut stats) = (&self.work.parts, self.work.parts.stats.clone());
        let begun = stats.acquisitions.acquired + stats.adopted;
        stats.held = begun.saturating_sub(stats.hold.count()) as usize;
        stats.waiting = self.resting();
        stats.debts = self.load().debts;
        let nodes = parts.nodes.labels().iter().zip(parts.nodes.iter());
        let nodes = nodes.map(|(label, node)| NodeStats {
            address: Arc::clone(label),
            latency: node.connection.pulse.latency.clone(),
        });
        stats.nodes = nodes.collect();
        stats
    }

    /// Returns the number of operations that currently wait for other operations or for their next attempt.
    pub(crate) fn resting(&self) -> usize {
        self.work.parts.resting + self.work.parts.queues.waiters.waiting()
    }

    /// See `Claims::keys_end_by`.
    #[cfg(feature = "std")]
    pub(crate) fn keys_end_by(&self, now: Instant) -> Instant {
        self.work.parts.claims.keys_end_by(now)
    }

    /// Returns `true` if `lock` was neither released nor handed over, and the engine has not reported its end.
    #[cfg(feature = "std")]
    pub(crate) fn holds(&self, lock: LockId) -> bool {
        self.work.parts.claims.holds(lock)
    }

    /// Returns the end of the validity of `lock`, or [`Instant::ZERO`] if this time is not known or the lock no longer
    /// has a claim.
    #[cfg(feature = "std")]
    pub(crate) fn end_of(&self, lock: LockId) -> Instant {
        let claim = self.work.parts.claims.by_id(lock);
        claim.map_or(Instant::ZERO, |claim| claim.entry.end())
    }

    /// Returns whether the end of a kept `lock` was reported. Returns `None` if the lock is not kept, or if no caller
    /// holds it any longer.
    #[cfg(feature = "std")]
    pub(crate) fn is_over_though_kept(&self, lock: LockId) -> Option<bool> {
        let kept = self.work.parts.claims.by_id(lock)?.kept.as_ref();
        Some(kept.filter(|kept| kept.is_had())?.is_over())
    }

    /// Returns the labels of the nodes that hold `lock`: the nodes of the latest majority, and the nodes that have
    /// confirmed its token later. Omits nodes that have denied the token, and nodes in quarantine.
    #[cfg(feature = "std")]
    pub(crate) fn confirmed_by(&self, now: Instant, lock: &Lock) -> Vec<Arc<str>> {
        let claim = self.work.parts.claims.by_id(lock.id());
        let nodes = claim.filter(|claim| !claim.is_leaving()).map(|claim| {
            let copies = claim.copies();
            let quarantined = self.work.parts.nodes.quarantined(now, copies.sure);
            copies.confirmed.without(quarantined)
        });
        let labels = self.work.parts.nodes.labels();
        let nodes = nodes.iter().flat_map(|nodes| nodes.iter());
        nodes
            .map(|node| Arc::clone(&labels[node.index()]))
            .collect()
    }

    /// Returns the notices for an operator, and the nodes that the notices describe.
    #[cfg(feature = "tracing")]
    pub(crate) fn notices(&mut self) -> (&mut Notices, &Nodes) {
        (&mut self.work.parts.notices, &self.work.parts.nodes)
    }

    // ----- outputs -----------------------------------------------------------------------------

    /// Returns when and why the engine next wants to be woken. Returns `None` if the engine only waits for input. This
    /// call changes nothing and is allowed at any time. [`Instant::ZERO`] means immediately.
    ///
    /// The engine notices a silent node when it receives an [`Input::Tick`]. A driver passes in a tick after it has
    /// sent something, and before it sleeps until the returned time.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Instant, Wake)> {
        if !self.work.parts.news.is_empty() || self.work.parts.nodes.is_anything_due() {
            return Some((Instant::ZERO, Wake(Cause::Output)));
        }
        let timer = self.work.parts.timers.next();
        let timer = timer.map(|(at, alarm)| (at, self.work.reason(*alarm)));
        let reminder = self.work.parts.queues.next_reminder();
        let reminder = reminder.map(|at| (at, Cause::Retry));
        let turn = self.work.parts.nodes.turn_at();
        let turn = turn.map(|at| (at, Cause::Extension));
        let next = timer.into_iter().chain(reminder).chain(turn).min();
        next.map(|(at, cause)| (at, Wake(cause)))
    }

    /// Returns what the driver must do next. Call `poll` until it returns `None`. Pass the current time as `now`. If a
    /// lock has expired since its grant, this call releases the lock instead of handing it out.
    #[must_use]
    pub fn poll(&mut self, now: Instant) -> Option<Output<'_>> {
        if let Some(change) = self.work.parts.nodes.next_change() {
            return Some(change);
        }
        loop {
            if let Some(node) = self.work.parts.nodes.next_to_write(now) {
                return self.work.parts.nodes.write(now, node);
            }
            if self.work.parts.news.is_empty() {
                return None;
            }
            if let Some(event) = self.next_event(now) {
                return Some(Output::Event(event));
            }
            // Checks for bytes again, because `next_event` may have written commands.
        }
    }

    /// Returns the next event. Skips operations that were cancelled or that try again.
    // Out of line, because most polls have no news.
    #[inline(never)]
    fn next_event(&mut self, now: Instant) -> Option<Event> {
        while let Some(news) = self.work.parts.news.pop_front() {
            let event = match news {
                News::Expired(lock) => Some(Event::Expired { lock }),
                News::AtRisk(lock) => {
                    let holds = self.work.parts.claims.holds(lock);
                    holds.then_some(Event::AtRisk { lock })
                }
                News::Operation(key) => self.work.tell(now, key),
                News::Stirred(key) => {
                    self.work.stir(now, Some(key));
                    None
                }
                News::Room => {
                    self.work.extend_kept(now);
                    None
                }
                News::Floors => {
                    self.work.look_at_floors(now);
                    None
                }
            };
            if event.is_some() {
                return event;
            }
        }
        None
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("nodes", &self.work.parts.nodes.labels())
            .field("load", &self.load())
            .finish_non_exhaustive()
    }
}
