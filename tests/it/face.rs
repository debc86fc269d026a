//! The two faces that each story uses, [`Redlock`] and [`LocalRedlock`], behind one type.

use std::time::Duration;

use shearline::{
    Builder, CheckError, ConfirmError, ExtendError, InspectError, Inspection, LocalRedlock, Lock,
    LockError, LockGuard, LockOptions, NodeState, NodeStatus, Redlock, ReinitError, Released,
    Report, UnlockError,
};

use crate::servers::{Cluster, LONG, eventually, is_without_scripts, permitted, within_patience};

/// Which face.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Which {
    Shared,
    Local,
}

impl Which {
    pub(crate) const BOTH: [Self; 2] = [Self::Shared, Self::Local];

    /// Builds the face, and waits for the nodes that are slower than the majority.
    #[track_caller]
    pub(crate) fn build(self, builder: Builder) -> Face {
        let builder = permitted(builder);
        let mut face = match self {
            Self::Shared => Face::Shared(builder.build().expect("a good configuration")),
            Self::Local => Face::Local(Box::new(
                builder.build_local().expect("a good configuration"),
            )),
        };
        await_met(|| {
            face.settle();
            face.nodes()
        });
        face.ask_all();
        face
    }

    /// A key of this story that differs for the other face.
    pub(crate) fn key(self, story: &str) -> String {
        format!("{story}:{self:?}")
    }
}

/// The node timeout of stories that are not about time: as long as a machine, a process or a server
/// may stand still without changing the story.
const CALM: Duration = Duration::from_secs(5);

/// A builder over these nodes, with timeouts that no healthy server misses on a busy machine.
/// Stories about silent nodes set their own; stories about default timeouts do not use this.
pub(crate) fn at(urls: impl IntoIterator<Item = impl AsRef<str>>) -> Builder {
    let builder = Redlock::builder().nodes(urls);
    permitted(builder.node_timeout(CALM).connect_timeout(CALM))
}

/// The same over all nodes of the cluster.
pub(crate) fn over(cluster: &Cluster) -> Builder {
    at(cluster.urls())
}

