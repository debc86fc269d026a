//! The calls of an engine: requests from callers and operators, and information from the driver.

use alloc::boxed::Box;
use alloc::string::String;
#[cfg(feature = "std")]
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

#[cfg(feature = "std")]
use crate::config::Credentials;
use crate::delay::Delay;
use crate::engine::operators::OperatorError;
use crate::entry::{self, Entry};
use crate::error::{ExtendError, LockError, RequestFault, TrustFault};
use crate::invariant::Must;
use crate::keys::NodeId;
use crate::limits::WATCHES_MAX;
use crate::quorum::{Keeping, Lock, LockId, NodeSet};
use crate::resource::{check_resource, check_resources};
use crate::time::Instant;

use super::breaking::Breaking;
use super::inspection::Inspection;
use super::operation::Kind;
use super::operation::acquire::Acquire;
use super::operation::held::{LockQuestion, Verdict};
use super::operation::inspect::Inspect;
use super::operation::inspect::watch::Watch;
use super::operation::overwrite::Overwrite;
use super::operation::reinit::{self, Reinit};
use super::operation::scan::Scan;
use super::{Engine, Request, RoundId};

impl Engine {
    // ----- operations -----------------------------------------------------------------------

    /// Begins to take a lock. The outcome is an [`Event::Acquired`](super::Event::Acquired).
    ///
    /// # Errors
    ///
    /// Returns [`LockError::Invalid`] or [`LockError::Saturated`] without sending anything. If a node belongs to
    /// another group, the outcome is [`LockError::OtherGroup`].
    pub fn acquire(&mut self, now: Instant, request: &Request<'_>) -> Result<RoundId, LockError> {
        match self.work.parts.settings.key_prefix.is_empty() {
            true => self.acquire_keys(now, request),
            false => self.acquire_with_prefix(now, request),
        }
    }

    /// Like [`acquire`](Self::acquire), but adds the configured prefix to each name.
    #[cold]
    #[inline(never)]
    fn acquire_with_prefix(
        &mut self,
        now: Instant,
        request: &Request<'_>,
    ) -> Result<RoundId, LockError> {
        let settings = &self.work.parts.settings;
        let keys: Result<Vec<_>, _> = (request.resources().iter().enumerate())
            .map(|(index, name)| settings.key(name, request.all.map(|_| index)))
            .collect();
        let keys = keys?;
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        let request = Request {
            resource: keys.first().copied().unwrap_or_default(),
            all: request.all.and(Some(&keys)),
            ..*request
        };
        self.acquire_keys(now, &request)
    }

    #[inline]
    fn acquire_keys(&mut self, now: Instant, request: &Request<'_>) -> Result<RoundId, LockError> {
        let (work, options) = (&mut self.work, request.options);
        let settings = &work.parts.settings;
        match request.all {
            None => check_resource(request.resource, None)?,
            Some(resources) => check_resources(resources)?,
        }
        if request.shared || request.permits.is_some() {
            request.check_beside(settings.without_scripts)?;
        }
        let delay = settings.delay;
        let ttl = settings.check_ttl(options.ttl(), delay)?;
        if options.is_rare() {
            options.check_rare(settings.without_scripts)?;
        }
        let tries_allowed = options.tries_allowed(&settings.retry);
        if tries_allowed == Some(0) {
            return Err(RequestFault::NoTries.into());
        }
        let deadline = options.wait_allowed(&settings.retry);
        let deadline = deadline
            .filter(|wait| guard!(DeadlineIgnored, !wait.is_zero()))
            .map(|wait| now.saturating_add(wait));
        if work.is_full() || !work.parts.claims.has_room() {
            work.parts.stats.acquisitions.saturated += 1;
            return Err(LockError::Saturated);
        }
        work.parts.remember_ttl(ttl, delay);
        let acquire = Acquire::of(request, tries_allowed, &mut work.parts);
        Ok(work.begin(now, ttl, deadline, Kind::Acquire(acquire)))
    }

