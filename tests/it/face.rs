//! One type for all kinds of handles that stories use: [`Redlock`], its futures, [`LocalRedlock`] and [`Driver`].

use std::time::Duration;

use shearline::engine::{Event, Extension, Request};
use shearline::{
    Breaking, Broken, Builder, Driver, ExtendError, Inspection, Instant, LocalRedlock, Lock,
    LockError, LockGuard, LockOptions, NodeOutcome, NodeState, NodeStatus, OperatorError,
    PermitGuard, Redlock, Released, Report, SharedGuard, UnlockError,
};

use crate::executor::block_on;
use crate::servers::{Cluster, LONG, eventually, is_without_scripts, permitted, within_patience};

/// Turns the driver until it reports the outcome of a round.
macro_rules! outcome {
    ($driver:expr, $round:expr, $event:ident) => {
        loop {
            match $driver.poll_event() {
                Some(Event::$event { round, result }) if round == $round => break result,
                Some(_) => {}
                None => drop($driver.turn(None).expect("the loop turns")),
            }
        }
    };
}

/// Takes a lock with the call of this name, or with its future.
macro_rules! take {
    ($face:expr, $kind:ident, $call:ident, $future:ident, ($($argument:expr),+), $driver:pat => $by_driver:expr) => {
        match $face {
            Face::Shared(redlock) => redlock.$call($($argument),+).map(Held::$kind),
            Face::Future(redlock) => block_on(redlock.$future($($argument),+)).map(Held::$kind),
            Face::Local(local) => local.$call($($argument),+).map(Held::Lock),
            Face::Driver($driver) => $by_driver,
        }
    };
}

/// Calls the guard of a shared handle, of whatever kind the lock is.
macro_rules! guard {
    ($held:expr, $guard:ident => $call:expr) => {
        match $held {
            Held::Guard($guard) => $call,
            Held::Reader($guard) => $call,
            Held::Permit($guard) => $call,
            Held::Lock(_) => panic!("a lock of another face"),
        }
    };
}

/// Calls the guard or the lock.
macro_rules! any {
    ($held:expr, $lock:ident => $call:expr) => {
        match $held {
            Held::Lock($lock) => $call,
            held => guard!(held, $lock => $call),
        }
    };
}

/// The kind of a face.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Which {
    Shared,
    Local,
    Future,
    Driver,
}

impl Which {
    /// The faces whose calls block.
    pub(crate) const BOTH: [Self; 2] = [Self::Shared, Self::Local];

    pub(crate) const ALL: [Self; 4] = [Self::Shared, Self::Local, Self::Future, Self::Driver];

    /// Builds the face, and waits for the nodes that are slower than the majority.
    #[track_caller]
    pub(crate) fn build(self, builder: Builder) -> Face {
        let builder = permitted(builder);
        let why = "a good configuration";
        let mut face = match self {
            Self::Shared => Face::Shared(builder.build().expect(why)),
            Self::Future => Face::Future(builder.build().expect(why)),
            Self::Local => Face::Local(Box::new(builder.build_local().expect(why))),
            Self::Driver => {
                let mut driver = builder.build_driver().expect(why);
                driver.wait_until_ready().expect("the loop turns");
                Face::Driver(Box::new(driver))
            }
        };
        await_met(|| {
            face.settle();
            face.nodes()
        });
        face.ask_all();
        face
    }

    /// Returns a key of this story for this face.
    pub(crate) fn key(self, story: &str) -> String {
        format!("{story}:{self:?}")
    }
}

/// The node timeout of stories that are not about time. A machine, a process or a server may stall for this long
/// without changing the story.
const CALM: Duration = Duration::from_secs(10);

/// Makes a builder for these nodes, with timeouts that every healthy server meets on a busy machine. Stories about
/// silent nodes set their own; stories about default timeouts do not use this.
pub(crate) fn at(urls: impl IntoIterator<Item = impl AsRef<str>>) -> Builder {
    let builder = Redlock::builder().nodes(urls);
    permitted(builder.node_timeout(CALM).connect_timeout(CALM))
}

/// Makes the builder of [`at`] for all nodes of the cluster.
pub(crate) fn over(cluster: &Cluster) -> Builder {
    at(cluster.urls())
}

