//! The algorithm as a state machine: N nodes, many operations, one wheel.
//!
//! It has no socket, no clock and no thread, and draws random numbers from the seed that it was given. What happens
//! outside comes in as an [`Input`] or a call, with the time. What the driver has to do comes out of [`Engine::poll`].
//!
//! ```text
//!   calls, Input --> Engine --> Output, Event       joins the parts and does nothing else
//!                      |
//!                  Operations                       the work that callers wait for
//!                      |
//!                    Parts: Claims                  the copies that tokens may have left on nodes
//!                             |
//!                           Nodes                   connections, and the bytes to write
//!                             |
//!                           Timers                  the one wheel
//! ```
//!
//! Calls go down only. A part returns what it has found out for a part above it.
//!
//! | file | subject |
//! | --- | --- |
//! | `contract` | everything that goes in or comes out |
//! | `mod`, `input`, `output` | the calls, the inputs, the outputs |
//! | `operations`, `operation` | the open operations; one file for each kind |
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
//! | `alarm`, `news`, `answer` | purposes of timers; news for the next poll; answers for operations |
//! | `inside` | methods for the simulator |
//! | `settings`, `pool` | the configuration; buffers |
//!
//! # Guarantees
//!
//! * Any bytes, in any order, at any time, neither cause a panic nor make memory grow without bound.
//! * No lock without a majority of the configured nodes, and none without validity left.
//! * Everything that an ended attempt may have left is released, behind its `SET` on the same connection or on a later
//!   one, and tried until it is confirmed or has expired.
//! * The same seed and inputs give the same outputs.
//!
//! # Not here
//!
//! Sockets, clocks, threads and wakers: they belong to a driver, such as `Driver`.

mod alarm;
mod answer;
pub(crate) mod breaking;
mod check;
mod claims;
pub(crate) mod contract;
mod fencing;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod input;
#[cfg(feature = "internals")]
mod inside;
pub(crate) mod inspection;
mod keeper;
mod learning;
mod news;
mod nodes;
#[cfg(feature = "tracing")]
pub(crate) mod notices;
mod operation;
mod operations;
mod operator;
mod output;
mod parts;
mod pool;
mod queues;
mod restarts;
mod settings;
pub(crate) mod stats;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::config::{Config, LockOptions};
use crate::error::{CheckError, ConfirmError, ExtendError, InvalidRequest, LockError};
use crate::invariant::Must;
use crate::keys::ClaimKey;
use crate::limits::WATCHES_MAX;
#[cfg(feature = "std")]
use crate::node::Node;
use crate::quorum::{Keeping, Lock, LockId};
use crate::resource::{check_resource, check_resources};
use crate::time::Instant;

#[cfg(feature = "std")]
use claims::claim::Claim;
use inspection::{InspectError, Inspection};
use operation::Kind;
use operation::acquire::Acquire;
use operation::confirm::Confirm;
use operation::extend::Extend;
use operation::held::Verdict;
use operation::inspect::Inspect;
use operation::inspect::watch::Watch;
use operation::release::Release;
use operations::Operations;
use parts::Parts;
use stats::{NodeStats, Stats};

#[cfg(any(feature = "std", test))]
pub(crate) use crate::node::NodeState;
pub(crate) use check::check;
pub use contract::{Event, Extension, Input, NodeId, Output, Request, RoundId, Wake};
pub(crate) use contract::{Load, NodeStatus};
#[cfg(feature = "std")]
pub(crate) use contract::{NotProlonged, prolong};
#[cfg(feature = "std")]
pub(crate) use operation::patience::usual_timeout;

/// The lock algorithm over N nodes. See the [module](self) and [`Input`], [`Output`].
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
    operations: Operations,
    parts: Parts,
}

impl Engine {
    /// Makes an engine over the nodes of `config`, which wants to connect to all of them.
    ///
    /// Every random choice comes from `seed`, including the tokens: outside of tests it has to be secret and unique.
    /// `start` is the present time.
    #[must_use]
    pub fn new(config: &Config, seed: [u8; 32], start: Instant) -> Self {
        let mut parts = Parts::new(config, seed, start);
        for node in parts.nodes.ids() {
            parts.nodes.connect(start, node, &mut parts.timers);
        }
        Self {
            operations: Operations::new(),
            parts,
        }
    }

