//! [`Redlock`]: the calls of users.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::time::Duration;

use super::callers::Waiter;
use super::reply::Reply;
use super::slot::{Outcome, Slot};
use super::{Acquiring, GRACE, Handle, LockGuard, Shared};
use crate::config::{Builder, Config, LockOptions};
use crate::driver::{BuildError, Refusal, clock};
use crate::engine::{self, Engine, Event, NodeStatus};
use crate::error::{CheckError, LockError, ReinitError, TrustError};
use crate::quorum::Lock;
use crate::time::Instant;

/// A lock handle for all threads and tasks of a program. Cloning it is cheap.
///
/// ```no_run
/// use std::time::Duration;
/// use shearline::{Lock, LockGuard, LockOptions, Redlock, RestartGuard, Retry};
///
/// # async fn program() -> Result<(), Box<dyn std::error::Error>> {
/// let redlock = Redlock::builder()
///     .node("redis://user:secret@10.0.0.1:6379/0")
///     .nodes(["redis://10.0.0.2:6379", "redis://10.0.0.3:6379"])
///     .node_timeout(Duration::from_millis(20))
///     .connect_timeout(Duration::from_secs(1))
///     .drift(0.01, Duration::from_millis(2))
///     .retry(Retry::new(32, Duration::from_millis(50)..=Duration::from_millis(250)))
///     .max_ttl(Duration::from_secs(60))
///     .restart_guard(RestartGuard::Observed)
///     .owner("billing-7")
///     .build()?;
/// let ttl = Duration::from_secs(10);
///
/// let lock: LockGuard = redlock.lock("invoice:42", ttl)?; // Waits and tries again.
/// // The work that nobody else may do at the same time.
/// drop(lock); // Released, without waiting for the nodes.
///
/// let lock = redlock.try_lock("invoice:42", ttl)?; // One attempt.
/// lock.unlock()?; // Released, and a majority has said so.
///
/// let patient = LockOptions::new(ttl).wait(Duration::from_secs(3));
/// let lock = redlock.lock_with("invoice:42", &patient)?;
/// lock.unlock()?;
///
/// let mut lock = redlock.lock_async("invoice:42", ttl).await?;
/// println!("{:?} {:?} {:?}", lock.resource(), lock.token(), lock.validity());
/// assert!(lock.is_valid() && !lock.lost().is_lost());
/// lock.extend(Duration::from_secs(10))?;
/// lock.extend_async(Duration::from_secs(10)).await?;
/// lock.confirm()?; // Whether a majority still has it, and for how long.
/// lock.unlock()?;
///
/// let plain: Lock = redlock.lock("invoice:42", ttl)?.into_lock();
/// let bytes = plain.to_bytes(); // For another process.
/// let lock = redlock.adopt(Lock::from_bytes(&bytes)?);
/// lock.unlock_async().await?;
/// # Ok(())
/// # }
/// ```
///
/// Taking a lock that the same thread already holds waits for itself.
///
/// The last handle to be dropped, guards and futures included, writes what is owed to the nodes
/// and waits at most [`Builder::shutdown_timeout`] for the answers. What silent nodes are owed then
/// the I/O thread pays in the background, and ends when it is paid or the last key has expired.
#[derive(Clone)]
pub struct Redlock {
    pub(super) handle: Arc<Handle>,
}

impl Redlock {
    /// A builder without nodes and with the defaults that its methods name.
    pub fn builder() -> Builder {
        Config::builder()
    }