/// Builds a shared handle for all nodes of the cluster.
#[track_caller]
pub(crate) fn shared(cluster: &Cluster) -> Redlock {
    ready(over(cluster))
}

/// Builds a shared handle, all of whose nodes are ready.
#[track_caller]
pub(crate) fn ready(builder: Builder) -> Redlock {
    let mut face = Which::Shared.build(builder);
    face.await_ready();
    face.into_shared()
}

/// Waits until every node is ready, or there is a reason why it is not. A handle is built when a
/// majority is ready, and on a busy machine the others may follow much later: the first lock would
/// not reach them. Stories about nodes that never answer do not wait.
fn await_met(mut nodes: impl FnMut() -> Vec<NodeStatus>) {
    let mut met = Vec::new();
    within_patience(|| {
        let nodes = nodes();
        met.resize(nodes.len(), false);
        for (met, node) in met.iter_mut().zip(&nodes) {
            *met |= !matches!(node.state, NodeState::New | NodeState::Connecting);
        }
        met.iter().all(|met| *met).then_some(())
    });
}

/// Returns `true` if the node has answered everything, and no release waits for it.
fn is_quiet(node: &NodeStatus) -> bool {
    node.in_flight == 0 && node.debts == 0
}

#[derive(Debug)]
pub(crate) enum Face {
    Shared(Redlock),
    Future(Redlock),
    Local(Box<LocalRedlock>),
    Driver(Box<Driver>),
}

/// A lock of any face.
#[derive(Debug)]
#[must_use]
pub(crate) enum Held {
    Guard(LockGuard),
    Reader(SharedGuard),
    Permit(PermitGuard),
    Lock(Lock),
}

/// The names that a node has listed, and the reason why there may be more.
pub(crate) type Listed = (Vec<Box<[u8]>>, Option<NodeOutcome>);

impl Face {
    /// Takes locks until each node that is ready has granted one, if no scripts are used: a node is first asked how it
    /// releases locks, and the first lock may be granted without a node that answers late.
    pub(crate) fn ask_all(&mut self) {
        if !is_without_scripts() {
            return;
        }
        let has_granted = |node: &NodeStatus| node.state != NodeState::Ready || 0 < node.grants;
        let asked = within_patience(|| {
            // Another lock would only keep the nodes busy.
            if !self.nodes().iter().all(has_granted)
                && let Ok(lock) = self.try_lock("warm up", LONG)
            {
                let _ = self.unlock(lock);
            }
            self.settle();
            let nodes = self.nodes();
            let is_done = |node: &NodeStatus| {
                has_granted(node) && (node.state != NodeState::Ready || is_quiet(node))
            };
            nodes.iter().all(is_done).then_some(())
        });
        asked.expect("each node that is ready grants a lock");
    }

