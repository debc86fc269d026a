//! Nodes that are killed and restarted between lock and unlock.

use std::time::Duration;

use shearline::{LockOptions, RestartGuard};

use crate::face::{Face, Held, Which, over};
use crate::scene::clusters;
use crate::servers::{self, Cluster, LONG, Options, eventually};

/// A face, its key and its lock.
type Holder = (Face, String, Held);

/// Takes a lock with every face, on all nodes.
fn holders(cluster: &Cluster, guard: RestartGuard) -> Vec<Holder> {
    let holders = Which::ALL.map(|which| {
        let mut face = which.build(over(cluster).restart_guard(guard));
        face.await_ready();
        let key = which.key("restarts");
        let lock = face.try_lock(&key, LONG).expect("free");
        face.await_copies(cluster, &key);
        (face, key, lock)
    });
    holders.into()
}

/// After the restart, two nodes of three still have the key. The third has forgotten it and gets no copy.
#[test]
fn a_lock_outlives_a_node_that_is_killed_and_restarted() {
    for mut cluster in clusters() {
        let holders = holders(&cluster, RestartGuard::Observed);
        cluster[0].restart();
        for (mut face, key, lock) in holders {
            assert_eq!(cluster.copies(&key), 2);
            assert_eq!(face.unlock(lock).expect("two of three").deleted, 2);
            face.assert_gone(&cluster, &key);
        }
    }
}

/// A killed node is missing for lock, extension and unlock.
#[test]
fn a_node_that_stays_dead_costs_nothing() {
    let mut cluster = servers::three();
    let mut holders = holders(&cluster, RestartGuard::Off);
    cluster[1].kill();
    let mut faces = Vec::new();
    for (mut face, key, mut lock) in holders.drain(..) {
        face.extend(&mut lock, LONG).expect("two of three");
        face.unlock(lock).expect("two of three");
        let lock = face.try_lock(&key, LONG).expect("two of three");
        face.unlock(lock).expect("two of three");
        faces.push((face, key));
    }
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
    let holders = holders(&cluster, RestartGuard::Off);
    cluster[2].kill();
    let mut faces = Vec::new();
    for (mut face, key, lock) in holders {
        assert_eq!(face.unlock(lock).expect("two of three").deleted, 2);
        faces.push((face, key));
    }
    cluster[2].restart();
    for (mut face, key) in faces {
        face.assert_gone(&cluster, &key);
    }
}

/// The ttl is ten minutes, so the copy is back long before an extension is due.
#[test]
fn a_kept_lock_gets_its_copy_back_when_a_node_returns_without_its_data() {
    let mut cluster = servers::three();
    for which in Which::BOTH {
        let mut face = which.build(over(&cluster));
        let options = LockOptions::new(Duration::from_secs(600)).keep();
        let key = which.key("whole");
        let held = face.lock_with(&key, &options).expect("free");
        face.await_copies(&cluster, &key);
        cluster[2].restart();
        eventually("the copy is back", || {
            face.settle();
            cluster[2].raw().exists(key.as_bytes()).then_some(())
        });
        face.unlock(held).expect("held");
        face.assert_gone(&cluster, &key);
    }
}
