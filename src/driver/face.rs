//! What the faces need of a driver, and its users do not.
//!
//! A public call of a face asks once whether the driver may be used ([`Driver::check`]) and then
//! works with the calls here, which ask no more: one `getpid` for each call of a user. Whoever
//! calls them has asked before, in the same process.

use alloc::sync::Arc;
use core::time::Duration;
use std::io;

use super::error::Refusal;
use super::{Driver, clock};
use crate::config::{Config, LockOptions};
use crate::engine::{Request, RoundId};
use crate::error::{
    ExtendError, LinkError, LockError, NodeOutcome, NodeReport, ReinitError, Report,
};
use crate::quorum::{Lock, NodeSet};
use crate::time::Instant;

impl Driver {
    /// Whether this is the process of the driver, and it is neither closed nor broken.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        self.usable()
    }

    pub(crate) fn begin_acquire(
        &mut self,
        resource: &[u8],
        options: &LockOptions,
    ) -> Result<RoundId, LockError> {
        let request = Request::new(resource, options);
        self.work(|driver| driver.engine.acquire(clock::now(), &request))
    }

    /// Without a `ttl` it is only confirmed.
    pub(crate) fn begin_extend(
        &mut self,
        lock: &Lock,
        ttl: Option<Duration>,
    ) -> Result<RoundId, ExtendError> {
        self.work(|driver| match ttl {
            Some(ttl) => driver.engine.extend(clock::now(), lock, ttl),
            None => driver.engine.confirm(clock::now(), lock),
        })
    }

    pub(crate) fn begin_release(&mut self, lock: Lock) -> RoundId {
        self.work(|driver| driver.engine.release(clock::now(), lock))
    }

    pub(crate) fn begin_reinit(&mut self) -> Result<RoundId, ReinitError> {
        self.work(|driver| driver.engine.reinit(clock::now()))
    }

    pub(crate) fn let_go(&mut self, lock: Lock) {
        self.work(|driver| driver.engine.give_back(clock::now(), lock));
    }

    pub(crate) fn call_off(&mut self, round: RoundId) {
        self.work(|driver| driver.engine.cancel(clock::now(), round));
    }

    pub(crate) fn take_in(&mut self, lock: Lock) -> Lock {
        self.work(|driver| driver.engine.adopt(clock::now(), lock))
    }

    pub(crate) fn hand_over(&mut self, lock: Lock) -> Lock {
        self.work(|driver| driver.engine.detach(clock::now(), lock))
    }

    /// One turn, as [`Driver::turn`].
    pub(crate) fn step(&mut self, limit: Option<Duration>) -> io::Result<()> {
        self.work(|driver| driver.take_turn(limit))
    }

    /// Writes what is due, as [`Driver::flush`].
    pub(crate) fn write(&mut self) {
        self.work(Self::drain);
    }

    /// Waits as [`Driver::farewell`] does, and keeps the connections. Returns `true` if no node is
    /// owed anything then.
    pub(crate) fn settle_debts(&mut self, until: Instant) -> bool {
        self.work(|driver| driver.pay_debts(until))
    }

    /// Returns when the last key that is still owed a release is over.
    pub(crate) fn debts_end_by(&self) -> Instant {
        self.engine.keys_end_by(clock::now())
    }

    /// Reads what the nodes have sent, without waiting and without letting any timer fire.
    pub(crate) fn read(&mut self) -> io::Result<()> {
        self.work(Self::read_all)
    }

    /// A turn that does not wait, of a driver that took none for a while: as [`Driver::harvest`], and
    /// then timers fire.
    pub(crate) fn catch_up(&mut self) -> io::Result<()> {
        self.work(|driver| {
            driver.engine.was_away(clock::now());
            driver.take_turn(Some(Duration::ZERO))
        })
    }
}

/// Makes the reports of outcomes that a face finds on its own, outside of the engine.
#[derive(Clone, Debug)]
pub(crate) struct Reporter {
    labels: Arc<[Arc<str>]>,
    quorum: u8,
}

impl Reporter {
    pub(crate) fn new(config: &Config) -> Self {
        let labels = config.nodes().iter().map(|node| Arc::clone(node.label()));
        Self {
            labels: labels.collect(),
            quorum: config.quorum() as u8,
        }
    }

    /// A majority had granted it, and its validity ran out before its taker could have it.
    pub(crate) fn too_slow(&self, granted: NodeSet, since: Instant) -> LockError {
        LockError::TooSlow(self.report(granted, NodeOutcome::Pending, since))
    }

    /// Nobody has heard of any node yet.
    pub(crate) fn pending(&self, since: Instant) -> Report {
        self.report(NodeSet::EMPTY, NodeOutcome::Pending, since)
    }

    /// The operating system refused to wait for the nodes.
    pub(crate) fn deaf(&self, error: &io::Error, since: Instant) -> Report {
        let errno = error.raw_os_error().unwrap_or_default();
        let outcome = NodeOutcome::Unreachable(LinkError::Os(errno));
        self.report(NodeSet::EMPTY, outcome, since)
    }

    fn report(&self, granted: NodeSet, others: NodeOutcome, since: Instant) -> Report {
        let nodes = self.labels.iter().enumerate().map(|(node, label)| {
            let outcome = match granted.contains(node) {
                true => NodeOutcome::Granted,
                false => others,
            };
            NodeReport::new(Arc::clone(label), outcome, None)
        });
        let now = clock::now();
        let elapsed = now.saturating_since(since);
        Report::new(now, nodes.collect(), self.quorum, 1, elapsed)
    }
}