    /// Begins to extend `lock` for at least `ttl` from now on. The outcome is
    /// an [`Event::Extended`](super::Event::Extended). The new validity takes effect as soon as a majority has agreed.
    /// The lock ends as soon as a majority has lost it.
    ///
    /// # Errors
    ///
    /// Returns [`ExtendError::Invalid`], [`ExtendError::Expired`], [`ExtendError::Limit`] or [`ExtendError::Saturated`]
    /// without sending anything.
    pub fn extend(
        &mut self,
        now: Instant,
        lock: &Lock,
        ttl: Duration,
    ) -> Result<RoundId, ExtendError> {
        let begun = self.work.extend(now, lock, ttl);
        if let Err(why) = &begun {
            self.work.parts.stats.extensions.failed(why);
        }
        begun
    }

    /// Makes the engine extend `lock` automatically from now on, each time by the [ttl](Lock::ttl) of the lock. The
    /// engine stops extending the lock after `most`. The option [`LockOptions::keep_for`](crate::LockOptions::keep_for)
    /// does the same as soon as the lock is granted. The call to `keep` itself sends nothing. Each extension is
    /// reported as [`Event::Kept`](super::Event::Kept). If the lock is kept already, the new limit replaces the old
    /// one.
    ///
    /// This engine must have granted `lock` or [adopted](Engine::adopt) it.
    ///
    /// # Errors
    ///
    /// Returns [`ExtendError::Expired`] if the lock is not valid, has been reported as lost, or does not belong to this
    /// engine. Returns [`ExtendError::Invalid`] if the ttl of the lock is longer than this engine allows.
    /// Returns [`ExtendError::Limit`] if the lock has no extensions left. If the call fails, the lock is unchanged.
    pub fn keep(
        &mut self,
        now: Instant,
        lock: &mut Lock,
        most: Duration,
    ) -> Result<(), ExtendError> {
        let parts = &mut self.work.parts;
        parts.settings.check_ttl(lock.ttl(), lock.delay())?;
        LockQuestion::check_extension(now, lock)?;
        let claim = parts.claims.of(lock.id());
        let Some((key, _)) = claim.filter(|(_, claim)| claim.is_held()) else {
            return Err(ExtendError::Expired);
        };
        parts.remember_ttl(lock.ttl(), lock.delay());
        let limit = now.saturating_add(most);
        let keeping = Keeping::new(lock.ttl(), limit);
        parts.keep(key, lock, keeping);
        Ok(())
    }

    /// Begins to ask the nodes how much longer a majority keeps `lock`. The outcome is
    /// an [`Event::Confirmed`](super::Event::Confirmed). The new validity takes effect as soon as a majority has
    /// answered. The lock ends as soon as a majority has lost it.
    ///
    /// The new validity may be shorter than the known validity. It is never longer than the longest ttl that this
    /// engine knows, even if the keys have no expiry.
    ///
    /// # Errors
    ///
    /// Returns [`ExtendError::Expired`] or [`ExtendError::Saturated`] without sending anything. A lock whose validity
    /// is unknown ([`Instant::ZERO`]) does not count as expired.
    pub fn confirm(&mut self, now: Instant, lock: &Lock) -> Result<RoundId, ExtendError> {
        let work = &mut self.work;
        let kind = Kind::Held(LockQuestion::confirm(now, lock, &mut work.parts)?);
        if work.is_full_for_holders() {
            return Err(ExtendError::Saturated);
        }
        work.parts.remember_ttl(lock.ttl(), lock.delay());
        Ok(work.begin(now, lock.ttl(), None, kind))
    }

