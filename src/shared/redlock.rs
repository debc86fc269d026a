//! The handle [`Redlock`], with the calls that take locks.
//!
//! # Not here
//!
//! The module [`operator`](super::operator) contains the calls for operators.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::time::Duration;

use super::build::Building;
use super::callers::WaitsAs;
use super::held::Holds;
use super::notes::{Asked, Note, Wanted};
use super::reply::Reply;
use super::serve::{Times, Wait};
use super::slot::Slot;
use super::with_lock::WithLockError;
use super::{Acquiring, GRACE, Guard, Handle, LockGuard, Shared};
use crate::calls::{self, Awaited};
use crate::clock;
use crate::config::{Builder, Config, LockOptions};
use crate::driver::{BuildError, Refusal};
use crate::engine::{Engine, Request, RoundId};
use crate::error::LockError;
use crate::quorum::Lock;
use crate::time::Instant;
use crate::trace::Operation;

/// A lock handle for all threads and tasks of a program. Cloning a handle is cheap.
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
/// Locks are not reentrant: a thread that takes a lock twice waits for itself.
///
/// Wakers of tasks run on the I/O thread of the handle, or on a thread that polls another future of the handle. A waker
/// must return promptly, as [`Waker`](core::task::Waker) requires. While a waker blocks the I/O thread, the handle may
/// be unable to wake other tasks and to extend locks.
///
/// Guards and futures count as handles. Dropping the last handle writes the remaining releases to the nodes, and waits
/// up to [`Builder::shutdown_timeout`] for the answers. The I/O thread repeats unanswered releases in the background,
/// until every node has answered or the last key has expired.
#[derive(Clone)]
pub struct Redlock {
    pub(super) handle: Arc<Handle>,
}

impl Redlock {
    /// Returns a builder without nodes, with the documented defaults for all settings.
    pub fn builder() -> Builder {
        Config::builder()
    }

