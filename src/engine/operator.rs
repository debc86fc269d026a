//! The calls of an engine for operators.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::delay::Delay;
use crate::entry::Entry;
use crate::error::{ReinitError, TrustError};
use crate::keys::NodeId;
use crate::limits::TOKEN_BYTES_MAX;
use crate::quorum::NodeSet;
use crate::resource::check_resource;
use crate::time::Instant;

use super::breaking::{BreakError, Breaking};
use super::inspection::Inspection;
use super::operation::Kind;
use super::operation::counters::CountCounters;
use super::operation::floors::GiveFloors;
use super::operation::overwrite::Overwrite;
use super::operation::reinit::{self, Reinit};
use super::{Engine, RoundId};

impl Engine {
    /// Begins to break the lock on `resource` that a majority had when it was `seen`. Afterwards no node has the token
    /// of its holder; `how` decides about the keys. The outcome is an [`Event::Broken`](super::Event::Broken), when
    /// every node has answered or its time is up. With [`Breaking::AtOnce`] it is an
    /// [`Event::Released`](super::Event::Released), and the release of a node that does not answer stays a debt. See
    /// `Redlock::break_lock`.
    ///
    /// # Errors
    ///
    /// [`BreakError::NotHeld`], [`BreakError::NoExpiry`], [`BreakError::TooLong`], [`BreakError::Invalid`] and
    /// [`BreakError::Saturated`], before anything is sent.
    pub fn break_lock(
        &mut self,
        now: Instant,
        resource: &[u8],
        seen: &Inspection,
        how: Breaking,
    ) -> Result<RoundId, BreakError> {
        check_resource(resource, None)?;
        let parts = &mut self.parts;
        let Some((holder, token)) = seen.holder().zip(seen.holder_token()) else {
            return Err(BreakError::NotHeld(Box::new(seen.clone())));
        };
        if self.operations.is_full(&parts.queues) {
            return Err(BreakError::Saturated);
        }
        if TOKEN_BYTES_MAX < token.len() {
            return Err(BreakError::TooLong);
        }
        let entry = Entry::new(Vec::new(), resource, token);
        match how {
            Breaking::AtOnce => {
                let until = match holder.valid_for {
                    Duration::MAX => now,
                    left => now.saturating_add(left),
                };
                let longest = parts.restarts.longest();
                entry.set_end(until, longest);
                parts.stats.released(now, Instant::ZERO, true);
                let claim = parts.adopt(now, entry, (longest, Delay::default()));
                Ok(self.release_claim(now, claim, false))
            }
            Breaking::KeepOut if holder.valid_for == Duration::MAX => Err(BreakError::NoExpiry),
            Breaking::KeepOut => {
                let kind = Kind::Overwrite(Overwrite::new(entry, holder.clone()));
                let ttl = Duration::ZERO;
                Ok(self.operations.begin(now, ttl, None, kind, parts))
            }
        }
    }

    /// Makes every node join this group, regardless of its marker, with a barrier as long as the longest lock of either
    /// group. The outcome is an [`Event::Reinitialised`](super::Event::Reinitialised). See `Redlock::reinit`.
    ///
    /// # Errors
    ///
    /// [`ReinitError::NotStrict`], [`ReinitError::Saturated`], and [`ReinitError::Unready`] if a node cannot be asked.
    /// Nothing is sent then.
    pub fn reinit(&mut self, now: Instant) -> Result<RoundId, ReinitError> {
        let parts = &mut self.parts;
        parts.restarts.check_reinit()?;
        if self.operations.is_full(&parts.queues) {
            return Err(ReinitError::Saturated);
        }
        if let Some(report) = reinit::why_unready(now, parts) {
            return Err(ReinitError::Unready(report));
        }
        let kind = Kind::Reinit(Reinit::default());
        Ok(self
            .operations
            .begin(now, Duration::ZERO, None, kind, parts))
    }