    /// Begins to downgrade the exclusive `lock` to a shared lock that expires at the same time. The lock is held
    /// throughout. From this call on, `lock` is a shared lock, whatever the outcome is. The outcome is
    /// an [`Event::Confirmed`](super::Event::Confirmed): a majority keeps the shared lock until the time that the event
    /// reports.
    ///
    /// If too few nodes answer, the shared lock stays valid until it expires. A majority keeps either the exclusive
    /// lock or the shared lock, and both block exclusive locks. Nodes that keep the exclusive lock may still refuse
    /// readers. The next extension, confirmation or downgrade makes the lock shared on these nodes too.
    ///
    /// # Errors
    ///
    /// Returns [`ExtendError::Invalid`], [`ExtendError::Expired`] or [`ExtendError::Saturated`] without sending
    /// anything. If the call fails, the lock is unchanged.
    #[cold]
    pub fn downgrade(&mut self, now: Instant, lock: &mut Lock) -> Result<RoundId, ExtendError> {
        let work = &mut self.work;
        let nodes = work.parts.nodes.iter();
        let with_scripts = nodes.filter(|node| !node.abilities.is_without_scripts());
        if with_scripts.count() < work.parts.nodes.quorum() {
            return Err(RequestFault::NeedsScripts.into());
        }
        if lock.entry().is_several() || matches!(lock.entry().kind(), entry::Kind::Permit { .. }) {
            return Err(RequestFault::NotExclusive.into());
        }
        if !lock.is_valid_at(now) {
            return Err(ExtendError::Expired);
        }
        let confirm = LockQuestion::confirm(now, lock, &mut work.parts)?;
        if work.is_full_for_holders() {
            return Err(ExtendError::Saturated);
        }
        let entry = lock.entry().as_shared();
        if let Some((key, claim)) = work.parts.claims.of(lock.id()) {
            claim.entry = entry.clone();
            let open = claim.busy().questions;
            work.end_questions(now, key, open, || Verdict::Closed);
            let parts = &mut work.parts;
            let place = parts.queues.enter(entry.resource(), &mut parts.claims);
            parts.share(place, None, key);
            parts.queues.left(place, &mut parts.claims.buffers);
        }
        work.parts.wrote_to(now, entry.resource());
        if guard!(DowngradeStaysExclusive, true) {
            lock.set_entry(entry.clone());
        }
        let kind = Kind::Held(confirm.about(entry));
        let round = work.begin(now, lock.ttl(), None, kind);
        work.lead(now); // Readers ask behind this lock.
        Ok(round)
    }

    /// Begins to ask who holds `resource`. The call changes nothing on the nodes. The outcome is
    /// an [`Event::Inspected`](super::Event::Inspected) once every node has answered or timed out.
    ///
    /// # Errors
    ///
    /// Returns [`OperatorError::Invalid`] or [`OperatorError::Saturated`] without sending anything.
    pub fn inspect(&mut self, now: Instant, resource: &[u8]) -> Result<RoundId, OperatorError> {
        let work = &mut self.work;
        let key = work.parts.settings.key(resource, None)?;
        if work.is_full() {
            return Err(OperatorError::Saturated);
        }
        let kind = Kind::Inspect(Inspect::new(&key, &mut work.parts));
        Ok(work.begin(now, Duration::ZERO, None, kind))
    }

    /// Begins to watch `resource`. The outcome is an [`Event::Inspected`](super::Event::Inspected) as soon as the state
    /// of the nodes differs from `known`. As `known`, pass an earlier outcome for the same resource, or `None` to get
    /// the current state immediately. To learn of the next change, call `watch` again with the new outcome.
    ///
    /// If too few nodes answer, the inspection names no holder and does not report the resource as free. See
    /// `Redlock::watch`.
    ///
    /// # Errors
    ///
    /// Returns [`OperatorError::Invalid`], or [`OperatorError::Saturated`] while 4,096 watches are open. A call that
    /// fails sends nothing.
    pub fn watch(
        &mut self,
        now: Instant,
        resource: &[u8],
        known: Option<&Inspection>,
    ) -> Result<RoundId, OperatorError> {
        let work = &mut self.work;
        let key = work.parts.settings.key(resource, None)?;
        if WATCHES_MAX <= work.parts.queues.watches() {
            return Err(OperatorError::Saturated);
        }
        let mut inspect = Inspect::new(&key, &mut work.parts);
        inspect.watch = Some(Box::new(Watch::new(known, work.parts.nodes.len())));
        let kind = Kind::Inspect(inspect);
        Ok(work.begin(now, Duration::ZERO, None, kind))
    }

    /// Releases `lock`. The outcome is an [`Event::Released`](super::Event::Released). If a node does not answer, the
    /// engine retries the release.
    pub fn release(&mut self, now: Instant, lock: Lock) -> RoundId {
        let until = lock.valid_until();
        let work = &mut self.work;
        let claim = work.claim_to_release(now, until, lock);
        work.release(now, claim, now < until)
    }

    /// Ends an operation without reporting an outcome, and releases any lock that it has taken.
    pub fn cancel(&mut self, now: Instant, round: RoundId) {
        self.work.cancel(now, round);
    }

    /// Adds the names of the resources of the operation `round` to `report`.
    #[cfg(feature = "std")]
    pub(crate) fn about(
        &mut self,
        round: RoundId,
        report: crate::error::Report,
    ) -> crate::error::Report {
        self.work.about(round, report)
    }

