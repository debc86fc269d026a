//! Elections for `LocalRedlock`.

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::LocalRedlock;
use crate::calls;
use crate::clock;
use crate::config::LockOptions;
use crate::engine::inspection::Inspection;
use crate::engine::operators::OperatorError;
use crate::error::LockError;
use crate::quorum::Lock;
use crate::shared::{Leader, Told};

/// The state of an observer of an election, which [`LocalRedlock::observe`] reads and updates.
#[derive(Default)]
pub struct Observation {
    name: Vec<u8>,
    state: Option<Inspection>,
    told: Told,
}

impl Observation {
    /// Returns a new observation, which has seen no leader of the election `name` yet.
    pub fn of(name: impl AsRef<[u8]>) -> Self {
        let name = name.as_ref().to_vec();
        Self {
            name,
            ..Self::default()
        }
    }
}

impl fmt::Debug for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observation")
            .field("told", &self.told)
            .finish_non_exhaustive()
    }
}

impl LocalRedlock {
    /// Waits until this client is the leader of the election `name`, with these `options`. The lock is
    /// fenced and kept, and has this `owner`. The fencing token of the lock is the number of the term.
    /// See [`Redlock::campaign_with`](crate::Redlock::campaign_with). [`LockOptions::keep`] explains when the program
    /// must call `poll`.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`lock_with`](Self::lock_with).
    pub fn campaign_with(
        &mut self,
        name: impl AsRef<[u8]>,
        owner: impl AsRef<[u8]>,
        options: &LockOptions,
    ) -> Result<Lock, LockError> {
        self.lock_with(name, &options.of_leader(owner))
    }

    /// Like [`campaign_with`](Self::campaign_with), but takes a `ttl` instead of options, and has no deadline. To
    /// resign, [`unlock`](Self::unlock) the lock.
    ///
    /// # Errors
    ///
    /// Returns an error only if an operator must repair something: see [`lock_with`](Self::lock_with).
    pub fn campaign(
        &mut self,
        name: impl AsRef<[u8]>,
        owner: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<Lock, LockError> {
        self.campaign_with(name, owner, &LockOptions::new(ttl).wait(Duration::MAX))
    }

    /// Waits for the next change of an election. The first call with an [`Observation`] returns the current leader, or
    /// `Some(None)` if there is none. Each later call returns the next change. Returns `None` if nothing changes within
    /// `timeout`. Terms never decrease: see [`Observer`](crate::Observer).
    ///
    /// Every call asks each node once, so `timeout` must be longer than the nodes take to answer. A waiting call does
    /// the same work as [`poll`](Self::poll). The next `poll` returns the reports that came during the wait.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use shearline::{LocalRedlock, Observation};
    /// # let mut local = LocalRedlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
    /// let mut seen = Observation::of("scheduler");
    /// while let Some(leader) = local.observe(&mut seen, Duration::from_secs(60))? {
    ///     println!("{leader:?}");
    /// }
    /// println!("nothing has changed for a minute");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`OperatorError::Invalid`], [`OperatorError::Saturated`], [`OperatorError::Forked`]
    /// or [`OperatorError::Closed`] before any I/O. Returns [`OperatorError::NoQuorum`] if the wait
    /// for the sockets fails. If too few nodes answer, the call continues to wait.
    pub fn observe(
        &mut self,
        seen: &mut Observation,
        timeout: Duration,
    ) -> Result<Option<Option<Leader>>, OperatorError> {
        let end = clock::now().saturating_add(timeout);
        let mut call = self.begin()?;
        let since = call.catch_up();
        loop {
            let Observation { name, state, told } = &mut *seen;
            let round = call
                .driver
                .ask(|engine, now| engine.watch(now, name, state.as_ref()))?;
            let Some(outcome) = call.outcome_until(end, round, since) else {
                return Ok(None);
            };
            let state = state.insert(calls::inspected(outcome)?);
            if let Some(leader) = told.changed_to(state) {
                return Ok(Some(leader));
            }
        }
    }
}
