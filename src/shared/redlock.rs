//! [`Redlock`]: the calls of users.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::time::Duration;

use super::callers::Waiter;
use super::future::Wanted;
use super::reply::Reply;
use super::slot::{Outcome, Slot};
use super::state::Core;
use super::{Acquiring, GRACE, Handle, LockGuard, Shared, Watch};
use crate::config::{Builder, Config, LockOptions};
use crate::driver::{BuildError, Refusal, clock};
use crate::engine::inspection::{InspectError, Inspection};
use crate::engine::{self, Engine, Event, NodeStatus, Request, RoundId};
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
/// let lock: LockGuard = redlock.lock("invoice:42", ttl)?; // Waits while another has it.
/// // The work that no other client may do at the same time.
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
/// A thread that takes a lock which it already holds waits for itself.
///
/// Guards and futures count as handles. When the last handle is dropped, it writes the releases that
/// nodes are owed, and waits for the answers, at most [`Builder::shutdown_timeout`]. The I/O thread
/// sends the rest in the background, until every node has answered or the last key has expired.
#[derive(Clone)]
pub struct Redlock {
    pub(super) handle: Arc<Handle>,
}

impl Redlock {
    /// Returns a builder without nodes, with the defaults that its methods name.
    pub fn builder() -> Builder {
        Config::builder()
    }