    /// Connects to the nodes at `urls`, with the defaults for everything else.
    ///
    /// # New servers
    ///
    /// If the uptime of a node at the first connection is shorter than [`Builder::max_ttl`], the node may have
    /// forgotten locks. The node does not vote until its uptime is long enough. If the servers are new, an operator can
    /// end this wait with [`trust_nodes`](Self::trust_nodes), or with `--trust` of the command. `connect` does not set
    /// `max_ttl`, so each node votes immediately, even if it has just restarted. A
    /// report [shows](crate::NodeReport::met_young) if a node was up for less than a minute at the first contact.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Builder::build`].
    pub fn connect(urls: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, BuildError> {
        Self::builder().nodes(urls).build()
    }

    /// Like [`connect`](Self::connect), but returns a future for any executor. Nothing happens before the first poll.
    pub fn connect_async(urls: impl IntoIterator<Item = impl AsRef<str>>) -> Building {
        Self::builder().nodes(urls).build_async()
    }

    /// Takes the lock on `resource` for `ttl`. If another client holds the lock, waits until the lock is free, by
    /// default for at most 5 s: see [`Retry`](crate::Retry).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`lock_with`](Self::lock_with).
    pub fn lock(&self, resource: impl AsRef<[u8]>, ttl: Duration) -> Result<LockGuard, LockError> {
        self.lock_with(resource, &LockOptions::new(ttl))
    }

    /// Takes the lock on `resource` for `ttl` if it is free now, in one attempt. If the lock is held, the error does
    /// not say for how long; [`inspect`](Self::inspect) returns the remaining time, for example for a `Retry-After`
    /// header.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`lock_with`](Self::lock_with).
    pub fn try_lock(
        &self,
        resource: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<LockGuard, LockError> {
        self.lock_with(resource, &LockOptions::new(ttl).tries(1))
    }

    /// Takes the lock on `resource`, a name of 1 to 1024 arbitrary bytes, with these `options`.
    ///
    /// # Errors
    ///
    /// Returns [`LockError::Invalid`] if an argument is not valid, before any I/O. The
    /// errors [`LockError::Held`], [`LockError::NoQuorum`] and [`LockError::TooSlow`] contain the answers of the nodes
    /// in the last attempt. If the call fails, it releases the keys of the last attempt. If a node belongs to another
    /// group, immediately returns [`LockError::OtherGroup`]. Also
    /// returns [`LockError::Saturated`], [`LockError::Forked`] and [`LockError::Closed`].
    pub fn lock_with(
        &self,
        resource: impl AsRef<[u8]>,
        options: &LockOptions,
    ) -> Result<LockGuard, LockError> {
        self.acquire(&Request::new(resource.as_ref(), options))
    }

    /// Takes the lock on `resource`, runs `work`, and unlocks. The lock is released even if `work` panics.
    ///
    /// If too few nodes confirm the unlock in time but the lock was still valid, the call succeeds, because no other
    /// client has had the lock ([`UnlockError::is_harmless`](crate::UnlockError::is_harmless)).
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # fn next_number() -> u64 { 1 }
    /// use shearline::{LockOptions, Redlock, WithLockError};
    ///
    /// # let redlock = Redlock::connect(["redis://10.0.0.1"])?;
    /// let kept = LockOptions::new(Duration::from_secs(10)).keep();
    /// match redlock.with_lock("invoice:42", &kept, |_guard| next_number()) {
    ///     Ok(number) => println!("{number}"),
    ///     Err(WithLockError::NotTaken(error)) if error.is_held() => println!("another client is at work"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`WithLockError::NotTaken`] if `work` did not run. Returns [`WithLockError::Lost`], and drops the value
    /// of `work`, if the lock was lost while `work` ran.
    pub fn with_lock<T>(
        &self,
        resource: impl AsRef<[u8]>,
        options: &LockOptions,
        work: impl FnOnce(&mut LockGuard) -> T,
    ) -> Result<T, WithLockError> {
        let mut guard = self.lock_with(resource, options)?;
        let value = work(&mut guard);
        WithLockError::unless_lost(value, guard.unlock())
    }

    /// Like [`with_lock`](Self::with_lock), but returns a future for any executor.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use shearline::{LockGuard, LockOptions, Redlock};
    /// # async fn write_report() {}
    /// # async fn program(redlock: &Redlock) -> Result<(), Box<dyn std::error::Error>> {
    /// let kept = LockOptions::new(Duration::from_secs(10)).keep();
    /// let work = async |guard: &mut LockGuard| guard.while_held(write_report()).await;
    /// redlock.with_lock_async("report", &kept, work).await??;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`with_lock`](Self::with_lock).
    pub async fn with_lock_async<T>(
        &self,
        resource: impl AsRef<[u8]>,
        options: &LockOptions,
        work: impl AsyncFnOnce(&mut LockGuard) -> T,
    ) -> Result<T, WithLockError> {
        let mut guard = self.lock_with_async(resource, options).await?;
        let value = work(&mut guard).await;
        WithLockError::unless_lost(value, guard.unlock_async().await)
    }

    /// Takes one lock on all of `resources` for `ttl`. Each node grants all names in one step, or grants none.
    /// If another client holds one of the names, waits until all names are free, by default for at most 5 s:
    /// see [`Retry`](crate::Retry).
    ///
    /// Callers cannot deadlock, even if they name the resources in different orders.
    /// See [`lock_all_with`](Self::lock_all_with).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`lock_all_with`](Self::lock_all_with).
    pub fn lock_all(
        &self,
        resources: impl IntoIterator<Item = impl AsRef<[u8]>>,
        ttl: Duration,
    ) -> Result<LockGuard, LockError> {
        self.lock_all_with(resources, &LockOptions::new(ttl))
    }

    /// Takes one lock on all of `resources`, 1 to 64 different names, with these `options`. The guard has one token and
    /// one expiry for all names. The lock is extended, kept, lost and released as a whole,
    /// and [`resources`](LockGuard::resources) returns the names. While the lock is held, no client can lock any of the
    /// names, even with another library.
    ///
    /// A node counts towards the majority only while it has the keys of all names. The nodes must allow `EVAL`, and the
    /// user needs `GET`, `SET` and `DEL` on every name. The call sends one command to each node, as with one name. The
    /// command contains a script of some 700 bytes.
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
    /// Returns the same errors as [`lock_with`](Self::lock_with). The report in [`LockError::Held`] says which resource
    /// is held ([`Report::held_resource`](crate::Report::held_resource)). Also returns [`LockError::Invalid`] if
    /// `resources` is empty, contains more than 64 names, or contains a name twice.
    pub fn lock_all_with(
        &self,
        resources: impl IntoIterator<Item = impl AsRef<[u8]>>,
        options: &LockOptions,
    ) -> Result<LockGuard, LockError> {
        let resources: Vec<_> = resources.into_iter().collect();
        let resources: Vec<&[u8]> = resources.iter().map(AsRef::as_ref).collect();
        self.acquire(&Request::all(&resources, options))
    }

    pub(super) fn acquire<H: Holds>(&self, request: &Request<'_>) -> Result<Guard<H>, LockError> {
        self.shared().tracer.acquire(request).run(|operation| {
            let since = clock::now();
            let (shared, options) = (self.shared(), request.options);
            let wait = options.wait_allowed(&shared.retry);
            let wait = match wait.filter(|wait| !wait.is_zero()) {
                Some(wait) => Wait::Deadline(wait.saturating_add(GRACE)),
                None => shared
                    .patience_for_lock(options)
                    .map_or(Wait::Forever, Wait::Patience),
            };
            let slot = Arc::<Slot>::default();
            let section = match shared.notes.is_in_use() {
                true => shared.ask(Note::new(&slot, WaitsAs::Thread, Asked::acquire(request)))?,
                false => {
                    let mut section = shared.enter_call()?;
                    let ask = |engine: &mut Engine, now| calls::acquire(engine, now, request);
                    section.begin(&slot, WaitsAs::Thread, ask)?;
                    Some(section)
                }
            };
            let outcome = shared.wait_for(section, &slot, Times { since, wait })?;
            self.finish_lock(operation, slot, outcome, since)
        })
    }

    /// Like [`lock`](Self::lock), but returns a future for any executor.
    pub fn lock_async(&self, resource: impl AsRef<[u8]>, ttl: Duration) -> Acquiring {
        self.lock_with_async(resource, &LockOptions::new(ttl))
    }

    /// Like [`try_lock`](Self::try_lock), but returns a future for any executor.
    pub fn try_lock_async(&self, resource: impl AsRef<[u8]>, ttl: Duration) -> Acquiring {
        self.lock_with_async(resource, &LockOptions::new(ttl).tries(1))
    }

    /// Like [`lock_with`](Self::lock_with), but returns a future for any executor. The time limit in the options counts
    /// from the first poll.
    pub fn lock_with_async(&self, resource: impl AsRef<[u8]>, options: &LockOptions) -> Acquiring {
        let wanted = Wanted::One(resource.as_ref().to_vec());
        Acquiring::new(self.clone(), wanted, *options)
    }

    /// Like [`lock_all`](Self::lock_all), but returns a future for any executor.
    pub fn lock_all_async(
        &self,
        resources: impl IntoIterator<Item = impl AsRef<[u8]>>,
        ttl: Duration,
    ) -> Acquiring {
        self.lock_all_with_async(resources, &LockOptions::new(ttl))
    }

    /// Like [`lock_all_with`](Self::lock_all_with), but returns a future for any executor. The time limit in the
    /// options counts from the first poll.
    pub fn lock_all_with_async(
        &self,
        resources: impl IntoIterator<Item = impl AsRef<[u8]>>,
        options: &LockOptions,
    ) -> Acquiring {
        let resources = resources.into_iter();
        let wanted = Wanted::All(resources.map(|name| name.as_ref().to_vec()).collect());
        Acquiring::new(self.clone(), wanted, *options)
    }

    /// Adopts a lock of another handle or process. The returned guard reports a loss of the lock, and releases the lock
    /// when it is dropped. The call sends nothing, and does not change the validity of the lock.
    ///
    /// A lock that [`Lock::from_bytes`] read under another clock has no validity, and its guard is not valid until you
    /// call [`LockGuard::confirm`]. Without a confirmation the lock is reported as lost when its keys must have
    /// expired: after its ttl, or after a minute if the ttl is shorter.
    ///
    /// The adopted lock is not [kept](LockOptions::keep), even if it was kept before. Call [`LockGuard::keep`] to keep
    /// it.
    ///
    /// Use [`adopt_shared`](Self::adopt_shared) for a shared lock, and [`adopt_permit`](Self::adopt_permit) for a
    /// permit. For a shared lock or a permit, `adopt` returns a guard that is never valid. The guard refuses extensions
    /// ([`ExtendError::Invalid`](crate::ExtendError::Invalid)), and releases the lock when dropped.
    pub fn adopt(&self, lock: Lock) -> LockGuard {
        self.adopt_as(lock)
    }

    /// Like [`adopt`](Self::adopt), but returns a guard of the kind `H`. If the lock is of another kind, the guard
    /// reports the lock as lost.
    pub(super) fn adopt_as<H: Holds>(&self, mut lock: Lock) -> Guard<H> {
        let shared = self.shared();
        let mut slot = Arc::<Slot>::default();
        if !shared.is_foreign() {
            match shared.enter() {
                Ok(mut section) if H::is_of(&lock) => lock = section.adopt(&slot, lock),
                Ok(_) | Err(_) => {
                    slot = Slot::of_lost();
                    lock.leave();
                }
            }
        }
        Guard::new(self.clone(), slot, lock)
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.handle.shared
    }

    /// Begins an operation for a task.
    pub(super) fn begin<E: From<Refusal>>(
        &self,
        ask: impl FnOnce(&mut Engine, Instant) -> Result<RoundId, E>,
    ) -> Result<Reply, E> {
        let (shared, slot) = (self.shared(), Arc::<Slot>::default());
        let mut section = shared.enter_call()?;
        section.begin(&slot, WaitsAs::Task, ask)?;
        shared.flush(section);
        Ok(Reply::new(self.clone(), slot))
    }

    /// Begins the request of a task, or notes it for the I/O thread. The outcome is delivered to `slot`.
    pub(super) fn ask(&self, slot: Arc<Slot>, asked: Asked) -> Result<Reply, Refusal> {
        let (shared, waiter) = (self.shared(), WaitsAs::Task);
        if let Some(section) = shared.ask(Note::new(&slot, waiter, asked))? {
            shared.flush(section);
        }
        Ok(Reply::new(self.clone(), slot))
    }

    /// Begins an operation of a task with `begin`, and waits for its outcome.
    pub(super) async fn drive<E: From<Refusal>>(
        operation: &Operation,
        begin: impl FnOnce() -> Result<Reply, E>,
    ) -> Result<Awaited, E> {
        let reply = operation.enter(begin)?;
        Ok(Ok(operation.drive(reply).await?))
    }

    pub(super) fn finish_lock<H: Holds>(
        &self,
        operation: &Operation,
        slot: Arc<Slot>,
        outcome: Awaited,
        since: Instant,
    ) -> Result<Guard<H>, LockError> {
        let lock = calls::acquired(outcome)?;
        operation.made(slot.attempts());
        let guard = Guard::new(self.clone(), slot, lock);
        // Checks the validity as late as possible. If the lock is no longer valid, dropping the guard releases it.
        match guard.is_valid() {
            true => Ok(guard),
            false => Err(self.shared().reporter.too_slow(guard.lock(), since)),
        }
    }
}

/// A panic cannot leave a handle in an inconsistent state: a call that has begun is completed, or its lock is released.
/// If the engine itself panics, every later call returns [`LockError::Closed`].
impl UnwindSafe for Redlock {}
impl RefUnwindSafe for Redlock {}

impl fmt::Debug for Redlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redlock").finish_non_exhaustive()
    }
}