    /// Makes one attempt.
    pub(crate) fn try_lock(
        &mut self,
        resource: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<Held, LockError> {
        self.lock_with(resource, &LockOptions::new(ttl).tries(1))
    }

    pub(crate) fn lock(
        &mut self,
        resource: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<Held, LockError> {
        self.lock_with(resource, &LockOptions::new(ttl))
    }

    pub(crate) fn lock_with(
        &mut self,
        resource: impl AsRef<[u8]>,
        options: &LockOptions,
    ) -> Result<Held, LockError> {
        take!(self, Guard, lock_with, lock_with_async, (resource, options), driver => {
            let round = driver.acquire(resource.as_ref(), options)?;
            outcome!(driver, round, Acquired).map(Held::Lock)
        })
    }

    pub(crate) fn lock_shared_with(
        &mut self,
        resource: impl AsRef<[u8]>,
        options: &LockOptions,
    ) -> Result<Held, LockError> {
        take!(self, Reader, lock_shared_with, lock_shared_with_async, (resource, options), driver => {
            let round = driver.acquire_as(&Request::shared(resource.as_ref(), options))?;
            outcome!(driver, round, Acquired).map(Held::Lock)
        })
    }

    pub(crate) fn permit_with(
        &mut self,
        resource: impl AsRef<[u8]>,
        permits: u16,
        options: &LockOptions,
    ) -> Result<Held, LockError> {
        take!(self, Permit, permit_with, permit_with_async, (resource, permits, options), driver => {
            let round = driver.acquire_as(&Request::permit(resource.as_ref(), permits, options))?;
            outcome!(driver, round, Acquired).map(Held::Lock)
        })
    }

    pub(crate) fn lock_all_with(
        &mut self,
        resources: impl IntoIterator<Item = impl AsRef<[u8]>>,
        options: &LockOptions,
    ) -> Result<Held, LockError> {
        take!(self, Guard, lock_all_with, lock_all_with_async, (resources, options), driver => {
            let resources: Vec<_> = resources.into_iter().collect();
            let resources: Vec<&[u8]> = resources.iter().map(AsRef::as_ref).collect();
            let round = driver.acquire_as(&Request::all(&resources, options))?;
            outcome!(driver, round, Acquired).map(Held::Lock)
        })
    }

    /// Makes one attempt.
    pub(crate) fn try_lock_all(
        &mut self,
        resources: impl IntoIterator<Item = impl AsRef<[u8]>>,
        ttl: Duration,
    ) -> Result<Held, LockError> {
        self.lock_all_with(resources, &LockOptions::new(ttl).tries(1))
    }

    pub(crate) fn extend(&mut self, held: &mut Held, ttl: Duration) -> Result<(), ExtendError> {
        match self {
            Self::Shared(_) => guard!(held, guard => guard.extend(ttl)),
            Self::Future(_) => guard!(held, guard => block_on(guard.extend_async(ttl))),
            Self::Local(local) => local.extend(held.lock(), ttl),
            Self::Driver(driver) => {
                let round = driver.extend(held.lock(), ttl)?;
                held.apply(outcome!(driver, round, Extended))
            }
        }
    }

    pub(crate) fn confirm(&mut self, held: &mut Held) -> Result<(), ExtendError> {
        match self {
            Self::Shared(_) => guard!(held, guard => guard.confirm()),
            Self::Future(_) => guard!(held, guard => block_on(guard.confirm_async())),
            Self::Local(local) => local.confirm(held.lock()),
            Self::Driver(driver) => {
                let round = driver.confirm(held.lock())?;
                held.apply(outcome!(driver, round, Confirmed))
            }
        }
    }

    pub(crate) fn inspect(
        &mut self,
        resource: impl AsRef<[u8]>,
    ) -> Result<Inspection, OperatorError> {
        match self {
            Self::Shared(redlock) => redlock.inspect(resource),
            Self::Future(redlock) => block_on(redlock.inspect_async(resource)),
            Self::Local(local) => local.inspect(resource),
            Self::Driver(driver) => {
                let round = driver.inspect(resource.as_ref())?;
                outcome!(driver, round, Inspected)
            }
        }
    }

    pub(crate) fn break_seen(
        &mut self,
        resource: impl AsRef<[u8]>,
        seen: &Inspection,
        how: Breaking,
    ) -> Result<Broken, OperatorError> {
        match self {
            Self::Shared(redlock) => redlock.break_seen(resource, seen, how),
            Self::Future(redlock) => block_on(redlock.break_seen_async(resource, seen, how)),
            Self::Local(local) => local.break_seen(resource, seen, how),
            Self::Driver(driver) => {
                let round = driver.break_lock(resource.as_ref(), seen, how)?;
                if how == Breaking::KeepOut {
                    return outcome!(driver, round, Broken);
                }
                let released: Result<Released, UnlockError> = outcome!(driver, round, Released);
                assert!(released.is_ok(), "{released:?}");
                Err(OperatorError::Closed) // A release reports nothing more.
            }
        }
    }

    pub(crate) fn unlock(&mut self, held: Held) -> Result<Released, UnlockError> {
        match self {
            Self::Shared(_) => guard!(held, guard => guard.unlock()),
            Self::Future(_) => guard!(held, guard => block_on(guard.unlock_async())),
            Self::Local(local) => local.unlock(held.into_lock()),
            Self::Driver(driver) => {
                let round = driver.release(held.into_lock())?;
                outcome!(driver, round, Released)
            }
        }
    }

    /// Takes over a lock that another process or face has written down.
    pub(crate) fn adopt(&mut self, lock: Lock) -> Held {
        match self {
            Self::Shared(redlock) | Self::Future(redlock) if lock.is_shared() => {
                Held::Reader(redlock.adopt_shared(lock))
            }
            Self::Shared(redlock) | Self::Future(redlock) if lock.slot().is_some() => {
                Held::Permit(redlock.adopt_permit(lock))
            }
            Self::Shared(redlock) | Self::Future(redlock) => Held::Guard(redlock.adopt(lock)),
            Self::Local(local) => Held::Lock(local.adopt(lock)),
            Self::Driver(driver) => Held::Lock(driver.adopt(lock)),
        }
    }

    /// Detaches a lock, for another process or face.
    pub(crate) fn detach(&mut self, held: Held) -> Lock {
        match self {
            Self::Shared(_) | Self::Future(_) => guard!(held, guard => guard.into_lock()),
            Self::Local(local) => local.detach(held.into_lock()),
            Self::Driver(driver) => driver.detach(held.into_lock()),
        }
    }

    /// Keeps a lock from now on, up to `most` from now.
    pub(crate) fn keep_for(&mut self, held: &mut Held, most: Duration) -> Result<(), ExtendError> {
        match self {
            Self::Shared(_) | Self::Future(_) => guard!(held, guard => guard.keep_for(most)),
            Self::Local(local) => local.keep_for(held.lock(), most),
            Self::Driver(driver) => driver.keep_for(held.lock(), most),
        }
    }

    pub(crate) fn nodes(&self) -> Vec<NodeStatus> {
        match self {
            Self::Shared(redlock) | Self::Future(redlock) => redlock.nodes(),
            Self::Local(local) => local.nodes(),
            Self::Driver(driver) => driver.nodes(),
        }
    }

    pub(crate) fn count_counters(&mut self) -> Vec<(u64, Option<NodeOutcome>)> {
        match self {
            Self::Shared(redlock) | Self::Future(redlock) => redlock.count_counters(),
            Self::Local(local) => local.count_counters(),
            Self::Driver(_) => panic!("it has no such call"),
        }
    }

    pub(crate) fn names(&mut self, prefix: &str) -> Vec<Listed> {
        let lists = match self {
            Self::Shared(redlock) | Self::Future(redlock) => redlock.names(prefix),
            Self::Local(local) => local.names(prefix),
            Self::Driver(_) => panic!("it has no such call"),
        };
        lists.expect("locks can have such names")
    }

    pub(crate) fn check(&mut self) -> Result<(), OperatorError> {
        match self {
            Self::Shared(redlock) | Self::Future(redlock) => redlock.check(),
            Self::Local(local) => local.check(),
            Self::Driver(_) => panic!("it has no such call"),
        }
    }

    /// Returns the shared handle, also of a face that uses its futures.
    pub(crate) fn into_shared(self) -> Redlock {
        match self {
            Self::Shared(redlock) | Self::Future(redlock) => redlock,
            other => panic!("a face of one thread: {other:?}"),
        }
    }

    /// Waits until every node is ready: a lock that is taken then is on all of them.
    #[track_caller]
    pub(crate) fn await_ready(&mut self) {
        let ready = |node: &NodeStatus| node.state == NodeState::Ready;
        self.until("all nodes are ready", |face| face.nodes().iter().all(ready));
    }

    /// Makes the nodes a new group.
    pub(crate) fn reinit(&mut self) -> Result<(), OperatorError> {
        match self {
            Self::Shared(redlock) | Self::Future(redlock) => redlock.reinit(),
            Self::Local(local) => local.reinit(),
            Self::Driver(driver) => {
                let round = driver.reinit()?;
                outcome!(driver, round, Reinitialised)
            }
        }
    }

    /// Trusts all connected nodes. Returns how many there are.
    pub(crate) fn trust_all(&mut self) -> usize {
        match self {
            Self::Shared(redlock) | Self::Future(redlock) => redlock.trust_nodes().len(),
            Self::Local(local) => local.trust_nodes().len(),
            Self::Driver(driver) => driver.trust_nodes().len(),
        }
    }

    /// Lets late answers, reconnections, late releases and extensions of kept locks make progress. The shared handle
    /// has a thread for that; the others are driven here.
    pub(crate) fn settle(&mut self) {
        let a_moment = Some(Duration::from_millis(1));
        match self {
            Self::Shared(_) | Self::Future(_) => {}
            Self::Local(local) => drop(local.poll(a_moment).expect("the loop turns")),
            Self::Driver(driver) => {
                driver.turn(a_moment).expect("the loop turns");
                while driver.poll_event().is_some() {}
            }
        }
    }

    /// Waits until `is` holds, driving a face without a thread meanwhile.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, mut is: impl FnMut(&mut Self) -> bool) {
        eventually(what, || {
            self.settle();
            is(self).then_some(())
        });
    }

    /// Waits until each node has `key`, all of them with the same token.
    #[track_caller]
    pub(crate) fn await_copies(&mut self, cluster: &Cluster, key: impl AsRef<[u8]>) {
        self.until("each node has it", |_| cluster.has_copies(&key));
    }

    /// Waits until no release is left to send and every answer is read.
    #[track_caller]
    pub(crate) fn await_quiet(&mut self) {
        self.until("nothing is owed", |face| face.nodes().iter().all(is_quiet));
    }

    /// Waits as [`await_quiet`](Self::await_quiet) does, for nodes that were away: each has to be ready again.
    #[track_caller]
    pub(crate) fn await_settled(&mut self) {
        self.until("all nodes are ready, and nothing is owed", |face| {
            let settled = |node: &NodeStatus| node.state == NodeState::Ready && is_quiet(node);
            face.nodes().iter().all(settled)
        });
    }

    /// Waits until no node has `key`, driving a face without a thread meanwhile. The ttl of the key has to
    /// be much longer than the wait.
    #[track_caller]
    pub(crate) fn assert_gone(&mut self, cluster: &Cluster, key: impl AsRef<[u8]>) {
        let key = key.as_ref();
        let mut raws = cluster.raws();
        let name = String::from_utf8_lossy(key);
        self.until(&format!("no node has {name:?}"), |_| {
            raws.iter_mut().all(|raw| !raw.exists(key))
        });
    }
}

impl Held {
    fn lock(&mut self) -> &mut Lock {
        match self {
            Self::Lock(lock) => lock,
            guard => panic!("a lock of another face: {guard:?}"),
        }
    }