    /// Connects to the nodes at `urls`, with the defaults for everything else.
    ///
    /// # Errors
    ///
    /// As [`Builder::build`].
    pub fn connect(urls: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, BuildError> {
        Self::builder().nodes(urls).build()
    }

    /// Takes the lock on `resource` for `ttl`. If it is held, waits for it: at most 5 s, or as the
    /// handle's [`Retry`](crate::Retry) says.
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
    /// [`LockError::TooSlow`] with what each node said in the last attempt, which was released.
    /// [`LockError::OtherCluster`] without another try, if a node belongs to another cluster.
    /// [`LockError::Saturated`], [`LockError::Forked`], [`LockError::Closed`].
    pub fn lock_with(
        &self,
        resource: impl AsRef<[u8]>,
        options: &LockOptions,
    ) -> Result<LockGuard, LockError> {
        self.acquire(&Request::new(resource.as_ref(), options))
    }

    /// Takes one lock on all of `resources` for `ttl`: all of them or none, on each node at once. If any is
    /// held, waits for it: at most 5 s, or as the handle's [`Retry`](crate::Retry) says.
    ///
    /// No two callers can block each other for ever, in whatever order each of them names its resources.
    /// See [`lock_all_with`](Self::lock_all_with).
    ///
    /// # Errors
    ///
    /// As [`lock_all_with`](Self::lock_all_with).
    pub fn lock_all(
        &self,
        resources: impl IntoIterator<Item = impl AsRef<[u8]>>,
        ttl: Duration,
    ) -> Result<LockGuard, LockError> {
        self.lock_all_with(resources, &LockOptions::new(ttl))
    }

    /// Takes one lock on all of `resources` for `ttl` if all of them are free now: one attempt.
    ///
    /// # Errors
    ///
    /// As [`lock_all_with`](Self::lock_all_with).
    pub fn try_lock_all(
        &self,
        resources: impl IntoIterator<Item = impl AsRef<[u8]>>,
        ttl: Duration,
    ) -> Result<LockGuard, LockError> {
        self.lock_all_with(resources, &LockOptions::new(ttl).tries(1))
    }

    /// Takes one lock on all of `resources`, as `options` say: 1 to 64 names that differ.
    ///
    /// The guard has one token and one end for all of them: it is extended, kept, lost and released as a
    /// whole, and [`resources`](LockGuard::resources) returns their names. A lock on one of them alone keeps it
    /// out and is kept out by it, also one of another library.
    ///
    /// A node counts only while it has all of the names. The nodes have to allow `EVAL`, and the user
    /// `GET`, `SET` and `DEL` on every name. An acquisition costs one command for each node, as for one
    /// name, with a script of some 700 bytes.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use shearline::{LockOptions, Redlock};
    ///
    /// let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
    /// let options = LockOptions::new(Duration::from_secs(10)).wait(Duration::from_secs(1));
    /// let both = redlock.lock_all_with(["account:1", "account:2"], &options)?;
    /// assert_eq!(both.resources().len(), 2);
    /// // Money goes from one to the other.
    /// both.unlock()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`lock_with`](Self::lock_with); in [`LockError::Held`] the report says which of the resources is
    /// held ([`Report::held_resource`](crate::Report::held_resource)). [`LockError::Invalid`] also for no,
    /// too many or equal names.
    pub fn lock_all_with(
        &self,
        resources: impl IntoIterator<Item = impl AsRef<[u8]>>,
        options: &LockOptions,
    ) -> Result<LockGuard, LockError> {
        let resources: Vec<_> = resources.into_iter().collect();
        let resources: Vec<&[u8]> = resources.iter().map(AsRef::as_ref).collect();
        self.acquire(&Request::all(&resources, options))
    }

    fn acquire(&self, request: &Request<'_>) -> Result<LockGuard, LockError> {
        let since = clock::now();
        let (shared, options) = (self.shared(), request.options);
        let wait = options.wait_allowed(&shared.retry);
        let until = match wait.filter(|wait| !wait.is_zero()) {
            Some(wait) => Some(wait.saturating_add(GRACE)),
            None => shared.patience_for_lock(options),
        };
        let until = until.map(|wait| since.saturating_add(wait));
        let slot = Arc::new(Slot::new());
        let outcome = shared.run(&slot, until, |engine, now| engine.acquire(now, request))?;
        self.finish_lock(slot, outcome, since)
    }

    /// Does [`lock`](Self::lock) as a future, for any executor.
    pub fn lock_async(&self, resource: impl AsRef<[u8]>, ttl: Duration) -> Acquiring {
        self.lock_with_async(resource, &LockOptions::new(ttl))
    }

    /// Does [`try_lock`](Self::try_lock) as a future, for any executor.
    pub fn try_lock_async(&self, resource: impl AsRef<[u8]>, ttl: Duration) -> Acquiring {
        self.lock_with_async(resource, &LockOptions::new(ttl).tries(1))
    }

    /// Does [`lock_with`](Self::lock_with) as a future, for any executor. The wait of the options
    /// counts from the first poll.
    pub fn lock_with_async(&self, resource: impl AsRef<[u8]>, options: &LockOptions) -> Acquiring {
        let wanted = Wanted::One(resource.as_ref().to_vec());
        Acquiring::new(self.clone(), wanted, *options)
    }

    /// Does [`lock_all`](Self::lock_all) as a future, for any executor.
    pub fn lock_all_async(
        &self,
        resources: impl IntoIterator<Item = impl AsRef<[u8]>>,
        ttl: Duration,
    ) -> Acquiring {
        self.lock_all_with_async(resources, &LockOptions::new(ttl))
    }

    /// Does [`try_lock_all`](Self::try_lock_all) as a future, for any executor.
    pub fn try_lock_all_async(
        &self,
        resources: impl IntoIterator<Item = impl AsRef<[u8]>>,
        ttl: Duration,
    ) -> Acquiring {
        self.lock_all_with_async(resources, &LockOptions::new(ttl).tries(1))
    }

    /// Does [`lock_all_with`](Self::lock_all_with) as a future, for any executor. The wait of the options
    /// counts from the first poll.
    pub fn lock_all_with_async(
        &self,
        resources: impl IntoIterator<Item = impl AsRef<[u8]>>,
        options: &LockOptions,
    ) -> Acquiring {
        let resources = resources.into_iter();
        let wanted = Wanted::All(resources.map(|name| name.as_ref().to_vec()).collect());
        Acquiring::new(self.clone(), wanted, *options)
    }

    /// Adopts a lock of another handle or process: its guard releases it when it is dropped, and
    /// reports its loss. Its validity does not change; nothing is sent.
    ///
    /// A lock that [`Lock::from_bytes`] read under another clock has no validity. Its guard is not
    /// valid, and its loss is not reported yet: call [`LockGuard::confirm`]. Without that it is lost
    /// when its keys must have ended (after its ttl, or a minute if that is longer).
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
                slot.watch.lose(&mut Vec::new()); // No task can wait for it yet.
                lock
            }
        };
        LockGuard::new(self.clone(), slot, lock)
    }

    /// Asks every node who holds the lock on `resource`, and changes nothing: whether it is free, or
    /// held by whom and for how long, which nodes disagree, and which tokens stand on a minority.
    ///
    /// A majority decides. What it says was so at some time between the call and its return, and may
    /// have changed since: it is for operators and logs. To hold a lock, [take it](Self::try_lock); to
    /// see whether a lock is still held, [`LockGuard::confirm`].
    ///
    /// It sends one command to each node, which reads the token and its expiry in one step, and waits
    /// until every node has answered. For a node that does not answer it waits a node timeout: the one of
    /// [`Builder::node_timeout`], or else 50 ms, or four round trips of a distant node. A user needs
    /// no permission for it but those that confirm a lock.
    ///
    /// ```no_run
    /// # use shearline::{Found, Redlock};
    /// # let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
    /// let inspection = redlock.inspect("invoice:42")?;
    /// match inspection.holder() {
    ///     Some(holder) => println!(
    ///         "{} has it on {} nodes for {:?}",
    ///         holder.owner.escape_ascii(),
    ///         holder.nodes,
    ///         holder.valid_for,
    ///     ),
    ///     None if inspection.is_free() => println!("free"),
    ///     None => println!("several clients are trying, or one has failed"),
    /// }
    /// for node in inspection.nodes() {
    ///     if let Found::Copy { left, .. } = &node.found {
    ///         println!("{} has a token that no majority has, for {left:?}", node.address);
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`InspectError::NoQuorum`]: too few nodes answered, and it names what each said.
    /// [`InspectError::Invalid`], [`InspectError::Saturated`], [`InspectError::Forked`],
    /// [`InspectError::Closed`]: nothing was sent.
    pub fn inspect(&self, resource: impl AsRef<[u8]>) -> Result<Inspection, InspectError> {
        let since = clock::now();
        let (shared, resource) = (self.shared(), resource.as_ref());
        let until = since.saturating_add(shared.patience(Duration::MAX));
        let slot = Arc::new(Slot::new());
        let ask = |engine: &mut Engine, now| engine.inspect(now, resource);
        match shared.run(&slot, Some(until), ask)? {
            Some(outcome) => finish_inspect(outcome),
            None => Err(InspectError::NoQuorum(shared.reporter.pending(since))),
        }
    }

    /// Does [`inspect`](Self::inspect) as a future, for any executor. Nothing is sent before the first
    /// poll.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
    pub async fn inspect_async(
        &self,
        resource: impl AsRef<[u8]>,
    ) -> Result<Inspection, InspectError> {
        let ask = |engine: &mut Engine, now| engine.inspect(now, resource.as_ref());
        finish_inspect(self.begin(ask)?.await)
    }

    /// Watches `resource`: tells who holds it, and then each change, for operators and logs. See
    /// [`Watch`], also for the cost. All nodes are asked at once, as by [`inspect`](Self::inspect).
    ///
    /// Unlike an inspection it tells also where too few nodes answer: then it names no holder, the resource
    /// is not free, and the nodes are [`Found::Unknown`](crate::Found).
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use shearline::Redlock;
    /// # let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
    /// let mut watch = redlock.watch("invoice:42")?;
    /// while let Some(state) = watch.next(Duration::from_secs(60)) {
    ///     println!("{state}");
    /// }
    /// println!("nothing has changed for a minute");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`InspectError::Invalid`]; [`InspectError::Saturated`] while the handle has
    /// [`WATCHES_MAX`](crate::limits::WATCHES_MAX) watches; [`InspectError::Forked`],
    /// [`InspectError::Closed`]: nothing was sent.
    pub fn watch(&self, resource: impl AsRef<[u8]>) -> Result<Watch, InspectError> {
        Watch::new(self.clone(), resource.as_ref())
    }

    /// Returns how every node stands now, in the order of the configuration. It is meant for
    /// operators, not for decisions. Empty in a forked child, and after a thread has panicked with the
    /// engine.
    ///
    /// Costs an allocation and no I/O.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeStatus> {
        self.look().unwrap_or_default()
    }

    /// Returns `Ok` if a majority of the nodes would vote now, or else what an operator has to repair:
    /// a wrong password, a server of the wrong kind, a node that is down. Call it at the start of a
    /// program, right after [`build`](crate::Builder::build).
    ///
    /// A missing permission is found by the first call that takes a lock
    /// ([`Unusable::Permission`](crate::Unusable)), because permissions depend on the name of the lock.
    /// From then on `check` reports it too, until a later call finds it granted. What concerns one name
    /// (a key pattern that does not fit) or one moment (`OOM`) only those calls report.
    ///
    /// Sends nothing, and costs as much as [`nodes`](Self::nodes). A repair shows when the node was
    /// tried again, after two seconds at most; a granted permission, when a lock is asked for again.
    ///
    /// # Errors
    ///
    /// [`CheckError::Unusable`]: no lock is granted before an operator has repaired what the report
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

    /// Asserts that no lock is alive that the server with this `run_id`, connected as the node at
    /// `address`, may have forgotten: its votes count from now on. Returns `true` if it was kept from
    /// voting because it had restarted.
    ///
    /// `address` is what the node was configured by, with or without credentials. `run_id` is what
    /// [`nodes`](Self::nodes) showed. If another server has come to the same address since, it is not
    /// trusted.
    ///
    /// Call it only if you know more than the [`RestartGuard`](crate::RestartGuard): the node wrote
    /// every lock to disk before it answered, or no client uses locks yet. If that is wrong, two
    /// clients can hold the same lock. It ends this quarantine; the next restart begins another. With
    /// any guard but [`RestartGuard::Strict`](crate::RestartGuard) it holds for this handle alone.
    ///
    /// With [`RestartGuard::Strict`](crate::RestartGuard) it is written to the node, and holds for all
    /// clients: the marker is updated without a barrier, and a standing barrier is removed. Other
    /// handles see that when the barrier that they know of has run out.
    ///
    /// # Errors
    ///
    /// Nothing was changed. [`TrustError::Changed`]: another server answers there now, and the error
    /// names it. [`TrustError::NotConnected`]: it may restart again before it is connected.
    /// [`TrustError::UnknownNode`], [`TrustError::NoRunId`]; [`TrustError::OtherCluster`]: see
    /// [`reinit`](Self::reinit). [`TrustError::Forked`], [`TrustError::Closed`].
    ///
    /// ```no_run
    /// # use shearline::Redlock;
    /// let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
    /// for node in redlock.nodes() {
    ///     println!("{} {:?} {:?}", node.address, node.state, node.run_id);
    /// }
    /// // The operator knows that this one has forgotten nothing.
    /// redlock.trust_node("10.0.0.2:6379", "f0a1d1c0b5f54c5e8b1d6a1c2f3e4d5c6b7a8990")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn trust_node(
        &self,
        address: impl AsRef<str>,
        run_id: impl AsRef<str>,
    ) -> Result<bool, TrustError> {
        self.change(|engine| {
            let node = engine.node_at(address.as_ref());
            let node = node.ok_or(TrustError::UnknownNode)?;
            engine.trust(clock::now(), node, run_id.as_ref())
        })?
    }

    /// Does [`trust_node`](Self::trust_node) for all servers that are connected now. Returns their
    /// run_ids. It says nothing about nodes that are connected later.
    ///
    /// Call it for nodes that no client has used for locks yet. With
    /// [`RestartGuard::Strict`](crate::RestartGuard) such nodes have no marker, as after a `FLUSHALL`,
    /// and without this call they grant no lock for as long as the longest lock may last.
    ///
    /// Empty in a forked child, and after a thread has panicked with the engine.
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
        let trusted = self.change(|engine| engine.trust_all(clock::now()));
        trusted.unwrap_or_default()
    }

    /// Changes something of the engine, and writes what that wants written.
    fn change<T>(&self, change: impl FnOnce(&mut Engine) -> T) -> Result<T, Refusal> {
        let shared = self.shared();
        shared.check_process()?;
        let mut section = shared.enter()?;
        let result = change(&mut section.engine);
        shared.flush(section);
        Ok(result)
    }

    /// Writes the marker of this cluster to every node, whatever marker is there: after a change of the
    /// number of nodes, or of the [name](crate::Builder::cluster). For
    /// [`RestartGuard::Strict`](crate::RestartGuard) alone.
    ///
    /// Call it once, when every client of the old membership has stopped or is about to be refused,
    /// and before the first client of the new one takes a lock. Each node gets a new marker, and a
    /// barrier as long as the longest lock of either membership may last. Until the barrier ends no
    /// lock is granted. If no client holds a lock, [`trust_nodes`](Self::trust_nodes) ends it at once.
    ///
    /// A client with the old membership gets
    /// [`LockError::OtherCluster`](crate::LockError::OtherCluster) from every node of the new one. Nodes
    /// that are left out keep their old marker: if they are a majority of the old nodes, stop them
    /// too, or clients of the old membership go on with them alone.
    ///
    /// Waits for the nodes, a connect timeout at most.
    ///
    /// # Errors
    ///
    /// [`ReinitError::Unready`]: a node cannot be reached, or cannot serve, and nothing was changed.
    /// [`ReinitError::Incomplete`]: not all have answered; call it again. [`ReinitError::NotStrict`],
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
        let outcome = shared.run(&Arc::new(Slot::new()), None, Engine::reinit)?;
        let outcome = outcome.expect("it is waited for without end");
        let Event::Reinitialised { result, .. } = outcome.event()? else {
            unreachable!("the outcome of a change of the cluster is that of another operation")
        };
        result
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.handle.shared
    }

    /// Begins an operation of a task.
    pub(super) fn begin<E: From<Refusal>>(
        &self,
        ask: impl FnOnce(&mut Engine, Instant) -> Result<RoundId, E>,
    ) -> Result<Reply, E> {
        let slot = Arc::new(Slot::new());
        self.begin_with(slot, |core, slot| core.begin(slot, Waiter::Task, ask))
    }

    /// Begins an operation of a task with `begin`. Its outcome is delivered to `slot`.
    pub(super) fn begin_with<E: From<Refusal>>(
        &self,
        slot: Arc<Slot>,
        begin: impl FnOnce(&mut Core, &Arc<Slot>) -> Result<RoundId, E>,
    ) -> Result<Reply, E> {
        self.shared().check_process()?;
        let mut section = self.shared().enter()?;
        let round = begin(&mut section, &slot)?;
        self.shared().begin_for_task(section);
        Ok(Reply::new(self.clone(), slot, round))
    }

    pub(super) fn finish_lock(
        &self,
        slot: Arc<Slot>,
        outcome: Option<Outcome>,
        since: Instant,
    ) -> Result<LockGuard, LockError> {
        let reporter = &self.shared().reporter;
        let Some(outcome) = outcome else {
            return Err(LockError::NoQuorum(reporter.pending(since)));
        };
        let Event::Acquired { result, .. } = outcome.event()? else {
            unreachable!("the outcome of an acquisition is that of another operation")
        };
        let lock = result?;
        let granted = lock.voters();
        let guard = LockGuard::new(self.clone(), slot, lock);
        // The clock is read last. If the guard is dropped here, its lock is released.
        match guard.is_valid() {
            true => Ok(guard),
            false => Err(reporter.too_slow(granted, since)),
        }
    }
}

pub(super) fn finish_inspect(outcome: Outcome) -> Result<Inspection, InspectError> {
    let Event::Inspected { result, .. } = outcome.event()? else {
        unreachable!("the outcome of an inspection is that of another operation")
    };
    result
}

/// No panic leaves a handle half-changed: what a call has begun goes on or is released. If the engine
/// itself panics, every later call returns [`LockError::Closed`].
impl UnwindSafe for Redlock {}
impl RefUnwindSafe for Redlock {}

impl fmt::Debug for Redlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redlock").finish_non_exhaustive()
    }
}