    /// A handle for the nodes at `urls`, with the defaults for everything else.
    ///
    /// # Errors
    ///
    /// As [`Builder::build`].
    pub fn connect(urls: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, BuildError> {
        Self::builder().nodes(urls).build()
    }

    /// Takes the lock on `resource` for `ttl`, and tries again as the handle's
    /// [`Retry`](crate::Retry) says.
    ///
    /// # Errors
    ///
    /// As [`lock_with`](Self::lock_with).
    pub fn lock(&self, resource: impl AsRef<[u8]>, ttl: Duration) -> Result<LockGuard, LockError> {
        self.lock_with(resource, &LockOptions::new(ttl))
    }

    /// Takes the lock on `resource` for `ttl` if it is free now: one attempt.
    ///
    /// # Errors
    ///
    /// As [`lock_with`](Self::lock_with).
    pub fn try_lock(
        &self,
        resource: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<LockGuard, LockError> {
        self.lock_with(resource, &LockOptions::new(ttl).tries(1))
    }

    /// Takes the lock on `resource`, a name of 1 to 1024 bytes of any value, as `options` say.
    ///
    /// # Errors
    ///
    /// [`LockError::Invalid`] before any I/O. [`LockError::Held`], [`LockError::NoQuorum`] and
    /// [`LockError::TooSlow`] with what each node said in the last attempt, of which everything
    /// was given back. [`LockError::OtherCluster`] without another try, where a node says that it is
    /// another cluster's. [`LockError::Saturated`], [`LockError::Forked`], [`LockError::Closed`].
    pub fn lock_with(
        &self,
        resource: impl AsRef<[u8]>,
        options: &LockOptions,
    ) -> Result<LockGuard, LockError> {
        let since = clock::now();
        let shared = self.shared();
        let until = match options.deadline().filter(|wait| !wait.is_zero()) {
            Some(wait) => Some(wait.saturating_add(GRACE)),
            None => shared.patience_for_lock(options),
        };
        let until = until.map(|wait| since.saturating_add(wait));
        shared.check_process()?;
        let slot = Arc::new(Slot::new());
        let outcome = match shared.enter_until(until)? {
            Some(mut section) => {
                let round = section.acquire(&slot, Waiter::Thread, resource.as_ref(), options)?;
                shared.wait_for(section, &slot, round, until)
            }
            None => None,
        };
        self.finish_lock(slot, outcome, since)
    }

    /// [`lock`](Self::lock) for any executor.
    pub fn lock_async(&self, resource: impl AsRef<[u8]>, ttl: Duration) -> Acquiring {
        self.lock_with_async(resource, &LockOptions::new(ttl))
    }

    /// [`try_lock`](Self::try_lock) for any executor.
    pub fn try_lock_async(&self, resource: impl AsRef<[u8]>, ttl: Duration) -> Acquiring {
        self.lock_with_async(resource, &LockOptions::new(ttl).tries(1))
    }

    /// [`lock_with`](Self::lock_with) for any executor. The wait of the options counts from the
    /// first poll.
    pub fn lock_with_async(&self, resource: impl AsRef<[u8]>, options: &LockOptions) -> Acquiring {
        Acquiring::new(self.clone(), resource.as_ref().to_vec(), *options)
    }

    /// Takes a lock of another handle or process into the care of this one: it is released when
    /// the guard is dropped, and its loss is told. Its validity stays what it was; nothing is sent.
    ///
    /// A lock that [`Lock::from_bytes`] read under another clock has no validity. Its guard is not
    /// valid, and it is not told to be lost either: [`LockGuard::confirm`] finds out. If nobody asks,
    /// it is lost when its keys must have ended (its ttl, or a minute if that is longer).
    pub fn adopt(&self, lock: Lock) -> LockGuard {
        let shared = self.shared();
        let slot = Arc::new(Slot::new());
        if shared.is_foreign() {
            return LockGuard::new(self.clone(), slot, lock);
        }
        slot.watch.lasts(lock.valid_until());
        let lock = match shared.enter() {
            Ok(mut section) => section.adopt(&slot, lock),
            Err(_) => {
                slot.watch.lose(&mut Vec::new()); // Nobody can wait for it yet.
                lock
            }
        };
        LockGuard::new(self.clone(), slot, lock)
    }

    /// How every node stands for this handle now, in the order of the configuration: for an
    /// operator's eyes, not to decide by. Empty in a forked child, and once a thread has panicked
    /// with the engine.
    ///
    /// Costs an allocation for each call and no I/O.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeStatus> {
        self.look().unwrap_or_default()
    }

    /// Whether a majority of the nodes would vote now, and if not, what an operator has to mend: a
    /// wrong password, a server of the wrong kind, a node that is down. For the start of a program:
    /// right after [`build`](crate::Builder::build) it tells what the nodes have answered.
    ///
    /// Which permissions a user has depends on the name of the lock, so a missing one is found by
    /// the first call that asks for a lock ([`Unusable::Permission`](crate::Unusable)); after that
    /// it is named here too, until a later call finds it granted. What a node says of one name alone (a
    /// key pattern that does not fit) or just now (`OOM`) only the calls tell.
    ///
    /// Nothing is sent. What an operator has mended shows as soon as the node was tried again, which
    /// takes two seconds at most; a permission, when a lock is asked for again. Costs as much as
    /// [`nodes`](Self::nodes).
    ///
    /// # Errors
    ///
    /// [`CheckError::Unusable`]: nobody gets a lock before an operator has mended what the report
    /// names. [`CheckError::NoQuorum`]: too few nodes vote now, for reasons that may pass (they are
    /// down, silent, or in quarantine). [`CheckError::Forked`], [`CheckError::Closed`].
    ///
    /// ```no_run
    /// # use shearline::Redlock;
    /// let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
    /// redlock.check()?; // "10.0.0.2:6379 unusable: it refuses the credentials; .."
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(&self) -> Result<(), CheckError> {
        let statuses = self.look()?;
        engine::check(clock::now(), &statuses)
    }

    fn look(&self) -> Result<Vec<NodeStatus>, Refusal> {
        let shared = self.shared();
        shared.check_process()?;
        let section = shared.enter()?;
        Ok(section.engine.node_statuses(clock::now()).collect())
    }

    /// Asserts that no lock lives that the server with this `run_id` may have forgotten, which is
    /// connected as the node at `address`: if it is kept from voting because it restarted, its votes
    /// count from now on. Returns `true` if it was.
    ///
    /// `address` is what the node was configured by, with or without credentials. `run_id` is what
    /// [`nodes`](Self::nodes) showed: between that look and this call another server may have come to
    /// the same address, and it is not trusted.
    ///
    /// Right where an operator knows better than the [`RestartGuard`](crate::RestartGuard): the node
    /// wrote every lock to disk before it answered, or nobody uses locks yet. Wrong, it can make two
    /// holders. It holds for this quarantine: the next restart is another. With any guard but
    /// [`RestartGuard::Strict`](crate::RestartGuard) it holds for this handle alone.
    ///
    /// With [`RestartGuard::Strict`](crate::RestartGuard) it is written on the node, and so holds for
    /// all clients: the marker is brought up to date without a barrier, and a barrier that stands
    /// goes. Other handles notice when what they know of the barrier has run out.
    ///
    /// # Errors
    ///
    /// Nothing was changed. [`TrustError::Changed`]: another server answers there by now, and the
    /// error tells which. [`TrustError::NotConnected`]: what happens to it before it is connected
    /// nobody can vouch for today. [`TrustError::UnknownNode`], [`TrustError::NoRunId`];
    /// [`TrustError::OtherCluster`]: see [`reinit`](Self::reinit). [`TrustError::Forked`],
    /// [`TrustError::Closed`].
    ///
    /// ```no_run
    /// # use shearline::Redlock;
    /// let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
    /// for node in redlock.nodes() {
    ///     println!("{} {:?} {:?}", node.address, node.state, node.run_id);
    /// }
    /// // An operator has looked, and knows that this one has forgotten nothing.
    /// redlock.trust_node("10.0.0.2:6379", "f0a1d1c0b5f54c5e8b1d6a1c2f3e4d5c6b7a8990")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn trust_node(
        &self,
        address: impl AsRef<str>,
        run_id: impl AsRef<str>,
    ) -> Result<bool, TrustError> {
        let shared = self.shared();
        shared.check_process()?;
        let mut section = shared.enter()?;
        let node = section.engine.node_at(address.as_ref());
        let node = node.ok_or(TrustError::UnknownNode)?;
        let result = section.engine.trust(clock::now(), node, run_id.as_ref());
        shared.flush(section);
        result
    }