/// A shared handle over all nodes of the cluster.
#[track_caller]
pub(crate) fn shared(cluster: &Cluster) -> Redlock {
    let redlock = over(cluster).build().expect("a good configuration");
    await_met(|| redlock.nodes());
    Face::Shared(redlock.clone()).ask_all();
    redlock
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

/// Waits until every node is ready: a lock that is taken then is on all of them.
#[track_caller]
pub(crate) fn await_ready(mut nodes: impl FnMut() -> Vec<NodeStatus>) {
    eventually("all nodes are ready", || {
        let ready = |node: &NodeStatus| node.state == NodeState::Ready;
        nodes().iter().all(ready).then_some(())
    });
}

#[derive(Debug)]
pub(crate) enum Face {
    Shared(Redlock),
    Local(Box<LocalRedlock>),
}

/// A lock of either face.
#[derive(Debug)]
#[must_use]
pub(crate) enum Held {
    Guard(LockGuard),
    Lock(Lock),
}

impl Face {
    /// Takes locks until each node that is ready has granted one, where no scripts are used: a node is asked
    /// first how it releases them, and the first lock may stand without one that answers after the others.
    pub(crate) fn ask_all(&mut self) {
        if !is_without_scripts() {
            return;
        }
        let has_granted = |node: &NodeStatus| node.state != NodeState::Ready || 0 < node.grants;
        let is_quiet = |node: &NodeStatus| {
            node.state != NodeState::Ready || node.in_flight == 0 && node.owed == 0
        };
        let asked = within_patience(|| {
            // Another lock would only keep the nodes busy.
            if !self.nodes().iter().all(has_granted)
                && let Ok(lock) = self.try_lock("warm up", LONG)
            {
                let _ = self.unlock(lock);
            }
            self.settle();
            let nodes = self.nodes();
            let is_done = |node| has_granted(node) && is_quiet(node);
            nodes.iter().all(is_done).then_some(())
        });
        asked.expect("each node that is ready grants a lock");
    }

    pub(crate) fn try_lock(
        &mut self,
        resource: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<Held, LockError> {
        match self {
            Self::Shared(redlock) => redlock.try_lock(resource, ttl).map(Held::Guard),
            Self::Local(local) => local.try_lock(resource, ttl).map(Held::Lock),
        }
    }

    pub(crate) fn lock(
        &mut self,
        resource: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<Held, LockError> {
        match self {
            Self::Shared(redlock) => redlock.lock(resource, ttl).map(Held::Guard),
            Self::Local(local) => local.lock(resource, ttl).map(Held::Lock),
        }
    }

    pub(crate) fn lock_with(
        &mut self,
        resource: impl AsRef<[u8]>,
        options: &LockOptions,
    ) -> Result<Held, LockError> {
        match self {
            Self::Shared(redlock) => redlock.lock_with(resource, options).map(Held::Guard),
            Self::Local(local) => local.lock_with(resource, options).map(Held::Lock),
        }
    }

    pub(crate) fn lock_all_with(
        &mut self,
        resources: impl IntoIterator<Item = impl AsRef<[u8]>>,
        options: &LockOptions,
    ) -> Result<Held, LockError> {
        match self {
            Self::Shared(redlock) => redlock.lock_all_with(resources, options).map(Held::Guard),
            Self::Local(local) => local.lock_all_with(resources, options).map(Held::Lock),
        }
    }

    /// One attempt.
    pub(crate) fn try_lock_all(
        &mut self,
        resources: impl IntoIterator<Item = impl AsRef<[u8]>>,
        ttl: Duration,
    ) -> Result<Held, LockError> {
        match self {
            Self::Shared(redlock) => redlock.try_lock_all(resources, ttl).map(Held::Guard),
            Self::Local(local) => local.try_lock_all(resources, ttl).map(Held::Lock),
        }
    }

    pub(crate) fn extend(&mut self, held: &mut Held, ttl: Duration) -> Result<(), ExtendError> {
        match (self, held) {
            (Self::Shared(_), Held::Guard(guard)) => guard.extend(ttl).map(drop),
            (Self::Local(local), Held::Lock(lock)) => local.extend(lock, ttl).map(drop),
            _ => panic!("a lock of the other face"),
        }
    }

    pub(crate) fn confirm(&mut self, held: &mut Held) -> Result<(), ConfirmError> {
        match (self, held) {
            (Self::Shared(_), Held::Guard(guard)) => guard.confirm(),
            (Self::Local(local), Held::Lock(lock)) => local.confirm(lock),
            _ => panic!("a lock of the other face"),
        }
    }

    pub(crate) fn inspect(
        &mut self,
        resource: impl AsRef<[u8]>,
    ) -> Result<Inspection, InspectError> {
        match self {
            Self::Shared(redlock) => redlock.inspect(resource),
            Self::Local(local) => local.inspect(resource),
        }
    }

    pub(crate) fn unlock(&mut self, held: Held) -> Result<Released, UnlockError> {
        match (self, held) {
            (Self::Shared(_), Held::Guard(guard)) => guard.unlock(),
            (Self::Local(local), Held::Lock(lock)) => local.unlock(lock),
            _ => panic!("a lock of the other face"),
        }
    }

    pub(crate) fn nodes(&self) -> Vec<NodeStatus> {
        match self {
            Self::Shared(redlock) => redlock.nodes(),
            Self::Local(local) => local.nodes(),
        }
    }

    pub(crate) fn check(&mut self) -> Result<(), CheckError> {
        match self {
            Self::Shared(redlock) => redlock.check(),
            Self::Local(local) => local.check(),
        }
    }

    /// Waits until every node is ready, driving the local face meanwhile.
    #[track_caller]
    pub(crate) fn await_ready(&mut self) {
        await_ready(|| {
            self.settle();
            self.nodes()
        });
    }

    /// Trusts every node: all answers count, however short the node's uptime.
    pub(crate) fn trust(&mut self) {
        for node in self.nodes() {
            let Some(run_id) = &node.run_id else {
                continue; // It is not connected.
            };
            let trusted = match self {
                Self::Shared(redlock) => redlock.trust_node(&*node.address, run_id),
                Self::Local(local) => local.trust_node(&*node.address, run_id),
            };
            drop(trusted); // The server may have ended in between.
        }
    }

    /// Makes the nodes a new cluster.
    pub(crate) fn reinit(&mut self) -> Result<(), ReinitError> {
        match self {
            Self::Shared(redlock) => redlock.reinit(),
            Self::Local(local) => local.reinit(),
        }
    }

    /// Trusts all connected nodes. Returns how many there are.
    pub(crate) fn trust_all(&mut self) -> usize {
        match self {
            Self::Shared(redlock) => redlock.trust_nodes().len(),
            Self::Local(local) => local.trust_nodes().len(),
        }
    }

    /// Lets stragglers, reconnections and owed releases make progress. The shared handle has a
    /// thread for that; the local one is driven here.
    pub(crate) fn settle(&mut self) {
        if let Self::Local(local) = self {
            local
                .poll(Some(Duration::from_millis(1)))
                .expect("the loop turns");
        }
    }

    /// Waits until no node has `key`, driving the local face meanwhile. The ttl of the key has to
    /// be much longer than the wait.
    #[track_caller]
    pub(crate) fn assert_gone(&mut self, cluster: &Cluster, key: impl AsRef<[u8]>) {
        let key = key.as_ref();
        let mut raws = cluster.raws();
        let name = String::from_utf8_lossy(key);
        eventually(&format!("no node has {name:?}"), || {
            self.settle();
            raws.iter_mut().all(|raw| !raw.exists(key)).then_some(())
        });
    }
}

impl Held {
    pub(crate) fn token(&self) -> Vec<u8> {
        match self {
            Self::Guard(guard) => guard.token().to_vec(),
            Self::Lock(lock) => lock.token().to_vec(),
        }
    }

    pub(crate) fn validity(&self) -> Duration {
        match self {
            Self::Guard(guard) => guard.validity(),
            Self::Lock(lock) => lock.validity(),
        }
    }

    pub(crate) fn is_valid(&self) -> bool {
        !self.validity().is_zero()
    }

    pub(crate) fn resource(&self) -> Vec<u8> {
        match self {
            Self::Guard(guard) => guard.resource().to_vec(),
            Self::Lock(lock) => lock.resource().to_vec(),
        }
    }
}

/// The report of an attempt that found the lock held.
#[track_caller]
pub(crate) fn held<T: std::fmt::Debug>(result: Result<T, LockError>) -> Report {
    match result {
        Err(LockError::Held(report)) => report,
        other => panic!("`Held` was expected, not {other:?}"),
    }
}

/// The report of an attempt that too few nodes answered.
#[track_caller]
pub(crate) fn no_quorum<T: std::fmt::Debug>(result: Result<T, LockError>) -> Report {
    match result {
        Err(LockError::NoQuorum(report)) => report,
        other => panic!("`NoQuorum` was expected, not {other:?}"),
    }
}
