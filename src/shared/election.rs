//! Elections: the holder of a kept, fenced lock is the leader, and a watch shows who leads.
//!
//! The token of the lock contains the owner and the fencing token, so an observer only needs to read the lock. Each new
//! lock has a larger fencing token, so an observer that ignores smaller tokens never returns to an earlier leader.
//!
//! # Not here
//!
//! The module [`fencing`](crate::engine) of the engine explains why the token of a leader must contain its fencing
//! token.

use alloc::vec::Vec;
use core::fmt;
use core::future::poll_fn;
use core::task::{Context, Poll};
use core::time::Duration;

use super::notes::Wanted;
use super::signal::wait;
use super::{Acquiring, Guard, Redlock, Watch, held};
use crate::config::LockOptions;
use crate::engine::Request;
use crate::engine::inspection::Inspection;
use crate::engine::operators::OperatorError;
use crate::error::{LockError, Released, UnlockError};

impl Redlock {
    /// Waits, without a time limit, until this client is the leader of the election `name`. `owner`, a text of at
    /// most 64 bytes, describes the leader to observers, for example by its address.
    ///
    /// The leader holds the [kept](LockOptions::keep), [fenced](LockOptions::fenced) lock on `name`. If the leader
    /// dies, the next candidate leads after `ttl` at the latest.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use shearline::Redlock;
    /// # fn serve(term: u64) {}
    /// # let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
    /// let leadership = redlock.campaign("scheduler", "10.0.0.7:8080", Duration::from_secs(5))?;
    /// while !leadership.lost().is_lost() {
    ///     serve(leadership.term()); // A store refuses a smaller term than it has seen.
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error only if an operator must repair something: see [`lock_with`](Self::lock_with).
    pub fn campaign(
        &self,
        name: impl AsRef<[u8]>,
        owner: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<Leadership, LockError> {
        self.campaign_with(name, owner, &LockOptions::new(ttl).wait(Duration::MAX))
    }

    /// Like [`campaign`](Self::campaign), but with these `options`, which also say how long to wait. The lock is always
    /// fenced, has this `owner`, and is kept without a limit, unless [`LockOptions::keep_for`] sets a limit.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`lock_with`](Self::lock_with).
    pub fn campaign_with(
        &self,
        name: impl AsRef<[u8]>,
        owner: impl AsRef<[u8]>,
        options: &LockOptions,
    ) -> Result<Leadership, LockError> {
        self.acquire(&Request::new(name.as_ref(), &options.of_leader(owner)))
    }

    /// Like [`campaign`](Self::campaign), but returns a future for any executor. Dropping the future ends the
    /// candidacy.
    pub fn campaign_async(
        &self,
        name: impl AsRef<[u8]>,
        owner: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Acquiring<held::Term> {
        self.campaign_with_async(name, owner, &LockOptions::new(ttl).wait(Duration::MAX))
    }

    /// Like [`campaign_with`](Self::campaign_with), but returns a future for any executor. Dropping the future ends the
    /// candidacy.
    pub fn campaign_with_async(
        &self,
        name: impl AsRef<[u8]>,
        owner: impl AsRef<[u8]>,
        options: &LockOptions,
    ) -> Acquiring<held::Term> {
        let wanted = Wanted::One(name.as_ref().to_vec());
        Acquiring::new(self.clone(), wanted, options.of_leader(owner))
    }

    /// Returns an [`Observer`] of the election `name`. An observer is not a candidate, and changes nothing on the
    /// nodes.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use shearline::Redlock;
    /// # let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
    /// let mut observer = redlock.observe("scheduler")?;
    /// while let Some(leader) = observer.next(Duration::from_secs(60)) {
    ///     match leader {
    ///         Some(leader) => println!("{} leads", leader.owner.escape_ascii()),
    ///         None => println!("there is no leader"),
    ///     }
    /// }
    /// println!("nothing has changed for a minute");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`watch`](Self::watch).
    pub fn observe(&self, name: impl AsRef<[u8]>) -> Result<Observer, OperatorError> {
        Ok(Observer {
            watch: self.watch(name)?,
            told: Told::default(),
        })
    }
}

/// A term as the leader of an election. Returned by [`Redlock::campaign`]. To resign, drop the `Leadership`, which is
/// the guard of the leader's lock.
///
/// A leader may learn late that its leadership is [lost](Self::lost), so its actions must do no harm after a loss. To
/// reject actions of an earlier leader, use a store that compares
/// terms: [`manual::elections`](crate::manual::elections).
pub type Leadership = Guard<held::Term>;

impl Leadership {
    /// Returns the number of the term, which is the fencing token of the lock. Every later term of this election has a
    /// larger number, even if clocks are wrong.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.fencing_token().unwrap_or_default()
    }

    /// Ends the term. The next candidate becomes the leader immediately. To resign in a task,
    /// call [`unlock_async`](Self::unlock_async).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`unlock`](Self::unlock).
    pub fn resign(self) -> Result<Released, UnlockError> {
        self.unlock()
    }
}

/// The leader of an election, as returned by an [`Observer`].
#[derive(Clone, Eq, Hash, PartialEq)]
pub struct Leader {
    /// The owner text of the leader. The text is not verified.
    pub owner: Vec<u8>,
    /// The number of the leader's term: [`Leadership::term`].
    pub term: u64,
}

impl Leader {
    fn of(state: &Inspection) -> Option<Self> {
        let holder = state.holder()?;
        Some(Self {
            owner: holder.owner.to_vec(),
            term: holder.fencing_token?,
        })
    }
}

impl fmt::Debug for Leader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Leader({} in term {})",
            self.owner.escape_ascii(),
            self.term
        )
    }
}