    /// Cancels every open acquisition.
    #[cfg(any(feature = "std", test))]
    pub(crate) fn cancel_acquisitions(&mut self, now: Instant) {
        self.work.cancel_acquisitions(now);
    }

    /// Requests one [`Event::AtRisk`](super::Event::AtRisk) when the remaining validity of `lock` falls below `left`,
    /// or immediately if it is already shorter. The event comes up to two ticks early, but never late. An extension
    /// delays the event. If several requests are open for one lock, the request with the largest `left` counts.
    ///
    /// The engine reports nothing about a lock that has ended, was released or handed over, or is held by another
    /// engine.
    pub fn alert_below(&mut self, lock: &Lock, left: Duration) {
        self.alert(lock.id(), left);
    }

    pub(crate) fn alert(&mut self, lock: LockId, left: Duration) {
        let parts = &mut self.work.parts;
        if let Some((key, claim)) = parts.claims.of(lock)
            && claim.is_held()
        {
            parts.keeper.alert((key, claim), left, &mut parts.timers);
        }
    }

    // ----- calls without an operation -------------------------------------------------------

    /// Releases `lock`. No operation waits for the outcome.
    pub fn give_back(&mut self, now: Instant, lock: Lock) {
        let work = &mut self.work;
        work.parts.stats.releases.unwatched += 1;
        let claim = work.claim_to_release(now, lock.valid_until(), lock);
        work.give_back(now, claim);
    }

    /// Hands `lock` over to another engine or process. This engine no longer reports the end of the lock's validity,
    /// and the lock stays on the nodes that answered. If a `SET` is still unanswered, the engine sends a release after
    /// it on the same connection, because a release on another connection could overtake it.
    pub fn detach(&mut self, now: Instant, mut lock: Lock) -> Lock {
        let parts = &mut self.work.parts;
        let Some((key, claim)) = parts.claims.of(lock.id()) else {
            return lock;
        };
        let quarantined = parts.nodes.quarantined(now, claim.copies().sure);
        let (is_adopted, open) = (claim.busy().is_adopted, claim.busy().questions);
        let standing = parts.claims(now).hand_over(key);
        if !is_adopted {
            lock.set_voters(standing.without(quarantined));
        }
        self.work.end_questions(now, key, open, || Verdict::Closed);
        self.work.give_back(now, key);
        lock.set_id(LockId::NONE);
        lock
    }