    fn into_lock(self) -> Lock {
        match self {
            Self::Lock(lock) => lock,
            guard => panic!("a lock of another face: {guard:?}"),
        }
    }

    fn apply(&mut self, extension: Result<Extension, ExtendError>) -> Result<(), ExtendError> {
        let is_applied = extension?.apply(self.lock());
        is_applied.then_some(()).ok_or(ExtendError::Expired)
    }

    pub(crate) fn token(&self) -> Vec<u8> {
        any!(self, lock => lock.token().as_bytes().to_vec())
    }

    pub(crate) fn validity(&self) -> Duration {
        any!(self, lock => lock.validity())
    }

    pub(crate) fn valid_until(&self) -> Instant {
        any!(self, lock => lock.valid_until())
    }

    /// Returns the number of a permit.
    pub(crate) fn slot(&self) -> Option<u16> {
        match self {
            Self::Permit(guard) => Some(guard.slot()),
            Self::Lock(lock) => lock.slot(),
            Self::Guard(_) | Self::Reader(_) => None,
        }
    }

    pub(crate) fn is_valid(&self) -> bool {
        !self.validity().is_zero()
    }
}

/// Returns the report of an attempt that was refused.
#[track_caller]
pub(crate) fn report_of(error: &LockError) -> &Report {
    match error {
        LockError::Held(report) | LockError::NoQuorum(report) => report,
        other => panic!("no report in {other:?}"),
    }
}

/// Returns the report of an attempt that found the lock held.
#[track_caller]
pub(crate) fn held<T: std::fmt::Debug>(result: Result<T, LockError>) -> Report {
    match result {
        Err(LockError::Held(report)) => report,
        other => panic!("`Held` was expected, not {other:?}"),
    }
}

/// Returns the report of an attempt that too few nodes answered.
#[track_caller]
pub(crate) fn no_quorum<T: std::fmt::Debug>(result: Result<T, LockError>) -> Report {
    match result {
        Err(LockError::NoQuorum(report)) => report,
        other => panic!("`NoQuorum` was expected, not {other:?}"),
    }
}