/// An observer of an election, which returns one leader after another. Returned by [`Redlock::observe`].
///
/// The first call of [`next`](Self::next) or [`changed`](Self::changed) returns the current leader, or `None` if there
/// is none. Each later call returns the next change. Terms never decrease: a leader with a smaller term than an earlier
/// leader has lost its lock, and is not reported. While too few nodes answer, no change is reported.
///
/// If the nodes push changes (`CLIENT TRACKING`), the observer notices a resignation with the first push. Like
/// a [`Watch`], an observer may leave out a change if the next leader follows within about 10 ms, or between two calls.
///
/// When a call returns a leader, another client may already be the leader. So send the term with each request to the
/// leader or its store.
#[must_use = "it tells what is asked of it"]
#[derive(Debug)]
pub struct Observer {
    watch: Watch,
    told: Told,
}

/// The leaders that an observer has already returned.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// The leader that was returned last.
    last: Option<Option<Leader>>,
    /// The largest term that was returned.
    latest: u64,
}

impl Observer {
    /// Blocks this thread. The first call waits for the current leader, and each later call waits for the next change.
    /// Returns `None` after `timeout`, or immediately if the observer [is closed](Self::is_closed).
    pub fn next(&mut self, timeout: Duration) -> Option<Option<Leader>> {
        wait(timeout, || None, |context| self.poll(context)).flatten()
    }

    /// Like [`next`](Self::next) without a timeout, but returns a future for any executor. If the future is dropped
    /// before it completes, no change is lost.
    pub async fn changed(&mut self) -> Option<Option<Leader>> {
        poll_fn(|context| self.poll(context)).await
    }

    /// Returns `true` if the observer will report no more changes: see [`Watch::is_closed`].
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.watch.is_closed()
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Option<Leader>>> {
        loop {
            let Some(state) = core::task::ready!(self.watch.poll(context)) else {
                return Poll::Ready(None);
            };
            if let Some(leader) = self.told.changed_to(&state) {
                return Poll::Ready(Some(leader));
            }
        }
    }
}

impl Told {
    /// Returns the leader in `state`, if the leader has changed.
    pub(crate) fn changed_to(&mut self, state: &Inspection) -> Option<Option<Leader>> {
        if state.holder().is_none() && state.may_be_held() {
            return None; // The leader is unknown until more nodes answer.
        }
        let leader = Leader::of(state).filter(|leader| self.latest <= leader.term);
        if self.last.as_ref() == Some(&leader) {
            return None;
        }
        self.latest = leader.as_ref().map_or(self.latest, |leader| leader.term);
        self.last = Some(leader.clone());
        Some(leader)
    }
}
