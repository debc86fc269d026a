//! What operations work with: the nodes, the claims, the timers, and what is to be reported.
//!
//! Each part owns its state. They stand beside each other here so that an operation can use several of
//! them at once. None of them knows an operation by more than its key.

use alloc::collections::VecDeque;
use core::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::config::Config;
use crate::entry::Entry;
use crate::invariant::Must;
use crate::keys::{ClaimKey, OperationKey};
use crate::limits::TTL_ASSUMED_MAX;
use crate::quorum::LockId;
use crate::time::Instant;

use super::alarm::Timers;
use super::claims::claim::{Claim, Questions};
use super::claims::{Below, Claims};
use super::nodes::Nodes;
use super::restarts::Restarts;
use super::settings::Settings;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) settings: Settings,
    pub(super) restarts: Restarts,
    pub(super) random: StdRng,
    pub(super) nodes: Nodes,
    pub(super) claims: Claims,
    pub(super) timers: Timers,
    /// What is to be reported at the next poll, in the order in which it became certain.
    pub(super) news: VecDeque<News>,
}

/// Something to be reported at the next poll.
#[derive(Clone, Copy, Debug)]
pub(super) enum News {
    /// The outcome of an operation.
    Operation(OperationKey),
    /// A lock is over.
    Expired(LockId),
}

impl Parts {
    pub(super) fn new(config: &Config, seed: [u8; 32], start: Instant) -> Self {
        let mut random = StdRng::from_seed(seed);
        Self {
            settings: Settings::of(config),
            restarts: Restarts::of(config),
            nodes: Nodes::new(config),
            claims: Claims::new(random.next_u64(), config.drift()),
            timers: Timers::new(start),
            news: VecDeque::new(),
            random,
        }
    }

    /// Returns the claims, and what they work with at `now`.
    pub(super) fn claims(&mut self, now: Instant) -> (&mut Claims, Below<'_>) {
        let (nodes, timers) = (&mut self.nodes, &mut self.timers);
        (&mut self.claims, Below { now, nodes, timers })
    }

    /// Makes a claim for a lock that was granted elsewhere, or has been forgotten here; `entry` is its
    /// name and token, if it is to be released. An extension that was not confirmed may have given some
    /// of its keys more than it knows of.
    pub(super) fn adopt(
        &mut self,
        now: Instant,
        entry: Option<Entry>,
        until: Instant,
        ttl: Duration,
    ) -> ClaimKey {
        self.restarts.remember(ttl);
        let ttl = ttl.max(TTL_ASSUMED_MAX).min(self.settings.ttl_limit);
        let gone_by = self.settings.drift.gone_by(now.max(until), ttl);
        let claim = Claim::adopted(self.nodes.set(), ttl, until, gone_by);
        self.claims.insert(Claim { entry, ..claim })
    }

    /// Releases `claim` without an operation that waits for the outcome.
    pub(super) fn give_back(&mut self, now: Instant, claim: ClaimKey) {
        let (claims, mut below) = self.claims(now);
        claims.release(None, claim, &mut below);
    }

    /// Reports to the holder of `claim`, once, that its lock is over. Returns the questions about it,
    /// which are to end.
    pub(super) fn tell_lost(&mut self, claim: ClaimKey) -> Questions {
        let id = self.claims.lock_id(claim);
        let Some(claim) = self.claims.get_mut(claim).must() else {
            return Questions::default();
        };
        let open = claim.end_questions();
        if guard!(LossNotTold, claim.tell_lost()) {
            self.news.push_back(News::Expired(id));
        }
        open
    }
}