    /// Does [`trust_node`](Self::trust_node) for the servers that are connected at this moment:
    /// asserts that no lock lives that any of them may have forgotten. Returns their run_ids, so that
    /// it can be seen afterwards which were meant. Of a node that is connected later nothing is
    /// asserted.
    ///
    /// Right for nodes that nobody has used for locks yet. With
    /// [`RestartGuard::Strict`](crate::RestartGuard) such nodes have no marker, which looks like a
    /// `FLUSHALL`: without this they grant nothing for as long as the longest lock may last.
    ///
    /// Empty in a forked child, and once a thread has panicked with the engine.
    ///
    /// ```no_run
    /// use shearline::{Redlock, RestartGuard};
    ///
    /// let redlock = Redlock::builder()
    ///     .nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
    ///     .restart_guard(RestartGuard::Strict)
    ///     .build()?;
    /// let trusted = redlock.trust_nodes(); // They were installed a minute ago.
    /// assert_eq!(trusted.len(), 3);
    /// # Ok::<(), shearline::BuildError>(())
    /// ```
    pub fn trust_nodes(&self) -> Vec<String> {
        let shared = self.shared();
        match shared.check_process().and_then(|()| shared.enter()) {
            Ok(mut section) => {
                let trusted = section.engine.trust_all(clock::now());
                shared.flush(section);
                trusted
            }
            Err(_) => Vec::new(),
        }
    }