    /// Adopts a lock of another engine or process. From now on, this engine reports the end of the lock's validity.
    /// When the lock is released, the engine sends the release to all nodes. The validity of the lock does not change.
    ///
    /// If the lock's validity was measured by another clock, this engine does not know when it ends
    /// ([`Instant::ZERO`]). The lock is not valid until [`confirm`](Engine::confirm) succeeds. Before that, the engine
    /// assumes that the lock ends when its keys must have expired.
    pub fn adopt(&mut self, now: Instant, mut lock: Lock) -> Lock {
        let parts = &mut self.work.parts;
        if parts.claims.of(lock.id()).is_none() {
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

    /// Sets the wall clock: at `now`, the time since 1970 is `since_1970`. The engine derives its proposals for fencing
    /// tokens from the wall clock, so that the nodes can agree on a token in one round trip. No guarantee depends on
    /// the wall clock. Until the next call, the wall clock advances together with `now`.
    pub fn set_wall_clock(&mut self, now: Instant, since_1970: Duration) {
        self.work.parts.fencing.set_clock(now, since_1970);
    }

    // ----- calls for operators -----------------------------------------------------------------

    /// Begins to break the lock on `resource`. The inspection `seen` must name the holder of the lock. After the lock
    /// is broken, no majority of the nodes has the holder's token. The argument `how` decides what happens to the keys.
    /// The outcome is an [`Event::Broken`](super::Event::Broken) once every node has answered or timed out.
    /// With [`Breaking::AtOnce`], the outcome is an [`Event::Released`](super::Event::Released). If a node does not
    /// answer, the engine retries the release. See `Redlock::break_lock`.
    ///
    /// # Errors
    ///
    /// Returns [`OperatorError::NotHeld`], [`OperatorError::NotOurs`], [`OperatorError::Invalid`]
    /// or [`OperatorError::Saturated`] without sending anything.
    pub fn break_lock(
        &mut self,
        now: Instant,
        resource: &[u8],
        seen: &Inspection,
        how: Breaking,
    ) -> Result<RoundId, OperatorError> {
        let work = &mut self.work;
        let key = work.parts.settings.key(resource, None)?;
        let Some((holder, token)) = seen.holder().zip(seen.holder_token()) else {
            return Err(OperatorError::NotHeld(Box::new(seen.clone())));
        };
        if work.is_full() {
            return Err(OperatorError::Saturated);
        }
        if seen.has_long_value() {
            return Err(OperatorError::NotOurs(Box::new(seen.clone())));
        }
        let entry = Entry::new(Vec::new(), &key, token);
        match how {
            Breaking::AtOnce => {
                let until = match holder.valid_for {
                    Duration::MAX => now,
                    left => now.saturating_add(left),
                };
                let longest = work.parts.restarts.longest();
                entry.set_end(until, longest);
                work.parts.stats.released(now, Instant::ZERO, true);
                let claim = work.parts.adopt(now, entry, (longest, Delay::default()));
                Ok(work.release(now, claim, false))
            }
            Breaking::KeepOut if holder.valid_for == Duration::MAX => {
                Err(OperatorError::NotOurs(Box::new(seen.clone())))
            }
            Breaking::KeepOut => {
                let kind = Kind::Overwrite(Overwrite::new(entry, holder.clone()));
                let ttl = Duration::ZERO;
                Ok(work.begin(now, ttl, None, kind))
            }
        }
    }

    /// Makes every node join this group, regardless of its marker. Each node gets a barrier that lasts as long as the
    /// longest lock of either group. The outcome is an [`Event::Reinitialised`](super::Event::Reinitialised). See
    /// `Redlock::reinit`.
    ///
    /// # Errors
    ///
    /// Returns [`OperatorError::Invalid`], [`OperatorError::Saturated`], or [`OperatorError::NoQuorum`] if a node
    /// cannot be asked. A call that fails sends nothing.
    pub fn reinit(&mut self, now: Instant) -> Result<RoundId, OperatorError> {
        let work = &mut self.work;
        work.parts.restarts.check_reinit()?;
        if work.is_full() {
            return Err(OperatorError::Saturated);
        }
        if let Some(report) = reinit::why_unready(now, &work.parts) {
            return Err(OperatorError::NoQuorum(report));
        }
        let kind = Kind::Reinit(Reinit::default());
        Ok(work.begin(now, Duration::ZERO, None, kind))
    }

    /// Makes the answers of `node` count from now on, if the connected server has this `run_id`. The operator
    /// guarantees that this server has not forgotten any lock that is still valid. Returns `true` if the answers of the
    /// server did not count before this call.
    ///
    /// Operations that are already open ignore the answers of this server. The node can go into quarantine again later.
    ///
    /// The node also gets a counter floor for [fencing tokens](crate::LockOptions::fenced), if a caller has asked this
    /// engine for a fencing token, or if the engine has a [wall clock](Self::set_wall_clock). The floor is at least the
    /// largest number that this engine has seen, and at least the current time by the wall clock. If the node has lost
    /// its data and clocks have been set back, an older fencing token may exceed the floor. The engine reports
    /// an [`Event::FloorsGiven`](super::Event::FloorsGiven) within the connect timeout. If a caller has asked this
    /// engine for a fencing token, the event reports whether the node has written the floor.
    ///
    /// With [`RestartGuard::Strict`](crate::RestartGuard::Strict), the call also deletes the barrier on the node, for
    /// all clients. If a handshake of the node is in progress, the handshake deletes the barrier.
    ///
    /// # Errors
    ///
    /// Returns [`OperatorError::NotTrusted`] if the node does not exist, is not connected, or is now another server.
    /// The call also returns `NotTrusted` if the server does not report its run_id or belongs to another group. If the
    /// call fails, nothing is changed.
    pub fn trust(
        &mut self,
        now: Instant,
        node: NodeId,
        run_id: &str,
    ) -> Result<bool, OperatorError> {
        Ok(self.trust_for(now, node, run_id)?.0)
    }

    /// Does the same as [`trust`](Self::trust), and also returns the operation that writes the node's counter floor, if
    /// the node needs one.
    pub(crate) fn trust_for(
        &mut self,
        now: Instant,
        node: NodeId,
        run_id: &str,
    ) -> Result<(bool, Option<RoundId>), TrustFault> {
        let longest = self.work.parts.restarts.longest();
        let kept = self.work.parts.nodes.trust(now, node, run_id, longest)?;
        let round = self.work.give_floors(now, NodeSet::of(node));
        self.work.stir_all(now);
        Ok((kept, round))
    }

    /// Calls [`trust`](Self::trust) for all servers that are connected now. Returns these nodes with their run_ids, and
    /// the operation that writes their counter floors, if any node needs one.
    pub fn trust_all(&mut self, now: Instant) -> (Vec<(NodeId, String)>, Option<RoundId>) {
        let longest = self.work.parts.restarts.longest();
        let (mut trusted, mut nodes) = (Vec::new(), NodeSet::EMPTY);
        for node in self.work.parts.nodes.ids() {
            let there = &mut self.work.parts.nodes;
            if let Some(run_id) = there[node].handshake.run_id().map(String::from)
                && there.trust(now, node, &run_id, longest).is_ok()
            {
                nodes.insert(node);
                trusted.push((node, run_id));
                self.work.stir_all(now);
            }
        }
        let round = self.work.give_floors(now, nodes);
        (trusted, round)
    }

    /// Begins to count the fencing-token counters on all nodes. The outcome is
    /// an [`Event::CountersCounted`](super::Event::CountersCounted). See `Redlock::count_counters`.
    ///
    /// The limit on open operations does not apply to scans. An operator waits for each scan, so only a few scans are
    /// open at the same time.
    #[cfg_attr(
        not(any(feature = "std", test)),
        expect(dead_code, reason = "only handles count")
    )]
    pub(crate) fn count_counters(&mut self, now: Instant) -> RoundId {
        let kind = Kind::Scan(Scan::new(now, None, &self.work.parts));
        self.work.begin(now, Duration::ZERO, None, kind)
    }

