//! What an operator says to an engine.

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
    /// Begins to break the lock on `resource` that a majority had when it was `seen`: no node has the token of
    /// its holder any more, and what becomes of the keys is said by `how`. The outcome comes as
    /// [`Event::Broken`](super::Event::Broken), when every node has answered or its time is up; with
    /// [`Breaking::AtOnce`] as [`Event::Released`](super::Event::Released), and what is owed to nodes that do not
    /// answer stays owed. See `Redlock::break_lock`.
    ///
    /// # Errors
    ///
    /// [`BreakError::NotHeld`], [`BreakError::NoExpiry`], [`BreakError::TooLong`], [`BreakError::Invalid`] and
    /// [`BreakError::Saturated`], before anything was sent.
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

    /// Makes every node one of this cluster, regardless of its marker, with a barrier as long as
    /// the longest lock of either. The outcome comes as
    /// [`Event::Reinitialised`](super::Event::Reinitialised). See `Redlock::reinit`.
    ///
    /// # Errors
    ///
    /// [`ReinitError::NotStrict`], [`ReinitError::Saturated`], and [`ReinitError::Unready`] where a
    /// node cannot be asked: nothing was sent.
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

    /// Counts the answers of the server with this `run_id`, which is connected as `node`, from now
    /// on: an operator states that every lock that it may have forgotten is over. Returns `true` if
    /// its answers did not count before.
    ///
    /// Open operations go on without it. The node can be put into quarantine again.
    ///
    /// If this engine was asked for a lock with a fencing token
    /// ([`LockOptions::fenced`](crate::LockOptions::fenced)) before, the node gets a floor for these: at least the
    /// largest that this engine has seen, and the present time by [`set_wall_clock`](Self::set_wall_clock). If it has lost its data, an
    /// older token may be larger than that where clocks have been set back. Whether the node has written it comes as an
    /// [`Event::FloorsGiven`](super::Event::FloorsGiven), a connect timeout later at most.
    ///
    /// With [`RestartGuard::Strict`](crate::RestartGuard::Strict) the barrier on the node is
    /// deleted too, for all clients. If a handshake is under way, that becomes part of it.
    ///
    /// # Errors
    ///
    /// [`TrustError::UnknownNode`], [`TrustError::NotConnected`], [`TrustError::Changed`],
    /// [`TrustError::NoRunId`], [`TrustError::OtherCluster`]: nothing was changed.
    pub fn trust(&mut self, now: Instant, node: NodeId, run_id: &str) -> Result<bool, TrustError> {
        self.trust_for(now, node, run_id).map(|(kept, _)| kept)
    }

    /// The same, with the round whose outcome says whether the node has got a floor, if it was to get one.
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

    /// Does [`trust`](Self::trust) for the servers that are connected now. Returns their run_ids.
    pub fn trust_all(&mut self, now: Instant) -> Vec<String> {
        let (trusted, _) = self.trust_all_for(now);
        trusted.into_iter().map(|(_, run_id)| run_id).collect()
    }

    /// The same, with the nodes, and the round whose outcome says which of them have got no floor.
    pub(crate) fn trust_all_for(
        &mut self,
        now: Instant,
    ) -> (Vec<(NodeId, String)>, Option<RoundId>) {
        let longest = self.parts.restarts.longest();
        let (mut trusted, mut nodes) = (Vec::new(), NodeSet::EMPTY);
        for node in self.parts.nodes.ids() {
            if let Some(run_id) = self.parts.nodes[node].run_id().map(String::from)
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

    /// Begins to count the counters of fencing tokens on all nodes. The outcome comes as
    /// [`Event::CountersCounted`](super::Event::CountersCounted). See `Redlock::count_counters`.
    ///
    /// No bound of operations refuses it: each blocks a caller, and there are few operators.
    #[cfg_attr(
        not(any(feature = "std", test)),
        expect(dead_code, reason = "only handles count")
    )]
    pub(crate) fn count_counters(&mut self, now: Instant) -> RoundId {
        let kind = Kind::CountCounters(CountCounters::new(now, &self.parts));
        self.operations
            .begin(now, Duration::ZERO, None, kind, &mut self.parts)
    }

    /// An operator trusts `nodes`: each gets a floor, if this engine was asked for a token. Who uses none says nothing
    /// about tokens, and leaves no key behind.
    ///
    /// No bound of operations refuses it: a node with much in flight is not asked, and it is over then.
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