    /// From now on, counts the answers of the server with this `run_id`, which is connected as `node`: an operator
    /// states that it has forgotten no lock that is still alive. Returns `true` if its answers did not count before.
    ///
    /// Open operations still do not count its answers. The node can be put into quarantine again.
    ///
    /// If this engine was asked for a fenced lock ([`LockOptions::fenced`](crate::LockOptions::fenced)) before, the
    /// node gets a counter floor. The floor is at least the largest number that this engine has seen, and the present
    /// time by [`set_wall_clock`](Self::set_wall_clock). If the node has lost its data and clocks have been set back,
    /// an older token may be larger than the floor. An [`Event::FloorsGiven`](super::Event::FloorsGiven), at most a
    /// connect timeout later, says whether the node has written the floor.
    ///
    /// With [`RestartGuard::Strict`](crate::RestartGuard::Strict), the barrier on the node is deleted too, for all
    /// clients. If a handshake is under way, the deletion becomes part of it.
    ///
    /// # Errors
    ///
    /// [`TrustError::UnknownNode`], [`TrustError::NotConnected`], [`TrustError::Changed`], [`TrustError::NoRunId`],
    /// [`TrustError::OtherCluster`]. Nothing is changed then.
    pub fn trust(&mut self, now: Instant, node: NodeId, run_id: &str) -> Result<bool, TrustError> {
        self.trust_for(now, node, run_id).map(|(kept, _)| kept)
    }

    /// [`trust`](Self::trust), also returning the operation that gives the node a floor, if there is one.
    pub(crate) fn trust_for(
        &mut self,
        now: Instant,
        node: NodeId,
        run_id: &str,
    ) -> Result<(bool, Option<RoundId>), TrustError> {
        let longest = self.parts.restarts.longest();
        let kept = self.parts.nodes.trust(now, node, run_id, longest)?;
        let round = self.give_floors(now, NodeSet::of(node));
        self.stir_all(now);
        Ok((kept, round))
    }

    /// [Trusts](Self::trust) the servers that are connected now. Returns their run_ids.
    pub fn trust_all(&mut self, now: Instant) -> Vec<String> {
        let (trusted, _) = self.trust_all_for(now);
        trusted.into_iter().map(|(_, run_id)| run_id).collect()
    }

    /// [`trust_all`](Self::trust_all), also returning the nodes, and the operation that gives them floors, if there is
    /// one.
    pub(crate) fn trust_all_for(
        &mut self,
        now: Instant,
    ) -> (Vec<(NodeId, String)>, Option<RoundId>) {
        let longest = self.parts.restarts.longest();
        let (mut trusted, mut nodes) = (Vec::new(), NodeSet::EMPTY);
        for node in self.parts.nodes.ids() {
            if let Some(run_id) = self.parts.nodes[node].handshake.run_id().map(String::from)
                && self.parts.nodes.trust(now, node, &run_id, longest).is_ok()
            {
                nodes.insert(node);
                trusted.push((node, run_id));
                self.stir_all(now);
            }
        }
        let round = self.give_floors(now, nodes);
        (trusted, round)
    }

    /// Begins to count the counters of fencing tokens on all nodes. The outcome is an
    /// [`Event::CountersCounted`](super::Event::CountersCounted). See `Redlock::count_counters`.
    ///
    /// The bound on operations does not apply: each count blocks a caller, and there are few operators.
    #[cfg_attr(
        not(any(feature = "std", test)),
        expect(dead_code, reason = "only handles count")
    )]
    pub(crate) fn count_counters(&mut self, now: Instant) -> RoundId {
        let kind = Kind::CountCounters(CountCounters::new(now, &self.parts));
        self.operations
            .begin(now, Duration::ZERO, None, kind, &mut self.parts)
    }

    /// Gives each of `nodes`, which an operator trusts, a counter floor if this engine was asked for a fencing token.
    /// Otherwise it says nothing about tokens, and leaves no key behind.
    ///
    /// The bound on operations does not apply: a node with much in flight is not asked, so the operation ends soon.
    fn give_floors(&mut self, now: Instant, nodes: NodeSet) -> Option<RoundId> {
        let parts = &mut self.parts;
        let kind = Kind::GiveFloors(GiveFloors::new(nodes));
        let begins = parts.fencing.is_used() && !nodes.is_empty();
        begins.then(|| {
            self.operations
                .begin(now, Duration::ZERO, None, kind, parts)
        })
    }
}