    /// Begins to list the names on all nodes that begin with `prefix`. The outcome is
    /// an [`Event::NamesListed`](super::Event::NamesListed). See `Redlock::names`.
    #[cfg_attr(
        not(any(feature = "std", test)),
        expect(dead_code, reason = "only handles list names")
    )]
    pub(crate) fn names(&mut self, now: Instant, prefix: &[u8]) -> Result<RoundId, OperatorError> {
        let settings = &self.work.parts.settings;
        let prefix = match prefix {
            [] => settings.key_prefix.to_vec(),
            _ => settings.key(prefix, None)?.into_owned(),
        };
        let kind = Kind::Scan(Scan::new(now, Some(&prefix), &self.work.parts));
        Ok(self.work.begin(now, Duration::ZERO, None, kind))
    }

    // ----- calls by the driver -----------------------------------------------------------------

    /// Mixes `seed` into the random source. Without this call, all random choices depend only on the seed
    /// of [`new`](Self::new).
    ///
    /// Two copies of a process, such as a virtual machine that was cloned or restored from a snapshot, draw the same
    /// tokens until they receive different seeds. The driver of this crate passes random bytes from the operating
    /// system before it opens a connection. This time is early enough: a restored machine has lost its connections, so
    /// it must open new ones before it can take a lock.
    pub fn reseed(&mut self, seed: [u8; 32]) {
        let mut mixed = seed;
        for byte in &mut mixed {
            *byte ^= self.work.parts.random.next_u32() as u8;
        }
        self.work.parts.random = StdRng::from_seed(mixed);
    }

    /// Handles the credentials for the connection to `node` that is being opened, or the reason why the provider has
    /// none.
    #[cfg(feature = "std")]
    pub(crate) fn log_in(&mut self, node: NodeId, given: Result<Credentials, Arc<str>>) {
        self.work.parts.nodes[node].handshake.log_in(given);
    }

    /// Reports to the holders of all kept locks that their locks have ended, because the engine stops.
    #[cfg(feature = "std")]
    pub(crate) fn end_all_kept(&self) {
        for (_, claim) in self.work.parts.claims.iter() {
            if let Some(kept) = &claim.kept {
                kept.tell_over();
            }
        }
    }
}