    /// Mixes `seed` into the source of all later random choices, which otherwise depends only on the seed of
    /// [`new`](Self::new).
    ///
    /// Two copies of a process, such as a virtual machine that was cloned or restored from a snapshot, draw different
    /// tokens once they were given different seeds. The driver of this crate passes random bytes of the operating
    /// system before it opens a connection. That is enough, because connections do not survive a restoration, and no
    /// lock is taken without one.
    pub fn reseed(&mut self, seed: [u8; 32]) {
        let mut mixed = seed;
        for byte in &mut mixed {
            *byte ^= self.parts.random.next_u32() as u8;
        }
        self.parts.random = StdRng::from_seed(mixed);
    }

    /// Takes the credentials for the connection to `node` that is being opened, or the reason why the provider gave
    /// none.
    #[cfg(feature = "std")]
    pub(crate) fn log_in(
        &mut self,
        node: NodeId,
        given: Result<crate::config::Credentials, Arc<str>>,
    ) {
        self.parts.nodes[node].log_in(given);
    }

    // ----- getters ----------------------------------------------------------------------------

    /// Returns the number of configured nodes.
    #[cfg(feature = "std")]
    pub(crate) fn nodes(&self) -> usize {
        self.parts.nodes.len()
    }

    /// Returns the number of nodes that is a majority.
    #[cfg(feature = "std")]
    pub(crate) fn quorum(&self) -> usize {
        self.parts.nodes.quorum()
    }

    /// Returns the state of `node` at `now`.
    #[cfg(any(feature = "std", test))]
    pub(crate) fn node_state(&self, now: Instant, node: NodeId) -> NodeState {
        let Some(node) = self.parts.nodes.get(node) else {
            return NodeState::Down(crate::error::LinkFault::NotYet.into());
        };
        node.state(now)
    }

    /// Returns the status of every node at `now`, in the order of the configuration.
    pub fn node_statuses(&self, now: Instant) -> impl Iterator<Item = NodeStatus> {
        let Parts { nodes, fencing, .. } = &self.parts;
        nodes.statuses(now, |node| fencing.lacks_floor(node))
    }

    /// Checks whether a majority of the nodes would vote at `now`. Costs an allocation and no I/O.
    /// See `Redlock::check`.
    ///
    /// # Errors
    ///
    /// [`CheckError::Unusable`] if an operator has to repair something before any lock can be granted,
    /// [`CheckError::NoQuorum`] if too few nodes vote for another reason. The reports say what is wrong with each node.
    pub fn check(&self, now: Instant) -> Result<(), CheckError> {
        check(now, &self.node_statuses(now).collect::<Vec<_>>())
    }

    /// Returns the node that was configured as `address`, with or without credentials.
    #[cfg(feature = "std")]
    pub(crate) fn node_at(&self, address: &str) -> Option<NodeId> {
        self.parts.nodes.at(address)
    }

    /// Returns the open work.
    pub(crate) fn load(&self) -> Load {
        let mut load = Load {
            rounds: self.operations.len(&self.parts.queues),
            claims: self.parts.claims.len(),
            broken: crate::invariant::count(),
            ..Load::default()
        };
        for node in self.parts.nodes.iter() {
            load.in_flight += node.in_flight();
            load.unsent += node.unsent();
            load.owed += node.debts.len();
        }
        load
    }

