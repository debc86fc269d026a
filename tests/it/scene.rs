//! A story's stage: three servers, one of the faces, and a key that no other face uses.

use std::thread;
use std::time::Duration;

use shearline::{Builder, LockError};

use crate::face::{Face, Held, Which, over};
use crate::servers::{Cluster, LONG, Options, Server, eventually};

/// The token of another client.
pub(crate) const FOREIGN: &[u8] = b"foreign";

/// Three servers of each kind.
pub(crate) fn clusters() -> impl Iterator<Item = Cluster> {
    let kinds = [Options::redis(), Options::valkey()].into_iter();
    kinds.map(|options| Cluster::with(3, &options))
}

pub(crate) struct Scene<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) which: Which,
    pub(crate) face: Face,
    pub(crate) key: String,
}

impl<'a> Scene<'a> {
    pub(crate) fn new(cluster: &'a Cluster, which: Which, builder: Builder) -> Self {
        let mut face = which.build(builder);
        face.await_ready();
        let key = which.key("story");
        Self {
            cluster,
            which,
            face,
            key,
        }
    }

    /// Plays `story` with every face on servers of both kinds, all faces side by side.
    #[track_caller]
    pub(crate) fn each(story: impl Fn(&mut Scene<'_>) + Sync) {
        for cluster in clusters() {
            thread::scope(|scope| {
                for which in Which::ALL {
                    let (cluster, story) = (&cluster, &story);
                    scope.spawn(move || story(&mut Scene::new(cluster, which, over(cluster))));
                }
            });
        }
    }

    /// Takes the lock on every node. Tries again if a busy machine is too slow.
    #[track_caller]
    pub(crate) fn take(&mut self, ttl: Duration) -> Held {
        let lock = eventually("it is taken", || match self.face.try_lock(&self.key, ttl) {
            Ok(lock) => Some(lock),
            Err(LockError::NoQuorum(_) | LockError::TooSlow(_)) => None,
            Err(error) => panic!("{:?}: {error}", self.which),
        });
        self.face.await_copies(self.cluster, &self.key);
        lock
    }

    /// Deletes the key on a node.
    pub(crate) fn lose(&self, node: usize) {
        assert!(self.cluster[node].raw().del(self.key.as_bytes()));
    }

    /// Replaces the token on a node by another client's.
    pub(crate) fn steal(&self, node: usize) {
        let mut raw = self.cluster[node].raw();
        raw.set_px(self.key.as_bytes(), FOREIGN, LONG);
    }

    pub(crate) fn pttl(&self, node: usize) -> i64 {
        self.cluster[node].raw().pttl(self.key.as_bytes())
    }

    /// Waits until the nodes have these values.
    #[track_caller]
    pub(crate) fn await_values(&mut self, values: [Option<&[u8]>; 3]) {
        eventually(&format!("the nodes have {values:?}"), || {
            self.face.settle();
            let now = self.cluster.values(&self.key);
            let now = now.iter().map(Option::as_deref);
            now.eq(values).then_some(())
        });
    }

    #[track_caller]
    pub(crate) fn await_gone(&mut self) {
        self.face.assert_gone(self.cluster, &self.key);
    }

    /// Deletes the key on every node, whoever has it.
    pub(crate) fn clear(&self) {
        for raw in &mut self.cluster.raws() {
            raw.del(self.key.as_bytes());
        }
    }
}

pub(crate) fn freeze(servers: &[Server]) {
    servers.iter().for_each(Server::freeze);
}

pub(crate) fn thaw(servers: &[Server]) {
    servers.iter().for_each(Server::thaw);
}
