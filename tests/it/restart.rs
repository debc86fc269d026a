//! Nodes that are killed and restarted between lock and unlock.

use shearline::RestartGuard;

use crate::face::{Face, Held, Which, over};
use crate::servers::{self, Cluster, LONG, Options};

/// A face, its key and its lock.
type Holder = (Face, String, Held);

/// Takes a lock with every face, on all nodes.
fn holders(cluster: &Cluster) -> [Holder; 4] {
    Which::ALL.map(|which| {
        let mut face = which.build(over(cluster).restart_guard(RestartGuard::Off));
        face.await_ready();
        let key = which.key("restarts");
        let lock = face.try_lock(&key, LONG).expect("free");
        face.await_copies(cluster, &key);
        (face, key, lock)
    })
}

/// A killed node is missing for lock, extension and unlock.
#[test]
fn a_node_that_stays_dead_costs_nothing() {
    let mut cluster = servers::three();
    let holders = holders(&cluster);
    cluster[1].kill();
    let faces = holders.map(|(mut face, key, mut lock)| {
        face.extend(&mut lock, LONG).expect("two of three");
        face.unlock(lock).expect("two of three");
        let lock = face.try_lock(&key, LONG).expect("two of three");
        face.unlock(lock).expect("two of three");
        (face, key)
    });
    cluster[1].restart();
    for (mut face, key) in faces {
        face.assert_gone(&cluster, &key);
    }
}

/// A node with its data on disk restarts with the key. The node was dead at the unlock, so the handle sends the release
/// after the restart.
#[test]
fn a_release_owed_to_a_dead_node_is_paid_when_it_is_back() {
    let persistent = Options::redis().arguments(["--appendonly", "yes", "--appendfsync", "always"]);
    let mut cluster = Cluster::with(3, &persistent);
    let holders = holders(&cluster);
    cluster[2].kill();
    let faces = holders.map(|(mut face, key, lock)| {
        assert_eq!(face.unlock(lock).expect("two of three").deleted, 2);
        (face, key)
    });
    cluster[2].restart();
    for (mut face, key) in faces {
        face.assert_gone(&cluster, &key);
    }
}