    /// Returns the counts and times of the engine so far, and what is waiting now. Costs some microseconds and
    /// allocations, and no I/O.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let (parts, mut stats) = (&self.parts, self.parts.stats.clone());
        let begun = stats.acquisitions.acquired + stats.adopted;
        stats.held = begun.saturating_sub(stats.hold.count()) as usize;
        stats.waiting = self.resting();
        stats.owed = self.load().owed;
        let nodes = parts.nodes.labels().iter().zip(parts.nodes.iter());
        let nodes = nodes.map(|(label, node)| NodeStats {
            address: Arc::clone(label),
            latency: node.pulse.latency.clone(),
        });
        stats.nodes = nodes.collect();
        stats
    }

    /// Returns the number of operations that ask no node now: they wait for others, or for their next attempt.
    pub(crate) fn resting(&self) -> usize {
        self.parts.resting + self.parts.queues.waiters.waiting()
    }

    /// Returns when the last present key has expired. If a `SET` or an extension is unanswered, its key may last a
    /// whole ttl from now.
    #[cfg(feature = "std")]
    pub(crate) fn keys_end_by(&self, now: Instant) -> Instant {
        self.parts.claims.keys_end_by(now)
    }

    /// Returns the number of unanswered commands of the node that has the most.
    #[cfg(feature = "std")]
    pub(crate) fn most_in_flight(&self) -> usize {
        let nodes = self.parts.nodes.iter();
        nodes.map(Node::in_flight).max().unwrap_or(0)
    }

    /// Returns the longest node timeout that results from the nodes' round trips, for use if none is configured.
    #[cfg(feature = "std")]
    pub(crate) fn distant_timeout(&self) -> Duration {
        operation::patience::distant_timeout(self.parts.nodes.iter())
    }

    /// Returns `true` if `lock` was not released or handed over, and its end was not reported.
    #[cfg(feature = "std")]
    pub(crate) fn holds(&self, lock: LockId) -> bool {
        self.parts.claims.by_id(lock).is_some_and(Claim::is_held)
    }

    /// Returns the end of the validity of `lock`. [`Instant::ZERO`] if it is not known, or the lock has no claim any
    /// more.
    #[cfg(feature = "std")]
    pub(crate) fn end_of(&self, lock: LockId) -> Instant {
        let claim = self.parts.claims.by_id(lock);
        claim.map_or(Instant::ZERO, Claim::valid_until)
    }

    /// Returns whether the end of `lock` was reported, if it is kept and a caller still has it.
    #[cfg(feature = "std")]
    pub(crate) fn is_over_though_kept(&self, lock: LockId) -> Option<bool> {
        let kept = self.parts.claims.by_id(lock)?.kept.as_ref();
        Some(kept.filter(|kept| kept.is_had())?.is_over())
    }

    /// Ends all kept locks for their holders, because nothing is reported any more.
    #[cfg(feature = "std")]
    pub(crate) fn end_all_kept(&self) {
        for (_, claim) in self.parts.claims.iter() {
            if let Some(kept) = &claim.kept {
                kept.tell_over();
            }
        }
    }

    /// Returns the labels of the nodes that have confirmed the token of `lock` in the latest majority or later, and
    /// have not denied it since. Leaves out nodes in quarantine.
    #[cfg(feature = "std")]
    pub(crate) fn confirmed_by(&self, now: Instant, lock: &Lock) -> Vec<Arc<str>> {
        let claim = self.parts.claims.of(lock);
        let nodes = claim.map(|(_, claim)| {
            let quarantined = self.parts.nodes.quarantined(now, claim.sure());
            claim.confirmed().without(quarantined)
        });
        let labels = self.parts.nodes.labels();
        let nodes = nodes.iter().flat_map(|nodes| nodes.iter());
        nodes
            .map(|node| Arc::clone(&labels[node.index()]))
            .collect()
    }

    // ----- operations -----------------------------------------------------------------------

    /// Begins to take a lock. The outcome is an [`Event::Acquired`].
    ///
    /// # Errors
    ///
    /// [`LockError::Invalid`] and [`LockError::Saturated`], before anything is sent. [`LockError::OtherCluster`] comes
    /// as an outcome: a node belongs to another group.
    pub fn acquire(&mut self, now: Instant, request: &Request<'_>) -> Result<RoundId, LockError> {
        if let Some(resources) = request.all {
            return self.acquire_all(now, resources, request.options);
        }
        check_resource(request.resource, None)?;
        self.begin_acquire(now, request.options, |parts, tries| {
            let place = parts.queues.enter(request.resource, &mut parts.claims);
            let mut acquire = Acquire::new(request, tries, place);
            if request.options.is_fenced() {
                acquire.fence(parts);
            }
            acquire
        })
    }

    /// [`acquire`](Self::acquire) for several resources.
    #[cold]
    #[inline(never)]
    fn acquire_all(
        &mut self,
        now: Instant,
        resources: &[&[u8]],
        options: &LockOptions,
    ) -> Result<RoundId, LockError> {
        check_resources(resources)?;
        let request = Request::new(resources[0], options);
        if resources.len() == 1 {
            return self.acquire(now, &request);
        }
        self.begin_acquire(now, options, |parts, tries| {
            let places = resources.iter();
            let places = places.map(|name| parts.queues.enter(name, &mut parts.claims));
            let places: Box<[_]> = places.collect();
            let acquire = Acquire::new(&request, tries, places[0]);
            let mut acquire = acquire.of_several(places, parts.nodes.len());
            if options.is_fenced() {
                acquire.fence(parts);
            }
            acquire
        })
    }

    /// Begins the acquisition that `new` builds. `new` receives the largest number of tries.
    #[inline(always)]
    fn begin_acquire(
        &mut self,
        now: Instant,
        options: &LockOptions,
        new: impl FnOnce(&mut Parts, Option<u32>) -> Acquire,
    ) -> Result<RoundId, LockError> {
        let parts = &mut self.parts;
        let delay = parts.settings.delay;
        let ttl = parts.settings.check_ttl(options.ttl(), delay)?;
        if options.is_fenced() && parts.settings.without_scripts {
            return Err(InvalidRequest::FencedWithoutScripts.into());
        }
        let tries_allowed = options.tries_allowed(&parts.settings.retry);
        if tries_allowed == Some(0) {
            return Err(InvalidRequest::NoTries.into());
        }
        if self.operations.is_full(&parts.queues) || !parts.claims.has_room() {
            parts.stats.acquisitions.saturated += 1;
            return Err(LockError::Saturated);
        }
        parts.remember_ttl(ttl, delay);
        let deadline = options.wait_allowed(&parts.settings.retry);
        let deadline = deadline
            .filter(|wait| guard!(DeadlineIgnored, !wait.is_zero()))
            .map(|wait| now.saturating_add(wait));
        let kind = Kind::Acquire(new(parts, tries_allowed));
        Ok(self.operations.begin(now, ttl, deadline, kind, parts))
    }

    /// Begins to extend `lock` to at least `ttl` from now on. The outcome is an [`Event::Extended`]. The new end holds
    /// as soon as a majority has said yes. The lock is over as soon as a majority has lost it.
    ///
    /// # Errors
    ///
    /// [`ExtendError::Invalid`], [`ExtendError::Expired`], [`ExtendError::Limit`] and [`ExtendError::Saturated`],
    /// before anything is sent.
    pub fn extend(
        &mut self,
        now: Instant,
        lock: &Lock,
        ttl: Duration,
    ) -> Result<RoundId, ExtendError> {
        let begun = self.begin_extend(now, lock, ttl);
        if let Err(why) = &begun {
            self.parts.stats.extensions.failed(why);
        }
        begun
    }

    #[inline(always)]
    fn begin_extend(
        &mut self,
        now: Instant,
        lock: &Lock,
        ttl: Duration,
    ) -> Result<RoundId, ExtendError> {
        let parts = &mut self.parts;
        let delay = lock.delay();
        let ttl = parts.settings.check_ttl(ttl, delay)?;
        Extend::check(now, lock)?;
        if self.operations.is_full_for_holders(&parts.queues) {
            return Err(ExtendError::Saturated); // It needs no new claim: the lock has one.
        }
        let kind = Kind::Extend(Extend::new(lock, parts)?);
        parts.remember_ttl(ttl, delay);
        Ok(self.operations.begin(now, ttl, None, kind, parts))
    }

    /// Lets the engine extend `lock` from now on, as [`LockOptions::keep_for`](crate::LockOptions::keep_for) does from
    /// the grant on: each time by its [ttl](Lock::ttl), and at most until `most` from now. Sends nothing now. Each
    /// extension is reported as [`Event::Kept`]. If the lock is kept already, the new limit replaces the old one.
    ///
    /// This engine must have granted `lock` or [adopted](Engine::adopt) it.
    ///
    /// # Errors
    ///
    /// [`ExtendError::Expired`] if the lock is not valid, was reported as over, or is not of this engine;
    /// [`ExtendError::Invalid`] if its ttl is longer than this engine allows; [`ExtendError::Limit`]. The lock does not
    /// change then.
    pub fn keep(
        &mut self,
        now: Instant,
        lock: &mut Lock,
        most: Duration,
    ) -> Result<(), ExtendError> {
        let parts = &mut self.parts;
        parts.settings.check_ttl(lock.ttl(), lock.delay())?;
        Extend::check(now, lock)?;
        let claim = parts.claims.of(lock);
        let Some((key, _)) = claim.filter(|(_, claim)| claim.is_held()) else {
            return Err(ExtendError::Expired);
        };
        parts.remember_ttl(lock.ttl(), lock.delay());
        let limit = now.saturating_add(most);
        let keeping = Keeping::new(lock.ttl(), limit);
        parts.keep(key, lock, keeping);
        Ok(())
    }

    /// Begins to ask how much longer a majority keeps `lock`. The outcome is an [`Event::Confirmed`]. The new end holds
    /// as soon as a majority has answered. The lock is over as soon as a majority has lost it.
    ///
    /// The answer may be an earlier end than the known one. It is never later than the longest ttl that this engine
    /// knows, counted from `now`: a lock whose key was made permanent has to be confirmed again.
    ///
    /// # Errors
    ///
    /// [`ConfirmError::Expired`] and [`ConfirmError::Saturated`], before anything is sent. A lock whose end is not
    /// known ([`Instant::ZERO`]) has not expired.
    pub fn confirm(&mut self, now: Instant, lock: &Lock) -> Result<RoundId, ConfirmError> {
        let parts = &mut self.parts;
        let kind = Kind::Confirm(Confirm::new(now, lock, parts)?);
        if self.operations.is_full_for_holders(&parts.queues) {
            return Err(ConfirmError::Saturated);
        }
        parts.remember_ttl(lock.ttl(), lock.delay());
        Ok(self.operations.begin(now, lock.ttl(), None, kind, parts))
    }

    /// Begins to find out who holds `resource`. It changes nothing on the nodes. The outcome is an
    /// [`Event::Inspected`], when every node has answered or its time is up.
    ///
    /// # Errors
    ///
    /// [`InspectError::Invalid`] and [`InspectError::Saturated`], before anything is sent.
    pub fn inspect(&mut self, now: Instant, resource: &[u8]) -> Result<RoundId, InspectError> {
        check_resource(resource, None)?;
        let parts = &mut self.parts;
        if self.operations.is_full(&parts.queues) {
            return Err(InspectError::Saturated);
        }
        let kind = Kind::Inspect(Inspect::new(resource, parts));
        Ok(self
            .operations
            .begin(now, Duration::ZERO, None, kind, parts))
    }

    /// Begins to watch `resource`. The outcome is an [`Event::Inspected`], as soon as the nodes have something else
    /// than `known`. Pass an earlier outcome for the same resource as `known`, or `None` to get the present state at
    /// once. To learn of the next change, call it again with that outcome.
    ///
    /// If too few nodes answer, the inspection neither names a holder nor calls the resource free. See
    /// `Redlock::watch`.
    ///
    /// # Errors
    ///
    /// [`InspectError::Invalid`]; [`InspectError::Saturated`] while 4,096 watches are open. Nothing is sent then.
    pub fn watch(
        &mut self,
        now: Instant,
        resource: &[u8],
        known: Option<&Inspection>,
    ) -> Result<RoundId, InspectError> {
        check_resource(resource, None)?;
        let parts = &mut self.parts;
        if WATCHES_MAX <= parts.queues.watches() {
            return Err(InspectError::Saturated);
        }
        let mut inspect = Inspect::new(resource, parts);
        inspect.watch = Some(Box::new(Watch::new(known, parts.nodes.len())));
        let kind = Kind::Inspect(inspect);
        Ok(self
            .operations
            .begin(now, Duration::ZERO, None, kind, parts))
    }

    /// Releases `lock`. The outcome is an [`Event::Released`]. The release of a node that does not answer stays a debt
    /// after that.
    pub fn release(&mut self, now: Instant, lock: Lock) -> RoundId {
        let until = lock.valid_until();
        let claim = self.claim_to_release(now, until, lock);
        self.release_claim(now, claim, now < until)
    }

    fn release_claim(&mut self, now: Instant, claim: ClaimKey, valid: bool) -> RoundId {
        self.parts.vacate(now, claim);
        let kind = Kind::Release(Release::new(claim, valid));
        let ttl = Duration::ZERO; // Each node gets the time that the claim's ttl allows.
        let round = self.operations.begin(now, ttl, None, kind, &mut self.parts);
        self.operations.lead(now, &mut self.parts);
        round
    }

    /// Ends an operation without an outcome, and releases what it may have locked.
    pub fn cancel(&mut self, now: Instant, round: RoundId) {
        self.operations.cancel(now, round, &mut self.parts);
    }

    /// Cancels every open acquisition.
    #[cfg(any(feature = "std", test))]
    pub(crate) fn cancel_acquisitions(&mut self, now: Instant) {
        self.operations.cancel_acquisitions(now, &mut self.parts);
    }

    /// Asks for one [`Event::AtRisk`] when less than `left` is left of the validity of `lock`, which may be at once. It
    /// comes up to two ticks early rather than late. An extension puts it off. If there are several requests, the
    /// largest `left` counts until it was reported.
    ///
    /// Nothing is reported about a lock that is over, released, handed over, or not of this engine.
    pub fn alert_below(&mut self, lock: &Lock, left: Duration) {
        self.alert(lock.id(), left);
    }

    pub(crate) fn alert(&mut self, lock: LockId, left: Duration) {
        let parts = &mut self.parts;
        let claim = parts.claims.named_by(lock);
        if let Some((key, claim)) = parts.claims.keyed(claim)
            && claim.is_held()
        {
            parts.keeper.alert((key, claim), left, &mut parts.timers);
        }
    }

    // ----- locks without an operation -------------------------------------------------------

    /// Releases `lock` without an operation that waits for the outcome.
    pub fn give_back(&mut self, now: Instant, lock: Lock) {
        self.parts.stats.releases.unwatched += 1;
        let claim = self.claim_to_release(now, lock.valid_until(), lock);
        self.operations.give_back(now, claim, &mut self.parts);
    }

    /// Returns the claim behind `lock`, which is valid until `until`. Ends the questions about it.
    fn claim_to_release(&mut self, now: Instant, until: Instant, lock: Lock) -> ClaimKey {
        let parts = &mut self.parts;
        let there = parts.claims.of_mut(&lock);
        let is_held = there.as_ref().is_none_or(|(_, claim)| claim.is_held());
        parts.stats.released(now, until, is_held);
        let Some((key, claim)) = there else {
            let terms = (lock.ttl(), lock.delay());
            return parts.adopt(now, lock.into_entry(), terms);
        };
        drop(lock); // Its claim shares the entry, and gives the buffer back when it ends.
        let open = claim.questions();
        self.operations
            .end_questions(now, key, open, || Verdict::Closed, parts);
        key
    }

    /// Gives `lock` to another engine or process. This engine no longer reports the end of its validity, and the lock
    /// stays on the nodes that answered. Behind each unanswered `SET` the engine sends a release, because a release
    /// over another connection would have no order against that `SET`.
    pub fn detach(&mut self, now: Instant, mut lock: Lock) -> Lock {
        let parts = &mut self.parts;
        let Some((key, claim)) = parts.claims.of_mut(&lock) else {
            return lock;
        };
        let quarantined = parts.nodes.quarantined(now, claim.sure());
        let settled = claim.hand_over();
        if !claim.is_adopted() {
            lock.set_voters(settled.without(quarantined));
        }
        let open = claim.questions();
        self.operations
            .end_questions(now, key, open, || Verdict::Closed, parts);
        self.operations.give_back(now, key, parts);
        lock.set_id(LockId::NONE);
        lock
    }

    /// Adopts a lock of another engine or process. This engine then reports the end of its validity, and sends its
    /// release to all nodes. Its validity does not change.
    ///
    /// If the end of the lock is not known ([`Instant::ZERO`]: the lock comes from another clock), it is not valid, and
    /// [`confirm`](Engine::confirm) may find an end. Until then it counts as over when its keys must have expired.
    pub fn adopt(&mut self, now: Instant, mut lock: Lock) -> Lock {
        let parts = &mut self.parts;
        if parts.claims.of(&lock).is_none() {
            lock.leave();
            let terms = (lock.ttl(), lock.delay());
            let key = parts.adopt(now, lock.entry().clone(), terms);
            lock.set_id(parts.claims.lock_id(key));
            parts.stats.adopted += 1;
            if let Some(claim) = parts.claims.get_mut(key).must() {
                claim.begin_hold(now);
                parts.keeper.arm(key, claim, &mut parts.timers);
            }
        }
        lock
    }

    /// Sets the wall clock: at `now`, this much time has passed since 1970. The engine proposes fencing tokens from it,
    /// so that the tokens of different clients grow without a second round trip. No guarantee rests on its being right.
    /// Between calls, the engine advances it with `now`.
    pub fn set_wall_clock(&mut self, now: Instant, since_1970: Duration) {
        self.parts.fencing.set_clock(now, since_1970);
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("nodes", &self.parts.nodes.labels())
            .field("load", &self.load())
            .finish_non_exhaustive()
    }
}