    /// Makes every node one of this cluster, whatever its marker says: for a change of how many nodes
    /// there are, or of the [name](crate::Builder::cluster). With
    /// [`RestartGuard::Strict`](crate::RestartGuard) alone.
    ///
    /// Run it once, when every client of the old membership has stopped or is about to be refused,
    /// and before the first client of the new one takes a lock. Each node gets a new marker, and a
    /// barrier as long as the longest lock of either membership may last: for so long nobody gets a
    /// lock, unless [`trust_nodes`](Self::trust_nodes) is called because nobody holds one. Whoever
    /// still comes with the old membership gets
    /// [`LockError::OtherCluster`](crate::LockError::OtherCluster) from every node of the new one. Nodes
    /// that are left out keep their old marker: if they are a majority of the old nodes, stop them
    /// too, or clients of the old membership go on with them alone.
    ///
    /// Waits for the nodes, a connect timeout at most, and drives the sockets meanwhile.
    ///
    /// # Errors
    ///
    /// [`ReinitError::Unready`]: a node cannot be reached, or cannot serve, and nothing was changed.
    /// [`ReinitError::Incomplete`]: not all have answered; repeat it. [`ReinitError::NotStrict`],
    /// [`ReinitError::Saturated`], [`ReinitError::Forked`], [`ReinitError::Closed`]: nothing was sent.
    ///
    /// ```no_run
    /// use shearline::{Redlock, RestartGuard};
    ///
    /// let five = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"]; // They were three.
    /// let redlock = Redlock::builder()
    ///     .nodes(five)
    ///     .restart_guard(RestartGuard::Strict)
    ///     .build()?;
    /// redlock.reinit()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reinit(&self) -> Result<(), ReinitError> {
        let shared = self.shared();
        shared.check_process()?;
        let slot = Arc::new(Slot::new());
        let mut section = shared.enter()?;
        let round = section.begin(&slot, Waiter::Thread, Engine::reinit)?;
        match shared.wait_for(section, &slot, round, None) {
            Some(Outcome::Event(Event::Reinitialised { result, .. })) => result,
            Some(Outcome::Forked) => Err(ReinitError::Forked),
            _ => Err(ReinitError::Closed),
        }
    }

    pub(super) fn shared(&self) -> &Shared {
        self.handle.shared()
    }

    /// Asks for a lock on behalf of a task.
    pub(super) fn begin_lock(
        &self,
        resource: &[u8],
        options: &LockOptions,
    ) -> Result<Reply, LockError> {
        let shared = self.shared();
        shared.check_process()?;
        let slot = Arc::new(Slot::new());
        let mut section = shared.enter()?;
        let round = section.acquire(&slot, Waiter::Task, resource, options)?;
        shared.begin_for_task(section);
        Ok(Reply::new(self.clone(), slot, round))
    }

    pub(super) fn finish_lock(
        &self,
        slot: Arc<Slot>,
        outcome: Option<Outcome>,
        since: Instant,
    ) -> Result<LockGuard, LockError> {
        let reporter = &self.shared().reporter;
        match outcome {
            Some(Outcome::Acquired(Ok(grant))) => {
                let guard = LockGuard::new(self.clone(), slot, grant.lock);
                // The last act, by a clock that is read for it. Dropped, it is given back.
                match guard.is_valid() {
                    true => Ok(guard),
                    false => Err(reporter.too_slow(grant.granted, since)),
                }
            }
            Some(Outcome::Acquired(Err(error))) => Err(error),
            Some(Outcome::Closed) => Err(LockError::Closed),
            Some(Outcome::Forked) => Err(LockError::Forked),
            Some(other) => unreachable!("the outcome of an acquisition, not {other:?}"),
            None => Err(LockError::NoQuorum(reporter.pending(since))),
        }
    }
}

/// A panic leaves no handle in between: what a call has begun goes on or is given back, and if the
/// engine itself has panicked every later call says [`LockError::Closed`].
impl UnwindSafe for Redlock {}
impl RefUnwindSafe for Redlock {}

impl fmt::Debug for Redlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redlock").finish_non_exhaustive()
    }
}
